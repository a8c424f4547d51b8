//! Names of topics, groups and locks, and their keys.
//!
//! | key | of |
//! |---|---|
//! | `carillon:topics` | the names of a keyspace's topics |
//! | `carillon:topic:{NAME}:head` | a topic |
//! | `carillon:topic:{NAME}:groups` | the names of its groups |
//! | `carillon:topic:{NAME}:g:GROUP` | a group |
//! | `carillon:topic:{NAME}:m:NUMBER` | a message; the number has 16 hexadecimal digits |
//! | the lock's name | a lock, in keyspace [`LOCKS`] |
//!
//! The braces make all keys of a topic lie in one slot, and so in one shard of a hashed keyspace.
//! In an ordered one they lie side by side.

use crate::Refusal;

/// The keyspace of locks: ordered, and made when it is first used.
pub const LOCKS: &str = "locks";
/// The longest name of a topic or a group.
pub const NAME_BYTES_MAX: usize = 128;
/// The longest name of a lock, and of its owner.
pub const LOCK_NAME_BYTES_MAX: usize = 256;

/// The names of all topics.
pub fn topics() -> Vec<u8> {
    b"carillon:topics".to_vec()
}

fn of_topic(topic: &str, rest: &str) -> Vec<u8> {
    format!("carillon:topic:{{{topic}}}:{rest}").into_bytes()
}

/// A topic.
pub fn head(topic: &str) -> Vec<u8> {
    of_topic(topic, "head")
}

/// The names of its groups.
pub fn groups(topic: &str) -> Vec<u8> {
    of_topic(topic, "groups")
}

/// A group.
pub fn group(topic: &str, group: &str) -> Vec<u8> {
    of_topic(topic, &format!("g:{group}"))
}

/// A message.
pub fn message(topic: &str, number: u64) -> Vec<u8> {
    of_topic(topic, &format!("m:{number:016x}"))
}

/// Whether a topic or a group may have this name.
///
/// # Errors
/// [`Refusal::Bad`].
pub fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    // Paths of URLs lose names of points alone.
    let is_path = name == "." || name == "..";
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed) && !is_path {
        return Ok(());
    }
    Err(Refusal::Bad {
        why: format!(
            "the name of a {what} has 1 to {NAME_BYTES_MAX} letters, digits, points, hyphens and \
             underscores, and is not . or ..; this one is {:?}",
            name.chars().take(NAME_BYTES_MAX + 1).collect::<String>()
        ),
    })
}

/// Whether a lock, or its owner, may have this name.
///
/// # Errors
/// [`Refusal::Bad`].
pub fn check_lock_name(what: &str, name: &str) -> Result<(), Refusal> {
    let is_control = name.chars().any(char::is_control);
    if (1..=LOCK_NAME_BYTES_MAX).contains(&name.len()) && !is_control {
        return Ok(());
    }
    let bytes = name.len();
    Err(Refusal::Bad {
        why: format!(
            "the name of a {what} has 1 to {LOCK_NAME_BYTES_MAX} bytes without control \
             characters, and this one has {bytes}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_messages_sort_by_number_and_lie_in_one_slot() {
        let numbers = [1, 2, 15, 16, 255, 256, u64::MAX];
        let keys: Vec<_> = numbers.iter().map(|number| message("t", *number)).collect();
        assert!(keys.is_sorted());
        let slot = keyspace::slot::slot_of(&head("orders"));
        for key in [groups("orders"), group("orders", "g"), message("orders", 7)] {
            assert_eq!(keyspace::slot::slot_of(&key), slot);
        }
    }

    #[test]
    fn names_are_judged() {
        for good in ["a", "Orders.v2-x_y", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(check_name("topic", good), Ok(()));
        }
        for bad in ["", ".", "..", "a b", "a}", "ü", "a:b", "a/b", &"x".repeat(NAME_BYTES_MAX + 1)]
        {
            assert!(check_name("topic", bad).is_err(), "{bad}");
        }
        for good in ["a b/ü", &"x".repeat(LOCK_NAME_BYTES_MAX)] {
            assert_eq!(check_lock_name("lock", good), Ok(()));
        }
        for bad in ["", "a\nb", &"x".repeat(LOCK_NAME_BYTES_MAX + 1)] {
            assert!(check_lock_name("lock", bad).is_err(), "{bad}");
        }
    }
}

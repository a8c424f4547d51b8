//! Whether a user may do a call.

use crate::commands::CommandId;
use crate::selector::{KeyAccess, Selector};
use crate::user::User;

/// A key of a call, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What is asked of it.
    pub access: KeyAccess,
}

/// A channel of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelUse<'a> {
    /// Its name, or a pattern.
    pub channel: &'a [u8],
    /// Whether it is a pattern to subscribe to.
    pub is_pattern: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The command, or subcommand. None: one that everybody may do, such as AUTH.
    pub command: Option<CommandId>,
    /// The keyspace whose keys it is about; none if it is about no keys.
    pub keyspace: Option<&'a [u8]>,
    /// Its keys.
    pub keys: &'a [KeyUse<'a>],
    /// Whether it is about keys that it does not name, such as all of a keyspace.
    pub unnamed_keys: Option<KeyAccess>,
    /// Its channels.
    pub channels: &'a [ChannelUse<'a>],
}

/// What a user may not do. Ordered as Redis judges: of several selectors' refusals the last counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command.
    Command,
    /// The keyspace.
    Keyspace,
    /// The key of this place among the call's keys.
    Key(usize),
    /// Keys that are not named.
    UnnamedKeys,
    /// The channel of this place among the call's channels.
    Channel(usize),
}

impl User {
    /// Judges a call.
    ///
    /// # Errors
    /// What it may not do.
    pub fn check(&self, call: &Call<'_>) -> Result<(), Denied> {
        let mut denied = None;
        for selector in &self.selectors {
            match selector.check(call) {
                Ok(()) => return Ok(()),
                Err(why) => denied = denied.max(Some(why)),
            }
        }
        Err(denied.unwrap_or(Denied::Command))
    }

    /// Whether it may do everything: then no call needs a judge.
    pub fn may_do_everything(&self) -> bool {
        self.selectors.iter().any(|selector| {
            selector.begins_with_all
                && selector.command_rules.is_empty()
                && selector.keys.is_none()
                && selector.channels.is_none()
                && selector.keyspaces.is_none()
        })
    }
}

impl Selector {
    fn check(&self, call: &Call<'_>) -> Result<(), Denied> {
        if call.command.is_some_and(|id| !self.has_command(id)) {
            return Err(Denied::Command);
        }
        if call.keyspace.is_some_and(|name| !self.has_keyspace(name)) {
            return Err(Denied::Keyspace);
        }
        if let Some(at) = call.keys.iter().position(|one| !self.has_key(one.key, one.access)) {
            return Err(Denied::Key(at));
        }
        if call.unnamed_keys.is_some_and(|access| !self.has_all_keys(access)) {
            return Err(Denied::UnnamedKeys);
        }
        let has = |one: &ChannelUse<'_>| self.has_channel(one.channel, one.is_pattern);
        match call.channels.iter().position(|one| !has(one)) {
            Some(at) => Err(Denied::Channel(at)),
            None => Ok(()),
        }
    }

    /// Whether all keys there are may be used so.
    fn has_all_keys(&self, access: KeyAccess) -> bool {
        let is_all = |(known, pattern): &(KeyAccess, Box<[u8]>)| {
            known.allows(access) && pattern.iter().all(|byte| *byte == b'*') && !pattern.is_empty()
        };
        self.keys.as_ref().is_none_or(|patterns| patterns.iter().any(is_all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Commands;
    use crate::rule::Rule;

    fn commands() -> Commands {
        Commands::new([("get", "read"), ("set", "write"), ("publish", "pubsub"), ("flushdb", "")])
    }

    fn user(words: &[&str]) -> User {
        let mut user = User::new(b"ann", &commands());
        let rules: Vec<Rule> =
            words.iter().map(|word| Rule::parse(word.as_bytes()).unwrap()).collect();
        user.apply(&rules, &commands()).unwrap();
        user
    }

    fn asks(user: &User, name: &str, keys: &[(&str, bool, bool)]) -> Result<(), Denied> {
        let keys: Vec<KeyUse<'_>> = keys
            .iter()
            .map(|(key, read, write)| KeyUse {
                key: key.as_bytes(),
                access: KeyAccess { read: *read, write: *write },
            })
            .collect();
        user.check(&Call {
            command: Some(commands().find(name).unwrap()),
            keyspace: Some(b"0"),
            keys: &keys,
            unnamed_keys: None,
            channels: &[],
        })
    }

    #[test]
    fn one_selector_must_allow_all_of_a_call() {
        let ann = user(&["+get", "~a*", "(+set ~b)", "(+get +set %W~c)"]);
        assert_eq!(asks(&ann, "get", &[("a1", true, false), ("a2", true, false)]), Ok(()));
        assert_eq!(asks(&ann, "set", &[("b", false, true)]), Ok(()));
        // Each of the two would be allowed, by different selectors.
        assert_eq!(
            asks(&ann, "set", &[("b", false, true), ("c", false, true)]),
            Err(Denied::Key(1))
        );
        assert_eq!(asks(&ann, "set", &[("a", false, true)]), Err(Denied::Key(0)));
        assert_eq!(asks(&ann, "get", &[("c", true, false)]), Err(Denied::Key(0)));
        assert_eq!(asks(&ann, "publish", &[]), Err(Denied::Command));
    }

    #[test]
    fn reads_and_writes_of_keys_are_apart() {
        let ann = user(&["+@read", "+@write", "%R~r", "%W~w", "~b"]);
        for (key, read, write, expected) in [
            ("r", true, false, Ok(())),
            ("r", false, true, Err(Denied::Key(0))),
            ("w", false, true, Ok(())),
            ("w", true, true, Err(Denied::Key(0))),
            ("b", true, true, Ok(())),
            // To ask whether it is there takes no access to what it holds.
            ("r", false, false, Ok(())),
            ("x", false, false, Err(Denied::Key(0))),
        ] {
            assert_eq!(asks(&ann, "set", &[(key, read, write)]), expected, "{key} {read} {write}");
        }
    }

    #[test]
    fn channels_keyspaces_and_unnamed_keys_have_rules_of_their_own() {
        let ann = user(&["+@all", "~a*", "&news.*", "db=orders,x?"]);
        let call =
            Call { command: None, keyspace: None, keys: &[], unnamed_keys: None, channels: &[] };
        let channel = |channel: &str, is_pattern| {
            let channels = [ChannelUse { channel: channel.as_bytes(), is_pattern }];
            ann.check(&Call { channels: &channels, ..call })
        };
        assert_eq!(channel("news.a", false), Ok(()));
        assert_eq!(channel("news.*", true), Ok(()));
        assert_eq!(channel("news.a*", true), Err(Denied::Channel(0)), "the pattern itself only");
        assert_eq!(channel("other", false), Err(Denied::Channel(0)));
        for (name, expected) in [("orders", Ok(())), ("x1", Ok(())), ("0", Err(Denied::Keyspace))] {
            assert_eq!(ann.check(&Call { keyspace: Some(name.as_bytes()), ..call }), expected);
        }
        let all = Some(KeyAccess { read: true, write: false });
        let unnamed = Call { unnamed_keys: all, ..call };
        assert_eq!(ann.check(&unnamed), Err(Denied::UnnamedKeys));
        assert_eq!(user(&["+@all", "%R~*"]).check(&unnamed), Ok(()));
        assert_eq!(user(&["+@all", "%W~*"]).check(&unnamed), Err(Denied::UnnamedKeys));
        assert!(!ann.may_do_everything());
        assert!(user(&["+@all", "~*", "&*"]).may_do_everything());
        assert!(!user(&["+@all", "~*", "&*", "-get"]).may_do_everything());
        assert!(!user(&["+@all", "~*", "&*", "db=x"]).may_do_everything());
    }
}

//! Does a put change anything? Not if it writes what its key has, and the caller wants such puts
//! skipped: then the key keeps its version, and with it the time of its last change.
//!
//! Equal are value and expiry, at the time of the put. A value that has expired by then, and one
//! that was deleted, is written again.

use keyspace::Timestamp;

use super::MemoryEngine;
use super::record::Record;

impl MemoryEngine {
    /// From now on a put of the value and expiry that its key has makes no version; or does again.
    /// It is no part of the state: the caller says it before each put whose outcome it decides.
    pub fn skip_equal_writes(&mut self, skips: bool) {
        self.skips_equal = skips;
    }
}

/// Whether a key's newest version still has this value, with this expiry.
#[cold]
#[inline(never)]
pub(super) fn is_same(
    head: Option<Record>,
    parts: &[&[u8]],
    expiry_ms: u64,
    now: Timestamp,
) -> bool {
    let Some(head) = head.filter(|head| !head.is_dead(now)) else { return false };
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    if head.expiry_ms() != expiry_ms || head.value_len() != bytes {
        return false;
    }
    let mut rest = head.value();
    parts.iter().all(|part| {
        let (first, behind) = rest.split_at(part.len());
        rest = behind;
        first == *part
    })
}

#[cfg(test)]
mod tests {
    use keyspace::{KeyHasher, SLOTS};

    use super::super::{Layout, ReadResult, Settings};
    use super::*;

    const HASHER: KeyHasher = KeyHasher::new([3; 16]);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn engine(layout: Layout) -> MemoryEngine {
        let mut engine =
            MemoryEngine::new(layout, Settings { hasher: HASHER, flush_in_place_keys_max: 0 });
        engine.skip_equal_writes(true);
        engine
    }

    #[test]
    fn equal_put_makes_no_version_and_every_other_does() {
        let hashed = Layout::Hashed { first_slot: 0, end_slot: SLOTS };
        for layout in [hashed, Layout::Ordered, Layout::LinearHash] {
            let (mut engine, key) = (engine(layout), HASHER.key(b"k"));
            let mut put = |parts: &[&[u8]], expiry_ms, millis| {
                engine.put(&key, parts, expiry_ms, at(millis));
                (engine.usage().versions, engine.newest_timestamp(&key).millis())
            };
            assert_eq!(put(&[b"value"], 0, 10), (1, 10));
            assert_eq!(put(&[b"va", b"", b"lue"], 0, 20), (1, 10), "in parts, too");
            assert_eq!(put(&[b"valu"], 0, 30), (2, 30), "a shorter one");
            assert_eq!(put(&[b"valu"], 99, 40), (3, 40), "with an expiry");
            assert_eq!(put(&[b"valu"], 99, 50), (3, 40));
            assert_eq!(put(&[b"valu"], 199, 99), (4, 99), "it has expired");
            assert_eq!(put(&[b"vald"], 199, 100), (5, 100));
            engine.delete(&key, at(110));
            engine.put(&key, &[b"vald"], 199, at(120));
            assert_eq!(engine.newest_timestamp(&key), at(120), "it was deleted");
            engine.flush(at(130));
            engine.put(&key, &[b"vald"], 199, at(140));
            assert_eq!(engine.newest_timestamp(&key), at(140), "it was flushed");
            engine.skip_equal_writes(false);
            engine.put(&key, &[b"vald"], 199, at(150));
            assert_eq!(engine.newest_timestamp(&key), at(150));
            let ReadResult::Value(old) = engine.at(&key, at(20)) else { panic!("it had a value") };
            assert_eq!((old.value, old.timestamp), (&b"value"[..], at(10)));
        }
    }
}

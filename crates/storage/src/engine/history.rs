//! What has become of a key? Its changes up to a time, the newest first.
//!
//! ```text
//!   safe point
//!   ●10 ┊   ●20    ✗30    ●40   F    ●60     at 70: 60 put, F deleted, 40 put, 30 deleted,
//!  ─────┊──────────────────────┊───────            20 put, 10 put
//!       ┊                    flush           at 25: 20 put, 10 put
//! ```
//! It ends with what could be read at the safe point. So it is the same on all replicas, however
//! far collection has come there (invariant 7 of the engine).

use keyspace::{HashedKey, Timestamp};

use super::record::Record;
use super::{MemoryEngine, Version};

/// A change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It was given a value, which may have expired since.
    Put(Version<'a>),
    /// It was deleted, by its name or with all keys of its keyspace; or written with a time to live
    /// that had passed.
    Deleted(Timestamp),
}

impl Change<'_> {
    /// When.
    pub fn at(&self) -> Timestamp {
        match self {
            Change::Put(version) => version.timestamp,
            Change::Deleted(at) => *at,
        }
    }
}

impl MemoryEngine {
    /// Shows the changes of a key up to a time, the newest first, while `show` returns true; none
    /// if the time is below the safe point. Whether all were shown.
    pub fn history(
        &self,
        key: &HashedKey<'_>,
        at: Timestamp,
        show: &mut dyn FnMut(Change<'_>) -> bool,
    ) -> bool {
        if at < self.safe_point() {
            return true;
        }
        let current = self.current.index.find(key).map(|head| (head, None));
        let ended = self.retired.iter().rev().take_while(|era| era.end > self.safe_point());
        let ended = ended.filter_map(|era| Some((era.era.index.find(key)?, Some(era.end))));
        for (head, end) in current.into_iter().chain(ended) {
            // Of what has expired by then the flush ended nothing.
            if let Some(end) = end.filter(|end| *end <= at && !head.is_dead(*end))
                && !show(Change::Deleted(end))
            {
                return false;
            }
            let mut chain = Some(head);
            while let Some(record) = chain {
                if record.timestamp() <= at
                    && !self.counts_as_collected(record)
                    && !show(change(record))
                {
                    return false;
                }
                if record.timestamp() <= self.safe_point() {
                    return true;
                }
                chain = record.older();
            }
        }
        true
    }
}

fn change<'r>(record: Record) -> Change<'r> {
    // What is dead at its own time never had a value (invariant 5 of the engine).
    match record.is_dead(record.timestamp()) {
        true => Change::Deleted(record.timestamp()),
        false => Change::Put(Version::of(record)),
    }
}

#[cfg(test)]
mod tests {
    use keyspace::KeyHasher;

    use super::super::{Layout, Settings};
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// The history of the key up to a time, in words.
    fn history(engine: &MemoryEngine, key: &HashedKey<'_>, to: u64, count: usize) -> String {
        let mut words = Vec::new();
        let is_all = engine.history(key, at(to), &mut |change| {
            if words.len() == count {
                return false;
            }
            let millis = change.at().millis();
            words.push(match change {
                Change::Put(Version { value, expiry_ms: 0, .. }) => {
                    format!("{millis} {}", value.escape_ascii())
                }
                Change::Put(Version { value, expiry_ms, .. }) => {
                    format!("{millis} {} until {expiry_ms}", value.escape_ascii())
                }
                Change::Deleted(_) => format!("{millis} deleted"),
            });
            true
        });
        words.join(", ") + if is_all { "" } else { ", …" }
    }

    /// Whatever has been collected of it, and whether a flush sets an era aside or deletes.
    #[test]
    fn history_has_all_changes_above_the_safe_point_and_what_was_there_then() {
        for flush_in_place_keys_max in [0, 1_000] {
            let hasher = KeyHasher::new([7; 16]);
            let settings = Settings { hasher, flush_in_place_keys_max };
            let mut engine = MemoryEngine::new(Layout::Ordered, settings);
            let key = hasher.key(b"k");
            assert_eq!(history(&engine, &key, 99, 9), "", "never written");
            engine.put(&key, &[b"a"], 0, at(10));
            engine.put(&key, &[b"b"], 25, at(20));
            engine.put(&key, &[b"c"], 0, at(30));
            engine.flush(at(40));
            engine.put(&key, &[b"d"], 0, at(50));
            assert!(engine.delete(&key, at(60)));
            let all = "60 deleted, 50 d, 40 deleted, 30 c, 20 b until 25, 10 a";
            assert_eq!(history(&engine, &key, 99, 9), all);
            assert_eq!(history(&engine, &key, 59, 3), "50 d, 40 deleted, 30 c, …");
            assert_eq!(history(&engine, &key, 39, 9), "30 c, 20 b until 25, 10 a");
            assert_eq!(history(&engine, &key, 9, 9), "");

            for (safe_point, wanted) in [
                (20, "60 deleted, 50 d, 40 deleted, 30 c, 20 b until 25"),
                // What had expired by the safe point is gone.
                (27, "60 deleted, 50 d, 40 deleted, 30 c"),
                (45, "60 deleted, 50 d"),
                (60, ""),
            ] {
                engine.raise_safe_point(at(safe_point));
                assert_eq!(history(&engine, &key, 99, 9), wanted, "at {safe_point}");
                assert_eq!(history(&engine, &key, safe_point - 1, 9), "", "below it");
                while engine.collect(1) {}
                assert_eq!(history(&engine, &key, 99, 9), wanted, "at {safe_point}, collected");
            }
        }
    }
}

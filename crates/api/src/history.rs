//! What has become of a key: `/v1/history`.

use bytes::Bytes;
use keyspace::Timestamp;
use node::routing::fetch::{HeldChange, HeldVersion};

/// The most changes of one page.
pub const HISTORY_PAGE_MAX: usize = 1_000;

/// Which changes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Earlier ones than this; none: up to now.
    pub before: Option<Timestamp>,
    /// At most so many writes, from 1 to [`HISTORY_PAGE_MAX`].
    pub limit: usize,
}

impl HistoryQuery {
    /// The time up to which changes are wanted.
    pub fn at(&self, now: Timestamp) -> Timestamp {
        self.upto().map_or(now, |upto| upto.min(now))
    }

    /// The same, if a time was given: it may be later than now.
    pub fn upto(&self) -> Option<Timestamp> {
        self.before.map(|before| Timestamp(before.0.saturating_sub(1)))
    }
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// It was given a value.
    Put {
        /// The value.
        value: Bytes,
        /// When.
        timestamp: Timestamp,
        /// When it ends, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// It was deleted, by its name or with all keys of its keyspace.
    Deleted {
        /// When.
        timestamp: Timestamp,
    },
    /// Its value had come to its end.
    Expired {
        /// When, in milliseconds since 1970.
        at_ms: u64,
    },
}

impl From<HeldChange> for KeyChange {
    fn from(change: HeldChange) -> Self {
        match change {
            HeldChange::Put(HeldVersion { value, expiry_ms, timestamp }) => KeyChange::Put {
                value: value.into(),
                timestamp,
                expires_at_ms: (expiry_ms != 0).then_some(expiry_ms),
            },
            HeldChange::Deleted(timestamp) => KeyChange::Deleted { timestamp },
        }
    }
}

/// A page of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The newest first.
    pub changes: Vec<KeyChange>,
    /// There are more: those before this time.
    pub next: Option<Timestamp>,
    /// Of what was at or below this time only the last is known.
    pub safe_point: Timestamp,
}

impl History {
    /// Of writes, the newest first, that are all there were up to `at`, or, if `has_more`, the last
    /// ones: with the ends of values that had come by then.
    pub fn new(
        writes: impl IntoIterator<Item = KeyChange>,
        has_more: bool,
        safe_point: Timestamp,
        at: Timestamp,
    ) -> Self {
        let (mut changes, mut newer, mut last) = (Vec::new(), at, None);
        for write in writes {
            let (timestamp, ends) = match &write {
                KeyChange::Put { timestamp, expires_at_ms, .. } => (*timestamp, *expires_at_ms),
                KeyChange::Deleted { timestamp } => (*timestamp, None),
                KeyChange::Expired { .. } => continue,
            };
            if let Some(at_ms) = ends.filter(|at_ms| *at_ms <= newer.millis()) {
                changes.push(KeyChange::Expired { at_ms });
            }
            (newer, last) = (timestamp, Some(timestamp));
            changes.push(write);
        }
        Self { changes, next: last.filter(|_| has_more), safe_point }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn put(millis: u64, expires_at_ms: Option<u64>) -> KeyChange {
        KeyChange::Put { value: Bytes::new(), timestamp: at(millis), expires_at_ms }
    }

    #[test]
    fn values_end_unless_they_are_replaced_before() {
        let deleted = KeyChange::Deleted { timestamp: at(40) };
        let writes = [put(50, Some(90)), deleted.clone(), put(20, Some(30)), put(10, Some(30))];
        let history = History::new(writes.clone(), true, at(5), at(89));
        let expired = |at_ms| KeyChange::Expired { at_ms };
        let [newest, _, second, first] = writes.clone();
        let wanted = vec![newest.clone(), deleted, expired(30), second, first];
        assert_eq!(history.changes, wanted);
        assert_eq!((history.next, history.safe_point), (Some(at(10)), at(5)));
        let later = History::new(writes, false, at(5), at(90));
        assert_eq!(later.changes[..2], [expired(90), newest]);
        assert_eq!(later.next, None);
    }

    #[test]
    fn changes_are_asked_for_before_a_time_or_up_to_now() {
        let query = |before| HistoryQuery { before, limit: 1 };
        assert_eq!(query(None).at(at(7)), at(7));
        assert_eq!(query(Some(at(8))).at(at(7)), at(7));
        assert_eq!(query(Some(at(7))).at(at(7)), Timestamp(at(7).0 - 1));
        assert_eq!(query(Some(Timestamp::ZERO)).at(at(7)), Timestamp::ZERO);
    }
}

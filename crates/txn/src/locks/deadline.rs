//! Until when may a transaction be committed? Its commands' replies suppose that the values they
//! found alive are alive at the commit time (SAFETY G22).
//!
//! ```text
//!   lock of a: 250, deadline 270   (a value found alive expires at 270)
//!   lock of n: 300                 commit time 300: not below 270, so it is aborted
//! ```
//!
//! Locks and their deadlines never change, so all who know them judge alike: the coordinator, a
//! coordinator that finds the locks later, and the entry with which the last shard commits.

use keyspace::Timestamp;

/// A time in ms, by the clock that values expire by: the commit time must lie below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub(super) u64);

impl Deadline {
    /// No value expires.
    pub const NEVER: Self = Self(u64::MAX);

    /// The deadline of a value found alive, from its expiry in ms (0: never).
    pub fn of(expiry_ms: u64) -> Self {
        if expiry_ms == 0 { Self::NEVER } else { Self(expiry_ms) }
    }

    /// The deadline in ms; `None` for [`Self::NEVER`].
    pub fn millis(self) -> Option<u64> {
        (self != Self::NEVER).then_some(self.0)
    }

    /// Whether a commit at this time would be too late.
    pub fn is_over(self, at: Timestamp) -> bool {
        self.0 <= at.millis()
    }
}

/// The commit time of a transaction with exactly these locks: the latest of their times. `None` if
/// that is not below each deadline, or there is no lock: the transaction cannot be committed.
pub fn commit_time(locks: impl IntoIterator<Item = (Timestamp, Deadline)>) -> Option<Timestamp> {
    let latest = locks
        .into_iter()
        .reduce(|(at, deadline), (other_at, other)| (at.max(other_at), deadline.min(other)));
    latest.filter(|(at, deadline)| !deadline.is_over(*at)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn commit_time_is_latest_lock_time_below_all_deadlines() {
        let never = Deadline::NEVER;
        assert_eq!(Deadline::of(0), never);
        assert_eq!(commit_time([]), None);
        assert_eq!(commit_time([(at(250), never), (at(300), never)]), Some(at(300)));
        let locks = |end| [(at(250), Deadline::of(end)), (at(300), never)];
        assert_eq!(commit_time(locks(301)), Some(at(300)));
        assert_eq!(commit_time(locks(300)), None, "a value ends with its last millisecond");
        assert_eq!(commit_time(locks(270)), None);
    }
}

//! What does a script do next that runs over any shards?
//!
//! It is an interactive transaction whose client is a script. It reads a key where a command names
//! it first, and never waits for one: it ends, the driver reads the key, and the script runs again
//! with all that was read. It does the same as before, since it sees the same values.
//!
//! ```text
//!   run ── lacks a key ──► read it, here or at its leader ──► run again, with all that was read
//!    └── ended ──► commit, if what was read is as it was ──► the reply
//!                    └── changed ──► run again, at last with its keys reserved
//! ```
//!
//! Keys of one shard are committed by one entry of that shard; others through the coordinator, as
//! is a script that has used several keyspaces ([`AttemptCommit::of_several`]).

use std::collections::BTreeSet;

use bytes::Bytes;
use command::{NotDone, Reply, Transaction};
use keyspace::{BootNanos, KeyspaceId, ShardId, Timestamp};

use crate::ShardMap;
use crate::coordinator::TxnOutcome;
use crate::interactive::InteractiveTxn;
use crate::retry_queue::{ConflictRetry, RESERVE_AFTER_NANOS};

/// A script on its way to its commit, beside the script itself and its copy.
#[derive(Clone, Debug)]
pub struct ScriptAttempt {
    /// When it came, or had left its queue.
    since: BootNanos,
    /// How earlier attempts have failed.
    before: Option<ConflictRetry>,
    /// Keys to be read before it runs.
    wanted: Vec<Bytes>,
    /// How many keys it knew when it last ran and lacked some.
    knew: Option<usize>,
}

/// How what a script has written is done.
#[derive(Debug)]
pub enum AttemptCommit<'a> {
    /// It has written nothing, and read one key at most: it is done.
    Nothing,
    /// By an entry of this shard.
    OneShard(ShardId, Transaction<'a>),
    /// By the coordinator.
    Coordinated(Transaction<'a>),
    /// By the coordinator, in each of these keyspaces.
    Spanning(Vec<(KeyspaceId, Transaction<'a>)>),
}

impl<'a> AttemptCommit<'a> {
    /// Of a script that has used several keyspaces, each with a copy of its own.
    pub fn of_several(copies: impl IntoIterator<Item = (KeyspaceId, &'a InteractiveTxn)>) -> Self {
        let used = copies.into_iter().filter(|(_, copy)| !copy.is_empty());
        let parts: Vec<_> = used.map(|(id, copy)| (id, copy.transaction())).collect();
        let writes =
            parts.iter().any(|(_, part)| !part.commands.is_empty() || part.flush.is_some());
        let read = parts.iter().map(|(_, part)| part.watched.len()).sum::<usize>();
        if writes || read > 1 { Self::Spanning(parts) } else { Self::Nothing }
    }
}

/// What came of a script's commit.
#[derive(Debug)]
pub enum AttemptOutcome {
    /// It is done.
    Done,
    /// This key had changed: nothing is done, and it runs again.
    Changed(Box<[u8]>),
    /// The same, if it spans keyspaces: in this one.
    ChangedIn(KeyspaceId, Box<[u8]>),
    /// A key has moved to another shard, or a keyspace that it has used was dropped: nothing is
    /// done, and it runs again when routes may be new.
    Moved,
    /// Its entry was not applied, or may not have been.
    NotDone(NotDone),
    /// Its coordinator has given up.
    Ended(TxnOutcome),
}

impl AttemptOutcome {
    /// Of an entry that was applied.
    pub fn applied(reply: Option<Reply>) -> Self {
        match reply {
            Some(Reply::Changed(key)) => Self::Changed(key),
            _ => Self::Done,
        }
    }

    /// Of an entry that was not.
    pub fn not_done(why: NotDone) -> Self {
        match why {
            // The shard was split, or has become a part of another.
            NotDone::CrossShard | NotDone::NoSuchShard => Self::Moved,
            why => Self::NotDone(why),
        }
    }

    /// Of a transaction over shards.
    pub fn coordinated(outcome: TxnOutcome) -> Self {
        match outcome {
            TxnOutcome::Done(_) => Self::Done,
            TxnOutcome::Changed(key) => Self::Changed(key),
            TxnOutcome::ChangedIn(keyspace, key) => Self::ChangedIn(keyspace, key),
            // It may be one of several: FLUSHALL is of those that are left.
            TxnOutcome::NoKeyspace => Self::Moved,
            refused => Self::Ended(refused),
        }
    }
}

impl ScriptAttempt {
    /// The first one of a script that came or left its queue then, and declares these keys.
    pub fn first(keys: Vec<Bytes>, since: BootNanos) -> Self {
        Self { since, before: None, wanted: keys, knew: None }
    }

    /// When it came, or had left its queue.
    pub fn since(&self) -> BootNanos {
        self.since
    }

    /// How earlier attempts have failed, if there were any.
    pub fn before(&self) -> Option<&ConflictRetry> {
        self.before.as_ref()
    }

    /// How its coordinator begins: it has the time that is left. The script itself ran for so many
    /// nanoseconds, which do not count.
    pub fn coordinated(&self, ran: BootNanos) -> ConflictRetry {
        let since = self.since.saturating_add(ran);
        match &self.before {
            Some(before) => ConflictRetry { since, ..before.clone() },
            None => ConflictRetry { since, key: None, reserved_as: None },
        }
    }

    /// The name by which its keys are reserved, if they are.
    pub fn reserved_as(&self) -> Option<Timestamp> {
        self.before.as_ref()?.reserved_as
    }

    /// Keys to be read before it runs, if there are any. What is here is read as it runs.
    pub fn reads_first(&mut self, is_elsewhere: impl Fn(&[u8]) -> bool) -> Option<Vec<Bytes>> {
        let wanted = std::mem::take(&mut self.wanted);
        let must = self.reserved_as().is_some() || wanted.iter().any(|key| is_elsewhere(key));
        (must && !wanted.is_empty()).then_some(wanted)
    }

    /// It runs again, and knows so many keys. False: it has learnt nothing since it lacked some,
    /// and would begin again for ever.
    #[must_use]
    pub fn has_learnt(&mut self, knows: usize) -> bool {
        self.knew.take().is_none_or(|knew| knows > knew)
    }

    /// It lacks keys beside those that it knows: it runs again when they are read.
    pub fn lacks_keys(&mut self, knows: usize) {
        self.knew = Some(knows);
    }

    /// How what it has written is done.
    pub fn commit<'a>(&self, copy: &'a InteractiveTxn, shards: &dyn ShardMap) -> AttemptCommit<'a> {
        let transaction = copy.transaction();
        if transaction.flush.is_some() {
            return AttemptCommit::Coordinated(transaction);
        }
        let is_blind = transaction.watched.len() <= 1 && !copy.has_watched();
        if transaction.commands.is_empty() && is_blind {
            return AttemptCommit::Nothing;
        }
        let (mut first, mut crosses) = (None, false);
        transaction.each_key(&mut |key| {
            let here = shards.place_of_key(key);
            crosses |= *first.get_or_insert(here) != here;
        });
        match first {
            Some(place) if !crosses && self.reserved_as().is_none() => {
                AttemptCommit::OneShard(shards.shards()[place], transaction)
            }
            _ => AttemptCommit::Coordinated(transaction),
        }
    }

    /// Others have changed a key that it has read: it runs again on what there is now. It has read
    /// all these. Its time is over so long after it came: the script's own time is in that.
    ///
    /// # Errors
    /// The key: there is no time left.
    pub fn retry(
        &mut self,
        key: Box<[u8]>,
        read: Vec<Bytes>,
        (now, timeout): (BootNanos, BootNanos),
        name: impl FnOnce() -> Timestamp,
    ) -> Result<(), Box<[u8]>> {
        let took = now.saturating_sub(self.since);
        if took >= timeout {
            return Err(key);
        }
        let reserved_as = self.reserved_as();
        let reserved_as = reserved_as.or_else(|| (took >= RESERVE_AFTER_NANOS).then(name));
        self.before = Some(ConflictRetry { since: self.since, key: Some(key), reserved_as });
        (self.wanted, self.knew) = (read, None);
        Ok(())
    }

    /// The routes by which these keys were found are old: it runs again after a pause, on what
    /// there is then. That is no conflict. Whether there is time left.
    #[must_use]
    pub fn reroute(&mut self, wanted: Vec<Bytes>, (now, timeout): (BootNanos, BootNanos)) -> bool {
        (self.wanted, self.knew) = (wanted, None);
        now.saturating_sub(self.since) < timeout
    }
}

/// The shards that a transaction writes to: what its client waits for in WAIT.
pub fn written_shards(transaction: &Transaction<'_>, shards: &dyn ShardMap) -> Vec<ShardId> {
    if transaction.flush.is_some() {
        return shards.shards().to_vec();
    }
    let mut places = BTreeSet::new();
    for write in transaction.writes() {
        write.each_key(&mut |key| _ = places.insert(shards.place_of_key(key)));
    }
    places.into_iter().map(|place| shards.shards()[place]).collect()
}

#[cfg(test)]
mod tests {
    use command::{ObservedVersion, Read, Step, Write};
    use keyspace::Arc;

    use super::*;

    const TIMEOUT: BootNanos = 5_000_000_000;

    /// Two shards: keys below `m`, and the rest.
    struct Two([ShardId; 2]);

    impl ShardMap for Two {
        fn shards(&self) -> &[ShardId] {
            &self.0
        }

        fn place_of_key(&self, key: &[u8]) -> usize {
            usize::from(key >= &b"m"[..])
        }

        fn arc(&self, _: usize) -> &Arc {
            unreachable!("nobody asks")
        }

        fn witnesses(&self) -> &[Box<[u8]>] {
            unreachable!("nobody asks")
        }
    }

    fn keys(names: &[&'static str]) -> Vec<Bytes> {
        names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
    }

    fn copy_of(read: &[&str], written: &[&str]) -> InteractiveTxn {
        let mut copy = InteractiveTxn::restartable(Timestamp(1 << 20), 1 << 20);
        let seen = ObservedVersion::Absent(Timestamp(7));
        for key in read.iter().chain(written) {
            copy.record_read(key.as_bytes(), None, seen).expect("it is small");
        }
        for key in read {
            copy.run(&Step::Read(Read::Get(key.as_bytes()))).expect("it is small");
        }
        for key in written {
            let write = Write::append(key.as_bytes(), b"x");
            copy.run(&Step::Write(write)).expect("it is small");
        }
        copy
    }

    fn way(attempt: &ScriptAttempt, read: &[&str], written: &[&str]) -> String {
        let copy = copy_of(read, written);
        match attempt.commit(&copy, &Two([ShardId(5), ShardId(6)])) {
            AttemptCommit::Nothing => "nothing".into(),
            AttemptCommit::OneShard(shard, _) => format!("shard {shard}"),
            AttemptCommit::Coordinated(transaction) => {
                format!("{} read", transaction.watched.len())
            }
            AttemptCommit::Spanning(parts) => format!("{parts:?}"),
        }
    }

    #[test]
    fn client_waits_for_shards_that_its_script_wrote_to_and_no_others() {
        let written = |read: &[&str], written: &[&str]| {
            let copy = copy_of(read, written);
            written_shards(&copy.transaction(), &Two([ShardId(5), ShardId(6)]))
        };
        assert_eq!(written(&["a", "n"], &[]), []);
        assert_eq!(written(&["n"], &["a", "b"]), [ShardId(5)]);
        assert_eq!(written(&[], &["z", "a"]), [ShardId(5), ShardId(6)]);
    }

    #[test]
    fn keys_of_one_shard_are_committed_by_one_entry() {
        let attempt = ScriptAttempt::first(keys(&["a"]), 0);
        assert_eq!(way(&attempt, &["a"], &[]), "nothing");
        assert_eq!(way(&attempt, &["a", "b"], &[]), "shard 5");
        assert_eq!(way(&attempt, &["n"], &["z"]), "shard 6");
        assert_eq!(way(&attempt, &["n"], &["a"]), "2 read");
        assert_eq!(way(&attempt, &["n", "a"], &[]), "2 read");
    }

    /// An empty key is a key like any other: a client may have watched it.
    #[test]
    fn moved_shard_is_no_change_of_a_key_and_no_conflict() {
        for why in [NotDone::CrossShard, NotDone::NoSuchShard] {
            assert!(matches!(AttemptOutcome::not_done(why), AttemptOutcome::Moved), "{why:?}");
        }
        let outcome = AttemptOutcome::coordinated(TxnOutcome::NoKeyspace);
        assert!(matches!(outcome, AttemptOutcome::Moved), "it may do without that keyspace");
        let why = NotDone::OutcomeUnknown;
        assert!(matches!(AttemptOutcome::not_done(why), AttemptOutcome::NotDone(_)));
        let mut attempt = ScriptAttempt::first(keys(&["a"]), 1_000);
        assert!(attempt.reroute(keys(&["a", "b"]), (1_000 + TIMEOUT - 1, TIMEOUT)));
        assert!(attempt.before().is_none(), "no key is reserved for it");
        assert_eq!(attempt.reads_first(|_| true), Some(keys(&["a", "b"])), "where they are now");
        assert!(!attempt.reroute(keys(&["a"]), (1_000 + TIMEOUT, TIMEOUT)));
    }

    #[test]
    fn each_keyspace_that_was_used_has_a_part() {
        let [own, other, unused] = [1, 2, 3].map(KeyspaceId);
        let none = copy_of(&[], &[]);
        let of = |copies: &[(KeyspaceId, &InteractiveTxn)]| match AttemptCommit::of_several(
            copies.iter().copied(),
        ) {
            AttemptCommit::Spanning(parts) => {
                let parts = parts.iter().map(|(id, t)| (*id, t.watched.len()));
                parts.collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        let (one, two) = (copy_of(&["a"], &["b"]), copy_of(&["a"], &[]));
        assert_eq!(of(&[(own, &one), (other, &two), (unused, &none)]), [(own, 2), (other, 1)]);
        assert_eq!(of(&[(own, &none), (other, &one)]), [(other, 2)]);
        let read = AttemptCommit::of_several([(own, &none), (other, &two)]);
        assert!(matches!(read, AttemptCommit::Nothing), "a single read is one moment");
    }

    #[test]
    fn keys_elsewhere_are_read_first() {
        let mut attempt = ScriptAttempt::first(keys(&["a", "n"]), 0);
        assert_eq!(attempt.clone().reads_first(|_| false), None);
        assert_eq!(attempt.reads_first(|key| key == b"n"), Some(keys(&["a", "n"])));
        assert_eq!(attempt.reads_first(|_| true), None, "it has them");
    }

    #[test]
    fn script_begins_again_only_when_it_has_learnt_something() {
        let mut attempt = ScriptAttempt::first(Vec::new(), 1_000);
        assert!(attempt.has_learnt(0), "it has not run");
        attempt.lacks_keys(0);
        assert!(attempt.has_learnt(1));
        attempt.lacks_keys(1);
        assert!(!attempt.has_learnt(1), "it would lack the same again");
        attempt.lacks_keys(1);
        let retried =
            attempt.retry(Box::from(*b"a"), Vec::new(), (1_001, TIMEOUT), || Timestamp(7));
        assert_eq!(retried, Ok(()));
        assert!(attempt.has_learnt(0), "it has forgotten what it had read");
        attempt.lacks_keys(9);
        assert!(attempt.reroute(Vec::new(), (1_001, TIMEOUT)) && attempt.has_learnt(0));
    }

    #[test]
    fn coordinator_has_the_time_that_waits_have_left() {
        let mut attempt = ScriptAttempt::first(keys(&["a"]), 1_000);
        let begins = attempt.coordinated(300);
        assert_eq!((begins.since, begins.key, begins.reserved_as), (1_300, None, None));
        let later = (1_000 + RESERVE_AFTER_NANOS, TIMEOUT);
        let retried = attempt.retry(Box::from(*b"a"), keys(&["a"]), later, || Timestamp(7));
        assert_eq!(retried, Ok(()));
        let ConflictRetry { since, key, reserved_as } = attempt.coordinated(500);
        assert_eq!((since, reserved_as), (1_500, Some(Timestamp(7))));
        assert_eq!(key.as_deref(), Some(&b"a"[..]));
    }

    #[test]
    fn script_that_was_changed_for_long_reserves_its_keys_and_gives_up_at_last() {
        let mut attempt = ScriptAttempt::first(keys(&["a"]), 1_000);
        let name = || Timestamp(77);
        let mut retry =
            |now| attempt.retry(Box::from(*b"a"), keys(&["a", "b"]), (now, TIMEOUT), name);
        assert_eq!(retry(1_000 + RESERVE_AFTER_NANOS - 1), Ok(()));
        assert_eq!(retry(1_000 + TIMEOUT), Err(Box::from(*b"a")));
        assert_eq!(attempt.reserved_as(), None);
        let again = (1_000 + RESERVE_AFTER_NANOS, TIMEOUT);
        assert_eq!(attempt.retry(Box::from(*b"a"), keys(&["a"]), again, name), Ok(()));
        assert_eq!(attempt.reserved_as(), Some(Timestamp(77)));
        assert_eq!(attempt.reads_first(|_| false), Some(keys(&["a"])), "to reserve them");
        assert_eq!(way(&attempt, &["a"], &["b"]), "2 read", "an entry would meet its reservation");
    }
}

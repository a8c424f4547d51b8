//! What the leader decides about a PREPARE, beside the scripts of whole shards.

use std::collections::VecDeque;

use command::{Step as Command, Transaction};
use keyspace::KeyHasher;
use storage::engine::Layout;

use super::*;
use crate::locks::apply::{Owns, apply};
use crate::locks::{Outcome, Places, StepReply};
use crate::wait_queue::DueSteps;
use crate::wait_queue::samples::{flushing, prepare};

/// When PREPAREs that have come at 0 are judged first.
const SOON: BootNanos = 1_000_000;

/// Commands that delete a key each.
struct Deletes(Vec<&'static [u8]>);

impl Commands for Deletes {
    type Asker = ();

    fn asker(&self) -> Option<()> {
        None
    }

    fn any(&self, mut is_such: impl FnMut(&Write<'_>) -> bool) -> bool {
        self.0.iter().any(|key| is_such(&Write::Delete { key }))
    }

    fn may_time_out(&self) -> bool {
        true
    }
}

/// A shard's locks, and what waits for them at its leader.
#[derive(Default)]
struct Leader {
    locks: Locks,
    queue: WaitQueue,
    held: HeldCommands<Deletes>,
}

impl Leader {
    /// A transaction that began at this millisecond locks a key a millisecond later.
    fn lock(&mut self, start: u64, key: &'static [u8]) {
        let step = Step::Prepare(deleting(start, &[key]));
        let reply = self.apply(&step, Timestamp::from_millis(start + 1));
        assert!(matches!(reply, StepReply::Voted(..)));
    }

    /// … and gives it up.
    fn unlock(&mut self, start: u64, key: &'static [u8]) {
        let (id, outcome) = (prepare(start, &[]).id, Outcome::Aborted);
        let step = Step::Resolve { id, outcome, keys: Keys::from_slice(&[key]) };
        self.apply(&step, Timestamp::from_millis(start + 2));
    }

    fn apply(&mut self, step: &Step<'_>, at: Timestamp) -> StepReply {
        let mut engine = MemoryEngine::new(Layout::Ordered, KeyHasher::new([1; 16]));
        let arc = &keyspace::Arc::whole(keyspace::KeyspaceId(1));
        let owns = Owns { arc, key: &|_| true, up_to: &|_| true };
        apply(&mut self.locks, &mut engine, step, at, &owns, &mut ())
    }

    /// Commands come, each of some keys, and are held if they must wait. How many are not.
    fn command(&mut self, all: &[&[&'static [u8]]]) -> usize {
        let new: VecDeque<_> = all.iter().map(|keys| Deletes(keys.to_vec())).collect();
        let sorted = self.queue.sort_commands(&mut self.held, new, &self.locks, 0, BootNanos::MAX);
        sorted.free.len()
    }

    /// What is decided about PREPAREs, which have come at 0, in one round.
    fn judge(&mut self, all: &[&Prepare<'_>], now: BootNanos) -> String {
        let moment = JudgedAt { now, time: Timestamp::from_millis(700), waits_for: BootNanos::MAX };
        let shard = AppliedState { locks: &self.locks, engine: None, owns: &|_| true };
        let due = DueSteps { prepares: Vec::new(), others: Vec::new() };
        let mut round = self.queue.round(&due, &self.held, (shard, moment), false);
        let verdicts =
            all.iter().map(|prepare| match self.queue.judge(prepare, 0, &mut round, 1) {
                PrepareVerdict::Propose => "propose",
                PrepareVerdict::Wait => "wait",
                PrepareVerdict::Refuse(PrepareRefusal::Locked(_)) => "locked",
                PrepareVerdict::Refuse(_) => "refuse",
            });
        verdicts.collect::<Vec<_>>().join(" ")
    }
}

fn deleting(start: u64, keys: &[&'static [u8]]) -> Prepare<'static> {
    let commands = keys.iter().map(|key| Command::Write(Write::Delete { key })).collect();
    let part = Transaction { commands, ..Transaction::default() };
    let places = (0..keys.len() as u32).collect::<Places>();
    Prepare { places, part, ..prepare(start, &[]) }
}

/// Nothing is guarded for a PREPARE that waits for a transaction which may be abandoned,
/// whichever of the locks in its way that one has.
#[test]
fn oldest_blocking_lock_decides_abandonment() {
    let mut leader = Leader::default();
    leader.lock(100, b"m");
    leader.lock(500, b"a");
    let moment = JudgedAt { now: 0, time: Timestamp::from_millis(700), waits_for: 0 };
    let due = DueSteps { prepares: Vec::new(), others: Vec::new() };
    let stays = |releases: &Releases, waits: &Prepare<'_>, keys: &[&[u8]]| {
        let shard = AppliedState { locks: &leader.locks, engine: None, owns: &|_| true };
        let round = leader.queue.round(&due, &leader.held, (shard, moment), false);
        JudgeRound { releases: releases.clone(), ..round }.has_stayed(waits, keys)
    };
    let (none, waits) = (Releases::new(), prepare(50, &[]));
    assert!(!stays(&none, &waits, &[b"a", b"b"]));
    assert!(stays(&none, &waits, &[b"a", b"m"]) && stays(&none, &waits, &[b"m", b"z"]));
    let range = prepare(50, &[(b"b", Some(b"z"))]);
    assert!(stays(&none, &range, &[b"b"]));
    assert!(!stays(&none, &prepare(50, &[(b"a", Some(b"m"))]), &[b"a"]));
    assert!(!stays(&none, &prepare(50, &[(b"z", Some(b"a"))]), &[b"z"]));
    assert!(stays(&none, &flushing(50), &[b"w"]), "an arc waits for all locks");
    // What goes with the next entry does not stay; nor does what is its own.
    let m = Releases::from([((prepare(100, &[]).id, Name::from_slice(b"m")), None)]);
    assert!(!stays(&m, &waits, &[b"a", b"m"]) && !stays(&m, &range, &[b"b"]));
    assert!(!stays(&m, &flushing(50), &[b"w"]));
    assert!(!stays(&none, &prepare(100, &[(b"b", None)]), &[b"m"]));
}

/// Of all that are in the way of an arc the oldest transaction decides for how long it waits,
/// whatever their keys are.
#[test]
fn oldest_transaction_in_an_arc_decides_how_long_its_prepare_waits() {
    let later = Prepare { is_first: false, ..flushing(300) };
    for (old, young) in [(b"m", b"a"), (b"a", b"m")] {
        let mut leader = Leader::default();
        leader.lock(500, young);
        assert_eq!(leader.judge(&[&later], YOUNGER_WAITS_NANOS), "wait", "an older one waits");
        leader.lock(100, old);
        assert_eq!(leader.judge(&[&later], SOON), "wait");
        assert_eq!(leader.judge(&[&later], YOUNGER_WAITS_NANOS), "locked");
        // The same of keys that are about to be locked.
        let mut leader = Leader::default();
        let planned = [(500, young), (100, old)].map(|(start, key)| deleting(start, &[key]));
        assert_eq!(leader.judge(&[&planned[0], &planned[1]], SOON), "propose propose");
        assert_eq!(leader.judge(&[&later], YOUNGER_WAITS_NANOS), "locked");
    }
}

/// Commands that wait for keys of an arc are done before it is locked, as those that wait for keys
/// of other PREPAREs.
#[test]
fn arc_lets_waiting_commands_go_first() {
    let mut leader = Leader::default();
    leader.lock(100, b"m");
    assert_eq!(leader.command(&[&[b"m"], &[b"z"]]), 1);
    leader.unlock(100, b"m");
    let (flush, elsewhere) = (flushing(300), deleting(300, &[b"b"]));
    assert_eq!(leader.judge(&[&flush, &deleting(300, &[b"m"])], SOON), "wait wait");
    assert_eq!(leader.judge(&[&elsewhere], SOON), "propose", "nobody waits for its key");
    leader.queue.applied(1);
    // They may wait for something else: not for ever.
    assert_eq!(leader.judge(&[&flush], COMMANDS_FIRST_NANOS), "propose");
    leader.queue.applied(1);
    assert_eq!(leader.command(&[]), 1);
    assert_eq!(leader.judge(&[&flush], SOON), "propose");
}

/// A reservation of some keys lets a PREPARE pass commands that wait for these, and no others.
#[test]
fn arc_with_reserved_keys_passes_only_commands_that_wait_for_them() {
    let flush = flushing(300);
    let commands = deleting(300, &[b"r"]).part.commands;
    let part = Transaction { commands, ..flush.part };
    let (reserved_as, places) = (Some(Timestamp::from_millis(200)), Places::from_slice(&[0]));
    let flush = Prepare { reserved_as, places, part, ..flush };
    let cases: [(&[&[u8]], &str); 2] = [(&[b"r", b"x"], "propose"), (&[b"m"], "wait")];
    for (keys, expected) in cases {
        let mut leader = Leader::default();
        leader.lock(100, b"m");
        leader.queue.reserve(&[Box::from(*b"r")], Timestamp::from_millis(200), 0);
        assert_eq!(leader.command(&[keys]), 0);
        leader.unlock(100, b"m");
        assert_eq!(leader.judge(&[&flush], SOON), expected, "{keys:?}");
    }
}

/// What an older PREPARE waits for is in the way of the arc, too; and it is judged first.
#[test]
fn arc_passes_no_older_prepare_that_waits() {
    let mut leader = Leader::default();
    leader.lock(400, b"m");
    let (older, flush) = (deleting(100, &[b"m", b"x"]), flushing(300));
    assert_eq!(leader.judge(&[&older, &flush], SOON), "wait wait");
    leader.unlock(400, b"m");
    assert_eq!(leader.judge(&[&older, &flush], SOON), "propose wait");
}

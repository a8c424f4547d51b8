//! Steps in their order, and what is left of them: parted, united and in bytes.

use keyspace::codec::Reader;
use keyspace::{KeyHasher, KeyspaceId};
use storage::engine::{Layout, MemoryEngine};

use super::apply::{Owns, apply};
use super::*;
use command::{
    ExpireIf, Expiry, ObservedVersion, Read, Refusal, SetIf, SetReply, Step as Command,
    Transaction, Write,
};

mod arcs;
mod deadlines;
mod ranges;

const HASHER: KeyHasher = KeyHasher::new([1; 16]);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn id(start: u64) -> TxnId {
    TxnId { start: at(start), coordinator: 7, attempt: 0 }
}

fn keys<'a>(all: &[&'a [u8]]) -> Keys<'a> {
    Keys::from_slice(all)
}

/// An ordered shard with all keys.
struct Shard {
    locks: Locks,
    engine: MemoryEngine,
}

impl Shard {
    fn new() -> Self {
        Self { locks: Locks::default(), engine: MemoryEngine::new(Layout::Ordered, HASHER) }
    }

    fn step(&mut self, millis: u64, step: &Step<'_>) -> StepReply {
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        let again = Step::decode(&mut Reader::new(&bytes)).map(|step| format!("{step:?}"));
        assert_eq!(again, Ok(format!("{step:?}")), "its bytes say the same");
        let arc = &keyspace::Arc::whole(KeyspaceId(1));
        let owns = Owns { arc, key: &|key| !key.starts_with(b"elsewhere"), up_to: &|_| true };
        self.locks.forget(at(millis));
        let reply = apply(&mut self.locks, &mut self.engine, step, at(millis), &owns, &mut ());
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        assert_eq!(StepReply::decode(&mut Reader::new(&bytes)).as_ref(), Ok(&reply));
        let mut bytes = Vec::new();
        self.locks.encode(&mut bytes);
        let again = Locks::decode(&mut Reader::new(&bytes)).expect("the bytes were encoded here");
        assert_eq!(again, self.locks);
        assert_eq!((again.bytes, again.unfinished), (self.locks.bytes, self.locks.unfinished));
        reply
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.engine.newest(&HASHER.key(key), at(1_000_000)).map(|found| found.value.to_vec())
    }
}

fn set(key: &'static [u8], value: &'static [u8]) -> Command<'static> {
    let (when, expiry, reply) = (SetIf::Always, Expiry::Never, SetReply::Ok);
    Command::Write(Write::Set { key, value, when, expiry, reply })
}

fn prepare(
    id: TxnId,
    promised: &[&'static [u8]],
    watched: &[(&'static [u8], ObservedVersion)],
    commands: Vec<Command<'static>>,
) -> Step<'static> {
    let places = (0..commands.len() as u32).collect();
    let part = Transaction { watched: watched.to_vec(), commands, ..Transaction::default() };
    Step::Prepare(Prepare {
        id,
        is_first: false,
        reserved_as: None,
        record: b"a",
        promised: Keys::from_slice(promised),
        role: Role::Votes,
        deadline: Some(Deadline::NEVER),
        places,
        part,
    })
}

fn voted(at_millis: u64, answers: Answers) -> StepReply {
    StepReply::Voted(Vote { at: at(at_millis), deadline: Deadline::NEVER, answers })
}

fn why(reply: StepReply) -> PrepareRefusal {
    if let StepReply::Refused(why) = reply { why } else { panic!("{reply:?}") }
}

/// The same, of which all else was locked at a time.
fn last(step: Step<'static>, after: Timestamp) -> Step<'static> {
    let Step::Prepare(prepare) = step else { panic!("{step:?}") };
    let (mut one, mut other) = (Vec::new(), Vec::new());
    Step::Prepare(Prepare { role: Role::Commits(Timestamp::ZERO), ..prepare.clone() })
        .encode(&mut one);
    let deadline = Deadline::of(after.millis() + 1000);
    Step::set_after(&mut one, after, deadline);
    let (role, deadline) = (Role::Commits(after), Some(deadline));
    let step = Step::Prepare(Prepare { role, deadline, ..prepare });
    step.encode(&mut other);
    assert_eq!(one, other, "the time of the other locks comes later");
    step
}

#[test]
fn last_shard_commits_at_prepare() {
    let mut shard = Shard::new();
    let incr = Command::Write(Write::Increment { key: b"n", by: 5 });
    let commands = vec![set(b"a", b"x"), incr];
    let watched = [(&b"w"[..], ObservedVersion::Absent(at(90)))];
    let step = last(prepare(id(100), &[b"elsewhere"], &watched, commands.clone()), at(150));
    let StepReply::Voted(Vote { at: done_at, answers, .. }) = shard.step(200, &step) else {
        panic!()
    };
    assert_eq!((done_at, answers[1].clone()), (at(200), (1, Reply::Int(5))));
    assert_eq!((shard.value(b"a"), shard.value(b"n")), (Some(b"x".into()), Some(b"5".into())));
    // What is locked elsewhere is to be seen to.
    assert!(shard.locks.is_free() && shard.locks.needs_inspection());
    // It is done once, and its record says so to all who ask.
    assert_eq!(shard.step(210, &step), voted(200, answers));
    let rest = vec![Name::from(b"elsewhere".as_slice())];
    let reply = StepReply::Record(RecordState::Committed(at(200)), rest);
    assert_eq!(shard.step(220, &Step::ReadRecord { id: id(100), record: b"a" }), reply);
    let aborted =
        Step::Decide { id: id(100), record: b"a", outcome: Outcome::Aborted, is_sure: false };
    assert_eq!(shard.step(230, &aborted), reply);
    assert_eq!(shard.value(b"n"), Some(b"5".into()));
    shard.step(240, &Step::Forget { all: vec![(id(100), b"a")], floor: None });
    assert!(!shard.locks.needs_inspection() && !shard.locks.is_empty());
    assert_eq!(
        why(shard.step(100 + AGE_MAX_MS, &step)),
        PrepareRefusal::TooOld(at(100 + AGE_MAX_MS))
    );
    // Not if another has a key, or a watched one has changed, or somebody has it aborted.
    shard.step(300, &prepare(id(101), &[], &[], vec![set(b"n", b"z")]));
    let step = last(prepare(id(102), &[], &[], commands.clone()), at(150));
    assert_eq!(why(shard.step(310, &step)), PrepareRefusal::Locked(b"n".as_slice().into()));
    let resolve = Step::Resolve { id: id(101), outcome: Outcome::Aborted, keys: keys(&[b"n"]) };
    shard.step(320, &resolve);
    let watched = [(&b"a"[..], ObservedVersion::Absent(at(90)))];
    let step = last(prepare(id(103), &[], &watched, commands.clone()), at(150));
    assert_eq!(why(shard.step(330, &step)), PrepareRefusal::Changed(b"a".as_slice().into()));
    assert_eq!(
        shard.step(340, &Step::ReadRecord { id: id(104), record: b"a" }),
        StepReply::Record(RecordState::Aborted, Vec::new())
    );
    let step = last(prepare(id(104), &[], &[], commands.clone()), at(150));
    assert!(shard.locks.is_refused(id(104), &[b"a", b"n"]), "nor need it wait for a lock");
    assert!(!shard.locks.is_refused(id(100), &[b"a", b"n"]), "that one is done");
    assert_eq!(why(shard.step(350, &step)), PrepareRefusal::Aborted);
    // Nor where it has locked something itself.
    shard.step(360, &prepare(id(105), &[], &[], commands.clone()));
    let step = last(prepare(id(105), &[], &[], commands), at(150));
    assert_eq!(why(shard.step(370, &step)), PrepareRefusal::Aborted);
    assert_eq!(shard.value(b"n"), Some(b"5".into()));
}

/// Of several steps of one entry, what one commits is no write of another that reads it.
#[test]
fn read_behind_commit_in_same_entry_gets_keep_intent() {
    let mut shard = Shard::new();
    let incr = || Command::Write(Write::Increment { key: b"n", by: 5 });
    shard.step(200, &last(prepare(id(100), &[], &[], vec![incr()]), at(150)));
    let read = Command::Read(Read::Get(b"n"));
    let StepReply::Voted(Vote { answers, .. }) =
        shard.step(200, &prepare(id(101), &[], &[], vec![read]))
    else {
        panic!("it votes");
    };
    assert_eq!(answers[..], [(0, Reply::Bulk(b"5".as_slice().into()))]);
    assert_eq!(shard.locks.get(b"n").map(|lock| &lock.intent), Some(&Intent::Keep));
}

/// A part of very many keys is judged, done and repeated in a moment.
#[test]
fn prepare_with_many_keys_is_fast() {
    let names: Vec<Vec<u8>> = (0..60_000).map(|n| format!("key:{n:06}").into_bytes()).collect();
    let names: &'static [Vec<u8>] = names.leak();
    let commands = || -> Vec<_> { names.iter().map(|name| set(name, b"x")).collect() };
    let mut shard = Shard::new();
    let step = last(prepare(id(100), &[], &[], commands()), at(150));
    assert!(matches!(shard.step(200, &step), StepReply::Voted(..)));
    assert!(matches!(shard.step(210, &step), StepReply::Voted(..)));
    assert!(matches!(
        shard.step(300, &prepare(id(101), &[], &[], commands())),
        StepReply::Voted(..)
    ));
    let keys: Keys<'_> = names.iter().map(|name| &**name).collect();
    let (id, outcome) = (id(101), Outcome::Committed(at(300)));
    assert_eq!(
        shard.step(310, &Step::Resolve { id, outcome, keys: keys.clone() }),
        StepReply::Done
    );
    assert!(matches!(shard.step(320, &Step::Prevent { id, keys }), StepReply::Found(_)));
    assert_eq!(shard.locks.counts(), (0, 1, 120_000));
}

#[test]
fn changed_key_reports_only_permanent_changes() {
    let mut shard = Shard::new();
    shard.engine.put(&HASHER.key(b"n"), &[b"1"], 0, at(200));
    let changed_key = |seen| {
        let step = prepare(id(100), &[], &[(b"n", seen)], vec![set(b"n", b"x")]);
        let Step::Prepare(prepare) = &step else { panic!() };
        shard.locks.changed_key(&shard.engine, prepare, &prepare.keys()).is_some()
    };
    assert!(
        changed_key(ObservedVersion::Version(at(199)))
            && changed_key(ObservedVersion::Absent(at(199)))
    );
    assert!(!changed_key(ObservedVersion::Version(at(200))));
    // It may be deleted by what is on its way: MSETNX.
    assert!(!changed_key(ObservedVersion::Absent(Timestamp::MAX)));
}

#[test]
fn transaction_is_prepared_decided_and_forgotten() {
    let mut shard = Shard::new();
    let incr = Command::Write(Write::Increment { key: b"n", by: 5 });
    let commands = vec![set(b"a", b"x"), incr, set(b"a", b"y")];
    let step = prepare(id(100), &[b"a", b"elsewhere", b"n"], &[], commands);
    let StepReply::Voted(Vote { at: locked_at, answers, .. }) = shard.step(200, &step) else {
        panic!()
    };
    assert_eq!((locked_at, answers[1].clone()), (at(200), (1, Reply::Int(5))));
    assert!(shard.locks.hides_newest(b"n") && !shard.locks.hides_at(b"n", at(199)));
    assert_eq!(shard.value(b"a"), None, "nothing is written yet");
    // Repeated, it says the same; another meets its locks.
    assert_eq!(
        shard.step(210, &step),
        voted(200, {
            let mut of_keys = answers.clone();
            of_keys.sort_by_key(|(place, _)| *place == 1);
            of_keys
        })
    );
    let other = prepare(id(101), &[], &[], vec![set(b"n", b"z")]);
    assert_eq!(why(shard.step(220, &other)), PrepareRefusal::Locked(b"n".as_slice().into()));
    let outcome = Outcome::Committed(at(250));
    let decide =
        Step::Decide { id: id(100), record: b"a", outcome: outcome.clone(), is_sure: false };
    let rest = vec![Name::from(b"elsewhere".as_slice())];
    assert_eq!(shard.step(300, &decide), StepReply::Record(RecordState::Committed(at(250)), rest));
    assert_eq!((shard.value(b"a"), shard.value(b"n")), (Some(b"y".into()), Some(b"5".into())));
    assert!(shard.locks.is_free() && shard.locks.needs_inspection());
    // What comes late does nothing more.
    assert!(matches!(shard.step(310, &step), StepReply::Voted(..)));
    let aborted =
        Step::Decide { id: id(100), record: b"a", outcome: Outcome::Aborted, is_sure: false };
    assert!(matches!(shard.step(320, &aborted), StepReply::Record(RecordState::Committed(_), _)));
    assert!(shard.locks.is_free(), "it was not locked anew");
    let forget = Step::Forget { all: vec![(id(99), b"o"), (id(100), b"a")], floor: None };
    assert_eq!(shard.step(330, &forget), StepReply::Done);
    assert!(!shard.locks.needs_inspection() && !shard.locks.is_empty());
    // When the id is refused, it is forgotten.
    assert_eq!(
        why(shard.step(100 + AGE_MAX_MS, &step)),
        PrepareRefusal::TooOld(at(100 + AGE_MAX_MS))
    );
    assert!(shard.locks.is_empty());
}

#[test]
fn floor_forgets_finished_transactions() {
    let mut shard = Shard::new();
    let all: [&'static [u8]; 4] = [b"a", b"b", b"c", b"d"];
    // Two are done, one of which has its record elsewhere; one is under way; one is another's.
    let steps = [100, 110, 120].map(|start| {
        let key = all[(start as usize - 100) / 10];
        let promised = if start == 110 { vec![] } else { vec![key] };
        prepare(id(start), &promised, &[], vec![set(key, b"x")])
    });
    let others = TxnId { coordinator: 8, ..id(90) };
    let other = prepare(others, &[b"d"], &[], vec![set(b"d", b"x")]);
    for (nr, step) in steps.iter().chain([&other]).enumerate() {
        assert!(matches!(shard.step(200 + nr as u64, step), StepReply::Voted(..)));
    }
    let outcome = Outcome::Committed(at(210));
    for (id, key) in [(id(100), b"a"), (others, b"d")] {
        shard
            .step(220, &Step::Decide { id, record: key, outcome: outcome.clone(), is_sure: false });
    }
    shard.step(230, &Step::Resolve { id: id(110), outcome, keys: keys(&[b"b"]) });
    assert_eq!(shard.locks.counts(), (1, 3, 3));
    let forget = |floor| Step::Forget { all: vec![(id(100), b"a".as_slice())], floor };
    shard.step(240, &forget(Some((7, at(120)))));
    assert_eq!(shard.locks.counts(), (1, 2, 1), "what is under way, and another's");
    // What comes late finds nothing, and leaves nothing.
    assert_eq!(why(shard.step(250, &steps[0])), PrepareRefusal::TooOld(at(250)));
    assert_eq!(why(shard.step(251, &steps[1])), PrepareRefusal::TooOld(at(251)));
    let look = Step::ReadRecord { id: id(100), record: b"a" };
    assert_eq!(shard.step(252, &look), StepReply::Record(RecordState::TooOld, vec![]));
    let prevent = Step::Prevent { id: id(110), keys: keys(&[b"b"]) };
    assert_eq!(
        shard.step(253, &prevent),
        StepReply::Found(vec![KeyFinding::Marked(Mark::Aborted)])
    );
    let resolve = Step::Resolve { id: id(110), outcome: Outcome::Aborted, keys: keys(&[b"b"]) };
    shard.step(254, &resolve);
    assert_eq!(shard.locks.counts(), (1, 2, 1));
    assert!(matches!(shard.step(255, &steps[2]), StepReply::Voted(..)), "it has its lock still");
    // A floor never falls, goes with both halves of a shard, and survives a checkpoint.
    shard.step(260, &forget(Some((7, at(105)))));
    let mut right = shard.locks.split_off(&Cut::Key(b"c".as_slice().into()));
    assert!(shard.locks.is_below_floor(id(119)) && right.is_below_floor(id(119)));
    right.raise_floor(7, at(115));
    right.raise_floor(9, at(100));
    shard.locks.unite(right);
    let mut bytes = Vec::new();
    shard.locks.encode(&mut bytes);
    let read = Locks::decode(&mut Reader::new(&bytes)).expect("the bytes were written here");
    assert_eq!(read, shard.locks);
    assert!(read.is_below_floor(id(119)) && !read.is_below_floor(id(120)));
    // It is not needed when all below it is too old anyway.
    shard.locks.forget(at(100 + AGE_MAX_MS));
    assert_eq!(shard.locks.floors.len(), 1, "that of what is under way");
}

#[test]
fn prevented_or_aborted_id_takes_no_lock() {
    let mut shard = Shard::new();
    let step = prepare(id(100), &[b"a"], &[], vec![set(b"a", b"x")]);
    let prevent = Step::Prevent { id: id(100), keys: keys(&[b"a"]) };
    assert_eq!(
        shard.step(200, &prevent),
        StepReply::Found(vec![KeyFinding::Marked(Mark::Aborted)])
    );
    assert_eq!(why(shard.step(210, &step)), PrepareRefusal::Aborted);
    // Another attempt is another matter.
    let again = TxnId { attempt: 1, ..id(100) };
    let step = prepare(again, &[b"a"], &[], vec![set(b"a", b"x")]);
    assert!(matches!(shard.step(220, &step), StepReply::Voted(..)));
    let prevent = Step::Prevent { id: again, keys: keys(&[b"a"]) };
    let StepReply::Found(found) = shard.step(230, &prevent) else { panic!() };
    assert!(matches!(found[..], [KeyFinding::Locked(_)]), "the lock is there: {found:?}");
    // Only its own id's end is the end of a lock.
    let resolve = |id| Step::Resolve { id, outcome: Outcome::Aborted, keys: keys(&[b"a"]) };
    shard.step(240, &resolve(id(100)));
    assert!(shard.locks.hides_newest(b"a"));
    shard.step(250, &resolve(again));
    assert!(shard.locks.is_free() && shard.value(b"a").is_none());
    assert_eq!(why(shard.step(260, &step)), PrepareRefusal::Aborted);
    // A record that nobody has made is ABORTED, and so is what would make it.
    let look = Step::ReadRecord { id: id(270), record: b"a" };
    assert_eq!(shard.step(280, &look), StepReply::Record(RecordState::Aborted, vec![]));
    let step = prepare(id(270), &[b"a"], &[], vec![set(b"a", b"x")]);
    assert_eq!(why(shard.step(290, &step)), PrepareRefusal::Aborted);
    let late = Step::ReadRecord { id: id(300), record: b"a" };
    assert_eq!(shard.step(300 + AGE_MAX_MS, &late), StepReply::Record(RecordState::TooOld, vec![]));
}

/// RESOLVE leaves of a key what its commands would have left of it at once: a deletion, too, where
/// something was made and deleted again; and none, where there was nothing to delete.
#[test]
fn watch_of_absent_key_fails_if_key_existed() {
    let delete = |key| Command::Write(Write::Delete { key });
    let expire = Command::Write(Write::Expire { key: b"k", at: 1, when: ExpireIf::default() });
    let (when, reply) = (SetIf::Always, SetReply::Ok);
    let ended = Write::Set { key: b"k", value: b"1", when, expiry: Expiry::At(1), reply };
    let all = [
        (vec![set(b"k", b"1"), delete(b"k")], true),
        (vec![set(b"k", b"1"), expire], true),
        (vec![Command::Write(ended)], true),
        (vec![delete(b"k")], false),
        (vec![Command::Read(Read::Get(b"k"))], false),
    ];
    for (commands, writes) in all {
        let mut shard = Shard::new();
        let step = prepare(id(100), &[], &[], commands.clone());
        assert!(matches!(shard.step(200, &step), StepReply::Voted(..)));
        assert_eq!(shard.locks.hides_newest(b"k"), writes, "{commands:?}");
        let outcome = Outcome::Committed(at(205));
        shard.step(220, &Step::Resolve { id: id(100), outcome, keys: keys(&[b"k"]) });
        assert!(shard.engine.is_empty(at(220)));
        let key = HASHER.key(b"k");
        let left = if writes { at(205) } else { Timestamp::ZERO };
        assert_eq!(shard.engine.newest_timestamp(&key), left, "{commands:?}");
        // The last of several shards does them at once.
        let mut other = Shard::new();
        other.step(205, &last(prepare(id(100), &[], &[], commands), at(150)));
        assert_eq!(other.engine.newest_timestamp(&key), left);
        assert_eq!(other.engine.usage(), shard.engine.usage());
        let watched = |since| [(&b"k"[..], ObservedVersion::Absent(at(since)))];
        let step = prepare(id(102), &[], &watched(205), vec![]);
        assert!(matches!(shard.step(230, &step), StepReply::Voted(..)), "it was absent again");
        shard.step(
            240,
            &Step::Resolve { id: id(102), outcome: Outcome::Aborted, keys: keys(&[b"k"]) },
        );
        let reply = shard.step(250, &prepare(id(103), &[], &watched(204), vec![]));
        let changed = StepReply::Refused(PrepareRefusal::Changed(b"k"[..].into()));
        assert_eq!(reply == changed, writes, "{reply:?}");
    }
}

#[test]
fn prepare_judges_watched_keys() {
    let mut shard = Shard::new();
    shard.engine.put(&HASHER.key(b"k"), &[b"v"], 0, at(50));
    let seen = |time| [(b"k".as_slice(), ObservedVersion::Version(at(time)))];
    let step = prepare(id(100), &[], &seen(50), vec![set(b"a", b"x")]);
    assert!(matches!(shard.step(200, &step), StepReply::Voted(..)));
    // What is only read is locked for writers, and hidden from nobody.
    assert!(shard.locks.get(b"k").is_some() && !shard.locks.hides_newest(b"k"));
    let other = prepare(id(101), &[], &seen(49), vec![]);
    assert_eq!(why(shard.step(210, &other)), PrepareRefusal::Locked(b"k".as_slice().into()));
    let outcome = Outcome::Committed(at(205));
    let keys = keys(&[b"a", b"k"]);
    shard.step(220, &Step::Resolve { id: id(100), outcome, keys });
    assert_eq!(shard.value(b"k"), Some(b"v".into()));
    let other = prepare(id(102), &[], &seen(49), vec![]);
    assert_eq!(why(shard.step(230, &other)), PrepareRefusal::Changed(b"k".as_slice().into()));
    // Errors of single commands do not undo the others.
    let word = Command::Write(Write::Increment { key: b"k", by: 1 });
    let step = prepare(id(103), &[], &[], vec![word, set(b"b", b"y")]);
    let StepReply::Voted(Vote { answers, .. }) = shard.step(240, &step) else { panic!() };
    assert_eq!(answers[0], (0, Reply::Refused(Refusal::NotInteger)));
    assert_eq!(
        shard.step(250, &prepare(id(104), &[], &[], vec![set(b"elsewhere", b"")])),
        StepReply::Moved
    );
}

#[test]
fn split_divides_lock_table_and_merge_unites_it() {
    let mut shard = Shard::new();
    let commands = || vec![set(b"a", b"x"), set(b"m", b"y")];
    shard.step(200, &prepare(id(100), &[b"a", b"m"], &[], commands()));
    shard.step(210, &Step::Prevent { id: id(90), keys: keys(&[b"b", b"z"]) });
    let before = shard.locks.clone();
    let right = shard.locks.split_off(&Cut::Key(b"m"[..].into()));
    assert_eq!((right.counts(), shard.locks.counts()), ((1, 0, 1), (1, 1, 1)));
    assert!(right.needs_inspection() && right.get(b"m").is_some());
    let released = shard.locks.released();
    shard.locks.unite(right);
    assert_eq!(shard.locks, before);
    assert_eq!((shard.locks.bytes, shard.locks.unfinished), (before.bytes, before.unfinished));
    assert!(shard.locks.released() > released, "waiting transactions look again");
}

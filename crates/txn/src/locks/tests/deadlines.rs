//! Deadlines of locks: a value that a transaction has read may expire before it commits.

use super::*;

/// A value of key k that ends at 270 ms.
fn ending() -> Shard {
    let mut shard = Shard::new();
    let (key, end) = (&b"k"[..], Expiry::At(270));
    let (when, reply) = (SetIf::Always, SetReply::Ok);
    let set = Write::Set { key, value: b"v", when, expiry: end, reply };
    command::apply(&mut shard.engine, &set, at(200));
    shard
}

fn deadline_of(reply: StepReply) -> Option<u64> {
    let StepReply::Voted(vote) = reply else { panic!("{reply:?}") };
    vote.deadline.millis()
}

#[test]
fn lock_deadline_is_earliest_expiry_of_read_values() {
    let append = || Command::Write(Write::Append { key: b"k", value: b"x", bytes_max: 100 });
    let get = || Command::Read(Read::Get(b"k"));
    let of = |watched: &[(&'static [u8], ObservedVersion)], commands| {
        deadline_of(ending().step(250, &prepare(id(100), &[], watched, commands)))
    };
    let seen = [(&b"k"[..], ObservedVersion::Version(at(200)))];
    assert_eq!(of(&[], vec![append()]), Some(270));
    assert_eq!(of(&[], vec![set(b"a", b"x"), get()]), Some(270), "it was only read");
    assert_eq!(of(&seen, vec![set(b"a", b"x")]), Some(270), "it was only watched");
    assert_eq!(of(&[], vec![set(b"k", b"x")]), None, "nothing was looked at");
    let mut expired = ending();
    assert_eq!(deadline_of(expired.step(280, &prepare(id(100), &[], &[], vec![append()]))), None);
    // What the transaction itself has written, and looks at again.
    let (key, value, reply) = (&b"b"[..], &b"x"[..], SetReply::Ok);
    let (when, expiry) = (SetIf::Always, Expiry::At(265));
    let own = || Command::Write(Write::Set { key, value, when, expiry, reply });
    assert_eq!(of(&[], vec![own()]), None, "it would end at once");
    assert_eq!(of(&[], vec![own(), Command::Read(Read::Get(b"b")), get()]), Some(265));
}

#[test]
fn deadline_survives_repetition_prevent_and_codec() {
    let mut shard = ending();
    let get = Command::Read(Read::Get(b"k"));
    let step = prepare(id(100), &[], &[], vec![set(b"a", b"x"), get]);
    shard.step(250, &step);
    assert_eq!(deadline_of(shard.step(300, &step)), Some(270), "the same reply again");
    let prevent = Step::Prevent { id: id(100), keys: keys(&[b"a", b"k"]) };
    let StepReply::Found(found) = shard.step(310, &prevent) else { panic!() };
    for finding in &found {
        let KeyFinding::Locked(vote) = finding else { panic!("{finding:?}") };
        assert_eq!((vote.at, vote.deadline), (at(250), Deadline::of(270)), "each lock has it");
    }
    let reply = StepReply::Found(found);
    let (mut bytes, mut of_locks) = (Vec::new(), Vec::new());
    reply.encode(&mut bytes);
    assert_eq!(StepReply::decode(&mut Reader::new(&bytes)), Ok(reply));
    shard.locks.encode(&mut of_locks);
    assert_eq!(Locks::decode(&mut Reader::new(&of_locks)).as_ref(), Ok(&shard.locks));
}

#[test]
fn old_prepare_entries_have_no_deadline() {
    let Step::Prepare(now) = prepare(id(100), &[], &[], vec![Command::Read(Read::Get(b"k"))])
    else {
        panic!()
    };
    for role in [Role::Votes, Role::Commits(at(240))] {
        let before = Step::Prepare(Prepare { role, deadline: None, ..now.clone() });
        let after = Step::Prepare(Prepare { role, ..now.clone() });
        let [mut old, mut new] = [Vec::new(), Vec::new()];
        before.encode(&mut old);
        after.encode(&mut new);
        let commits = usize::from(role != Role::Votes);
        assert_eq!(new.len(), old.len() + 8 * commits, "a flag, and the deadline of what commits");
        for (bytes, step) in [(&old, &before), (&new, &after)] {
            let read = Step::decode(&mut Reader::new(bytes)).map(|step| format!("{step:?}"));
            assert_eq!(read, Ok(format!("{step:?}")));
        }
        assert_eq!(deadline_of(ending().step(250, &before)), None, "as those who applied it had");
    }
}

#[test]
fn last_shard_commits_below_deadlines_of_others() {
    let mut shard = Shard::new();
    let Step::Prepare(prepare) = prepare(id(100), &[b"elsewhere"], &[], vec![set(b"a", b"x")])
    else {
        panic!()
    };
    let (role, deadline) = (Role::Commits(at(250)), Some(Deadline::of(270)));
    let step = Step::Prepare(Prepare { role, deadline, ..prepare });
    let mut in_time = Shard::new();
    assert!(matches!(in_time.step(269, &step), StepReply::Voted(_)));
    assert!(matches!(in_time.step(300, &step), StepReply::Voted(_)), "it was done before");
    assert_eq!(why(shard.step(270, &step)), PrepareRefusal::Expired);
    assert_eq!(shard.value(b"a"), None);
}

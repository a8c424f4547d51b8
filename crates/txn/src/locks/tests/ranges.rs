//! Locks of ranges: they block new keys, and a split divides them.

use super::*;

fn ranged(
    id: TxnId,
    range: KeyRange<'static>,
    watched: &[(&'static [u8], ObservedVersion)],
    commands: Vec<Command<'static>>,
) -> Step<'static> {
    let mut step = prepare(id, &[], watched, commands);
    if let Step::Prepare(prepare) = &mut step {
        prepare.part.ranges.push(range);
    }
    step
}

/// A key that has come since a range was read is found; and none comes while it is locked.
#[test]
fn range_lock_blocks_new_keys() {
    let mut shard = Shard::new();
    let hasher = shard.engine.hasher();
    shard.engine.put(&hasher.key(b"c"), &[b"1"], 0, at(50));
    let range = (&b"b"[..], Some(&b"m"[..]));
    let reply = shard.step(200, &ranged(id(100), range, &[], vec![]));
    assert_eq!(why(reply), PrepareRefusal::Changed(b"c"[..].into()), "it was not seen");
    let seen = [(&b"c"[..], ObservedVersion::Version(at(50)))];
    assert!(matches!(
        shard.step(210, &ranged(id(100), range, &seen, vec![])),
        StepReply::Voted(..)
    ));
    let stops = |shard: &Shard, key: &[u8]| shard.locks.blocking_lock(key).map(|lock| lock.id);
    let inside: [&[u8]; 4] = [b"b", b"c", b"d", b"lzz"];
    inside.iter().for_each(|key| assert_eq!(stops(&shard, key), Some(id(100))));
    assert_eq!((stops(&shard, b"azz"), stops(&shard, b"m")), (None, None));
    assert!(!shard.locks.hides_newest(b"c") && !shard.locks.hides_newest(b"d"), "it may be read");
    let other = prepare(id(101), &[], &[], vec![set(b"d", b"z")]);
    assert_eq!(why(shard.step(220, &other)), PrepareRefusal::Locked(b"d"[..].into()));
    // A range that has another's lock in it, or lies in another's.
    let wide = ranged(id(102), (b"a", None), &seen, vec![]);
    assert_eq!(why(shard.step(230, &wide)), PrepareRefusal::Locked(b"c"[..].into()));
    let narrow = ranged(id(103), (b"e", Some(b"f")), &[], vec![]);
    assert_eq!(why(shard.step(240, &narrow)), PrepareRefusal::Locked(b"e"[..].into()));
    let outcome = Outcome::Committed(at(215));
    let resolve = Step::Resolve { id: id(100), outcome, keys: keys(&[b"b", b"c"]) };
    assert_eq!(shard.step(250, &resolve), StepReply::Done);
    inside.iter().for_each(|key| assert_eq!(stops(&shard, key), None));
}

/// Both halves of a range that is cut go on being locked, and each goes by itself.
#[test]
fn split_divides_range_lock() {
    let mut shard = Shard::new();
    assert!(matches!(
        shard.step(200, &ranged(id(100), (b"b", None), &[], vec![])),
        StepReply::Voted(..)
    ));
    let mut right = shard.locks.split_off(&Cut::Key(b"m"[..].into()));
    let stops = |locks: &Locks, key: &[u8]| locks.blocking_lock(key).is_some();
    assert!(stops(&shard.locks, b"lzz") && !stops(&shard.locks, b"m"));
    assert!(stops(&right, b"m") && stops(&right, b"zz"));
    let mut bytes = Vec::new();
    right.encode(&mut bytes);
    assert_eq!(Locks::decode(&mut Reader::new(&bytes)).as_ref(), Ok(&right));
    // A cut at a key that the same transaction has locked.
    let mut shard = Shard::new();
    let both = ranged(id(100), (b"b", Some(b"y")), &[], vec![set(b"m", b"v")]);
    assert!(matches!(shard.step(200, &both), StepReply::Voted(..)));
    let of_right = shard.locks.split_off(&Cut::Key(b"m"[..].into()));
    assert!(of_right.hides_newest(b"m") && stops(&of_right, b"xzz") && !stops(&of_right, b"y"));
    // United again, they stop what they did.
    right = of_right;
    shard.locks.unite(right);
    [&b"b"[..], b"l", b"m", b"x"].iter().for_each(|key| assert!(stops(&shard.locks, key)));
    assert!(!stops(&shard.locks, b"y"));
}

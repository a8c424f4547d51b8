//! FORGET and its floor: shards forget finished transactions, and keep running ones.

use super::*;

/// A vote is lost on its way, another finishes the transaction, and the shard is asked again when
/// long answers are forgotten: an answer is not passed off as another command's, or as nil.
#[test]
fn forgotten_replies_are_not_replaced_by_others() {
    let mut world = World::new(1);
    world.coordinators[0].conflicts = ConflictRate::default();
    let names: Vec<Vec<u8>> = (0..ACCOUNTS).map(ledger).collect();
    let commands = names.iter().map(|key| Command::Read(Read::Get(key))).collect();
    let transaction = Transaction { commands, ..Transaction::default() };
    let keyspace = world.keyspace.id;
    world.with(0, |c, at, routes| c.begin(keyspace, &transaction, 7, at, routes));
    assert!(world.sent_steps.len() > 1, "it is of several shards");
    for (_, _, shard, step) in world.sent_steps.clone() {
        assert!(matches!(world.apply(shard, &step), StepReply::Voted(..)));
    }
    let shard = world.map.shard_of(&names[0]);
    let stuck = {
        let state = &world.shards[&shard];
        let (key, lock) = state.locks.iter().next().expect("the key is locked");
        AbandonedTxn {
            keyspace,
            id: lock.id,
            record: Box::from(&*lock.record),
            keys: vec![key.into()],
        }
    };
    world.with(1, |c, at, routes| c.finish(stuck, at, routes));
    settle(&mut world, 1);
    settle(&mut world, 0);
    world.now += FORGET_NANOS;
    for who in 0..2 {
        assert!(!world.coordinators[who].is_busy() && world.coordinators[who].waits());
        world.with(who, |c, at, routes| c.tick(at, routes));
        settle(&mut world, who);
    }
    assert!(world.shards.values().all(|state| !state.locks.needs_inspection()));
    assert_eq!(world.ended.get(&7), Some(&TxnOutcome::Unknown));
    assert!(world.coordinators.iter().all(Coordinator::is_idle));
}

/// The floor that goes with FORGET leaves what is under way alone, and follows it.
#[test]
fn floor_is_below_running_transactions() {
    let mut world = World::new(1);
    world.coordinators[0].conflicts = ConflictRate::default();
    let keyspace = world.keyspace.id;
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let begin = |world: &mut World, token: u64, keys: &[Vec<u8>]| {
        let incr = |key: &Vec<u8>| Command::Write(Write::Increment { key: leak(key), by: 1 });
        let commands = keys.iter().map(incr).collect();
        let transaction = Transaction { commands, ..Transaction::default() };
        world.with(0, |c, at, routes| c.begin(keyspace, &transaction, token, at, routes));
    };
    // The floors that it tells when it is time, and that is done.
    let forget = |world: &mut World| {
        world.now += FORGET_NANOS;
        world.with(0, |c, at, routes| c.tick(at, routes));
        let floors = world.sent_steps.iter().filter_map(|(_, _, _, step)| {
            let step = Step::decode(&mut Reader::new(step)).expect("the bytes were encoded here");
            if let Step::Forget { floor, .. } = step { floor } else { None }
        });
        let floors: Vec<(u64, Timestamp)> = floors.collect();
        settle(world, 0);
        floors
    };
    let started = |world: &World, key: &[u8]| {
        let state = &world.shards[&world.map.shard_of(key)];
        state.locks.get(key).map(|lock| lock.id.start)
    };
    // One is under way: its steps are done, and its coordinator does not know yet.
    begin(&mut world, 1, &keys[..3]);
    let first = std::mem::take(&mut world.sent_steps);
    let reply: Vec<StepReply> =
        first.iter().map(|(_, _, shard, step)| world.apply(*shard, step)).collect();
    let start = started(&world, &keys[0]).expect("the key is locked");
    world.now += 5_000_000;
    begin(&mut world, 2, &keys[3..]);
    settle(&mut world, 0);
    let floors = forget(&mut world);
    assert!(!floors.is_empty() && floors.iter().all(|floor| *floor == (0, start)), "{floors:?}");
    // It goes on, and is over.
    for ((_, ask, ..), reply) in first.into_iter().zip(reply) {
        world.with(0, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
    }
    settle(&mut world, 0);
    assert!(matches!(world.ended.get(&1), Some(TxnOutcome::Done(_))));
    let floors = forget(&mut world);
    assert!(!floors.is_empty() && floors.iter().all(|floor| floor.1 > start), "{floors:?}");
    // Who was told has forgotten all of it; the other's record is where nothing was told since.
    let counts = world.shards.values().map(|state| state.locks.counts());
    assert_eq!(counts.map(|(locks, records, _)| locks + records).sum::<usize>(), 1);
}

//! Transactions over two keyspaces: accounts are in one, ledgers in the other.

use super::*;

#[test]
fn transaction_over_two_keyspaces_is_atomic_under_faults() {
    let (mut done, mut not_done) = (0, 0);
    for seed in 0..150 {
        let (one, other) = play(World::with_ledgers_in(seed, "l"), seed);
        done += one;
        not_done += other;
    }
    assert!(done > 400 && not_done > 400, "{done} were done, {not_done} were not");
}

/// A keyspace is dropped at some moment of a transaction over it and another one: what was
/// acknowledged stays in the other, and no lock is left there.
#[test]
fn keyspace_is_dropped_under_a_transaction() {
    for (dropped, steps) in (0..2).flat_map(|dropped| (0..16).map(move |steps| (dropped, steps))) {
        let mut world = World::with_ledgers_in(1, "l");
        let commands = transfer(0, 1, 5, 7).into_iter().map(|(key, by, name)| match by {
            Some(by) => Command::Write(Write::Increment { key: leak(&key), by }),
            None => Command::Write(Write::append(leak(&key), leak(&name))),
        });
        world.begin(0, commands.collect(), 7);
        let mut done = 0;
        while done < steps && !world.sent_steps.is_empty() {
            let (who, ask, shard, step) = world.sent_steps.remove(0);
            let reply = world.apply(shard, &step);
            world.with(who, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
            done += 1;
        }
        let (other, map) = world.ledgers.clone().expect("there are two");
        let gone = if dropped == 0 { other } else { world.keyspace.id };
        world.shards.retain(|_, state| state.arc.keyspace() != gone);
        match dropped {
            0 => world.ledgers = None,
            _ => (world.keyspace.id, world.map, world.ledgers) = (other, map, None),
        }
        for round in 0..40 {
            while let Some((who, ask, shard, step)) = world.sent_steps.pop() {
                let reply = match world.shards.contains_key(&shard) {
                    true => Ok(world.apply(shard, &step)),
                    false => Err(NotDone::NoSuchShard),
                };
                world.with(who, |c, at, routes| c.answered(ask, reply, at, routes));
            }
            world.now += 100_000_000;
            (0..CLIENTS).for_each(|who| world.with(who, |c, at, routes| c.tick(at, routes)));
            // Nobody takes it for abandoned before its coordinator has gone on.
            if round % 8 == 7 && round < 30 {
                world.find_abandoned();
            }
        }
        let is_done = matches!(world.ended.get(&7), Some(TxnOutcome::Done(_)));
        let key = if dropped == 0 { account(0) } else { ledger(0) };
        let value = String::from_utf8(world.value(&key).expect("it has one")).expect("text");
        let is_there = value.trim() == if dropped == 0 { "95" } else { "7" };
        assert!(!is_done || is_there, "{dropped} dropped after {steps} steps: {value:?}");
        assert!(world.coordinators.iter().all(Coordinator::is_empty), "{dropped}, {steps}");
    }
}

/// A keyspace is dropped at some moment of a transaction that flushes it and another one. Only if
/// the step that commits is lost with it, nobody knows. Else it is done, or nothing is done and the
/// client may run it again with the keyspaces that are left; and no lock stays.
#[test]
fn keyspace_is_dropped_under_a_flush_of_all() {
    let mut unknown = 0;
    for (dropped, steps) in (0..2).flat_map(|dropped| (0..34).map(move |steps| (dropped, steps))) {
        let mut world = World::with_ledgers_in(1, "l");
        let (other, map) = world.ledgers.clone().expect("there are two");
        let flush = || Some(Box::new(command::Flush::All));
        let part = Transaction { flush: flush(), ..Transaction::default() };
        let whole = [(world.keyspace.id, &part), (other, &part)];
        world.with(0, |c, at, routes| c.begin_spanning(&whole, 7, None, at, routes));
        let mut commits = false;
        for _ in 0..steps {
            if world.sent_steps.is_empty() {
                break;
            }
            let (who, ask, shard, step) = world.sent_steps.remove(0);
            let reply = world.apply(shard, &step);
            world.with(who, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
            commits = world.sent_steps.iter().any(|(.., step)| {
                let step = Step::decode(&mut Reader::new(step)).expect("it was encoded here");
                matches!(step, Step::Prepare(Prepare { role: Role::Commits(_), .. }))
            });
        }
        let gone = if dropped == 0 { other } else { world.keyspace.id };
        world.shards.retain(|_, state| state.arc.keyspace() != gone);
        match dropped {
            0 => world.ledgers = None,
            _ => (world.keyspace.id, world.map, world.ledgers) = (other, map, None),
        }
        for _ in 0..40 {
            while let Some((who, ask, shard, step)) = world.sent_steps.pop() {
                let reply = match world.shards.contains_key(&shard) {
                    true => world.apply(shard, &step),
                    false => StepReply::Moved,
                };
                world.with(who, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
            }
            world.now += 100_000_000;
            (0..CLIENTS).for_each(|who| world.with(who, |c, at, routes| c.tick(at, routes)));
        }
        let key = if dropped == 0 { account(0) } else { ledger(0) };
        let is_there = world.shards[&world.shard_of(&key)]
            .engine
            .newest(&HASHER.key(&key), Timestamp::MAX)
            .is_some();
        match world.ended.get(&7) {
            Some(TxnOutcome::Done(_)) => assert!(!is_there, "{dropped}, {steps}"),
            Some(TxnOutcome::NoKeyspace) => assert!(is_there, "{dropped}, {steps}"),
            Some(TxnOutcome::Unknown) if commits && dropped == 0 => unknown += 1,
            ended => panic!("{dropped} dropped after {steps} steps: {ended:?}"),
        }
        assert!(world.shards.values().all(|state| state.locks.is_free()), "{dropped}, {steps}");
        assert!(world.coordinators.iter().all(Coordinator::is_empty), "{dropped}, {steps}");
    }
    assert_eq!(unknown, 1);
}

//! Transactions that are tried again: until when, after which pause, and what they report.

use super::*;

/// What is begun again is not tried for longer than if it had been tried all the time.
#[test]
fn restarted_transaction_keeps_its_deadline() {
    let mut world = World::new(1);
    world.now += world.coordinators[1].request_timeout;
    let keyspace = world.keyspace.id;
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let incr = |key: &Vec<u8>| Command::Write(Write::Increment { key: leak(key), by: 1 });
    let commands = keys.iter().map(incr).collect();
    let transaction = Transaction { commands, ..Transaction::default() };
    world.with(0, |c, at, routes| c.begin(keyspace, &transaction, 1, at, routes));
    let held = std::mem::take(&mut world.sent_steps);
    for (_, _, shard, step) in &held {
        assert!(matches!(world.apply(*shard, step), StepReply::Voted(..)));
    }
    for (token, ago) in [(2, 2), (3, 1)] {
        let since = world.now + 1_000_000 * ago - world.coordinators[1].request_timeout;
        world.with(1, |c, at, routes| {
            let key = Some(account(0).into());
            let before = Some(ConflictRetry { since, key, reserved_as: None });
            c.begin_again(keyspace, &transaction, token, before, at, routes);
        });
    }
    world.now += 1_000_000;
    for _ in 0..20 {
        let sent_steps = std::mem::take(&mut world.sent_steps);
        for (who, ask, shard, step) in sent_steps {
            let reply = world.apply(shard, &step);
            world.with(who, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
        }
    }
    assert!(matches!(world.ended.get(&3), Some(TxnOutcome::Busy(Some(_)))), "{:?}", world.ended);
    assert_eq!(world.ended.get(&2), None, "it has a millisecond left");
    world.now += 1_000_000;
    settle(&mut world, 1);
    assert!(matches!(world.ended.get(&2), Some(TxnOutcome::Busy(Some(_)))), "{:?}", world.ended);
    // Begun when its time is over, it says whose fault that was.
    let since = world.now - world.coordinators[1].request_timeout;
    let key = Some((*b"w").into());
    let before = Some(ConflictRetry { since, key, reserved_as: None });
    world.with(1, |c, at, routes| c.begin_again(keyspace, &transaction, 4, before, at, routes));
    assert_eq!(world.ended.get(&4), Some(&TxnOutcome::Busy(Some((*b"w").into()))));
}

/// A client that met conflicts before, and then a shard without a leader, gets the shard's error.
#[test]
fn unanswered_step_reports_no_conflicting_key() {
    let mut world = World::new(1);
    world.coordinators[0].conflicts = ConflictRate::default();
    world.now += world.coordinators[0].request_timeout;
    let keyspace = world.keyspace.id;
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let incr = |key: &Vec<u8>| Command::Write(Write::Increment { key: leak(key), by: 1 });
    let commands = keys.iter().map(incr).collect();
    let transaction = Transaction { commands, ..Transaction::default() };
    let (since, key) = (world.now - 1, Some(account(0).into()));
    let before = Some(ConflictRetry { since, key, reserved_as: None });
    world.with(0, |c, at, routes| c.begin_again(keyspace, &transaction, 1, before, at, routes));
    let (who, ask, ..) = world.sent_steps.pop().expect("all shards are asked");
    world.with(who, |c, at, routes| c.answered(ask, Err(NotDone::NotLeader), at, routes));
    settle(&mut world, 0);
    assert_eq!(world.ended.get(&1), Some(&TxnOutcome::Busy(None)));
}

/// The clock of one shard is behind: it finds a value alive that has expired when the entry of
/// another shard would commit. An attempt fails for that, and the next one begins after a pause;
/// else one would follow the other at once, until that clock has come so far.
#[test]
fn next_attempt_pauses_after_missed_deadline() {
    let mut world = World::new(1);
    world.coordinators[0].conflicts = ConflictRate::default();
    world.now = 20_000_000_000;
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let behind = world.map.shard_of(&keys[0]);
    let other = keys.iter().find(|key| world.map.shard_of(key) != behind).expect("of all shards");
    for (shard, millis) in [(behind, 19_000), (world.map.shard_of(other), 21_000)] {
        world.times.insert(shard, millis);
        let shard = world.shards.get_mut(&shard).expect("the shard exists");
        shard.last = Timestamp::from_millis(millis);
        if shard.id == behind {
            shard.engine.put(&HASHER.key(&keys[0]), &[b"7"], 19_500, shard.last);
        }
    }
    let incr = |key: &[u8]| Command::Write(Write::Increment { key: leak(key), by: 1 });
    let commands = vec![incr(&keys[0]), incr(other)];
    let transaction = Transaction { commands, ..Transaction::default() };
    let keyspace = world.keyspace.id;
    world.with(0, |c, at, routes| c.begin(keyspace, &transaction, 1, at, routes));
    // Does all that is asked for, and says which attempt was the last.
    let settle = |world: &mut World| {
        let mut last = None;
        while !world.sent_steps.is_empty() {
            let (_, ask, shard, step) = world.sent_steps.remove(0);
            if let Ok(Step::Prepare(prepare)) = Step::decode(&mut Reader::new(&step)) {
                last = last.max(Some(prepare.id.attempt));
            }
            let reply = world.apply(shard, &step);
            world.with(0, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
        }
        last
    };
    // At once, and then one shard after the other.
    for attempt in 0..3 {
        assert_eq!(settle(&mut world), Some(attempt));
        world.with(0, |c, at, routes| c.tick(at, routes));
        assert_eq!(settle(&mut world), None, "it pauses");
        world.now += ROUTE_RETRY_NANOS;
        world.with(0, |c, at, routes| c.tick(at, routes));
    }
    world.times.insert(behind, 19_500);
    world.shards.get_mut(&behind).expect("the shard exists").last = Timestamp::from_millis(19_500);
    settle(&mut world);
    assert!(matches!(world.ended.get(&1), Some(TxnOutcome::Done(_))), "{:?}", world.ended);
}

//! Requests to a remote leader, and how the proxy finds it.

use super::*;

#[test]
fn proxy_reads_its_own_write() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    let key = FIRST_KEY;
    assert_eq!(two.get(key), None);
    two.set(key, "one", Expiry::Never);
    assert_eq!(two.get(key), Some("one".into()));
    two.write(5, &Write::append(key.as_bytes(), b"!"));
    match two.answers.pop() {
        Some(Answer::Applied { replies, spent, .. }) => {
            assert_eq!((replies, spent.waiters), (vec![Reply::Int(4)], vec![Waiter(5)]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(two.fetch(FetchRequest::Size { ends: two.ends() }), FetchResult::Size(1));
    let random = FetchResult::Random { size: 1, key: Some(key.as_bytes().into()) };
    assert_eq!(two.fetch(FetchRequest::Random { ends: two.ends(), number: 77 }), random);
    let scanned = two.fetch(FetchRequest::Scan {
        cursor: 0,
        end: two.arc.slots().expect("the keyspace is hashed").1,
        keys_max: 10,
    });
    assert_eq!(scanned, FetchResult::Keys { keys: vec![key.as_bytes().into()], next: None });
}

#[test]
fn proxy_judges_expiry_by_leaders_clock() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    let key = FIRST_KEY;
    two.set(key, "one", Expiry::At(1_000_500));
    assert_eq!(two.get(key), Some("one".into()));
    two.clock_there.observe_millis(1_000_600);
    assert_eq!(two.get(key), None);
    assert_eq!(two.fetch(FetchRequest::Size { ends: two.ends() }), FetchResult::Size(0));
    // At a past time it is still there.
    let at = keyspace::Timestamp::from_millis(1_000_400);
    match two.fetch(FetchRequest::At { key: key.as_bytes().into(), at }) {
        FetchResult::Then(PastValue::Value(held)) => assert_eq!(&*held.value, b"one"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn long_answers_come_in_pieces() {
    let mut two = TwoNodes::new(Placement::Ordered, &[THERE]);
    let long = "x".repeat(1 << 20);
    let names: Vec<String> = (0..12).map(|number| format!("key-{number:02}")).collect();
    for name in &names {
        two.set(name, &long, Expiry::Never);
    }
    let want = FetchRequest::keys(names.iter().map(|name| name.as_bytes()));
    two.asked.clear();
    match two.fetch(want) {
        FetchResult::Versions(versions) => {
            assert_eq!(versions.iter().flatten().count(), names.len());
            assert!(versions.iter().flatten().all(|held| held.value.len() == 1 << 20));
        }
        other => panic!("{other:?}"),
    }
    assert!(two.asked.len() > 2, "{} rpcs for 12 MiB", two.asked.len());
    for (reverse, with_values) in [(false, false), (true, false), (false, true), (true, true)] {
        let (low, high) = (Bound::Included(Box::from(&b"key-03"[..])), Bound::Unbounded);
        let want = FetchRequest::Range { low, high, reverse, keys_max: 3, with_values };
        let FetchResult::Pairs { pairs, .. } = two.fetch(want) else { panic!("no pairs") };
        let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| &**key).collect();
        let expected: [&[u8]; 3] = match reverse {
            false => [b"key-03", b"key-04", b"key-05"],
            true => [b"key-11", b"key-10", b"key-09"],
        };
        assert_eq!(keys, expected);
        assert!(pairs.iter().all(|(_, value)| value.is_empty() != with_values));
    }
}

#[test]
fn fetch_above_size_limit_of_asking_node_is_refused() {
    let mut two = TwoNodes::new(Placement::Ordered, &[THERE]);
    let long = "x".repeat(3 << 20);
    for name in ["a", "b", "c"] {
        two.set(name, &long, Expiry::Never);
    }
    two.bytes_max = 1 << 20;
    two.ask(FetchRequest::keys([&b"a"[..], b"b", b"c"]));
    assert!(matches!(two.answers.pop(), Some(Answer::NotDone { why: NotDone::TooLong, .. })));
}

#[test]
fn node_that_is_not_leader_is_not_asked_again() {
    let mut two = TwoNodes::new(Placement::Hashed, &[NOBODY_THERE, THERE]);
    let key = FIRST_KEY;
    two.ask(FetchRequest::keys([key.as_bytes()]));
    assert!(two.answers.is_empty());
    two.pass(10_000_000);
    assert!(matches!(two.answers.pop(), Some(Answer::Fetched { .. })));
    assert_eq!(two.asked, [NOBODY_THERE, THERE]);
    two.asked.clear();
    two.set(key, "one", Expiry::Never);
    assert!(two.asked.iter().all(|asked| *asked == THERE));
}

#[test]
fn known_leader_is_asked_first() {
    let mut two = TwoNodes::new(Placement::Hashed, &[NOBODY_THERE]);
    let both = [NOBODY_THERE, THERE];
    for (nodes, leader, version) in [
        (&both[..1], NOBODY_THERE, (1, 9)),
        // Newer replicas, but an older leader.
        (&both[..], NOBODY_THERE, (2, 8)),
        (&both[..], THERE, (2, 10)),
        // Older in both.
        (&both[..1], NOBODY_THERE, (1, 9)),
    ] {
        two.here
            .accept(Input::DescriptorLearned { known: known(two.shard, nodes, leader, version) });
    }
    two.ask(FetchRequest::Size { ends: two.ends() });
    assert_eq!(two.asked, [THERE]);
    assert!(matches!(two.answers.pop(), Some(Answer::Fetched { .. })));
}

#[test]
fn node_without_replica_answers_with_its_routes() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    let known = known(two.shard, &[THERE], THERE, (3, 4));
    two.here.accept(Input::DescriptorLearned { known: known.clone() });
    let rpc = RpcMessage::Fetch { shard: two.shard, number: 7, want: two.size() };
    two.here.accept(Input::Rpc { from: NOBODY_THERE, rpc });
    let mut effects = Effects::default();
    two.here.turn(&mut effects);
    match &effects.rpcs[..] {
        [(NOBODY_THERE, RpcMessage::NotLeader { known: Some(named), .. })] => {
            assert_eq!(**named, *known)
        }
        other => panic!("{other:?}"),
    }
}

/// A node that has just started, and has not heard of any other.
#[test]
fn catalogue_change_waits_until_earlier_leader_is_settled() {
    let mut executor = ShardExecutor::new(Arc::new(Clock::default()), HERE.0, 1 << 20);
    let mut effects = Effects::default();
    executor.observe(1_000_000_000);
    let (origin, waiter) = (ME, Waiter(1));
    executor.accept(Input::Catalogue { op: vec![1], origin, waiter });
    executor.turn(&mut effects);
    assert!(effects.answers.is_empty() && effects.rpcs.is_empty());
    executor.accept(Input::RemoteShard { shard: ShardId(0), nodes: vec![THERE] });
    executor.accept(Input::Tick);
    executor.turn(&mut effects);
    assert!(matches!(effects.rpcs[..], [(THERE, RpcMessage::Catalogue { .. })]), "{effects:?}");
}

#[test]
fn timed_out_waiter_gets_an_error() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    two.deaf = Some(THERE);
    two.ask(FetchRequest::Size { ends: two.ends() });
    two.write(4, &Write::Delete { key: FIRST_KEY.as_bytes() });
    two.pass(crate::executor::REQUEST_TIMEOUT_NANOS);
    let outcomes: Vec<NotDone> = two
        .answers
        .iter()
        .map(|answer| match answer {
            Answer::NotDone { why, .. } => *why,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(outcomes, [NotDone::OutcomeUnknown, NotDone::NotLeader]);
}

#[test]
fn waiters_of_dropped_shard_are_answered() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    two.deaf = Some(THERE);
    two.ask(FetchRequest::Size { ends: two.ends() });
    two.here.accept(Input::Drop { shard: two.shard });
    two.run();
    assert!(matches!(two.answers[..], [Answer::NotDone { why: NotDone::NoSuchShard, .. }]));
    two.ask(FetchRequest::Size { ends: two.ends() });
    assert!(matches!(two.answers[1..], [Answer::NotDone { why: NotDone::NoSuchShard, .. }]));
}

//! Times that a remote leader reports, and what local readers may conclude from them.

use super::*;

/// SAFETY G12, G13: the leader of the system shard is an hour ahead, and names a safe point.
#[test]
fn safe_point_ahead_of_shards_clock_collects_nothing() {
    let mut two = TwoNodes::new(Placement::Ordered, &[THERE]);
    two.run();
    let before = two.clock_there.now();
    let to = keyspace::Timestamp::from_millis(before.millis() + 3_600_000);
    two.there.accept(Input::RaiseShard { shard: two.shard, to: to.into() });
    two.run();
    let view = two.there.view(two.shard).expect("the shard is on this node");
    let state = view.read();
    let point = state.engine().expect("the shard has keys").safe_point();
    assert!(before <= point && point < state.last, "{point:?} of {:?}", state.last);
}

/// A leader without room for what it would write down is not asked again at once, and again.
#[test]
fn leader_with_full_disk_is_not_asked_again_at_once() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    let mut batch = Batch::default();
    batch.push(&Write::Increment { key: FIRST_KEY.as_bytes(), by: 1 }, Waiter(4));
    two.here.accept(Input::Propose { shard: two.shard, origin: ME, batch });
    let mut effects = Effects::default();
    two.here.turn(&mut effects);
    let asked = effects.rpcs.iter().find_map(|(_, rpc)| rpc.request_id()).expect("its clock");
    let rpc = RpcMessage::NoRoom { shard: two.shard, what: asked };
    two.here.accept(Input::Rpc { from: THERE, rpc });
    effects.clear();
    two.here.turn(&mut effects);
    assert!(effects.rpcs.is_empty(), "{:?}", effects.rpcs);
    two.pass(crate::replica::forward::NOT_LEADER_PAUSE_NANOS);
    assert!(matches!(two.answers.pop(), Some(Answer::Applied { .. })));
}

/// What a leader says to readers at followers holds up to its own time, which they judge by: what
/// is under way below it is waited for.
#[test]
fn leader_reports_time_below_all_writes_in_flight() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    let shard = two.shard;
    // So that the horizon is there.
    let at = keyspace::Timestamp::from_millis(1_000_000);
    two.fetch(FetchRequest::At { key: FIRST_KEY.as_bytes().into(), at });
    let mut batch = Batch::default();
    batch.push(&Write::Increment { key: FIRST_KEY.as_bytes(), by: 1 }, Waiter(4));
    two.there.accept(Input::Propose { shard, origin: ME, batch });
    let mut effects = Effects::default();
    two.there.turn(&mut effects);
    let mut tickets = vec![effects.ticket];
    two.clock_there.observe_millis(1_000_600);
    let at = keyspace::Timestamp::from_millis(999_000);
    two.there
        .accept(Input::Rpc { from: HERE, rpc: RpcMessage::ReadIndex { shard, number: 5, at } });
    let mut reply = None;
    for _ in 0..10 {
        effects.clear();
        two.there.turn(&mut effects);
        if !effects.records.is_empty() {
            tickets.push(effects.ticket);
        }
        reply = reply.or(effects.rpcs.pop());
        let applied = two.there.shard(shard).expect("the shard is on this node").applied_index();
        let Some((_, RpcMessage::ReadIndexReply { index, now_ms, .. })) = reply else {
            let ticket = tickets.remove(0);
            two.there.accept(Input::Written { ticket, lsn: storage::log::Lsn::default() });
            two.there.accept(Input::Durable { ticket });
            tickets.push(ticket);
            continue;
        };
        assert_eq!((index, now_ms), (applied, 1_000_600));
        let view = two.there.view(shard).expect("the shard is on this node");
        let state = view.read();
        let now = keyspace::Timestamp::from_millis(now_ms);
        assert!(state.unsettled.from() > now && state.horizon >= now);
        return;
    }
    panic!("never told");
}

/// … and is settled as far where they read.
#[test]
fn follower_is_settled_up_to_time_it_judges_by() {
    let mut forward = ForwardedWrites::default();
    let (clock, mut effects) = (Clock::default(), Effects::default());
    forward.read(keyspace::Timestamp(1), ME, Waiter(1), 5);
    let (shard, now, seed) = (ShardId(1), 5, 1);
    let post = SendContext { shard, leader: Some(THERE), now, clock: &clock, seed };
    forward.send(&post, &mut effects);
    let Some((_, RpcMessage::ReadIndex { number, .. })) = effects.rpcs.pop() else {
        panic!("no ask")
    };
    let leader_time = keyspace::Timestamp::from_millis(1_000_000);
    forward.read_at(number, 7, (1_000_000, leader_time), 6);
    let fit = forward.applied(7, &mut effects).expect("the index is applied");
    assert_eq!(fit.at, keyspace::Timestamp::from_millis(1_000_000));
}

/// A node whose clock is wrong, or which says so, draws no other along (SAFETY G12).
#[test]
fn leader_makes_no_promise_for_time_far_ahead() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    let shard = two.shard;
    let mut effects = Effects::default();
    for (number, millis) in [(1, 1_000_400), (2, 1_010_000), (3, u64::MAX >> 20)] {
        let at = keyspace::Timestamp::from_millis(millis);
        let from = HERE;
        two.there.accept(Input::Rpc { from, rpc: RpcMessage::ReadIndex { shard, number, at } });
        let key = FIRST_KEY.as_bytes().into();
        let want = FetchRequest::At { key, at };
        two.there.accept(Input::Rpc { from, rpc: RpcMessage::Fetch { shard, number, want } });
        let mut rpcs = Vec::new();
        for _ in 0..5 {
            two.there.turn(&mut effects);
            rpcs.extend(effects.rpcs.drain(..).map(|(_, rpc)| rpc));
            if !effects.records.is_empty() {
                let lsn = storage::log::Lsn::default();
                two.there.accept(Input::Written { ticket: effects.ticket, lsn });
                two.there.accept(Input::Durable { ticket: effects.ticket });
            }
            effects.clear();
        }
        rpcs.sort_by_key(|rpc| matches!(rpc, RpcMessage::ReadIndexReply { .. }));
        let is_near = number == 1;
        let [then, RpcMessage::ReadIndexReply { now_ms, .. }] = &rpcs[..] else {
            panic!("{rpcs:?}")
        };
        assert_eq!(matches!(then, RpcMessage::FetchReply { .. }), is_near, "{then:?}");
        assert_eq!(*now_ms, 1_000_400);
        assert!(two.clock_there.now().millis() <= 1_000_400);
        let view = two.there.view(shard).expect("the shard is on this node");
        assert!(view.read().horizon.millis() <= 1_000_400 + hlc::HORIZON_AHEAD_MILLIS);
    }
}

/// Reads go on while the leader's disk is full: a horizon is needed only for what has expired.
#[test]
fn reads_elsewhere_go_on_while_the_leaders_disk_is_full() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    let shard = two.shard;
    two.set(FIRST_KEY, "one", Expiry::At(1_700_000));
    let view = two.there.view(shard).expect("the shard is on this node");
    let horizon = view.read().horizon;
    two.clock_there.observe_millis(1_600_000);
    two.there.set_full(true);
    let applied = view.read().applied_index;
    assert_eq!(two.get(FIRST_KEY), Some("one".into()));
    assert_eq!(two.fetch(FetchRequest::Size { ends: two.ends() }), FetchResult::Size(1));
    // Readers at followers are told the time, and how far all is settled.
    let mut effects = Effects::default();
    let rpc = RpcMessage::ReadIndex { shard, number: 1, at: keyspace::Timestamp::ZERO };
    two.there.accept(Input::Rpc { from: HERE, rpc });
    two.there.turn(&mut effects);
    match effects.rpcs.pop() {
        Some((_, RpcMessage::ReadIndexReply { index, now_ms, settled, .. })) => {
            assert_eq!((index, now_ms, settled), (applied, 1_600_000, horizon));
        }
        other => panic!("{other:?}"),
    }
    // What has expired is said to be gone only when that is in the log.
    two.clock_there.observe_millis(1_800_000);
    let refused = |two: &mut TwoNodes, want| {
        two.ask(want);
        let answer = two.answers.pop();
        assert!(
            matches!(answer, Some(Answer::NotDone { why: NotDone::DiskFull, .. })),
            "{answer:?}"
        );
    };
    refused(&mut two, FetchRequest::keys([FIRST_KEY.as_bytes()]));
    let size = two.size();
    refused(&mut two, size);
    let at = keyspace::Timestamp::from_millis(1_650_000);
    refused(&mut two, FetchRequest::At { key: FIRST_KEY.as_bytes().into(), at });
    two.there.accept(Input::AwaitRead { shard, at, lock: None, origin: ME, waiter: Waiter(1) });
    two.there.turn(&mut effects);
    assert!(matches!(effects.answers[..], [Answer::NotDone { why: NotDone::DiskFull, .. }]));
    assert_eq!(view.read().applied_index, applied, "nothing was logged");
    two.there.set_full(false);
    assert_eq!(two.get(FIRST_KEY), None);
}

/// The asker's clock may be behind the leader's: without a time it is shown what the leader has
/// committed by now. A time that is asked for hides what came later, as always.
#[test]
fn history_up_to_now_shows_what_a_leader_ahead_has_written() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "one", Expiry::Never);
    let asked_at = two.clock_there.now();
    let ahead = asked_at.millis() + 3_600_000;
    two.clock_there.observe_millis(ahead);
    // A client of its own writes: what another node would forward is too old by its clock.
    let mut batch = Batch::default();
    batch.push(&Write::append(FIRST_KEY.as_bytes(), b", two"), Waiter(4));
    two.there.accept(Input::Propose { shard: two.shard, origin: ME, batch });
    two.run();
    let mut history = |at| {
        let want = FetchRequest::History { key: FIRST_KEY.as_bytes().into(), at, changes_max: 9 };
        match two.fetch(want) {
            FetchResult::History(found) => {
                found.changes.iter().map(|change| change.at().millis()).collect::<Vec<u64>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let all = history(UP_TO_NOW);
    assert!(matches!(all[..], [two, one] if two >= ahead && one <= asked_at.millis()), "{all:?}");
    assert_eq!(history(asked_at), all[1..]);
}

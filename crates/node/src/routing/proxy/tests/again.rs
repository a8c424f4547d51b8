//! What is asked again when nobody answers, or a link is lost, and is done once.

use super::*;

#[test]
fn write_to_silent_node_is_resent_and_done_once() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE, NOBODY_THERE]);
    let key = FIRST_KEY.as_bytes();
    two.deaf = Some(THERE);
    two.ask(FetchRequest::Size { ends: two.ends() });
    two.write(4, &Write::Increment { key, by: 1 });
    assert!(two.answers.is_empty());
    two.pass(crate::routing::proxy::SILENCE_NANOS);
    assert_eq!(two.asked.last(), Some(&NOBODY_THERE));
    two.deaf = None;
    for _ in 0..100 {
        two.pass(10_000_000);
    }
    let applied = two.answers.iter().filter(|answer| matches!(answer, Answer::Applied { .. }));
    assert_eq!((applied.count(), two.answers.len()), (1, 2), "{:?}", two.answers);
    assert_eq!(two.get(FIRST_KEY), Some("1".into()));
}

/// SAFETY G10. The first node may have put them into its log, and the second may have that log.
#[test]
fn no_room_at_second_leader_leaves_outcome_unknown() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE, NOBODY_THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    two.deaf = Some(THERE);
    let key = FIRST_KEY.as_bytes();
    two.write(4, &Write::Increment { key, by: 1 });
    two.write(5, &Write::Increment { key, by: 1 });
    two.here.accept(Input::LinkLost { node: THERE });
    let mut effects = Effects::default();
    two.here.turn(&mut effects);
    let sent = effects.rpcs.iter().find_map(|(to, rpc)| match rpc {
        RpcMessage::Write { id, .. } if *to == NOBODY_THERE => Some(*id),
        _ => None,
    });
    let BatchId { session, sequence, .. } = sent.expect("the first is sent once more");
    effects.clear();
    let what = RpcRequestId::Write { session, sequence };
    let rpc = RpcMessage::NoRoom { shard: two.shard, what };
    two.here.accept(Input::Rpc { from: NOBODY_THERE, rpc });
    two.here.turn(&mut effects);
    let unknown =
        |answer: &Answer| matches!(answer, Answer::NotDone { why: NotDone::OutcomeUnknown, .. });
    assert!(effects.answers.len() == 2 && effects.answers.iter().all(unknown), "{effects:?}");
}

#[test]
fn lost_link_resends_pending_requests_which_are_done_once() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    let key = FIRST_KEY.as_bytes();
    for waiter in 10..13 {
        let mut batch = Batch::default();
        batch.push(&Write::Increment { key, by: 1 }, Waiter(waiter));
        two.here.accept(Input::Propose { shard: two.shard, origin: ME, batch });
    }
    two.here.turn(&mut Effects::default());
    two.here.accept(Input::LinkLost { node: THERE });
    two.run();
    assert_eq!(two.answers.len(), 3, "{:?}", two.answers);
    assert_eq!(two.get(FIRST_KEY), Some("4".into()));
}

/// A step that asks for a record which is not there.
fn look() -> Bytes {
    let id = TxnId { start: Timestamp::from_millis(1_000_000), coordinator: 1, attempt: 0 };
    let mut bytes = Vec::new();
    Step::ReadRecord { id, record: FIRST_KEY.as_bytes() }.encode(&mut bytes);
    bytes.into()
}

/// What is sent while there is no link is lost; it does not wait for a resend.
#[test]
fn requests_without_link_are_resent_when_link_is_up() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    two.here.accept(Input::LinkLost { node: THERE });
    two.deaf = Some(THERE);
    two.write(4, &Write::Increment { key: FIRST_KEY.as_bytes(), by: 1 });
    two.ask(two.size());
    let (shard, step, origin, waiter) = (two.shard, look(), ME, Waiter(7));
    two.here.accept(Input::Step { shard, step, origin, waiter });
    two.run();
    assert!(two.answers.is_empty(), "{:?}", two.answers);
    two.deaf = None;
    two.run();
    assert!(two.answers.is_empty(), "nothing is sent without a reason: {:?}", two.answers);
    two.here.accept(Input::Linked { node: THERE });
    two.run();
    assert_eq!(two.answers.len(), 3, "{:?}", two.answers);
    assert_eq!(two.get(FIRST_KEY), Some("2".into()));
}

/// A node asks twice for a step that is being logged. The leader proposes it once, and answers
/// once.
#[test]
fn step_in_flight_is_not_proposed_again() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    let (shard, step) = (two.shard, look());
    let ask = |number| {
        let rpc = RpcMessage::Step { shard, number, step: step.clone() };
        Input::Rpc { from: HERE, rpc }
    };
    let mut effects = Effects::default();
    two.there.accept(ask(5));
    two.there.turn(&mut effects);
    let ticket = effects.ticket;
    assert!(!effects.records.is_empty(), "it is to be written");
    effects.clear();
    two.there.accept(ask(5));
    two.there.turn(&mut effects);
    assert!(effects.records.is_empty(), "it is written already");
    two.there.accept(Input::Durable { ticket });
    two.there.turn(&mut effects);
    let replies = effects.rpcs.iter();
    let replies = replies.filter(|(_, rpc)| matches!(rpc, RpcMessage::StepReply { number: 5, .. }));
    assert_eq!(replies.count(), 1, "{:?}", effects.rpcs);
    // What was told may be lost.
    effects.clear();
    two.there.accept(ask(5));
    two.there.turn(&mut effects);
    assert!(!effects.records.is_empty(), "it is asked for again");
}

/// A PREPARE that waited for a lock stands in line no more when its node's link is lost, and again
/// when it is asked for once more by the same number.
#[test]
fn prepare_dropped_with_link_is_accepted_again() {
    let mut two = TwoNodes::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    let (shard, key) = (two.shard, FIRST_KEY.as_bytes());
    let id = |coordinator| TxnId { start: two.clock_there.now(), coordinator, attempt: 0 };
    let (first, second) = (id(1), id(2));
    let prepare = |id| {
        let commands = vec![transaction::Step::Write(Write::Increment { key, by: 1 })];
        let part = Transaction { commands, ..Transaction::default() };
        let (is_first, record, promised, places) =
            (true, key, Keys::new(), Places::from_slice(&[0]));
        let (role, deadline, reserved_as) = (Role::Votes, Some(Deadline::NEVER), None);
        let prepare =
            Prepare { id, is_first, reserved_as, record, promised, role, deadline, places, part };
        Step::Prepare(prepare)
    };
    let (outcome, keys) = (Outcome::Aborted, Keys::from_slice(&[key]));
    let resolve = Step::Resolve { id: first, outcome, keys };
    let mut tells = |number: Option<(u64, &Step<'_>)>| {
        if let Some((number, step)) = number {
            let mut bytes = Vec::new();
            step.encode(&mut bytes);
            let rpc = RpcMessage::Step { shard, number, step: bytes.into() };
            two.there.accept(Input::Rpc { from: HERE, rpc });
        } else {
            two.there.accept(Input::LinkLost { node: HERE });
        }
        let (mut effects, mut replies) = (Effects::default(), Vec::new());
        loop {
            two.there.turn(&mut effects);
            if effects.is_empty() {
                return replies;
            }
            replies.extend(effects.rpcs.drain(..).filter_map(|(_, rpc)| match rpc {
                RpcMessage::StepReply {
                    number,
                    reply: StepReply::Voted(..) | StepReply::Done,
                    ..
                } => Some(number),
                _ => None,
            }));
            two.there.accept(Input::Durable { ticket: effects.ticket });
            effects.clear();
        }
    };
    assert_eq!(tells(Some((5, &prepare(first)))), [5]);
    assert_eq!(tells(Some((6, &prepare(second)))), [0u64; 0]);
    assert_eq!(tells(None), [0u64; 0]);
    assert_eq!(tells(Some((6, &prepare(second)))), [0u64; 0]);
    assert_eq!(tells(Some((7, &resolve))), [7, 6]);
}

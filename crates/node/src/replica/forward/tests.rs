//! What is sent when, and what is held how long.

use hlc::Clock;
use keyspace::NodeId;

use super::*;
use command::{Reply, Write, reply};

const LEADER: NodeId = NodeId(1);
const ME: Origin = Origin(3);

/// One [`ForwardedWrites`], and a leader that is told what to say.
struct One {
    /// Who answers questions.
    leads: NodeId,
    /// … and what time it tells.
    told_ms: u64,
    /// Times of the batches that were sent.
    sent_ms: Vec<u64>,
    forward: ForwardedWrites,
    clock: Clock,
    now: BootNanos,
    effects: Effects,
}

impl One {
    fn new() -> Self {
        let (forward, clock, effects) = Default::default();
        let (told_ms, sent_ms) = (1_000_000, Vec::new());
        Self { leads: LEADER, told_ms, sent_ms, forward, clock, now: 5, effects }
    }

    fn write(&mut self, waiter: u64, value: &[u8]) {
        let mut batch = Batch::default();
        batch.push(&Write::append(b"k", value), Waiter(waiter));
        self.forward.write(ME, batch, self.now, &mut self.effects);
    }

    /// Numbers of the batches that are sent now, if this one is held for the leader. If it is, its
    /// clock is told at once.
    fn send_to(&mut self, leader: NodeId) -> Vec<(u64, u64)> {
        let (shard, seed) = (ShardId(1), 1);
        let mut sent = Vec::new();
        loop {
            let Self { forward, clock, now, effects, .. } = self;
            let post = SendContext { shard, leader: Some(leader), now: *now, clock, seed };
            forward.send(&post, effects);
            let mut asked = false;
            for (_, rpc) in self.effects.rpcs.drain(..) {
                match rpc {
                    RpcMessage::Write { id, .. } => {
                        sent.push((id.session, id.sequence));
                        self.sent_ms.push(id.sent_ms);
                    }
                    RpcMessage::ReadIndex { .. } if leader != self.leads => {}
                    RpcMessage::ReadIndex { number, .. } => {
                        asked = true;
                        let leader_time = (self.told_ms, Timestamp::from_millis(self.told_ms));
                        self.forward.read_at(number, 1, leader_time, self.now);
                    }
                    other => panic!("{other:?}"),
                }
            }
            if !asked {
                return sent;
            }
            self.forward.applied(1, &mut self.effects);
        }
    }

    fn send(&mut self) -> Vec<(u64, u64)> {
        self.send_to(LEADER)
    }

    fn done(&mut self, batch: (u64, u64)) {
        self.replied(batch, Reply::Int(1));
    }

    fn replied(&mut self, (session, sequence): (u64, u64), with: Reply) {
        let mut replies = Vec::new();
        reply::encode_all(&[with], &mut replies);
        let verdict = BatchVerdict::Done(Some(replies.into()));
        self.forward.written(ShardId(1), session, sequence, verdict, &mut self.effects);
    }
}

/// A reply is lost and comes again behind a later one: what both batches lose to another shard goes
/// there as it came here.
#[test]
fn batches_that_are_turned_away_go_on_in_their_order() {
    let moved = || Reply::Moved { from: keyspace::Cut::Slot(0) };
    let waiters = |one: &One| -> Vec<u64> {
        let moved = one.effects.moved.iter();
        moved.map(|command| command.waiter.0).collect()
    };
    let mut one = One::new();
    (0..4).for_each(|waiter| one.write(waiter, b"v"));
    let sent = one.send();
    assert_eq!(sent.len(), 4);
    one.done(sent[0]);
    let rest = &sent[1..];
    one.replied(rest[1], moved());
    one.replied(rest[1], moved());
    assert!(waiters(&one).is_empty(), "the one before may be turned away, too");
    one.replied(rest[2], Reply::Int(1));
    assert_eq!(one.effects.answers.len(), 2, "what was done needs no order");
    one.replied(rest[0], moved());
    assert_eq!(waiters(&one), [1, 2]);
    assert!(one.forward.is_idle());
    assert_eq!(one.forward.held(), (0, 0));

    // The session ends before the first is heard of.
    let mut one = One::new();
    (0..3).for_each(|waiter| one.write(waiter, b"v"));
    let sent = one.send();
    one.done(sent[0]);
    one.replied(sent[2], moved());
    one.forward.abandon(NotDone::NoSuchShard, NotDone::OutcomeUnknown, &mut one.effects);
    assert_eq!(waiters(&one), [2]);
    let unknown = |answer: &Answer| {
        matches!(answer, Answer::NotDone { waiters, why: NotDone::OutcomeUnknown, .. }
            if *waiters == [Waiter(1)])
    };
    assert!(one.effects.answers.iter().any(unknown));
    assert_eq!(one.forward.held(), (0, 0));
}

/// However long there is always something under way.
#[test]
fn answered_batches_free_held_bytes() {
    let mut one = One::new();
    let value = vec![b'x'; 1 << 20];
    one.write(0, &value);
    let mut under_way = one.send();
    for waiter in 1..200 {
        one.write(waiter, &value);
        under_way.extend(one.send());
        one.done(under_way.remove(0));
    }
    let busy = |answer: &Answer| matches!(answer, Answer::NotDone { .. });
    assert!(!one.effects.answers.iter().any(busy));
    one.done(under_way.remove(0));
    assert_eq!((one.effects.answers.len(), one.forward.held()), (200, (0, 0)));
}

/// Of a node whose clock is ahead: others' clocks are not drawn along (SAFETY G12).
#[test]
fn read_at_future_time_waits_for_leader_clock() {
    let mut one = One::new();
    let hour = Timestamp::from_millis(3_600_000);
    one.forward.read(Timestamp::ZERO, ME, Waiter(1), 5);
    one.forward.read(hour, ME, Waiter(2), 5);
    let mut asked = Vec::new();
    for leader_ms in [1_000, 2_000, 3_600_000] {
        let (shard, leader, seed) = (ShardId(1), Some(LEADER), 1);
        let post = SendContext { shard, leader, now: one.now, clock: &one.clock, seed };
        one.forward.send(&post, &mut one.effects);
        // Not before some time has passed.
        one.forward.send(&post, &mut one.effects);
        let Some((_, RpcMessage::ReadIndex { number, at, .. })) = one.effects.rpcs.pop() else {
            panic!("no question at {leader_ms}")
        };
        assert!(one.effects.rpcs.is_empty() && at == hour);
        asked.push(number);
        let leader_time = (leader_ms, Timestamp::from_millis(leader_ms));
        one.forward.read_at(number, 1, leader_time, one.now);
        let fit = one.forward.applied(1, &mut one.effects).expect("the index is applied");
        assert_eq!(fit.at, Timestamp::from_millis(leader_ms));
        let waiting = if leader_ms == 3_600_000 { 0 } else { 1 };
        assert_eq!(one.effects.answers.len(), 2 - waiting);
        one.forward.send(&SendContext { now: one.now, ..post }, &mut one.effects);
        assert!(one.effects.rpcs.is_empty(), "asked again at once");
        one.now += NOT_LEADER_PAUSE_NANOS;
    }
    assert!(one.forward.is_idle());
}

const SECOND: BootNanos = 1_000_000_000;

/// A new leader's clock is above all that was promised before it led, and stands until time has
/// come so far.
#[test]
fn stopped_leader_clock_accepts_no_later_batch() {
    let mut one = One::new();
    for waiter in 0..100 {
        one.write(waiter, b"x");
        let [sent] = one.send()[..] else { panic!("one batch") };
        one.done(sent);
        one.now += SECOND / 10;
        // Until it has stood for two seconds.
        let passed_ms = one.now / 1_000_000;
        one.told_ms = 1_000_000 + passed_ms.saturating_sub(2_000);
        assert!(one.sent_ms.last().is_some_and(|sent_ms| *sent_ms <= one.told_ms));
    }
    // It goes with the leader's time all the same, in one session.
    assert!(*one.sent_ms.last().expect("a batch was sent") > one.told_ms - 6_000);
    assert_eq!(one.effects.answers.len(), 100);
}

/// … whatever was told before, and by whom.
#[test]
fn refused_read_timestamp_is_requested_again() {
    for verdict in [BatchVerdict::Ahead, BatchVerdict::TooOld] {
        let mut one = One::new();
        one.write(0, b"x");
        let [(session, sequence)] = one.send()[..] else { panic!("one batch") };
        one.told_ms -= 1_000;
        one.forward.written(ShardId(1), session, sequence, verdict, &mut one.effects);
        one.write(1, b"x");
        let [(again, 1)] = one.send()[..] else { panic!("one batch") };
        assert_ne!(session, again);
        assert_eq!(one.sent_ms, [1_000_000, 999_000]);
    }
}

/// A replica here that has much to apply holds up its readers, not the writes.
#[test]
fn unapplied_read_index_does_not_delay_leader_time() {
    let mut one = One::new();
    let (shard, leader, seed) = (ShardId(1), Some(LEADER), 1);
    for at in 0..60 {
        one.forward.read(Timestamp::ZERO, ME, Waiter(at), one.now);
        one.write(100 + at, b"x");
        for _ in 0..2 {
            let post = SendContext { shard, leader, now: one.now, clock: &one.clock, seed };
            one.forward.send(&post, &mut one.effects);
            for (_, rpc) in std::mem::take(&mut one.effects.rpcs) {
                match rpc {
                    RpcMessage::Write { id, .. } => one.done((id.session, id.sequence)),
                    RpcMessage::ReadIndex { number, .. } => {
                        let leader_time = (one.now / 1_000_000, Timestamp::ZERO);
                        one.forward.read_at(number, 7, leader_time, one.now);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(one.effects.answers.len() as u64, at + 1);
        one.now += SECOND;
    }
}

/// As long as nobody leads, all would go to and fro with every answer.
#[test]
fn without_leader_only_first_write_is_resent() {
    let mut one = One::new();
    for waiter in 0..10 {
        one.write(waiter, b"x");
    }
    let sent = one.send();
    assert_eq!(sent.len(), 10);
    let reply_not_leader = |one: &mut One, by, (session, sequence)| {
        let pause_until = one.now + NOT_LEADER_PAUSE_NANOS;
        one.forward.handle_not_leader(
            Some(by),
            RpcRequestId::Write { session, sequence },
            pause_until,
        );
    };
    sent.iter().for_each(|sent| reply_not_leader(&mut one, LEADER, *sent));
    assert!(one.send().is_empty(), "it waits a little");
    one.leads = NodeId(3);
    // More comes, and somebody else is asked, who does not lead either.
    one.write(10, b"x");
    for leader in [NodeId(2), LEADER, NodeId(2)] {
        one.now += NOT_LEADER_PAUSE_NANOS;
        assert_eq!(one.send_to(leader), sent[..1]);
        reply_not_leader(&mut one, leader, sent[0]);
    }
    one.now += NOT_LEADER_PAUSE_NANOS;
    assert_eq!(one.send_to(NodeId(2)), sent[..1]);
    // What the others said before counts no more.
    reply_not_leader(&mut one, LEADER, sent[0]);
    one.now += NOT_LEADER_PAUSE_NANOS;
    assert!(one.send_to(NodeId(2)).is_empty());
    one.done(sent[0]);
    assert_eq!(one.send_to(NodeId(2)), sent[1..]);
    sent[1..].iter().for_each(|sent| one.done(*sent));
    one.leads = NodeId(2);
    one.now += RESEND_NANOS;
    let last = one.send_to(NodeId(2));
    assert_eq!(last.len(), 1);
    one.done(last[0]);
    assert_eq!((one.effects.answers.len(), one.forward.held()), (11, (0, 0)));
}

#[test]
fn long_write_is_not_resent_before_its_transfer_time() {
    let mut one = One::new();
    one.write(1, &vec![b'x'; 32 << 20]);
    let sent = one.send();
    assert_eq!(sent.len(), 1);
    one.now += 2 * RESEND_NANOS;
    assert!(one.send().is_empty(), "it may be on its way for a second and a half");
    one.now += RESEND_NANOS + RESEND_NANOS / 2;
    assert_eq!(one.send(), sent);
    one.forward.link_lost(LEADER);
    assert_eq!(one.send(), sent, "without a link it is not");
}

#[test]
fn waiter_of_dropped_shard_gets_an_error() {
    let mut one = One::new();
    one.write(1, b"x");
    assert_eq!(one.send().len(), 1);
    one.write(2, b"x");
    one.forward.abandon(NotDone::NoSuchShard, NotDone::Dropped, &mut one.effects);
    let answers = one.effects.answers.iter().map(|answer| match answer {
        Answer::NotDone { waiters, why, .. } => (waiters[0].0, *why),
        other => panic!("{other:?}"),
    });
    assert_eq!(answers.collect::<Vec<_>>(), [(2, NotDone::NoSuchShard), (1, NotDone::Dropped)]);
    assert!(one.forward.is_idle() && one.forward.held() == (0, 0));
}

//! A node without a replica beside one that has the only one: what it is told, and what it tells.

use bytes::Bytes;
use keyspace::{
    Arc as RingArc, CatalogueOp, Descriptor, Generation, KeyHasher, Keyspace, KeyspaceId,
    KeyspaceOptions, NodeId, Placement, ReplicaId, ShardId, Timestamp,
};
use overlay::Known;
use std::ops::Bound;
use std::sync::Arc;
use txn::Clock;

use crate::birth;
use crate::catalogue::{Change, System};
use crate::command::{Expiry, Reply, SetIf, SetReply, Transaction, Write, transaction};
use crate::entry::{Batch, Waiter};
use crate::fetch::{Ends, Fetched, Found, Then, Want};
use crate::lane::{Answer, Effects, FIRST_REPLICA, Input, Lane, NotDone, Origin};
use crate::letter::{Asked, Letter};
use crate::locks::{Keys, Outcome, Places, Prepare, Role, Said, Step, TxnId};
use crate::session::BatchId;
use crate::shard::ShardStart;
use crate::shard::forward::{Forward, Post};

const HERE: NodeId = NodeId(7);
const THERE: NodeId = NodeId(1);
const NOBODY_THERE: NodeId = NodeId(2);
const ME: Origin = Origin(3);
const SECOND: u64 = 1_000_000_000;

struct Two {
    here: Lane,
    there: Lane,
    clock_there: Arc<Clock>,
    now: u64,
    shard: ShardId,
    arc: keyspace::Arc,
    /// Letters to this node are lost.
    deaf: Option<NodeId>,
    answers: Vec<Answer>,
    asked: Vec<NodeId>,
    bytes_max: usize,
}

fn keyspace(placement: Placement) -> Keyspace {
    let mut system = System::default();
    let mut op = Vec::new();
    let options = KeyspaceOptions { placement, ..Default::default() };
    CatalogueOp::Create { name: "k", options }.encode(&mut op);
    match system.apply(&op, &[THERE]).expect("it can be made") {
        Change::Created(keyspace) => keyspace,
        other => panic!("{other:?}"),
    }
}

impl Two {
    fn new(placement: Placement, nodes: &[NodeId]) -> Self {
        let keyspace = keyspace(placement);
        let shard = keyspace.shards[0];
        let arc = keyspace.arc(0);
        let clock_there = Arc::new(Clock::default());
        clock_there.observe_millis(1_000_000);
        let mut there = Lane::new(clock_there.clone(), 1, 1 << 20);
        let mut here = Lane::new(Arc::new(Clock::default()), 2, 1 << 20);
        let state = birth::first_state(&keyspace, 0, KeyHasher::new([1; 16]));
        there.observe(SECOND);
        here.observe(SECOND);
        there.adopt(ShardStart::born(state, FIRST_REPLICA, keyspace.options.durability));
        here.accept(Input::Away { shard, nodes: nodes.to_vec() });
        let (answers, asked) = Default::default();
        let (now, deaf, bytes_max) = (SECOND, None, usize::MAX);
        Self { here, there, clock_there, now, shard, arc, deaf, answers, asked, bytes_max }
    }

    fn ends(&self) -> Ends {
        self.arc.ends()
    }

    fn size(&self) -> Want {
        Want::Size { ends: self.ends() }
    }

    fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        self.here.observe(self.now);
        self.there.observe(self.now);
        self.here.accept(Input::Tick);
        self.run();
    }

    /// Lets both go on until they have nothing to say.
    fn run(&mut self) {
        let mut effects = Effects::default();
        loop {
            let mut quiet = true;
            self.here.turn(&mut effects);
            self.answers.append(&mut effects.answers);
            for (to, letter) in effects.letters.drain(..) {
                self.asked.push(to);
                let mut bytes = Vec::new();
                letter.encode(&mut bytes);
                let letter = Letter::decode(bytes.into()).expect("it is one");
                if self.deaf == Some(to) {
                    continue;
                }
                quiet = false;
                match to {
                    THERE => self.there.accept(Input::Letter { from: HERE, letter }),
                    other => {
                        let what = letter.asks().expect("a question");
                        let letter = Letter::NotLed { shard: self.shard, what, known: None };
                        self.here.accept(Input::Letter { from: other, letter });
                    }
                }
            }
            loop {
                self.there.turn(&mut effects);
                if effects.is_empty() {
                    break;
                }
                for (_, letter) in effects.letters.drain(..) {
                    quiet = false;
                    self.here.accept(Input::Letter { from: THERE, letter });
                }
                if !effects.records.is_empty() {
                    let lsn = storage::log::Lsn::default();
                    self.there.accept(Input::Written { ticket: effects.ticket, lsn });
                    self.there.accept(Input::Durable { ticket: effects.ticket });
                }
                effects.clear();
            }
            if quiet {
                return;
            }
        }
    }

    fn write(&mut self, waiter: u64, write: &Write<'_>) {
        let mut batch = Batch::default();
        batch.push(write, Waiter(waiter));
        self.here.accept(Input::Propose { shard: self.shard, origin: ME, batch });
        self.run();
    }

    fn set(&mut self, key: &str, value: &str, expiry: Expiry) {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        self.write(1, &Write::Set { key, value, when: SetIf::Always, expiry, reply: SetReply::Ok });
        assert!(matches!(self.answers.pop(), Some(Answer::Applied { .. })));
    }

    fn ask(&mut self, want: Want) {
        let (want, waiter) = (Box::new(want), Waiter(9));
        let (shard, bytes_max) = (self.shard, self.bytes_max);
        let fetch = Input::Fetch { shard, want, bytes_max, origin: ME, waiter };
        self.here.accept(fetch);
        self.run();
    }

    fn fetch(&mut self, want: Want) -> Found {
        self.ask(want);
        match self.answers.pop() {
            Some(Answer::Fetched { found, .. }) => *found,
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, key: &str) -> Option<String> {
        let want = Want::keys([key.as_bytes()]);
        let found = self.fetch(want.clone());
        let mut fetched = Fetched::default();
        fetched.add(self.shard, keyspace::Timestamp(1), want, found);
        let (version, _) = fetched.version(self.shard, key.as_bytes()).expect("it was fetched");
        version.map(|version| String::from_utf8(version.value.into()).expect("a word"))
    }
}

/// In the first of the shards of a hashed keyspace.
const FIRST_KEY: &str = "3";

#[test]
fn what_is_written_through_it_is_read_through_it() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    let key = FIRST_KEY;
    assert_eq!(two.get(key), None);
    two.set(key, "one", Expiry::Never);
    assert_eq!(two.get(key), Some("one".into()));
    two.write(5, &Write::Append { key: key.as_bytes(), value: b"!" });
    match two.answers.pop() {
        Some(Answer::Applied { replies, spent, .. }) => {
            assert_eq!((replies, spent.waiters), (vec![Reply::Int(4)], vec![Waiter(5)]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(two.fetch(Want::Size { ends: two.ends() }), Found::Size(1));
    let random = Found::Random { size: 1, key: Some(key.as_bytes().into()) };
    assert_eq!(two.fetch(Want::Random { ends: two.ends(), number: 77 }), random);
    let scanned = two.fetch(Want::Scan {
        cursor: 0,
        end: two.arc.slots().expect("it is hashed").1,
        keys_max: 10,
    });
    assert_eq!(scanned, Found::Keys { keys: vec![key.as_bytes().into()], next: None });
}

#[test]
fn what_has_expired_is_judged_by_the_leaders_clock() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    let key = FIRST_KEY;
    two.set(key, "one", Expiry::At(1_000_500));
    assert_eq!(two.get(key), Some("one".into()));
    two.clock_there.observe_millis(1_000_600);
    assert_eq!(two.get(key), None);
    assert_eq!(two.fetch(Want::Size { ends: two.ends() }), Found::Size(0));
    // At a past time it is still there.
    let at = keyspace::Timestamp::from_millis(1_000_400);
    match two.fetch(Want::At { key: key.as_bytes().into(), at }) {
        Found::Then(Then::Value(held)) => assert_eq!(&*held.value, b"one"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn long_answers_come_in_pieces() {
    let mut two = Two::new(Placement::Ordered, &[THERE]);
    let long = "x".repeat(1 << 20);
    let names: Vec<String> = (0..12).map(|number| format!("key-{number:02}")).collect();
    for name in &names {
        two.set(name, &long, Expiry::Never);
    }
    let want = Want::keys(names.iter().map(|name| name.as_bytes()));
    two.asked.clear();
    match two.fetch(want) {
        Found::Versions(versions) => {
            assert_eq!(versions.iter().flatten().count(), names.len());
            assert!(versions.iter().flatten().all(|held| held.value.len() == 1 << 20));
        }
        other => panic!("{other:?}"),
    }
    assert!(two.asked.len() > 2, "{} letters for 12 MiB", two.asked.len());
    for (reverse, with_values) in [(false, false), (true, false), (false, true), (true, true)] {
        let (low, high) = (Bound::Included(Box::from(&b"key-03"[..])), Bound::Unbounded);
        let want = Want::Range { low, high, reverse, keys_max: 3, with_values };
        let Found::Pairs { pairs, .. } = two.fetch(want) else { panic!("no pairs") };
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
fn more_than_the_asker_can_take_is_refused() {
    let mut two = Two::new(Placement::Ordered, &[THERE]);
    let long = "x".repeat(3 << 20);
    for name in ["a", "b", "c"] {
        two.set(name, &long, Expiry::Never);
    }
    two.bytes_max = 1 << 20;
    two.ask(Want::keys([&b"a"[..], b"b", b"c"]));
    assert!(matches!(two.answers.pop(), Some(Answer::NotDone { why: NotDone::TooLong, .. })));
}

#[test]
fn who_does_not_lead_is_not_asked_again() {
    let mut two = Two::new(Placement::Hashed, &[NOBODY_THERE, THERE]);
    let key = FIRST_KEY;
    two.ask(Want::keys([key.as_bytes()]));
    assert!(two.answers.is_empty());
    two.pass(10_000_000);
    assert!(matches!(two.answers.pop(), Some(Answer::Fetched { .. })));
    assert_eq!(two.asked, [NOBODY_THERE, THERE]);
    two.asked.clear();
    two.set(key, "one", Expiry::Never);
    assert!(two.asked.iter().all(|asked| *asked == THERE));
}

/// A shard on these nodes, as somebody knows it.
fn known(shard: ShardId, nodes: &[NodeId], leader: NodeId, version: (u64, u64)) -> Arc<Known> {
    let (generation, term) = version;
    let ids = (10 * generation..).map(ReplicaId);
    let replicas: Vec<_> = ids.zip(nodes.iter().copied()).collect();
    let leader = replicas.iter().find(|(_, node)| *node == leader).map(|(replica, _)| *replica);
    let (arc, generation) = (RingArc::whole(KeyspaceId(1)), Generation(generation));
    Arc::new(Known::new(Descriptor { shard, arc, replicas, generation, leader }, term))
}

#[test]
fn who_is_known_to_lead_is_asked_first() {
    let mut two = Two::new(Placement::Hashed, &[NOBODY_THERE]);
    let both = [NOBODY_THERE, THERE];
    for (nodes, leader, version) in [
        (&both[..1], NOBODY_THERE, (1, 9)),
        // Newer replicas, but an older leader.
        (&both[..], NOBODY_THERE, (2, 8)),
        (&both[..], THERE, (2, 10)),
        // Older in both.
        (&both[..1], NOBODY_THERE, (1, 9)),
    ] {
        two.here.accept(Input::Known { known: known(two.shard, nodes, leader, version) });
    }
    two.ask(Want::Size { ends: two.ends() });
    assert_eq!(two.asked, [THERE]);
    assert!(matches!(two.answers.pop(), Some(Answer::Fetched { .. })));
}

#[test]
fn a_node_without_a_replica_answers_with_what_it_knows() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    let known = known(two.shard, &[THERE], THERE, (3, 4));
    two.here.accept(Input::Known { known: known.clone() });
    let letter = Letter::Fetch { shard: two.shard, number: 7, want: two.size() };
    two.here.accept(Input::Letter { from: NOBODY_THERE, letter });
    let mut effects = Effects::default();
    two.here.turn(&mut effects);
    match &effects.letters[..] {
        [(NOBODY_THERE, Letter::NotLed { known: Some(told), .. })] => assert_eq!(**told, *known),
        other => panic!("{other:?}"),
    }
}

/// A node that has just started, and has not heard of any other.
#[test]
fn a_change_of_the_catalogue_waits_until_it_is_known_who_might_have_it() {
    let mut lane = Lane::new(Arc::new(Clock::default()), HERE.0, 1 << 20);
    let mut effects = Effects::default();
    lane.observe(1_000_000_000);
    let (origin, waiter) = (ME, Waiter(1));
    lane.accept(Input::Catalogue { op: vec![1], origin, waiter });
    lane.turn(&mut effects);
    assert!(effects.answers.is_empty() && effects.letters.is_empty());
    lane.accept(Input::Away { shard: ShardId(0), nodes: vec![THERE] });
    lane.accept(Input::Tick);
    lane.turn(&mut effects);
    assert!(matches!(effects.letters[..], [(THERE, Letter::Catalogue { .. })]), "{effects:?}");
}

#[test]
fn a_silent_node_costs_half_a_second_and_a_write_is_done_once() {
    let mut two = Two::new(Placement::Hashed, &[THERE, NOBODY_THERE]);
    let key = FIRST_KEY.as_bytes();
    two.deaf = Some(THERE);
    two.ask(Want::Size { ends: two.ends() });
    two.write(4, &Write::Increment { key, by: 1 });
    assert!(two.answers.is_empty());
    two.pass(super::SILENCE_NANOS);
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
fn what_a_second_leader_has_no_room_for_may_be_done_all_the_same() {
    let mut two = Two::new(Placement::Hashed, &[THERE, NOBODY_THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    two.deaf = Some(THERE);
    let key = FIRST_KEY.as_bytes();
    two.write(4, &Write::Increment { key, by: 1 });
    two.write(5, &Write::Increment { key, by: 1 });
    two.here.accept(Input::LinkLost { node: THERE });
    let mut effects = Effects::default();
    two.here.turn(&mut effects);
    let sent = effects.letters.iter().find_map(|(to, letter)| match letter {
        Letter::Write { id, .. } if *to == NOBODY_THERE => Some(*id),
        _ => None,
    });
    let BatchId { session, sequence, .. } = sent.expect("the first is sent once more");
    effects.clear();
    let what = Asked::Write { session, sequence };
    let letter = Letter::Unable { shard: two.shard, what };
    two.here.accept(Input::Letter { from: NOBODY_THERE, letter });
    two.here.turn(&mut effects);
    let unknown = |answer: &Answer| matches!(answer, Answer::NotDone { why: NotDone::Unknown, .. });
    assert!(effects.answers.len() == 2 && effects.answers.iter().all(unknown), "{effects:?}");
}

#[test]
fn a_lost_link_has_all_that_is_under_way_sent_again_and_done_once() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
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
    let id = TxnId { start: Timestamp::from_millis(1_000_000), by: 1, attempt: 0 };
    let mut bytes = Vec::new();
    Step::Look { id, record: FIRST_KEY.as_bytes() }.encode(&mut bytes);
    bytes.into()
}

/// What is sent while there is no link is lost; it does not wait for a resend.
#[test]
fn what_was_sent_to_nobody_is_sent_again_when_there_is_a_link() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
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

/// Whoever asks twice for a step which is on its way through the log has it proposed once, and is
/// told once.
#[test]
fn a_step_on_its_way_is_not_proposed_again() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    let (shard, step) = (two.shard, look());
    let ask = |number| {
        let letter = Letter::Step { shard, number, step: step.clone() };
        Input::Letter { from: HERE, letter }
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
    let told = effects.letters.iter();
    let told = told.filter(|(_, letter)| matches!(letter, Letter::Stepped { number: 5, .. }));
    assert_eq!(told.count(), 1, "{:?}", effects.letters);
    // What was told may be lost.
    effects.clear();
    two.there.accept(ask(5));
    two.there.turn(&mut effects);
    assert!(!effects.records.is_empty(), "it is asked for again");
}

/// A PREPARE that waited for a lock stands in line no more when its node's link is lost, and again
/// when it is asked for once more by the same number.
#[test]
fn what_was_dropped_with_a_link_is_taken_again() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    let (shard, key) = (two.shard, FIRST_KEY.as_bytes());
    let id = |by| TxnId { start: two.clock_there.now(), by, attempt: 0 };
    let (first, second) = (id(1), id(2));
    let prepare = |id| {
        let commands = vec![transaction::Step::Write(Write::Increment { key, by: 1 })];
        let part = Transaction { commands, ..Transaction::default() };
        let (is_first, record, promised, places) =
            (true, key, Keys::new(), Places::from_slice(&[0]));
        let role = Role::Votes;
        Step::Prepare(Prepare { id, is_first, record, promised, role, places, part })
    };
    let (outcome, keys) = (Outcome::Aborted, Keys::from_slice(&[key]));
    let resolve = Step::Resolve { id: first, outcome, keys };
    let mut tells = |number: Option<(u64, &Step<'_>)>| {
        if let Some((number, step)) = number {
            let mut bytes = Vec::new();
            step.encode(&mut bytes);
            let letter = Letter::Step { shard, number, step: bytes.into() };
            two.there.accept(Input::Letter { from: HERE, letter });
        } else {
            two.there.accept(Input::LinkLost { node: HERE });
        }
        let (mut effects, mut told) = (Effects::default(), Vec::new());
        loop {
            two.there.turn(&mut effects);
            if effects.is_empty() {
                return told;
            }
            told.extend(effects.letters.drain(..).filter_map(|(_, letter)| match letter {
                Letter::Stepped { number, said: Said::Voted(..) | Said::Done, .. } => Some(number),
                _ => None,
            }));
            two.there.accept(Input::Durable { ticket: effects.ticket });
            effects.clear();
        }
    };
    assert_eq!(tells(Some((5, &prepare(first)))), [5]);
    assert_eq!(tells(Some((6, &prepare(second)))), []);
    assert_eq!(tells(None), []);
    assert_eq!(tells(Some((6, &prepare(second)))), []);
    assert_eq!(tells(Some((7, &resolve))), [7, 6]);
}

#[test]
fn who_waits_in_vain_is_told_in_time() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    two.set(FIRST_KEY, "1", Expiry::Never);
    two.deaf = Some(THERE);
    two.ask(Want::Size { ends: two.ends() });
    two.write(4, &Write::Delete { key: FIRST_KEY.as_bytes() });
    two.pass(crate::lane::PATIENCE_NANOS);
    let told: Vec<NotDone> = two
        .answers
        .iter()
        .map(|answer| match answer {
            Answer::NotDone { why, .. } => *why,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [NotDone::Unknown, NotDone::NotLeader]);
}

#[test]
fn a_shard_that_is_dropped_lets_everyone_know() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    two.deaf = Some(THERE);
    two.ask(Want::Size { ends: two.ends() });
    two.here.accept(Input::Drop { shard: two.shard });
    two.run();
    assert!(matches!(two.answers[..], [Answer::NotDone { why: NotDone::NoSuchShard, .. }]));
    two.ask(Want::Size { ends: two.ends() });
    assert!(matches!(two.answers[1..], [Answer::NotDone { why: NotDone::NoSuchShard, .. }]));
}

/// SAFETY G12, G13: the leader of the system shard is an hour ahead, and names a safe point.
#[test]
fn what_is_not_past_by_a_shards_own_time_is_not_collected() {
    let mut two = Two::new(Placement::Ordered, &[THERE]);
    two.run();
    let before = two.clock_there.now();
    let to = keyspace::Timestamp::from_millis(before.millis() + 3_600_000);
    two.there.accept(Input::RaiseShard { shard: two.shard, to });
    two.run();
    let view = two.there.view(two.shard).expect("it is there");
    let state = view.read();
    let point = state.keys().expect("it has keys").safe_point();
    assert!(before <= point && point < state.last, "{point:?} of {:?}", state.last);
}

/// A leader without room for what it would write down is not asked again at once, and again.
#[test]
fn a_full_disk_elsewhere_is_given_time() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    let mut batch = Batch::default();
    batch.push(&Write::Increment { key: FIRST_KEY.as_bytes(), by: 1 }, Waiter(4));
    two.here.accept(Input::Propose { shard: two.shard, origin: ME, batch });
    let mut effects = Effects::default();
    two.here.turn(&mut effects);
    let asked = effects.letters.iter().find_map(|(_, letter)| letter.asks()).expect("its clock");
    let letter = Letter::Unable { shard: two.shard, what: asked };
    two.here.accept(Input::Letter { from: THERE, letter });
    effects.clear();
    two.here.turn(&mut effects);
    assert!(effects.letters.is_empty(), "{:?}", effects.letters);
    two.pass(crate::shard::forward::MISLED_NANOS);
    assert!(matches!(two.answers.pop(), Some(Answer::Applied { .. })));
}

/// What a leader says to readers at followers holds up to its own time, which they judge by: what
/// is under way below it is waited for.
#[test]
fn nothing_is_under_way_below_the_time_that_readers_are_told() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    let shard = two.shard;
    // So that the horizon is there.
    let at = keyspace::Timestamp::from_millis(1_000_000);
    two.fetch(Want::At { key: FIRST_KEY.as_bytes().into(), at });
    let mut batch = Batch::default();
    batch.push(&Write::Increment { key: FIRST_KEY.as_bytes(), by: 1 }, Waiter(4));
    two.there.accept(Input::Propose { shard, origin: ME, batch });
    let mut effects = Effects::default();
    two.there.turn(&mut effects);
    let mut tickets = vec![effects.ticket];
    two.clock_there.observe_millis(1_000_600);
    let at = keyspace::Timestamp::from_millis(999_000);
    two.there.accept(Input::Letter { from: HERE, letter: Letter::Read { shard, number: 5, at } });
    let mut told = None;
    for _ in 0..10 {
        effects.clear();
        two.there.turn(&mut effects);
        if !effects.records.is_empty() {
            tickets.push(effects.ticket);
        }
        told = told.or(effects.letters.pop());
        let applied = two.there.shard(shard).expect("it is there").applied_index();
        let Some((_, Letter::ReadAt { index, now_ms, .. })) = told else {
            let ticket = tickets.remove(0);
            two.there.accept(Input::Written { ticket, lsn: storage::log::Lsn::default() });
            two.there.accept(Input::Durable { ticket });
            tickets.push(ticket);
            continue;
        };
        assert_eq!((index, now_ms), (applied, 1_000_600));
        let view = two.there.view(shard).expect("it is there");
        let state = view.read();
        let now = keyspace::Timestamp::from_millis(now_ms);
        assert!(state.unsettled.from() > now && state.horizon >= now);
        return;
    }
    panic!("never told");
}

/// … and is settled as far where they read.
#[test]
fn a_follower_knows_what_is_settled_up_to_the_time_it_judges_by() {
    let mut forward = Forward::default();
    let (clock, mut effects) = (Clock::default(), Effects::default());
    forward.read(keyspace::Timestamp(1), ME, Waiter(1), 5);
    let (shard, now, seed) = (ShardId(1), 5, 1);
    let post = Post { shard, leader: Some(THERE), now, clock: &clock, seed };
    forward.send(&post, &mut effects);
    let Some((_, Letter::Read { number, .. })) = effects.letters.pop() else { panic!("no ask") };
    let told = keyspace::Timestamp::from_millis(1_000_000);
    forward.read_at(number, 7, (1_000_000, told), 6);
    let fit = forward.applied(7, &mut effects).expect("it is applied");
    assert_eq!(fit.at, keyspace::Timestamp::from_millis(1_000_000));
}

/// A node whose clock is wrong, or which says so, draws no other along (SAFETY G12).
#[test]
fn a_leader_promises_nothing_about_a_time_far_ahead() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    let shard = two.shard;
    let mut effects = Effects::default();
    for (number, millis) in [(1, 1_000_400), (2, 1_010_000), (3, u64::MAX >> 20)] {
        let at = keyspace::Timestamp::from_millis(millis);
        let from = HERE;
        two.there.accept(Input::Letter { from, letter: Letter::Read { shard, number, at } });
        let key = FIRST_KEY.as_bytes().into();
        let want = Want::At { key, at };
        two.there.accept(Input::Letter { from, letter: Letter::Fetch { shard, number, want } });
        let mut letters = Vec::new();
        for _ in 0..5 {
            two.there.turn(&mut effects);
            letters.extend(effects.letters.drain(..).map(|(_, letter)| letter));
            if !effects.records.is_empty() {
                let lsn = storage::log::Lsn::default();
                two.there.accept(Input::Written { ticket: effects.ticket, lsn });
                two.there.accept(Input::Durable { ticket: effects.ticket });
            }
            effects.clear();
        }
        letters.sort_by_key(|letter| matches!(letter, Letter::ReadAt { .. }));
        let is_near = number == 1;
        let [then, Letter::ReadAt { now_ms, .. }] = &letters[..] else { panic!("{letters:?}") };
        assert_eq!(matches!(then, Letter::Fetched { .. }), is_near, "{then:?}");
        assert_eq!(*now_ms, 1_000_400);
        assert!(two.clock_there.now().millis() <= 1_000_400);
        let view = two.there.view(shard).expect("it is there");
        assert!(view.read().horizon.millis() <= 1_000_400 + txn::HORIZON_AHEAD_MILLIS);
    }
}

/// Reads go on while the leader's disk is full: a horizon is needed only for what has expired.
#[test]
fn reads_elsewhere_go_on_while_the_leaders_disk_is_full() {
    let mut two = Two::new(Placement::Hashed, &[THERE]);
    let shard = two.shard;
    two.set(FIRST_KEY, "one", Expiry::At(1_700_000));
    let view = two.there.view(shard).expect("it is there");
    let horizon = view.read().horizon;
    two.clock_there.observe_millis(1_600_000);
    two.there.set_full(true);
    let applied = view.read().applied_index;
    assert_eq!(two.get(FIRST_KEY), Some("one".into()));
    assert_eq!(two.fetch(Want::Size { ends: two.ends() }), Found::Size(1));
    // Readers at followers are told the time, and how far all is settled.
    let mut effects = Effects::default();
    let letter = Letter::Read { shard, number: 1, at: keyspace::Timestamp::ZERO };
    two.there.accept(Input::Letter { from: HERE, letter });
    two.there.turn(&mut effects);
    match effects.letters.pop() {
        Some((_, Letter::ReadAt { index, now_ms, settled, .. })) => {
            assert_eq!((index, now_ms, settled), (applied, 1_600_000, horizon));
        }
        other => panic!("{other:?}"),
    }
    // What has expired is said to be gone only when that is in the log.
    two.clock_there.observe_millis(1_800_000);
    let refused = |two: &mut Two, want| {
        two.ask(want);
        let answer = two.answers.pop();
        assert!(
            matches!(answer, Some(Answer::NotDone { why: NotDone::DiskFull, .. })),
            "{answer:?}"
        );
    };
    refused(&mut two, Want::keys([FIRST_KEY.as_bytes()]));
    let size = two.size();
    refused(&mut two, size);
    let at = keyspace::Timestamp::from_millis(1_650_000);
    refused(&mut two, Want::At { key: FIRST_KEY.as_bytes().into(), at });
    two.there.accept(Input::Await { shard, at, lock: None, origin: ME, waiter: Waiter(1) });
    two.there.turn(&mut effects);
    assert!(matches!(effects.answers[..], [Answer::NotDone { why: NotDone::DiskFull, .. }]));
    assert_eq!(view.read().applied_index, applied, "nothing was logged");
    two.there.set_full(false);
    assert_eq!(two.get(FIRST_KEY), None);
}

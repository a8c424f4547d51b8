//! Is an entry that has lost its place in one replica's log lost? Not yet, with five replicas.
//!
//! ```text
//!   1 leads: e on 1, 2 ─► 5 is elected by 3, 4, 5: its entry takes e's place on 1, and on no other
//!                     ─► 5 is gone; 2 is elected by 2, 3, 4, and commits e
//! ```
//!
//! So whoever waits at 1 must not be told that nothing was done (SAFETY G10).

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspace::{
    Arc as RingArc, Descriptor, Durability, Generation, KeyHasher, KeyspaceId, NodeId, ReplicaId,
    ShardId,
};
use node::command::{Reply, Write};
use node::entry::{Batch, Waiter};
use node::lane::{Answer, Effects, Input, Lane, Origin};
use node::shard::ShardStart;
use node::state::{Content, ShardState};
use storage::engine::{Engine, Layout};
use storage::log::Lsn;
use txn::Clock;

const SHARD: ShardId = ShardId(5);
const KEY: &[u8] = b"key";
const TICK: u64 = 50_000_000;

struct Five {
    lanes: Vec<Lane>,
    now: u64,
    answers: Vec<Answer>,
}

impl Five {
    fn new() -> Self {
        let hasher = KeyHasher::new([7; 16]);
        let replicas: Vec<_> = (1..=5).map(|id| (ReplicaId(id), NodeId(id))).collect();
        let start = |replica| {
            let (arc, generation) = (RingArc::whole(KeyspaceId(1)), Generation(1));
            let replicas = replicas.clone();
            let descriptor = Descriptor { shard: SHARD, arc, replicas, generation, leader: None };
            let engine = Box::new(Engine::new(Layout::Ordered, hasher));
            let state = ShardState::new(descriptor, Content::Keys(engine));
            ShardStart::born(state, replica, Durability::Sync)
        };
        let now = 3_000_000_000;
        let lane = |id| {
            let mut lane = Lane::new(Arc::new(Clock::default()), id, 1 << 20);
            lane.observe(1);
            lane.observe(now);
            lane.accept(Input::Create(start(ReplicaId(id))));
            lane
        };
        Self { lanes: (1..=5).map(lane).collect(), now, answers: Vec::new() }
    }

    /// One turn of each of these, whose messages reach those whom `may` names.
    fn turn(&mut self, who: &[usize], may: impl Fn(usize, usize) -> bool) -> bool {
        let mut effects = Effects::default();
        let mut any = false;
        for from in who.iter().copied() {
            effects.clear();
            let lane = &mut self.lanes[from - 1];
            lane.observe(self.now);
            lane.turn(&mut effects);
            any |= !effects.is_empty();
            let ticket = effects.ticket;
            if !effects.records.is_empty() {
                lane.accept(Input::Written { ticket, lsn: Lsn::default() });
                lane.accept(Input::Durable { ticket });
            }
            self.answers.append(&mut effects.answers);
            for envelope in effects.messages.drain(..) {
                let to = envelope.node.0 as usize;
                if may(from, to) {
                    let message = Box::new(envelope.message);
                    self.lanes[to - 1].accept(Input::Message { shard: SHARD, message });
                }
            }
        }
        any
    }

    fn settle(&mut self, who: &[usize], may: impl Fn(usize, usize) -> bool) {
        for _ in 0..1_000 {
            if !self.turn(who, &may) {
                return;
            }
        }
        panic!("no end");
    }

    fn leads(&self, replica: usize) -> bool {
        self.lanes[replica - 1].shard(SHARD).is_some_and(|shard| shard.is_elected())
    }

    /// Lets time pass for these, who hear each other, until one of them is elected.
    fn elect(&mut self, who: &[usize]) -> usize {
        let among: BTreeSet<usize> = who.iter().copied().collect();
        for _ in 0..200 {
            self.now += TICK;
            for replica in who {
                let lane = &mut self.lanes[replica - 1];
                lane.observe(self.now);
                lane.accept(Input::Tick);
            }
            // One by one: whoever is elected has said nothing yet.
            for replica in (0..12).flat_map(|_| who) {
                self.turn(&[*replica], |_, to| among.contains(&to));
                if let Some(leader) = who.iter().find(|replica| self.leads(**replica)) {
                    return *leader;
                }
            }
        }
        panic!("nobody is elected");
    }
}

#[test]
fn what_may_still_be_done_is_not_said_to_be_undone() {
    let mut five = Five::new();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    assert!(five.leads(1), "it stands first");
    let (mut batch, origin) = (Batch::default(), Origin(1));
    batch.push(&Write::Increment { key: KEY, by: 1 }, Waiter(1));
    five.lanes[0].accept(Input::Propose { shard: SHARD, origin, batch });
    five.settle(&[1, 2], |from, to| (from, to) == (1, 2));
    let second = five.elect(&[3, 4, 5]);
    // What it begins its term with reaches the first only.
    five.settle(&[second], |_, to| to == 1);
    five.settle(&[1], |_, _| false);
    let others: Vec<usize> = [2, 3, 4, 5].into_iter().filter(|other| *other != second).collect();
    let told = five.answers.len();
    assert_eq!(five.elect(&others), 2);
    five.settle(&others, |_, to| to != second && to != 1);
    let view = five.lanes[1].view(SHARD).expect("it is there");
    let key = KeyHasher::new([7; 16]).key(KEY);
    let state = view.read();
    let version = state.keys().and_then(|engine| engine.newest(&key, keyspace::Timestamp::ZERO));
    assert_eq!(version.map(|version| version.value.to_vec()), Some(b"1".to_vec()));
    drop(state);
    assert_eq!(told, 0, "{:?}", five.answers);
    // The first hears of it at last.
    five.settle(&[1, 2, 3, 4, 5], |from, to| from != second && to != second);
    for _ in 0..8 {
        five.now += TICK;
        five.lanes[1].observe(five.now);
        five.lanes[1].accept(Input::Tick);
        five.settle(&[1, 2, 3, 4, 5], |from, to| from != second && to != second);
    }
    let [Answer::Applied { replies, .. }] = &five.answers[..] else { panic!("{:?}", five.answers) };
    assert_eq!(replies[..], [Reply::Int(1)]);
}

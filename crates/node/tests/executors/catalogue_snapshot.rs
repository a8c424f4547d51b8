//! A replica of the catalogue takes a snapshot: when does the driver learn of the jump?
//!
//! ```text
//!   1: creates a, b ─► 2 is to have a replica ─► state ─► 2 takes it: the catalogue has jumped
//!   the same state comes again ─► 2 does not want it: nothing has jumped
//! ```

use std::sync::Arc;

use hlc::Clock;
use keyspace::{
    Arc as RingArc, CatalogueOp, Descriptor, Durability, Generation, KeyHasher, KeyspaceId,
    KeyspaceOptions, NodeId, ReplicaId, ShardId,
};
use node::control::snapshots::source;
use node::executor::{Effects, Envelope, Input, Origin, ShardExecutor};
use node::recovery::RecoveringReplica;
use node::recovery::checkpoint::BLOCK;
use node::replica::ReplicaStart;
use node::replica::catalogue::{Change, System};
use node::replica::entry::Waiter;
use node::replica::state::{Content, ShardState};
use node::reshape::bootstrap;
use storage::log::Lsn;

const SYSTEM: ShardId = ShardId(0);
const HASHER: KeyHasher = KeyHasher::new([7; 16]);

fn executor(seed: u64) -> ShardExecutor {
    let mut executor = ShardExecutor::new(Arc::new(Clock::default()), seed, 1 << 20);
    executor.observe(3_000_000_000);
    executor
}

/// One turn, whose records are on disk at once.
fn turn(executor: &mut ShardExecutor) -> Effects {
    let mut effects = Effects::default();
    executor.turn(&mut effects);
    if !effects.records.is_empty() {
        executor.accept(Input::Written { ticket: effects.ticket, lsn: Lsn::default() });
        executor.accept(Input::Durable { ticket: effects.ticket });
    }
    effects
}

/// Turns of both until nothing is left to say; the messages of each reach the other, but heads of
/// snapshots. The last of these is answered.
fn settle(one: &mut ShardExecutor, two: &mut ShardExecutor) -> Option<Envelope> {
    let mut head = None;
    for _ in 0..100 {
        let (from_one, from_two) = (turn(one), turn(two));
        if from_one.is_empty() && from_two.is_empty() {
            return head;
        }
        for envelope in from_one.messages {
            if envelope.message.snapshot().is_some() {
                head = Some(envelope);
                continue;
            }
            if let Some(record) = envelope.bootstrap.filter(|_| two.shard(SYSTEM).is_none()) {
                let to = envelope.message.to();
                let start = bootstrap::by_message(&record, to, NodeId(2), HASHER);
                two.accept(Input::Create(start.expect("a bootstrap record")));
            }
            let (from, message) = (NodeId(1), Box::new(envelope.message));
            two.accept(Input::Message { from, shard: SYSTEM, message });
        }
        for envelope in from_two.messages {
            let (from, message) = (NodeId(2), Box::new(envelope.message));
            one.accept(Input::Message { from, shard: SYSTEM, message });
        }
    }
    panic!("no end");
}

fn state_of(executor: &ShardExecutor, head: Envelope) -> Input {
    let here = executor.shard(SYSTEM).expect("the shard is on this node");
    let mut begun = source::source(here, head.message, Lsn::default(), BLOCK);
    let meta = &begun.checkpoint.meta;
    let state = RecoveringReplica::from_checkpoint(SYSTEM, meta, HASHER);
    let (mut state, mut block) = (state.expect("its meta"), Vec::new());
    while begun.checkpoint.next_block(&mut block) {
        state.restore(&block).expect("its block");
    }
    Input::InstallSnapshot { head: Box::new(begun.head), state: Box::new(state.into_state()) }
}

#[test]
fn installed_catalogue_snapshot_is_reported_once() {
    let (mut one, mut two) = (executor(1), executor(2));
    let descriptor = Descriptor {
        shard: SYSTEM,
        arc: RingArc::whole(KeyspaceId(0)),
        replicas: vec![(ReplicaId(1), NodeId(1))],
        generation: Generation(1),
        leader: None,
    };
    let state = ShardState::new(descriptor, Content::System(System::default()));
    one.accept(Input::Create(ReplicaStart::created(state, ReplicaId(1), Durability::Sync)));
    for name in ["a", "b"] {
        let mut op = Vec::new();
        CatalogueOp::Create { name, options: KeyspaceOptions::default() }.encode(&mut op);
        one.accept(Input::Catalogue { op, origin: Origin(1), waiter: Waiter(1) });
    }
    settle(&mut one, &mut two);
    let (add, remove, generation) = (vec![NodeId(2)], Vec::new(), Generation(1));
    one.accept(Input::ChangeReplicas { shard: SYSTEM, generation, add, remove });
    let head = settle(&mut one, &mut two).expect("its state is to be sent");
    let again = Envelope { bootstrap: None, message: head.message.clone(), ..head };

    two.accept(state_of(&one, head));
    let changes = turn(&mut two).changes;
    let [Change::Replaced(catalogue)] = &changes[..] else { panic!("{changes:?}") };
    let names: Vec<&str> = catalogue.iter().map(|keyspace| &*keyspace.name).collect();
    assert_eq!(names, ["a", "b"]);

    two.accept(state_of(&one, again));
    assert_eq!(turn(&mut two).changes, [], "it does not want it: nothing has jumped");
}

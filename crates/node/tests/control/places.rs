//! Which of the requested streams begins next?

use keyspace::{NodeId, ReplicaId, ShardId};
use node::control::snapshots::Destination;
use node::control::snapshots::sender::{SenderLimits, SnapshotRequest, SnapshotSender};
use node::control::snapshots::source::{Blocks, DestinationFacts};
use node::rpc::stream::pace::Pace;

const TO_NODE_MAX: usize = 2;
const ALL_MAX: usize = 4;

struct Nothing;

impl Blocks for Nothing {
    fn next_block(&mut self, _: &mut Vec<u8>) -> bool {
        false
    }

    fn is_void(&self) -> bool {
        false
    }
}

fn request((shard, node): (u64, u64)) -> SnapshotRequest<()> {
    let to = Destination { shard: ShardId(shard), replica: ReplicaId(1) };
    SnapshotRequest { to, node: NodeId(node), term: 1, head: () }
}

/// The shard whose stream begins next beside these streams, if these shards are urgent.
fn next(asked: &[(u64, u64)], streams: &[(u64, u64, bool)], urgent: &[u64]) -> Option<u64> {
    let limits = SenderLimits {
        unconfirmed_bytes_max: 1,
        streams_to_node_max: TO_NODE_MAX,
        streams_max: ALL_MAX,
        install_nanos: 0,
        retry_nanos: 0,
        check_nanos: 0,
    };
    let mut sender = SnapshotSender::new(limits, Pace::new(None), 1);
    for (shard, node, is_linked) in streams {
        sender.begin(&request((*shard, *node)), Nothing, 0, 1);
        sender.linked(NodeId(*node), *is_linked);
    }
    asked.iter().for_each(|asked| sender.ask(request(*asked)));
    let facts = |to: Destination| {
        let is_urgent = urgent.contains(&to.shard.0);
        (to, DestinationFacts { leads_term: Some(1), is_member: true, is_urgent })
    };
    let facts: Vec<_> = sender.destinations().map(facts).collect();
    sender.learn(&facts, 1);
    sender.take_request().map(|request| request.to.shard.0)
}

#[test]
fn snapshot_streams_are_limited_per_node_and_in_all() {
    let has = |streams: &[(u64, bool)]| {
        let streams = (100..).zip(streams).map(|(shard, (node, linked))| (shard, *node, *linked));
        next(&[(1, 1)], &streams.collect::<Vec<_>>(), &[]).is_some()
    };
    assert!(has(&[]));
    assert!(has(&[(1, true); TO_NODE_MAX - 1]));
    assert!(!has(&[(1, true); TO_NODE_MAX]));
    assert!(!has(&[(1, false); TO_NODE_MAX]));
    assert!(has(&[(2, true); ALL_MAX - 1]));
    assert!(!has(&[(2, true); ALL_MAX]));
    assert!(has(&[(2, false); ALL_MAX]));
}

#[test]
fn urgent_snapshots_wait_only_for_urgent_ones() {
    let asked = [(10, 1), (11, 1), (12, 2), (13, 1)];
    assert_eq!(next(&asked, &[], &[]), Some(10));
    assert_eq!(next(&asked, &[], &[13]), Some(13));
    let (one, two) = ([(1, 1, true)], [(1, 1, true), (2, 1, true)]);
    assert_eq!(next(&asked, &one, &[]), Some(10));
    assert_eq!(next(&asked, &two, &[]), Some(12), "two are on their way to the first node");
    assert_eq!(next(&asked, &two, &[11, 13]), Some(11), "they hold nobody up");
    assert_eq!(next(&asked, &two, &[1, 11]), Some(11));
    assert_eq!(next(&asked, &two, &[1, 2, 11]), Some(12), "urgent ones wait for urgent ones");
    let itself = [(13, 1, true), (2, 1, true)];
    assert_eq!(next(&asked[3..], &itself, &[]), Some(13), "in its own place");
}

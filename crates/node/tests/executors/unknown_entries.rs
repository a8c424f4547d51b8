//! An entry of a kind that this program does not know, which a newer version has written: it is
//! named, and never passed over, neither at start nor later.

use std::collections::BTreeMap;

use keyspace::{Arc, Descriptor, Generation, KeyHasher, KeyspaceId, NodeId, ReplicaId, ShardId};
use node::recovery::{RecoverError, Replay};
use node::replica::record::{ENTRY, SHARD_CREATED, entry_prefix};
use node::replica::state::{Content, ShardState};
use replication::Entry;
use storage::engine::{Layout, MemoryEngine};
use storage::log::{Lsn, Record};

const SHARD: ShardId = ShardId(9);

fn state() -> ShardState {
    let engine = MemoryEngine::new(Layout::Ordered, KeyHasher::new([7; 16]));
    let descriptor = Descriptor {
        shard: SHARD,
        arc: Arc::whole(KeyspaceId(1)),
        replicas: vec![(ReplicaId(1), NodeId(1))],
        generation: Generation(1),
        leader: None,
    };
    ShardState::new(descriptor, Content::Keys(Box::new(engine)))
}

/// An entry's header, of a kind that nobody has given a meaning yet.
fn unheard_of() -> Vec<u8> {
    let mut bytes = vec![0; node::replica::entry::HEADER_BYTES];
    bytes[0] = 200;
    bytes
}

#[test]
fn start_refuses_unknown_entry_by_name() {
    let mut replay = Replay::new(NodeId(1), BTreeMap::new(), KeyHasher::new([7; 16]));
    let mut record =
        |kind, payload: &[u8]| replay.record(Lsn::NEW, &Record { shard: SHARD, kind, payload });
    record(SHARD_CREATED, &state().bootstrap_record()).unwrap();
    record(ENTRY, &entry_prefix(2, 1)).unwrap();
    let error = record(ENTRY, &[&entry_prefix(3, 1)[..], &unheard_of()].concat()).unwrap_err();
    assert!(matches!(error, RecoverError::Unknown(_)), "{error}");
    let text = error.to_string();
    for words in ["shard 9: entry 3", "kind 200", "newer version", "Nothing was changed"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
#[should_panic(expected = "entry 2 of its log is of kind 200, which this program does not know")]
fn running_node_stops_at_unknown_entry() {
    state().apply(&Entry::new(2, 1, unheard_of().into(), false), &mut Vec::new());
}

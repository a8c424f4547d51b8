//! Tests of the module above.

use keyspace::{
    Arc, CatalogueOp, Descriptor, Generation, KeyHasher, KeyspaceId, KeyspaceOptions, NodeId,
    Placement, ShardId,
};
use parking_lot::RwLock;
use storage::engine::{Layout, MemoryEngine};

use super::*;
use crate::replica::catalogue::{Change, System};
use crate::replica::state::Content;
use crate::reshape::bootstrap;

/// A follower's node may be an hour ahead, and is asked about a value that ends in a second.
#[test]
fn where_others_lead_their_clock_counts() {
    let hasher = KeyHasher::new([7; 16]);
    let key = hasher.key(b"k");
    let mut engine = Box::new(MemoryEngine::new(Layout::Ordered, hasher));
    engine.put(&key, &[b"v"], 5_000, Timestamp::from_millis(1_000));
    let (arc, generation) = (Arc::whole(KeyspaceId(1)), Generation(1));
    let (shard, replicas) = (ShardId(1), Vec::new());
    let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
    let mut state = ShardState::new(descriptor, Content::Keys(engine));
    let hour = Timestamp::from_millis(3_600_000);
    state.serving.follows(true);
    state.serving.raise_floor(Timestamp::from_millis(4_000));
    assert!(newest(&state, &key, hour).expect("it is known").is_some());
    // As its leader, it must have it logged first that time is so late.
    state.serving.follows(false);
    assert!(newest(&state, &key, hour).is_err());
    state.horizon = hour;
    hlc::ReadPromise::new(state.unsettled.clone()).lead();
    assert!(newest(&state, &key, hour).expect("it is settled").is_none());
}

/// A value that goes to and fro between two keys is in one of them at every moment, though each
/// may be found without one, twice.
#[test]
fn nothing_is_not_the_same_again_when_there_was_something() {
    let hasher = KeyHasher::new([1; 16]);
    let (key, at) = (hasher.key(b"k"), Timestamp::from_millis);
    let mut engine = MemoryEngine::new(Layout::Ordered, hasher);
    let never = nothing_since(&engine, &key);
    assert_eq!(nothing_since(&engine, &key), never);
    engine.put(&key, &[b"v"], 0, at(50));
    engine.delete(&key, at(60));
    let once = nothing_since(&engine, &key);
    assert_ne!(once, never);
    // … nor when that is forgotten.
    engine.put(&key, &[b"v"], 0, at(70));
    engine.delete(&key, at(80));
    engine.raise_safe_point(at(90));
    while engine.collect(9) {}
    assert!(![never, once].contains(&nothing_since(&engine, &key)));
}

/// A replica that serves nobody knows it all the same.
#[test]
fn a_watched_key_that_has_changed_is_known_wherever_there_is_a_newer_version() {
    let mut op = Vec::new();
    let options = KeyspaceOptions { placement: Placement::Ordered, ..Default::default() };
    CatalogueOp::Create { name: "k", options }.encode(&mut op);
    let created = System::default().apply(&op, &[NodeId(1)]);
    let Ok(Change::Created(keyspace)) = created else { panic!("{created:?}") };
    let (hasher, at) = (KeyHasher::new([1; 16]), Timestamp::from_millis);
    let mut state = bootstrap::first_state(&keyspace, 0, hasher);
    let engine = state.keys_mut().expect("it has keys");
    engine.put(&hasher.key(b"set"), &[b"v"], 0, at(40));
    engine.put(&hasher.key(b"gone"), &[b"v"], 0, at(40));
    engine.delete(&hasher.key(b"gone"), at(50));
    let route = Route::begun(keyspace, hasher, vec![std::sync::Arc::new(RwLock::new(state))]);
    let set = |seen| outdated(&route, &[(b"none", ObservedVersion::Absent(at(1))), (b"set", seen)]);
    assert_eq!(set(ObservedVersion::Version(at(39))), Some(&b"set"[..]));
    assert_eq!(set(ObservedVersion::Absent(at(39))), Some(&b"set"[..]));
    // As here, or newer than what is here.
    assert_eq!(set(ObservedVersion::Version(at(40))), None);
    assert_eq!(set(ObservedVersion::Version(at(41))), None);
    let gone = |seen| outdated(&route, &[(b"gone", seen)]);
    assert_eq!(gone(ObservedVersion::Version(at(40))), Some(&b"gone"[..]));
    assert_eq!(gone(ObservedVersion::Absent(at(50))), None);
}

/// A replica is closed up to 50 ms, and has applied more: one key had ended when another was
/// written. Nobody sees both.
#[test]
fn a_stale_read_sees_no_value_beside_what_was_written_after_its_end() {
    let mut op = Vec::new();
    let options = KeyspaceOptions { placement: Placement::Ordered, ..Default::default() };
    CatalogueOp::Create { name: "k", options }.encode(&mut op);
    let created = System::default().apply(&op, &[NodeId(1)]);
    let Ok(Change::Created(keyspace)) = created else { panic!("{created:?}") };
    let hasher = KeyHasher::new([1; 16]);
    let at = Timestamp::from_millis;
    let mut state = bootstrap::first_state(&keyspace, 0, hasher);
    let engine = state.keys_mut().expect("it has keys");
    engine.put(&hasher.key(b"ends"), &[b"v"], 100, at(40));
    engine.put(&hasher.key(b"new"), &[b"w"], 0, at(150));
    state.last = at(150);
    state.serving.fresh(10, at(50));
    let route = Route::begun(keyspace, hasher, vec![std::sync::Arc::new(RwLock::new(state))]);
    let now = ReadTime { time: at(60), boot: 20 };
    let value = |key: &[u8]| {
        let found = value_stale(&route, key, now, 1_000, |version| version.map(|v| v.timestamp));
        found.expect("it is fresh enough")
    };
    assert_eq!(value(b"new"), (Some(at(150)), 10));
    assert_eq!(value(b"ends"), (None, 10));
}

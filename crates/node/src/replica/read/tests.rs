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
use crate::routing::fetch::{FetchRequest, FetchResult, PastValue, past_here};

fn ordered_keyspace() -> keyspace::Keyspace {
    let mut op = Vec::new();
    let options = KeyspaceOptions { placement: Placement::Ordered, ..Default::default() };
    CatalogueOp::Create { name: "k", options }.encode(&mut op);
    let created = System::default().apply(&op, &[NodeId(1)], Timestamp::ZERO);
    let Ok(Change::Created(keyspace)) = created else { panic!("{created:?}") };
    keyspace
}

/// A follower's node may be an hour ahead, and is asked about a value that ends in a second.
#[test]
fn follower_judges_expiry_by_leaders_clock() {
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
    assert!(newest(&state, &key, hour).expect("the version is known").is_some());
    // As its leader, it must have it logged first that time is so late.
    state.serving.follows(false);
    assert!(newest(&state, &key, hour).is_err());
    state.horizon = hour;
    hlc::ReadPromise::new(state.unsettled.clone()).lead();
    assert!(newest(&state, &key, hour).expect("the time is settled").is_none());
}

/// A value that goes to and fro between two keys is in one of them at every moment, though each
/// may be found without one, twice.
#[test]
fn absent_key_is_seen_as_changed_after_put_and_delete() {
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
fn replica_with_newer_version_knows_watched_key_changed() {
    let keyspace = ordered_keyspace();
    let (hasher, at) = (KeyHasher::new([1; 16]), Timestamp::from_millis);
    let mut state = bootstrap::first_state(&keyspace, 0, hasher);
    let engine = state.engine_mut().expect("the shard has keys");
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
    let changed_key = |seen| outdated(&route, &[(b"gone", seen)]);
    assert_eq!(changed_key(ObservedVersion::Version(at(40))), Some(&b"gone"[..]));
    assert_eq!(changed_key(ObservedVersion::Absent(at(50))), None);
}

/// A replica is closed up to 50 ms, and has applied more: one key had ended when another was
/// written. Nobody sees both.
#[test]
fn stale_read_shows_no_expired_value_beside_later_write() {
    let keyspace = ordered_keyspace();
    let hasher = KeyHasher::new([1; 16]);
    let at = Timestamp::from_millis;
    let mut state = bootstrap::first_state(&keyspace, 0, hasher);
    let engine = state.engine_mut().expect("the shard has keys");
    engine.put(&hasher.key(b"ends"), &[b"v"], 100, at(40));
    engine.put(&hasher.key(b"new"), &[b"w"], 0, at(150));
    state.last = at(150);
    state.serving.fresh(10, at(50));
    let route = Route::begun(keyspace, hasher, vec![std::sync::Arc::new(RwLock::new(state))]);
    let now = ReadTime { time: at(60), boot: 20 };
    let value = |key: &[u8]| {
        let found = value_stale(&route, key, now, 1_000, |version| version.map(|v| v.timestamp));
        found.expect("the replica is fresh enough")
    };
    assert_eq!(value(b"new"), (Some(at(150)), 10));
    assert_eq!(value(b"ends"), (None, 10));
}

/// What it knew of the key went with the key.
#[test]
fn key_that_moved_away_is_not_as_it_was_seen() {
    let keyspace = ordered_keyspace();
    let (hasher, at) = (KeyHasher::new([1; 16]), Timestamp::from_millis);
    let mut state = bootstrap::first_state(&keyspace, 0, hasher);
    let engine = state.engine_mut().expect("the shard has keys");
    engine.put(&hasher.key(b"gone"), &[b"v"], 0, at(40));
    engine.delete(&hasher.key(b"gone"), at(50));
    engine.put(&hasher.key(b"set"), &[b"v"], 0, at(60));
    state.last = at(60);
    state.serving.until(u64::MAX);
    let view = std::sync::Arc::new(RwLock::new(state));
    let route = Route::begun(keyspace, hasher, vec![view.clone()]);
    let now = ReadTime { time: at(70), boot: 20 };
    let as_seen = |key: &[u8], seen| is_as_seen(&route, key, seen, now);
    let absent = |ms| ObservedVersion::Absent(at(ms));
    let version = |ms| ObservedVersion::Version(at(ms));
    assert!(as_seen(b"gone", absent(50)) && as_seen(b"set", version(60)));
    assert!(!as_seen(b"gone", absent(30)), "it had a value meanwhile");
    assert!(!as_seen(b"set", version(59)) && !as_seen(b"set", absent(60)));
    assert!(!as_seen(b"gone", version(50)));
    view.write().engine_mut().expect("it has keys").put(&hasher.key(b"gone"), &[b"v"], 0, at(70));
    view.write().engine_mut().expect("it has keys").delete(&hasher.key(b"gone"), at(71));
    assert!(!as_seen(b"gone", absent(50)));
    assert!(as_seen(b"none", absent(70)));
    view.write().merged_away = true;
    assert!(!as_seen(b"none", absent(70)), "its shard has become a part of another");
}

/// A replica that does not lead answers at a time that is closed here, and within the horizon that
/// binds the next leader; and not a moment later.
#[test]
fn past_is_answered_here_up_to_closed_time_and_horizon() {
    let keyspace = ordered_keyspace();
    let (hasher, at) = (KeyHasher::new([1; 16]), Timestamp::from_millis);
    let mut state = bootstrap::first_state(&keyspace, 0, hasher);
    let engine = state.engine_mut().expect("the shard has keys");
    engine.put(&hasher.key(b"k"), &[b"old"], 0, at(20));
    engine.put(&hasher.key(b"k"), &[b"new"], 0, at(40));
    engine.put(&hasher.key(b"later"), &[b"x"], 0, at(40));
    engine.raise_safe_point(at(10));
    state.horizon = at(60);
    let view = std::sync::Arc::new(RwLock::new(state));
    let route = Route::begun(keyspace, hasher, vec![view.clone()]);
    let want = FetchRequest::keys([&b"k"[..], b"later"]);
    let shown = |ms| {
        let found = past_here(&route, 0, at(ms), &want)?;
        let FetchResult::Past(values) = found else { panic!("{found:?}") };
        let word = |value: &PastValue| match value {
            PastValue::Value(held) => String::from_utf8_lossy(&held.value).into_owned(),
            other => format!("{other:?}"),
        };
        Some(values.iter().map(word).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(shown(30), None, "nothing is closed yet");
    view.read().serving.fresh(1, at(50));
    assert_eq!(shown(30).as_deref(), Some("old NilYet"));
    assert_eq!(shown(50).as_deref(), Some("new x"));
    assert_eq!(shown(51), None);
    view.read().serving.fresh(2, at(90));
    assert_eq!(shown(60).as_deref(), Some("new x"));
    assert_eq!(shown(61), None, "the next leader may write there");
    let never = FetchRequest::keys([&b"never"[..]]);
    assert_eq!(past_here(&route, 0, at(50), &never), None, "a replica may lack what is later");
    let below = past_here(&route, 0, at(9), &want);
    assert_eq!(below, Some(FetchResult::BelowSafePoint(at(10))));
    view.write().merged_away = true;
    assert_eq!(shown(30), None, "its keys are another shard's");
}

//! Tests of the module above.

use hlc::ReadPromise;
use keyspace::{CatalogueOp, ClusterVersion, KeyHasher, KeyspaceOptions, NodeId};
use parking_lot::RwLock;
use std::sync::Arc;

use crate::replica::catalogue::{Change, System};
use crate::replica::read::{PastReadError, read_at};
use crate::replica::state::Content;
use crate::reshape::bootstrap;
use command::{Step as Command, Transaction, Write};
use txn::locks::apply::{Owns, apply};
use txn::locks::{Deadline, Keys, Places, Prepare, Role, Step, StepReply, TxnId};

use super::*;

const PLACEMENTS: [Placement; 3] = [Placement::Hashed, Placement::Ordered, Placement::LinearHash];

/// A replica that may be read; one key ends at 100 ms.
fn route(placement: Placement) -> Route {
    let mut op = Vec::new();
    let options = KeyspaceOptions { placement, ..Default::default() };
    CatalogueOp::Create { name: "k", options }.encode(&mut op);
    let mut system = System::default();
    system.catalogue.raise_version(ClusterVersion::NEWEST).expect("the version is the next one");
    let created = system.apply(&op, &[NodeId(1)], Timestamp::ZERO);
    let Ok(Change::Created(keyspace)) = created else { panic!("{created:?}") };
    let hasher = KeyHasher::new([1; 16]);
    let states = (0..keyspace.shards.len()).map(|place| {
        let mut state = bootstrap::first_state(&keyspace, place, hasher);
        for (name, expiry_ms) in [(b"ends", 100), (b"last", 0)] {
            let key = hasher.key(name);
            if state.owns(&key) {
                let engine = state.engine_mut().expect("the shard has keys");
                engine.put(&key, &[b"v"], expiry_ms, Timestamp::from_millis(1));
            }
        }
        state.serving.until(10);
        Arc::new(RwLock::new(state))
    });
    let views = states.collect();
    Route::begun(keyspace, hasher, views)
}

const SLOW: ReadTime = ReadTime { time: Timestamp::from_millis(50), boot: 1 };

/// The leader's clock stands at 200 ms, and everything below that is settled.
fn settle_up_to_200_ms(route: &Route) {
    for view in &route.views {
        let mut state = view.write();
        state.horizon = Timestamp::from_millis(1_000);
        ReadPromise::new(state.unsettled.clone()).settle_up_to(Timestamp::from_millis(200));
        state.serving.raise_floor(Timestamp::from_millis(200));
    }
}

fn keys(route: &Route, asked: &ScanScope) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    each_key(route, asked, 1, &mut |key| keys.push(key.to_vec()));
    keys.sort();
    keys
}

#[test]
fn scan_with_slow_clock_hides_keys_that_leader_reported_expired() {
    for placement in PLACEMENTS {
        let route = route(placement);
        let asked = admit(&route, &everywhere, SLOW).expect("the replica serves");
        assert_eq!(keys(&route, &asked), [b"ends", b"last"]);
        settle_up_to_200_ms(&route);
        // Who was admitted before goes on as he began.
        assert_eq!(size(&route, &asked), 2);
        let asked = admit(&route, &everywhere, SLOW).expect("all is settled");
        assert_eq!(keys(&route, &asked), [b"last"]);
        assert_eq!(size(&route, &asked), 1);
        for random in 0..50 {
            assert_eq!(random_key(&route, &asked, random).as_deref(), Some(&b"last"[..]));
        }
        let slot = slot_of(b"ends");
        let of_slot = each_key_of_slot(&route, &asked, slot, 9, 9, &mut |key| {
            panic!("{}", key.escape_ascii());
        });
        assert_eq!(of_slot.is_ok(), placement == Placement::Hashed);
    }
}

/// Clocks that were drawn ahead count on within a millisecond, and leaders tell theirs in
/// milliseconds.
#[test]
fn scan_shows_entries_newer_than_all_clocks() {
    let (ms, newest) = (Timestamp::from_millis(200), Timestamp(Timestamp::from_millis(200).0 + 7));
    for placement in PLACEMENTS {
        let route = route(placement);
        settle_up_to_200_ms(&route);
        for view in &route.views {
            let mut state = view.write();
            assert_eq!(state.serving.floor(), ms);
            state.last = newest;
            state.engine_mut().expect("the shard has keys").flush(newest);
            let key = route.key(b"new");
            if state.owns(&key) {
                state.engine_mut().expect("the shard has keys").put(&key, &[b"v"], 0, newest);
            }
        }
        let asked = admit(&route, &everywhere, SLOW).expect("all is settled");
        assert_eq!(keys(&route, &asked), [b"new"]);
        assert_eq!(size(&route, &asked), 1);
    }
}

/// A transaction that was locked in the millisecond in which its leader told its clock may have
/// been acknowledged.
#[test]
fn scan_waits_for_lock_of_leaders_millisecond() {
    let at = Timestamp(Timestamp::from_millis(200).0 + 7);
    let route = route(Placement::Ordered);
    settle_up_to_200_ms(&route);
    let id = TxnId { start: Timestamp::from_millis(150), coordinator: 1, attempt: 0 };
    let commands = vec![Command::Write(Write::Delete { key: b"last" })];
    let part = Transaction { commands, ..Transaction::default() };
    let record = &b"last"[..];
    let (promised, places) = (Keys::from_slice(&[record]), Places::from_slice(&[0]));
    let prepare = Prepare {
        id,
        is_first: false,
        reserved_as: None,
        record,
        promised,
        role: Role::Votes,
        deadline: Some(Deadline::NEVER),
        places,
        part,
    };
    let mut state = route.views[0].write();
    let ShardState { locks, content: Content::Keys(engine), .. } = &mut *state else {
        panic!("it has keys");
    };
    let arc = &keyspace::Arc::whole(keyspace::KeyspaceId(1));
    let owns = Owns { arc, key: &|_| true, up_to: &|_| true };
    let step = Step::Prepare(prepare);
    let reply = apply(locks, engine, &step, at, &owns, &mut ());
    assert!(matches!(reply, StepReply::Voted(..)));
    state.last = at;
    drop(state);
    let blocked = admit(&route, &everywhere, SLOW).unwrap_err();
    assert!(blocked.lock.is_some(), "{blocked:?}");
}

/// A key is there throughout; between two pieces it is overwritten, and what it had before is
/// collected.
#[test]
fn collection_during_scan_hides_no_key() {
    for placement in PLACEMENTS {
        let route = route(placement);
        let asked = admit(&route, &everywhere, SLOW).expect("the replica serves");
        let key = route.key(b"last");
        let mut state = route.views[route.place(&key)].write();
        let engine = state.engine_mut().expect("the shard has keys");
        engine.put(&key, &[b"w"], 0, Timestamp::from_millis(60));
        engine.raise_safe_point(Timestamp::from_millis(70));
        while engine.collect(9) {}
        drop(state);
        assert!(keys(&route, &asked).iter().any(|key| key == b"last"));
    }
}

/// Its left neighbour's replica here may apply that some time later, in another executor.
#[test]
fn scan_is_void_after_shard_is_absorbed() {
    for placement in PLACEMENTS {
        let route = route(placement);
        let asked = admit(&route, &everywhere, SLOW).expect("the replica serves");
        assert!(is_unchanged(&route, &asked));
        let key = route.key(b"last");
        let place = route.place(&key);
        let taken = route.views[place].write().take();
        assert!(!is_unchanged(&route, &asked), "the answer is void");
        assert!(taken.engine().is_some_and(|engine| !engine.is_empty(SLOW.time)));
        let found = read_at(&route, b"last", SLOW.time, |_| ());
        assert_eq!(found, Err(PastReadError::Moved));
    }
}

#[test]
fn scan_is_blocked_by_expiry_below_floor() {
    let route = route(Placement::Ordered);
    route.views[0].read().serving.raise_floor(Timestamp::from_millis(200));
    let blocked = admit(&route, &everywhere, SLOW).unwrap_err();
    assert_eq!(blocked, Blocked { place: 0, at: Timestamp::from_millis(200), lock: None });
    // A question about none of its shards is blocked by none.
    assert_eq!(size(&route, &admit(&route, &|_| false, SLOW).expect("nothing")), 0);
}

//! Every event has the fields that `docs/events.md` lists for its type, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use keyspace::{
    AdminState, ClusterVersion, DecodeError, Generation, KeyspaceId, NodeId, ReplicaId, ShardId,
    Timestamp,
};
use node::event::{EventType, MemberChange, RecordState, TraceStep};
use overlay::LookupChoice;
use overlay::request::{HopSource, RouteHop};
use serde_json::Value;
use txn::coordinator::TxnRefusal;
use txn::locks::TxnId;

use super::super::stream::STREAM_TYPES;
use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/events.md");

fn version(number: u8) -> ClusterVersion {
    ClusterVersion::new(number).unwrap()
}

fn decided(what: DecisionKind) -> EventKind {
    EventKind::DecisionMade(Box::new(RecordedDecision {
        number: 1,
        since: 0,
        shard: ShardId(5),
        what,
        nodes: Vec::new(),
        why: "an operator asked for it".into(),
        outcome: DecisionOutcome::UnderWay,
    }))
}

fn step(phase: TxnPhase) -> EventKind {
    EventKind::Transaction(Box::new(TxnTrace {
        id: TxnId { start: Timestamp(99), coordinator: 7, attempt: 1 },
        keyspace: KeyspaceId(1),
        record: Some(ShardId(5)),
        keys: 2,
        phase,
        is_last: false,
    }))
}

fn request() -> EventKind {
    let leg = RouteHop { shard: ShardId(5), node: NodeId(2), by: HopSource::Full };
    let steps = vec![TraceStep { leg, took: None }; 100];
    EventKind::Request(Box::new(SampledRequest {
        is_write: false,
        keyspace: "0".into(),
        key: b"k\xff"[..].into(),
        keys: 1,
        shard: ShardId(5),
        leader: Some(NodeId(2)),
        route: Trace {
            way: LookupChoice::default(),
            owner: None,
            failure: None,
            hops: 1,
            messages: Some(2),
            begins_at: None,
            steps,
            took: Duration::from_micros(3),
        },
    }))
}

fn of_nodes() -> Vec<EventKind> {
    let (node, error) = (NodeId(2), DecodeError::Field { what: "x" });
    vec![
        EventKind::NodeStarted { record: RecordState::Torn },
        EventKind::NodeStopping,
        EventKind::Member { node, state: MemberChange::Down },
        EventKind::Link { node, is_up: true },
        EventKind::AdminState { node, before: AdminState::default(), now: AdminState::default() },
        EventKind::VersionRaising { to: version(2), seconds: 5 },
        EventKind::VersionBlocked { to: version(2), why: "n3".into() },
        EventKind::Checkpointed { log_bytes: 9 },
        EventKind::NoSpaceForCheckpoint,
        EventKind::UnreadableCatalogue { error },
    ]
}

fn of_shards() -> Vec<EventKind> {
    let (shard, right, replica) = (ShardId(5), ShardId(6), ReplicaId(1));
    let (left, node, index) = (shard, NodeId(2), 10);
    let places = vec![(replica, node)];
    let finding =
        ReplicaComparison { shard, index, agreeing: vec![replica], differing: Vec::new() };
    vec![
        EventKind::LeaderElected { shard, replica, term: 3 },
        EventKind::ReplicaStarted { shard, replica },
        EventKind::ReplicaEnded { shard, replica, why: ReplicaEndReason::Removed },
        EventKind::LeftoverReplicaEnded { shard, by: right },
        EventKind::ReplicasChanged { shard, added: places.clone(), removed: places.clone() },
        EventKind::ReplicasCompared { finding, places },
        EventKind::Split { shard, right, at: Cut::Number(7) },
        EventKind::Merged { left, right, frozen_nanos: Some(1_500_000) },
        EventKind::MergeRelocating { left, right, why: "y".into() },
        EventKind::MergeLeaderMoved { left, right },
        EventKind::MergeGivenUp { left, right, nanos: 7_000_000 },
        EventKind::TableGrowing { keyspace: "l".into(), why: "y".into() },
        EventKind::TableShrinking { keyspace: "l".into() },
        EventKind::SnapshotStarted { shard, index, about_bytes: 1, to: node },
        EventKind::SnapshotSent { shard, node: "n2".into(), bytes: 1, nanos: 2_000_000 },
        EventKind::SnapshotNotSent { shard, why: None, is_wrong: false },
        EventKind::SnapshotInstalled { shard, index },
        EventKind::SnapshotGivenUp { shard, index, why: SnapshotRejection::DiskFull },
        EventKind::UnreadableBootstrapRecord { shard, error: DecodeError::Field { what: "x" } },
    ]
}

fn of_decisions() -> Vec<EventKind> {
    let (right, generation) = (ShardId(6), Generation(1));
    let ended = |outcome| EventKind::DecisionEnded { number: 1, shard: ShardId(5), outcome };
    let took = Duration::from_millis(4);
    vec![
        decided(DecisionKind::Replicas {
            add: vec![NodeId(2)],
            remove: vec![ReplicaId(1)],
            predicted: Default::default(),
            generation,
        }),
        decided(DecisionKind::Leader { to: ReplicaId(1), node: NodeId(2) }),
        decided(DecisionKind::Split { right, at: Cut::Slot(9), generation }),
        decided(DecisionKind::Merge { right, end: Cut::Key(b"k"[..].into()), generation }),
        ended(DecisionOutcome::NotDone),
        ended(DecisionOutcome::Done { took, deviation: Some(0.5) }),
    ]
}

fn of_requests() -> Vec<EventKind> {
    let shards = vec![ShardId(5), ShardId(6)];
    let shard = ShardId(5);
    vec![
        request(),
        step(TxnPhase::Prepare { shards: shards.clone(), in_order: true }),
        step(TxnPhase::Voted { shard }),
        step(TxnPhase::Refused { shard, why: TxnRefusal::Locked }),
        step(TxnPhase::Committed { at: Timestamp(9) }),
        step(TxnPhase::Aborted),
        step(TxnPhase::Decide { is_committed: true }),
        step(TxnPhase::Resolve { shards: shards.clone(), is_committed: false }),
        step(TxnPhase::Finished),
        step(TxnPhase::GivenUp),
        step(TxnPhase::Recover),
        step(TxnPhase::Prevent { shards }),
    ]
}

fn examples() -> Vec<EventKind> {
    [of_nodes(), of_shards(), of_decisions(), of_requests()].concat()
}

fn json(what: EventKind) -> Value {
    let event = Event { node: NodeId(0xab), at: Timestamp::from_millis(1000), what };
    let json = encode(&event, Some("0"), &|node| format!("n{}", node.0));
    assert!(json.len() <= EVENT_BYTES_MAX && !json.contains(char::is_control));
    serde_json::from_str(&json).unwrap()
}

/// The fields that the document lists, by the heading that they stand under.
fn documented() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let (mut heading, mut in_fields) = ("", false);
    for line in DOCUMENT.lines() {
        if let Some(text) = line.strip_prefix("### ").or_else(|| line.strip_prefix("## ")) {
            (heading, in_fields) = (text, false);
            found.entry(heading).or_default();
        } else if !line.starts_with('|') {
            in_fields = false;
        } else if line.starts_with("| field |") {
            in_fields = true;
        } else if in_fields {
            let names = line.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2);
            found.entry(heading).or_default().extend(names);
        }
    }
    found
}

#[test]
fn every_type_has_an_example_and_a_section() {
    let documented = documented();
    let shown: BTreeSet<EventType> = examples().iter().map(EventKind::event_type).collect();
    assert_eq!(shown.len(), EventType::ALL.len());
    for name in EventType::ALL.iter().map(|one| one.name()).chain(STREAM_TYPES) {
        assert!(documented.contains_key(name), "docs/events.md has no section {name:?}");
    }
}

#[test]
fn fields_are_those_of_the_document() {
    let documented = documented();
    let common = &documented["Fields of every event"];
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for what in examples() {
        let name = what.event_type().name();
        let json = json(what);
        assert_eq!(json["type"], name);
        let own = &documented[name];
        for field in json.as_object().unwrap().keys() {
            assert!(
                own.contains(&**field) || common.contains(&**field),
                "{name}: docs/events.md lacks {field:?}"
            );
            seen.entry(name.to_owned()).or_default().insert(field.clone());
        }
    }
    for one in EventType::ALL {
        let seen = &seen[one.name()];
        let missing: Vec<_> =
            documented[one.name()].iter().filter(|field| !seen.contains(**field)).collect();
        assert!(missing.is_empty(), "{}: no event has {missing:?}", one.name());
    }
}

#[test]
fn events_name_their_place_and_time() {
    let split =
        json(EventKind::Split { shard: ShardId(5), right: ShardId(6), at: Cut::Slot(9000) });
    assert_eq!(split["node"], "00000000000000ab");
    assert_eq!((&split["at"], &split["at_ms"]), (&"65536000".into(), &1000.into()));
    assert_eq!((&split["shard"], &split["right"]), (&5.into(), &6.into()));
    assert_eq!(split["cut"], 9000);
    assert_eq!((&split["keyspace"], &split["severity"]), (&"0".into(), &"debug".into()));
    assert_eq!(split["text"], "shard 5 was split at slot 9000: its right half is shard 6");
    let request = json(request());
    assert_eq!(request["key"]["base64"], "a/8=");
    assert_eq!(request["route"]["steps"].as_array().unwrap().len(), 64);
    assert_eq!(request["route"]["steps"][0]["name"], "n2");
    let step = json(step(TxnPhase::Refused { shard: ShardId(6), why: TxnRefusal::Locked }));
    assert_eq!((&step["shard"], &step["shards"][0]), (&5.into(), &6.into()));
    assert_eq!((&step["reason"], &step["attempt"]), (&"locked".into(), &1.into()));
    assert_eq!(step["txn"], "99.0000000000000007");
}

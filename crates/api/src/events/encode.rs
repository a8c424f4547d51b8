//! Events of a node's cores as JSON. `docs/events.md` has every field.

use keyspace::{Cut, NodeId, ReplicaId, ShardId};
use node::control::decisions::{DecisionKind, DecisionOutcome, RecordedDecision};
use node::event::stream::EVENT_BYTES_MAX;
use node::event::{Event, EventKind, SampledRequest, Severity, SnapshotRejection, Trace};
use node::replica::{ReplicaComparison, ReplicaEndReason};
use txn::coordinator::{TxnPhase, TxnTrace};

use super::fields::{Fields, LIST_MAX};
use crate::{RouteStatus, RouteStep};

/// An event as one line of JSON. `keyspace` is the name of the keyspace that it is about, if it is
/// about one that the node knows; `name_of` what people call a node.
pub fn encode(event: &Event, keyspace: Option<&str>, name_of: &dyn Fn(NodeId) -> String) -> String {
    let mut fields = common(event, keyspace);
    write(&event.what, name_of, &mut fields);
    let json = fields.end();
    match json.len() <= EVENT_BYTES_MAX {
        true => json,
        false => common(event, keyspace).end(),
    }
}

fn common(event: &Event, keyspace: Option<&str>) -> Fields {
    let mut fields = Fields::new(event.what.event_type().name());
    fields.node("node", event.node);
    fields.time("at", event.at);
    fields.number("at_ms", event.at.millis());
    fields.text("severity", severity(event.what.severity()));
    if let Some(shard) = event.what.shard() {
        fields.number("shard", shard.0);
    }
    if let Some(keyspace) = keyspace {
        fields.text("keyspace", keyspace);
    }
    fields.text("text", &event.to_string());
    fields
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Debug => "debug",
        Severity::Info => "info",
        Severity::Warn => "warn",
        Severity::Error => "error",
    }
}

fn up_or_down(is_up: bool) -> &'static str {
    if is_up { "up" } else { "down" }
}

fn write(what: &EventKind, name_of: &dyn Fn(NodeId) -> String, fields: &mut Fields) {
    match what {
        EventKind::NodeStarted { record } => {
            if let Some(recorded) = record.name() {
                fields.text("recorded", recorded);
            }
        }
        EventKind::NodeStopping | EventKind::NoSpaceForCheckpoint => {}
        EventKind::Member { node, state } => {
            fields.node("member", *node);
            fields.text("state", state.name());
        }
        EventKind::Link { node, is_up } => {
            fields.node("peer", *node);
            fields.text("state", up_or_down(*is_up));
        }
        EventKind::AdminState { node, before, now } => {
            fields.node("member", *node);
            fields.text("before", before.word());
            fields.text("now", now.word());
        }
        EventKind::VersionRaising { to, seconds } => {
            fields.number("to", to.number());
            fields.number("supported_ms", seconds.saturating_mul(1000));
        }
        EventKind::VersionBlocked { to, why } => {
            fields.number("to", to.number());
            fields.text("why", why);
        }
        EventKind::Checkpointed { log_bytes } => fields.number("log_bytes", *log_bytes),
        EventKind::UnreadableCatalogue { error }
        | EventKind::UnreadableBootstrapRecord { error, .. } => {
            fields.text("why", &error.to_string());
        }
        EventKind::LeaderElected { replica, term, .. } => {
            fields.number("replica", replica.0);
            fields.number("term", *term);
        }
        EventKind::ReplicaStarted { replica, .. } => fields.number("replica", replica.0),
        EventKind::ReplicaEnded { replica, why, .. } => {
            fields.number("replica", replica.0);
            fields.text("reason", end_reason(*why));
        }
        EventKind::LeftoverReplicaEnded { by, .. } => fields.number("by", by.0),
        EventKind::ReplicasChanged { added, removed, .. } => {
            places("added", added, fields);
            places("removed", removed, fields);
        }
        EventKind::ReplicasCompared { finding, places: at } => {
            let ReplicaComparison { index, agreeing, differing, .. } = finding;
            fields.number("index", *index);
            fields.numbers("agreeing", agreeing.iter().map(|replica| replica.0));
            fields.numbers("differing", differing.iter().map(|replica| replica.0));
            places("replicas", at, fields);
        }
        EventKind::Split { right, at, .. } => {
            fields.number("right", right.0);
            cut(at, fields);
        }
        EventKind::MergeLeaderMoved { right, .. } => fields.number("right", right.0),
        EventKind::Merged { right, frozen_nanos, .. } => {
            fields.number("right", right.0);
            if let Some(nanos) = frozen_nanos {
                fields.fraction("frozen_ms", *nanos as f64 / 1e6);
            }
        }
        EventKind::MergeRelocating { right, why, .. } => {
            fields.number("right", right.0);
            fields.text("why", why);
        }
        EventKind::MergeGivenUp { right, nanos, .. } => {
            fields.number("right", right.0);
            fields.number("tried_ms", nanos / 1_000_000);
        }
        EventKind::TableGrowing { why, .. } => fields.text("why", why),
        EventKind::TableShrinking { .. } => {}
        EventKind::DecisionMade(decided) => decision(decided, fields),
        EventKind::DecisionEnded { number, outcome, .. } => {
            fields.number("number", *number);
            decision_outcome(outcome, fields);
        }
        EventKind::SnapshotStarted { index, about_bytes, to, .. } => {
            fields.number("index", *index);
            fields.number("about_bytes", *about_bytes);
            fields.node("to", *to);
        }
        EventKind::SnapshotSent { node, bytes, nanos, .. } => {
            fields.text("to_name", node);
            fields.number("bytes", *bytes);
            fields.number("took_ms", nanos / 1_000_000);
        }
        EventKind::SnapshotNotSent { why, .. } => match why {
            Some(why) => fields.text("why", why),
            None => fields.null("why"),
        },
        EventKind::SnapshotInstalled { index, .. } => fields.number("index", *index),
        EventKind::SnapshotGivenUp { index, why, .. } => {
            fields.number("index", *index);
            fields.text("reason", rejection(*why));
        }
        EventKind::Request(request) => sampled(request, name_of, fields),
        EventKind::Transaction(trace) => transaction(trace, fields),
    }
}

fn places(name: &str, places: &[(ReplicaId, NodeId)], fields: &mut Fields) {
    fields.objects(name, places, |object, (replica, node)| {
        object.number("replica", replica.0);
        object.node("node", *node);
    });
}

fn end_reason(why: ReplicaEndReason) -> &'static str {
    match why {
        ReplicaEndReason::LostLog => "lost-log",
        ReplicaEndReason::Differs => "differs",
        ReplicaEndReason::MissingMergeState => "missing-merge-state",
        ReplicaEndReason::Removed => "removed",
        ReplicaEndReason::Before => "ended-before",
    }
}

fn rejection(why: SnapshotRejection) -> &'static str {
    match why {
        SnapshotRejection::UncoveredHalves => "uncovered-halves",
        SnapshotRejection::NotNeeded => "not-needed",
        SnapshotRejection::DiskFull => "disk-full",
    }
}

fn decision(decided: &RecordedDecision, fields: &mut Fields) {
    fields.number("number", decided.number);
    let right = |fields: &mut Fields, right: &ShardId, at: &Cut| {
        fields.number("right", right.0);
        cut(at, fields);
    };
    match &decided.what {
        DecisionKind::Replicas { add, remove, predicted, .. } => {
            fields.text("decision", "replicas");
            fields.nodes("add", add);
            fields.numbers("remove", remove.iter().map(|replica| replica.0));
            fields.fraction("deviation", predicted.before);
            fields.fraction("predicted", predicted.after);
        }
        DecisionKind::Leader { to, node } => {
            fields.text("decision", "leader");
            fields.node("to", *node);
            fields.number("replica", to.0);
        }
        DecisionKind::Split { right: half, at, .. } => {
            fields.text("decision", "split");
            right(fields, half, at);
        }
        DecisionKind::Merge { right: neighbour, end, .. } => {
            fields.text("decision", "merge");
            right(fields, neighbour, end);
        }
    }
    fields.text("why", &decided.why);
}

/// Where a shard is cut: a slot, a key, or the number of a position in hexadecimal.
fn cut(at: &Cut, fields: &mut Fields) {
    match at {
        Cut::Slot(slot) => fields.number("cut", *slot),
        Cut::Key(key) => fields.key("cut", key),
        Cut::Number(number) => fields.text("cut", &format!("{number:016x}")),
    }
}

fn decision_outcome(outcome: &DecisionOutcome, fields: &mut Fields) {
    let name = match outcome {
        DecisionOutcome::UnderWay => "under-way",
        DecisionOutcome::Done { .. } => "done",
        DecisionOutcome::NotDone => "not-done",
        DecisionOutcome::HandedOn => "handed-on",
    };
    fields.text("outcome", name);
    if let DecisionOutcome::Done { took, deviation } = outcome {
        fields.number("took_ms", took.as_millis() as u64);
        if let Some(deviation) = deviation {
            fields.fraction("deviation", *deviation);
        }
    }
}

fn sampled(request: &SampledRequest, name_of: &dyn Fn(NodeId) -> String, fields: &mut Fields) {
    let SampledRequest { is_write, key, keys, leader, route, .. } = request;
    fields.text("op", if *is_write { "write" } else { "read" });
    fields.key("key", key);
    fields.number("keys", *keys as u64);
    match leader {
        Some(leader) => fields.node("leader", *leader),
        None => fields.null("leader"),
    }
    let mut route = RouteStatus::of(route, name_of);
    route.steps.truncate(LIST_MAX);
    fields.json("route", &serde_json::to_string(&route).expect("a route becomes JSON"));
}

fn transaction(trace: &TxnTrace, fields: &mut Fields) {
    let TxnTrace { id, keys, phase, .. } = trace;
    fields.text("txn", &format!("{}.{:016x}", id.start.0, id.coordinator));
    fields.number("attempt", id.number());
    let (name, shards): (_, &[ShardId]) = match phase {
        TxnPhase::Prepare { shards, .. } => ("prepare", shards),
        TxnPhase::Voted { shard } => ("voted", std::slice::from_ref(shard)),
        TxnPhase::Refused { shard, .. } => ("refused", std::slice::from_ref(shard)),
        TxnPhase::Committed { .. } => ("committed", &[]),
        TxnPhase::Aborted => ("aborted", &[]),
        TxnPhase::Decide { .. } => ("decide", trace.record.as_slice()),
        TxnPhase::Resolve { shards, .. } => ("resolve", shards),
        TxnPhase::Finished => ("finished", &[]),
        TxnPhase::GivenUp => ("given-up", &[]),
        TxnPhase::Recover => ("recover", trace.record.as_slice()),
        TxnPhase::Prevent { shards } => ("prevent", shards),
    };
    fields.text("phase", name);
    fields.numbers("shards", shards.iter().map(|shard| shard.0));
    fields.number("keys", *keys as u64);
    match phase {
        TxnPhase::Prepare { in_order, .. } => fields.flag("in_order", *in_order),
        TxnPhase::Refused { why, .. } => fields.text("reason", why.name()),
        TxnPhase::Committed { at } => fields.time("commit_at", *at),
        TxnPhase::Decide { is_committed } | TxnPhase::Resolve { is_committed, .. } => {
            fields.text("outcome", if *is_committed { "committed" } else { "aborted" });
        }
        _ => {}
    }
}

impl RouteStatus {
    /// The route of a lookup.
    pub fn of(trace: &Trace, name_of: &dyn Fn(NodeId) -> String) -> Self {
        let id = |node: NodeId| format!("{:016x}", node.0);
        let steps = trace.steps.iter().map(|step| RouteStep {
            shard: step.leg.shard.0,
            node: id(step.leg.node),
            name: name_of(step.leg.node),
            by: step.leg.by.to_string(),
            micros: step.took.map(|took| took.as_micros() as u64),
        });
        Self {
            lookup: trace.way.kind.name().to_owned(),
            form: trace.way.form.name().to_owned(),
            images: trace.way.cached,
            shard: trace.owner.as_ref().map(|owner| owner.shard().0),
            leader: trace.leader().map(id),
            hops: trace.hops,
            messages: trace.messages,
            begins_at: trace.begins_at.map(|shard| shard.0),
            micros: trace.took.as_micros() as u64,
            failure: trace.failure.map(str::to_owned),
            steps: steps.collect(),
        }
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;

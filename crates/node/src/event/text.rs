//! The sentences of [`EventKind`].

use std::fmt;

use keyspace::text::rounded_size;
use keyspace::{NodeId, ReplicaId, ShardId};

use super::{EventKind, MemberChange, SampledRequest, SnapshotRejection};
use crate::control::decisions::{DecisionKind, DecisionOutcome, RecordedDecision};
use crate::replica::{ReplicaComparison, ReplicaEndReason};
use txn::coordinator::{TxnPhase, TxnTrace};

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::NodeStarted { .. } => f.write_str("the node serves"),
            EventKind::NodeStopping => f.write_str("the node stops"),
            EventKind::Member { node, state } => {
                let is = match state {
                    MemberChange::Up => "is up",
                    MemberChange::Down => "is down",
                    MemberChange::Gone => "is no member any more",
                };
                write!(f, "node {:016x} {is}", node.0)
            }
            EventKind::Link { node, is_up } => {
                let change = if *is_up { "made" } else { "lost" };
                write!(f, "the link to node {:016x} was {change}", node.0)
            }
            EventKind::Request(request) => write_request(request, f),
            EventKind::Transaction(trace) => write_step(trace, f),
            EventKind::AdminState { node, before, now } => {
                let (now, before) = (now.word(), before.word());
                write!(f, "node {:016x} is {now}, and was {before}", node.0)
            }
            EventKind::ReplicaStarted { shard, replica } => {
                write!(f, "replica {replica} of shard {shard} starts on this node")
            }
            EventKind::Merged { left, right, frozen_nanos } => {
                write!(f, "shard {left} has merged with shard {right}")?;
                let Some(nanos) = frozen_nanos else { return Ok(()) };
                write!(f, ", which was frozen for {:.1} ms", *nanos as f64 / 1e6)
            }
            EventKind::LeftoverReplicaEnded { shard, by } => {
                write!(f, "shard {shard} was merged into shard {by}: its replica on this node ends")
            }
            EventKind::MergeRelocating { left, right, why } => write!(
                f,
                "shard {left} moves to the nodes of shard {right}, to merge with it: {why}"
            ),
            EventKind::MergeLeaderMoved { left, right } => {
                write!(
                    f,
                    "another node leads shard {left} now: this one does not merge it with {right}"
                )
            }
            EventKind::MergeGivenUp { left, right, nanos } => write!(
                f,
                "shard {left} does not merge with shard {right}: for {} s replicas of one of them \
                 were moving, or missing; merge again when `carillon shards` shows both ok",
                nanos / 1_000_000_000
            ),
            EventKind::VersionRaising { to, seconds } => write!(
                f,
                "all nodes have been up and supported cluster version {to} for {seconds} s: this \
                 node asks the catalogue for it (auto_upgrade)"
            ),
            EventKind::VersionBlocked { to, why } => {
                write!(f, "cluster version {to} has to wait: {why}")
            }
            EventKind::TableGrowing { keyspace, why } => {
                write!(f, "the linear-hash table of keyspace {keyspace} grows: {why}")
            }
            EventKind::TableShrinking { keyspace } => {
                write!(f, "the linear-hash table of keyspace {keyspace} shrinks")
            }
            EventKind::DecisionMade(decided) => write_decision(decided, f),
            EventKind::DecisionEnded { shard, number, outcome } => {
                write!(f, "shard {shard}: decision {number} ")?;
                match outcome {
                    DecisionOutcome::UnderWay => f.write_str("is under way"),
                    DecisionOutcome::Done { took, deviation } => {
                        write!(f, "is done after {} ms", took.as_millis())?;
                        let Some(deviation) = deviation else { return Ok(()) };
                        write!(f, ", and the nodes' deviation is {deviation:.3}")
                    }
                    DecisionOutcome::NotDone => f.write_str("was not carried out"),
                    DecisionOutcome::HandedOn => f.write_str("is left to the shard's next leader"),
                }
            }
            EventKind::LeaderElected { shard, replica, term } => {
                write!(
                    f,
                    "shard {shard}: replica {replica}, on this node, is elected leader in term \
                     {term}"
                )
            }
            EventKind::ReplicasChanged { shard, added, removed } => write!(
                f,
                "shard {shard}: replicas changed; added: {}; removed: {}",
                placed(added),
                placed(removed)
            ),
            EventKind::ReplicaEnded { shard, replica, why } => {
                write_replica_end(*shard, *replica, *why, f)
            }
            EventKind::Split { shard, right, at } => {
                write!(f, "shard {shard} was split at {at}: its right half is shard {right}")
            }
            EventKind::ReplicasCompared { finding, places } => write_finding(finding, places, f),
            EventKind::Checkpointed { log_bytes } => {
                write!(f, "all shards are in checkpoints; the log was {log_bytes} bytes before")
            }
            EventKind::NoSpaceForCheckpoint => {
                f.write_str("no space for a checkpoint; the log grows until there is")
            }
            EventKind::SnapshotStarted { shard, index, about_bytes, to } => write!(
                f,
                "sends a snapshot of shard {shard} as of entry {index}, about {about_bytes} \
                 bytes, to node {:016x}",
                to.0
            ),
            EventKind::SnapshotSent { shard, node, bytes, nanos } => {
                let (size, time) = (rounded_size(*bytes), seconds(*nanos));
                write!(f, "shard {shard}: replica on {node} ready ({size} in {time})")
            }
            EventKind::SnapshotNotSent { shard, why: None, .. } => {
                write!(f, "the receiver of a snapshot of shard {shard} does not need it")
            }
            EventKind::SnapshotNotSent { shard, why: Some(why), .. } => {
                write!(f, "a snapshot of shard {shard} was not sent: {why}")
            }
            EventKind::SnapshotInstalled { shard, index } => {
                write!(f, "a snapshot of shard {shard} as of entry {index} is installed")
            }
            EventKind::SnapshotGivenUp { shard, index, why } => {
                let why = match why {
                    SnapshotRejection::UncoveredHalves => {
                        "right halves that started here are in no checkpoint yet; the shard's \
                         leader sends another one"
                    }
                    SnapshotRejection::DiskFull => {
                        "the disk is full; the shard's leader sends another one"
                    }
                    SnapshotRejection::NotNeeded => "its replica does not need it any more",
                };
                write!(f, "a snapshot of shard {shard}, as of entry {index}, is given up: {why}")
            }
            EventKind::UnreadableBootstrapRecord { shard, error } => write!(
                f,
                "shard {shard}: its bootstrap record, from another node, is unreadable: {error}. \
                 The message was ignored"
            ),
            EventKind::UnreadableCatalogue { error } => write!(
                f,
                "the catalogue of another node cannot be read: {error}. The one before stays"
            ),
        }
    }
}

fn write_request(request: &SampledRequest, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let SampledRequest { is_write, keyspace, key, keys, shard, route, .. } = request;
    let verb = if *is_write { "write" } else { "read" };
    write!(f, "{verb} of '{}' in keyspace {keyspace}, shard {shard}", key.escape_ascii())?;
    if *keys > 1 {
        write!(f, ", and of {} keys more", keys - 1)?;
    }
    write!(f, ": {} hops by {}", route.hops, route.way.kind.name())
}

fn write_step(trace: &TxnTrace, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let TxnTrace { id, phase, .. } = trace;
    write!(f, "transaction {}: ", id.start.0)?;
    let list =
        |shards: &[ShardId]| shards.iter().map(ShardId::to_string).collect::<Vec<_>>().join(", ");
    match phase {
        TxnPhase::Prepare { shards, .. } => write!(f, "PREPARE at shards {}", list(shards)),
        TxnPhase::Voted { shard } => write!(f, "shard {shard} votes for it"),
        TxnPhase::Refused { shard, why } => {
            write!(f, "shard {shard} does not vote for it: {}", why.name())
        }
        TxnPhase::Committed { at } => write!(f, "committed at {}", at.0),
        TxnPhase::Aborted => f.write_str("aborted"),
        TxnPhase::Decide { is_committed: true } => f.write_str("DECIDE committed"),
        TxnPhase::Decide { is_committed: false } => f.write_str("DECIDE aborted"),
        TxnPhase::Resolve { shards, .. } => write!(f, "RESOLVE at shards {}", list(shards)),
        TxnPhase::Finished => f.write_str("no lock is left"),
        TxnPhase::GivenUp => f.write_str("steps have failed too often: others finish it"),
        TxnPhase::Recover => f.write_str("its coordinator is silent: another one finishes it"),
        TxnPhase::Prevent { shards } => write!(f, "PREVENT at shards {}", list(shards)),
    }
}

fn write_decision(decided: &RecordedDecision, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let RecordedDecision { shard, what, why, nodes, .. } = decided;
    match what {
        DecisionKind::Replicas { remove, predicted, .. } => {
            let go: Vec<String> = remove.iter().map(ReplicaId::to_string).collect();
            let (on, go) = (nodes.join(", "), go.join(", "));
            write!(
                f,
                "shard {shard}: adds replicas on [{on}], removes [{go}], because {why}; {predicted}"
            )
        }
        DecisionKind::Leader { to, .. } => {
            let node = nodes.join(", ");
            write!(f, "shard {shard}: leadership moves to replica {to} on {node}, because {why}")
        }
        DecisionKind::Split { right, at, .. } => {
            write!(f, "shard {shard} splits at {at}: its right half is shard {right}; {why}")
        }
        DecisionKind::Merge { right, .. } => {
            write!(f, "shard {shard} is to merge with shard {right}: {why}")
        }
    }
}

fn write_replica_end(
    shard: ShardId,
    replica: ReplicaId,
    why: ReplicaEndReason,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let found = match why {
        ReplicaEndReason::Before => {
            return write!(f, "replica {replica} of shard {shard} had ended: it does not start");
        }
        ReplicaEndReason::Removed => {
            return write!(f, "replica {replica} of shard {shard} was removed from this node");
        }
        ReplicaEndReason::LostLog => "its disk holds less than it has acknowledged",
        ReplicaEndReason::MissingMergeState => {
            "its shard merged with a neighbour whose state this node does not have"
        }
        ReplicaEndReason::Differs => "its data differs from that of a majority of its peers",
    };
    write!(
        f,
        "replica {replica} of shard {shard} is quarantined: {found}. It takes no part any more; \
         the shard's leader puts a new one in its place on this node, which takes a majority of \
         the others. Disk or memory here may be faulty: see docs/operations.md"
    )
}

fn write_finding(
    finding: &ReplicaComparison,
    places: &[(ReplicaId, NodeId)],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let ReplicaComparison { shard, index, agreeing, differing } = finding;
    let among = |replicas: &[ReplicaId]| {
        let place = |replica: &ReplicaId| places.iter().find(|(placed, _)| placed == replica);
        let one = |replica: &ReplicaId| match place(replica) {
            Some((_, node)) => format!("{replica} on node {:016x}", node.0),
            None => format!("{replica}, which is not the shard's any more"),
        };
        replicas.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    match (differing.is_empty(), agreeing.is_empty()) {
        (true, _) => {
            write!(f, "shard {shard}: {} replicas agree as of {index}", agreeing.len())
        }
        (false, false) => write!(
            f,
            "shard {shard}: replica {} differs from {} as of entry {index}. A new replica on the \
             same node replaces it. Memory or disk of that node may be faulty: check both, and \
             report this to us (SECURITY.md)",
            among(differing),
            among(agreeing)
        ),
        (false, true) => write!(
            f,
            "shard {shard}: replicas {} differ as of entry {index}, and no majority agrees. \
             Carillon cannot tell which is right: stop writing to its keyspace, keep copies of \
             the directories, and see docs/operations.md",
            among(differing)
        ),
    }
}

/// Replicas and their nodes, in words.
fn placed(replicas: &[(ReplicaId, NodeId)]) -> String {
    let one = |(replica, node): &(ReplicaId, NodeId)| format!("{replica} on node {:016x}", node.0);
    match replicas {
        [] => "none".into(),
        all => all.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// A time as people read it: `0.3 s`, `12 ms`.
fn seconds(nanos: u64) -> String {
    let ms = nanos as f64 / 1e6;
    if ms < 100.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_shard_is_one_line_with_node_size_and_time() {
        let line = |bytes, nanos| {
            let (shard, node) = (ShardId(7), "node-3".to_owned());
            EventKind::SnapshotSent { shard, node, bytes, nanos }.to_string()
        };
        let ready = "shard 7: replica on node-3 ready";
        assert_eq!(line(12 << 20, 310_000_000), format!("{ready} (12.0 MiB in 0.3 s)"));
        assert_eq!(line(26, 2_600_000), format!("{ready} (26 bytes in 3 ms)"));
        assert_eq!(line(1536, 99_000_000), format!("{ready} (1.5 KiB in 99 ms)"));
    }
}

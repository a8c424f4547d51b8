//! The sentences of [`EventKind`].

use std::fmt;

use keyspace::{NodeId, ReplicaId, ShardId};

use super::{EventKind, SnapshotRejection};
use crate::control::decisions::{DecisionKind, DecisionOutcome, RecordedDecision};
use crate::replica::{QuarantineReason, ReplicaComparison};

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::AdminState { node, before, now } => {
                let (now, before) = (now.word(), before.word());
                write!(f, "node {:016x} is {now}, and was {before}", node.0)
            }
            EventKind::ReplicaStarted { shard, replica } => {
                write!(f, "replica {replica} of shard {shard} begins here")
            }
            EventKind::Merged { left, right, frozen_nanos } => {
                write!(f, "shard {left} takes in shard {right}, which ends")?;
                let Some(nanos) = frozen_nanos else { return Ok(()) };
                write!(f, " after it stood still for {:.1} ms", *nanos as f64 / 1e6)
            }
            EventKind::LeftoverReplicaEnded { shard, by } => {
                write!(f, "shard {by} has taken in shard {shard}: its replica here ends")
            }
            EventKind::MergeRelocating { left, right, why } => write!(
                f,
                "shard {left} goes to where shard {right} has its replicas, to take it in: {why}"
            ),
            EventKind::MergeLeaderMoved { left, right } => {
                write!(f, "shard {left} is led elsewhere: no try to take in {right} here")
            }
            EventKind::MergeGivenUp { left, right, nanos } => write!(
                f,
                "shard {left} does not take in shard {right}: for {} s replicas of one of them \
                 were moving, or missing; merge again when `carillon shards` shows both ok",
                nanos / 1_000_000_000
            ),
            EventKind::VersionRaising { to, seconds } => write!(
                f,
                "all nodes have been up and supported cluster version {to} for {seconds} s: it \
                 is asked for (auto_upgrade)"
            ),
            EventKind::VersionBlocked { to, why } => {
                write!(f, "cluster version {to} has to wait: {why}")
            }
            EventKind::TableGrowing { keyspace, why } => {
                write!(f, "the file of keyspace {keyspace} is to grow: {why}")
            }
            EventKind::TableShrinking { keyspace } => {
                write!(f, "the file of keyspace {keyspace} is to shrink")
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
                    DecisionOutcome::HandedOn => f.write_str("is its next leader's to carry out"),
                }
            }
            EventKind::LeaderElected { shard, replica, term } => {
                write!(f, "shard {shard}: replica {replica}, here, leads in term {term}")
            }
            EventKind::ReplicasChanged { shard, added, removed } => write!(
                f,
                "shard {shard}: its replicas have changed; come: {}; gone: {}",
                placed(added),
                placed(removed)
            ),
            EventKind::ReplicaEnded { shard, replica, why } => {
                write_replica_end(*shard, *replica, *why, f)
            }
            EventKind::Split { shard, right } => {
                write!(f, "shard {shard} was cut in two: its right half is shard {right}")
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
                "sends shard {shard}, as of entry {index}, about {about_bytes} bytes, to node \
                 {:016x}",
                to.0
            ),
            EventKind::SnapshotSent { shard, to, bytes, nanos } => {
                let seconds = *nanos as f64 / 1e9;
                let rate = *bytes as f64 / seconds.max(1e-3);
                write!(
                    f,
                    "shard {shard} is at node {:016x}: {bytes} bytes in {seconds:.3} s, {rate:.0} \
                     a second",
                    to.0
                )
            }
            EventKind::SnapshotNotSent { shard, why: None, .. } => {
                write!(f, "a snapshot of shard {shard} is not taken by its receiver")
            }
            EventKind::SnapshotNotSent { shard, why: Some(why), .. } => {
                write!(f, "a snapshot of shard {shard} was not sent: {why}")
            }
            EventKind::SnapshotInstalled { shard, index } => {
                write!(f, "shard {shard} is here, as of entry {index}")
            }
            EventKind::SnapshotGivenUp { shard, index, why } => {
                let why = match why {
                    SnapshotRejection::UncoveredHalves => {
                        "right halves that have begun here are in no checkpoint yet; the shard's \
                         leader sends another one"
                    }
                    SnapshotRejection::DiskFull => {
                        "the disk is full; the shard's leader sends another one"
                    }
                    SnapshotRejection::Unfit => "its replica has no use for it any more",
                };
                write!(f, "a snapshot of shard {shard}, as of entry {index}, is given up: {why}")
            }
            EventKind::UnreadableBootstrapRecord { shard, error } => write!(
                f,
                "shard {shard}: its birth, from another node, is unreadable: {error}. The message \
                 was ignored"
            ),
            EventKind::UnreadableCatalogue { error } => write!(
                f,
                "the catalogue of another node cannot be read: {error}. The one before stays"
            ),
        }
    }
}

fn write_decision(decided: &RecordedDecision, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let RecordedDecision { shard, what, why, nodes, .. } = decided;
    match what {
        DecisionKind::Replicas { remove, predicted, .. } => {
            let go: Vec<String> = remove.iter().map(ReplicaId::to_string).collect();
            let (on, go) = (nodes.join(", "), go.join(", "));
            write!(f, "shard {shard}: replicas come [{on}], go [{go}], because {why}; {predicted}")
        }
        DecisionKind::Leader { to, .. } => {
            let node = nodes.join(", ");
            write!(f, "shard {shard}: replica {to} on {node} is to lead, because {why}")
        }
        DecisionKind::Split { right, at, .. } => {
            write!(f, "shard {shard} is cut at {at}: shard {right} begins; {why}")
        }
        DecisionKind::Merge { right, .. } => {
            write!(f, "shard {shard} is to take in shard {right}: {why}")
        }
    }
}

fn write_replica_end(
    shard: ShardId,
    replica: ReplicaId,
    why: QuarantineReason,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let found = match why {
        QuarantineReason::Before => {
            return write!(f, "replica {replica} of shard {shard} had ended: it does not begin");
        }
        QuarantineReason::Removed => {
            return write!(
                f,
                "replica {replica} of shard {shard} has gone from here: others have its place"
            );
        }
        QuarantineReason::LostLog => "its disk holds less than it has told others that it holds",
        QuarantineReason::MissingMergeState => {
            "its shard has taken a neighbour in of which this node has nothing"
        }
        QuarantineReason::Differs => "it holds something else than a majority of its peers",
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
            "shard {shard}: replica {} holds something else than {} as of entry {index}. It is \
             replaced by a new one on its node. Memory or disk of that node may be faulty: look \
             at it, and tell us (SECURITY.md)",
            among(differing),
            among(agreeing)
        ),
        (false, true) => write!(
            f,
            "shard {shard}: replicas {} hold different things as of entry {index}, and no \
             majority agrees. Nobody knows which is right: stop writing to its keyspace, keep \
             copies of the directories, and see docs/operations.md",
            among(differing)
        ),
    }
}

/// Replicas and their nodes, in words.
fn placed(replicas: &[(ReplicaId, NodeId)]) -> String {
    let one = |(replica, node): &(ReplicaId, NodeId)| format!("{replica} on node {:016x}", node.0);
    match replicas {
        [] => "nobody".into(),
        all => all.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

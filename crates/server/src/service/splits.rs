//! Splits and merges that operators ask for: `/v1/shards/{shard}/split`, `/merge`. A node that does
//! not lead the shard passes them on to the one that does.

use std::time::Duration;

use keyspace::{Cut as Place, NodeId, ShardId};
use node::control::{Merged, NoMergeReason, NoSplit, SplitPlan};

use super::NodeApi;
use crate::runtime::inquiries::{self, NoAnswer};
use crate::runtime::survey::{self, name_of};
use crate::runtime::{NodeRuntime, requests};
use api::inquiry::{Answer, Question};
use api::{ApiError, CutAt, Done, MergeStatus, SplitStatus};

impl NodeApi {
    /// Splits it, here or at its leader; `done` gets the decision, soon in the shard's log.
    pub(super) fn ask_split(&self, shard: ShardId, at: Option<CutAt>, done: Done<SplitStatus>) {
        let (this, question) = (self.again(), Question::Split { shard: shard.0, at: at.clone() });
        let callback = move |result: Result<SplitStatus, ApiError>| match result {
            Err(error) => this.forward(shard, question, error, done, |answer| match answer {
                Answer::Split(split) => Some(split),
                _ => None,
            }),
            split => done(split),
        };
        self.split_here(shard, at, Box::new(callback));
    }

    /// Splits it if this node leads it.
    pub(super) fn split_here(&self, shard: ShardId, at: Option<CutAt>, done: Done<SplitStatus>) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        let runtime = self.runtime.clone();
        let callback = move |result: Result<SplitPlan, NoSplit>| {
            done(match result {
                Ok(SplitPlan { left, right, at }) => {
                    Ok(SplitStatus { shard: left.0, right: right.0, at: shown(&at) })
                }
                Err(NoSplit::NoShard) => Err(ApiError::NoShard { shard: shard.0 }),
                Err(NoSplit::LedBy(leader)) => Err(led_elsewhere(&runtime, shard, leader)),
                Err(NoSplit::CannotSplit(why)) => Err(ApiError::NoSplit { shard: shard.0, why }),
                Err(NoSplit::NoId) => Err(ApiError::Busy {
                    why: "the catalogue has not given the new shard an id in time; nothing \
                          was done",
                }),
            });
        };
        requests::split(&self.runtime, shard, at, Box::new(callback));
    }

    /// Merges it with its right neighbour, here or at its leader: soon, or once their replicas are
    /// on the same nodes.
    pub(super) fn ask_merge(&self, shard: ShardId, done: Done<MergeStatus>) {
        let (this, question) = (self.again(), Question::Merge { shard: shard.0 });
        let callback = move |result: Result<MergeStatus, ApiError>| match result {
            Err(error) => this.forward(shard, question, error, done, |answer| match answer {
                Answer::Merge(merge) => Some(merge),
                _ => None,
            }),
            merge => done(merge),
        };
        self.merge_here(shard, Box::new(callback));
    }

    /// Merges it if this node leads it.
    pub(super) fn merge_here(&self, shard: ShardId, done: Done<MergeStatus>) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        let runtime = self.runtime.clone();
        let callback = move |result: Result<Merged, NoMergeReason>| {
            done(match result {
                Ok(Merged { left, right, moves }) => {
                    Ok(MergeStatus { shard: left.0, right: right.0, moves })
                }
                Err(NoMergeReason::NoShard) => Err(ApiError::NoShard { shard: shard.0 }),
                Err(NoMergeReason::LedBy(leader)) => Err(led_elsewhere(&runtime, shard, leader)),
                Err(NoMergeReason::CannotMerge(why)) => {
                    Err(ApiError::NoMerge { shard: shard.0, why })
                }
            });
        };
        requests::merge(&self.runtime, shard, Box::new(callback));
    }
}

impl NodeApi {
    /// Asks a shard's leader to do what this node has not done, if that is because another leads.
    fn forward<T: Send + 'static>(
        &self,
        shard: ShardId,
        question: Question,
        refused: ApiError,
        done: Done<T>,
        select: impl FnOnce(Answer) -> Option<T> + Send + 'static,
    ) {
        let leader = match &refused {
            ApiError::NotLeader { .. } | ApiError::NoShard { .. } => self.leader_of(shard),
            _ => None,
        };
        let Some(leader) = leader.filter(|leader| *leader != self.runtime.identity.node) else {
            return done(Err(refused));
        };
        let members = self.runtime.members();
        let callback = move |answer| match answer {
            Ok(Answer::Refused(refusal)) => done(Err(refusal.into())),
            Ok(answer) => match select(answer) {
                Some(answer) => done(Ok(answer)),
                // It has answered something else: nobody knows.
                None => drop(done),
            },
            Err(why @ (NoAnswer::NotAsked | NoAnswer::OldVersion)) => {
                let (leader, why) = (name_of(leader, &members), why.why());
                let why = format!("shard {shard} is led by {leader}, and {why}");
                done(Err(ApiError::NotLeader { why }));
            }
            // It may have done it: who waits is told so.
            Err(NoAnswer::LinkLost | NoAnswer::Late) => drop(done),
        };
        let timeout = Duration::from_nanos(self.runtime.request_timeout_nanos);
        inquiries::ask(&self.runtime, leader, &question, timeout, Box::new(callback));
    }

    /// The node that leads a shard, as far as this one knows.
    fn leader_of(&self, shard: ShardId) -> Option<NodeId> {
        let survey = survey::survey(&self.runtime);
        survey.shards.iter().find(|seen| seen.id() == shard)?.leader()
    }
}

fn led_elsewhere(runtime: &NodeRuntime, shard: ShardId, leader: Option<NodeId>) -> ApiError {
    let why = match leader {
        Some(node) => format!("shard {shard} is led by {}", name_of(node, &runtime.members())),
        None => format!("shard {shard} has no known leader"),
    };
    ApiError::NotLeader { why }
}

/// The place of a split, for people: bytes of a key that are no text are replaced; a hash of linear
/// hashing is in hexadecimal.
pub(super) fn shown(at: &Place) -> CutAt {
    match at {
        Place::Slot(slot) => CutAt::Slot(*slot),
        Place::Key(key) => CutAt::Key(String::from_utf8_lossy(key).into_owned()),
        Place::Number(number) => CutAt::Key(format!("{number:016x}")),
    }
}

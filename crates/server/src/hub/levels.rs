//! Which feature level has the cluster, as far as this node knows, and when does it rise?
//!
//! The catalogue says it ([`keyspace::level`]); here all threads can read it. A node with a replica
//! of the catalogue follows each change, one without takes what its image says. Whoever proposes
//! something that not every version knows asks [`Hub::may_use`] before.
//!
//! ```text
//!   catalogue: Change::Level ──┐                ┌──► Hub::may_use, lanes (Input::Level)
//!   image, snapshot: Jumped ───┼──► known ──────┤
//!   start: what was recovered ─┘                └──► Cluster::set_level: who does not speak it is
//!                                                    refused; if that is this node, it ends
//!   members: what each speaks ──► unready ──► CatalogueOp::Level, by people or by itself
//! ```
//!
//! The level rises to the next one when all nodes speak it: all members that were not removed and
//! have not left, whether they are up or not, and all nodes that hold a replica of anything.
//! What a node speaks it tells with its facts; who was never heard of is taken to speak nothing.
//! With `auto_upgrade` whoever leads the system shard asks for it when all members have been up and
//! spoken it for `auto_upgrade_after_ms`: time to see that all is well, and to go back.
//!
//! What is known here may be older than the catalogue, and so too low: never too high.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

use command::limits::{COMMAND_BYTES_MAX, WHOLE_COMMAND_BYTES_MAX};
use keyspace::{CatalogueOp, Feature, Level, Levels, NodeId, Standing};
use node::control;
use node::executor::Input;

use super::overview::{Survey, name_of};
use super::{Hub, NOBODY};
use crate::cluster::MemberState;
use crate::config::Config;

/// What the node knows of levels.
pub struct ClusterLevel {
    /// Those that it speaks.
    ours: Levels,
    /// The cluster's; 0 before it is known.
    known: AtomicU8,
    /// Whether it asks for the next one by itself.
    is_automatic: bool,
}

impl ClusterLevel {
    /// As configured.
    pub fn new(config: &Config) -> Self {
        Self { ours: config.levels(), known: AtomicU8::new(0), is_automatic: config.auto_upgrade }
    }

    /// The levels that this node speaks.
    pub fn ours(&self) -> Levels {
        self.ours
    }

    /// Whether it asks for the next level by itself.
    pub fn is_automatic(&self) -> bool {
        self.is_automatic
    }
}

/// The longest command, where all nodes can or cannot send it in pieces.
fn longest_command(in_pieces: bool) -> usize {
    if in_pieces { COMMAND_BYTES_MAX } else { WHOLE_COMMAND_BYTES_MAX }
}

/// A node, and what it speaks: none if it was not heard of since all were started.
pub struct Speaker {
    /// Which.
    pub node: NodeId,
    /// Its name, or its id.
    pub name: String,
    /// What it speaks.
    pub levels: Option<Levels>,
}

impl Speaker {
    /// Why the level cannot become this one for its sake, if it cannot.
    pub fn objection(&self, to: Level) -> Option<String> {
        match self.levels {
            None => Some(format!("{} has not been heard of", self.name)),
            Some(levels) if levels.speak(to) => None,
            Some(levels) => Some(format!("{} speaks {levels}", self.name)),
        }
    }
}

impl Hub {
    /// The cluster's level; the first while it is not known.
    pub fn cluster_level(&self) -> Level {
        Level::new(self.level.known.load(Ordering::Acquire)).unwrap_or_default()
    }

    /// Whether this may be used in the cluster: all nodes can read what comes of it.
    pub fn may_use(&self, feature: Feature) -> bool {
        self.cluster_level().allows(feature)
    }

    /// The longest command that may be asked for: what all nodes can send each other.
    pub fn command_bytes_max(&self) -> usize {
        let in_pieces = self.peers.is_none() || self.may_use(Feature::LongMessages);
        longest_command(in_pieces)
    }

    /// Whether a command of this length is longer than that.
    #[inline]
    pub fn is_too_long(&self, bytes: usize) -> bool {
        bytes > WHOLE_COMMAND_BYTES_MAX && bytes > self.command_bytes_max()
    }

    /// The cluster has this level from now on, says control.
    pub(super) fn follow_level(&self, level: Level, before: Option<Level>) {
        self.level.known.store(level.number(), Ordering::Release);
        // What a start finds, or a founder begins with, is no news.
        if let Some(before) = before.filter(|_| self.ready.load(Ordering::Acquire)) {
            tracing::warn!(
                "the cluster's feature level is {level} from now on, and was {before}. Nodes that \
                 do not speak {level} are refused; there is no way back"
            );
        }
        for lane in &self.lanes {
            lane.submit(self, [Input::Level { level }], NOBODY, &mut Vec::new());
        }
        if let Some(peers) = &self.peers {
            peers.cluster.set_level(level);
        }
    }

    /// A cluster that this node has just founded begins at the highest level that it speaks.
    pub(super) fn found_level(&self) {
        let mut level = Level::FIRST;
        while let Some(to) = level.next().filter(|to| self.level.ours.speak(*to)) {
            self.ask_catalogue(&CatalogueOp::Level { to }, None);
            level = to;
        }
    }

    /// All nodes whose word is needed before the level rises, by their ids, and what they speak.
    pub fn speakers(&self, survey: &Survey) -> Vec<Speaker> {
        let mut found: BTreeMap<NodeId, Option<Levels>> = BTreeMap::new();
        found.extend(survey.held_by_nodes().into_keys().map(|node| (node, None)));
        let members = survey.members.iter().filter(|member| member.state != MemberState::Left);
        found.extend(members.map(|member| (member.node, Some(member.levels))));
        found.insert(self.node_id, Some(self.level.ours));
        found.retain(|node, _| self.standing(*node) != Standing::Removed);
        let name = |node| name_of(node, &survey.members);
        let speaker = |(node, levels)| Speaker { node, name: name(node), levels };
        found.into_iter().map(speaker).collect()
    }

    /// Why the level cannot rise to this one now: nothing if it can.
    pub fn objections(&self, to: Level, survey: &Survey) -> Vec<String> {
        let speakers = self.speakers(survey);
        let mut why: Vec<String> = speakers.iter().filter_map(|s| s.objection(to)).collect();
        let unknown = survey.unknown_count();
        if unknown > 0 {
            why.push(format!(
                "this node does not know yet where all shards are ({unknown} missing)"
            ));
        }
        why
    }

    /// What all members speak, and this node, as control wants to know it.
    pub(super) fn what_all_speak(&self) -> Vec<control::Speaker> {
        let members = self.members();
        let others = members.iter().filter(|member| member.node != self.node_id);
        let mut all: Vec<control::Speaker> = others
            .map(|member| control::Speaker {
                node: member.node,
                name: name_of(member.node, &members),
                levels: member.levels,
                is_up: member.is_up(),
                has_left: member.state == MemberState::Left,
            })
            .collect();
        all.push(control::Speaker {
            node: self.node_id,
            name: name_of(self.node_id, &members),
            levels: self.level.ours,
            is_up: true,
            has_left: false,
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{FRAME_BYTES_MAX, MESSAGE_BYTES_MAX};

    /// Beside a command its frame has the shard, session and header: far less than what is left.
    #[test]
    fn the_longest_command_fits_into_what_all_nodes_can_send() {
        assert!(longest_command(false) + (256 << 10) <= FRAME_BYTES_MAX);
        assert!(longest_command(true) + (256 << 10) <= MESSAGE_BYTES_MAX);
    }
}

//! When does the cluster's version rise by itself?
//!
//! When all nodes that hold anything or are members have been up and spoken the next version for a
//! while: time to see that all is well, and to go back. Whoever leads the system shard asks for it.
//!
//! ```text
//!   members: what each speaks ──► all speak the next, for long ──► CatalogueOp::Level
//!   table: who holds replicas ──► somebody has not been heard of ──► it has to wait
//! ```

use std::collections::BTreeMap;

use keyspace::{CatalogueOp, Level, Levels, NodeId, Standing};
use replication::BootNanos;

use super::{Control, Effect, Executors, SYSTEM};
use crate::event::Happened;

/// What a member speaks, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// Which.
    pub node: NodeId,
    /// What people call it.
    pub name: String,
    /// The versions that it speaks.
    pub levels: Levels,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it has left.
    pub has_left: bool,
}

/// Which version is to rise to, and since when all speak it.
pub(super) type Ripe = Option<(Level, BootNanos)>;

impl Control {
    /// Asks for the next version, if it is time to.
    pub(super) fn raise_version(&mut self, speakers: &[Speaker], executors: &mut dyn Executors) {
        let Some(after) = self.setup.raise_version_after else { return };
        let Some(to) = self.cluster_version.unwrap_or_default().next() else { return };
        let speaks =
            |speaker: &Speaker| speaker.has_left || speaker.is_up && speaker.levels.speak(to);
        let is_ready = speakers.iter().all(speaks) && Self::leads(SYSTEM, executors);
        let since = match self.ripe {
            Some((level, since)) if is_ready && level == to => since,
            _ => {
                self.ripe = is_ready.then_some((to, self.now));
                return;
            }
        };
        if self.now.saturating_sub(since) < after {
            return;
        }
        // Whatever comes of it, the next attempt is as late.
        self.ripe = None;
        let why = self.objections(to, speakers);
        if !why.is_empty() {
            let why = why.join("; ");
            return self.effects.push(Effect::Event(Happened::VersionWaits { to, why }));
        }
        let seconds = after / 1_000_000_000;
        self.effects.push(Effect::Event(Happened::VersionRises { to, seconds }));
        self.ask_catalogue(&CatalogueOp::Level { to }, None);
    }

    /// Why the version cannot rise to this one now: nothing if it can.
    fn objections(&self, to: Level, speakers: &[Speaker]) -> Vec<String> {
        let mut found: BTreeMap<NodeId, Option<&Speaker>> = BTreeMap::new();
        for known in self.table.look().iter() {
            found.extend(known.descriptor().replicas.iter().map(|(_, node)| (*node, None)));
        }
        let there = speakers.iter().filter(|speaker| !speaker.has_left);
        found.extend(there.map(|speaker| (speaker.node, Some(speaker))));
        found.retain(|node, _| self.admin_states.of(*node) != Standing::Removed);
        let mut why: Vec<String> = Vec::new();
        for (node, speaker) in found {
            match speaker {
                None => why.push(format!("node {:016x} has not been heard of", node.0)),
                Some(speaker) if speaker.levels.speak(to) => {}
                Some(Speaker { name, levels, .. }) => why.push(format!("{name} speaks {levels}")),
            }
        }
        let shards = self.routes.iter().flat_map(|route| route.shards());
        let is_unknown = |shard: &&keyspace::ShardId| {
            !self.views.contains(**shard) && self.table.shard(**shard).is_none()
        };
        let unknown = shards.filter(is_unknown).count();
        if unknown > 0 {
            let where_ = "this node does not know yet where all shards are";
            why.push(format!("{where_} ({unknown} missing)"));
        }
        why
    }
}

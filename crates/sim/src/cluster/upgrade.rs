//! Mixed versions: nodes come back as the version after or before, while everything else breaks,
//! and the cluster version rises in the middle of it.
//!
//! ```text
//!   all support 1 ─► one after the other comes back and supports 1 to 2; some are downgraded
//!              ─► all have reported to the system shard's leader that they support 2 ─► version 2
//!              ─► a node starts with the old version once more: it is refused
//! ```
//!
//! Nodes' supported versions spread late ([`REPORT_DELAY_MS`]). So the cluster version may rise
//! just after a node was downgraded. That node ends when it learns so, as does one that is refused
//! in the handshake, and an operator gives it the newer version.
//!
//! The checkers look for two rules. The version rises only when all nodes have reported that they
//! support the next one. And no log holds a feature before the catalogue has its version
//! ([`crate::check::agreement`]).
//!
//! A sixth of all runs have mixed versions; in the others all nodes support the newest version, and
//! have used it for long. A separate random sequence decides that, and drives these steps.

use keyspace::random::{Random, mix};
use keyspace::{ClusterVersion, VersionRange};
use node::control::{Input, MemberVersions};

use super::{Options, Plant, World};
use crate::check::Violation;
use crate::options::Fault;

/// The versions that nodes support are known to the others after so long.
const REPORT_DELAY_MS: u64 = 400;
/// Time between reports of all nodes' supported versions, in milliseconds.
const REPORT_INTERVAL_MS: u64 = 100;
/// A refused node gets the newer version after this time, in milliseconds.
const REPLACED_MS: u64 = 200;

/// How far the versions are.
#[derive(Debug)]
pub(super) struct UpgradeState {
    random: Random,
    next_ms: u64,
    /// What each node supports, as the others know it, and since when it has been otherwise.
    reported: Vec<(VersionRange, Option<u64>)>,
    /// The newest version that each node has ever reported to support.
    newest_supported: Vec<ClusterVersion>,
    /// Whether the old version was started once more when the cluster version had risen.
    tried: bool,
}

/// Whether versions are mixed in a run.
pub(super) fn mixes(options: &Options) -> bool {
    let drawn = Random::new(mix(mix(mix(options.seed)))).below(6) == 0;
    match options.plant {
        // Before the cluster version has risen there would be nothing to see.
        _ if options.workload.is_some() => false,
        Some(plant) => plant == Plant::EarlyVersionRise,
        None => options.faults.has(Fault::Upgrade) && drawn,
    }
}

impl UpgradeState {
    /// All nodes are of the older version.
    pub fn begin(seed: u64, nodes: usize) -> Self {
        Self {
            random: Random::new(mix(mix(mix(mix(seed))))),
            next_ms: 0,
            reported: vec![(VersionRange::BEFORE, None); nodes],
            newest_supported: vec![ClusterVersion::FIRST; nodes],
            tried: false,
        }
    }
}

impl World {
    /// The cluster version, as known to running nodes.
    pub(super) fn cluster_version(&self) -> ClusterVersion {
        let machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        machines.map(|machine| machine.cluster_version).max().unwrap_or_default()
    }

    /// Restarts a node as another version, or requests a higher cluster version, when it is time.
    pub(super) fn upgrade(&mut self) {
        let Some(mut upgrading) = self.upgrading.take() else { return };
        self.spread_supported_versions(&mut upgrading);
        if self.now_ms >= upgrading.next_ms {
            let pace = 4_000 / self.node_slots.len() as u64;
            upgrading.next_ms = self.now_ms + pace / 2 + upgrading.random.below(pace);
            self.replace_one(&mut upgrading);
        }
        self.ask_for_next_version(&mut upgrading);
        self.upgrading = Some(upgrading);
    }

    /// Others hear what a node supports some time after it has begun to.
    fn spread_supported_versions(&mut self, upgrading: &mut UpgradeState) {
        for (at, seat) in
            self.node_slots.iter().enumerate().filter(|(_, seat)| seat.machine.is_some())
        {
            let (reported, since) = &mut upgrading.reported[at];
            if *reported == seat.supported {
                *since = None;
            } else if self.now_ms >= *since.get_or_insert(self.now_ms) + REPORT_DELAY_MS {
                *reported = seat.supported;
                upgrading.newest_supported[at] =
                    upgrading.newest_supported[at].max(seat.supported.highest());
            }
        }
    }

    /// Stops a node, and has it come back as another version.
    fn replace_one(&mut self, upgrading: &mut UpgradeState) {
        let old: Vec<usize> = self.slots_that_support(VersionRange::BEFORE);
        let new: Vec<usize> = self.slots_that_support(VersionRange::OURS);
        let has_risen = self.cluster_version() > ClusterVersion::FIRST;
        let goes_back = match has_risen {
            true => !std::mem::replace(&mut upgrading.tried, true),
            false => !new.is_empty() && upgrading.random.below(4) == 0,
        };
        let (among, supported) =
            if goes_back { (new, VersionRange::BEFORE) } else { (old, VersionRange::OURS) };
        if among.is_empty() {
            return;
        }
        let at = among[upgrading.random.below(among.len() as u64) as usize];
        let node = self.node_slots[at].node;
        self.trace.event(format_args!("node {node} is to support {supported}"));
        self.counts.versions += 1;
        self.crash(at, false);
        self.node_slots[at].supported = supported;
    }

    fn slots_that_support(&self, supported: VersionRange) -> Vec<usize> {
        let there = |at: &usize| {
            !self.node_slots[*at].has_left && self.node_slots[*at].supported == supported
        };
        (0..self.node_slots.len()).filter(there).collect()
    }

    /// Every node learns what all support; the leader of the catalogue asks for the next cluster
    /// version when it is time to.
    fn ask_for_next_version(&mut self, upgrading: &mut UpgradeState) {
        if !self.now_ms.is_multiple_of(REPORT_INTERVAL_MS) {
            return;
        }
        // Planted: each takes the others to support what it supports itself.
        let is_early = self.has(Plant::EarlyVersionRise);
        for at in 0..self.node_slots.len() {
            let places = 0..self.node_slots.len();
            let member = |place: usize| MemberVersions {
                node: self.node_slots[place].node,
                name: format!("node {}", self.node_slots[place].node),
                supported: match is_early || place == at {
                    true => self.node_slots[at].supported,
                    false => upgrading.reported[place].0,
                },
                is_up: true,
                has_left: self.node_slots[place].has_left,
            };
            let members: Vec<MemberVersions> = places.map(member).collect();
            let is_awake = self.is_awake(at);
            if let Some(machine) = self.node_slots[at].machine.as_mut().filter(|_| is_awake) {
                machine.tell(Input::RaiseVersion(members));
            }
        }
    }

    /// A node that does not support the cluster version ends, whether its own catalogue says so
    /// or another node that it meets. Whether it did.
    pub(super) fn ends_for_its_version(&mut self, at: usize) -> Result<bool, Violation> {
        if self.upgrading.is_none() {
            return Ok(false);
        }
        let (seat, supported) = (&self.node_slots[at], self.node_slots[at].supported);
        let Some(machine) = &seat.machine else { return Ok(false) };
        let met = self.node_slots.iter().filter(|other| {
            self.network.is_open(seat.node, other.node)
                && self.network.is_open(other.node, seat.node)
        });
        let met = met.filter_map(|other| other.machine.as_ref());
        let versions = met.map(|machine| machine.cluster_version).chain([machine.cluster_version]);
        let version = versions.max().unwrap_or_default();
        if supported.supports(version) {
            return Ok(false);
        }
        let node = seat.node;
        self.counts.outgrown += 1;
        self.trace
            .event(format_args!("node {node} supports {supported}: cluster version {version}"));
        self.crash(at, false);
        self.node_slots[at].supported = VersionRange::OURS;
        self.node_slots[at].awake_at = self.now_ms + REPLACED_MS;
        let newest_supported =
            self.upgrading.as_ref().map(|upgrading| upgrading.newest_supported[at]);
        if newest_supported < Some(version) {
            let text = format!("node {node} has never reported that it supports {version}");
            return Err(Violation::new(
                "the cluster version rises when all support the next",
                text,
            ));
        }
        Ok(true)
    }
}

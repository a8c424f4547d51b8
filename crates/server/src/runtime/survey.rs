//! Surveys what this node knows of its cluster's shards.
//!
//! ```text
//!   executors (reports) ┐
//!   views               ┼──► a ShardView each ──► Overview ──► once a second: load, INFO
//!   members             ┘         │      └──► [`super::health`]
//!                                 └──► GET /v1/shards, metrics
//! ```
//!
//! Each survey asks all executors; nothing is cached but maintenance's [`Overview`] of the last
//! second, for callers that must not wait for an executor. A survey holds an executor for
//! `EXECUTOR_SHARDS` shards at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use api::{Health, Overview, Verdict};
use keyspace::{Descriptor, Feature, NodeId, ReplicaId, ShardId, Timestamp};
use node::replica::state::{Content, ShardState};
use node::replica::{ReplicaCounters, ShardReport};
use node::reshape::bootstrap;
use overlay::KnownShard;
use parking_lot::RwLock;
use replication::{BootNanos, Members};

use super::drains::Held;
use super::lagging_replicas::{self, LaggingVoter};
use super::snapshots::StreamProgress;
use super::{NodeRuntime, View, boot_nanos, health, request_rates};
use crate::cluster::{Load, MemberInfo, MemberState};

/// Shards looked at under one hold of an executor.
const EXECUTOR_SHARDS: usize = 64;
/// A shard, as this node knows it.
pub struct ShardView {
    /// Its keyspace's name; none for the system shard.
    pub keyspace: Option<Box<str>>,
    /// Whether its keys lie in slots.
    pub has_slots: bool,
    /// Its arc and its replicas; if it is not here, as the lookup knows them.
    pub descriptor: Descriptor,
    /// Its voting members.
    pub members: Members,
    /// Replicas that its keyspace asks for.
    pub replicas_wanted: usize,
    /// Of its voters, those on nodes that are up.
    pub live: usize,
    /// What the lookup knows of it, if it is not here, or waits here for a snapshot.
    pub known: Option<Arc<KnownShard>>,
    /// The report of the local replica, if there is one.
    pub report: Option<ShardReport>,
    /// Whether the newest change of its replicas is over, as applied here.
    pub is_settled: bool,
    /// Its keys.
    pub keys: u64,
    /// Their memory, in bytes.
    pub bytes: u64,
    /// Sessions it remembers.
    pub sessions: u64,
    /// Quarantined replicas that are not replaced yet: this node's own, or those that it knows of
    /// as the leader.
    pub quarantined: Vec<ReplicaId>,
    /// Voters that it cannot count on, if it is led from here. Not those on nodes that are down, if
    /// too few are live anyhow.
    pub behind: Vec<LaggingVoter>,
}

impl ShardView {
    /// Which shard.
    pub fn id(&self) -> ShardId {
        self.descriptor.shard
    }

    /// The node that leads it, as far as this one knows.
    pub fn leader(&self) -> Option<NodeId> {
        let reported = self.report.as_ref().and_then(|report| report.leader_node);
        reported.or(self.known.as_deref().and_then(KnownShard::leader))
    }

    /// Whether its replicas are being changed.
    pub fn is_changing(&self) -> bool {
        !self.is_settled || self.members.is_joint() || !self.members.learners.is_empty()
    }

    /// Whether the replica here votes, so that it can judge its shard. One that is new waits for a
    /// snapshot; until then its leader, which adds it, judges the shard.
    fn votes_here(&self) -> bool {
        let replica = self.report.as_ref().map(|report| report.replica);
        replica.is_some_and(|replica| {
            self.members.voters.contains(&replica) || self.members.outgoing.contains(&replica)
        })
    }

    /// Whether it has fewer live replicas than its keyspace asks for, as a replica here sees it.
    pub fn is_under_replicated(&self) -> bool {
        self.votes_here() && self.live < self.replicas_wanted
    }

    /// Whether it is well.
    pub fn verdict(&self) -> Verdict {
        match &self.report {
            None => Verdict::Ok,
            Some(report) if report.leaderless_for_nanos() > 0 => Verdict::Failing,
            Some(_) if self.is_under_replicated() || self.disagrees() => Verdict::Degraded,
            Some(_) if !self.quarantined.is_empty() => Verdict::Degraded,
            Some(_) if !self.behind.is_empty() => Verdict::Degraded,
            Some(_) => Verdict::Ok,
        }
    }

    /// Whether its replicas differ, and no majority agrees.
    pub(super) fn disagrees(&self) -> bool {
        let finding = self.report.as_ref().and_then(|report| report.finding.as_ref());
        finding.is_some_and(|f| f.agreeing.is_empty() && !f.differing.is_empty())
    }

    /// Voters whose node is not up.
    pub(super) fn missing<'a>(
        &'a self,
        up: &'a BTreeSet<NodeId>,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let voters = self.members.voters.iter();
        let nodes = voters.filter_map(|replica| self.descriptor.node_of(*replica));
        nodes.filter(|node| !up.contains(node))
    }
}

/// The result of a survey.
pub struct Survey {
    /// Shards by id: all, whichever are shown.
    pub shards: Vec<ShardView>,
    /// Members; none without a peer listener.
    pub members: Arc<Vec<MemberInfo>>,
    /// In numbers.
    pub overview: Overview,
    /// In words.
    pub health: Health,
}

/// What a node has of the cluster's shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeHoldings {
    /// Shards that have a replica there.
    pub replicas: u64,
    /// Of these, those that it leads.
    pub leads: u64,
}

impl Survey {
    /// What each node has, by the descriptors that this one knows; nodes without anything are not
    /// listed.
    pub fn holdings_by_node(&self) -> BTreeMap<NodeId, NodeHoldings> {
        let mut held: BTreeMap<NodeId, NodeHoldings> = BTreeMap::new();
        for seen in &self.shards {
            for (_, node) in &seen.descriptor.replicas {
                held.entry(*node).or_default().replicas += 1;
            }
            if let Some(leader) = seen.leader() {
                held.entry(leader).or_default().leads += 1;
            }
        }
        held
    }

    /// How many shards have no known replicas: they are neither local nor in the table of
    /// descriptors.
    pub fn unknown_count(&self) -> usize {
        let is_unknown = |seen: &&ShardView| seen.report.is_none() && seen.known.is_none();
        let has_system = self.shards.first().is_some_and(|seen| seen.id() == ShardId(0));
        self.shards.iter().filter(is_unknown).count() + usize::from(!has_system)
    }
}

/// Surveys all shards and members, as this node sees them now.
pub fn survey(runtime: &NodeRuntime) -> Survey {
    let (members, own) = (runtime.members(), runtime.identity.node);
    let up = nodes_up(own, &members);
    let shards = shards_seen(runtime, &up);
    let mut overview = count(&shards, &members);
    let here = shards.iter().filter(|seen| seen.report.is_some());
    let holders = here.flat_map(|seen| seen.descriptor.replicas.iter().map(|(_, node)| *node));
    let others: BTreeSet<NodeId> = holders.filter(|node| *node != own).collect();
    overview.companions = others.intersection(&up).count() as u64;
    let health = health::assess(runtime, &shards, &members, &up);
    overview.verdict = health.verdict;
    Survey { shards, members, overview, health }
}

/// Stores the overview for frequent readers, and gossips this node's load.
pub fn publish(runtime: &NodeRuntime) {
    runtime.clock.compare(runtime.peers.as_ref());
    let survey = survey(runtime);
    watch_drains(runtime, &survey);
    let Survey { overview, .. } = survey;
    runtime.overview.store(Arc::new(overview));
    let Some(peers) = &runtime.peers else { return };
    let served = runtime.version.allows(Feature::Rates).then(|| request_rates::reported(runtime));
    let load = Load {
        shards: overview.shards as u32,
        leaders: overview.shards_led as u32,
        data_bytes: overview.data_bytes,
        requests: served.map(|served| served.led),
        follower_reads: served.map_or(0, |served| served.follower_reads),
        is_slow: runtime.disk_pace.is_slow(),
    };
    let own = peers.cluster.members();
    let own = own.iter().find(|member| member.node == runtime.identity.node);
    if own.is_none_or(|own| own.load != load) {
        peers.cluster.set_load(load);
    }
}

/// Notes what draining nodes still hold.
fn watch_drains(runtime: &NodeRuntime, survey: &Survey) {
    let admin_states = runtime.admin_states.all();
    let is_draining = |node| admin_states.of(node) == keyspace::AdminState::Draining;
    let held = survey.holdings_by_node();
    let draining = survey.members.iter().filter(|member| is_draining(member.node));
    let draining = draining.map(|member| {
        let replicas = held.get(&member.node).map_or(0, |held| held.replicas);
        let bytes = match member.node == runtime.identity.node {
            true => survey.overview.data_bytes,
            false => member.load.data_bytes,
        };
        (member.node, Held { replicas, bytes })
    });
    runtime.drains.observe(Instant::now(), draining);
}

/// What has happened in shards here since the start.
pub fn shard_counts(runtime: &NodeRuntime) -> ReplicaCounters {
    let (now, mut sum) = (boot_nanos(), ReplicaCounters::default());
    runtime.each_executor(|executor| sum = std::mem::take(&mut sum).and(executor.counters(now)));
    sum
}

fn nodes_up(own: NodeId, members: &[MemberInfo]) -> BTreeSet<NodeId> {
    let up = members.iter().filter(|member| member.is_up()).map(|member| member.node);
    up.chain([own]).collect()
}

/// Quarantined local replicas that are not replaced yet.
pub fn quarantined(runtime: &NodeRuntime) -> Vec<(ShardId, ReplicaId)> {
    let mut found = Vec::new();
    runtime.each_executor(|executor| found.extend(executor.quarantined()));
    found
}

fn reports(runtime: &NodeRuntime) -> BTreeMap<ShardId, ShardReport> {
    let mut reports = BTreeMap::new();
    let now = boot_nanos();
    for cell in runtime.executors.cells() {
        let mut after = None;
        loop {
            let some: Vec<ShardReport> = cell.with(runtime, |executor| {
                let rest = executor.shards().skip_while(|shard| Some(shard.id()) <= after);
                rest.take(EXECUTOR_SHARDS).map(|shard| shard.report(now)).collect()
            });
            let Some(last) = some.last() else { break };
            after = Some(last.shard);
            reports.extend(some.into_iter().map(|report| (report.shard, report)));
        }
    }
    reports
}

/// All that one survey sees shards by.
struct SurveyContext<'a> {
    runtime: &'a NodeRuntime,
    now: Timestamp,
    boot: BootNanos,
    up: &'a BTreeSet<NodeId>,
    reports: BTreeMap<ShardId, ShardReport>,
    quarantined: BTreeMap<ShardId, ReplicaId>,
    streams: Vec<StreamProgress>,
}

impl<'a> SurveyContext<'a> {
    fn new(runtime: &'a NodeRuntime, up: &'a BTreeSet<NodeId>) -> Self {
        let now = runtime.clock.now();
        let reports = reports(runtime);
        let quarantined = quarantined(runtime).into_iter().collect();
        let streams = runtime.peers.as_ref().map(|peers| peers.snapshots.progress());
        let (streams, boot) = (streams.unwrap_or_default(), boot_nanos());
        Self { runtime, now, boot, up, reports, quarantined, streams }
    }

    /// What the table of descriptors knows of a shard.
    fn known(&self, shard: ShardId) -> Option<Arc<KnownShard>> {
        self.runtime.peers.as_ref()?.lookup.shard(shard)
    }

    /// A shard of a keyspace, or the system shard, which has none.
    fn see(&mut self, keyspace: Option<&str>, view: &View, replicas_wanted: u8) -> ShardView {
        let state: &ShardState = &view.read();
        let report = self.reports.remove(&state.descriptor.shard);
        // A new replica knows nothing of its shard before it has its snapshot.
        let is_blank = state.members.voters.is_empty();
        let known = match report {
            Some(_) if !is_blank => None,
            _ => self.known(state.descriptor.shard),
        };
        let (descriptor, members) = match &known {
            Some(known) => as_known(known),
            None => (state.descriptor.clone(), state.members.clone()),
        };
        let is_up = |replica: &&ReplicaId| {
            descriptor.node_of(**replica).is_some_and(|node| self.up.contains(&node))
        };
        let mut quarantined = report.as_ref().map_or_else(Vec::new, |r| r.quarantined.clone());
        quarantined.extend(self.quarantined.get(&descriptor.shard));
        let usage = state.engine().map(|engine| engine.usage());
        let layout = state.engine().map(|engine| engine.layout());
        let live = members.voters.iter().filter(is_up).count();
        let mut behind = report.as_ref().map_or_else(Vec::new, |report| {
            lagging_replicas::of(report, &members, &self.streams, self.boot)
        });
        if live < usize::from(replicas_wanted) {
            behind.retain(|behind| is_up(&&behind.lagging.replica));
        }
        ShardView {
            has_slots: layout.is_some_and(|layout| layout.is_hashed()),
            keyspace: keyspace.map(Into::into),
            live,
            members,
            known,
            is_settled: state.roster.is_settled,
            replicas_wanted: usize::from(replicas_wanted),
            report,
            keys: state.engine().map_or(0, |engine| engine.len(self.now)),
            bytes: usage.map_or(0, |u| u.live_bytes + u.old_bytes),
            sessions: state.sessions.len() as u64,
            quarantined,
            behind,
            descriptor,
        }
    }
}

fn shards_seen(runtime: &NodeRuntime, up: &BTreeSet<NodeId>) -> Vec<ShardView> {
    let mut sight = SurveyContext::new(runtime, up);
    let mut shards = Vec::new();
    if let Some(view) = runtime.routing.view(ShardId(0)) {
        shards.push(sight.see(None, &view, replicas_of_system(&view)));
    } else if let Some(known) = sight.known(ShardId(0)) {
        let nothing = Arc::new(RwLock::new(bootstrap::first_system(runtime.identity.node)));
        shards.push(sight.see(None, &nothing, known.descriptor().replicas.len() as u8));
    }
    for route in runtime.routing.routes().iter() {
        let replicas = route.keyspace.options.replicas;
        let views = route.views.iter();
        shards.extend(views.map(|view| sight.see(Some(&route.keyspace.name), view, replicas)));
    }
    shards.sort_unstable_by_key(ShardView::id);
    shards
}

/// A shard whose voters are not known.
fn as_known(known: &KnownShard) -> (Descriptor, Members) {
    let descriptor = known.descriptor().clone();
    let ids: Vec<ReplicaId> = descriptor.replicas.iter().map(|(replica, _)| *replica).collect();
    let members = Members::of_voters(&ids);
    (descriptor, members)
}

/// The system shard has as many as the keyspace that asks for most.
fn replicas_of_system(view: &View) -> u8 {
    match &view.read().content {
        Content::System(system) => {
            let replicas = system.catalogue.iter().map(|keyspace| keyspace.options.replicas);
            replicas.max().unwrap_or(1)
        }
        Content::Keys(_) => unreachable!("shard 0 starts as the system shard"),
    }
}

/// The shards and members in numbers.
pub(super) fn count(shards: &[ShardView], members: &[MemberInfo]) -> Overview {
    let of = |state| members.iter().filter(|member| member.state == state).count() as u64;
    let here = || shards.iter().filter_map(|seen| Some((seen, seen.report.as_ref()?)));
    let with = |what: fn(&ShardView, &ShardReport) -> bool| {
        here().filter(|(seen, report)| what(seen, report)).count() as u64
    };
    Overview {
        members_up: of(MemberState::Up).max(1),
        members_suspected: members.iter().filter(|m| m.is_up() && m.suspected).count() as u64,
        members_down: of(MemberState::Down),
        shards: with(|_, _| true),
        shards_led: with(|_, report| report.leads),
        shards_without_leader: with(|_, report| report.leaderless_for_nanos() > 0),
        shards_under_replicated: with(|seen, _| seen.is_under_replicated()),
        companions: 0,
        data_bytes: here().map(|(seen, _)| seen.bytes).sum(),
        verdict: Verdict::Ok,
    }
}

/// A node's name, for people.
pub fn name_of(node: NodeId, members: &[MemberInfo]) -> String {
    match members.iter().find(|member| member.node == node) {
        Some(member) => member.name.clone(),
        None => format!("{:016x}", node.0),
    }
}

/// A node's name in a sentence, with its id if another node has the same name.
pub fn called(node: NodeId, members: &[MemberInfo]) -> String {
    let name = name_of(node, members);
    match members.iter().filter(|member| member.name == name).count() {
        0 | 1 => name,
        _ => format!("{name} ({:016x})", node.0),
    }
}

//! What does this node know of its cluster, and is all well?
//!
//! ```text
//!   lanes (reports) ┐
//!   views           ┼──► Seen, one a shard ──► Overview ──► health in words
//!   members         ┘         │                   └─ once a second: load told to others, INFO
//!                             └──► GET /v1/shards, metrics
//! ```
//!
//! Whoever asks gathers; nothing here is kept but the keeper's [`Overview`] of the last second, for
//! those who must not wait for a lane. A lane is held for `LANE_SHARDS` shards at a time.
//!
//! Health speaks of shards of which this node has a replica: of others it knows nothing that is
//! sure to be true. A shard is **failing** when nobody is known to lead it, or when this node is
//! elected to and cannot; **degraded** when fewer of its voters live than its keyspace asks for, or
//! when its leader, if that is here, cannot count on one of them ([`laggards`]). So who stops a
//! node asks all others before: each answers for the shards that it leads.
//!
//! [`laggards`]: super::laggards

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::{Descriptor, Feature, NodeId, ReplicaId, ShardId};
use node::replica::state::{Content, ShardState};
use node::replica::{ShardReport, Tally};
use node::reshape::bootstrap;
use overlay::Known;
use parking_lot::RwLock;
use replication::Members;

use super::laggards::{self, Behind};
use super::{Hub, View, boot_nanos, wall_millis};
use crate::cluster::{Load, MemberInfo, MemberState};
use crate::peer::PeerCounters;
use api::{Health, Overview, Verdict};

/// Shards looked at under one hold of a lane.
const LANE_SHARDS: usize = 64;
/// Reasons that are told; how many more there are is told too.
const REASONS_MAX: usize = 8;
/// For how long it is told that a message was too long; what cannot be sent is tried again.
const TOO_LONG_FOR_MS: u64 = 60_000;
/// Shards that a reason names.
const NAMED_MAX: usize = 6;

/// A shard, as this node knows it.
pub struct Seen {
    /// Its keyspace's name; none for the system shard.
    pub keyspace: Option<Box<str>>,
    /// Whether its keys lie in slots.
    pub has_slots: bool,
    /// Its arc and its replicas; if it is not here, as the lookup knows them.
    pub descriptor: Descriptor,
    /// Who votes.
    pub members: Members,
    /// Replicas that its keyspace asks for.
    pub wanted: usize,
    /// Of its voters, those on nodes that are up.
    pub live: usize,
    /// What the lookup knows of it, if it is not here.
    pub known: Option<Arc<Known>>,
    /// What the replica here says, if there is one.
    pub report: Option<ShardReport>,
    /// Whether the newest change of its replicas is over, as applied here.
    pub is_settled: bool,
    /// Its keys.
    pub keys: u64,
    /// What they take in memory.
    pub bytes: u64,
    /// Sessions it remembers.
    pub sessions: u64,
    /// Replicas that take no part any more, and are not replaced yet: this node's own, or those
    /// that it knows of as the leader.
    pub quarantined: Vec<ReplicaId>,
    /// Voters that it cannot count on, if it is led from here. Not those on nodes that are down, if
    /// too few are live anyhow.
    pub behind: Vec<Behind>,
}

impl Seen {
    /// Which shard.
    pub fn id(&self) -> ShardId {
        self.descriptor.shard
    }

    /// The node that leads it, as far as this one knows.
    pub fn leader(&self) -> Option<NodeId> {
        let reported = self.report.as_ref().and_then(|report| report.leader_node);
        reported.or(self.known.as_deref().and_then(Known::leader))
    }

    /// Whether its replicas are being changed.
    pub fn is_changing(&self) -> bool {
        !self.is_settled || self.members.is_joint() || !self.members.learners.is_empty()
    }

    /// Whether it is well.
    pub fn verdict(&self) -> Verdict {
        match &self.report {
            None => Verdict::Ok,
            Some(report) if report.unled_nanos() > 0 => Verdict::Failing,
            Some(_) if self.live < self.wanted || self.disagrees() => Verdict::Degraded,
            Some(_) if !self.quarantined.is_empty() => Verdict::Degraded,
            Some(_) if !self.behind.is_empty() => Verdict::Degraded,
            Some(_) => Verdict::Ok,
        }
    }

    /// Whether its replicas hold different things, and nobody knows who is right.
    fn disagrees(&self) -> bool {
        let finding = self.report.as_ref().and_then(|report| report.finding.as_ref());
        finding.is_some_and(|f| f.agreeing.is_empty() && !f.differing.is_empty())
    }

    /// Voters whose node is not up.
    fn missing<'a>(&'a self, up: &'a BTreeSet<NodeId>) -> impl Iterator<Item = NodeId> + 'a {
        let voters = self.members.voters.iter();
        let nodes = voters.filter_map(|replica| self.descriptor.node_of(*replica));
        nodes.filter(|node| !up.contains(node))
    }
}

/// All that is asked for at once.
pub struct Survey {
    /// Shards by id: all, whichever are shown.
    pub shards: Vec<Seen>,
    /// Members; none without a peer listener.
    pub members: Arc<Vec<MemberInfo>>,
    /// In numbers.
    pub overview: Overview,
    /// In words.
    pub health: Health,
}

/// What a node has of the cluster's shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Shards that have a replica there.
    pub replicas: u64,
    /// Of these, those that it leads.
    pub leads: u64,
}

impl Survey {
    /// What each node has, by the descriptors that this one knows; nodes without anything are not
    /// listed.
    pub fn held_by_nodes(&self) -> BTreeMap<NodeId, Held> {
        let mut held: BTreeMap<NodeId, Held> = BTreeMap::new();
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

    /// Shards of which this node does not know who holds them: neither are they here, nor has its
    /// table of descriptors heard of them.
    pub fn unknown_count(&self) -> usize {
        let is_unknown = |seen: &&Seen| seen.report.is_none() && seen.known.is_none();
        let has_system = self.shards.first().is_some_and(|seen| seen.id() == ShardId(0));
        self.shards.iter().filter(is_unknown).count() + usize::from(!has_system)
    }
}

impl Hub {
    /// How everything is, as this node sees it now.
    pub fn survey(&self) -> Survey {
        let members = self.members();
        let up = self.nodes_up(&members);
        let shards = self.shards_seen(&up);
        let mut overview = count(&shards, &members);
        let here = shards.iter().filter(|seen| seen.report.is_some());
        let holders = here.flat_map(|seen| seen.descriptor.replicas.iter().map(|(_, node)| *node));
        let others: BTreeSet<NodeId> = holders.filter(|node| *node != self.node_id).collect();
        overview.companions = others.intersection(&up).count() as u64;
        let health = self.health(&shards, &members, &up);
        overview.verdict = health.verdict;
        Survey { shards, members, overview, health }
    }

    /// Tells the others what this node carries, and keeps the numbers for those who ask often.
    pub fn look_around(&self) {
        self.compare_clocks();
        let Survey { overview, .. } = self.survey();
        self.overview.store(Arc::new(overview));
        let Some(peers) = &self.peers else { return };
        let load = Load {
            shards: overview.shards as u32,
            leaders: overview.shards_led as u32,
            data_bytes: overview.data_bytes,
            requests: self.may_use(Feature::Rates).then(|| self.requests_led()),
            is_slow: self.disk_pace.is_slow(),
        };
        let own = peers.cluster.members();
        let own = own.iter().find(|member| member.node == self.node_id);
        if own.is_none_or(|own| own.load != load) {
            peers.cluster.set_load(load);
        }
    }

    /// The members, if this node knows any.
    pub fn members(&self) -> Arc<Vec<MemberInfo>> {
        self.peers.as_ref().map(|peers| peers.cluster.members()).unwrap_or_default()
    }

    /// What has happened in shards here since the start.
    pub fn shard_tally(&self) -> Tally {
        let now = boot_nanos();
        let tallies = self.lanes.iter().map(|lane| lane.with(self, |lane| lane.tally(now)));
        tallies.fold(Tally::default(), Tally::and)
    }

    fn nodes_up(&self, members: &[MemberInfo]) -> BTreeSet<NodeId> {
        let up = members.iter().filter(|member| member.is_up()).map(|member| member.node);
        up.chain([self.node_id]).collect()
    }

    /// Replicas here that take no part any more, and are not replaced yet.
    pub fn quarantined(&self) -> Vec<(ShardId, ReplicaId)> {
        let mut found = Vec::new();
        for lane in &self.lanes {
            found.extend(lane.with(self, |lane| lane.quarantined().collect::<Vec<_>>()));
        }
        found
    }

    fn reports(&self) -> BTreeMap<ShardId, ShardReport> {
        let mut reports = BTreeMap::new();
        let now = boot_nanos();
        for lane in &self.lanes {
            let mut after = None;
            loop {
                let some: Vec<ShardReport> = lane.with(self, |lane| {
                    let rest = lane.shards().skip_while(|shard| Some(shard.id()) <= after);
                    rest.take(LANE_SHARDS).map(|shard| shard.report(now)).collect()
                });
                let Some(last) = some.last() else { break };
                after = Some(last.shard);
                reports.extend(some.into_iter().map(|report| (report.shard, report)));
            }
        }
        reports
    }

    fn shards_seen(&self, up: &BTreeSet<NodeId>) -> Vec<Seen> {
        let now = self.now();
        let mut reports = self.reports();
        let ended: BTreeMap<_, _> = self.quarantined().into_iter().collect();
        let streams = self.peers.as_ref().map(|peers| peers.snapshots.progress());
        let (streams, boot) = (streams.unwrap_or_default(), boot_nanos());
        let mut shards = Vec::new();
        let mut see = |keyspace: Option<&str>, view: &View, wanted: u8| {
            let state: &ShardState = &view.read();
            let report = reports.remove(&state.descriptor.shard);
            let lookup = self.peers.as_ref().filter(|_| report.is_none()).map(|p| &p.lookup);
            let known = lookup.and_then(|lookup| lookup.shard(state.descriptor.shard));
            let (descriptor, members) = match &known {
                Some(known) => as_known(known),
                None => (state.descriptor.clone(), state.members.clone()),
            };
            let is_up = |replica: &&ReplicaId| {
                descriptor.node_of(**replica).is_some_and(|node| up.contains(&node))
            };
            let ended = ended.get(&descriptor.shard).copied();
            let mut missed = report.as_ref().map_or_else(Vec::new, |r| r.quarantined.clone());
            missed.extend(ended);
            let usage = state.keys().map(|engine| engine.usage());
            let layout = state.keys().map(|engine| engine.layout());
            let live = members.voters.iter().filter(is_up).count();
            let mut behind = report
                .as_ref()
                .map_or_else(Vec::new, |report| laggards::of(report, &members, &streams, boot));
            if live < usize::from(wanted) {
                behind.retain(|behind| is_up(&&behind.laggard.replica));
            }
            shards.push(Seen {
                has_slots: layout.is_some_and(|layout| layout.is_hashed()),
                keyspace: keyspace.map(Into::into),
                live,
                members,
                known,
                is_settled: state.roster.is_settled,
                wanted: usize::from(wanted),
                report,
                keys: state.keys().map_or(0, |engine| engine.len(now)),
                bytes: usage.map_or(0, |u| u.live_bytes + u.old_bytes),
                sessions: state.sessions.len() as u64,
                quarantined: missed,
                behind,
                descriptor,
            });
        };
        let system = self.views.get(ShardId(0));
        let away = || self.peers.as_ref()?.lookup.shard(ShardId(0));
        if let Some(view) = system {
            let wanted = replicas_of_system(&view);
            see(None, &view, wanted);
        } else if let Some(known) = away() {
            let nothing = Arc::new(RwLock::new(bootstrap::first_system(self.node_id)));
            see(None, &nothing, known.descriptor().replicas.len() as u8);
        }
        for route in self.routes().iter() {
            for view in &route.views {
                see(Some(&route.keyspace.name), view, route.keyspace.options.replicas);
            }
        }
        shards.sort_unstable_by_key(Seen::id);
        shards
    }

    fn health(&self, shards: &[Seen], members: &[MemberInfo], up: &BTreeSet<NodeId>) -> Health {
        let mut reasons = Reasons::default();
        if let Some(why) = self.not_ready() {
            reasons.add(Verdict::Failing, format!("this node does not serve: {why}"));
        }
        judge(shards, members, up, &mut reasons);
        if self.ready.load(Ordering::Acquire) {
            self.judge_unreached(shards, &mut reasons);
        }
        if let Some(ahead) = self.clocks.wrong_millis() {
            let why = format!(
                "the clock of this node is {ahead} ms ahead of the median of its peers: set it \
                 right, and start the node again"
            );
            reasons.add(Verdict::Degraded, why);
        }
        if let Some(why) = self.why_ahead() {
            reasons.add(Verdict::Degraded, why);
        }
        let ended = self.quarantined();
        if !ended.is_empty() {
            let names = ended.iter().take(NAMED_MAX);
            let names = names.map(|(shard, replica)| format!("{replica} of shard {shard}"));
            let why = format!(
                "{} replicas here are quarantined and wait to be replaced ({}), which takes a \
                 majority of the others: this node's disk or memory may be faulty",
                ended.len(),
                names.collect::<Vec<_>>().join(", ")
            );
            reasons.add(Verdict::Degraded, why);
        }
        if let Some(peers) = &self.peers {
            let counters = peers.cluster.counters().peers;
            judge_messages(&counters, members, wall_millis(), &mut reasons);
        }
        if self.log.facts().full {
            let why = "the disk of this node has no room: writes to shards that it leads are \
                       refused until there is";
            reasons.add(Verdict::Degraded, why.into());
        }
        if self.out_of_memory.load(Ordering::Relaxed) {
            let why = "memory is full: writes by way of this node that need more are refused";
            reasons.add(Verdict::Degraded, why.into());
        }
        reasons.finish()
    }

    /// Says whom shards without a leader lack, and what became of the attempts to reach them. Why
    /// a node is not ready says so itself.
    fn judge_unreached(&self, shards: &[Seen], reasons: &mut Reasons) {
        let unled = |seen: &&Seen| seen.report.as_ref().is_some_and(|r| r.unled_nanos() > 0);
        let replicas = shards.iter().filter(unled).flat_map(|seen| &seen.descriptor.replicas);
        let nodes: BTreeSet<NodeId> = replicas.map(|(_, node)| *node).collect();
        if !nodes.is_empty() {
            let why = "replicas of shards that nobody leads are not there";
            let unreached = self.with_unreached(why.into(), Some(&nodes));
            if unreached != why {
                reasons.add(Verdict::Failing, unreached);
            }
        }
    }

    /// Why the node does not serve yet, or any more, in words; `None` if it does.
    pub fn not_ready(&self) -> Option<String> {
        if self.stopping.load(Ordering::Acquire) {
            return Some("the node is stopping".into());
        }
        let ready = self.ready.load(Ordering::Acquire);
        (!ready).then(|| format!("the node is starting: {}", self.why_not_serving()))
    }
}

/// A shard of which it is not known who of its replicas votes.
fn as_known(known: &Known) -> (Descriptor, Members) {
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
        Content::Keys(_) => unreachable!("shard 0 is born as the system shard"),
    }
}

fn count(shards: &[Seen], members: &[MemberInfo]) -> Overview {
    let of = |state| members.iter().filter(|member| member.state == state).count() as u64;
    let here = || shards.iter().filter_map(|seen| Some((seen, seen.report.as_ref()?)));
    let with = |what: fn(&Seen, &ShardReport) -> bool| {
        here().filter(|(seen, report)| what(seen, report)).count() as u64
    };
    Overview {
        members_up: of(MemberState::Up).max(1),
        members_suspected: members.iter().filter(|m| m.is_up() && m.suspected).count() as u64,
        members_down: of(MemberState::Down),
        shards: with(|_, _| true),
        shards_led: with(|_, report| report.leads),
        shards_without_leader: with(|_, report| report.unled_nanos() > 0),
        shards_below_strength: with(|seen, _| seen.live < seen.wanted),
        companions: 0,
        data_bytes: here().map(|(seen, _)| seen.bytes).sum(),
        verdict: Verdict::Ok,
    }
}

/// Says which nodes lately did not take a message of this one, since their version takes no such
/// long ones.
fn judge_messages(
    counters: &[(NodeId, Arc<PeerCounters>)],
    members: &[MemberInfo],
    now_ms: u64,
    reasons: &mut Reasons,
) {
    for (node, counters) in counters {
        let at = counters.too_long_millis.get();
        if at > 0 && now_ms.saturating_sub(at) < TOO_LONG_FOR_MS {
            let why = format!(
                "a message is too long for {}, which runs an older version: what it was for, \
                 replicas or reads, does not get on. Upgrade that node, or delete the long value",
                name_of(*node, members)
            );
            reasons.add(Verdict::Degraded, why);
        }
    }
}

/// Says what is wrong with shards: once for all shards of a keyspace with the same trouble.
fn judge(shards: &[Seen], members: &[MemberInfo], up: &BTreeSet<NodeId>, reasons: &mut Reasons) {
    let mut leaderless: BTreeMap<(Option<&str>, bool), Vec<&Seen>> = BTreeMap::new();
    let mut weak: BTreeMap<(Option<&str>, usize), Vec<&Seen>> = BTreeMap::new();
    for seen in shards.iter().filter(|seen| seen.report.is_some()) {
        let keyspace = seen.keyspace.as_deref();
        if seen.verdict() == Verdict::Failing {
            let is_stalled = seen.report.as_ref().is_some_and(ShardReport::is_stalled);
            leaderless.entry((keyspace, is_stalled)).or_default().push(seen);
        }
        if seen.live < seen.wanted {
            weak.entry((keyspace, seen.live)).or_default().push(seen);
        }
    }
    for seen in shards.iter().filter(|seen| seen.disagrees()) {
        let why = format!(
            "replicas of {} hold different things and no majority agrees: stop writing to it, keep \
             copies of the directories, and see docs/operations.md",
            named(seen.keyspace.as_deref(), &[seen])
        );
        reasons.add(Verdict::Degraded, why);
    }
    for ((keyspace, is_stalled), shards) in leaderless {
        let nanos = shards.iter().filter_map(|seen| Some(seen.report.as_ref()?.unled_nanos()));
        let seconds = nanos.max().unwrap_or(0) as f64 / 1e9;
        let named = named(keyspace, &shards);
        let why = match is_stalled {
            false => format!(
                "nobody has led {named} for {seconds:.1} s: requests for it are not done until \
                 more than half of its replicas have elected one"
            ),
            true => format!(
                "this node is elected to lead {named}, and nothing has been done there for \
                 {seconds:.1} s: requests for it are not done until more than half of its \
                 replicas answer and take what is written"
            ),
        };
        reasons.add(Verdict::Failing, why);
    }
    laggards::tell(shards, members, |why| reasons.add(Verdict::Degraded, why));
    for ((keyspace, live), shards) in weak {
        let wanted = shards.iter().map(|seen| seen.wanted).max().unwrap_or(0);
        let missing: BTreeSet<NodeId> = shards.iter().flat_map(|seen| seen.missing(up)).collect();
        let mut missing: Vec<String> = missing.iter().map(|node| name_of(*node, members)).collect();
        missing.sort_unstable();
        let because = match missing.is_empty() {
            true => "further nodes are needed, or still catch up".to_owned(),
            false => format!("missing: {}", missing.join(", ")),
        };
        let why = format!(
            "{live} of {wanted} replicas of {} are live ({because})",
            named(keyspace, &shards)
        );
        reasons.add(Verdict::Degraded, why);
    }
}

fn named(keyspace: Option<&str>, shards: &[&Seen]) -> String {
    let Some(keyspace) = keyspace else { return "the catalogue of keyspaces (shard 0)".into() };
    let mut ids: Vec<String> = shards.iter().map(|seen| seen.id().to_string()).collect();
    let more = ids.len().saturating_sub(NAMED_MAX);
    ids.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let word = if shards.len() == 1 { "shard" } else { "shards" };
    format!("{word} {}{more} of keyspace \"{keyspace}\"", ids.join(", "))
}

/// A node as people know it.
pub fn name_of(node: NodeId, members: &[MemberInfo]) -> String {
    match members.iter().find(|member| member.node == node) {
        Some(member) => member.name.clone(),
        None => format!("{:016x}", node.0),
    }
}

/// A node as people call it in a sentence: by its name, with its id if another has the same name.
pub fn called(node: NodeId, members: &[MemberInfo]) -> String {
    let name = name_of(node, members);
    match members.iter().filter(|member| member.name == name).count() {
        0 | 1 => name,
        _ => format!("{name} ({:016x})", node.0),
    }
}

/// What is wrong, gathered.
#[derive(Default)]
struct Reasons(Vec<(Verdict, String)>);

impl Reasons {
    fn add(&mut self, verdict: Verdict, why: String) {
        self.0.push((verdict, why));
    }

    /// The worst first.
    fn finish(mut self) -> Health {
        self.0.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
        let verdict = self.0.first().map_or(Verdict::Ok, |(verdict, _)| *verdict);
        let more = self.0.len().saturating_sub(REASONS_MAX);
        self.0.truncate(REASONS_MAX);
        let mut reasons: Vec<String> = self.0.into_iter().map(|(_, why)| why).collect();
        if more > 0 {
            reasons.push(format!("and {more} more"));
        }
        Health { verdict, reasons }
    }
}

#[cfg(test)]
#[path = "overview_tests.rs"]
mod tests;

//! What a simulation shows, as nodes' API has it.

use api::{
    ClusterStatus, Health, LogStatus, MemoryStatus, NodeAddresses, NodeState, NodeStatus, Nodes,
    ReplicaRole, ReplicaStatus, ShardStatus, Status, Surface, Verdict,
};
use keyspace::{NodeId, Placement};
use sim::live::{self, NodeView, Phase, ShardView, Simulation};

/// Reasons that are listed.
const REASONS_MAX: usize = 20;

/// A node's id as text.
pub fn id(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

/// How well a shard is.
fn verdict(shard: &ShardView) -> Verdict {
    let live = live_voters(shard);
    match () {
        () if shard.leader.is_none() => Verdict::Failing,
        () if live < shard.replicas_wanted => Verdict::Degraded,
        () => Verdict::Ok,
    }
}

fn live_voters(shard: &ShardView) -> u64 {
    let is_live = |voter: &&keyspace::ReplicaId| {
        let places = &shard.descriptor.replicas;
        let place = places.iter().find(|(replica, _)| replica == *voter);
        place.is_some_and(|(_, node)| shard.live.contains(node))
    };
    shard.members.voters.iter().filter(is_live).count() as u64
}

fn name_of_shard(shard: &ShardView) -> String {
    let number = shard.descriptor.shard.0;
    match &shard.keyspace {
        Some(keyspace) => format!("shard {number} of keyspace {:?}", &*keyspace.name),
        None => format!("shard {number}, which holds the catalogue"),
    }
}

/// Whether all is well, the worst first.
pub fn health(sim: &Simulation, shards: &[ShardView]) -> Health {
    let mut found: Vec<(Verdict, String)> = Vec::new();
    if let Some(broken) = sim.broken() {
        found.push((Verdict::Failing, format!("a rule is broken: {}", broken.rule)));
    }
    if sim.phase() == Phase::Forming {
        found.push((Verdict::Degraded, "the simulated cluster is forming".to_owned()));
    }
    for shard in shards {
        let (verdict, name) = (verdict(shard), name_of_shard(shard));
        match verdict {
            Verdict::Ok => {}
            Verdict::Failing => found.push((verdict, format!("{name} has no leader"))),
            Verdict::Degraded => {
                let (live, wanted) = (live_voters(shard), shard.replicas_wanted);
                let why = format!("{live} of {wanted} replicas of {name} are live");
                found.push((verdict, why));
            }
        }
    }
    found.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
    let verdict = found.first().map_or(Verdict::Ok, |(verdict, _)| *verdict);
    let more = found.len().saturating_sub(REASONS_MAX);
    let mut reasons: Vec<String> =
        found.into_iter().take(REASONS_MAX).map(|(_, reason)| reason).collect();
    if more > 0 {
        reasons.push(format!("and {more} more"));
    }
    Health { verdict, reasons }
}

/// `GET /v1/status`: the first node that is up stands for all.
pub fn status(sim: &Simulation) -> Status {
    let (nodes, shards) = (sim.nodes(), sim.shards());
    let this = asked(&nodes);
    let count =
        |is: &dyn Fn(&NodeView) -> bool| nodes.iter().filter(|node| is(node)).count() as u64;
    let shard_count =
        |is: &dyn Fn(&ShardView) -> bool| shards.iter().filter(|shard| is(shard)).count() as u64;
    let forming = (sim.phase() == Phase::Forming).then(|| "the cluster is forming".to_owned());
    Status {
        name: this.map_or_else(|| "n1".to_owned(), |node| node.name.clone()),
        node_id: id(this.map_or(NodeId(0), |node| node.id)),
        version: env!("CARGO_PKG_VERSION").into(),
        ready: forming.is_none(),
        not_ready: forming,
        health: health(sim, &shards),
        cluster: ClusterStatus {
            id: format!("{:016x}", sim.setup().seed),
            members_up: count(&|node| node.state == live::NodeState::Up),
            members_suspected: count(&|node| node.state == live::NodeState::Paused),
            members_down: count(&|node| node.state == live::NodeState::Down),
            shards_led: shard_count(&|shard| {
                shard.leader.is_some() && shard.leader == this.map(|node| node.id)
            }),
            shards_without_leader: shard_count(&|shard| shard.leader.is_none()),
            shards_under_replicated: shard_count(&|shard| {
                live_voters(shard) < shard.replicas_wanted
            }),
        },
        cluster_version: Some(cluster_version(&nodes)),
        uptime_ms: sim.now_ms(),
        listeners: Vec::new(),
        dir: "simulated".to_owned(),
        threads: 1,
        connections: sim.counts().clients as u64,
        keyspaces: sim.keyspaces().len() as u64,
        shards: shards.len() as u64,
        keys: shards.iter().map(|shard| shard.keys).sum(),
        memory: MemoryStatus {
            used_bytes: shards.iter().map(|shard| shard.bytes).sum(),
            old_versions_bytes: 0,
            max_bytes: 0,
        },
        log: LogStatus::default(),
        recovered: "a simulation: nothing is kept".to_owned(),
        warnings: vec!["This cluster is simulated: docs/sim.md.".to_owned()],
        surfaces: Surface::names(&[
            Surface::Events,
            Surface::Keys,
            Surface::History,
            Surface::Prove,
            Surface::Cluster,
            Surface::Sim,
        ]),
    }
}

/// The node that stands for all: the first that is up.
pub fn asked(nodes: &[NodeView]) -> Option<&NodeView> {
    nodes.iter().find(|node| node.state == live::NodeState::Up).or(nodes.first())
}

/// `GET /v1/level`.
pub fn cluster_version(nodes: &[NodeView]) -> api::ClusterVersionStatus {
    let newest = keyspace::ClusterVersion::NEWEST.number();
    let supported = [1, newest];
    let nodes = nodes.iter().filter(|node| node.state != live::NodeState::Gone);
    let nodes = nodes.map(|node| api::NodeVersions {
        id: id(node.id),
        name: node.name.clone(),
        supported: Some(supported),
    });
    api::ClusterVersionStatus {
        version: newest,
        supported,
        automatic: true,
        objections: Vec::new(),
        nodes: nodes.collect(),
    }
}

/// `GET /v1/nodes`.
pub fn nodes(sim: &Simulation) -> Nodes {
    let (views, shards) = (sim.nodes(), sim.shards());
    let this = asked(&views).map(|node| node.id);
    let begun_ms = sim.wall_ms() - sim.now_ms();
    let removed = views.iter().filter(|node| node.admin_state == keyspace::AdminState::Removed);
    let removed = removed.map(|node| id(node.id)).collect();
    let nodes = views.iter().map(|node| NodeStatus {
        id: id(node.id),
        name: node.name.clone(),
        this: this == Some(node.id),
        state: match node.state {
            live::NodeState::Up => NodeState::Up,
            live::NodeState::Paused => NodeState::Suspected,
            live::NodeState::Down => NodeState::Down,
            live::NodeState::Gone => NodeState::Left,
        },
        admin_state: node.admin_state.into(),
        since_at_ms: begun_ms + node.started_ms,
        linked: node.state == live::NodeState::Up,
        addresses: NodeAddresses::default(),
        domain: node.domain.clone(),
        version: format!("carillon {}", env!("CARGO_PKG_VERSION")),
        replicas: node.replicas,
        leads: node.leads,
        shards: node.replicas,
        leaders: node.leads,
        data_bytes: node.data_bytes,
        requests_per_second: 0,
        follower_reads_per_second: 0,
        slow_disk: node.slow_disk_ms > 0,
        drain_rate: None,
        joined_at_ms: begun_ms,
    });
    Nodes { health: health(sim, &shards), nodes: nodes.collect(), removed }
}

/// A shard of `GET /v1/shards`.
pub fn shard(shard: &ShardView, nodes: &[NodeView]) -> ShardStatus {
    let ShardView { descriptor, report, members, keyspace, boot, .. } = shard;
    let placement = keyspace.as_ref().map(|keyspace| keyspace.options.placement);
    let has_slots = placement == Some(Placement::Hashed);
    let slots = descriptor.arc.slots().filter(|_| has_slots);
    let hex = |tail: &[u8]| tail.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let arc = [hex(descriptor.arc.start().tail()), hex(descriptor.arc.end().tail())];
    let leads = shard.leader.is_some();
    let lease = report.lease_until.saturating_sub(*boot) / 1_000_000;
    let replicas = descriptor.replicas.iter().map(|(replica, node)| {
        let follower = report.followers.iter().find(|follower| follower.replica == *replica);
        let contact = follower.filter(|follower| follower.echoed > 0);
        ReplicaStatus {
            replica: replica.0,
            node: id(*node),
            name: nodes.iter().find(|one| one.id == *node).map(|one| one.name.clone()),
            role: match () {
                () if members.voters.contains(replica) => ReplicaRole::Voter,
                () if members.outgoing.contains(replica) => ReplicaRole::Outgoing,
                () => ReplicaRole::Learner,
            },
            live: shard.live.contains(node),
            leader: leads && report.leader == Some(*replica),
            behind: follower.and_then(|follower| follower.behind(report.last_index)),
            contact_ms: contact.map(|follower| boot.saturating_sub(follower.echoed) / 1_000_000),
            awaits_snapshot: follower.is_some_and(|follower| follower.awaits_snapshot),
            snapshot: None,
        }
    });
    ShardStatus {
        id: descriptor.shard.0,
        keyspace: keyspace.as_ref().map(|keyspace| keyspace.name.to_string()),
        slots: slots.map(|(first, end)| [first, end - 1]),
        arc: (!has_slots && keyspace.is_some()).then_some(arc),
        generation: descriptor.generation.0,
        verdict: verdict(shard),
        here: true,
        replicas_wanted: shard.replicas_wanted,
        replicas_live: live_voters(shard),
        voters: members.voters.len() as u64,
        changing: shard.is_changing,
        replicas: replicas.collect(),
        leader: shard.leader.map(id),
        without_leader_ms: if leads { 0 } else { report.leaderless_for_nanos() / 1_000_000 },
        term: report.term,
        committed: report.committed,
        applied: report.applied,
        lease_ms: (leads && report.lease_until != u64::MAX).then_some(lease),
        sessions: shard.sessions,
        keys: shard.keys,
        bytes: shard.bytes,
        quarantined: report.quarantined.iter().map(|replica| replica.0).collect(),
        lagging: Vec::new(),
        load: None,
        told_by: shard.leader.map(id),
    }
}

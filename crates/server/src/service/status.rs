//! The node's status and the list of nodes: `/v1/status`, `/v1/nodes`.

use super::NodeApi;
use crate::cluster::{MemberInfo, MemberState};
use crate::config::Listen;
use crate::config::names::host_and_port;
use crate::runtime::request_rates::{self, ServedRates};
use crate::runtime::survey::{NodeHoldings, Survey};
use crate::runtime::{readiness, survey};
use api::{
    ClusterStatus, LogStatus, MemoryStatus, NodeAddresses, NodeState, NodeStatus, Nodes, Overview,
    Status, Surface,
};
use keyspace::Feature;

impl NodeApi {
    pub(super) fn show_status(&self) -> Status {
        let (now, routes) = (self.runtime.clock.now(), self.runtime.routing.routes());
        let log = self.runtime.log.facts();
        let not_ready = readiness::not_ready(&self.runtime);
        let counters = &self.runtime.counters;
        let survey = survey::survey(&self.runtime);
        let cluster_version = Some(self.show_version(&survey));
        let Survey { overview, health, shards, .. } = survey;
        Status {
            name: self.config.name.clone(),
            node_id: format!("{:016x}", self.runtime.identity.node.0),
            version: env!("CARGO_PKG_VERSION").into(),
            ready: not_ready.is_none(),
            not_ready,
            health,
            cluster: self.cluster_status(&overview),
            cluster_version,
            uptime_ms: self.runtime.clock.millis() - self.runtime.clock.started_millis(),
            listeners: self.facts.listeners.clone(),
            dir: self.config.dir.display().to_string(),
            threads: self.config.threads_count() as u64,
            connections: counters.connections.get(),
            keyspaces: routes.iter().count() as u64,
            shards: shards.len() as u64,
            keys: routes
                .iter()
                .map(|route| {
                    node::replica::scan::size(
                        route,
                        &node::replica::scan::ScanScope::unchecked(route, now),
                    )
                })
                .sum(),
            memory: MemoryStatus {
                used_bytes: self.runtime.memory.used_bytes(),
                old_versions_bytes: self.runtime.memory.old_bytes(),
                max_bytes: self.runtime.memory.bytes_max(),
            },
            log: LogStatus {
                bytes: log.bytes_on_disk,
                segments: log.segments,
                bytes_since_checkpoint: log.written_end.0 - counters.log_start.get(),
                checkpoint_at_ms: counters.checkpoint_millis.get(),
            },
            recovered: self.facts.recovered.clone(),
            warnings: self.warnings(),
            surfaces: self.surfaces(),
        }
    }

    /// What to know before relying on this node; of certificates, as it is now.
    fn warnings(&self) -> Vec<String> {
        let mut all = self.facts.warnings.clone();
        all.extend(self.facts.certificates.warnings());
        all
    }

    fn surfaces(&self) -> Vec<String> {
        let allows = |feature| self.runtime.peers.is_none() || self.runtime.version.allows(feature);
        let mut all = vec![Surface::Events, Surface::Keys, Surface::History];
        if allows(Feature::Events) && allows(Feature::Inquiries) {
            all.extend([Surface::Cluster, Surface::Prove]);
        }
        Surface::names(&all)
    }

    fn cluster_status(&self, overview: &Overview) -> ClusterStatus {
        ClusterStatus {
            id: format!("{:016x}", self.runtime.identity.cluster),
            members_up: overview.members_up,
            members_suspected: overview.members_suspected,
            members_down: overview.members_down,
            shards_led: overview.shards_led,
            shards_without_leader: overview.shards_without_leader,
            shards_under_replicated: overview.shards_under_replicated,
        }
    }

    pub(super) fn show_nodes(&self) -> Nodes {
        let survey = survey::survey(&self.runtime);
        let Survey { overview, members, .. } = &survey;
        let held = survey.holdings_by_node();
        let held = |node| held.get(&node).copied().unwrap_or_default();
        let nodes = match members.is_empty() {
            true => vec![self.alone(overview)],
            false => members.iter().map(|m| self.member(m, overview, held(m.node))).collect(),
        };
        let removed = self.runtime.admin_states.all();
        let removed = removed.removed().map(|node| format!("{:016x}", node.0)).collect();
        Nodes { health: survey.health, nodes, removed }
    }

    fn member(&self, member: &MemberInfo, overview: &Overview, held: NodeHoldings) -> NodeStatus {
        let this = member.node == self.runtime.identity.node;
        let state = match member.state {
            MemberState::Up if member.suspected => NodeState::Suspected,
            MemberState::Up => NodeState::Up,
            MemberState::Down => NodeState::Down,
            MemberState::Left => NodeState::Left,
        };
        let port = |port: Option<u16>| port.map(|port| host_and_port(&member.host, port));
        let linked = self
            .runtime
            .peers
            .as_ref()
            .is_some_and(|peers| peers.cluster.is_connected(member.node));
        let load = member.load;
        let (shards, leaders, data_bytes) = match this {
            true => (overview.shards, overview.shards_led, overview.data_bytes),
            false => (load.shards.into(), load.leaders.into(), load.data_bytes),
        };
        let served = if this {
            request_rates::served(&self.runtime)
        } else {
            let (led, follower_reads) = (load.requests.unwrap_or(0), load.follower_reads);
            ServedRates { led, follower_reads }
        };
        NodeStatus {
            id: format!("{:016x}", member.node.0),
            name: member.name.clone(),
            this,
            state,
            admin_state: self.runtime.admin_states.of(member.node).into(),
            since_at_ms: self.runtime.clock.millis() - member.since.elapsed().as_millis() as u64,
            linked: linked || this,
            addresses: NodeAddresses {
                peer: (!member.peer.is_empty()).then(|| member.peer.clone()),
                resp: port(member.resp),
                resp_replica: port(member.resp_replica),
                native: port(member.native),
                http: port(member.http),
                resp_tls: port(member.resp_tls),
                http_tls: port(member.http_tls),
            },
            domain: member.domain.clone(),
            version: member.software.clone(),
            replicas: held.replicas,
            leads: held.leads,
            shards,
            leaders,
            data_bytes,
            requests_per_second: served.sum(),
            follower_reads_per_second: served.follower_reads.into(),
            slow_disk: if this { self.runtime.disk_pace.is_slow() } else { load.is_slow },
            joined_at_ms: member.joined_at,
            drain_rate: self.runtime.drains.rate(member.node),
        }
    }

    /// A node without a peer listener is its whole cluster.
    fn alone(&self, overview: &Overview) -> NodeStatus {
        let shown = |listen: Listen| listen.address().map(|address| address.to_string());
        NodeStatus {
            id: format!("{:016x}", self.runtime.identity.node.0),
            name: self.config.name.clone(),
            this: true,
            state: NodeState::Up,
            admin_state: self.runtime.admin_states.of(self.runtime.identity.node).into(),
            since_at_ms: self.runtime.clock.started_millis(),
            linked: true,
            addresses: NodeAddresses {
                peer: None,
                resp: shown(self.config.resp),
                resp_replica: shown(self.config.resp_replica),
                native: shown(self.config.native),
                http: shown(self.config.http),
                resp_tls: shown(self.config.resp_tls),
                http_tls: shown(self.config.http_tls),
            },
            domain: self.config.domain.clone(),
            version: format!("carillon {}", env!("CARGO_PKG_VERSION")),
            replicas: overview.shards,
            leads: overview.shards_led,
            shards: overview.shards,
            leaders: overview.shards_led,
            data_bytes: overview.data_bytes,
            requests_per_second: request_rates::served(&self.runtime).sum(),
            follower_reads_per_second: 0,
            slow_disk: self.runtime.disk_pace.is_slow(),
            joined_at_ms: self.facts.joined_at_ms,
            drain_rate: None,
        }
    }
}

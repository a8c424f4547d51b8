//! What a session may ask of its server, and the register of all clients.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use command::TopicKind;
use keyspace::{Durability, Feature, Timestamp};
use parking_lot::Mutex;
use storage::engine::ExpiryUsage;

use super::monitors::Monitors;
use super::statistics::{CountersAtReset, Statistics};
use super::topology;
use super::unread::Unread;
use crate::config::Config;
use crate::password::{PasswordGate, Verdict};
use crate::runtime::NodeRuntime;
use crate::scripts::Draft;
use api::Overview;
use gateway::resp::{
    Authentication, ClientFacts, ClusterFacts, CommandCalls, Context, Facts, KeyspaceFacts,
    LiveSetting, Mode, Peer, ScriptFacts, SlowCommand, Topology,
};

/// All Redis clients of the process, for CLIENT LIST and KILL.
#[derive(Default)]
pub struct Clients {
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Client>>,
    /// Of these and of native ones.
    pub(super) unread: Unread,
    /// Of their commands.
    pub(super) statistics: Statistics,
    pub(super) monitors: Monitors,
}

struct Client {
    /// Which loop serves it, and its place there.
    place: (usize, usize),
    addr: String,
    laddr: String,
    /// As it last described itself.
    line: String,
}

impl Clients {
    /// A number never used before.
    pub fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn add(&self, id: u64, place: (usize, usize), peer: &Peer) {
        let (addr, laddr) = (peer.addr.clone(), peer.laddr.clone());
        let client = Client { place, addr, laddr, line: String::new() };
        self.all.lock().insert(id, client);
    }

    /// Which loop serves a client, and its place there; nothing if it is gone.
    pub(super) fn place(&self, id: u64) -> Option<(usize, usize)> {
        self.all.lock().get(&id).map(|client| client.place)
    }

    pub(super) fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
        self.monitors.forget(id);
    }

    pub(super) fn describe(&self, id: u64, line: String) {
        if let Some(client) = self.all.lock().get_mut(&id) {
            client.line = line;
        }
    }
}

/// Texts about the server that do not change while it runs.
#[derive(Debug)]
pub struct Texts {
    node_id: String,
    bind: String,
    dir: String,
}

impl Texts {
    /// Of this node.
    pub fn new(runtime: &NodeRuntime, config: &Config) -> Self {
        let bind = config.resp.address().map_or_else(String::new, |at| at.ip().to_string());
        Self {
            node_id: format!("{:040x}", runtime.identity.node.0),
            bind,
            dir: config.dir.to_string_lossy().into_owned(),
        }
    }
}

/// The server as one command of one connection sees it.
pub(crate) struct CommandContext<'a> {
    pub runtime: &'a NodeRuntime,
    pub config: &'a Config,
    /// In which mode the connection is answered.
    pub mode: Mode,
    /// Whether its client speaks TLS.
    pub is_tls: bool,
    /// Judges passwords, if clients must give one.
    pub gate: Option<&'a PasswordGate>,
    pub clients: &'a Clients,
    pub texts: &'a Texts,
    pub now: Timestamp,
    /// The connection that asks.
    pub id: u64,
    /// The functions as an EXEC sees them, if one runs it.
    pub draft: Option<&'a Draft>,
}

impl CommandContext<'_> {
    /// What the counters of INFO have, since the process started.
    fn counters(&self) -> CountersAtReset {
        let counters = &self.runtime.counters;
        CountersAtReset {
            connections_received: counters.connections_accepted.get(),
            connections_rejected: counters.connections_rejected.get(),
            clients_evicted: counters.connections_evicted.get(),
            commands: counters.commands.get(),
            input_bytes: counters.input_bytes.get(),
            output_bytes: counters.output_bytes.get(),
            hits: counters.hits.get(),
            misses: counters.misses.get(),
            expired_keys: self.expired_keys(),
            errors: counters.errors.get(),
        }
    }

    /// Expired keys whose memory is free again, and those that are still in memory.
    fn expired_keys(&self) -> u64 {
        let mut expired = self.runtime.counters.expired_keys.get();
        for route in self.runtime.routing.routes().iter() {
            for view in &route.views {
                if let Some(engine) = view.read().engine() {
                    expired += engine.expired_keys() + engine.expiry_usage(self.now).expired;
                }
            }
        }
        expired
    }

    fn script_facts(&self) -> ScriptFacts {
        let scripts = &self.runtime.scripts;
        let (cached, cached_bytes) = scripts.cache.size();
        let mut facts = ScriptFacts { cached: cached as u64, cached_bytes, ..Default::default() };
        for library in scripts.libraries.all().iter() {
            facts.libraries += 1;
            facts.functions += library.functions.len() as u64;
            facts.library_bytes += library.code.len() as u64;
        }
        facts
    }
}

impl Context for CommandContext<'_> {
    fn now_millis(&self) -> u64 {
        self.now.millis()
    }

    fn monitor(&self, is_on: bool) {
        self.clients.monitors.set(self.id, is_on);
    }

    fn keyspace_exists(&self, name: &[u8]) -> bool {
        std::str::from_utf8(name)
            .is_ok_and(|name| self.runtime.routing.routes().get(name).is_some())
    }

    fn knows_keyspaces(&self) -> bool {
        self.runtime.lifecycle.is_ready()
    }

    fn has_function(&self, name: &[u8]) -> bool {
        let scripts = &self.runtime.scripts;
        self.draft.unwrap_or(&Draft::default()).has_function(scripts, name)
    }

    fn may_limit_appends(&self) -> bool {
        self.runtime.version.allows(Feature::AppendLimits)
    }

    fn facts(&self) -> Facts<'_> {
        let log = self.runtime.log.facts();
        let counters = &self.runtime.counters;
        let routes = self.runtime.routing.routes();
        let durability =
            routes.get("0").map_or(Durability::Sync, |route| route.keyspace.options.durability);
        let process = crate::process::usage();
        let (now, reset) = (self.counters(), *self.clients.statistics.reset.lock());
        let tracking = self.runtime.tracking.facts();
        Facts {
            carillon_version: env!("CARGO_PKG_VERSION"),
            node_id: &self.texts.node_id,
            process_id: std::process::id(),
            port: self.config.resp.address().map_or(0, |a| a.port()),
            bind: &self.texts.bind,
            data_dir: &self.texts.dir,
            durability: match durability {
                Durability::Sync => "sync",
                Durability::Interval => "interval",
                Durability::Memory => "memory",
            },
            started_millis: self.runtime.clock.started_millis(),
            clients: counters.connections.get(),
            clients_blocked: counters.connections_blocked.get(),
            clients_evicted: now.clients_evicted - reset.clients_evicted,
            clients_max: self.config.connections_max,
            idle_timeout_secs: self.config.idle_timeout_ms / 1000,
            script_time_ms: self.config.script_time_ms,
            memory_used_bytes: self.runtime.memory.used_bytes(),
            memory_peak_bytes: counters.memory_peak_bytes.get(),
            memory_rss_bytes: process.rss_bytes,
            memory_max_bytes: self.runtime.memory.bytes_max(),
            scripts: self.script_facts(),
            connections_received: now.connections_received - reset.connections_received,
            connections_rejected: now.connections_rejected - reset.connections_rejected,
            commands_processed: now.commands - reset.commands,
            commands_per_second: counters.commands_per_second.get(),
            input_bytes: now.input_bytes - reset.input_bytes,
            output_bytes: now.output_bytes - reset.output_bytes,
            hits: now.hits - reset.hits,
            misses: now.misses - reset.misses,
            // Keys that move to another node are not counted here any more.
            expired_keys: now.expired_keys.saturating_sub(reset.expired_keys),
            error_replies: now.errors - reset.errors,
            cpu_system_micros: process.cpu_system_micros,
            cpu_user_micros: process.cpu_user_micros,
            channels: self.runtime.pubsub.own_len(TopicKind::Channel),
            patterns: self.runtime.pubsub.own_len(TopicKind::Pattern),
            shard_channels: self.runtime.pubsub.own_len(TopicKind::Shard),
            tracking_clients: tracking.clients,
            tracking_keys: tracking.keys as u64,
            tracking_items: tracking.items as u64,
            tracking_prefixes: tracking.prefixes as u64,
            log_bytes: log.bytes_on_disk,
            checkpoint_millis: counters.checkpoint_millis.get(),
            checkpoint_running: counters.checkpoint_running.get() > 0,
            checkpoint_failed: counters.checkpoint_failed.get() > 0,
            disk_full: log.full,
            cluster_id: self.runtime.identity.cluster,
            // As maintenance saw it: a loop waits for no executor but its own.
            cluster: facts_of(&self.runtime.overview.load()),
        }
    }

    fn authenticate(&self, address: &str, password: &[u8]) -> Authentication {
        let Some(gate) = self.gate else { return Authentication::NotNeeded };
        let address =
            address.parse().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |at: SocketAddr| at.ip());
        match gate.check(address, password, Instant::now()) {
            Verdict::Right => Authentication::Right,
            Verdict::Wrong => Authentication::Wrong,
            Verdict::Wait(wait) => Authentication::Wait(wait.as_secs() + 1),
        }
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn has_peers(&self) -> bool {
        self.runtime.peers.is_some()
    }

    fn topology(&self, keyspace: &str) -> Topology {
        topology::gather(self.runtime, self.config, keyspace, self.is_tls)
    }

    fn channels(&self, kind: TopicKind) -> Vec<Box<[u8]>> {
        match self.mode {
            Mode::Any => self.runtime.pubsub.names(kind),
            Mode::Cluster => self.runtime.pubsub.own_names(kind),
        }
    }

    fn subscribers(&self, kind: TopicKind, name: &[u8]) -> u64 {
        match self.mode {
            Mode::Any => self.runtime.pubsub.subscribers(kind, name),
            Mode::Cluster => self.runtime.pubsub.own_subscribers(kind, name),
        }
    }

    fn each_keyspace(&self, show: &mut dyn FnMut(KeyspaceFacts<'_>)) {
        for route in self.runtime.routing.routes().iter() {
            let (mut keys, mut expiring) = (0, ExpiryUsage::default());
            for view in &route.views {
                if let Some(engine) = view.read().engine() {
                    keys += engine.len(self.now);
                    expiring.add(engine.expiry_usage(self.now));
                }
            }
            show(KeyspaceFacts {
                name: &route.keyspace.name,
                keys,
                expires: expiring.keys,
                average_ttl_ms: expiring.average_ttl_ms(),
            });
        }
    }

    fn each_other_client(&self, show: &mut dyn FnMut(ClientFacts<'_>)) {
        for (id, client) in self.clients.all.lock().iter().filter(|(id, _)| **id != self.id) {
            let Client { addr, laddr, line, .. } = client;
            show(ClientFacts { id: *id, addr, laddr, line });
        }
    }

    fn slow_commands(&self) -> Vec<SlowCommand> {
        self.clients.statistics.slow_commands()
    }

    fn forget_slow_commands(&self) {
        self.clients.statistics.forget_slow_commands();
    }

    fn command_calls(&self) -> Vec<(&'static str, CommandCalls)> {
        self.clients.statistics.calls()
    }

    fn reset_statistics(&self) {
        *self.clients.statistics.reset.lock() = self.counters();
        self.clients.statistics.forget_calls();
    }

    fn live_setting(&self, setting: LiveSetting) -> i64 {
        match setting {
            LiveSetting::SlowMicros => self.clients.statistics.slow_micros(),
            LiveSetting::SlowCommandsMax => self.clients.statistics.slow_commands_max() as i64,
            LiveSetting::TrackedKeysMax => self.runtime.tracking.keys_max() as i64,
            LiveSetting::KeyEvents => self.runtime.pubsub.key_events(),
        }
    }

    fn set_live_setting(&self, setting: LiveSetting, value: i64) {
        match setting {
            LiveSetting::SlowMicros => self.clients.statistics.set_slow_micros(value),
            LiveSetting::SlowCommandsMax => {
                self.clients.statistics.set_slow_commands_max(value as usize);
            }
            LiveSetting::TrackedKeysMax => self.runtime.tracking.set_keys_max(value as usize),
            LiveSetting::KeyEvents => self.runtime.pubsub.set_key_events(value),
        }
    }
}

/// What INFO shows of the cluster.
fn facts_of(overview: &Overview) -> ClusterFacts {
    ClusterFacts {
        health: overview.verdict.word(),
        members_up: overview.members_up,
        members_down: overview.members_down,
        companions: overview.companions,
        shards: overview.shards,
        shards_led: overview.shards_led,
        shards_without_leader: overview.shards_without_leader,
        shards_under_replicated: overview.shards_under_replicated,
    }
}

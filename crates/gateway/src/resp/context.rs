//! What a gateway asks of the server around it.

use std::ops::RangeInclusive;

use command::TopicKind;

use super::stats::{CommandCalls, SlowCommand};
use super::topology::{Mode, Topology};

/// What comes of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// There is none.
    NotNeeded,
    /// It is the one.
    Right,
    /// It is not.
    Wrong,
    /// It was not looked at, after too many wrong ones: ask again after so many seconds.
    Wait(u64),
}

/// The server as a connection sees it, implemented by the event loop.
pub trait Context {
    /// Milliseconds since 1970, of the node's clock (SAFETY G12).
    fn now_millis(&self) -> u64;

    /// Judges the password that a client at an address has given.
    fn authenticate(&self, _address: &str, _password: &[u8]) -> Authentication {
        Authentication::NotNeeded
    }

    /// From now on the connection sees all commands, or does so no more.
    fn monitor(&self, _is_on: bool) {}

    /// Whether there is a keyspace of this name.
    fn keyspace_exists(&self, name: &[u8]) -> bool;

    /// Whether it is known which keyspaces there are: not while the node starts.
    fn knows_keyspaces(&self) -> bool {
        true
    }

    /// Facts for INFO, CONFIG GET, HELLO and CLUSTER MYID. Only these call it, so it may be slow.
    fn facts(&self) -> Facts<'_>;

    /// Which kind of Redis this is towards its clients.
    fn mode(&self) -> Mode {
        Mode::Any
    }

    /// Whether this is a node of several, or may become one.
    fn has_peers(&self) -> bool {
        false
    }

    /// Whether commands in the log may say how long their value may become: not while nodes of a
    /// version that cannot read it may be in the cluster.
    fn may_limit_appends(&self) -> bool {
        true
    }

    /// The topology for CLUSTER SLOTS and the like. Only these call it, so it may be slow.
    fn topology(&self, _keyspace: &str) -> Topology {
        Topology::default()
    }

    /// Channels, patterns or shard channels that have subscribers on any node, in some order; in
    /// mode `cluster` on this one, because clients ask all primaries and add.
    fn channels(&self, _kind: TopicKind) -> Vec<Box<[u8]>> {
        Vec::new()
    }

    /// How many subscribers one of these has, on the same nodes.
    fn subscribers(&self, _kind: TopicKind, _name: &[u8]) -> u64 {
        0
    }

    /// Whether a library that this node knows has a function of this name.
    fn has_function(&self, _name: &[u8]) -> bool {
        false
    }

    /// Shows each keyspace that has keys or a name of its own.
    fn each_keyspace(&self, show: &mut dyn FnMut(KeyspaceFacts<'_>));

    /// Shows each connection but the calling one; those of other threads as of their last update.
    fn each_other_client(&self, show: &mut dyn FnMut(ClientFacts<'_>));

    /// Commands that took long, the newest first.
    fn slow_commands(&self) -> Vec<SlowCommand> {
        Vec::new()
    }

    /// Forgets these.
    fn forget_slow_commands(&self) {}

    /// The calls of each command since the start or the last reset, by name.
    fn command_calls(&self) -> Vec<(&'static str, CommandCalls)> {
        Vec::new()
    }

    /// Has the counters of INFO begin at 0.
    fn reset_statistics(&self) {}

    /// What a setting is that changes while the node runs.
    fn live_setting(&self, setting: LiveSetting) -> i64 {
        setting.at_start()
    }

    /// Changes it. The value is in its range.
    fn set_live_setting(&self, _setting: LiveSetting, _value: i64) {}
}

/// A setting that CONFIG SET changes, for this node and until it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveSetting {
    /// A command that took at least so many microseconds is slow; none is if it is negative.
    SlowMicros,
    /// So many slow commands are remembered.
    SlowCommandsMax,
    /// So many keys clients of this node may cache and be told of, all together.
    TrackedKeysMax,
    /// Which keyspace notifications there are ([`super::KeyEventFlags`]).
    KeyEvents,
}

impl LiveSetting {
    /// What it may be.
    pub fn range(self) -> RangeInclusive<i64> {
        match self {
            LiveSetting::SlowMicros => -1..=i64::MAX,
            LiveSetting::SlowCommandsMax => 0..=65_536,
            LiveSetting::TrackedKeysMax => 1..=1_000_000_000,
            LiveSetting::KeyEvents => 0..=super::KeyEventFlags::MAX,
        }
    }

    /// What it is when nothing else is said.
    pub fn at_start(self) -> i64 {
        match self {
            LiveSetting::SlowMicros => 10_000,
            LiveSetting::SlowCommandsMax => 128,
            LiveSetting::TrackedKeysMax => 1_000_000,
            LiveSetting::KeyEvents => 0,
        }
    }
}

/// Scripts and functions that a node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFacts {
    /// Scripts known by their SHA1.
    pub cached: u64,
    /// Bytes of their sources.
    pub cached_bytes: u64,
    /// Libraries of functions.
    pub libraries: u64,
    /// Functions in them.
    pub functions: u64,
    /// Bytes of the libraries' code.
    pub library_bytes: u64,
}

/// Facts about the process. A fact that is not known stays at its default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Carillon's own version.
    pub carillon_version: &'a str,
    /// The node's id: 40 hexadecimal digits, as CLUSTER MYID gives it.
    pub node_id: &'a str,
    /// The process.
    pub process_id: u32,
    /// The port of this protocol.
    pub port: u16,
    /// The addresses listened on, with spaces between.
    pub bind: &'a str,
    /// Where the log lies.
    pub data_dir: &'a str,
    /// "sync", "interval" or "memory": the durability of keyspace "0".
    pub durability: &'a str,
    /// When the process started, milliseconds since 1970.
    pub started_millis: u64,
    /// Connections now.
    pub clients: u64,
    /// Of these, such that wait for replicas.
    pub clients_blocked: u64,
    /// Connections ever closed because unread replies took too much memory.
    pub clients_evicted: u64,
    /// Connections at most; 0 if there is no limit.
    pub clients_max: u64,
    /// Seconds after which an idle connection is closed; 0 for never.
    pub idle_timeout_secs: u64,
    /// Bytes of keys and values, with what keeps them.
    pub memory_used_bytes: u64,
    /// The most that they ever were, since the process started.
    pub memory_peak_bytes: u64,
    /// Bytes the process holds.
    pub memory_rss_bytes: u64,
    /// How long a script may run, in milliseconds.
    pub script_time_ms: u64,
    /// Above this, writes are refused; 0 if there is no limit.
    pub memory_max_bytes: u64,
    /// Scripts and functions that this node knows.
    pub scripts: ScriptFacts,
    /// Connections ever accepted.
    pub connections_received: u64,
    /// Connections refused for there were too many.
    pub connections_rejected: u64,
    /// Commands ever run.
    pub commands_processed: u64,
    /// Commands in the last second.
    pub commands_per_second: u64,
    /// Bytes ever received.
    pub input_bytes: u64,
    /// Bytes ever sent.
    pub output_bytes: u64,
    /// Reads that found a value.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
    /// Keys that ended by their expiry, since the process started.
    pub expired_keys: u64,
    /// Error replies sent.
    pub error_replies: u64,
    /// Microseconds of processor time in the kernel.
    pub cpu_system_micros: u64,
    /// Microseconds of processor time in the program.
    pub cpu_user_micros: u64,
    /// Channels that clients of this node subscribe to.
    pub channels: u64,
    /// Patterns that they subscribe to.
    pub patterns: u64,
    /// Shard channels that they subscribe to.
    pub shard_channels: u64,
    /// Clients that track.
    pub tracking_clients: u64,
    /// Keys that they hold.
    pub tracking_keys: u64,
    /// How many of them hold a key, summed over the keys.
    pub tracking_items: u64,
    /// Different prefixes that they track.
    pub tracking_prefixes: u64,
    /// Bytes of log on disk.
    pub log_bytes: u64,
    /// When the last checkpoint was finished, milliseconds since 1970; 0 if there was none.
    pub checkpoint_millis: u64,
    /// Whether a checkpoint is being written.
    pub checkpoint_running: bool,
    /// Whether the last checkpoint failed for want of room.
    pub checkpoint_failed: bool,
    /// Whether the log has no room on the disk.
    pub disk_full: bool,
    /// The cluster's id.
    pub cluster_id: u64,
    /// The cluster around it, as last looked at.
    pub cluster: ClusterFacts,
}

/// The cluster as this node sees it, for INFO.
#[derive(Clone, Copy, Debug)]
pub struct ClusterFacts {
    /// Its health, in one word.
    pub health: &'static str,
    /// Members that are up, this node among them.
    pub members_up: u64,
    /// Members that are down.
    pub members_down: u64,
    /// Other nodes that are up and hold a replica of a shard that is here too.
    pub companions: u64,
    /// Replicas here.
    pub shards: u64,
    /// Of these, leaders.
    pub shards_led: u64,
    /// Of these, replicas that know no leader, or lead without a quorum.
    pub shards_without_leader: u64,
    /// Of these, replicas of shards with fewer live voters than wanted.
    pub shards_under_replicated: u64,
}

impl Default for ClusterFacts {
    /// A node alone.
    fn default() -> Self {
        Self {
            health: "ok",
            members_up: 1,
            members_down: 0,
            companions: 0,
            shards: 0,
            shards_led: 0,
            shards_without_leader: 0,
            shards_under_replicated: 0,
        }
    }
}

/// A keyspace, for INFO.
#[derive(Clone, Copy, Debug)]
pub struct KeyspaceFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Keys in it.
    pub keys: u64,
    /// Keys that have an expiry.
    pub expires: u64,
    /// How long these live on, on average, in milliseconds.
    pub average_ttl_ms: u64,
}

/// Another connection, for CLIENT LIST and KILL.
#[derive(Clone, Copy, Debug)]
pub struct ClientFacts<'a> {
    /// Its id.
    pub id: u64,
    /// Its address and port.
    pub addr: &'a str,
    /// The address and port it came to.
    pub laddr: &'a str,
    /// What [`Session::describe`](super::Session::describe) says of it.
    pub line: &'a str,
}

//! The table of settings: each one's name, type, default, bounds and meaning, written once.
//!
//! The struct, the defaults, the parser, the flags of `carillon start --help` and the names to
//! suggest all come from here.

use std::num::NonZeroU64;
use std::path::PathBuf;

use balancer::Policy;

use super::kind::{
    Address, Bytes, Kind, Limit, Listen, Memory, MemoryMax, Millis, NbdTls, Number, OneOf, Path,
    Size, Switch, Text, Toml,
};
use super::names::{Advertise, Advertised, ListenerLookup, Lookup, OptionalPath, Replicas, Seeds};
use crate::logging::{Format, Level};
use api::Durability;
use gateway::resp::Mode;
use overlay::LookupChoice;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in TOML and in [`Config`]: `memory_max`.
    pub name: &'static str,
    /// Its default, as one would write it.
    pub default: &'static str,
    /// What it is for, a sentence or two.
    pub help: &'static str,
    /// How TOML may write it.
    pub toml: Toml,
    /// What it accepts, in words.
    pub accepts: fn() -> String,
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Setting {
    /// Its flag without the dashes: `memory-max`.
    pub fn flag(&self) -> String {
        flag(self.name)
    }

    /// Its environment variable: `CARILLON_MEMORY_MAX`.
    pub fn variable(&self) -> String {
        variable(self.name)
    }
}

/// Settings whose names have changed, old and new: an old name is refused with the new one.
pub const RENAMED: &[(&str, &str)] = &[
    ("check_interval_ms", "consistency_check_interval_ms"),
    ("level_max", "cluster_version_max"),
    ("move_rate", "snapshot_rate"),
];

/// The flag of a setting of this name, without the dashes.
pub(super) fn flag(name: &str) -> String {
    name.replace('_', "-")
}

/// The environment variable of a setting of this name.
pub(super) fn variable(name: &str) -> String {
    format!("{}{}", super::VARIABLE_PREFIX, name.to_ascii_uppercase())
}

macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        $name:ident: $type:ty = $default:literal, $kind:expr, $is:ty;
    )+) => {
        /// Everything a node is told before it starts.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $help])+ pub $name: $type,)+
            /// The socket of `carillon dev`, if that has started the node: no setting.
            pub dev_control: Option<PathBuf>,
        }

        impl Default for Config {
            fn default() -> Self {
                Self {
                    $($name: Kind::parse(&$kind, $default)
                        .expect("a default is within its bounds"),)+
                    dev_control: None,
                }
            }
        }

        /// All settings, in the order in which a person may want to read them.
        pub const SETTINGS: &[Setting] = &[$(
            Setting {
                name: stringify!($name),
                default: $default,
                help: concat!($($help),+),
                toml: <$is as Kind>::TOML,
                accepts: || Kind::accepts(&$kind),
                set: |config, text| {
                    config.$name = Kind::parse(&$kind, text)?;
                    Ok(())
                },
            },
        )+];
    };
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY_MS: u64 = 86_400_000;

settings! {
    /// Directory that holds the node's data. Made if it is not there; locked while the node runs.
    dir: PathBuf = "carillon-data", Path, Path;
    /// Name of the node, for people: in status, logs and metrics.
    name: String = "carillon", Text(64), Text;
    /// Where Redis clients connect (RESP2 and RESP3), or off.
    resp: Listen = "127.0.0.1:6379", Address, Address;
    /// What Redis clients find: any (a lone server, though every node answers for every key) or
    /// cluster (a Redis Cluster, for their cluster clients, which then ask who leads at once).
    resp_mode: Mode = "any", OneOf(RESP_MODES), OneOf<Mode>;
    /// Where Redis clients that ask for replicas connect, in mode cluster, or off. CLUSTER SLOTS
    /// and its like name it as a replica of what other nodes lead; it answers reads, and sends
    /// writes to who leads.
    resp_replica: Listen = "off", Address, Address;
    /// Where clients of the native frames connect, or off.
    native: Listen = "127.0.0.1:7400", Address, Address;
    /// Where clients of volumes connect, such as nbd-client and qemu, or off.
    nbd: Listen = "off", Address, Address;
    /// Whether clients of volumes may begin TLS (STARTTLS) on the listener nbd: off, on, or
    /// required: then nothing is served without.
    nbd_tls: NbdTls = "off", OneOf(NBD_TLS), OneOf<NbdTls>;
    /// Where HTTP and the command line connect, or off.
    http: Listen = "127.0.0.1:7480", Address, Address;
    /// Where Redis clients connect by TLS, or off.
    resp_tls: Listen = "off", Address, Address;
    /// Where clients of the native frames connect by TLS, or off.
    native_tls: Listen = "off", Address, Address;
    /// Where HTTP clients connect by TLS (https), or off.
    http_tls: Listen = "off", Address, Address;
    /// File with the node's certificate, then those that lead to its root, as PEM. When the files
    /// change they are read again, for new connections.
    tls_cert_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// File with the certificate's private key, as PEM.
    tls_key_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// File with the authorities that sign clients' certificates, as PEM. With it a client without
    /// such a certificate is refused.
    tls_client_ca_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// File with lists of revoked certificates, as PEM: clients that show one of these are refused.
    /// One list of each authority of tls_client_ca_file. When the file changes it is read again.
    tls_client_crl_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// File with the password that clients must give, its owner's alone to read: AUTH for Redis
    /// clients, Basic or Bearer for HTTP. Who has shown a certificate (tls_client_ca_file) needs
    /// none. A new one counts as soon as the file has it, for clients that come then.
    password_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// Where the other nodes of a cluster connect, or off: a node alone.
    peer: Listen = "off", Address, Address;
    /// Peer addresses of members of the cluster to join. On an empty directory the node waits until
    /// one of them answers, and never makes a cluster of its own; later they are only asked if
    /// nobody else is known.
    join: Vec<String> = "", Seeds, Seeds;
    /// Host under which other nodes and clients reach this node, and the port for other nodes, if
    /// not those of the peer listener.
    advertise: Option<Advertised> = "", Advertise, Advertise;
    /// Port under which other nodes and clients reach the listener of Redis clients, on the host of
    /// advertise, where that is not the port listened on: behind a mapping of ports. MOVED, CLUSTER
    /// SLOTS and their like name it; 0 = the port listened on.
    resp_advertise_port: u64 = "0", Number(0..=65_535), Number;
    /// The same for the listener of resp_replica.
    resp_replica_advertise_port: u64 = "0", Number(0..=65_535), Number;
    /// File with the secret that all nodes of a cluster share; needed with a
    /// peer listener, unless there are certificates (peer_tls_cert_file).
    peer_secret_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// File with the certificate that this node shows other nodes, then those that lead to its
    /// root, as PEM. With it, its key and peer_tls_ca_file all links between nodes are encrypted,
    /// and a peer_secret_file is not needed. The same on all nodes: with or without.
    peer_tls_cert_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// File with that certificate's private key, as PEM.
    peer_tls_key_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// File with the authorities that sign nodes' certificates, as PEM. A node whose certificate is
    /// signed by another is refused.
    peer_tls_ca_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// File with lists of revoked certificates, as PEM: nodes that show one of these are refused.
    /// One list of each authority of peer_tls_ca_file. When the file changes it is read again.
    peer_tls_crl_file: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// The DNS name that the certificate of each node bears, and no client's: who shows another is
    /// refused.
    peer_tls_name: String = "peer.carillon", Text(253), Text;
    /// What this node shares a fate with: a rack, a room. Replicas of a key avoid sharing one.
    domain: String = "", Text(128), Text;
    /// Replicas of the keyspaces that are made by this cluster, unless they say otherwise;
    /// auto = 3 with a peer listener, 1 without.
    replicas: Option<u8> = "auto", Replicas, Replicas;
    /// Allow listeners that other machines can reach, although nothing is encrypted there or
    /// clients need neither a password nor a certificate. All status pages say so.
    insecure: bool = "false", Switch, Switch;
    /// Event loops, each with its own thread; 0 = as many as there are cores, less one.
    threads: u64 = "0", Number(0..=1024), Number;
    /// Memory that data may take. A share is of the machine's memory, or of the cgroup's limit if
    /// that is lower. Beyond it writes fail with OOM; reads and deletes go on.
    memory_max: MemoryMax = "60%", Memory, Memory;
    /// Memory that old versions may take here because snapshots hold them. A share is counted as
    /// that of memory_max. Beyond it the oldest snapshot ends, and its reads fail.
    snapshot_bytes_max: MemoryMax = "15%", Memory, Memory;
    /// Longest key: less than 1 MiB.
    key_bytes_max: u64 = "64KiB", Size(1..=command::limits::KEY_BYTES_MAX), Size;
    /// Longest value, and what commands may make of one (APPEND, SETRANGE). The same on all nodes.
    value_bytes_max: u64 = "64MiB", Size(1..=512 * MIB), Size;
    /// Connections of Redis and native clients together; further ones get an error and are closed.
    connections_max: u64 = "20000", Number(1..=1_000_000), Number;
    /// Connections of HTTP clients; further ones wait to be accepted.
    http_connections_max: u64 = "1024", Number(1..=100_000), Number;
    /// Close a Redis or native connection that was silent for this long; 0 = never.
    idle_timeout_ms: u64 = "0", Millis(0..=365 * DAY_MS), Millis;
    /// Longest time from a request's last byte to its answer. A transaction over several shards
    /// whose outcome is still unknown then gets as long again.
    request_timeout_ms: u64 = "5s", Millis(100..=3_600_000), Millis;
    /// Longest time that a script runs, without waits for its keys. Beyond it is stopped, and
    /// nothing of it is done.
    script_time_ms: u64 = "5s", Millis(1..=3_600_000), Millis;
    /// Instructions of Lua that a script runs at most.
    script_instructions: u64 = "2000000000", Number(1_000..=1_000_000_000_000), Number;
    /// Memory that a script takes at most, for its variables.
    script_memory_bytes: u64 = "64MiB", Size(MIB..=16 * GIB), Size;
    /// Threads that run scripts; 0 = as many as there are cores, and five at least.
    script_threads: u64 = "0", Number(0..=1024), Number;
    /// Bytes of sources of scripts that are kept for EVALSHA, and 320 for each; beyond, those not
    /// used for longest are forgotten.
    script_cache_bytes: u64 = "16MiB", Size(64 * KIB..=16 * GIB), Size;
    /// Directory in which the node keeps its last events, so that streams of events, and carillon
    /// record, have them after a restart. Each node needs one of its own. Without it they are in
    /// memory only.
    record: Option<PathBuf> = "", OptionalPath, OptionalPath;
    /// Bytes of events that are kept there, and in memory; beyond, the oldest are forgotten.
    record_bytes_max: u64 = "16MiB", Size(MIB..=GIB), Size;
    /// How often leaders have the replicas of their shards compared in the background, so that one
    /// that holds something else than a majority is found and replaced; 0 = never.
    consistency_check_interval_ms: u64 = "10m", Millis(0..=365 * DAY_MS), Millis;
    /// Bytes of snapshots a second that this node sends: to new replicas, and to those that lag too
    /// far behind; or off: as fast as it can.
    snapshot_rate: Option<NonZeroU64> = "64MiB", Bytes(64 * KIB..=1024 * GIB, " a second"), Bytes;
    /// Bytes of live keys and values beyond which a shard is split; or off: never.
    split_bytes: Option<NonZeroU64> = "96MiB", Bytes(MIB..=1024 * GIB, ""), Bytes;
    /// Live keys beyond which a shard is split, so that a split takes little time; or off: however
    /// many.
    split_keys: Option<NonZeroU64> = "125000", Limit(1_000..=1_000_000_000, ""), Limit;
    /// Two neighbouring shards merge when together they hold fewer bytes of live keys and values
    /// than this, and fewer keys than an eighth of split_keys. Only a shard that was split off
    /// merges, with its left neighbour. No more than half of split_bytes counts; or off: never.
    merge_bytes: Option<NonZeroU64> = "16MiB", Bytes(64 * KIB..=1024 * GIB, ""), Bytes;
    /// Requests a second for its leader beyond which a shard is split, if a split divides them
    /// about evenly; or off: never.
    split_rate: Option<NonZeroU64> = "50000", Limit(100..=1_000_000_000, " a second"), Limit;
    /// How long a node may be down before its replicas are replaced on others, if there are any:
    /// as the leaders of its shards see it.
    dead_after_ms: u64 = "5m", Millis(1_000..=365 * DAY_MS), Millis;
    /// Balance the shards that this node leads over all nodes, new ones included. Off: replicas
    /// move only away from nodes that are dead, draining or removed.
    balance: bool = "true", Switch, Switch;
    /// Where replicas go: balanced (where most room is), successors (on the nodes that follow the
    /// shard on the ring, as in Chord) or symmetric (on nodes at equal distances around it, as in
    /// Scalaris). The same on all nodes, or shards move whenever their leader changes.
    placement: Policy = "balanced", OneOf(PLACEMENTS), OneOf<Policy>;
    /// How owners of keys are looked for, unless a listener or a request says otherwise: full (each
    /// node knows all shards), chord, chord-sharp, linear (around the ring) or lh (keyspaces of
    /// linear hashing); then perhaps iterative, recursive or semi-recursive, and noimages: what was
    /// found before is not used.
    lookup: LookupChoice = "full", Lookup, Lookup;
    /// The lookup for requests of Redis clients. Unless given: what the setting lookup says.
    resp_lookup: Option<LookupChoice> = "", ListenerLookup, ListenerLookup;
    /// The lookup for requests by HTTP. Unless given: what the setting lookup says.
    http_lookup: Option<LookupChoice> = "", ListenerLookup, ListenerLookup;
    /// Highest cluster version that this node supports: below the newest it behaves as the version
    /// before. To hold a node back, or to try a downgrade.
    cluster_version_max: u64 = "2", Number(VERSION_LOWEST..=VERSION_HIGHEST), Number;
    /// Whether the cluster version rises by itself once all nodes support the next one, if
    /// this node leads the catalogue then. Off, on all nodes: carillon upgrade raises it, and until
    /// then one can go back to the version before.
    auto_upgrade: bool = "true", Switch, Switch;
    /// How long all nodes must have been up and supported the next one before it is used.
    auto_upgrade_after_ms: u64 = "10m", Millis(0..=365 * DAY_MS), Millis;
    /// How far this node's clock may be from the median of its peers' before it goes by theirs,
    /// and says so.
    clock_offset_max_ms: u64 = "500", Millis(10..=3_600_000), Millis;
    /// Bytes of requests that one connection may hold before they are done.
    input_bytes_max: u64 = "256MiB", Size(64 * KIB..=16 * GIB), Size;
    /// Longest reply to one command; a longer one is replaced by an error. Whatever this says, a
    /// connection's further commands wait while it has left 1 MiB of replies unread.
    output_bytes_max: u64 = "128MiB", Size(64 * KIB..=16 * GIB), Size;
    /// Bytes of replies that all connections together may leave unread; beyond, those are closed
    /// that have left most. Never less than output_bytes_max.
    output_bytes_total_max: u64 = "1GiB", Size(64 * KIB..=1024 * GIB), Size;
    /// Keys that clients of this node may cache and be told of (CLIENT TRACKING), all together;
    /// beyond, clients are told to forget one that was read before.
    tracking_keys_max: u64 = "1000000", Number(1..=1_000_000_000), Number;
    /// Bytes of messages (PUBLISH) and replies that a subscriber may leave unread; beyond, or with
    /// a quarter of it unread for 60 s, its connection is closed, as Redis does with
    /// client-output-buffer-limit pubsub.
    pubsub_output_bytes_max: u64 = "32MiB", Size(64 * KIB..=16 * GIB), Size;
    /// Write the reason of a native error reply (GER, PER, DER) as its value. Off: the value is
    /// empty, as the original clients know it; then a missing key cannot be told from a failure.
    native_error_reason: bool = "false", Switch, Switch;
    /// Length at which a file of the log ends and the next begins.
    segment_bytes: u64 = "64MiB", Size(MIB..=4 * GIB), Size;
    /// Bytes of log since the last checkpoint that start the next one; or half of all keys, values
    /// and old versions, if that is more.
    checkpoint_log_bytes: u64 = "512MiB", Size(MIB..=1024 * GIB), Size;
    /// Time between two fsyncs for keyspaces of durability interval.
    interval_ms: u64 = "100", Millis(1..=60_000), Millis;
    /// Durability of new keyspaces unless they say otherwise: sync (fsync before the answer),
    /// interval (fsync every interval_ms) or memory (written, not fsynced).
    durability: Durability = "sync", OneOf(DURABILITIES), OneOf<Durability>;
    /// How long new keyspaces keep replaced versions readable, unless they say otherwise.
    retention_ms: u64 = "60s", Millis(0..=keyspace::catalogue::RETENTION_MS_MAX), Millis;
    /// How long a stopping node waits for requests under way.
    shutdown_timeout_ms: u64 = "10s", Millis(0..=600_000), Millis;
    /// What is logged: error, warn, info, debug or trace and everything before it.
    log_level: Level = "info", OneOf(LEVELS), OneOf<Level>;
    /// How it is logged: text for people, json for machines.
    log_format: Format = "text", OneOf(FORMATS), OneOf<Format>;
}

const VERSION_LOWEST: u64 = keyspace::VersionRange::OURS.lowest().number() as u64;
const VERSION_HIGHEST: u64 = keyspace::VersionRange::OURS.highest().number() as u64;

const DURABILITIES: &[(&str, Durability)] = &[
    ("sync", Durability::Sync),
    ("interval", Durability::Interval),
    ("memory", Durability::Memory),
];

const NBD_TLS: &[(&str, NbdTls)] =
    &[("off", NbdTls::Off), ("on", NbdTls::On), ("required", NbdTls::Required)];

const RESP_MODES: &[(&str, Mode)] = &[("any", Mode::Any), ("cluster", Mode::Cluster)];

const PLACEMENTS: &[(&str, Policy)] = &[
    ("balanced", Policy::Balanced),
    ("successors", Policy::Successors),
    ("symmetric", Policy::Symmetric),
];

const LEVELS: &[(&str, Level)] = &[
    ("error", Level::Error),
    ("warn", Level::Warn),
    ("info", Level::Info),
    ("debug", Level::Debug),
    ("trace", Level::Trace),
];

const FORMATS: &[(&str, Format)] = &[("text", Format::Text), ("json", Format::Json)];

//! The options of a run: everything that decides what happens in it.

use std::fmt;
use std::str::FromStr;

use storage::engine::PieceLimits;

use crate::machine::Limits;
use crate::named::{NoSuchName, named};
use crate::rng::Rng;

/// Steps of the safety phase, by default.
pub const STEPS_DEFAULT: u32 = 2_000;
/// Virtual clients, by default.
pub const CLIENTS_DEFAULT: u8 = 8;

named! {
    #[what = "bug"]
    /// A fault that is planted to see whether the checkers find it
    /// (docs/safety.md#planted-faults). All but [`Bug::ForgottenShard`] are planted in the
    /// simulator's driver: cores have no switch for them. What it plants in a core, no other driver
    /// may (`crates/node/tests/layers.rs`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Bug {
        /// INCR and APPEND are evaluated when they are proposed, and the result is logged (G3).
        EvaluateBeforeLog = "evaluate-before-log",
        /// Writes to `sync` keyspaces are answered when they are written, not when they are
        /// durable.
        UnsyncedAck = "unsynced-ack",
        /// Reads at a timestamp do not look at the safe point (G14).
        CollectedRead = "collected-read",
        /// A read says that a value has expired without a logged horizon (G2, G13).
        NoHorizon = "no-horizon",
        /// A checkpoint ends before its last block (G16).
        ShortCheckpoint = "short-checkpoint",
        /// A round of checkpoints forgets a shard, and cuts the log as if it had not (G16).
        ForgottenShard = "forgotten-shard",
    }
}

named! {
    #[what = "kind of faults"]
    /// A kind of fault that a run may hold.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fault {
        /// The process is killed; written bytes survive.
        Kill = "kill",
        /// The power goes, also in the middle of a write, a start or a checkpoint.
        Power = "power",
        /// A sync fails.
        SyncFails = "sync-fails",
        /// A write fails half way.
        WriteFails = "write-fails",
        /// The disk is full for a while.
        Full = "full",
        /// The wall clock has moved when the node starts again; the node sleeps for seconds.
        Clock = "clock",
        /// Keyspaces come, change and go.
        Catalogue = "catalogue",
        /// Checkpoints are written and the log is cut.
        Checkpoints = "checkpoints",
        /// Safe points rise and old versions are collected.
        Collection = "collection",
        /// Of clusters: a process stands still.
        Pause = "pause",
        /// Of clusters: nodes do not hear each other, or only one of two.
        Cut = "cut",
        /// Of clusters: packets are lost, come twice, or late.
        Loss = "loss",
        /// Of clusters: a link is lost with its packets, and comes back.
        Link = "link",
        /// Of clusters: leader transfers.
        Transfer = "transfer",
        /// Of clusters: syncs that take long.
        SlowSync = "slow-sync",
        /// Of clusters: a disk loses the end of the log, synced or not.
        Tail = "tail",
        /// Of clusters: replicas are exchanged for others on other nodes.
        Move = "move",
        /// Of clusters: shards are split.
        Split = "split",
        /// Of clusters: nodes come back as other versions.
        Upgrade = "upgrade",
        /// Of clusters: somebody on the network alters messages, and forges handshakes.
        Tamper = "tamper",
    }
}

impl Fault {
    /// Those that mean nothing to a node alone.
    pub const OF_CLUSTERS: [Self; 11] = [
        Self::Pause,
        Self::Cut,
        Self::Loss,
        Self::Link,
        Self::Transfer,
        Self::SlowSync,
        Self::Tail,
        Self::Move,
        Self::Split,
        Self::Upgrade,
        Self::Tamper,
    ];
}

/// The kinds of faults that a run may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults(u32);

impl Faults {
    /// All.
    pub const ALL: Self = Self((1 << Fault::ALL.len()) - 1);
    /// None.
    pub const NONE: Self = Self(0);

    /// Whether this kind is among them.
    pub fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u32) != 0
    }

    /// Without this kind.
    #[must_use]
    pub fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u32))
    }

    /// With this kind.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u32)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("all"),
            Self::NONE => f.write_str("none"),
            faults => {
                let names = Fault::ALL.into_iter().filter(|fault| faults.has(*fault));
                let names: Vec<&str> = names.map(Fault::name).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl FromStr for Faults {
    type Err = NoSuchName;

    fn from_str(text: &str) -> Result<Self, NoSuchName> {
        match text {
            "all" => return Ok(Self::ALL),
            "none" => return Ok(Self::NONE),
            _ => {}
        }
        text.split(',').try_fold(Self::NONE, |faults, name| Ok(faults.with(name.parse()?)))
    }
}

/// The options of a run. Two runs with equal options are equal, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Decides everything that the other options leave open.
    pub seed: u64,
    /// Steps of the safety phase.
    pub steps: u32,
    /// Virtual clients.
    pub clients: u8,
    /// Kinds of faults.
    pub faults: Faults,
    /// The planted bug.
    pub bug: Option<Bug>,
    /// Whether the report holds the text of the trace.
    pub verbose: bool,
}

impl Options {
    /// A run of this seed with everything that there is.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            steps: STEPS_DEFAULT,
            clients: CLIENTS_DEFAULT,
            faults: Faults::ALL,
            bug: None,
            verbose: false,
        }
    }

    /// The command that runs this again.
    pub fn command(&self) -> String {
        let Self { seed, steps, clients, faults, bug, .. } = self;
        let mut out = format!("carillon sim --seed {seed}");
        if *steps != STEPS_DEFAULT {
            out += &format!(" --steps {steps}");
        }
        if *clients != CLIENTS_DEFAULT {
            out += &format!(" --clients {clients}");
        }
        if *faults != Faults::ALL {
            out += &format!(" --faults {faults}");
        }
        if let Some(bug) = bug {
            out += &format!(" --bug {}", bug.name());
        }
        out
    }
}

/// What the seed chooses for the whole run: each seed stresses something else.
#[derive(Clone, Copy, Debug)]
pub struct RunProfile {
    /// Executors of the node.
    pub executors: usize,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
    /// Keys in each keyspace.
    pub keys: u64,
    /// Keys that share a hash tag, and so a slot.
    pub tagged: u64,
    /// How many of 100 commands write several keys of one tag, about.
    pub joint_writes: u64,
    /// Bytes that data may take in memory.
    pub memory_bytes_max: u64,
    /// Commands a client may have unanswered.
    pub depth: u64,
    /// Steps between two crashes, on average.
    pub crash_every: u64,
    /// How slow syncs are: the weight of ending one is 24 over this.
    pub sync_slowness: u64,
    /// Retention of old versions, in milliseconds.
    pub retention_ms: u64,
    /// How long values with an expiry live at most, in milliseconds.
    pub ttl_ms_max: u64,
    /// How many of 100 commands read at a past time, about. Each has a horizon logged.
    pub past_reads: u64,
    /// The longest usual step of the clock, in milliseconds.
    pub tick_ms_max: u64,
    /// Limits of the node's cores.
    pub limits: Limits,
    /// Keys that RANGE and KEYS look at under one hold of a guard.
    pub piece_keys: usize,
}

impl RunProfile {
    /// As the seed has it.
    pub fn draw(rng: &mut Rng) -> Self {
        Self {
            executors: rng.between(1, 3) as usize,
            segment_bytes: *rng.pick(&[16 << 10, 32 << 10, 64 << 10, 256 << 10]),
            keys: *rng.pick(&[2, 3, 4, 5, 6, 16]),
            tagged: *rng.pick(&[1, 2, 3, 6]),
            joint_writes: *rng.pick(&[0, 3, 12]),
            memory_bytes_max: *rng.pick(&[u64::MAX, u64::MAX, 40_000, 10_000]),
            depth: rng.between(1, 3),
            crash_every: *rng.pick(&[120, 250, 500, 1000]),
            sync_slowness: *rng.pick(&[1, 2, 6, 12]),
            retention_ms: *rng.pick(&[50, 400, 3_000]),
            ttl_ms_max: *rng.pick(&[30, 200, 1_500]),
            past_reads: *rng.pick(&[0, 4, 16]),
            tick_ms_max: *rng.pick(&[3, 20, 100]),
            limits: Limits {
                block: PieceLimits {
                    examined_max: *rng.pick(&[1, 2, 4, 64]),
                    bytes_max: *rng.pick(&[1, 200, 4_000, 256 << 10]),
                },
                flush_in_place_keys_max: *rng.pick(&[0, 1, 3, 1024]),
                round_bytes_max: *rng.pick(&[100, 300, 4_000, 256 << 20]),
            },
            piece_keys: *rng.pick(&[1, 3, 4096]),
        }
    }
}

impl fmt::Display for RunProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executors, segment_bytes, keys, depth, crash_every, .. } = self;
        let Self { sync_slowness, retention_ms, ttl_ms_max, .. } = self;
        let Self { past_reads, tick_ms_max, limits, piece_keys, .. } = self;
        let Self { tagged, joint_writes, memory_bytes_max, .. } = self;
        let Limits { block, flush_in_place_keys_max, round_bytes_max } = limits;
        let PieceLimits { examined_max, bytes_max } = block;
        write!(
            f,
            "{executors} executors, segments of {segment_bytes} bytes, {keys} keys a keyspace, \
             {tagged} a tag, {joint_writes} % of several, memory of {memory_bytes_max} bytes, \
             {depth} deep, crash every {crash_every}, sync slowness {sync_slowness}, \
             retention {retention_ms} ms, \
             ttl ≤ {ttl_ms_max} ms, {past_reads} % in the past, tick ≤ {tick_ms_max} ms, \
             blocks of {examined_max} keys and {bytes_max} bytes, \
             {flush_in_place_keys_max} keys flushed in place, turns of {round_bytes_max} bytes, \
             pieces of {piece_keys} keys"
        )
    }
}

//! One slot for a node of a cluster.

use keyspace::{NodeId, VersionRange};
use storage::faulty::FaultyDisk;
use storage::log::Lsn;

use super::disks;
use super::options::RunProfile;
use crate::machine::Machine;
use crate::rng::Rng;

/// One place for a node: its disk stays, its process comes and goes.
pub(crate) struct NodeSlot {
    pub node: NodeId,
    pub disk: FaultyDisk,
    pub machine: Option<Machine>,
    /// When it does the next thing: later while paused, or down.
    pub awake_at: u64,
    pub next_tick: u64,
    pub sync_ends_at: u64,
    /// Its boot clock runs by this rate, in millionths, and began so long before the run.
    pub rate_ppm: u64,
    pub boot_offset: u64,
    pub wall_offset: i64,
    pub started_at: u64,
    /// What its disk is about to do.
    pub armed: Option<disks::PendingDiskFault>,
    /// Each sync takes so long at least, in milliseconds.
    pub sync_ms_min: u64,
    /// Whether its disk is full.
    pub full: bool,
    /// No round of checkpoints begins or goes on before this time: the last one had no room.
    pub round_at: u64,
    /// Planted: time that its boot clock did not count.
    pub slept_nanos: u64,
    /// Planted: time that its boot clock counts twice, and when it begins to.
    pub burst: Option<(u64, u64)>,
    /// Whether its disk has lost synced writes at least once.
    pub has_lost: bool,
    /// … and it has not started since.
    pub has_just_lost: bool,
    /// It is out of the cluster, for good.
    pub has_left: bool,
    /// What its program supports, where versions are mixed.
    pub supported: VersionRange,
    /// How often its shards' members had changed, and the end of its log some time after that.
    pub members_end: (u64, Lsn),
}

impl NodeSlot {
    pub(super) fn new(rng: &mut Rng, profile: &RunProfile, drift_ppm: u64) -> Self {
        Self {
            node: NodeId(0),
            disk: FaultyDisk::new(rng.bits()),
            machine: None,
            awake_at: 0,
            next_tick: 0,
            sync_ends_at: 0,
            rate_ppm: rng.between(1_000_000 - drift_ppm, 1_000_000 + drift_ppm),
            boot_offset: rng.below(1 << 40),
            wall_offset: rng.between(0, 2 * profile.offset_ms_max) as i64
                - profile.offset_ms_max as i64,
            started_at: 0,
            armed: None,
            sync_ms_min: 0,
            full: false,
            round_at: 0,
            slept_nanos: 0,
            burst: None,
            has_lost: false,
            has_just_lost: false,
            has_left: false,
            supported: VersionRange::BEFORE,
            members_end: (0, Lsn::NEW),
        }
    }

    /// Bytes of all files on its disk.
    pub fn used_bytes(&self) -> u64 {
        let disk = self.disk.handle();
        let names = disk.list().unwrap_or_default();
        let bytes = |name: &String| disk.open(name).and_then(|file| file.len()).unwrap_or_default();
        names.iter().map(bytes).sum()
    }

    /// Its boot clock.
    pub fn boot(&self, now_ms: u64) -> u64 {
        self.boot_offset + now_ms * self.rate_ppm - self.slept_nanos
    }
}

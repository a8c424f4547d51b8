//! From a directory to a runtime whose shards serve.

mod build;
mod replay;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use keyspace::{NodeId, ShardId, Timestamp, UnsupportedVersion, VersionRange};
use node::recovery::RecoverError;
use node::replica::state::Content;
use storage::addresses::{self, NodeAddress};
use storage::checkpoint;
use storage::disk::Disk;
use storage::log::Lsn;
use storage::manifest::{self, Manifest, Origin};

use super::mailbox::Mailbox;
use super::{NodeRuntime, wall_millis};
use crate::cluster::{Identity, MembershipDriver};
use crate::config::Config;
use crate::directory::Directory;
use crate::peer;
use build::build;
pub(crate) use replay::{Replay, replay, replay_checkpoints};

/// Why a directory cannot be opened. Nothing in it was changed, but for a torn tail that was cut.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be used.
    #[error("cannot use the data directory {dir}: {source}")]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error(
        "the data directory {dir} is in use by another process; stop that one, or choose another \
         directory with --dir"
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// What lies in it cannot be read.
    #[error("{dir}: {source}")]
    Recover {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: RecoverError,
    },
    /// The cluster version is none that this program supports.
    #[error("{dir}: {source}")]
    UnsupportedVersion {
        /// The directory.
        dir: PathBuf,
        /// Which.
        source: UnsupportedVersion,
    },
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct RecoveredData {
    /// In words, for people.
    pub text: String,
    /// Bytes of a torn tail that were cut.
    pub cut_bytes: u64,
}

/// An opened directory.
pub struct OpenedNode {
    /// The node.
    pub runtime: Arc<NodeRuntime>,
    /// Its directory.
    pub disk: Arc<dyn Disk>,
    /// What the directory held.
    pub found: RecoveredData,
    /// The manifest as it is on disk.
    pub manifest: Manifest,
}

/// A locked directory, and the identity of its node.
pub struct LockedDirectory {
    disk: Arc<dyn Disk>,
    /// None if the directory is empty.
    pub manifest: Option<Manifest>,
    is_new: bool,
}

/// Locks the node's directory and reads its manifest.
///
/// # Errors
/// [`OpenError`].
pub fn hold(config: &Config) -> Result<LockedDirectory, OpenError> {
    let dir = config.dir.clone();
    let disk: Arc<dyn Disk> =
        Arc::new(Directory::open(&dir).map_err(|source| match source.kind() {
            std::io::ErrorKind::WouldBlock => OpenError::InUse { dir: dir.clone() },
            _ => OpenError::Directory { dir: dir.clone(), source },
        })?);
    let loaded = manifest::load(&*disk);
    let manifest = loaded.map_err(|e| OpenError::Recover { dir, source: e.into() })?;
    Ok(LockedDirectory { disk, manifest, is_new: false })
}

impl LockedDirectory {
    /// The manifest; in an empty directory a first one is stored, of a node that has joined a
    /// cluster, or with no `joined` of one that founds its own.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn load_or_begin(
        &mut self,
        config: &Config,
        joined: Option<&Identity>,
    ) -> Result<&Manifest, OpenError> {
        if self.manifest.is_none() {
            self.is_new = true;
            self.manifest = Some(begin(&*self.disk, &config.dir, joined)?);
        }
        Ok(self.manifest.as_ref().expect("there now"))
    }
}

impl LockedDirectory {
    /// The directory.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Where the other members of its cluster were last. A file that is damaged or cannot be read
    /// is passed over: gossip writes a new one.
    pub fn addresses(&self) -> Vec<NodeAddress> {
        let Some(manifest) = &self.manifest else { return Vec::new() };
        match addresses::load(&*self.disk, manifest.cluster) {
            Ok(addresses) => addresses,
            Err(error) => {
                tracing::warn!(
                    "cannot read the addresses of the other members: {error}. No other data is \
                     affected. The node writes the file anew as soon as it reaches a member: if it \
                     reaches none, name one with --join"
                );
                Vec::new()
            }
        }
    }
}

/// Recovers the shards of a directory whose manifest is there.
///
/// # Errors
/// [`OpenError`].
pub fn open(
    config: &Config,
    held: LockedDirectory,
    mailboxes: Vec<Mailbox>,
    cluster: Option<Arc<MembershipDriver>>,
) -> Result<OpenedNode, OpenError> {
    let LockedDirectory { disk, manifest, is_new } = held;
    let mut manifest = manifest.expect("a directory is opened when it has its manifest");
    let dir = config.dir.clone();
    let recover = |source| OpenError::Recover { dir: dir.clone(), source };
    let begun = Instant::now();
    // A rename whose directory was not synced may be known to memory only: say it again before
    // anything that an older manifest would need is removed.
    match manifest::store(&*disk, &manifest) {
        Ok(()) => manifest::remove_unlisted(&*disk, &manifest).map_err(|e| recover(e.into()))?,
        // A node starts on a full disk as well: its reads go on.
        Err(storage::Error::Full { .. }) => {}
        Err(error) => return Err(recover(error.into())),
    }
    checkpoint::remove_temporaries(&*disk).map_err(|e| recover(e.into()))?;
    let replay = replay(&disk, &manifest, config.segment_bytes).map_err(recover)?;
    if let Some(source) = unsupported_version(&replay, config.supported_versions()) {
        return Err(OpenError::UnsupportedVersion { dir, source });
    }
    if manifest.log_start == Lsn::NEW {
        manifest.log_start = replay.log.written_end();
        manifest::store(&*disk, &manifest).map_err(|e| recover(e.into()))?;
    }

    let keys: u64 = replay
        .replayed
        .shards
        .values()
        .filter_map(|s| s.state().engine())
        .map(|e| e.len(Timestamp::ZERO))
        .sum();
    let text = match (is_new, manifest.origin) {
        (true, Origin::Founder) => "a new cluster".to_owned(),
        (true, Origin::Joined) => format!("joined cluster {:016x}", manifest.cluster),
        (false, _) => format!(
            "{keys} keys, {} log records, in {:.1} s",
            replay.records,
            begun.elapsed().as_secs_f64()
        ),
    };
    let found = RecoveredData { text, cut_bytes: replay.cut_bytes };
    let seed = peer::draw().map(u64::from_le_bytes);
    let seed = seed.map_err(|source| OpenError::Directory { dir: dir.clone(), source })?;
    let runtime = build(config, &manifest, replay, mailboxes, cluster, seed);
    runtime.log.mark().map_err(|e| recover(e.into()))?;
    Ok(OpenedNode { runtime, disk, found, manifest })
}

/// Whether the catalogue that was read has a cluster version that is not among `supported`.
fn unsupported_version(replay: &Replay, supported: VersionRange) -> Option<UnsupportedVersion> {
    match &replay.replayed.shards.get(&ShardId(0))?.state().content {
        Content::System(system) => {
            UnsupportedVersion::of(system.catalogue.cluster_version(), supported)
        }
        Content::Keys(_) => None,
    }
}

fn begin(disk: &dyn Disk, dir: &Path, joined: Option<&Identity>) -> Result<Manifest, OpenError> {
    let mut random = [0u8; 40];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .map_err(|source| OpenError::Directory { dir: dir.to_owned(), source })?;
    let word = |at: usize| u64::from_le_bytes(random[at..at + 8].try_into().expect("8 bytes"));
    let founder = Identity {
        node: NodeId(word(8)),
        cluster: peer::Cluster {
            id: word(0),
            hash_seed: random[16..32].try_into().expect("16 bytes"),
        },
        joined_at: wall_millis(),
    };
    let Identity { node, cluster, joined_at } = *joined.unwrap_or(&founder);
    let manifest = Manifest {
        cluster: cluster.id,
        node,
        hash_seed: cluster.hash_seed,
        log_salt: word(32),
        origin: if joined.is_some() { Origin::Joined } else { Origin::Founder },
        joined_at,
        log_start: Lsn::NEW,
        checkpoints: Vec::new(),
    };
    manifest::store(disk, &manifest)
        .map_err(|e| OpenError::Recover { dir: dir.to_owned(), source: e.into() })?;
    Ok(manifest)
}

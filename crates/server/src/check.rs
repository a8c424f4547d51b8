//! Checks that a data directory is readable, without starting a node on it.
//!
//! Reads the manifest, every checkpoint it names and the whole log, and verifies every checksum,
//! exactly as a start would, over a read-only medium. It compares the end of the log with what
//! checkpoints say of it. It does not apply records: only a start shows that shards accept them.

use std::fs::{self, File as OsFile};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyspace::KeyHasher;
use node::recovery::{LogEvidence, RecoverError, RecoveringReplica};
use storage::addresses;
use storage::checkpoint::CheckpointReader;
use storage::disk::{Disk, File};
use storage::log::{Log, LogOptions, Lsn};
use storage::manifest;

/// What was found in a healthy directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The cluster its node belongs to.
    pub cluster: u64,
    /// The node.
    pub node: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes of data in them.
    pub checkpoint_bytes: u64,
    /// Records in the log.
    pub log_records: u64,
    /// Where the log ends.
    pub log_end: u64,
    /// Bytes behind that end that a start would cut. No later record shows that they were durable.
    /// A crash leaves such bytes; damage to the last synced records looks the same.
    pub torn_bytes: u64,
    /// Why the addresses of other members cannot be read: a start goes on without.
    pub addresses_error: Option<String>,
}

/// Why a directory is not healthy, or could not be looked at. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The directory cannot be read.
    #[error("cannot read {dir}: {source}")]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A node runs on it, and changes what would be read.
    #[error("{dir} is in use by a running node; stop it first")]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// There is nothing of a node in it.
    #[error("{dir} holds no node's data")]
    Empty {
        /// The directory.
        dir: PathBuf,
    },
    /// Something in it is damaged.
    #[error("{0}")]
    Damaged(#[from] storage::Error),
    /// The log lacks records that a checkpoint says were in it.
    #[error("{dir}: {source}")]
    Contradiction {
        /// The directory.
        dir: PathBuf,
        /// What it lacks.
        source: RecoverError,
    },
}

/// Reads and verifies everything in `dir`.
///
/// # Errors
/// The first damage found, with file, offset and remedy; or why the directory cannot be read.
pub fn check(dir: &Path) -> Result<CheckReport, CheckError> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnly::open(dir)?);
    let Some(manifest) = manifest::load(&*disk)? else {
        return Err(CheckError::Empty { dir: dir.to_owned() });
    };
    let mut found =
        CheckReport { cluster: manifest.cluster, node: manifest.node.0, ..CheckReport::default() };
    let contradiction = |source| CheckError::Contradiction { dir: dir.to_owned(), source };
    let mut evidence = LogEvidence::default();
    let mut buffer = Vec::new();
    for checkpoint in &manifest.checkpoints {
        let mut reader = CheckpointReader::open(&*disk, manifest.cluster, &checkpoint.name())?;
        let hasher = KeyHasher::new(manifest.hash_seed);
        // One that makes no sense to its shard says nothing about the log: a start refuses it.
        if let Ok(shard) =
            RecoveringReplica::from_checkpoint(checkpoint.shard, reader.meta(), hasher)
        {
            evidence.checkpoint(&shard);
        }
        while let Some(block) = reader.next_block(&mut buffer)? {
            found.checkpoint_bytes += block.len() as u64;
        }
        found.checkpoints += 1;
    }
    match addresses::load(&*disk, manifest.cluster) {
        Ok(_) => {}
        Err(error @ storage::Error::Io { .. }) => return Err(error.into()),
        Err(error) => found.addresses_error = Some(error.to_string()),
    }
    // A node that was stopped between its first manifest and its log has none yet.
    let has_log = disk.list().map_err(|source| directory(dir, source))?;
    if manifest.log_start == Lsn::NEW && !has_log.iter().any(|name| name.ends_with(".seg")) {
        return Ok(found);
    }
    let options = LogOptions {
        cluster: manifest.cluster,
        salt: manifest.log_salt,
        segment_bytes: LogOptions::SEGMENT_BYTES_DEFAULT,
    };
    let mut visit = |_: Lsn, record: storage::log::Record<'_>| {
        evidence.record(&record);
        Ok::<(), CheckError>(())
    };
    let (_, log) = Log::open(disk, options, manifest.log_start, &mut visit)?;
    evidence.finish().map_err(contradiction)?;
    found.log_records = log.records;
    found.log_end = log.end.0;
    found.torn_bytes = log.cut_bytes;
    Ok(found)
}

/// What is known of bytes that were, or would be, cut at the end of the log, in words.
pub fn torn(bytes: u64) -> String {
    format!(
        "{bytes} bytes at the end of the log that no later record calls durable: a crash leaves \
         such bytes of writes that were not acknowledged; damage to what was synced last looks the \
         same (docs/format.md, 2.5)"
    )
}

fn directory(dir: &Path, source: io::Error) -> CheckError {
    CheckError::Directory { dir: dir.to_owned(), source }
}

/// A read-only medium over a directory: it accepts changes and drops them. Opening a log changes
/// only bytes that it does not read again, so the result is the same.
pub(crate) struct ReadOnly {
    path: PathBuf,
    _lock: Option<OsFile>,
}

impl ReadOnly {
    /// Locks it, together with others who only read.
    pub(crate) fn open(dir: &Path) -> Result<Self, CheckError> {
        fs::read_dir(dir).map_err(|source| directory(dir, source))?;
        let lock = match OsFile::open(dir.join("LOCK")) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(directory(dir, source)),
        };
        if let Some(lock) = &lock {
            // SAFETY: flock takes an open descriptor and no memory.
            let refused =
                unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) } != 0;
            if refused {
                return Err(CheckError::InUse { dir: dir.to_owned() });
            }
        }
        Ok(Self { path: dir.to_owned(), _lock: lock })
    }
}

impl Disk for ReadOnly {
    fn create(&self, _name: &str) -> io::Result<Arc<dyn File>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(ReadOnlyFile(OsFile::open(self.path.join(name))?)))
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?.map(|entry| {
            let entry = entry?;
            Ok(entry.file_name().to_string_lossy().into_owned())
        });
        let mut names = names.collect::<io::Result<Vec<String>>>()?;
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }
}

struct ReadOnlyFile(OsFile);

impl File for ReadOnlyFile {
    fn write_at(&self, _bytes: &[u8], _at: u64) -> io::Result<()> {
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buf.len() {
            match self.0.read_at(&mut buf[read..], at + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspace::{NodeId, ShardId};
    use storage::checkpoint::CheckpointWriter;
    use storage::faulty::FaultyDisk;
    use storage::log::Group;
    use storage::manifest::{CheckpointRef, Manifest, Origin};

    /// A directory with a log of three records and one checkpoint, made on a virtual disk and then
    /// copied to real files.
    fn directory_of_a_node(name: &str) -> PathBuf {
        let virtual_disk = FaultyDisk::new(1);
        let disk: Arc<dyn Disk> = Arc::new(virtual_disk);
        let options = LogOptions { cluster: 7, salt: 9, segment_bytes: 64 << 10 };
        let mut visit = |_: Lsn, _: storage::log::Record<'_>| Ok::<(), storage::Error>(());
        let (mut log, _) = Log::open(disk.clone(), options, Lsn::NEW, &mut visit).unwrap();
        let log_start = log.written_end();
        let mut group = Group::new();
        for byte in 1..=3 {
            group.push(ShardId(1), 1, &[&[byte; 100]]).unwrap();
        }
        log.reserve(group.bytes()).unwrap();
        log.append(&mut group).unwrap();
        let job = log.begin_sync().unwrap();
        let result = job.run();
        log.finish_sync(&job, result).unwrap();
        log.append_marker().unwrap();
        let mut writer = CheckpointWriter::create(disk.clone(), 7, ShardId(1), 5, b"meta").unwrap();
        writer.block(&[4; 1000]).unwrap();
        writer.finish().unwrap();
        let checkpoints = vec![CheckpointRef { shard: ShardId(1), applied_index: 5 }];
        let manifest = Manifest {
            cluster: 7,
            node: NodeId(8),
            hash_seed: [0; 16],
            log_salt: 9,
            origin: Origin::Founder,
            joined_at: 10,
            log_start,
            checkpoints,
        };
        manifest::store(&*disk, &manifest).unwrap();

        let dir = std::env::temp_dir().join(format!("carillon-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for name in disk.list().unwrap() {
            let file = disk.open(&name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(&mut bytes, 0).unwrap();
            fs::write(dir.join(name), bytes).unwrap();
        }
        dir
    }

    fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<PathBuf> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
    }

    #[test]
    fn a_healthy_directory_is_read_and_left_alone() {
        let dir = directory_of_a_node("healthy");
        let before = contents(&dir);
        let found = check(&dir).unwrap();
        assert_eq!((found.cluster, found.node, found.checkpoints), (7, 8, 1));
        assert_eq!((found.checkpoint_bytes, found.log_records, found.torn_bytes), (1000, 3, 0));
        assert_eq!(contents(&dir), before);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn every_flipped_bit_that_counts_is_found_and_left_alone() {
        let dir = directory_of_a_node("rot");
        for (path, bytes) in contents(&dir) {
            // The middle of each file's used part: inside a record, a block, an entry.
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            let mut bad = bytes.clone();
            bad[used / 2] ^= 1;
            fs::write(&path, &bad).unwrap();
            let error = check(&dir).unwrap_err();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(error.to_string().contains(&name), "{name}: {error}");
            assert_eq!(fs::read(&path).unwrap(), bad);
            fs::write(&path, &bytes).unwrap();
        }
        check(&dir).unwrap();
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn check_refuses_missing_empty_and_locked_directories() {
        let dir = std::env::temp_dir().join(format!("carillon-empty-{}", std::process::id()));
        assert!(matches!(check(&dir), Err(CheckError::Directory { .. })));
        fs::create_dir_all(&dir).unwrap();
        assert!(matches!(check(&dir), Err(CheckError::Empty { .. })));
        let lock = OsFile::create(dir.join("LOCK")).unwrap();
        // SAFETY: flock takes an open descriptor and no memory.
        assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }, 0);
        assert!(matches!(check(&dir), Err(CheckError::InUse { .. })));
        fs::remove_dir_all(dir).unwrap();
    }
}

//! A small disk that a test can fill: a tmpfs, which needs root.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::net::root_or_skip;

/// What takes the room.
const BALLAST: &str = "ballast";

/// The disk; dropping it unmounts it.
pub struct SmallDisk {
    dir: PathBuf,
}

impl SmallDisk {
    /// Mounts one at `dir`, which is made. Nothing without root, if that may be skipped.
    pub fn mount(dir: &Path, mib: u32) -> Option<Self> {
        if !root_or_skip("a small disk") {
            return None;
        }
        fs::create_dir_all(dir).expect("a directory can be made");
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir);
        let output = mount.output().expect("mount");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "a tmpfs cannot be mounted: {}", why.trim_end());
        Some(Self { dir: dir.to_owned() })
    }

    /// Takes all the room that is left.
    pub fn fill(&self) {
        let mut file = File::create(self.dir.join(BALLAST)).expect("a file can be made");
        let piece = vec![1; 64 << 10];
        let error = loop {
            if let Err(error) = file.write_all(&piece) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    }

    /// Gives it back.
    pub fn free(&self) {
        fs::remove_file(self.dir.join(BALLAST)).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is being killed may hold a file in it for a moment longer.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.dir).output();
    }
}

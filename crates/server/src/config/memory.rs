//! The memory that this process may use: the machine's, or the limit of its cgroup.

use std::fs;
use std::path::{Path, PathBuf};

/// Taken when nothing can be found out; small rather than too large.
const FALLBACK_BYTES: u64 = 1 << 30;

/// The smallest of the machine's memory and the limits of the cgroups this process is in.
pub fn total_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|path| limit(&path));
    limits.chain(machine).min().unwrap_or(FALLBACK_BYTES)
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files that may hold a limit: of every cgroup from this process's own up to the root. In a
/// container the path outside may show, and only the root exists.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        files.extend(path.ancestors().map(|group| Path::new(root).join(group).join(name)));
    }
    files
}

fn limit(path: &Path) -> Option<u64> {
    // "max" is no number: no limit.
    fs::read_to_string(path).ok()?.trim().parse().ok().filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_kib() {
        assert_eq!(meminfo("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(meminfo("MemTotal: many kB"), None);
    }

    #[test]
    fn every_group_up_to_the_root_counts() {
        let files = limit_files("0::/user.slice/carillon.service\n");
        let expected = [
            "/sys/fs/cgroup/user.slice/carillon.service/memory.max",
            "/sys/fs/cgroup/user.slice/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files, expected.map(PathBuf::from));
        let files = limit_files("9:cpu,cpuacct:/x\n4:memory:/a\n");
        let root = "/sys/fs/cgroup/memory";
        let expected = ["a/memory.limit_in_bytes", "memory.limit_in_bytes"];
        assert_eq!(files, expected.map(|file| Path::new(root).join(file)));
    }

    #[test]
    fn there_is_some() {
        assert!(total_bytes() > 1 << 20);
    }
}

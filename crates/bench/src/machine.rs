//! The machine: what it is, and how fast it is at this moment.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Outcome;

/// Bytes written before each fsync, about a small batch of writes.
const FSYNC_BLOCK_BYTES: usize = 4096;
/// How long the fsync rate is measured.
const FSYNC_TIME: Duration = Duration::from_secs(2);
/// Clock ticks per second in /proc/PID/stat, fixed on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The machine, as far as figures depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: u64,
    /// Kernel release.
    pub kernel: String,
    /// Version of redis-server.
    pub redis: String,
    /// Commit that was measured, with `+` if files were changed.
    pub commit: String,
    /// Today, UTC.
    pub date: String,
}

impl Machine {
    /// A machine of which nothing is known.
    pub fn unknown() -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            cpu: unknown(),
            cores: 0,
            memory_gib: 0,
            kernel: unknown(),
            redis: unknown(),
            commit: unknown(),
            date: unknown(),
        }
    }

    /// One line for humans.
    pub fn line(&self) -> String {
        format!(
            "{}, {} cores, {} GiB, Linux {}; redis-server {}; commit {}; {}",
            self.cpu, self.cores, self.memory_gib, self.kernel, self.redis, self.commit, self.date
        )
    }
}

/// Asks the system.
pub fn describe() -> Machine {
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        output.map_or_else(
            |_| "unknown".into(),
            |o| String::from_utf8_lossy(&o.stdout).trim().to_owned(),
        )
    };
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let redis = said("redis-server", &["--version"]);
    Machine {
        cpu: field(&cpuinfo, "model name").unwrap_or("unknown processor").to_owned(),
        cores: std::thread::available_parallelism().map_or(1, Into::into),
        memory_gib: kib(&meminfo, "MemTotal") >> 20,
        kernel: said("uname", &["-r"]),
        redis: redis.split("v=").nth(1).and_then(|r| r.split(' ').next()).unwrap_or("?").into(),
        commit: commit(said),
        date: said("date", &["-u", "+%Y-%m-%d"]),
    }
}

/// That of the checkout in which the program lies; of an installed one, its version.
fn commit(said: impl Fn(&str, &[&str]) -> String) -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let dir = program.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let git = |args: &[&str]| said("git", &[&["-C", &dir], args].concat());
    match git(&["rev-parse", "--short", "HEAD"]) {
        none if none.is_empty() || none == "unknown" => {
            format!("of version {}", env!("CARGO_PKG_VERSION"))
        }
        commit if git(&["status", "--porcelain"]).is_empty() => commit,
        commit => commit + "+",
    }
}

/// Writes and syncs small blocks into one file, as a log does; returns syncs per second.
pub fn fsyncs_per_second(dir: &Path) -> Outcome<f64> {
    let path = dir.join("fsync-rate.tmp");
    let mut file = File::create(&path)?;
    let block = [7u8; FSYNC_BLOCK_BYTES];
    let began = Instant::now();
    let mut count = 0u32;
    while began.elapsed() < FSYNC_TIME {
        file.write_all(&block)?;
        file.sync_data()?;
        count += 1;
        if count.is_multiple_of(4096) {
            file.rewind()?;
        }
    }
    let rate = f64::from(count) / began.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(rate)
}

/// Resident memory of a process, in bytes.
pub fn rss_bytes(pid: u32) -> Outcome<u64> {
    Ok(kib(&fs::read_to_string(format!("/proc/{pid}/status"))?, "VmRSS") << 10)
}

/// Processor time that all threads of a process have used, ended ones too, in seconds: its own
/// and the kernel's on its behalf, in steps of a tick. Its children's time is not in it.
pub fn cpu_seconds(pid: u32) -> Outcome<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| format!("/proc/{pid}/stat reads {stat:?}"))?;
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

/// utime + stime of a line of /proc/PID/stat: its fields 14 and 15, counted from 1. The second is
/// the program's name in brackets and may itself hold spaces and brackets, so counting begins
/// after the last one, at field 3.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Bytes that the files of a directory take on disk.
pub fn disk_bytes(dir: &Path) -> Outcome<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(found) if found.is_dir() => total += disk_bytes(&entry.path())?,
            Ok(found) => total += found.blocks() * 512,
            // Removed since it was listed.
            Err(_) => {}
        }
    }
    Ok(total)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn kib(text: &str, name: &str) -> u64 {
    let value = field(text, name).and_then(|value| value.split(' ').next());
    value.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_used_some_time() {
        let pid = std::process::id();
        assert!(rss_bytes(pid).unwrap() > 1 << 16);
        let mut sum = 0u64;
        while cpu_seconds(pid).unwrap() == 0.0 {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        assert_ne!(sum, u64::MAX);
    }

    #[test]
    fn ticks_are_user_and_system_time_without_childrens() {
        let after = "S 1 2 3 0 -1 4194560 11 12 13 14 250 75 9000 8000 20 0 6 0 555 1048576 256";
        assert_eq!(cpu_ticks(&format!("42 (carillon) {after}\n")), Some(325));
        assert_eq!(cpu_ticks(&format!("42 (a b) R 7 (c) {after}\n")), Some(325));
    }

    #[test]
    fn a_line_without_the_fields_is_not_zero_time() {
        assert_eq!(cpu_ticks(""), None);
        assert_eq!(cpu_ticks("42 carillon S 1 2 3 0 -1 0 11 12 13 14 250 75 0"), None);
        assert_eq!(cpu_ticks("42 (carillon) S 1 2 3 0 -1 0 11 12 13 14 250"), None);
        assert_eq!(cpu_ticks("42 (carillon) S 1 2 3 0 -1 0 11 12 13 14 x 75 0"), None);
    }

    #[test]
    fn fields_of_proc_files() {
        let text = "Name:\tx\nVmRSS:\t   1234 kB\n";
        assert_eq!(kib(text, "VmRSS"), 1234);
        assert_eq!(kib(text, "VmSwap"), 0);
    }
}

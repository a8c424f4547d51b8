//! What the kernel counts of processes and networks: files under /proc.
//!
//! | what | where |
//! |---|---|
//! | processor time | /proc/PID/stat |
//! | memory | /proc/PID/status |
//! | bytes from and to disks | /proc/PID/io |
//! | context switches | /proc/PID/task/TID/status, of all threads |
//! | bytes of interfaces | /proc/PID/net/dev, of the namespace of the process |
//! | TCP segments, and those sent again | /proc/PID/net/snmp, likewise |
//!
//! The kernel has no counts of a process's network. All counts grow; a thread that ends takes its
//! context switches with it, so that a difference may be too small, never below zero.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use crate::machine::{cpu_seconds, rss_bytes};

/// What a process has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessCounts {
    /// Processor time, in seconds.
    pub cpu: f64,
    /// Resident memory, in bytes: no count.
    pub rss: u64,
    /// Bytes read from disks.
    pub read: u64,
    /// Bytes written to disks.
    pub written: u64,
    /// Context switches because it waited.
    pub voluntary: u64,
    /// Context switches because others were to run.
    pub involuntary: u64,
    /// Bytes that its files take on disk, where it has a directory of its own: no count.
    #[serde(default)]
    pub files: u64,
    /// The number of its network namespace.
    pub network: u64,
    /// When it began, in ticks since the host did: another process under the same name began later.
    pub began: u64,
}

/// What a network has carried since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkCounts {
    /// The number of its namespace.
    pub network: u64,
    /// Bytes received on all interfaces.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// TCP segments sent.
    pub segments: u64,
    /// TCP segments sent again.
    pub resent: u64,
}

/// Counts of a process, if it runs.
pub fn process(pid: u32) -> Option<ProcessCounts> {
    let (cpu, rss) = (cpu_seconds(pid).ok()?, rss_bytes(pid).ok()?);
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let mut counts = ProcessCounts {
        cpu,
        rss,
        read: named(&io, "read_bytes:"),
        written: named(&io, "write_bytes:"),
        network: namespace(pid),
        began: began(pid),
        ..ProcessCounts::default()
    };
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // It may have ended since it was listed.
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        counts.voluntary += named(&status, "voluntary_ctxt_switches:");
        counts.involuntary += named(&status, "nonvoluntary_ctxt_switches:");
    }
    Some(counts)
}

/// Field 22 of /proc/PID/stat, counted from 1. The second is the program's name in brackets, which
/// may hold spaces and brackets: counting begins after the last one, at field 3.
fn began(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    rest.split_whitespace().nth(22 - 3).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// The number of a process's network namespace; 0 if it is not told.
fn namespace(pid: u32) -> u64 {
    fs::metadata(format!("/proc/{pid}/ns/net")).map_or(0, |found| found.ino())
}

/// Counts of the network of a process.
pub fn network(pid: u32) -> Option<NetworkCounts> {
    let dev = fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    let snmp = fs::read_to_string(format!("/proc/{pid}/net/snmp")).ok()?;
    let (received, sent) = interfaces(&dev);
    Some(NetworkCounts {
        network: namespace(pid),
        received,
        sent,
        segments: tcp(&snmp, "OutSegs"),
        resent: tcp(&snmp, "RetransSegs"),
    })
}

/// How many files and sockets this process may have open.
pub fn open_files_max() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    soft_limit(&limits, "Max open files").unwrap_or(u64::MAX)
}

/// The soft limit of a line of /proc/PID/limits; none if there is no limit.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The number after a name at the beginning of a line.
fn named(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

/// Bytes received and sent, of all interfaces.
fn interfaces(dev: &str) -> (u64, u64) {
    let lines = dev.lines().filter_map(|line| line.split_once(':'));
    lines.fold((0, 0), |(received, sent), (_, rest)| {
        let fields: Vec<u64> = rest.split_whitespace().map_while(|f| f.parse().ok()).collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or(0);
        (received + field(0), sent + field(8))
    })
}

/// A count of TCP: names stand in one line, numbers in the next.
fn tcp(snmp: &str, name: &str) -> u64 {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    pairs.find(|pair| pair.0 == name).and_then(|pair| pair.1.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read() {
        let dev = "Inter-|   Receive                  |  Transmit\n \
                   face |bytes    packets errs drop fifo frame compressed multicast|bytes\n    \
                   lo: 100 2 0 0 0 0 0 0 100 2 0 0 0 0 0 0\n  \
                   eth0: 1000 20 0 0 0 0 0 0 500 9 0 0 0 0 0 0\n";
        assert_eq!(interfaces(dev), (1_100, 600));
        let snmp = "Ip: A B\nIp: 1 2\nTcp: RtoMin OutSegs RetransSegs\nTcp: 200 77 5\n";
        assert_eq!((tcp(snmp, "OutSegs"), tcp(snmp, "RetransSegs"), tcp(snmp, "X")), (77, 5, 0));
        assert_eq!(tcp("", "OutSegs"), 0);
        let limits = "Limit   Soft Limit  Hard Limit  Units\n\
                      Max processes  unlimited  unlimited  processes\n\
                      Max open files            1024       524288     files\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1_024));
        assert_eq!(soft_limit(limits, "Max processes"), None);
        let io = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 7\n";
        assert_eq!((named(io, "read_bytes:"), named(io, "write_bytes:")), (4_096, 8_192));
    }

    #[test]
    fn this_process_and_its_network_are_counted() {
        let pid = std::process::id();
        let before = process(pid).unwrap();
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let after = process(pid).unwrap();
        assert!(after.voluntary > before.voluntary, "a thread that sleeps is switched away");
        assert!(after.rss > 1 << 16 && after.network > 0);
        assert!(after.began > 0 && after.began == before.began);
        assert_eq!(network(pid).unwrap().network, after.network);
        assert_eq!(process(u32::MAX), None);
    }
}

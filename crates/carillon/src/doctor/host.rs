//! Limits, clock and memory, as the kernel shows them.

use std::fs;

use rustix::process::{Resource, getrlimit};
use server::config::Config;

use super::Finding;

/// Descriptors that a node with the default settings may use, and some.
const FILES_MIN: u64 = 16_384;
/// Below it a node answers clients no more.
const FILES_LEAST: u64 = 1_024;
/// Connections that wait to be accepted.
const BACKLOG_MIN: u64 = 1_024;
/// How wrong a clock may be, by its own account, in microseconds.
const CLOCK_ERROR_MICROS_MAX: i64 = 100_000;

/// All of it.
pub(super) fn look(config: &Config) -> Vec<Finding> {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let backlog = fs::read_to_string("/proc/sys/net/core/somaxconn");
    vec![
        cores(std::thread::available_parallelism().map_or(1, usize::from)),
        open_files(getrlimit(Resource::Nofile).current),
        clock(clock_state()),
        memory_max(&memory, config.memory_bytes_max()),
        swap(&memory),
        huge_pages(huge.ok().as_deref()),
        accept_queue(backlog.ok().and_then(|text| text.trim().parse().ok())),
    ]
}

fn cores(cores: usize) -> Finding {
    match cores {
        1 => Finding::uneasy(
            "cores",
            "1",
            "a node has threads for connections, for its log and for the control plane: with one \
             core each waits for the others. Give it two",
        ),
        cores => Finding::well("cores", cores.to_string()),
    }
}

fn open_files(limit: Option<u64>) -> Finding {
    let check = "open files";
    let advice = "each connection, segment and link takes one. Raise it: LimitNOFILE=65536 in the \
                  unit of systemd, or `ulimit -n 65536` before the start";
    match limit {
        None => Finding::well(check, "unlimited"),
        Some(limit) if limit < FILES_LEAST => {
            Finding::bad(check, format!("{limit} at most"), advice)
        }
        Some(limit) if limit < FILES_MIN => {
            Finding::uneasy(check, format!("{limit} at most"), advice)
        }
        Some(limit) => Finding::well(check, format!("{limit} at most")),
    }
}

/// What the kernel says of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockState {
    is_synchronized: bool,
    error_micros: i64,
}

fn clock_state() -> Option<ClockState> {
    // SAFETY: all zeroes is a value of this struct of numbers, and asks for no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a valid place for the answer.
    let answer = unsafe { libc::adjtimex(&mut state) };
    (answer >= 0).then_some(ClockState {
        is_synchronized: answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0,
        error_micros: state.maxerror,
    })
}

fn clock(state: Option<ClockState>) -> Finding {
    let check = "clock";
    let Some(ClockState { is_synchronized, error_micros }) = state else {
        return Finding::unknown(check, "the kernel does not say");
    };
    let error = format!("at most {} ms wrong, by its own account", error_micros / 1000);
    if !is_synchronized {
        return Finding::uneasy(
            check,
            "nothing sets it",
            "nodes whose clocks differ by more than clock_offset_max_ms lead no shards, and expiry \
             and past times go by them. Run chrony or systemd-timesyncd. In a virtual machine the \
             host may keep it right unseen: then this is all right",
        );
    }
    if error_micros > CLOCK_ERROR_MICROS_MAX {
        return Finding::uneasy(check, error, "look at what sets it: `chronyc tracking`");
    }
    Finding::well(check, error)
}

/// A row of `/proc/meminfo`, in bytes.
fn row(memory: &str, name: &str) -> Option<u64> {
    let line = memory.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn memory_max(memory: &str, bytes_max: u64) -> Finding {
    let check = "memory";
    let Some(available) = row(memory, "MemAvailable:") else {
        return Finding::unknown(check, "/proc/meminfo does not say what is available");
    };
    let found = format!("{} available; memory_max is {}", gib(available), gib(bytes_max));
    // A checkpoint, buffers of connections and the kernel's own need some, too.
    match available {
        available if available < bytes_max => Finding::uneasy(
            check,
            found,
            "a node that fills memory_max would be killed by the kernel, or swap. Lower \
             --memory-max, or end what else runs here",
        ),
        _ => Finding::well(check, found),
    }
}

fn swap(memory: &str) -> Finding {
    let check = "swap";
    match row(memory, "SwapTotal:") {
        None => Finding::unknown(check, "/proc/meminfo does not say"),
        Some(0) => Finding::well(check, "none"),
        Some(bytes) => Finding::uneasy(
            check,
            gib(bytes),
            "keys that were swapped out are read back one page after the other, and a node that \
             stands still loses its leads. Use MemorySwapMax=0 in the unit of systemd, or `swapoff \
             -a`",
        ),
    }
}

/// The file has all words, with the one that counts in brackets.
fn huge_pages(enabled: Option<&str>) -> Finding {
    let check = "huge pages";
    let word = enabled.and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0));
    match word {
        None => Finding::unknown(check, "this kernel has no transparent huge pages"),
        Some("always") => Finding::uneasy(
            check,
            "always",
            "the kernel stops a process to put pages together, and memory that was freed is kept: \
             `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
        ),
        Some(word) => Finding::well(check, word),
    }
}

fn accept_queue(backlog: Option<u64>) -> Finding {
    let check = "accept queue";
    match backlog {
        None => Finding::unknown(check, "net.core.somaxconn cannot be read"),
        Some(backlog) if backlog < BACKLOG_MIN => Finding::uneasy(
            check,
            backlog.to_string(),
            format!(
                "when many clients come at once, those beyond it wait a second and try again: \
                 `sysctl -w net.core.somaxconn={BACKLOG_MIN}`"
            ),
        ),
        Some(backlog) => Finding::well(check, backlog.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    const MEMORY: &str = "MemTotal: 8000000 kB\nMemAvailable: 2097152 kB\nSwapTotal: 1024 kB\n";

    #[test]
    fn limits_have_bounds() {
        let verdict = |limit| open_files(limit).verdict;
        assert_eq!(verdict(Some(256)), Verdict::Bad);
        assert_eq!(verdict(Some(1_024)), Verdict::Uneasy);
        assert_eq!(verdict(Some(65_536)), Verdict::Well);
        assert_eq!(verdict(None), Verdict::Well);
        assert_eq!(accept_queue(Some(128)).verdict, Verdict::Uneasy);
        assert_eq!(accept_queue(Some(4_096)).verdict, Verdict::Well);
        assert_eq!(cores(1).verdict, Verdict::Uneasy);
    }

    #[test]
    fn memory_is_compared_with_the_setting() {
        assert_eq!(memory_max(MEMORY, 1 << 30).verdict, Verdict::Well);
        assert_eq!(memory_max(MEMORY, 3 << 30).verdict, Verdict::Uneasy);
        assert_eq!(memory_max("", 1).verdict, Verdict::Unknown);
        assert_eq!(swap(MEMORY).verdict, Verdict::Uneasy);
        assert_eq!(swap("SwapTotal: 0 kB").verdict, Verdict::Well);
    }

    #[test]
    fn huge_pages_are_the_word_in_brackets() {
        assert_eq!(huge_pages(Some("[always] madvise never\n")).verdict, Verdict::Uneasy);
        assert_eq!(huge_pages(Some("always [madvise] never\n")).verdict, Verdict::Well);
        assert_eq!(huge_pages(Some("nonsense")).verdict, Verdict::Unknown);
    }

    #[test]
    fn clocks_that_nobody_sets_are_named() {
        let state = |is_synchronized, error_micros| {
            clock(Some(ClockState { is_synchronized, error_micros })).verdict
        };
        assert_eq!(state(true, 900), Verdict::Well);
        assert_eq!(state(true, 400_000), Verdict::Uneasy);
        assert_eq!(state(false, 900), Verdict::Uneasy);
        assert_eq!(clock(None).verdict, Verdict::Unknown);
    }
}

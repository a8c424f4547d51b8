//! This process: what the system reports of it, its limits, and how it ends after a fatal error.

/// A reading. Zero where the system does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// The most it ever was.
    pub rss_peak_bytes: u64,
    /// Processor time in the kernel, in microseconds.
    pub cpu_system_micros: u64,
    /// Processor time in the program, in microseconds.
    pub cpu_user_micros: u64,
}

/// Reads it.
pub fn usage() -> Usage {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        number.unwrap_or(0) * 1024
    };
    let mut times = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `times` is a valid place for one rusage; zeros are one as well, if the call fails.
    let times = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, times.as_mut_ptr());
        times.assume_init()
    };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Usage {
        rss_bytes: kib("VmRSS:"),
        rss_peak_bytes: kib("VmHWM:"),
        cpu_system_micros: micros(times.ru_stime),
        cpu_user_micros: micros(times.ru_utime),
    }
}

/// Exit code of a node whose disk has failed.
pub const EXIT_DISK_FAILED: i32 = 74;

/// Ends the process: its disk can no longer be trusted, and nothing more may be acknowledged.
pub fn disk_failed(what: &str, error: &dyn std::error::Error) -> ! {
    tracing::error!(
        "{what} failed: {error}. The node stops at once. Writes acknowledged at durability sync \
         are on disk; at interval and memory, those of the last fsync. Repair the disk and start \
         the node again"
    );
    std::process::exit(EXIT_DISK_FAILED)
}

/// Lets a panic on any thread end the process: a broken invariant may have left state half changed,
/// and the other threads would go on serving it. Acknowledged writes are in the log.
pub fn end_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        say(what);
        std::process::abort();
    }));
}

/// Has the kernel give memory in small pages. Zeroing a huge one takes milliseconds, in which a
/// executor's turn waits: the slowest percent of SETs takes three times as long with them. Where
/// the kernel does not know the call, nothing changes.
pub fn forgo_huge_pages() {
    // SAFETY: this call of prctl takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// Lets the process open as many sockets as the system allows.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for one rlimit, read and written during the calls only.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

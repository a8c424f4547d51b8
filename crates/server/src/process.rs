//! What the system says about this process.

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

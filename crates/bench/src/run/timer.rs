//! Wakes an event loop at a moment, to the microsecond: epoll's own timeouts are milliseconds.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A timer of the system.
pub struct Timer {
    file: OwnedFd,
    /// For which moment of the phase it is set.
    armed: Option<u64>,
}

impl Timer {
    /// One that is not set, reported under this token.
    ///
    /// # Errors
    /// The system has no timer left.
    pub fn new(registry: &Registry, token: Token) -> std::io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { file, armed: None })
    }

    /// Sets it for the moment `at`; it is `now`. Both are nanoseconds of the phase.
    ///
    /// # Errors
    /// The system refuses.
    pub fn arm(&mut self, now: u64, at: u64) -> std::io::Result<()> {
        if self.armed == Some(at) && at > now {
            return Ok(());
        }
        let wait = at.saturating_sub(now).max(1);
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: (wait / 1_000_000_000) as i64,
                tv_nsec: (wait % 1_000_000_000) as i64,
            },
        };
        timerfd_settime(self.file.as_fd(), TimerfdTimerFlags::empty(), &spec)?;
        self.armed = Some(at);
        Ok(())
    }
}

//! Counts calls of commands, and notes those that take long.
//!
//! A plain GET or SET reads no clock of its own. One reading at each end of an iteration tells how
//! long the loop worked in it. A command that may take long (in the table it is not `fast`, or it
//! has many arguments) is measured by itself; the others of the iteration share what is left. So a
//! figure is the time that the command took of its event loop: what it waits for, a majority or a
//! disk, is not part of it.
//!
//! Each loop counts for itself, and hands its counts to the process once an iteration.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use gateway::resp::{Args, CommandCalls, LiveSetting, Session, SlowCommand};
use parking_lot::Mutex;

type Calls = BTreeMap<&'static str, CommandCalls>;

/// What the process remembers of commands.
pub(super) struct Statistics {
    /// The calls that each loop has handed over.
    loops: Mutex<Vec<Arc<Mutex<Calls>>>>,
    slow: Mutex<SlowLog>,
    /// [`LiveSetting::SlowMicros`].
    slow_micros: AtomicI64,
    /// What the counters of INFO had at CONFIG RESETSTAT.
    pub(super) reset: Mutex<CountersAtReset>,
}

/// Counters that CONFIG RESETSTAT has begin anew, in INFO.
#[derive(Clone, Copy, Default)]
pub(super) struct CountersAtReset {
    pub connections_received: u64,
    pub connections_rejected: u64,
    pub clients_evicted: u64,
    pub commands: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub expired_keys: u64,
    pub errors: u64,
}

struct SlowLog {
    /// The oldest first.
    commands: VecDeque<SlowCommand>,
    commands_max: usize,
    next_id: u64,
}

impl Default for Statistics {
    fn default() -> Self {
        let commands_max = LiveSetting::SlowCommandsMax.at_start() as usize;
        let slow = SlowLog { commands: VecDeque::new(), commands_max, next_id: 0 };
        Self {
            loops: Mutex::default(),
            slow: Mutex::new(slow),
            slow_micros: AtomicI64::new(LiveSetting::SlowMicros.at_start()),
            reset: Mutex::default(),
        }
    }
}

impl Statistics {
    /// A loop's counts.
    pub fn of_loop(&self) -> LoopStatistics {
        let shared = Arc::new(Mutex::new(Calls::new()));
        self.loops.lock().push(Arc::clone(&shared));
        LoopStatistics { shared, calls: Vec::new(), began: Instant::now(), measured_nanos: 0 }
    }

    /// All calls, by name.
    pub fn calls(&self) -> Vec<(&'static str, CommandCalls)> {
        let mut sums = Calls::new();
        for calls in self.loops.lock().iter() {
            for (name, more) in calls.lock().iter() {
                sums.entry(name).or_default().add(more);
            }
        }
        sums.into_iter().collect()
    }

    /// Forgets all calls.
    pub fn forget_calls(&self) {
        self.loops.lock().iter().for_each(|calls| calls.lock().clear());
    }

    /// The slow commands, newest first.
    pub fn slow_commands(&self) -> Vec<SlowCommand> {
        self.slow.lock().commands.iter().rev().cloned().collect()
    }

    /// Forgets them; numbers go on.
    pub fn forget_slow_commands(&self) {
        self.slow.lock().commands.clear();
    }

    /// Notes a command, if it took long.
    pub fn note_slow(&self, micros: u64, at_seconds: u64, args: Args<'_>, session: &Session) {
        if !u64::try_from(self.slow_micros()).is_ok_and(|least| micros >= least) {
            return;
        }
        let (args, addr) = (SlowCommand::shortened(args), session.address().to_owned());
        let name = session.name().to_owned();
        let mut slow = self.slow.lock();
        let id = slow.next_id;
        slow.next_id += 1;
        slow.commands.push_back(SlowCommand { id, at_seconds, micros, args, addr, name });
        let excess = slow.commands.len().saturating_sub(slow.commands_max);
        slow.commands.drain(..excess);
    }

    /// From how many microseconds on a command is slow; none is if it is negative.
    pub fn slow_micros(&self) -> i64 {
        self.slow_micros.load(Ordering::Relaxed)
    }

    /// Changes that.
    pub fn set_slow_micros(&self, micros: i64) {
        self.slow_micros.store(micros, Ordering::Relaxed);
    }

    /// How many slow commands are remembered.
    pub fn slow_commands_max(&self) -> usize {
        self.slow.lock().commands_max
    }

    /// Changes that; as in Redis, those beyond go when the next one comes.
    pub fn set_slow_commands_max(&self, commands_max: usize) {
        self.slow.lock().commands_max = commands_max;
    }
}

/// What one loop counts in an iteration.
pub(super) struct LoopStatistics {
    shared: Arc<Mutex<Calls>>,
    /// Few different ones come in an iteration.
    calls: Vec<(&'static str, CommandCalls)>,
    began: Instant,
    measured_nanos: u64,
}

impl LoopStatistics {
    /// An iteration begins.
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// When the iteration began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// So many calls of a command.
    #[inline]
    pub fn count(&mut self, name: &'static str, calls: u64) {
        self.of(name).calls += calls;
    }

    /// The loop has worked at a call for so long.
    pub fn measure(&mut self, name: &'static str, nanos: u64) {
        self.of(name).measure(nanos);
        self.measured_nanos += nanos;
    }

    #[inline]
    fn of(&mut self, name: &'static str) -> &mut CommandCalls {
        // Names are those of the table, or equal ones.
        let at = self.calls.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.calls.push((name, CommandCalls::default()));
            self.calls.len() - 1
        });
        &mut self.calls[at].1
    }

    /// The iteration ends: hands its counts over.
    pub fn end(&mut self) {
        let measured_nanos = std::mem::take(&mut self.measured_nanos);
        if self.calls.is_empty() {
            return;
        }
        let nanos = self.began.elapsed().as_nanos() as u64;
        let shared_nanos = nanos.saturating_sub(measured_nanos);
        let unmeasured = |calls: &CommandCalls| calls.calls.saturating_sub(calls.measured);
        let all: u64 = self.calls.iter().map(|(_, calls)| unmeasured(calls)).sum();
        let mut sums = self.shared.lock();
        for (name, mut calls) in self.calls.drain(..) {
            calls.nanos += shared_nanos * unmeasured(&calls) / all.max(1);
            sums.entry(name).or_default().add(&calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_share_what_no_other_command_took_of_an_iteration() {
        let statistics = Statistics::default();
        let mut one = statistics.of_loop();
        let mut other = statistics.of_loop();
        one.begin();
        one.count("get", 30);
        one.count("get", 10);
        one.count("keys", 1);
        one.measure("keys", 5_000);
        one.end();
        one.end();
        other.count("get", 2);
        other.end();
        let calls = statistics.calls();
        assert_eq!(calls.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["get", "keys"]);
        assert_eq!((calls[0].1.calls, calls[0].1.measured), (42, 0));
        assert_eq!((calls[1].1.calls, calls[1].1.nanos), (1, 5_000));
        statistics.forget_calls();
        assert!(statistics.calls().is_empty());
    }
}

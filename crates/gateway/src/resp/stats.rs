//! What a server remembers of the commands that it ran, for SLOWLOG, LATENCY and INFO.

use super::args::Args;

/// Arguments of a slow command that are remembered, the last one a remark on those left out.
const ARGS_MAX: usize = 32;
/// Bytes of each of them; behind these a remark says how many are left out.
const ARG_BYTES_MAX: usize = 128;

/// A command that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// Counts up.
    pub id: u64,
    /// When it ran, in seconds since 1970.
    pub at_seconds: u64,
    /// How long its event loop worked at it.
    pub micros: u64,
    /// Its arguments, name first, shortened.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: String,
    /// The connection's name.
    pub name: String,
}

impl SlowCommand {
    /// The arguments of a command as they are remembered.
    pub fn shortened(args: Args<'_>) -> Vec<Vec<u8>> {
        let shown = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
        let mut short: Vec<_> = args.iter().take(shown).map(shorten).collect();
        if shown < args.len() {
            short.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
        }
        short
    }
}

fn shorten(arg: &[u8]) -> Vec<u8> {
    let Some(left) = arg.len().checked_sub(ARG_BYTES_MAX).filter(|left| *left > 0) else {
        return arg.to_vec();
    };
    [&arg[..ARG_BYTES_MAX], format!("... ({left} more bytes)").as_bytes()].concat()
}

/// The calls of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandCalls {
    /// How many.
    pub calls: u64,
    /// How long event loops worked at them.
    pub nanos: u64,
    /// How many of them were measured one by one.
    pub measured: u64,
    /// Of these, how many took at most 1, 2, 4, … microseconds, and more than half of that.
    pub buckets: [u64; BUCKETS],
}

/// Buckets of durations: the last one is for all that took longer than half an hour.
pub const BUCKETS: usize = 32;

impl CommandCalls {
    /// One more call was measured.
    pub fn measure(&mut self, nanos: u64) {
        self.measured += 1;
        self.nanos += nanos;
        let micros = nanos.div_ceil(1000).max(1);
        let bucket = micros.next_power_of_two().trailing_zeros() as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
    }

    /// Takes the calls of others in.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.nanos += other.nanos;
        self.measured += other.measured;
        for (sum, more) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += more;
        }
    }

    /// `(microseconds, calls that took at most so long)`, where there are more than before.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut sum = 0;
        let mut rising = Vec::new();
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            sum += count;
            rising.push((1 << bucket, sum));
        }
        rising
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_powers_of_two() {
        let mut calls = CommandCalls::default();
        for micros in [1, 2, 3, 4, 5, 1 << 50] {
            calls.measure(micros * 1000);
        }
        calls.measure(0);
        calls.measure(1);
        let last = 1 << (BUCKETS - 1);
        assert_eq!(calls.cumulative(), [(1, 3), (2, 4), (4, 6), (8, 7), (last, 8)]);
        let mut sum = calls.clone();
        sum.add(&calls);
        assert_eq!((sum.measured, sum.cumulative()[0]), (16, (1, 6)));
    }

    #[test]
    fn long_commands_are_remembered_shortened() {
        let bytes = vec![b'x'; 200];
        let ranges: Vec<(u32, u32)> = vec![(0, 128), (0, 129)];
        let short = SlowCommand::shortened(Args::new(&bytes, &ranges));
        assert_eq!(short[0], vec![b'x'; 128]);
        assert!(short[1].ends_with(b"x... (1 more bytes)"));
        let ranges = vec![(0, 1); 33];
        let short = SlowCommand::shortened(Args::new(&bytes, &ranges));
        assert_eq!((short.len(), &short[31][..]), (32, &b"... (2 more arguments)"[..]));
        assert_eq!(SlowCommand::shortened(Args::new(&bytes, &ranges[..32])).len(), 32);
    }
}

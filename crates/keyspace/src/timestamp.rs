//! Hybrid timestamps: milliseconds since 1970 in the high 48 bits, a counter in the low 16.
//! And a node's boot clock, by which it measures how long something takes.

/// Nanoseconds of a clock that never steps and counts sleep; from any origin, the same for all
/// that runs on a node.
pub type BootNanos = u64;

/// A point in hybrid time. Ordered as its number; rises with the log index within a shard (G2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Before everything.
    pub const ZERO: Self = Self(0);
    /// After everything: reads the newest version.
    pub const MAX: Self = Self(u64::MAX);
    const LOGICAL_BITS: u32 = 16;

    /// The first timestamp of a millisecond since 1970.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis << Self::LOGICAL_BITS)
    }

    /// Milliseconds since 1970.
    pub const fn millis(self) -> u64 {
        self.0 >> Self::LOGICAL_BITS
    }

    /// The next timestamp.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl std::fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.millis(), self.0 & 0xffff)
    }
}

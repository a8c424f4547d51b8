//! Where an ephemeral message goes: to a channel, which clients subscribe to by its name or by a
//! pattern, or to a shard channel, whose names are a set of their own.

use crate::glob;

/// Longest name of a channel, and longest pattern.
pub const CHANNEL_BYTES_MAX: usize = 64 << 10;
/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Whether a channel fits a pattern. Unlike a key, an empty name fits only the empty pattern.
pub fn matches(pattern: &[u8], channel: &[u8]) -> bool {
    if channel.is_empty() { pattern.is_empty() } else { glob::matches(pattern, channel) }
}

/// What clients subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopicKind {
    /// A channel (SUBSCRIBE).
    Channel,
    /// All channels that match a pattern (PSUBSCRIBE).
    Pattern,
    /// A shard channel (SSUBSCRIBE).
    Shard,
}

impl TopicKind {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    /// The kind of this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

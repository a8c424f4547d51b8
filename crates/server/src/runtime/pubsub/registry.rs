//! How many subscribers each event loop has, by channel and pattern.

use std::collections::{BTreeMap, HashMap};

use command::{TopicKind, topic};

/// A name of a channel, or a pattern.
pub type Name = Box<[u8]>;

/// See the front page of this module.
#[derive(Debug)]
pub(super) struct Registry {
    event_loops: usize,
    channels: HashMap<Name, Counts>,
    shard_channels: HashMap<Name, Counts>,
    patterns: BTreeMap<Name, Counts>,
}

/// By event loop.
type Counts = Box<[u32]>;

impl Registry {
    pub(super) fn new(event_loops: usize) -> Self {
        let (channels, shard_channels, patterns) = Default::default();
        Self { event_loops, channels, shard_channels, patterns }
    }

    /// One connection more, or one less, of a loop subscribes to this. Returns how many do now.
    pub(super) fn change(
        &mut self,
        kind: TopicKind,
        name: &Name,
        event_loop: usize,
        is_more: bool,
    ) -> u32 {
        let none = || vec![0; self.event_loops].into_boxed_slice();
        let counts = match kind {
            TopicKind::Channel => self.channels.entry(name.clone()).or_insert_with(none),
            TopicKind::Shard => self.shard_channels.entry(name.clone()).or_insert_with(none),
            TopicKind::Pattern => self.patterns.entry(name.clone()).or_insert_with(none),
        };
        let own = &mut counts[event_loop];
        *own = if is_more { *own + 1 } else { own.saturating_sub(1) };
        let sum = counts.iter().sum();
        if sum == 0 {
            match kind {
                TopicKind::Channel => _ = self.channels.remove(name),
                TopicKind::Shard => _ = self.shard_channels.remove(name),
                TopicKind::Pattern => _ = self.patterns.remove(name),
            }
        }
        sum
    }

    /// How many get a message to this channel, and the loops that serve them.
    pub(super) fn receivers(&self, kind: TopicKind, channel: &[u8]) -> (u64, Vec<usize>) {
        let by_name = match kind {
            TopicKind::Shard => self.shard_channels.get(channel),
            _ => self.channels.get(channel),
        };
        let has_patterns = kind != TopicKind::Shard;
        let patterns = self.patterns.iter().filter(|_| has_patterns);
        let by_pattern = patterns.filter(|(pattern, _)| topic::matches(pattern, channel));
        let (mut sum, mut loops) = (0, Vec::new());
        for counts in by_name.into_iter().chain(by_pattern.map(|(_, counts)| counts)) {
            for (event_loop, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                sum += u64::from(*count);
                if !loops.contains(&event_loop) {
                    loops.push(event_loop);
                }
            }
        }
        (sum, loops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_counted_by_name_and_by_pattern() {
        let mut registry = Registry::new(3);
        let name = |name: &[u8]| Name::from(name);
        assert_eq!(registry.change(TopicKind::Channel, &name(b"news"), 0, true), 1);
        assert_eq!(registry.change(TopicKind::Channel, &name(b"news"), 2, true), 2);
        assert_eq!(registry.change(TopicKind::Pattern, &name(b"n*"), 2, true), 1);
        assert_eq!(registry.change(TopicKind::Shard, &name(b"news"), 1, true), 1);
        assert_eq!(registry.receivers(TopicKind::Channel, b"news"), (3, vec![0, 2]));
        assert_eq!(registry.receivers(TopicKind::Channel, b"nobody"), (1, vec![2]));
        assert_eq!(registry.receivers(TopicKind::Shard, b"news"), (1, vec![1]));
        assert_eq!(registry.change(TopicKind::Channel, &name(b"news"), 0, false), 1);
        assert_eq!(registry.change(TopicKind::Channel, &name(b"news"), 2, false), 0);
        assert!(registry.channels.is_empty(), "nothing is left of it");
        assert_eq!(registry.receivers(TopicKind::Channel, b"news"), (1, vec![2]));
    }
}

//! Which messages each node's clients want: a table for each node, which its owner announces.
//!
//! ```text
//!   change ──► version 6 ──► Delta 5→6 to all that are linked ──► Ack 6
//!   each second: Digest (version, digest) ──► equal: Ack │ else Pull 4 ──► Delta 4→6, or State
//! ```
//!
//! A node changes only its own table. Every change raises its version by one. Counts in a delta
//! are those of its newer version, so that a delta that overlaps what is known may be applied. A
//! delta that does not join what is known, a lost or a late one, is healed by [`Pull`]. What is
//! known of a node is forgotten with its link.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of a node's topics | [`INTEREST_BYTES_MAX`] | it wants all messages, and announces no topics until they are half as many |
//! | changes kept for deltas | [`CHANGES_MAX`] | a peer that is further behind gets the whole state |
//!
//! [`Pull`]: InterestMessage::Pull

use std::collections::{BTreeMap, VecDeque};

use command::{TopicKind, topic};
use keyspace::NodeId;

use super::message::{InterestMessage, TopicCount};

/// Bytes of names, each with `TOPIC_BYTES`, that a node announces of its topics.
pub const INTEREST_BYTES_MAX: usize = 4 << 20;
/// What a topic takes beside its name.
const TOPIC_BYTES: usize = 16;
/// Changes that a node keeps, to send them again.
pub const CHANGES_MAX: usize = 4096;

/// What is to be sent, in order.
pub type Outbox = Vec<(NodeId, InterestMessage)>;

type Name = Box<[u8]>;

/// Topics with their counts.
#[derive(Clone, Debug, Default)]
struct Topics {
    /// By [`TopicKind`].
    counts: [BTreeMap<Name, u32>; 3],
    /// Exclusive or of what each topic's bytes say.
    digest: u64,
    bytes: usize,
}

/// FNV-1a of a topic with its count.
fn digest_of(kind: TopicKind, name: &[u8], count: u32) -> u64 {
    let bytes = [kind as u8].into_iter().chain(count.to_le_bytes()).chain(name.iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Topics {
    fn set(&mut self, TopicCount { kind, name, count }: TopicCount) {
        let (topics, name_bytes) = (&mut self.counts[kind as usize], name.len() + TOPIC_BYTES);
        if let Some(before) = topics.get(&name).copied() {
            self.digest ^= digest_of(kind, &name, before);
            self.bytes -= name_bytes;
        }
        if count == 0 {
            topics.remove(&name);
            return;
        }
        self.digest ^= digest_of(kind, &name, count);
        self.bytes += name_bytes;
        topics.insert(name, count);
    }

    fn count(&self, kind: TopicKind, name: &[u8]) -> u32 {
        self.counts[kind as usize].get(name).copied().unwrap_or(0)
    }

    fn all(&self) -> Vec<TopicCount> {
        let of_kind = |kind: TopicKind| {
            let topics = self.counts[kind as usize].iter();
            topics.map(move |(name, &count)| TopicCount { kind, name: name.clone(), count })
        };
        TopicKind::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// How many messages a message to a channel makes.
    fn receivers(&self, kind: TopicKind, channel: &[u8]) -> u64 {
        let by_name = u64::from(self.count(kind, channel));
        let patterns = &self.counts[TopicKind::Pattern as usize];
        if kind == TopicKind::Shard || patterns.is_empty() {
            return by_name;
        }
        let matching = patterns.iter().filter(|(pattern, _)| topic::matches(pattern, channel));
        by_name + matching.map(|(_, count)| u64::from(*count)).sum::<u64>()
    }
}

/// What this node's own clients want, and what it remembers to send again.
#[derive(Debug)]
struct OwnInterest {
    incarnation: u64,
    version: u64,
    topics: Topics,
    /// The topics of the last changes, with the versions that they made.
    changes: VecDeque<(u64, TopicKind, Name)>,
    /// The version before the oldest of these.
    changes_from: u64,
    wants_all: bool,
}

/// What another node's clients want, as far as it has announced.
#[derive(Debug, Default)]
struct KnownInterest {
    incarnation: u64,
    version: u64,
    topics: Topics,
    wants_all: bool,
    /// Up to which version it knows of this node.
    acked: u64,
}

/// What all nodes' clients want, as one of them knows it.
#[derive(Debug)]
pub struct Interests {
    own: OwnInterest,
    /// Those that are linked.
    peers: BTreeMap<NodeId, KnownInterest>,
}

impl OwnInterest {
    fn digest(&self) -> InterestMessage {
        let digest = self.announced_digest();
        InterestMessage::Digest { incarnation: self.incarnation, version: self.version, digest }
    }

    /// Of the topics that it announces.
    fn announced_digest(&self) -> u64 {
        if self.wants_all { 0 } else { self.topics.digest }
    }

    fn state(&self) -> InterestMessage {
        InterestMessage::State {
            incarnation: self.incarnation,
            version: self.version,
            digest: self.announced_digest(),
            wants_all: self.wants_all,
            topics: if self.wants_all { Vec::new() } else { self.topics.all() },
        }
    }

    /// What has changed since a version; all, if that is not remembered.
    fn since(&self, from: u64) -> InterestMessage {
        if self.wants_all || from < self.changes_from || from > self.version {
            return self.state();
        }
        let mut changes: BTreeMap<(TopicKind, &Name), u32> = BTreeMap::new();
        for (_, kind, name) in self.changes.iter().rev().take_while(|(made, ..)| *made > from) {
            changes.insert((*kind, name), self.topics.count(*kind, name));
        }
        let changes = changes.into_iter();
        let changes =
            changes.map(|((kind, name), count)| TopicCount { kind, name: name.clone(), count });
        InterestMessage::Delta {
            incarnation: self.incarnation,
            from,
            to: self.version,
            digest: self.announced_digest(),
            changes: changes.collect(),
        }
    }

    /// Takes changes as one version. Whether peers must get the whole state.
    fn change(&mut self, changes: Vec<TopicCount>) -> bool {
        let wanted_all = self.wants_all;
        if !wanted_all {
            self.version += 1;
        }
        for change in changes {
            if !wanted_all {
                self.changes.push_back((self.version, change.kind, change.name.clone()));
            }
            self.topics.set(change);
        }
        let bytes_max = if wanted_all { INTEREST_BYTES_MAX / 2 } else { INTEREST_BYTES_MAX };
        self.wants_all = self.topics.bytes > bytes_max;
        let has_turned = self.wants_all != wanted_all;
        if has_turned {
            self.version += 1;
            self.changes.clear();
            self.changes_from = self.version;
        }
        while self.changes.len() > CHANGES_MAX {
            let made = self.changes.pop_front().map_or(0, |(made, ..)| made);
            self.changes_from = made;
            // A version is remembered whole or not at all.
            while self.changes.front().is_some_and(|(next, ..)| *next == made) {
                self.changes.pop_front();
            }
        }
        has_turned
    }
}

impl Interests {
    /// Those of a node that has just started; a later start must have a larger incarnation.
    pub fn new(incarnation: u64) -> Self {
        let own = OwnInterest {
            incarnation,
            version: 1,
            topics: Topics::default(),
            changes: VecDeque::new(),
            changes_from: 1,
            wants_all: false,
        };
        Self { own, peers: BTreeMap::new() }
    }

    /// So many of this node's clients want these now. Returns the version that says so.
    pub fn change(&mut self, changes: Vec<TopicCount>, out: &mut Outbox) -> u64 {
        let before = self.own.version;
        let message = match self.own.change(changes) {
            true => self.own.state(),
            false if self.own.version == before => return before,
            false => self.own.since(before),
        };
        out.extend(self.peers.keys().map(|node| (*node, message.clone())));
        self.own.version
    }

    /// A node is linked: announces this node's version to it. Nothing is known of it yet.
    pub fn linked(&mut self, node: NodeId, out: &mut Outbox) {
        self.peers.insert(node, KnownInterest::default());
        out.push((node, self.own.digest()));
    }

    /// The link to a node is lost, and with it what was known of it.
    pub fn unlinked(&mut self, node: NodeId) {
        self.peers.remove(&node);
    }

    /// Announces this node's version to all. To be called each second or so.
    pub fn tick(&self, out: &mut Outbox) {
        out.extend(self.peers.keys().map(|node| (*node, self.own.digest())));
    }

    /// Takes a message of a node that is linked.
    pub fn receive(&mut self, from: NodeId, message: InterestMessage, out: &mut Outbox) {
        let Some(known) = self.peers.get_mut(&from) else { return };
        let answer = match message {
            InterestMessage::Pull { incarnation, version } => {
                let is_ours = incarnation == self.own.incarnation;
                Some(if is_ours { self.own.since(version) } else { self.own.state() })
            }
            InterestMessage::Ack { incarnation, version } => {
                if incarnation == self.own.incarnation {
                    known.acked = known.acked.max(version);
                }
                None
            }
            announced => known.take(announced),
        };
        out.extend(answer.map(|answer| (from, answer)));
    }

    /// Up to which of its own versions all linked nodes know this node's topics.
    pub fn known_to_all(&self) -> u64 {
        self.peers.values().map(|known| known.acked).min().unwrap_or(u64::MAX)
    }

    /// Other nodes that want a message to this channel.
    pub fn interested(&self, kind: TopicKind, channel: &[u8]) -> impl Iterator<Item = NodeId> {
        let wants = move |known: &KnownInterest| {
            known.wants_all || known.topics.receivers(kind, channel) > 0
        };
        self.peers.iter().filter(move |(_, known)| wants(known)).map(|(node, _)| *node)
    }

    /// How many messages a message to this channel makes on all nodes, as far as is known here.
    pub fn receivers(&self, kind: TopicKind, channel: &[u8]) -> u64 {
        self.topics().map(|topics| topics.receivers(kind, channel)).sum()
    }

    /// How many clients of all nodes subscribe to this, as far as is known here.
    pub fn subscribers(&self, kind: TopicKind, name: &[u8]) -> u64 {
        self.topics().map(|topics| u64::from(topics.count(kind, name))).sum()
    }

    /// How many clients of this node subscribe to one of a kind.
    pub fn own_subscribers(&self, kind: TopicKind, name: &[u8]) -> u64 {
        u64::from(self.own.topics.count(kind, name))
    }

    /// All names of a kind that clients of any node subscribe to, in order.
    pub fn names(&self, kind: TopicKind) -> Vec<Box<[u8]>> {
        let names = self.topics().flat_map(|topics| topics.counts[kind as usize].keys());
        let names: std::collections::BTreeSet<&Name> = names.collect();
        names.into_iter().cloned().collect()
    }

    /// The names of a kind that clients of this node subscribe to, in order.
    pub fn own_names(&self, kind: TopicKind) -> Vec<Name> {
        self.own.topics.counts[kind as usize].keys().cloned().collect()
    }

    /// How many names of a kind clients of this node subscribe to.
    pub fn own_len(&self, kind: TopicKind) -> usize {
        self.own.topics.counts[kind as usize].len()
    }

    fn topics(&self) -> impl Iterator<Item = &Topics> {
        std::iter::once(&self.own.topics).chain(self.peers.values().map(|known| &known.topics))
    }
}

impl KnownInterest {
    /// Takes what the node announces; the answer.
    fn take(&mut self, announced: InterestMessage) -> Option<InterestMessage> {
        match announced {
            InterestMessage::Digest { incarnation, version, digest } => {
                if self.is_late(incarnation, version) {
                    return None;
                }
                let is_known = self.incarnation == incarnation && self.version == version;
                if is_known && self.topics.digest != digest {
                    self.forget();
                }
                let has_it = is_known && self.version == version;
                Some(if has_it { self.ack() } else { self.pull(incarnation) })
            }
            InterestMessage::Delta { incarnation, from, to, digest, changes } => {
                if self.is_late(incarnation, to) {
                    return None;
                }
                if self.incarnation != incarnation || self.version < from {
                    return Some(self.pull(incarnation));
                }
                if self.version < to {
                    changes.into_iter().for_each(|change| self.topics.set(change));
                    self.version = to;
                    if self.topics.digest != digest {
                        self.forget();
                        return Some(self.pull(incarnation));
                    }
                }
                Some(self.ack())
            }
            InterestMessage::State { incarnation, version, wants_all, topics, .. } => {
                if self.is_late(incarnation, version) {
                    return None;
                }
                let acked = self.acked;
                *self = Self { incarnation, version, wants_all, acked, ..Self::default() };
                topics.into_iter().for_each(|topic| self.topics.set(topic));
                Some(self.ack())
            }
            InterestMessage::Pull { .. } | InterestMessage::Ack { .. } => None,
        }
    }

    /// Whether this was overtaken by what is known.
    fn is_late(&self, incarnation: u64, version: u64) -> bool {
        (incarnation, version) < (self.incarnation, self.version)
    }

    fn forget(&mut self) {
        *self = Self { acked: self.acked, ..Self::default() };
    }

    fn pull(&self, incarnation: u64) -> InterestMessage {
        let version = if self.incarnation == incarnation { self.version } else { 0 };
        InterestMessage::Pull { incarnation, version }
    }

    fn ack(&self) -> InterestMessage {
        InterestMessage::Ack { incarnation: self.incarnation, version: self.version }
    }
}

#[cfg(test)]
mod tests;

//! What one connection subscribes to, and what it is answered when that changes.
//!
//! ```text
//!   SUBSCRIBE a b ──► one confirmation for each name: ["subscribe", name, how many there are now]
//!   UNSUBSCRIBE   ──► one for each that there was; or one without a name
//! ```
//!
//! Confirmations are pushes in RESP3, so a client gets them even if it wants no replies (CLIENT
//! REPLY), as in Redis. Channels and patterns are counted together, shard channels by themselves.

use std::collections::BTreeSet;

use command::{Sink, TopicKind};

use super::writer::RespWriter;

/// Channels, patterns and shard channels that one connection may subscribe to, all together.
pub const SUBSCRIPTIONS_MAX: usize = 65_536;
/// Bytes of their names, all together.
pub const SUBSCRIBED_BYTES_MAX: usize = 4 << 20;

/// The error beyond these bounds.
pub const TOO_MANY_SUBSCRIPTIONS: &str = "ERR a connection subscribes to at most 65536 channels \
                                          and patterns, of 4 MiB together; nothing was done";

/// A name of a channel, or a pattern.
pub type Name = Box<[u8]>;

/// The subscriptions of a connection.
#[derive(Clone, Debug, Default)]
pub struct Subscriptions {
    /// By [`TopicKind`].
    names: [BTreeSet<Name>; 3],
    count: usize,
    bytes: usize,
}

impl Subscriptions {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are of a kind.
    pub fn len(&self, kind: TopicKind) -> usize {
        self.names[kind as usize].len()
    }

    /// Those of a kind, in order.
    pub fn of(&self, kind: TopicKind) -> impl Iterator<Item = &[u8]> {
        self.names[kind as usize].iter().map(|name| &**name)
    }

    /// How many messages a message to a channel makes here.
    pub fn receives(&self, kind: TopicKind, channel: &[u8]) -> usize {
        let by_name = usize::from(self.names[kind as usize].contains(channel));
        let matches = |pattern: &&[u8]| command::topic::matches(pattern, channel);
        let by_pattern = match kind {
            TopicKind::Shard => 0,
            _ => self.of(TopicKind::Pattern).filter(matches).count(),
        };
        by_name + by_pattern
    }

    /// Whether there is room for more of these names.
    pub fn has_room_for(&self, names: &[&[u8]]) -> bool {
        let bytes: usize = names.iter().map(|name| name.len()).sum();
        self.count + names.len() <= SUBSCRIPTIONS_MAX && self.bytes + bytes <= SUBSCRIBED_BYTES_MAX
    }

    /// Subscribes to these, and writes the confirmations. Returns those that are new.
    pub fn add(
        &mut self,
        kind: TopicKind,
        names: &[&[u8]],
        writer: &mut RespWriter<'_>,
    ) -> Vec<Name> {
        let mut added = Vec::new();
        for name in names {
            if self.names[kind as usize].insert((*name).into()) {
                self.count += 1;
                self.bytes += name.len();
                added.push((*name).into());
            }
            let word = ["subscribe", "psubscribe", "ssubscribe"][kind as usize];
            self.confirm(writer, word, Some(name), kind);
        }
        added
    }

    /// Unsubscribes from these, or from all of the kind if none is named, and writes the
    /// confirmations. Returns those that are gone.
    pub fn remove(
        &mut self,
        kind: TopicKind,
        names: &[&[u8]],
        writer: &mut RespWriter<'_>,
    ) -> Vec<Name> {
        let word = ["unsubscribe", "punsubscribe", "sunsubscribe"][kind as usize];
        let names: Vec<Name> = match names {
            [] => self.names[kind as usize].iter().cloned().collect(),
            names => names.iter().map(|name| Name::from(*name)).collect(),
        };
        if names.is_empty() {
            self.confirm(writer, word, None, kind);
        }
        let mut removed = Vec::new();
        for name in names {
            let was_there = self.names[kind as usize].remove(&name);
            if was_there {
                self.count -= 1;
                self.bytes -= name.len();
            }
            self.confirm(writer, word, Some(&name), kind);
            if was_there {
                removed.push(name);
            }
        }
        removed
    }

    fn confirm(
        &self,
        writer: &mut RespWriter<'_>,
        word: &str,
        name: Option<&[u8]>,
        kind: TopicKind,
    ) {
        let count = match kind {
            TopicKind::Shard => self.len(kind),
            _ => self.len(TopicKind::Channel) + self.len(TopicKind::Pattern),
        };
        writer.push(3);
        writer.bulk(word.as_bytes());
        match name {
            Some(name) => writer.bulk(name),
            None => writer.nil(),
        }
        writer.int(count as i64);
    }
}

/// Writes a message as its subscribers get it: those of its channel, or of a pattern.
pub fn write_message(
    writer: &mut RespWriter<'_>,
    kind: TopicKind,
    pattern: Option<&[u8]>,
    channel: &[u8],
    message: &[u8],
) {
    let word = match (pattern, kind) {
        (Some(_), _) => "pmessage",
        (None, TopicKind::Shard) => "smessage",
        (None, _) => "message",
    };
    writer.push(3 + usize::from(pattern.is_some()));
    writer.bulk(word.as_bytes());
    if let Some(pattern) = pattern {
        writer.bulk(pattern);
    }
    writer.bulk(channel);
    writer.bulk(message);
}

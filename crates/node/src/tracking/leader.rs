//! The leader's side: which nodes must hear that a key of its shard has changed?
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | keys registered in one shard | [`KEYS_MAX`] | another key is given up, as if it had changed |
//! | silence of a node | `SILENCE_NANOS` | its stream ends |

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use keyspace::NodeId;
use replication::BootNanos;
use smallvec::SmallVec;

use super::LEASE_NANOS;
use super::changed::ChangedKeys;
use super::message::{StreamId, TrackingMessage};

/// Keys that are registered with one leader.
pub const KEYS_MAX: usize = 1 << 20;
/// A node that was silent for so long has given its stream up.
const SILENCE_NANOS: u64 = 3 * LEASE_NANOS;

/// What a leader says to nodes.
pub type Outbox = Vec<(NodeId, TrackingMessage)>;

/// A key that a node wants to be registered for.
#[derive(Clone, Copy, Debug)]
pub struct KeyInterest<'a> {
    /// The key.
    pub key: &'a [u8],
    /// When its value expires, in ms since 1970; 0: never.
    pub expiry_ms: u64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct LeaderTable {
    /// The leader's own node, as it last registered.
    pub own: Option<NodeId>,
    /// Of the newest stream.
    number: u64,
    streams: BTreeMap<NodeId, Stream>,
    keys: BTreeMap<Box<[u8]>, Registered>,
    /// Those that expire.
    expiries: BTreeSet<(u64, Box<[u8]>)>,
    /// The key that was given up last.
    given_up: Box<[u8]>,
}

#[derive(Debug)]
struct Stream {
    id: StreamId,
    /// The number of its next change.
    next: u64,
    /// Whether it wants all changes.
    wants_all: bool,
    heard_at: BootNanos,
}

#[derive(Debug)]
struct Registered {
    nodes: SmallVec<[NodeId; 2]>,
    expiry_ms: u64,
}

/// When a value counts as changed that expires then, if it is registered now; both in ms since
/// 1970. Zero: never.
///
/// A value that has expired may still be there to a node whose clock is behind. So it counts as
/// changed again, each time after twice as long: a client that saw the value hears of its end.
pub fn changes_at(expiry_ms: u64, now_ms: u64) -> u64 {
    match expiry_ms {
        0 => 0,
        _ if expiry_ms > now_ms => expiry_ms,
        _ => now_ms + (now_ms - expiry_ms).max(1),
    }
}

impl LeaderTable {
    /// Whether nobody is interested in anything.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The keys registered.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Registers a node for keys, and for all changes if it `wants_all`. Returns its stream, and
    /// the number of the next change there.
    pub fn register<'k>(
        &mut self,
        node: NodeId,
        term: u64,
        keys: impl Iterator<Item = KeyInterest<'k>>,
        wants_all: bool,
        now: BootNanos,
        out: &mut Outbox,
    ) -> (StreamId, u64) {
        let number = &mut self.number;
        let stream = self.streams.entry(node).or_insert_with(|| {
            *number += 1;
            let id = StreamId { term, number: *number };
            Stream { id, next: 0, wants_all: false, heard_at: now }
        });
        stream.wants_all |= wants_all;
        stream.heard_at = stream.heard_at.max(now);
        for KeyInterest { key, expiry_ms } in keys {
            let new = || Registered { nodes: SmallVec::new(), expiry_ms };
            let registered = self.keys.entry(key.into()).or_insert_with(new);
            if !registered.nodes.contains(&node) {
                registered.nodes.push(node);
            }
            // It has not changed since another node was registered for it, unless that left it.
            if registered.expiry_ms != expiry_ms {
                self.expiries.remove(&(registered.expiry_ms, key.into()));
                registered.expiry_ms = expiry_ms;
            }
            if expiry_ms > 0 {
                self.expiries.insert((expiry_ms, key.into()));
            }
        }
        self.give_up_excess(out);
        let stream = &self.streams[&node];
        (stream.id, stream.next)
    }

    /// An entry has changed these.
    pub fn changed(&mut self, changed: &ChangedKeys, out: &mut Outbox) {
        if changed.is_any {
            self.keys.clear();
            self.expiries.clear();
            for (node, stream) in &mut self.streams {
                let number = stream.draw_number();
                out.push((*node, TrackingMessage::AnyChanged { stream: stream.id, number }));
            }
        } else if !changed.keys.is_empty() {
            self.tell(changed.keys.iter().map(|key| &**key), out);
        }
    }

    /// It is this late: values that have expired by now count as changed.
    pub fn expire(&mut self, now_ms: u64, out: &mut Outbox) {
        let mut expired = Vec::new();
        while let Some((at, _)) = self.expiries.first()
            && *at <= now_ms
        {
            expired.extend(self.expiries.pop_first().map(|(_, key)| key));
        }
        if !expired.is_empty() {
            self.tell(expired.iter().map(|key| &**key), out);
        }
    }

    /// Tells each node of the keys that it is registered for, and forgets that it is.
    fn tell<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>, out: &mut Outbox) {
        let mut of_node: BTreeMap<NodeId, Vec<Box<[u8]>>> = BTreeMap::new();
        for key in keys {
            let nodes = self.forget(key);
            for (node, stream) in &self.streams {
                if stream.wants_all || nodes.contains(node) {
                    of_node.entry(*node).or_default().push(key.into());
                }
            }
        }
        for (node, keys) in of_node {
            let stream = self.streams.get_mut(&node).expect("it was just found");
            let number = stream.draw_number();
            out.push((node, TrackingMessage::Changed { stream: stream.id, number, keys }));
        }
    }

    fn forget(&mut self, key: &[u8]) -> SmallVec<[NodeId; 2]> {
        let Some((key, Registered { nodes, expiry_ms })) = self.keys.remove_entry(key) else {
            return SmallVec::new();
        };
        if expiry_ms > 0 {
            self.expiries.remove(&(expiry_ms, key));
        }
        nodes
    }

    fn give_up_excess(&mut self, out: &mut Outbox) {
        while self.keys.len() > KEYS_MAX {
            let behind = (Bound::Excluded(&*self.given_up), Bound::Unbounded);
            let next =
                self.keys.range::<[u8], _>(behind).next().or_else(|| self.keys.iter().next());
            let Some(key) = next.map(|(key, _)| key.clone()) else { return };
            self.tell(std::iter::once(&*key), out);
            self.given_up = key;
        }
    }

    /// A node wants its stream confirmed. `is_leased`: nobody else leads.
    pub fn renew(
        &mut self,
        node: NodeId,
        (stream, sent): (StreamId, u64),
        is_leased: bool,
        now: BootNanos,
        out: &mut Outbox,
    ) {
        match self.streams.get_mut(&node).filter(|mine| mine.id == stream) {
            None => out.push((node, TrackingMessage::Ended { stream })),
            Some(mine) => {
                mine.heard_at = now;
                if is_leased {
                    let next = mine.next;
                    out.push((node, TrackingMessage::Alive { stream, next, sent }));
                }
            }
        }
    }

    /// Forgets nodes that have given up.
    pub fn forget_silent(&mut self, now: BootNanos) {
        self.streams.retain(|_, stream| now < stream.heard_at.saturating_add(SILENCE_NANOS));
        if self.streams.is_empty() {
            self.keys.clear();
            self.expiries.clear();
        }
    }

    /// It does not lead any more, or the shard is another by now: all streams end.
    pub fn end(&mut self, out: &mut Outbox) {
        for (node, Stream { id, .. }) in std::mem::take(&mut self.streams) {
            out.push((node, TrackingMessage::Ended { stream: id }));
        }
        self.keys.clear();
        self.expiries.clear();
    }
}

impl Stream {
    fn draw_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

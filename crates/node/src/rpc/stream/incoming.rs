//! The receiving side of streams: which are accepted, and how far each has come.
//!
//! It takes a block only if it is the next of its stream. It takes none twice, and none behind a
//! gap: the sender asks what has arrived, and goes on from there.
//!
//! Invariants:
//! 1. It takes blocks 0, 1, 2, … of each stream, each once, in this order.
//! 2. There is one stream of a shard, the newest.
//! 3. It forgets a stream that was silent for [`GIVE_UP_AFTER`]. Of complete ones it remembers the
//!    number, of the last [`DONE_MAX`].
//!
//! It has no clock: the caller passes the time, and owns what the blocks go into.

use std::collections::{BTreeMap, VecDeque};

use keyspace::{NodeId, ShardId};
use replication::BootNanos;

use super::frame::ReceiverFrame;
use super::outgoing::GIVE_UP_AFTER;

/// The most complete streams that are remembered, so that their senders do not hear that they are
/// lost.
pub const DONE_MAX: usize = 256;

/// A stream: its sender, and its number there.
pub type Name = (NodeId, u64);

/// What the end of a stream has led to.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamEnd<T> {
    /// All blocks are here.
    Complete(T),
    /// Some are missing, or it is not known.
    Incomplete,
}

struct Stream<T> {
    shard: ShardId,
    blocks: u32,
    heard: BootNanos,
    into: T,
}

/// The receiver's side of all streams, each taken into a `T`.
pub struct IncomingStreams<T> {
    streams: BTreeMap<Name, Stream<T>>,
    done: VecDeque<Name>,
}

impl<T> Default for IncomingStreams<T> {
    fn default() -> Self {
        Self { streams: BTreeMap::new(), done: VecDeque::new() }
    }
}

impl<T> IncomingStreams<T> {
    /// Makes way for a stream: what there was of others of its shard is given back.
    pub fn remove_streams_of(&mut self, shard: ShardId) -> Vec<T> {
        let others = self.streams.extract_if(.., |_, stream| stream.shard == shard);
        others.map(|(_, stream)| stream.into).collect()
    }

    /// A stream begins, for which [way is made](Self::remove_streams_of).
    pub fn begin(&mut self, name: Name, shard: ShardId, into: T, now: BootNanos) {
        let is_alone = self.streams.values().all(|stream| stream.shard != shard);
        assert!(is_alone, "two streams of shard {shard}");
        self.streams.insert(name, Stream { shard, blocks: 0, heard: now, into });
    }

    /// A block has come. If it is the next of its stream, it counts as taken, and is to be put
    /// into this.
    pub fn block(&mut self, name: Name, number: u32, now: BootNanos) -> Option<&mut T> {
        let stream = self.streams.get_mut(&name)?;
        stream.heard = now;
        let is_next = number == stream.blocks;
        is_next.then(|| {
            stream.blocks += 1;
            &mut stream.into
        })
    }

    /// What the blocks of a stream are put into.
    pub fn half(&mut self, name: Name) -> Option<&mut T> {
        self.streams.get_mut(&name).map(|stream| &mut stream.into)
    }

    /// A stream has ended after `blocks` blocks. If all are here, the stream is over; the caller
    /// calls [`Self::done`] once its state is installed.
    pub fn end(&mut self, name: Name, blocks: u32) -> StreamEnd<T> {
        match self.streams.get(&name) {
            Some(stream) if stream.blocks == blocks => {
                let stream = self.streams.remove(&name).expect("it was found");
                StreamEnd::Complete(stream.into)
            }
            _ => StreamEnd::Incomplete,
        }
    }

    /// The state of a complete stream is installed.
    pub fn done(&mut self, name: Name) {
        self.done.push_back(name);
        if self.done.len() > DONE_MAX {
            self.done.pop_front();
        }
    }

    /// Nothing more is to be taken of a stream. What there was of it is given back.
    pub fn give_up(&mut self, name: Name) -> Option<T> {
        self.streams.remove(&name).map(|stream| stream.into)
    }

    /// What to answer its sender.
    pub fn answer(&mut self, name: Name, ask: u32, now: BootNanos) -> ReceiverFrame {
        match self.streams.get_mut(&name) {
            Some(stream) => {
                stream.heard = now;
                ReceiverFrame::Has { ask, blocks: stream.blocks }
            }
            None if self.done.contains(&name) => ReceiverFrame::Done,
            None => ReceiverFrame::NotFound,
        }
    }

    /// Streams that are under way.
    pub fn count(&self) -> usize {
        self.streams.len()
    }

    /// Gives up streams that make no progress; returns what they had.
    pub fn expire(&mut self, now: BootNanos) -> Vec<(Name, T)> {
        let is_late = |_: &Name, stream: &mut Stream<T>| now >= stream.heard + GIVE_UP_AFTER;
        let late = self.streams.extract_if(.., is_late);
        late.map(|(name, stream)| (name, stream.into)).collect()
    }
}

//! The receiving side: which streams are taken in, and when is a state installed?
//!
//! Example: a stream begins, and its replica wants it. Half of an older stream of the same shard is
//! removed first, for its file may have the same name. Blocks are written and confirmed. At the end
//! the state waits until no round of checkpoints is under way, and is installed. Only then is the
//! sender told that it is done.
//!
//! Invariants:
//! 1. What is installed are all blocks of one stream, in their order
//!    ([`crate::rpc::stream::incoming`]).
//! 2. Of one shard there is one stream that comes in, the newest, or one state that is installed.
//! 3. Each beginning and each end is answered, or the sender asks.
//!
//! Pure: time is given. What blocks are written into is a `T` of the driver's, and `B` is what it
//! needs to begin one.

use std::collections::VecDeque;

use bytes::Bytes;
use keyspace::ShardId;
use replication::{BootNanos, Message};

use crate::rpc::stream::frame::{ReceiverFrame, SenderFrame};
use crate::rpc::stream::incoming::{IncomingStreams, Name, StreamEnd};

/// What a stream begins with.
#[derive(Debug)]
pub struct StreamStart {
    /// The message that heads it.
    pub head: Box<Message>,
    /// The checkpoint's meta.
    pub meta: Bytes,
}

/// What the receiver wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect<T, B = StreamStart> {
    /// Look whether the replica wants the state: [`SnapshotReceiver::inspected`] or
    /// [`SnapshotReceiver::failed`].
    Inspect(Name, ShardId, B),
    /// Begin a file: [`SnapshotReceiver::created`] or [`SnapshotReceiver::failed`].
    Create(Name, ShardId, B),
    /// Tell the replica that this one is not taken.
    Decline(ShardId, B),
    /// Write a block into [`SnapshotReceiver::half`]: [`SnapshotReceiver::written`] or
    /// [`SnapshotReceiver::failed`].
    Write(Name, Bytes),
    /// Remove what there is of a stream.
    Abandon(T),
    /// Answer the sender.
    Answer(Name, ReceiverFrame),
}

/// See the module's documentation.
pub struct SnapshotReceiver<T, B = StreamStart> {
    coming: IncomingStreams<ReceivedPart<T>>,
    /// All blocks are here, and they wait to be installed.
    complete: VecDeque<(Name, ReceivedPart<T>)>,
    installing: Option<(Name, ShardId)>,
    effects: VecDeque<Effect<T, B>>,
}

struct ReceivedPart<T> {
    shard: ShardId,
    into: T,
}

impl<T, B> Default for SnapshotReceiver<T, B> {
    fn default() -> Self {
        let (coming, complete, installing, effects) = Default::default();
        Self { coming, complete, installing, effects }
    }
}

impl<T> SnapshotReceiver<T> {
    /// Handles a frame from the sender of a stream.
    pub fn frame(&mut self, name: Name, sent: SenderFrame, now: BootNanos) {
        match sent {
            SenderFrame::Begin { shard, head, meta } => {
                self.begins(name, shard, StreamStart { head, meta })
            }
            SenderFrame::Block { number, block } => self.block(name, number, block, now),
            SenderFrame::End { blocks } => self.end(name, blocks),
            SenderFrame::Ask { ask } => self.asked(name, ask, now),
        }
    }
}

impl<T, B> SnapshotReceiver<T, B> {
    /// The next effect, oldest first.
    pub fn next_effect(&mut self) -> Option<Effect<T, B>> {
        self.effects.pop_front()
    }

    /// A stream begins.
    pub fn begins(&mut self, name: Name, shard: ShardId, beginning: B) {
        // A state that waits to be installed may have a file of the same name.
        self.effects.push_back(match self.installs(shard) {
            true => Effect::Answer(name, ReceiverFrame::NotFound),
            false => Effect::Inspect(name, shard, beginning),
        });
    }

    /// Whether a state of this shard is complete and not installed yet.
    fn installs(&self, shard: ShardId) -> bool {
        let mut complete = self.complete.iter().map(|(_, half)| half.shard);
        self.installing.is_some_and(|(_, other)| other == shard) || complete.any(|s| s == shard)
    }

    /// Whether the replica wants what begins.
    pub fn inspected(&mut self, name: Name, shard: ShardId, beginning: B, is_wanted: bool) {
        if !is_wanted {
            self.effects.push_back(Effect::Decline(shard, beginning));
            return self.effects.push_back(Effect::Answer(name, ReceiverFrame::NotFound));
        }
        // Before there is a file of, perhaps, the same name.
        let older = self.coming.remove_streams_of(shard).into_iter();
        self.effects.extend(older.map(|half| Effect::Abandon(half.into)));
        self.effects.push_back(Effect::Create(name, shard, beginning));
    }

    /// The driver has created the file of a stream.
    pub fn created(&mut self, name: Name, shard: ShardId, into: T, now: BootNanos) {
        self.coming.begin(name, shard, ReceivedPart { shard, into }, now);
    }

    /// A stream cannot be taken.
    pub fn failed(&mut self, name: Name) {
        let half = self.coming.give_up(name);
        self.effects.extend(half.map(|half| Effect::Abandon(half.into)));
        self.effects.push_back(Effect::Answer(name, ReceiverFrame::NotFound));
    }

    /// A block has come.
    pub fn block(&mut self, name: Name, number: u32, block: Bytes, now: BootNanos) {
        if self.coming.block(name, number, now).is_some() {
            self.effects.push_back(Effect::Write(name, block));
        }
    }

    /// What the blocks of a stream are written into.
    pub fn half(&mut self, name: Name) -> Option<&mut T> {
        self.coming.half(name).map(|half| &mut half.into)
    }

    /// A block is written.
    pub fn written(&mut self, name: Name, now: BootNanos) {
        // The number 0 answers no question.
        let reply = self.coming.answer(name, 0, now);
        self.effects.push_back(Effect::Answer(name, reply));
    }

    /// The sender asks what there is.
    pub fn asked(&mut self, name: Name, ask: u32, now: BootNanos) {
        // While it waits to be installed, it is neither coming nor done.
        let waits = self.complete.iter().any(|(other, _)| *other == name);
        if !waits && self.installing.is_none_or(|(other, _)| other != name) {
            let reply = self.coming.answer(name, ask, now);
            self.effects.push_back(Effect::Answer(name, reply));
        }
    }

    /// A stream has ended after `blocks` blocks.
    pub fn end(&mut self, name: Name, blocks: u32) {
        if let StreamEnd::Complete(half) = self.coming.end(name, blocks) {
            self.complete.push_back((name, half));
        }
    }

    /// The oldest state that waits to be installed, if none is being installed. Say
    /// [`Self::installed`].
    pub fn take_complete(&mut self) -> Option<T> {
        if self.installing.is_some() {
            return None;
        }
        let (name, ReceivedPart { shard, into }) = self.complete.pop_front()?;
        self.installing = Some((name, shard));
        Some(into)
    }

    /// What was taken last by [`Self::take_complete`] is installed, or is of no use any more.
    ///
    /// # Panics
    /// If nothing was.
    pub fn installed(&mut self, is_installed: bool) {
        let (name, _) = self.installing.take().expect("it was taken");
        if is_installed {
            self.coming.done(name);
        }
        let reply = if is_installed { ReceiverFrame::Done } else { ReceiverFrame::NotFound };
        self.effects.push_back(Effect::Answer(name, reply));
    }

    /// Whether a state is complete and not installed yet.
    pub fn has_complete(&self) -> bool {
        !self.complete.is_empty() || self.installing.is_some()
    }

    /// Gives up streams that make no progress; returns their names.
    pub fn expire(&mut self, now: BootNanos) -> Vec<(Name, ShardId)> {
        let late = self.coming.expire(now);
        let names = late.iter().map(|(name, half)| (*name, half.shard)).collect();
        self.effects.extend(late.into_iter().map(|(_, half)| Effect::Abandon(half.into)));
        names
    }

    /// Streams that come in.
    pub fn count(&self) -> usize {
        self.coming.count()
    }
}

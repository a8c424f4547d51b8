//! Bounds the memory that one connection's writes under way may take beyond the bytes it has sent.
//!
//! A few bytes can ask for many: GETSET, GETDEL and GETEX reply a stored value, and thousands of
//! them fit into the queue of replies owed; COPY and SETRANGE store more than they carry. So the
//! loop looks up how much a write may take before it proposes it. The write waits for earlier
//! replies if all together take too much, or if writes under way make the need unknown. Writes of
//! other connections at that moment are not counted.

use std::collections::VecDeque;

use super::OUTPUT_PAUSE_BYTES;
use super::connection::Connection;

/// Of one write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryNeed {
    /// By how much it makes some value longer at most, as values can be seen now.
    pub lengthens_bytes: u64,
    /// How long the stored value in its reply is at most.
    pub reply_bytes: u64,
    /// What it adds to memory, if that is much and not sent by the client.
    pub adds_bytes: u64,
    /// Whether it copies a value from another key.
    pub copies: bool,
    /// By how much values may be longer when it is done than can be seen now.
    pub unseen_bytes: u64,
}

impl MemoryNeed {
    /// What a write adds is counted from here on.
    pub const ADDS_BYTES_MIN: u64 = 64 << 10;

    /// Whether it must wait for the replies owed before it.
    #[inline]
    pub fn must_wait(&self, connection: &Connection) -> bool {
        let owed = connection.takes.reply_bytes + self.reply_bytes;
        let too_long = self.reply_bytes > 0 && owed > OUTPUT_PAUSE_BYTES as u64;
        let unknown = self.copies && self.unseen_bytes > Self::ADDS_BYTES_MIN;
        (too_long || unknown) && !connection.pending.is_empty()
    }
}

/// Of all writes that are not answered.
#[derive(Debug, Default)]
pub(super) struct PendingMemoryNeeds {
    lengthens_bytes: u64,
    reply_bytes: u64,
    /// What those add that add much: the number of the reply, and bytes.
    adds: VecDeque<(u32, u64)>,
    /// What those of them have added that were answered since [`Self::take_added`].
    added_bytes: u64,
}

impl PendingMemoryNeeds {
    /// A write that takes nothing, behind these.
    pub fn none(&self) -> MemoryNeed {
        MemoryNeed { unseen_bytes: self.lengthens_bytes, ..MemoryNeed::default() }
    }

    /// One more is on its way: the one whose reply has this number.
    #[inline]
    pub fn add(&mut self, number: u32, takes: &MemoryNeed) {
        self.lengthens(takes.lengthens_bytes);
        self.reply_bytes += takes.reply_bytes;
        if takes.adds_bytes > 0 {
            self.adds.push_back((number, takes.adds_bytes));
        }
    }

    /// Some value may become longer by so much.
    #[inline]
    pub fn lengthens(&mut self, bytes: u64) {
        self.lengthens_bytes = self.lengthens_bytes.saturating_add(bytes);
    }

    /// The oldest reply owed was written; it had this number. A client that pipelines without pause
    /// is owed a reply at every moment, so this cannot wait for [`Self::all_are_answered`].
    #[inline]
    pub fn is_answered(&mut self, number: u32) {
        if let Some((_, bytes)) = self.adds.pop_front_if(|(of, _)| *of == number) {
            self.added_bytes += bytes;
        }
    }

    /// Nothing is owed any more.
    #[inline]
    pub fn all_are_answered(&mut self) {
        (self.lengthens_bytes, self.reply_bytes) = (0, 0);
    }

    /// What the writes that are answered have added, once.
    pub fn take_added(&mut self) -> u64 {
        std::mem::take(&mut self.added_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_need_shrinks_reply_by_reply() {
        let mut owed = PendingMemoryNeeds::default();
        let adds = |adds_bytes| MemoryNeed { adds_bytes, ..MemoryNeed::default() };
        owed.add(7, &adds(70));
        owed.add(8, &adds(0));
        owed.add(9, &adds(90));
        owed.is_answered(7);
        assert_eq!(owed.take_added(), 70, "though others are owed still");
        owed.is_answered(8);
        assert_eq!(owed.take_added(), 0);
        owed.is_answered(9);
        owed.all_are_answered();
        assert_eq!((owed.take_added(), owed.take_added()), (90, 0));
    }
}

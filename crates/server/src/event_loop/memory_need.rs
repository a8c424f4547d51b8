//! Bounds the memory that one connection's writes under way may take beyond the bytes it has sent.
//!
//! A few bytes can ask for many: GETSET, GETDEL and GETEX reply a stored value, and thousands of
//! them fit into the queue of replies owed; COPY and SETRANGE store more than they carry. So the
//! loop looks up how much a write may take before it proposes it. The write waits for earlier
//! replies if all together take too much, or if writes under way make the need unknown. Writes of
//! other connections at that moment are not counted.
//!
//! Reads that join the log are replied to like such writes. How long the values of another node's
//! shard are is not known here: they count as what came last. So what has come and waits for
//! earlier replies is counted, too: an answer that is too long is dropped, and its key read again
//! when the reply is the oldest.

use std::collections::VecDeque;

use command::transaction::REPLY_BYTES_MAX;

use super::OUTPUT_PAUSE_BYTES;
use super::connection::{Connection, is_at_most};
use crate::runtime::growth::Reservation;

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

/// What a value is taken to have whose shard is another node's, before one has come.
const UNSEEN_VALUE_BYTES: u64 = 1 << 10;

/// Of all writes that are not answered, and of reads that have joined the log.
#[derive(Debug, Default)]
pub(super) struct PendingMemoryNeeds {
    lengthens_bytes: u64,
    reply_bytes: u64,
    /// The needs of single replies, where there are some.
    owed: VecDeque<OwedNeed>,
    /// What the answers take that have come for reads and wait for replies before theirs.
    held_bytes: u64,
    /// About what the longest of the last answers of joined reads had.
    answer_bytes: u64,
}

/// Of one reply owed.
#[derive(Debug)]
struct OwedNeed {
    /// The number of the reply.
    number: u32,
    reply_bytes: u64,
    _reservation: Reservation,
}

impl PendingMemoryNeeds {
    /// A write that takes nothing, behind these.
    pub fn none(&self) -> MemoryNeed {
        MemoryNeed { unseen_bytes: self.lengthens_bytes, ..MemoryNeed::default() }
    }

    /// One more is on its way: the one whose reply has this number.
    #[inline]
    pub fn add(&mut self, number: u32, takes: &MemoryNeed, reservation: Reservation) {
        self.lengthens(takes.lengthens_bytes);
        if takes.reply_bytes > 0 || !reservation.is_empty() {
            self.reply_bytes += takes.reply_bytes;
            let reply_bytes = takes.reply_bytes;
            self.owed.push_back(OwedNeed { number, reply_bytes, _reservation: reservation });
        }
    }

    /// About how long a value is that this node does not hold.
    pub fn unseen_value_bytes(&self) -> u64 {
        if self.answer_bytes == 0 { UNSEEN_VALUE_BYTES } else { self.answer_bytes }
    }

    /// The answer of a read that has joined takes so many bytes, and waits for replies before its
    /// own. `false` if it must not be held, for all would take too much. More may be held if the
    /// read cannot be done again.
    pub fn hold(&mut self, bytes: u64, can_repeat: bool) -> bool {
        self.answer_bytes = bytes.max(self.answer_bytes - self.answer_bytes / 16);
        let held_bytes_max = if can_repeat { OUTPUT_PAUSE_BYTES as u64 } else { REPLY_BYTES_MAX };
        let holds = self.held_bytes + bytes <= held_bytes_max;
        self.held_bytes += if holds { bytes } else { 0 };
        holds
    }

    /// Such an answer is written or dropped.
    pub fn release(&mut self, bytes: u64) {
        self.held_bytes -= bytes;
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
        // A read that joins late may stand behind a later command.
        let is_due = |need: &mut OwedNeed| is_at_most(need.number, number);
        while let Some(need) = self.owed.pop_front_if(is_due) {
            self.reply_bytes -= need.reply_bytes;
        }
    }

    /// Nothing is owed any more.
    #[inline]
    pub fn all_are_answered(&mut self) {
        (self.lengthens_bytes, self.reply_bytes, self.held_bytes) = (0, 0, 0);
        self.owed.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::runtime::growth::Growth;

    #[test]
    fn memory_need_shrinks_reply_by_reply() {
        let growth = Arc::new(Growth::default());
        let mut owed = PendingMemoryNeeds::default();
        let reserve = |bytes| growth.ask(bytes, 0, 1000).expect("there is room");
        let takes = MemoryNeed { reply_bytes: 10, ..MemoryNeed::default() };
        owed.add(7, &MemoryNeed::default(), reserve(70));
        owed.add(8, &takes, Reservation::default());
        owed.add(9, &takes, reserve(90));
        owed.is_answered(7);
        assert_eq!(growth.reserved_bytes(), 90, "though others are owed still");
        owed.is_answered(8);
        assert_eq!((growth.reserved_bytes(), owed.reply_bytes), (90, 10));
        owed.is_answered(9);
        assert_eq!((growth.reserved_bytes(), owed.reply_bytes), (0, 0));
        owed.add(11, &takes, reserve(100));
        owed.add(10, &takes, Reservation::default());
        (10..=11).for_each(|number| owed.is_answered(number));
        assert_eq!((growth.reserved_bytes(), owed.reply_bytes), (0, 0), "a read has joined late");
        owed.add(10, &takes, reserve(100));
        owed.all_are_answered();
        assert_eq!((growth.reserved_bytes(), owed.reply_bytes), (0, 0), "a command runs again");
        owed.add(11, &takes, reserve(110));
        drop(owed);
        assert_eq!(growth.reserved_bytes(), 0, "the connection is gone");
    }

    #[test]
    fn answers_that_wait_are_bounded() {
        let mut owed = PendingMemoryNeeds::default();
        let most = OUTPUT_PAUSE_BYTES as u64;
        assert_eq!(owed.unseen_value_bytes(), UNSEEN_VALUE_BYTES);
        assert!(owed.hold(most - 10, true) && !owed.hold(11, true) && owed.hold(10, true));
        assert!(owed.hold(11, false), "it cannot be read again");
        assert!(!owed.hold(REPLY_BYTES_MAX, false));
        assert_eq!(owed.unseen_value_bytes(), REPLY_BYTES_MAX, "the next may be as long");
        owed.release(most);
        assert!(owed.hold(100, true));
        for _ in 0..400 {
            owed.release(100);
            assert!(owed.hold(100, true));
        }
        assert!(owed.unseen_value_bytes() < 200, "all are short by now");
    }
}

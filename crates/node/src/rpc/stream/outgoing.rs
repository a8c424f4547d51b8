//! The sending side of a stream: what to send next, and what to keep until it has arrived.
//!
//! ```text
//!     confirmed      next            made              the checkpoint's cursor
//!         │            │               │               │
//!    …────┼────────────┼───────────────┼───────────────┼─ ─ ─ ─ ─ ─
//!         │◄── sent ──►│◄─ sent once? ►│   not made yet
//!         │◄──────────── kept ────────►│
//! ```
//!
//! A question is a fence: the sender sends nothing behind it until it is answered. The receiver
//! handles frames in the order in which they were sent. So its answer tells exactly which blocks
//! have arrived and which are lost, and the stream goes on from there. The sender asks when a link
//! comes up. It also asks when it has nothing to send, or may not send, and has heard nothing for
//! [`ASK_AFTER`].
//!
//! A stream may be *paused*: its blocks wait for the [`pace`](super::pace) of the node, longer than
//! any request timeout perhaps. Meanwhile it asks now and then, because the receiver gives up a
//! silent stream. Its own timeout begins when it may send again.
//!
//! Invariants:
//! 1. Blocks below `confirmed` are with the receiver, and the sender never sends them again.
//! 2. The blocks in memory stay below the limit and one block.
//! 3. A sender gives up a stream whose `confirmed` stands still for [`GIVE_UP_AFTER`], if all that
//!    time a block was not confirmed, a question was not answered, or there was no link.
//!
//! It has no clock: the caller passes the time.

use std::collections::VecDeque;
use std::mem;

use replication::BootNanos;

/// How long a stream may get nowhere, with a link or without, until both sides give it up, in
/// nanoseconds.
pub const GIVE_UP_AFTER: u64 = 30_000_000_000;
/// The sender asks a receiver that has been silent for so long what it has, in nanoseconds.
pub const ASK_AFTER: u64 = 1_000_000_000;

/// What the driver does next for a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum SendAction {
    /// Another block is to be made: [`OutgoingStream::made`], or [`OutgoingStream::finish_blocks`].
    Make,
    /// A block is to be sent: [`OutgoingStream::block`].
    Block(u32),
    /// The end is to be sent, behind so many blocks.
    End(u32),
    /// The receiver is to be asked, by this number.
    Ask(u32),
    /// Nothing at present.
    Nothing,
    /// A block is ready, but the stream is paused.
    Paused,
    /// It gets nowhere: it is over.
    GiveUp,
}

/// An impossible answer of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProgress {
    /// More than there is.
    #[error("the receiver has {has} blocks of the {made} that there are")]
    TooMany {
        /// What it claims.
        has: u32,
        /// What was made.
        made: u32,
    },
    /// Less than it had.
    #[error("the receiver has {has} blocks and had {had}")]
    TooFew {
        /// What it claims.
        has: u32,
        /// What it had claimed.
        had: u32,
    },
}

#[derive(Debug)]
enum LinkState {
    Open,
    /// Behind a question that was asked at this time, or is still to be.
    Asking {
        link_lost: bool,
        asked: Option<BootNanos>,
    },
    /// There is no link.
    Closed,
}

/// The sender's side of a stream.
#[derive(Debug)]
pub struct OutgoingStream {
    /// Blocks from `confirmed` on.
    unconfirmed: VecDeque<Vec<u8>>,
    unconfirmed_bytes: usize,
    unconfirmed_bytes_max: usize,
    confirmed: u32,
    next: u32,
    /// There will be no more blocks.
    is_whole: bool,
    end_sent: bool,
    link: LinkState,
    /// Number of the last question.
    ask: u32,
    confirmed_at: BootNanos,
    /// When something was sent or heard.
    active_at: BootNanos,
    /// The buffer of a block that is confirmed, for the next.
    spare: Vec<u8>,
}

impl OutgoingStream {
    /// A stream whose beginning has been sent.
    pub fn new(unconfirmed_bytes_max: usize, now: BootNanos) -> Self {
        Self {
            unconfirmed: VecDeque::new(),
            unconfirmed_bytes: 0,
            unconfirmed_bytes_max,
            confirmed: 0,
            next: 0,
            is_whole: false,
            end_sent: false,
            link: LinkState::Open,
            ask: 0,
            confirmed_at: now,
            active_at: now,
            spare: Vec::new(),
        }
    }

    /// The next action; no block if the stream `is_paused`. Once it is done, call [`Self::sent`].
    pub fn due(&mut self, is_paused: bool, now: BootNanos) -> SendAction {
        if now >= self.confirmed_at + GIVE_UP_AFTER {
            return SendAction::GiveUp;
        }
        let is_quiet = now >= self.active_at + ASK_AFTER;
        match self.link {
            LinkState::Closed => SendAction::Nothing,
            LinkState::Asking { asked: None, .. } => SendAction::Ask(self.ask),
            LinkState::Asking { .. } if is_quiet => SendAction::Ask(self.ask),
            LinkState::Asking { .. } => SendAction::Nothing,
            LinkState::Open if is_paused && self.next < self.made_blocks() => {
                if self.next == self.confirmed {
                    // The receiver has done all that was asked of it.
                    self.confirmed_at = now;
                }
                if is_quiet { self.ask_again() } else { SendAction::Paused }
            }
            LinkState::Open if self.next < self.made_blocks() => SendAction::Block(self.next),
            LinkState::Open
                if !self.is_whole && self.unconfirmed_bytes < self.unconfirmed_bytes_max =>
            {
                SendAction::Make
            }
            LinkState::Open if self.is_whole && !self.end_sent => {
                SendAction::End(self.made_blocks())
            }
            LinkState::Open if is_quiet => self.ask_again(),
            LinkState::Open => SendAction::Nothing,
        }
    }

    /// The link is there, but the receiver was silent.
    fn ask_again(&mut self) -> SendAction {
        self.fence(false);
        SendAction::Ask(self.ask)
    }

    /// A block in memory.
    pub fn block(&self, number: u32) -> &[u8] {
        &self.unconfirmed[(number - self.confirmed) as usize]
    }

    /// A buffer for the next block.
    pub fn buffer(&mut self) -> Vec<u8> {
        mem::take(&mut self.spare)
    }

    /// The next block.
    pub fn made(&mut self, block: Vec<u8>) {
        assert!(!self.is_whole, "a block behind the last");
        self.unconfirmed_bytes += block.len();
        self.unconfirmed.push_back(block);
    }

    /// All blocks are made.
    pub fn finish_blocks(&mut self) {
        self.is_whole = true;
    }

    /// The action that was [due](Self::due) is done.
    pub fn sent(&mut self, due: &SendAction, now: BootNanos) {
        match (due, &mut self.link) {
            (SendAction::Block(number), LinkState::Open) => self.next = number + 1,
            (SendAction::End(_), LinkState::Open) => self.end_sent = true,
            (SendAction::Ask(_), LinkState::Asking { asked, .. }) => *asked = Some(now),
            _ => unreachable!("{due:?} was not due"),
        }
        self.active_at = now;
    }

    /// The link has come up or was lost. Frames on the link before may be lost.
    pub fn set_link(&mut self, is_up: bool) {
        match is_up {
            true => self.fence(true),
            false => self.link = LinkState::Closed,
        }
    }

    /// Whether there is a link, as the driver reported.
    pub fn is_linked(&self) -> bool {
        !matches!(self.link, LinkState::Closed)
    }

    /// The receiver reports that it has the blocks below `blocks`. `ask` is the question's number,
    /// or 0 if unasked. Returns whether blocks or the link were lost.
    ///
    /// # Errors
    /// [`InvalidProgress`]; the stream is to be given up.
    pub fn on_progress(
        &mut self,
        ask: u32,
        blocks: u32,
        now: BootNanos,
    ) -> Result<bool, InvalidProgress> {
        let made = self.made_blocks();
        if blocks > made {
            return Err(InvalidProgress::TooMany { has: blocks, made });
        }
        let had = self.confirmed;
        while self.confirmed < blocks {
            let block = self
                .unconfirmed
                .pop_front()
                .expect("a block that is made and not confirmed is in memory");
            self.unconfirmed_bytes -= block.len();
            self.spare = block;
            self.confirmed += 1;
            self.confirmed_at = now;
        }
        self.next = self.next.max(self.confirmed);
        self.active_at = now;
        let LinkState::Asking { link_lost, .. } = self.link else { return Ok(false) };
        if ask != self.ask {
            return Ok(false);
        }
        if blocks < had {
            return Err(InvalidProgress::TooFew { has: blocks, had });
        }
        let has_lost = link_lost || blocks < self.next;
        self.next = blocks;
        self.end_sent = false;
        self.link = LinkState::Open;
        Ok(has_lost)
    }

    /// From here on nothing is sent until a new question is answered.
    fn fence(&mut self, link_lost: bool) {
        self.ask += 1;
        self.link = LinkState::Asking { link_lost, asked: None };
    }

    fn made_blocks(&self) -> u32 {
        self.confirmed + self.unconfirmed.len() as u32
    }
}

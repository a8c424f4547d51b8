//! Inline peer polling: an event loop (the *attendant* below) runs the net's turns itself.
//!
//! ```text
//!   no attendant       peer thread:  waits for sockets ─► turn ─► waits …
//!
//!   an attendant       attendant:    its poll includes the net's ─► turn, between its other work
//!                      peer thread:  sleeps; at every tick a turn that does not wait
//! ```
//!
//! With few processors, a separate thread for links costs more than it gives: it must wake another
//! thread for each input, and both send by themselves. An attendant reads and sends for both in one
//! turn.
//!
//! The peer thread still looks at every tick. It runs timers, and keeps links alive while the
//! attendant does something long. If there was input, and the attendant has run no turn since, the
//! peer thread looks again after `LATE_PAUSE`. An attendant never waits for a turn under way: it
//! sets a flag, and the running thread adds a turn.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::links::{PeerHandler, Shared};
use super::thread::{PeerThread, TurnOutcome};

/// How often the peer thread takes a turn while an attendant that should is late.
const LATE_PAUSE: Duration = Duration::from_millis(1);

/// See the front page.
pub(super) struct PollTurns {
    shared: Arc<Shared>,
    /// The thread that holds this lock runs a turn. None when the net has ended …
    running: Mutex<Option<(PeerThread, Arc<dyn PeerHandler>)>>,
    /// … which is said here.
    over: AtomicBool,
    /// When the last turn wants the next one, in nanoseconds from then.
    tick_nanos: AtomicU64,
    /// A turn was asked for while one was under way.
    again: AtomicBool,
    has_inline_poller: AtomicBool,
    /// Turns that an attendant has begun.
    inline_turns: AtomicU64,
    poll: RawFd,
}

impl PollTurns {
    /// Of a net that is about to be started.
    pub fn new(thread: PeerThread, shared: Arc<Shared>, handler: Arc<dyn PeerHandler>) -> Self {
        let poll = thread.poll();
        let tick_nanos = AtomicU64::new(thread.tick().as_nanos() as u64);
        let running = Mutex::new(Some((thread, handler)));
        let (over, again, has_inline_poller, inline_turns) = Default::default();
        Self { shared, running, over, tick_nanos, again, has_inline_poller, inline_turns, poll }
    }

    /// The peer thread: returns when the net has ended.
    pub fn run(&self) {
        while !self.is_over() {
            if self.has_inline_poller() {
                let tick = self.tick_nanos.load(Ordering::SeqCst);
                thread::park_timeout(Duration::from_nanos(tick));
                self.poll_if_late();
            } else {
                self.turn(true);
            }
        }
    }

    /// A stop is seen through by the peer thread.
    fn has_inline_poller(&self) -> bool {
        self.has_inline_poller.load(Ordering::SeqCst)
            && !self.shared.stopping.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Runs a turn. If another thread runs one, that thread runs one more instead; with `waits`
    /// this waits for it, and for sockets. Whether the handler was called.
    fn turn(&self, waits: bool) -> bool {
        let mut delivered = false;
        self.again.store(true, Ordering::SeqCst);
        // Either this finds the lock free, or who has it finds the word when he has let go of it.
        fence(Ordering::SeqCst);
        while self.again.load(Ordering::SeqCst) {
            let running = match waits {
                true => Some(self.running.lock()),
                false => self.running.try_lock(),
            };
            let Some(mut running) = running else { return delivered };
            self.again.store(false, Ordering::SeqCst);
            let Some((thread, handler)) = &mut *running else { return delivered };
            // With an attendant it waits for nothing, from when that begins on.
            match thread.turn(&**handler, waits && !self.has_inline_poller()) {
                TurnOutcome::Delivered => delivered = true,
                TurnOutcome::Quiet => {}
                // The handler may own the net: neither would ever go.
                TurnOutcome::Last => {
                    *running = None;
                    self.over.store(true, Ordering::SeqCst);
                    return delivered;
                }
            }
            self.tick_nanos.store(thread.tick().as_nanos() as u64, Ordering::SeqCst);
            // What was left for the next turn makes no edge.
            if thread.has_more() && self.has_inline_poller() {
                self.shared.wake();
            }
            drop(running);
            fence(Ordering::SeqCst);
        }
        delivered
    }

    /// The peer thread, while another attends.
    fn poll_if_late(&self) {
        let before = self.inline_turns.load(Ordering::SeqCst);
        let mut late = self.turn(false);
        while late && self.has_inline_poller() && self.inline_turns.load(Ordering::SeqCst) == before
        {
            // One who only sleeps, and was outrun, is not late any more when he has taken a turn.
            // Each of these turns takes the last ring with it, and he may have slept through that.
            self.shared.wake();
            thread::park_timeout(LATE_PAUSE);
            self.turn(false);
            late = !self.is_over();
        }
    }
}

/// Takes a net's turns as long as it lives, see [`super::PeerNet::poll_inline`].
pub struct InlinePoller {
    turns: Arc<PollTurns>,
    peer_thread: thread::Thread,
}

impl InlinePoller {
    pub(super) fn new(turns: Arc<PollTurns>, peer_thread: thread::Thread) -> Self {
        let has_inline_poller = turns.has_inline_poller.swap(true, Ordering::SeqCst);
        assert!(!has_inline_poller, "a net has one attendant");
        // Out of its poll.
        turns.shared.wake();
        Self { turns, peer_thread }
    }

    /// Reads all links, calls the handler, and writes the frames that it has sent, without waiting.
    /// Call it soon after the net's poll has become readable.
    pub fn turn(&self) {
        self.turns.inline_turns.fetch_add(1, Ordering::SeqCst);
        self.turns.turn(false);
    }
}

/// The net's poll: readable when there is something to do. Not to be used when the net has ended.
impl AsRawFd for InlinePoller {
    fn as_raw_fd(&self) -> RawFd {
        self.turns.poll
    }
}

impl Drop for InlinePoller {
    fn drop(&mut self) {
        self.turns.has_inline_poller.store(false, Ordering::SeqCst);
        self.peer_thread.unpark();
    }
}

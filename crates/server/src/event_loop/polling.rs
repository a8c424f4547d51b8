//! How a loop waits for sockets, its mailbox and timers, and how long it spins before it sleeps.

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Token};

use super::{EventLoop, LISTENERS, PEERS, SWEEP};

/// How long a loop polls before it sleeps, and how short a sleep must have been for that.
const SPIN: Duration = Duration::from_micros(50);

impl EventLoop {
    /// Has the poll tell of new connections.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        self.listeners.iter_mut().enumerate().try_for_each(|(place, (_, socket))| {
            registry.register(socket, Token(LISTENERS + place), Interest::READABLE)
        })
    }

    /// A node's only loop polls peers too: with so few processors, a thread of its own for peers
    /// would cost the loop more than it gives.
    pub(super) fn poll_inline(&mut self) -> io::Result<()> {
        let Some(peers) =
            self.runtime.peers.as_ref().filter(|_| self.runtime.delivery.mailboxes.len() == 1)
        else {
            return Ok(());
        };
        self.inline_poller = peers.cluster.poll_inline();
        let poll = self.inline_poller.as_ref().map(AsRawFd::as_raw_fd);
        poll.map_or(Ok(()), |poll| {
            self.poll.registry().register(&mut SourceFd(&poll), PEERS, Interest::READABLE)
        })
    }

    /// Polls without sleeping for a little while, if the last sleep was short: to be woken costs a
    /// client more than to find the loop awake. Whether there is something to do.
    fn spin(&mut self, events: &mut Events) -> io::Result<bool> {
        if !self.spins {
            return Ok(false);
        }
        let mailbox = &self.runtime.delivery.mailboxes[self.number];
        let mut until = None;
        loop {
            match self.poll.poll(events, Some(Duration::ZERO)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ if !events.is_empty() || mailbox.has_mail() => return Ok(true),
                _ => {}
            }
            // A loop with much to do does not come here, and reads no clock for it.
            let now = Instant::now();
            if now >= *until.get_or_insert(now + SPIN) {
                return Ok(false);
            }
            // The thread that sends the next input may need this processor.
            std::thread::yield_now();
        }
    }

    /// Waits until there is something to do.
    pub(super) fn wait(
        &mut self,
        events: &mut Events,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        if self.queue.is_empty() && self.spin(events)? {
            return Ok(());
        }
        let began = Instant::now();
        let mailbox = &self.runtime.delivery.mailboxes[self.number];
        let busy = !self.queue.is_empty() || self.has_more() || !mailbox.may_sleep();
        let timeout = match (busy, deadline) {
            (true, _) => Some(Duration::ZERO),
            (false, Some(until)) => Some(until.saturating_duration_since(Instant::now())),
            (false, None) if self.sweeps() => Some(SWEEP),
            (false, None) => None,
        };
        let looks = [
            timeout,
            self.waits.next_look(),
            self.next_retry(),
            self.next_tick(),
            self.next_tracking_tick(),
        ];
        let timeout = looks.into_iter().flatten().min();
        // What others bring who need this processor is of the same turn then; but a transaction's
        // steps wait for each other, and for this loop between them.
        if self.runtime.peers.is_some() && !self.coordinator.is_busy() {
            std::thread::yield_now();
        }
        let polled = self.poll.poll(events, timeout);
        mailbox.awake();
        self.spins = began.elapsed() < SPIN;
        match polled {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            polled => polled,
        }
    }
}

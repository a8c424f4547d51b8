//! Bounds the memory of unread replies, over all connections.
//!
//! ```text
//!   a connection's output grows beyond 1 MiB, or its socket takes no more ──► Unread::set
//!        all together beyond output_bytes_total_max ──► the longest are closed, in whatever loop
//! ```
//!
//! A connection whose client reads never comes here: its output is sent at the end of the
//! iteration that made it.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::connection::{Connection, Protocol};
use super::state::ConnectionState;
use super::{EventLoop, OUTPUT_PAUSE_BYTES, OUTPUT_SPARE_BYTES};
use crate::runtime::mailbox::Mail;

/// Long outputs of the process's connections.
#[derive(Default)]
pub(super) struct Unread(Mutex<Outputs>);

#[derive(Default)]
struct Outputs {
    bytes: u64,
    by_id: BTreeMap<u64, Output>,
}

#[derive(Clone, Copy)]
struct Output {
    event_loop: usize,
    bytes: u64,
    /// `CLIENT NO-EVICT ON`: it is closed after all others.
    is_spared: bool,
}

impl Unread {
    /// Sets how many bytes a connection's output takes. Returns the sum of all, and the connections
    /// to close, with their loops, so that it is at most `bytes_max`. These no longer count.
    fn set(&self, id: u64, output: Output, bytes_max: u64) -> (u64, Vec<(u64, usize)>) {
        let mut all = self.0.lock();
        let before = all.by_id.remove(&id).map_or(0, |output| output.bytes);
        all.bytes = all.bytes - before + output.bytes;
        if output.bytes > 0 {
            all.by_id.insert(id, output);
        }
        let mut longest = Vec::new();
        while all.bytes > bytes_max
            && let Some((id, output)) = all.longest()
        {
            all.by_id.remove(&id);
            all.bytes -= output.bytes;
            longest.push((id, output.event_loop));
        }
        (all.bytes, longest)
    }
}

impl Outputs {
    fn longest(&self) -> Option<(u64, Output)> {
        let all = self.by_id.iter().map(|(id, output)| (*id, *output));
        all.max_by_key(|(id, output)| (!output.is_spared, output.bytes, *id))
    }
}

impl EventLoop {
    /// A connection's commands have run: counts an output that is long before it is sent, since
    /// many such could be made in one iteration.
    #[inline]
    pub(super) fn count_long_output(&mut self, connection: &mut Connection) {
        if connection.output.bytes.capacity() >= OUTPUT_PAUSE_BYTES {
            self.count_output(connection, connection.output.bytes.capacity());
        }
    }

    /// A connection's output was sent as far as its socket takes it: counts the rest.
    #[inline]
    pub(super) fn count_unsent_output(&mut self, connection: &mut Connection) {
        let is_long =
            connection.unsent() > 0 && connection.output.bytes.capacity() > OUTPUT_SPARE_BYTES;
        let bytes = if is_long { connection.output.bytes.capacity() } else { 0 };
        if bytes != connection.output.unread_bytes {
            self.count_output(connection, bytes);
        }
    }

    /// Counts a connection's output as so many bytes, and closes the longest ones if all together
    /// are too many.
    #[cold]
    fn count_output(&mut self, connection: &mut Connection, bytes: usize) {
        if bytes == connection.output.unread_bytes
            || (connection.life == ConnectionState::Broken && bytes > 0)
        {
            return;
        }
        connection.output.unread_bytes = bytes;
        let is_spared =
            matches!(&connection.protocol, Protocol::Resp(session, _) if session.is_spared());
        let output = Output { event_loop: self.number, bytes: bytes as u64, is_spared };
        let bytes_max = self.config.unread_bytes_max();
        let (all_bytes, longest) = self.clients.unread.set(connection.id, output, bytes_max);
        self.runtime.counters.unread_bytes.set(all_bytes);
        for (id, event_loop) in longest {
            tracing::warn!(
                client = id,
                "closing the connection with the longest output: replies that nobody reads take \
                 more than output_bytes_total_max"
            );
            self.runtime.counters.connections_evicted.add(1);
            if id == connection.id {
                evict(connection);
            } else {
                // A loop that has ended has closed it already.
                let _closed = self.runtime.delivery.mailboxes[event_loop].post(Mail::Evict(id));
            }
        }
    }

    /// Closes a connection of this loop, and frees its output at once.
    pub(super) fn evict(&mut self, id: u64) {
        let found = self.connections.iter_mut().find_map(|(at, slot)| {
            let connection = slot.as_mut().filter(|connection| connection.id == id)?;
            evict(connection);
            Some(at)
        });
        // It may have been counted again since it was chosen.
        let gone = Output { event_loop: self.number, bytes: 0, is_spared: false };
        let (all_bytes, _) = self.clients.unread.set(id, gone, u64::MAX);
        self.runtime.counters.unread_bytes.set(all_bytes);
        if let Some(at) = found {
            self.enqueue(at);
        }
    }

    /// A connection was dropped.
    pub(super) fn forget_output(&mut self, connection: &Connection) {
        if connection.output.unread_bytes > 0 {
            let gone = Output { event_loop: self.number, bytes: 0, is_spared: false };
            let (all_bytes, _) = self.clients.unread.set(connection.id, gone, u64::MAX);
            self.runtime.counters.unread_bytes.set(all_bytes);
        }
    }
}

fn evict(connection: &mut Connection) {
    connection.advance(ConnectionState::Broken);
    connection.output.bytes = Vec::new();
    connection.output.sent = 0;
    connection.output.unread_bytes = 0;
    connection.transport.shut_down();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_outputs_go_first_and_spared_ones_last() {
        let unread = Unread::default();
        let set = |id, bytes, is_spared| {
            unread.set(id, Output { event_loop: id as usize % 2, bytes, is_spared }, 100)
        };
        assert_eq!(set(1, 40, false), (40, vec![]));
        assert_eq!(set(2, 30, false), (70, vec![]));
        assert_eq!(set(1, 20, false), (50, vec![]), "it has read some");
        assert_eq!(set(3, 50, true), (100, vec![]));
        assert_eq!(set(4, 25, false), (95, vec![(2, 0)]), "the longest that is not spared");
        assert_eq!(set(4, 0, false), (70, vec![]));
        assert_eq!(set(2, 0, false), (70, vec![]), "it was closed");
        assert_eq!(set(5, 200, false), (70, vec![(5, 1)]), "one alone may be too long");
        assert_eq!(set(1, 0, false), (50, vec![]));
        assert_eq!(set(3, 101, true), (0, vec![(3, 1)]), "the bound holds for all");
    }
}

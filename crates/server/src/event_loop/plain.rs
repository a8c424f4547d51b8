//! The fast path of plain GETs and SETs, as most commands are.
//!
//! The loop checks once per run of such commands whether any special case holds: a waiting, queued
//! or muted command, a chosen lookup, a redirect to the leader. It checks again after each other
//! command.

use command::{Read, Write};

use super::EventLoop;
use super::connection::Connection;
use super::pending_reply::{PendingReply, ReplyFrame};
use super::resp::CommandOutcome;
use super::serve::waiter;
use gateway::access::Access;
use gateway::resp::Session;

/// Which of a connection's next commands there is nothing else about.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainCommand {
    /// GETs: they can wait for each other ([`super::gets`]), or for writes before them
    /// ([`super::parked_reads`]).
    pub gets: bool,
    /// SETs of a key and a value: they are on their way at once.
    pub sets: bool,
}

impl EventLoop {
    pub(super) fn plain(
        &self,
        connection: &Connection,
        session: &Session,
        is_monitored: bool,
    ) -> PlainCommand {
        let is_plain = !is_monitored
            && !session.is_quiet()
            && !session.is_queueing()
            && !session.has_transaction()
            && !session.is_confined()
            && !session.names_lookup()
            && session.reads_at().is_none()
            && connection.next.refused.is_none()
            && connection.next.muted.is_none()
            && connection.next.scripts.is_none()
            && connection.route.is_some()
            && connection.tracking.is_none();
        PlainCommand {
            gets: is_plain
                && session.may(Access::Read)
                && session.stale_nanos() == 0
                && session.reads_here()
                && !connection.redirects.has_writes(),
            sets: is_plain
                && session.may(Access::Write)
                && connection.next.at.is_none()
                && !self.redirects_clients(session),
        }
    }

    /// Has a plain GET done behind replies owed.
    #[inline]
    pub(super) fn get_behind(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        key: &[u8],
    ) -> CommandOutcome {
        let frame = ReplyFrame::Resp { version: session.version(), muted: false };
        let done = self.read_behind(at, connection, &Read::Get(key), false, frame);
        if matches!(done, CommandOutcome::Answered) {
            self.counted.others += 1;
            self.statistics.count("get", 1);
        }
        done
    }

    /// Has a plain SET done.
    #[inline]
    pub(super) fn set(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        key: &[u8],
        value: &[u8],
    ) {
        session.note_command("set");
        self.statistics.count("set", 1);
        connection.watching.is_new = false;
        let write = Write::set(key, value);
        let number = connection.next_number();
        match self.put_write(connection, &write, waiter(at, number)) {
            Ok(()) => {
                let frame = ReplyFrame::Resp { version: session.version(), muted: false };
                connection.pending.push_back(PendingReply::waiting(frame));
                connection.takes.lengthens(write.growth_bytes_max());
            }
            Err(text) => _ = self.refuse(connection, session, text, false),
        }
        self.leave_retry_queue(at);
    }
}

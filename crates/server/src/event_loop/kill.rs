//! CLIENT KILL: closes connections, which other loops may serve.
//!
//! ```text
//!   KILL ──► owed a reply of n parts ──► Kill, to the loop of each ──► it runs nothing any more,
//!            the next command waits ◄──────────────────── Killed ◄── CLIENT LIST has it not
//! ```

use std::sync::atomic::Ordering;

use super::EventLoop;
use super::connection::Connection;
use super::pending_reply::{PendingReply, ReplyFrame};
use super::resp::CommandOutcome;
use super::serve::waiter;
use super::state::ConnectionState;
use crate::runtime::mailbox::{self, Mail};
use gateway::resp::{Kill, Session};

impl EventLoop {
    /// Closes connections; the reply comes when all are closed.
    pub(super) fn kill_clients(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        kill: Kill,
        muted: bool,
    ) -> CommandOutcome {
        let number = connection.next_number();
        let frame = ReplyFrame::Resp { version: session.version(), muted };
        let parts = kill.others.len() + usize::from(kill.own);
        connection.pending.push_back(PendingReply::gathering(kill.gather, parts as u32, frame));
        // What follows sees that they are gone.
        connection.next.barrier = true;
        if kill.own {
            connection.advance(ConnectionState::Closing);
        }
        let answers_to = waiter(at, number);
        for id in kill.others {
            let ask = mailbox::Kill { id, asks: self.number, waiter: answers_to };
            // This connection is not in its place while it is served.
            let own_loop = &self.runtime.delivery.mailboxes[self.number];
            let is_asked = match self.clients.place(id) {
                Some((event_loop, _)) => {
                    self.runtime.delivery.mailboxes[event_loop].post(Mail::Kill(ask))
                }
                None => false,
            };
            if !is_asked {
                own_loop.post(Mail::Killed(answers_to, 0));
            }
        }
        if kill.own {
            self.runtime.delivery.mailboxes[self.number].post(Mail::Killed(answers_to, 1));
        }
        CommandOutcome::Answered
    }

    /// Closes a connection of this loop, and answers the loop that asked for it.
    pub(super) fn kill_for(&mut self, kill: &mailbox::Kill) {
        let answer = Mail::Killed(kill.waiter, i64::from(self.kill(kill.id)));
        // A loop that has ended has nobody left who waits.
        let _nobody_waits = self.runtime.delivery.mailboxes[kill.asks].post(answer);
    }

    /// Closes a connection: it runs no further command, and is in no list. Whether it was there.
    fn kill(&mut self, id: u64) -> bool {
        let at = self.clients.place(id).map(|(_, at)| at);
        self.clients.remove(id);
        let Some(at) = at else { return false };
        let slot = self.connections.get_mut(at).and_then(Option::as_mut);
        // Another one may be at its place by now.
        let Some(connection) = slot.filter(|connection| connection.id == id) else { return false };
        connection.advance(ConnectionState::Broken);
        connection.gone.store(true, Ordering::Release);
        self.runtime.scripts.client_gone(id);
        // Its client sees the end at once, though replies may be on their way to it.
        connection.transport.shut_down();
        self.enqueue(at);
        true
    }
}

//! Answers commands, and input that is no command, with errors.

use super::EventLoop;
use super::connection::Connection;
use super::late::refusal_of_exec;
use super::pending_reply::PendingReply;
use super::resp::CommandOutcome;
use super::state::ConnectionState;
use gateway::resp::{Request, Session};

impl EventLoop {
    /// Answers input that is no command, and closes the connection.
    pub(super) fn end_malformed(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        error: &dyn std::fmt::Display,
    ) {
        // Not a command's reply: what the one before it was has no say.
        let muted = session.is_quiet();
        self.reply_error(connection, session, &error.to_string(), muted);
        connection.advance(ConnectionState::Closing);
    }

    /// A command that waited cannot be run.
    pub(super) fn refuse_command(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        request: &Request<'_>,
        text: &str,
        muted: bool,
    ) -> CommandOutcome {
        (connection.next.looked, connection.next.copy) = (None, None);
        connection.next.has_asked_others = false;
        if *request == Request::Exec {
            session.end_transaction();
            let text = refusal_of_exec(connection, text);
            return self.refuse(connection, session, &text, muted);
        }
        if *request == Request::Commit {
            session.take_transaction();
        }
        self.refuse(connection, session, text, muted)
    }

    /// Has a command done by replying with an error.
    pub(super) fn refuse(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        text: &str,
        muted: bool,
    ) -> CommandOutcome {
        self.reply_error(connection, session, text, muted);
        CommandOutcome::Answered
    }

    /// Replies with an error, behind what is owed already.
    fn reply_error(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        text: &str,
        muted: bool,
    ) {
        self.runtime.counters.errors.add(1);
        if muted {
            return;
        }
        if connection.pending.is_empty() {
            session.writer(&mut connection.output.bytes).error(text);
        } else {
            let mut bytes = Vec::new();
            session.writer(&mut bytes).error(text);
            connection.pending.push_back(PendingReply::bytes(bytes));
        }
    }
}

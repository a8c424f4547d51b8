//! Runs native frames.

use command::{Read, Refusal, Sink as _};
use node::routing::fetch::FetchedData;
use node::routing::route::Route;

use super::EventLoop;
use super::connection::Connection;
use super::pending_reply::{PendingReply, ReplyFrame};
use super::reply_limit::LimitedSink;
use super::resp::CommandOutcome;
use super::serve::waiter;
use super::state::ConnectionState;
use gateway::native::{self, Command, FrameLimits, FrameSink, Parsed};

/// The keyspace of native clients: the protocol cannot name another.
pub(super) const KEYSPACE: &str = "0";

/// The error of a client without the permission.
const NO_PERMISSION: &str = "NOPERM this user may not do that; nothing was done";

impl EventLoop {
    /// Runs requests from the front of `input` until one must wait; how many bytes are done.
    pub(super) fn run_native(
        &mut self,
        at: usize,
        connection: &mut Connection,
        input: &[u8],
    ) -> usize {
        let mut done = 0;
        while done < input.len() && self.may_run(connection) {
            done += match self.run_frame(at, connection, &input[done..]) {
                0 => break,
                consumed => consumed,
            };
        }
        done
    }

    fn run_frame(&mut self, at: usize, connection: &mut Connection, input: &[u8]) -> usize {
        let limits = FrameLimits {
            key_bytes_max: self.config.key_bytes_max as u32,
            value_bytes_max: self.config.value_bytes_max as u32,
        };
        let (request, consumed) = match native::parse(input, &limits) {
            Ok(Parsed::Request(request, consumed)) => (request, consumed),
            Ok(Parsed::Incomplete { .. }) => return 0,
            Err(fault) => {
                if connection.pending.is_empty() {
                    native::write_fault(&mut connection.output.bytes, &fault, self.native_reason());
                } else {
                    let mut bytes = Vec::new();
                    native::write_fault(&mut bytes, &fault, self.native_reason());
                    connection.pending.push_back(PendingReply::bytes(bytes));
                }
                connection.advance(ConnectionState::Closing);
                return input.len();
            }
        };
        let frame = || ReplyFrame::Native(request.op, request.key.into());
        let may = connection.principal.may(request.op.access());
        let refused = connection.next.refused.take();
        if let Some(text) = refused.or_else(|| (!may).then(|| NO_PERMISSION.into())) {
            // The moment was that of the request refused: the next one has its own (SAFETY G1).
            connection.next.at = None;
            connection.next.fetched = FetchedData::default();
            let slot = connection.next_number();
            connection.pending.push_back(PendingReply::waiting(frame()));
            connection.fill(slot, Err(text), None);
            let count = connection.write_replies(self.native_reason());
            self.count_replies(count);
            self.counted.commands += 1;
            return consumed;
        }
        let Some(route) = connection.route.clone() else {
            if !connection.waits_at_barrier() {
                self.create(at, connection, KEYSPACE);
            }
            return 0;
        };
        match request.command() {
            Command::Read(read) => {
                self.counted.others += 1;
                if !connection.pending.is_empty() {
                    match self.read_behind(at, connection, &read, false, frame()) {
                        CommandOutcome::Deferred => return 0,
                        CommandOutcome::Answered => {
                            self.counted.commands += 1;
                            return consumed;
                        }
                    }
                }
                if !self.read_native(at, connection, &route, &request, &read) {
                    return 0;
                }
            }
            Command::Write(write) => {
                if self.holds_back(at, connection, |show| write.each_key(&mut |key| show(key))) {
                    return 0;
                }
                let number = connection.next_number();
                match self.put_write(connection, &write, waiter(at, number)) {
                    Ok(()) => connection.pending.push_back(PendingReply::waiting(frame())),
                    Err(text) => {
                        connection.pending.push_back(PendingReply::waiting(frame()));
                        connection.fill(number, Err(text.into()), None);
                        let count = connection.write_replies(self.native_reason());
                        self.count_replies(count);
                    }
                }
            }
        }
        self.counted.commands += 1;
        consumed
    }

    fn read_native(
        &mut self,
        at: usize,
        connection: &mut Connection,
        route: &Route,
        request: &native::Request<'_>,
        read: &Read<'_>,
    ) -> bool {
        let reason = self.native_reason();
        let before = connection.output.bytes.len();
        let mut sink = FrameSink {
            out: &mut connection.output.bytes,
            op: request.op,
            key: request.key,
            reason,
        };
        let mut capped = LimitedSink::new(&mut sink, self.config.output_bytes_max as usize);
        let now = connection.next.at.take().unwrap_or_else(|| self.moment());
        let fetched = std::mem::take(&mut connection.next.fetched);
        match node::replica::read::read_with(route, read, now, &fetched, &mut capped) {
            Ok(()) => {
                if capped.overflown {
                    sink.out.truncate(before);
                    sink.refused(Refusal::TooLong);
                    self.runtime.counters.errors.add(1);
                }
                self.note_read(route, read, None);
                true
            }
            Err(blocked) => {
                connection.output.bytes.truncate(before);
                connection.next.fetched = fetched;
                self.wait_or_fetch(at, connection, route, blocked, now, read.keys());
                false
            }
        }
    }
}

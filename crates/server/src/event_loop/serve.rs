//! Serves one connection in a loop iteration: reads, runs commands, writes; and takes answers.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use command::{NotDone, Reply};
use keyspace::CatalogueError;
use mio::event::Event;
use node::executor::Answer;
use node::replica::entry::{Batch, Waiter};
use node::routing::fetch::FetchRequest;

use super::connection::{Connection, PENDING_MAX, Protocol, RepliesCount};
use super::state::{ConnectionState, WaitsFor};
use super::{
    EventLoop, OUTPUT_PAUSE_BYTES, OUTPUT_SPARE_BYTES, READ_BYTES, SPARE_BYTES_MAX, SPARE_MAX,
};
use gateway::native::ErrorText;

/// The number of a waiter that is no reply but leave to go on.
const GO: u32 = u32::MAX;

/// A waiter: a connection's place in its loop, and the number of the reply there.
pub(super) fn waiter(at: usize, number: u32) -> Waiter {
    Waiter((at as u64) << 32 | u64::from(number))
}

/// The place of the connection that waits.
pub(super) fn place(waiter: Waiter) -> usize {
    (waiter.0 >> 32) as usize
}

/// The waiter of a connection whose next command waits.
pub(super) fn go_waiter(at: usize) -> Waiter {
    waiter(at, GO)
}

impl EventLoop {
    /// Takes an event of the poll for a connection.
    pub(super) fn woken(&mut self, at: usize, event: &Event) {
        if let Some(Some(connection)) = self.connections.get_mut(at) {
            connection.ready.readable |= event.is_readable() || event.is_read_closed();
            connection.ready.hung_up |= event.is_read_closed();
            connection.ready.writable |= event.is_writable();
            if event.is_error() {
                connection.advance(ConnectionState::Broken);
            }
            // A client that has only ended its side has its long scripts stopped as well.
            if connection.ready.hung_up || connection.life == ConnectionState::Broken {
                let was_gone = connection.gone.swap(true, Ordering::AcqRel);
                // Its scripts know the flag: who has none asks no script thread.
                if !was_gone && Arc::strong_count(&connection.gone) > 1 {
                    self.runtime.scripts.client_gone(connection.id);
                }
            }
            self.enqueue(at);
        }
    }

    /// Serves one connection as far as it goes now.
    pub(super) fn serve(&mut self, at: usize) {
        self.tell_news();
        let mut connection =
            self.connections[at].take().expect("a connection is served by one at a time");
        connection.turn.queued = false;
        self.refresh_route(&mut connection);
        self.answer_parked(at, &mut connection);
        let mut buffer = std::mem::take(&mut self.buffer);
        self.read_and_run(at, &mut connection, &mut buffer);
        self.buffer = buffer;
        if connection.tracking.is_some() {
            self.tell_unsent(&mut connection);
        }
        self.count_long_output(&mut connection);
        connection.output.paused |= connection.unsent() >= OUTPUT_PAUSE_BYTES;
        // A client that has sent its last is answered everything it asked.
        if connection.life == ConnectionState::Ended && self.may_run(&connection) {
            connection.advance(ConnectionState::Closing);
        }
        self.connections[at] = Some(connection);
        self.touch(at);
    }

    /// Sends the output of this iteration, and drops connections that are finished. All output is
    /// sent at the end: clients woken by a first reply would compete with the rest of the
    /// iteration.
    pub(super) fn send_all(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        let mut now = None;
        for at in touched.drain(..) {
            let mut connection =
                self.connections[at].take().expect("a connection is touched once a turn");
            connection.turn.touched = false;
            self.flush(&mut connection);
            if let Some(since) = connection.requests_answered() {
                let now = *now.get_or_insert_with(Instant::now);
                self.counted.request_times.add(now.saturating_duration_since(since));
            }
            self.count_unsent_output(&mut connection);
            let resumes = connection.output.paused && connection.unsent() < OUTPUT_PAUSE_BYTES;
            connection.output.paused &= !resumes;
            let reads = connection.ready.readable && self.may_read(&connection);
            if connection.is_finished() && !connection.turn.queued {
                self.forget(at, &connection);
                continue;
            }
            let has_yielded = std::mem::take(&mut connection.turn.has_yielded);
            let resumes = resumes || has_yielded;
            let again = reads || resumes || connection.is_finished() || connection.may_try_parked();
            self.connections[at] = Some(connection);
            if again {
                self.enqueue(at);
            }
        }
        assert!(self.touched.is_empty(), "to send touches nobody");
        self.touched = touched;
    }

    /// Has a connection's output sent at the end of the turn.
    pub(super) fn touch(&mut self, at: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(at)
            && !connection.turn.touched
        {
            connection.turn.touched = true;
            self.touched.push(at);
        }
    }

    fn read_and_run(&mut self, at: usize, connection: &mut Connection, buffer: &mut [u8]) {
        if !connection.input.is_empty() {
            // Commands that were put off, or the beginning of one.
            let input = std::mem::take(&mut connection.input);
            let done = self.run_commands(at, connection, &input);
            connection.input = input;
            connection.input.drain(..done);
        }
        if !connection.ready.readable || !self.may_read(connection) {
            return;
        }
        if connection.input.is_empty() {
            let Some(received) = receive(connection, buffer) else { return };
            self.received(connection, received);
            let done = self.run_commands(at, connection, &buffer[..received]);
            connection.input.extend_from_slice(&buffer[done..received]);
        } else {
            self.read_more(at, connection);
        }
        if connection.input.capacity() > 4 * READ_BYTES && connection.input.is_empty() {
            connection.input = Vec::new();
        }
    }

    /// Reads behind what is there already: the rest of a command, or more of them.
    fn read_more(&mut self, at: usize, connection: &mut Connection) {
        let mut input = std::mem::take(&mut connection.input);
        let before = input.len();
        input.resize(before + READ_BYTES, 0);
        let received = receive(connection, &mut input[before..]).unwrap_or(0);
        input.truncate(before + received);
        if received > 0 {
            self.received(connection, received);
            let done = self.run_commands(at, connection, &input);
            input.drain(..done);
        }
        connection.input = input;
    }

    fn received(&mut self, connection: &mut Connection, bytes: usize) {
        connection.active_millis = self.now.millis();
        connection.requests_come(self.statistics.began());
        self.counted.input_bytes += bytes as u64;
        // Another loop may have told the time since this turn began: what it called expired must
        // not be alive here any more.
        self.now = self.now.max(self.runtime.clock.last());
    }

    /// Whether to read from the socket: not while earlier commands wait.
    fn may_read(&self, connection: &Connection) -> bool {
        connection.life == ConnectionState::Open
            && !connection.must_wait()
            && connection.pending.len() < PENDING_MAX
            && connection.unsent() < OUTPUT_PAUSE_BYTES
            && connection.input.len() < self.config.input_bytes_max as usize
    }

    /// Runs commands from the front of `input` until one must wait; how many bytes are done.
    fn run_commands(&mut self, at: usize, connection: &mut Connection, input: &[u8]) -> usize {
        let done = match connection.protocol {
            Protocol::Resp(..) => self.run_resp(at, connection, input),
            Protocol::Native => self.run_native(at, connection, input),
            Protocol::Volume(_) => self.run_volume(at, connection, input),
        };
        // What stands behind the end of a conversation is not looked at.
        if connection.life >= ConnectionState::Closing { input.len() } else { done }
    }

    pub(super) fn may_run(&self, connection: &Connection) -> bool {
        connection.life < ConnectionState::Closing
            && !connection.must_wait()
            && connection.pending.len() < PENDING_MAX
            && connection.unsent() < OUTPUT_PAUSE_BYTES
    }

    /// Sends what is there to send.
    pub(super) fn flush(&mut self, connection: &mut Connection) {
        if connection.is_held() {
            return;
        }
        connection.watching.is_new = false;
        let before = connection.output.sent;
        while connection.ready.writable
            && connection.life < ConnectionState::Broken
            && connection.unsent() > 0
        {
            match connection.transport.write(&connection.output.bytes[connection.output.sent..]) {
                Ok(0) => connection.advance(ConnectionState::Broken),
                Ok(sent) => connection.output.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.ready.writable = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => connection.advance(ConnectionState::Broken),
            }
        }
        if connection.ready.writable && connection.transport.has_unsent() {
            match io::Write::flush(&mut connection.transport) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.ready.writable = false;
                }
                Err(_) => connection.advance(ConnectionState::Broken),
            }
        }
        if connection.output.sent > before {
            connection.active_millis = self.now.millis();
            connection.some_is_sent();
        }
        self.counted.output_bytes += (connection.output.sent - before) as u64;
        if connection.unsent() == 0 {
            connection.output.bytes.clear();
            connection.output.sent = 0;
            if connection.output.bytes.capacity() > OUTPUT_SPARE_BYTES {
                connection.output.bytes = Vec::new();
            }
        } else if connection.output.sent > READ_BYTES.max(connection.output.bytes.len() / 2) {
            connection.output.bytes.drain(..connection.output.sent);
            connection.output.sent = 0;
        }
    }

    /// The connection's keyspace, if the catalogue has changed.
    pub(super) fn refresh_route(&self, connection: &mut Connection) {
        let version = self.runtime.routing.version();
        if connection.route_version != version {
            if !connection.pending.is_empty() && self.is_cut_otherwise(connection) {
                // What is on its way may come back, and go to where the next would go at once:
                // they stay in their order.
                connection.next.barrier = true;
                return;
            }
            let name = match &connection.protocol {
                Protocol::Resp(session, _) => session.keyspace(),
                Protocol::Native => super::native::KEYSPACE,
                Protocol::Volume(session) => session.keyspace(),
            };
            connection.route = self.runtime.routing.routes().get(name).map(Arc::clone);
            connection.route_version = version;
        }
    }

    /// Whether the shards of a connection's keyspace have other slots by now than it knows.
    fn is_cut_otherwise(&self, connection: &Connection) -> bool {
        connection.route.as_ref().is_some_and(|old| {
            let routes = self.runtime.routing.routes();
            routes.by_id(old.keyspace.id).is_some_and(|new| !new.has_tiles_of(old))
        })
    }

    /// Gives an answer to the connections it is for.
    pub(super) fn answered(&mut self, answer: Answer) {
        self.tell_news();
        match answer {
            Answer::Applied { spent, replies, shard, .. } => {
                let mut replies = spent.waiters.iter().zip(replies).peekable();
                while let Some((waiter, reply)) = replies.next() {
                    let at = place(*waiter);
                    if let Reply::Fenced { epoch } = reply {
                        self.runtime.volume_writers.lock().saw(epoch);
                    }
                    self.connection_at(at).fill(waiter.0 as u32, Ok(reply), Some(shard));
                    // What is for one connection is looked after together.
                    if replies.peek().is_none_or(|(next, _)| place(**next) != at) {
                        self.filled(at);
                    }
                }
                if self.spare.len() < SPARE_MAX && spent.bytes.capacity() <= SPARE_BYTES_MAX {
                    self.spare.push(Batch::recycled(spent));
                }
            }
            Answer::NotDone { waiters, why, .. } => {
                for waiter in waiters {
                    if self.coordinated(waiter, Err(why)) {
                        continue;
                    }
                    if waiter.0 as u32 == GO {
                        // A keyspace that is gone is looked up again, and so is where to read.
                        let refused = match why {
                            NotDone::NoSuchShard => false,
                            // Who has no peers fetches nothing.
                            NotDone::ReplicaLagging => self.runtime.peers.is_none(),
                            _ => true,
                        };
                        self.go_on(waiter, refused.then(|| not_done_text(why).into()));
                    } else {
                        self.fill(waiter, Err(not_done_text(why).into()));
                    }
                }
            }
            Answer::Retry { waiter, .. } => self.go_on(waiter, None),
            Answer::Fetched { waiter, want, .. } if matches!(*want, FetchRequest::Track { .. }) => {
                self.go_on(waiter, None);
            }
            Answer::Fetched { waiter, shard, at, want, found, .. } => {
                if let Some(Some(connection)) = self.connections.get_mut(place(waiter)) {
                    connection.next.fetched.add(shard, at, *want, *found);
                }
                self.go_on(waiter, None);
            }
            Answer::StepDone { waiter, reply, .. } => {
                let is_its = self.coordinated(waiter, Ok(*reply));
                debug_assert!(is_its, "only the coordinator asks for steps");
            }
            Answer::ReplicaCount { waiter, count, .. } => self.waits.counted(waiter, count),
            Answer::Catalogue { waiter, result, .. } => {
                // Made by another meanwhile: as good.
                let made = result.is_ok() || matches!(result, Err(CatalogueError::Exists { .. }));
                let failed = result.err().filter(|_| !made);
                self.go_on(waiter, failed.map(|error| format!("ERR {error}").into()));
            }
        }
    }

    pub(super) fn fill(&mut self, waiter: Waiter, reply: Result<Reply, Box<str>>) {
        let at = place(waiter);
        self.connection_at(at).fill(waiter.0 as u32, reply, None);
        self.filled(at);
    }

    pub(super) fn connection_at(&mut self, at: usize) -> &mut Connection {
        let slot = self.connections.get_mut(at).and_then(Option::as_mut);
        slot.expect("a connection stays until all it asked is answered")
    }

    /// Replies have come for a connection: writes those that are next in order, and goes on.
    pub(super) fn filled(&mut self, at: usize) {
        let reason = self.native_reason();
        let connection = self.connection_at(at);
        let count = connection.write_replies(reason);
        let is_tracking = connection.tracking.is_some();
        let has_effects = !connection.effects.is_empty();
        let waits_for_more = connection.input.is_empty()
            && !connection.ready.readable
            && connection.life < ConnectionState::Ended
            && !connection.may_try_parked();
        self.count_replies(count);
        if is_tracking
            && let Some(Some(mut connection)) = self.connections.get_mut(at).map(Option::take)
        {
            self.tell_unsent(&mut connection);
            self.connections[at] = Some(connection);
        }
        if has_effects {
            self.run_effects(at);
        }
        if waits_for_more { self.touch(at) } else { self.enqueue(at) }
    }

    /// The connection's next command may be tried, or is to be refused.
    pub(super) fn go_on(&mut self, waiter: Waiter, refused: Option<Box<str>>) {
        let at = place(waiter);
        let connection = self.connection_at(at);
        if refused.is_some() {
            connection.next.refused = refused;
        }
        connection.next.waits_for = connection.next.waits_for.one_came();
        if connection.next.waits_for == WaitsFor::Nothing {
            self.enqueue(at);
        }
    }

    /// Counts what is in replies.
    pub(super) fn count_replies(&mut self, RepliesCount { errors, hits, misses }: RepliesCount) {
        if errors > 0 {
            self.runtime.counters.errors.add(errors);
        }
        self.counted.hits += hits;
        self.counted.misses += misses;
    }

    pub(super) fn native_reason(&self) -> ErrorText {
        if self.config.native_error_reason { ErrorText::Text } else { ErrorText::Empty }
    }
}

/// Reads once. `None` if nothing came; then the connection knows why.
fn receive(connection: &mut Connection, buffer: &mut [u8]) -> Option<usize> {
    match connection.transport.read(buffer) {
        Ok(0) => {
            connection.ready.readable = false;
            connection.advance(ConnectionState::Ended);
            None
        }
        Ok(received) => {
            // A short read has emptied the socket, and the poll tells when there is more; but the
            // end, if it came with these bytes, is not told again.
            let is_drained = connection.transport.is_drained(received, buffer.len());
            connection.ready.readable = !is_drained || connection.ready.hung_up;
            Some(received)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
        Err(error) => {
            connection.ready.readable = false;
            if error.kind() != io::ErrorKind::WouldBlock {
                connection.advance(ConnectionState::Broken);
            }
            None
        }
    }
}

/// The error text when nothing was done (SAFETY G10: all but `UNKNOWN` are certain).
pub(crate) fn not_done_text(why: NotDone) -> &'static str {
    match why {
        NotDone::NoSuchShard => {
            "ERR the keyspace was dropped; nothing was done. Select another one"
        }
        NotDone::Dropped => {
            "UNKNOWN the keyspace was dropped while the command was under way; it may have been \
             done"
        }
        NotDone::OutcomeUnknown => {
            "UNKNOWN the node that leads this key's shard has not answered; the command may have \
             been done, or may still be. Read what it would have changed before you send it again"
        }
        NotDone::NotLeader | NotDone::EntryReplaced => {
            "TRYAGAIN no node has answered as the leader of this key's shard; nothing was done. \
             Send it again"
        }
        NotDone::ReplicaLagging => {
            "TRYAGAIN the local replica of the key's shard is lagging; nothing was done. Send \
             it again"
        }
        NotDone::Busy => {
            "BUSY too many requests wait for the leader of this key's shard; nothing was done. \
             Send it again later"
        }
        NotDone::Locked => "BUSY transactions kept the key locked; nothing was done. Send it again",
        NotDone::TooLong => super::reply_limit::TOO_LONG,
        // When it came they lay in one shard.
        NotDone::CrossShard => {
            "TRYAGAIN the shard was split between the command's keys meanwhile; nothing was \
             done. Send it again"
        }
        NotDone::DiskFull => {
            "MISCONF the disk is full; nothing was done. Reads go on; writes resume when there is \
             space"
        }
    }
}

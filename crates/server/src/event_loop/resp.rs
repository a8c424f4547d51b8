//! Runs RESP commands.

use std::sync::Arc;

use keyspace::{CatalogueOp, Feature, is_made_on_use};
use node::executor::{Input, Origin};
use node::replica::read::ReadTime;
use node::routing::fetch::FetchedData;

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::context::CommandContext;
use super::gets::{GETS_MAX, Get};
use super::moment::ReadMoment;
use super::pending_reply::PendingReply;
use super::serve::go_waiter;
use super::state::{ConnectionState, WaitsFor};
use super::value_moves::{MoveCommand, moves_value};
use crate::config::Config;
use gateway::resp::{self, Args, Parsed, Request, RequestLimits, Session};

/// The error when data takes all of `memory_max`, in Redis's words.
pub(super) const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// … and EXEC.
pub(super) const EXEC_OUT_OF_MEMORY: &str = "EXECABORT Transaction discarded because of: OOM \
                                             command not allowed when used memory > 'maxmemory'.";
/// … when the keys of one command lie in different shards.
pub(super) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
/// … when its keyspace was dropped.
pub(super) const NO_KEYSPACE: &str =
    "ERR the selected keyspace does not exist; nothing was done. Create it or select another";

/// … when its command is longer than any entry of the log ([`command::limits::COMMAND_BYTES_MAX`]).
pub(super) const COMMAND_TOO_LONG: &str = "ERR the command is longer than an entry of the log may \
                                            be: 514 MiB, or 64.5 MiB while nodes of an older \
                                            version are members; nothing was done";

/// Longest request, however long `input_bytes_max` lets it be: a longest command, and what frames
/// its arguments.
const REQUEST_BYTES_MAX: u64 = 640 << 20;

/// What requests may be like, by the node's configuration.
pub(super) fn limits(config: &Config) -> RequestLimits {
    RequestLimits {
        key_bytes_max: config.key_bytes_max as usize,
        value_bytes_max: config.value_bytes_max as usize,
        request_bytes_max: config.input_bytes_max.min(REQUEST_BYTES_MAX) as usize,
        ..RequestLimits::default()
    }
}

/// A translated command, and what it has gathered while it waited, if it did.
struct Command<'a> {
    args: Args<'a>,
    request: Request<'a>,
    muted: bool,
    /// It is answered with this error instead of being run.
    refused: Option<Box<str>>,
    /// The time that it is tried again with.
    put_off_at: Option<ReadTime>,
    /// What was fetched for it.
    fetched: FetchedData,
}

/// What became of a command.
pub(super) enum CommandOutcome {
    /// It is answered, or will be.
    Answered,
    /// It must be tried again when the connection may go on.
    Deferred,
}

impl EventLoop {
    /// Runs commands from the front of `input` until one must wait; how many bytes are done.
    pub(super) fn run_resp(
        &mut self,
        at: usize,
        connection: &mut Connection,
        input: &[u8],
    ) -> usize {
        // Taken out, so that the rest of the connection can be used meanwhile.
        let protocol = std::mem::replace(&mut connection.protocol, Protocol::Native);
        let Protocol::Resp(mut session, mut ranges) = protocol else { return 0 };
        let (mut done, mut commands) = (0, 0);
        let mut plain = self.plain(connection, &session);
        while done < input.len() && self.may_run(connection) {
            let rest = &input[done..];
            let consumed = match resp::parse(rest, &self.limits, &mut ranges) {
                Ok(Parsed::Command { consumed }) => consumed,
                Ok(Parsed::Empty { consumed }) => {
                    done += consumed;
                    continue;
                }
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    if let Some(waits) = self.answer_gets(at, connection, &session, input) {
                        done = waits;
                        break;
                    }
                    self.end_malformed(connection, &session, &error);
                    break;
                }
            };
            let args = ranges.args(rest);
            let key_bytes_max = self.limits.key_bytes_max;
            if plain.gets
                && let Some(get) = Get::of(args, input, done, key_bytes_max)
            {
                self.gets.push(get);
                if self.gets.len() == GETS_MAX
                    && let Some(waits) = self.answer_gets(at, connection, &session, input)
                {
                    done = waits;
                    break;
                }
            } else if let Some(waits) = self.answer_gets(at, connection, &session, input) {
                done = waits;
                break;
            } else if plain.sets
                && let Some((key, value)) = args.plain_set(key_bytes_max)
            {
                self.set(at, connection, &mut session, key, value);
                // Its reply is owed before theirs.
                plain.gets = false;
            } else {
                if let CommandOutcome::Deferred =
                    self.run_command(at, connection, &mut session, args)
                {
                    break;
                }
                plain = self.plain(connection, &session);
            }
            done += consumed;
            commands += 1;
        }
        if let Some(waits) = self.answer_gets(at, connection, &session, input) {
            // The beginning of a command behind it may have been parsed already.
            ranges.begin_again();
            done = waits;
        }
        self.counted.commands += commands;
        connection.protocol = Protocol::Resp(session, ranges);
        done
    }

    /// Answers input that is no command, and closes the connection.
    fn end_malformed(
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

    fn run_command(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        args: Args<'_>,
    ) -> CommandOutcome {
        let replies = connection.reply_place();
        let mut later = Vec::new();
        let command = self.translate_command(connection, session, args, &mut later);
        let muted = command.muted;
        let done = self.dispatch(at, connection, session, command);
        if !later.is_empty() {
            connection.pending.push_back(PendingReply::bytes(later));
        }
        if matches!(done, CommandOutcome::Answered) && connection.speculative_reply().is_none() {
            self.leave_retry_queue(at);
        }
        match done {
            CommandOutcome::Deferred => connection.next.muted = Some(muted),
            CommandOutcome::Answered if connection.next.lookups.is_some() => {
                let attribute = self.attribute(connection, session, muted);
                connection.precede(attribute, replies);
            }
            CommandOutcome::Answered => {}
        }
        done
    }

    /// Translates a command, and takes what it has gathered while it waited. A reply that is known
    /// at once goes to the output or, behind replies owed, to `later`.
    #[inline]
    fn translate_command<'a>(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        args: Args<'a>,
        later: &mut Vec<u8>,
    ) -> Command<'a> {
        let context = CommandContext {
            runtime: &self.runtime,
            config: &self.config,
            clients: &self.clients,
            texts: &self.texts,
            now: self.now,
            id: connection.id,
        };
        let behind = !connection.pending.is_empty();
        let out = if behind { later } else { &mut connection.output.bytes };
        let before = out.len();
        let request = session.translate(args, &context, out);
        let muted = connection.next.muted.take().unwrap_or(session.is_muted());
        if out.get(before) == Some(&b'-') {
            self.runtime.counters.errors.add(1);
        }
        // All that a command was put off with is for this one: those put off are tried first.
        let refused = connection.next.refused.take();
        let put_off_at = connection.next.at.take();
        if put_off_at.is_none() {
            connection.next.looked = None;
            connection.next.copy = None;
        }
        let fetched = std::mem::take(&mut connection.next.fetched);
        if !matches!(request, Request::Write(_) | Request::WriteEach { .. }) {
            self.counted.others += 1;
        }
        if !matches!(request, Request::Read(_)) {
            // It stands between WATCH and what reads, even if nobody is told what it says.
            connection.watching.is_new = false;
        }
        Command { args, request, muted, refused, put_off_at, fetched }
    }

    /// Runs what concerns the connection and its transaction, and has the rest run.
    #[inline]
    fn dispatch(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        mut command: Command<'_>,
    ) -> CommandOutcome {
        let muted = command.muted;
        match std::mem::replace(&mut command.request, Request::Answered) {
            Request::Answered => {
                if command.args.is(0, "client") || command.args.is(0, "hello") {
                    self.describe(connection, session);
                }
                CommandOutcome::Answered
            }
            Request::Reset => self.reset(connection, session),
            Request::Close => {
                connection.advance(ConnectionState::Closing);
                CommandOutcome::Answered
            }
            request if let Some(text) = command.refused.take() => {
                self.refuse_command(connection, session, &request, &text, muted)
            }
            Request::Kill(kill) => self.kill_clients(at, connection, session, kill, muted),
            Request::Explain(explain) => self.explain(at, connection, session, &explain, muted),
            Request::LastRoutes => self.last_routes(connection, session, muted),
            request
                if session.names_lookup()
                    && connection.next.lookups.is_none()
                    && self.look_up(at, connection, session, &request) =>
            {
                CommandOutcome::Deferred
            }
            Request::Begin => self.begin(at, connection, session, muted),
            Request::Commit => self.commit(at, connection, session, muted),
            request if session.has_transaction() => {
                let now = command.put_off_at.unwrap_or_else(|| self.moment());
                let moment = ReadMoment { now, fetched: command.fetched };
                self.interact(at, connection, session, request, moment, muted)
            }
            ref request if let Some(text) = self.redirect_for(connection, session, request) => {
                self.refuse(connection, session, &text, muted)
            }
            request => self.run_request(at, connection, session, request, command),
        }
    }

    /// Runs a request for keys, which this node is to answer, outside of BEGIN.
    #[inline]
    fn run_request(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        request: Request<'_>,
        command: Command<'_>,
    ) -> CommandOutcome {
        let Command { args, muted, put_off_at, fetched, .. } = command;
        let now = |this: &Self| put_off_at.unwrap_or_else(|| this.moment());
        match request {
            Request::Read(read) => {
                let now = now(self);
                self.read(at, connection, session, &read, ReadMoment { now, fetched }, muted)
            }
            Request::Write(write)
                if connection.route.as_ref().is_some_and(|route| moves_value(&write, route))
                    && self.runtime.version.allows(Feature::Transactions) =>
            {
                let now = now(self);
                self.move_value(
                    at,
                    connection,
                    session,
                    MoveCommand { write, args },
                    ReadMoment { now, fetched },
                    muted,
                )
            }
            Request::Write(write) => self.write(at, connection, session, &write, muted),
            Request::WriteEach { gather, writes } => {
                self.write_each(at, connection, session, gather, &writes, muted)
            }
            Request::Watch(keys) => {
                let now = now(self);
                self.watch(at, connection, session, &keys, ReadMoment { now, fetched }, muted)
            }
            Request::Exec => {
                let now = now(self);
                self.exec(at, connection, session, ReadMoment { now, fetched }, muted)
            }
            Request::Keyspace(request) => {
                let now = now(self);
                self.scan_keyspace(
                    at,
                    connection,
                    session,
                    &request,
                    ReadMoment { now, fetched },
                    muted,
                )
            }
            Request::Wait(wait) => self.wait_for_replicas(at, connection, session, wait, muted),
            Request::Select(name) => self.select(at, connection, session, name, muted),
            other => unreachable!("{other:?} is no request for keys"),
        }
    }

    /// The session begins anew.
    fn reset(&mut self, connection: &mut Connection, session: &Session) -> CommandOutcome {
        connection.last_routes.clear();
        connection.route_version = u64::MAX;
        match connection.pending.is_empty() {
            true => self.route_of(connection, session),
            // What is on its way may come back: see `refresh_route`.
            false => connection.next.barrier = true,
        }
        CommandOutcome::Answered
    }

    /// A command that waited cannot be run.
    fn refuse_command(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        request: &Request<'_>,
        text: &str,
        muted: bool,
    ) -> CommandOutcome {
        (connection.next.looked, connection.next.copy) = (None, None);
        if *request == Request::Exec {
            session.end_transaction();
        }
        if *request == Request::Commit {
            session.take_transaction();
        }
        self.refuse(connection, session, text, muted)
    }

    /// The session's keyspace does not exist: 0 to 15 are created, any other is an error.
    pub(super) fn without_keyspace(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        muted: bool,
    ) -> CommandOutcome {
        let name = session.keyspace();
        if !is_made_on_use(name) {
            return self.refuse(connection, session, NO_KEYSPACE, muted);
        }
        self.create(at, connection, name);
        CommandOutcome::Deferred
    }

    fn select(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        name: &[u8],
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if self.runtime.routing.routes().get(&name).is_none() {
            if is_made_on_use(&name) {
                self.create(at, connection, &name);
                return CommandOutcome::Deferred;
            }
            return self.refuse(connection, session, NO_KEYSPACE, muted);
        }
        session.selected(&name);
        connection.route_version = u64::MAX;
        self.route_of(connection, session);
        if !muted {
            connection.output.bytes.extend_from_slice(b"+OK\r\n");
        }
        CommandOutcome::Answered
    }

    /// Creates a numbered keyspace; the connection's next command waits for it.
    pub(super) fn create(&mut self, at: usize, connection: &mut Connection, name: &str) {
        connection.next.waits_for = WaitsFor::Permission;
        connection.route_version = u64::MAX;
        let mut op = Vec::new();
        let options = self.config.keyspace_options();
        CatalogueOp::Create { name, options }.encode(&mut op);
        let origin = Origin(self.number as u32);
        let input = Input::Catalogue { op, origin, waiter: go_waiter(at) };
        self.inputs.push((keyspace::ShardId(0), input));
    }

    /// Renews what other connections' CLIENT LIST shows of this one.
    pub(super) fn describe(&self, connection: &Connection, session: &Session) {
        let (input, output) = (connection.input.len(), connection.unsent());
        let idle_secs = self.now.millis().saturating_sub(connection.active_millis) / 1000;
        let line = session.describe(self.now.millis(), idle_secs, input, output);
        self.clients.describe(connection.id, line);
    }

    fn route_of(&self, connection: &mut Connection, session: &Session) {
        connection.route = self.runtime.routing.routes().get(session.keyspace()).map(Arc::clone);
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

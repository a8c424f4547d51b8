//! Runs RESP commands.

use std::time::Instant;

use keyspace::Feature;
use node::replica::read::ReadTime;
use node::routing::fetch::FetchedData;

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::context::CommandContext;
use super::gets::{GETS_MAX, Get};
use super::moment::ReadMoment;
use super::pending_reply::PendingReply;
use super::scripts::SpanningCommand;
use super::state::ConnectionState;
use super::value_moves::{MoveCommand, moves_value};
use crate::config::Config;
use gateway::resp::{self, Args, Parsed, Request, RequestLimits, Session, monitor, table};

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

/// … when a command is run where only commands on keys are. None is known to come here.
const NOT_HERE: &str = "ERR this command cannot be run here; nothing was done. Please report it";

/// Longest request, however long `input_bytes_max` lets it be: a longest command, and what frames
/// its arguments.
const REQUEST_BYTES_MAX: u64 = 640 << 20;

/// What requests may be like, by the node's configuration.
pub(crate) fn limits(config: &Config) -> RequestLimits {
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
        let is_monitored = self.clients.monitors.are_there();
        let mut lines = Vec::new();
        let mut plain = self.plain(connection, &session, is_monitored);
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
                && connection.pending.is_empty()
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
                && !self.holds_back(at, connection, |show| show(key))
            {
                self.set(at, connection, &mut session, key, value);
            } else if plain.gets
                && !connection.pending.is_empty()
                && let Some(key) = args.plain_get(key_bytes_max)
            {
                if let CommandOutcome::Deferred = self.get_behind(at, connection, &session, key) {
                    break;
                }
            } else {
                if let CommandOutcome::Deferred =
                    self.run_command(at, connection, &mut session, args)
                {
                    break;
                }
                plain = self.plain(connection, &session, is_monitored);
            }
            if is_monitored {
                monitor::write_line(self.now.millis(), &session, args, &mut lines);
            }
            done += consumed;
            commands += 1;
        }
        if !lines.is_empty() {
            self.tell_monitors(&lines);
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

    fn run_command(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        args: Args<'_>,
    ) -> CommandOutcome {
        // One that is tried again was counted before.
        let is_new = connection.next.muted.is_none();
        let measured = table::lookup_slow(args).map(|spec| (spec.name, Instant::now()));
        let (done, ran) = self.run_one(at, connection, session, args, is_new);
        if let (Some((name, began)), true) = (measured, ran) {
            let nanos = began.elapsed().as_nanos() as u64;
            self.statistics.measure(name, nanos);
            let statistics = &self.clients.statistics;
            statistics.note_slow(nanos / 1000, self.now.millis() / 1000, args, session);
        }
        done
    }

    /// What became of a command, and whether it was run, and not refused or queued.
    fn run_one(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        args: Args<'_>,
        is_new: bool,
    ) -> (CommandOutcome, bool) {
        let replies = connection.reply_place();
        let mut later = Vec::new();
        let command = self.translate_command(connection, session, args, &mut later);
        let muted = command.muted;
        let ran = session.take_uncounted();
        if let (Some(name), true) = (ran, is_new) {
            self.statistics.count(name, 1);
            if command.request == Request::Exec {
                session.each_queued_name(&mut |name| self.statistics.count(name, 1));
            }
        }
        let done = self.dispatch(at, connection, session, command);
        if !later.is_empty() {
            connection.pending.push_back(PendingReply::bytes(later));
        }
        if matches!(done, CommandOutcome::Answered) && connection.speculative_reply().is_none() {
            self.leave_retry_queue(at);
        }
        if connection.tracking.is_some() && matches!(done, CommandOutcome::Answered) {
            self.end_caching(session, args);
        }
        match done {
            CommandOutcome::Deferred => connection.next.muted = Some(muted),
            CommandOutcome::Answered if connection.next.lookups.is_some() => {
                let attribute = self.attribute(connection, session, muted);
                connection.precede(attribute, replies);
            }
            CommandOutcome::Answered => {}
        }
        (done, ran.is_some())
    }

    /// The server as a command of this connection sees it.
    #[inline]
    pub(super) fn context_of(&self, connection: &Connection) -> CommandContext<'_> {
        CommandContext {
            runtime: &self.runtime,
            config: &self.config,
            mode: connection.mode,
            is_tls: connection.transport.is_tls(),
            gate: self.gate.as_deref(),
            clients: &self.clients,
            texts: &self.texts,
            now: self.now,
            id: connection.id,
            draft: None,
        }
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
        let context = self.context_of(connection);
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
            Request::Reset => {
                self.end_tracking(connection);
                self.reset(at, connection, session)
            }
            Request::Track(tracking) if command.refused.is_none() => {
                self.track(at, connection, session, tracking, muted)
            }
            Request::Close => {
                connection.advance(ConnectionState::Closing);
                CommandOutcome::Answered
            }
            request if let Some(text) = command.refused.take() => {
                self.refuse_command(connection, session, &request, &text, muted)
            }
            request @ Request::Script(_) if !session.has_transaction() => {
                match self.redirect_for(connection, session, &request) {
                    Some(text) => {
                        connection.next.has_asked_others = false;
                        self.refuse(connection, session, &text, muted)
                    }
                    None if connection.tracking.is_some()
                        && !self.hold_keys(
                            at,
                            connection,
                            session,
                            &request,
                            command.put_off_at,
                        ) =>
                    {
                        CommandOutcome::Deferred
                    }
                    None => self.script(at, connection, session, &request, muted),
                }
            }
            _ if connection.waits_for_scripts() => CommandOutcome::Deferred,
            Request::Scripts(asked) => self.ask_of_scripts(at, connection, session, asked, muted),
            Request::Transfer(asked) if !session.has_transaction() => {
                let what = SpanningCommand { args: command.args, needs_memory: !asked.moves };
                let outcome = self.span_keyspaces(at, connection, session, what, muted);
                if let CommandOutcome::Answered = outcome {
                    self.note_transfer(connection, &asked);
                }
                outcome
            }
            Request::Swap(_) if !session.has_transaction() => {
                let what = SpanningCommand { args: command.args, needs_memory: false };
                self.span_keyspaces(at, connection, session, what, muted)
            }
            Request::PublishToTopic { topic, messages } if !session.has_transaction() => {
                self.publish_to_topic(at, connection, session, (topic, messages), muted)
            }
            Request::Libraries(asked) => {
                self.ask_of_libraries(at, connection, session, asked, muted)
            }
            request @ (Request::Subscribe { .. }
            | Request::Unsubscribe { .. }
            | Request::Publish { .. }) => self.run_pubsub(at, connection, session, request, muted),
            Request::Kill(kill) => self.kill_clients(at, connection, session, kill, muted),
            Request::Past(asked) if !session.has_transaction() => {
                self.read_past(at, connection, session, &asked, muted)
            }
            Request::Exec if let Some(moment) = session.queued_at() => {
                self.exec_past(at, connection, session, moment, muted)
            }
            Request::ReadAt(moment) => self.read_at(connection, session, moment, muted),
            Request::Collect(asked) => self.collect(at, connection, session, &asked, muted),
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
            Request::Commit => {
                let (touched, route) =
                    (Self::touched(session, &Request::Commit), connection.route.clone());
                let owed = (connection.next_number(), connection.output.bytes.len());
                let done = self.commit(at, connection, session, muted);
                if connection.tracking.is_some() && matches!(done, CommandOutcome::Answered) {
                    self.note_touched(connection, session, route, touched, owed);
                }
                done
            }
            request if session.has_transaction() => {
                let now = command.put_off_at.unwrap_or_else(|| self.moment());
                let moment = ReadMoment { now, fetched: command.fetched };
                let tracks = connection.tracking.is_some();
                let touched = tracks.then(|| Self::touched(session, &request));
                let owed = (connection.next_number(), connection.output.bytes.len());
                let done = self.interact(at, connection, session, request, moment, muted);
                if let (Some(touched), CommandOutcome::Answered) = (touched, &done) {
                    self.doubt_shown(connection, session, touched, owed);
                }
                done
            }
            ref request if let Some(text) = self.redirect_for(connection, session, request) => {
                self.refuse(connection, session, &text, muted)
            }
            request if connection.tracking.is_some() => {
                self.run_tracked(at, connection, session, request, command)
            }
            request => self.run_request(at, connection, session, request, command),
        }
    }

    /// As [`Self::run_request`], of a connection whose client caches what it reads.
    #[cold]
    fn run_tracked(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        request: Request<'_>,
        command: Command<'_>,
    ) -> CommandOutcome {
        if !self.hold_keys(at, connection, session, &request, command.put_off_at) {
            return CommandOutcome::Deferred;
        }
        let touched = Self::touched(session, &request);
        let route = self.tracked_route(connection, session, &request);
        let owed = (connection.next_number(), connection.output.bytes.len());
        let done = self.run_request(at, connection, session, request, command);
        if matches!(done, CommandOutcome::Answered) {
            self.note_touched(connection, session, route, touched, owed);
        }
        done
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
            // All others are named, so that a new one must find its place.
            Request::Answered
            | Request::Begin
            | Request::Commit
            | Request::Transfer(_)
            | Request::Swap(_)
            | Request::PublishToTopic { .. }
            | Request::Script(_)
            | Request::Scripts(_)
            | Request::Libraries(_)
            | Request::Past(_)
            | Request::ReadAt(_)
            | Request::Collect(_)
            | Request::Explain(_)
            | Request::LastRoutes
            | Request::Kill(_)
            | Request::Track(_)
            | Request::Subscribe { .. }
            | Request::Unsubscribe { .. }
            | Request::Publish { .. }
            | Request::Reset
            | Request::Close => self.refuse(connection, session, NOT_HERE, muted),
        }
    }

    /// The session begins anew.
    fn reset(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
    ) -> CommandOutcome {
        let subscriptions = std::mem::take(session.subscriptions_mut());
        if !subscriptions.is_empty() {
            self.end_subscriptions(at, &subscriptions);
            self.describe(connection, session);
        }
        connection.last_routes.clear();
        connection.route_version = u64::MAX;
        match connection.pending.is_empty() {
            true => self.route_of(connection, session),
            // What is on its way may come back: see `refresh_route`.
            false => connection.next.barrier = true,
        }
        CommandOutcome::Answered
    }

    /// Renews what other connections' CLIENT LIST shows of this one.
    pub(super) fn describe(&self, connection: &mut Connection, session: &Session) {
        connection.shown_command = session.last_command();
        let (input, output) = (connection.input.len(), connection.unsent());
        let idle_secs = self.now.millis().saturating_sub(connection.active_millis) / 1000;
        let line = session.describe(self.now.millis(), idle_secs, input, output);
        self.clients.describe(connection.id, line);
    }
}

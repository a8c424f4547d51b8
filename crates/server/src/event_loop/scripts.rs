//! Takes scripts from connections to the script threads, and their replies back.
//!
//! A connection's scripts of one shard that is led here run in the order in which they came, and
//! may be under way together. Before any other script, and any other command behind a script, a
//! connection waits until it is owed no reply: what a script will touch is not known before.

use std::sync::Arc;

use command::TopicKind;
use gateway::resp::{
    Args, Queue, Request, ScriptCall, ScriptName, ScriptRequest, Session, Transfer, needs_memory,
};
use keyspace::{Feature, ShardId};
use node::replica::entry::Waiter;
use node::routing::route::Route;

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::pending_reply::{PendingReply, ReplyFrame};
use super::resp::{CommandOutcome, EXEC_OUT_OF_MEMORY, OUT_OF_MEMORY};
use super::serve::{place, waiter};
use super::transactions::{CLUSTER_VERSION_TOO_LOW, QueuedCommands, SHARD_SUBSCRIPTION};
use crate::scripts::{
    self, Caller, ExecProgram, Filling, Gaps, Job, JobReply, NoScript, Program, ReplyTo, RunsAt,
};

/// MOVE, COPY to another keyspace, or SWAPDB.
pub(super) struct SpanningCommand<'a> {
    pub args: Args<'a>,
    /// Whether it is refused when there is no memory.
    pub needs_memory: bool,
}

impl EventLoop {
    /// Has a script run.
    pub(super) fn script(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        request: &Request<'_>,
        muted: bool,
    ) -> CommandOutcome {
        let Request::Script(call) = request else { unreachable!("only scripts come here") };
        if !self.runtime.version.allows(Feature::Transactions) {
            return self.refuse(connection, session, CLUSTER_VERSION_TOO_LOW, muted);
        }
        let Some(route) = connection.route.clone() else {
            if connection.waits_for_scripts() {
                return CommandOutcome::Deferred;
            }
            return self.without_keyspace(at, connection, session, muted);
        };
        let runs_at = RunsAt::of(&self.runtime, &route, &call.keys);
        // What it touches is known with its reply, and a client that caches hears of it then.
        let queue = match runs_at {
            RunsAt::Queue(shard) if connection.tracking.is_none() => Some(shard),
            _ => None,
        };
        let goes_with = connection
            .next
            .scripts
            .is_some_and(|(shard, owed)| queue == Some(shard) && owed == connection.pending.len());
        if !goes_with && connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let has_asked = std::mem::take(&mut connection.next.has_asked_others);
        let resolved =
            self.runtime.scripts.resolve(call, self.is_out_of_memory(), self.config.resp_mode);
        let program = match resolved {
            Ok(program) => program,
            Err(_) if !has_asked && self.asks_others(at, connection, call.name) => {
                return CommandOutcome::Deferred;
            }
            Err(text) => return self.refuse(connection, session, &text, muted),
        };
        let caller = self.caller(at, connection, session, &route);
        self.scripts.push((runs_at, Job::new(program, call, caller)));
        if connection.tracking.is_some() {
            let declared = if call.read_only { &[][..] } else { &call.keys };
            self.owe_touching(connection, session, declared);
        }
        self.owe_script(connection, session, queue, muted);
        // Its reply names what it has written to, if there is one.
        if self.runtime.peers.is_some() && !call.read_only {
            for key in &call.keys {
                connection.written.add(route.shard(route.place_of_key(key)));
            }
        }
        CommandOutcome::Answered
    }

    /// Publishes to a durable topic: a script, in the queue of the topic's shard.
    pub(super) fn publish_to_topic(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        (topic, messages): (&[u8], Vec<&[u8]>),
        muted: bool,
    ) -> CommandOutcome {
        if self.is_out_of_memory() {
            return self.refuse(connection, session, OUT_OF_MEMORY, muted);
        }
        let head = topics::keys::head(&String::from_utf8_lossy(topic));
        let args = [topic].into_iter().chain(messages).collect();
        let name = ScriptName::Source(scripts::PUBLISH);
        let call = ScriptCall { name, keys: vec![&head], args, read_only: false };
        let request = Request::Script(Box::new(call));
        self.script(at, connection, session, &request, muted)
    }

    fn caller(
        &self,
        at: usize,
        connection: &Connection,
        session: &Session,
        route: &Route,
    ) -> Caller {
        Caller {
            keyspace: route.keyspace.id,
            version: session.version(),
            client: connection.id,
            gone: connection.gone.clone(),
            tracks: connection.tracking.is_some(),
            mode: self.config.resp_mode,
            came: self.moment(),
            reply_to: ReplyTo::Connection {
                event_loop: self.number,
                waiter: waiter(at, connection.next_number()),
            },
        }
    }

    fn owe_script(
        &self,
        connection: &mut Connection,
        session: &Session,
        queue: Option<ShardId>,
        muted: bool,
    ) {
        // It may run for long, and others look which connection's script it is.
        if connection.shown_command != session.last_command() {
            self.describe(connection, session);
        }
        let frame = ReplyFrame::Resp { version: session.version(), muted };
        connection.pending.push_back(PendingReply::waiting(frame));
        match queue {
            Some(queue) => connection.next.scripts = Some((queue, connection.pending.len())),
            None => connection.next.barrier = true,
        }
    }

    /// Has an EXEC run of which one command at least is a script, or which spans keyspaces.
    pub(super) fn exec_scripts(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        QueuedCommands { queue, watched }: QueuedCommands<'_>,
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let Some(route) = connection.route.clone() else { unreachable!("it was looked up before") };
        if self.is_out_of_memory() && queue.commands().any(needs_memory) {
            return self.refuse(connection, session, EXEC_OUT_OF_MEMORY, muted);
        }
        if let Some(text) = scripts::refusal(queue) {
            return self.refuse(connection, session, &text, muted);
        }
        let caller = self.caller(at, connection, session, &route);
        let program = Program::Exec(Arc::new(ExecProgram {
            is_alone: false,
            queue: queue.clone(),
            watched: watched.keys().map(|(key, seen)| (key.into(), seen)).collect(),
        }));
        let job = Job::without_arguments(program, caller);
        let unknown = scripts::unknown_scripts(&self.runtime, queue);
        match scripts::needs_news(&self.runtime, queue) {
            needs_news if !unknown.is_empty() => {
                scripts::push_with_scripts(&self.runtime, unknown, needs_news, job);
            }
            true => scripts::push_with_news(&self.runtime, job),
            false => self.scripts.push((RunsAt::Anywhere, job)),
        }
        if connection.tracking.is_some() {
            self.owe_touching(connection, session, &[]);
        }
        self.owe_script(connection, session, None, muted);
        CommandOutcome::Answered
    }

    /// Runs one command that needs keys of two keyspaces, like a script.
    pub(super) fn span_keyspaces(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        SpanningCommand { args, needs_memory }: SpanningCommand<'_>,
        muted: bool,
    ) -> CommandOutcome {
        if !self.runtime.version.allows(Feature::Transactions) {
            return self.refuse(connection, session, CLUSTER_VERSION_TOO_LOW, muted);
        }
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        if needs_memory && self.is_out_of_memory() {
            return self.refuse(connection, session, OUT_OF_MEMORY, muted);
        }
        let caller = self.caller(at, connection, session, &route);
        let (queue, watched) = (Queue::of(args), Box::default());
        let program = Program::Exec(Arc::new(ExecProgram { is_alone: true, queue, watched }));
        self.scripts.push((RunsAt::Anywhere, Job::without_arguments(program, caller)));
        if connection.tracking.is_some() {
            self.owe_touching(connection, session, &[]);
        }
        self.owe_script(connection, session, None, muted);
        CommandOutcome::Answered
    }

    /// Notes which shards MOVE or COPY writes to.
    pub(super) fn note_transfer(&self, connection: &mut Connection, asked: &Transfer<'_>) {
        if self.runtime.peers.is_some()
            && let Some(route) = connection.route.clone()
        {
            let there = String::from_utf8_lossy(asked.keyspace);
            let routes = self.runtime.routing.routes();
            let to = routes.get(&there).map(|there| there.shard(there.place_of_key(asked.to)));
            let from = route.shard(route.place_of_key(asked.from));
            to.into_iter().chain([from]).for_each(|shard| connection.written.add(shard));
        }
    }

    /// Gives the scripts of this iteration to the script threads.
    pub(super) fn hand_over_scripts(&mut self) {
        for (runs_at, job) in self.scripts.drain(..) {
            match runs_at {
                RunsAt::Queue(shard) => self.runtime.scripts.push_in_queue(shard, job),
                RunsAt::Leader(node) => scripts::forward(&self.runtime, node, job),
                RunsAt::Unled => scripts::find_queue(&self.runtime, job),
                RunsAt::Anywhere => self.runtime.scripts.push(job),
            }
        }
    }

    /// Replies of scripts have come.
    pub(super) fn scripted(&mut self, replies: Vec<(Waiter, JobReply)>) {
        self.tell_news();
        for (waiter, reply) in replies {
            let JobReply { mut bytes, is_error, written, touched, selected, gaps, .. } = reply;
            if is_error {
                self.runtime.counters.errors.add(1);
            }
            let at = place(waiter);
            if self.connection_at(at).tracking.is_some() {
                self.note_script(at, waiter.0 as u32, touched);
            }
            if let Some(name) = selected {
                self.has_selected(at, &name);
            }
            if let Some(gaps) = gaps {
                bytes = self.fill_gaps(at, *gaps, &bytes);
            }
            let connection = self.connection_at(at);
            written.into_iter().for_each(|shard| connection.written.add(shard));
            connection.fill_bytes(waiter.0 as u32, bytes);
            self.filled(at);
        }
    }

    /// The reply of an EXEC whose keys are committed, with what its connection says.
    fn fill_gaps(&mut self, at: usize, mut gaps: Gaps, bytes: &[u8]) -> Vec<u8> {
        let Some(mut connection) = self.connections.get_mut(at).and_then(Option::take) else {
            unreachable!("a connection stays until all it asked is answered")
        };
        let protocol = std::mem::replace(&mut connection.protocol, Protocol::Native);
        let Protocol::Resp(mut session, ranges) = protocol else {
            unreachable!("only this protocol has EXEC")
        };
        let commands: Vec<Args<'_>> = gaps.exec.queue.commands().collect();
        let mut subscriptions = None;
        for gap in &mut gaps.all {
            let Filling::Connection(number) = gap.filling else { continue };
            let mut reply = Vec::new();
            let context = self.context_of(&connection);
            match session.translate_queued(commands[number], &context, &mut reply) {
                Request::Answered => self.describe(&mut connection, &session),
                Request::Subscribe { kind: TopicKind::Shard, .. } => {
                    session.writer(&mut reply).error(SHARD_SUBSCRIPTION);
                }
                request => {
                    let subscriptions =
                        subscriptions.get_or_insert_with(|| session.subscriptions().clone());
                    let (bytes, effect) = self.queue_pubsub(&session, subscriptions, request);
                    reply = bytes;
                    connection.effects.push(effect);
                }
            }
            gap.filling = Filling::Reply(reply);
        }
        connection.protocol = Protocol::Resp(session, ranges);
        self.connections[at] = Some(connection);
        gaps.fill(bytes)
    }

    /// Answers SCRIPT.
    pub(super) fn ask_of_scripts(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        asked: ScriptRequest<'_>,
        muted: bool,
    ) -> CommandOutcome {
        let cache = &self.runtime.scripts.cache;
        match asked {
            ScriptRequest::Load(source) => {
                let Some(route) = connection.route.clone() else {
                    return self.without_keyspace(at, connection, session, muted);
                };
                if connection.waits_at_barrier() {
                    return CommandOutcome::Deferred;
                }
                let script = match cache.add(source) {
                    Ok(script) => script,
                    Err(NoScript::Malformed(text)) => {
                        return self.refuse(connection, session, &text, muted);
                    }
                    Err(NoScript::Unknown(_)) => unreachable!("its source is known"),
                };
                let caller = self.caller(at, connection, session, &route);
                let job = Job::without_arguments(Program::Load(script), caller);
                self.scripts.push((RunsAt::Anywhere, job));
                self.owe_script(connection, session, None, muted);
                CommandOutcome::Answered
            }
            asked => self.ask_members(at, connection, session, asked, muted),
        }
    }
}

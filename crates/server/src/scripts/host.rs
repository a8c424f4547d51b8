//! What a script's commands do: they run on a copy of the keys, as between BEGIN and COMMIT.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use command::{Expiry, Read, Reply, SetIf, SetReply, Sink as _, Step, TopicKind, Write};
use gateway::resp::{
    ArgRanges, Args, KeyspaceRequest, Mode, Request, RespWriter, ScriptCall, ScriptRequest,
    ScriptedCommand, Session, Transfer, Version, concerns_connection,
};
use keyspace::KeyspaceId;
use lua::{Flow, Host, LogLevel};
use node::replica::script_keys::{ScriptHalt, ScriptKeys};
use node::routing::route::Route;

use super::Surroundings;
use super::exec_changes::{Change, Draft};
use super::job::TouchedKeys;
use super::log_limit::LINE_BYTES_MAX;
use super::run::Ground;
use super::scans::OwnClient;
use crate::event_loop::{CommandContext, size_of, steps_of, write_executed, write_known};
use crate::runtime::NodeRuntime;
use crate::runtime::pubsub::Message;

/// Bytes of messages and their channels that a script may send.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
const NOT_SELECTED: &str = "TRYAGAIN the keyspace could not be made in time; nothing was done";
const NOT_ALLOWED: &str = "ERR This Redis command is not allowed from script";

/// A keyspace that a command names.
pub(super) enum Named {
    /// The script's own.
    Own,
    /// Another.
    Other(Arc<Route>),
    /// It is not there, and could not be made.
    Missing,
    /// To use it takes long, and the script must not hold up others.
    TakesLong,
}

/// What scripts of one thread use again and again.
pub struct Workspace {
    session: Session,
    ranges: ArgRanges,
    own_client: Option<OwnClient>,
}

impl Workspace {
    /// Of a thread.
    pub fn new(surroundings: &Surroundings) -> Self {
        let limits = crate::event_loop::request_limits(&surroundings.config);
        let (peer, lookup) = (gateway::resp::Peer::default(), overlay::LookupChoice::default());
        let session = Session::new(0, peer, limits, lookup, 0);
        Self { session, ranges: ArgRanges::new(), own_client: None }
    }
}

/// Why a script cannot go on here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// By its keys in this keyspace.
    Keys(KeyspaceId, ScriptHalt),
    /// It takes long, and would hold up others.
    TakesLong,
}

/// What is to be done for a command of an EXEC.
pub enum Queued<'q> {
    /// Nothing more.
    Done,
    /// Run this.
    Script(Box<ScriptCall<'q>>),
    /// Remember this source.
    Load(&'q [u8]),
    /// Make this change when the keys are committed.
    Change(Box<Change>),
    /// The connection does it when the keys are committed.
    Connection,
}

/// The server as one script sees it.
pub struct ScriptHost<'a> {
    pub(super) runtime: &'a NodeRuntime,
    pub(super) surroundings: &'a Surroundings,
    workspace: &'a mut Workspace,
    pub(super) ground: Ground<'a>,
    may: ScriptedCommand,
    /// The mode of its client's node.
    pub mode: Mode,
    /// The keyspace that it has selected, unless it is its own.
    pub selected: Option<Arc<Route>>,
    /// Set by another thread to stop it.
    pub killed: Option<&'a AtomicBool>,
    /// Why it was ended.
    pub halt: Option<Halt>,
    /// Whether it has changed the copy.
    pub wrote: bool,
    /// The messages that it sends on commit.
    pub messages: Vec<Arc<Message>>,
    /// The keys that it touches, if somebody wants to know.
    pub touched: Option<Box<TouchedKeys>>,
}

impl<'a> ScriptHost<'a> {
    /// For a script that runs on this.
    pub fn new(
        runtime: &'a NodeRuntime,
        surroundings: &'a Surroundings,
        workspace: &'a mut Workspace,
        ground: Ground<'a>,
        may: ScriptedCommand,
    ) -> Self {
        Self {
            runtime,
            surroundings,
            workspace,
            ground,
            may,
            mode: surroundings.config.resp_mode,
            selected: None,
            killed: None,
            halt: None,
            wrote: false,
            messages: Vec::new(),
            touched: None,
        }
    }
}

impl ScriptHost<'_> {
    pub(super) fn run(&mut self, steps: &[Step<'_>]) -> Result<Vec<Reply>, Halt> {
        self.run_in(self.selected.clone().as_ref(), steps)
    }

    /// Runs commands in its own keyspace or in another.
    pub(super) fn run_in(
        &mut self,
        other: Option<&Arc<Route>>,
        steps: &[Step<'_>],
    ) -> Result<Vec<Reply>, Halt> {
        self.note_touched(other.is_some(), steps);
        let mut keys = self.keys_of(other);
        let keyspace = keys.route.keyspace.id;
        let (replies, wrote) = (keys.run(steps), keys.wrote);
        self.wrote = wrote;
        replies.map_err(|halt| Halt::Keys(keyspace, halt))
    }

    /// The keys of its own keyspace, or of another.
    pub(super) fn keys_of<'k>(&'k mut self, other: Option<&'k Arc<Route>>) -> ScriptKeys<'k> {
        let Ground { route, place, now, copy, others, .. } = &mut self.ground;
        let (now, wrote) = (*now, self.wrote);
        match (other, others) {
            (Some(route), Some(others)) => {
                let copy = others.copy(self.runtime, route.keyspace.id, copy);
                ScriptKeys { route, place: None, now, copy, wrote }
            }
            _ => ScriptKeys { route, place: *place, now, copy, wrote },
        }
    }

    /// Notes which keys commands touch, if somebody wants to know.
    fn note_touched(&mut self, is_elsewhere: bool, steps: &[Step<'_>]) {
        let Some(touched) = &mut self.touched else { return };
        for step in steps {
            let keys = match step {
                _ if is_elsewhere => &mut touched.elsewhere,
                Step::Read(_) => &mut touched.read,
                Step::Write(_) => &mut touched.written,
            };
            step.each_key(&mut |key| _ = keys.insert(key.into()));
        }
    }

    /// The name of the selected keyspace.
    pub(super) fn selected_name(&self) -> &str {
        &self.selected.as_ref().unwrap_or(self.ground.route).keyspace.name
    }

    /// Finds a keyspace by its name; one with a number is made, if need be.
    pub(super) fn find_keyspace(&mut self, name: &[u8], version: Version) -> Named {
        if name == self.ground.route.keyspace.name.as_bytes() {
            return Named::Own;
        }
        if self.ground.others.is_none() {
            return Named::TakesLong;
        }
        let name = String::from_utf8_lossy(name);
        let find = |runtime: &NodeRuntime| runtime.routing.routes().get(&name).map(Arc::clone);
        if let Some(found) = find(self.runtime) {
            return Named::Other(found);
        }
        if !self.ground.is_long {
            return Named::TakesLong;
        }
        match self.with_own_client(&name, version, |_, _| Ok(())) {
            Ok(()) => find(self.runtime).map_or(Named::Missing, Named::Other),
            Err(_) => Named::Missing,
        }
    }

    /// Has the thread's own client, which has selected a keyspace, do something, until the
    /// script's time is over. A client that fails is of no use any more.
    pub(super) fn with_own_client(
        &mut self,
        keyspace: &str,
        version: Version,
        act: impl FnOnce(&mut OwnClient, &dyn Fn() -> bool) -> io::Result<()>,
    ) -> io::Result<()> {
        let (until, killed, mode) = (self.ground.until, self.killed, self.mode);
        let is_over = || {
            let is_killed = killed.is_some_and(|killed| killed.load(Ordering::Acquire));
            is_killed || Instant::now() >= until
        };
        let mut client = match self.workspace.own_client.take_if(|client| client.mode() == mode) {
            Some(client) => client,
            None => OwnClient::connect(self.runtime, self.surroundings, mode)?,
        };
        client.select(keyspace, version, &is_over)?;
        act(&mut client, &is_over)?;
        self.workspace.own_client = Some(client);
        Ok(())
    }

    /// SELECT: for the script alone.
    fn select(&mut self, name: &[u8], version: Version, reply: &mut Vec<u8>) -> Flow {
        self.selected = match self.find_keyspace(name, version) {
            Named::Own => None,
            Named::Other(route) => Some(route),
            other => return self.without_keyspace(&other, version, reply),
        };
        RespWriter::new(reply, version).ok();
        Flow::Continue
    }

    pub(super) fn without_keyspace(
        &mut self,
        named: &Named,
        version: Version,
        reply: &mut Vec<u8>,
    ) -> Flow {
        if let Named::TakesLong = named {
            self.halt = Some(Halt::TakesLong);
            return Flow::Abort;
        }
        RespWriter::new(reply, version).error(NOT_SELECTED);
        Flow::Continue
    }

    /// MOVE, and COPY to another keyspace.
    fn transfer(&mut self, asked: &Transfer<'_>, version: Version, reply: &mut Vec<u8>) -> Flow {
        let there = match self.find_keyspace(asked.keyspace, version) {
            Named::Own => None,
            Named::Other(route) => Some(route),
            other => return self.without_keyspace(&other, version, reply),
        };
        match self.transfer_to(there.as_ref(), asked) {
            Ok(is_done) => {
                RespWriter::new(reply, version).int(i64::from(is_done));
                Flow::Continue
            }
            Err(halt) => {
                self.halt = Some(halt);
                Flow::Abort
            }
        }
    }

    fn transfer_to(
        &mut self,
        there: Option<&Arc<Route>>,
        asked: &Transfer<'_>,
    ) -> Result<bool, Halt> {
        let Transfer { from, to, moves, replace, .. } = *asked;
        let ends = Read::Ttl { key: from, millis: true, absolute: true };
        let read = self.run(&[Step::Read(Read::Get(from)), Step::Read(ends)])?;
        let [Reply::Bulk(value), Reply::Int(ends)] = &read[..] else { return Ok(false) };
        let is_taken = Step::Read(Read::Exists(vec![to]));
        if !replace && self.run_in(there, &[is_taken])? == [Reply::Int(1)] {
            return Ok(false);
        }
        let expiry = u64::try_from(*ends).map_or(Expiry::Never, Expiry::At);
        let (when, reply) = (SetIf::Always, SetReply::Ok);
        let set = Write::Set { key: to, value, when, expiry, reply };
        self.run_in(there, &[Step::Write(set)])?;
        if moves {
            self.run(&[Step::Write(Write::Delete { key: from })])?;
        }
        Ok(true)
    }
}

impl<'a> ScriptHost<'a> {
    fn context(&self) -> CommandContext<'a> {
        CommandContext {
            runtime: self.runtime,
            config: &self.surroundings.config,
            mode: self.mode,
            is_tls: false,
            gate: None,
            clients: &self.surroundings.clients,
            texts: &self.surroundings.texts,
            // Time stands still for it, also when it runs again.
            now: self.ground.copy.began(),
            id: 0,
            draft: None,
        }
    }

    /// Has the session that translates commands be as the script's.
    fn set_session(&mut self, version: Version) {
        let name = &self.selected.as_ref().unwrap_or(self.ground.route).keyspace.name;
        self.workspace.session.selected(name);
        self.workspace.session.set_version(version);
    }

    /// Does a command of an EXEC, and appends its reply; or what else is to be done for it.
    pub fn queued<'q>(
        &mut self,
        args: Args<'q>,
        version: Version,
        draft: &Draft,
        reply: &mut Vec<u8>,
    ) -> Queued<'q> {
        // The session here is none of its connection's.
        if concerns_connection(args) {
            return Queued::Connection;
        }
        let context = CommandContext { draft: Some(draft), ..self.context() };
        self.set_session(version);
        match self.workspace.session.translate_queued(args, &context, reply) {
            Request::Script(call) => Queued::Script(call),
            Request::Scripts(ScriptRequest::Load(source)) => Queued::Load(source),
            Request::Scripts(ScriptRequest::Flush) => {
                Queued::Change(Box::new(Change::FlushScripts { then: Vec::new() }))
            }
            Request::Scripts(ScriptRequest::Kill { functions }) => {
                Queued::Change(Box::new(Change::Kill { functions }))
            }
            Request::Subscribe { .. } | Request::Unsubscribe { .. } => Queued::Connection,
            Request::Libraries(asked) if asked.is_change() => {
                self.change(&asked, version, draft, reply)
            }
            request => {
                let mut writer = RespWriter::new(reply, version);
                if !write_known(self.runtime, draft, &request, &mut writer) {
                    let refusal = "ERR this is not allowed in transactions";
                    self.perform(args, request, version, reply, refusal);
                }
                Queued::Done
            }
        }
    }

    /// Does what a command asks for, and appends its reply; or says why it halts.
    fn perform(
        &mut self,
        args: Args<'_>,
        request: Request<'_>,
        version: Version,
        reply: &mut Vec<u8>,
        refusal: &str,
    ) -> Flow {
        let Some((steps, part)) = (match request {
            Request::Answered => return Flow::Continue,
            Request::Publish { kind, channel, message } => {
                return self.publish(kind, channel, message, version, reply);
            }
            Request::Keyspace(ref asked) if self.shows_flushed(asked, version, reply) => {
                return Flow::Continue;
            }
            Request::Keyspace(ref asked) if is_scan(asked) && !self.ground.is_long => {
                self.halt = Some(Halt::TakesLong);
                return Flow::Abort;
            }
            Request::Keyspace(ref asked) if is_scan(asked) => {
                return self.scan(asked, args, version, reply);
            }
            Request::Keyspace(KeyspaceRequest::Flush) => return self.flush(false, version, reply),
            Request::Keyspace(KeyspaceRequest::FlushAll) => {
                return self.flush(true, version, reply);
            }
            Request::Select(name) => return self.select(name, version, reply),
            Request::Swap(names) => return self.swap(names, version, reply),
            Request::Transfer(asked) => return self.transfer(&asked, version, reply),
            Request::PublishToTopic { topic, messages } => {
                return self.publish_to_topic(topic, &messages, version, reply);
            }
            request => steps_of(request),
        }) else {
            RespWriter::new(reply, version).error(refusal);
            return Flow::Continue;
        };
        let sized = match &steps[..] {
            [Step::Read(Read::Get(key))] if self.workspace.session.replies_size() => {
                Some(key.len())
            }
            _ => None,
        };
        match self.run(&steps) {
            Ok(replies) => {
                if let (Some(key), [Reply::Bulk(value)]) = (sized, &replies[..]) {
                    RespWriter::new(reply, version).int(size_of(key, value.len()));
                    return Flow::Continue;
                }
                write_executed(&[part], &Reply::Array(replies), version, reply);
                Flow::Continue
            }
            Err(halt) => {
                self.halt = Some(halt);
                Flow::Abort
            }
        }
    }
}

impl ScriptHost<'_> {
    /// Sends a message when the script is done; the count is what this node knows now.
    fn publish(
        &mut self,
        kind: TopicKind,
        channel: &[u8],
        message: &[u8],
        version: Version,
        reply: &mut Vec<u8>,
    ) -> Flow {
        let bytes = |message: &Arc<Message>| message.message.len() + message.channel.len();
        let sum = self.messages.iter().map(bytes).sum::<usize>() + message.len() + channel.len();
        if sum > MESSAGE_BYTES_MAX {
            let keyspace = self.ground.route.keyspace.id;
            self.halt = Some(Halt::Keys(keyspace, ScriptHalt::TooMuch));
            return Flow::Abort;
        }
        let count = self.runtime.pubsub.receivers(kind, channel);
        RespWriter::new(reply, version).int(count as i64);
        let message = Bytes::copy_from_slice(message);
        self.messages.push(Arc::new(Message { kind, channel: channel.into(), message }));
        Flow::Continue
    }
}

/// Whether a command looks through a keyspace.
pub(super) fn is_scan(asked: &KeyspaceRequest<'_>) -> bool {
    matches!(
        asked,
        KeyspaceRequest::Size
            | KeyspaceRequest::Keys { .. }
            | KeyspaceRequest::Scan { .. }
            | KeyspaceRequest::RandomKey
            | KeyspaceRequest::CountInSlot { .. }
            | KeyspaceRequest::KeysInSlot { .. }
            | KeyspaceRequest::Range(_)
    )
}

impl Host for ScriptHost<'_> {
    fn call(&mut self, args: &[&[u8]], resp3: bool, reply: &mut Vec<u8>) -> Flow {
        let context = self.context();
        let version = if resp3 { Version::V3 } else { Version::V2 };
        // Taken out, so that the rest can be used meanwhile.
        let mut ranges = std::mem::take(&mut self.workspace.ranges);
        self.set_session(version);
        let session = &mut self.workspace.session;
        let args = ranges.gather(args);
        let request = session.translate_scripted(args, self.may, &context, reply);
        let flow = self.perform(args, request, version, reply, NOT_ALLOWED);
        self.workspace.ranges = ranges;
        flow
    }

    fn allows(&mut self, args: &[&[u8]]) -> Option<bool> {
        gateway::resp::table::find_shown(args.first()?).map(|_| true)
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        let is_logged = match level {
            LogLevel::Debug | LogLevel::Verbose => tracing::enabled!(tracing::Level::DEBUG),
            LogLevel::Notice => tracing::enabled!(tracing::Level::INFO),
            LogLevel::Warning => tracing::enabled!(tracing::Level::WARN),
        };
        let (limit, now) = (&self.runtime.scripts.log_limit, Instant::now());
        limit.tick(now);
        if !is_logged || !limit.allows(now) {
            return;
        }
        let message = message[..message.len().min(LINE_BYTES_MAX)].escape_ascii();
        match level {
            LogLevel::Debug | LogLevel::Verbose => tracing::debug!("a script says: {message}"),
            LogLevel::Notice => tracing::info!("a script says: {message}"),
            LogLevel::Warning => tracing::warn!("a script says: {message}"),
        }
    }
}

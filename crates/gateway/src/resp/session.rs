//! The state of a RESP connection, which gives its next command its meaning.
//!
//! [`Session::translate`] turns arguments into a [`Request`]: work for the node, or nothing if the
//! answer could be given at once (PING, HELLO, every error). GET and a plain SET are recognised
//! before anything else; all others go through the command [`table`](super::table), which knows
//! arity and keys, to one function each in [`commands`](super::commands).
//!
//! Invariants: an error leaves the session as it was. A command whose reply the client does not
//! want (CLIENT REPLY) leaves no bytes in the output; the code that answers the rest asks
//! [`Session::is_muted`]. Times leave this module absolute (SAFETY G13).

use std::cell::Cell;

use command::{ObservedVersion, Read, Write};
use keyspace::KeyspaceId;
use overlay::Kind;
use txn::interactive::InteractiveTxn;

use super::args::Args;
use super::commands::{Call, transaction};
use super::context::Context;
use super::error::{self, CommandError};
use super::parser::RequestLimits;
use super::request::Request;
use super::table::{self, CommandSpec};
use super::transaction::{Queue, Watched};
use super::writer::{RespWriter, Version};
use crate::access::{Access, Principal};
use overlay::LookupChoice;

/// Whether this is a line of an HTTP request: some web page makes a browser send commands here.
/// Redis closes such a connection without a word.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The keyspace of a new connection.
pub const FIRST_KEYSPACE: &str = "0";

/// Whether replies are sent (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyMode {
    /// All.
    On,
    /// None.
    Off,
    /// None to the next command.
    SkipNext,
}

/// Where a connection comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The client's address and port.
    pub addr: String,
    /// The server's address and port.
    pub laddr: String,
    /// The socket, as CLIENT LIST shows it.
    pub fd: i32,
    /// Who it is.
    pub principal: Principal,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) since_millis: u64,
    pub(super) version: Version,
    pub(super) keyspace: String,
    pub(super) name: String,
    pub(super) lib_name: String,
    pub(super) lib_version: String,
    pub(super) no_evict: bool,
    pub(super) no_touch: bool,
    pub(super) readonly: bool,
    /// How old reads may be, in ms.
    pub(super) stale_ms: u32,
    /// How old the last one was at most.
    pub(super) age_ms: Cell<u64>,
    pub(super) routes: bool,
    /// The lookup of its commands (LOOKUP).
    pub(super) way: LookupChoice,
    /// The lookup of its commands unless LOOKUP sets another.
    pub(super) default_lookup: LookupChoice,
    /// Whether replies carry their routes.
    pub(super) shows_routes: bool,
    pub(super) reply: ReplyMode,
    pub(super) muted: bool,
    /// Between MULTI and EXEC.
    pub(super) queue: Option<Box<Queue>>,
    /// Since WATCH.
    pub(super) watched: Watched,
    /// Since BEGIN.
    begun: Option<Box<InteractiveTxn>>,
    pub(super) limits: RequestLimits,
    last_command: &'static str,
}

impl Session {
    /// A connection that was just accepted. Ids rise and are never used again.
    pub fn new(
        id: u64,
        peer: Peer,
        limits: RequestLimits,
        way: LookupChoice,
        now_millis: u64,
    ) -> Self {
        Self {
            id,
            peer,
            since_millis: now_millis,
            version: Version::V2,
            keyspace: FIRST_KEYSPACE.to_owned(),
            name: String::new(),
            lib_name: String::new(),
            lib_version: String::new(),
            no_evict: false,
            no_touch: false,
            readonly: false,
            stale_ms: 0,
            age_ms: Cell::new(0),
            routes: false,
            way,
            default_lookup: way,
            shows_routes: false,
            reply: ReplyMode::On,
            muted: false,
            queue: None,
            watched: Watched::default(),
            begun: None,
            limits,
            last_command: "NULL",
        }
    }

    /// The connection's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The protocol replies must be written in.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether its client has this access.
    #[inline]
    pub fn may(&self, access: Access) -> bool {
        self.peer.principal.may(access)
    }

    /// From now on replies are in this version of the protocol.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Whether it reads at replicas, too (READONLY).
    #[inline]
    pub fn is_readonly(&self) -> bool {
        self.readonly
    }

    /// How old its reads may be, in nanoseconds (CLIENT STALE); 0: not at all.
    #[inline]
    pub fn stale_nanos(&self) -> u64 {
        u64::from(self.stale_ms) * 1_000_000
    }

    /// A read's answer was so old at most.
    pub fn note_age(&self, nanos: u64) {
        self.age_ms.set(nanos.div_ceil(1_000_000));
    }

    /// Whether it wants redirects to the leaders of keys' shards (CLIENT ROUTE).
    #[inline]
    pub fn is_routing(&self) -> bool {
        self.routes
    }

    /// Whether its commands use another lookup than the full table.
    #[inline]
    pub fn names_lookup(&self) -> bool {
        self.way.kind != Kind::Full || self.shows_routes
    }

    /// The lookup of its commands.
    pub fn way(&self) -> LookupChoice {
        self.way
    }

    /// Whether replies carry the routes to their keys.
    pub fn shows_routes(&self) -> bool {
        self.shows_routes
    }

    /// Shows the keys of all commands that are queued.
    pub fn each_queued_key(&self, show: &mut dyn FnMut(&[u8])) {
        for args in self.queue.iter().flat_map(|queue| queue.commands()) {
            let Ok(spec) = table::lookup(args) else { continue };
            spec.key_indexes(args.len()).for_each(|index| show(args.at(index)));
        }
    }

    /// The name of the keyspace that commands act on.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Whether the reply of the command translated last is to be thrown away.
    #[inline]
    pub fn is_muted(&self) -> bool {
        self.muted
    }

    /// Whether the reply of the next command may be unwanted (CLIENT REPLY).
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.reply != ReplyMode::On
    }

    /// The keyspace of a [`Request::Select`] is there: commands act on it from now on.
    pub fn selected(&mut self, name: &str) {
        name.clone_into(&mut self.keyspace);
    }

    /// A writer for replies to this connection.
    #[inline]
    pub fn writer<'o>(&self, out: &'o mut Vec<u8>) -> RespWriter<'o> {
        RespWriter::new(out, self.version)
    }

    /// What a command asks for. `args` must not be empty. Replies that are known already, errors
    /// among them, are appended to `out`.
    #[inline]
    pub fn translate<'a>(
        &mut self,
        args: Args<'a>,
        ctx: &dyn Context,
        out: &mut Vec<u8>,
    ) -> Request<'a> {
        self.muted = match self.reply {
            ReplyMode::On => false,
            ReplyMode::Off => true,
            ReplyMode::SkipNext => {
                self.reply = ReplyMode::On;
                true
            }
        };
        if self.queue.is_some() {
            return self.enqueue(args, ctx, out);
        }
        if args.len() == 2 && args.name_of_three() == Some(*b"get") && self.may(Access::Read) {
            let key = args.at(1);
            if key.len() <= self.limits.key_bytes_max {
                self.last_command = "get";
                return Request::Read(Read::Get(key));
            }
        } else if let Some((key, value)) = args.plain_set(self.limits.key_bytes_max)
            && self.may(Access::Write)
        {
            self.last_command = "set";
            return Request::Write(Write::set(key, value));
        }
        self.translate_by_table(args, ctx, out)
    }

    fn translate_by_table<'a>(
        &mut self,
        args: Args<'a>,
        ctx: &dyn Context,
        out: &mut Vec<u8>,
    ) -> Request<'a> {
        let before = out.len();
        let spec = self.checked_spec(args).map_err(|error| self.ends_exec(args, error));
        let request = spec.and_then(|spec| {
            self.last_command = spec.name;
            (spec.run)(&mut Call { session: self, ctx, out, spec }, args)
        });
        let request = request.unwrap_or_else(|error| {
            if is_http(args.at(0)) {
                return Request::Close;
            }
            out.truncate(before);
            self.writer(out).error(error.text());
            Request::Answered
        });
        if self.muted {
            out.truncate(before);
        }
        request
    }

    /// A command between MULTI and EXEC, most of which wait for that.
    #[cold]
    fn enqueue<'a>(&mut self, args: Args<'a>, ctx: &dyn Context, out: &mut Vec<u8>) -> Request<'a> {
        let spec = self.checked_spec(args);
        let is_done_at_once =
            spec.as_ref().is_ok_and(|spec| transaction::is_done_at_once(spec.name));
        if is_done_at_once || args.is(0, "exec") || is_http(args.at(0)) {
            return self.translate_by_table(args, ctx, out);
        }
        let queue = self.queue.as_mut().expect("it is asked before");
        let queued = spec.and_then(|spec| match transaction::is_left_out(spec.name) {
            true => {
                let name = spec.name.replace('|', " ").to_ascii_uppercase();
                Err(CommandError::formatted(format!("ERR {name} is not allowed in transactions")))
            }
            false => queue.add(args),
        });
        queue.is_broken |= queued.is_err();
        if !self.muted {
            let mut writer = self.writer(out);
            match queued {
                Ok(()) => writer.simple("QUEUED"),
                Err(error) => writer.error(error.text()),
            }
        }
        Request::Answered
    }

    /// A malformed EXEC ends the transaction, as in Redis; other errors change nothing.
    fn ends_exec(&mut self, args: Args<'_>, error: CommandError) -> CommandError {
        if !args.is(0, "exec") {
            return error;
        }
        self.end_transaction();
        let text = String::from_utf8_lossy(error.text());
        let why = text.trim_start_matches("ERR ");
        CommandError::formatted(format!("EXECABORT Transaction discarded because of: {why}"))
    }

    /// A command that was queued, at EXEC.
    pub fn translate_queued<'a>(
        &mut self,
        args: Args<'a>,
        ctx: &dyn Context,
        out: &mut Vec<u8>,
    ) -> Request<'a> {
        self.translate_by_table(args, ctx, out)
    }

    /// Whether its connection is closed after all others where memory for replies runs out.
    pub fn is_spared(&self) -> bool {
        self.no_evict
    }

    /// A command has been run beside [`Self::translate`].
    #[inline]
    pub fn note_command(&mut self, name: &'static str) {
        self.last_command = name;
    }

    /// Whether commands are queued until EXEC.
    #[inline]
    pub fn is_queueing(&self) -> bool {
        self.queue.is_some()
    }

    /// Takes what was queued, for [`Request::Exec`].
    pub fn take_queue(&mut self) -> Option<Box<Queue>> {
        self.queue.take()
    }

    /// Takes what is watched with it.
    pub fn take_watched(&mut self) -> Watched {
        std::mem::take(&mut self.watched)
    }

    /// EXEC must wait: restores the queued commands and watched keys.
    pub fn queue_again(&mut self, queue: Box<Queue>, watched: Watched) {
        self.queue = Some(queue);
        self.watched = watched;
    }

    /// What is watched.
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Watches keys of the session's keyspace that had this, for [`Request::Watch`].
    ///
    /// # Errors
    /// The reply: too many are watched, or keys of another keyspace. Those stay.
    pub fn watch(
        &mut self,
        keyspace: KeyspaceId,
        seen: &[(&[u8], ObservedVersion)],
    ) -> Result<(), CommandError> {
        self.watched.add((&self.keyspace, keyspace), seen)
    }

    /// Whether anything is watched.
    pub fn watches(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Moves a WATCH whose reply is unsent to a later look at its keys, of the session's keyspace.
    pub fn watch_later(&mut self, keys: &[&[u8]], seen: &[ObservedVersion]) {
        self.watched.renew_versions(&self.keyspace, keys, seen);
    }

    /// What a key of the session's keyspace had when it was first watched, if it is.
    pub fn seen(&self, key: &[u8]) -> Option<ObservedVersion> {
        self.watched.seen(&self.keyspace, key)
    }

    /// The transaction has ended: nothing is queued, nothing watched.
    pub fn end_transaction(&mut self) {
        self.queue = None;
        self.watched.clear();
    }

    /// Whether BEGIN has begun a transaction.
    #[inline]
    pub fn has_transaction(&self) -> bool {
        self.begun.is_some()
    }

    /// Begins a transaction, for [`Request::Begin`]; or goes on with it.
    pub fn begin(&mut self, transaction: Box<InteractiveTxn>) {
        self.begun = Some(transaction);
    }

    /// Takes it: the session is as before BEGIN.
    pub fn take_transaction(&mut self) -> Option<Box<InteractiveTxn>> {
        self.begun.take()
    }

    /// The command, if it is one, its arguments are enough and its keys short enough.
    fn checked_spec(&self, args: Args<'_>) -> Result<&'static CommandSpec, CommandError> {
        let spec = table::lookup(args)?;
        if !spec.fits(args.len()) {
            return Err(error::arity(spec.name));
        }
        if !self.may(spec.access) {
            return Err(error::no_permission(self.peer.principal.user(), spec.name));
        }
        for index in spec.key_indexes(args.len()) {
            if args.at(index).len() > self.limits.key_bytes_max {
                return Err(error::key_too_long(self.limits.key_bytes_max));
            }
        }
        Ok(spec)
    }

    /// This connection as one line of CLIENT LIST, without its end. `idle_secs`: since its last
    /// command; `input_bytes` and `output_bytes`: waiting in its buffers.
    pub fn describe(
        &self,
        now_millis: u64,
        idle_secs: u64,
        input_bytes: usize,
        output_bytes: usize,
    ) -> String {
        let age_secs = now_millis.saturating_sub(self.since_millis) / 1000;
        let flags = match (self.no_evict, self.no_touch) {
            (false, false) => "N",
            (true, false) => "e",
            (false, true) => "T",
            (true, true) => "eT",
        };
        let queues = if self.is_queueing() || self.has_transaction() { "x" } else { "" };
        let reads = if self.readonly { "r" } else { "" };
        let flags = match (queues, reads, flags) {
            ("", "", flags) => flags.to_owned(),
            (_, _, "N") => format!("{queues}{reads}"),
            (_, _, flags) => format!("{queues}{reads}{flags}"),
        };
        let queued = self.queue.as_ref().map_or(-1, |queue| queue.len() as i64);
        format!(
            "id={} addr={} laddr={} fd={} name={} age={age_secs} idle={idle_secs} flags={flags} \
             db={} sub=0 psub=0 ssub=0 multi={queued} qbuf={input_bytes} qbuf-free=0 argv-mem=0 \
             multi-mem=0 rbs=0 rbp=0 obl={output_bytes} oll=0 omem={output_bytes} tot-mem={} \
             events=r cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.peer.addr,
            self.peer.laddr,
            self.peer.fd,
            self.name,
            self.keyspace,
            input_bytes + output_bytes,
            self.last_command,
            self.peer.principal.user(),
            self.version.number(),
            self.lib_name,
            self.lib_version,
        )
    }

    /// RESET: as if the connection had just been made.
    pub(super) fn reset(&mut self) {
        let peer = std::mem::take(&mut self.peer);
        let last_command = self.last_command;
        // What the client library said of itself stays, as in Redis.
        let lib_name = std::mem::take(&mut self.lib_name);
        let lib_version = std::mem::take(&mut self.lib_version);
        let muted = self.muted;
        let fresh = Self::new(self.id, peer, self.limits, self.default_lookup, self.since_millis);
        *self = Self { lib_name, lib_version, last_command, muted, ..fresh };
    }
}

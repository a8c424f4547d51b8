//! The state of a RESP connection, which gives its next command its meaning.
//!
//! | room | what is there |
//! |---|---|
//! | this file | the state: who the client is, what it has chosen |
//! | `translate` | from arguments to a [`Request`] |
//! | `transaction` | `MULTI`, `WATCH`, `BEGIN` |
//! | `describe` | its line in `CLIENT LIST` |
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

use keyspace::Timestamp;
use overlay::{Kind, LookupChoice};
use txn::interactive::InteractiveTxn;

use super::parser::RequestLimits;
#[cfg(doc)]
use super::request::Request;
use super::subscriptions::Subscriptions;
use super::tracking::Tracking;
use super::transaction::{Queue, Watched};
use super::writer::{RespWriter, Version};
use crate::access::{Access, Principal};

mod describe;
mod transaction;
mod translate;

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
    /// Whether it speaks TLS.
    pub is_tls: bool,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    pub(super) id: u64,
    pub(super) peer: Peer,
    /// Who it was when it came.
    came_as: Principal,
    pub(super) since_millis: u64,
    pub(super) version: Version,
    pub(super) keyspace: String,
    pub(super) name: String,
    pub(super) lib_name: String,
    pub(super) lib_version: String,
    pub(super) no_evict: bool,
    pub(super) no_touch: bool,
    pub(super) readonly: bool,
    /// Since MONITOR.
    pub(super) monitors: bool,
    /// Whether its listener is the one for clients that ask for replicas.
    pub(super) is_replica: bool,
    /// How old reads may be, in ms.
    pub(super) stale_ms: u32,
    /// How old the last one was at most.
    pub(super) age_ms: Cell<u64>,
    pub(super) routes: bool,
    /// The past time that its reads are of (CLIENT AT).
    pub(super) reads_at: Option<Timestamp>,
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
    /// Since CLIENT TRACKING ON.
    pub(super) tracking: Option<Box<Tracking>>,
    /// Since BEGIN.
    begun: Option<Box<InteractiveTxn>>,
    pub(super) subscriptions: Subscriptions,
    pub(super) limits: RequestLimits,
    last_command: &'static str,
    /// A command was translated to be run, and is not counted yet.
    is_uncounted: bool,
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
        let came_as = peer.principal;
        Self {
            id,
            peer,
            came_as,
            since_millis: now_millis,
            version: Version::V2,
            keyspace: FIRST_KEYSPACE.to_owned(),
            name: String::new(),
            lib_name: String::new(),
            lib_version: String::new(),
            no_evict: false,
            no_touch: false,
            readonly: false,
            monitors: false,
            is_replica: false,
            stale_ms: 0,
            age_ms: Cell::new(0),
            routes: false,
            reads_at: None,
            way,
            default_lookup: way,
            shows_routes: false,
            reply: ReplyMode::On,
            muted: false,
            queue: None,
            watched: Watched::default(),
            tracking: None,
            begun: None,
            subscriptions: Subscriptions::default(),
            limits,
            last_command: "NULL",
            is_uncounted: false,
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

    /// Its listener is the one for clients that ask for replicas: it reads there without being
    /// asked to.
    pub fn serve_as_replica(&mut self) {
        (self.is_replica, self.readonly) = (true, true);
    }

    /// Whether it is answered as by a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica
    }

    /// Whether its reads may be answered here at all: not by a replica after READWRITE.
    #[inline]
    pub fn reads_here(&self) -> bool {
        !self.is_replica || self.readonly
    }

    /// Whether it reads at replicas, too (READONLY).
    #[inline]
    pub fn is_readonly(&self) -> bool {
        self.readonly
    }

    /// What it subscribes to.
    #[inline]
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// … to be changed.
    pub fn subscriptions_mut(&mut self) -> &mut Subscriptions {
        &mut self.subscriptions
    }

    /// Whether it may send only commands about its subscriptions: a client of RESP2 would not tell
    /// other replies from messages.
    #[inline]
    pub fn is_confined(&self) -> bool {
        self.version == Version::V2 && !self.subscriptions.is_empty()
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

    /// The past time that its reads are of (CLIENT AT); none: the newest values.
    #[inline]
    pub fn reads_at(&self) -> Option<Timestamp> {
        self.reads_at
    }

    /// From now on its reads are of this time, for [`Request::ReadAt`].
    pub fn read_at(&mut self, time: Option<Timestamp>) {
        self.reads_at = time;
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

    /// Whether its connection is closed after all others where memory for replies runs out.
    pub fn is_spared(&self) -> bool {
        self.no_evict
    }

    /// A command has been run beside [`Self::translate`].
    #[inline]
    pub fn note_command(&mut self, name: &'static str) {
        self.last_command = name;
    }

    /// The command that was translated last, unless it was refused, queued, or told before.
    #[inline]
    pub fn take_uncounted(&mut self) -> Option<&'static str> {
        std::mem::take(&mut self.is_uncounted).then_some(self.last_command)
    }

    /// Whether the command translated last asks for the size of the value that it reads, not for
    /// the value (MEMORY USAGE).
    #[inline]
    pub fn replies_size(&self) -> bool {
        self.last_command == "memory|usage"
    }

    /// The command that was run last.
    #[inline]
    pub fn last_command(&self) -> &'static str {
        self.last_command
    }

    /// What the connection calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its client speaks TLS, and so is told ports for TLS.
    pub fn is_tls(&self) -> bool {
        self.peer.is_tls
    }

    /// The client's address.
    pub fn address(&self) -> &str {
        &self.peer.addr
    }

    /// Whether it sees all commands.
    pub fn is_monitor(&self) -> bool {
        self.monitors
    }

    /// What it has asked to be told for its cache.
    #[inline]
    pub fn tracking(&self) -> Option<&Tracking> {
        self.tracking.as_deref()
    }

    /// From now on it has asked for this, for [`Request::Track`].
    pub fn track(&mut self, tracking: Option<Box<Tracking>>) {
        self.tracking = tracking;
    }

    /// The connection that is told in its place is gone.
    pub fn lose_redirect(&mut self) {
        if let Some(tracking) = &mut self.tracking {
            tracking.has_lost_redirect = true;
        }
    }

    /// A command is done: what CLIENT CACHING said was for it, unless the transaction goes on.
    pub fn end_caching(&mut self) {
        if let Some(tracking) = self.tracking.as_mut().filter(|_| self.queue.is_none()) {
            tracking.is_next_chosen = false;
        }
    }

    /// RESET: as if the connection had just been made, but for subscriptions, which
    /// [`Request::Reset`] ends.
    pub(super) fn reset(&mut self) {
        let mut peer = std::mem::take(&mut self.peer);
        peer.principal = self.came_as;
        let last_command = self.last_command;
        // What the client library said of itself stays, as in Redis.
        let lib_name = std::mem::take(&mut self.lib_name);
        let lib_version = std::mem::take(&mut self.lib_version);
        let subscriptions = std::mem::take(&mut self.subscriptions);
        let muted = self.muted;
        let fresh = Self::new(self.id, peer, self.limits, self.default_lookup, self.since_millis);
        let is_replica = self.is_replica;
        *self = Self { lib_name, lib_version, subscriptions, last_command, muted, ..fresh };
        if is_replica {
            self.serve_as_replica();
        }
    }
}

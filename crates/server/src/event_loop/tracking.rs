//! Connections whose clients cache what they read (`CLIENT TRACKING`, SAFETY G24).
//!
//! ```text
//!   GET k ──► held? ── no ──► its leader registers the node ──► tried again
//!                 └─ yes ──► read, later than the registration ──► another version than before?
//!                                                          invalidate k ──► reply
//!   SET k ──► no longer held ──────────────────────► invalidate k, then the reply
//!   EVAL  ──► its keys are held ──► what it has read and written comes with its reply, and
//!                                   whether it has flushed a keyspace
//!   news: k has changed ──► invalidate k at once; again behind replies owed that may show k
//! ```
//!
//! So on one connection an invalidation precedes every reply that shows the change. The loop looks
//! for news before it writes replies: executors leave them before their answers.
//!
//! # Caveats
//! An invalidation may come twice, and for a write that has changed nothing. What is read between
//! BEGIN and COMMIT is not registered: its invalidation comes right behind it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use command::{ObservedVersion, Sink as _, Write};
use keyspace::{Feature, ShardId, Timestamp};
use node::executor::{Input, Origin};
use node::replica::read::ReadTime;
use node::routing::fetch::FetchRequest;
use node::routing::route::Route;
use node::tracking::interests::Invalidation;

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::pending_reply::ReplyState;
use super::resp::CommandOutcome;
use super::serve::go_waiter;
use super::state::WaitsFor;
use super::tracking_connection::{OwnWrite, ShowingReply, TrackingConnection, write_push};
use crate::runtime::tracking::{Client, track};
use crate::scripts::TouchedKeys;
use gateway::resp::{Args, KeyspaceRequest, Request, Session, Tracking};

/// How often the first loop renews what leaders know.
const TICK: Duration = Duration::from_millis(25);
/// A command has keys registered so often. If they have changed again, it shows them and says so.
const TRIES_MAX: u32 = 3;
const CLUSTER_VERSION_TOO_LOW: &str = "ERR CLIENT TRACKING needs a higher cluster version; \
                                       nothing was done. See `carillon upgrade --check`";

/// What a command does to keys that the connection may hold.
#[derive(Default)]
pub(super) struct Touched {
    /// It may change these, and does not show them.
    written: BTreeSet<Box<[u8]>>,
    /// It shows these, and may change them.
    shown: BTreeSet<Box<[u8]>>,
    /// It may change all.
    all: bool,
}

/// Whether another connection hears in place of this one.
fn is_redirected(session: &Session, connection: &Connection) -> bool {
    session.tracking().is_some_and(|it| it.redirect != 0 && it.redirect != connection.id)
}

impl EventLoop {
    /// CLIENT TRACKING.
    pub(super) fn track(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        tracking: Option<Box<Tracking>>,
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let Some(tracking) = tracking else {
            session.track(None);
            self.end_tracking(connection);
            return self.tracks_now(connection, session, muted);
        };
        if !self.runtime.version.allows(Feature::Tracking) {
            return self.refuse(connection, session, CLUSTER_VERSION_TOO_LOW, muted);
        }
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let client = match &connection.tracking {
            Some(tracking) => tracking.client,
            None => {
                let number = self.runtime.tracking.draw_number();
                Client { event_loop: self.number, at, id: connection.id, number }
            }
        };
        if tracking.broadcasts {
            let prefixes = tracking.prefixes.iter().cloned().collect();
            let shards = (0..route.views.len()).map(|place| route.shard(place));
            let keyspace = route.keyspace.id;
            let missing = self.runtime.tracking.broadcast(client, keyspace, prefixes, shards);
            if !missing.is_empty() {
                let wants = missing.into_iter().map(|shard| (shard, track(Vec::new(), true)));
                self.register(at, connection, wants.collect());
                return CommandOutcome::Deferred;
            }
        }
        connection.tracking.get_or_insert_with(|| {
            self.runtime.tracking.begin();
            Box::new(TrackingConnection::new(client))
        });
        session.track(Some(tracking));
        self.tracks_now(connection, session, muted)
    }

    fn tracks_now(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        muted: bool,
    ) -> CommandOutcome {
        self.describe(connection, session);
        if !muted {
            session.writer(&mut connection.output.bytes).ok();
        }
        CommandOutcome::Answered
    }

    /// A connection tracks no more.
    #[cold]
    pub(super) fn end_tracking(&self, connection: &mut Connection) {
        if let Some(tracking) = connection.tracking.take() {
            self.runtime.tracking.forget(tracking.client);
        }
    }

    /// Has leaders register the node; the connection's next command waits for it.
    fn register(
        &mut self,
        at: usize,
        connection: &mut Connection,
        wants: Vec<(ShardId, FetchRequest)>,
    ) {
        connection.next.waits_for = WaitsFor::Fetches(wants.len() as u32);
        // What it reads must be of a later moment.
        connection.next.at = None;
        connection.route_version = u64::MAX;
        let (origin, waiter) = (Origin(self.number as u32), go_waiter(at));
        let fetch = |(shard, want)| {
            let want = Box::new(want);
            (shard, Input::Fetch { shard, want, bytes_max: usize::MAX, origin, waiter })
        };
        self.inputs.extend(wants.into_iter().map(fetch));
    }

    /// The keyspace of the keys that a request names; none if it is not there yet.
    pub(super) fn tracked_route(
        &self,
        connection: &Connection,
        session: &Session,
        request: &Request<'_>,
    ) -> Option<Arc<Route>> {
        match session.queued_keyspace() {
            Some(name) if *request == Request::Exec => {
                self.runtime.routing.routes().get(name).map(Arc::clone)
            }
            _ => connection.route.clone(),
        }
    }

    /// A connection that tracks is about to run this. False: keys that it reads must be registered
    /// first, and the command waits for that.
    #[cold]
    pub(super) fn hold_keys(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        request: &Request<'_>,
        seen_at: Option<ReadTime>,
    ) -> bool {
        let route = self.tracked_route(connection, session, request);
        let (Some(options), Some(tracking)) = (session.tracking(), &mut connection.tracking) else {
            return true;
        };
        tracking.doubtful.clear();
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        match request {
            Request::Read(read) => keys.extend(read.keys().iter().map(|key| Box::from(*key))),
            Request::Script(call) => keys.extend(call.keys.iter().map(|key| Box::from(*key))),
            Request::Exec => session.each_queued_read_key(&mut |key| keys.push(key.into())),
            _ => return true,
        }
        keys.retain(|key| options.caches(key));
        if keys.is_empty() {
            return true;
        }
        tracking.holds_keys();
        let Some(route) = route else {
            tracking.doubtful = keys;
            return true;
        };
        let of_shards = keys.iter().map(|key| (route.shard(route.place_of_key(key)), &**key));
        if connection.next.executed.is_some() {
            // It was done when it was held, and shows what was then.
            tracking.doubtful = self.runtime.tracking.not_held(tracking.client, of_shards);
            return true;
        }
        let held = self.runtime.tracking.hold(tracking.client, of_shards);
        match (held, seen_at) {
            (Ok(since), Some(now)) if now.boot > since => {}
            (Ok(_), None) => {}
            (Err(missing), None) if tracking.tries < TRIES_MAX => {
                tracking.tries += 1;
                let wants = missing.into_iter().map(|(shard, keys)| (shard, track(keys, false)));
                self.register(at, connection, wants.collect());
                return false;
            }
            // SAFETY G24: they may have changed between the look and the registration. To look
            // again could go on for ever.
            _ => tracking.doubtful = keys,
        }
        true
    }

    /// A command of a connection that tracks has found at this moment which keys it shows, and is
    /// about to be answered. False: they must be registered first, and it is run again.
    #[cold]
    pub(super) fn hold_shown(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        mut keys: Vec<Box<[u8]>>,
        seen_at: ReadTime,
    ) -> bool {
        let number = connection.next_number();
        let is_redirected = is_redirected(session, connection);
        let (Some(options), Some(tracking)) = (session.tracking(), &mut connection.tracking) else {
            return true;
        };
        keys.retain(|key| options.caches(key));
        if keys.is_empty() {
            return true;
        }
        tracking.holds_keys();
        let Some(route) = connection.route.clone() else { return true };
        let of_shards = keys.iter().map(|key| (route.shard(route.place_of_key(key)), &**key));
        match self.runtime.tracking.hold(tracking.client, of_shards.clone()) {
            Ok(since) if seen_at.boot > since => {}
            Err(missing) if tracking.tries < TRIES_MAX => {
                tracking.tries += 1;
                let wants = missing.into_iter().map(|(shard, keys)| (shard, track(keys, false)));
                self.register(at, connection, wants.collect());
                return false;
            }
            _ => tracking.doubtful.extend(keys.iter().cloned()),
        }
        let keys = of_shards.map(|(shard, key)| (shard, key, None));
        if let Some(what) = self.runtime.tracking.shown(tracking.client, keys).take() {
            let (is_silent, flushes_after) = (false, None);
            let own = OwnWrite { number, what, is_silent, is_redirected, flushes_after };
            tracking.say_before(own);
        }
        true
    }

    /// A command between BEGIN and COMMIT has shown these keys. They are not registered: the client
    /// hears at once that they may have changed.
    #[cold]
    pub(super) fn doubt_shown(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        touched: Touched,
        owed: (u32, usize),
    ) {
        let (Some(options), Some(tracking)) = (session.tracking(), &mut connection.tracking) else {
            return;
        };
        tracking.doubtful = touched.shown.into_iter().filter(|key| options.caches(key)).collect();
        self.note_touched(connection, session, None, Touched::default(), owed);
    }

    /// A read of a connection that tracks was answered, by the reply at `place`, with these
    /// versions of its keys: the client hears first of those of which it was shown another before.
    #[cold]
    pub(super) fn show_versions(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        read: &command::Read<'_>,
        versions: impl Iterator<Item = Timestamp>,
        place: usize,
    ) {
        let (Some(route), Some(tracking)) = (&connection.route, &mut connection.tracking) else {
            return;
        };
        tracking.knows_versions = true;
        let keys = read.keys().iter().zip(versions);
        let keys = keys.map(|(key, at)| (route.shard(route.place_of_key(key)), *key, Some(at)));
        let Some(what) = self.runtime.tracking.shown(tracking.client, keys).take() else { return };
        if is_redirected(session, connection) {
            // Between two connections there is no order.
            if let Some(tracking) = &mut connection.tracking {
                tracking.unsent.add(what);
            }
            return;
        }
        let mut bytes = Vec::new();
        write_push(&what, session.version(), &mut bytes);
        connection.output.bytes.splice(place..place, bytes);
    }

    /// As [`Self::show_versions`], of versions as WATCH sees them.
    #[cold]
    pub(super) fn show_observed(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        read: &command::Read<'_>,
        seen: &[ObservedVersion],
        place: usize,
    ) {
        let version = |seen: &ObservedVersion| match *seen {
            ObservedVersion::Version(at) => at,
            ObservedVersion::Absent(_) => Timestamp::ZERO,
        };
        self.show_versions(connection, session, read, seen.iter().map(version), place);
    }

    /// What a request does to keys that its connection may hold.
    #[cold]
    pub(super) fn touched(session: &Session, request: &Request<'_>) -> Touched {
        let mut touched = Touched::default();
        let mut add = |write: &Write<'_>| {
            write.each_key(&mut |key| _ = touched.written.insert(key.into()));
        };
        match request {
            Request::Write(write) => add(write),
            Request::WriteEach { writes, .. } => writes.iter().for_each(&mut add),
            Request::Exec => {
                session.each_queued_name(&mut |name| {
                    touched.all |= ["flushdb", "flushall"].contains(&name);
                });
                session.each_queued_key(&mut |key| _ = touched.written.insert(key.into()));
                session.each_queued_read_key(&mut |key| {
                    touched.written.remove(key);
                    touched.shown.insert(key.into());
                });
            }
            Request::Read(read) => {
                touched.shown.extend(read.keys().iter().map(|key| Box::from(*key)));
            }
            Request::Keyspace(KeyspaceRequest::Flush | KeyspaceRequest::FlushAll)
            | Request::Commit => touched.all = true,
            _ => {}
        }
        touched
    }

    /// A command that touches these keys of `route` has been run, and its reply is owed, or was
    /// written at `place`.
    #[cold]
    pub(super) fn note_touched(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        route: Option<Arc<Route>>,
        touched: Touched,
        (number, place): (u32, usize),
    ) {
        let redirected = is_redirected(session, connection);
        // What the command has made, it has found.
        let route = route.or_else(|| connection.route.clone());
        let (Some(route), Some(options)) = (route, session.tracking()) else { return };
        let Some(tracking) = &mut connection.tracking else { return };
        let doubtful = std::mem::take(&mut tracking.doubtful);
        tracking.tries = 0;
        if tracking.owed(number).is_some_and(|reply| reply.shows_unknown()) {
            // Scripts: their replies say what they have touched.
            return;
        }
        let client = tracking.client;
        let shard_of = |key: &[u8]| route.shard(route.place_of_key(key));
        let Touched { written, shown, all } = touched;
        let own = |what, is_silent| OwnWrite {
            number,
            what,
            is_silent,
            is_redirected: redirected,
            flushes_after: None,
        };
        if !std::mem::take(&mut tracking.knows_versions) && !shown.is_empty() {
            let keys = shown.iter().map(|key| (shard_of(key), &**key, None));
            if let Some(what) = self.runtime.tracking.shown(client, keys).take() {
                tracking.say_before(own(what, false));
            }
        }
        // Between two connections there is no order: the leader tells.
        if !written.is_empty() && (!redirected || options.is_noloop) {
            let keys = written.iter().map(|key| (shard_of(key), &**key));
            let keys = self.runtime.tracking.release(client, route.keyspace.id, keys);
            if !keys.is_empty() {
                tracking.say_before(own(Invalidation::Keys(keys), options.is_noloop));
            }
        }
        if all && !redirected {
            let flushes_after = Some(tracking.holds());
            tracking.say_before(OwnWrite { flushes_after, ..own(Invalidation::All, false) });
        }
        if !shown.is_empty() || !doubtful.is_empty() {
            tracking.owe(ShowingReply::new(number, Some(shown), redirected).behind(doubtful));
        }
        if connection.pending.iter().all(|slot| slot.is_push()) {
            // It is answered already.
            let (mut before, answered) = (Vec::new(), ReplyState::Bytes(Vec::new()));
            tracking.before_reply(number, &answered, session.version(), &mut before);
            let out = &mut connection.output.bytes;
            tracking.after_reply(number, session.version(), out);
            out.splice(place..place, before);
        }
    }

    /// The reply to a script, or to an EXEC with scripts, owed by this number, has come, and says
    /// which keys were touched, if that is known.
    #[cold]
    pub(super) fn note_script(
        &mut self,
        at: usize,
        number: u32,
        touched: Option<Box<TouchedKeys>>,
    ) {
        let runtime = self.runtime.clone();
        let connection = self.connection_at(at);
        let Protocol::Resp(session, _) = &connection.protocol else { return };
        let redirected = is_redirected(session, connection);
        let (Some(options), Some(tracking)) = (session.tracking(), &mut connection.tracking) else {
            return;
        };
        let (client, is_noloop) = (tracking.client, options.is_noloop);
        let Some(route) = &connection.route else { return };
        let shard_of = |key: &[u8]| route.shard(route.place_of_key(key));
        let Some(reply) = tracking.owed(number) else { return };
        let released = std::mem::take(&mut reply.released);
        let Some(touched) = touched else { return reply.hear_keys(released) };
        let TouchedKeys { mut read, written, elsewhere, all } = *touched;
        // As Redis: its own change ends what its look has begun.
        read.retain(|key| !written.contains(key));
        let (mut before, mut doubtful) = (Vec::new(), released);
        doubtful.retain(|key| !written.contains(key));
        if !written.is_empty() && (!redirected || is_noloop) {
            let keys = written.iter().map(|key| (shard_of(key), &**key));
            let keys = runtime.tracking.release(client, route.keyspace.id, keys);
            before.extend(keys.into_iter().filter(|key| !is_noloop && !reply.has_heard(key)));
        }
        let caches = reply.caches;
        if caches && !read.is_empty() {
            let keys = read.iter().map(|key| (shard_of(key), &**key));
            if !options.broadcasts {
                doubtful.extend(runtime.tracking.not_held(client, keys));
            }
        }
        doubtful.extend(elsewhere.iter().cloned());
        reply.shows(if caches { read.clone() } else { BTreeSet::new() }, doubtful);
        let keys = read.iter().filter(|_| caches).map(|key| (shard_of(key), &**key, None));
        let mut unheard = runtime.tracking.shown(client, keys);
        unheard.add_keys(before);
        // The client knows them by the same names. Whether it holds them there is not looked for.
        unheard.add_keys(elsewhere);
        // Between two connections there is no order: the leaders tell.
        let says_all = all && !redirected;
        if says_all {
            unheard.add(Invalidation::All);
        }
        if let Some(what) = unheard.take() {
            let (is_redirected, is_silent) = (redirected, false);
            // What it has read may be held since the flush.
            let flushes_after = (says_all && read.is_empty()).then_some(tracking.holds());
            let own = OwnWrite { number, what, is_silent, is_redirected, flushes_after };
            tracking.say_before(own);
        }
    }

    /// A connection that tracks has called a script, whose reply is its next: what that touches is
    /// not known yet.
    #[cold]
    pub(super) fn owe_touching(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        declared: &[&[u8]],
    ) {
        let (number, redirected) = (connection.next_number(), is_redirected(session, connection));
        let (Some(options), Some(tracking)) = (session.tracking(), &mut connection.tracking) else {
            return;
        };
        tracking.tries = 0;
        tracking.doubtful.clear();
        let mut reply = ShowingReply::new(number, None, redirected);
        reply.caches = options.caches_next();
        if let (true, Some(route)) = (options.is_noloop, &connection.route) {
            let keys = declared.iter().map(|key| (route.shard(route.place_of_key(key)), *key));
            let keyspace = route.keyspace.id;
            reply.released = self.runtime.tracking.release(tracking.client, keyspace, keys);
        }
        tracking.owe(reply);
    }

    /// A command is done: what CLIENT CACHING said was for it.
    #[cold]
    pub(super) fn end_caching(&self, session: &mut Session, args: Args<'_>) {
        if !args.is(0, "client") {
            session.end_caching();
        }
    }

    /// When the first loop must look after what the node's clients track.
    pub(super) fn next_tracking_tick(&self) -> Option<Duration> {
        let is_its = self.number == 0 && self.runtime.tracking.is_active();
        is_its.then(|| TICK.saturating_sub(self.tracking_ticked.elapsed()))
    }

    pub(super) fn tick_tracking(&mut self) {
        if self.next_tracking_tick() == Some(Duration::ZERO) {
            self.tracking_ticked = Instant::now();
            let runtime = self.runtime.clone();
            runtime.tracking.tick(&runtime);
        }
    }
}

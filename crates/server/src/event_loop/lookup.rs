//! Commands that look keys up by another lookup than the full table (LOOKUP), and EXPLAIN.
//!
//! ```text
//!   GET k ──► look_up ──► all ways found at once ──► run
//!                    └──► put off ──► Mail::Traced, one for each shard ──► run
//! ```
//!
//! The loop looks up one route to each shard in which a command has keys, as far as known routes
//! tell shards apart, and to at most [`ROUTES_MAX`] of them. Then it runs the command as any other.

use std::sync::Arc;

use command::Sink as _;
use keyspace::Position;
use node::routing::route::Route;

use super::EventLoop;
use super::connection::Connection;
use super::resp::CommandOutcome;
use super::state::WaitsFor;
use gateway::resp::{Explain, Request, RespWriter, Session};
use overlay::LookupChoice;

use crate::runtime::lookups;
use crate::runtime::lookups::Trace;
use crate::runtime::mailbox::Mail;
use crate::runtime::survey::name_of;

/// The most routes that are looked up before one command.
pub const ROUTES_MAX: usize = 64;

impl EventLoop {
    /// Looks up the routes to a command's keys. Whether the command must wait for some.
    pub(super) fn look_up(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        request: &Request<'_>,
    ) -> bool {
        let Some(route) = connection.route.clone() else { return false };
        let mut places: Vec<(usize, Position)> = Vec::new();
        each_key(session, request, &mut |key| {
            let place = route.place_of_key(key);
            if places.len() < ROUTES_MAX && places.iter().all(|(other, _)| *other != place) {
                places.push((place, position(&route, key)));
            }
        });
        if places.is_empty() {
            return false;
        }
        let places = places.into_iter().map(|(_, position)| (session.way(), position));
        let is_traced = session.shows_routes() || self.runtime.events.is_sampling();
        self.look_for(at, connection, places.collect(), is_traced)
    }

    /// Looks up these routes. Whether some are not found yet.
    fn look_for(
        &mut self,
        at: usize,
        connection: &mut Connection,
        wanted: Vec<(LookupChoice, Position)>,
        is_traced: bool,
    ) -> bool {
        let lookups = connection.next.lookups.insert(Vec::with_capacity(wanted.len()));
        let mut missing = 0;
        for (way, position) in wanted {
            let (runtime, number) = (Arc::downgrade(&self.runtime), self.number);
            let told = Box::new(move |trace| {
                if let Some(runtime) = runtime.upgrade() {
                    let _is_read =
                        runtime.delivery.mailboxes[number].post(Mail::Traced(at, Box::new(trace)));
                }
            });
            let point = (&position).into();
            match lookups::look_up(&self.runtime, way, point, is_traced, told) {
                Some(trace) => lookups.push(trace),
                None => missing += 1,
            }
        }
        if missing > 0 {
            connection.next.waits_for = WaitsFor::Fetches(missing);
        }
        missing > 0
    }

    /// A lookup has ended that a connection's next command waits for.
    pub(super) fn traced(&mut self, at: usize, trace: Trace) {
        if let Some(lookups) = &mut self.connection_at(at).next.lookups {
            lookups.push(trace);
        }
        self.go_on(super::serve::go_waiter(at), None);
    }

    /// EXPLAIN ROUTE.
    pub(super) fn explain(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        explain: &Explain<'_>,
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        if connection.next.lookups.is_none() {
            let position = position(&route, explain.key);
            let wanted = explain.lookups.iter().map(|way| (*way, position.clone())).collect();
            if self.look_for(at, connection, wanted, true) {
                return CommandOutcome::Deferred;
            }
        }
        let mut lookups = connection.next.lookups.take().unwrap_or_default();
        let place = |trace: &Trace| explain.lookups.iter().position(|way| *way == trace.way);
        lookups.sort_by_key(place);
        if !muted {
            self.write_routes(&lookups, &mut session.writer(&mut connection.output.bytes));
        }
        CommandOutcome::Answered
    }

    /// LOOKUP LAST.
    pub(super) fn last_routes(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        if !muted {
            let mut writer = session.writer(&mut connection.output.bytes);
            self.write_routes(&connection.last_routes, &mut writer);
        }
        CommandOutcome::Answered
    }

    /// Writes an array with a map for each route.
    pub(super) fn write_routes(&self, lookups: &[Trace], writer: &mut RespWriter<'_>) {
        writer.array(lookups.len());
        lookups.iter().for_each(|trace| self.write_route(trace, writer));
    }

    fn write_route(&self, trace: &Trace, writer: &mut RespWriter<'_>) {
        let members = self.runtime.members();
        let name = |node| name_of(node, &members);
        let owner = trace.owner.as_ref().map(|owner| owner.shard());
        let leader = trace.owner.as_ref().and_then(|owner| owner.leader());
        writer.map(10);
        writer.bulk(b"lookup");
        writer.bulk(trace.way.kind.name().as_bytes());
        writer.bulk(b"form");
        writer.bulk(trace.way.form.name().as_bytes());
        writer.bulk(b"images");
        writer.bulk(if trace.way.cached { b"on" } else { b"off" });
        writer.bulk(b"shard");
        number_or_nil(writer, owner.map(|shard| shard.0));
        writer.bulk(b"leader");
        match leader {
            Some(node) => writer.bulk(name(node).as_bytes()),
            None => writer.nil(),
        }
        writer.bulk(b"hops");
        writer.int(trace.hops.into());
        writer.bulk(b"messages");
        number_or_nil(writer, trace.messages.map(u64::from));
        writer.bulk(b"micros");
        writer.int(trace.took.as_micros() as i64);
        writer.bulk(b"failure");
        match trace.failure {
            Some(why) => writer.bulk(why.as_bytes()),
            None => writer.nil(),
        }
        writer.bulk(b"steps");
        writer.array(trace.steps.len());
        for step in &trace.steps {
            writer.array(4);
            writer.int(step.leg.shard.0 as i64);
            writer.bulk(name(step.leg.node).as_bytes());
            writer.bulk(step.leg.by.to_string().as_bytes());
            number_or_nil(writer, step.took.map(|took| took.as_micros() as u64));
        }
    }

    /// Writes the attribute before a command's reply, if the session wants it, and remembers the
    /// routes.
    pub(super) fn attribute(
        &self,
        connection: &mut Connection,
        session: &Session,
        muted: bool,
    ) -> Option<Box<[u8]>> {
        let lookups = connection.next.lookups.take()?;
        let mut bytes = Vec::new();
        if session.shows_routes() && !muted {
            let mut writer = session.writer(&mut bytes);
            if writer.attribute(1) {
                writer.bulk(b"route");
                self.write_routes(&lookups, &mut writer);
            }
        }
        connection.last_routes = lookups;
        (!bytes.is_empty()).then(|| bytes.into())
    }
}

/// Where a key is on its keyspace's circle.
fn position(route: &Route, key: &[u8]) -> Position {
    route.keyspace.options.placement.position(route.keyspace.id, key)
}

fn number_or_nil(writer: &mut RespWriter<'_>, number: Option<u64>) {
    match number {
        Some(number) => writer.int(number as i64),
        None => writer.nil(),
    }
}

/// Shows the keys of a command; of EXEC those that are queued.
fn each_key(session: &Session, request: &Request<'_>, show: &mut dyn FnMut(&[u8])) {
    match request {
        Request::Read(read) => read.keys().iter().for_each(|key| show(key)),
        Request::Write(write) => write.each_key(&mut |key| show(key)),
        Request::WriteEach { writes, .. } => {
            writes.iter().for_each(|write| write.each_key(&mut |key| show(key)));
        }
        Request::Watch(keys) => keys.iter().for_each(|key| show(key)),
        Request::Exec => session.each_queued_key(show),
        _ => {}
    }
}

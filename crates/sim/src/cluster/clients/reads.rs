//! Reads of clients: the asked node answers from its own replicas, or from fetched data; stale
//! reads as well.

use std::sync::Arc;

use command::{Read, Reply};
use keyspace::{ShardId, Timestamp};
use node::executor::Input;
use node::replica::entry::Waiter;
use node::replica::read::{self, Blocked};
use node::routing::fetch::{FetchRequest, FetchResult, FetchedData};
use node::routing::route::Route;

use super::super::{KEYSPACE, Plant, World};
use super::{ClientOp, Op};
use crate::command::{Collect, Command};
use crate::machine::CLIENTS;

impl World {
    /// The last read of a key.
    pub(in crate::cluster) fn read_last(&mut self, at: usize, route: Arc<Route>, key: u64) {
        self.begin_op(0, at, route, vec![key], Command::Get, 0);
    }

    /// Someone reads every key at a node, at once: before its executors do anything.
    pub(in crate::cluster) fn look_at(&mut self, at: usize) {
        let machine = self.node_slots[at].machine.as_ref();
        let route = machine.and_then(|machine| machine.routes.get(KEYSPACE)).cloned();
        let Some(route) = route else { return };
        for key in 0..self.profile.keys {
            self.begin_op(0, at, route.clone(), vec![key], Command::Get, 0);
            let number = self.clients.made;
            if let Some(op) = self.clients.ops.get_mut(&number) {
                op.given_up = true;
            }
            self.read(at, number);
        }
    }

    /// Tries a read.
    pub(in crate::cluster) fn read(&mut self, at: usize, number: u64) {
        self.look_again(at, number);
        let Some(op) = self.clients.ops.get(&number).and_then(Op::of_keys) else { return };
        let names = self.clients.names_of(&op.keys);
        let (route, shard, plant) = (op.route.clone(), op.shard, self.options.plant);
        let mut now = op.moment.expect("a read");
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        let elected = machine.shard(shard).is_some_and(|shard| shard.is_elected());
        if plant == Some(Plant::LeaseByRole) && elected {
            now.boot = 0;
        }
        if plant == Some(Plant::FreshLeaderReads)
            && elected
            && op.command == Command::Get
            && let Some(found) = machine.peek(shard, &names[0])
        {
            // Planted: nobody looks whether the term has begun.
            return self.done(number, vec![found], now.time.millis());
        }
        let stale_ms = op.stale_ms;
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let request = request_of(&self.clients.ops[&number], &names);
        if stale_ms > 0 {
            // Planted: what is old passes for a part of that.
            let less = if plant == Some(Plant::WrongAge) { 10 } else { 1 };
            let (age_max, mut sink) = (stale_ms * 1_000_000 * less, Collect::default());
            let old =
                read::read_stale(&route, &request, now, age_max, FetchedData::NONE, &mut sink);
            if let Ok(age) = old
                && age > 0
            {
                let view = machine.view(shard);
                let closed = view.and_then(|view| view.read().serving.age(now.boot));
                let closed = closed.map_or(Timestamp::ZERO, |(_, closed)| closed);
                return self.done_stale(number, sink.0, age / less, closed);
            }
        }
        let mut sink = Collect::default();
        match read::read(&route, &request, now, &mut sink) {
            Ok(()) => {
                let view = machine.view(shard);
                let (judged_at, last) = view.map_or((now.time, now.time), |view| {
                    let state = view.read();
                    (state.serving.judged_at(now.time), state.last)
                });
                self.clients.under_way(number).low_ms = judged_at.millis();
                self.done(number, sink.0, last.millis());
            }
            Err(blocked) => {
                let (origin, waiter) = (CLIENTS, Waiter(number));
                let (shard, input) = if route.must_fetch(blocked.place, machine.node()) {
                    let (want, bytes_max) = (Box::new(FetchRequest::keys(names)), usize::MAX);
                    (shard, Input::Fetch { shard, want, bytes_max, origin, waiter })
                } else {
                    let Blocked { at, lock, place } = blocked;
                    let shard = route.shard(place);
                    (shard, Input::AwaitRead { shard, at, lock, origin, waiter })
                };
                machine.submit(shard, input);
                self.clients.under_way(number).ready = false;
            }
        }
    }

    /// A replica may have come to the node since the read was asked for, or gone from it.
    fn look_again(&mut self, at: usize, number: u64) {
        let op = self.clients.ops.get_mut(&number).and_then(Op::of_keys_mut);
        let Some((op, machine)) = op.zip(self.node_slots[at].machine.as_ref()) else { return };
        let keyspace = &op.route.keyspace;
        let route = machine.routes.get(&*keyspace.name).filter(|r| r.keyspace.id == keyspace.id);
        if let Some(route) = route {
            op.route = route.clone();
            let name = &self.clients.names[op.keys[0] as usize];
            op.shard = route.shard(route.place_of_key(name));
        }
    }

    /// Answers a read from fetched data.
    pub(in crate::cluster) fn fetched(
        &mut self,
        number: u64,
        shard: ShardId,
        at: Timestamp,
        want: FetchRequest,
        found: FetchResult,
    ) {
        let Some(op) = self.clients.ops.get(&number).and_then(Op::of_keys) else { return };
        let names = self.clients.names_of(&op.keys);
        let route = op.route.clone();
        let now = op.moment.expect("a read");
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let request = request_of(&self.clients.ops[&number], &names);
        let (mut fetched, mut sink) = (FetchedData::default(), Collect::default());
        fetched.add(shard, at, want, found);
        let answered = read::read_with(&route, &request, now, &fetched, &mut sink);
        // A replica here that has caught up meanwhile may have answered.
        let (low, high) = {
            let state = route.views[route.place(&route.key(names[0]))].read();
            let here = state.serving.at(now.boot);
            let judged_at = state.serving.judged_at(now.time);
            if here { (at.min(judged_at), at.max(judged_at)) } else { (at, at) }
        };
        let op = self.clients.under_way(number);
        if answered.is_err() {
            // Not all of it had come.
            op.ready = true;
            return;
        }
        self.counts.fetched += 1;
        // Its leader's clock judged it.
        op.low_ms = low.millis();
        let high_ms = high.millis().max(self.agreement.last_ms(shard));
        self.done(number, sink.0, high_ms);
    }

    /// An answer that may be old is right if a read could have seen it that had come so much
    /// earlier.
    fn done_stale(&mut self, number: u64, replies: Vec<Reply>, age: u64, closed: Timestamp) {
        let Some(op) = self.clients.ops.get_mut(&number) else { return };
        // The node's clock may run 2 % fast or slow.
        let age_ms = age.div_ceil(1_000_000) * 103 / 100 + 1;
        let then = op.began_ms.saturating_sub(age_ms + 1) as usize;
        let events = self.clients.events_by.get(then).copied().unwrap_or(0);
        op.call = op.call.min(events);
        let high_ms = {
            let op = op.of_keys_mut().expect("a read");
            // It was judged at the time up to which the replica's past was closed: by the leader's
            // clock, which may be ahead of the node's and of what is applied.
            op.low_ms = 0;
            let last = self.agreement.last_ms(op.shard).max(closed.millis());
            last.max(op.moment.expect("a read").time.millis())
        };
        self.counts.stale += 1;
        self.trace.event(format_args!("op {number} may be {age_ms} ms old"));
        self.done(number, replies, high_ms);
    }

    /// A read that waited may be tried again.
    pub(in crate::cluster) fn go_on(&mut self, waiter: Waiter) {
        match self.clients.ops.get_mut(&waiter.0).map(|op| &mut op.what) {
            Some(ClientOp::Keys(of_keys)) => of_keys.ready = true,
            Some(ClientOp::Keyspace(of_whole)) => of_whole.resume(None),
            Some(ClientOp::Catalogue) | None => {}
        }
    }
}

/// What an operation asks.
fn request_of<'n>(op: &Op, names: &[&'n [u8]]) -> Read<'n> {
    match (&op.of_keys().expect("a read").command, names) {
        (Command::Get, [key]) => Read::Get(key),
        (Command::GetMany, keys) => Read::GetMany(keys.to_vec()),
        (Command::Exists, keys) => Read::Exists(keys.to_vec()),
        (Command::ExpiryTime, [key]) => Read::Ttl { key, millis: true, absolute: true },
        (Command::Length, [key]) => Read::Length(key),
        other => unreachable!("{other:?} is no read"),
    }
}

//! Readers: the pure functions of the node, called between any two steps of its executors.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use command::{Read, Reply};
use keyspace::{HashedKey, ShardId, Timestamp};
use node::executor::Input;
use node::replica::entry::Waiter;
use node::replica::read::{self, Blocked, PastReadError};
use node::replica::scan::{self};
use node::routing::route::Route;
use storage::engine::ReadResult;

use super::World;
use super::clients::{ClientRequest, Op, OpStage};
use super::models::Models;
use crate::check::Violation;
use crate::check::versions::Versions;
use crate::command::{Cell, Collect, Command, DisplayedReply, Value};
use crate::machine::CLIENTS;
use crate::options::Bug;

const R9: &str = "R9 collection is never seen";
/// Spreads small numbers over all bits.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
pub(super) const SAME: &str = "reads see what the log says";

impl World {
    /// The reads that may be tried.
    pub(super) fn ready_reads(&self) -> Vec<u64> {
        let ready = self.ops.iter().filter(|(_, op)| op.stage == OpStage::Ready);
        ready.map(|(number, _)| *number).collect()
    }

    /// Tries one of them.
    pub(super) fn read(&mut self, number: u64) -> Result<(), Violation> {
        let op = self.ops.get(&number).expect("the op is ready").clone();
        let Some(route) = op.route.clone() else { return Ok(()) };
        match &op.ask {
            ClientRequest::One(command) => {
                let found = self.read_keys(&route, command, &self.names_of(&op.keys))?;
                self.finish_read(number, &op, &route, command, found);
                Ok(())
            }
            ClientRequest::Many => {
                let found = self.read_keys(&route, &Command::Get, &self.names_of(&op.keys))?;
                self.finish_read(number, &op, &route, &Command::GetMany, found);
                Ok(())
            }
            ClientRequest::Each(answers_max) => {
                self.read_each(number, op.clone(), &route, *answers_max)
            }
            ClientRequest::At(at) => self.read_at(number, &op, &route, *at),
            _ => self.try_scan(number, &op, &route),
        }
    }

    /// A linearizable read of keys; what they answer, one each.
    fn read_keys(
        &mut self,
        route: &Arc<Route>,
        command: &Command,
        keys: &[Vec<u8>],
    ) -> Result<Result<Vec<Reply>, Blocked>, Violation> {
        let moment = self.machine().moment();
        let now = moment.time;
        let request = match (command, keys) {
            (Command::Get, [key]) => Read::Get(key),
            (Command::Get, keys) => Read::GetMany(keys.iter().map(Vec::as_slice).collect()),
            (Command::Exists, keys) => Read::Exists(keys.iter().map(Vec::as_slice).collect()),
            (Command::ExpiryTime, [key]) => Read::Ttl { key, millis: true, absolute: true },
            (Command::Length, [key]) => Read::Length(key),
            other => unreachable!("{other:?} is no read"),
        };
        let mut sink = Collect::default();
        let replies = match read::read(route, &request, moment, &mut sink) {
            Ok(()) => sink.0,
            Err(blocked) if self.has_bug(Bug::NoHorizon) && serves(route, &blocked) => {
                // Planted: nobody asks for a horizon, the clock is taken at its word.
                keys.iter().map(|key| without_horizon(route, command, key, now)).collect()
            }
            Err(blocked) => return Ok(Err(blocked)),
        };
        self.judge(route, command, keys, &replies, now)?;
        Ok(Ok(replies))
    }

    /// Compares answers, one for each key, with what the log says.
    fn judge(
        &mut self,
        route: &Route,
        command: &Command,
        keys: &[Vec<u8>],
        replies: &[Reply],
        now: Timestamp,
    ) -> Result<(), Violation> {
        for (key, reply) in keys.iter().zip(replies) {
            let hashed = route.key(key);
            let place = route.place(&hashed);
            let shard = route.shard(place);
            let expected = self.versions(shard).and_then(|versions| versions.at(key, now));
            let (_, expected) = command.run(expected);
            if expected != *reply {
                let key = key.escape_ascii();
                let (found, expected) = (DisplayedReply(reply), DisplayedReply(&expected));
                let text = format!("{command:?} {key} at {now:?}: {found}, not {expected}");
                return Err(Violation::new(SAME, text));
            }
            self.sight(route, place, &hashed, now)?;
        }
        Ok(())
    }

    /// GETs in a pipeline: as many as are answered at once. What is left is asked again, when the
    /// executor says so or the client has read.
    fn read_each(
        &mut self,
        number: u64,
        mut op: Op,
        route: &Arc<Route>,
        answers_max: usize,
    ) -> Result<(), Violation> {
        let moment = self.machine().moment();
        let now = moment.time;
        let names = self.names_of(&op.keys);
        let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let mut replies = Vec::new();
        let ended = read::get_each(route, &keys, moment, |version| {
            replies.push(version.map_or(Reply::Nil, |found| Reply::Bulk(found.value.into())));
            if replies.len() < answers_max {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        self.judge(route, &Command::Get, &names, &replies, now)?;
        let left = op.keys.split_off(replies.len());
        for (key, reply) in op.keys.iter().zip(replies) {
            self.trace.event(format_args!("op {number}: key {key} {}", DisplayedReply(&reply)));
            self.see(&op, &[*key], Command::Get, Some(vec![reply]));
        }
        if let Err(blocked) = ended {
            self.wait(number, route, blocked);
        } else if !left.is_empty() && op.keys.len() != answers_max {
            let text = format!("{} GETs are not answered, nor blocked", left.len());
            return Err(Violation::new(SAME, text));
        }
        match left.is_empty() {
            true => {
                self.ops.remove(&number);
                self.counts.answered += 1;
            }
            false => self.ops.get_mut(&number).expect("the op is under way").keys = left,
        }
        Ok(())
    }

    /// Notes what a reader has learnt of a key's expiry.
    fn sight(
        &mut self,
        route: &Route,
        place: usize,
        key: &HashedKey<'_>,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let state = route.views[place].read();
        let version = state.engine().and_then(|engine| engine.newest(key, Timestamp::ZERO));
        if let Some(version) = version.filter(|version| version.expiry_ms != 0) {
            let alive = version.expiry_ms > now.millis();
            self.sightings.saw(route.shard(place), key.bytes, version.timestamp, alive)?;
        }
        Ok(())
    }

    fn finish_read(
        &mut self,
        number: u64,
        op: &Op,
        route: &Arc<Route>,
        command: &Command,
        found: Result<Vec<Reply>, Blocked>,
    ) {
        match found {
            Err(blocked) => self.wait(number, route, blocked),
            Ok(replies) => {
                for reply in &replies {
                    self.trace.event(format_args!("op {number}: {}", DisplayedReply(reply)));
                }
                self.ops.remove(&number);
                self.counts.answered += 1;
                // What lies under one hash tag was seen at one moment, and is judged so.
                let mut of_tags: BTreeMap<u64, (Vec<u64>, Vec<Reply>)> = BTreeMap::new();
                for (key, reply) in op.keys.iter().zip(replies) {
                    let (keys, replies) = of_tags.entry(key / self.profile.tagged).or_default();
                    keys.push(*key);
                    replies.push(reply);
                }
                for (keys, replies) in of_tags.into_values() {
                    let one = keys.len() == 1 && *command == Command::GetMany;
                    let command = if one { Command::Get } else { command.clone() };
                    self.see(op, &keys, command, Some(replies));
                }
            }
        }
    }

    /// Has the executor of a shard say when a read may be tried again.
    fn wait(&mut self, number: u64, route: &Route, blocked: Blocked) {
        self.trace.event(format_args!("op {number} waits: {blocked:?}"));
        let shard = route.shard(blocked.place);
        let (Blocked { at, lock, .. }, origin, waiter) = (blocked, CLIENTS, Waiter(number));
        self.machine().submit(shard, Input::AwaitRead { shard, at, lock, origin, waiter });
        if let Some(op) = self.ops.get_mut(&number) {
            op.stage = OpStage::Waiting;
        }
    }

    fn versions(&self, shard: ShardId) -> Option<&Versions> {
        self.ledger.shard(shard).map(|shard| &shard.versions)
    }

    /// A read at a past time, which the executor allows.
    fn read_at(
        &mut self,
        number: u64,
        op: &Op,
        route: &Arc<Route>,
        at: Timestamp,
    ) -> Result<(), Violation> {
        let key = &self.names[op.keys[0] as usize].clone();
        let place = route.place(&route.key(key));
        let take = |found: ReadResult<'_>| match found {
            ReadResult::Value(version) => {
                Some(Cell { value: Value(version.value.to_vec()), expiry_ms: version.expiry_ms })
            }
            ReadResult::Nil | ReadResult::NilYet => None,
        };
        let found = if self.has_bug(Bug::CollectedRead) {
            let state = route.views[place].read();
            Ok(state.engine().and_then(|engine| take(engine.at(&route.key(key), at))))
        } else {
            read::read_at(route, key, at, take)
        };
        self.trace.event(format_args!("op {number}: {found:?}"));
        self.ops.remove(&number);
        let Some(shard) = self.ledger.shard_mut(route.shard(place)) else { return Ok(()) };
        let versions = &mut shard.versions;
        let named = format!("{} at {at:?}", key.escape_ascii());
        match found {
            // A half took the key: the client reads it there another time.
            Err(PastReadError::Moved | PastReadError::Locked { .. }) => Ok(()),
            Err(PastReadError::BelowSafePoint { safe_point }) if at >= versions.safe_point => {
                let text = format!("{named} refused, safe point {safe_point:?}");
                Err(Violation::new(R9, text))
            }
            Err(PastReadError::BelowSafePoint { .. }) => {
                self.counts.below_safe_point += 1;
                Ok(())
            }
            Ok(_) if at < versions.safe_point => {
                let text = format!("{named} answered, below safe point {:?}", versions.safe_point);
                Err(Violation::new(R9, text))
            }
            Ok(cell) if cell != versions.at(key, at) => {
                let expected = versions.at(key, at);
                Err(Violation::new(R9, format!("{named}: {cell:?}, not {expected:?}")))
            }
            Ok(_) => {
                versions.promised = versions.promised.max(at);
                self.counts.snapshots += 1;
                Ok(())
            }
        }
    }

    /// DBSIZE, RANGE, one call of SCAN.
    fn try_scan(&mut self, number: u64, op: &Op, route: &Arc<Route>) -> Result<(), Violation> {
        let moment = self.machine().moment();
        let asked = match scan::admit(route, &scan::everywhere, moment) {
            Ok(asked) => asked,
            Err(blocked) => {
                self.wait(number, route, blocked);
                return Ok(());
            }
        };
        let shards = route.keyspace.shards.iter();
        let of_shards = shards.filter_map(|shard| self.versions(*shard)).collect();
        let models = Models { route, of_shards, now: moment.time };
        let keys_max = self.profile.piece_keys;
        let found = match &op.ask {
            ClientRequest::Size => models.size(&asked)?,
            ClientRequest::Range => models.range(&asked, keys_max)?,
            ClientRequest::Keys => models.keys(&asked, keys_max)?,
            ClientRequest::Random => models.random(&asked, number.wrapping_mul(ODD))?,
            ClientRequest::Scan(cursor, scan) => {
                let count = 1 + number as usize % 3;
                let (next, scan) = models.scan(&asked, *cursor, count, scan.clone())?;
                self.trace.event(format_args!("op {number}: scanned to {next:x}"));
                if next != 0 {
                    let op = self.ops.get_mut(&number).expect("the op is under way");
                    op.ask = ClientRequest::Scan(next, scan);
                    return Ok(());
                }
                scan.end()?;
                String::new()
            }
            other => unreachable!("{other:?} is no read of a whole keyspace"),
        };
        if !found.is_empty() {
            self.trace.event(format_args!("op {number}: {found}"));
        }
        self.ops.remove(&number);
        self.counts.answered += 1;
        Ok(())
    }

    /// Shows every SCAN under way the keys that are there now.
    pub(super) fn look_at_scans(&mut self) {
        let Some(now) = self.machine.as_ref().map(|machine| machine.clock.now()) else { return };
        let ledger = &self.ledger;
        for op in self.ops.values_mut() {
            if let (ClientRequest::Scan(_, scan), Some(route)) = (&mut op.ask, &op.route) {
                let shards = &route.keyspace.shards;
                let models = shards.iter().filter_map(|shard| ledger.shard(*shard));
                let models: Vec<&Versions> = models.map(|shard| &shard.versions).collect();
                scan.look(|key| models.iter().any(|model| model.at(key, now).is_some()));
            }
        }
    }

    /// Compares all that the node holds with what its log says.
    pub(super) fn audit(&mut self) -> Result<(), Violation> {
        let Some(machine) = &self.machine else { return Ok(()) };
        let now = machine.clock.now();
        for route in machine.routes.values() {
            for (view, id) in route.views.iter().zip(&route.keyspace.shards) {
                let state = view.read();
                let Some(engine) = state.engine() else { continue };
                let Some(model) = self.versions(*id) else {
                    // It is being created.
                    continue;
                };
                let is = (state.applied_index, state.last, state.horizon, engine.safe_point());
                let should = (model.index, model.last, model.horizon, model.safe_point);
                if is != should {
                    let text = format!(
                        "shard {id}: index, time, horizon, safe point {is:?}, not {should:?}"
                    );
                    return Err(Violation::new(SAME, text));
                }
                let (size, expected) = (engine.len(now), model.alive(now).count() as u64);
                if size != expected {
                    let text = format!("shard {id} counts {size} keys, not {expected}");
                    return Err(Violation::new(SAME, text));
                }
                for key in &self.names {
                    let hashed = route.key(key);
                    if !state.owns(&hashed) {
                        continue;
                    }
                    let found = engine.newest(&hashed, now).map(|version| Cell {
                        value: Value(version.value.to_vec()),
                        expiry_ms: version.expiry_ms,
                    });
                    if found != model.at(key, now) {
                        let expected = model.at(key, now);
                        let key = key.escape_ascii();
                        let text = format!("shard {id}: {key} is {found:?}, not {expected:?}");
                        return Err(Violation::new(SAME, text));
                    }
                }
            }
        }
        Ok(())
    }
}

fn serves(route: &Route, blocked: &Blocked) -> bool {
    route.views[blocked.place].read().serving.at_all()
}

fn without_horizon(route: &Route, command: &Command, key: &[u8], now: Timestamp) -> Reply {
    let hashed = route.key(key);
    let state = route.views[route.place(&hashed)].read();
    let found = state.engine().and_then(|engine| engine.newest(&hashed, now));
    let cell = found
        .map(|version| Cell { value: Value(version.value.to_vec()), expiry_ms: version.expiry_ms });
    command.run(cell).1
}

//! One client's pipeline at one node: what it has sent, what it is owed, what it has seen.

use std::collections::VecDeque;
use std::sync::Arc;

use command::{Read, Reply, Write};
use keyspace::ShardId;
use node::executor::{Answer, Input};
use node::replica::entry::{Batch, Waiter};
use node::replica::read::{self, Blocked, ReadTime};
use node::routing::fetch::{FetchRequest, FetchedData};
use node::routing::pipeline::{BeforeWrite, JoiningRead, Pipeline, ReadPlan, ReadTraits};
use node::routing::route::Route;

use super::super::multi_shard::WIDE;
use super::{COMMANDS_MAX, FIRST};
use crate::command::Collect;
use crate::machine::{CLIENTS, Machine};
use crate::rng::Rng;

/// A command, and what came of it.
struct Command {
    key: Vec<u8>,
    /// What it sets; none: it reads.
    sets: Option<u8>,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is not answered.
    Open,
    /// A write was done.
    Done,
    /// A read has seen this.
    Seen(Option<u8>),
    /// An error.
    Failed,
}

/// A reply that is owed.
struct Owed {
    place: usize,
    kind: Kind,
    reply: Option<Result<Reply, ()>>,
    shard: Option<ShardId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Joined,
    Parked,
}

/// See the front page.
pub(super) struct Line {
    pub number: u64,
    pub round: u64,
    pub at: usize,
    pub node_started_at: u64,
    pub began_ms: u64,
    pub route: Option<Arc<Route>>,
    pub pipeline: Pipeline,
    /// It has no end that anybody learns.
    pub is_lost: bool,
    pub joined: u64,
    pub parked: u64,
    /// Its own key and that of the next client.
    keys: [Vec<u8>; 2],
    commands: Vec<Command>,
    /// How many were sent or are parked.
    sent: usize,
    owed: VecDeque<Owed>,
    /// When the oldest parked read was first tried.
    moment: Option<ReadTime>,
    fetched: FetchedData,
    /// Whether that read waits for an answer.
    waits: bool,
}

impl Line {
    /// A pipeline before its first command.
    pub fn new(number: u64, round: u64, at: usize, keys: [Vec<u8>; 2], rng: &mut Rng) -> Self {
        let [mine, next] = &keys;
        let noise = [&mine[..], b"-noise"].concat();
        let mut plan = vec![(mine, Some(1)), (next, None), (mine, None)];
        if rng.one_in(2) {
            plan.insert(0, (&noise, Some(1)));
        }
        if rng.one_in(2) {
            plan.extend([(mine, Some(2)), (mine, None), (next, None)]);
        }
        if rng.one_in(4) {
            plan.extend([(mine, Some(3)), (&noise, None), (mine, None), (mine, Some(4))]);
        }
        let commands = plan.into_iter();
        let commands = commands
            .map(|(key, sets)| Command { key: key.clone(), sets, outcome: Outcome::Open })
            .collect();
        Self {
            number,
            round,
            at,
            node_started_at: 0,
            began_ms: 0,
            route: None,
            pipeline: Pipeline::default(),
            is_lost: false,
            joined: 0,
            parked: 0,
            keys,
            commands,
            sent: 0,
            owed: VecDeque::new(),
            moment: None,
            fetched: FetchedData::default(),
            waits: false,
        }
    }

    /// Whether every command is answered.
    pub fn is_done(&self) -> bool {
        self.commands.iter().all(|command| command.outcome != Outcome::Open)
    }

    fn waiter(&self, place: usize) -> Waiter {
        Waiter(FIRST + self.number * COMMANDS_MAX + place as u64)
    }

    /// An answer has come for a command, or for the parked read that is tried.
    pub fn take(&mut self, place: usize, answer: Answer) {
        let Some(owed) = self.owed.iter_mut().find(|owed| owed.place == place) else { return };
        match answer {
            Answer::Applied { mut replies, shard, .. } => {
                owed.shard = Some(shard);
                owed.reply = Some(match replies.pop() {
                    Some(Reply::Array(mut all)) => all.pop().ok_or(()),
                    Some(reply) => Ok(reply),
                    None => Err(()),
                });
            }
            Answer::Fetched { shard, at, want, found, .. } => {
                self.fetched.add(shard, at, *want, *found);
                self.waits = false;
            }
            // A read that waits is tried again until its request timeout.
            _ if owed.kind == Kind::Parked => self.waits = false,
            _ => {
                owed.reply = Some(Err(()));
                self.pipeline.loses(place as u32);
            }
        }
    }

    /// Takes the replies that are next, and sends some commands.
    pub fn step(&mut self, machine: &mut Machine, rng: &mut Rng) {
        if self.is_lost {
            return;
        }
        self.take_replies(machine);
        let route = machine.routes.get(WIDE);
        let is_cut =
            route.zip(self.route.as_ref()).is_some_and(|(new, old)| !new.has_tiles_of(old));
        if is_cut && !self.owed.is_empty() {
            return;
        }
        self.route = route.cloned();
        for _ in 0..rng.between(1, 4) {
            if self.sent == self.commands.len() || !self.send_next(machine) {
                return;
            }
            self.sent += 1;
        }
    }

    /// Takes replies in their order, up to the first that has not come.
    fn take_replies(&mut self, machine: &mut Machine) {
        while let Some(oldest) = self.owed.front_mut() {
            let shard = oldest.shard;
            let outcome = match (oldest.kind, &oldest.reply) {
                (Kind::Parked, _) => match self.try_parked(machine) {
                    Some(outcome) => outcome,
                    None => return,
                },
                (_, None) => return,
                (Kind::Write, Some(reply)) => {
                    shard.into_iter().for_each(|shard| self.pipeline.answered(shard));
                    if reply.is_ok() { Outcome::Done } else { Outcome::Failed }
                }
                (Kind::Joined, Some(reply)) => {
                    let counts = shard.is_some_and(|shard| self.pipeline.counts(shard));
                    match reply {
                        Ok(reply) if counts => Outcome::Seen(seen(reply)),
                        _ if self.pipeline.falls_back() => {
                            oldest.kind = Kind::Parked;
                            continue;
                        }
                        _ => Outcome::Failed,
                    }
                }
            };
            let Some(done) = self.owed.pop_front() else { return };
            if done.kind != Kind::Write {
                self.pipeline.pop();
            }
            self.commands[done.place].outcome = outcome;
        }
        self.pipeline.all_are_answered();
    }

    /// Tries the oldest parked read: before it, nothing is unanswered.
    fn try_parked(&mut self, machine: &mut Machine) -> Option<Outcome> {
        if self.waits {
            return None;
        }
        let place = self.owed.front()?.place;
        let (route, key) = (machine.routes.get(WIDE)?.clone(), &self.commands[place].key);
        let now = *self.moment.get_or_insert_with(|| machine.moment());
        let mut sink = Collect::default();
        let Err(blocked) = read::read_with(&route, &Read::Get(key), now, &self.fetched, &mut sink)
        else {
            (self.moment, self.fetched) = (None, FetchedData::default());
            return Some(Outcome::Seen(sink.0.first().and_then(seen)));
        };
        let Blocked { place: at_place, at, lock } = blocked;
        let (shard, origin, waiter) = (route.shard(at_place), CLIENTS, self.waiter(place));
        let input = if route.must_fetch(at_place, machine.node()) {
            let (want, bytes_max) = (Box::new(FetchRequest::keys(vec![&key[..]])), usize::MAX);
            Input::Fetch { shard, want, bytes_max, origin, waiter }
        } else {
            Input::AwaitRead { shard, at, lock, origin, waiter }
        };
        machine.submit(shard, input);
        self.waits = true;
        None
    }

    /// Sends the next command, or parks it. `false` if it must wait.
    fn send_next(&mut self, machine: &mut Machine) -> bool {
        let Some(route) = self.route.clone() else { return false };
        let (place, hash) = (self.sent, |key: &[u8]| route.key(key).hash);
        let (key, sets) = (self.commands[place].key.clone(), self.commands[place].sets);
        let shard = route.shard(route.place_of_key(&key));
        let Some(value) = sets else {
            return self.send_read(machine, &route, &key, shard);
        };
        match self.pipeline.before_write(shard, hash(&key)) {
            BeforeWrite::Nothing => {}
            BeforeWrite::Join(count) => (0..count).for_each(|_| self.join_oldest(machine)),
            BeforeWrite::Wait => return false,
        }
        self.pipeline.overwrites(hash(&key));
        let (value, mut batch) = ([b'0' + value], Batch::default());
        batch.push(&Write::set(&key, &value), self.waiter(place));
        machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
        self.pipeline.wrote(shard);
        self.owed.push_back(Owed { place, kind: Kind::Write, reply: None, shard: None });
        true
    }

    fn send_read(
        &mut self,
        machine: &mut Machine,
        route: &Route,
        key: &[u8],
        shard: ShardId,
    ) -> bool {
        let place = self.sent;
        let view = &route.views[route.place_of_key(key)];
        let traits = ReadTraits {
            shard: Some(shard),
            is_served: view.read().serving.at(machine.moment().boot),
            may_join: true,
            may_park: true,
        };
        let plan = match self.owed.is_empty() {
            true => ReadPlan::Park(None),
            false => self.pipeline.plan(&traits),
        };
        let kind = match plan {
            ReadPlan::Wait => return false,
            ReadPlan::Park(_) => Kind::Parked,
            ReadPlan::Join(_) => Kind::Joined,
        };
        let hash = |key: &[u8]| route.key(key).hash;
        self.pipeline.add(route.keyspace.id, &Read::Get(key), place as u32, hash, plan);
        self.owed.push_back(Owed { place, kind, reply: None, shard: None });
        match plan {
            ReadPlan::Join(shard) => self.propose_read(machine, place, shard),
            _ => self.parked += 1,
        }
        true
    }

    fn join_oldest(&mut self, machine: &mut Machine) {
        let Some(JoiningRead { number, shard, .. }) = self.pipeline.next_to_join() else { return };
        self.propose_read(machine, number as usize, shard);
        self.pipeline.has_joined();
        if let Some(owed) = self.owed.iter_mut().find(|owed| owed.place == number as usize) {
            owed.kind = Kind::Joined;
        }
    }

    fn propose_read(&mut self, machine: &mut Machine, place: usize, shard: ShardId) {
        let mut batch = Batch::default();
        batch.push_read(&Read::Get(&self.commands[place].key), self.waiter(place), 1);
        machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
        self.joined += 1;
    }

    /// Whether it has set its key, and then not seen the next one.
    pub fn is_blind(&self) -> bool {
        let [mine, next] = &self.keys;
        let mut has_set = false;
        for command in &self.commands {
            if command.key == *mine && command.sets.is_some() {
                has_set |= command.outcome == Outcome::Done;
            } else if command.key == *next {
                return has_set && command.outcome == Outcome::Seen(None);
            }
        }
        false
    }

    /// Judges what it has seen of its own keys and of the next.
    pub fn judge(&self) -> Result<(), String> {
        let wrong = |what| Err(format!("{what}: {}", self.describe()));
        let [mine, next] = &self.keys;
        // Of its own key: what it must have, unless that is not known.
        let (mut own, mut others) = (Some(None), None);
        for command in &self.commands {
            match (&command.outcome, command.sets) {
                (Outcome::Done, Some(value)) if command.key == *mine => own = Some(Some(value)),
                (_, Some(_)) if command.key == *mine => own = None,
                (Outcome::Seen(seen), None)
                    if command.key == *mine && own.is_some_and(|own| own != *seen) =>
                {
                    return wrong("a client does not see its own writes as it sent them");
                }
                (Outcome::Seen(seen), None) if command.key == *next => {
                    if *seen < others {
                        return wrong("a later read has seen less");
                    }
                    others = *seen;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Its commands and their outcomes, as text.
    pub fn describe(&self) -> String {
        let commands = self.commands.iter().map(|Command { key, sets, outcome }| {
            let what = sets.map_or("GET".to_owned(), |value| format!("SET {value}"));
            format!("{what} {} {outcome:?}", key.escape_ascii())
        });
        commands.collect::<Vec<_>>().join("; ")
    }
}

fn seen(reply: &Reply) -> Option<u8> {
    match reply {
        Reply::Bulk(bytes) => bytes.first().map(|digit| digit - b'0'),
        _ => None,
    }
}

//! Clients with change feeds of the keyspace that transactions over shards change (SAFETY G22,
//! G23): each goes on at another node now and then, by the position that it has.
//!
//! The judge knows what every transaction appended to lists, and looks into replicas.
//! 1. Commits come in rising order, each once.
//! 2. The value before a change is the one that the feed told last.
//! 3. At a feed's position all keys have what it told last; of what it told nothing, nothing was
//!    written since it began.
//! 4. All that a transaction appended comes at one time, or nothing of it.
//! 5. A healed cluster lets every feed get on that begins at no time ahead of a node's clock.
//!
//! These clients have dice of their own. They are there in half of the runs with transactions, and
//! wherever a bug is planted that only they find.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::random::{Random, mix};
use keyspace::{Feature, Timestamp};
use node::executor::{Answer, Input, Origin};
use node::feed::changes::{FoundChanges, KeyFilter, WhatChanged};
use node::feed::merge::{FeedMerge, PlantedFeedBug, places};
use node::replica::entry::Waiter;
use node::routing::fetch::FetchResult;
use storage::engine::ReadResult;

use super::multi_shard::{SNAPSHOT_KEYS, WIDE, list_of};
use super::{Options, Plant, TICK_MS, World};
use crate::check::Violation;
use crate::check::serial::{ObservedTxn, Op, Outcome};
use crate::rng::Rng;

/// The origin of their questions.
pub const FEEDS: Origin = Origin(11);
const CLIENTS: usize = 3;
/// A client goes on at another node once in about so many milliseconds.
const MOVES_IN: u64 = 700;
/// … and from a node that is down to one that runs.
const MOVES_FROM_DOWN_IN: u64 = 60;
/// Bytes that it takes at once, at most.
const TAKEN_BYTES: usize = 4096;
/// What it told is compared with replicas so often, in ms.
const COMPARE_MS: u64 = 100;
/// A healed cluster lets it get on within this.
const GETS_ON_MS_MAX: u64 = 15_000;
const RULE: &str = "feeds are whole and in order (G22, G23)";

/// Whether there are such clients in a run.
pub(super) fn has(options: &Options) -> bool {
    let drawn = Random::new(mix(options.seed ^ 0x6665_6564)).below(2) == 0;
    match options.plant {
        Some(plant) => plant.is_of_feeds(),
        None => drawn,
    }
}

/// All of them.
pub(super) struct FeedClients {
    rng: Rng,
    clients: Vec<FeedClient>,
    asked: u64,
    /// Who has asked which question.
    open: BTreeMap<u64, (usize, u64)>,
    /// Where each element of each list was told, of each session that has ended.
    sessions: Vec<Session>,
    planted: Option<Plant>,
}

struct FeedClient {
    at: usize,
    /// When the node had started that it is at.
    node_started_at: u64,
    feed: Option<FeedMerge>,
    session: Session,
    compare_at_ms: u64,
}

/// What was told without a gap: from a position to the next, over any nodes.
#[derive(Default)]
struct Session {
    from: Timestamp,
    to: Timestamp,
    /// What was told last of each key.
    last: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// When each element of a list was told.
    elements: BTreeMap<(Vec<u8>, u64), Timestamp>,
}

fn broken(text: String) -> Result<(), Violation> {
    Err(Violation::new(RULE, text))
}

impl FeedClients {
    pub fn new(options: &Options) -> Self {
        let client = |at| FeedClient {
            at,
            node_started_at: 0,
            feed: None,
            session: Session::default(),
            compare_at_ms: 0,
        };
        Self {
            rng: Rng::new(mix(options.seed ^ 0x6368_616e)),
            clients: (0..CLIENTS).map(|number| client(number % options.nodes)).collect(),
            asked: 0,
            open: BTreeMap::new(),
            sessions: Vec::new(),
            planted: options.plant,
        }
    }

    /// The client begins anew at a time: what it told before is judged by itself.
    fn begin(&mut self, number: usize, at: Timestamp) {
        let session = Session { from: at, to: at, ..Session::default() };
        let before = std::mem::replace(&mut self.clients[number].session, session);
        self.sessions.push(before);
        self.go_on(number, at);
    }

    /// The client goes on at a position, and knows nothing else of what was asked.
    fn go_on(&mut self, number: usize, at: Timestamp) {
        let mut feed = FeedMerge::new(KeyFilter::All, true, at);
        if self.planted == Some(Plant::SkippedAtSplit) {
            feed.plant(PlantedFeedBug::SkippedAtSplit);
        }
        self.clients[number].feed = Some(feed);
        self.open.retain(|_, (client, _)| *client != number);
    }

    fn leave(&mut self, number: usize, to: usize) {
        (self.clients[number].feed, self.clients[number].at) = (None, to);
        self.open.retain(|_, (client, _)| *client != number);
    }

    /// Breaks a rule if transactions were told in parts.
    fn judge(&self, history: &[ObservedTxn], names: &[Vec<u8>]) -> Result<(), Violation> {
        let names: BTreeSet<&Vec<u8>> = names.iter().collect();
        let current = self.clients.iter().map(|client| &client.session);
        for session in self.sessions.iter().chain(current) {
            for txn in history {
                let appended = txn.ops.iter().filter_map(|op| match op {
                    Op::Append { key, element } if names.contains(key) => Some((key, *element)),
                    _ => None,
                });
                let told: Vec<_> = appended
                    .map(|(key, element)| session.elements.get(&(key.clone(), element)))
                    .collect();
                let times: BTreeSet<_> = told.iter().flatten().collect();
                let is_whole =
                    times.len() <= 1 && told.iter().all(|at| at.is_some() != times.is_empty());
                if !is_whole {
                    return broken(format!("{:?} was told at {told:?}", txn.ops));
                }
                if !times.is_empty() && txn.outcome == Outcome::NotDone {
                    return broken(format!("{:?} was told, and not done", txn.ops));
                }
            }
        }
        Ok(())
    }
}

impl Session {
    fn tell(
        &mut self,
        at: Timestamp,
        key: &[u8],
        before: Option<Vec<u8>>,
        now: Option<Vec<u8>>,
        is_list: bool,
    ) -> Result<(), Violation> {
        if let Some(last) = self.last.get(key)
            && *last != before
        {
            let (key, shown) = (key.escape_ascii(), |value: &Option<Vec<u8>>| {
                value.as_ref().map(|value| value.escape_ascii().to_string())
            });
            return broken(format!(
                "{key} was last told as {:?}, and at {at:?} had {:?} before",
                shown(last),
                shown(&before)
            ));
        }
        if is_list && let Some(now) = &now {
            let known = list_of(before.as_deref().unwrap_or_default());
            for element in list_of(now).into_iter().skip(known.len()) {
                self.elements.insert((key.to_vec(), element), at);
            }
        }
        self.last.insert(key.to_vec(), now);
        Ok(())
    }
}

impl World {
    /// The clients at a node do what they can; called once a millisecond while it runs.
    pub(super) fn run_feeds(&mut self, at: usize) -> Result<(), Violation> {
        let Some(mut all) = self.feeds.take() else { return Ok(()) };
        if self.now_ms.is_multiple_of(TICK_MS)
            && let Some(machine) = &self.node_slots[at].machine
        {
            // As a server's ticker does: time goes on at nodes that nobody asks.
            machine.now();
        }
        let mut verdict = Ok(());
        for number in 0..all.clients.len() {
            let is_down = self.node_slots[all.clients[number].at].machine.is_none();
            if is_down && all.rng.one_in(MOVES_FROM_DOWN_IN) {
                all.leave(number, at);
            }
            if all.clients[number].at == at && verdict.is_ok() {
                verdict = self.run_feed(&mut all, number);
            }
        }
        self.feeds = Some(all);
        verdict
    }

    fn run_feed(&mut self, all: &mut FeedClients, number: usize) -> Result<(), Violation> {
        let at = all.clients[number].at;
        let machine = self.node_slots[at].machine.as_ref();
        let route = machine.filter(|machine| machine.cluster_version.allows(Feature::Feeds));
        let route = route.and_then(|machine| machine.routes.get(WIDE)).cloned();
        if !self.clients.asking {
            return Ok(());
        }
        // A node without a replica of the catalogue may not know the keyspace yet.
        let Some(route) = route else {
            if all.rng.one_in(MOVES_FROM_DOWN_IN) {
                let to = all.rng.below(self.node_slots.len() as u64) as usize;
                all.leave(number, to);
            }
            return Ok(());
        };
        let has_begun = all.clients[number].session.to > Timestamp::ZERO;
        if all.rng.one_in(MOVES_IN) {
            // The node that it was at knows nothing of it any more.
            let to = all.rng.below(self.node_slots.len() as u64) as usize;
            all.leave(number, to);
            return Ok(());
        }
        let started_at = self.node_slots[at].started_at;
        if all.clients[number].node_started_at != started_at {
            all.leave(number, at);
            all.clients[number].node_started_at = started_at;
        }
        let Some(machine) = &mut self.node_slots[at].machine else { return Ok(()) };
        if all.clients[number].feed.is_none() {
            match has_begun {
                true => all.go_on(number, all.clients[number].session.to),
                false => all.begin(number, machine.now()),
            }
        }
        let boot = machine.boot;
        let client = &mut all.clients[number];
        let Some(feed) = &mut client.feed else { return Ok(()) };
        feed.set_places(places(&route, feed.keys()));
        for question in feed.questions(boot) {
            all.asked += 1;
            all.open.insert(all.asked, (number, question.number));
            let (origin, waiter, bytes_max) = (FEEDS, Waiter(all.asked), usize::MAX);
            let (shard, want) = (question.shard, Box::new(question.want));
            machine.submit(shard, Input::Fetch { shard, want, bytes_max, origin, waiter });
        }
        let names = self.wide.as_ref().map(|wide| &wide.names[..SNAPSHOT_KEYS]).unwrap_or_default();
        let commits = feed.take(TAKEN_BYTES);
        let session = &mut client.session;
        for commit in commits {
            if commit.at <= session.to {
                return broken(format!("{:?} was told behind {:?}", commit.at, session.to));
            }
            session.to = commit.at;
            self.counts.feed_commits += 1;
            for change in commit.changes {
                let is_list = names.iter().any(|name| **name == *change.key);
                let now = match change.what {
                    WhatChanged::Put { value, .. } => Some(value.into_vec()),
                    WhatChanged::Deleted | WhatChanged::Expired => None,
                };
                let before = change.before.map(|before| before.into_vec());
                session.tell(commit.at, &change.key, before, now, is_list)?;
            }
        }
        session.to = session.to.max(feed.position());
        if feed.end().is_some() && !feed.has_commit() {
            self.counts.feeds_too_late += 1;
            let now = machine.now().max(session.to);
            all.begin(number, now);
            return Ok(());
        }
        if self.now_ms >= client.compare_at_ms {
            client.compare_at_ms = self.now_ms + COMPARE_MS;
            return self.compare_feed(&all.clients[number].session);
        }
        Ok(())
    }

    /// What was told is what replicas have, as far as they know it for sure.
    fn compare_feed(&self, session: &Session) -> Result<(), Violation> {
        let Some(wide) = &self.wide else { return Ok(()) };
        let machines = self.node_slots.iter().filter_map(|slot| slot.machine.as_ref());
        for machine in machines {
            let Some(keyspace) = machine.routes.get(WIDE).map(|route| route.keyspace.id) else {
                continue;
            };
            for view in machine.shard_ids().into_iter().filter_map(|id| machine.view(id)) {
                let state = view.read();
                let Some(engine) = state.engine() else { continue };
                let knows = state.descriptor.keyspace() == keyspace
                    && state.last >= session.to
                    && state.locks.below() >= session.to
                    && engine.safe_point() <= session.to;
                if !knows {
                    continue;
                }
                for name in &wide.names {
                    let key = engine.hasher().key(name);
                    if !state.owns(&key) {
                        continue;
                    }
                    let held = match engine.at(&key, session.to) {
                        ReadResult::Value(version) => Some(version),
                        ReadResult::Nil | ReadResult::NilYet => None,
                    };
                    let is_right = match session.last.get(name) {
                        Some(told) => told.as_deref() == held.map(|held| held.value),
                        None => held.is_none_or(|held| held.timestamp <= session.from),
                    };
                    if !is_right {
                        return broken(format!(
                            "a feed from {:?} told of {} {:?}, and at {:?} it has {:?}",
                            session.from,
                            name.escape_ascii(),
                            session.last.get(name),
                            session.to,
                            held
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// An answer for one of these clients.
    pub(super) fn feed_answered(&mut self, answer: Answer) {
        let Some(mut all) = self.feeds.take() else { return };
        for waiter in answer.waiters().to_vec() {
            let Some((client, question)) = all.open.remove(&waiter.0) else { continue };
            let client = &mut all.clients[client];
            let machine = self.node_slots[client.at].machine.as_ref();
            let (Some(feed), Some(machine)) = (&mut client.feed, machine) else { continue };
            match &answer {
                Answer::Fetched { found, at, .. } => {
                    let mut found = (**found).clone();
                    if all.planted == Some(Plant::RunawayResolved)
                        && let FetchResult::Changes(FoundChanges::Live { resolved, .. }) =
                            &mut found
                    {
                        *resolved = (*resolved).max(*at);
                    }
                    feed.answered(question, found, machine.boot);
                }
                _ => feed.refused(question, machine.boot),
            }
        }
        self.feeds = Some(all);
    }

    /// Nothing breaks any more: every feed gets on.
    pub(super) fn feeds_get_on(&mut self) -> Result<(), Violation> {
        let positions = |all: &FeedClients| -> Vec<Timestamp> {
            all.clients.iter().map(|client| client.session.to).collect()
        };
        let Some(before) = self.feeds.as_ref().map(positions) else { return Ok(()) };
        let until = self.now_ms + GETS_ON_MS_MAX;
        let mut stuck = String::new();
        while self.now_ms < until {
            self.millisecond()?;
            let Some(all) = &self.feeds else { return Ok(()) };
            let machines = self.node_slots.iter().filter_map(|slot| slot.machine.as_ref());
            let slowest = machines.map(|machine| machine.now()).min().unwrap_or_default();
            // One that has not begun waits for the cluster version; one ahead of a clock waits for
            // that clock, which it may not draw so far (SAFETY G12).
            let is_stuck = |(client, before): &(&FeedClient, &Timestamp)| {
                let at = client.session.to;
                at == **before && Timestamp::ZERO < at && at < slowest
            };
            let mut waiting = all.clients.iter().zip(&before).filter(is_stuck).peekable();
            if waiting.peek().is_none() {
                return Ok(());
            }
            if self.now_ms + 1 == until {
                let text = |(client, before): (&FeedClient, &Timestamp)| {
                    format!("at {before:?}, at node {}: {:?}; ", client.at, client.feed)
                };
                stuck = waiting.map(text).collect();
            }
        }
        let text =
            format!("{GETS_ON_MS_MAX} ms after the last fault feeds get no further: {stuck}");
        Err(Violation::new("liveness", text))
    }

    /// What these clients were told is judged.
    pub(super) fn judge_feeds(&self) -> Result<(), Violation> {
        let (Some(all), Some(wide)) = (&self.feeds, &self.wide) else { return Ok(()) };
        all.judge(self.list_history(), &wide.names[..SNAPSHOT_KEYS])
    }
}

//! A simulation that somebody watches and takes part in: `carillon console`, and the same again as
//! fast as it goes, `carillon sim --file` (`docs/sim.md`).
//!
//! ```text
//!   Plan: setup, actions with their times ──► Simulation ──► events, answers, views
//!                                 ▲               │ advance: milliseconds, and what is due
//!                                 └── act: now ───┘ act: something else, which the plan then has
//! ```
//!
//! [`Simulation`] is a state machine: virtual time passes when its driver says so. Who drives it,
//! how fast, and whether anybody looks, changes nothing: the same plan comes to the same
//! [digest](Simulation::digest). An action happens between two milliseconds, before anything else
//! of the second.
//!
//! | file | what |
//! |---|---|
//! | [`setup`] | what there is at the beginning; limits |
//! | [`action`] | what can be done |
//! | [`scenarios`] | plans by name |
//! | `cluster` | whole nodes; [`crate::cluster`] does the work |
//! | `ring` | members of a ring, with the tables of all lookups |
//! | [`lookups`] | how the owner of a key is found |

pub mod action;
mod cluster;
pub mod lookups;
mod ring;
pub mod scenarios;
pub mod setup;

use std::collections::VecDeque;

use command::{NotDone, ObservedVersion, Reply};
use keyspace::{CatalogueError, Keyspace, NodeId, Timestamp};
use node::control;
use node::event::{Event, Trace};
use node::routing::fetch::History;
use overlay::LookupChoice;
use txn::coordinator::TxnOutcome;

use crate::check::Violation;
pub use crate::cluster::live::view::{KeyVersion, KeyView, NodeState, NodeView, ShardView};
use action::{Action, TimedAction};
use cluster::ClusterSim;
use ring::RingSim;
use setup::{ACTIONS_MAX, Kind, Plan, Setup, TIME_MS_MAX, Wrong, wrong};

/// What has come of a request.
#[derive(Debug)]
pub struct Answered {
    /// Its number, as [`Simulation::act`] gave it.
    pub request: u64,
    /// What.
    pub outcome: Outcome,
}

/// What comes of a request.
#[derive(Debug)]
pub enum Outcome {
    /// A write is applied.
    Applied(Reply),
    /// It was not done, or may not be.
    NotDone(NotDone),
    /// The catalogue has answered.
    Catalogue(Result<(), CatalogueError>),
    /// Control has answered.
    Control(control::Reply),
    /// A transaction has ended.
    Txn(TxnOutcome),
    /// Nobody has answered in time.
    Unknown,
}

/// A rule that was found broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub rule: &'static str,
    /// How.
    pub text: String,
    /// When.
    pub at_ms: u64,
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nodes join and get their keyspaces.
    Forming,
    /// All is there.
    Running,
    /// A rule is broken: nothing goes on.
    Broken,
    /// Its time is over.
    Over,
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forming => "forming",
            Self::Running => "running",
            Self::Broken => "broken",
            Self::Over => "over",
        }
    }
}

/// What clients have got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// How many clients ask.
    pub clients: usize,
    /// Requests that were done.
    pub answered: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests of which nobody knows.
    pub unknown: u64,
}

/// What somebody on the network has altered and forged, and what nodes have refused of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttackCounts {
    /// One of so many messages is altered at the moment; 0: nobody attacks.
    pub one_in: u64,
    /// Altered messages that have reached a node …
    pub altered: u64,
    /// … and that it has refused.
    pub altered_refused: u64,
    /// Forged, replayed and altered handshakes …
    pub forged: u64,
    /// … and those that were refused.
    pub forged_refused: u64,
}

enum Driven {
    Cluster(Box<ClusterSim>),
    Ring(Box<RingSim>),
}

/// See the module's documentation.
pub struct Simulation {
    setup: Setup,
    driven: Driven,
    done: Vec<TimedAction>,
    coming: VecDeque<TimedAction>,
    ends_ms: u64,
    now_ms: u64,
    broken: Option<Broken>,
    checked_ms: Option<u64>,
    /// Actions of the plan that could not be done, and why.
    refused: Vec<(TimedAction, Wrong)>,
    /// Lookups that were asked for, since they were last taken.
    shown: Vec<(NodeId, Vec<u8>, Trace)>,
}

impl Simulation {
    /// A simulation before its first millisecond. Events and answers are kept for viewers.
    ///
    /// # Errors
    /// If there can be no such simulation.
    pub fn new(plan: Plan, is_watched: bool) -> Result<Self, Wrong> {
        plan.check()?;
        let Plan { setup, actions, ends_ms } = plan;
        let driven = match setup.kind {
            Kind::Cluster => Driven::Cluster(Box::new(ClusterSim::new(&setup, is_watched)?)),
            Kind::Overlay => Driven::Ring(Box::new(RingSim::new(&setup, is_watched))),
        };
        Ok(Self {
            setup,
            driven,
            done: Vec::new(),
            coming: actions.into(),
            ends_ms,
            now_ms: 0,
            broken: None,
            checked_ms: None,
            refused: Vec::new(),
            shown: Vec::new(),
        })
    }

    /// Lets so many milliseconds pass, with all that is due in them; fewer if a rule breaks, or
    /// time is over. How many have passed.
    pub fn advance(&mut self, millis: u64) -> u64 {
        let mut passed = 0;
        while passed < millis && matches!(self.phase(), Phase::Forming | Phase::Running) {
            self.do_what_is_due();
            if self.broken.is_some() {
                break;
            }
            let ran = match &mut self.driven {
                Driven::Cluster(sim) => crate::caught(|| sim.millisecond()),
                Driven::Ring(sim) => crate::caught(|| sim.millisecond()),
            };
            self.now_ms = self.driven_ms();
            passed += 1;
            self.note(ran);
        }
        passed
    }

    fn driven_ms(&self) -> u64 {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.now_ms,
            Driven::Ring(sim) => sim.now_ms(),
        }
    }

    fn note(&mut self, ran: Result<(), Violation>) {
        if let Err(Violation { rule, text }) = ran {
            self.broken = Some(Broken { rule, text, at_ms: self.now_ms });
        }
    }

    fn do_what_is_due(&mut self) {
        let now_ms = self.now_ms;
        while let Some(timed) = self.coming.pop_front_if(|next| next.ms <= now_ms) {
            // A check may have taken longer than there was time for.
            let timed = TimedAction { ms: now_ms, ..timed };
            if let Err(why) = self.carry_out(&timed.action) {
                self.refused.push((timed.clone(), why));
            }
            self.done.push(timed);
            if self.broken.is_some() {
                return;
            }
        }
    }

    /// Does something now. The number of the request that will be answered, if it is one.
    ///
    /// # Errors
    /// If it cannot be done: nothing was done then.
    pub fn act(&mut self, action: Action) -> Result<Option<u64>, Wrong> {
        match self.phase() {
            Phase::Broken => return wrong("a rule is broken: begin anew"),
            Phase::Over => return wrong("the simulation's time is over: begin anew"),
            Phase::Forming | Phase::Running => {}
        }
        if self.done.len() + self.coming.len() >= ACTIONS_MAX {
            return wrong(format!("a simulation holds {ACTIONS_MAX} actions: begin anew"));
        }
        let ms = self.now_ms;
        let request = self.carry_out(&action)?;
        self.done.push(TimedAction { ms, action });
        Ok(request)
    }

    fn carry_out(&mut self, action: &Action) -> Result<Option<u64>, Wrong> {
        match action {
            Action::Check => {
                self.check()?;
                return Ok(None);
            }
            Action::Lookup { key, from, lookup, keyspace } => {
                let choice = match lookup {
                    Some(text) => choice_of(text)?,
                    None => LookupChoice::default(),
                };
                let keyspace = keyspace.as_deref().unwrap_or(crate::cluster::KEYSPACE);
                let (from, traces) = self.look_up(keyspace, &key.0, from.as_deref(), &[choice])?;
                self.shown.extend(traces.into_iter().map(|trace| (from, key.0.clone(), trace)));
                return Ok(None);
            }
            _ => {}
        }
        match &mut self.driven {
            Driven::Cluster(sim) => sim.act(action),
            Driven::Ring(sim) => sim.act(action).map(|()| None),
        }
    }

    fn check(&mut self) -> Result<(), Wrong> {
        let ran = match &mut self.driven {
            Driven::Cluster(sim) if !sim.is_formed() => {
                return wrong("the cluster is still forming: check it when it is there");
            }
            Driven::Cluster(sim) => crate::caught(|| sim.check()),
            Driven::Ring(sim) => sim.check(),
        };
        self.now_ms = self.driven_ms();
        self.note(ran);
        if self.broken.is_none() {
            self.checked_ms = Some(self.now_ms);
        }
        Ok(())
    }

    // ---- how it is ----

    /// What it began with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Virtual time since its beginning.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// What a clock without skew shows.
    pub fn wall_ms(&self) -> u64 {
        crate::cluster::WALL_MS + self.now_ms
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        match &self.driven {
            _ if self.broken.is_some() => Phase::Broken,
            _ if self.now_ms >= TIME_MS_MAX => Phase::Over,
            Driven::Cluster(sim) if !sim.is_formed() => Phase::Forming,
            _ => Phase::Running,
        }
    }

    /// The rule that was found broken.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// When the last check has found all well.
    pub fn checked_ms(&self) -> Option<u64> {
        self.checked_ms
    }

    /// Actions that have happened, those to come, and the first of these.
    pub fn actions(&self) -> (usize, usize, Option<&TimedAction>) {
        (self.done.len(), self.coming.len(), self.coming.front())
    }

    /// Actions of the plan that could not be done, and why.
    pub fn refused(&self) -> &[(TimedAction, Wrong)] {
        &self.refused
    }

    /// When its plan ends.
    pub fn ends_ms(&self) -> u64 {
        let last = self.coming.back().map_or(0, |last| last.ms);
        self.ends_ms.max(last)
    }

    /// The bug that is planted.
    pub fn plant(&self) -> Option<&'static str> {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.plant().map(|plant| plant.name()),
            Driven::Ring(_) => None,
        }
    }

    /// Of all that has happened: equal simulations have equal digests.
    pub fn digest(&self) -> u64 {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.trace.hash(),
            Driven::Ring(sim) => sim.digest(),
        }
    }

    /// What clients have got.
    pub fn counts(&self) -> ClientCounts {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.client_counts(),
            Driven::Ring(_) => ClientCounts::default(),
        }
    }

    /// What an attacker on the network has done, and what came of it; none in a ring.
    pub fn attack(&self) -> Option<AttackCounts> {
        match &self.driven {
            Driven::Cluster(sim) => Some(sim.world.attack_counts()),
            Driven::Ring(_) => None,
        }
    }

    /// Messages that nodes have sent, and for how many milliseconds one is on its way at most, if
    /// it is not late; none in a ring.
    pub fn network(&self) -> Option<(u64, u64)> {
        match &self.driven {
            Driven::Cluster(sim) => Some(sim.world.network_use()),
            Driven::Ring(_) => None,
        }
    }

    /// The simulation as it is now, to be run again.
    pub fn plan(&self) -> Plan {
        let actions = self.done.iter().chain(&self.coming).cloned().collect();
        Plan { setup: self.setup.clone(), actions, ends_ms: self.ends_ms.max(self.now_ms) }
    }

    /// Events since they were last taken, each with the name of the keyspace that it is about.
    pub fn take_events(&mut self) -> Vec<(Event, Option<Box<str>>)> {
        match &mut self.driven {
            Driven::Cluster(sim) => {
                let events = sim.take_events();
                let world = &sim.world;
                let named = |event: Event| {
                    let keyspace = world.keyspace_of_event(&event.what);
                    (event, keyspace)
                };
                events.into_iter().map(named).collect()
            }
            Driven::Ring(sim) => sim.take_events().into_iter().map(|event| (event, None)).collect(),
        }
    }

    /// Whether requests and transactions of clients are shown as events, too.
    pub fn set_sampling(&mut self, is_sampling: bool) {
        if let Driven::Cluster(sim) = &mut self.driven
            && let Some(watched) = &mut sim.world.watched
        {
            watched.is_sampling = is_sampling;
        }
    }

    /// Lookups that actions have asked for, since they were last taken: who asked, and the key.
    pub fn take_lookups(&mut self) -> Vec<(NodeId, Vec<u8>, Trace)> {
        std::mem::take(&mut self.shown)
    }

    /// Answers to requests since they were last taken.
    pub fn take_answered(&mut self) -> Vec<Answered> {
        match &mut self.driven {
            Driven::Cluster(sim) => sim.take_answered(),
            Driven::Ring(_) => Vec::new(),
        }
    }

    /// All nodes that there ever were; of a ring, its members.
    pub fn nodes(&self) -> Vec<NodeView> {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.node_views(),
            Driven::Ring(sim) => sim.nodes(),
        }
    }

    /// All shards.
    pub fn shards(&self) -> Vec<ShardView> {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.shard_views(),
            Driven::Ring(sim) => sim.shards(),
        }
    }

    /// All keyspaces.
    pub fn keyspaces(&self) -> Vec<Keyspace> {
        match &self.driven {
            Driven::Cluster(sim) => {
                let catalogue = sim.world.known_catalogue();
                catalogue.map(|all| all.iter().cloned().collect()).unwrap_or_default()
            }
            Driven::Ring(sim) => vec![sim.keyspace()],
        }
    }

    /// What a key has, now or as of a time.
    pub fn key(&self, keyspace: &str, key: &[u8], at: Option<Timestamp>) -> KeyView {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.key_seen(keyspace, key, at),
            Driven::Ring(_) => KeyView::Nil,
        }
    }

    /// What has become of a key up to a time, or up to now: so many changes, the newest first; and
    /// the time. None if nobody who is up leads its shard.
    pub fn history(
        &self,
        keyspace: &str,
        key: &[u8],
        at: Option<Timestamp>,
        changes_max: usize,
    ) -> Option<(History, Timestamp)> {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.history_seen(keyspace, key, at, changes_max),
            Driven::Ring(_) => None,
        }
    }

    /// What a transaction has to watch, so that a key stays as it is. None if nobody who is up
    /// leads its shard.
    pub fn version(&self, keyspace: &str, key: &[u8]) -> Option<ObservedVersion> {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.version_seen(keyspace, key),
            Driven::Ring(_) => None,
        }
    }

    /// Keys with a prefix behind another key, in order, and one more than so many if there are
    /// more. None if a shard has no leader who is up.
    pub fn keys(
        &self,
        keyspace: &Keyspace,
        prefix: &[u8],
        after: Option<&[u8]>,
        keys_max: usize,
    ) -> Option<Vec<Vec<u8>>> {
        match &self.driven {
            Driven::Cluster(sim) => sim.world.keys_seen(keyspace, prefix, after, keys_max),
            Driven::Ring(_) => Some(Vec::new()),
        }
    }

    /// How the owner of a key is found by each of these lookups; and who asked.
    ///
    /// # Errors
    /// If there is no such keyspace or node.
    pub fn look_up(
        &self,
        keyspace: &str,
        key: &[u8],
        from: Option<&str>,
        ways: &[LookupChoice],
    ) -> Result<(NodeId, Vec<Trace>), Wrong> {
        match &self.driven {
            Driven::Cluster(sim) => lookups::of_cluster(sim, keyspace, key, from, ways),
            Driven::Ring(sim) => sim.look_up(key, from, ways),
        }
    }

    /// The tables of a member of a ring.
    ///
    /// # Errors
    /// If there is no such member, or no ring.
    pub fn tables(&self, member: &str) -> Result<ring::MemberView, Wrong> {
        match &self.driven {
            Driven::Cluster(_) => wrong("only members of an overlay have tables of their own"),
            Driven::Ring(sim) => sim.tables(member),
        }
    }
}

pub use ring::MemberView;

/// A lookup as people write it.
fn choice_of(text: &str) -> Result<LookupChoice, Wrong> {
    let words = text.split(['+', ' ']).filter(|word| !word.is_empty()).map(str::as_bytes);
    LookupChoice::parse(words)
        .map_err(|why| Wrong(format!("lookup: {}", why.trim_start_matches("ERR "))))
}

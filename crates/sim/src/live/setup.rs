//! What a simulation begins with, and its limits.

use serde::{Deserialize, Serialize};

use super::action::{Layout, TimedAction};
use super::scenarios;
use crate::cluster::Plant;

/// Nodes of a cluster, at most.
pub const NODES_MAX: usize = 50;
/// Members of a ring, at most.
pub const MEMBERS_MAX: usize = 1_000;
/// Members of a ring, at least.
pub const MEMBERS_MIN: usize = 4;
/// Clients, at most.
pub const CLIENTS_MAX: usize = 32;
/// Actions that a simulation may hold.
pub const ACTIONS_MAX: usize = 10_000;
/// Virtual time after which a simulation is over: what its judges remember grows all the time.
pub const TIME_MS_MAX: u64 = 1_800_000;
/// Keys that one action may make or delete.
pub const FILL_MAX: u64 = 10_000;
/// The longest key, and the longest value, of an action.
pub const BYTES_MAX: usize = 4 << 10;
/// Seeds are numbers that JSON holds everywhere.
pub const SEED_MAX: u64 = (1 << 53) - 1;
/// Failure domains, at most.
const DOMAINS_MAX: usize = 10;
/// How far a clock may be set, in milliseconds.
pub const SKEW_MS_MAX: i64 = 86_400_000;
/// How long a sync may be made to take.
pub const SYNC_MS_MAX: u64 = 10_000;
/// Of so many messages at most one is altered.
pub const TAMPER_ONE_IN_MAX: u64 = 1_000_000;

/// What is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Whole nodes.
    #[default]
    Cluster,
    /// Members of a ring with their tables.
    Overlay,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Overlay => "overlay",
        }
    }

    /// Nodes at the beginning, if nobody says how many.
    pub fn nodes_default(self) -> usize {
        match self {
            Self::Cluster => 3,
            Self::Overlay => 32,
        }
    }

    /// Nodes at most.
    pub fn nodes_max(self) -> usize {
        match self {
            Self::Cluster => NODES_MAX,
            Self::Overlay => MEMBERS_MAX,
        }
    }
}

/// What a simulation begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// What is simulated.
    pub kind: Kind,
    /// Decides all that is not said.
    pub seed: u64,
    /// Nodes.
    pub nodes: usize,
    /// Clients.
    pub clients: usize,
    /// Failure domains; 0: none is known.
    pub domains: usize,
    /// Where keys of keyspace `0` live.
    pub placement: Layout,
    /// Whether clients also run transactions over several shards.
    pub transactions: bool,
    /// The scenario that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The planted bug, if there is one: a list, for there may be more some day.
    pub plants: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            kind: Kind::Cluster,
            seed: 1,
            nodes: Kind::Cluster.nodes_default(),
            clients: 4,
            domains: 0,
            placement: Layout::Hashed,
            transactions: false,
            scenario: None,
            plants: Vec::new(),
        }
    }
}

/// A change of a setup: what is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupChange {
    /// What is simulated.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// The seed.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Nodes.
    #[serde(default)]
    pub nodes: Option<usize>,
    /// Clients.
    #[serde(default)]
    pub clients: Option<usize>,
    /// Failure domains.
    #[serde(default)]
    pub domains: Option<usize>,
    /// Where keys live.
    #[serde(default)]
    pub placement: Option<Layout>,
    /// Whether there are transactions.
    #[serde(default)]
    pub transactions: Option<bool>,
    /// The scenario; `null` takes it away.
    #[serde(default, deserialize_with = "named_or_null")]
    pub scenario: Option<Option<String>>,
    /// Planted bugs.
    #[serde(default)]
    pub plants: Option<Vec<String>>,
}

fn named_or_null<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// A simulation: what it begins with, and what is done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What it begins with.
    pub setup: Setup,
    /// Actions, in the order of time.
    pub actions: Vec<TimedAction>,
    /// When it ends.
    pub ends_ms: u64,
}

/// Why something cannot be: a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

pub(super) fn wrong<T>(why: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong(why.into()))
}

impl Setup {
    /// A new beginning: a scenario's, if one is named, with the changes that are.
    ///
    /// # Errors
    /// If there can be no such simulation.
    pub fn changed(&self, change: &SetupChange) -> Result<Plan, Wrong> {
        let mut plan = Plan { setup: self.clone(), ..Plan::default() };
        let is_other_kind = change.kind.is_some_and(|kind| kind != self.kind);
        if is_other_kind && change.nodes.is_none() {
            plan.setup.nodes = change.kind.unwrap_or_default().nodes_default();
        }
        match &change.scenario {
            Some(Some(name)) => plan = scenarios::plan(name, self.seed)?,
            Some(None) => plan.setup.scenario = None,
            // It stays, and so do its actions.
            None if self.scenario.is_some() && !is_other_kind => {
                let name = self.scenario.as_deref().unwrap_or_default();
                let actions = scenarios::plan(name, self.seed);
                (plan.actions, plan.ends_ms) =
                    actions.map(|plan| (plan.actions, plan.ends_ms)).unwrap_or_default();
            }
            None => {}
        }
        let setup = &mut plan.setup;
        setup.kind = change.kind.unwrap_or(setup.kind);
        setup.seed = change.seed.unwrap_or(setup.seed);
        setup.nodes = change.nodes.unwrap_or(setup.nodes);
        setup.clients = change.clients.unwrap_or(setup.clients);
        setup.domains = change.domains.unwrap_or(setup.domains);
        setup.placement = change.placement.unwrap_or(setup.placement);
        setup.transactions = change.transactions.unwrap_or(setup.transactions);
        if let Some(plants) = &change.plants {
            setup.plants.clone_from(plants);
        }
        setup.check()?;
        Ok(plan)
    }

    /// Whether there can be such a simulation.
    ///
    /// # Errors
    /// If not, why.
    pub fn check(&self) -> Result<(), Wrong> {
        let Self { kind, seed, nodes, clients, domains, plants, .. } = self;
        let nodes_min = if *kind == Kind::Overlay { MEMBERS_MIN } else { 1 };
        let (name, nodes_max) = (kind.name(), kind.nodes_max());
        if !(nodes_min..=nodes_max).contains(nodes) {
            let why = format!("nodes is {nodes}: a {name} has from {nodes_min} to {nodes_max}");
            return wrong(why);
        }
        if *clients > CLIENTS_MAX {
            return wrong(format!("clients is {clients}: there are at most {CLIENTS_MAX}"));
        }
        if *domains > DOMAINS_MAX {
            return wrong(format!("domains is {domains}: there are at most {DOMAINS_MAX}"));
        }
        if *seed > SEED_MAX {
            return wrong(format!("seed is {seed}: it is at most {SEED_MAX}"));
        }
        if plants.len() > 1 {
            return wrong("plants has several: one bug is planted at a time");
        }
        if *kind == Kind::Overlay && !plants.is_empty() {
            return wrong("plants: there are none for an overlay");
        }
        self.plant().map(drop)
    }

    /// The planted bug.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn plant(&self) -> Result<Option<Plant>, Wrong> {
        self.plants.first().map(|name| plant_named(name)).transpose()
    }
}

/// The planted bug of this name.
///
/// # Errors
/// If there is none.
pub fn plant_named(name: &str) -> Result<Plant, Wrong> {
    name.parse().map_err(|_| Wrong(format!("no bug '{name}': {}", Plant::names())))
}

impl Plan {
    /// Whether it can be carried out: limits, and the order of its actions.
    ///
    /// # Errors
    /// If not, why.
    pub fn check(&self) -> Result<(), Wrong> {
        self.setup.check()?;
        if self.actions.len() > ACTIONS_MAX {
            let count = self.actions.len();
            return wrong(format!("there are {count} actions: at most {ACTIONS_MAX}"));
        }
        if self.ends_ms > TIME_MS_MAX {
            return wrong(format!("ends_ms is {}: it is at most {TIME_MS_MAX}", self.ends_ms));
        }
        let mut last = 0;
        for (number, TimedAction { ms, .. }) in self.actions.iter().enumerate() {
            let at = number + 1;
            if *ms < last {
                return wrong(format!("action {at} is at {ms} ms, before the one before it"));
            }
            if *ms > TIME_MS_MAX {
                return wrong(format!("action {at} is at {ms} ms: time ends at {TIME_MS_MAX}"));
            }
            last = *ms;
        }
        Ok(())
    }
}

//! Simulations by name: what happens, and when. Each is a plan like any other, so that a viewer
//! can do something else meanwhile.
//!
//! Some play the disasters of [`crate::scenario`], slowly enough to watch. Scenarios that try every
//! moment of something, in a world for each, have no form here.

use super::action::{Action, Layout, TimedAction};
use super::setup::{Kind, Plan, Setup, Wrong, wrong};

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What is simulated.
    pub kind: Kind,
    /// What happens in it, in a line.
    pub about: &'static str,
}

/// A cluster has formed by then.
const FORMED_MS: u64 = 8_000;

macro_rules! scenarios {
    ($($name:literal, $kind:ident, $about:literal;)*) => {
        /// All of them.
        pub const ALL: &[Scenario] =
            &[$(Scenario { name: $name, kind: Kind::$kind, about: $about },)*];
    };
}

scenarios! {
    "calm", Cluster, "three nodes, and nothing happens";
    "leader-dies", Cluster, "the node that leads key a is killed, and comes back";
    "all-off", Cluster, "all nodes lose their power at once, and have it back";
    "nine-of-twenty", Cluster, "9 of 20 nodes lose their power one by one, and come back";
    "domain-lost", Cluster, "all nodes of a failure domain lose their power";
    "isolated-leader", Cluster, "a leader hears nobody while clients reach it";
    "one-way-link", Cluster, "a leader's links work one way, one after the other";
    "removed-returns", Cluster, "a node returns whose replicas were replaced meanwhile";
    "joins-into-3", Cluster, "17 nodes join a cluster of 3 at once";
    "join-and-leave", Cluster, "nodes join, drain and lose their power at one moment";
    "split-in-partition", Cluster, "a shard is split while the cluster is parted";
    "slow-disk", Cluster, "the disk of a leader becomes slow";
    "skewed-clock", Cluster, "the clock of a node is set an hour ahead";
    "transactions", Cluster, "transactions over several shards while a node is killed";
    "stale-lease", Cluster, "a planted bug: a leader trusts its lease after a pause";
    "ring-at-rest", Overlay, "a hundred members on a ring, and nothing happens";
    "hundred-joins", Overlay, "a hundred members join a hundred at once";
    "members-fail", Overlay, "ten of two hundred members fail at once, and come back";
    "members-leave", Overlay, "a tenth of all members leave at once";
    "thousand", Overlay, "ten of a thousand members fail, one a second";
}

/// The plan of a scenario.
///
/// # Errors
/// If there is none of this name.
pub fn plan(name: &str, seed: u64) -> Result<Plan, Wrong> {
    let Some(scenario) = ALL.iter().find(|scenario| scenario.name == name) else {
        let names: Vec<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        return wrong(format!("no scenario '{name}': {}", names.join(", ")));
    };
    let mut script = Script { at_ms: FORMED_MS, actions: Vec::new() };
    let kind = scenario.kind;
    if kind == Kind::Overlay {
        script.at_ms = 3_000;
    }
    let mut setup = Setup { kind, seed, nodes: nodes_of(name), ..Setup::default() };
    setup.scenario = Some(name.to_owned());
    script.write(name, &mut setup);
    let ends_ms = script.at_ms + 10_000;
    Ok(Plan { setup, actions: script.actions, ends_ms })
}

fn nodes_of(name: &str) -> usize {
    match name {
        "nine-of-twenty" => 20,
        "domain-lost" => 9,
        "all-off" | "isolated-leader" | "removed-returns" | "split-in-partition" => 5,
        "join-and-leave" => 7,
        "ring-at-rest" | "hundred-joins" => 100,
        "members-fail" | "members-leave" => 200,
        "thousand" => 1_000,
        _ => 3,
    }
}

struct Script {
    at_ms: u64,
    actions: Vec<TimedAction>,
}

impl Script {
    fn then(&mut self, action: Action) -> &mut Self {
        self.actions.push(TimedAction { ms: self.at_ms, action });
        self
    }

    fn wait(&mut self, ms: u64) -> &mut Self {
        self.at_ms += ms;
        self
    }

    fn power_cut(&mut self, number: usize) -> &mut Self {
        self.then(Action::PowerCut { node: node(number) })
    }

    fn restart(&mut self, number: usize) -> &mut Self {
        self.then(Action::Restart { node: node(number) })
    }

    fn write(&mut self, name: &str, setup: &mut Setup) {
        let leader = || "leader:a".to_owned();
        match name {
            "leader-dies" => {
                self.then(Action::Crash { node: leader() });
                self.wait(10_000).then(Action::Heal).wait(5_000);
            }
            "all-off" => {
                (1..=5).for_each(|number| _ = self.power_cut(number));
                self.wait(3_000);
                (1..=5).for_each(|number| _ = self.restart(number).wait(50));
                self.wait(5_000);
            }
            "nine-of-twenty" => {
                (2..=10).for_each(|number| _ = self.power_cut(number).wait(4_000));
                (2..=10).for_each(|number| _ = self.restart(number).wait(2_000));
            }
            "domain-lost" => {
                setup.domains = 3;
                [2, 5, 8].into_iter().for_each(|number| _ = self.power_cut(number));
                self.wait(15_000);
                [2, 5, 8].into_iter().for_each(|number| _ = self.restart(number));
                self.wait(10_000);
            }
            "isolated-leader" => {
                self.then(Action::Isolate { node: leader() });
                self.wait(8_000).then(Action::Heal).wait(5_000);
            }
            "one-way-link" => {
                for number in 1..=3 {
                    let (from, to) = (node(number), node(number % 3 + 1));
                    self.then(Action::Cut { from, to, both: false });
                    self.wait(4_000).then(Action::Heal).wait(2_000);
                }
            }
            "removed-returns" => {
                self.power_cut(2).wait(20_000).restart(2).wait(10_000);
            }
            "joins-into-3" => {
                self.then(Action::AddNodes { count: 17 }).wait(30_000);
            }
            "join-and-leave" => {
                let admin = |number| Action::Admin {
                    node: node(number),
                    state: super::action::AdminWord::Draining,
                };
                self.power_cut(2).then(Action::AddNodes { count: 3 }).wait(5_000);
                self.then(admin(3)).then(admin(4)).wait(20_000).restart(2).wait(10_000);
            }
            "split-in-partition" => {
                setup.placement = Layout::Ordered;
                self.then(Action::Fill { count: 200, prefix: None, keyspace: None }).wait(3_000);
                self.then(Action::Partition { nodes: vec![node(1), node(2)] }).wait(2_000);
                self.then(Action::Split { shard: 1, at: None });
                self.wait(6_000).then(Action::Heal).wait(5_000);
            }
            "slow-disk" => {
                self.then(Action::SlowDisk { node: leader(), sync_ms: 400 });
                self.wait(10_000).then(Action::Heal).wait(3_000);
            }
            "skewed-clock" => {
                self.then(Action::Skew { node: node(2), by_ms: 3_600_000 }).wait(10_000);
            }
            "transactions" => {
                setup.transactions = true;
                self.wait(4_000).then(Action::Crash { node: node(2) });
                self.wait(6_000).restart(2).wait(5_000);
            }
            "stale-lease" => {
                setup.plants = vec!["stale-lease".to_owned()];
                setup.clients = 16;
                for _ in 0..10 {
                    self.then(Action::Pause { node: leader(), for_ms: Some(2_500) });
                    self.wait(4_000);
                }
                self.then(Action::Check);
            }
            "hundred-joins" => {
                self.then(Action::AddNodes { count: 100 }).wait(20_000);
            }
            "members-fail" => {
                for _ in 0..10 {
                    self.then(Action::Crash { node: "any".to_owned() });
                }
                self.wait(15_000).then(Action::Heal).wait(10_000);
            }
            "members-leave" => {
                for _ in 0..20 {
                    self.then(Action::RemoveNode { node: "any".to_owned() });
                }
                self.wait(15_000);
            }
            "thousand" => {
                for _ in 0..10 {
                    self.then(Action::Crash { node: "any".to_owned() }).wait(1_000);
                }
            }
            _ => {}
        }
    }
}

fn node(number: usize) -> String {
    format!("n{number}")
}

//! The tables `[[timeline]]`: what happens to the nodes while the load goes on.
//!
//! ```toml
//! [[timeline]]
//! at = "10s"                    # since the first measured phase began
//! do = "kill"                   # start, stop, kill, pause, resume, cut, heal, delay, run
//! node = "n3"
//!
//! [[timeline]]
//! phase = "steady"              # since that phase began
//! at = "2s"
//! do = "stop"
//! nodes = ["n2", "n3"]
//! every = "5s"                  # one after the other
//!
//! [[timeline]]
//! after_phase = "steady"        # between that phase and the next
//! do = "run"
//! command = ["{carillon}", "drain", "n3", "--http", "{n1.host}:{n1.port2}"]
//! timeout = "2m"
//! ```
//!
//! Times of `at` without a phase run on over phases; what lies between two phases does not count.

use std::time::Duration;

use super::error::nearest;
use super::node::{NodeSpec, stranger};
use super::reader::{Read, Section};
use super::{Network, Phase};

/// The most acts.
pub const ACTS_MAX: usize = 1_000;
/// How long a command of a timeline may take unless it says otherwise.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time that can be named.
const TIME_MAX: Duration = Duration::from_secs(7 * 86_400);

/// When something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long after the phase of this number began.
    During(usize, Duration),
    /// Between the phase of this number and the next.
    After(usize),
}

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// Starts a node that does not run, and waits until it accepts connections.
    Start,
    /// SIGTERM; killed if it does not end.
    Stop,
    /// kill -9.
    Kill,
    /// SIGSTOP: it keeps all that it holds, and does nothing.
    Pause,
    /// SIGCONT.
    Resume,
    /// Takes a node off the network; or apart from these nodes only.
    Cut {
        /// From which nodes; from all and everybody if none is named.
        from: Vec<usize>,
        /// Whether only what those send is lost.
        is_one_way: bool,
    },
    /// Undoes cuts and delays of all nodes.
    Heal,
    /// Packets of a node leave so much later.
    Delay(Duration),
    /// Runs a command: drain, remove, split, and whatever else there is.
    Run {
        /// Its words, with placeholders.
        command: Vec<String>,
        /// How long it may take.
        timeout: Duration,
        /// Whether the run fails if it fails.
        must_succeed: bool,
    },
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    /// When.
    pub when: When,
    /// What.
    pub deed: Deed,
    /// To which node, by its number from 0; none of what is no node's.
    pub node: Option<usize>,
    /// What marks in results say.
    pub name: String,
}

/// Reads all `[[timeline]]`s, in the order in which things are done.
pub fn timeline(
    root: &Section<'_, '_>,
    phases: &[Phase],
    nodes: &[NodeSpec],
    network: Network,
) -> Read<Vec<Act>> {
    let mut acts = Vec::new();
    for section in root.sections("timeline")? {
        let when = when(&section, phases)?;
        let which = which(&section, nodes)?;
        let every = section.time("every", Duration::from_millis(1)..=TIME_MAX)?;
        let (verb, deed) = deed(&section, nodes, network)?;
        match (&deed, which.is_empty()) {
            (Deed::Run { .. } | Deed::Heal, false) => {
                let key = if section.has("node") { "node" } else { "nodes" };
                return Err(section.error_at(key, format!("`{verb}` is of no node")));
            }
            (Deed::Run { .. } | Deed::Heal, true) => {}
            (_, true) => return Err(section.error(format!("`{verb}` needs a node"))),
            _ => {}
        }
        if every.is_some() && which.len() < 2 {
            return Err(section.error_at("every", "only a list of `nodes` has this key"));
        }
        let label = section.text("name")?;
        let nodes_of = if which.is_empty() { vec![None] } else { some(which) };
        for (step, node) in (0..).zip(nodes_of) {
            let name = label.clone().unwrap_or_else(|| name_of(verb, &deed, node, nodes));
            let later = every.unwrap_or_default() * step;
            let when = match when {
                When::During(phase, at) => forward(phases, phase, at.saturating_add(later)),
                after => Some(after),
            };
            let Some(when) = when else {
                return Err(section.error_at("at", "the load is over by then"));
            };
            acts.push(Act { when, deed: deed.clone(), node, name });
        }
        if acts.len() > ACTS_MAX {
            return Err(section.error(format!("more than {ACTS_MAX} acts")));
        }
        section.finish()?;
    }
    acts.sort_by_key(|act| match act.when {
        When::During(phase, at) => (phase, at),
        When::After(phase) => (phase, Duration::MAX),
    });
    match mistake(&acts, nodes) {
        Some(why) => Err(root.error_at("timeline", why)),
        None => Ok(acts),
    }
}

/// What cannot be done in this order: a node that runs is not started, one that does not is not
/// killed.
fn mistake(acts: &[Act], nodes: &[NodeSpec]) -> Option<String> {
    let mut runs: Vec<bool> = nodes.iter().map(|node| !node.is_later).collect();
    for act in acts {
        let Some(node) = act.node else { continue };
        let needs = match act.deed {
            Deed::Start => false,
            Deed::Stop | Deed::Kill | Deed::Pause | Deed::Resume => true,
            Deed::Cut { .. } | Deed::Heal | Deed::Delay(_) | Deed::Run { .. } => continue,
        };
        if runs[node] != needs {
            let name = &nodes[node].name;
            let found = if runs[node] { "runs already" } else { "does not run" };
            return Some(format!("`{}`: {name} {found} by then", act.name));
        }
        runs[node] = match act.deed {
            Deed::Stop | Deed::Kill => false,
            Deed::Start => true,
            _ => runs[node],
        };
    }
    None
}

fn some(numbers: Vec<usize>) -> Vec<Option<usize>> {
    numbers.into_iter().map(Some).collect()
}

fn name_of(verb: &str, deed: &Deed, node: Option<usize>, nodes: &[NodeSpec]) -> String {
    let name = |number: usize| nodes[number].name.as_str();
    match (deed, node) {
        (Deed::Run { command, .. }, _) => {
            let program = command[0].rsplit('/').next().unwrap_or_default();
            let words = command.iter().skip(1).take_while(|word| !word.starts_with('-'));
            let words: Vec<&str> = words.map(String::as_str).take(3).collect();
            match words.is_empty() {
                true => program.to_owned(),
                false => words.join(" "),
            }
        }
        (Deed::Cut { from, is_one_way }, Some(node)) if !from.is_empty() => {
            let from: Vec<&str> = from.iter().map(|other| name(*other)).collect();
            let way = if *is_one_way { ", one way" } else { "" };
            format!("cut {} from {}{way}", name(node), from.join(", "))
        }
        (_, Some(node)) => format!("{verb} {}", name(node)),
        _ => verb.to_owned(),
    }
}

fn position(section: &Section<'_, '_>, key: &str, name: &str, phases: &[Phase]) -> Read<usize> {
    let found = phases.iter().position(|phase| phase.name == name);
    found.ok_or_else(|| {
        let near = nearest(name, phases.iter().map(|phase| phase.name.as_str()));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        section.error_at(key, format!("no phase is called `{name}`{hint}"))
    })
}

fn when(section: &Section<'_, '_>, phases: &[Phase]) -> Read<When> {
    let at = section.time("at", Duration::ZERO..=TIME_MAX)?;
    let (phase, after) = (section.text("phase")?, section.text("after_phase")?);
    match (at, phase, after) {
        (None, None, Some(name)) => {
            Ok(When::After(position(section, "after_phase", &name, phases)?))
        }
        (Some(at), Some(name), None) => {
            let number = position(section, "phase", &name, phases)?;
            match at < phases[number].length {
                true => Ok(When::During(number, at)),
                false => Err(section.error_at("at", format!("phase `{name}` is over by then"))),
            }
        }
        (Some(at), None, None) => {
            let first = phases.iter().position(|phase| phase.is_measured).unwrap_or(0);
            forward(phases, first, at)
                .ok_or_else(|| section.error_at("at", "the load is over by then"))
        }
        _ => {
            let forms = "at = \"10s\", perhaps with phase = \"NAME\"; or after_phase = \"NAME\"";
            Err(section.error(format!("expected {forms}")))
        }
    }
}

/// The phase and the time in it that are so long after the start of a phase.
fn forward(phases: &[Phase], from: usize, at: Duration) -> Option<When> {
    let mut rest = at;
    for (number, phase) in phases.iter().enumerate().skip(from) {
        if rest < phase.length {
            return Some(When::During(number, rest));
        }
        rest -= phase.length;
    }
    None
}

fn which(section: &Section<'_, '_>, nodes: &[NodeSpec]) -> Read<Vec<usize>> {
    match (section.text("node")?, section.texts("nodes")?) {
        (None, None) => Ok(Vec::new()),
        (Some(name), None) => Ok(vec![number(section, "node", &name, nodes)?]),
        (None, Some(names)) if !names.is_empty() => {
            names.iter().map(|name| number(section, "nodes", name, nodes)).collect()
        }
        _ => Err(section.error_at("nodes", "expected one node, or a list of `nodes`")),
    }
}

fn number(section: &Section<'_, '_>, key: &str, name: &str, nodes: &[NodeSpec]) -> Read<usize> {
    let found = nodes.iter().position(|node| node.name == name);
    found.ok_or_else(|| {
        let names = nodes.iter().map(|node| node.name.as_str());
        let hint = match nearest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if nodes.is_empty() => "this scenario starts none".to_owned(),
            None => format!("there are {}", names.take(20).collect::<Vec<_>>().join(", ")),
        };
        section.error_at(key, format!("no node is called `{name}`; {hint}"))
    })
}

fn deed(
    section: &Section<'_, '_>,
    nodes: &[NodeSpec],
    network: Network,
) -> Read<(&'static str, Deed)> {
    let verbs = ["start", "stop", "kill", "pause", "resume", "cut", "heal", "delay", "run"];
    let words: Vec<(&str, &'static str)> = verbs.iter().map(|verb| (*verb, *verb)).collect();
    let Some(verb) = section.word("do", &words)? else {
        return Err(section.error(format!("needs `do`: one of {}", verbs.join(", "))));
    };
    let command = section.texts("command")?;
    let timeout = section.time("timeout", Duration::from_millis(1)..=TIME_MAX)?;
    let must_succeed = section.flag("must_succeed")?;
    let delay = section.time("delay", Duration::from_micros(1)..=Duration::from_secs(60))?;
    let from = section.texts("from")?;
    let one_way = section.flag("one_way")?.unwrap_or(false);
    let only = |key: &str, of: &str| match section.has(key) && verb != of {
        true => Err(section.error_at(key, format!("only `do = \"{of}\"` has this key"))),
        false => Ok(()),
    };
    for key in ["command", "timeout", "must_succeed"] {
        only(key, "run")?;
    }
    only("delay", "delay")?;
    only("from", "cut")?;
    only("one_way", "cut")?;
    if one_way && from.as_ref().is_none_or(Vec::is_empty) {
        return Err(section.error_at("one_way", "needs from: what these nodes send is lost"));
    }
    if matches!(verb, "cut" | "heal" | "delay") && network == Network::Host {
        let needs = "needs a network of its own: [network] namespaces = true";
        return Err(section.error_at("do", needs));
    }
    let deed = match verb {
        "start" => Deed::Start,
        "stop" => Deed::Stop,
        "kill" => Deed::Kill,
        "pause" => Deed::Pause,
        "resume" => Deed::Resume,
        "heal" => Deed::Heal,
        "cut" => {
            let names = from.unwrap_or_default();
            let from = names.iter().map(|name| number(section, "from", name, nodes));
            Deed::Cut { from: from.collect::<Read<_>>()?, is_one_way: one_way }
        }
        "delay" => match delay {
            Some(delay) => Deed::Delay(delay),
            None => return Err(section.error("needs delay = \"20ms\"")),
        },
        _ => {
            let command = command.filter(|words| !words.is_empty());
            let Some(command) = command else {
                return Err(section.error("needs a command: command = [\"PROGRAM\", \"WORD\"]"));
            };
            if let Some(why) = command.iter().find_map(|word| stranger(word, nodes)) {
                return Err(section.error_at("command", why));
            }
            Deed::Run {
                command,
                timeout: timeout.unwrap_or(RUN_TIMEOUT),
                must_succeed: must_succeed.unwrap_or(true),
            }
        }
    };
    Ok((verb, deed))
}

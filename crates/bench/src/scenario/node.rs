//! The tables `[[node]]` and `[network]`: processes that a run starts, by name.
//!
//! ```toml
//! [[node]]
//! name = "n"
//! count = 3                              # n1, n2, n3
//! command = ["{carillon}", "start", "--peer", "{host}:{port3}", ...]
//! others = ["--join", "{n1.host}:{n1.port3}"]     # besides, for all nodes but the first
//! metrics = "{host}:{port2}"             # where its /metrics is
//!
//! [[node]]
//! name = "n4"
//! command = [...]
//! later = true                           # the timeline starts it
//! agent = 2                              # on the host of the second agent
//! ```

use super::Network;
use super::error::nearest;
use super::reader::{Read, Section};

/// The most nodes.
pub const NODES_MAX: usize = 1_000;
/// The most nodes in namespaces of their own: each has a number in one small network.
const NAMESPACES_MAX: usize = 99;
/// The longest command.
const COMMAND_BYTES_MAX: usize = 16 << 10;
/// The longest name of a node.
const NAME_BYTES_MAX: usize = 40;
/// What each node has, as `{port}`, and as `{NAME.port}` for others.
pub const PLACES: [&str; 9] =
    ["port", "port2", "port3", "port4", "dir", "number", "host", "name", "secret"];

/// A process that is started.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSpec {
    /// What the timeline and results call it.
    pub name: String,
    /// The program and its arguments, with placeholders.
    pub command: Vec<String>,
    /// Where its metrics are read, with placeholders.
    pub metrics: Option<String>,
    /// Whether it is not started with the others.
    pub is_later: bool,
    /// The agent on whose host it runs, from 1; none for the host of the controller.
    pub agent: Option<u64>,
}

impl NodeSpec {
    /// One of `target.command` or `target.commands`: named by its number.
    pub fn numbered(number: usize, command: Vec<String>) -> Self {
        let name = number.to_string();
        Self { name, command, metrics: None, is_later: false, agent: None }
    }
}

/// Reads all `[[node]]`s.
pub fn nodes(root: &Section<'_, '_>) -> Read<Vec<NodeSpec>> {
    let mut nodes: Vec<NodeSpec> = Vec::new();
    let sections = root.sections("node")?;
    let mut ends = Vec::new();
    for section in &sections {
        let Some(name) = section.text("name")? else { return Err(section.error("needs a name")) };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let expected = format!("expected 1 to {NAME_BYTES_MAX} letters, digits, - and _");
            return Err(section.error_at("name", expected));
        }
        let count = section.number("count", 1..=NODES_MAX as u64)?;
        let command = section.texts("command")?.unwrap_or_default();
        if command.is_empty() {
            let example = "command = [\"redis-server\", \"--port\", \"{port}\"]";
            return Err(section.error(format!("needs a command: {example}")));
        }
        if command.iter().map(String::len).sum::<usize>() > COMMAND_BYTES_MAX {
            return Err(section.error_at("command", format!("more than {COMMAND_BYTES_MAX} bytes")));
        }
        let others = section.texts("others")?.unwrap_or_default();
        let metrics = section.text("metrics")?;
        let is_later = section.flag("later")?.unwrap_or(false);
        let agent = section.number("agent", 1..=NODES_MAX as u64)?;
        for number in 1..=count.unwrap_or(1) {
            let name = if count.is_some() { format!("{name}{number}") } else { name.clone() };
            if nodes.iter().any(|node| node.name == name) || name == "first" {
                return Err(section.error_at("name", format!("`{name}` is taken already")));
            }
            let mut command = command.clone();
            if !nodes.is_empty() {
                command.extend(others.iter().cloned());
            }
            nodes.push(NodeSpec { name, command, metrics: metrics.clone(), is_later, agent });
        }
        if nodes.len() > NODES_MAX {
            return Err(section.error_at("count", format!("more than {NODES_MAX} nodes")));
        }
        ends.push(nodes.len());
    }
    let mut from = 0;
    for (section, end) in sections.into_iter().zip(ends) {
        let specs = nodes[std::mem::replace(&mut from, end)..end].iter();
        let mut words = specs.flat_map(|spec| spec.command.iter().chain(&spec.metrics));
        if let Some(why) = words.find_map(|word| stranger(word, &nodes)) {
            return Err(section.error_at("command", why));
        }
        section.finish()?;
    }
    if nodes.first().is_some_and(|node| node.is_later) {
        return Err(root.error_at("node", "the first node cannot be `later`"));
    }
    Ok(nodes)
}

/// What is wrong with the placeholders of a word: `{n9.port}` of a node that is not there.
pub fn stranger(word: &str, nodes: &[NodeSpec]) -> Option<String> {
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        rest = &rest[at + 1..];
        let Some(end) = rest.find('}') else { break };
        let Some((name, key)) = rest[..end].split_once('.') else { continue };
        let names = nodes.iter().map(|node| node.name.as_str()).chain(["first"]);
        if PLACES.contains(&key) && !names.clone().any(|known| known == name) {
            let hint = nearest(name, names).map(|near| format!("; did you mean `{near}`?"));
            return Some(format!("no node is called `{name}`{}", hint.unwrap_or_default()));
        }
    }
    None
}

/// Reads `[network]`: whether nodes have a network of their own.
pub fn network(root: &Section<'_, '_>, nodes: &[NodeSpec]) -> Read<Network> {
    let Some(section) = root.section("network")? else { return Ok(Network::Host) };
    let is_own = section.flag("namespaces")?.unwrap_or(false);
    if is_own && !(1..=NAMESPACES_MAX).contains(&nodes.len()) {
        let problem = format!("needs 1 to {NAMESPACES_MAX} nodes that the scenario starts");
        return Err(section.error_at("namespaces", problem));
    }
    if is_own && nodes.iter().any(|node| node.agent.is_some()) {
        let problem = "nodes on hosts of agents cannot have it: their networks are their own";
        return Err(section.error_at("namespaces", problem));
    }
    section.finish()?;
    Ok(if is_own { Network::Namespaces } else { Network::Host })
}

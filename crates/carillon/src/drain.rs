//! `carillon nodes cordon`, `uncordon`, `remove`; `carillon drain`, which waits.
//!
//! The cluster does the work, and remembers the request: this command only asks and reports
//! progress. So it may be ended and begun again at any time.

use std::io::{IsTerminal, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::http::{Client, ClientError};
use keyspace::text::rounded_size;
use serde_json::{Value, json};

use crate::cli::{DrainArgs, NodesCommand, OneNodeArgs};
use crate::exit::Exit;
use crate::output::{self, complain, with_node};

/// How often a drain is looked at.
const PAUSE: Duration = Duration::from_millis(500);
/// How often an unchanged line is repeated where lines cannot be overwritten.
const REPEAT: Duration = Duration::from_secs(30);
/// How long a node that does not answer is asked again.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Cordons, uncordons or removes a node.
pub fn act(command: &NodesCommand) -> Exit {
    let (OneNodeArgs { which, unknown, node }, action) = match command {
        NodesCommand::Cordon(args) => (args, "cordon"),
        NodesCommand::Uncordon(args) => (args, "uncordon"),
        NodesCommand::Remove(args) => (args, "remove"),
    };
    with_node(node, |client| {
        let answer = client.node_act(which, action, *unknown)?;
        Ok(match node.json {
            true => output::json(&answer),
            false => output::line(&state_text(&answer)),
        })
    })
}

/// Drains a node, and waits until it is empty.
pub fn drain(args: &DrainArgs) -> Exit {
    with_node(&args.node, |client| {
        let begun = client.node_act(&args.which, "drain", args.unknown)?;
        if args.no_wait {
            return Ok(match args.node.json {
                true => output::json(&begun),
                false => output::line(&state_text(&begun)),
            });
        }
        let until = args.timeout.map(|millis| Instant::now() + Duration::from_millis(millis));
        let mut line = Line::new(args.node.json);
        let (end, left) = watch(client, &begun, until, &mut line)?;
        line.finish();
        Ok(ended(args, end, &left))
    })
}

/// How waiting for a drain has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainOutcome {
    /// The node has nothing any more.
    Empty,
    /// The node has been removed meanwhile, so it was empty.
    Gone,
    /// Another request has changed its admin state.
    Cancelled,
    /// The time is over; the drain is not.
    TimeOut,
}

/// Watches the node until it is empty, or waiting is of no use; returns what it holds then.
fn watch(
    client: &Client,
    begun: &Value,
    until: Option<Instant>,
    line: &mut Line,
) -> Result<(DrainOutcome, DrainProgress), ClientError> {
    let id = begun["id"].as_str().unwrap_or_default().to_owned();
    let mut left = DrainProgress::of_answer(begun);
    let mut silent_since = None;
    loop {
        match client.nodes() {
            Ok(nodes) => {
                silent_since = None;
                match look(&nodes, &id) {
                    Ok(now) => left = now,
                    Err(end) => return Ok((end, left)),
                }
                if left.is_nothing() {
                    return Ok((DrainOutcome::Empty, left));
                }
                line.show(&left);
            }
            // The node that is asked may be restarted meanwhile.
            Err(error) => {
                let since = *silent_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= SILENCE_MAX {
                    return Err(error);
                }
            }
        }
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            return Ok((DrainOutcome::TimeOut, left));
        }
        sleep(until.map_or(PAUSE, |until| PAUSE.min(until - now)));
    }
}

/// What a node still has, by an answer of `GET /v1/nodes`; or why it is not waited for any more.
fn look(nodes: &Value, id: &str) -> Result<DrainProgress, DrainOutcome> {
    let mut removed = nodes["removed"].as_array().into_iter().flatten();
    if removed.any(|node| node == id) {
        return Err(DrainOutcome::Gone);
    }
    let mut all = nodes["nodes"].as_array().into_iter().flatten();
    match all.find(|node| node["id"] == id) {
        Some(node) if node["standing"] == "draining" => Ok(DrainProgress::of_node(node)),
        Some(_) => Err(DrainOutcome::Cancelled),
        // Whom a node that was just started does not know yet, it will.
        None => Ok(DrainProgress {
            name: id.to_owned(),
            replicas: None,
            leads: 0,
            bytes: 0,
            is_up: false,
        }),
    }
}

/// What a draining node still has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DrainProgress {
    name: String,
    /// By the descriptors of shards and, while it is up, by its own report; none: not known.
    replicas: Option<u64>,
    leads: u64,
    bytes: u64,
    is_up: bool,
}

impl DrainProgress {
    fn of_answer(answer: &Value) -> Self {
        let number = |name: &str| answer[name].as_u64().unwrap_or(0);
        Self {
            name: name(answer),
            replicas: answer["replicas"].as_u64(),
            leads: number("leads"),
            bytes: number("data_bytes"),
            is_up: true,
        }
    }

    fn of_node(node: &Value) -> Self {
        let is_up = matches!(node["state"].as_str(), Some("up" | "suspected"));
        // A dead one's last word is old.
        let told = if is_up { node["shards"].as_u64().unwrap_or(0) } else { 0 };
        let replicas = node["replicas"].as_u64().map(|replicas| replicas.max(told));
        Self { replicas, is_up, ..Self::of_answer(node) }
    }

    fn is_nothing(&self) -> bool {
        self.replicas == Some(0)
    }

    fn words(&self) -> String {
        let Self { name, leads, bytes, .. } = self;
        let Some(replicas) = self.replicas else {
            return format!("{name}: the asked node does not know this node yet");
        };
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let down = if self.is_up { "" } else { "; it is down" };
        format!(
            "{name}: {replicas} replica{} ({leads} leader{}), {} left{down}",
            plural(replicas),
            plural(*leads),
            rounded_size(*bytes)
        )
    }
}

/// Prints how waiting has ended, and what to do next.
fn ended(args: &DrainArgs, end: DrainOutcome, left: &DrainProgress) -> Exit {
    let DrainProgress { name, .. } = left;
    let is_done = matches!(end, DrainOutcome::Empty | DrainOutcome::Gone);
    if args.node.json {
        let admin_state = match end {
            DrainOutcome::Empty | DrainOutcome::TimeOut => json!("draining"),
            DrainOutcome::Gone => json!("removed"),
            DrainOutcome::Cancelled => Value::Null,
        };
        let replicas = if is_done { Some(0) } else { left.replicas };
        let written = output::json(&json!({
            "name": name, "standing": admin_state, "empty": is_done, "replicas": replicas,
            "leads": left.leads, "data_bytes": left.bytes,
        }));
        return if is_done { written } else { Exit::Refused };
    }
    match end {
        DrainOutcome::Empty => output::line(&format!(
            "{name} is empty. `carillon nodes remove {name}` removes it for good; `carillon nodes \
             uncordon {name}` makes it a plain member again"
        )),
        DrainOutcome::Gone => output::line(&format!("{name} was empty, and is removed")),
        DrainOutcome::Cancelled => {
            complain(&format!("another operator ended the drain of {name}"));
            Exit::Refused
        }
        DrainOutcome::TimeOut => {
            let words = left.words();
            complain(&format!(
                "not done in time: {words}. The drain goes on; the same command waits for it again"
            ));
            Exit::Refused
        }
    }
}

/// A node's admin state, for people.
fn state_text(answer: &Value) -> String {
    let (name, admin_state) = (name(answer), answer["standing"].as_str().unwrap_or_default());
    match admin_state {
        "removed" => format!("{name} is removed, for good"),
        "draining" => {
            let left = DrainProgress::of_answer(answer);
            format!("{name} is draining. {}", left.words())
        }
        "member" => format!("{name} is a plain member"),
        admin_state => format!("{name} is {admin_state}"),
    }
}

fn name(answer: &Value) -> String {
    answer["name"].as_str().or(answer["id"].as_str()).unwrap_or_default().to_owned()
}

/// A line of progress on standard error: overwritten on a terminal, else repeated when it is
/// another or a while has passed. Nothing for programs.
struct Line {
    is_terminal: bool,
    is_silent: bool,
    last: Option<(String, Instant)>,
}

impl Line {
    fn new(is_silent: bool) -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), is_silent, last: None }
    }

    fn show(&mut self, left: &DrainProgress) {
        let words = left.words();
        let is_same = self.last.as_ref().is_some_and(|(last, at)| {
            *last == words && (self.is_terminal || at.elapsed() < REPEAT)
        });
        if self.is_silent || is_same {
            return;
        }
        let mut out = std::io::stderr().lock();
        // If nobody reads it, nothing is lost.
        let _unread = match self.is_terminal {
            true => write!(out, "\r\x1b[K{words}"),
            false => writeln!(out, "{words}"),
        };
        let _unread = out.flush();
        self.last = Some((words, Instant::now()));
    }

    /// Ends the line that is overwritten.
    fn finish(&self) {
        if self.is_terminal && self.last.is_some() {
            let _unread = writeln!(std::io::stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(admin_state: &str, state: &str, replicas: u64, shards: u64) -> Value {
        json!({ "nodes": [{
            "id": "0a", "name": "d", "standing": admin_state, "state": state, "replicas": replicas,
            "leads": 1, "shards": shards, "data_bytes": 2048,
        }], "removed": ["0b"] })
    }

    #[test]
    fn drain_is_done_when_no_node_reports_replicas() {
        let left = |node| look(&node, "0a").unwrap();
        assert!(left(node("draining", "up", 0, 0)).is_nothing());
        assert!(!left(node("draining", "up", 0, 2)).is_nothing(), "by its own word");
        assert!(!left(node("draining", "up", 1, 0)).is_nothing(), "by a descriptor");
        assert!(left(node("draining", "down", 0, 2)).is_nothing(), "an old word");
        assert!(!look(&node("draining", "up", 0, 0), "0c").unwrap().is_nothing(), "not known");
        assert_eq!(look(&node("member", "up", 0, 0), "0a"), Err(DrainOutcome::Cancelled));
        assert_eq!(look(&node("cordoned", "up", 0, 0), "0a"), Err(DrainOutcome::Cancelled));
        assert_eq!(look(&node("draining", "up", 0, 0), "0b"), Err(DrainOutcome::Gone));
    }

    #[test]
    fn progress_is_a_sentence() {
        let left = look(&node("draining", "down", 3, 0), "0a").unwrap();
        assert_eq!(left.words(), "d: 3 replicas (1 leader), 2.0 KiB left; it is down");
        let answer = json!({ "id": "0a", "name": null, "standing": "removed" });
        assert_eq!(state_text(&answer), "0a is removed, for good");
    }
}

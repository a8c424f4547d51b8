//! `carillon shards --why` and `--dry-run`: what leaders have decided about shards, or would
//! decide.
//!
//! Each shard's leader decides for its own shard, so every node is asked.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::all_nodes::AllNodes;
use crate::cli::ShardsArgs;
use crate::colour::{Paint, Tone};
use crate::exit::Exit;
use crate::output::{self, time, with_node};

/// Shows decisions or, with `dry_run`, those that leaders would make.
pub fn decisions(args: &ShardsArgs) -> Exit {
    with_node(&args.node, |client| {
        // Says so if there is no such keyspace.
        let shards = client.shards(args.keyspace.as_deref())?;
        let reports = AllNodes::ask(client, |client| client.decisions(args.dry_run))?;
        let all = decided(&reports, args);
        Ok(match args.node.json {
            true => output::json(&json!({ "decisions": all, "silent": reports.silent })),
            false => {
                let text = as_text(&all, &reports, args.dry_run, now_millis(), Paint::of_stdout());
                let note =
                    args.shard.filter(|_| all.is_empty()).and_then(|id| unknown(&shards, id));
                let exit = if note.is_some() { Exit::Refused } else { Exit::Done };
                output::raw((text + &note.unwrap_or_default()).as_bytes()).and(exit)
            }
        })
    })
}

/// The error for a shard that is not among these, if it is not.
fn unknown(shards: &Value, id: u64) -> Option<String> {
    let mut all = shards["shards"].as_array().into_iter().flatten();
    let is_there = all.any(|shard| shard["id"] == id);
    let text =
        format!("there is no shard {id}, or it has merged with another; see `carillon shards`\n");
    (!is_there).then_some(text)
}

/// Decisions of all nodes in the order of time, each with `by`, the node that has decided.
fn decided(reports: &AllNodes, args: &ShardsArgs) -> Vec<Value> {
    let mut all = Vec::new();
    for (node, answer) in &reports.answers {
        for one in answer["decisions"].as_array().into_iter().flatten() {
            let keyspace = args.keyspace.as_deref();
            let is_asked = keyspace.is_none_or(|name| one["keyspace"] == name)
                && args.shard.is_none_or(|shard| one["shard"] == shard);
            if is_asked {
                let mut one = one.clone();
                one["by"] = json!({ "id": node["id"], "name": node["name"] });
                all.push(one);
            }
        }
    }
    all.sort_by_key(|one| (one["at_ms"].as_u64(), one["shard"].as_u64()));
    all
}

fn as_text(all: &[Value], reports: &AllNodes, dry: bool, now: u64, paint: Paint) -> String {
    let mut out: String = all.iter().map(|one| shown(one, now, paint)).collect();
    if all.is_empty() {
        out += match dry {
            true => "nothing would move: replicas and leaders are balanced within the tolerance\n",
            false => "no recent decisions\n",
        };
    }
    let is_off = reports.answers.iter().any(|(_, answer)| answer["balances"] == false);
    if dry && !all.is_empty() {
        out += "each decision is computed alone: the first one that is carried out may change the \
                others\n";
    }
    if dry && is_off && !all.is_empty() {
        out += "balance is off: no rebalance, only repair: off nodes that are dead, draining or \
                removed\n";
    }
    if !reports.silent.is_empty() {
        out += &format!("did not answer by HTTP: {}\n", reports.silent.join(", "));
    }
    out
}

/// Two lines: what and why, and what came of it.
fn shown(one: &Value, now: u64, paint: Paint) -> String {
    let names = |list: &str| {
        let all = one[list].as_array().into_iter().flatten();
        all.map(|node| text(&node["name"])).collect::<Vec<_>>().join(", ")
    };
    let replicas: Vec<String> =
        one["remove"].as_array().into_iter().flatten().map(Value::to_string).collect();
    let (add, remove) = (names("add"), replicas.join(", "));
    let plural = if replicas.len() == 1 { "" } else { "s" };
    let split = &one["split"];
    let what = match (one["leader"]["name"].as_str(), add.is_empty(), remove.is_empty()) {
        (Some(leader), _, _) => format!("leadership moves to {leader}"),
        (None, false, false) => format!("replica{plural} {remove} to {add}"),
        (None, false, true) => format!("a replica on {add}"),
        (None, true, _) => format!("without replica{plural} {remove}"),
    };
    let what = match split["right"].as_u64() {
        Some(right) => {
            let at = crate::split::place(&split["at"]);
            format!("it splits at {at}: its right half is shard {right}")
        }
        None => what,
    };
    let what = match one["merge"]["right"].as_u64() {
        Some(right) => format!("it merges with shard {right}"),
        None => what,
    };
    let shard = one["shard"].as_u64().unwrap_or(0);
    let of =
        one["keyspace"].as_str().map(|name| format!(" of keyspace {name}")).unwrap_or_default();
    let ago = match one["came"] == "dry" {
        true => String::new(),
        false => {
            let ago = now.saturating_sub(one["at_ms"].as_u64().unwrap_or(now));
            format!("{} ago, ", time(ago - ago % 1000))
        }
    };
    let by = text(&one["by"]["name"]);
    let why = text(&one["why"]);
    let mut line = format!("{ago}{by}: shard {shard}{of}: {what}, because {why}\n  ");
    let number = |value: &Value| value.as_f64().map(|number| format!("{number:.3}"));
    let deviation = &one["deviation"];
    if let (Some(before), Some(after)) =
        (number(&deviation["before"]), number(&deviation["predicted"]))
    {
        line += &format!("deviation {before}, predicted {after}; ");
    }
    let took = one["took_ms"].as_u64().map(time);
    line += &match one["came"].as_str().unwrap_or_default() {
        "done" => {
            let took = took.map(|took| format!(" after {took}")).unwrap_or_default();
            let achieved = number(&deviation["achieved"]).map(|d| format!(", deviation {d}"));
            paint.paint(Tone::Good, "done") + &took + &achieved.unwrap_or_default()
        }
        "under-way" => "under way".to_owned(),
        "not-done" => paint.paint(Tone::Uneasy, "not done"),
        "handed-on" => "handed on to the shard's next leader".to_owned(),
        "dry" => match one["waits"].as_str() {
            Some(waits) => format!("would wait: {waits}"),
            None => "would be done".to_owned(),
        },
        other => other.to_owned(),
    };
    line + "\n"
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn now_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_are_not_there_are_no_silence() {
        let shards = json!({ "shards": [{ "id": 5 }] });
        assert_eq!(unknown(&shards, 5), None);
        assert!(unknown(&shards, 6).expect("it is not").starts_with("there is no shard 6, or"));
    }

    #[test]
    fn decisions_are_sentences() {
        let mut one = json!({
            "at_ms": 1_000, "shard": 5, "keyspace": "orders", "by": { "name": "n1" },
            "add": [{ "id": "0a", "name": "n4" }], "remove": [3], "leader": null,
            "why": "n1 holds 9 replicas, n4 0; the mean is 4.5",
            "deviation": { "before": 0.5, "predicted": 0.471, "achieved": 0.472 },
            "came": "done", "took_ms": 1_200, "waits": null,
        });
        assert_eq!(
            shown(&one, 13_500, Paint::PLAIN),
            "12s ago, n1: shard 5 of keyspace orders: replica 3 to n4, because n1 holds 9 \
             replicas, n4 0; the mean is 4.5\n  deviation 0.500, predicted 0.471; done after 1s \
             200ms, deviation 0.472\n"
        );
        one["came"] = "dry".into();
        one["waits"] = "it was moved lately: 20 s yet".into();
        let words = shown(&one, 13_500, Paint::PLAIN);
        assert!(words.starts_with("n1: shard 5"), "{words}");
        assert!(words.ends_with("would wait: it was moved lately: 20 s yet\n"), "{words}");
        let cut = json!({
            "at_ms": 1_000, "shard": 5, "keyspace": "k", "by": { "name": "n1" }, "add": [],
            "remove": [], "leader": null, "split": { "shard": 5, "right": 9, "at": 700 },
            "why": "an operator asked for it", "deviation": null, "came": "done", "took_ms": 3,
        });
        assert_eq!(
            shown(&cut, 1_200, Paint::PLAIN),
            "0ms ago, n1: shard 5 of keyspace k: it splits at slot 700: its right half is shard 9, \
             because an operator asked for it\n  done after 3ms\n"
        );
        let lead = json!({
            "at_ms": 1_000, "shard": 0, "keyspace": null, "by": { "name": "n1" }, "add": [],
            "remove": [], "leader": { "name": "n2" }, "why": "n1 is draining",
            "deviation": null, "came": "under-way",
        });
        assert_eq!(
            shown(&lead, 1_200, Paint::PLAIN),
            "0ms ago, n1: shard 0: leadership moves to n2, because n1 is draining\n  under way\n"
        );
    }
}

//! `carillon nodes` and `carillon shards`, and what `carillon status` shares with them.
//!
//! One node answers, by what it knows. Fields of an answer that this version does not know are not
//! shown; fields that it misses are left empty.

use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::http::{Client, ClientError};
use keyspace::text::rounded_size;
use serde_json::Value;

use crate::cli::{NodeArgs, NodesArgs, ShardsArgs, WatchArgs};
use crate::colour::{Paint, Tone};
use crate::exit::Exit;
use crate::output::{self, table, time, with_node};

/// Which nodes there are.
pub fn nodes(args: &NodesArgs) -> Exit {
    let table = |answer: &Value, paint| nodes_table(answer, now_millis(), paint);
    show(&args.node, &args.watch, Client::nodes, table, exit)
}

/// How each shard is.
pub fn shards(args: &ShardsArgs) -> Exit {
    let ask = |client: &Client| client.shards(args.keyspace.as_deref());
    show(&args.node, &args.watch, ask, shards_table, exit)
}

/// Sends the request, and prints the answer for people or programs: once, or repeatedly.
pub fn show(
    node: &NodeArgs,
    watch: &WatchArgs,
    ask: impl Fn(&Client) -> Result<Value, ClientError>,
    text: impl Fn(&Value, Paint) -> String,
    exit: impl Fn(&Value) -> Exit,
) -> Exit {
    let paint = Paint::of_stdout();
    let mut is_read = true;
    loop {
        let shown = with_node(node, |client| {
            let answer = ask(client)?;
            let text = match node.json {
                true => format!("{answer}\n"),
                false => text(&answer, paint),
            };
            let written = match watch.watch {
                None => output::raw(text.as_bytes()),
                Some(_) => {
                    is_read = output::screen(&text);
                    Exit::Done
                }
            };
            Ok(if written == Exit::Done { exit(&answer) } else { written })
        });
        match watch.watch {
            // A node that does not answer may do so again.
            Some(seconds) if is_read && shown != Exit::Usage => sleep(Duration::from_secs(seconds)),
            _ => return shown,
        }
    }
}

/// The exit code for scripts: whether the answer reports a failure.
pub fn exit(answer: &Value) -> Exit {
    match answer["health"]["verdict"] == "failing" {
        true => Exit::Refused,
        false => Exit::Done,
    }
}

/// The verdict, to be noticed.
pub fn health(verdict: &str, paint: Paint) -> String {
    let tone = match verdict {
        "ok" => Tone::Good,
        "degraded" => Tone::Uneasy,
        _ => Tone::Bad,
    };
    paint.paint(tone, verdict)
}

fn now_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Why not all is well, below a table.
fn because(answer: &Value, paint: Paint) -> String {
    let verdict = answer["health"]["verdict"].as_str().unwrap_or("ok");
    if verdict == "ok" {
        return String::new();
    }
    let mut out = format!("\n{}\n", health(verdict, paint));
    for reason in answer["health"]["reasons"].as_array().into_iter().flatten() {
        out += &format!("  {}\n", reason.as_str().unwrap_or_default());
    }
    out
}

fn nodes_table(answer: &Value, now: u64, paint: Paint) -> String {
    let headings = [
        "NODE", "STATE", "STANDING", "SINCE", "LINK", "SHARDS", "LEADS", "DATA", "PEER", "RESP",
        "HTTP", "DOMAIN", "VERSION", "ID",
    ];
    let rows = answer["nodes"].as_array().into_iter().flatten().map(|node| {
        let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| node[name].as_u64().unwrap_or(0);
        let address = |name: &str| node["addresses"][name].as_str().unwrap_or("-").to_owned();
        let mark = if node["this"] == true { "*" } else { "" };
        let state = text("state");
        // What a dead node reported last is out of date.
        let is_there = matches!(state.as_str(), "up" | "suspected");
        let tone = match state.as_str() {
            "up" => Tone::Good,
            "suspected" => Tone::Uneasy,
            "left" => Tone::Faint,
            _ => Tone::Bad,
        };
        let link = if node["linked"] == true { "yes" } else { "no" };
        let version = text("version");
        let shown = |number: String| if is_there { number } else { "-".to_owned() };
        vec![
            format!("{}{mark}", text("name")),
            match is_there && node["slow_disk"] == true {
                true => paint.paint(Tone::Uneasy, &format!("{state}, slow disk")),
                false => paint.paint(tone, &state),
            },
            match text("standing") {
                admin_state if admin_state == "member" => String::new(),
                admin_state if admin_state.is_empty() => admin_state,
                admin_state => paint.paint(Tone::Uneasy, &admin_state),
            },
            // The node's clock may be ahead of this machine's.
            match now.saturating_sub(number("since_at_ms")) / 1000 {
                0 => "now".to_owned(),
                seconds => time(seconds * 1000),
            },
            link.to_owned(),
            shown(number("shards").to_string()),
            shown(number("leaders").to_string()),
            shown(rounded_size(number("data_bytes"))),
            address("peer"),
            address("resp"),
            address("http"),
            text("domain"),
            version.strip_prefix("carillon ").unwrap_or(&version).to_owned(),
            paint.paint(Tone::Faint, &text("id")),
        ]
    });
    // A column in which nobody has anything says nothing.
    let rows: Vec<Vec<String>> = rows.collect();
    let has = |column: usize| rows.iter().any(|row| !row[column].is_empty());
    let columns: Vec<usize> = (0..headings.len()).filter(|column| has(*column)).collect();
    let headings: Vec<&str> = columns.iter().map(|column| headings[*column]).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| row[*column].clone()).collect())
        .collect();
    table(&headings, &rows) + &because(answer, paint)
}

fn shards_table(answer: &Value, paint: Paint) -> String {
    let headings = [
        "SHARD", "KEYSPACE", "OWNS", "STATE", "LIVE", "LEADER", "REPLICAS", "APPLIED", "KEYS",
        "DATA",
    ];
    let rows = answer["shards"].as_array().into_iter().flatten().map(|shard| {
        let number = |name: &str| shard[name].as_u64().unwrap_or(0);
        let here = shard["here"] == true;
        let shown = |text: String| if here { text } else { "-".to_owned() };
        let state = match here {
            true => health(shard["verdict"].as_str().unwrap_or_default(), paint),
            false => paint.paint(Tone::Faint, "elsewhere"),
        };
        vec![
            number("id").to_string(),
            shard["keyspace"].as_str().unwrap_or("-").to_owned(),
            owns(shard),
            state,
            format!("{}/{}", number("replicas_live"), number("replicas_wanted")),
            leader(shard, paint),
            replicas(shard, paint),
            shown(number("applied").to_string()),
            shown(number("keys").to_string()),
            shown(rounded_size(number("bytes"))),
        ]
    });
    table(&headings, &rows.collect::<Vec<_>>()) + &because(answer, paint)
}

/// Slots of a hashed shard, ends of an ordered one.
fn owns(shard: &Value) -> String {
    if let (Some(first), Some(last)) = (shard["slots"][0].as_u64(), shard["slots"][1].as_u64()) {
        return format!("{first}-{last}");
    }
    match (shard["arc"][0].as_str(), shard["arc"][1].as_str()) {
        (Some(""), Some("")) => "all".to_owned(),
        (Some(start), Some(end)) => format!("[{}..{})", key(start), key(end)),
        _ => "-".to_owned(),
    }
}

/// A key of hexadecimal digits as text, if it is a short word; else as it is.
fn key(digits: &str) -> String {
    const LEN_MAX: usize = 24;
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    let is_word =
        |bytes: &Vec<u8>| bytes.len() <= LEN_MAX && bytes.iter().all(u8::is_ascii_graphic);
    match bytes.filter(is_word).map(String::from_utf8) {
        Some(Ok(word)) if word.is_empty() => word,
        Some(Ok(word)) => format!("'{word}'"),
        _ => digits.to_owned(),
    }
}

fn leader(shard: &Value, paint: Paint) -> String {
    let led = |replica: &&Value| replica["leader"] == true;
    let found = shard["replicas"].as_array().into_iter().flatten().find(led);
    let millis = shard["without_leader_ms"].as_u64().unwrap_or(0);
    match (found, shard["here"] == true) {
        (Some(replica), _) if millis > 0 => {
            let stuck = format!("{} stuck for {}", name(replica), time(millis));
            paint.paint(Tone::Bad, &stuck)
        }
        (Some(replica), _) => name(replica),
        (None, false) => "-".to_owned(),
        (None, true) => paint.paint(Tone::Bad, &format!("none for {}", time(millis))),
    }
}

fn name(replica: &Value) -> String {
    let name = replica["name"].as_str().or(replica["node"].as_str());
    name.unwrap_or_default().to_owned()
}

fn replicas(shard: &Value, paint: Paint) -> String {
    let one = |replica: &Value| {
        let is_live = replica["live"] == true;
        let mut word = name(replica);
        word += match (replica["leader"] == true, replica["role"] == "voter") {
            (true, _) => "*",
            (false, true) => "",
            (false, false) => "+",
        };
        if !is_live {
            word.push('!');
        }
        let behind = replica["behind"].as_u64().filter(|behind| *behind > 0);
        if let Some(behind) = behind {
            word += &format!(":{behind}");
        }
        if is_live { word } else { paint.paint(Tone::Bad, &word) }
    };
    let all = shard["replicas"].as_array().into_iter().flatten().map(one);
    all.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_table_has_no_empty_columns() {
        let node = |name: &str, this: bool, state: &str| {
            json!({
                "id": "00000000000000aa", "name": name, "this": this, "state": state,
                "since_at_ms": 1_000_500, "linked": state == "up", "shards": 9, "leaders": 3,
                "data_bytes": 2048, "domain": "", "version": "carillon 0.1.0",
                "addresses": {"peer": "a:7600", "resp": null, "native": null, "http": "a:7480"},
            })
        };
        let health = json!({ "verdict": "degraded", "reasons": ["a replica is missing"] });
        let nodes = [node("a", true, "up"), node("b", false, "down")];
        let text =
            nodes_table(&json!({ "health": health, "nodes": nodes }), 1_062_000, Paint::PLAIN);
        let expected = "\
NODE  STATE  SINCE  LINK  SHARDS  LEADS  DATA     PEER    RESP  HTTP    VERSION  ID
a*    up     1m 1s  yes        9      3  2.0 KiB  a:7600  -     a:7480  0.1.0    00000000000000aa
b     down   1m 1s  no         -      -  -        a:7600  -     a:7480  0.1.0    00000000000000aa

degraded
  a replica is missing
";
        assert_eq!(text, expected);
    }

    #[test]
    fn shards_report_leader_and_lagging_replicas() {
        let replica = |name: &str, role: &str, live: bool, leader: bool, behind: Option<u64>| {
            json!({ "name": name, "node": "x", "role": role, "live": live, "leader": leader,
                    "behind": behind })
        };
        let mut shard = json!({
            "id": 4, "keyspace": "0", "slots": [0, 2047], "arc": null, "verdict": "degraded",
            "here": true, "replicas_live": 1, "replicas_wanted": 3, "applied": 12, "keys": 5,
            "bytes": 100, "without_leader_ms": 0, "replicas": [
                replica("a", "voter", true, true, Some(0)),
                replica("b", "voter", false, false, Some(17)),
                replica("c", "learner", true, false, Some(3)),
            ],
        });
        let words = |shard: &Value| {
            let text = shards_table(&json!({ "shards": [shard] }), Paint::PLAIN);
            text.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(&shard), "4 0 0-2047 degraded 1/3 a a* b!:17 c+:3 12 5 100 bytes");
        shard["without_leader_ms"] = 1500.into();
        assert!(words(&shard).contains("1/3 a stuck for 1s 500ms a* b!:17"), "{}", words(&shard));
        shard["replicas"][0]["leader"] = false.into();
        shard["verdict"] = "failing".into();
        assert!(
            words(&shard).contains("failing 1/3 none for 1s 500ms a b!:17"),
            "{}",
            words(&shard)
        );
        shard["slots"] = Value::Null;
        shard["arc"] = json!(["", "6d"]);
        assert!(words(&shard).contains("[..'m')"));
    }

    #[test]
    fn scripts_are_told_what_fails_and_nothing_less() {
        let answer = |verdict: &str| json!({ "health": { "verdict": verdict } });
        assert_eq!(exit(&answer("failing")), Exit::Refused);
        assert_eq!(exit(&answer("degraded")), Exit::Done);
        assert_eq!(exit(&answer("ok")), Exit::Done);
    }
}

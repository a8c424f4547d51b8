//! `carillon record`: writes the events of all nodes into a file, one JSON object a line.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use client::http::{Client, ClientError};
use serde_json::{Value, json};

use crate::cli::{NodeArgs, millis};
use crate::exit::Exit;
use crate::output::{self, with_node};

/// `carillon record`
#[derive(Debug, Args)]
#[command(after_help = "\
The file has one JSON object a line, as GET /v1/events sends them: docs/events.md lists them all.
The first line is `hello`, with the version of the format; the last one is `end`.

Each node keeps its last events in memory: 8192, or 4 MiB; or on disk, if it was started with
--record. A line `gap` stands where there were more, or where a node has forgotten them. Samples of
requests are not kept: they can be recorded with --for.

Exit code 1 if it ended early, because the node stopped; the file has what came.

Examples:
  carillon record --out yesterday.jsonl               all that nodes still have
  carillon record --out now.jsonl --last 10m          of the last ten minutes
  carillon record --out run.jsonl --for 1m --samples 100   the next minute, with sampled requests
  carillon record --out - --for 1h --types split,merged    on standard output, as it happens")]
pub struct RecordArgs {
    /// The file to write, which must not exist; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Begin so long ago, instead of with the oldest event that nodes keep.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub last: Option<u64>,
    /// Begin now, or with --last, and go on for so long; else it ends with what has happened.
    #[arg(long = "for", value_name = "TIME", value_parser = millis)]
    pub duration: Option<u64>,
    /// Sample at most so many requests a second.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "duration")]
    pub samples: u32,
    /// Only events of these types, separated by commas.
    #[arg(long, value_name = "TYPES")]
    pub types: Option<String>,
    /// Only events about this keyspace.
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// What was recorded.
#[derive(Default)]
struct Recorded {
    events: u64,
    gaps: u64,
    nodes: BTreeSet<String>,
    /// Whether all came that was asked for.
    is_whole: bool,
}

/// Records.
pub fn record(args: &RecordArgs) -> Exit {
    with_node(&args.node, |client| {
        let stream = client.events(&query(args, now_millis()))?;
        let mut file = match create(&args.out) {
            Ok(file) => file,
            Err(why) => return Ok(refuse(args, &format!("cannot write {}: {why}", shown(args)))),
        };
        let mut recorded = Recorded::default();
        for event in stream {
            let line = event?;
            recorded.note(&line);
            if let Err(why) = writeln!(file, "{line}") {
                return Ok(refuse(args, &format!("cannot write {}: {why}", shown(args))));
            }
        }
        if let Err(why) = file.flush() {
            return Ok(refuse(args, &format!("cannot write {}: {why}", shown(args))));
        }
        report(args, client, &recorded)
    })
}

fn report(args: &RecordArgs, client: &Client, recorded: &Recorded) -> Result<Exit, ClientError> {
    let Recorded { events, gaps, nodes, is_whole } = recorded;
    if !is_whole {
        // Says so if it cannot be reached any more.
        client.status()?;
        return Ok(refuse(args, &format!("the stream ended early: {} has what came", shown(args))));
    }
    let text = format!(
        "recorded {events} events of {} nodes, with {gaps} gaps, in {}",
        nodes.len(),
        shown(args)
    );
    match (args.node.json, is_standard_output(&args.out)) {
        (false, _) => output::note(&text),
        (true, true) => {}
        (true, false) => {
            let counts = json!({ "events": events, "gaps": gaps, "nodes": nodes });
            return Ok(output::json(&counts));
        }
    }
    Ok(Exit::Done)
}

impl Recorded {
    fn note(&mut self, line: &str) {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "hello" | "node" => {}
            "gap" => self.gaps += 1,
            "end" => self.is_whole = event["reason"] == "until",
            _ => {
                self.events += 1;
                self.nodes.extend(event["node"].as_str().map(str::to_owned));
            }
        }
    }
}

fn query(args: &RecordArgs, now: u64) -> String {
    let from = match (args.last, args.duration) {
        (Some(last), _) => format!("from={}ms", now.saturating_sub(last)),
        (None, Some(_)) => format!("from={now}ms"),
        (None, None) => "from=0".to_owned(),
    };
    let until = match args.duration {
        Some(duration) => format!("{}ms", now.saturating_add(duration)),
        None => "now".to_owned(),
    };
    let mut query = format!("scope=cluster&{from}&until={until}");
    if args.samples > 0 {
        query += &format!("&samples={}", args.samples);
    }
    let encoded =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
    for (name, value) in [("types", &args.types), ("keyspace", &args.keyspace)] {
        if let Some(value) = value {
            query += &format!("&{name}={}", encoded(value));
        }
    }
    query
}

fn now_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn create(path: &Path) -> io::Result<Box<dyn Write>> {
    if is_standard_output(path) {
        return Ok(Box::new(LineWriter::new(io::stdout())));
    }
    // Whole lines, so that it can be read if this is interrupted.
    Ok(Box::new(LineWriter::new(File::create_new(path)?)))
}

fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

fn shown(args: &RecordArgs) -> String {
    if is_standard_output(&args.out) {
        return "standard output".to_owned();
    }
    args.out.display().to_string()
}

fn refuse(args: &RecordArgs, why: &str) -> Exit {
    output::refuse(&args.node, why);
    Exit::Refused
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn args(words: &[&str]) -> RecordArgs {
        let words = [&["carillon", "record", "--out", "f"], words].concat();
        match Cli::try_parse_from(words).expect("it is understood").command {
            Command::Record(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn spans_are_from_the_past_or_from_now_on() {
        let of = |words: &[&str]| query(&args(words), 100_000);
        assert_eq!(of(&[]), "scope=cluster&from=0&until=now");
        assert_eq!(of(&["--last", "10s"]), "scope=cluster&from=90000ms&until=now");
        assert_eq!(
            of(&["--for", "1m", "--samples", "7"]),
            "scope=cluster&from=100000ms&until=160000ms&samples=7"
        );
        assert_eq!(
            of(&["--last", "10s", "--for", "10s", "--types", "a,b", "--keyspace", "k"]),
            "scope=cluster&from=90000ms&until=110000ms&types=%61%2c%62&keyspace=%6b"
        );
    }

    #[test]
    fn samples_need_a_span_ahead() {
        let words = ["carillon", "record", "--out", "f", "--samples", "7"];
        assert!(Cli::try_parse_from(words).is_err());
    }
}

//! `carillon replay`: plays a recording of events back, as text, in its own pace or faster.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::console::{self, ADDRESS};
use crate::exit::Exit;
use crate::output;

/// The version of the format that is read.
const VERSION: u64 = 1;
/// The longest line: an event has at most 64 KiB.
const LINE_BYTES_MAX: u64 = 256 << 10;
/// Where nothing happens for longer, this is all that is waited.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// `carillon replay`
#[derive(Debug, Args)]
#[command(after_help = "\
FILE is what `carillon record` has written, or a file of a node's --record directory: a JSON object
a line (docs/events.md). It is played in its own pace; pauses are cut to three seconds.

Exit code 1 if a line cannot be read; those before it are played.

With --console it is shown in all views of the console instead, back and forth: open the address
that is printed. The page of any node shows it as well: its settings have Open.

Examples:
  carillon replay yesterday.jsonl --console
  carillon replay yesterday.jsonl
  carillon replay yesterday.jsonl --speed 20
  carillon replay yesterday.jsonl --at-once --types split,merged
  carillon record --out - --last 1h | carillon replay - --at-once")]
pub struct ReplayArgs {
    /// The recording; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// So many times as fast as it happened, 0.1 to 1000.
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Do not wait between events.
    #[arg(long, conflicts_with = "speed")]
    pub at_once: bool,
    /// Only events of these types, separated by commas.
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub types: Vec<String>,
    /// Print the lines as they are.
    #[arg(long)]
    pub json: bool,
    /// Serve a page that shows it, until this is ended by a signal.
    #[arg(long, conflicts_with_all = ["speed", "at_once", "types", "json"])]
    pub console: bool,
    /// Address of that page.
    #[arg(long, value_name = "HOST:PORT", requires = "console", default_value = ADDRESS)]
    pub http: SocketAddr,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok().filter(|speed| (0.1..=1000.0).contains(speed));
    speed.ok_or_else(|| "expected a number from 0.1 to 1000".to_owned())
}

/// Plays a recording.
pub fn replay(args: &ReplayArgs) -> Exit {
    if args.console {
        return console::show_recording(&args.file, args.http);
    }
    let mut out = io::stdout().lock();
    let played = open(&args.file).and_then(|file| play(args, file, &mut out, sleep));
    match played {
        Ok(()) => Exit::Done,
        Err(why) => {
            output::complain(&why);
            Exit::Refused
        }
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, String> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Plays lines; `wait` lets time pass.
fn play(
    args: &ReplayArgs,
    mut file: impl BufRead,
    out: &mut impl Write,
    mut wait: impl FnMut(Duration),
) -> Result<(), String> {
    let mut names = BTreeMap::new();
    let mut last_ms: Option<u64> = None;
    for number in 1_u64.. {
        let at = |why: String| format!("{}, line {number}: {why}", args.file.display());
        let mut line = Vec::new();
        let read = io::Read::take(&mut file, LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|why| at(why.to_string()))? == 0 {
            let empty = format!("{} is empty: it is no recording", args.file.display());
            return if number == 1 { Err(empty) } else { Ok(()) };
        }
        let line = String::from_utf8(line).map_err(|_| at("it is no text".to_owned()))?;
        let line = line.trim_end();
        let event: Value = serde_json::from_str(line)
            .map_err(|why| at(format!("it is no event, or is cut off: {why}")))?;
        let kind = event["type"].as_str().ok_or_else(|| at("it has no type".to_owned()))?;
        if kind == "hello" {
            let version = event["version"].as_u64();
            if version != Some(VERSION) {
                let found = &event["version"];
                return Err(at(format!("version {found}: this program reads version {VERSION}")));
            }
            learn(&event, &mut names);
        }
        if !args.types.is_empty() && !args.types.iter().any(|wanted| wanted == kind) {
            continue;
        }
        let ms = event["at_ms"].as_u64();
        if let (Some(ms), Some(last), false) = (ms, last_ms, args.at_once) {
            let pause = ms.saturating_sub(last) as f64 / 1_000.0 / args.speed;
            wait(Duration::from_secs_f64(pause).min(WAIT_MAX));
        }
        last_ms = ms.or(last_ms);
        let shown = if args.json { line.to_owned() } else { shown(&event, kind, &names) };
        // Nobody reads any more: there is no one to play for.
        if writeln!(out, "{shown}").and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn learn(hello: &Value, names: &mut BTreeMap<String, String>) {
    for node in hello["nodes"].as_array().into_iter().flatten() {
        if let (Some(id), Some(name)) = (node["node"].as_str(), node["name"].as_str()) {
            names.insert(id.to_owned(), name.to_owned());
        }
    }
}

/// An event as a line: when, where, what.
fn shown(event: &Value, kind: &str, names: &BTreeMap<String, String>) -> String {
    let id = event["node"].as_str().unwrap_or_default();
    let node = names.get(id).map_or(id, String::as_str);
    let when = event["at_ms"].as_u64().map(time_of_day).unwrap_or_default();
    let text = match (event["text"].as_str(), kind) {
        (Some(text), _) => text.to_owned(),
        (None, "gap") => {
            let events = event["events"].as_u64();
            let count = events.map_or_else(|| "unknown many".to_owned(), |count| count.to_string());
            format!("{count} events are missing: {}", event["reason"].as_str().unwrap_or_default())
        }
        (None, "node") => {
            let name = event["name"].as_str().unwrap_or_default();
            format!("{name}: {}", event["state"].as_str().unwrap_or_default())
        }
        (None, _) => event["reason"].as_str().unwrap_or_default().to_owned(),
    };
    format!("{when}  {node:<16}  {kind:<22}  {text}").trim_end().to_owned()
}

/// The time of day, in UTC.
fn time_of_day(ms: u64) -> String {
    let (seconds, ms) = (ms / 1_000 % 86_400, ms % 1_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    const HELLO: &str = r#"{"type":"hello","version":1,"node":"000000000000000a","at":"1","#;
    const NAMES: &str = r#""at_ms":1000,"nodes":[{"node":"000000000000000a","name":"n1"}]}"#;
    const REST: &str = r#"
{"type":"split","node":"000000000000000a","at":"2","at_ms":3500,"text":"shard 7 was split"}
{"type":"gap","node":"000000000000000a","at":"3","at_ms":3600,"reason":"kept","events":4}
{"type":"end","node":"000000000000000a","at":"4","at_ms":90000,"reason":"until"}
"#;

    fn recording() -> String {
        [HELLO, NAMES, REST].concat()
    }

    fn played(words: &[&str], text: &str) -> (Result<(), String>, String, Vec<u64>) {
        let words = [&["carillon", "replay", "f"], words].concat();
        let args = match Cli::try_parse_from(words).expect("it is understood").command {
            Command::Replay(args) => args,
            other => panic!("{other:?}"),
        };
        let (mut out, mut waits) = (Vec::new(), Vec::new());
        let wait = |pause: Duration| waits.push(pause.as_millis() as u64);
        let ended = play(&args, text.as_bytes(), &mut out, wait);
        (ended, String::from_utf8(out).expect("text"), waits)
    }

    #[test]
    fn events_come_in_their_pace_with_names_of_nodes() {
        let (ended, text, waits) = played(&["--speed", "10"], &recording());
        assert_eq!((ended, waits), (Ok(()), vec![250, 10, 3_000]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[1],
            "00:00:03.500  n1                split                   shard 7 was split"
        );
        assert!(lines[2].ends_with("4 events are missing: kept"), "{}", lines[2]);
        let (_, text, waits) =
            played(&["--at-once", "--types", "split,end", "--json"], &recording());
        assert_eq!((text.lines().count(), waits), (2, Vec::new()));
        assert!(recording().contains(text.lines().next().expect("a line")));
    }

    #[test]
    fn damage_is_told_with_its_line() {
        let why = |text: &str| played(&["--at-once"], text).0.expect_err("it is damaged");
        let all = recording();
        assert!(why(&all[..all.len() - 20]).contains("f, line 4: it is no event, or is cut off"));
        assert!(why("{}\n").contains("line 1: it has no type"));
        assert!(why("").contains("f is empty"));
        assert!(why("\n").contains("line 1: it is no event"));
        assert!(why("\u{0}\u{0}\n").contains("line 1: it is no event"));
        assert!(why(&"x".repeat(1 << 20)).contains("line 1: it is no event"));
        assert!(why(&"[".repeat(10_000)).contains("line 1: it is no event"));
        let garbage = all.replacen('\n', "\nno event\n", 1);
        assert!(why(&garbage).contains("line 2: it is no event"), "{garbage}");
        let cut_in_a_letter = format!("{HELLO}\"x\":\"\u{fc}");
        assert!(why(&cut_in_a_letter).contains("line 1: it is no event, or is cut off"));
        let newer = all.replace("\"version\":1", "\"version\":2");
        assert!(why(&newer).contains("version 2: this program reads version 1"));
    }
}

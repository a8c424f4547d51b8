//! `carillon script`: a file of commands, run by any number of clients on any number of managers.
//!
//! ```text
//!   file ─► commands ─► client 1 ─► managers (nodes) in turn ─► partitions (shards)
//!                   └─► client 2 …                    answers, a line each
//! ```
//!
//! The whole file is read before anything is sent: a malformed one changes nothing. [`language`]
//! and [`terms`] have the grammar.

mod language;
mod terms;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use clap::Args;
use client::http::{Client, ClientError, GetResult, PutOptions, bytes_of};
use keyspace::is_made_on_use;
use serde_json::{Value, json};

use crate::cli::NodeArgs;
use crate::exit::Exit;
use crate::output::{self, failed};
use language::{Command, Operation};
use terms::Term;

/// No file may be longer.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Clients that run it at the same time.
const CLIENTS_MAX: u64 = 1024;

/// `carillon script`
#[derive(Debug, Args)]
#[command(after_help = "\
Commands, one on each line:
  up KEY VALUE                 gives the key a value: ok
  read KEY                     its newest value, or nil
  snapshot_read [KEY, ...] [TIME]
                               values as of one moment, in the keys' order: of now, or of a time as
                               `get --at` takes it, in quotes
  gc                           has old versions collected that no snapshot holds: ok
  sleep MILLISECONDS           waits: ok
  exit                         ends the client
A command may also be written as {up, KEY, VALUE}. or up(KEY, VALUE). % begins a comment.

Keys and values are Erlang terms: foo, 'Foo', 42, 1.5, \"text\", <<\"bytes\">>, <<255>>, [1, 2],
{a, 1}. They keep their types: [100] is printed as [100], \"d\" as \"d\". A value that another
client has written is a binary, unless it is the text of a term.

Each command prints its answer on a line. A key that never had a value is nil; one that had none at
the time of a snapshot_read, but one later, is nil_yet. With several clients each line begins with
the client's number.

Exit codes:
  0  all commands are done
  1  a command failed: the client that sent it has ended there
  2  the file is malformed: nothing was sent
  3  no node could be reached
  4  unknown: a command may have been done

Examples:
  carillon script course.txt
  printf 'up k 1\\nread k\\n' | carillon script -
  carillon script mix.txt --clients 20 --manager localhost:7480 --manager localhost:7481")]
pub struct ScriptArgs {
    /// The file; - reads standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Keyspace of the keys: its shards are the partitions.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    /// HTTP addresses of the nodes that the commands are sent to, in turn; that of --http, if none
    /// is named.
    #[arg(long, value_name = "HOST:PORT")]
    pub manager: Vec<String>,
    /// How many clients run the file at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=CLIENTS_MAX))]
    pub clients: u64,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Runs a file.
pub fn script(args: &ScriptArgs) -> Exit {
    let (name, read) = match args.file.as_os_str() == "-" {
        true => ("standard input".to_owned(), read_all(std::io::stdin().lock())),
        false => (args.file.display().to_string(), read_file(&args.file)),
    };
    let commands = match read.and_then(|text| language::parse(&text).map_err(|e| e.to_string())) {
        Ok(commands) => commands,
        Err(why) => {
            output::refuse(&args.node, &format!("{name}: {why}; nothing was sent"));
            return Exit::Usage;
        }
    };
    let addresses = match args.manager.is_empty() {
        true => std::slice::from_ref(&args.node.http),
        false => &args.manager,
    };
    let managers: Result<Vec<Client>, _> =
        addresses.iter().map(|one| args.node.tls.client(one)).collect();
    let managers = match managers {
        Ok(managers) => managers,
        Err(error) => return failed(&args.node, &error),
    };
    let worst = Mutex::new(Exit::Done);
    thread::scope(|scope| {
        for number in 0..args.clients {
            let runs = Run { args, managers: &managers, number, name: &name };
            let (commands, worst) = (&commands, &worst);
            scope.spawn(move || {
                let exit = runs.run(commands);
                let mut worst = worst.lock().expect("no client panics");
                *worst = worst.and(exit);
            });
        }
    });
    worst.into_inner().expect("no client panics")
}

fn read_file(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    read_all(file)
}

fn read_all(from: impl std::io::Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = from.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is longer than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        format!("line {}: not UTF-8", line + 1)
    })
}

/// One client's run of the file.
struct Run<'r> {
    args: &'r ScriptArgs,
    managers: &'r [Client],
    number: u64,
    name: &'r str,
}

impl Run<'_> {
    fn run(&self, commands: &[Command]) -> Exit {
        for (count, command) in commands.iter().enumerate() {
            if command.operation == Operation::Exit {
                break;
            }
            let manager = &self.managers[(count + self.number as usize) % self.managers.len()];
            let answer = match self.answer(manager, &command.operation) {
                Ok(answer) => answer,
                Err(error) => {
                    output::note(&format!("{}, line {}:", self.name, command.line));
                    // Others before it were done: the file is no wrong usage.
                    return match failed(&self.args.node, &error) {
                        Exit::Usage => Exit::Refused,
                        exit => exit,
                    };
                }
            };
            let exit = match (self.args.node.json, self.args.clients) {
                (true, _) => {
                    let (client, line) = (self.number + 1, command.line);
                    output::json(&json!({ "client": client, "line": line, "answer": answer }))
                }
                (false, 1) => output::line(&answer),
                (false, _) => output::line(&format!("{}: {answer}", self.number + 1)),
            };
            if exit != Exit::Done {
                return exit;
            }
        }
        Exit::Done
    }

    /// The answer to a command, as the document has it.
    fn answer(&self, manager: &Client, operation: &Operation) -> Result<String, ClientError> {
        let keyspace = &self.args.keyspace;
        Ok(match operation {
            Operation::Update { key, value } => {
                let (key, value) = (key.to_bytes(), value.to_bytes());
                manager.put(keyspace, &key, &value, &PutOptions::default())?;
                "ok".to_owned()
            }
            Operation::Read(key) => match manager.get(keyspace, &key.to_bytes(), None)? {
                GetResult::Value { value, .. } => Term::of_bytes(&value).to_string(),
                GetResult::Nil => "nil".to_owned(),
                GetResult::NilYet => "nil_yet".to_owned(),
            },
            Operation::SnapshotRead { keys, .. } if keys.is_empty() => "[]".to_owned(),
            Operation::SnapshotRead { keys, at } => {
                let keys: Vec<Vec<u8>> = keys.iter().map(Term::to_bytes).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                shown(&manager.get_many(keyspace, &keys, at.as_deref())?)
            }
            Operation::Collect => match manager.collect(std::slice::from_ref(keyspace), None) {
                Ok(_) => "ok".to_owned(),
                // It is made by the first update: there is nothing to collect yet.
                Err(ClientError::Refused(problem))
                    if problem.kind == "no-keyspace" && is_made_on_use(keyspace) =>
                {
                    "ok".to_owned()
                }
                Err(error) => return Err(error),
            },
            Operation::Sleep(millis) => {
                thread::sleep(Duration::from_millis(*millis));
                "ok".to_owned()
            }
            Operation::Exit => String::new(),
        })
    }
}

/// The values of several keys, as a list.
fn shown(found: &Value) -> String {
    let values = found["values"].as_array().map_or(&[][..], Vec::as_slice);
    let value = |one: &Value| match (one["state"].as_str(), bytes_of(&one["value"])) {
        (_, Some(bytes)) => Term::of_bytes(&bytes).to_string(),
        (Some("nil-yet"), None) => "nil_yet".to_owned(),
        _ => "nil".to_owned(),
    };
    let values: Vec<String> = values.iter().map(value).collect();
    format!("[{}]", values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nil_and_nil_yet_are_apart_in_lists() {
        let found = json!({ "values": [
            { "state": "value", "value": "[100]" },
            { "state": "value", "value": { "base64": "/w==" } },
            { "state": "nil", "value": null },
            { "state": "nil-yet", "value": null },
        ] });
        assert_eq!(shown(&found), "[[100],<<255>>,nil,nil_yet]");
    }

    #[test]
    fn file_that_is_no_text_is_refused_with_its_line() {
        assert_eq!(read_all(&b"gc\n\xff"[..]), Err("line 2: not UTF-8".to_owned()));
    }
}

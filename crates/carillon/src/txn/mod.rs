//! `carillon txn`: a transaction from a file or a terminal.
//!
//! ```text
//!   a file with if … then … else ──► one request ──► then | else, and what each line answers
//!   a file without               ──► begun, line by line, committed at the end
//!   a terminal                   ──► txn> line by line, until commit or rollback
//! ```
//!
//! An error before the commit leaves nothing done. [`language`] has the syntax.

mod language;

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use client::http::txn::bytes_of;
use client::http::{Client, ClientError};
use keyspace::text::rounded_size;
use serde_json::{Value, json};

use crate::cli::NodeArgs;
use crate::exit::Exit;
use crate::output::{self, with_node};
use language::{ConditionalTxn, Line, Script, quoted};

/// No file may be longer: a request takes no more.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The node drops an idle transaction of a file after this time, …
const FILE_TIMEOUT_MS: u64 = 60_000;
/// … and of a terminal, where a person thinks.
const TERMINAL_TIMEOUT_MS: u64 = 600_000;

const HELP: &str = "\
get KEY                      the value; (nil) if there is none
put KEY VALUE [ttl TIME]     a new value, which may end after 1500 (milliseconds), 90s, 30m
del KEY                      1 if it had a value, else 0
incr KEY [NUMBER]            adds 1, or the number
range [FROM [TO]] [limit N] [reverse]
                             keys in order, from FROM up to but without TO; of ordered
                             keyspaces; - is an open end
publish TOPIC MESSAGE        the message's number; it is there if the transaction is done
commit                       applies all of it, unless a key that was read has changed
rollback                     applies nothing
Words with blanks are quoted: 'two words', or \"two\\nlines \\xff\".";

/// `carillon txn`
#[derive(Debug, Args)]
#[command(after_help = "\
Keys may lie in any shards: the transaction takes effect at one moment, all or nothing.

Commands, one on each line:
  get KEY                      the value; (nil) if there is none
  put KEY VALUE [ttl TIME]     a new value, which may end after 1500 (milliseconds), 90s, 30m
  del KEY                      1 if it had a value, else 0
  incr KEY [NUMBER]            adds 1, or the number
  range [FROM [TO]] [limit N] [reverse]
                               keys in order, from FROM up to but without TO; of ordered
                               keyspaces; - is an open end
  publish TOPIC MESSAGE        the message's number; it is there if the transaction is done
  commit, rollback             apply all of it, or nothing
Words with blanks are quoted: 'two words', or \"two\\nlines \\xff\". # begins a comment.

On a terminal each line is answered at once. Nothing is written or locked before commit: if another
client has changed a key that was read, commit fails with a conflict, and nothing is done. After 10
minutes without a line the transaction ends.

A file runs line by line, and is committed at its end. The first line that fails ends it, and
nothing is done.

A file may begin with conditions instead, all of which must hold:
  if exists KEY      if not exists KEY      if KEY = VALUE      if version KEY = NUMBER
Then come `then` and its lines, and optionally `else` and its lines. The file is one request; after
a conflict the node tries again. The command prints `then` or `else`, and the answers of the
lines there. The file has at most 1024 conditions, and 1024 lines in each of `then` and `else`;
without conditions a file may name 65536 keys.

Exit codes:
  0  done
  1  nothing was done: a conflict, a line that was refused, rollback, or conditions that do not hold
     and no else
  2  a line that cannot be understood; nothing was sent
  3  no node could be reached, or it did not answer a line; nothing was done
  4  unknown: it may have been done. Read the keys before you send it again

Examples:
  carillon txn                                 on a terminal
  carillon txn transfer.txn
  printf 'incr a -5\\nincr b 5\\n' | carillon txn
  printf 'if not exists lock\\nthen\\nput lock me ttl 30s\\n' | carillon txn -")]
pub struct TxnArgs {
    /// The file; - or nothing reads standard input.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Keyspace of the keys.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Runs a transaction.
pub fn txn(args: &TxnArgs) -> Exit {
    let file = args.file.as_ref().filter(|file| file.as_os_str() != "-");
    if file.is_none() && io::stdin().is_terminal() {
        return with_node(&args.node, |client| terminal(client, args).map_err(sent));
    }
    let (name, read) = match file {
        Some(file) => (file.display().to_string(), std::fs::File::open(file).and_then(read_all)),
        None => ("standard input".to_owned(), read_all(io::stdin().lock())),
    };
    let text = match read {
        Ok(text) if text.len() as u64 <= FILE_BYTES_MAX => text,
        Ok(_) => {
            let most = rounded_size(FILE_BYTES_MAX);
            let why = format!("{name} is longer than {most}; nothing was sent");
            output::refuse(&args.node, &why);
            return Exit::Usage;
        }
        Err(error) => {
            let why = format!("cannot read {name}: {error}; nothing was sent");
            output::refuse(&args.node, &why);
            return Exit::Usage;
        }
    };
    match language::script(&text) {
        Err((line, why)) => {
            output::refuse(&args.node, &format!("{name}, line {line}: {why}; nothing was sent"));
            Exit::Usage
        }
        Ok(Script::AtOnce(script)) => {
            with_node(&args.node, |client| at_once(client, args, script).map_err(sent))
        }
        Ok(Script::Steps(steps, commits)) => with_node(&args.node, |client| {
            stepwise(client, args, &name, &steps, commits).map_err(sent)
        }),
    }
}

/// A node has refused it: then it was sent, and it is not the command line that makes no sense.
fn sent(error: ClientError) -> ClientError {
    match error {
        ClientError::BadRequest(problem) => ClientError::Refused(problem),
        other => other,
    }
}

/// A node counts the operations of a request; people count the lines of their file. `lines` has
/// those of the operations of `then` and of `else`; nothing on a terminal, where there is one.
fn by_line(error: ClientError, lines: &[Vec<usize>; 2]) -> ClientError {
    match error {
        ClientError::BadRequest(mut problem) => {
            problem.detail = in_lines(&problem.detail, lines).unwrap_or(problem.detail);
            ClientError::BadRequest(problem)
        }
        ClientError::Refused(mut problem) => {
            problem.detail = in_lines(&problem.detail, lines).unwrap_or(problem.detail);
            ClientError::Refused(problem)
        }
        other => other,
    }
}

/// `operation 2 of then: …` as `line 4: …`; none if it names no operation. Which of `then` and
/// `else` was done is not always shown.
fn in_lines(detail: &str, lines: &[Vec<usize>; 2]) -> Option<String> {
    let (operation, why) = detail.strip_prefix("operation ")?.split_once(": ")?;
    let (number, list) = operation.split_once(' ').unwrap_or((operation, ""));
    let place = number.parse::<usize>().ok()?.checked_sub(1)?;
    let meant = ["of then", "of else"].into_iter().zip(lines);
    let meant = meant.filter(|(name, _)| list.is_empty() || list == *name);
    let meant: Vec<String> =
        meant.filter_map(|(_, lines)| Some(lines.get(place)?.to_string())).collect();
    Some(match meant.is_empty() {
        true => why.to_owned(),
        false => format!("line {}: {why}", meant.join(" or ")),
    })
}

fn read_all(from: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// One request.
fn at_once(client: &Client, args: &TxnArgs, script: ConditionalTxn) -> Result<Exit, ClientError> {
    let ConditionalTxn { mut txn, has_else, lines } = script;
    txn["keyspace"] = args.keyspace.as_str().into();
    let answer = client.transact(&txn).map_err(|error| by_line(error, &lines))?;
    let succeeded = answer["succeeded"] == true;
    let exit = if succeeded || has_else { Exit::Done } else { Exit::Refused };
    if args.node.json {
        return Ok(exit.and(output::json(&answer)));
    }
    if exit == Exit::Refused {
        output::complain("the conditions do not hold; nothing was done");
        return Ok(exit);
    }
    let mut text = String::from(if succeeded { "then\n" } else { "else\n" });
    let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
    results.iter().for_each(|result| show(result, &mut text));
    Ok(output::raw(text.as_bytes()))
}

/// Line by line, to the end of a file.
fn stepwise(
    client: &Client,
    args: &TxnArgs,
    name: &str,
    steps: &[(usize, Value)],
    commits: bool,
) -> Result<Exit, ClientError> {
    let json = args.node.json;
    let txn = client.txn_begin(&args.keyspace, FILE_TIMEOUT_MS)?;
    let mut all = Vec::new();
    for (line, op) in steps {
        match client.txn_do(&txn, std::slice::from_ref(op)) {
            Ok(results) => all.extend(results),
            Err(error) => {
                // If it cannot be told, it ends by itself.
                let _ended = client.txn_rollback(&txn);
                if !json {
                    output::complain(&format!("{name}, line {line}: nothing was done"));
                }
                return Err(by_line(error, &[vec![*line], Vec::new()]));
            }
        }
        if !json {
            let mut text = String::new();
            all.drain(..).for_each(|result| show(&result, &mut text));
            output::raw(text.as_bytes());
        }
    }
    let exit = end(client, &txn, commits, json)?;
    if json {
        return Ok(exit.and(output::json(&json!({ "committed": commits, "results": all }))));
    }
    Ok(exit)
}

/// Commits, or does not.
fn end(client: &Client, txn: &str, commits: bool, json: bool) -> Result<Exit, ClientError> {
    if commits {
        client.txn_commit(txn)?;
    } else {
        client.txn_rollback(txn)?;
    }
    if !json {
        let ending = if commits { "committed" } else { "rolled back; nothing was done" };
        output::note(ending);
    }
    Ok(if commits { Exit::Done } else { Exit::Refused })
}

/// Line by line, as they are typed.
fn terminal(client: &Client, args: &TxnArgs) -> Result<Exit, ClientError> {
    let json = args.node.json;
    let txn = client.txn_begin(&args.keyspace, TERMINAL_TIMEOUT_MS)?;
    output::note(&format!(
        "a transaction of keyspace {}: get, put, del, incr, range, publish; then commit or \
         rollback; help",
        args.keyspace
    ));
    let mut input = io::stdin().lock();
    let mut asked = Instant::now();
    loop {
        // If it cannot be written, nobody sees what follows either.
        let _unseen = write!(io::stderr(), "txn> ").and_then(|()| io::stderr().flush());
        let mut text = Vec::new();
        let read = (&mut input).take(FILE_BYTES_MAX).read_until(b'\n', &mut text);
        if !matches!(read, Ok(1..)) {
            output::note("");
            return end(client, &txn, false, json);
        }
        if asked.elapsed() >= Duration::from_millis(TERMINAL_TIMEOUT_MS) {
            // A commit of what has ended would be answered as if it might have been done.
            let _ended = client.txn_rollback(&txn);
            let why = "no line came for 10 minutes, so the transaction has ended; nothing was done";
            output::refuse(&args.node, why);
            return Ok(Exit::Refused);
        }
        match language::line(&text) {
            Ok(Line::Empty) => {}
            Ok(Line::Help) => output::note(HELP),
            Ok(Line::Commit) => return end(client, &txn, true, json),
            Ok(Line::Rollback) => return end(client, &txn, false, json),
            Ok(Line::If(_) | Line::Then | Line::Else) => {
                let why = "conditions are for files: here, read the keys, and decide yourself";
                output::refuse(&args.node, why);
            }
            Ok(Line::Op(op)) => match client.txn_do(&txn, &[op]) {
                Ok(results) if json => {
                    asked = Instant::now();
                    results.iter().for_each(|result| {
                        output::json(result);
                    });
                }
                Ok(results) => {
                    asked = Instant::now();
                    let mut text = String::new();
                    results.iter().for_each(|result| show(result, &mut text));
                    output::raw(text.as_bytes());
                }
                Err(error) if goes_on(&error) => {
                    let error = by_line(error, &[Vec::new(), Vec::new()]);
                    output::refuse(&args.node, &error.to_string());
                }
                Err(error) => {
                    let _ended = client.txn_rollback(&txn);
                    return Err(error);
                }
            },
            Err(why) => output::refuse(&args.node, &why),
        }
    }
}

/// Whether a transaction is open after its node has refused a line.
fn goes_on(error: &ClientError) -> bool {
    match error {
        ClientError::BadRequest(_) => true,
        ClientError::Refused(problem) => {
            !matches!(problem.kind.as_str(), "no-transaction" | "no-answer" | "stopping")
        }
        _ => false,
    }
}

/// Adds what a line has answered.
fn show(result: &Value, out: &mut String) {
    let text = |word: &Value| bytes_of(word).map_or_else(|| word.to_string(), |b| quoted(&b));
    if let Some(keys) = result["keys"].as_array() {
        for pair in keys {
            out.push_str(&format!("{} {}\n", text(&pair["key"]), text(&pair["value"])));
        }
    } else if let Some(deleted) = result["deleted"].as_bool() {
        out.push_str(if deleted { "1\n" } else { "0\n" });
    } else if let Some(number) = result["published"].as_str() {
        out.push_str(&format!("{number}\n"));
    } else if result["put"] == true {
        out.push_str("ok\n");
    } else if result["value"].is_null() {
        out.push_str("(nil)\n");
    } else {
        out.push_str(&text(&result["value"]));
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::in_lines;

    #[test]
    fn operations_are_named_by_their_lines() {
        let lines = [vec![3, 5], vec![8]];
        for (detail, expected) in [
            ("operation 2 of then: no", Some("line 5: no")),
            ("operation 1 of else: it has: two", Some("line 8: it has: two")),
            ("operation 1: no", Some("line 3 or 8: no")),
            ("operation 2: no", Some("line 5: no")),
            ("operation 9: no", Some("no")),
            ("operation x: no", None),
            ("the keyspace is gone", None),
        ] {
            assert_eq!(in_lines(detail, &lines).as_deref(), expected, "{detail}");
        }
    }
}

//! Prints for people and for programs.

use std::io::{self, ErrorKind, IsTerminal, Write};

use client::http::{Client, ClientError, Outcome};
use serde_json::{Map, Value, json};

use crate::cli::NodeArgs;
use crate::colour::width;
use crate::exit::Exit;

/// Writes bytes as they are.
pub fn raw(bytes: &[u8]) -> Exit {
    write(&[bytes])
}

/// Writes bytes as they are; on a terminal a newline follows, so that the prompt stands alone.
pub fn value(bytes: &[u8]) -> Exit {
    let ends = bytes.last() == Some(&b'\n');
    let newline: &[u8] = if io::stdout().is_terminal() && !ends { b"\n" } else { b"" };
    write(&[bytes, newline])
}

/// Overwrites the last text on a terminal; elsewhere appends. Returns whether it could be written:
/// if not, the reader is gone.
pub fn screen(text: &str) -> bool {
    let mut out = io::stdout().lock();
    let clear: &[u8] = if out.is_terminal() { b"\x1b[H\x1b[2J" } else { b"" };
    [clear, text.as_bytes()].iter().try_for_each(|piece| out.write_all(piece)).is_ok()
        && out.flush().is_ok()
}

/// Writes a piece of a long output. Whether it could be written: if not, the reader is gone.
pub fn piece(text: &str) -> bool {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).is_ok() && out.flush().is_ok()
}

/// Writes a line.
pub fn line(text: &str) -> Exit {
    write(&[text.as_bytes(), b"\n"])
}

/// Writes JSON on a line.
pub fn json(value: &Value) -> Exit {
    line(&value.to_string())
}

fn write(pieces: &[&[u8]]) -> Exit {
    let mut out = io::stdout().lock();
    match pieces.iter().try_for_each(|piece| out.write_all(piece)).and_then(|()| out.flush()) {
        Ok(()) => Exit::Done,
        // The reader closed the pipe, as `head` does: that is no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            complain(&format!("cannot write to standard output: {error}"));
            Exit::Refused
        }
    }
}

/// Prints an error to standard error.
pub fn complain(why: &str) {
    let (begin, end) = if colour() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    // If even that cannot be written, the exit code has to do.
    let _unread = writeln!(io::stderr(), "{begin}carillon:{end} {why}");
}

/// As [`complain`], or as JSON if that is asked for, for a request that was certainly not done.
pub fn refuse(node: &NodeArgs, why: &str) {
    if node.json {
        complain_json(why, Outcome::NotDone);
    } else {
        complain(why);
    }
}

fn complain_json(why: &str, outcome: Outcome) {
    let outcome = match outcome {
        Outcome::NotDone => "not done",
        Outcome::Unknown => "unknown",
    };
    // As in `complain`.
    let _unread = writeln!(io::stderr(), "{}", json!({ "error": why, "outcome": outcome }));
}

/// Prints a note that is no error to standard error.
pub fn note(what: &str) {
    // As above.
    let _unread = writeln!(io::stderr(), "{what}");
}

/// Whether standard error is a terminal whose user has not asked for plain text.
pub fn colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Runs `ask` against the node of `node` and says why it failed, if it did.
pub fn with_node(node: &NodeArgs, ask: impl FnOnce(&Client) -> Result<Exit, ClientError>) -> Exit {
    match node.client().and_then(|client| ask(&client)) {
        Ok(exit) => exit,
        Err(error) => failed(node, &error),
    }
}

/// Says why a request failed; the exit code.
pub fn failed(node: &NodeArgs, error: &ClientError) -> Exit {
    if node.json {
        complain_json(&error.to_string(), error.outcome());
    } else {
        complain(&error.to_string());
    }
    error.into()
}

/// Puts bytes into a JSON object: as text if they are, else in hexadecimal under another name.
pub fn bytes_member(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            object.insert(format!("{name}_hex"), hex.into())
        }
    };
}

/// A time as people write it, in its two largest units: `1h 2m`, `450ms`.
pub fn time(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let mut rest = millis;
    let mut words = Vec::new();
    for (factor, unit) in units {
        if rest >= factor && words.len() < 2 {
            words.push(format!("{}{unit}", rest / factor));
            rest %= factor;
        }
    }
    if words.is_empty() { "0ms".to_owned() } else { words.join(" ") }
}

/// Rows under headings, in columns; numbers to the right.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width_of = |column: usize| {
        let cells = rows.iter().map(|row| width(&row[column]));
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width_of).collect();
    let mut out = String::new();
    let head: Vec<String> = headings.iter().map(|heading| heading.to_string()).collect();
    for row in [&head].into_iter().chain(rows) {
        let is_head = std::ptr::eq(row, &head);
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, wide))| {
            // A dash is a number that is not known, beside numbers.
            let is_number = |row: &Vec<String>| row[column].parse::<u64>().is_ok();
            let of_numbers = rows.iter().all(|row| row[column] == "-" || is_number(row))
                && (rows.is_empty() || rows.iter().any(is_number));
            let room = " ".repeat(wide - width(cell));
            match of_numbers && (is_head || !rows.is_empty()) {
                true => room + cell,
                false => cell.to_owned() + &room,
            }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_in_its_two_largest_units() {
        assert_eq!(time(0), "0ms");
        assert_eq!(time(450), "450ms");
        assert_eq!(time(3_723_004), "1h 2m");
        assert_eq!(time(60_001), "1m 1ms");
    }

    #[test]
    fn tables_are_straight() {
        let rows = [vec!["orders".into(), "3".into()], vec!["0".into(), "1234".into()]];
        let expected = "NAME    KEYS\norders     3\n0       1234\n";
        assert_eq!(table(&["NAME", "KEYS"], &rows), expected);
        assert_eq!(table(&["NAME"], &[]), "NAME\n");
    }

    #[test]
    fn bytes_are_text_or_hexadecimal() {
        let mut object = Map::new();
        bytes_member(&mut object, "key", "ü".as_bytes());
        bytes_member(&mut object, "value", b"\xff\0");
        assert_eq!(Value::Object(object).to_string(), r#"{"key":"ü","value_hex":"ff00"}"#);
    }
}

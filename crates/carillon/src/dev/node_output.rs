//! Copies the nodes' output, line by line: to a file of each, and for people with the node's name.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread::{self, JoinHandle};

use super::log::Log;
use crate::output;

/// Longest piece of a line that is held in memory; a longer line comes in pieces.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Lines that are remembered, to be shown when a node has ended.
const LAST_LINES: usize = 20;
/// Of the speakers, in turn: cyan, yellow, green, magenta, blue, red.
const COLOURS: [&str; 6] = ["\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[31m"];

/// The last lines of a node, when it has ended.
pub type NodeOutput = JoinHandle<VecDeque<Vec<u8>>>;

/// Writes lines of `source` to a log until it ends; with a prefix to standard error as well.
///
/// # Errors
/// If there is no thread for it.
pub fn stream(
    source: impl Read + Send + 'static,
    mut log: Log,
    prefix: Option<String>,
) -> io::Result<NodeOutput> {
    let name = "node-output".to_owned();
    thread::Builder::new().name(name).spawn(move || {
        let mut reader = BufReader::new(source);
        let mut line = Vec::new();
        let mut last = VecDeque::new();
        while matches!(next(&mut reader, &mut line), Ok(1..)) {
            // If nobody reads them, or the disk is full, the node must be able to go on speaking
            // nevertheless.
            let _unwritten = log.line(&line);
            if let Some(prefix) = &prefix {
                // One write for a line, so that those of several nodes do not mix.
                let whole = [prefix.as_bytes(), &line, b"\n"].concat();
                let _unread = io::stderr().write_all(&whole);
            }
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(line.clone());
        }
        last
    })
}

/// The next line without its end; how many bytes it took.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let bytes = reader.take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(bytes)
}

/// The prefix of a node's lines.
pub fn prefix(number: usize, width: usize) -> String {
    coloured_prefix(number, width, output::colour())
}

fn coloured_prefix(number: usize, width: usize, coloured: bool) -> String {
    let name = super::plan::name(number);
    match coloured {
        true => format!("{}{name:<width$} │\x1b[0m ", COLOURS[(number - 1) % COLOURS.len()]),
        false => format!("{name:<width$} │ "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart_and_long_ones_in_pieces() {
        let long = "x".repeat(LINE_BYTES_MAX as usize + 1);
        let text = format!("one\n\n{long}\nlast");
        let mut reader = BufReader::new(text.as_bytes());
        let mut lines = Vec::new();
        let mut line = Vec::new();
        while next(&mut reader, &mut line).unwrap() > 0 {
            lines.push(line.len());
        }
        assert_eq!(lines, [3, 0, LINE_BYTES_MAX as usize, 1, 4]);
    }

    #[test]
    fn colours_are_for_terminals() {
        assert_eq!(coloured_prefix(2, 6, false), "node-2 │ ");
        assert_eq!(coloured_prefix(8, 6, true), "\x1b[33mnode-8 │\x1b[0m ");
    }
}

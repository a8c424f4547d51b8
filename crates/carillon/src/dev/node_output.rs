//! What the nodes say, line by line, each with its speaker in front.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread::{self, JoinHandle};

use crate::output;

/// Longest piece of a line that is held in memory; a longer line comes in pieces.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Of the speakers, in turn: cyan, yellow, green, magenta, blue, red.
const COLOURS: [&str; 6] = ["\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[31m"];

/// Prints lines of `source` on standard error until it ends.
///
/// # Errors
/// If there is no thread for it.
pub fn stream(
    source: impl Read + Send + 'static,
    number: usize,
    width: usize,
) -> io::Result<JoinHandle<()>> {
    let prefix = prefix(number, width, output::colour());
    let name = format!("voice-{number}");
    thread::Builder::new().name(name).spawn(move || {
        let mut reader = BufReader::new(source);
        let mut line = Vec::new();
        while matches!(next(&mut reader, &mut line), Ok(1..)) {
            // One write for a line, so that those of several nodes do not mix. If nobody reads
            // them, the node must be able to go on speaking nevertheless.
            let whole = [prefix.as_bytes(), &line, b"\n"].concat();
            let _unread = io::stderr().write_all(&whole);
        }
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

fn prefix(number: usize, width: usize, coloured: bool) -> String {
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
        assert_eq!(prefix(2, 6, false), "node-2 │ ");
        assert_eq!(prefix(8, 6, true), "\x1b[33mnode-8 │\x1b[0m ");
    }
}

//! The lines of MONITOR: each command that a node runs, as Redis writes it.
//!
//! ```text
//!   +1700000000.123000 [0 127.0.0.1:51862] "SET" "greeting" "hello\n"
//! ```
//!
//! Commands that administer the server, and those that name a password, are left out.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of an argument that are shown | [`ARG_BYTES_MAX`] | how many more there are |
//! | arguments that are shown | [`ARGS_MAX`] | how many more there are |

use std::io::Write as _;

use super::args::Args;
use super::session::Session;
use super::table;
use crate::access::{Access, has_word};

/// Bytes of an argument that are shown.
pub const ARG_BYTES_MAX: usize = 1024;
/// Arguments that are shown.
pub const ARGS_MAX: usize = 128;

/// Appends the line of a command, if it is one that is shown.
pub fn write_line(now_millis: u64, session: &Session, args: Args<'_>, out: &mut Vec<u8>) {
    let Ok(spec) = table::lookup(args) else { return };
    if spec.access == Access::Admin || has_word(spec.flags, "no_auth") {
        return;
    }
    let (seconds, micros) = (now_millis / 1000, now_millis % 1000 * 1000);
    let (keyspace, address) = (session.keyspace(), session.address());
    put(out, format_args!("+{seconds}.{micros:06} [{keyspace} {address}]"));
    for arg in args.iter().take(ARGS_MAX) {
        out.extend_from_slice(b" \"");
        escape(&arg[..arg.len().min(ARG_BYTES_MAX)], out);
        if let Some(more) = arg.len().checked_sub(ARG_BYTES_MAX).filter(|more| *more > 0) {
            put(out, format_args!("... ({more} more bytes)"));
        }
        out.push(b'"');
    }
    if let Some(more) = args.len().checked_sub(ARGS_MAX).filter(|more| *more > 0) {
        put(out, format_args!(" \"... ({more} more arguments)\""));
    }
    out.extend_from_slice(b"\r\n");
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory takes what is written");
}

/// Bytes as they stand between quotes.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            _ => put(out, format_args!("\\x{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_escaped_as_redis_does() {
        let mut out = Vec::new();
        escape(b"a \"b\" \\ \n\r\t\x07\x08\x00\xff~", &mut out);
        assert_eq!(out, b"a \\\"b\\\" \\\\ \\n\\r\\t\\a\\b\\x00\\xff~");
    }
}

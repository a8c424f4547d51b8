//! Requests: the key of a command, whether it only reads, its bytes.
//!
//! A wrong guess of the key costs a hop, since the node answers with the right leader. Only
//! commands listed here count as reads: any other is taken for a write, which may not be retried.

use keyspace::{Slot, slot_of};

use super::Error;

/// A command, its arguments still the caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Its name first.
    pub args: &'a [&'a [u8]],
    /// Where its keys lie; `None` if it has none.
    pub slot: Option<Slot>,
    /// Whether it changes nothing, so that it may be sent again whatever became of it.
    pub reads: bool,
}

/// Bytes of a command that errors repeat.
const SHOWN_BYTES_MAX: usize = 64;

/// Commands that change nothing.
const READS: &str = "\
    get mget exists strlen getrange substr lcs ttl pttl expiretime pexpiretime type \
    touch scan range keys dbsize randomkey ping echo time info object memory command cluster \
    config";
/// Commands without a key, or with a first argument that is none.
const KEYLESS: &str = "\
    scan range keys dbsize randomkey ping echo time info command cluster config flushdb \
    flushall swapdb lolwut save bgsave";
/// Commands with a subcommand before the key.
const SECOND: &str = "object memory bitop";
/// Commands about the connection that they come on, which others use too.
const OWN_CONNECTION: &str = "\
    hello auth select quit reset client readonly readwrite asking multi exec discard \
    watch unwatch begin commit rollback subscribe psubscribe ssubscribe unsubscribe \
    punsubscribe sunsubscribe monitor sync psync wait waitaof";

impl<'a> Request<'a> {
    /// A command that names a key.
    pub fn of_key(args: &'a [&'a [u8]], key: &[u8], reads: bool) -> Self {
        Self { args, slot: Some(slot_of(key)), reads }
    }

    /// Any command.
    ///
    /// # Errors
    /// [`Error::BadRequest`] if there is none, or it is about the connection it comes on.
    pub fn raw(args: &'a [&'a [u8]]) -> Result<Self, Error> {
        let name = args.first().ok_or_else(|| Error::bad("no command"))?;
        let is_in =
            |list: &str| list.split(' ').any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
        if is_in(OWN_CONNECTION) {
            return Err(Error::bad(format!(
                "{} is about its connection, which is the client's own affair",
                String::from_utf8_lossy(name)
            )));
        }
        let key = match () {
            () if is_in(KEYLESS) => None,
            () if is_in(SECOND) => args.get(2),
            () => args.get(1),
        };
        Ok(Self { args, slot: key.map(|key| slot_of(key)), reads: is_in(READS) })
    }

    /// Its bytes on the wire, at the end of `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let bytes: usize = self.args.iter().map(|arg| arg.len() + 16).sum();
        out.reserve(16 + bytes);
        header(out, b'*', self.args.len());
        for arg in self.args {
            header(out, b'$', arg.len());
            out.extend_from_slice(arg);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Its name and first argument, for people.
    pub fn shown(&self) -> String {
        let words = self.args.iter().take(2).map(|arg| {
            let end = arg.len().min(SHOWN_BYTES_MAX);
            let dots = if end < arg.len() { "…" } else { "" };
            format!("{}{dots}", arg[..end].escape_ascii())
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

fn header(out: &mut Vec<u8>, sigil: u8, mut len: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (len % 10) as u8;
        len /= 10;
        if len == 0 {
            break;
        }
    }
    out.push(sigil);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_become_bytes() {
        let mut out = Vec::new();
        let args: [&[u8]; 3] = [b"SET", b"k", &[b'v'; 12]];
        Request::raw(&args).unwrap().write(&mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nvvvvvvvvvvvv\r\n");
    }

    #[test]
    fn keys_and_reads_are_known() {
        let of = |text: &str| {
            let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
            Request::raw(&args).map(|request| (request.slot, request.reads))
        };
        assert_eq!(of("GET a"), Ok((Some(slot_of(b"a")), true)));
        assert_eq!(of("incr {x}a"), Ok((Some(slot_of(b"x")), false)));
        assert_eq!(of("OBJECT ENCODING a"), Ok((Some(slot_of(b"a")), true)));
        assert_eq!(of("DBSIZE"), Ok((None, true)));
        assert_eq!(of("FLUSHDB ASYNC"), Ok((None, false)));
        assert_eq!(of("RANGE [a +"), Ok((None, true)));
        for own in ["select 3", "BEGIN", "Commit", "rollback", "MULTI"] {
            assert!(matches!(of(own), Err(Error::BadRequest { .. })), "{own}");
        }
        assert!(matches!(Request::raw(&[]), Err(Error::BadRequest { .. })));
    }

    #[test]
    fn what_is_shown_is_short_and_printable() {
        let long = [b'k'; 100];
        let args: [&[u8]; 3] = [b"SET", &long, b"secret"];
        let shown = Request::raw(&args).unwrap().shown();
        assert_eq!(shown, format!("SET {}…", "k".repeat(SHOWN_BYTES_MAX)));
        assert_eq!(Request::raw(&[b"GET", b"\n\xff"]).unwrap().shown(), "GET \\n\\xff");
    }
}

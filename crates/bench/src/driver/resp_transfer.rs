//! A transfer between two keys on a connection of the Redis protocol.
//!
//! ```text
//!   one-shot   MULTI, INCRBY a -n, INCRBY b n, EXEC ──► done, or refused
//!   watch      WATCH a b, MGET a b ──► MULTI, SET a, SET b, EXEC ──► done, or refused
//!                  ▲                                         │
//!                  └──── nil: a key has changed, retried ────┘
//! ```
//!
//! Each line up to an arrow is one pipeline. Pure: replies in, the next pipeline or the end out.

use bytes::{Bytes, BytesMut};
use client::Reply as RespReply;

use super::resp::command;
use super::{Reply, Request};
use crate::load::values::number_of;
use crate::scenario::TransferMethod;

/// What follows from a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// More replies are to come.
    Waits,
    /// A key has changed, so it has begun again.
    Retried,
    /// It is over.
    Over(Reply),
}

/// One transfer.
pub struct Transfer {
    method: TransferMethod,
    from: Bytes,
    to: Bytes,
    amount: i64,
    /// Replies to the pipeline under way that have not come yet.
    awaited: usize,
    /// The first error among those that came.
    refused: Option<Bytes>,
    /// Whether the pipeline under way ends with EXEC.
    has_exec: bool,
}

impl Transfer {
    /// Begins one. `is_watching` says that keys of the one before may be watched still.
    pub fn begin(
        method: TransferMethod,
        request: &Request<'_>,
        is_watching: bool,
        out: &mut BytesMut,
    ) -> Self {
        let mut made = Self {
            method,
            from: Bytes::copy_from_slice(request.key),
            to: Bytes::copy_from_slice(request.other),
            amount: number_of(request.value).unwrap_or(1),
            awaited: 0,
            refused: None,
            has_exec: false,
        };
        if is_watching {
            made.pipeline(&[&[b"UNWATCH"]], out);
        }
        made.ask(out);
        made
    }

    /// Whether keys are watched until it has ended well.
    pub fn is_watching(&self) -> bool {
        self.method == TransferMethod::Watch
    }

    fn ask(&mut self, out: &mut BytesMut) {
        let (from, to) = (self.from.clone(), self.to.clone());
        match self.method {
            TransferMethod::OneShot => {
                let (less, more) = ((-self.amount).to_string(), self.amount.to_string());
                let (less, more) = (less.as_bytes(), more.as_bytes());
                self.transaction(&[b"INCRBY", &from, less], &[b"INCRBY", &to, more], out);
            }
            TransferMethod::Watch => {
                self.has_exec = false;
                self.pipeline(&[&[b"WATCH", &from, &to], &[b"MGET", &from, &to]], out);
            }
        }
    }

    fn transaction(&mut self, one: &[&[u8]], two: &[&[u8]], out: &mut BytesMut) {
        self.has_exec = true;
        self.pipeline(&[&[b"MULTI"], one, two, &[b"EXEC"]], out);
    }

    fn pipeline(&mut self, commands: &[&[&[u8]]], out: &mut BytesMut) {
        self.awaited += commands.len();
        commands.iter().for_each(|words| command(words, out));
    }

    /// Takes a reply.
    pub fn take(&mut self, reply: &RespReply, out: &mut BytesMut) -> Next {
        self.awaited = self.awaited.saturating_sub(1);
        if let Some(why) = error(reply) {
            self.refused.get_or_insert(why);
        }
        if self.awaited > 0 {
            return Next::Waits;
        }
        if let Some(why) = self.refused.take() {
            return Next::Over(Reply::Refused(why));
        }
        match reply {
            RespReply::Nil if self.has_exec => {
                self.ask(out);
                Next::Retried
            }
            RespReply::Array(_) if self.has_exec => Next::Over(Reply::Done),
            RespReply::Array(held) if !self.has_exec => match held.iter().map(number).collect() {
                Some(numbers) => self.write(numbers, out),
                None => Next::Over(refusal("a key holds no number")),
            },
            _ => Next::Over(refusal("not the reply of a transaction")),
        }
    }

    fn write(&mut self, numbers: Vec<i64>, out: &mut BytesMut) -> Next {
        let [from, to] = numbers[..] else {
            return Next::Over(refusal("not the two numbers that were asked for"));
        };
        let (less, more) = (from.wrapping_sub(self.amount), to.wrapping_add(self.amount));
        let (less, more) = (less.to_string(), more.to_string());
        let (a, b) = (self.from.clone(), self.to.clone());
        let (less, more) = (less.as_bytes(), more.as_bytes());
        self.transaction(&[b"SET", &a, less], &[b"SET", &b, more], out);
        Next::Waits
    }
}

fn refusal(why: &'static str) -> Reply {
    Reply::Refused(Bytes::from_static(why.as_bytes()))
}

fn number(reply: &RespReply) -> Option<i64> {
    match reply {
        RespReply::Bulk(text) => number_of(text),
        _ => None,
    }
}

/// The first error, also among several replies.
fn error(reply: &RespReply) -> Option<Bytes> {
    match reply {
        RespReply::Error(why) => Some(Bytes::clone(why)),
        RespReply::Array(items) => items.iter().find_map(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use client::Decoder;

    use super::*;
    use crate::scenario::Action;

    fn begin(method: TransferMethod, is_watching: bool) -> (Transfer, String) {
        let action = Action::Transfer(method);
        let request = Request { action: &action, key: b"a", other: b"b", value: b"4" };
        let mut out = BytesMut::new();
        let transfer = Transfer::begin(method, &request, is_watching, &mut out);
        (transfer, words(&out))
    }

    /// The words that were sent, without lengths.
    fn words(out: &[u8]) -> String {
        let text = String::from_utf8(out.to_vec()).unwrap();
        let words = text.split("\r\n").filter(|line| !line.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    /// What follows from the last of these replies, and what was sent then.
    fn answered(transfer: &mut Transfer, replies: &str) -> (Next, String) {
        let (mut input, mut out) = (BytesMut::from(replies), BytesMut::new());
        let mut decoder = Decoder::new(1 << 20);
        let mut last = Next::Waits;
        while let Some(reply) = decoder.next(&mut input).unwrap() {
            assert_eq!(last, Next::Waits, "only the last reply ends a pipeline");
            last = transfer.take(&reply, &mut out);
        }
        (last, words(&out))
    }

    #[test]
    fn a_one_shot_is_one_pipeline() {
        let (mut transfer, sent) = begin(TransferMethod::OneShot, false);
        assert_eq!(sent, "MULTI INCRBY a -4 INCRBY b 4 EXEC");
        let done = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:996\r\n:1004\r\n";
        assert_eq!(answered(&mut transfer, done), (Next::Over(Reply::Done), String::new()));
        let (mut transfer, _) = begin(TransferMethod::OneShot, false);
        let busy = "+OK\r\n+QUEUED\r\n+QUEUED\r\n-BUSY others\r\n";
        let busy = answered(&mut transfer, busy);
        assert_eq!(busy.0, Next::Over(Reply::Refused("BUSY others".into())));
        let (mut transfer, _) = begin(TransferMethod::OneShot, false);
        let inside = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n-WRONGTYPE x\r\n";
        let inside = answered(&mut transfer, inside);
        assert_eq!(inside.0, Next::Over(Reply::Refused("WRONGTYPE x".into())));
    }

    #[test]
    fn a_watched_key_that_changed_has_it_begin_again() {
        let (mut transfer, sent) = begin(TransferMethod::Watch, false);
        assert_eq!(sent, "WATCH a b MGET a b");
        let read = "+OK\r\n*2\r\n$1\r\n7\r\n$1\r\n8\r\n";
        let sent = "MULTI SET a 3 SET b 12 EXEC".to_owned();
        assert_eq!(answered(&mut transfer, read), (Next::Waits, sent));
        let (next, sent) = answered(&mut transfer, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n");
        assert_eq!((next, sent.as_str()), (Next::Retried, "WATCH a b MGET a b"));
        answered(&mut transfer, read);
        let done = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n";
        assert_eq!(answered(&mut transfer, done).0, Next::Over(Reply::Done));
    }

    #[test]
    fn what_was_watched_in_vain_is_let_go_first() {
        let (mut transfer, sent) = begin(TransferMethod::Watch, true);
        assert_eq!(sent, "UNWATCH WATCH a b MGET a b");
        let (next, _) = answered(&mut transfer, "+OK\r\n+OK\r\n*2\r\n$1\r\n7\r\n$-1\r\n");
        assert_eq!(next, Next::Over(Reply::Refused("a key holds no number".into())));
    }
}

//! etcd: its gRPC, one call a request, linearizable as etcd has it by default.
//!
//! ```text
//!   encode ─► message ([`proto`]) ─► h2 ─┐   pipe: bytes in memory    ┌─► out, to the socket
//!   decode ◄─ first call that is over ◄──┴── polled by hand, no waker ┴◄─ input, from it
//! ```
//!
//! A client of a phase is one HTTP/2 connection, whose calls overlap with `pipeline`. The crate
//! `h2` speaks HTTP/2; it is polled here whenever bytes have moved, so it needs no runtime and owns
//! no socket, and this codec is driven as all others.
//!
//! Replies are handed out in the order of requests, which etcd need not keep: with `pipeline` above
//! 1 a fast answer waits for those before it.

mod pipe;
mod proto;
mod transfer;
pub mod txn;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Method, Version};
use prost::Message;

use self::pipe::Pipe;
use self::proto::{DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, TxnResponse};
use self::transfer::Transfer;
use super::{Codec, REPLY_BYTES_MAX, Reply, Request};
use crate::scenario::Action;

/// Bytes that a server may send ahead, of a call and of the connection.
const WINDOW_BYTES: u32 = 16 << 20;
/// Compressed or not, and a length, stand before each message of gRPC.
const HEAD_BYTES: usize = 5;

/// What a call's answer means.
#[derive(Clone, Copy)]
enum Kind {
    Range,
    Put,
    Delete,
    Txn,
    /// Reads both keys of a transfer.
    TransferRead,
    /// Writes them, if neither has changed.
    TransferWrite,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Kind::Range => "/etcdserverpb.KV/Range",
            Kind::Put => "/etcdserverpb.KV/Put",
            Kind::Delete => "/etcdserverpb.KV/DeleteRange",
            Kind::Txn | Kind::TransferRead | Kind::TransferWrite => "/etcdserverpb.KV/Txn",
        }
    }
}

/// How far a call is.
enum CallState {
    /// The server takes no more calls at once.
    Waits(Bytes),
    Head(ResponseFuture),
    Body(RecvStream, BytesMut),
    Over(Reply),
}

struct Call {
    kind: Kind,
    state: CallState,
}

/// One connection's.
pub struct Etcd {
    authority: String,
    pipe: Pipe,
    connection: Connection<Pipe, Bytes>,
    sender: SendRequest<Bytes>,
    calls: VecDeque<Call>,
    /// The transfer under way: there is one at most.
    transfer: Option<Transfer>,
    /// Why nothing more can be asked.
    broken: Option<String>,
}

impl Etcd {
    /// A connection to this host.
    ///
    /// # Panics
    /// Never: the first bytes of HTTP/2 wait for nobody.
    pub fn new(authority: &str) -> Self {
        let pipe = Pipe::default();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        builder.enable_push(false);
        let mut made = Box::pin(builder.handshake(pipe.clone()));
        let (sender, connection) = match made.as_mut().poll(&mut context()) {
            Poll::Ready(Ok(both)) => both,
            _ => panic!("the pipe takes all bytes at once"),
        };
        let authority = authority.to_owned();
        let calls = VecDeque::new();
        Self { authority, pipe, connection, sender, calls, transfer: None, broken: None }
    }

    /// Moves everything as far as it goes.
    fn drive(&mut self) {
        if self.broken.is_some() {
            return;
        }
        if let Poll::Ready(ended) = Pin::new(&mut self.connection).poll(&mut context()) {
            self.broken = Some(match ended {
                Ok(()) => "etcd has ended the connection".to_owned(),
                Err(error) => format!("HTTP/2: {error}"),
            });
            return;
        }
        for at in 0..self.calls.len() {
            if let Err(why) = self.step(at) {
                self.broken = Some(why);
                return;
            }
        }
        // What the steps have sent, and the windows that they have opened.
        if let Poll::Ready(Err(error)) = Pin::new(&mut self.connection).poll(&mut context()) {
            self.broken = Some(format!("HTTP/2: {error}"));
        }
    }

    fn step(&mut self, at: usize) -> Result<(), String> {
        let call = &mut self.calls[at];
        if let CallState::Waits(message) = &call.state {
            match self.sender.poll_ready(&mut context()) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Err(format!("HTTP/2: {error}")),
                Poll::Pending => return Ok(()),
            }
            let request = http::Request::builder()
                .method(Method::POST)
                .version(Version::HTTP_2)
                .uri(format!("http://{}{}", self.authority, call.kind.path()))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(())
                .map_err(|error| error.to_string())?;
            let sent = self.sender.send_request(request, false);
            let (response, mut stream) = sent.map_err(|error| format!("HTTP/2: {error}"))?;
            let sent = stream.send_data(message.clone(), true);
            sent.map_err(|error| format!("HTTP/2: {error}"))?;
            call.state = CallState::Head(response);
        }
        if let CallState::Head(response) = &mut call.state {
            match Pin::new(response).poll(&mut context()) {
                Poll::Ready(Ok(response)) => {
                    let (head, body) = response.into_parts();
                    call.state = match refusal(&head.headers) {
                        _ if !head.status.is_success() => {
                            CallState::Over(Reply::Refused(format!("HTTP {}", head.status).into()))
                        }
                        Some(why) => CallState::Over(Reply::Refused(why)),
                        None => CallState::Body(body, BytesMut::new()),
                    };
                }
                Poll::Ready(Err(error)) => call.state = failed(&error)?,
                Poll::Pending => {}
            }
        }
        if let CallState::Body(stream, message) = &mut call.state {
            let has_all = loop {
                let piece = match stream.poll_data(&mut context()) {
                    Poll::Ready(Some(piece)) => piece,
                    Poll::Ready(None) => break true,
                    Poll::Pending => break false,
                };
                let piece = piece.map_err(|error| format!("HTTP/2: {error}"))?;
                message.put_slice(&piece);
                if message.len() > REPLY_BYTES_MAX {
                    return Err("an answer without an end".to_owned());
                }
                let room = stream.flow_control().release_capacity(piece.len());
                room.map_err(|error| format!("HTTP/2: {error}"))?;
            };
            if has_all && let Poll::Ready(trailers) = stream.poll_trailers(&mut context()) {
                let trailers = trailers.map_err(|error| format!("HTTP/2: {error}"))?;
                let refused = refusal(&trailers.unwrap_or_default());
                let reply = match refused {
                    Some(why) => Reply::Refused(why),
                    None => reply(call.kind, message)?,
                };
                call.state = CallState::Over(reply);
            }
        }
        Ok(())
    }
}

impl Etcd {
    /// What a call's reply is to who asked; a transfer whose keys were read has none yet.
    fn goes_on(&mut self, kind: Kind, reply: Reply) -> Option<Reply> {
        let Some(transfer) = &self.transfer else { return Some(reply) };
        let next = match (kind, &reply) {
            (Kind::TransferRead, Reply::Value(read)) => match transfer.write(read) {
                Ok(message) => (Kind::TransferWrite, framed(&message)),
                Err(why) => return Some(Reply::Refused(Bytes::from_static(why.as_bytes()))),
            },
            (Kind::TransferWrite, Reply::Retried) => (Kind::TransferRead, framed(&transfer.read())),
            _ => return Some(reply),
        };
        self.calls.push_back(Call { kind: next.0, state: CallState::Waits(next.1) });
        self.drive();
        (reply == Reply::Retried).then_some(reply)
    }
}

/// One call failed, or the whole connection.
fn failed(error: &h2::Error) -> Result<CallState, String> {
    match error.reason() {
        Some(Reason::REFUSED_STREAM | Reason::CANCEL) if error.is_reset() => {
            Ok(CallState::Over(Reply::Refused(Bytes::from_static(b"the call was reset"))))
        }
        _ => Err(format!("HTTP/2: {error}")),
    }
}

/// What gRPC's status says, if it is not 0.
fn refusal(headers: &HeaderMap) -> Option<Bytes> {
    let status = headers.get("grpc-status")?;
    if status == "0" {
        return None;
    }
    let said = headers.get("grpc-message").map(|text| text.as_bytes()).unwrap_or_default();
    let said = String::from_utf8_lossy(said).replace("%20", " ");
    let code = status.to_str().unwrap_or("?");
    Some(Bytes::from(if said.is_empty() { format!("gRPC status {code}") } else { said }))
}

/// What a message means.
fn reply(kind: Kind, message: &[u8]) -> Result<Reply, String> {
    let Some((head, body)) = message.split_at_checked(HEAD_BYTES) else {
        return Err("an answer without a message".to_owned());
    };
    let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if head[0] != 0 || len != body.len() {
        return Err("an answer that is no single plain message".to_owned());
    }
    let wrong = |error: prost::DecodeError| format!("no message of etcd: {error}");
    Ok(match kind {
        Kind::Range => {
            let mut found = RangeResponse::decode(body).map_err(wrong)?.kvs;
            found.pop().map_or(Reply::Absent, |pair| Reply::Value(pair.value))
        }
        Kind::TransferRead => Reply::Value(Bytes::copy_from_slice(body)),
        Kind::TransferWrite if !TxnResponse::decode(body).map_err(wrong)?.succeeded => {
            Reply::Retried
        }
        Kind::Txn if !TxnResponse::decode(body).map_err(wrong)?.succeeded => {
            Reply::Refused(Bytes::from_static(b"a condition did not hold"))
        }
        Kind::Put | Kind::Delete | Kind::Txn | Kind::TransferWrite => Reply::Done,
    })
}

/// Nothing is woken: this codec polls when bytes have moved.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// A message with gRPC's head before it.
fn framed(message: &impl Message) -> Bytes {
    let mut out = BytesMut::with_capacity(HEAD_BYTES + message.encoded_len());
    out.put_u8(0);
    out.put_u32(message.encoded_len() as u32);
    out.put_slice(&message.encode_to_vec());
    out.freeze()
}

impl Codec for Etcd {
    fn greet(&mut self, out: &mut BytesMut) -> usize {
        self.take_output(out);
        0
    }

    fn encode(&mut self, request: &Request<'_>, out: &mut BytesMut) {
        let key = Bytes::copy_from_slice(request.key);
        let (kind, message) = match request.action {
            Action::Get => (Kind::Range, framed(&RangeRequest { key })),
            Action::Put | Action::Insert => {
                let value = Bytes::copy_from_slice(request.value);
                (Kind::Put, framed(&PutRequest { key, value }))
            }
            Action::Delete => (Kind::Delete, framed(&DeleteRangeRequest { key })),
            Action::Command(words) => (Kind::Txn, framed(&txn::of_request(words, request))),
            Action::Transfer(_) => {
                let transfer = self.transfer.insert(Transfer::new(request));
                (Kind::TransferRead, framed(&transfer.read()))
            }
            Action::Sleep(_) => return,
        };
        self.calls.push_back(Call { kind, state: CallState::Waits(message) });
        self.drive();
        self.take_output(out);
    }

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, String> {
        if !input.is_empty() {
            self.pipe.bytes().input.extend_from_slice(input);
            input.clear();
            self.drive();
        }
        while matches!(self.calls.front(), Some(Call { state: CallState::Over(_), .. }))
            && let Some(Call { kind, state: CallState::Over(reply) }) = self.calls.pop_front()
        {
            // Without a reply it has asked for more, which may be answered already.
            if let Some(reply) = self.goes_on(kind, reply) {
                return Ok(Some(reply));
            }
        }
        // What was answered before the end still counts.
        self.broken.clone().map_or(Ok(None), Err)
    }

    fn has_replies(&self) -> bool {
        let first = self.calls.front();
        first.is_some_and(|call| matches!(call.state, CallState::Over(_))) || self.broken.is_some()
    }

    fn take_output(&mut self, out: &mut BytesMut) {
        let output = &mut self.pipe.bytes().output;
        out.extend_from_slice(output);
        output.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::proto::{KeyValue, ResponseOp, Returned};
    use super::*;
    use crate::load::random::Random;
    use crate::scenario::TransferMethod;

    /// Frames of HTTP/2 by hand: length, type, flags, stream, payload.
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream.to_be_bytes());
        out.extend_from_slice(payload);
        out
    }

    /// A header without compression.
    fn header(name: &str, value: &str) -> Vec<u8> {
        let mut out = vec![0, name.len() as u8];
        out.extend_from_slice(name.as_bytes());
        out.push(value.len() as u8);
        out.extend_from_slice(value.as_bytes());
        out
    }

    /// Answers a call: head, a message, trailers. 0x88 is `:status 200`.
    fn answer(stream: u32, message: &impl Message, status: &str) -> Vec<u8> {
        let mut out = frame(1, 4, stream, &[0x88]);
        out.extend(frame(0, 0, stream, &framed(message)));
        out.extend(frame(1, 5, stream, &header("grpc-status", status)));
        out
    }

    fn ask(etcd: &mut Etcd, action: Action) -> BytesMut {
        let mut out = BytesMut::new();
        etcd.encode(&Request { action: &action, key: b"a", other: b"b", value: b"7" }, &mut out);
        out
    }

    #[test]
    fn calls_are_answered_in_the_order_of_requests() {
        let mut etcd = Etcd::new("h:1");
        let mut out = BytesMut::new();
        assert_eq!(etcd.greet(&mut out), 0);
        assert!(out.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "{out:?}");
        assert!(!ask(&mut etcd, Action::Get).is_empty());
        assert!(!ask(&mut etcd, Action::Put).is_empty());
        let value = |value: &'static str| KeyValue {
            key: "k".into(),
            mod_revision: 1,
            value: value.into(),
        };
        let mut bytes = frame(4, 0, 0, &[]);
        bytes.extend(answer(3, &TxnResponse::default(), "0"));
        let mut input = BytesMut::from(&bytes[..]);
        assert_eq!(etcd.decode(&mut input), Ok(None), "the second waits for the first");
        let found = RangeResponse { kvs: vec![value("v")] };
        let mut input = BytesMut::from(&answer(1, &found, "0")[..]);
        assert_eq!(etcd.decode(&mut input), Ok(Some(Reply::Value("v".into()))));
        assert!(input.is_empty() && etcd.has_replies());
        assert_eq!(etcd.decode(&mut input), Ok(Some(Reply::Done)));
        let mut acknowledged = BytesMut::new();
        etcd.take_output(&mut acknowledged);
        assert!(!acknowledged.is_empty(), "the server's settings are acknowledged");
    }

    #[test]
    fn refusals_and_broken_promises_are_told_apart() {
        let mut etcd = Etcd::new("h:1");
        etcd.greet(&mut BytesMut::new());
        for action in [Action::Get, Action::Get, Action::Command(vec!["txn".into()])] {
            ask(&mut etcd, action);
        }
        let mut bytes = frame(4, 0, 0, &[]);
        bytes.extend(answer(1, &RangeResponse::default(), "0"));
        bytes.extend(answer(3, &RangeResponse::default(), "14"));
        bytes.extend(answer(5, &TxnResponse::default(), "0"));
        let mut input = BytesMut::from(&bytes[..]);
        let mut next = || etcd.decode(&mut input);
        assert_eq!(next(), Ok(Some(Reply::Absent)));
        assert_eq!(next(), Ok(Some(Reply::Refused("gRPC status 14".into()))));
        assert_eq!(next(), Ok(Some(Reply::Refused("a condition did not hold".into()))));
        assert_eq!(next(), Ok(None));
        assert!(etcd.decode(&mut BytesMut::from("HTTP/1.1 400 Bad Request\r\n")).is_err());
    }

    #[test]
    fn a_transfer_reads_writes_and_begins_again_if_a_key_has_changed() {
        let mut etcd = Etcd::new("h:1");
        etcd.greet(&mut BytesMut::new());
        ask(&mut etcd, Action::Transfer(TransferMethod::Watch));
        let range = |value: &'static str| {
            let pair = KeyValue { key: "k".into(), mod_revision: 5, value: value.into() };
            ResponseOp { response: Some(Returned::Range(RangeResponse { kvs: vec![pair] })) }
        };
        let read = TxnResponse { succeeded: true, responses: vec![range("10"), range("20")] };
        let written = |succeeded| TxnResponse { succeeded, responses: Vec::new() };
        let settings = BytesMut::from(&frame(4, 0, 0, &[])[..]);
        let mut sent = BytesMut::new();
        let mut next = |mut input: BytesMut| {
            let reply = etcd.decode(&mut input);
            etcd.take_output(&mut sent);
            reply
        };
        let bytes =
            |stream, message: &TxnResponse| BytesMut::from(&answer(stream, message, "0")[..]);
        assert_eq!(next(settings), Ok(None));
        assert_eq!(next(bytes(1, &read)), Ok(None), "it writes now");
        assert_eq!(next(bytes(3, &written(false))), Ok(Some(Reply::Retried)));
        assert_eq!(next(bytes(5, &read)), Ok(None));
        assert_eq!(next(bytes(7, &written(true))), Ok(Some(Reply::Done)));
        // 7 less, and 7 more, twice; as fields of a message.
        let has = |value: &[u8]| sent.windows(value.len()).filter(|at| *at == value).count();
        assert_eq!((has(b"\x12\x013"), has(b"\x12\x0227")), (2, 2));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = Random::new(3);
        let pair = KeyValue { key: "k".into(), mod_revision: 1, value: "v".into() };
        let found = RangeResponse { kvs: vec![pair] };
        let mut good = frame(4, 0, 0, &[]);
        good.extend(answer(1, &found, "0"));
        good.extend(answer(3, &TxnResponse::default(), "0"));
        for round in 0..4_000 {
            let mut etcd = Etcd::new("h:1");
            etcd.greet(&mut BytesMut::new());
            ask(&mut etcd, Action::Get);
            ask(&mut etcd, Action::Put);
            let mut bytes = good.clone();
            for _ in 0..round % 4 {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.bits() as u8;
            }
            let cut = random.below(bytes.len() as u64 + 1) as usize;
            let (mut input, mut count) = (BytesMut::new(), 0);
            for piece in [&bytes[..cut], &bytes[cut..]] {
                input.extend_from_slice(piece);
                while let Ok(Some(_)) = etcd.decode(&mut input) {
                    count += 1;
                }
            }
            assert!(count <= 2 && (round % 4 != 0 || count == 2), "{round}: {count}");
        }
    }
}

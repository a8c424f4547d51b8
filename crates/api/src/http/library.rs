//! Rewrites refusals of the HTTP library as problems, like all other errors.
//!
//! It answers bytes that are no request (400), too long a request line (414) and too many headers
//! (431) before any handler is asked, with a head and no body, and closes. [`RefusalRewriter`]
//! stands between the library and the socket and writes another reply instead.
//!
//! It must not mistake bytes of a value for such a reply. The library refuses a request only while
//! no reply is under way, so the rewriter looks only at bytes that are written then:
//!
//! ```text
//!   a request reaches the handlers ──► under way ──► its reply is written and flushed
//!                                          │                        │
//!                          bytes pass as they are      the next bytes are the library's
//! ```
//!
//! Caveat: if the library refuses a request while the reply before it is not flushed, its bare
//! reply passes as it is.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::context::Shared;
use super::problem::{CONTENT_TYPE_OF_PROBLEMS, Problem};

/// The replies of one connection that are under way.
#[derive(Default)]
pub struct Replies {
    /// Requests without a reply, and replies whose body is not written.
    open: AtomicUsize,
    /// Whether something of a reply may not have left.
    unflushed: AtomicBool,
}

/// A reply that is under way until this is dropped.
pub struct OpenReply(Arc<Replies>);

impl Replies {
    /// A request has reached the handlers.
    pub fn begin(self: &Arc<Self>) -> OpenReply {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.unflushed.store(true, Ordering::Relaxed);
        OpenReply(self.clone())
    }

    fn are_over(&self) -> bool {
        !self.unflushed.load(Ordering::Relaxed)
    }

    fn flushed(&self) {
        if self.open.load(Ordering::Relaxed) == 0 {
            self.unflushed.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for OpenReply {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A reply's body, under way as long as the library has it.
pub struct ReplyBody {
    body: Body,
    _open: OpenReply,
}

impl ReplyBody {
    /// Of a reply.
    pub fn new(body: Body, open: OpenReply) -> Self {
        Self { body, _open: open }
    }
}

impl HttpBody for ReplyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// See the front page.
pub struct RefusalRewriter<S> {
    stream: S,
    context: Shared,
    replies: Arc<Replies>,
    /// What is written instead of the library's reply.
    refusal: Option<Refusal>,
}

struct Refusal {
    bytes: Vec<u8>,
    written: usize,
    /// How many bytes of the library's it stands for.
    instead_of: usize,
}

impl<S> RefusalRewriter<S> {
    /// Between the library and a stream.
    pub fn new(stream: S, context: Shared, replies: Arc<Replies>) -> Self {
        Self { stream, context, replies, refusal: None }
    }

    /// Takes up bytes that the library wants to write, if they are a refusal of its own.
    fn take_up(&mut self, bytes: &[u8]) {
        if self.refusal.is_some() || !self.replies.are_over() {
            return;
        }
        if let Some((status, reply)) = refusal(bytes) {
            self.context.count(status);
            self.refusal = Some(Refusal { bytes: reply, written: 0, instead_of: bytes.len() });
        }
    }
}

/// The reply to write instead of a bare one.
fn refusal(bare: &[u8]) -> Option<(StatusCode, Vec<u8>)> {
    let head = std::str::from_utf8(bare).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let first = lines.next()?;
    let status = first.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
    if !status.is_client_error() {
        return None;
    }
    let json = Problem::of_library(status, "").json();
    let mut reply = format!(
        "{first}\r\ncontent-type: {CONTENT_TYPE_OF_PROBLEMS}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: {}\r\n",
        json.len()
    );
    let is_date =
        |line: &&str| line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("date:"));
    lines.filter(is_date).for_each(|line| {
        reply.push_str(line);
        reply.push_str("\r\n");
    });
    reply.push_str("\r\n");
    Some((status, [reply.as_bytes(), &json].concat()))
}

impl<S: AsyncRead + Unpin> AsyncRead for RefusalRewriter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RefusalRewriter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.take_up(bytes);
        let Self { stream, refusal, .. } = &mut *self;
        let Some(reply) = refusal else { return Pin::new(stream).poll_write(cx, bytes) };
        while let Some(rest) = reply.bytes.get(reply.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut *stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => reply.written += written,
            }
        }
        let instead_of = reply.instead_of;
        *refusal = None;
        Poll::Ready(Ok(instead_of))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.replies.are_over()
            && let Some(first) = pieces.iter().find(|piece| !piece.is_empty())
        {
            return self.poll_write(cx, first);
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.replies.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

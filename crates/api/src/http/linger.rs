//! Lingering close: a reply that is sent before its request was read still reaches the client.
//!
//! Most clients send their whole request first and read then. If the server closed while bytes are
//! on their way, the kernel would answer these with a reset, and the client would see a broken pipe
//! instead of the reply. So the server says `Connection: close`, ends its own side, and reads and
//! drops what still comes, within bounds (RFC 9112, 9.6).
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes that are dropped | [`LINGER_BYTES_MAX`] | the connection is reset |
//! | time without a byte | [`LINGER_STALL_TIMEOUT`] | it is closed |
//! | time for all of it | [`LINGER_TIMEOUT`] | it is reset |

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::socket::Socket;

/// So much of a refused request is read and dropped.
pub const LINGER_BYTES_MAX: usize = 256 << 20;
/// A connection is closed when nothing comes for so long after its last reply.
pub const LINGER_STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection is closed so long after its last reply.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(30);
/// Dropped at a time.
const PIECE_BYTES: usize = 16 << 10;

/// Ends this side, and drops what the other one still sends.
pub async fn linger(stream: &mut Socket) {
    // It may have ended already.
    let _ended = stream.shutdown().await;
    let mut piece = vec![0; PIECE_BYTES];
    let dropping = async {
        let mut left = LINGER_BYTES_MAX;
        while left > 0 {
            match timeout(LINGER_STALL_TIMEOUT, stream.read(&mut piece)).await {
                Ok(Ok(bytes)) if bytes > 0 => left = left.saturating_sub(bytes),
                _ => break,
            }
        }
    };
    let _late = timeout(LINGER_TIMEOUT, dropping).await;
}

/// Whether a request's body was read to its end.
pub struct BodyWatch(Arc<AtomicBool>);

impl BodyWatch {
    /// See the type.
    pub fn was_read(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The same request, and a watch on its body.
pub fn watched(request: Request) -> (Request, BodyWatch) {
    let was_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let watch = BodyWatch(was_read.clone());
    (request.map(|body| Body::new(WatchedBody { body, was_read })), watch)
}

struct WatchedBody {
    body: Body,
    was_read: Arc<AtomicBool>,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) {
            self.was_read.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

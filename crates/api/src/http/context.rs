//! What all handlers share: the node, the limits, and how to wait for an answer.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::Options;
use super::problem::Problem;
use super::reply_room::ReplyRoom;
use crate::{ApiError, Done, Kind, Metrics, NodeService, RequestId};

/// Handlers' shared state.
pub type Shared = Arc<Context>;

/// Bodies of all requests together may take as much memory as so many longest values.
const BODIES_MAX: u64 = 4;
/// But always at least this much.
const BODIES_BYTES_MIN: u64 = 64 << 20;
/// Room for bodies is counted in pieces of this size, for the semaphore counts with 32 bits.
pub const PIECE_BYTES: u64 = 1 << 10;

/// When a request's timeout is over the node answers by itself, with the reason: the handler waits
/// so much longer for it.
const ANSWER_GRACE: Duration = Duration::from_millis(500);

/// See [`Shared`].
pub struct Context {
    /// The node.
    pub api: Arc<dyn NodeService>,
    /// The limits.
    pub options: Options,
    /// Whether only this machine can reach the listener.
    pub loopback: bool,
    /// Room for bodies, in pieces.
    pub room: Semaphore,
    /// Room for values that are being sent, in pieces: as much.
    pub sent_room: ReplyRoom,
    sequence: AtomicU64,
    /// Connections now.
    pub connections: AtomicU64,
    /// Replies by hundreds of their status.
    replies: [AtomicU64; 6],
}

impl Context {
    /// For a listener at `ip`.
    pub fn new(api: Arc<dyn NodeService>, options: Options, ip: IpAddr) -> Self {
        let bytes = (options.value_bytes_max * BODIES_MAX).max(BODIES_BYTES_MIN);
        Self {
            api,
            loopback: ip.to_canonical().is_loopback(),
            room: Semaphore::new((bytes / PIECE_BYTES) as usize),
            sent_room: ReplyRoom::new((bytes / PIECE_BYTES) as usize),
            sequence: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            replies: Default::default(),
            options,
        }
    }

    /// The socket of `carillon dev`, if that has started the node and only this machine reaches it.
    pub fn dev_control(&self) -> Option<&Path> {
        self.options.dev_control.as_deref().filter(|_| self.loopback)
    }

    /// The name of the next request.
    pub fn next_id(&self) -> RequestId {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        RequestId { incarnation: self.options.incarnation, sequence }
    }

    /// Asks for something that changes nothing, and waits.
    pub async fn read<T: Send + 'static>(&self, ask: impl FnOnce(Done<T>)) -> Result<T, Problem> {
        match self.wait(ask).await {
            Some(answer) => Ok(answer?),
            None => Err(Problem::no_answer()),
        }
    }

    /// Asks for a change, and waits. Without an answer its outcome is unknown (SAFETY G10).
    pub async fn write<T: Send + 'static>(
        &self,
        id: RequestId,
        ask: impl FnOnce(Done<T>),
    ) -> Result<T, Problem> {
        Ok(self.change(1, id, ask).await?)
    }

    /// As [`Self::write`], waiting so many times as long as for a command, for who looks at the
    /// error.
    pub async fn change<T: Send + 'static>(
        &self,
        times: u32,
        id: RequestId,
        ask: impl FnOnce(Done<T>),
    ) -> Result<T, ApiError> {
        let answer = self.wait_for(times, ask).await.unwrap_or(Err(ApiError::Unknown { id }));
        if let Err(ApiError::Unknown { id }) = &answer {
            tracing::warn!(%id, "the outcome of a request over HTTP is unknown to its client");
        }
        answer
    }

    async fn wait<T: Send + 'static>(
        &self,
        ask: impl FnOnce(Done<T>),
    ) -> Option<Result<T, ApiError>> {
        self.wait_for(1, ask).await
    }

    /// Asks, and waits so many times as long as for a command. None: there was no answer.
    pub async fn wait_for<T: Send + 'static>(
        &self,
        times: u32,
        ask: impl FnOnce(Done<T>),
    ) -> Option<Result<T, ApiError>> {
        let (sender, receiver) = oneshot::channel();
        // If nobody waits any more, the answer has no use.
        ask(Box::new(move |answer| drop(sender.send(answer))));
        timeout(self.options.request_timeout * times + ANSWER_GRACE, receiver).await.ok()?.ok()
    }

    /// Counts a reply.
    pub fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(self.replies.len() - 1);
        self.replies[class].fetch_add(1, Ordering::Relaxed);
    }

    /// The node's metrics and HTTP's own.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = self.api.metrics();
        let connections = self.connections.load(Ordering::Relaxed) as f64;
        metrics.gauge("carillon_http_connections", "HTTP connections now.", connections);
        let by_class = (1..self.replies.len()).map(|class| {
            let replies = self.replies[class].load(Ordering::Relaxed) as f64;
            (vec![("status", format!("{class}xx"))], replies)
        });
        let help = "HTTP replies by class of status.";
        metrics.numbers("carillon_http_replies_total", help, Kind::Counter, by_class);
        metrics
    }
}

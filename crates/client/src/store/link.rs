//! One connection to a node, shared by many tasks.
//!
//! ```text
//!   task A ─┐                 ┌───────────── queue ─────────────┐
//!   task B ─┼─ put: encode ──►│ bytes to send │ who awaits, by  │
//!   task C ─┘                 │               │ order           │
//!                             └──────┬────────▲───────┬─────────┘
//!                 all of it at once  ▼        │ pop   ▼ answer each
//!                             ┌───── the link's task ───────────┐
//!                             │ write · read · decode · dial    │
//!                             └─────────────────────────────────┘
//! ```
//!
//! Before it takes the bytes it lets other tasks run once, so that all that are ready put theirs:
//! one write and one segment for all of them. Answers come in the order of requests.
//!
//! # Requests under way when the connection ends
//! The task counts the bytes that the system took. A request whose last byte was not among them was
//! not done: the node had no complete command. All others may be done ([`LinkLost::sent`]).
//!
//! # A node that does not answer
//! If answers are due and nothing has come for [`SILENCE_MAX`], the task greets the node over a
//! connection of its own. If the node answers, it is only slow, and the link waits. If it does not
//! within [`GREETING_MAX`], the link is given up: requests go to another node, or end as unknown.
//!
//! # Up and down
//! A link begins **up**, without a connection: the first request makes it. When one cannot be made
//! or ends, the link is **down** and takes no requests, until its task has made another; it tries
//! with rising pauses.
//!
//! Invariants: `pending` has the requests in the order of their bytes. Bounds: `outstanding_max`
//! requests and `queued_bytes_max` bytes (or one request) wait; callers wait for room.

mod exchange;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use exchange::Exchange;

use super::dial::{self, Purpose};
use super::options::Options;
use super::pause::Pauses;
use super::reply::Reply;
use super::request::Request;

/// How long answers may be due without a byte before the task greets the node.
pub const SILENCE_MAX: Duration = Duration::from_millis(400);
/// How long it then has to answer.
pub const GREETING_MAX: Duration = Duration::from_millis(400);
/// The longest pause between attempts to connect with a node that is down.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);
const PAUSE_FIRST: Duration = Duration::from_millis(25);
/// A buffer longer than this is given back when it is empty.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// The connection of a request ended before its answer.
#[derive(Clone, Debug)]
pub(crate) struct LinkLost {
    /// Whether the node may have had the whole request.
    pub sent: bool,
    /// Whether what came as an answer could not be used.
    pub unusable: bool,
    /// What happened.
    pub why: Arc<str>,
}

/// Where an answer will be.
pub(crate) type ReplyReceiver = oneshot::Receiver<Result<Reply, LinkLost>>;

#[derive(Debug)]
struct Pending {
    /// Where its bytes end, counted from the first that was ever queued here.
    end: u64,
    answer: oneshot::Sender<Result<Reply, LinkLost>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    Down,
    Closed,
}

#[derive(Debug)]
struct Queue {
    state: State,
    out: Vec<u8>,
    /// How many bytes were ever queued.
    queued_end: u64,
    pending: VecDeque<Pending>,
    /// Why it is down.
    why: Arc<str>,
}

/// A connection to a node, or the attempt to have one.
#[derive(Debug)]
pub(crate) struct Link {
    address: String,
    purpose: Purpose,
    options: Arc<Options>,
    queue: Mutex<Queue>,
    is_up: AtomicBool,
    /// There is something to send, or the end has come.
    work: Notify,
    /// There may be room in the queue.
    room: Notify,
    /// Told when the link goes down.
    news: Arc<Notify>,
}

/// How a connection has ended.
struct End {
    why: String,
    unusable: bool,
    /// Up to where its bytes were taken by the system.
    written: u64,
    answered: bool,
}

impl Link {
    /// A link, with its task.
    pub fn start(
        address: String,
        purpose: Purpose,
        options: Arc<Options>,
        news: Arc<Notify>,
    ) -> Arc<Self> {
        let queue = Queue {
            state: State::Up,
            out: Vec::new(),
            queued_end: 0,
            pending: VecDeque::new(),
            why: "it is not connected".into(),
        };
        let link = Arc::new(Self {
            address,
            purpose,
            options,
            queue: Mutex::new(queue),
            is_up: AtomicBool::new(true),
            work: Notify::new(),
            room: Notify::new(),
            news,
        });
        tokio::spawn(link.clone().run());
        link
    }

    /// Whether requests may be put.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Queues a request, once there is room. If this is given up meanwhile, it is not queued.
    ///
    /// # Errors
    /// The link is down: nothing was sent.
    pub async fn put(&self, request: &Request<'_>) -> Result<ReplyReceiver, LinkLost> {
        if let Some(done) = self.try_put(request) {
            return done;
        }
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if let Some(done) = self.try_put(request) {
                return done;
            }
            room.await;
        }
    }

    /// As [`Self::put`], but `None` if there is no room.
    fn try_put(&self, request: &Request<'_>) -> Option<Result<ReplyReceiver, LinkLost>> {
        let mut queue = self.queue.lock();
        if queue.state != State::Up {
            let why = queue.why.clone();
            return Some(Err(LinkLost { sent: false, unusable: false, why }));
        }
        let full = queue.pending.len() >= self.options.outstanding_max
            || queue.out.len() >= self.options.queued_bytes_max;
        if full {
            return None;
        }
        let before = queue.out.len();
        request.write(&mut queue.out);
        queue.queued_end += (queue.out.len() - before) as u64;
        let (answer, awaited) = oneshot::channel();
        let end = queue.queued_end;
        queue.pending.push_back(Pending { end, answer });
        drop(queue);
        if before == 0 {
            self.work.notify_one();
        }
        Some(Ok(awaited))
    }

    /// Ends it. Requests that still wait fail.
    pub fn close(&self) {
        self.fail(State::Closed, "the store was dropped", false, None);
        self.work.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.queue.lock().state == State::Closed
    }

    /// Fails all waiting requests. With `written`, bytes before it were sent.
    fn fail(&self, state: State, why: &str, unusable: bool, written: Option<u64>) {
        let why: Arc<str> = format!("{}: {why}", self.address).into();
        let pending = {
            let mut queue = self.queue.lock();
            if queue.state != State::Closed {
                queue.state = state;
            }
            self.is_up.store(queue.state == State::Up, Ordering::Relaxed);
            queue.why = why.clone();
            queue.out.clear();
            std::mem::take(&mut queue.pending)
        };
        for Pending { end, answer } in pending {
            // `close` does not know what its task has written.
            let sent = written.is_none_or(|written| end <= written);
            // Nobody may wait any more.
            let _unwanted = answer.send(Err(LinkLost { sent, unusable, why: why.clone() }));
        }
        self.room.notify_waiters();
    }

    async fn run(self: Arc<Self>) {
        let mut pauses = Pauses::new(PAUSE_FIRST, PAUSE_MAX);
        loop {
            self.wait_for_work().await;
            if self.is_closed() {
                return;
            }
            let limit = self.options.connect_timeout;
            let dialled = dial::dial(&self.address, &self.options, self.purpose, limit).await;
            let written = self.unsent_start();
            let end = match dialled {
                Ok(greeted) => {
                    self.up();
                    Exchange::new(&self, greeted.stream, written).run().await
                }
                Err(why) => {
                    let why = why.to_string();
                    End { why, unusable: false, written, answered: false }
                }
            };
            if end.answered {
                pauses.reset();
            }
            if self.is_closed() {
                return;
            }
            self.fail(State::Down, &end.why, end.unusable, Some(end.written));
            self.news.notify_one();
            sleep(pauses.next()).await;
        }
    }

    /// Until there is something to send. A link that is down does not wait for that.
    async fn wait_for_work(&self) {
        loop {
            {
                let queue = self.queue.lock();
                if queue.state != State::Up || !queue.pending.is_empty() {
                    return;
                }
            }
            self.work.notified().await;
        }
    }

    /// Where those bytes begin that no connection has taken.
    fn unsent_start(&self) -> u64 {
        let queue = self.queue.lock();
        queue.queued_end - queue.out.len() as u64
    }

    fn up(&self) {
        let mut queue = self.queue.lock();
        if queue.state == State::Down {
            queue.state = State::Up;
            self.is_up.store(true, Ordering::Relaxed);
        }
    }

    /// Takes all that is to be sent; true if the link is closed.
    fn take(&self, out: &mut Vec<u8>) -> bool {
        out.clear();
        if out.capacity() > SPARE_BYTES_MAX {
            *out = Vec::new();
        }
        let mut queue = self.queue.lock();
        let was_full = queue.out.len() >= self.options.queued_bytes_max;
        std::mem::swap(&mut queue.out, out);
        let closed = queue.state == State::Closed;
        drop(queue);
        if was_full {
            self.room.notify_waiters();
        }
        closed
    }

    /// Whether nothing is due.
    fn is_idle(&self) -> bool {
        self.queue.lock().pending.is_empty()
    }

    /// Whether the node answers a greeting on a new connection.
    fn greeting(&self) -> impl Future<Output = bool> + Send + 'static {
        let (address, options) = (self.address.clone(), self.options.clone());
        async move {
            let purpose = Purpose::Detour;
            dial::dial(&address, &options, purpose, GREETING_MAX).await.is_ok()
        }
    }

    /// Hands answers to waiting requests; false if there are more answers than requests.
    fn answer(&self, replies: &mut Vec<Reply>) -> bool {
        if replies.is_empty() {
            return true;
        }
        let mut queue = self.queue.lock();
        if replies.len() > queue.pending.len() && queue.state != State::Closed {
            return false;
        }
        let was_full = queue.pending.len() >= self.options.outstanding_max;
        let count = replies.len().min(queue.pending.len());
        let waiting: Vec<Pending> = queue.pending.drain(..count).collect();
        drop(queue);
        for (Pending { answer, .. }, reply) in waiting.into_iter().zip(replies.drain(..)) {
            // Nobody may wait any more.
            let _unwanted = answer.send(Ok(reply));
        }
        if was_full {
            self.room.notify_waiters();
        }
        true
    }
}

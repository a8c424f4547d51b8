//! Looks at all keys that somebody asked for, on a thread of their own.
//!
//! What each snapshot alone keeps (`carillon gc --why`) is known only after a look at every key
//! that has old versions. The thread that brings the question's answer serves other clients or
//! other nodes, so it does not do that.
//!
//! ```text
//!   a question ──► queue ──► one thread, that ends when nothing waits ──► its answer
//! ```
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | walks at one time | 1 | the next waits |
//! | walks that wait | [`WAITING_MAX`] | `busy`: nothing is looked at |
//!
//! A walk goes piece by piece, and [`rest`]s between two: readers and writers have most of the
//! machine. It looks between pieces whether the node stops.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use api::{ApiError, Done};
use parking_lot::Mutex;

/// Walks that wait.
pub const WAITING_MAX: usize = 16;
/// The longest rest between two pieces.
const REST_MAX: Duration = Duration::from_millis(20);

/// See the front page of this module.
#[derive(Clone, Default)]
pub struct BackgroundWalks(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    /// Each looks at keys, and answers who has asked.
    waiting: VecDeque<Done<()>>,
    has_thread: bool,
}

impl BackgroundWalks {
    /// Does a walk soon; does not wait for it. The walk gets an error if it cannot be done.
    pub fn add(&self, walk: Done<()>) {
        if let Some(refused) = self.put(walk) {
            let why = "too many others ask what snapshots keep";
            refused(Err(ApiError::Busy { why }));
        }
    }

    /// Puts a walk into the queue; returns it if there is no room or no thread.
    fn put(&self, walk: Done<()>) -> Option<Done<()>> {
        let mut queue = self.0.lock();
        if queue.waiting.len() >= WAITING_MAX {
            return Some(walk);
        }
        queue.waiting.push_back(walk);
        if queue.has_thread {
            return None;
        }
        let this = self.clone();
        let spawned = thread::Builder::new().name("walks".into()).spawn(move || this.run());
        if let Err(error) = spawned {
            tracing::error!("the system refuses a thread: {error}");
            return queue.waiting.pop_back();
        }
        queue.has_thread = true;
        None
    }

    fn run(&self) {
        while let Some(walk) = self.next() {
            walk(Ok(()));
        }
    }

    fn next(&self) -> Option<Done<()>> {
        let mut queue = self.0.lock();
        let next = queue.waiting.pop_front();
        queue.has_thread = next.is_some();
        next
    }
}

/// Rests for as long as a piece took that began then, but not for long.
pub fn rest(began: Instant) {
    thread::sleep(began.elapsed().min(REST_MAX));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The asking thread goes on at once, however long a walk takes.
    #[test]
    fn walks_are_done_in_order_on_another_thread() {
        let (walks, asker) = (BackgroundWalks::default(), thread::current().id());
        let (go, gate) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let first = tell.clone();
        walks.add(Box::new(move |_| {
            gate.recv().expect("it is let go");
            first.send((1, thread::current().id())).expect("it is heard");
        }));
        walks.add(Box::new(move |_| tell.send((2, thread::current().id())).unwrap()));
        assert!(told.try_recv().is_err(), "the first still waits, and the second for it");
        go.send(()).expect("it waits");
        let [one, two] = [told.recv().unwrap(), told.recv().unwrap()];
        assert_eq!((one.0, two.0), (1, 2));
        assert!(one.1 != asker && one.1 == two.1, "one thread does both, and not this one");
    }

    #[test]
    fn too_many_are_refused_and_the_thread_comes_again() {
        let walks = BackgroundWalks::default();
        let (go, gate) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        walks.add(Box::new(move |_| {
            begun.send(()).expect("it is heard");
            let _closed = gate.recv();
        }));
        has_begun.recv().expect("it begins");
        let (tell, told) = mpsc::channel();
        for _ in 0..=WAITING_MAX {
            let tell = tell.clone();
            walks.add(Box::new(move |may| tell.send(may).unwrap()));
        }
        let refused = told.try_recv().expect("one too many is refused at once");
        assert!(matches!(refused, Err(ApiError::Busy { .. })), "{refused:?}");
        drop(go);
        let done = (0..WAITING_MAX).all(|_| told.recv().expect("it is done").is_ok());
        assert!(done, "all others are done");
        let ended = || !walks.0.lock().has_thread;
        while !ended() {
            thread::yield_now();
        }
        walks.add(Box::new(move |may| tell.send(may).unwrap()));
        assert_eq!(told.recv().expect("another thread does it"), Ok(()));
    }
}

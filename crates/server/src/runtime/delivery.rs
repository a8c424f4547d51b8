//! Delivers executors' answers to the threads that asked.
//!
//! ```text
//!   executor's answer ──► the caller itself   : the list it passed in
//!                     ├─► an event loop       : its mailbox
//!                     ├─► the API             : the callback of its waiter
//!                     └─► control             : its queue
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use node::control::CONTROL;
use node::executor::{Answer, Origin};
use node::replica::entry::Waiter;
use parking_lot::Mutex;

use super::control_plane::ControlPlane;
use super::mailbox::{Mail, Mailbox};
use super::{API, ControlInput};

/// The mailboxes of event loops, and the API's waiters.
pub struct Delivery {
    /// One for each event loop.
    pub mailboxes: Vec<Mailbox>,
    /// Requests of the API that wait.
    pub waiters: ApiWaiters,
}

impl Delivery {
    /// With the mailboxes of the event loops.
    pub fn new(mailboxes: Vec<Mailbox>) -> Self {
        Self { mailboxes, waiters: ApiWaiters::default() }
    }

    /// Gives an answer to its origin: into `answers` if that is the caller.
    pub fn deliver(
        &self,
        control: &ControlPlane,
        answer: Answer,
        caller: Origin,
        answers: &mut Vec<Answer>,
    ) {
        let to = answer.origin();
        if to == caller {
            answers.push(answer);
        } else if to == CONTROL {
            control.post([ControlInput::Answer(answer)]);
        } else if to == API {
            self.waiters.answer(answer);
        } else if let Some(mailbox) = self.mailboxes.get(to.0 as usize) {
            // A loop that has ended has no clients left, or has given them up.
            let _is_read = mailbox.post(Mail::Answer(answer));
        }
    }
}

/// Called with an answer.
pub type Callback = Box<dyn FnOnce(Answer) + Send>;

/// Requests outside the event loops that wait for an answer.
#[derive(Default)]
pub struct ApiWaiters {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Callback>>,
}

impl ApiWaiters {
    /// A waiter whose answer goes to `callback`.
    pub fn wait(&self, callback: Callback) -> Waiter {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.waiting.lock().insert(number, callback);
        Waiter(number)
    }

    /// Calls the waiter of this answer. Batches of the API hold one command.
    pub fn answer(&self, answer: Answer) {
        let Some(waiter) = answer.waiters().first().copied() else { return };
        let callback = self.waiting.lock().remove(&waiter.0);
        if let Some(callback) = callback {
            callback(answer);
        }
    }
}

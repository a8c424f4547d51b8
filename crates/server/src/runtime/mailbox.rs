//! The mailbox of an event loop: messages from other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyspace::KeyspaceId;
use node::executor::Answer;
use node::replica::entry::Waiter;
use parking_lot::Mutex;
use txn::coordinator::TxnOutcome;
use txn::{AbandonedTxn, ConflictRetry, interactive::InteractiveTxn};

use super::lookups::Trace;
use super::pubsub::Message;
use crate::event_loop::NewConnection;
use crate::scripts::JobReply;

/// What a loop finds in its mailbox.
pub enum Mail {
    /// An answer for one of its connections.
    Answer(Answer),
    /// A connection to serve.
    Connection(NewConnection),
    /// An executor's groups up to this ticket are fsynced.
    Durable {
        /// The executor.
        executor: usize,
        /// The ticket.
        ticket: u64,
    },
    /// A connection to be closed (CLIENT KILL).
    Kill(Kill),
    /// It is, and the reply counts so many.
    Killed(Waiter, i64),
    /// A message for the loop's subscribers.
    Message(Arc<Message>),
    /// Other nodes have counted the receivers of a message, or know of a subscription.
    Receivers(Waiter, i64),
    /// Frames to be pushed to a connection (`event_loop::pubsub`).
    Push(Box<Push>),
    /// A connection to be closed, for its output is the longest of too many.
    Evict(u64),
    /// An abandoned transaction over several shards, which the loop's coordinator must finish.
    Abandoned(AbandonedTxn),
    /// The route to a key of the next command of the connection at this place.
    Traced(usize, Box<Trace>),
    /// Its clients have something to hear ([`super::tracking`]).
    Invalidate,
    /// A transaction of an HTTP request, or of a script.
    Transact(Box<Transact>),
    /// Replies of scripts.
    Scripted(Vec<(Waiter, JobReply)>),
}

/// Whole frames for a connection, by the protocol that it speaks when they come to its turn.
pub struct Push {
    /// Its number in the process.
    pub id: u64,
    /// If it speaks RESP2 and subscribes to something; may be empty.
    pub resp2: Vec<u8>,
    /// If it speaks RESP3; may be empty.
    pub resp3: Vec<u8>,
}

/// Which connection to close, and which one waits for it.
pub struct Kill {
    /// Its number in the process.
    pub id: u64,
    /// The loop of the connection that asks.
    pub asks: usize,
    /// Its reply there.
    pub waiter: Waiter,
}

/// A transaction for the coordinator of a loop, whichever shards it is about.
pub struct Transact {
    /// Whose keys it names.
    pub keyspace: KeyspaceId,
    /// What is to be committed.
    pub copy: Box<InteractiveTxn>,
    /// What is to be committed with it, in other keyspaces.
    pub others: Vec<(KeyspaceId, Box<InteractiveTxn>)>,
    /// The state of its earlier attempts.
    pub before: Option<ConflictRetry>,
    /// Called with the outcome. Dropped uncalled: the outcome is unknown.
    pub done: TxnCallback,
}

/// Called with the outcome of a transaction.
pub type TxnCallback = Box<dyn FnOnce(TxnOutcome) + Send>;

/// The mailbox of one event loop.
pub struct Mailbox {
    /// None while no loop reads it: before the loops are started, and when it has ended.
    mail: Mutex<Option<Vec<Mail>>>,
    /// Whether the loop sleeps, or is about to: then it must be woken.
    asleep: AtomicBool,
    waker: mio::Waker,
}

impl Mailbox {
    /// A mailbox whose loop is woken by `waker`.
    pub fn new(waker: mio::Waker) -> Self {
        Self { mail: Mutex::new(None), asleep: AtomicBool::new(false), waker }
    }

    /// Puts mail in, and wakes the loop if it sleeps. False, and the mail is thrown away, if no
    /// loop will read it.
    pub fn post(&self, mail: Mail) -> bool {
        match &mut *self.mail.lock() {
            Some(all) => all.push(mail),
            None => return false,
        }
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.wake();
        }
        true
    }

    /// A loop will read the mail from now on.
    pub fn open(&self) {
        self.mail.lock().get_or_insert_default();
    }

    /// Returns the last mail; the loop reads no more.
    pub fn close(&self) -> Vec<Mail> {
        self.mail.lock().take().unwrap_or_default()
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        // The eventfd can only fail to take a wake-up that is pending already.
        let _pending = self.waker.wake();
    }

    /// Takes all mail.
    pub fn take(&self, into: &mut Vec<Mail>) {
        if let Some(all) = &mut *self.mail.lock() {
            std::mem::swap(all, into);
        }
    }

    /// Whether there is mail.
    pub fn has_mail(&self) -> bool {
        self.mail.lock().as_ref().is_some_and(|mail| !mail.is_empty())
    }

    /// The loop is about to sleep. False if it must not: there is mail.
    pub fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let empty = self.mail.lock().as_ref().is_none_or(Vec::is_empty);
        if !empty {
            self.asleep.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// The loop is awake.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}

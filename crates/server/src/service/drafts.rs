//! Runs functions of topics and locks (`topics`), each as a transaction.
//!
//! ```text
//!   run ──► the function, on what is known ──► keys are missing: they are read ──┐
//!    ▲           ▲                                                               │
//!    │           └───────────────────────────────────────────────────────────────┘
//!    │      └─ it has come to its end: its writes are committed ──► done
//!    └───────────────────────────────────────── something has changed
//! ```
//!
//! One that writes nothing commits nothing: each key was read as it is, but maybe not all at one
//! moment.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | rounds of reads | [`ROUNDS_MAX`] | refused |
//! | attempts | begin within its timeout | busy: not done |

use std::sync::Arc;

use bytes::Bytes;
use keyspace::KeyspaceId;
use replication::BootNanos;
use topics::draft::Known;
use topics::{Draft, Found, Refusal, Stop, Write};
use txn::ConflictRetry;
use txn::retry_queue::RESERVE_AFTER_NANOS;

use super::txn::run::Run;
use super::txn::{commit, hold};
use crate::runtime::open_txns::HeldTxn;
use crate::runtime::{NodeRuntime, boot_nanos};
use api::{ApiError, Done, RequestId, TxnOp, TxnResult};

/// How often a function may ask for further keys. Most ask once or twice; one that halves a topic,
/// or hands out many long messages, some forty times.
pub const ROUNDS_MAX: usize = 128;

/// A function of topics and locks.
pub type Program<T> = Box<dyn Fn(&mut Draft) -> Result<T, Stop> + Send>;

/// One that is under way.
struct Attempt<T> {
    runtime: Arc<NodeRuntime>,
    keyspace: KeyspaceId,
    id: RequestId,
    program: Program<T>,
    began: BootNanos,
    /// The state of its earlier attempts, after conflicts.
    before: Option<ConflictRetry>,
    /// The keys that it has read first: those that others change, too.
    first_keys: Vec<Bytes>,
    now_ms: u64,
    rounds: usize,
    done: Done<T>,
}

/// Runs a function, and commits what it writes.
pub fn run<T: Send + 'static>(
    runtime: &Arc<NodeRuntime>,
    keyspace: KeyspaceId,
    id: RequestId,
    program: Program<T>,
    done: Done<T>,
) {
    let attempt = Attempt {
        runtime: runtime.clone(),
        keyspace,
        id,
        program,
        began: boot_nanos(),
        before: None,
        first_keys: Vec::new(),
        now_ms: 0,
        rounds: 0,
        done,
    };
    Box::new(attempt).begin();
}

/// What a read has found, for a draft.
pub fn found(result: TxnResult) -> Option<Found> {
    match result {
        TxnResult::Value { value, version } => {
            let version = version.map_or(0, |version| version.0);
            Some(Found { value: value.to_vec(), version })
        }
        _ => None,
    }
}

/// A draft's write, as an operation of a transaction.
pub fn op_of(key: Vec<u8>, write: Write, now_ms: u64) -> TxnOp {
    /// What ended long ago is gone when it is written, and needs no read before.
    const LONG_AGO: Option<u64> = Some(1);
    let key = Bytes::from(key);
    match write {
        Write::Put { value, ttl_ms } => {
            let expires_at_ms = ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms));
            TxnOp::Put { key, value: value.into(), expires_at_ms }
        }
        Write::Drop => TxnOp::Put { key, value: Bytes::new(), expires_at_ms: LONG_AGO },
    }
}

/// The error of what was refused.
pub fn refused(refusal: Refusal, now_ms: u64) -> ApiError {
    let why = refusal.to_string();
    match refusal {
        Refusal::Bad { .. } => ApiError::BadTopic { why },
        Refusal::NoTopic { .. } | Refusal::NoGroup { .. } => ApiError::NoTopic { why },
        Refusal::TopicExists { .. }
        | Refusal::Leaving { .. }
        | Refusal::TooMany { .. }
        | Refusal::Foreign { .. } => ApiError::TopicRefused { why },
        Refusal::MessageTooLong { bytes, bytes_max } => {
            ApiError::MessageTooLong { bytes: bytes as u64, bytes_max: bytes_max as u64 }
        }
        Refusal::Held { name, held } => {
            let left_ms = held.until_ms.saturating_sub(now_ms);
            ApiError::LockHeld { name, owner: held.owner, left_ms }
        }
        Refusal::NotHeld { .. } => ApiError::LockLost { why },
    }
}

impl<T: Send + 'static> Attempt<T> {
    fn begin(mut self: Box<Self>) {
        self.runtime.clock.observe();
        self.now_ms = self.runtime.clock.millis();
        self.rounds = 0;
        let held = hold(&self.runtime, self.keyspace);
        self.step(held, Known::default());
    }

    fn step(mut self: Box<Self>, held: HeldTxn, known: Known) {
        let mut draft = Draft::new(self.now_ms, known);
        match (self.program)(&mut draft) {
            Err(Stop::Refused(refusal)) => (self.done)(Err(refused(refusal, self.now_ms))),
            Err(Stop::Missing) if self.rounds == ROUNDS_MAX => {
                let why = format!("it would read keys in more than {ROUNDS_MAX} rounds");
                (self.done)(Err(ApiError::TransactionTooLarge { why }));
            }
            Err(Stop::Missing) => {
                let keys: Vec<Bytes> = draft.missing().map(Bytes::copy_from_slice).collect();
                let peeks: Vec<Bytes> = draft.missing_peeks().map(Bytes::copy_from_slice).collect();
                let (known, _) = draft.end();
                if self.rounds == 0 {
                    self.first_keys = keys.clone();
                }
                self.rounds += 1;
                self.peek(held, known, peeks, keys);
            }
            Ok(done) => {
                let (_, writes) = draft.end();
                let now_ms = self.now_ms;
                let ops = writes.into_iter().map(|(key, write)| op_of(key, write, now_ms));
                self.write(held, ops.collect(), done);
            }
        }
    }

    /// Reads what may change, in a transaction that is never committed; then all else.
    fn peek(self: Box<Self>, held: HeldTxn, mut known: Known, peeks: Vec<Bytes>, keys: Vec<Bytes>) {
        if peeks.is_empty() {
            return self.read(held, known, keys);
        }
        let runtime = self.runtime.clone();
        let aside = hold(&runtime, self.keyspace);
        let ops = peeks.iter().map(|key| TxnOp::Get { key: key.clone() }).collect();
        let then = move |_aside, results: Result<Vec<_>, _>| match results {
            Ok(results) => {
                for (key, result) in peeks.iter().zip(results) {
                    known.peeked(key.to_vec(), found(result));
                }
                self.read(held, known, keys);
            }
            Err(error) => (self.done)(Err(error)),
        };
        Run::start(&runtime, aside, ops, None, Box::new(then));
    }

    fn read(self: Box<Self>, held: HeldTxn, mut known: Known, keys: Vec<Bytes>) {
        if keys.is_empty() {
            return self.step(held, known);
        }
        let runtime = self.runtime.clone();
        let reserved_as = self.before.as_ref().and_then(|before| before.reserved_as);
        let reserved_as = reserved_as.filter(|_| self.rounds == 1);
        let keeps = reserved_as.map(|name| (name, self.first_keys.clone()));
        let ops = keys.iter().map(|key| TxnOp::Get { key: key.clone() }).collect();
        let then = move |held, results: Result<Vec<_>, _>| match results {
            Ok(results) => {
                for (key, result) in keys.iter().zip(results) {
                    known.read(key.to_vec(), found(result));
                }
                self.step(held, known);
            }
            Err(error) => (self.done)(Err(error)),
        };
        Run::start(&runtime, held, ops, keeps, Box::new(then));
    }

    fn write(self: Box<Self>, held: HeldTxn, ops: Vec<TxnOp>, answer: T) {
        if ops.is_empty() {
            return (self.done)(Ok(answer));
        }
        let runtime = self.runtime.clone();
        let then = move |held, results| match results {
            Ok(_) => self.commit(held, answer),
            Err(error) => (self.done)(Err(error)),
        };
        Run::start(&runtime, held, ops, None, Box::new(then));
    }

    fn commit(self: Box<Self>, held: HeldTxn, answer: T) {
        let runtime = self.runtime.clone();
        commit(&runtime, self.id, held, self.before.clone(), move |committed| match committed {
            Ok(None) => (self.done)(Ok(answer)),
            Ok(Some(key)) => self.again(key),
            Err(error) => (self.done)(Err(error)),
        });
    }

    /// Runs it again, after another has changed what it had read. After a while leaders reserve its
    /// keys.
    fn again(mut self: Box<Self>, key: Box<[u8]>) {
        let began_ago = boot_nanos().saturating_sub(self.began);
        if began_ago >= self.runtime.request_timeout_nanos {
            return (self.done)(Err(ApiError::Conflicts { key }));
        }
        let reserved_as = self.before.take().and_then(|before| before.reserved_as);
        let is_long = began_ago >= RESERVE_AFTER_NANOS;
        let reserved_as = reserved_as.or_else(|| is_long.then(|| self.runtime.clock.tick()));
        self.before = Some(ConflictRetry { since: self.began, key: Some(key), reserved_as });
        self.begin();
    }
}

//! Transactions of HTTP clients: in one request, or request by request.
//!
//! ```text
//!   one request   compare ──► read, decided ──► then or else, on a copy ──► commit ──► answer
//!                    ▲                                                        │ changed
//!                    └────────────────────────────────────────────────────────┘
//!   several       begin ──► run … run, on a copy that waits between them ──► commit
//! ```
//!
//! Operations run on a copy ([`run`]). To commit, an event loop's coordinator applies the writes,
//! if nothing that was read has changed. It does so for a read-only transaction too, which so has
//! read the state at one moment.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | attempts of a transaction in one request | begin within its timeout | busy: not done |

pub mod run;

use std::sync::Arc;

use bytes::Bytes;
use command::{NotDone, Write};
use keyspace::{
    CatalogueError, CatalogueOp, Feature, KeyspaceId, KeyspaceOptions, NodeId, is_made_on_use,
};
use node::executor::{self};
use replication::BootNanos;
use run::Run;
use txn::interactive::{BYTES_MAX, InteractiveTxn};
use txn::retry_queue::RESERVE_AFTER_NANOS;
use txn::{ConflictRetry, coordinator::TxnOutcome};

use super::NodeApi;
use super::errors::{NO_LEADER, no_catalogue, not_done, refused};
use crate::runtime::mailbox::{Mail, Transact};
use crate::runtime::open_txns::{HeldTxn, OPEN_MAX, OpenId, TakeTxnError};
use crate::runtime::requests;
use crate::runtime::{NodeRuntime, boot_nanos};
use api::{ApiError, Done, RequestId, Txn, TxnDone, TxnOp, TxnResult};

/// A transaction in one request, and how often it may be tried.
struct Attempt {
    runtime: Arc<NodeRuntime>,
    keyspace: KeyspaceId,
    id: RequestId,
    txn: Txn,
    began: BootNanos,
    /// The state of its earlier attempts, after conflicts.
    before: Option<ConflictRetry>,
    /// Whether the conditions held, when it was tried last.
    succeeded: bool,
    done: Done<TxnDone>,
}

/// The outcome of a commit: done, or this key has changed.
pub(super) type Committed = Result<Option<Box<[u8]>>, ApiError>;

impl NodeApi {
    pub(super) fn ask_transact(&self, id: RequestId, txn: Txn, done: Done<TxnDone>) {
        let runtime = self.runtime.clone();
        let name = txn.keyspace.clone();
        self.in_keyspace(&name, move |keyspace| match keyspace {
            Err(error) => done(Err(error)),
            Ok(keyspace) => {
                let began = boot_nanos();
                let (before, succeeded) = (None, false);
                let attempt =
                    Attempt { runtime, keyspace, id, txn, began, before, succeeded, done };
                Box::new(attempt).begin();
            }
        });
    }

    pub(super) fn ask_begin(&self, name: &str, timeout_ms: u64, done: Done<String>) {
        let runtime = self.runtime.clone();
        self.in_keyspace(name, move |keyspace| {
            done(keyspace.and_then(|keyspace| {
                let id = crate::peer::draw().map(OpenId::from_le_bytes).map_err(|error| {
                    tracing::error!(%error, "no id can be drawn for a transaction");
                    ApiError::StorageFailed
                })?;
                let timeout = timeout_ms.saturating_mul(1_000_000);
                match runtime.open_txns.begin(id, hold(&runtime, keyspace), timeout, boot_nanos()) {
                    true => Ok(name_of(&runtime, id)),
                    false => Err(ApiError::TooManyTransactions {
                        why: format!("{OPEN_MAX} transactions are open on this node"),
                    }),
                }
            }));
        });
    }

    pub(super) fn ask_run(&self, name: &str, ops: Vec<TxnOp>, done: Done<Vec<TxnResult>>) {
        let held = self.open_here(name).and_then(|id| {
            let held = self.runtime.open_txns.take(id, boot_nanos());
            Ok((id, held.map_err(|why| not_had(name, why))?))
        });
        let (id, held) = match held {
            Ok(held) => held,
            Err(error) => return done(Err(error)),
        };
        let runtime = self.runtime.clone();
        let then = move |held, results| {
            runtime.open_txns.give_back(id, held, boot_nanos());
            done(results);
        };
        Run::start(&self.runtime, held, ops, None, Box::new(then));
    }

    pub(super) fn ask_commit(&self, id: RequestId, name: &str, done: Done<()>) {
        let held = self.open_here(name).and_then(|open| {
            let held = self.runtime.open_txns.take_for_good(open, boot_nanos());
            held.map_err(|why| not_had(name, why))
        });
        match held {
            // A commit whose answer was lost comes again.
            Err(ApiError::NoTransaction { why }) if name_parts(name).is_some() => {
                let why = format!("{why}. If a commit was sent before, it may have been done");
                done(Err(ApiError::MaybeCommitted { id, why }));
            }
            Err(error) => done(Err(error)),
            Ok(held) => commit(&self.runtime, id, held, None, move |committed| {
                done(match committed {
                    Ok(None) => Ok(()),
                    Ok(Some(key)) => Err(ApiError::Conflict { key }),
                    Err(error) => Err(error),
                });
            }),
        }
    }

    pub(super) fn ask_rollback(&self, name: &str) -> Result<(), ApiError> {
        match self.runtime.open_txns.forget(self.open_here(name)?) {
            true => Ok(()),
            false => Err(not_had(name, TakeTxnError::NotFound)),
        }
    }

    /// Which open transaction a name means, if it began here.
    fn open_here(&self, name: &str) -> Result<OpenId, ApiError> {
        self.may_begin()?;
        let Some((node, id)) = name_parts(name) else {
            let name: String = name.chars().take(64).collect();
            let why = format!("{name:?} is no name of a transaction");
            return Err(ApiError::NoTransaction { why });
        };
        if node == self.runtime.identity.node {
            return Ok(id);
        }
        let why = format!(
            "transaction {name} began on node {:016x}, and lives there only; this is node {:016x}",
            node.0, self.runtime.identity.node.0
        );
        Err(ApiError::NoTransaction { why })
    }

    fn may_begin(&self) -> Result<(), ApiError> {
        self.runtime.counters.commands.add(1);
        // The clock stands still until it is told the time.
        self.runtime.clock.observe();
        match self.runtime.lifecycle.is_stopping() {
            true => Err(ApiError::Stopping),
            false => Ok(()),
        }
    }

    /// Finds a keyspace, or makes it as `SELECT` would, for a transaction.
    pub(super) fn in_keyspace(
        &self,
        name: &str,
        then: impl FnOnce(Result<KeyspaceId, ApiError>) + Send + 'static,
    ) {
        let options = is_made_on_use(name).then(|| self.config.keyspace_options());
        self.in_keyspace_made(name, options, then);
    }

    /// Finds a keyspace, or makes it so, for a transaction.
    pub(super) fn in_keyspace_made(
        &self,
        name: &str,
        options: Option<KeyspaceOptions>,
        then: impl FnOnce(Result<KeyspaceId, ApiError>) + Send + 'static,
    ) {
        if let Err(error) = self.may_begin() {
            return then(Err(error));
        }
        if let Some(route) = self.runtime.routing.routes().get(name) {
            return then(match self.runtime.version.allows(Feature::Transactions) {
                true => Ok(route.keyspace.id),
                false => Err(ApiError::VersionRefused {
                    why: "transactions need a higher cluster version".into(),
                }),
            });
        }
        let Some(options) = options else {
            return then(Err(self.no_keyspace(name)));
        };
        let (this, keyspace) = (self.again(), name.to_owned());
        let callback = move |answer| match answer {
            executor::Answer::Catalogue {
                result: Ok(_) | Err(CatalogueError::Exists { .. }),
                ..
            } => this.in_keyspace_made(&keyspace, Some(options), then),
            executor::Answer::Catalogue { result: Err(error), .. } => then(Err(refused(error))),
            executor::Answer::NotDone { why, .. } => then(Err(no_catalogue(why))),
            other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
        };
        let op = CatalogueOp::Create { name, options };
        requests::change_catalogue(&self.runtime, &op, Some(Box::new(callback)));
    }
}

pub(super) fn hold(runtime: &NodeRuntime, keyspace: KeyspaceId) -> HeldTxn {
    runtime.open_txns.hold(keyspace, Box::new(InteractiveTxn::new(runtime.clock.now(), BYTES_MAX)))
}

/// The name of a transaction: it contains the id of its node.
fn name_of(runtime: &NodeRuntime, id: OpenId) -> String {
    format!("{:016x}-{id:032x}", runtime.identity.node.0)
}

/// The node of a transaction, and its id there.
fn name_parts(name: &str) -> Option<(NodeId, OpenId)> {
    let (node, id) = name.split_once('-')?;
    // Signs are no digits.
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if (node.len(), id.len()) != (16, 32) || !is_hex(node) || !is_hex(id) {
        return None;
    }
    Some((NodeId(u64::from_str_radix(node, 16).ok()?), OpenId::from_str_radix(id, 16).ok()?))
}

fn not_had(name: &str, why: TakeTxnError) -> ApiError {
    match why {
        TakeTxnError::Busy => ApiError::TransactionInUse,
        TakeTxnError::NotFound => ApiError::NoTransaction {
            why: format!(
                "transaction {name} is not open: it was committed or rolled back, no request came \
                 for so long that it has ended, or its node was started again"
            ),
        },
    }
}

impl Attempt {
    /// Reads the keys that the conditions compare.
    fn begin(self: Box<Self>) {
        let runtime = self.runtime.clone();
        runtime.clock.observe();
        let held = hold(&runtime, self.keyspace);
        let keys = self.txn.compare.iter().map(|compare| compare.key.clone());
        let ops = keys.map(|key| TxnOp::Get { key }).collect();
        let reserved_as = self.before.as_ref().and_then(|before| before.reserved_as);
        let keeps = reserved_as.map(|name| (name, self.keys_read()));
        let then = move |held, found: Result<Vec<_>, _>| match found {
            Ok(found) => self.decide(held, &found),
            Err(error) => (self.done)(Err(error)),
        };
        Run::start(&runtime, held, ops, keeps, Box::new(then));
    }

    /// The keys that it has read last, but for those that it has found in ranges.
    fn keys_read(&self) -> Vec<Bytes> {
        let ops = if self.succeeded { &self.txn.then } else { &self.txn.otherwise };
        let of_ops = ops.iter().filter_map(|op| match op {
            TxnOp::Get { key } | TxnOp::Delete { key } | TxnOp::Increment { key, .. } => {
                Some(key.clone())
            }
            TxnOp::Publish { topic, .. } => Some(topics::keys::head(topic).into()),
            TxnOp::Put { .. } | TxnOp::Range { .. } => None,
        });
        let compared = self.txn.compare.iter().map(|compare| compare.key.clone());
        compared.chain(of_ops).collect()
    }

    /// Runs the branch that the conditions select.
    fn decide(mut self: Box<Self>, held: HeldTxn, found: &[TxnResult]) {
        let mut compared = self.txn.compare.iter().zip(found);
        let succeeded = compared.all(|(compare, found)| compare.test.holds(found));
        self.succeeded = succeeded;
        let ops = if succeeded { &self.txn.then } else { &self.txn.otherwise };
        let (runtime, ops) = (self.runtime.clone(), ops.clone());
        let then = move |held, results| match results {
            Ok(results) => self.commit(held, TxnDone { succeeded, results }),
            Err(error) => self.fail(held, error),
        };
        Run::start(&runtime, held, ops, None, Box::new(then));
    }

    fn commit(self: Box<Self>, held: HeldTxn, answer: TxnDone) {
        let runtime = self.runtime.clone();
        commit(&runtime, self.id, held, self.before.clone(), move |committed| match committed {
            Ok(None) => (self.done)(Ok(answer)),
            Ok(Some(key)) => self.again(key),
            Err(error) => (self.done)(Err(error)),
        });
    }

    /// An operation was refused. The refusal holds only if all that was read existed at one moment,
    /// so this commits the reads first.
    fn fail(self: Box<Self>, mut held: HeldTxn, error: ApiError) {
        let ApiError::OperationRefused { at, why, .. } = error else {
            return (self.done)(Err(error));
        };
        let list = Some(if self.succeeded { "then" } else { "else" });
        let error = ApiError::OperationRefused { list, at, why };
        let runtime = self.runtime.clone();
        held.copy.forget_writes();
        commit(&runtime, self.id, held, self.before.clone(), move |committed| match committed {
            Ok(Some(key)) => self.again(key),
            Ok(None) => (self.done)(Err(error)),
            // Nothing is written by it, so nothing is unknown but whether it was refused rightly.
            Err(ApiError::Unknown { .. }) => (self.done)(Err(ApiError::Busy { why: NO_LEADER })),
            Err(why) => (self.done)(Err(why)),
        });
    }

    /// Runs the transaction again, after another changed what it had read. After a while leaders
    /// reserve its keys (`txn::wait_queue`); else it might conflict each time.
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

/// Commits a transaction: all writes, if nothing that it has read has changed.
pub(super) fn commit(
    runtime: &Arc<NodeRuntime>,
    id: RequestId,
    held: HeldTxn,
    before: Option<ConflictRetry>,
    done: impl FnOnce(Committed) + Send + 'static,
) {
    let transaction = held.copy.transaction();
    // One key was read at one moment.
    let is_one_look = transaction.commands.is_empty()
        && transaction.ranges.is_empty()
        && transaction.watched.len() <= 1;
    if is_one_look {
        return done(Ok(None));
    }
    if runtime.memory.is_full() && transaction.writes().any(Write::may_grow) {
        return done(Err(ApiError::OutOfMemory { bytes_max: runtime.memory.bytes_max() }));
    }
    let HeldTxn { keyspace, copy, charge } = held;
    let ended = move |ended| {
        drop(charge);
        done(match ended {
            TxnOutcome::Done(_) => Ok(None),
            TxnOutcome::Changed(key) | TxnOutcome::ChangedIn(_, key) => Ok(Some(key)),
            TxnOutcome::Busy(Some(key)) => Err(ApiError::Conflicts { key }),
            TxnOutcome::Busy(None) => Err(ApiError::Busy { why: NO_LEADER }),
            TxnOutcome::CrossShard => Err(not_done(NotDone::CrossShard, None)),
            TxnOutcome::Unknown => Err(ApiError::Unknown { id }),
            TxnOutcome::TooMuch => Err(ApiError::TransactionTooLarge {
                why: "the transaction writes more than 128 MiB in one shard, or others under way \
                      do"
                .into(),
            }),
            TxnOutcome::TooLong => Err(ApiError::TransactionTooLarge {
                why: "it reads and writes more than 514 MiB of keys and values in one shard".into(),
            }),
            TxnOutcome::NoKeyspace => Err(not_done(NotDone::NoSuchShard, None)),
            TxnOutcome::DiskFull => Err(ApiError::DiskFull),
        });
    };
    let others = Vec::new();
    let asked = Transact { keyspace, copy, others, before, done: Box::new(ended) };
    // In turn, so that one loop has not all of them.
    let number = (id.sequence % runtime.delivery.mailboxes.len() as u64) as usize;
    // Without a loop the callback is dropped: who waits hears that nobody knows.
    let _is_read = runtime.delivery.mailboxes[number].post(Mail::Transact(Box::new(asked)));
}

//! Transactions of viewers, in one request: `POST /v1/txn`.
//!
//! Conditions are looked at where their keys' shards are led, and their keys are watched: so the
//! simulated nodes judge at the moment of the commit whether what was seen still holds.

use std::collections::BTreeMap;

use api::{ApiError, Done, RequestId, Test, Txn, TxnDone, TxnOp, TxnPair, TxnResult};
use command::{ObservedVersion, Reply, integer};
use keyspace::Placement;
use sim::live::action::{self, Action, Bytes, WatchedKey};
use sim::live::{KeyView, Outcome, Simulation};
use txn::coordinator::TxnOutcome;

use super::driver::{Driver, Handle};
use super::ranges::{self, Wanted};
use super::service::{NO_LEADER, keyspace_named, may_act, not_done, refused};

/// Does a transaction.
pub fn transact(handle: &Handle, id: RequestId, txn: Txn, done: Done<TxnDone>) {
    let job = move |driver: &mut Driver| {
        let begun = may_act(driver).and_then(|()| begin(&driver.sim, txn));
        let (succeeded, action, plan) = match begun {
            Ok(begun) => begun,
            Err(error) => return done(Err(error)),
        };
        let Some(action) = action else {
            return done(Ok(TxnDone { succeeded, results: results(plan, Vec::new()) }));
        };
        match driver.sim.act(action) {
            Ok(Some(request)) => driver.wait_for(
                request,
                Box::new(move |_, outcome| done(ended(id, succeeded, plan, outcome))),
            ),
            Ok(None) => done(Err(ApiError::Busy { why: NO_LEADER })),
            Err(why) => done(Err(refused(why.to_string()))),
        }
    };
    handle.have_done(Box::new(job));
}

/// An operation as it is to be done, or what it has come to already: ranges are looked at before,
/// and watched.
enum Planned {
    Op(action::TxnOp),
    Range(Vec<TxnPair>),
}

type Begun = (bool, Option<Action>, Vec<Planned>);

/// Whether its conditions hold, and what is to be done then.
fn begin(sim: &Simulation, txn: Txn) -> Result<Begun, ApiError> {
    let Txn { keyspace: name, compare, then, otherwise } = txn;
    let keyspace = keyspace_named(sim, &name)?;
    let (mut holds, mut watched, mut watched_ranges) = (true, Vec::new(), Vec::new());
    for compare in &compare {
        holds &= is_so(sim, &name, &compare.key, &compare.test)?;
        watched.push(watch(sim, &name, &compare.key)?);
    }
    let (list, branch) = if holds { ("then", then) } else { ("else", otherwise) };
    let mut numbers = Numbers::default();
    let plan = branch.into_iter().enumerate().map(|(number, op)| {
        let refused = |why: &str| ApiError::OperationRefused {
            list: Some(list),
            at: number + 1,
            why: why.to_owned(),
        };
        numbers.note(&op);
        Ok(Planned::Op(match op {
            TxnOp::Get { key } => action::TxnOp::Get(Bytes(key.to_vec())),
            TxnOp::Put { key, value, expires_at_ms: None } => {
                action::TxnOp::Put { key: Bytes(key.to_vec()), value: Bytes(value.to_vec()) }
            }
            TxnOp::Delete { key } => action::TxnOp::Delete(Bytes(key.to_vec())),
            TxnOp::Increment { key, by } => {
                if !numbers.knows(&key) {
                    watched.push(watch(sim, &name, &key)?);
                    numbers.learn(&key, value(sim, &name, &key)?);
                }
                numbers.add(&key, by).map_err(refused)?;
                action::TxnOp::Increment { key: Bytes(key.to_vec()), by }
            }
            TxnOp::Range { .. } if keyspace.options.placement != Placement::Ordered => {
                let why = "only ordered keyspaces have ranges, and this one is not";
                return Err(refused(why));
            }
            TxnOp::Range { from, to, limit, reverse } => {
                let wanted = Wanted { from: from.as_deref(), to: to.as_deref(), limit, reverse };
                let found = ranges::look(sim, &keyspace, &wanted, numbers.changed())?;
                for key in &found.stored {
                    watched.push(watch(sim, &name, key)?);
                }
                watched_ranges.push(found.range);
                return Ok(Planned::Range(found.pairs));
            }
            TxnOp::Put { .. } | TxnOp::Publish { .. } => {
                return Err(refused("expiry and topics are not simulated in transactions"));
            }
        }))
    });
    let plan = plan.collect::<Result<Vec<_>, ApiError>>()?;
    let op = |planned: &Planned| match planned {
        Planned::Op(op) => Some(op.clone()),
        Planned::Range(_) => None,
    };
    let ops: Vec<_> = plan.iter().filter_map(op).collect();
    // What only looks has looked at one moment.
    let action = (!ops.is_empty()).then_some(Action::Txn {
        keyspace: Some(name),
        watched,
        ranges: watched_ranges,
        ops,
    });
    Ok((holds, action, plan))
}

/// What keys have at a place in a transaction, as far as it adds to them: nothing is done if it
/// cannot.
#[derive(Default)]
struct Numbers(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Numbers {
    fn note(&mut self, op: &TxnOp) {
        match op {
            TxnOp::Put { key, value, .. } => self.learn(key, Some(value.to_vec())),
            TxnOp::Delete { key } => self.learn(key, None),
            TxnOp::Get { .. }
            | TxnOp::Increment { .. }
            | TxnOp::Range { .. }
            | TxnOp::Publish { .. } => {}
        }
    }

    /// Keys that the transaction has changed so far, or looked at, and what they have now.
    fn changed(&self) -> &BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        &self.0
    }

    fn knows(&self, key: &[u8]) -> bool {
        self.0.contains_key(key)
    }

    fn learn(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.0.insert(key.to_vec(), value);
    }

    fn add(&mut self, key: &[u8], by: i64) -> Result<(), &'static str> {
        let before = match self.0.get(key).and_then(Option::as_ref) {
            Some(value) => integer::parse(value)
                .ok_or("it adds to a value that is no whole number of 64 bits")?,
            None => 0,
        };
        let sum = before.checked_add(by).ok_or("the sum would leave 64 bits")?;
        self.learn(key, Some(sum.to_string().into_bytes()));
        Ok(())
    }
}

/// That a key is to stay as it is.
fn watch(sim: &Simulation, keyspace: &str, key: &[u8]) -> Result<WatchedKey, ApiError> {
    let seen = sim.version(keyspace, key);
    let (at, absent) = match seen.ok_or(ApiError::Busy { why: NO_LEADER })? {
        ObservedVersion::Version(at) => (at, false),
        ObservedVersion::Absent(at) => (at, true),
    };
    Ok(WatchedKey { key: Bytes(key.to_vec()), version: at.0.to_string(), absent })
}

fn value(sim: &Simulation, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>, ApiError> {
    match sim.key(keyspace, key, None) {
        KeyView::Value(version) => Ok(Some(version.value)),
        KeyView::NoLeader => Err(ApiError::Busy { why: NO_LEADER }),
        KeyView::Nil | KeyView::NilYet | KeyView::TooOld(_) => Ok(None),
    }
}

fn is_so(sim: &Simulation, keyspace: &str, key: &[u8], test: &Test) -> Result<bool, ApiError> {
    let found = match sim.key(keyspace, key, None) {
        KeyView::Value(version) => {
            let at = Some(version.timestamp);
            TxnResult::Value { value: version.value.into(), version: at }
        }
        KeyView::NoLeader => return Err(ApiError::Busy { why: NO_LEADER }),
        KeyView::Nil | KeyView::NilYet | KeyView::TooOld(_) => TxnResult::Nil,
    };
    Ok(test.holds(&found))
}

/// What the operations have come to, with the replies to those that were done.
fn results(plan: Vec<Planned>, replies: Vec<Reply>) -> Vec<TxnResult> {
    let mut replies = replies.into_iter();
    let result = |planned| match planned {
        Planned::Range(pairs) => TxnResult::Range(pairs),
        Planned::Op(op) => match (op, replies.next()) {
            (action::TxnOp::Get(_), Some(Reply::Bulk(value))) => {
                TxnResult::Value { value: value.to_vec().into(), version: None }
            }
            (action::TxnOp::Get(_), _) => TxnResult::Nil,
            (action::TxnOp::Put { .. }, _) => TxnResult::Put,
            (action::TxnOp::Delete(_), Some(Reply::Int(count))) => TxnResult::Deleted(count > 0),
            (action::TxnOp::Delete(_), _) => TxnResult::Deleted(false),
            (action::TxnOp::Increment { .. }, Some(Reply::Int(sum))) => TxnResult::Number(sum),
            // It was looked at before, and its key is watched.
            (action::TxnOp::Increment { .. }, _) => TxnResult::Nil,
        },
    };
    plan.into_iter().map(result).collect()
}

fn ended(
    id: RequestId,
    succeeded: bool,
    plan: Vec<Planned>,
    outcome: Outcome,
) -> Result<TxnDone, ApiError> {
    let first = || {
        let keys = plan.iter().find_map(|planned| match planned {
            Planned::Op(op) => Some(op.key().into()),
            Planned::Range(_) => None,
        });
        keys.unwrap_or_default()
    };
    match outcome {
        Outcome::Txn(TxnOutcome::Done(replies)) => {
            Ok(TxnDone { succeeded, results: results(plan, replies) })
        }
        Outcome::Txn(TxnOutcome::Changed(key) | TxnOutcome::ChangedIn(_, key)) => {
            Err(ApiError::Conflicts { key })
        }
        Outcome::Txn(TxnOutcome::Busy(key)) => {
            Err(ApiError::Conflicts { key: key.unwrap_or_else(first) })
        }
        Outcome::Txn(TxnOutcome::DiskFull) => Err(ApiError::DiskFull),
        Outcome::Txn(TxnOutcome::NoKeyspace) => Err(ApiError::KeyspaceDropped),
        Outcome::Txn(TxnOutcome::TooMuch | TxnOutcome::TooLong | TxnOutcome::CrossShard) => {
            Err(ApiError::TransactionTooLarge { why: "a shard accepts less at a time".to_owned() })
        }
        Outcome::NotDone(why) => Err(not_done(why, Some(id))),
        _ => Err(ApiError::Unknown { id }),
    }
}

//! Transactions of viewers, in one request: `POST /v1/txn`.
//!
//! Conditions are looked at where their keys' shards are led, and their keys are watched: so the
//! simulated nodes judge at the moment of the commit whether what was seen still holds.

use api::{ApiError, Done, RequestId, Test, Txn, TxnDone, TxnOp, TxnResult};
use command::{ObservedVersion, Reply};
use sim::live::action::{self, Action, Bytes, WatchedKey};
use sim::live::{KeyView, Outcome, Simulation};
use txn::coordinator::TxnOutcome;

use super::driver::{Driver, Handle};
use super::service::{NO_LEADER, keyspace_named, may_act, not_done, refused};

/// Does a transaction.
pub fn transact(handle: &Handle, id: RequestId, txn: Txn, done: Done<TxnDone>) {
    let job = move |driver: &mut Driver| {
        let begun = may_act(driver).and_then(|()| begin(&driver.sim, txn));
        let (succeeded, action, ops) = match begun {
            Ok(begun) => begun,
            Err(error) => return done(Err(error)),
        };
        let Some(action) = action else {
            return done(Ok(TxnDone { succeeded, results: Vec::new() }));
        };
        match driver.sim.act(action) {
            Ok(Some(request)) => driver.wait_for(
                request,
                Box::new(move |_, outcome| done(ended(id, succeeded, &ops, outcome))),
            ),
            Ok(None) => done(Err(ApiError::Busy { why: NO_LEADER })),
            Err(why) => done(Err(refused(why.to_string()))),
        }
    };
    handle.have_done(Box::new(job));
}

type Begun = (bool, Option<Action>, Vec<action::TxnOp>);

/// Whether its conditions hold, and what is to be done then.
fn begin(sim: &Simulation, txn: Txn) -> Result<Begun, ApiError> {
    let Txn { keyspace, compare, then, otherwise } = txn;
    keyspace_named(sim, &keyspace)?;
    let (mut holds, mut watched) = (true, Vec::new());
    for compare in &compare {
        holds &= is_so(sim, &keyspace, &compare.key, &compare.test)?;
        let seen = sim.version(&keyspace, &compare.key);
        let (at, absent) = match seen.ok_or(ApiError::Busy { why: NO_LEADER })? {
            ObservedVersion::Version(at) => (at, false),
            ObservedVersion::Absent(at) => (at, true),
        };
        let (key, version) = (Bytes(compare.key.to_vec()), at.0.to_string());
        watched.push(WatchedKey { key, version, absent });
    }
    let (list, branch) = if holds { ("then", then) } else { ("else", otherwise) };
    let ops = branch.into_iter().enumerate().map(|(number, op)| {
        let why = "ranges, sums and expiry are not simulated in transactions".to_owned();
        let refused = ApiError::OperationRefused { list: Some(list), at: number + 1, why };
        Ok(match op {
            TxnOp::Get { key } => action::TxnOp::Get(Bytes(key.to_vec())),
            TxnOp::Put { key, value, expires_at_ms: None } => {
                action::TxnOp::Put { key: Bytes(key.to_vec()), value: Bytes(value.to_vec()) }
            }
            TxnOp::Delete { key } => action::TxnOp::Delete(Bytes(key.to_vec())),
            TxnOp::Put { .. } | TxnOp::Increment { .. } | TxnOp::Range { .. } => {
                return Err(refused);
            }
        })
    });
    let ops = ops.collect::<Result<Vec<_>, ApiError>>()?;
    let action = (!ops.is_empty()).then(|| Action::Txn {
        keyspace: Some(keyspace),
        watched,
        ops: ops.clone(),
    });
    Ok((holds, action, ops))
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

fn ended(
    id: RequestId,
    succeeded: bool,
    ops: &[action::TxnOp],
    outcome: Outcome,
) -> Result<TxnDone, ApiError> {
    let first = || ops.first().map(|op| op.key().into()).unwrap_or_default();
    match outcome {
        Outcome::Txn(TxnOutcome::Done(replies)) => {
            let result = |(op, reply): (&action::TxnOp, Reply)| match (op, reply) {
                (action::TxnOp::Get(_), Reply::Bulk(value)) => {
                    TxnResult::Value { value: value.to_vec().into(), version: None }
                }
                (action::TxnOp::Get(_), _) => TxnResult::Nil,
                (action::TxnOp::Put { .. }, _) => TxnResult::Put,
                (action::TxnOp::Delete(_), Reply::Int(count)) => TxnResult::Deleted(count > 0),
                (action::TxnOp::Delete(_), _) => TxnResult::Deleted(false),
            };
            let results = ops.iter().zip(replies).map(result).collect();
            Ok(TxnDone { succeeded, results })
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

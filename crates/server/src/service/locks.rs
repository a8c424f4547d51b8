//! Locks with fencing tokens: keys of the keyspace [`LOCKS`], which is made when it is first used.

use std::ops::Bound;

use bytes::Bytes;
use keyspace::{KeyspaceId, KeyspaceOptions};
use topics::keys::{LOCKS, check_lock_name};
use topics::lock;
use topics::record::{LockRecord, Record};

use super::NodeApi;
use super::drafts::{Program, found, refused, run};
use super::keys::end_of;
use super::txn::hold;
use super::txn::run::Run;
use api::{ApiError, Done, Durability, LockInfo, LockSpec, RequestId, TxnOp, TxnResult};

fn info(name: &str, held: LockRecord) -> LockInfo {
    let LockRecord { token, until_ms, owner } = held;
    LockInfo { name: name.to_owned(), owner, token: token.to_string(), ends_at_ms: until_ms }
}

impl NodeApi {
    fn with_locks<T: Send + 'static>(
        &self,
        done: Done<T>,
        then: impl FnOnce(Self, KeyspaceId, Done<T>) + Send + 'static,
    ) {
        let replicas = self.config.replicas_at(Durability::Sync);
        let options = KeyspaceOptions {
            placement: keyspace::Placement::Ordered,
            durability: keyspace::Durability::Sync,
            replicas,
            ..self.config.keyspace_options()
        };
        let this = self.again();
        self.in_keyspace_made(LOCKS, Some(options), move |keyspace| match keyspace {
            Ok(keyspace) => then(this, keyspace, done),
            Err(error) => done(Err(error)),
        });
    }

    fn run_lock<T: Send + 'static>(&self, id: RequestId, program: Program<T>, done: Done<T>) {
        self.with_locks(done, move |this, keyspace, done| {
            run(&this.runtime, keyspace, id, program, done);
        });
    }

    pub(super) fn acquire_lock(
        &self,
        id: RequestId,
        name: &str,
        spec: LockSpec,
        done: Done<LockInfo>,
    ) {
        let LockSpec { owner, ttl_ms } = spec;
        let owner = match owner {
            Some(owner) => owner,
            None => match crate::peer::draw().map(u128::from_le_bytes) {
                Ok(drawn) => format!("{drawn:032x}"),
                Err(error) => {
                    tracing::error!(%error, "no owner can be drawn for a lock");
                    return done(Err(ApiError::StorageFailed));
                }
            },
        };
        let (this, name) = (self.again(), name.to_owned());
        let (owned, named) = (owner.clone(), name.clone());
        let then = move |taken: Result<LockRecord, _>| match taken {
            Err(error) => done(Err(error)),
            Ok(held) if held.token > 0 => done(Ok(info(&name, held))),
            // The token of a new holder is the version that its record has got.
            Ok(_) => this.find_lock(&name.clone(), move |found| {
                done(found.and_then(|held| match held {
                    Some(held) if held.owner == owner => Ok(info(&name, held)),
                    _ => Err(ApiError::LockLost {
                        why: format!("the lease of lock {name:?} ended before it was told"),
                    }),
                }));
            }),
        };
        let program: Program<LockRecord> =
            Box::new(move |draft| lock::acquire(draft, &named, &owned, ttl_ms));
        self.run_lock(id, program, Box::new(then));
    }

    fn find_lock(
        &self,
        name: &str,
        then: impl FnOnce(Result<Option<LockRecord>, ApiError>) + Send + 'static,
    ) {
        let name = name.to_owned();
        let program: Program<_> = Box::new(move |draft| lock::show(draft, &name));
        // It writes nothing, so its name is not asked for.
        let id = RequestId { incarnation: 0, sequence: 0 };
        self.run_lock(id, program, Box::new(then));
    }

    pub(super) fn show_lock(&self, name: &str, done: Done<Option<LockInfo>>) {
        let named = name.to_owned();
        self.find_lock(name, move |found| {
            done(found.map(|held| held.map(|held| info(&named, held))));
        });
    }

    pub(super) fn renew_lock(
        &self,
        id: RequestId,
        name: &str,
        token: u64,
        ttl_ms: u64,
        done: Done<LockInfo>,
    ) {
        let named = name.to_owned();
        let program: Program<_> = Box::new(move |draft| {
            let held = lock::renew(draft, &named, token, ttl_ms)?;
            Ok(info(&named, held))
        });
        self.run_lock(id, program, done);
    }

    pub(super) fn release_lock(&self, id: RequestId, name: &str, token: u64, done: Done<()>) {
        let name = name.to_owned();
        self.run_lock(id, Box::new(move |draft| lock::release(draft, &name, token)), done);
    }

    pub(super) fn list_locks(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        done: Done<Vec<LockInfo>>,
    ) {
        for name in [Some(prefix).filter(|prefix| !prefix.is_empty()), after].into_iter().flatten()
        {
            if let Err(refusal) = check_lock_name("lock", name) {
                return done(Err(refused(refusal, 0)));
            }
        }
        // The name behind `after` is that with a zero byte.
        let after = after.map(|after| format!("{after}\0"));
        let from = after.filter(|after| after.as_str() > prefix).unwrap_or(prefix.to_owned());
        let to = match end_of(prefix.as_bytes()) {
            Bound::Excluded(end) => Some(Bytes::from(Vec::from(end))),
            Bound::Included(_) | Bound::Unbounded => None,
        };
        let range =
            TxnOp::Range { from: Some(Bytes::from(from.into_bytes())), to, limit, reverse: false };
        self.with_locks(done, move |this, keyspace, done| {
            let then = move |_held, results: Result<Vec<TxnResult>, ApiError>| {
                done(results.map(|results| {
                    let pairs = results.into_iter().flat_map(|result| match result {
                        TxnResult::Range(pairs) => pairs,
                        _ => Vec::new(),
                    });
                    // Others may have put keys there, which are no locks.
                    let locks = pairs.filter_map(|pair| {
                        let name = std::str::from_utf8(&pair.key).ok()?;
                        let version = pair.version;
                        let seen = found(TxnResult::Value { value: pair.value, version })?;
                        let held = LockRecord::decode(&seen.value).ok()?;
                        Some(info(name, lock::with_token(held, seen.version)))
                    });
                    locks.collect()
                }));
            };
            let held = hold(&this.runtime, keyspace);
            Run::start(&this.runtime, held, vec![range], None, Box::new(then));
        });
    }
}

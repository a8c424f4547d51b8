//! How many bytes of old versions may snapshots hold on this node (SAFETY G21)?
//!
//! ```text
//!   maintenance measures ──► more than `snapshot_bytes_max` ──► which leases are there?
//!        ▲                                                            │ the oldest that holds any
//!        └── safe points rise, versions go ◄── the system shard ends it, named in the log
//! ```
//!
//! Neither age nor memory passes a lease, so without a bound one forgotten snapshot would take all
//! memory. A lease that has ended shows: its reads fail, and so does its renewal. Nodes judge by
//! themselves. If two of them find the same lease the second finds it ended.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | old versions that only leases hold here | `snapshot_bytes_max` | the oldest lease ends |
//! | leases that this node has ended | one in `PAUSE` | the next waits: what the last one held must go first |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keyspace::text::rounded_size;
use keyspace::{CatalogueOp, Feature, KeyspaceId, Lease, LeaseOp, ShardId, Timestamp};
use node::executor::{Answer, Input};
use node::routing::fetch::{FetchRequest, FetchResult};

use super::{API, NodeRuntime, boot_nanos, requests};

/// The shard with the leases.
const SYSTEM: ShardId = ShardId(0);
/// How long this node waits before it looks for another lease to end.
const PAUSE: Duration = Duration::from_secs(3);

/// What would go in a keyspace if there were no leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldVersions {
    /// How high it would rise.
    pub aged: Timestamp,
    /// Bytes of versions that would go here.
    pub bytes: u64,
}

/// By keyspace.
pub type Held = BTreeMap<KeyspaceId, HeldVersions>;

/// See the front page of this module.
#[derive(Debug)]
pub struct LeaseBudget {
    bytes_max: u64,
    /// By the boot clock.
    rests_until: AtomicU64,
}

impl LeaseBudget {
    /// Of a node where leases may hold so much.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, rests_until: AtomicU64::new(0) }
    }

    /// Maintenance has measured this: whether a lease should end, if one holds it.
    fn is_spent(&self, held: &Held, now: u64) -> bool {
        let bytes: u64 = held.values().map(|one| one.bytes).sum();
        if bytes <= self.bytes_max || now < self.rests_until.load(Ordering::Relaxed) {
            return false;
        }
        self.rests_until.store(now + PAUSE.as_nanos() as u64, Ordering::Relaxed);
        true
    }
}

/// The oldest lease that holds versions here.
fn oldest_holder<'l>(leases: &'l [Lease], held: &Held) -> Option<&'l Lease> {
    let holds = |lease: &&Lease| {
        lease
            .keyspaces
            .iter()
            .filter_map(|id| held.get(id))
            .any(|one| one.bytes > 0 && lease.at < one.aged)
    };
    leases.iter().filter(holds).min_by_key(|lease| (lease.at, lease.id))
}

/// Ends the oldest lease if leases hold too much here.
pub fn enforce(runtime: &Arc<NodeRuntime>, held: Held) {
    let is_spent = runtime.lease_budget.is_spent(&held, boot_nanos());
    if !is_spent || !runtime.version.allows(Feature::Snapshots) {
        return;
    }
    let again = runtime.clone();
    let waiter = runtime.delivery.waiters.wait(Box::new(move |answer| {
        let Answer::Fetched { found, .. } = answer else { return };
        let FetchResult::SafePoints(found) = *found else { return };
        if let Some(lease) = oldest_holder(&found.leases, &held) {
            end(&again, lease.clone(), &held);
        }
    }));
    let (want, bytes_max, origin) = (Box::new(FetchRequest::SafePoints), usize::MAX, API);
    runtime.submit(SYSTEM, Input::Fetch { shard: SYSTEM, want, bytes_max, origin, waiter });
}

fn end(runtime: &Arc<NodeRuntime>, lease: Lease, held: &Held) {
    let bytes: u64 = held.values().map(|one| one.bytes).sum();
    let bytes_max = runtime.lease_budget.bytes_max;
    let op = CatalogueOp::Lease(LeaseOp::End { id: lease.id });
    let again = runtime.clone();
    let ended = move |answer| {
        let Answer::Catalogue { result: Ok(_), .. } = answer else { return };
        let routes = again.routing.routes();
        let name = |id: &KeyspaceId| routes.by_id(*id).map(|r| r.keyspace.name.to_string());
        let names: Vec<String> = lease.keyspaces.iter().filter_map(name).collect();
        tracing::warn!(
            "snapshot {} of {} ms, of keyspace {}, was ended: snapshots hold {} of old versions \
             here, and may hold {} (snapshot_bytes_max). Reads at its time fail from now on",
            lease.id,
            lease.at.millis(),
            names.join(", "),
            rounded_size(bytes),
            rounded_size(bytes_max),
        );
    };
    requests::change_catalogue(runtime, &op, Some(Box::new(ended)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyspaceId = KeyspaceId(1);
    const B: KeyspaceId = KeyspaceId(2);

    fn ms(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn held(a: u64, b: u64) -> Held {
        let of = |bytes| HeldVersions { aged: ms(100), bytes };
        Held::from([(A, of(a)), (B, of(b))])
    }

    #[test]
    fn oldest_lease_that_holds_anything_ends() {
        let lease = |id, at, keyspaces: &[KeyspaceId]| Lease {
            id,
            request: id,
            kind: keyspace::LeaseKind::Pin,
            keyspaces: keyspaces.to_vec(),
            at: ms(at),
            end_ms: 1_000,
        };
        let leases = [lease(1, 60, &[A, B]), lease(2, 50, &[B]), lease(3, 100, &[A])];
        let oldest = |a, b| oldest_holder(&leases, &held(a, b)).map(|lease| lease.id);
        assert_eq!(oldest(1, 1), Some(2));
        assert_eq!(oldest(1, 0), Some(1), "the other keyspace has nothing old");
        assert_eq!(oldest(0, 0), None);
        let young = [lease(4, 100, &[A, B])];
        assert_eq!(oldest_holder(&young, &held(9, 9)), None, "age frees nothing above it");
    }

    #[test]
    fn budget_is_of_all_keyspaces_and_leases_end_one_at_a_time() {
        let budget = LeaseBudget::new(10);
        assert!(!budget.is_spent(&held(5, 5), 1));
        assert!(budget.is_spent(&held(5, 6), 2));
        let pause = PAUSE.as_nanos() as u64;
        assert!(!budget.is_spent(&held(50, 6), 1 + pause));
        assert!(budget.is_spent(&held(50, 6), 2 + pause));
    }
}

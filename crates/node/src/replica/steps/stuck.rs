//! Locks and records that stay, and whose coordinator may be gone: they are told to the driver,
//! which has somebody finish the transaction ([`crate::coordinator`]).
//!
//! | whose node | is told |
//! |---|---|
//! | is linked | what has stayed for [`STUCK_NANOS`], found by looks as far apart |
//! | was, and is not | what is there [`ORPHAN_NANOS`] after the link was lost, or later |
//! | is again | what has stayed for [`ORPHAN_NANOS`] since it was first seen after the loss |
//!
//! A node that lives asks again for all that it has under way as soon as it is linked. Whoever
//! follows looks as well, and tells when it has come to lead. Who is told too early loses nothing
//! but an attempt: whoever sees to a transaction, it ends as its record and its locks say.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::KeyspaceId;
use replication::BootNanos;

use crate::executor::{Effects, Turn};
use crate::locks::{Locks, TxnId};
use crate::replica::Shard;

/// Who holds a lock for so long is taken to be gone.
pub const STUCK_NANOS: u64 = 1_000_000_000;
/// The same of a node whose link is lost: mostly there is another by then if it is alive.
const ORPHAN_NANOS: u64 = 300_000_000;
/// So far apart are looks for locks of such nodes.
const ORPHANS_EVERY_NANOS: u64 = 100_000_000;

/// A transaction that somebody must finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Of which keyspace.
    pub keyspace: KeyspaceId,
    /// Which.
    pub id: TxnId,
    /// The key of its record.
    pub record: Box<[u8]>,
    /// Keys of the shard that it has locked, some maybe twice; none if only its record is there.
    pub keys: Vec<Box<[u8]>>,
}

/// What was seen so far.
#[derive(Default)]
pub(super) struct Lookout {
    looked_at: BootNanos,
    /// Locks and records that were there then.
    seen: BTreeSet<(TxnId, Option<Box<[u8]>>)>,
    orphans_looked_at: BootNanos,
    /// Since when those are known which nodes have left whose links were lost, and when they were
    /// last told.
    orphans: BTreeMap<TxnId, (BootNanos, Option<BootNanos>)>,
    /// The term in which it led then, or 0.
    led: u64,
}

/// All that somebody has to see to: whose, the key of its record, and the key that is locked.
fn held(locks: &Locks) -> impl Iterator<Item = (TxnId, &[u8], Option<&[u8]>)> {
    let records = locks.unfinished().map(|(id, key, _)| (id, &**key, None));
    records.chain(locks.iter().map(|(key, lock)| (lock.id, &*lock.record, Some(key))))
}

impl Shard {
    /// In a turn: tells of transactions whose locks have stayed too long, if it leads.
    pub(super) fn look_for_stuck(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        if !self.steps.is_busy {
            return;
        }
        let mut told = BTreeMap::new();
        if self.steps.lookout.looked_at.saturating_add(STUCK_NANOS) <= turn.now {
            self.look_at_all(turn.now, &mut told);
        }
        let led = if self.leads() { self.leading.opened_term } else { 0 };
        let lookout = &self.steps.lookout;
        let is_due = lookout.orphans_looked_at.saturating_add(ORPHANS_EVERY_NANOS) <= turn.now;
        if turn.losses.is_empty() {
            self.steps.lookout.orphans.clear();
        } else if is_due || led != lookout.led {
            self.look_for_orphans(turn, led > 0, &mut told);
        }
        self.steps.lookout.led = led;
        if led > 0 {
            effects.stuck.extend(told.into_values());
        }
    }

    fn look_at_all(&mut self, now: BootNanos, told: &mut BTreeMap<TxnId, Stuck>) {
        let state = self.state.read();
        let keyspace = state.descriptor.keyspace();
        let Lookout { looked_at, seen: before, .. } = &mut self.steps.lookout;
        let mut seen = BTreeSet::new();
        for (id, record, key) in held(&state.locks) {
            let place = (id, key.map(Box::from));
            if before.contains(&place) {
                tell(told, keyspace, (id, record, key));
            }
            seen.insert(place);
        }
        (*looked_at, *before) = (now, seen);
    }

    fn look_for_orphans(
        &mut self,
        turn: &Turn<'_>,
        leads: bool,
        told: &mut BTreeMap<TxnId, Stuck>,
    ) {
        let state = self.state.read();
        let keyspace = state.descriptor.keyspace();
        let Lookout { orphans_looked_at, orphans: before, .. } = &mut self.steps.lookout;
        let mut orphans = BTreeMap::new();
        for (id, record, key) in held(&state.locks) {
            let Some(loss) = turn.losses.of(id) else { continue };
            let (known, told_at) = before.get(&id).copied().unwrap_or((turn.now, None));
            let since = if loss.is_over() { known } else { loss.at };
            // Whoever has begun to finish it may need a while: others' shards may have no leader.
            let is_to_be_told = leads
                && since.saturating_add(ORPHAN_NANOS) <= turn.now
                && told_at.is_none_or(|at| at.saturating_add(STUCK_NANOS) <= turn.now);
            if is_to_be_told {
                tell(told, keyspace, (id, record, key));
            }
            orphans.insert(id, (known, if is_to_be_told { Some(turn.now) } else { told_at }));
        }
        (*orphans_looked_at, *before) = (turn.now, orphans);
    }
}

fn tell(
    told: &mut BTreeMap<TxnId, Stuck>,
    keyspace: KeyspaceId,
    (id, record, key): (TxnId, &[u8], Option<&[u8]>),
) {
    let (record, keys) = (record.into(), Vec::new());
    let stuck = told.entry(id).or_insert(Stuck { keyspace, id, record, keys });
    stuck.keys.extend(key.map(Box::from));
}

//! Which transactions have made no progress for so long that their coordinator may be dead? A
//! shard's leader inspects its locks and records, and has another coordinator finish the abandoned
//! ones ([`crate::coordinator`]).
//!
//! | link to the node that began it | the lock or record counts as abandoned |
//! |---|---|
//! | is up | if it has stayed for [`ABANDONED_NANOS`]; inspections are as far apart |
//! | was up, and is lost | if it is there `ORPHAN_NANOS` after the link was lost, or later |
//! | is up again | if it has stayed for `ORPHAN_NANOS` since it was first seen after the loss |
//!
//! A live node repeats all its pending steps as soon as it is linked again. A follower inspects as
//! well, and reports when it has become leader. A report that comes too early costs an attempt and
//! nothing else: whichever coordinator finishes a transaction, its record and its locks determine
//! the outcome.

mod losses;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use keyspace::{BootNanos, KeyspaceId};

use crate::locks::{Locks, TxnId};

pub use losses::{LinkLoss, LinkLosses};

/// A transaction whose lock stays for this time counts as abandoned.
pub const ABANDONED_NANOS: BootNanos = 1_000_000_000;
/// The same for a node whose link is lost: if it is alive, there mostly is a new link by then.
const ORPHAN_NANOS: BootNanos = 300_000_000;
/// Time between inspections for locks of such nodes.
const ORPHANS_EVERY_NANOS: BootNanos = 100_000_000;

/// A transaction that another coordinator must finish
/// ([`Coordinator::finish`](crate::coordinator::Coordinator::finish)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedTxn {
    /// Its keyspace.
    pub keyspace: KeyspaceId,
    /// Its id.
    pub id: TxnId,
    /// The name of its record's key.
    pub record: Box<[u8]>,
    /// Names of keys that it has locked in the shard, some maybe twice; empty if only its record is
    /// there.
    pub keys: Vec<Box<[u8]>>,
}

/// What one replica has seen in its inspections so far.
#[derive(Default)]
pub struct AbandonedLocks {
    inspected_at: BootNanos,
    /// Locks and records that were there then.
    seen: BTreeSet<(TxnId, Option<Box<[u8]>>)>,
    orphans_inspected_at: BootNanos,
    /// Transactions of nodes whose links were lost.
    orphans: BTreeMap<TxnId, Orphan>,
    /// The term in which the replica led then, or 0.
    term: u64,
}

#[derive(Clone, Copy)]
struct Orphan {
    /// Since when it is known.
    since: BootNanos,
    /// When it was last reported, if it was.
    reported_at: Option<BootNanos>,
}

/// The circumstances in which a replica inspects its locks.
#[derive(Clone, Copy)]
pub struct Inspection<'l> {
    /// By the node's boot clock.
    pub now: BootNanos,
    /// The term in which the replica leads, or 0: only a leader reports.
    pub term: u64,
    /// Which links were lost.
    pub losses: &'l LinkLosses,
}

/// Transactions to be reported, of one keyspace.
struct Report {
    keyspace: KeyspaceId,
    found: BTreeMap<TxnId, AbandonedTxn>,
}

impl AbandonedLocks {
    /// Whether an inspection is due.
    pub fn is_due(&self, at: Inspection<'_>) -> bool {
        let is_stale = at.losses.is_empty() && !self.orphans.is_empty();
        is_stale || at.term != self.term || self.all_are_due(at) || self.orphans_are_due(at)
    }

    fn all_are_due(&self, at: Inspection<'_>) -> bool {
        self.inspected_at.saturating_add(ABANDONED_NANOS) <= at.now
    }

    fn orphans_are_due(&self, at: Inspection<'_>) -> bool {
        let is_time = self.orphans_inspected_at.saturating_add(ORPHANS_EVERY_NANOS) <= at.now;
        !at.losses.is_empty() && (is_time || at.term != self.term)
    }

    /// Inspects locks and records; returns the abandoned transactions if the replica leads.
    pub fn inspect(
        &mut self,
        locks: &Locks,
        keyspace: KeyspaceId,
        at: Inspection<'_>,
    ) -> impl Iterator<Item = AbandonedTxn> + use<> {
        let mut report = Report { keyspace, found: BTreeMap::new() };
        if self.all_are_due(at) {
            self.inspect_all(locks, at.now, &mut report);
        }
        if at.losses.is_empty() {
            self.orphans.clear();
        } else if self.orphans_are_due(at) {
            self.inspect_orphans(locks, at, &mut report);
        }
        self.term = at.term;
        let leads = at.term > 0;
        report.found.into_values().filter(move |_| leads)
    }

    fn inspect_all(&mut self, locks: &Locks, now: BootNanos, report: &mut Report) {
        let mut seen = BTreeSet::new();
        for (id, record, key) in held(locks, report.keyspace) {
            let place = (id, key.map(Box::from));
            if self.seen.contains(&place) {
                report.add(id, &record, key);
            }
            seen.insert(place);
        }
        (self.inspected_at, self.seen) = (now, seen);
    }

    fn inspect_orphans(&mut self, locks: &Locks, at: Inspection<'_>, report: &mut Report) {
        let Inspection { now, term, losses } = at;
        let mut orphans = BTreeMap::new();
        for (id, record, key) in held(locks, report.keyspace) {
            let Some(loss) = losses.of(id) else { continue };
            let new = Orphan { since: now, reported_at: None };
            let Orphan { since, reported_at } = self.orphans.get(&id).copied().unwrap_or(new);
            let stays_since = if loss.is_over() { since } else { loss.at };
            // A coordinator that has begun to finish it may need a while: other shards may have no
            // leader.
            let is_abandoned = term > 0
                && stays_since.saturating_add(ORPHAN_NANOS) <= now
                && reported_at.is_none_or(|at| at.saturating_add(ABANDONED_NANOS) <= now);
            if is_abandoned {
                report.add(id, &record, key);
            }
            let reported_at = if is_abandoned { Some(now) } else { reported_at };
            orphans.insert(id, Orphan { since, reported_at });
        }
        (self.orphans_inspected_at, self.orphans) = (now, orphans);
    }
}

impl Report {
    fn add(&mut self, id: TxnId, record: &[u8], key: Option<&[u8]>) {
        let keyspace = self.keyspace;
        let new = || AbandonedTxn { keyspace, id, record: record.into(), keys: Vec::new() };
        let abandoned = self.found.entry(id).or_insert_with(new);
        abandoned.keys.extend(key.map(|key| Box::from(id.name_of(keyspace, key))));
    }
}

/// All that somebody has to see to: whose, the name of its record's key, and the key that is
/// locked.
fn held(
    locks: &Locks,
    keyspace: KeyspaceId,
) -> impl Iterator<Item = (TxnId, Cow<'_, [u8]>, Option<&[u8]>)> {
    let records = locks.unfinished();
    let records = records.map(move |(id, key, _)| (id, id.name_of(keyspace, key), None));
    let locked = locks.iter();
    records.chain(locked.map(|(key, lock)| (lock.id, Cow::from(&*lock.record), Some(key))))
}

//! Leases on past times: which old versions stay, though their keyspace's retention is over?
//!
//! The system shard holds leases beside the safe points (SAFETY G14). While a lease lives, all that
//! was visible at its time can be read. It ends by itself. The leader's clock decides when, as the
//! timestamp of an entry, so all replicas judge alike. There are two kinds.
//!
//! - A *pin* (SAFETY G21), for snapshots: its time stays readable. The safe point goes on, and of
//!   each key one version stays for it.
//! - A *hold*, for feeds that are behind: the safe point stays at or below its time, so that all
//!   versions since then are there.
//!
//! ```text
//!   hold at 100, pin at 50, for 60 s each
//!   raise the safe point to 250 ─► it rises to 100, and no further; shards keep the pin at 50
//!   renew, release                 by id
//!   an entry at its end or later ─► the lease has ended: the safe point may rise, the pin goes
//! ```
//!
//! A lease is opened at or above the safe point. A pin may be opened where another one is, too:
//! what it wants is there.
//!
//! # Bytes
//!
//! | thing | form |
//! |---|---|
//! | op 9 of the catalogue | `u8`: 1 open a hold: request u64, count `varint`, keyspace ids `varint` each, rising, time u64, duration in ms `varint`; 4 open a pin: likewise; 2 renew: id `varint`, duration in ms `varint`; 3 end: id `varint` |
//! | lease | id `varint`, request u64, a byte 0 if it is a pin, count `varint`, keyspace ids `varint` each, rising, time u64, end in ms since 1970 `varint` |
//! | all | next id `varint`, count `varint`, leases by rising id |

use std::collections::BTreeMap;

use crate::catalogue::{CatalogueError, KEYSPACES_MAX};
use crate::codec::{DecodeError, Reader, put_varint};
use crate::ids::KeyspaceId;
use crate::timestamp::Timestamp;

/// The most leases that there may be at one time.
pub const LEASES_MAX: usize = 256;
/// How long a lease lasts by default: ten minutes.
pub const LEASE_MS_DEFAULT: u64 = 600_000;
/// The longest time for which a lease is opened or renewed: a day.
pub const LEASE_MS_MAX: u64 = 24 * 3_600_000;

const OPEN: u8 = 1;
const RENEW: u8 = 2;
const END: u8 = 3;
const OPEN_PIN: u8 = 4;

/// What a lease keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// All versions since its time.
    Hold,
    /// What can be read at its time.
    Pin,
}

/// A promise that a past time can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its id, which is never used again.
    pub id: u64,
    /// The request that opened it: a repeated one opens nothing more.
    pub request: u64,
    /// What it keeps.
    pub kind: LeaseKind,
    /// The keyspaces that can be read, by rising id.
    pub keyspaces: Vec<KeyspaceId>,
    /// The time.
    pub at: Timestamp,
    /// When it ends, in milliseconds since 1970, by the clock of the system shard's leader.
    pub end_ms: u64,
}

/// A change of the leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOp {
    /// Opens one.
    Open {
        /// A number that nobody else chooses.
        request: u64,
        /// What it is to keep.
        kind: LeaseKind,
        /// Its keyspaces, by rising id; at least one.
        keyspaces: Vec<KeyspaceId>,
        /// Its time.
        at: Timestamp,
        /// For how long.
        ttl_ms: u64,
    },
    /// Has one last for so long from now on, if that is longer.
    Renew {
        /// Which.
        id: u64,
        /// For how long.
        ttl_ms: u64,
    },
    /// Ends one.
    End {
        /// Which.
        id: u64,
    },
}

/// All leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    by_id: BTreeMap<u64, Lease>,
    /// The last id that was given out.
    last_id: u64,
}

impl Leases {
    /// The lease of an id, if it has not ended by `now_ms`.
    pub fn get(&self, id: u64, now_ms: u64) -> Option<&Lease> {
        self.by_id.get(&id).filter(|lease| lease.end_ms > now_ms)
    }

    /// Those that have not ended by `now_ms`, by id.
    pub fn live(&self, now_ms: u64) -> impl Iterator<Item = &Lease> {
        self.by_id.values().filter(move |lease| lease.end_ms > now_ms)
    }

    /// The one that holds a keyspace's safe point: the hold of the lowest time.
    pub fn oldest_hold(&self, keyspace: KeyspaceId, now_ms: u64) -> Option<&Lease> {
        let of_it = self.live(now_ms).filter(|lease| lease.keeps(LeaseKind::Hold, keyspace));
        of_it.min_by_key(|lease| (lease.at, lease.id))
    }

    /// The times below a keyspace's safe point that stay readable, rising. By what entries say, not
    /// by a clock: a lease whose end has come can be renewed before an entry has ended it.
    pub fn pins(&self, keyspace: KeyspaceId, safe_point: Timestamp) -> Vec<Timestamp> {
        let pins = self.by_id.values().filter(|lease| lease.keeps(LeaseKind::Pin, keyspace));
        let mut pins: Vec<_> = pins.map(|lease| lease.at).filter(|at| *at < safe_point).collect();
        pins.sort_unstable();
        pins.dedup();
        pins
    }

    /// Whether the next entry ends any.
    pub fn ends_any_by(&self, now_ms: u64) -> bool {
        self.by_id.values().any(|lease| lease.end_ms <= now_ms)
    }

    /// Forgets those that have ended by `now_ms`.
    pub fn end_by(&mut self, now_ms: u64) {
        self.by_id.retain(|_, lease| lease.end_ms > now_ms);
    }

    /// Forgets all, but not which ids were given out: their times mean nothing any more.
    pub fn clear(&mut self) {
        self.by_id.clear();
    }

    /// A keyspace was dropped: leases of other keyspaces too go on without it.
    pub fn drop_keyspace(&mut self, keyspace: KeyspaceId) {
        for lease in self.by_id.values_mut() {
            lease.keyspaces.retain(|id| *id != keyspace);
        }
        self.by_id.retain(|_, lease| !lease.keyspaces.is_empty());
    }

    /// Applies an entry of time `now_ms`. `safe_point` names the safe point of a keyspace that
    /// there is, and `is_pinned` says whether others than leases pin a time of it. Returns the
    /// lease as it is then; one that was ended, as it was.
    ///
    /// # Errors
    /// `LeaseTooLong`, `TooManyLeases`, `NoLease`, `NotFound`, `BelowSafePoint`. Nothing has
    /// changed then, but that leases have ended whose time had come.
    pub fn apply(
        &mut self,
        op: &LeaseOp,
        now_ms: u64,
        safe_point: impl Fn(KeyspaceId) -> Option<Timestamp>,
        is_pinned: impl Fn(KeyspaceId, Timestamp) -> bool,
    ) -> Result<Lease, CatalogueError> {
        self.end_by(now_ms);
        op.check_proposal()?;
        match op {
            LeaseOp::Open { request, kind, keyspaces, at, ttl_ms } => {
                let repeated = self.by_id.values().find(|lease| lease.request == *request);
                if let Some(lease) = repeated {
                    return Ok(lease.clone());
                }
                for keyspace in keyspaces {
                    let no_keyspace = || {
                        let name = format!("(id {keyspace})").into();
                        CatalogueError::NotFound { name }
                    };
                    let safe_point = safe_point(*keyspace).ok_or_else(no_keyspace)?;
                    let is_pinned = *kind == LeaseKind::Pin
                        && (self.pins(*keyspace, safe_point).binary_search(at).is_ok()
                            || is_pinned(*keyspace, *at));
                    if *at < safe_point && !is_pinned {
                        return Err(CatalogueError::BelowSafePoint { at: *at, safe_point });
                    }
                }
                if self.by_id.len() >= LEASES_MAX {
                    return Err(CatalogueError::TooManyLeases);
                }
                self.last_id += 1;
                let (id, end_ms) = (self.last_id, now_ms.saturating_add(*ttl_ms));
                let (request, kind, keyspaces, at) = (*request, *kind, keyspaces.clone(), *at);
                let lease = Lease { id, request, kind, keyspaces, at, end_ms };
                self.by_id.insert(id, lease.clone());
                Ok(lease)
            }
            LeaseOp::Renew { id, ttl_ms } => {
                let lease = self.by_id.get_mut(id).ok_or(CatalogueError::NoLease { id: *id })?;
                lease.end_ms = lease.end_ms.max(now_ms.saturating_add(*ttl_ms));
                Ok(lease.clone())
            }
            LeaseOp::End { id } => self.by_id.remove(id).ok_or(CatalogueError::NoLease { id: *id }),
        }
    }

    /// Whether a state's bytes must have them.
    pub fn is_encoded(&self) -> bool {
        self.last_id > 0
    }

    /// Appends their bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.last_id, out);
        put_varint(self.by_id.len() as u64, out);
        self.by_id.values().for_each(|lease| lease.encode(out));
    }

    /// Reads them from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let last_id = reader.varint()?;
        let count = reader.varint_max(LEASES_MAX as u64, "count of leases")?;
        let mut by_id = BTreeMap::new();
        let mut before = 0;
        for _ in 0..count {
            let lease = Lease::decode(reader)?;
            if !(before + 1..=last_id).contains(&lease.id) {
                return Err(DecodeError::Field { what: "leases: not by rising id" });
            }
            before = lease.id;
            by_id.insert(lease.id, lease);
        }
        match last_id {
            0 => Err(DecodeError::Field { what: "leases: none was ever opened" }),
            _ => Ok(Self { by_id, last_id }),
        }
    }
}

impl Lease {
    /// Whether it keeps that in a keyspace.
    fn keeps(&self, kind: LeaseKind, keyspace: KeyspaceId) -> bool {
        self.kind == kind && self.keyspaces.contains(&keyspace)
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.id, out);
        out.extend_from_slice(&self.request.to_le_bytes());
        if self.kind == LeaseKind::Pin {
            // No count of keyspaces: there is at least one.
            out.push(0);
        }
        put_keyspaces(&self.keyspaces, out);
        out.extend_from_slice(&self.at.0.to_le_bytes());
        put_varint(self.end_ms, out);
    }

    /// Reads one value from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (id, request) = (reader.varint()?, reader.u64()?);
        let kind = match reader.rest().first() {
            Some(0) => LeaseKind::Pin,
            _ => LeaseKind::Hold,
        };
        if kind == LeaseKind::Pin {
            reader.u8()?;
        }
        let keyspaces = read_keyspaces(reader)?;
        let (at, end_ms) = (Timestamp(reader.u64()?), reader.varint()?);
        Ok(Self { id, request, kind, keyspaces, at, end_ms })
    }
}

impl LeaseOp {
    /// Whether it may be proposed.
    ///
    /// # Errors
    /// `LeaseTooLong`.
    pub fn check_proposal(&self) -> Result<(), CatalogueError> {
        match self {
            LeaseOp::Open { ttl_ms, .. } | LeaseOp::Renew { ttl_ms, .. }
                if !(1..=LEASE_MS_MAX).contains(ttl_ms) =>
            {
                Err(CatalogueError::LeaseTooLong { ttl_ms: *ttl_ms })
            }
            _ => Ok(()),
        }
    }

    /// Appends its bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            LeaseOp::Open { request, kind, keyspaces, at, ttl_ms } => {
                out.push(match kind {
                    LeaseKind::Hold => OPEN,
                    LeaseKind::Pin => OPEN_PIN,
                });
                out.extend_from_slice(&request.to_le_bytes());
                put_keyspaces(keyspaces, out);
                out.extend_from_slice(&at.0.to_le_bytes());
                put_varint(*ttl_ms, out);
            }
            LeaseOp::Renew { id, ttl_ms } => {
                out.push(RENEW);
                put_varint(*id, out);
                put_varint(*ttl_ms, out);
            }
            LeaseOp::End { id } => {
                out.push(END);
                put_varint(*id, out);
            }
        }
    }

    /// Reads one value from the front of the reader.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            tag @ (OPEN | OPEN_PIN) => LeaseOp::Open {
                request: reader.u64()?,
                kind: if tag == OPEN { LeaseKind::Hold } else { LeaseKind::Pin },
                keyspaces: read_keyspaces(reader)?,
                at: Timestamp(reader.u64()?),
                ttl_ms: reader.varint()?,
            },
            RENEW => LeaseOp::Renew { id: reader.varint()?, ttl_ms: reader.varint()? },
            END => LeaseOp::End { id: reader.varint()? },
            found => return Err(DecodeError::Tag { what: "lease op", found }),
        })
    }
}

fn put_keyspaces(keyspaces: &[KeyspaceId], out: &mut Vec<u8>) {
    put_varint(keyspaces.len() as u64, out);
    keyspaces.iter().for_each(|id| put_varint(u64::from(id.0), out));
}

fn read_keyspaces(reader: &mut Reader<'_>) -> Result<Vec<KeyspaceId>, DecodeError> {
    let count = reader.varint_max(KEYSPACES_MAX as u64, "count of keyspaces")?;
    let mut keyspaces: Vec<KeyspaceId> = Vec::new();
    for _ in 0..count {
        let id = KeyspaceId(reader.varint_max(u32::MAX.into(), "keyspace id")? as u32);
        if keyspaces.last().is_some_and(|last| *last >= id) {
            return Err(DecodeError::Field { what: "keyspaces of a lease: not rising" });
        }
        keyspaces.push(id);
    }
    match keyspaces.is_empty() {
        true => Err(DecodeError::Field { what: "keyspaces of a lease: none" }),
        false => Ok(keyspaces),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyspaceId = KeyspaceId(1);
    const B: KeyspaceId = KeyspaceId(2);

    fn ms(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn open(request: u64, keyspaces: &[KeyspaceId], at: u64, ttl_ms: u64) -> LeaseOp {
        let kind = LeaseKind::Hold;
        LeaseOp::Open { request, kind, keyspaces: keyspaces.to_vec(), at: ms(at), ttl_ms }
    }

    /// Safe points at 100, of keyspaces 1 and 2.
    fn point(keyspace: KeyspaceId) -> Option<Timestamp> {
        (keyspace.0 <= 2).then(|| ms(100))
    }

    #[test]
    fn oldest_live_lease_holds_keyspace() {
        let mut leases = Leases::default();
        let first = leases.apply(&open(7, &[A, B], 150, 50), 200, point, |_, _| false).unwrap();
        assert_eq!((first.id, first.end_ms), (1, 250));
        let second = leases.apply(&open(8, &[A], 180, 100), 200, point, |_, _| false).unwrap();
        assert_eq!(leases.oldest_hold(A, 249).map(|lease| lease.id), Some(first.id));
        assert_eq!(leases.oldest_hold(A, 250).map(|lease| lease.id), Some(second.id));
        assert_eq!(leases.oldest_hold(B, 250), None);
        let renewed =
            leases.apply(&LeaseOp::Renew { id: 1, ttl_ms: 60 }, 240, point, |_, _| false).unwrap();
        assert_eq!(renewed.end_ms, 300);
        let shorter =
            leases.apply(&LeaseOp::Renew { id: 1, ttl_ms: 1 }, 240, point, |_, _| false).unwrap();
        assert_eq!(shorter.end_ms, 300);
        let end = LeaseOp::End { id: 1 };
        assert_eq!(leases.apply(&end, 260, point, |_, _| false), Ok(renewed));
        assert_eq!(
            leases.apply(&end, 260, point, |_, _| false),
            Err(CatalogueError::NoLease { id: 1 })
        );
    }

    #[test]
    fn pins_hold_no_safe_point_and_stay_readable_below_it() {
        let pin = |request, keyspaces: &[KeyspaceId], at| match open(request, keyspaces, at, 50) {
            LeaseOp::Open { request, keyspaces, at, ttl_ms, .. } => {
                LeaseOp::Open { request, kind: LeaseKind::Pin, keyspaces, at, ttl_ms }
            }
            op => op,
        };
        let mut leases = Leases::default();
        for (request, keyspaces, at) in [(7, &[A, B][..], 150), (8, &[A], 120), (9, &[A], 300)] {
            leases.apply(&pin(request, keyspaces, at), 200, point, |_, _| false).unwrap();
        }
        assert_eq!(leases.oldest_hold(A, 200), None);
        assert_eq!(leases.pins(A, ms(250)), [ms(120), ms(150)]);
        assert_eq!(leases.pins(B, ms(250)), [ms(150)]);
        assert!(leases.pins(B, ms(150)).is_empty(), "it can be read anyway");
        // The safe point has passed; where a pin is, another one may come.
        let raised = |_| Some(ms(250));
        assert!(leases.apply(&pin(10, &[A], 120), 210, raised, |_, _| false).is_ok());
        for refused in [pin(11, &[A], 121), pin(12, &[A, B], 120), open(13, &[A], 120, 50)] {
            let refused = leases.apply(&refused, 210, raised, |_, _| false);
            assert!(matches!(refused, Err(CatalogueError::BelowSafePoint { .. })), "{refused:?}");
        }
        // By entries: nobody's clock ends them.
        assert!(leases.ends_any_by(250) && !leases.ends_any_by(249));
        leases.end_by(250);
        assert_eq!(leases.pins(A, ms(500)), [ms(120)]);
        let mut bytes = Vec::new();
        leases.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Leases::decode(&mut reader), Ok(leases));
    }

    /// The asker may not have heard the first answer.
    #[test]
    fn repeated_request_opens_one_lease() {
        let mut leases = Leases::default();
        let first = leases.apply(&open(7, &[A], 150, 50), 200, point, |_, _| false).unwrap();
        assert_eq!(leases.apply(&open(7, &[A], 150, 50), 201, point, |_, _| false), Ok(first));
        assert_eq!(leases.live(0).count(), 1);
    }

    #[test]
    fn lease_is_refused_with_its_reason() {
        let mut leases = Leases::default();
        let safe_point = ms(100);
        let below = CatalogueError::BelowSafePoint { at: ms(99), safe_point };
        assert_eq!(leases.apply(&open(1, &[A], 99, 50), 200, point, |_, _| false), Err(below));
        let none = leases.apply(&open(1, &[KeyspaceId(3)], 150, 50), 200, point, |_, _| false);
        assert!(matches!(none, Err(CatalogueError::NotFound { .. })));
        for ttl_ms in [0, LEASE_MS_MAX + 1] {
            let refused = Err(CatalogueError::LeaseTooLong { ttl_ms });
            assert_eq!(
                leases.apply(&open(1, &[A], 150, ttl_ms), 200, point, |_, _| false),
                refused
            );
        }
        for request in 0..LEASES_MAX as u64 {
            leases.apply(&open(request, &[A], 150, 50), 200, point, |_, _| false).unwrap();
        }
        let one_more = open(1 << 20, &[A], 150, 50);
        assert_eq!(
            leases.apply(&one_more, 249, point, |_, _| false),
            Err(CatalogueError::TooManyLeases)
        );
        let later = leases.apply(&one_more, 250, point, |_, _| false).unwrap();
        assert_eq!(later.id, LEASES_MAX as u64 + 1, "all others have ended");
    }

    #[test]
    fn leases_are_read_as_they_are_written() {
        let mut leases = Leases::default();
        leases.apply(&open(7, &[A, B], 150, 50), 200, point, |_, _| false).unwrap();
        leases.apply(&open(8, &[B], 160, 50), 200, point, |_, _| false).unwrap();
        leases.drop_keyspace(B);
        let mut bytes = Vec::new();
        leases.encode(&mut bytes);
        assert_eq!(
            bytes,
            [&[2, 1, 1][..], &7_u64.to_le_bytes(), &[1, 1], &ms(150).0.to_le_bytes(), &[250, 1]]
                .concat()
        );
        assert_eq!(Leases::decode(&mut Reader::new(&bytes)), Ok(leases.clone()));
        leases.clear();
        assert!(leases.is_encoded(), "its ids are never used again");
        for op in [
            open(7, &[A, B], 150, 50),
            LeaseOp::Renew { id: 9, ttl_ms: 300 },
            LeaseOp::End { id: 9 },
        ] {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            assert_eq!(LeaseOp::decode(&mut Reader::new(&bytes)), Ok(op));
        }
        let unordered = [&[1][..], &[0; 8], &[2, 2, 1]].concat();
        assert!(LeaseOp::decode(&mut Reader::new(&unordered)).is_err());
    }
}

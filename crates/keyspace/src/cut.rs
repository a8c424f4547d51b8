//! The place at which a shard splits: the first of the right half.
//!
//! Hashed keyspaces split between slots, ordered ones before any key, and `linear-hash` ones at the
//! number of a position:
//!
//! ```text
//!   hashed    [slot 4096 …)            4096 as a varint: 80 20
//!   ordered   [melon …)                16385, which is no slot, and the key: 81 80 01 05 melon
//!   linear    [2^63 …)                 16386 and the number: 82 80 01 00 00 00 00 00 00 00 80
//! ```
//!
//! A key of two bytes would look like a slot's number, and a key of eight like a position's. So
//! they are no places for a split; the key right behind such a one is. So an arc's ends tell which
//! keyspace it is of, except the whole circle's. A key longer than [`KEY_BYTES_MAX`] is none
//! either, because every node stores the ends of all arcs; its beginning is.

use std::fmt;

use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::ids::KeyspaceId;
use crate::linear_hash::{bit_reversed_hash, number_at, position_of};
use crate::position::{Placement, Position};
use crate::slot::{SLOTS, Slot, slot_of};

/// Keys of cuts are not longer.
pub const KEY_BYTES_MAX: usize = 1024;
/// Stands before a key, where else a slot is.
const KEY: u64 = SLOTS as u64 + 1;
/// Stands before a number.
const NUMBER: u64 = SLOTS as u64 + 2;

/// The first place of a right half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// This slot.
    Slot(Slot),
    /// This key, which need not have a value; it is not empty.
    Key(Box<[u8]>),
    /// This number of a position, which is not 0 ([`crate::linear_hash`]).
    Number(u64),
}

impl Cut {
    /// At a position of this placement, without the keyspace's id. `None`: no cut can be there.
    pub fn at(placement: Placement, tail: &[u8]) -> Option<Self> {
        match placement {
            Placement::Ordered => (!tail.is_empty()).then(|| Self::before(tail)),
            Placement::Hashed => slot_at(tail).filter(|slot| *slot > 0).map(Self::Slot),
            Placement::LinearHash => number_at(tail).filter(|at| *at > 0).map(Self::Number),
        }
    }

    /// Before this key, which is not empty, or the beginning of it; or right behind it, if it could
    /// be taken for a slot or a number.
    fn before(key: &[u8]) -> Self {
        let key = &key[..key.len().min(KEY_BYTES_MAX)];
        match is_other(key) {
            true => Self::Key([key, &[0]].concat().into()),
            false => Self::Key(key.into()),
        }
    }

    /// Which keyspaces are cut so.
    pub fn placement(&self) -> Placement {
        match self {
            Cut::Slot(_) => Placement::Hashed,
            Cut::Key(_) => Placement::Ordered,
            Cut::Number(_) => Placement::LinearHash,
        }
    }

    /// Whether a key of such a keyspace lies in the right half.
    pub fn is_right_of(&self, key: &[u8]) -> bool {
        match self {
            Cut::Slot(at) => slot_of(key) >= *at,
            Cut::Key(at) => key >= &**at,
            Cut::Number(at) => bit_reversed_hash(key) >= *at,
        }
    }

    /// Where it is.
    ///
    /// # Panics
    /// If it is a slot above [`SLOTS`].
    pub fn position(&self, keyspace: KeyspaceId) -> Position {
        match self {
            Cut::Slot(slot) => Position::slot_start(keyspace, *slot),
            Cut::Key(key) => Position::at(keyspace, key),
            Cut::Number(number) => position_of(keyspace, *number),
        }
    }

    /// Whether a key lies at or behind this place, and before `end`: ends as those of an arc
    /// ([`Arc::ends`](crate::Arc::ends)).
    pub fn is_before(&self, key: &[u8], end: &Self) -> bool {
        self.is_right_of(key) && !end.is_right_of(key)
    }

    /// Whether a cut divides the keys between this place and `end`.
    pub fn is_cut_at(&self, at: &Self, end: &Self) -> bool {
        let [from, at, end] = [self, at, end].map(|place| place.position(KeyspaceId(0)));
        from < at && (end.is_origin() || at < end)
    }

    /// Some key between this place and `end`: always the same one, and mostly a short one.
    pub fn key_before(&self, end: &Self) -> Box<[u8]> {
        let first: Box<[u8]> = match self {
            Cut::Key(key) => key.clone(),
            Cut::Slot(_) | Cut::Number(_) => Box::default(),
        };
        let numbers = (0u64..).map(|number| number.to_string().into_bytes().into());
        let mut all = std::iter::once(first).chain(numbers);
        all.find(|key| self.is_before(key, end))
            .expect("arcs are not empty, and keys hash anywhere")
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Cut::Slot(slot) => put_varint(u64::from(*slot), out),
            Cut::Key(key) => {
                put_varint(KEY, out);
                put_bytes(key, out);
            }
            Cut::Number(number) => {
                put_varint(NUMBER, out);
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`]: something else is there.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.varint_max(NUMBER, "slot")? {
            KEY => match reader.bytes()? {
                key if key.is_empty() || key.len() > KEY_BYTES_MAX || is_other(key) => {
                    Err(DecodeError::Field { what: "key of a cut" })
                }
                key => Ok(Self::Key(key.into())),
            },
            NUMBER => match reader.u64()? {
                0 => Err(DecodeError::Field { what: "number of a cut" }),
                number => Ok(Self::Number(number)),
            },
            slot => Ok(Self::Slot(slot as Slot)),
        }
    }
}

/// Whether a position, without the keyspace's id, is one at which another keyspace than an ordered
/// one may be cut.
fn is_other(tail: &[u8]) -> bool {
    slot_at(tail).is_some() || number_at(tail).is_some()
}

/// The place that a position is, without the keyspace's id; `origin` if it has none.
pub(crate) fn place_at(tail: &[u8], origin: Slot) -> Cut {
    match tail {
        [] => Cut::Slot(origin),
        _ => match (slot_at(tail), number_at(tail)) {
            (Some(slot), _) => Cut::Slot(slot),
            (None, Some(number)) => Cut::Number(number),
            (None, None) => Cut::Key(tail.into()),
        },
    }
}

/// The slot that begins at a position, without the keyspace's id, if one does.
pub(crate) fn slot_at(tail: &[u8]) -> Option<Slot> {
    Some(Slot::from_be_bytes(tail.try_into().ok()?)).filter(|slot| *slot < SLOTS)
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Slot(slot) => write!(f, "slot {slot}"),
            Cut::Key(key) => write!(f, "key {}", key.escape_ascii()),
            Cut::Number(number) => write!(f, "hash {number:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(cut: &Cut) -> Vec<u8> {
        let mut out = Vec::new();
        cut.encode(&mut out);
        out
    }

    #[test]
    fn cuts_survive_their_bytes_and_nothing_else_is_one() {
        let melon = Cut::Key((*b"melon").into());
        assert_eq!(encoded(&Cut::Slot(4096)), [0x80, 0x20]);
        assert_eq!(encoded(&melon), b"\x81\x80\x01\x05melon");
        let half = Cut::Number(1 << 63);
        assert_eq!(encoded(&half), b"\x82\x80\x01\0\0\0\0\0\0\0\x80");
        for cut in [Cut::Slot(4096), Cut::Slot(SLOTS), melon, half] {
            let bytes = encoded(&cut);
            let mut reader = Reader::new(&bytes);
            assert_eq!(Cut::decode(&mut reader), Ok(cut));
            assert!(reader.end().is_ok());
            assert!(Cut::decode(&mut Reader::new(&bytes[..bytes.len() - 1])).is_err());
        }
        for wrong in [
            &b"\x81\x80\x01\x00"[..],
            b"\x81\x80\x01\x0210",
            b"\x81\x80\x01\x08nectarin",
            b"\x82\x80\x01\0\0\0\0\0\0\0\0",
            b"\x83\x80\x01",
        ] {
            assert!(Cut::decode(&mut Reader::new(wrong)).is_err());
        }
    }

    #[test]
    fn a_cut_is_where_a_position_is() {
        for (placement, tail) in [
            (Placement::Hashed, &b"\x10\0"[..]),
            (Placement::Ordered, b"melon"),
            (Placement::LinearHash, b"\x80\0\0\0\0\0\0\0"),
        ] {
            let cut = Cut::at(placement, tail).expect("it is a place");
            assert_eq!((cut.placement(), cut.position(KeyspaceId(7)).tail()), (placement, tail));
        }
        for (placement, tail) in [
            (Placement::Hashed, &b"\0\0"[..]),
            (Placement::Hashed, b"\x40\0"),
            (Placement::Hashed, b"\x10\0x"),
            (Placement::Ordered, b""),
            (Placement::LinearHash, b""),
            (Placement::LinearHash, b"\x80"),
            (Placement::LinearHash, &[0; 8]),
        ] {
            assert_eq!(Cut::at(placement, tail), None);
        }
        // Two bytes that are no slot are a key, others nearly so; eight never are.
        let long = [b'k'; KEY_BYTES_MAX + 1];
        let begins = &long[..KEY_BYTES_MAX];
        for (key, at) in [
            (&b"zz"[..], &b"zz"[..]),
            (b"10", b"10\0"),
            (b"nectarin", b"nectarin\0"),
            (&long, begins),
        ] {
            assert_eq!(Cut::at(Placement::Ordered, key), Some(Cut::Key(at.into())));
        }
    }

    #[test]
    fn each_arc_has_a_key() {
        let melon = Cut::Key((*b"melon").into());
        let (begin, end) = (Cut::Slot(0), Cut::Slot(SLOTS));
        let arcs = [
            (begin.clone(), end.clone()),
            (begin.clone(), Cut::Slot(1)),
            (Cut::Slot(SLOTS - 1), end.clone()),
            (begin.clone(), melon.clone()),
            (melon, end.clone()),
            (begin, Cut::Number(1 << 60)),
            (Cut::Number(0xff << 56), end),
        ];
        for (from, end) in arcs {
            let key = from.key_before(&end);
            assert!(from.is_before(&key, &end) && key.len() <= 6, "{from} {end}: {key:?}");
        }
    }
}

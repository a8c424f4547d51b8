//! The bytes of fetches and their results.
//!
//! Tag `u8`, then the fields in their order; words as in [`keyspace::codec`]. A bound is `u8` 0 for
//! none, 1 included, 2 excluded, and the key; a version is value, expiry `varint`, timestamp u64;
//! what may be missing has `u8` 1 before it, or is `u8` 0, and of versions a time u64 behind that.

use std::ops::Bound;

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{Cut, DecodeError, KeyspaceId, Lease, NodeId, SLOTS, Slot, Timestamp};

use super::{
    Ends, FetchRequest, FetchResult, HeldChange, HeldSafePoints, HeldVersion, History, KEYS_MAX,
    PastValue,
};
use crate::feed::changes::{ChangesWanted, FoundChanges};
use crate::tracking::interests::Registration;
use crate::tracking::message::StreamId;
use txn::wait_queue::{ReserveFrom, ReservingRead};

impl FetchRequest {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FetchRequest::Keys { keys, reserving } => {
                out.push(match reserving.map(|read| read.from) {
                    None => 0,
                    Some(ReserveFrom::Nobody) => 10,
                    Some(ReserveFrom::OtherReaders) => 11,
                    Some(ReserveFrom::Everyone) => 12,
                });
                put_all(keys, out, |key, out| put_bytes(key, out));
                if let Some(ReservingRead { name, .. }) = reserving {
                    out.extend_from_slice(&name.0.to_le_bytes());
                }
            }
            FetchRequest::At { key, at } => {
                out.push(1);
                put_bytes(key, out);
                out.extend_from_slice(&at.0.to_le_bytes());
            }
            FetchRequest::History { key, at, changes_max } => {
                out.push(14);
                put_bytes(key, out);
                out.extend_from_slice(&at.0.to_le_bytes());
                put_varint(*changes_max, out);
            }
            FetchRequest::Newest { ends } => {
                out.push(15);
                put_ends(ends, out);
            }
            FetchRequest::Past { at, want } => {
                out.push(16);
                out.extend_from_slice(&at.0.to_le_bytes());
                want.encode(out);
            }
            FetchRequest::SafePoints => out.push(17),
            FetchRequest::Changes(want) => {
                out.push(18);
                want.encode(out);
            }
            FetchRequest::Catalogue { known } => {
                out.push(6);
                put_varint(*known, out);
            }
            FetchRequest::Size { ends } => {
                out.push(7);
                put_ends(ends, out);
            }
            FetchRequest::Random { ends, number } => {
                out.push(8);
                put_ends(ends, out);
                put_varint(*number, out);
            }
            FetchRequest::Scan { cursor, end, keys_max } => {
                out.push(4);
                put_varint(*cursor, out);
                put_varint(u64::from(*end), out);
                put_varint(*keys_max, out);
            }
            FetchRequest::Numbers { from, end, keys_max } => {
                out.push(9);
                [from, end, keys_max].into_iter().for_each(|number| put_varint(*number, out));
            }
            FetchRequest::Track { keys, wants_all, since } => {
                out.push(13);
                put_all(keys, out, |key, out| put_bytes(key, out));
                out.push(u8::from(*wants_all));
                put_varint(*since, out);
            }
            FetchRequest::Range { low, high, reverse, keys_max, with_values } => {
                out.push(5);
                put_bound(low, out);
                put_bound(high, out);
                out.push(u8::from(*reverse));
                put_varint(*keys_max, out);
                out.push(u8::from(*with_values));
            }
        }
    }

    /// Reads one value from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else, or keys are out of order.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            tag @ (0 | 10..=12) => {
                let read = |reader: &mut Reader<'_>| Ok(Box::from(reader.bytes()?));
                let keys: Vec<Box<[u8]>> = read_all(reader, KEYS_MAX, read)?;
                if !keys.is_sorted_by(|one, next| one < next) {
                    return Err(DecodeError::Field { what: "wanted keys: order" });
                }
                let from = match tag {
                    10 => Some(ReserveFrom::Nobody),
                    11 => Some(ReserveFrom::OtherReaders),
                    12 => Some(ReserveFrom::Everyone),
                    _ => None,
                };
                let reserving = match from {
                    None => None,
                    Some(from) => Some(ReservingRead { name: Timestamp(reader.u64()?), from }),
                };
                FetchRequest::Keys { keys, reserving }
            }
            1 => FetchRequest::At { key: reader.bytes()?.into(), at: Timestamp(reader.u64()?) },
            4 => FetchRequest::Scan {
                cursor: reader.varint()?,
                end: reader.varint_max(SLOTS.into(), "slot")? as Slot,
                keys_max: reader.varint()?,
            },
            5 => FetchRequest::Range {
                low: read_bound(reader)?,
                high: read_bound(reader)?,
                reverse: read_flag(reader)?,
                keys_max: reader.varint()?,
                with_values: read_flag(reader)?,
            },
            6 => FetchRequest::Catalogue { known: reader.varint()? },
            7 => FetchRequest::Size { ends: read_ends(reader)? },
            9 => FetchRequest::Numbers {
                from: reader.varint()?,
                end: reader.varint()?,
                keys_max: reader.varint()?,
            },
            13 => FetchRequest::Track {
                keys: read_all(reader, KEYS_MAX, |reader| Ok(Box::from(reader.bytes()?)))?,
                wants_all: read_flag(reader)?,
                since: reader.varint()?,
            },
            14 => FetchRequest::History {
                key: reader.bytes()?.into(),
                at: Timestamp(reader.u64()?),
                changes_max: reader.varint()?,
            },
            15 => FetchRequest::Newest { ends: read_ends(reader)? },
            16 => {
                let at = Timestamp(reader.u64()?);
                let bad = DecodeError::Field { what: "what is wanted of a past time" };
                // Before it is read: none may stand in another.
                if !matches!(reader.rest().first(), Some(0 | 4 | 5 | 9 | 15)) {
                    return Err(bad);
                }
                FetchRequest::Past { at, want: Box::new(Self::decode(reader)?) }
            }
            17 => FetchRequest::SafePoints,
            18 => FetchRequest::Changes(Box::new(ChangesWanted::decode(reader)?)),
            8 => FetchRequest::Random { ends: read_ends(reader)?, number: reader.varint()? },
            found => return Err(DecodeError::Tag { what: "what is wanted", found }),
        })
    }
}

pub(crate) fn put_ends((start, end): &Ends, out: &mut Vec<u8>) {
    start.encode(out);
    end.encode(out);
}

pub(crate) fn read_ends(reader: &mut Reader<'_>) -> Result<Ends, DecodeError> {
    Ok((Cut::decode(reader)?, Cut::decode(reader)?))
}

impl FetchResult {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FetchResult::Versions(versions) => {
                out.push(0);
                put_all(versions, out, |version, out| {
                    put_maybe(version.as_ref().ok(), out, put_held);
                    if let Err(since) = version {
                        out.extend_from_slice(&since.0.to_le_bytes());
                    }
                });
            }
            FetchResult::Then(then) => {
                out.push(1);
                put_past(then, out);
            }
            FetchResult::Past(values) => {
                out.push(9);
                put_all(values, out, put_past);
            }
            FetchResult::BelowSafePoint(safe_point) => {
                out.push(10);
                out.extend_from_slice(&safe_point.0.to_le_bytes());
            }
            FetchResult::Newest(at) => {
                out.push(11);
                out.extend_from_slice(&at.0.to_le_bytes());
            }
            FetchResult::SafePoints(HeldSafePoints { now, safe_points, leases }) => {
                out.push(12);
                out.extend_from_slice(&now.0.to_le_bytes());
                put_all(safe_points, out, |(keyspace, at), out| {
                    put_varint(u64::from(keyspace.0), out);
                    out.extend_from_slice(&at.0.to_le_bytes());
                });
                put_all(leases, out, |lease, out| lease.encode(out));
            }
            FetchResult::Changes(found) => {
                out.push(13);
                found.encode(out);
            }
            FetchResult::History(History { changes, has_more, safe_point }) => {
                out.push(8);
                put_all(changes, out, |change, out| match change {
                    HeldChange::Put(held) => {
                        out.push(0);
                        put_held(held, out);
                    }
                    HeldChange::Deleted(at) => {
                        out.push(1);
                        out.extend_from_slice(&at.0.to_le_bytes());
                    }
                });
                out.push(u8::from(*has_more));
                out.extend_from_slice(&safe_point.0.to_le_bytes());
            }
            FetchResult::Catalogue { index, bytes } => {
                out.push(6);
                put_varint(*index, out);
                put_maybe(bytes.as_ref(), out, |bytes, out| put_bytes(bytes, out));
            }
            FetchResult::Size(size) => {
                out.push(2);
                put_varint(*size, out);
            }
            FetchResult::Random { size, key } => {
                out.push(3);
                put_varint(*size, out);
                put_maybe(key.as_ref(), out, |key, out| put_bytes(key, out));
            }
            FetchResult::Keys { keys, next } => {
                out.push(4);
                put_all(keys, out, |key, out| put_bytes(key, out));
                put_maybe(next.as_ref(), out, |next, out| put_varint(*next, out));
            }
            FetchResult::Tracked(Registration { leader, keyspace, stream, next }) => {
                out.push(7);
                out.extend_from_slice(&leader.0.to_le_bytes());
                put_varint(u64::from(keyspace.0), out);
                stream.encode(out);
                put_varint(*next, out);
            }
            FetchResult::Pairs { pairs, reached } => {
                out.push(5);
                put_all(pairs, out, |(key, value), out| {
                    put_bytes(key, out);
                    put_bytes(value, out);
                });
                put_maybe(reached.as_ref(), out, |key, out| put_bytes(key, out));
            }
        }
    }

    /// Reads one value from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = |reader: &mut Reader<'_>| Ok(Box::<[u8]>::from(reader.bytes()?));
        Ok(match reader.u8()? {
            0 => FetchResult::Versions(read_all(reader, KEYS_MAX, |reader| {
                Ok(match read_maybe(reader, read_held)? {
                    Some(held) => Ok(held),
                    None => Err(Timestamp(reader.u64()?)),
                })
            })?),
            1 => FetchResult::Then(read_past(reader)?),
            9 => FetchResult::Past(read_all(reader, KEYS_MAX, read_past)?),
            10 => FetchResult::BelowSafePoint(Timestamp(reader.u64()?)),
            11 => FetchResult::Newest(Timestamp(reader.u64()?)),
            12 => FetchResult::SafePoints(HeldSafePoints {
                now: Timestamp(reader.u64()?),
                safe_points: read_all(reader, usize::MAX, |reader| {
                    let id = reader.varint_max(u32::MAX.into(), "keyspace")? as u32;
                    Ok((KeyspaceId(id), Timestamp(reader.u64()?)))
                })?,
                leases: read_all(reader, usize::MAX, Lease::decode)?,
            }),
            13 => FetchResult::Changes(FoundChanges::decode(reader)?),
            2 => FetchResult::Size(reader.varint()?),
            3 => FetchResult::Random { size: reader.varint()?, key: read_maybe(reader, bytes)? },
            4 => FetchResult::Keys {
                keys: read_all(reader, usize::MAX, bytes)?,
                next: read_maybe(reader, |reader| reader.varint())?,
            },
            5 => FetchResult::Pairs {
                pairs: read_all(reader, usize::MAX, |r| Ok((bytes(r)?, bytes(r)?)))?,
                reached: read_maybe(reader, bytes)?,
            },
            7 => FetchResult::Tracked(Registration {
                leader: NodeId(reader.u64()?),
                keyspace: KeyspaceId(reader.varint_max(u32::MAX.into(), "keyspace")? as u32),
                stream: StreamId::decode(reader)?,
                next: reader.varint()?,
            }),
            8 => FetchResult::History(History {
                changes: read_all(reader, usize::MAX, |reader| match reader.u8()? {
                    0 => Ok(HeldChange::Put(read_held(reader)?)),
                    1 => Ok(HeldChange::Deleted(Timestamp(reader.u64()?))),
                    found => Err(DecodeError::Tag { what: "change of a key", found }),
                })?,
                has_more: read_flag(reader)?,
                safe_point: Timestamp(reader.u64()?),
            }),
            6 => FetchResult::Catalogue {
                index: reader.varint()?,
                bytes: read_maybe(reader, bytes)?,
            },
            found => return Err(DecodeError::Tag { what: "what was found", found }),
        })
    }

    /// About how many bytes it takes.
    pub fn bytes_about(&self) -> usize {
        let held = |held: &HeldVersion| held.value.len() + 16;
        16 + match self {
            FetchResult::Versions(all) => all.iter().map(|v| v.as_ref().map_or(9, held)).sum(),
            FetchResult::Then(PastValue::Value(value)) => held(value),
            FetchResult::Past(values) => {
                let bytes = |value: &PastValue| match value {
                    PastValue::Value(version) => held(version),
                    _ => 9,
                };
                values.iter().map(bytes).sum()
            }
            FetchResult::SafePoints(HeldSafePoints { safe_points, leases, .. }) => {
                let bytes = |lease: &Lease| 32 + 4 * lease.keyspaces.len();
                12 * safe_points.len() + leases.iter().map(bytes).sum::<usize>()
            }
            FetchResult::History(History { changes, .. }) => {
                let bytes = |change: &HeldChange| match change {
                    HeldChange::Put(version) => held(version),
                    HeldChange::Deleted(_) => 9,
                };
                changes.iter().map(bytes).sum()
            }
            FetchResult::Changes(found) => found.bytes(),
            FetchResult::Then(_)
            | FetchResult::Size(_)
            | FetchResult::BelowSafePoint(_)
            | FetchResult::Newest(_)
            | FetchResult::Tracked(_) => 0,
            FetchResult::Catalogue { bytes, .. } => bytes.as_ref().map_or(0, |bytes| bytes.len()),
            FetchResult::Random { key, .. } => key.as_ref().map_or(0, |key| key.len()),
            FetchResult::Keys { keys, .. } => keys.iter().map(|key| key.len() + 4).sum(),
            FetchResult::Pairs { pairs, .. } => {
                pairs.iter().map(|(k, v)| k.len() + v.len() + 8).sum()
            }
        }
    }
}

fn put_past(value: &PastValue, out: &mut Vec<u8>) {
    match value {
        PastValue::Value(held) => {
            out.push(0);
            put_held(held, out);
        }
        PastValue::Nil => out.push(1),
        PastValue::NilYet => out.push(2),
        PastValue::BelowSafePoint(safe_point) => {
            out.push(3);
            out.extend_from_slice(&safe_point.0.to_le_bytes());
        }
    }
}

fn read_past(reader: &mut Reader<'_>) -> Result<PastValue, DecodeError> {
    Ok(match reader.u8()? {
        0 => PastValue::Value(read_held(reader)?),
        1 => PastValue::Nil,
        2 => PastValue::NilYet,
        3 => PastValue::BelowSafePoint(Timestamp(reader.u64()?)),
        found => return Err(DecodeError::Tag { what: "what was there then", found }),
    })
}

pub(crate) fn put_all<T>(all: &[T], out: &mut Vec<u8>, put: impl Fn(&T, &mut Vec<u8>)) {
    put_varint(all.len() as u64, out);
    all.iter().for_each(|one| put(one, out));
}

pub(crate) fn read_all<'a, T>(
    reader: &mut Reader<'a>,
    count_max: usize,
    read: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    // Each takes a byte at least.
    let count_max = count_max.min(reader.rest().len()) as u64;
    let count = reader.varint_max(count_max, "count of keys")?;
    (0..count).map(|_| read(reader)).collect()
}

pub(crate) fn put_maybe<T>(one: Option<&T>, out: &mut Vec<u8>, put: impl Fn(&T, &mut Vec<u8>)) {
    out.push(u8::from(one.is_some()));
    if let Some(one) = one {
        put(one, out);
    }
}

pub(crate) fn read_maybe<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    Ok(if read_flag(reader)? { Some(read(reader)?) } else { None })
}

pub(crate) fn read_flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(DecodeError::Tag { what: "yes or no", found }),
    }
}

fn put_held(held: &HeldVersion, out: &mut Vec<u8>) {
    put_bytes(&held.value, out);
    put_varint(held.expiry_ms, out);
    out.extend_from_slice(&held.timestamp.0.to_le_bytes());
}

fn read_held(reader: &mut Reader<'_>) -> Result<HeldVersion, DecodeError> {
    let (value, expiry_ms) = (reader.bytes()?.into(), reader.varint()?);
    Ok(HeldVersion { value, expiry_ms, timestamp: Timestamp(reader.u64()?) })
}

pub(crate) fn put_bound(bound: &Bound<Box<[u8]>>, out: &mut Vec<u8>) {
    let (tag, key) = match bound {
        Bound::Unbounded => return out.push(0),
        Bound::Included(key) => (1, key),
        Bound::Excluded(key) => (2, key),
    };
    out.push(tag);
    put_bytes(key, out);
}

pub(crate) fn read_bound(reader: &mut Reader<'_>) -> Result<Bound<Box<[u8]>>, DecodeError> {
    Ok(match reader.u8()? {
        0 => Bound::Unbounded,
        1 => Bound::Included(reader.bytes()?.into()),
        2 => Bound::Excluded(reader.bytes()?.into()),
        found => return Err(DecodeError::Tag { what: "bound", found }),
    })
}

//! The bytes of feeds' questions and answers; words as in [`crate::routing::fetch`].

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{DecodeError, Timestamp};
use storage::engine::ChangesCursor;

use super::changes::{
    ChangesWanted, FoundChanges, HeldKeyChange, How, KeyFilter, WalkEpoch, WhatChanged,
};
use crate::routing::fetch::codec::{
    put_all, put_bound, put_ends, put_maybe, read_all, read_bound, read_ends, read_maybe,
};

/// Flags: with the values before; a time follows to which changes are compacted.
const WITH_BEFORE: u8 = 1;
const COMPACTS: u8 = 2;

impl ChangesWanted {
    /// Appends its bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_ends(&self.ends, out);
        match &self.keys {
            KeyFilter::All => out.push(0),
            KeyFilter::One(key) => {
                out.push(1);
                put_bytes(key, out);
            }
            KeyFilter::Range(low, high) => {
                out.push(2);
                put_bound(low, out);
                put_bound(high, out);
            }
        }
        put_time(self.above, out);
        let compacts = self.compact_to > Timestamp::ZERO;
        out.push(u8::from(self.with_before) * WITH_BEFORE + u8::from(compacts) * COMPACTS);
        if compacts {
            put_time(self.compact_to, out);
        }
        match &self.how {
            How::Live { until, wait_ms } => {
                out.push(0);
                put_time(*until, out);
                put_varint(*wait_ms, out);
            }
            How::Walk { upto, cursor, epoch } => {
                out.push(1);
                put_time(*upto, out);
                put_cursor(cursor, out);
                put_epoch(*epoch, out);
            }
        }
    }

    /// Reads one from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let ends = read_ends(reader)?;
        let keys = match reader.u8()? {
            0 => KeyFilter::All,
            1 => KeyFilter::One(reader.bytes()?.into()),
            2 => KeyFilter::Range(read_bound(reader)?, read_bound(reader)?),
            found => return Err(DecodeError::Tag { what: "keys of a feed", found }),
        };
        let above = read_time(reader)?;
        let flags = match reader.u8()? {
            flags if flags <= WITH_BEFORE | COMPACTS => flags,
            found => return Err(DecodeError::Tag { what: "flags of a feed", found }),
        };
        let compact_to = match flags & COMPACTS {
            0 => Timestamp::ZERO,
            _ => read_time(reader)?,
        };
        if flags & COMPACTS > 0 && compact_to == Timestamp::ZERO {
            return Err(DecodeError::Field { what: "compaction of a feed: to no time" });
        }
        Ok(Self {
            ends,
            keys,
            above,
            with_before: flags & WITH_BEFORE > 0,
            compact_to,
            how: match reader.u8()? {
                0 => How::Live { until: read_time(reader)?, wait_ms: reader.varint()? },
                1 => How::Walk {
                    upto: read_time(reader)?,
                    cursor: read_cursor(reader)?,
                    epoch: read_epoch(reader)?,
                },
                found => return Err(DecodeError::Tag { what: "how a feed asks", found }),
            },
        })
    }
}

impl FoundChanges {
    /// Appends its bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FoundChanges::Live { changes, resolved } => {
                out.push(0);
                put_all(changes, out, put_change);
                put_time(*resolved, out);
            }
            FoundChanges::NotKept { upto, epoch } => {
                out.push(1);
                put_time(*upto, out);
                put_epoch(*epoch, out);
            }
            FoundChanges::Piece { changes, next } => {
                out.push(2);
                put_all(changes, out, put_change);
                put_maybe(next.as_ref(), out, put_cursor);
            }
        }
    }

    /// Reads one from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => FoundChanges::Live {
                changes: read_all(reader, usize::MAX, read_change)?,
                resolved: read_time(reader)?,
            },
            1 => FoundChanges::NotKept { upto: read_time(reader)?, epoch: read_epoch(reader)? },
            2 => FoundChanges::Piece {
                changes: read_all(reader, usize::MAX, read_change)?,
                next: read_maybe(reader, read_cursor)?,
            },
            found => return Err(DecodeError::Tag { what: "what has changed", found }),
        })
    }
}

fn put_change(change: &HeldKeyChange, out: &mut Vec<u8>) {
    let HeldKeyChange { at, key, what, before } = change;
    put_time(*at, out);
    put_bytes(key, out);
    match what {
        WhatChanged::Put { value, expiry_ms } => {
            out.push(0);
            put_bytes(value, out);
            put_varint(*expiry_ms, out);
        }
        WhatChanged::Deleted => out.push(1),
        WhatChanged::Expired => out.push(2),
    }
    put_maybe(before.as_ref(), out, |before, out| put_bytes(before, out));
}

fn read_change(reader: &mut Reader<'_>) -> Result<HeldKeyChange, DecodeError> {
    Ok(HeldKeyChange {
        at: read_time(reader)?,
        key: reader.bytes()?.into(),
        what: match reader.u8()? {
            0 => WhatChanged::Put { value: reader.bytes()?.into(), expiry_ms: reader.varint()? },
            1 => WhatChanged::Deleted,
            2 => WhatChanged::Expired,
            found => return Err(DecodeError::Tag { what: "change of a key", found }),
        },
        before: read_maybe(reader, |reader| Ok(Box::from(reader.bytes()?)))?,
    })
}

fn put_time(at: Timestamp, out: &mut Vec<u8>) {
    out.extend_from_slice(&at.0.to_le_bytes());
}

fn read_time(reader: &mut Reader<'_>) -> Result<Timestamp, DecodeError> {
    Ok(Timestamp(reader.u64()?))
}

fn put_cursor(cursor: &ChangesCursor, out: &mut Vec<u8>) {
    put_varint(cursor.era, out);
    put_maybe(cursor.key.as_ref(), out, |key, out| put_bytes(key, out));
}

fn read_cursor(reader: &mut Reader<'_>) -> Result<ChangesCursor, DecodeError> {
    Ok(ChangesCursor {
        era: reader.varint()?,
        key: read_maybe(reader, |reader| Ok(Box::from(reader.bytes()?)))?,
    })
}

fn put_epoch(epoch: WalkEpoch, out: &mut Vec<u8>) {
    put_varint(epoch.term, out);
    put_varint(epoch.replacements, out);
}

fn read_epoch(reader: &mut Reader<'_>) -> Result<WalkEpoch, DecodeError> {
    Ok(WalkEpoch { term: reader.varint()?, replacements: reader.varint()? })
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use keyspace::{Arc, KeyspaceId};

    use super::*;
    use crate::routing::fetch::{FetchRequest, FetchResult};

    #[test]
    fn questions_and_answers_are_read_as_written() {
        let at = Timestamp::from_millis;
        let key = |text: &str| Box::<[u8]>::from(text.as_bytes());
        let cursor = ChangesCursor { era: 3, key: Some(key("k")) };
        let epoch = WalkEpoch { term: 7, replacements: 300 };
        let hows = [
            How::Live { until: at(9), wait_ms: 500 },
            How::Walk { upto: at(8), cursor: cursor.clone(), epoch },
        ];
        let filters = [
            KeyFilter::All,
            KeyFilter::One(key("one")),
            KeyFilter::Range(Bound::Included(key("a")), Bound::Excluded(key("b"))),
        ];
        let all = hows.iter().flat_map(|how| filters.iter().map(move |f| (how, f)));
        for (number, (how, keys)) in all.enumerate() {
            let ends = Arc::whole(KeyspaceId(1)).ends();
            let (how, keys) = (how.clone(), keys.clone());
            let (with_before, compact_to) = (number % 2 == 0, at(number as u64 % 3));
            let want = ChangesWanted { ends, keys, above: at(5), with_before, compact_to, how };
            let want = FetchRequest::Changes(Box::new(want));
            let mut bytes = Vec::new();
            want.encode(&mut bytes);
            assert_eq!(FetchRequest::decode(&mut Reader::new(&bytes)), Ok(want));
            for end in 0..bytes.len() {
                assert!(FetchRequest::decode(&mut Reader::new(&bytes[..end])).is_err());
            }
        }
        let whats = [
            WhatChanged::Put { value: key("v"), expiry_ms: 90 },
            WhatChanged::Deleted,
            WhatChanged::Expired,
        ];
        let change = |what| HeldKeyChange { at: at(6), key: key("k"), what, before: None };
        let mut changes: Vec<_> = whats.into_iter().map(change).collect();
        changes[0].before = Some(key("u"));
        for found in [
            FoundChanges::Live { changes: changes.clone(), resolved: at(7) },
            FoundChanges::NotKept { upto: at(7), epoch },
            FoundChanges::Piece { changes: changes.clone(), next: Some(cursor) },
            FoundChanges::Piece { changes, next: None },
        ] {
            let found = FetchResult::Changes(found);
            let mut bytes = Vec::new();
            found.encode(&mut bytes);
            assert_eq!(FetchResult::decode(&mut Reader::new(&bytes)), Ok(found));
            for end in 0..bytes.len() {
                assert!(FetchResult::decode(&mut Reader::new(&bytes[..end])).is_err());
            }
        }
    }
}

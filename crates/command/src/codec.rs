//! How does a write stand in a log entry? Commands back to back, each in the bytes below.
//!
//! A command carries its own lengths, so an entry needs neither a count nor separators: decoding
//! goes on until the bytes are used up. Keys and values are borrowed from the entry.
//!
//! Numbers are those of [`keyspace::codec`]: `varint` in shortest form, `u64` and `i64`
//! little-endian; `bytes` is a `varint` length and that many bytes.
//!
//! | op | command | after the op byte |
//! |---|---|---|
//! | 1 | set | flags, key length `varint`, value length `varint`, expiry `u64` if flags say so, key, value |
//! | 2 | delete | key `bytes` |
//! | 3 | get and delete | key `bytes` |
//! | 4 | get and expire | flags, key `bytes`, expiry `u64` if flags say so |
//! | 5 | append | key `bytes`, value `bytes`; the result has 512 MiB at most |
//! | 6 | set range | key `bytes`, offset `varint`, value `bytes` |
//! | 7 | increment | key `bytes`, by `i64` |
//! | 8 | increment float | key `bytes`, by `bytes` (decimal text) |
//! | 9 | expire | flags, key `bytes`, at `i64` |
//! | 10 | persist | key `bytes` |
//! | 11 | set all if absent | count `varint`, then key `bytes`, value `bytes` each |
//! | 12 | rename | flags, from `bytes`, to `bytes` |
//! | 13 | copy | flags, from `bytes`, to `bytes` |
//! | 14 | flush | nothing: whatever the shard has |
//! | 15 | flush | end: a cut, but slot 0 |
//! | 16 | flush | from: a cut, but slot 16384 · end: a cut, but slot 0. From cluster version 2 on |
//! | 17 | transaction | what [`transaction`] says. From cluster version 2 on |
//! | 18 | append, up to a limit | key `bytes`, value `bytes`, longest result `varint`, below 512 MiB. From cluster version 2 on |
//! | 19 | block of a volume | writer, key `bytes`, `u8` 0 no value, or 1 and value `bytes`. From cluster version 2 on |
//! | 20 | fence | writer · from and end: as of op 16. From cluster version 2 on |
//!
//! | flags of | bits (others are 0) |
//! |---|---|
//! | set | 0–1 expiry: 0 never, 1 keep, 2 at · 2–3 when: 0 always, 1 absent, 2 present · 4–5 reply: 0 OK, 1 old value, 2 flag |
//! | get and expire | 0–1 expiry, as above |
//! | expire | 0 NX · 1 XX · 2 GT · 3 LT |
//! | rename | 0 only if absent |
//! | copy | 0 replace |
//!
//! A writer is epoch u64, session u64 ([`crate::Writer`]).
//!
//! Example: `SET ab xyz` is `01 00 02 03 61 62 78 79 7a`.
//!
//! # Invariants
//! 1. One command has one encoding: what decodes is encoded again to the same bytes.
//! 2. Ops and flags are never given another meaning; what apply does with them is part of the
//!    format version too (SAFETY G3).
//! 3. Decoding allocates only the lists of ops 11 and 17, and those in proportion to the bytes.

use keyspace::codec::{Reader, VARINT_BYTES_MAX, put_bytes, put_varint, write_varint};
use keyspace::{Cut, DecodeError, SLOTS, Slot};

use super::{ExpireIf, Expiry, Read, SetIf, SetReply, Transaction, Write, Writer, transaction};
use crate::limits::VALUE_BYTES_MAX;

const SET: u8 = 1;
const DELETE: u8 = 2;
const GET_DELETE: u8 = 3;
const GET_EXPIRE: u8 = 4;
const APPEND: u8 = 5;
const SET_RANGE: u8 = 6;
const INCREMENT: u8 = 7;
const INCREMENT_FLOAT: u8 = 8;
const EXPIRE: u8 = 9;
const PERSIST: u8 = 10;
const SET_ALL_IF_ABSENT: u8 = 11;
const RENAME: u8 = 12;
const COPY: u8 = 13;
pub(super) const FLUSH: u8 = 14;
const FLUSH_TO: u8 = 15;
const FLUSH_WITHIN: u8 = 16;
pub(super) const TRANSACTION: u8 = 17;
const APPEND_WITHIN: u8 = 18;
pub(super) const BLOCK: u8 = 19;
pub(super) const FENCE: u8 = 20;

/// Op, flags, two lengths and an expiry: what stands before the key of a `SET`, at most.
const SET_HEADER_BYTES_MAX: usize = 2 + 2 * VARINT_BYTES_MAX + 8;

/// Appends a read of named keys, but no LCS, as a transaction of itself alone.
pub fn encode_read(read: &Read<'_>, out: &mut Vec<u8>) {
    out.push(TRANSACTION);
    transaction::encode_alone(read, out);
}

/// Appends a command's bytes.
#[inline]
pub fn encode(write: &Write<'_>, out: &mut Vec<u8>) {
    match write {
        Write::Set { key, value, when, expiry, reply } => {
            let mut header = [0; SET_HEADER_BYTES_MAX];
            header[0] = SET;
            header[1] = set_flags(*when, *expiry, *reply);
            let mut len = 2;
            len += write_varint(key.len() as u64, &mut header[len..]);
            len += write_varint(value.len() as u64, &mut header[len..]);
            if let Expiry::At(at) = expiry {
                header[len..len + 8].copy_from_slice(&at.to_le_bytes());
                len += 8;
            }
            out.reserve(len + key.len() + value.len());
            out.extend_from_slice(&header[..len]);
            out.extend_from_slice(key);
            out.extend_from_slice(value);
        }
        other => encode_rare(other, out),
    }
}

fn encode_rare(write: &Write<'_>, out: &mut Vec<u8>) {
    match write {
        Write::Set { .. } => unreachable!("encoded by the caller"),
        Write::Delete { key } => put(DELETE, &[], &[key], out),
        Write::GetDelete { key } => put(GET_DELETE, &[], &[key], out),
        Write::GetExpire { key, expiry } => {
            put(GET_EXPIRE, &[expiry_flags(*expiry)], &[key], out);
            if let Expiry::At(at) = expiry {
                out.extend_from_slice(&at.to_le_bytes());
            }
        }
        Write::Append { key, value, bytes_max: VALUE_BYTES_MAX } => {
            put(APPEND, &[], &[key, value], out);
        }
        Write::Append { key, value, bytes_max } => {
            put(APPEND_WITHIN, &[], &[key, value], out);
            put_varint(*bytes_max, out);
        }
        Write::SetRange { key, offset, value } => {
            put(SET_RANGE, &[], &[key], out);
            put_varint(*offset, out);
            put_bytes(value, out);
        }
        Write::Increment { key, by } => {
            put(INCREMENT, &[], &[key], out);
            out.extend_from_slice(&by.to_le_bytes());
        }
        Write::IncrementFloat { key, by } => put(INCREMENT_FLOAT, &[], &[key, by], out),
        Write::Expire { key, at, when } => {
            put(EXPIRE, &[expire_flags(*when)], &[key], out);
            out.extend_from_slice(&at.to_le_bytes());
        }
        Write::Persist { key } => put(PERSIST, &[], &[key], out),
        Write::SetAllIfAbsent { pairs } => {
            out.push(SET_ALL_IF_ABSENT);
            put_varint(pairs.len() as u64, out);
            for (key, value) in pairs {
                put_bytes(key, out);
                put_bytes(value, out);
            }
        }
        Write::Rename { from, to, if_absent } => {
            put(RENAME, &[u8::from(*if_absent)], &[from, to], out);
        }
        Write::Copy { from, to, replace } => put(COPY, &[u8::from(*replace)], &[from, to], out),
        Write::Transaction(transaction) => {
            out.push(TRANSACTION);
            transaction.encode(out);
        }
        Write::Flush { from: Some(from), end } => {
            out.push(FLUSH_WITHIN);
            from.encode(out);
            end.encode(out);
        }
        Write::Block { writer, key, value } => {
            out.push(BLOCK);
            writer.encode(out);
            out.reserve(key.len() + value.map_or(0, <[u8]>::len) + 2 * VARINT_BYTES_MAX + 1);
            put_bytes(key, out);
            out.push(value.is_some().into());
            value.iter().for_each(|value| put_bytes(value, out));
        }
        Write::Fence { writer, from, end } => {
            out.push(FENCE);
            writer.encode(out);
            from.encode(out);
            end.encode(out);
        }
        Write::Flush { from: None, end: Cut::Slot(0) } => out.push(FLUSH),
        Write::Flush { from: None, end } => {
            out.push(FLUSH_TO);
            end.encode(out);
        }
    }
}

fn put(op: u8, flags: &[u8], fields: &[&[u8]], out: &mut Vec<u8>) {
    out.push(op);
    out.extend_from_slice(flags);
    fields.iter().for_each(|field| put_bytes(field, out));
}

/// Takes one command from the front of `bytes`, which then begin with the next one.
///
/// # Errors
/// [`DecodeError`] if they do not begin with a command; `bytes` are then unchanged.
#[inline]
pub fn decode<'a>(bytes: &mut &'a [u8]) -> Result<Write<'a>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let write = decode_one(&mut reader)?;
    *bytes = reader.rest();
    Ok(write)
}

/// Decodes one command from the front of the reader.
#[inline(always)]
pub(super) fn decode_one<'a>(reader: &mut Reader<'a>) -> Result<Write<'a>, DecodeError> {
    Ok(match reader.u8()? {
        SET => {
            let (when, expiry, reply) = read_set_flags(reader.u8()?)?;
            let (key_len, value_len) = (reader.varint()?, reader.varint()?);
            let expiry = read_at(expiry, reader)?;
            let (key, value) = (reader.take(key_len)?, reader.take(value_len)?);
            Write::Set { key, value, when, expiry, reply }
        }
        op => decode_rare(op, reader)?,
    })
}

fn decode_rare<'a>(op: u8, reader: &mut Reader<'a>) -> Result<Write<'a>, DecodeError> {
    Ok(match op {
        DELETE => Write::Delete { key: reader.bytes()? },
        GET_DELETE => Write::GetDelete { key: reader.bytes()? },
        GET_EXPIRE => {
            let flags = read_flags(reader, 0b11)?;
            let expiry = expiry_of(flags)?;
            let key = reader.bytes()?;
            Write::GetExpire { key, expiry: read_at(expiry, reader)? }
        }
        APPEND => {
            let (key, value) = (reader.bytes()?, reader.bytes()?);
            Write::append(key, value)
        }
        APPEND_WITHIN => {
            let (key, value, bytes_max) = (reader.bytes()?, reader.bytes()?, reader.varint()?);
            if bytes_max >= VALUE_BYTES_MAX {
                return Err(DecodeError::Field { what: "longest result of an append" });
            }
            Write::Append { key, value, bytes_max }
        }
        SET_RANGE => Write::SetRange {
            key: reader.bytes()?,
            offset: reader.varint()?,
            value: reader.bytes()?,
        },
        INCREMENT => Write::Increment { key: reader.bytes()?, by: reader.u64()? as i64 },
        INCREMENT_FLOAT => Write::IncrementFloat { key: reader.bytes()?, by: reader.bytes()? },
        EXPIRE => {
            let flags = read_flags(reader, 0b1111)?;
            let when = ExpireIf {
                nx: flags & 1 != 0,
                xx: flags & 2 != 0,
                gt: flags & 4 != 0,
                lt: flags & 8 != 0,
            };
            Write::Expire { key: reader.bytes()?, at: reader.u64()? as i64, when }
        }
        PERSIST => Write::Persist { key: reader.bytes()? },
        SET_ALL_IF_ABSENT => {
            let count = reader.varint()?;
            // A pair takes two bytes at least: more cannot follow, and are not made room for.
            if count > reader.rest().len() as u64 / 2 {
                return Err(DecodeError::Short);
            }
            let pair = |_| Ok((reader.bytes()?, reader.bytes()?));
            Write::SetAllIfAbsent { pairs: (0..count).map(pair).collect::<Result<_, _>>()? }
        }
        RENAME => {
            let if_absent = read_flags(reader, 1)? != 0;
            Write::Rename { from: reader.bytes()?, to: reader.bytes()?, if_absent }
        }
        COPY => {
            let replace = read_flags(reader, 1)? != 0;
            Write::Copy { from: reader.bytes()?, to: reader.bytes()?, replace }
        }
        FLUSH => Write::Flush { from: None, end: Cut::Slot(0) },
        FLUSH_TO => Write::Flush { from: None, end: read_cut_but(0, "end of a flush", reader)? },
        FLUSH_WITHIN => Write::Flush {
            from: Some(read_cut_but(SLOTS, "beginning of a flush", reader)?),
            end: read_cut_but(0, "end of a flush", reader)?,
        },
        BLOCK => Write::Block {
            writer: Writer::decode(reader)?,
            key: reader.bytes()?,
            value: match reader.u8()? {
                0 => None,
                1 => Some(reader.bytes()?),
                found => return Err(DecodeError::Tag { what: "value of a block", found }),
            },
        },
        FENCE => Write::Fence {
            writer: Writer::decode(reader)?,
            from: read_cut_but(SLOTS, "beginning of a fence", reader)?,
            end: read_cut_but(0, "end of a fence", reader)?,
        },
        TRANSACTION => Write::Transaction(Box::new(Transaction::decode(reader)?)),
        found => return Err(DecodeError::Tag { what: "command", found }),
    })
}

/// A slot or key, but not this slot.
fn read_cut_but(
    slot: Slot,
    what: &'static str,
    reader: &mut Reader<'_>,
) -> Result<Cut, DecodeError> {
    match Cut::decode(reader)? {
        Cut::Slot(found) if found == slot => Err(DecodeError::Field { what }),
        cut => Ok(cut),
    }
}

const fn bad_flags(found: u8) -> DecodeError {
    DecodeError::Tag { what: "flags of a command", found }
}

pub(super) fn read_flags(reader: &mut Reader<'_>, known: u8) -> Result<u8, DecodeError> {
    let flags = reader.u8()?;
    if flags & !known == 0 { Ok(flags) } else { Err(bad_flags(flags)) }
}

fn expire_flags(when: ExpireIf) -> u8 {
    let ExpireIf { nx, xx, gt, lt } = when;
    u8::from(nx) | u8::from(xx) << 1 | u8::from(gt) << 2 | u8::from(lt) << 3
}

fn expiry_flags(expiry: Expiry) -> u8 {
    match expiry {
        Expiry::Never => 0,
        Expiry::Keep => 1,
        Expiry::At(_) => 2,
    }
}

/// The time itself is 0: [`read_at`] puts it in.
fn expiry_of(flags: u8) -> Result<Expiry, DecodeError> {
    match flags & 0b11 {
        0 => Ok(Expiry::Never),
        1 => Ok(Expiry::Keep),
        2 => Ok(Expiry::At(0)),
        _ => Err(bad_flags(flags)),
    }
}

#[inline]
fn read_at(expiry: Expiry, reader: &mut Reader<'_>) -> Result<Expiry, DecodeError> {
    match expiry {
        Expiry::At(_) => Ok(Expiry::At(reader.u64()?)),
        other => Ok(other),
    }
}

#[inline]
fn set_flags(when: SetIf, expiry: Expiry, reply: SetReply) -> u8 {
    let when = match when {
        SetIf::Always => 0,
        SetIf::Absent => 1 << 2,
        SetIf::Present => 2 << 2,
    };
    let reply = match reply {
        SetReply::Ok => 0,
        SetReply::Old => 1 << 4,
        SetReply::Flag => 2 << 4,
    };
    expiry_flags(expiry) | when | reply
}

#[inline]
fn read_set_flags(flags: u8) -> Result<(SetIf, Expiry, SetReply), DecodeError> {
    let when = match flags >> 2 & 0b11 {
        0 => SetIf::Always,
        1 => SetIf::Absent,
        2 => SetIf::Present,
        _ => return Err(bad_flags(flags)),
    };
    let reply = match flags >> 4 {
        0 => SetReply::Ok,
        1 => SetReply::Old,
        2 => SetReply::Flag,
        _ => return Err(bad_flags(flags)),
    };
    Ok((when, expiry_of(flags)?, reply))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{OwnedWrite, writes};
    use super::*;

    fn encoded(write: &Write<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        encode(write, &mut out);
        out
    }

    #[test]
    fn the_bytes_of_some_commands() {
        let set =
            |when, expiry, reply| Write::Set { key: b"ab", value: b"xyz", when, expiry, reply };
        let plain = set(SetIf::Always, Expiry::Never, SetReply::Ok);
        assert_eq!(encoded(&plain), b"\x01\x00\x02\x03abxyz");
        let full = set(SetIf::Present, Expiry::At(0x102), SetReply::Old);
        assert_eq!(encoded(&full), b"\x01\x1a\x02\x03\x02\x01\0\0\0\0\0\0abxyz");
        assert_eq!(
            encoded(&Write::Increment { key: b"n", by: -1 }),
            b"\x07\x01n\xff\xff\xff\xff\xff\xff\xff\xff"
        );
        let append = |bytes_max| encoded(&Write::Append { key: b"k", value: b"xy", bytes_max });
        assert_eq!(append(VALUE_BYTES_MAX), b"\x05\x01k\x02xy");
        assert_eq!(append(1000), b"\x12\x01k\x02xy\xe8\x07");
        let flush = |from, end| encoded(&Write::Flush { from, end });
        assert_eq!(flush(None, Cut::Slot(0)), b"\x0e");
        assert_eq!(flush(None, Cut::Slot(300)), b"\x0f\xac\x02");
        assert_eq!(flush(Some(Cut::Slot(7)), Cut::Slot(300)), b"\x10\x07\xac\x02");
        let fig = Cut::Key((*b"fig").into());
        assert_eq!(flush(Some(fig), Cut::Slot(SLOTS)), b"\x10\x81\x80\x01\x03fig\x80\x80\x01");
        let writer = Writer { epoch: 0x102, session: 7 };
        assert_eq!(
            encoded(&Write::Block { writer, key: b"k", value: Some(b"xy") }),
            b"\x13\x02\x01\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01k\x01\x02xy"
        );
        assert_eq!(
            encoded(&Write::Fence { writer, from: Cut::Slot(7), end: Cut::Slot(300) }),
            b"\x14\x02\x01\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x07\xac\x02"
        );
    }

    #[test]
    fn invalid_bytes_are_refused_without_consuming() {
        for (bytes, refusal) in [
            (&b""[..], DecodeError::Short),
            (b"\x00", DecodeError::Tag { what: "command", found: 0 }),
            (b"\x0f\x00", DecodeError::Field { what: "end of a flush" }),
            (b"\x10\x80\x80\x01\x07", DecodeError::Field { what: "beginning of a flush" }),
            (b"\x10\x07\x00", DecodeError::Field { what: "end of a flush" }),
            (b"\x15", DecodeError::Tag { what: "command", found: 21 }),
            (
                b"\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\x00",
                DecodeError::Field { what: "end of a fence" },
            ),
            (b"\x11\x00\x01\x13", DecodeError::Tag { what: "step of a transaction", found: 19 }),
            (
                b"\x12\x01k\x00\x80\x80\x80\x80\x02",
                DecodeError::Field { what: "longest result of an append" },
            ),
            (
                b"\x11\x01\x01k\x03\0\0\0\0\0\0\0\0\0",
                DecodeError::Tag { what: "what was seen", found: 3 },
            ),
            (b"\x11\x00\x01\x0e", DecodeError::Tag { what: "step of a transaction", found: 14 }),
            (b"\x11\x00\x01\x11", DecodeError::Tag { what: "step of a transaction", found: 17 }),
            (b"\x11\x00\x01\x15", DecodeError::Tag { what: "command", found: 21 }),
            (b"\x11\x00\x01\x4a", DecodeError::Tag { what: "read of a transaction", found: 74 }),
            (b"\x11\x00\x01\x41\x05\x01k", DecodeError::Short),
            (b"\x01\x03\x00\x00", bad_flags(3)),
            (b"\x01\x0c\x00\x00", bad_flags(12)),
            (b"\x01\x40\x00\x00", bad_flags(64)),
            (b"\x0c\x02\x00\x00", bad_flags(2)),
            (b"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01k", DecodeError::Short),
            (b"\x0b\xff\xff\xff\xff\x0f\x00\x00", DecodeError::Short),
        ] {
            let mut rest = bytes;
            assert_eq!(decode(&mut rest), Err(refusal), "{bytes:?}");
            assert_eq!(rest, bytes);
        }
    }

    proptest! {
        #[test]
        fn commands_back_to_back_come_back(writes in prop::collection::vec(writes(), 0..8)) {
            let mut out = Vec::new();
            writes.iter().for_each(|write| encode(&write.borrow(), &mut out));
            let mut rest = &out[..];
            for write in &writes {
                prop_assert_eq!(decode(&mut rest), Ok(write.borrow()));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn cut_bytes_are_short(write in writes(), cut: prop::sample::Index) {
            let out = encoded(&write.borrow());
            prop_assert_eq!(decode(&mut &out[..cut.index(out.len())]), Err(DecodeError::Short));
        }

        #[test]
        fn garbage_is_refused_or_has_one_encoding(
            write in writes(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = encoded(&write.borrow());
            for (at, byte) in changes {
                let index = at.index(bytes.len());
                bytes[index] = byte;
            }
            let mut rest = &bytes[..];
            if let Ok(read) = decode(&mut rest) {
                let read: OwnedWrite = read.into();
                prop_assert_eq!(&encoded(&read.borrow())[..], &bytes[..bytes.len() - rest.len()]);
            }
        }
    }

    /// The fuzzer's seeds are commands, and stay so: the bytes stand in logs.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the corpus lies in ordinary files")]
    fn fuzz_corpus_roundtrips_and_bad_seeds_are_refused() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/command");
        let mut count = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let mut rest = &bytes[..];
            let write = decode(&mut rest).unwrap();
            assert!(rest.is_empty());
            let mut again = Vec::new();
            encode(&write, &mut again);
            assert_eq!(again, bytes);
            count += 1;
        }
        assert!(count >= 12, "{count} seeds");
    }
}

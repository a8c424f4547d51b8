//! The bytes of a shard's transaction state: locks, records, marks, floors.
//!
//! They stand behind the sessions in a checkpoint's first block, if there are any. Each list begins
//! with its count, a `varint`. Older checkpoints have no floors.
//!
//! ```text
//! lock     key bytes, id, record key bytes, time u64, write, reach u8, answers
//!   write    0: nothing. 1: a value, expiry u64, bytes. 2: the key is deleted
//!   reach    0: the key alone. 1: up to a key, bytes. 2: to the end. 3: an arc, its beginning and
//!            its end, as cuts. 4 more: a deadline u64, which stands first
//! follows record   id, record key bytes, state u8, keys: count varint, bytes each state    0:
//! staged. 1: committed, time u64. 2: aborted mark     id, key bytes, state u8 state    0: aborted
//! or prevented. 1: committed, time of the lock u64, time u64, answers floor    coordinator u64,
//! time u64 id       start u64, coordinator u64, attempt varint answers  count varint, each: place
//! varint, reply bytes
//! ```

use std::collections::BTreeMap;

use keyspace::codec::{Reader, put_bytes, put_counted, put_varint};
use keyspace::{Cut, DecodeError, Timestamp};
use smallvec::SmallVec;

use super::{Answers, Deadline, Intent, Lock, LockRange, Locks, Mark, Outcome, Record, TxnId};
use command::reply;

impl TxnId {
    /// Appends all of it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.start.0.to_le_bytes());
        out.extend_from_slice(&self.coordinator.to_le_bytes());
        put_varint(u64::from(self.attempt), out);
    }

    /// Reads what [`encode`](Self::encode) has appended.
    ///
    /// # Errors
    /// If these are not its bytes.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (start, coordinator) = (Timestamp(reader.u64()?), reader.u64()?);
        let attempt = reader.varint_max(u32::MAX.into(), "attempt")? as u32;
        Ok(Self { start, coordinator, attempt })
    }
}

impl Locks {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.locks.len() as u64, out);
        for (key, lock) in &self.locks {
            put_bytes(key, out);
            lock.id.encode(out);
            put_bytes(&lock.record, out);
            out.extend_from_slice(&lock.at.0.to_le_bytes());
            match &lock.intent {
                Intent::Keep => out.push(0),
                Intent::Put(value, expiry_ms) => {
                    out.push(1);
                    out.extend_from_slice(&expiry_ms.to_le_bytes());
                    put_bytes(value, out);
                }
                Intent::Delete => out.push(2),
            }
            let has_deadline = lock.deadline != Deadline::NEVER;
            let reach = match &lock.reach {
                LockRange::Key => 0,
                LockRange::Until(_) => 1,
                LockRange::End => 2,
                LockRange::Arc(..) => 3,
            };
            out.push(reach | u8::from(has_deadline) << 2);
            if has_deadline {
                out.extend_from_slice(&lock.deadline.0.to_le_bytes());
            }
            match &lock.reach {
                LockRange::Key | LockRange::End => {}
                LockRange::Until(end) => put_bytes(end, out),
                LockRange::Arc(arc) => [&arc.0, &arc.1].iter().for_each(|cut| cut.encode(out)),
            }
            put_answers(&lock.answers, out);
        }
        put_varint(self.records.len() as u64, out);
        for (id, record) in &self.records {
            id.encode(out);
            put_bytes(&record.key, out);
            put_outcome(&record.outcome, out);
            put_keys(&record.keys, out);
        }
        put_varint(self.marked() as u64, out);
        for (id, marks) in &self.marks {
            for (key, mark) in marks.iter() {
                id.encode(out);
                put_bytes(key, out);
                out.extend_from_slice(mark);
            }
        }
        put_varint(self.floors.len() as u64, out);
        for (coordinator, before) in &self.floors {
            out.extend_from_slice(&coordinator.to_le_bytes());
            out.extend_from_slice(&before.0.to_le_bytes());
        }
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut all = Self::default();
        let mut marks = BTreeMap::<TxnId, Vec<(&[u8], Mark)>>::new();
        for _ in 0..reader.varint()? {
            let (key, id) = (reader.bytes()?.into(), TxnId::decode(reader)?);
            let (record, at) = (reader.bytes()?.into(), Timestamp(reader.u64()?));
            let intent = match reader.u8()? {
                0 => Intent::Keep,
                1 => {
                    let expiry_ms = reader.u64()?;
                    Intent::Put(SmallVec::from_slice(reader.bytes()?), expiry_ms)
                }
                2 => Intent::Delete,
                found => return Err(DecodeError::Tag { what: "intent", found }),
            };
            let tag = reader.u8()?;
            let has_deadline = tag & 4 != 0;
            let deadline = if has_deadline { Deadline(reader.u64()?) } else { Deadline::NEVER };
            let reach = match tag & !4 {
                0 => LockRange::Key,
                1 => LockRange::Until(reader.bytes()?.into()),
                2 => LockRange::End,
                3 => LockRange::Arc(Box::new((Cut::decode(reader)?, Cut::decode(reader)?))),
                _ => return Err(DecodeError::Tag { what: "reach of a lock", found: tag }),
            };
            let answers = read_answers(reader)?;
            all.locks.insert(key, Lock { id, record, at, deadline, intent, reach, answers });
        }
        for _ in 0..reader.varint()? {
            let (id, key) = (TxnId::decode(reader)?, reader.bytes()?.into());
            let outcome = read_outcome(reader)?;
            all.records.insert(id, Record { key, outcome, keys: read_keys(reader)? });
        }
        for _ in 0..reader.varint()? {
            let (id, key) = (TxnId::decode(reader)?, reader.bytes()?);
            marks.entry(id).or_default().push((key, read_mark(reader)?));
        }
        for (id, mut marks) in marks {
            all.marks.entry(id).or_default().put_all(&mut marks);
        }
        if !reader.rest().is_empty() {
            for _ in 0..reader.varint()? {
                all.floors.insert(reader.u64()?, Timestamp(reader.u64()?));
            }
        }
        all.count();
        Ok(all)
    }
}

pub(super) fn put_outcome(outcome: &Outcome, out: &mut Vec<u8>) {
    match outcome {
        Outcome::Staged => out.push(0),
        Outcome::Committed(at) => {
            out.push(1);
            out.extend_from_slice(&at.0.to_le_bytes());
        }
        Outcome::Aborted => out.push(2),
    }
}

pub(super) fn read_outcome(reader: &mut Reader<'_>) -> Result<Outcome, DecodeError> {
    Ok(match reader.u8()? {
        0 => Outcome::Staged,
        1 => Outcome::Committed(Timestamp(reader.u64()?)),
        2 => Outcome::Aborted,
        found => return Err(DecodeError::Tag { what: "outcome of a transaction", found }),
    })
}

pub(super) fn put_mark(mark: &Mark, out: &mut Vec<u8>) {
    match mark {
        Mark::Aborted => out.push(0),
        Mark::Committed { locked_at, commit_time, answers } => {
            out.push(1);
            out.extend_from_slice(&locked_at.0.to_le_bytes());
            out.extend_from_slice(&commit_time.0.to_le_bytes());
            put_answers(answers, out);
        }
    }
}

pub(super) fn read_mark(reader: &mut Reader<'_>) -> Result<Mark, DecodeError> {
    Ok(match reader.u8()? {
        0 => Mark::Aborted,
        1 => {
            let (locked_at, commit_time) = (Timestamp(reader.u64()?), Timestamp(reader.u64()?));
            Mark::Committed { locked_at, commit_time, answers: read_answers(reader)? }
        }
        found => return Err(DecodeError::Tag { what: "mark of a transaction", found }),
    })
}

pub(super) fn put_keys<K: AsRef<[u8]>>(keys: &[K], out: &mut Vec<u8>) {
    put_varint(keys.len() as u64, out);
    keys.iter().for_each(|key| put_bytes(key.as_ref(), out));
}

pub(super) fn read_keys<'a, K: From<&'a [u8]>, A: FromIterator<K>>(
    reader: &mut Reader<'a>,
) -> Result<A, DecodeError> {
    let count = reader.varint()?;
    // A key takes a byte at least: more cannot follow, and are not made room for.
    if count > reader.rest().len() as u64 {
        return Err(DecodeError::Short);
    }
    (0..count).map(|_| reader.bytes().map(K::from)).collect()
}

pub(super) fn put_answers(answers: &Answers, out: &mut Vec<u8>) {
    put_varint(answers.len() as u64, out);
    for (place, answer) in answers {
        put_varint(u64::from(*place), out);
        put_counted(out, |out| reply::encode_all(std::slice::from_ref(answer), out));
    }
}

pub(super) fn read_answers(reader: &mut Reader<'_>) -> Result<Answers, DecodeError> {
    let mut answers = Answers::new();
    for _ in 0..reader.varint()? {
        let place = reader.varint_max(u32::MAX.into(), "place of a command")? as u32;
        answers.push((place, reply::decode_one(reader.bytes()?)?));
    }
    Ok(answers)
}

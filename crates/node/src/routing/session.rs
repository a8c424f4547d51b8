//! Was this batch applied before? Sessions make a retried write happen once (SAFETY G10).
//!
//! A node that forwards writes to a shard's leader does so in a **session**: a random number, and
//! in it sequence numbers 1, 2, 3 … It resends every batch without an answer, under the same
//! number, to the current leader. Entries carry both numbers. Apply, the only judge, compares them
//! with a table that is part of the replicated state:
//!
//! ```text
//!   session 77: next 5, floor 3      4 ─► done before: the answer of then    (3 and 4 are stored)
//!                                    5 ─► new: applied, its answer is stored
//!                                    6 ─► a gap: not applied, "send from 5 on"
//!                                    2 ─► below the floor: its sender has had the answer
//! ```
//!
//! So the batches of a session are applied once and in their order, over any number of leaders. A
//! sender names the lowest number that it still waits for (the **floor**); answers below it are
//! dropped.
//!
//! # How long a session lasts
//! Every batch carries the time of its first sending, in ms, by the leader's clock as the sender
//! knew it. If that time + [`WINDOW_MS`] ≤ the entry's own timestamp, apply refuses the batch. By
//! the same test it forgets a session, with the time of its newest batch. So no batch is ever
//! compared with a forgotten session, whatever the clocks say. Apply also refuses a batch that is
//! more than [`AHEAD_MS_MAX`] ahead of the entry: it would keep its session for as long.
//!
//! # Bytes
//! `varint` count, then each session by rising number: number u64, next `varint`, floor `varint`,
//! newest ms `varint`, count of answers `varint`, each: sequence `varint`, `u8` 1 and `bytes`, or 0
//! if the answer was too long to be kept ([`ANSWER_BYTES_MAX`]).

use std::collections::BTreeMap;

use keyspace::DecodeError;
use keyspace::codec::{Reader, put_bytes, put_varint};

use command::{Reply, reply};

/// How long after its first sending a batch may be applied, in ms of the shard's timestamps.
pub const WINDOW_MS: u64 = 60_000;
/// How far a batch's time may be ahead of the shard's timestamps, in ms.
pub const AHEAD_MS_MAX: u64 = 500;
/// The longest answers to one batch that are stored for a retry, in bytes.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The most bytes of answers that a shard stores. Others are not stored.
pub const RETAINED_ANSWERS_BYTES_MAX: usize = 16 << 20;

/// Which batch of which session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchId {
    /// Drawn at random by the sender.
    pub session: u64,
    /// 1, 2, 3 …
    pub sequence: u64,
    /// No batch below is waited for any more.
    pub floor: u64,
    /// When it was first sent, in ms since 1970, or a little earlier.
    pub sent_ms: u64,
}

/// Bytes of a batch's id in an entry.
pub const BATCH_ID_BYTES: usize = 32;

impl BatchId {
    /// Its bytes in an entry, before the commands.
    pub fn to_bytes(self) -> [u8; BATCH_ID_BYTES] {
        let mut out = [0; BATCH_ID_BYTES];
        let numbers = [self.session, self.sequence, self.floor, self.sent_ms];
        for (place, number) in out.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Splits the body of an entry into id and commands.
    pub fn split(body: &[u8]) -> Option<(Self, &[u8])> {
        let mut reader = Reader::new(body);
        let mut number = || reader.u64().ok();
        let (session, sequence) = (number()?, number()?);
        let (floor, sent_ms) = (number()?, number()?);
        Some((Self { session, sequence, floor, sent_ms }, reader.rest()))
    }
}

/// What apply made of a batch with an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchVerdict {
    /// It is applied, now or before; the replies as [`reply::encode_all`] writes them. `None`: they
    /// were too long to be kept.
    Done(Option<Box<[u8]>>),
    /// It was not applied: those from this sequence on must come first.
    Gap {
        /// The session's next.
        next: u64,
    },
    /// Its sender has acknowledged the answer.
    Known,
    /// It was not applied, unless it was before: that is forgotten.
    TooOld,
    /// It was not applied: its time is too far ahead of the shard's. A copy of it may be, later.
    Ahead,
}

/// The sessions of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    sessions: BTreeMap<u64, Session>,
    /// Of all answers.
    retained_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    next: u64,
    floor: u64,
    newest_ms: u64,
    answers: BTreeMap<u64, Option<Box<[u8]>>>,
}

impl Sessions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Judges a batch whose entry has this time. `None`: it is to be applied, and
    /// [`Self::applied`] must follow.
    pub fn judge(&mut self, id: BatchId, now_ms: u64) -> Option<BatchVerdict> {
        let retained_bytes = &mut self.retained_bytes;
        self.sessions.retain(|_, session| {
            let is_young = session.newest_ms.saturating_add(WINDOW_MS) > now_ms;
            if !is_young {
                *retained_bytes -= session.answers.values().map(bytes_of).sum::<usize>();
            }
            is_young
        });
        if id.sent_ms.saturating_add(WINDOW_MS) <= now_ms {
            return Some(BatchVerdict::TooOld);
        }
        if id.sent_ms > now_ms.saturating_add(AHEAD_MS_MAX) {
            return Some(BatchVerdict::Ahead);
        }
        let Some(session) = self.sessions.get_mut(&id.session) else {
            return (id.sequence != 1).then_some(BatchVerdict::Gap { next: 1 });
        };
        session.floor = session.floor.max(id.floor);
        while let Some(oldest) = session.answers.first_entry() {
            if *oldest.key() >= session.floor {
                break;
            }
            self.retained_bytes -= bytes_of(&oldest.remove());
        }
        if id.sequence == session.next {
            return None;
        }
        if id.sequence > session.next {
            return Some(BatchVerdict::Gap { next: session.next });
        }
        Some(match session.answers.get(&id.sequence) {
            Some(answer) => BatchVerdict::Done(answer.clone()),
            None => BatchVerdict::Known,
        })
    }

    /// A batch that was to be applied has these replies.
    pub fn applied(&mut self, id: BatchId, replies: &[Reply]) -> BatchVerdict {
        let mut bytes = Vec::new();
        reply::encode_all(replies, &mut bytes);
        let bytes = bytes.into_boxed_slice();
        let fits = bytes.len()
            <= ANSWER_BYTES_MAX.min(RETAINED_ANSWERS_BYTES_MAX.saturating_sub(self.retained_bytes));
        let kept = fits.then(|| bytes.clone());
        self.retained_bytes += bytes_of(&kept);
        let new = || Session { next: 1, floor: 0, newest_ms: 0, answers: BTreeMap::new() };
        let session = self.sessions.entry(id.session).or_insert_with(new);
        session.next = id.sequence + 1;
        session.newest_ms = session.newest_ms.max(id.sent_ms);
        session.answers.insert(id.sequence, kept);
        BatchVerdict::Done(Some(bytes))
    }

    /// Adds the sessions of another shard. Numbers are drawn at random, so no session is in both;
    /// if one were, this shard's would stay.
    pub fn unite(&mut self, others: Self) {
        for (number, session) in others.sessions {
            if let std::collections::btree_map::Entry::Vacant(place) = self.sessions.entry(number) {
                self.retained_bytes += session.answers.values().map(bytes_of).sum::<usize>();
                place.insert(session);
            }
        }
    }

    /// What became of a batch, if it was applied; nothing changes.
    pub fn look_up(&self, id: BatchId) -> Option<BatchVerdict> {
        let session = self.sessions.get(&id.session)?;
        if id.sequence >= session.next {
            return None;
        }
        Some(match session.answers.get(&id.sequence) {
            Some(answer) => BatchVerdict::Done(answer.clone()),
            None => BatchVerdict::Known,
        })
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.sessions.len() as u64, out);
        for (number, session) in &self.sessions {
            out.extend_from_slice(&number.to_le_bytes());
            for word in [session.next, session.floor, session.newest_ms] {
                put_varint(word, out);
            }
            put_varint(session.answers.len() as u64, out);
            for (sequence, answer) in &session.answers {
                put_varint(*sequence, out);
                out.push(u8::from(answer.is_some()));
                if let Some(answer) = answer {
                    put_bytes(answer, out);
                }
            }
        }
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut sessions = BTreeMap::new();
        let mut retained_bytes = 0;
        for _ in 0..reader.varint()? {
            let number = reader.u64()?;
            let (next, floor) = (reader.varint()?, reader.varint()?);
            let newest_ms = reader.varint()?;
            let mut answers = BTreeMap::new();
            for _ in 0..reader.varint()? {
                let sequence = reader.varint()?;
                let answer = match reader.u8()? {
                    0 => None,
                    1 => Some(reader.bytes()?.into()),
                    found => return Err(DecodeError::Tag { what: "kept answer", found }),
                };
                retained_bytes += bytes_of(&answer);
                answers.insert(sequence, answer);
            }
            sessions.insert(number, Session { next, floor, newest_ms, answers });
        }
        Ok(Self { sessions, retained_bytes })
    }
}

fn bytes_of(answer: &Option<Box<[u8]>>) -> usize {
    answer.as_ref().map_or(0, |answer| answer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64, floor: u64, sent_ms: u64) -> BatchId {
        BatchId { session: 77, sequence, floor, sent_ms }
    }

    fn apply(sessions: &mut Sessions, id: BatchId, now_ms: u64, reply: i64) -> BatchVerdict {
        match sessions.judge(id, now_ms) {
            Some(verdict) => verdict,
            None => sessions.applied(id, &[Reply::Int(reply)]),
        }
    }

    fn done(reply: i64) -> BatchVerdict {
        let mut bytes = Vec::new();
        reply::encode_all(&[Reply::Int(reply)], &mut bytes);
        BatchVerdict::Done(Some(bytes.into()))
    }

    #[test]
    fn session_applies_batches_once_and_in_order() {
        let mut sessions = Sessions::default();
        assert_eq!(apply(&mut sessions, id(1, 1, 10), 10, 1), done(1));
        assert_eq!(apply(&mut sessions, id(3, 1, 10), 11, 3), BatchVerdict::Gap { next: 2 });
        assert_eq!(apply(&mut sessions, id(2, 1, 10), 12, 2), done(2));
        assert_eq!(apply(&mut sessions, id(1, 1, 10), 13, 9), done(1));
        assert_eq!(apply(&mut sessions, id(3, 2, 10), 14, 3), done(3));
        assert_eq!(apply(&mut sessions, id(1, 1, 10), 15, 9), BatchVerdict::Known);
        let mut bytes = Vec::new();
        sessions.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Sessions::decode(&mut reader), Ok(sessions));
        assert!(reader.rest().is_empty());
    }

    /// A session that is forgotten never takes a batch of its own again, whatever comes late.
    #[test]
    fn batch_and_session_expire_by_same_test() {
        let mut sessions = Sessions::default();
        assert_eq!(apply(&mut sessions, id(1, 1, 10), 10, 1), done(1));
        let late = 10 + WINDOW_MS;
        assert_eq!(apply(&mut sessions, id(1, 1, 10), late, 9), BatchVerdict::TooOld);
        assert!(sessions.is_empty());
        assert_eq!(apply(&mut sessions, id(2, 1, late), late, 9), BatchVerdict::Gap { next: 1 });
        let ahead = id(1, 1, late + AHEAD_MS_MAX + 1);
        assert_eq!(apply(&mut sessions, ahead, late, 9), BatchVerdict::Ahead);
    }

    #[test]
    fn session_does_not_retain_long_answers() {
        let mut sessions = Sessions::default();
        let long = Reply::Bulk(vec![7; ANSWER_BYTES_MAX].into());
        assert_eq!(sessions.judge(id(1, 1, 10), 10), None);
        let first = sessions.applied(id(1, 1, 10), &[long]);
        assert!(matches!(first, BatchVerdict::Done(Some(_))));
        assert_eq!(apply(&mut sessions, id(1, 1, 10), 11, 9), BatchVerdict::Done(None));
    }
}

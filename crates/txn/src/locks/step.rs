//! Steps of a transaction over several shards, and a shard's replies to them.
//!
//! | step | applied |
//! |---|---|
//! | PREPARE | refuses; or locks all its keys and returns its commands' replies. A repeated one gets the same answer. One that commits creates the record as COMMITTED, and runs its own commands at once |
//! | DECIDE | ends a record that is STAGED, and resolves its keys here; names the others (*) |
//! | RESOLVE | at any age: writes the values of its locked keys, or drops them; leaves a mark at each |
//! | PREVENT | at any age: makes a mark where lock and mark are missing: the id never locks that key |
//! | LOOK | returns the record's state; a missing record becomes ABORTED, unless the id is too old |
//! | FORGET | removes the keys of one record or many: all are resolved |
//!
//! (*) ABORTED creates a record that is not there, unless the id is too old. What has an outcome
//! keeps it.
//!
//! # Bytes
//! An entry of kind `Kind::Steps` (of a node's log) has its count of them, back to back. Each: tag
//! `u8`, id ([`TxnId`]), then
//!
//! | tag | step | fields |
//! |---|---|---|
//! | 1 | PREPARE | `u8`: 1 first, 2 it commits, 4 its keys are kept, 8 it has a deadline; if it commits, time u64, and deadline u64 if it has one; if kept, time u64; record key `bytes`; keys; places: count `varint`, `varint` each; a transaction |
//! | 2 | DECIDE | record key `bytes`, outcome but STAGED |
//! | 8 | DECIDE | the same, by who was told of all its locks |
//! | 3 | RESOLVE | outcome but STAGED, keys |
//! | 4 | PREVENT | keys |
//! | 5 | FORGET | record key `bytes`; of others: count `varint`, id and record key `bytes` each |
//! | 6 | LOOK | record key `bytes` |
//!
//! Keys are a count `varint`, and `bytes` each; of PREPARE those of the record, if it carries it:
//! all that are promised, or, if it commits, all that are locked elsewhere, by that time. Record
//! and keys of PREPARE are names (`name`), as are the keys of a replied record.
//! Places are those of its commands in the whole; a transaction is as
//! [`command::transaction`] has it.
//!
//! A reply: tag `u8`, then: 1 voted: time u64, answers, or 8 voted: time u64, deadline u64,
//! answers · 2 refused: why `u8` (0 too old: time
//! u64 · 1 it is aborted here · 2 another's lock: key `bytes` · 3 changed: key `bytes` · 4 what was
//! found alive elsewhere has expired) · 3 the
//! record: `u8` 0 staged · 1 committed: time u64 · 2 aborted · 3 too old; keys · 4 found: count
//! `varint`, each `u8` 0 locked: time u64, answers, or 2 locked: time u64, deadline u64,
//! answers · 1 a mark · 5 done · 6 moved · 7 refused: more
//! than a transaction may do.

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{DecodeError, Timestamp};
use smallvec::SmallVec;

use super::codec::{
    put_answers, put_keys, put_mark, put_outcome, read_answers, read_keys, read_mark, read_outcome,
};
use super::{Answers, Deadline, Mark, Name, Outcome, TxnId};
use command::Transaction;

/// Keys of a step: most have one or two in a shard, and need no memory for them.
pub type Keys<'a> = SmallVec<[&'a [u8]; 2]>;

/// Where commands stand in the whole transaction.
pub type Places = SmallVec<[u32; 4]>;

/// A step, as an entry holds it. All its keys are one shard's, or it does nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// Locks keys.
    Prepare(Prepare<'a>),
    /// Ends a record.
    Decide {
        /// Whose.
        id: TxnId,
        /// The key of the record.
        record: &'a [u8],
        /// [`Outcome::Committed`] or [`Outcome::Aborted`].
        outcome: Outcome,
        /// Whether the outcome can no longer change: the coordinator has all votes. A coordinator
        /// that finds the locks later cannot be sure: the transaction's own may lack a vote, and
        /// abort first.
        is_sure: bool,
    },
    /// Gives up locks.
    Resolve {
        /// Whose.
        id: TxnId,
        /// Its outcome.
        outcome: Outcome,
        /// The keys.
        keys: Keys<'a>,
    },
    /// Keeps keys from being locked.
    Prevent {
        /// By whom.
        id: TxnId,
        /// The keys.
        keys: Keys<'a>,
    },
    /// Reads a record: LOOK.
    ReadRecord {
        /// Whose.
        id: TxnId,
        /// The key of the record.
        record: &'a [u8],
    },
    /// Forgets the keys of these records: no coordinator will ask for them any more.
    Forget {
        /// Whose, and the key of each record; at least one.
        all: Vec<(TxnId, &'a [u8])>,
        /// The coordinator that sends this, and its floor: it asks for no PREPARE any more of
        /// transactions that it began before this time, and waits for no answer to one.
        floor: Option<(u64, Timestamp)>,
    },
}

/// The first byte of a PREPARE.
const PREPARE: u8 = 1;

/// What a transaction does in one shard.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepare<'a> {
    /// Whose.
    pub id: TxnId,
    /// Whether the transaction holds no lock yet, and has no other step under way: it may wait for
    /// any other.
    pub is_first: bool,
    /// The name by which its keys are reserved, if they are (`ReserveFrom::Everyone`).
    pub reserved_as: Option<Timestamp>,
    /// The name of the key by which the transaction's record is found.
    pub record: &'a [u8],
    /// The names in the record.
    pub promised: Keys<'a>,
    /// What it means for the record.
    pub role: Role,
    /// If it commits, the earliest deadline of the locks elsewhere; else [`Deadline::NEVER`], and
    /// its locks get their own deadlines. `None` in entries from before there were deadlines: their
    /// locks have none.
    pub deadline: Option<Deadline>,
    /// Where each of the commands stands in the whole transaction.
    pub places: Places,
    /// Its part of the transaction: every key that it names is locked.
    pub part: Transaction<'a>,
}

/// What a PREPARE means for its transaction's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The record is elsewhere: no keys are promised. Or it is here, STAGED, and all keys of the
    /// transaction are.
    Votes,
    /// All keys elsewhere are locked, the last one at this time. This step commits the transaction,
    /// at the time of its entry, and locks nothing here. The promised keys are those locks.
    Commits(Timestamp),
}

/// Why a PREPARE was refused: nothing is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareRefusal {
    /// The id is too old, by the shard's clock, which stands here.
    TooOld(Timestamp),
    /// It was prevented, or is aborted.
    Aborted,
    /// Another transaction has locked this key.
    Locked(Box<[u8]>),
    /// This key has changed since it was watched.
    Changed(Box<[u8]>),
    /// A value that it has found alive in another shard has expired: it can never be committed.
    Expired,
    /// The shard cannot take it: it would write more than one may.
    TooMuch,
}

/// The state of a record, as the answer to LOOK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// STAGED.
    Staged,
    /// COMMITTED.
    Committed(Timestamp),
    /// ABORTED.
    Aborted,
    /// There is none, and the id is so old that there may have been one.
    TooOld,
}

/// What a lock promises its transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Vote {
    /// The time of the lock: the commit time is at or above it.
    pub at: Timestamp,
    /// The commit time is below it.
    pub deadline: Deadline,
    /// What the commands have answered.
    pub answers: Answers,
}

/// What PREVENT finds at a key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyFinding {
    /// It is locked.
    Locked(Vote),
    /// It was resolved, or is prevented.
    Marked(Mark),
}

/// A shard's reply to an applied step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepReply {
    /// All keys are locked, since that time; or the transaction was committed at that time.
    Voted(Vote),
    /// No key is locked.
    Refused(PrepareRefusal),
    /// The record's present state, and the names of its keys that are not resolved yet.
    Record(RecordState, Vec<Name>),
    /// Of each key, in their order.
    Found(Vec<KeyFinding>),
    /// It is done.
    Done,
    /// Nothing was done: another shard owns some of the keys.
    Moved,
}

impl<'a> Step<'a> {
    /// Whose, or whose first.
    pub fn id(&self) -> TxnId {
        match self {
            Step::Prepare(Prepare { id, .. })
            | Step::Decide { id, .. }
            | Step::Resolve { id, .. }
            | Step::Prevent { id, .. }
            | Step::ReadRecord { id, .. } => *id,
            Step::Forget { all, .. } => all.first().expect("it names a record").0,
        }
    }

    /// Shows every key that must be the shard's.
    pub fn each_key(&self, show: &mut dyn FnMut(&'a [u8])) {
        match self {
            Step::Prepare(prepare) => prepare.each_key(show),
            Step::Decide { record, .. } | Step::ReadRecord { record, .. } => show(record),
            Step::Forget { all, .. } => all.iter().for_each(|(_, record)| show(record)),
            Step::Resolve { keys, .. } | Step::Prevent { keys, .. } => {
                keys.iter().for_each(|key| show(key));
            }
        }
    }

    /// Whether the bytes of a step are those of a PREPARE.
    pub fn is_prepare(bytes: &[u8]) -> bool {
        bytes.first() == Some(&PREPARE)
    }

    /// Writes into the bytes of a PREPARE that commits when all other keys were locked, and the
    /// earliest deadline of their locks. The PREPARE must have a deadline.
    pub fn set_after(bytes: &mut [u8], after: Timestamp, deadline: Deadline) {
        let mut reader = Reader::new(&bytes[1..]);
        TxnId::decode(&mut reader).expect("an id follows the tag");
        let flags = bytes.len() - reader.rest().len();
        bytes[flags + 1..flags + 9].copy_from_slice(&after.0.to_le_bytes());
        bytes[flags + 9..flags + 17].copy_from_slice(&deadline.0.to_le_bytes());
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut begin = |tag| {
            out.push(tag);
            self.id().encode(out);
        };
        match self {
            Step::Prepare(prepare) => {
                begin(PREPARE);
                prepare.encode(out);
            }
            Step::Decide { record, outcome, is_sure, .. } => {
                begin(if *is_sure { 8 } else { 2 });
                put_bytes(record, out);
                put_outcome(outcome, out);
            }
            Step::Resolve { outcome, keys, .. } => {
                begin(3);
                put_outcome(outcome, out);
                put_keys(keys, out);
            }
            Step::Prevent { keys, .. } => {
                begin(4);
                put_keys(keys, out);
            }
            Step::Forget { all, floor } => {
                begin(if floor.is_some() { 7 } else { 5 });
                for (place, (id, record)) in all.iter().enumerate() {
                    if place > 0 {
                        id.encode(out);
                    }
                    put_bytes(record, out);
                    if place == 0 {
                        put_varint(all.len() as u64 - 1, out);
                    }
                }
                if let Some((coordinator, before)) = floor {
                    out.extend_from_slice(&coordinator.to_le_bytes());
                    out.extend_from_slice(&before.0.to_le_bytes());
                }
            }
            Step::ReadRecord { record, .. } => {
                begin(6);
                put_bytes(record, out);
            }
        }
    }

    /// Decodes one step from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if that is something else.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        let id = TxnId::decode(reader)?;
        Ok(match tag {
            PREPARE => Step::Prepare(Prepare::decode(id, reader)?),
            2 | 8 => {
                let (record, outcome) = (reader.bytes()?, read_end(reader)?);
                Step::Decide { id, record, outcome, is_sure: tag == 8 }
            }
            3 => Step::Resolve { id, outcome: read_end(reader)?, keys: read_keys(reader)? },
            4 => Step::Prevent { id, keys: read_keys(reader)? },
            5 | 7 => {
                let mut all = vec![(id, reader.bytes()?)];
                for _ in 0..reader.varint()? {
                    all.push((TxnId::decode(reader)?, reader.bytes()?));
                }
                let floor = match tag {
                    7 => Some((reader.u64()?, Timestamp(reader.u64()?))),
                    _ => None,
                };
                Step::Forget { all, floor }
            }
            6 => Step::ReadRecord { id, record: reader.bytes()? },
            found => return Err(DecodeError::Tag { what: "step of a transaction", found }),
        })
    }
}

impl<'a> Prepare<'a> {
    /// Appends what follows its id.
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { is_first, reserved_as, record, promised, role, deadline, places, part, .. } =
            self;
        let commits = matches!(role, Role::Commits(_));
        let flags = [*is_first, commits, reserved_as.is_some(), deadline.is_some()];
        out.push(flags.iter().rev().fold(0, |all, flag| all << 1 | u8::from(*flag)));
        if let Role::Commits(after) = role {
            out.extend_from_slice(&after.0.to_le_bytes());
            deadline.iter().for_each(|deadline| out.extend_from_slice(&deadline.0.to_le_bytes()));
        }
        if let Some(name) = reserved_as {
            out.extend_from_slice(&name.0.to_le_bytes());
        }
        put_bytes(record, out);
        put_keys(promised, out);
        put_varint(places.len() as u64, out);
        places.iter().for_each(|place| put_varint(u64::from(*place), out));
        part.encode(out);
    }

    fn decode(id: TxnId, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let flags = match reader.u8()? {
            flags @ 0..=15 => flags,
            found => return Err(DecodeError::Tag { what: "order of a lock", found }),
        };
        let is_set = |flag: u8| flags & flag != 0;
        let role = match is_set(2) {
            true => Role::Commits(Timestamp(reader.u64()?)),
            false => Role::Votes,
        };
        let deadline = match (is_set(8), role) {
            (false, _) => None,
            (true, Role::Votes) => Some(Deadline::NEVER),
            (true, Role::Commits(_)) => Some(Deadline(reader.u64()?)),
        };
        let reserved_as = if is_set(4) { Some(Timestamp(reader.u64()?)) } else { None };
        let record = reader.bytes()?;
        let promised = read_keys(reader)?;
        let mut places = Places::new();
        for _ in 0..reader.varint()? {
            places.push(reader.varint_max(u32::MAX.into(), "place of a command")? as u32);
        }
        let part = Transaction::decode(reader)?;
        if places.len() != part.commands.len() {
            return Err(DecodeError::Field { what: "places of commands" });
        }
        let is_first = is_set(1);
        Ok(Self { id, is_first, reserved_as, record, promised, role, deadline, places, part })
    }

    /// Shows every key that it locks, or writes, some maybe twice.
    pub fn each_key(&self, show: &mut dyn FnMut(&'a [u8])) {
        self.part.each_key(show);
    }

    /// The keys that it locks, or writes, in order.
    pub fn keys(&self) -> Keys<'a> {
        let mut keys = Keys::new();
        self.each_key(&mut |key| keys.push(key));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// An outcome that is one.
fn read_end(reader: &mut Reader<'_>) -> Result<Outcome, DecodeError> {
    match read_outcome(reader)? {
        Outcome::Staged => Err(DecodeError::Field { what: "end of a transaction" }),
        outcome => Ok(outcome),
    }
}

impl Vote {
    /// Appends a tag, which says whether there is a deadline, and its bytes.
    fn encode(&self, [without, with]: [u8; 2], out: &mut Vec<u8>) {
        let has_deadline = self.deadline != Deadline::NEVER;
        out.push(if has_deadline { with } else { without });
        out.extend_from_slice(&self.at.0.to_le_bytes());
        if has_deadline {
            out.extend_from_slice(&self.deadline.0.to_le_bytes());
        }
        put_answers(&self.answers, out);
    }

    fn decode(has_deadline: bool, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = Timestamp(reader.u64()?);
        let deadline = if has_deadline { Deadline(reader.u64()?) } else { Deadline::NEVER };
        Ok(Self { at, deadline, answers: read_answers(reader)? })
    }
}

impl StepReply {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            StepReply::Voted(vote) => vote.encode([1, 8], out),
            StepReply::Refused(PrepareRefusal::TooMuch) => out.push(7),
            StepReply::Refused(why) => {
                out.push(2);
                match why {
                    PrepareRefusal::TooOld(at) => {
                        out.push(0);
                        out.extend_from_slice(&at.0.to_le_bytes());
                    }
                    PrepareRefusal::Locked(key) => {
                        out.push(2);
                        put_bytes(key, out);
                    }
                    PrepareRefusal::Changed(key) => {
                        out.push(3);
                        put_bytes(key, out);
                    }
                    PrepareRefusal::Expired => out.push(4),
                    PrepareRefusal::Aborted | PrepareRefusal::TooMuch => out.push(1),
                }
            }
            StepReply::Record(state, keys) => {
                out.push(3);
                match state {
                    RecordState::Staged => out.push(0),
                    RecordState::Committed(at) => {
                        out.push(1);
                        out.extend_from_slice(&at.0.to_le_bytes());
                    }
                    RecordState::Aborted => out.push(2),
                    RecordState::TooOld => out.push(3),
                }
                put_keys(keys, out);
            }
            StepReply::Found(all) => {
                out.push(4);
                put_varint(all.len() as u64, out);
                for finding in all {
                    match finding {
                        KeyFinding::Locked(vote) => vote.encode([0, 2], out),
                        KeyFinding::Marked(mark) => {
                            out.push(1);
                            put_mark(mark, out);
                        }
                    }
                }
            }
            StepReply::Done => out.push(5),
            StepReply::Moved => out.push(6),
        }
    }

    /// Reads one from all that is left.
    ///
    /// # Errors
    /// [`DecodeError`] if that is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let said = match reader.u8()? {
            tag @ (1 | 8) => StepReply::Voted(Vote::decode(tag == 8, reader)?),
            2 => StepReply::Refused(match reader.u8()? {
                0 => PrepareRefusal::TooOld(Timestamp(reader.u64()?)),
                1 => PrepareRefusal::Aborted,
                2 => PrepareRefusal::Locked(reader.bytes()?.into()),
                3 => PrepareRefusal::Changed(reader.bytes()?.into()),
                4 => PrepareRefusal::Expired,
                found => return Err(DecodeError::Tag { what: "refusal of a step", found }),
            }),
            3 => {
                let state = match reader.u8()? {
                    0 => RecordState::Staged,
                    1 => RecordState::Committed(Timestamp(reader.u64()?)),
                    2 => RecordState::Aborted,
                    3 => RecordState::TooOld,
                    found => return Err(DecodeError::Tag { what: "record", found }),
                };
                StepReply::Record(state, read_keys(reader)?)
            }
            4 => {
                let mut all = Vec::new();
                for _ in 0..reader.varint()? {
                    all.push(match reader.u8()? {
                        tag @ (0 | 2) => KeyFinding::Locked(Vote::decode(tag == 2, reader)?),
                        1 => KeyFinding::Marked(read_mark(reader)?),
                        found => return Err(DecodeError::Tag { what: "what was found", found }),
                    });
                }
                StepReply::Found(all)
            }
            5 => StepReply::Done,
            6 => StepReply::Moved,
            7 => StepReply::Refused(PrepareRefusal::TooMuch),
            found => return Err(DecodeError::Tag { what: "answer to a step", found }),
        };
        reader.end()?;
        Ok(said)
    }

    /// About how many bytes it takes.
    pub fn bytes_about(&self) -> usize {
        let of = |answers: &Answers| {
            answers.iter().map(|(_, reply)| 8 + reply.bytes_about()).sum::<usize>()
        };
        32 + match self {
            StepReply::Voted(vote) => of(&vote.answers),
            StepReply::Record(_, keys) => keys.iter().map(|key| key.len() + 4).sum(),
            StepReply::Found(all) => all
                .iter()
                .map(|found| match found {
                    KeyFinding::Locked(Vote { answers, .. })
                    | KeyFinding::Marked(Mark::Committed { answers, .. }) => 24 + of(answers),
                    KeyFinding::Marked(Mark::Aborted) => 2,
                })
                .sum(),
            _ => 0,
        }
    }
}

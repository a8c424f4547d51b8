//! Commands on keys and their correct answers: a second implementation, apart from the node's own
//! code, so that each tests the other.
//!
//! A key has a [`Cell`] or none. A command looks at those of its keys, changes them, and answers;
//! [`Command::run_all`] says how, for cells that are alive. Whether a cell is still alive is the
//! caller's to judge: the ledger knows the entry's exact time, the search for a linear order knows
//! an interval only.

use std::fmt;

use command::{
    ExpireIf, Expiry, ObservedVersion, Read, Refusal, Reply, SetIf, SetReply, Sink, Step,
    Transaction, Write,
};

/// Bytes of a value, shown as text and cut short.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(pub Vec<u8>);

/// Bytes of a value that are shown.
const SHOWN_BYTES: usize = 16;

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_bytes(&self.0, f)
    }
}

fn show_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (shown, more) = bytes.split_at(bytes.len().min(SHOWN_BYTES));
    write!(f, "\"{}\"", shown.escape_ascii())?;
    if more.is_empty() { Ok(()) } else { write!(f, "… ({} bytes)", bytes.len()) }
}

/// A reply, shown as its command line client would.
pub struct DisplayedReply<'a>(pub &'a Reply);

impl fmt::Display for DisplayedReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reply::Bulk(bytes) => show_bytes(bytes, f),
            Reply::Int(number) => write!(f, "{number}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A value with its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The value.
    pub value: Value,
    /// Milliseconds since 1970, 0 for never.
    pub expiry_ms: u64,
}

/// A command on one key, or on several of one shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// SET with its options, SETNX, GETSET.
    Set {
        /// The value.
        value: Value,
        /// NX, XX.
        when: SetIf,
        /// EX, KEEPTTL.
        expiry: Expiry,
        /// GET.
        reply: SetReply,
    },
    /// DEL.
    Delete,
    /// GETDEL.
    GetDelete,
    /// GETEX.
    GetExpire(Expiry),
    /// APPEND.
    Append(Value),
    /// INCRBY.
    Increment(i64),
    /// PEXPIREAT.
    Expire {
        /// When.
        at_ms: i64,
        /// NX, XX, GT, LT.
        when: ExpireIf,
    },
    /// PERSIST.
    Persist,
    /// FLUSH, as one key sees it.
    Flush,
    /// GET.
    Get,
    /// EXISTS of one key.
    Exists,
    /// PEXPIRETIME.
    ExpiryTime,
    /// STRLEN.
    Length,
    /// MSETNX: a value for each key.
    SetAllIfAbsent(Vec<Value>),
    /// RENAME of the first key to the second.
    Rename {
        /// RENAMENX.
        if_absent: bool,
    },
    /// COPY of the first key to the second.
    Copy {
        /// REPLACE.
        replace: bool,
    },
    /// EXEC: commands on one key each, given by its place.
    Transaction {
        /// What the keys had when they were watched, if they are, and which versions these were.
        watched: Option<Vec<(Option<Cell>, ObservedVersion)>>,
        /// The commands, in this order.
        steps: Vec<(usize, Command)>,
    },
    /// MGET: as many answers as keys.
    GetMany,
    /// How many of its keys there are: DBSIZE of a shard that has no others.
    Count,
}

impl Command {
    /// As the node takes it, if it is a write.
    pub fn write<'a>(&'a self, keys: &'a [Vec<u8>]) -> Option<Write<'a>> {
        let key: &[u8] = keys.first().map_or(&[], Vec::as_slice);
        Some(match self {
            Self::Set { value, when, expiry, reply } => {
                Write::Set { key, value: &value.0, when: *when, expiry: *expiry, reply: *reply }
            }
            Self::Delete => Write::Delete { key },
            Self::GetDelete => Write::GetDelete { key },
            Self::GetExpire(expiry) => Write::GetExpire { key, expiry: *expiry },
            Self::Append(value) => Write::append(key, &value.0),
            Self::Increment(by) => Write::Increment { key, by: *by },
            Self::Expire { at_ms, when } => Write::Expire { key, at: *at_ms, when: *when },
            Self::Persist => Write::Persist { key },
            Self::Flush => Write::Flush { from: None, end: keyspace::Cut::Slot(0) },
            Self::SetAllIfAbsent(values) => {
                let values = values.iter().map(|value| value.0.as_slice());
                let pairs = keys.iter().map(Vec::as_slice).zip(values).collect();
                Write::SetAllIfAbsent { pairs }
            }
            Self::Rename { if_absent } => {
                Write::Rename { from: key, to: &keys[1], if_absent: *if_absent }
            }
            Self::Copy { replace } => Write::Copy { from: key, to: &keys[1], replace: *replace },
            Self::Transaction { watched, steps } => {
                let seen = watched.iter().flatten().map(|(_, seen)| *seen);
                let watched = keys.iter().map(Vec::as_slice).zip(seen).collect();
                let commands =
                    steps.iter().map(|(place, command)| command.step(&keys[*place..=*place]));
                let (commands, rest) = (commands.collect(), Transaction::default());
                Write::Transaction(Box::new(Transaction { watched, commands, ..rest }))
            }
            _ if self.is_read() => return None,
            other => unreachable!("{other:?} writes"),
        })
    }

    /// As a step of a transaction.
    fn step<'a>(&'a self, key: &'a [Vec<u8>]) -> Step<'a> {
        let of_key = &key[0][..];
        match self {
            Self::Get => Step::Read(Read::Get(of_key)),
            Self::Exists => Step::Read(Read::Exists(vec![of_key])),
            Self::ExpiryTime => Step::Read(Read::Ttl { key: of_key, millis: true, absolute: true }),
            Self::Length => Step::Read(Read::Length(of_key)),
            other => Step::Write(other.write(key).expect("all other steps write")),
        }
    }

    /// The command of a write that stands in the log; nothing for those that clients never send.
    pub fn of(write: &Write<'_>) -> Option<Self> {
        Some(match write {
            Write::Set { value, when, expiry, reply, .. } => Self::Set {
                value: Value(value.to_vec()),
                when: *when,
                expiry: *expiry,
                reply: *reply,
            },
            Write::Delete { .. } => Self::Delete,
            Write::GetDelete { .. } => Self::GetDelete,
            Write::GetExpire { expiry, .. } => Self::GetExpire(*expiry),
            Write::Append { value, .. } => Self::Append(Value(value.to_vec())),
            Write::Increment { by, .. } => Self::Increment(*by),
            Write::Expire { at, when, .. } => Self::Expire { at_ms: *at, when: *when },
            Write::Persist { .. } => Self::Persist,
            Write::Flush { .. } => Self::Flush,
            Write::SetAllIfAbsent { pairs } => {
                let values = pairs.iter().map(|(_, value)| Value(value.to_vec()));
                Self::SetAllIfAbsent(values.collect())
            }
            Write::Rename { if_absent, .. } => Self::Rename { if_absent: *if_absent },
            Write::Copy { replace, .. } => Self::Copy { replace: *replace },
            _ => return None,
        })
    }

    /// Whether it changes nothing, ever.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Get
                | Self::Exists
                | Self::ExpiryTime
                | Self::Length
                | Self::GetMany
                | Self::Count
        )
    }

    /// Whether what it does to one of its keys depends on another, or it answers for several at
    /// once. All others are as good as a command on each of their keys.
    pub fn is_joint(&self) -> bool {
        matches!(
            self,
            Self::SetAllIfAbsent(_)
                | Self::Rename { .. }
                | Self::Copy { .. }
                | Self::Transaction { .. }
                | Self::GetMany
                | Self::Count
        )
    }

    /// The replies, and the new content of the keys, if `cells` is their present content. `keys`
    /// are only compared for equality. The caller must handle cells whose expiry has passed.
    pub fn run_all<K: PartialEq>(&self, keys: &[K], cells: &mut [Option<Cell>]) -> Vec<Reply> {
        let reply = match self {
            Self::GetMany => return cells.iter().map(|cell| bulk(cell.as_ref())).collect(),
            Self::Count => Reply::Int(cells.iter().flatten().count() as i64),
            Self::Flush => {
                cells.fill(None);
                Reply::Ok
            }
            Self::SetAllIfAbsent(values) => {
                let all = cells.iter().all(Option::is_none);
                if all {
                    for (cell, value) in cells.iter_mut().zip(values) {
                        *cell = Some(Cell { value: value.clone(), expiry_ms: 0 });
                    }
                }
                Reply::Int(all.into())
            }
            Self::Rename { .. } if cells[0].is_none() => Reply::Refused(Refusal::NoSuchKey),
            Self::Rename { if_absent: true } if cells[1].is_some() => Reply::Int(0),
            Self::Rename { if_absent } => {
                if keys[0] != keys[1] {
                    cells[1] = cells[0].take();
                }
                if *if_absent { Reply::Int(1) } else { Reply::Ok }
            }
            Self::Copy { replace } => {
                let done = cells[0].is_some() && (*replace || cells[1].is_none());
                if done {
                    cells[1] = cells[0].clone();
                }
                Reply::Int(done.into())
            }
            Self::Transaction { watched, steps } => {
                let had = watched.iter().flatten().map(|(cell, _)| cell);
                if had.zip(cells.iter()).any(|(had, has)| had != has) {
                    Reply::Nil
                } else {
                    let done = steps.iter().map(|(place, command)| {
                        let (cell, reply) = command.run(cells[*place].take());
                        cells[*place] = cell;
                        reply
                    });
                    Reply::Array(done.collect())
                }
            }
            of_one_key => {
                let (cell, reply) = of_one_key.run(cells[0].take());
                cells[0] = cell;
                reply
            }
        };
        vec![reply]
    }

    /// As [`Self::run_all`], of a command on one key.
    pub fn run(&self, cell: Option<Cell>) -> (Option<Cell>, Reply) {
        match self {
            Self::Set { value, when, expiry, reply } => set(cell, value, *when, *expiry, *reply),
            Self::Delete => {
                let there = cell.is_some();
                (None, Reply::Int(there.into()))
            }
            Self::GetDelete => (None, bulk(cell.as_ref())),
            Self::GetExpire(expiry) => {
                let reply = bulk(cell.as_ref());
                let cell = cell.map(|cell| Cell { expiry_ms: ends(*expiry, Some(&cell)), ..cell });
                (cell, reply)
            }
            Self::Append(more) => {
                let mut cell = cell.unwrap_or(Cell { value: Value(Vec::new()), expiry_ms: 0 });
                cell.value.0.extend_from_slice(&more.0);
                let len = cell.value.0.len() as i64;
                (Some(cell), Reply::Int(len))
            }
            Self::Increment(by) => {
                let number = match &cell {
                    None => Ok(0),
                    Some(cell) => number(&cell.value.0).ok_or(Refusal::NotInteger),
                };
                let sum = number.and_then(|n| n.checked_add(*by).ok_or(Refusal::Overflow));
                match sum {
                    Err(why) => (cell, Reply::Refused(why)),
                    Ok(sum) => {
                        let expiry_ms = cell.map_or(0, |cell| cell.expiry_ms);
                        let value = Value(sum.to_string().into_bytes());
                        (Some(Cell { value, expiry_ms }), Reply::Int(sum))
                    }
                }
            }
            Self::Expire { at_ms, when } => expire(cell, *at_ms, *when),
            Self::Persist => match cell {
                Some(cell) if cell.expiry_ms != 0 => {
                    (Some(Cell { expiry_ms: 0, ..cell }), Reply::Int(1))
                }
                other => (other, Reply::Int(0)),
            },
            Self::Get => {
                let reply = bulk(cell.as_ref());
                (cell, reply)
            }
            Self::Exists => {
                let there = cell.is_some();
                (cell, Reply::Int(there.into()))
            }
            Self::ExpiryTime => {
                let time = match &cell {
                    None => -2,
                    Some(Cell { expiry_ms: 0, .. }) => -1,
                    Some(cell) => cell.expiry_ms as i64,
                };
                (cell, Reply::Int(time))
            }
            Self::Length => {
                let len = cell.as_ref().map_or(0, |cell| cell.value.0.len());
                (cell, Reply::Int(len as i64))
            }
            Self::Flush
            | Self::SetAllIfAbsent(_)
            | Self::Rename { .. }
            | Self::Copy { .. }
            | Self::Transaction { .. }
            | Self::Count
            | Self::GetMany => unreachable!("{self:?} is of several keys"),
        }
    }
}

fn set(
    old: Option<Cell>,
    value: &Value,
    when: SetIf,
    expiry: Expiry,
    reply: SetReply,
) -> (Option<Cell>, Reply) {
    let takes_place = match when {
        SetIf::Always => true,
        SetIf::Absent => old.is_none(),
        SetIf::Present => old.is_some(),
    };
    let answer = match reply {
        SetReply::Ok if takes_place => Reply::Ok,
        SetReply::Ok => Reply::Nil,
        SetReply::Old => bulk(old.as_ref()),
        SetReply::Flag => Reply::Int(takes_place.into()),
    };
    let expiry_ms = ends(expiry, old.as_ref());
    let new = Cell { value: value.clone(), expiry_ms };
    (if takes_place { Some(new) } else { old }, answer)
}

fn expire(cell: Option<Cell>, at_ms: i64, when: ExpireIf) -> (Option<Cell>, Reply) {
    let Some(cell) = cell else { return (None, Reply::Int(0)) };
    let old = match cell.expiry_ms {
        0 => u64::MAX,
        ends => ends,
    };
    let new = at_ms.max(1) as u64;
    let ends = old != u64::MAX;
    let refused = (when.nx && ends)
        || (when.xx && !ends)
        || (when.gt && new <= old)
        || (when.lt && new >= old);
    if refused {
        (Some(cell), Reply::Int(0))
    } else {
        (Some(Cell { expiry_ms: new, ..cell }), Reply::Int(1))
    }
}

fn ends(expiry: Expiry, old: Option<&Cell>) -> u64 {
    match expiry {
        Expiry::Never => 0,
        Expiry::Keep => old.map_or(0, |old| old.expiry_ms),
        Expiry::At(at_ms) => at_ms.max(1),
    }
}

/// A number as it would be printed: no plus, no leading zeros.
fn number(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let number = text.parse::<i64>().ok()?;
    (number.to_string() == text).then_some(number)
}

fn bulk(cell: Option<&Cell>) -> Reply {
    cell.map_or(Reply::Nil, |cell| Reply::Bulk(cell.value.0.clone().into()))
}

/// Takes answers as values; arrays are taken apart.
#[derive(Default)]
pub struct Collect(pub Vec<Reply>);

impl Sink for Collect {
    fn ok(&mut self) {
        self.0.push(Reply::Ok);
    }
    fn nil(&mut self) {
        self.0.push(Reply::Nil);
    }
    fn int(&mut self, value: i64) {
        self.0.push(Reply::Int(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.0.push(Reply::Bulk(bytes.into()));
    }
    fn status(&mut self, word: &'static str) {
        self.0.push(Reply::Status(word));
    }
    fn array(&mut self, _len: usize) {}
    fn map(&mut self, _len: usize) {}
    fn refused(&mut self, why: Refusal) {
        self.0.push(Reply::Refused(why));
    }
}

//! Random commands for the tests of this folder, owned so that they can be shrunk.

use std::iter::once;

use keyspace::{Cut, SLOTS, Slot, Timestamp};
use proptest::prelude::*;

use super::limits::VALUE_BYTES_MAX;
use super::{
    ExpireIf, Expiry, ObservedVersion, Read, SetIf, SetReply, Step, Transaction, Write, Writer,
};

/// A [`Write`] that owns its bytes.
#[derive(Clone, Debug)]
pub(crate) struct OwnedWrite {
    /// All byte strings of the command, in the order its fields are declared.
    bytes: Vec<Vec<u8>>,
    /// The command with other bytes.
    shape: Write<'static>,
    /// Of a transaction, the watched versions and the commands.
    seen: Vec<ObservedVersion>,
    steps: Vec<OwnedStep>,
}

/// A [`Step`] that owns its bytes.
#[derive(Clone, Debug)]
enum OwnedStep {
    Write(OwnedWrite),
    /// Its keys, and the command with others.
    Read(Vec<Vec<u8>>, Read<'static>),
}

impl OwnedStep {
    fn borrow(&self) -> Step<'_> {
        match self {
            OwnedStep::Write(write) => Step::Write(write.borrow()),
            OwnedStep::Read(keys, shape) => {
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                Step::Read(with_keys(shape, keys))
            }
        }
    }

    fn of(step: &Step<'_>) -> Self {
        match step {
            Step::Write(write) => OwnedStep::Write(write.clone().into()),
            Step::Read(read) => {
                let keys = read.keys().iter().map(|key| key.to_vec()).collect();
                OwnedStep::Read(keys, with_keys(read, vec![&[]]))
            }
        }
    }
}

/// A read, of other keys.
fn with_keys<'b>(read: &Read<'_>, keys: Vec<&'b [u8]>) -> Read<'b> {
    let key = keys.first().copied().unwrap_or_default();
    match read {
        Read::Get(_) => Read::Get(key),
        Read::GetMany(_) => Read::GetMany(keys),
        Read::GetRange { start, end, .. } => Read::GetRange { key, start: *start, end: *end },
        Read::Length(_) => Read::Length(key),
        Read::Exists(_) => Read::Exists(keys),
        Read::Type(_) => Read::Type(key),
        Read::Ttl { millis, absolute, .. } => {
            Read::Ttl { key, millis: *millis, absolute: *absolute }
        }
        Read::Encoding(_) => Read::Encoding(key),
        Read::RefCount(_) => Read::RefCount(key),
        Read::IdleTime(_) => Read::IdleTime(key),
        Read::Lcs { .. } => unreachable!("no step of a transaction"),
    }
}

impl OwnedWrite {
    /// The command.
    pub(crate) fn borrow(&self) -> Write<'_> {
        let at = |index: usize| &self.bytes[index][..];
        match self.shape.clone() {
            Write::Set { when, expiry, reply, .. } => {
                Write::Set { key: at(0), value: at(1), when, expiry, reply }
            }
            Write::Delete { .. } => Write::Delete { key: at(0) },
            Write::GetDelete { .. } => Write::GetDelete { key: at(0) },
            Write::GetExpire { expiry, .. } => Write::GetExpire { key: at(0), expiry },
            Write::Append { bytes_max, .. } => {
                Write::Append { key: at(0), value: at(1), bytes_max }
            }
            Write::SetRange { offset, .. } => Write::SetRange { key: at(0), offset, value: at(1) },
            Write::Increment { by, .. } => Write::Increment { key: at(0), by },
            Write::IncrementFloat { .. } => Write::IncrementFloat { key: at(0), by: at(1) },
            Write::Expire { at: time, when, .. } => Write::Expire { key: at(0), at: time, when },
            Write::Persist { .. } => Write::Persist { key: at(0) },
            Write::SetAllIfAbsent { .. } => {
                let pairs = self.bytes.chunks(2).map(|pair| (&pair[0][..], &pair[1][..]));
                Write::SetAllIfAbsent { pairs: pairs.collect() }
            }
            Write::Rename { if_absent, .. } => Write::Rename { from: at(0), to: at(1), if_absent },
            Write::Copy { replace, .. } => Write::Copy { from: at(0), to: at(1), replace },
            Write::Flush { from, end } => Write::Flush { from, end },
            Write::Block { writer, .. } => {
                let value = (self.bytes.len() > 1).then(|| at(1));
                Write::Block { writer, key: at(0), value }
            }
            Write::Fence { writer, from, end } => Write::Fence { writer, from, end },
            Write::Transaction(_) => {
                let watched = self.bytes.iter().map(Vec::as_slice).zip(self.seen.iter().copied());
                let commands = self.steps.iter().map(OwnedStep::borrow).collect();
                let (watched, rest) = (watched.collect(), Transaction::default());
                Write::Transaction(Box::new(Transaction { watched, commands, ..rest }))
            }
        }
    }
}

impl From<Write<'_>> for OwnedWrite {
    fn from(write: Write<'_>) -> Self {
        let e: &[u8] = &[];
        let (mut seen, mut steps) = (vec![], vec![]);
        let (bytes, shape): (Vec<&[u8]>, Write<'static>) = match write {
            Write::Set { key, value, when, expiry, reply } => {
                (vec![key, value], Write::Set { key: e, value: e, when, expiry, reply })
            }
            Write::Delete { key } => (vec![key], Write::Delete { key: e }),
            Write::GetDelete { key } => (vec![key], Write::GetDelete { key: e }),
            Write::GetExpire { key, expiry } => (vec![key], Write::GetExpire { key: e, expiry }),
            Write::Append { key, value, bytes_max } => {
                (vec![key, value], Write::Append { key: e, value: e, bytes_max })
            }
            Write::SetRange { key, offset, value } => {
                (vec![key, value], Write::SetRange { key: e, offset, value: e })
            }
            Write::Increment { key, by } => (vec![key], Write::Increment { key: e, by }),
            Write::IncrementFloat { key, by } => {
                (vec![key, by], Write::IncrementFloat { key: e, by: e })
            }
            Write::Expire { key, at, when } => (vec![key], Write::Expire { key: e, at, when }),
            Write::Persist { key } => (vec![key], Write::Persist { key: e }),
            Write::SetAllIfAbsent { pairs } => (
                pairs.iter().flat_map(|(key, value)| [*key, *value]).collect(),
                Write::SetAllIfAbsent { pairs: vec![] },
            ),
            Write::Rename { from, to, if_absent } => {
                (vec![from, to], Write::Rename { from: e, to: e, if_absent })
            }
            Write::Copy { from, to, replace } => {
                (vec![from, to], Write::Copy { from: e, to: e, replace })
            }
            Write::Flush { from, end } => (vec![], Write::Flush { from, end }),
            Write::Block { writer, key, value } => {
                (once(key).chain(value).collect(), Write::Block { writer, key: e, value: None })
            }
            Write::Fence { writer, from, end } => (vec![], Write::Fence { writer, from, end }),
            Write::Transaction(transaction) => {
                let Transaction { watched, commands, .. } = *transaction;
                seen = watched.iter().map(|(_, seen)| *seen).collect();
                steps = commands.iter().map(OwnedStep::of).collect();
                let keys = watched.iter().map(|(key, _)| *key).collect();
                (keys, Write::Transaction(Box::default()))
            }
        };
        Self { bytes: bytes.into_iter().map(<[u8]>::to_vec).collect(), shape, seen, steps }
    }
}

/// The keys of the commands.
pub(crate) const KEYS: [&[u8]; 5] = [b"a", b"b", b"c", b"", b"{a}long"];

fn cut(slots: std::ops::Range<Slot>) -> impl Strategy<Value = Cut> {
    prop_oneof![
        slots.prop_map(Cut::Slot),
        prop::collection::vec(any::<u8>(), 3..8).prop_map(|key| Cut::Key(key.into())),
        (1..=u64::MAX).prop_map(Cut::Number),
    ]
}

/// Any command, on few keys, around time 1000.
pub(crate) fn writes() -> impl Strategy<Value = OwnedWrite> {
    prop_oneof![
        20 => of_keys(),
        2 => (prop::option::of(cut(0..SLOTS)), cut(1..SLOTS + 1))
            .prop_map(|(from, end)| Write::Flush { from, end }.into()),
        1 => Just(Write::Flush { from: None, end: Cut::Slot(0) }.into()),
        2 => of_volumes(),
        3 => transactions(),
    ]
}

/// Any block or fence.
fn of_volumes() -> impl Strategy<Value = OwnedWrite> {
    let writer =
        || (any::<u64>(), any::<u64>()).prop_map(|(epoch, session)| Writer { epoch, session });
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..200));
    prop_oneof![
        2 => (writer(), prop::sample::select(&KEYS[..]), value).prop_map(|(writer, key, value)| {
            OwnedWrite::from(Write::Block { writer, key, value: value.as_deref() })
        }),
        1 => (writer(), cut(0..SLOTS), cut(1..SLOTS + 1))
            .prop_map(|(writer, from, end)| Write::Fence { writer, from, end }.into()),
    ]
}

/// Any transaction of few commands.
pub(crate) fn transactions() -> impl Strategy<Value = OwnedWrite> {
    let key = || prop::sample::select(&KEYS[..]);
    let time = || (0..2000u64).prop_map(Timestamp::from_millis);
    let seen = prop_oneof![
        time().prop_map(ObservedVersion::Version),
        time().prop_map(ObservedVersion::Absent)
    ];
    let keys = || prop::collection::vec(key(), 1..4);
    let read = prop_oneof![
        key().prop_map(Read::Get),
        keys().prop_map(Read::GetMany),
        keys().prop_map(Read::Exists),
        (key(), any::<i64>(), -9..9i64).prop_map(|(key, start, end)| Read::GetRange {
            key,
            start,
            end
        }),
        (key(), any::<bool>(), any::<bool>()).prop_map(|(key, millis, absolute)| Read::Ttl {
            key,
            millis,
            absolute
        }),
        prop_oneof![
            key().prop_map(Read::Length),
            key().prop_map(Read::Type),
            key().prop_map(Read::Encoding),
            key().prop_map(Read::RefCount),
            key().prop_map(Read::IdleTime),
        ],
    ];
    let step = prop_oneof![
        of_keys().prop_map(OwnedStep::Write),
        read.prop_map(|read| OwnedStep::of(&Step::Read(read))),
    ];
    let watched = prop::collection::vec((key(), seen), 0..3);
    (watched, prop::collection::vec(step, 0..5)).prop_map(|(watched, steps)| {
        let commands = steps.iter().map(OwnedStep::borrow).collect();
        let all = Transaction { watched, commands, ..Transaction::default() };
        Write::Transaction(Box::new(all)).into()
    })
}

/// Any command that names keys, but for transactions.
fn of_keys() -> impl Strategy<Value = OwnedWrite> + Clone {
    let key = || prop::sample::select(&KEYS[..]);
    let value = || {
        let number = any::<i64>().prop_map(|number| number.to_string().into_bytes());
        let text = prop::collection::vec(any::<u8>(), 0..200);
        prop_oneof![Just(b"10".to_vec()), Just(b"1.5".to_vec()), number, text]
    };
    let expiry =
        || prop_oneof![Just(Expiry::Never), Just(Expiry::Keep), (0..2000u64).prop_map(Expiry::At)];
    let when = prop_oneof![Just(SetIf::Always), Just(SetIf::Absent), Just(SetIf::Present)];
    let reply = prop_oneof![Just(SetReply::Ok), Just(SetReply::Old), Just(SetReply::Flag)];
    let expire_if = any::<[bool; 4]>().prop_map(|[nx, xx, gt, lt]| ExpireIf { nx, xx, gt, lt });
    let time = prop_oneof![any::<i64>(), 0..2000i64];
    let limit = prop_oneof![Just(VALUE_BYTES_MAX), 0..1000u64];
    let two = || (key(), key(), any::<bool>());
    let pairs = prop::collection::vec((key(), value()), 0..4);
    prop_oneof![
        4 => (key(), value(), when, expiry(), reply).prop_map(|(key, value, when, expiry, reply)| {
            OwnedWrite::from(Write::Set { key, value: &value, when, expiry, reply })
        }),
        1 => key().prop_map(|key| Write::Delete { key }.into()),
        1 => key().prop_map(|key| Write::GetDelete { key }.into()),
        1 => (key(), expiry()).prop_map(|(key, expiry)| Write::GetExpire { key, expiry }.into()),
        1 => (key(), value(), limit).prop_map(|(key, value, bytes_max)| {
            Write::Append { key, value: &value, bytes_max }.into()
        }),
        1 => (key(), 0..400u64, value()).prop_map(|(key, offset, value)| {
            Write::SetRange { key, offset, value: &value }.into()
        }),
        2 => (key(), any::<i64>()).prop_map(|(key, by)| Write::Increment { key, by }.into()),
        1 => (key(), value()).prop_map(|(key, by)| Write::IncrementFloat { key, by: &by }.into()),
        2 => (key(), time, expire_if)
            .prop_map(|(key, at, when)| Write::Expire { key, at, when }.into()),
        1 => key().prop_map(|key| Write::Persist { key }.into()),
        1 => pairs.prop_map(|pairs| {
            let pairs = pairs.iter().map(|(key, value)| (*key, &value[..])).collect();
            Write::SetAllIfAbsent { pairs }.into()
        }),
        1 => two().prop_map(|(from, to, if_absent)| Write::Rename { from, to, if_absent }.into()),
        1 => two().prop_map(|(from, to, replace)| Write::Copy { from, to, replace }.into()),
    ]
}

//! What does a read answer? From the values that are there, straight into the asker's buffer.
//!
//! [`answer`] is told what each key has at one moment ([`View`]) and gives the answer to a [`Sink`]
//! piece by piece, so that a value goes from the store to the wire with one copy. Answers are those
//! of Redis 7.0.15.
//!
//! # What it does not know
//! Shards and guards: the view sees to it that all keys are read at one moment, and that this
//! moment may be read (SAFETY G1).
//!
//! # Caveats
//! OBJECT ENCODING answers from the value alone what Redis would hold after a SET of it; Redis
//! itself remembers that a value was appended to (`raw`) or summed as a float (`embstr`). OBJECT
//! REFCOUNT is always 1 and IDLETIME always 0, for neither is counted.

use keyspace::Timestamp;
use storage::engine::Version;

use super::integer;
use super::lcs;
use super::{Read, Refusal, Sink};

/// The values of keys at one moment.
pub trait View {
    /// What a key has then: nothing if it never had a value, or that was deleted or has expired.
    fn newest(&self, key: &[u8]) -> Option<Version<'_>>;
}

/// The longest value that Redis keeps in one piece with its header (`embstr`).
const EMBSTR_BYTES_MAX: usize = 44;

/// Gives a read's answer to the sink. `now` is the view's moment.
#[inline]
pub fn answer(view: &impl View, read: &Read<'_>, now: Timestamp, sink: &mut impl Sink) {
    match read {
        Read::Get(key) => give_value(view, key, sink),
        Read::GetMany(keys) => {
            sink.array(keys.len());
            keys.iter().for_each(|key| give_value(view, key, sink));
        }
        Read::GetRange { key, start, end } => {
            let value = value(view, key);
            sink.bulk(range(value, *start, *end));
        }
        Read::Length(key) => sink.int(value(view, key).len() as i64),
        Read::Exists(keys) => {
            let there = keys.iter().filter(|key| view.newest(key).is_some());
            sink.int(there.count() as i64);
        }
        Read::Type(key) => {
            sink.status(if view.newest(key).is_some() { "string" } else { "none" });
        }
        Read::Ttl { key, millis, absolute } => {
            sink.int(time_to_live(view.newest(key), now, *millis, *absolute));
        }
        Read::Encoding(key) => match view.newest(key) {
            Some(version) => sink.bulk(encoding(version.value).as_bytes()),
            None => sink.nil(),
        },
        Read::RefCount(key) | Read::IdleTime(key) => match view.newest(key) {
            Some(_) => sink.int(i64::from(matches!(read, Read::RefCount(_)))),
            None => sink.nil(),
        },
        Read::Lcs { keys, len, idx, min_match, with_match_len } => {
            let [a, b] = keys.map(|key| value(view, key));
            if lcs::is_too_large(a, b) {
                sink.refused(Refusal::LcsTooLarge);
            } else if *idx {
                give_matches(&lcs::matches(a, b), *min_match, *with_match_len, sink);
            } else if *len {
                sink.int(lcs::length(a, b) as i64);
            } else {
                let matches = lcs::matches(a, b);
                let parts = matches.iter().rev().map(|found| &a[found.a..found.a + found.len]);
                sink.bulk(&parts.collect::<Vec<_>>().concat());
            }
        }
    }
}

#[inline]
fn give_value(view: &impl View, key: &[u8], sink: &mut impl Sink) {
    match view.newest(key) {
        Some(version) => sink.bulk(version.value),
        None => sink.nil(),
    }
}

/// The value, or an empty one where none is: many commands do not tell these apart.
fn value<'v>(view: &'v impl View, key: &[u8]) -> &'v [u8] {
    view.newest(key).map_or(&[], |version| version.value)
}

/// The bytes from `start` to `end`, both included, both counted from the end if negative.
fn range(value: &[u8], start: i64, end: i64) -> &[u8] {
    if value.is_empty() || (start < 0 && end < 0 && start > end) {
        return &[];
    }
    let len = value.len() as i64;
    let from_front = |index: i64| if index < 0 { (len + index).max(0) } else { index };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    if start > end { &[] } else { &value[start as usize..=end as usize] }
}

fn time_to_live(version: Option<Version<'_>>, now: Timestamp, millis: bool, absolute: bool) -> i64 {
    let time = match version {
        None => return -2,
        Some(Version { expiry_ms: 0, .. }) => return -1,
        Some(Version { expiry_ms, .. }) if absolute => expiry_ms,
        Some(Version { expiry_ms, .. }) => expiry_ms.saturating_sub(now.millis()),
    };
    let time = if millis { time } else { time.saturating_add(500) / 1000 };
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn encoding(value: &[u8]) -> &'static str {
    match value {
        _ if integer::parse(value).is_some() => "int",
        _ if value.len() <= EMBSTR_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

fn give_matches(
    matches: &[lcs::Match],
    min_match: u64,
    with_match_len: bool,
    sink: &mut impl Sink,
) {
    let long_enough = || matches.iter().filter(|found| found.len as u64 >= min_match);
    sink.map(2);
    sink.bulk(b"matches");
    sink.array(long_enough().count());
    for found in long_enough() {
        sink.array(2 + usize::from(with_match_len));
        for first in [found.a, found.b] {
            sink.array(2);
            sink.int(first as i64);
            sink.int((first + found.len - 1) as i64);
        }
        if with_match_len {
            sink.int(found.len as i64);
        }
    }
    sink.bulk(b"len");
    sink.int(matches.iter().map(|found| found.len as i64).sum());
}

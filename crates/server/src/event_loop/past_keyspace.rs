//! DBSIZE, KEYS, SCAN and RANGE at a past time: shard by shard, and all as of that one time.

use std::ops;

use bytes::Bytes;
use command::{Pair, Sink as _, ValueType, glob};
use gateway::resp::{Bound, KeyspaceRequest};
use node::routing::route::Route;

use super::keyspace_scan::needs_other_layout;
use super::past::PastReads;
use super::reply_limit::TOO_LONG;
use crate::service::past::{PastKeysWalk, PastRange};
use gateway::resp::RespWriter;

/// Keys that are fetched at a time.
const PIECE: usize = 4096;

/// A command on the whole keyspace, which outlives its bytes.
pub(super) enum KeyspaceRead {
    /// DBSIZE.
    Size,
    /// KEYS.
    Keys {
        /// A glob.
        pattern: Vec<u8>,
    },
    /// SCAN.
    Scan {
        /// Where to go on.
        cursor: u64,
        /// About how many keys to look at.
        count: usize,
        /// Only keys that match this glob.
        pattern: Option<Vec<u8>>,
        /// Whether keys of this type can be there at all.
        is_of_type: bool,
    },
    /// RANGE; none: nothing lies behind the last key or before the first.
    Range(Option<PastRange>),
}

impl KeyspaceRead {
    /// The same command, or why it cannot be run in this keyspace.
    pub fn of(request: &KeyspaceRequest<'_>, route: &Route) -> Result<Self, &'static str> {
        if let Some(text) = needs_other_layout(request, route) {
            return Err(text);
        }
        Ok(match request {
            KeyspaceRequest::Size => Self::Size,
            KeyspaceRequest::Keys { pattern } => Self::Keys { pattern: pattern.to_vec() },
            KeyspaceRequest::Scan { cursor, count, pattern, type_filter } => Self::Scan {
                cursor: *cursor,
                count: usize::try_from(*count).unwrap_or(PIECE).clamp(1, PIECE),
                pattern: pattern.map(<[u8]>::to_vec),
                is_of_type: type_filter
                    .is_none_or(|name| ValueType::named(name) == Some(ValueType::String)),
            },
            KeyspaceRequest::Range(range) => {
                let bound = |bound: Bound<'_>| match bound {
                    Bound::First | Bound::Last => ops::Bound::Unbounded,
                    Bound::Included(key) => ops::Bound::Included(key.into()),
                    Bound::Excluded(key) => ops::Bound::Excluded(key.into()),
                };
                let is_empty = range.low == Bound::Last || range.high == Bound::First;
                Self::Range((!is_empty).then(|| PastRange {
                    low: bound(range.low),
                    high: bound(range.high),
                    reverse: range.reverse,
                    with_values: range.with_values,
                    keys_max: range.limit.unwrap_or(u64::MAX),
                    bytes_max: 0,
                }))
            }
            KeyspaceRequest::Flush
            | KeyspaceRequest::FlushAll
            | KeyspaceRequest::CountInSlot { .. }
            | KeyspaceRequest::KeysInSlot { .. }
            | KeyspaceRequest::RandomKey => {
                return Err("ERR this cannot be read at a past time; nothing was done");
            }
        })
    }
}

/// Answers a command on the whole keyspace, and goes on.
pub(super) fn walk(reads: PastReads, read: KeyspaceRead) {
    let walk = PastKeysWalk::new(reads.runtime.clone(), reads.route.clone(), reads.time);
    let bytes_max = reads.bytes_max;
    match read {
        KeyspaceRead::Size => walk.all(
            PIECE,
            0_i64,
            |count, keys| {
                *count += keys.len() as i64;
                true
            },
            move |found| reads.took(found, |count, writer| writer.int(count)),
        ),
        KeyspaceRead::Keys { pattern } => walk.all(
            PIECE,
            (Vec::<Bytes>::new(), 0_usize),
            move |(all, bytes), keys| {
                for key in keys.into_iter().filter(|key| glob::matches(&pattern, key)) {
                    *bytes += key.len();
                    all.push(key);
                }
                *bytes <= bytes_max
            },
            move |found| {
                reads.took(found, |(all, bytes), writer| match bytes > bytes_max {
                    true => writer.error(TOO_LONG),
                    false => write_all(&all, writer),
                });
            },
        ),
        KeyspaceRead::Scan { cursor, count, pattern, is_of_type } => {
            walk.page(cursor, count, move |found| {
                reads.took(found, |(keys, next), writer| {
                    let is_shown = |key: &Bytes| {
                        is_of_type && pattern.as_ref().is_none_or(|p| glob::matches(p, key))
                    };
                    let keys: Vec<Bytes> = keys.into_iter().filter(is_shown).collect();
                    writer.array(2);
                    writer.bulk(next.to_string().as_bytes());
                    write_all(&keys, writer);
                });
            });
        }
        KeyspaceRead::Range(None) => reads.took(Ok(()), |(), writer| writer.array(0)),
        KeyspaceRead::Range(Some(range)) => {
            let with_values = range.with_values;
            let range = PastRange { bytes_max, ..range };
            let then = move |found| {
                reads.took(found, |found: Option<Vec<Pair>>, writer| match found {
                    None => writer.error(TOO_LONG),
                    Some(pairs) if with_values => {
                        writer.pairs(pairs.len());
                        for (key, value) in &pairs {
                            writer.pair();
                            writer.bulk(key);
                            writer.bulk(value);
                        }
                    }
                    Some(pairs) => {
                        writer.array(pairs.len());
                        pairs.iter().for_each(|(key, _)| writer.bulk(key));
                    }
                });
            };
            walk.range(range, Box::new(then));
        }
    }
}

fn write_all(keys: &[Bytes], writer: &mut RespWriter<'_>) {
    writer.array(keys.len());
    keys.iter().for_each(|key| writer.bulk(key));
}

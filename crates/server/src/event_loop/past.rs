//! AT: commands that read a past time.
//!
//! Leaders of shards answer them ([`crate::service::past`]), and the connection's next command
//! waits for the reply.

use api::{Answer, ApiError};
use bytes::Bytes;
use command::{Sink as _, ValueType, glob};
use gateway::resp::{Bound, KeyspaceRequest, PastRead, PastRequest, RespWriter, Session};

use super::EventLoop;
use super::connection::Connection;
use super::keyspace_scan::needs_other_layout;
use super::libraries::LaterReply;
use super::reply_limit::TOO_LONG;
use super::resp::CommandOutcome;
use crate::service::past::{self, PastKeysWalk, PastRange};

/// Keys that are fetched at a time.
const PIECE: usize = 4096;

impl EventLoop {
    /// Has a command read at a past time.
    pub(super) fn read_past(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        asked: &PastRequest<'_>,
        muted: bool,
    ) -> CommandOutcome {
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        self.runtime.clock.observe();
        let (now, cluster) = (self.runtime.clock.now(), self.runtime.identity.cluster);
        let time = match asked.moment.resolve(now, Some(cluster)) {
            Ok(time) => time,
            Err(why) => return self.refuse(connection, session, &format!("ERR {why}"), muted),
        };
        if let PastRead::Keyspace(request) = &asked.read
            && let Some(text) = needs_other_layout(request, &route)
        {
            return self.refuse(connection, session, text, muted);
        }
        let bytes_max = self.config.output_bytes_max as usize;
        let runtime = self.runtime.clone();
        let reply = self.owe_later(at, connection, session, muted);
        let keys = |keys: &[&[u8]]| keys.iter().map(|key| Bytes::copy_from_slice(key)).collect();
        match &asked.read {
            PastRead::Get(key) => {
                let then = move |found: Result<Vec<Answer>, _>| {
                    finish(reply, found, |found, writer| write_value(&found[0], writer));
                };
                past::get_many(&runtime, &route, keys(&[key]), time, Box::new(then));
            }
            PastRead::State(key) => {
                let then = move |found: Result<Vec<Answer>, _>| {
                    finish(reply, found, |found, writer| {
                        writer.simple(match found[0] {
                            Answer::NilYet => "nil_yet",
                            Answer::Nil => "nil",
                            _ => "value",
                        });
                    });
                };
                past::get_many(&runtime, &route, keys(&[key]), time, Box::new(then));
            }
            PastRead::Length(key) => {
                let then = move |found: Result<Vec<Answer>, _>| {
                    finish(reply, found, |found, writer| {
                        writer.int(match &found[0] {
                            Answer::Value { value, .. } => value.len() as i64,
                            _ => 0,
                        });
                    });
                };
                past::get_many(&runtime, &route, keys(&[key]), time, Box::new(then));
            }
            PastRead::GetMany(all) => {
                let then = move |found: Result<Vec<Answer>, _>| {
                    finish(reply, found, |found, writer| {
                        writer.array(found.len());
                        found.iter().for_each(|one| write_value(one, writer));
                    });
                };
                past::get_many(&runtime, &route, keys(all), time, Box::new(then));
            }
            PastRead::Exists(all) => {
                let then = move |found: Result<Vec<Answer>, _>| {
                    finish(reply, found, |found, writer| {
                        let there = found.iter().filter(|one| matches!(one, Answer::Value { .. }));
                        writer.int(there.count() as i64);
                    });
                };
                past::get_many(&runtime, &route, keys(all), time, Box::new(then));
            }
            PastRead::Keyspace(request) => {
                let walk = PastKeysWalk::new(runtime, route, time);
                walk_keyspace(walk, request, bytes_max, reply);
            }
        }
        CommandOutcome::Answered
    }
}

/// Answers a command on the whole keyspace.
fn walk_keyspace(
    walk: PastKeysWalk,
    request: &KeyspaceRequest<'_>,
    bytes_max: usize,
    reply: LaterReply,
) {
    match request {
        KeyspaceRequest::Size => walk.all(
            PIECE,
            0_i64,
            |count, keys| {
                *count += keys.len() as i64;
                true
            },
            move |found| finish(reply, found, |count, writer| writer.int(count)),
        ),
        KeyspaceRequest::Keys { pattern } => {
            let pattern = pattern.to_vec();
            walk.all(
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
                    finish(reply, found, |(all, bytes), writer| match bytes > bytes_max {
                        true => writer.error(TOO_LONG),
                        false => write_all(&all, writer),
                    });
                },
            );
        }
        KeyspaceRequest::Scan { cursor, count, pattern, type_filter } => {
            let of_type =
                type_filter.is_none_or(|t| ValueType::named(t) == Some(ValueType::String));
            let pattern = pattern.map(<[u8]>::to_vec);
            let count = usize::try_from(*count).unwrap_or(PIECE).clamp(1, PIECE);
            walk.page(*cursor, count, move |found| {
                finish(reply, found, |(keys, next), writer| {
                    let is_shown = |key: &Bytes| {
                        of_type && pattern.as_ref().is_none_or(|p| glob::matches(p, key))
                    };
                    let keys: Vec<Bytes> = keys.into_iter().filter(is_shown).collect();
                    writer.array(2);
                    writer.bulk(next.to_string().as_bytes());
                    write_all(&keys, writer);
                });
            });
        }
        KeyspaceRequest::Range(range) => {
            let bound = |bound: Bound<'_>| match bound {
                Bound::First | Bound::Last => std::ops::Bound::Unbounded,
                Bound::Included(key) => std::ops::Bound::Included(key.into()),
                Bound::Excluded(key) => std::ops::Bound::Excluded(key.into()),
            };
            let asked = PastRange {
                low: bound(range.low),
                high: bound(range.high),
                reverse: range.reverse,
                with_values: range.with_values,
                keys_max: range.limit.unwrap_or(u64::MAX),
                bytes_max,
            };
            let with_values = range.with_values;
            // Nothing lies behind the last key or before the first.
            let is_empty = range.low == Bound::Last || range.high == Bound::First;
            let then = move |found: Result<Option<Vec<command::Pair>>, ApiError>| {
                finish(reply, found, |found, writer| match found {
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
            match is_empty {
                true => then(Ok(Some(Vec::new()))),
                false => walk.range(asked, Box::new(then)),
            }
        }
        _ => unreachable!("AT runs no other command on the whole keyspace"),
    }
}

/// Writes what was found, or why it was not.
fn finish<T>(
    reply: LaterReply,
    found: Result<T, ApiError>,
    write: impl FnOnce(T, &mut RespWriter<'_>),
) {
    match found {
        Ok(found) => reply.send(false, |writer| write(found, writer)),
        Err(error) => {
            let word = match error {
                ApiError::Busy { .. } | ApiError::Stopping | ApiError::Loading => "BUSY",
                _ => "ERR",
            };
            reply.send(true, |writer| writer.error(format!("{word} {error}")));
        }
    }
}

fn write_value(answer: &Answer, writer: &mut RespWriter<'_>) {
    match answer {
        Answer::Value { value, .. } => writer.bulk(value),
        _ => writer.nil(),
    }
}

fn write_all(keys: &[Bytes], writer: &mut RespWriter<'_>) {
    writer.array(keys.len());
    keys.iter().for_each(|key| writer.bulk(key));
}

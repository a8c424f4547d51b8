//! AT, CLIENT AT, and a MULTI that begins with AT: commands that read a past time. Also CARILLON
//! GC, which says how long past times can be read.
//!
//! Leaders of shards answer them ([`crate::service::past`]), and the connection's next command
//! waits for the reply.
//!
//! ```text
//!   EXEC ─► steps ─► the keys of all of them, at once ─► replies, in the steps' order
//!                                                          └─ KEYS, SCAN …: shard by shard
//! ```
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | values of one command or transaction | 64 MiB together | an error, nothing replied |
//! | its reply | `output_bytes_max` | the same |

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Answer, ApiError, NodeService as _, SafePointHold, SafePointInfo};
use bytes::Bytes;
use command::transaction::{decode_read, encode_read};
use command::{Sink as _, View};
use gateway::resp::{CollectRequest, PastRead, PastRequest, Request, RespWriter, Session, Version};
use keyspace::codec::Reader;
use keyspace::{Moment, Timestamp};
use node::routing::route::Route;
use storage::engine::Version as StoredVersion;

use super::EventLoop;
use super::connection::Connection;
use super::libraries::LaterReply;
use super::past_keyspace::{KeyspaceRead, walk};
use super::reply_limit::TOO_LONG;
use super::resp::CommandOutcome;
use crate::runtime::NodeRuntime;
use crate::service::past;
use crate::service::{NodeApi, NodeFacts};

/// The error of a command that came to something else than a read.
const NOT_A_READ: &str = "ERR this cannot be done at a past time; nothing was done";

/// A command at a past time, which outlives its bytes.
enum PastStep {
    /// These bytes are its reply.
    Known(Vec<u8>),
    /// What the next key had, in a word.
    State,
    /// A read of so many of the next keys.
    Keys {
        /// Its bytes ([`encode_read`]).
        read: Vec<u8>,
        /// How many keys it names.
        keys: usize,
    },
    /// A read of the whole keyspace.
    Keyspace(KeyspaceRead),
}

impl EventLoop {
    /// The time that a client has named, by the clock here.
    fn time_of(&self, moment: Moment) -> Result<Timestamp, String> {
        self.runtime.clock.observe();
        let (now, cluster) = (self.runtime.clock.now(), self.runtime.identity.cluster);
        let time = moment.resolve(now, Some(cluster)).map_err(|why| format!("ERR {why}"))?;
        past::check(&self.runtime, time).map_err(|error| format!("ERR {error}"))?;
        Ok(time)
    }

    /// From now on the connection reads as of this time, or the newest values.
    pub(super) fn read_at(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        moment: Option<Moment>,
        muted: bool,
    ) -> CommandOutcome {
        let time = match moment.map(|moment| self.time_of(moment)).transpose() {
            Ok(time) => time,
            Err(text) => return self.refuse(connection, session, &text, muted),
        };
        session.read_at(time);
        if !muted {
            let mut bytes = Vec::new();
            session.writer(&mut bytes).ok();
            connection.reply_with(bytes);
        }
        CommandOutcome::Answered
    }

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
        let time = match self.time_of(asked.moment) {
            Ok(time) => time,
            Err(text) => return self.refuse(connection, session, &text, muted),
        };
        let mut keys = Vec::new();
        let step = step_of(&asked.read, &route, session.version(), &mut keys);
        let reads = self.past_reads(at, connection, session, (route, time), muted);
        reads.begin(vec![step], keys);
        CommandOutcome::Answered
    }

    /// Does the queued commands of a transaction that reads a past time.
    pub(super) fn exec_past(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        moment: Moment,
        muted: bool,
    ) -> CommandOutcome {
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let Some(queue) = session.take_queue() else {
            unreachable!("a queue has this moment");
        };
        session.end_transaction();
        let time = match self.time_of(moment) {
            Ok(time) => time,
            Err(text) => return self.refuse(connection, session, &text, muted),
        };
        let (mut keys, mut steps) = (Vec::new(), Vec::with_capacity(queue.len()));
        // They are translated as those of a connection that reads at this time.
        let reads_at = session.reads_at();
        session.read_at(Some(time));
        for args in queue.commands() {
            let mut known = Vec::new();
            if args.is(0, "at") {
                session.writer(&mut known).ok();
                steps.push(PastStep::Known(known));
                continue;
            }
            let context = self.context_of(connection);
            steps.push(match session.translate_queued(args, &context, &mut known) {
                Request::Past(asked) => step_of(&asked.read, &route, session.version(), &mut keys),
                Request::Answered => PastStep::Known(known),
                _ => {
                    session.writer(&mut known).error(NOT_A_READ);
                    PastStep::Known(known)
                }
            });
        }
        session.read_at(reads_at);
        let mut reads = self.past_reads(at, connection, session, (route, time), muted);
        reads.writer().array(steps.len());
        reads.begin(steps, keys);
        CommandOutcome::Answered
    }

    fn past_reads(
        &self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        (route, time): (Arc<Route>, Timestamp),
        muted: bool,
    ) -> PastReads {
        PastReads {
            runtime: self.runtime.clone(),
            route,
            time,
            version: session.version(),
            bytes_max: self.config.output_bytes_max as usize,
            steps: Vec::new().into_iter(),
            found: Vec::new().into_iter(),
            out: Vec::new(),
            reply: self.owe_later(at, connection, session, muted),
        }
    }

    /// CARILLON GC.
    pub(super) fn collect(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        asked: &CollectRequest<'_>,
        muted: bool,
    ) -> CommandOutcome {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let keyspaces: Vec<String> = asked.keyspace.into_iter().map(text).collect();
        let routes = self.runtime.routing.routes();
        if let Some(name) = keyspaces.iter().find(|name| routes.get(name).is_none()) {
            let text =
                format!("ERR there is no keyspace '{}'; nothing was done", name.escape_debug());
            return self.refuse(connection, session, &text, muted);
        }
        let time = match asked.at.map(|moment| self.time_of(moment)).transpose() {
            Ok(time) => time,
            Err(text) => return self.refuse(connection, session, &text, muted),
        };
        let api = NodeApi::new(self.runtime.clone(), self.config.clone(), NodeFacts::default());
        let reply = self.owe_later(at, connection, session, muted);
        let names = keyspaces.clone();
        let done = move |found: Result<Vec<SafePointInfo>, ApiError>| {
            finish(reply, found, |mut found, writer| {
                found.retain(|one| names.is_empty() || names.contains(&one.keyspace));
                write_safe_points(&found, writer);
            });
        };
        match asked.why {
            true => api.safe_points(Box::new(done)),
            false => {
                let time = time.unwrap_or_else(|| self.runtime.clock.now());
                api.collect(keyspaces, time, Box::new(done));
            }
        }
        CommandOutcome::Answered
    }
}

/// What a command reads, so that it needs its bytes no more. Its keys go to `keys`.
fn step_of(
    read: &PastRead<'_>,
    route: &Route,
    version: Version,
    keys: &mut Vec<Bytes>,
) -> PastStep {
    match read {
        PastRead::State(key) => {
            keys.push(Bytes::copy_from_slice(key));
            PastStep::State
        }
        PastRead::Keys(read) => {
            let mut bytes = Vec::new();
            encode_read(read, &mut bytes);
            keys.extend(read.keys().iter().map(|key| Bytes::copy_from_slice(key)));
            PastStep::Keys { read: bytes, keys: read.keys().len() }
        }
        PastRead::Keyspace(request) => match KeyspaceRead::of(request, route) {
            Ok(read) => PastStep::Keyspace(read),
            Err(text) => {
                let mut known = Vec::new();
                RespWriter::new(&mut known, version).error(text);
                PastStep::Known(known)
            }
        },
    }
}

/// Commands at one past time, as far as they are answered.
pub(super) struct PastReads {
    pub runtime: Arc<NodeRuntime>,
    pub route: Arc<Route>,
    pub time: Timestamp,
    version: Version,
    pub bytes_max: usize,
    steps: std::vec::IntoIter<PastStep>,
    /// What the keys of the steps that are left had.
    found: std::vec::IntoIter<Answer>,
    out: Vec<u8>,
    reply: LaterReply,
}

impl PastReads {
    fn writer(&mut self) -> RespWriter<'_> {
        RespWriter::new(&mut self.out, self.version)
    }

    /// Reads the keys of all steps, and then answers these.
    fn begin(mut self, steps: Vec<PastStep>, keys: Vec<Bytes>) {
        self.steps = steps.into_iter();
        if keys.is_empty() {
            return self.run();
        }
        let (runtime, route, time) = (self.runtime.clone(), self.route.clone(), self.time);
        let then = move |found: Result<Vec<Answer>, ApiError>| match found {
            Ok(found) => {
                self.found = found.into_iter();
                self.run();
            }
            Err(error) => self.fail(&error),
        };
        past::get_many(&runtime, &route, keys, time, Box::new(then));
    }

    fn run(mut self) {
        while let Some(step) = self.steps.next() {
            match step {
                PastStep::Known(bytes) => self.out.extend_from_slice(&bytes),
                PastStep::State => {
                    let word = match self.found.next() {
                        Some(Answer::Value { .. }) => "value",
                        Some(Answer::NilYet) => "nil_yet",
                        _ => "nil",
                    };
                    self.writer().simple(word);
                }
                PastStep::Keys { read, keys } => {
                    let found: Vec<Answer> = self.found.by_ref().take(keys).collect();
                    let (version, time) = (self.version, self.time);
                    write_read(&read, &found, time, &mut RespWriter::new(&mut self.out, version));
                }
                PastStep::Keyspace(read) => return walk(self, read),
            }
            if self.out.len() > self.bytes_max {
                return self.reply.send(true, |writer| writer.error(TOO_LONG));
            }
        }
        let out = self.out;
        self.reply.send(false, |writer| writer.out.extend_from_slice(&out));
    }

    /// Goes on behind a step that was answered with what was found.
    pub(super) fn took<T>(
        mut self,
        found: Result<T, ApiError>,
        write: impl FnOnce(T, &mut RespWriter<'_>),
    ) {
        match found {
            Ok(found) => {
                write(found, &mut self.writer());
                self.run();
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(self, error: &ApiError) {
        self.reply.send(true, |writer| write_error(error, writer));
    }
}

/// The values of some keys.
struct Found<'f>(BTreeMap<&'f [u8], &'f Answer>);

impl View for Found<'_> {
    fn newest(&self, key: &[u8]) -> Option<StoredVersion<'_>> {
        match self.0.get(key)? {
            Answer::Value { value, timestamp, expires_at_ms } => Some(StoredVersion {
                value,
                expiry_ms: expires_at_ms.unwrap_or(0),
                timestamp: *timestamp,
            }),
            _ => None,
        }
    }
}

/// Writes the reply of a read whose keys had this.
fn write_read(read: &[u8], found: &[Answer], time: Timestamp, writer: &mut RespWriter<'_>) {
    let read = decode_read(&mut Reader::new(read)).expect("it was encoded here");
    let values = Found(read.keys().iter().copied().zip(found).collect());
    command::answer(&values, &read, time, writer);
}

/// Writes what was found, or why it was not.
fn finish<T>(
    reply: LaterReply,
    found: Result<T, ApiError>,
    write: impl FnOnce(T, &mut RespWriter<'_>),
) {
    match found {
        Ok(found) => reply.send(false, |writer| write(found, writer)),
        Err(error) => reply.send(true, |writer| write_error(&error, writer)),
    }
}

fn write_error(error: &ApiError, writer: &mut RespWriter<'_>) {
    let word = match error {
        ApiError::Busy { .. } | ApiError::Stopping | ApiError::Loading => "BUSY",
        _ => "ERR",
    };
    writer.error(format!("{word} {error}"));
}

fn write_safe_points(all: &[SafePointInfo], writer: &mut RespWriter<'_>) {
    writer.array(all.len());
    for one in all {
        writer.map(10);
        writer.bulk(b"keyspace");
        writer.bulk(one.keyspace.as_bytes());
        writer.bulk(b"safe-point");
        writer.bulk(one.safe_point.as_bytes());
        writer.bulk(b"retention-ms");
        writer.int(i64::try_from(one.retention_ms).unwrap_or(i64::MAX));
        writer.bulk(b"held-by");
        writer.bulk(match one.held_by {
            SafePointHold::Retention => b"retention",
            SafePointHold::Snapshot => b"snapshot",
            SafePointHold::Feed => b"feed",
        });
        writer.bulk(b"snapshot");
        match one.snapshot {
            Some(id) => writer.int(i64::try_from(id).unwrap_or(i64::MAX)),
            None => writer.nil(),
        }
        writer.bulk(b"may-rise-to-ms");
        writer.int(i64::try_from(one.may_rise_to_ms).unwrap_or(i64::MAX));
        writer.bulk(b"old-bytes");
        writer.int(i64::try_from(one.old_bytes).unwrap_or(i64::MAX));
        writer.bulk(b"held-bytes");
        writer.int(i64::try_from(one.held_bytes).unwrap_or(i64::MAX));
        writer.bulk(b"pinned-bytes");
        writer.int(i64::try_from(one.pinned_bytes).unwrap_or(i64::MAX));
        writer.bulk(b"pinned");
        writer.array(one.pinned.len());
        for pin in &one.pinned {
            writer.map(3);
            for (word, number) in
                [("snapshot", pin.snapshot), ("at-ms", pin.at_ms), ("bytes", pin.bytes)]
            {
                writer.bulk(word.as_bytes());
                writer.int(i64::try_from(number).unwrap_or(i64::MAX));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use command::Read;

    use super::*;

    fn reply(read: &Read<'_>, found: &[Answer]) -> String {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        encode_read(read, &mut bytes);
        let time = Timestamp::from_millis(1000);
        write_read(&bytes, found, time, &mut RespWriter::new(&mut out, Version::V2));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn reads_reply_as_they_would_have_at_that_time() {
        let value = |value: &'static [u8], expires_at_ms| Answer::Value {
            value: Bytes::from_static(value),
            timestamp: Timestamp::from_millis(7),
            expires_at_ms,
        };
        let (seven, none) = (value(b"seven", None), Answer::NilYet);
        assert_eq!(reply(&Read::Get(b"k"), std::slice::from_ref(&seven)), "$5\r\nseven\r\n");
        assert_eq!(reply(&Read::Get(b"k"), std::slice::from_ref(&none)), "$-1\r\n");
        let keys: Vec<&[u8]> = vec![b"b", b"a", b"b"];
        let found = [seven.clone(), none, seven.clone()];
        let many = reply(&Read::GetMany(keys.clone()), &found);
        assert_eq!(many, "*3\r\n$5\r\nseven\r\n$-1\r\n$5\r\nseven\r\n");
        assert_eq!(reply(&Read::Exists(keys), &found), ":2\r\n");
        let range = Read::GetRange { key: b"k", start: 1, end: 2 };
        assert_eq!(reply(&range, &[seven]), "$2\r\nev\r\n");
        let ttl = Read::Ttl { key: b"k", millis: true, absolute: false };
        assert_eq!(reply(&ttl, &[value(b"", Some(1500))]), ":500\r\n", "what was left then");
    }
}

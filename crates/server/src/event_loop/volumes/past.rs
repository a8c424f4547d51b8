//! Volumes as of a past time: exports that are called `NAME@TIME`. They can only be read.
//!
//! ```text
//!   GO disk@10m ago ──► can its first block be read at that time? ──► its size, or why not
//!   READ ──► its blocks as of that time, of leaders ([`crate::service::past`]) ──► data and holes
//! ```
//!
//! A clone reads what it does not have in the same way from its source ([`super::sources`]).
//!
//! An age becomes a time once for a connection, when it first names the export. The size is that
//! of now: blocks that a volume did not have then are zeroes.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of blocks that a connection has asked for and not got | [`ASKED_BYTES_MAX`] | not read further |
//! | bytes whose allocation one reply tells | [`STATUS_BYTES_MAX`] | the reply says less; the client asks again |

use std::sync::{Arc, OnceLock};

use api::ApiError;
use bytes::Bytes;
use gateway::nbd::{self, Errno, Export, Found, PAYLOAD_BYTES_MAX};
use keyspace::{Moment, Timestamp, VolumeOptions};
use node::executor::{Answer, Origin};
use node::routing::route::Route;

use super::super::EventLoop;
use super::super::connection::{Connection, Protocol};
use super::super::pending_reply::{PendingReply, ReplyFrame};
use super::super::serve::{go_waiter, waiter};
use super::super::state::WaitsFor;
use super::Work;
use super::blocks::{FoundBlocks, ReadReply};
use super::exports::{NO_VOLUME, Volumes, export};
use super::sources::{self, Source, sources_of};
use crate::runtime::mailbox::Mail;
use crate::scripts::JobReply;
use crate::service::past;
use crate::utc::utc;

/// Bytes of blocks that a connection has asked for and not got.
const ASKED_BYTES_MAX: u64 = 64 << 20;
/// Bytes whose allocation one reply tells: the blocks are read for it.
pub(super) const STATUS_BYTES_MAX: u64 = PAYLOAD_BYTES_MAX as u64;

/// A volume as of a past time.
pub(super) struct PastExport {
    /// What the client calls it.
    pub name: Box<str>,
    /// The time.
    pub time: Timestamp,
    /// Whether it can be read, or why not; nothing while that is not known.
    readable: Arc<OnceLock<Result<(), String>>>,
}

/// One that must be looked at before its client is answered.
pub(super) struct Wanted {
    name: Box<str>,
    route: Arc<Route>,
    moment: Moment,
}

impl Volumes<'_> {
    /// The volume of a name with a time.
    pub(super) fn find_past(&self, name: &str, volume: &str, time: &str) -> Found {
        let found = self.routes.get(volume).and_then(|route| Some((route, export(route)?)));
        let Some((route, newest)) = found else { return Found::Refused(NO_VOLUME.to_owned()) };
        if let Some(past) = self.past.filter(|past| *past.name == *name)
            && let Some(readable) = past.readable.get()
        {
            return match readable {
                Ok(()) => Found::Export(past.export(newest)),
                Err(why) => Found::Refused(why.clone()),
            };
        }
        match Moment::parse(time) {
            Err(why) => Found::Refused(why),
            Ok(moment) => {
                let (name, route) = (name.into(), route.clone());
                *self.wanted.borrow_mut() = Some(Wanted { name, route, moment });
                Found::Later
            }
        }
    }
}

impl PastExport {
    fn export(&self, newest: Export) -> Export {
        let time = utc(self.time.millis());
        let description = format!("{} as of {time}, which can only be read", newest.description);
        let name = self.name.to_string();
        Export { name, description, is_read_only: true, has_multi_conn: true, ..newest }
    }
}

/// Why blocks cannot be read at a time.
fn why_not(error: &ApiError, retention_ms: u64) -> String {
    match error {
        ApiError::BelowSafePoint { at, safe_point } => format!(
            "the volume cannot be read as of {}: its retention is {retention_ms} ms, and it can be \
             read since {}",
            utc(at.millis()),
            utc(safe_point.millis())
        ),
        ApiError::InFuture { at, .. } => format!("{} is in the future", utc(at.millis())),
        error => error.to_string(),
    }
}

impl EventLoop {
    /// Finds out whether a volume can be read at a time; the connection goes on when it is known.
    pub(super) fn look_at_past(&mut self, at: usize, connection: &mut Connection, wanted: Wanted) {
        let Protocol::Volume(session) = &mut connection.protocol else { return };
        let Wanted { name, route, moment } = wanted;
        let readable = Arc::new(OnceLock::new());
        let (now, cluster) = (self.runtime.clock.now(), self.runtime.identity.cluster);
        let time = moment.resolve(now, Some(cluster));
        let known = time.as_ref().err().cloned();
        let time = time.unwrap_or_default();
        let volume = route.keyspace.options.volume;
        let known = known.or_else(|| check_readable(volume?, time).err());
        session.past = Some(PastExport { name, time, readable: readable.clone() });
        let retention_ms = route.keyspace.options.retention_ms;
        let (runtime, origin) = (self.runtime.clone(), Origin(self.number as u32));
        let go = move |result: Result<(), String>| {
            let _is_first = readable.set(result);
            let mail = Mail::Answer(Answer::Retry { origin, waiter: go_waiter(at) });
            let _is_read = runtime.delivery.mailboxes[origin.0 as usize].post(mail);
        };
        connection.next.waits_for = WaitsFor::Permission;
        if let Some(why) = known {
            return go(Err(why));
        }
        let key = Bytes::copy_from_slice(&VolumeOptions::key(0));
        let then = move |found: Result<Vec<api::Answer>, ApiError>| {
            go(found.map(drop).map_err(|error| why_not(&error, retention_ms)));
        };
        past::get_many(&self.runtime, &route, vec![key], time, Box::new(then));
    }

    /// Does a request to a volume as of a past time, or begins to. `false`: it must wait.
    pub(super) fn work_past(
        &mut self,
        connection: &mut Connection,
        route: &Arc<Route>,
        volume: VolumeOptions,
        work: &Work<'_>,
        time: Timestamp,
    ) -> bool {
        let Work { request, writer, .. } = *work;
        let reply = match request.command {
            nbd::Command::Read { is_whole } => ReadReply::bytes(writer, &request, is_whole),
            nbd::Command::BlockStatus { is_one } => {
                ReadReply::status(writer, &request, is_one, STATUS_BYTES_MAX)
            }
            // Nothing was written, and nothing is kept.
            nbd::Command::Flush | nbd::Command::Cache => {
                writer.done(request.cookie, request.offset, &mut connection.output.bytes);
                return true;
            }
            nbd::Command::Disconnect => return true,
            nbd::Command::Write(_) | nbd::Command::Trim | nbd::Command::WriteZeroes { .. } => {
                unreachable!("a request that writes is refused when it is parsed")
            }
        };
        if let Err(why) = check_readable(volume, time) {
            self.fail(connection, work, Errno::Io, &why);
            return true;
        }
        let found = FoundBlocks::absent(&reply.blocks(volume), volume, reply.has_bytes());
        let itself = (route.clone(), time);
        self.read_sources(connection, volume, work, Some(itself), found, reply)
    }

    /// Answers a request when what was not found was looked for in a volume as of a past time, and
    /// in the sources of that volume. `false`: it must wait before it is asked for.
    pub(super) fn read_sources(
        &mut self,
        connection: &mut Connection,
        volume: VolumeOptions,
        work: &Work<'_>,
        itself: Option<Source>,
        found: FoundBlocks,
        reply: ReadReply,
    ) -> bool {
        let sources = match sources_of(&self.runtime.routing.routes(), volume) {
            Ok(sources) => itself.into_iter().chain(sources).collect::<Vec<_>>(),
            Err(why) => {
                self.fail(connection, work, Errno::Io, why);
                return true;
            }
        };
        let missing = found.missing().len() as u64;
        if !may_ask(connection, missing * u64::from(volume.block_bytes)) {
            return false;
        }
        let retention_ms = sources.first().map_or(0, |(of, _)| of.keyspace.options.retention_ms);
        let waiter = waiter(work.at, connection.next_number());
        connection.pending.push_back(PendingReply::waiting(ReplyFrame::Bytes));
        let (runtime, event_loop) = (self.runtime.clone(), self.number);
        let then = move |found: Result<FoundBlocks, ApiError>| {
            let mut bytes = Vec::new();
            let found = found.map_err(|error| why_not(&error, retention_ms));
            let put =
                found.and_then(|found| reply.put(&found, &mut bytes).map_err(ToOwned::to_owned));
            if let Err(why) = &put {
                reply.writer.error(reply.cookie, reply.offset(), Errno::Io, why, &mut bytes);
            }
            let reply = vec![(waiter, JobReply::new(bytes, put.is_err()))];
            // A loop that has ended has no clients left, or has given them up.
            let _is_read = runtime.delivery.mailboxes[event_loop].post(Mail::Scripted(reply));
        };
        sources::fill(&self.runtime, sources, found, Box::new(then));
        true
    }
}

/// Whether a volume had all its blocks at a time.
fn check_readable(volume: VolumeOptions, time: Timestamp) -> Result<(), String> {
    match volume.readable_since() {
        since if time < since => Err(format!(
            "the volume cannot be read as of {}: it is a clone that was flattened at {}",
            utc(time.millis()),
            utc(since.millis())
        )),
        _ => Ok(()),
    }
}

/// Whether a connection may ask for so many bytes of blocks more now; then they are counted.
fn may_ask(connection: &mut Connection, bytes: u64) -> bool {
    let is_idle = connection.pending.is_empty();
    let Protocol::Volume(session) = &mut connection.protocol else { return false };
    let asked = if is_idle { 0 } else { session.asked_bytes };
    if asked > 0 && asked + bytes > ASKED_BYTES_MAX {
        connection.waits_at_barrier();
        return false;
    }
    session.asked_bytes = asked + bytes;
    true
}

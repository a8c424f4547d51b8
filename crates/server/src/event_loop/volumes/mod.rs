//! Serves volumes over NBD: a block is a key, and a request is reads or writes of some keys.
//!
//! ```text
//!   READ  ──► GetMany of its blocks, at once ─────────────────────────────► data and holes
//!   WRITE ──► SET of each block, or DEL if it is all zeroes, in this turn's batches ──► done
//!   TRIM, WRITE_ZEROES ──► DEL of the blocks that are there, a piece of [`PIECE_BLOCKS`] at a time
//!   FLUSH ──► done: what was answered is on disk at a majority already
//! ```
//!
//! An export may name a past time: [`past`]. A clone reads from its source what it has not written
//! ([`sources`]), and keeps empty values where it was made zeroes. One session of
//! writers has the volume: [`writers`].
//!
//! The protocol lets replies come in any order. So a read passes the writes before it that are not
//! answered, and sees all that is. Each block is written whole or not at all; a request of several
//! blocks may be done in part when it fails. A volume's durability is `sync`, so an answered write
//! needs no flush, and every connection to any node sees it: each export has multi-conn.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of one read or write | [`gateway::nbd::PAYLOAD_BYTES_MAX`] | refused, or the connection ends |
//! | writes without an answer | `PENDING_MAX`, and `input_bytes_max` of input | not read further |
//! | blocks of a `TRIM` in one turn | [`PIECES_PER_TURN`] pieces | the next turn goes on |
//! | blocks of one status | [`STATUS_BLOCKS_MAX`] | the reply says less; the client asks again |
//! | memory of the node | `memory_max` | `ENOSPC`, nothing done; the volume goes on |

mod blocks;
mod exports;
mod past;
pub(crate) mod sources;
mod writers;

use std::ops::Range;

use command::{Claim, Read, Write, Writer};
use gateway::access::{Access, Principal};
use gateway::nbd::{
    self, Errno, Negotiation, Parsed, ReplyWriter, Request, Step, TlsOffer, Transmission,
};
use gateway::resp::Gather;
use keyspace::{KeyspaceId, Timestamp, VolumeOptions};
use node::routing::route::Route;

use self::blocks::{Block, FoundBlocks, ReadReply, is_zero, must_zero, zeroed};
use self::exports::Volumes;
use self::past::{PastExport, STATUS_BYTES_MAX};
use self::writers::Claimed;
pub use self::writers::FENCED;
use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::pending_reply::{PendingReply, ReplyFrame, UNKNOWN};
use super::serve::waiter;
use super::state::ConnectionState;

/// Blocks that are looked at together when they are to become zeroes.
const PIECE_BLOCKS: u64 = 256;
/// Pieces of one turn of the loop; then other connections are served.
const PIECES_PER_TURN: usize = 64;
/// Blocks whose allocation one reply tells.
const STATUS_BLOCKS_MAX: u64 = 4096;

/// What a connection to a volume remembers.
pub struct VolumeSession {
    phase: Phase,
    /// Bytes of a refused request that are still to come, and are thrown away.
    skip: u64,
    /// Of the request under way that is done piece by piece: the blocks that are done.
    blocks_done: u64,
    /// Why a piece of it has failed.
    failed: Option<Errno>,
    /// The volume as of a past time that it has named last.
    past: Option<PastExport>,
    /// Bytes of blocks of that time that were asked for since nothing was owed.
    asked_bytes: u64,
}

enum Phase {
    Negotiating(Negotiation),
    Open {
        /// Of the volume.
        name: Box<str>,
        keyspace: KeyspaceId,
        form: Transmission,
        /// The past time that is read.
        past: Option<Timestamp>,
        /// What it does before it writes; nothing, if the volume is shared.
        claim: Option<SessionClaim>,
    },
}

/// How a request is answered, once its last write is.
#[derive(Clone, Copy)]
pub struct VolumeReply {
    cookie: u64,
    offset: u64,
    writer: ReplyWriter,
    of: ReplyOf,
}

/// What it is that was answered.
#[derive(Clone, Copy)]
enum ReplyOf {
    /// All writes of a request.
    Request,
    /// Some of them; more come.
    Piece,
    /// A fence that a request waits for.
    Fence,
}

/// The claim of a connection to write.
struct SessionClaim {
    claim: Claim,
    /// Whether its client has named the session: it takes the volume with its first request.
    is_named: bool,
}

impl VolumeSession {
    /// One of a client that has just come, and is offered TLS or not.
    pub fn new(tls: TlsOffer) -> Self {
        let phase = Phase::Negotiating(Negotiation::new(tls));
        Self { phase, skip: 0, blocks_done: 0, failed: None, past: None, asked_bytes: 0 }
    }

    /// The keyspace whose blocks it serves; none is called so before one is chosen.
    pub fn keyspace(&self) -> &str {
        match &self.phase {
            Phase::Negotiating(_) => "",
            Phase::Open { name, .. } => name,
        }
    }

    /// The writes of a request are answered.
    pub fn answered(&mut self, reply: VolumeReply, failed: Option<&str>, out: &mut Vec<u8>) {
        let VolumeReply { cookie, offset, writer, of } = reply;
        match (of, failed) {
            (ReplyOf::Fence, _) => self.fence_answered(failed),
            (ReplyOf::Piece, Some(why)) => self.failed = Some(errno_of(why)),
            (ReplyOf::Piece, None) => {}
            (ReplyOf::Request, Some(why)) => writer.error(cookie, offset, errno_of(why), why, out),
            (ReplyOf::Request, None) => writer.done(cookie, offset, out),
        }
    }
}

/// The error that belongs to a text.
fn errno_of(text: &str) -> Errno {
    let begins = |word: &str| text.starts_with(word);
    match () {
        () if begins("OOM") || begins("MISCONF") => Errno::NoSpace,
        // Of a request to several shards, some may have done their part before.
        () if text.contains(FENCED) => Errno::Perm,
        () if begins(UNKNOWN) => Errno::Io,
        () => Errno::Io,
    }
}

impl EventLoop {
    /// Does what is at the front of the input until something must wait; how many bytes are done.
    pub(super) fn run_volume(
        &mut self,
        at: usize,
        connection: &mut Connection,
        input: &[u8],
    ) -> usize {
        let mut done = 0;
        while done < input.len() && self.may_run(connection) {
            let Protocol::Volume(session) = &mut connection.protocol else { break };
            if session.skip > 0 {
                let left = (input.len() - done) as u64;
                let skipped = session.skip.min(left);
                session.skip -= skipped;
                done += skipped as usize;
                continue;
            }
            let consumed = match session.phase {
                Phase::Negotiating(_) => self.negotiate(at, connection, &input[done..]),
                Phase::Open { .. } => self.run_volume_request(at, connection, &input[done..]),
            };
            if consumed == 0 {
                break;
            }
            done += consumed;
        }
        done
    }

    fn negotiate(&mut self, at: usize, connection: &mut Connection, input: &[u8]) -> usize {
        let routes = self.runtime.routing.routes();
        let Protocol::Volume(session) = &mut connection.protocol else { return 0 };
        let Phase::Negotiating(negotiation) = &mut session.phase else { return 0 };
        let volumes = Volumes::new(&routes, session.past.as_ref());
        let (used, step) = negotiation.step(input, &volumes, &mut connection.output.bytes);
        match step {
            Step::More => {}
            Step::Wait => {
                let wanted = volumes.wanted.take();
                let wanted = wanted.expect("what must be waited for is a volume of a past time");
                self.look_at_past(at, connection, wanted);
            }
            Step::End => connection.advance(ConnectionState::Closing),
            Step::StartTls => self.start_tls(connection, used < input.len()),
            Step::Chosen(chosen) => {
                let export = chosen.export.name;
                let past = session.past.as_ref().filter(|past| *past.name == *export);
                let past = past.map(|past| past.time);
                let name: Box<str> = export.split('@').next().unwrap_or_default().into();
                match routes.get(&name) {
                    Some(route) => {
                        let keyspace = route.keyspace.id;
                        let form = chosen.transmission;
                        let claim = self.claim_of(connection, &export, &route.keyspace, past);
                        let open = Phase::Open { name, keyspace, form, past, claim };
                        let Protocol::Volume(session) = &mut connection.protocol else { return 0 };
                        session.phase = open;
                        connection.route_version = u64::MAX;
                        self.refresh_route(connection);
                    }
                    None => connection.advance(ConnectionState::Closing),
                }
            }
        }
        used
    }

    /// Sends what is written, and begins TLS. A client that has sent more already, unencrypted, or
    /// does not take its answer is let go.
    fn start_tls(&mut self, connection: &mut Connection, has_more: bool) {
        self.flush(connection);
        let is_clean = !has_more && connection.unsent() == 0;
        if !is_clean || connection.transport.start_tls(self.tls.as_deref()).is_err() {
            connection.advance(ConnectionState::Broken);
        }
        if self.config.tls_client_ca_file.is_some() {
            // Nothing more of it is read before it has shown a certificate.
            connection.principal = Principal::Authenticated;
        }
        // The client may have begun before this one looks again.
        connection.ready.readable = true;
    }

    fn run_volume_request(
        &mut self,
        at: usize,
        connection: &mut Connection,
        input: &[u8],
    ) -> usize {
        let Protocol::Volume(session) = &mut connection.protocol else { return 0 };
        let Phase::Open { keyspace, form, past, .. } = &mut session.phase else { return 0 };
        let past = *past;
        let route = connection.route.clone().filter(|route| route.keyspace.id == *keyspace);
        let volume = route.as_ref().and_then(|route| route.keyspace.options.volume);
        if let Some(volume) = volume.filter(|_| past.is_none()) {
            form.size = volume.bytes;
        }
        let writer = ReplyWriter::new(form);
        let (request, used) = match nbd::parse(input, form) {
            Parsed::More => return 0,
            Parsed::Request(request, used) => (request, used),
            Parsed::Refused(fault, used, skip) => {
                let out = &mut connection.output.bytes;
                writer.error(fault.cookie, fault.offset, fault.errno, fault.why, out);
                session.skip = skip;
                self.runtime.counters.errors.add(1);
                return used;
            }
            Parsed::Broken(why) => {
                tracing::info!("a client of a volume is disconnected: {why}");
                connection.advance(ConnectionState::Closing);
                return input.len();
            }
        };
        if request.command == nbd::Command::Disconnect {
            connection.advance(ConnectionState::Closing);
            return input.len();
        }
        let mut work = Work { at, request, writer, by: None };
        let access = match request.command {
            nbd::Command::Write(_) | nbd::Command::Trim | nbd::Command::WriteZeroes { .. } => {
                Access::Write
            }
            _ => Access::Read,
        };
        let refused = connection.next.refused.take();
        let may = connection.principal.may(access);
        let failed = match (&refused, route.zip(volume)) {
            (Some(text), _) => Some((errno_of(text), &**text)),
            _ if !may => Some((Errno::Perm, "this user may not do that")),
            (None, None) => Some((Errno::Shutdown, "the volume was deleted")),
            (None, Some((route, volume))) => {
                match self.claim(connection, &route, &work, access == Access::Write) {
                    Claimed::Yes(by) => work.by = by,
                    Claimed::Later => return 0,
                    Claimed::No(errno, why) => {
                        self.fail(connection, &work, errno, why);
                        self.counted.commands += 1;
                        return used;
                    }
                }
                let is_done = match past {
                    None => self.work(connection, &route, volume, &work),
                    Some(time) => self.work_past(connection, &route, volume, &work, time),
                };
                if !is_done {
                    return 0;
                }
                None
            }
        };
        if let Some((errno, why)) = failed {
            connection.next.at = None;
            connection.next.fetched = Default::default();
            self.fail(connection, &work, errno, why);
        }
        self.counted.commands += 1;
        used
    }

    /// Answers a request with an error.
    fn fail(&mut self, connection: &mut Connection, work: &Work<'_>, errno: Errno, why: &str) {
        let Work { request, writer, .. } = work;
        writer.error(request.cookie, request.offset, errno, why, &mut connection.output.bytes);
        if let Protocol::Volume(session) = &mut connection.protocol {
            (session.blocks_done, session.failed) = (0, None);
        }
        self.runtime.counters.errors.add(1);
    }

    /// Does a request, or begins to. `false`: it must wait.
    fn work(
        &mut self,
        connection: &mut Connection,
        route: &Route,
        volume: VolumeOptions,
        work: &Work<'_>,
    ) -> bool {
        let Work { request, writer, .. } = *work;
        let blocks = blocks_of(&request, volume);
        match request.command {
            nbd::Command::Read { is_whole } => {
                self.counted.others += 1;
                let reply = ReadReply::bytes(writer, &request, is_whole);
                return self.read_blocks(connection, route, volume, work, reply);
            }
            nbd::Command::BlockStatus { is_one } => {
                let block = u64::from(volume.block_bytes);
                let most = match volume.source() {
                    None => STATUS_BLOCKS_MAX * block,
                    Some(_) => STATUS_BYTES_MAX,
                };
                let reply = ReadReply::status(writer, &request, is_one, most);
                return self.read_blocks(connection, route, volume, work, reply);
            }
            nbd::Command::Write(bytes) => {
                self.write_blocks(connection, volume, work, blocks, bytes)
            }
            nbd::Command::Trim | nbd::Command::WriteZeroes { .. } => {
                return self.zero_blocks(connection, route, volume, work, blocks);
            }
            // What was answered is on disk at a majority of replicas, and all is in memory.
            nbd::Command::Flush | nbd::Command::Cache => {
                writer.done(request.cookie, request.offset, &mut connection.output.bytes);
            }
            nbd::Command::Disconnect => {}
        }
        true
    }

    /// Answers what a request wants to know of blocks; later, if a clone must ask its source.
    /// `false`: it must wait.
    fn read_blocks(
        &mut self,
        connection: &mut Connection,
        route: &Route,
        volume: VolumeOptions,
        work: &Work<'_>,
        reply: ReadReply,
    ) -> bool {
        let blocks = reply.blocks(volume);
        let mut found = FoundBlocks::new(&blocks, volume, reply.has_bytes());
        if !self.look_at_blocks(connection, route, work, blocks, &mut found) {
            return false;
        }
        if volume.source().is_some() && found.blocks.contains(&Block::Absent) {
            return self.read_sources(connection, volume, work, None, found, reply);
        }
        if let Err(why) = reply.put(&found, &mut connection.output.bytes) {
            self.fail(connection, work, Errno::Io, why);
        }
        true
    }

    /// Looks at blocks. `false`: they must be waited for.
    fn look_at_blocks(
        &mut self,
        connection: &mut Connection,
        route: &Route,
        work: &Work<'_>,
        blocks: Range<u64>,
        found: &mut FoundBlocks,
    ) -> bool {
        let keys: Vec<[u8; 8]> = blocks.map(VolumeOptions::key).collect();
        let read = match &keys[..] {
            [key] => Read::Get(key),
            keys => Read::GetMany(keys.iter().map(<[u8; 8]>::as_slice).collect()),
        };
        let now = connection.next.at.take().unwrap_or_else(|| self.moment());
        let fetched = std::mem::take(&mut connection.next.fetched);
        match node::replica::read::read_with(route, &read, now, &fetched, found) {
            Ok(()) => {
                self.note_read(route, &read, None);
                true
            }
            Err(blocked) => {
                connection.next.fetched = fetched;
                self.wait_or_fetch(work.at, connection, route, blocked, now, read.keys());
                false
            }
        }
    }

    fn write_blocks(
        &mut self,
        connection: &mut Connection,
        volume: VolumeOptions,
        work: &Work<'_>,
        blocks: Range<u64>,
        bytes: &[u8],
    ) {
        if self.is_out_of_memory() {
            let why = "the node's memory is full (memory_max)";
            return self.fail(connection, work, Errno::NoSpace, why);
        }
        let values = bytes.chunks_exact(volume.block_bytes as usize);
        let keys: Vec<[u8; 8]> = blocks.map(VolumeOptions::key).collect();
        let by = work.by;
        let writes = keys.iter().zip(values).map(|(key, value)| match is_zero(value) {
            true => fenced(by, zeroed(volume, key)),
            false => fenced(by, Write::set(key, value)),
        });
        self.put_blocks(connection, work, writes, ReplyOf::Request);
    }

    /// Puts writes into this turn's batches; their reply is owed.
    fn put_blocks<'a>(
        &mut self,
        connection: &mut Connection,
        work: &Work<'_>,
        writes: impl Iterator<Item = Write<'a>>,
        of: ReplyOf,
    ) {
        let Work { at, request, writer, .. } = *work;
        let (number, mut parts) = (connection.next_number(), 0);
        for write in writes {
            let put = self.put_admitted(connection, &write, waiter(at, number));
            put.expect("a block is no long value, and has one key");
            parts += 1;
        }
        let reply = VolumeReply { cookie: request.cookie, offset: request.offset, writer, of };
        let frame = ReplyFrame::Volume(reply);
        connection.pending.push_back(PendingReply::gathering(Gather::Ok, parts, frame));
    }

    /// Makes blocks zeroes that are not, one piece after the other. `false`: there is more.
    fn zero_blocks(
        &mut self,
        connection: &mut Connection,
        route: &Route,
        volume: VolumeOptions,
        work: &Work<'_>,
        blocks: Range<u64>,
    ) -> bool {
        let Work { request, writer, .. } = *work;
        for _ in 0..PIECES_PER_TURN {
            let Protocol::Volume(session) = &mut connection.protocol else { return true };
            let start = blocks.start + session.blocks_done;
            // The piece before is answered when nothing is owed.
            if start > blocks.start && connection.waits_at_barrier() {
                return false;
            }
            let Protocol::Volume(session) = &mut connection.protocol else { return true };
            if let Some(errno) = session.failed {
                self.fail(connection, work, errno, "a part of the blocks is not zeroes");
                return true;
            }
            if start == blocks.end {
                (session.blocks_done, session.failed) = (0, None);
                writer.done(request.cookie, request.offset, &mut connection.output.bytes);
                return true;
            }
            let piece = start..blocks.end.min(start + PIECE_BLOCKS);
            let mut found = FoundBlocks::new(&piece, volume, false);
            if !self.look_at_blocks(connection, route, work, piece.clone(), &mut found) {
                return false;
            }
            if let Protocol::Volume(session) = &mut connection.protocol {
                session.blocks_done = piece.end - blocks.start;
            }
            let others = piece.zip(&found.blocks).filter(|(_, block)| must_zero(volume, **block));
            let keys: Vec<[u8; 8]> = others.map(|(block, _)| VolumeOptions::key(block)).collect();
            if volume.marks_zeroes() && !keys.is_empty() && self.is_out_of_memory() {
                let why = "the node's memory is full (memory_max)";
                self.fail(connection, work, Errno::NoSpace, why);
                return true;
            }
            if !keys.is_empty() {
                let writes = keys.iter().map(|key| fenced(work.by, zeroed(volume, key)));
                self.put_blocks(connection, work, writes, ReplyOf::Piece);
            }
        }
        connection.turn.has_yielded = true;
        false
    }
}

/// A request that is being done.
#[derive(Clone, Copy)]
struct Work<'a> {
    /// The connection's place.
    at: usize,
    request: Request<'a>,
    writer: ReplyWriter,
    /// Who writes, unless the volume is shared.
    by: Option<Writer>,
}

/// The write of a block, as that of a writer; as it is if the volume is shared.
fn fenced(by: Option<Writer>, write: Write<'_>) -> Write<'_> {
    match (by, write) {
        (Some(writer), Write::Set { key, value, .. }) => {
            Write::Block { writer, key, value: Some(value) }
        }
        (Some(writer), Write::Delete { key }) => Write::Block { writer, key, value: None },
        (_, write) => write,
    }
}

/// The blocks that a request is about.
fn blocks_of(request: &Request<'_>, volume: VolumeOptions) -> Range<u64> {
    let block = u64::from(volume.block_bytes);
    request.offset / block..(request.offset + request.length).div_ceil(block)
}

//! Reads behind unanswered writes of their connection: they join a batch of the log, or are parked
//! ([`node::routing::pipeline`], SAFETY G26).
//!
//! ```text
//!   SET a · GET b · SET c ──► a and c are proposed; the GET is parked: its key is copied
//!   a is answered         ──► the GET's reply is the oldest owed: it is read now
//! ```
//!
//! A parked read has a place among the replies owed, and no value. When its reply is the oldest,
//! all writes before it are committed and answered. The loop then reads, right into the output. If
//! the read must wait for its shard, or for data of another node, it is the connection's next
//! command until it is answered; those in the input wait.

use std::sync::Arc;

use command::{Read, Sink};
use keyspace::{Feature, Timestamp};
use node::control::Routes;
use node::replica::read::{Blocked, ReadTime, read_with};
use node::routing::fetch::FetchedData;
use node::routing::pipeline::{BeforeWrite, JoiningRead, ReadPlan, ReadTraits};
use node::routing::route::Route;

use super::connection::{Connection, Protocol};
use super::memory_need::MemoryNeed;
use super::pending_reply::{PendingReply, ReplyFrame, ReplyKind};
use super::reply_limit::{LimitedSink, TOO_LONG};
use super::resp::{CommandOutcome, NO_KEYSPACE};
use super::serve::waiter;
use super::state::ConnectionState;
use super::writes::crosses;
use super::{EventLoop, OUTPUT_PAUSE_BYTES};
use crate::runtime::growth::Reservation;
use gateway::native::{ErrorText, FrameSink};
use gateway::resp::RespWriter;

impl EventLoop {
    /// Whether a write must wait, for a parked read before it is of one of its keys, and cannot
    /// join the log. Then the connection waits until nothing is owed. Else the write is sent now.
    #[inline]
    pub(super) fn holds_back(
        &mut self,
        at: usize,
        connection: &mut Connection,
        each_key: impl Fn(&mut dyn FnMut(&[u8])),
    ) -> bool {
        if connection.pipeline.has_no_reads() {
            return false;
        }
        let Some(route) = connection.route.clone() else { return false };
        let (mut must_wait, mut joining) = (false, 0);
        each_key(&mut |key| {
            let (shard, hash) = (route.shard(route.place_of_key(key)), route.key(key).hash);
            match connection.pipeline.before_write(shard, hash) {
                BeforeWrite::Nothing => {}
                BeforeWrite::Join(count) => joining = joining.max(count),
                BeforeWrite::Wait => must_wait = true,
            }
        });
        for _ in 0..joining {
            must_wait = must_wait || !self.join_oldest(at, connection);
        }
        connection.next.barrier |= must_wait;
        must_wait
    }

    /// Puts the oldest parked read into the batch of its shard. `false` if its reply could be too
    /// long to be held.
    fn join_oldest(&mut self, at: usize, connection: &mut Connection) -> bool {
        let Some(JoiningRead { number, shard, read }) = connection.pipeline.next_to_join() else {
            return false;
        };
        let Some(takes) = self.reply_takes(connection, &read) else { return false };
        self.batch(shard).push_read(&read, waiter(at, number), takes.reply_bytes);
        connection.takes.add(number, &takes, Reservation::default());
        connection.joins(number);
        true
    }

    /// What the reply of a read takes of memory if it joins the log; none if that is too much.
    fn reply_takes(&self, connection: &Connection, read: &Read<'_>) -> Option<MemoryNeed> {
        let mut takes = connection.takes.none();
        if matches!(read, Read::Get(_) | Read::GetRange { .. } | Read::GetMany(_)) {
            let values = read.keys().iter().map(|key| self.expected_value_bytes(connection, key));
            takes.reply_bytes = values.sum::<u64>() + takes.unseen_bytes;
        }
        let is_much = takes.must_wait(connection) || takes.reply_bytes > OUTPUT_PAUSE_BYTES as u64;
        (!is_much).then_some(takes)
    }

    /// Serves a read while replies are owed.
    pub(super) fn read_behind(
        &mut self,
        at: usize,
        connection: &mut Connection,
        read: &Read<'_>,
        is_stale: bool,
        frame: ReplyFrame,
    ) -> CommandOutcome {
        let (plan, takes) = self.plan_behind(connection, read, is_stale);
        let (Some(route), false) = (&connection.route, plan == ReadPlan::Wait) else {
            connection.next.barrier = true;
            return CommandOutcome::Deferred;
        };
        let number = connection.next_number();
        let hash = |key: &[u8]| route.key(key).hash;
        connection.pipeline.add(route.keyspace.id, read, number, hash, plan);
        let kind = match plan {
            ReadPlan::Join(shard) => {
                self.note_read(route, read, connection.next.lookups.as_deref());
                self.batch(shard).push_read(read, waiter(at, number), takes.reply_bytes);
                connection.takes.add(number, &takes, Reservation::default());
                ReplyKind::JoinedRead
            }
            _ => ReplyKind::ParkedRead,
        };
        connection.pending.push_back(PendingReply::of_read(frame, kind));
        CommandOutcome::Answered
    }

    /// What becomes of a read, and what it takes of memory if it joins the log.
    fn plan_behind(
        &self,
        connection: &Connection,
        read: &Read<'_>,
        is_stale: bool,
    ) -> (ReadPlan, MemoryNeed) {
        let none = connection.takes.none();
        let Some(route) = &connection.route else { return (ReadPlan::Wait, none) };
        let keys = read.keys();
        let may_copy = !is_stale && !matches!(read, Read::Lcs { .. });
        let is_apart = keys.len() > 1 && crosses(route, keys.iter().copied());
        let place = keys.first().filter(|_| !is_apart).map(|key| route.place_of_key(key));
        let is_alone = self.runtime.peers.is_none();
        let boot = if is_alone { 0 } else { self.moment().boot };
        let is_served = |place: usize| is_alone || route.views[place].read().serving.at(boot);
        let traits = ReadTraits {
            shard: place.map(|place| route.shard(place)),
            is_served: place.is_some_and(is_served),
            may_join: may_copy && self.runtime.version.allows(Feature::Transactions),
            // Several keys of several nodes may take several looks.
            may_park: may_copy && (is_alone || keys.len() == 1),
        };
        let plan = connection.pipeline.plan(&traits);
        if !matches!(plan, ReadPlan::Join(_)) {
            return (plan, none);
        }
        match self.reply_takes(connection, read) {
            Some(takes) => (plan, takes),
            None => {
                let traits = ReadTraits { may_join: false, ..traits };
                (connection.pipeline.plan(&traits), none)
            }
        }
    }

    /// Answers parked reads whose replies are the oldest, and writes the replies behind them, as
    /// far as it goes.
    #[inline]
    pub(super) fn answer_parked(&mut self, at: usize, connection: &mut Connection) {
        if connection.may_try_parked() {
            let protocol = std::mem::replace(&mut connection.protocol, Protocol::Native);
            self.answer_run(at, connection, &protocol);
            connection.protocol = protocol;
        }
    }

    fn answer_run(&mut self, at: usize, connection: &mut Connection, protocol: &Protocol) {
        let routes = self.runtime.routing.routes();
        let mut run = ParkedRun::resumed(connection);
        while connection.may_try_parked() {
            if connection.life == ConnectionState::Broken {
                connection.pop_reply();
            } else {
                if run.left == 0 {
                    run = ParkedRun::begun(connection, self.moment());
                }
                if let Err((route, blocked)) =
                    self.answer_oldest(connection, protocol, &routes, &mut run)
                {
                    return self.block_run(at, connection, &route, blocked, run);
                }
                run.left -= 1;
            }
            let count = connection.write_replies(self.native_reason());
            self.count_replies(count);
        }
    }

    /// Answers the oldest reply owed, which is that of a parked read. Fails if it must wait.
    fn answer_oldest(
        &mut self,
        connection: &mut Connection,
        protocol: &Protocol,
        routes: &Routes,
        run: &mut ParkedRun,
    ) -> Result<(), (Arc<Route>, Blocked)> {
        let Connection { pipeline, output, pending, redirects, .. } = connection;
        let (Some((keyspace, read)), Some(slot)) = (pipeline.reads().next(), pending.front())
        else {
            unreachable!("a parked read is owed a reply");
        };
        let (frame, out) = (&slot.frame, &mut output.bytes);
        let (start, reason) = (out.len(), self.native_reason());
        out.extend_from_slice(&slot.before);
        let mut failed: Option<Box<str>> = run.refused.take();
        if failed.is_none() && !matches!(frame, ReplyFrame::Resp { muted: true, .. }) {
            let before = out.len();
            let answered = match routes.by_id(keyspace) {
                None => Err(None),
                Some(route) => {
                    let bytes_max = self.config.output_bytes_max as usize;
                    let answered = answer_in(frame, route, &read, run, (bytes_max, reason), out);
                    answered.map(|()| route).map_err(|why| why.map(|why| (route, why)))
                }
            };
            match answered {
                Ok(route) => {
                    self.note_read(route, &read, None);
                    self.note_hit(&read, frame, &out[before..]);
                }
                Err(None) if routes.by_id(keyspace).is_none() => failed = Some(NO_KEYSPACE.into()),
                Err(None) => failed = Some(TOO_LONG.into()),
                Err(Some((route, blocked))) => {
                    failed = match protocol {
                        Protocol::Resp(session, _) => {
                            let keys = read.keys();
                            self.redirect_of_read(redirects, session, route, blocked, keys)
                        }
                        Protocol::Native | Protocol::Volume(_) => None,
                    };
                    if failed.is_none() {
                        out.truncate(start);
                        return Err((route.clone(), blocked));
                    }
                }
            }
        }
        if let Some(text) = failed {
            self.runtime.counters.errors.add(1);
            write_error(frame, &text, reason, out);
        }
        connection.pop_reply();
        Ok(())
    }

    /// The oldest reads of a run wait for their shards.
    fn block_run(
        &mut self,
        at: usize,
        connection: &mut Connection,
        route: &Route,
        blocked: Blocked,
        run: ParkedRun,
    ) {
        connection.parked_at = run.left;
        connection.next.fetched = run.fetched;
        let reads = connection.pipeline.reads().take(run.left);
        let of_it = reads.filter(|(keyspace, _)| *keyspace == route.keyspace.id);
        let keys: Vec<Vec<u8>> = of_it
            .flat_map(|(_, read)| read.keys().iter().map(|key| key.to_vec()).collect::<Vec<_>>())
            .collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.wait_or_fetch(at, connection, route, blocked, run.now, &keys);
    }

    /// Counts a GET that was answered with these bytes.
    fn note_hit(&mut self, read: &Read<'_>, frame: &ReplyFrame, bytes: &[u8]) {
        if let (Read::Get(_), ReplyFrame::Resp { .. }) = (read, frame) {
            let found = bytes.get(1).is_some_and(u8::is_ascii_digit);
            if found { self.counted.hits += 1 } else { self.counted.misses += 1 }
        }
    }
}

/// Parked reads that are answered one after the other, as of one moment.
struct ParkedRun {
    /// How many of the oldest are among them.
    left: usize,
    now: ReadTime,
    fetched: FetchedData,
    /// The next is answered with this error.
    refused: Option<Box<str>>,
}

impl ParkedRun {
    /// Those before which nothing is unanswered now.
    fn begun(connection: &Connection, now: ReadTime) -> Self {
        let is_parked = |slot: &&PendingReply| slot.kind == ReplyKind::ParkedRead;
        let ready = connection.pending.iter();
        let ready = ready.take_while(|slot| is_parked(slot) || slot.is_done());
        let (left, fetched) = (ready.filter(is_parked).count(), FetchedData::default());
        Self { left, now, fetched, refused: None }
    }

    /// Those that have waited, with what has come for them; or none.
    fn resumed(connection: &mut Connection) -> Self {
        let none = ReadTime { time: Timestamp::ZERO, boot: 0 };
        let (left, next) = (std::mem::take(&mut connection.parked_at), &mut connection.next);
        match (left, next.at) {
            (1.., Some(now)) => {
                next.at = None;
                let (fetched, refused) = (std::mem::take(&mut next.fetched), next.refused.take());
                Self { left, now, fetched, refused }
            }
            _ => Self { left: 0, now: none, fetched: FetchedData::default(), refused: None },
        }
    }
}

/// Writes the answer of a read. Fails with the place where it is blocked, or with none if the
/// answer is too long; then nothing is written.
fn answer_in(
    frame: &ReplyFrame,
    route: &Route,
    read: &Read<'_>,
    run: &ParkedRun,
    (bytes_max, reason): (usize, ErrorText),
    out: &mut Vec<u8>,
) -> Result<(), Option<Blocked>> {
    let before = out.len();
    let answered = match frame {
        ReplyFrame::Native(op, key) => {
            let mut sink = FrameSink { out, op: *op, key, reason };
            answer_within(route, read, run, bytes_max, &mut sink)
        }
        ReplyFrame::Resp { version, .. } => {
            answer_within(route, read, run, bytes_max, &mut RespWriter::new(out, *version))
        }
        ReplyFrame::Bytes | ReplyFrame::Push | ReplyFrame::Kept | ReplyFrame::Volume(_) => {
            unreachable!("no reply to a parked read")
        }
    };
    if answered.is_err() {
        out.truncate(before);
    }
    answered
}

fn answer_within(
    route: &Route,
    read: &Read<'_>,
    run: &ParkedRun,
    bytes_max: usize,
    sink: &mut impl Sink,
) -> Result<(), Option<Blocked>> {
    let mut limited = LimitedSink::new(sink, bytes_max);
    read_with(route, read, run.now, &run.fetched, &mut limited).map_err(Some)?;
    if limited.overflown { Err(None) } else { Ok(()) }
}

fn write_error(frame: &ReplyFrame, text: &str, reason: ErrorText, out: &mut Vec<u8>) {
    match frame {
        ReplyFrame::Native(op, key) => FrameSink { out, op: *op, key, reason }.error(text),
        ReplyFrame::Resp { muted: false, version } => RespWriter::new(out, *version).error(text),
        _ => {}
    }
}

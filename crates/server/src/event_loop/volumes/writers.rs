//! Has a connection obeyed by all shards of its volume before it writes (SAFETY G28).
//!
//! ```text
//!   first write ──► a fence to each shard ──► all have it: this write, and all that follow
//!                                        └──► one obeys a later session: EPERM, now and for ever
//! ```
//!
//! A connection takes the volume when it first writes; one that only reads takes it from nobody. A
//! client that names its session takes the volume with its first request, so that what it reads
//! before it writes is changed by nobody else.
//!
//! Which connections are one session: [`gateway::nbd::WriterSessions`]. The rule by which shards
//! decide: [`command::Fence`]. A fence that a shard does not answer within the request timeout
//! fails the request with `EIO`; the next one tries again.

use command::{ClaimStep, Write, Writer};
use gateway::nbd::{Errno, SESSION_PREFIX, SessionTime};
use gateway::resp::Gather;
use keyspace::{Keyspace, Timestamp};
use node::routing::route::Route;

use super::super::EventLoop;
use super::super::connection::{Connection, Protocol};
use super::super::pending_reply::{PendingReply, ReplyFrame};
use super::super::serve::waiter;
use super::{Phase, ReplyOf, SessionClaim, VolumeReply, VolumeSession, Work};

/// Why a client is not let write any more.
pub const FENCED: &str = "a session that has come later writes to the volume";
const NOT_FENCED: &str = "a shard of the volume has not answered; nothing was done";

/// Whether a request may be done.
pub(super) enum Claimed {
    /// By this writer, if the volume is not shared.
    Yes(Option<Writer>),
    /// That is not known yet.
    Later,
    /// No: the error, and why.
    No(Errno, &'static str),
}

impl VolumeSession {
    /// A shard obeys another session.
    pub fn fenced(&mut self) {
        if let Phase::Open { claim: Some(its), .. } = &mut self.phase {
            its.claim.refused();
        }
    }

    /// All shards have answered the fence of this connection; `failed` says why one has not.
    pub(super) fn fence_answered(&mut self, failed: Option<&str>) {
        if let Phase::Open { claim: Some(its), .. } = &mut self.phase {
            its.claim.answered(failed.is_none());
            self.failed = its.claim.is_open().then_some(Errno::Io);
        }
    }
}

impl EventLoop {
    /// What a connection has to do before it writes to the volume that it has chosen.
    pub(super) fn claim_of(
        &self,
        connection: &Connection,
        export: &str,
        volume: &Keyspace,
        past: Option<Timestamp>,
    ) -> Option<SessionClaim> {
        let is_shared = volume.options.volume.is_none_or(|options| options.is_shared);
        if is_shared || past.is_some() {
            return None;
        }
        let name = export.split_once('@').and_then(|(_, rest)| rest.strip_prefix(SESSION_PREFIX));
        let clock = &self.runtime.clock;
        clock.observe();
        let now = SessionTime {
            tick: clock.tick().0,
            millis: clock.millis(),
            node: self.runtime.identity.node.0,
        };
        let address = connection.transport.peer_addr().map(|address| address.ip());
        // A client that is gone already writes nothing.
        let address = address.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into());
        let claim = self.runtime.volume_writers.lock().claim(volume.id, address, name, now);
        Some(SessionClaim { claim, is_named: name.is_some() })
    }

    /// Whether a request may be done now; else the fence is under way, or it is refused.
    pub(super) fn claim(
        &mut self,
        connection: &mut Connection,
        route: &Route,
        work: &Work<'_>,
        writes: bool,
    ) -> Claimed {
        let Protocol::Volume(session) = &mut connection.protocol else { return Claimed::Later };
        let Phase::Open { claim: Some(its), .. } = &mut session.phase else {
            return Claimed::Yes(None);
        };
        if !writes && (!its.is_named || its.claim.is_lost()) {
            return Claimed::Yes(None);
        }
        if its.claim.is_open()
            && let Some(errno) = session.failed.take()
        {
            return Claimed::No(errno, NOT_FENCED);
        }
        match its.claim.step() {
            ClaimStep::Write(writer) => Claimed::Yes(Some(writer)),
            ClaimStep::Refuse => Claimed::No(Errno::Perm, FENCED),
            ClaimStep::Ask(writer) => {
                self.runtime.volume_writers.lock().begins_to_write(writer);
                self.put_fence(connection, route, work, writer);
                connection.waits_at_barrier();
                Claimed::Later
            }
            ClaimStep::Wait => {
                connection.waits_at_barrier();
                Claimed::Later
            }
        }
    }

    /// Puts a fence for each shard into this turn's batches.
    fn put_fence(
        &mut self,
        connection: &mut Connection,
        route: &Route,
        work: &Work<'_>,
        by: Writer,
    ) {
        let Work { at, request, writer, .. } = *work;
        let number = connection.next_number();
        let places = route.views.len();
        for place in 0..places {
            let shard = route.shard(place);
            if self.runtime.peers.is_some() {
                connection.written.add(shard);
            }
            connection.pipeline.wrote(shard);
            self.put_in_batch(shard, &Write::fence_of(by, route.arc(place)), waiter(at, number));
        }
        let (cookie, offset, of) = (request.cookie, request.offset, ReplyOf::Fence);
        let frame = ReplyFrame::Volume(VolumeReply { cookie, offset, writer, of });
        let owed = PendingReply::gathering(Gather::Ok, places as u32, frame);
        connection.pending.push_back(owed);
    }
}

//! Mode `cluster`, and CLIENT ROUTE in either mode: which commands are for another node?
//!
//! ```text
//!   keys of several slots ──► CROSSSLOT
//!   a write, of a shard that another node is known to lead ──► MOVED
//!   a read that cannot be served here at once, of such a shard, without READONLY ──► MOVED
//!   all else ──► as in mode any: here, or through this node
//! ```
//!
//! Some clients learn a node's role from one shard, and ask it without end for shards that it only
//! follows in. So a read that comes again on the same connection within [`REDIRECT_WINDOW`] of
//! a redirect for that shard is served here, by the leader's read index.
//!
//! This does not hold after a redirected write for that shard. Both may be of one pipeline: the
//! client will send the write to the leader, and must not read the state before it.
//!
//! ```text
//!   SET k v ──► MOVED      GET k ──► MOVED, never nil      (a second later: GET k ──► served here)
//! ```
//!
//! After CLIENT ROUTE in mode `any` the same holds for commands whose keys lie in one *shard*; all
//! others go on as in mode `any`, and so do those on ordered keyspaces, which have no slots.
//!
//! Clients of the listener for replicas (`resp_replica`) are answered as by a replica of a Redis
//! Cluster, which leads nothing: reads are served here unless the client says READWRITE, and all
//! that writes keys of one slot is sent to who leads, this node's own other listener as well.
//!
//! So reads cost no more than in mode `any`: this node serves a read if it leads, or has just
//! proved that its state is current. While no leader is known, or the last one is not linked any
//! more, commands wait here for the next leader instead of being redirected.

use std::time::Duration;

use command::Write;
use keyspace::{NodeId, Placement, Slot, slot_of};
use node::replica::read::Blocked;
use node::routing::route::Route;

use super::EventLoop;
use super::connection::Connection;
use super::resp::CROSS_SLOT;
use super::topology;
use crate::runtime::boot_nanos;
use gateway::resp::{Mode, Request, Session};

/// How long a connection is not sent on again for a shard.
const REDIRECT_WINDOW: Duration = Duration::from_secs(1);

/// The shards for which a connection was sent on lately.
#[derive(Default)]
pub(super) struct Redirects {
    reads: Places,
    writes: Places,
}

impl Redirects {
    /// Whether a read of any shard may have to follow a write that was sent on.
    pub(super) fn has_writes(&self) -> bool {
        self.writes.places != 0
    }
}

/// Places of shards, of which those that differ by 64 count as one.
#[derive(Default)]
struct Places {
    places: u64,
    since_nanos: u64,
}

impl Places {
    fn has(&self, place: usize, now_nanos: u64) -> bool {
        self.is_fresh(now_nanos) && self.places & Self::bit(place) != 0
    }

    fn add(&mut self, place: usize, now_nanos: u64) {
        if !self.is_fresh(now_nanos) {
            *self = Self { places: 0, since_nanos: now_nanos };
        }
        self.places |= Self::bit(place);
    }

    /// Adds a place, and begins the time of all anew.
    fn renew(&mut self, place: usize, now_nanos: u64) {
        self.add(place, now_nanos);
        self.since_nanos = now_nanos;
    }

    /// Forgets what is old.
    fn trim(&mut self, now_nanos: u64) {
        if !self.is_fresh(now_nanos) {
            *self = Self::default();
        }
    }

    fn is_fresh(&self, now_nanos: u64) -> bool {
        now_nanos.saturating_sub(self.since_nanos) < REDIRECT_WINDOW.as_nanos() as u64
    }

    fn bit(place: usize) -> u64 {
        1 << (place % 64)
    }
}

impl EventLoop {
    /// The redirect for a command of another node, if that is known before it runs.
    pub(super) fn redirect_for(
        &self,
        connection: &mut Connection,
        session: &Session,
        request: &Request<'_>,
    ) -> Option<Box<str>> {
        if !self.redirects_clients(session) {
            return None;
        }
        let route = connection.route.as_ref()?;
        let redirects = &mut connection.redirects;
        let mut slots = Slots::of(self.config.resp_mode, route);
        let reads_here = session.reads_here();
        match request {
            Request::Read(read)
                if read.keys().len() > 1 || redirects.has_writes() || !reads_here =>
            {
                read.keys().iter().for_each(|key| slots.add(key));
            }
            Request::Write(write) => slots.add_all(write),
            Request::WriteEach { writes, .. } => writes.iter().for_each(|w| slots.add_all(w)),
            Request::Script(call) => call.keys.iter().for_each(|key| slots.add(key)),
            _ => return None,
        }
        let slot = slots.first?;
        let is_read = match request {
            Request::Read(_) => true,
            Request::Script(call) if session.is_replica() && reads_here => {
                // What is not known here is looked for first.
                call.read_only || self.runtime.scripts.only_reads(call.name).unwrap_or(true)
            }
            _ => false,
        };
        match (slots.differ, request) {
            // A script may touch any keys, and in mode cluster as well.
            (true, Request::Script(_)) => None,
            (true, _) if self.config.resp_mode == Mode::Any => None,
            (true, _) => Some(CROSS_SLOT.into()),
            (false, _) if is_read => {
                let now = boot_nanos();
                redirects.writes.trim(now);
                let follows = redirects.writes.has(route.place_of_slot(slot), now);
                if follows || !reads_here { self.moved(session, route, slot) } else { None }
            }
            (false, _) => {
                let moved = self.moved(session, route, slot)?;
                redirects.writes.renew(route.place_of_slot(slot), boot_nanos());
                Some(moved)
            }
        }
    }

    /// Where a read is to be sent that was blocked here, if it is.
    pub(super) fn redirect_of_read(
        &self,
        redirects: &mut Redirects,
        session: &Session,
        route: &Route,
        blocked: Blocked,
        keys: &[&[u8]],
    ) -> Option<Box<str>> {
        if !self.redirects_clients(session) {
            return None;
        }
        let mut slots = Slots::of(self.config.resp_mode, route);
        keys.iter().for_each(|key| slots.add(key));
        if slots.differ {
            return None;
        }
        let is_here = || {
            let state = route.views[blocked.place].read();
            state.descriptor.replica_on(self.runtime.identity.node).is_some()
        };
        let now = boot_nanos();
        let serves = session.is_readonly() || redirects.reads.has(blocked.place, now);
        if serves && (session.is_replica() || is_here()) {
            return None;
        }
        let moved = self.moved(session, route, slots.first?)?;
        redirects.reads.add(blocked.place, now);
        Some(moved)
    }

    /// Whether this connection gets redirects.
    #[inline]
    pub(super) fn redirects_clients(&self, session: &Session) -> bool {
        self.config.resp_mode == Mode::Cluster || session.is_routing()
    }

    /// The redirection for a slot, if another node leads there and can be reached, or this one as
    /// far as it is asked as a replica.
    fn moved(&self, session: &Session, route: &Route, slot: Slot) -> Option<Box<str>> {
        let peers = self.runtime.peers.as_ref()?;
        if route.keyspace.options.placement != Placement::Hashed {
            return None;
        }
        let node = self.runtime.leader_of(route, route.place_of_slot(slot))?;
        let is_ready = match node == self.runtime.identity.node {
            true => session.is_replica(),
            false => peers.cluster.is_connected(node),
        };
        if !is_ready {
            return None;
        }
        let members = peers.cluster.members();
        let member = members.iter().find(|member| member.node == node)?;
        let port = if session.is_tls() { member.resp_tls } else { member.resp }?;
        Some(format!("MOVED {slot} {}:{port}", member.host).into())
    }

    /// The node whose replica this one's listener for replicas is shown as.
    fn master_of_listener(&self, keyspace: &str) -> NodeId {
        let topology = topology::gather(&self.runtime, &self.config, keyspace, false);
        let listener = topology.listener_of(topology.me);
        let master = listener.and_then(|at| topology.master_of(at));
        master.map_or(self.runtime.identity.node, |master| NodeId(topology.nodes[master].id))
    }

    /// The shards that a keyspace scan covers: in mode `cluster` those that this node leads or, as
    /// a replica, those that its master leads; else all. Also all for a keyspace without slots,
    /// whose clients do not know leaders.
    pub(super) fn local_scope(&self, route: &Route, mode: Mode, session: &Session) -> Vec<bool> {
        let node = match session.is_replica() {
            true => self.master_of_listener(&route.keyspace.name),
            false => self.runtime.identity.node,
        };
        let is_mine = |place: usize| {
            mode == Mode::Any
                || route.keyspace.options.placement != Placement::Hashed
                || self.runtime.leader_of(route, place) == Some(node)
        };
        (0..route.views.len()).map(is_mine).collect()
    }
}

/// The slots of a command's keys.
struct Slots<'a> {
    first: Option<Slot>,
    /// Whether they must not go to another node together.
    differ: bool,
    /// Slots of one shard are as good as one.
    shards_of: Option<&'a Route>,
}

impl<'a> Slots<'a> {
    fn of(mode: Mode, route: &'a Route) -> Self {
        let shards_of = (mode == Mode::Any).then_some(route);
        Self { first: None, differ: false, shards_of }
    }

    fn add(&mut self, key: &[u8]) {
        let slot = slot_of(key);
        let first = *self.first.get_or_insert(slot);
        let place = |slot| self.shards_of.map(|route| route.place_of_slot(slot));
        self.differ |= first != slot && (place(first).is_none() || place(first) != place(slot));
    }

    fn add_all(&mut self, write: &Write<'_>) {
        write.each_key(&mut |key| self.add(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_is_remembered_per_shard_for_a_while() {
        let second = REDIRECT_WINDOW.as_nanos() as u64;
        let begin = 5 * second;
        let mut redirects = Places::default();
        assert!(!redirects.has(3, begin));
        redirects.add(3, begin);
        assert!(redirects.has(3, begin + second - 1) && !redirects.has(4, begin));
        redirects.add(4, begin + second - 1);
        assert!(!redirects.has(3, begin + second), "not put off by the second");
        assert!(!redirects.has(4, begin + second));
        redirects.add(4, begin + second);
        assert!(redirects.has(4, begin + second) && !redirects.has(3, begin + second));
        redirects.renew(5, begin + second + 9);
        assert!(redirects.has(4, begin + 2 * second + 8), "put off by the second");
        redirects.trim(begin + 2 * second + 9);
        assert_eq!(redirects.places, 0);
    }
}

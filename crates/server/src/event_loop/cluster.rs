//! Mode `cluster`, and CLIENT ROUTE in either mode: which commands are for another node?
//!
//! ```text
//!   keys of several slots ──► CROSSSLOT
//!   a write, of a shard that another node is known to lead ──► MOVED
//!   a read that cannot be served here at once, of such a shard, without READONLY ──► MOVED
//!   all else ──► as in mode any: here, or through this node
//! ```
//!
//! Some clients take a node for what it is in one shard, and ask it again for a shard that it only
//! follows in, without end. So who comes again within [`SENT_ON`] with a read for a shard for which
//! it was sent on over the same connection has it served here, by the leader's read index.
//!
//! But not behind a write for that shard that was sent on: both may be of one pipeline, whose
//! client will send the write on, and must not be told before that there is nothing to read.
//!
//! ```text
//!   SET k v ──► MOVED      GET k ──► MOVED, never nil      (a second later: GET k ──► served here)
//! ```
//!
//! After CLIENT ROUTE in mode `any` the same holds for commands whose keys lie in one *shard*; all
//! others go on as in mode `any`, and so do those on ordered keyspaces, which have no slots.
//!
//! So reads cost nothing more than in mode `any`: where they are served, this node leads, or has
//! just proved that what it holds is current. And while nobody is known to lead, or who led is not
//! linked any more, commands wait here for the next leader instead of being sent about.

use std::time::Duration;

use command::Write;
use keyspace::{NodeId, Placement, Slot, slot_of};
use node::replica::read::Blocked;
use node::routing::route::Route;

use super::EventLoop;
use super::connection::Connection;
use super::resp::CROSS_SLOT;
use crate::runtime::boot_nanos;
use gateway::resp::{Mode, Request, Session};

/// How long a connection is not sent on again for a shard.
const SENT_ON: Duration = Duration::from_secs(1);

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
        now_nanos.saturating_sub(self.since_nanos) < SENT_ON.as_nanos() as u64
    }

    fn bit(place: usize) -> u64 {
        1 << (place % 64)
    }
}

impl EventLoop {
    /// Why a command is not for this node, if that can be told before it is tried.
    pub(super) fn elsewhere(
        &self,
        connection: &mut Connection,
        session: &Session,
        request: &Request<'_>,
    ) -> Option<Box<str>> {
        if !self.redirects_clients(session) {
            return None;
        }
        let route = connection.route.as_ref()?;
        let sent_on = &mut connection.sent_on;
        let mut slots = Slots::of(self.config.resp_mode, route);
        match request {
            Request::Read(read) if read.keys().len() > 1 || sent_on.has_writes() => {
                read.keys().iter().for_each(|key| slots.add(key));
            }
            Request::Write(write) => slots.add_all(write),
            Request::WriteEach { writes, .. } => writes.iter().for_each(|w| slots.add_all(w)),
            _ => return None,
        }
        let slot = slots.first?;
        match (slots.differ, request) {
            (true, _) if self.config.resp_mode == Mode::Any => None,
            (true, _) => Some(CROSS_SLOT.into()),
            (false, Request::Read(_)) => {
                let now = boot_nanos();
                sent_on.writes.trim(now);
                let follows = sent_on.writes.has(route.place_of_slot(slot), now);
                if follows { self.moved(route, slot) } else { None }
            }
            (false, _) => {
                let moved = self.moved(route, slot)?;
                sent_on.writes.renew(route.place_of_slot(slot), boot_nanos());
                Some(moved)
            }
        }
    }

    /// Where a read is to be sent that was blocked here, if it is.
    pub(super) fn redirect_of_read(
        &self,
        sent_on: &mut Redirects,
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
        if (session.is_readonly() || sent_on.reads.has(blocked.place, now)) && is_here() {
            return None;
        }
        let moved = self.moved(route, slots.first?)?;
        sent_on.reads.add(blocked.place, now);
        Some(moved)
    }

    /// Whether this connection is told who leads.
    #[inline]
    pub(super) fn redirects_clients(&self, session: &Session) -> bool {
        self.config.resp_mode == Mode::Cluster || session.is_routing()
    }

    /// The redirection for a slot, if another node leads there and can be reached.
    fn moved(&self, route: &Route, slot: Slot) -> Option<Box<str>> {
        let peers = self.runtime.peers.as_ref()?;
        if route.keyspace.options.placement != Placement::Hashed {
            return None;
        }
        let node = self.leader_of(route, route.place_of_slot(slot))?;
        if node == self.runtime.identity.node || !peers.cluster.is_connected(node) {
            return None;
        }
        let members = peers.cluster.members();
        let member = members.iter().find(|member| member.node == node)?;
        let port = member.resp?;
        Some(format!("MOVED {slot} {}:{port}", member.host).into())
    }

    /// Who leads a shard, as far as it is known here; or one of those that have a replica, who
    /// knows better.
    fn leader_of(&self, route: &Route, place: usize) -> Option<NodeId> {
        let state = route.views[place].read();
        let descriptor = &state.descriptor;
        if descriptor.replica_on(self.runtime.identity.node).is_some() {
            return state.serving.leader();
        }
        let known = self.runtime.peers.as_ref()?.lookup.shard(descriptor.shard);
        match known {
            Some(known) => known.leader().or(known.descriptor().node_to_ask()),
            None => descriptor.node_to_ask(),
        }
    }

    /// The shards that a question about the whole keyspace is about: in mode `cluster` those that
    /// this node leads, else all. All of a keyspace without slots: no client knows who leads which.
    pub(super) fn local_scope(&self, route: &Route) -> Vec<bool> {
        let is_mine = |place: usize| {
            self.config.resp_mode == Mode::Any
                || route.keyspace.options.placement != Placement::Hashed
                || self.leader_of(route, place) == Some(self.runtime.identity.node)
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
        let second = SENT_ON.as_nanos() as u64;
        let begin = 5 * second;
        let mut sent_on = Places::default();
        assert!(!sent_on.has(3, begin));
        sent_on.add(3, begin);
        assert!(sent_on.has(3, begin + second - 1) && !sent_on.has(4, begin));
        sent_on.add(4, begin + second - 1);
        assert!(!sent_on.has(3, begin + second), "not put off by the second");
        assert!(!sent_on.has(4, begin + second));
        sent_on.add(4, begin + second);
        assert!(sent_on.has(4, begin + second) && !sent_on.has(3, begin + second));
        sent_on.renew(5, begin + second + 9);
        assert!(sent_on.has(4, begin + 2 * second + 8), "put off by the second");
        sent_on.trim(begin + 2 * second + 9);
        assert_eq!(sent_on.places, 0);
    }
}

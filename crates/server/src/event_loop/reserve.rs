//! Reserves watched keys at their leaders, after an EXEC met a conflict.
//!
//! ```text
//!   EXEC ──► nil    the connection reads with reservations, until one of its EXECs is done
//!     WATCH a b     the leaders answer when no other connection has reserved a or b
//!     MGET a b      the same, and reserves both: other reserving reads wait for a moment
//!     EXEC          mostly not nil
//! ```
//!
//! This is for EXECs over several shards: an EXEC of one shard is one entry, and waits for nobody.
//! If EXECs of a loop are often answered nil, all its connections that watch keys of several shards
//! at once begin with reservations. The last read before EXEC reserves. That is WATCH, if the
//! connection does not read its watched keys again in one command.
//!
//! Leaders hold reservations in memory (`txn::wait_queue::pending_writes`). They save attempts that
//! would conflict; no promise depends on them.
//!
//! Commands that move values from shard to shard ([`super::value_moves`]) read before they write
//! too, and are run again after conflicts. After a while they reserve their keys from all younger
//! requests, until they are done.

use node::replica::read::ReadTime;
use node::routing::fetch::FetchedData;
use node::routing::route::Route;
use txn::wait_queue::{ReserveFrom, ReservingRead};

use super::EventLoop;
use super::connection::Connection;
use super::state::WatchedExec;

impl EventLoop {
    /// A transaction over shards of this connection was done, or met a conflict: then `changed`.
    /// Only EXECs with watched keys count.
    pub(super) fn note_transaction_done(&mut self, at: usize, changed: bool) {
        let exec = std::mem::take(&mut self.connection_at(at).watching.exec);
        if exec != WatchedExec::OverShards || self.runtime.peers.is_none() {
            return;
        }
        if changed {
            self.conflicts.met();
            // No other has this time.
            let name = self.runtime.clock.tick();
            self.connection_at(at).watching.reservation_name.get_or_insert(name);
        } else {
            self.conflicts.done();
            self.connection_at(at).watching.reservation_name = None;
        }
    }

    /// Whether a connection that watches these keys has to reserve them first. Then the leaders
    /// are asked, and the command waits for their answers.
    pub(super) fn is_contending(
        &mut self,
        at: usize,
        connection: &mut Connection,
        route: &Route,
        keys: &[&[u8]],
        now: ReadTime,
        fetched: &FetchedData,
    ) -> bool {
        // It may be told to look by itself, as when all is too long for one answer.
        let has_waited_for_reservation =
            std::mem::take(&mut connection.next.has_waited_for_reservation);
        let may_contend =
            self.conflicts.is_high() || connection.watching.reservation_name.is_some();
        if has_waited_for_reservation || !may_contend || !fetched.is_empty() {
            return false;
        }
        let wants = route.missing_fetches(keys.iter().copied(), |_| true);
        // What is watched in one shard is mostly changed by one entry, which waits for nobody.
        if connection.watching.reservation_name.is_none() && wants.len() > 1 {
            connection.watching.reservation_name = Some(self.runtime.clock.tick());
        }
        let Some(name) = connection.watching.reservation_name else { return false };
        let is_second = connection.next.looked.is_some();
        connection.watching.looks_twice |= is_second;
        let from = match is_second || !connection.watching.looks_twice {
            true => ReserveFrom::OtherReaders,
            false => ReserveFrom::Nobody,
        };
        let read = ReservingRead { name, from };
        let wants = wants.into_iter().map(|(shard, want)| (shard, want.by(read)));
        self.fetch(at, connection, wants.collect(), now);
        connection.next.has_waited_for_reservation = true;
        true
    }

    /// Whether a command that moves values from shard to shard has to reserve these keys first,
    /// after conflicts. Then the leaders are asked, and the command waits for their answers.
    pub(super) fn has_reserved(
        &mut self,
        at: usize,
        connection: &mut Connection,
        keys: &[Box<[u8]>],
        now: ReadTime,
        fetched: &FetchedData,
    ) -> bool {
        let (Some(name), Some(route)) = (self.retries.reserved_as(at), connection.route.clone())
        else {
            return false;
        };
        let has_asked = std::mem::take(&mut connection.next.has_waited_for_reservation);
        if has_asked || !fetched.is_empty() {
            return false;
        }
        let read = ReservingRead { name, from: ReserveFrom::Everyone };
        let wants = route.missing_fetches(keys.iter().map(|key| &**key), |_| true).into_iter();
        let wants = wants.map(|(shard, want)| (shard, want.by(read)));
        self.fetch(at, connection, wants.collect(), now);
        connection.next.has_waited_for_reservation = true;
        true
    }
}

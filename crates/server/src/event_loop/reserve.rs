//! Who watches keys that others change all the time reserves them before he changes them.
//!
//! ```text
//!   EXEC ──► nil ──► the connection is a contender, until an EXEC of its own is done
//!     WATCH a b   told by those who lead, when no other contender has reserved a or b
//!     MGET a b    the same; and reserves them: no other contender is told of them for a moment
//!     EXEC        mostly not nil
//! ```
//!
//! EXECs over shards are meant: one shard's is one entry, and waits for nobody. If those of a loop
//! are often answered nil, all its connections that watch keys of several shards at once are
//! contenders from the beginning. What is told last before EXEC reserves: that is WATCH, for who
//! does not read what he watches in several shards at once, and so is told but once. What a
//! reservation is at a leader stands in `txn::wait_queue::pending_writes`: it keeps attempts from
//! being made in vain, and nothing depends on it.
//!
//! Commands that take values from shard to shard ([`super::value_moves`]) read before they write,
//! too, and are run again after conflicts: after a while their keys are reserved from all who are
//! younger, whatever those are, until they are done.

use node::replica::read::ReadTime;
use node::routing::fetch::FetchedData;
use node::routing::route::Route;
use txn::wait_queue::{ReserveFrom, ReservingRead};

use super::EventLoop;
use super::connection::Connection;
use super::state::WatchedExec;

impl EventLoop {
    /// A transaction over shards of this connection was done, or something that it has watched had
    /// changed. Others than EXEC with watched keys do not count.
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

    /// Whether a connection that watches these keys is a contender for them, and has not been told
    /// of them yet; then it is put off until those who lead tell.
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

    /// Whether a command that takes values from shard to shard, and was in vain, is put off until
    /// those who lead have told what these keys have, and keep them from all others.
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

//! WAIT and WAITAOF: who else has a connection's writes?
//!
//! A connection remembers which shards it has written to. WAIT comes behind the answers of all its
//! writes, so they are applied at the leaders then. Of each shard that this node leads, it asks how
//! many other replicas have the log on disk up to what was applied when WAIT came; of all others it
//! knows what every answer means: a majority has it. The least of them is the answer.
//!
//! ```text
//!   WAIT 2 100 ──► shard 3: leads, 1 of 2 others has index 4711 ──┐
//!                  shard 5: leads, 2 of 2                         ├──► 1, not enough: look again
//!                  shard 6: led elsewhere, at least 1 of 2 ───────┘    soon, until the time is over
//! ```
//!
//! Looking asks the lane, so it is done by who waits only, some milliseconds apart.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use keyspace::{Durability, ShardId};
use node::command::Sink as _;

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::resp::Done;
use crate::gateway::resp::{Session, Wait};

/// Between the first looks.
const LOOK_SOON: Duration = Duration::from_millis(1);
/// … which double up to this.
const LOOK_LATE: Duration = Duration::from_millis(20);

/// The shards a connection has written to.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeSet<ShardId>);

impl Written {
    /// One more.
    #[inline]
    pub fn add(&mut self, shard: ShardId) {
        self.0.insert(shard);
    }
}

/// All who wait in one loop.
#[derive(Default)]
pub(super) struct Waits {
    all: Vec<Waiting>,
    look_at: Option<Instant>,
}

impl Waits {
    /// In how long to look again, if anyone waits.
    pub fn next_look(&self) -> Option<Duration> {
        self.look_at.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

struct Waiting {
    /// The connection's place in its loop. It stays there until it is answered.
    at: usize,
    wait: Wait,
    muted: bool,
    began: Instant,
    /// None: for ever.
    until: Option<Instant>,
    pause: Duration,
    shards: Vec<Target>,
}

/// A shard written to.
struct Target {
    shard: ShardId,
    /// What others must have, since when this node is known to lead it.
    index: Option<u64>,
}

/// What is known of a connection's writes.
#[derive(Clone, Copy)]
struct Known {
    /// So many other replicas have all of them on disk.
    replicas: u64,
    /// This node has, too.
    local: bool,
    /// More will be known here when there is more: this node leads all shards written to, and they
    /// are of durability `sync`.
    may_rise: bool,
}

impl EventLoop {
    pub(super) fn wait_for_replicas(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        wait: Wait,
        muted: bool,
    ) -> Done {
        if !connection.pending.is_empty() {
            connection.barrier = true;
            return Done::PutOff;
        }
        let mut shards: Vec<ShardId> = connection.written.0.iter().copied().collect();
        if shards.is_empty()
            && let Some(route) = &connection.route
        {
            shards.clone_from(&route.keyspace.shards);
        }
        let target = |shard| Target { shard, index: None };
        let now = Instant::now();
        let mut waiting = Waiting {
            at,
            wait,
            muted,
            began: now,
            until: match wait.timeout_ms {
                0 => None,
                ms => now.checked_add(Duration::from_millis(ms)),
            },
            pause: LOOK_SOON,
            shards: shards.into_iter().map(target).collect(),
        };
        let known = self.known(&mut waiting.shards);
        if self.is_enough(&waiting, known, connection) {
            answer(connection, session, wait, known, muted);
            return Done::Yes;
        }
        connection.awaiting = true;
        self.waits.all.push(waiting);
        self.waits.look_at.get_or_insert(now + LOOK_SOON);
        Done::Yes
    }

    /// Answers those who have waited long enough.
    pub(super) fn look_at_waits(&mut self) {
        let now = Instant::now();
        let is_due = self.waits.look_at.is_some_and(|at| at <= now);
        let stopping = self.hub.stopping.load(std::sync::atomic::Ordering::Relaxed);
        if !is_due && (!stopping || self.waits.all.is_empty()) {
            return;
        }
        let mut next = None;
        for mut waiting in std::mem::take(&mut self.waits.all) {
            let known = self.known(&mut waiting.shards);
            let slot = self.connections[waiting.at].take();
            let mut connection = slot.expect("a connection that waits stays");
            if self.is_enough(&waiting, known, &connection) {
                // Taken out, so that the rest of the connection can be used meanwhile.
                let protocol = std::mem::replace(&mut connection.protocol, Protocol::Native);
                if let Protocol::Resp(session, _) = &protocol {
                    answer(&mut connection, session, waiting.wait, known, waiting.muted);
                }
                connection.protocol = protocol;
                connection.awaiting = false;
                self.connections[waiting.at] = Some(connection);
                self.enqueue(waiting.at);
                continue;
            }
            self.connections[waiting.at] = Some(connection);
            waiting.pause = (waiting.pause * 2).min(LOOK_LATE);
            let look = waiting.until.map_or(now + waiting.pause, |u| u.min(now + waiting.pause));
            next = Some(next.map_or(look, |next: Instant| next.min(look)));
            self.waits.all.push(waiting);
        }
        self.waits.look_at = next;
    }

    /// Whether a wait is over.
    fn is_enough(&self, waiting: &Waiting, known: Known, connection: &Connection) -> bool {
        let wait = waiting.wait;
        let satisfied =
            known.replicas >= wait.replicas && (known.local || wait.local != Some(true));
        let is_over = |until: Instant| until <= Instant::now();
        let patience = Duration::from_millis(self.config.request_timeout_ms);
        // For what cannot be known here, and for whom nobody may be there any more, not for ever.
        let in_vain = !known.may_rise || connection.hung_up;
        satisfied
            || waiting.until.is_some_and(is_over)
            || (in_vain && is_over(waiting.began + patience) && waiting.until.is_none())
            || connection.broken
            || self.hub.stopping.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What is known now of writes to these shards.
    fn known(&self, shards: &mut [Target]) -> Known {
        let mut known = Known { replicas: u64::MAX, local: true, may_rise: true };
        for target in shards {
            let lane = &self.hub.lanes[self.hub.lane_of(target.shard)];
            let found = lane.with(&self.hub, |lane| {
                let shard = lane.shard(target.shard)?;
                if shard.is_leader() {
                    let index = *target.index.get_or_insert(shard.applied_index());
                    let others = shard.others_with(index)?;
                    return Some((others as u64, true));
                }
                None
            });
            let (replicas, leads) = match (found, self.least(target.shard)) {
                (Some(found), _) => found,
                (None, Some(least)) => (least, false),
                // A shard that is gone has no writes.
                (None, None) => continue,
            };
            if !leads {
                target.index = None;
            }
            known.replicas = known.replicas.min(replicas);
            let leads_durably = leads && self.is_sync(target.shard);
            known.local &= leads_durably;
            known.may_rise &= leads_durably;
        }
        if known.replicas == u64::MAX {
            known = Known { replicas: 0, local: false, may_rise: false };
        }
        known
    }

    /// How many others have every write of a shard that was answered; none if there is no such shard.
    fn least(&self, shard: ShardId) -> Option<u64> {
        let routes = self.hub.routes();
        let view = routes.iter().find_map(|route| {
            let place = route.keyspace.shards.iter().position(|id| *id == shard)?;
            Some(&route.views[place])
        });
        view.map(|view| view.read().members.least_others() as u64)
    }

    /// Whether answers of a shard's writes wait for its leader's disk.
    fn is_sync(&self, shard: ShardId) -> bool {
        let routes = self.hub.routes();
        let route = routes.iter().find(|route| route.keyspace.shards.contains(&shard));
        route.is_some_and(|route| route.keyspace.options.durability == Durability::Sync)
    }
}

fn answer(connection: &mut Connection, session: &Session, wait: Wait, known: Known, muted: bool) {
    if muted {
        return;
    }
    let mut writer = session.writer(&mut connection.output);
    if wait.local.is_some() {
        writer.array(2);
        writer.int(i64::from(known.local));
    }
    writer.int(known.replicas as i64);
}

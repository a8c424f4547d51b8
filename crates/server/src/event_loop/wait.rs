//! WAIT and WAITAOF: how many other replicas have a connection's writes.
//!
//! A connection remembers the shards that it has written to. WAIT runs after the answers of all its
//! writes, so the leaders have applied them. It asks each shard's leader, which may be remote: how
//! many other replicas have the log on disk, up to the index applied when it was first asked?
//! Before a leader answers, its shard counts as a majority, as every acknowledged write has one.
//! The smallest count is the reply.
//!
//! ```text
//!   WAIT 2 100 ──► shard 3: leads, 1 of 2 others has index 4711 ──┐
//!                  shard 5: leads, 2 of 2                         ├──► 1, not enough: look again
//!                  shard 6: led elsewhere, at least 1 of 2 ──────┘    soon, until time is over
//!                           └─ asks the leader ──► 2 of 2 ──► look at once
//! ```
//!
//! Each look asks the executor, so only waiting connections look, some milliseconds apart, or more
//! if many wait. An answer that comes too late is dropped; a lost one is asked for again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use command::Sink as _;
use keyspace::{Durability, ShardId};
use node::executor::{Input, Origin};
use node::replica::Count;
use node::replica::entry::Waiter;

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::resp::CommandOutcome;
use super::state::{ConnectionState, WaitsFor};
use crate::runtime::boot_nanos;
use gateway::resp::{Session, Wait};

/// Between the first looks.
const LOOK_SOON: Duration = Duration::from_millis(1);
/// … which double up to this, or
const LOOK_LATE: Duration = Duration::from_millis(20);
/// … to this for each waiting connection: so many of them cannot starve other connections.
const LOOK_EACH: Duration = Duration::from_millis(1);
/// So many are looked at before others are served.
const LOOKS_MAX: usize = 16;

/// The shards a connection has written to.
#[derive(Debug, Default)]
pub(super) struct WrittenShards(BTreeSet<ShardId>);

impl WrittenShards {
    /// One more.
    #[inline]
    pub fn add(&mut self, shard: ShardId) {
        self.0.insert(shard);
    }
}

/// All waiting connections of one loop.
#[derive(Default)]
pub(super) struct ReplicaWaits {
    /// By rising numbers of their questions.
    all: Vec<ReplicaWait>,
    look_at: Option<Instant>,
    /// Of the newest question.
    number: u64,
}

impl ReplicaWaits {
    /// In how long to look again, if anyone waits.
    pub fn next_look(&self) -> Option<Duration> {
        self.look_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// A remote leader has reported which replicas have a shard's log.
    pub fn counted(&mut self, waiter: Waiter, count: Count) {
        let place = self.all.partition_point(|waiting| waiting.newest < waiter.0);
        let Some(waiting) = self.all.get_mut(place) else { return };
        let mut targets = waiting.shards.iter_mut();
        if let Some(target) = targets.find(|target| target.number == waiter.0) {
            let now = Instant::now();
            let before = target.reported.replace((count, now));
            if before.is_none_or(|(before, _)| before != count) {
                waiting.look_at = now;
                self.look_at = Some(now);
            }
        }
    }

    /// A number that no question under way has, not even one from before the node's last start: the
    /// boot clock was lower then.
    fn draw_number(&mut self) -> u64 {
        self.number = (self.number + 1).max(boot_nanos());
        self.number
    }
}

struct ReplicaWait {
    /// The connection's place in its loop. It stays there until it is answered.
    at: usize,
    wait: Wait,
    muted: bool,
    began: Instant,
    /// None: for ever.
    until: Option<Instant>,
    pause: Duration,
    look_at: Instant,
    /// The highest number of its questions, and of all before.
    newest: u64,
    shards: Vec<Target>,
}

/// A shard written to.
struct Target {
    shard: ShardId,
    /// Of the question to its leader.
    number: u64,
    /// When it is asked again; never, while this node leads.
    ask_at: Option<Instant>,
    /// The leader's last report, and when it came. Its index is what others must have.
    reported: Option<(Count, Instant)>,
}

/// What is known of a connection's writes.
#[derive(Clone, Copy)]
struct AckState {
    /// So many other replicas have all of them on disk.
    replicas: u64,
    /// This node has, too.
    local: bool,
    /// More will be known here when there is more: the leaders of all shards written to have been
    /// heard of lately, and they are of durability `sync`.
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
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let mut shards: Vec<ShardId> = connection.written.0.iter().copied().collect();
        if shards.is_empty()
            && let Some(route) = &connection.route
        {
            shards.extend_from_slice(route.shards());
        }
        let now = Instant::now();
        let target = |shard| {
            let number = self.waits.draw_number();
            Target { shard, number, ask_at: Some(now), reported: None }
        };
        let shards = shards.into_iter().map(target).collect();
        let mut waiting = ReplicaWait {
            at,
            wait,
            muted,
            began: now,
            until: match wait.timeout_ms {
                0 => None,
                ms => now.checked_add(Duration::from_millis(ms)),
            },
            pause: LOOK_SOON,
            look_at: now + LOOK_SOON,
            newest: self.waits.number,
            shards,
        };
        let known = self.known(&mut waiting.shards);
        if self.is_enough(&waiting, known, connection) {
            answer(connection, session, wait, known, muted);
            return CommandOutcome::Answered;
        }
        connection.next.waits_for = WaitsFor::Permission;
        self.ask_leaders(&mut waiting, now);
        self.waits.all.push(waiting);
        self.runtime.counters.connections_blocked.add(1);
        self.waits.look_at.get_or_insert(now + LOOK_SOON);
        CommandOutcome::Answered
    }

    /// Answers connections whose wait is over.
    pub(super) fn look_at_waits(&mut self) {
        let now = Instant::now();
        let is_due = self.waits.look_at.is_some_and(|at| at <= now);
        let stopping = self.runtime.lifecycle.is_stopping();
        if !is_due && (!stopping || self.waits.all.is_empty()) {
            return;
        }
        let pause_max = LOOK_LATE.max(LOOK_EACH * self.waits.all.len() as u32);
        let (mut next, mut looks) = (None, 0);
        for mut waiting in std::mem::take(&mut self.waits.all) {
            let is_its_turn = waiting.look_at <= now && looks < LOOKS_MAX;
            if !is_its_turn && !stopping {
                next =
                    Some(next.map_or(waiting.look_at, |next: Instant| next.min(waiting.look_at)));
                self.waits.all.push(waiting);
                continue;
            }
            looks += 1;
            let known = self.known(&mut waiting.shards);
            let slot = self.connections[waiting.at].take();
            let mut connection = slot.expect("a connection that waits stays");
            if self.is_enough(&waiting, known, &connection) {
                self.runtime.counters.connections_blocked.sub(1);
                // Taken out, so that the rest of the connection can be used meanwhile.
                let protocol = std::mem::replace(&mut connection.protocol, Protocol::Native);
                if let Protocol::Resp(session, _) = &protocol {
                    answer(&mut connection, session, waiting.wait, known, waiting.muted);
                }
                connection.protocol = protocol;
                connection.next.waits_for = WaitsFor::Nothing;
                self.connections[waiting.at] = Some(connection);
                self.enqueue(waiting.at);
                continue;
            }
            self.connections[waiting.at] = Some(connection);
            self.ask_leaders(&mut waiting, now);
            waiting.pause = (waiting.pause * 2).min(pause_max);
            let look = waiting.until.map_or(now + waiting.pause, |u| u.min(now + waiting.pause));
            waiting.look_at = look;
            next = Some(next.map_or(look, |next: Instant| next.min(look)));
            self.waits.all.push(waiting);
        }
        self.waits.look_at = next;
    }

    /// Whether a wait is over.
    fn is_enough(&self, waiting: &ReplicaWait, known: AckState, connection: &Connection) -> bool {
        let wait = waiting.wait;
        let satisfied =
            known.replicas >= wait.replicas && (known.local || wait.local != Some(true));
        let is_over = |until: Instant| until <= Instant::now();
        let timeout = Duration::from_millis(self.config.request_timeout_ms);
        // For what cannot be known here, and for whom nobody may be there any more, not for ever.
        let in_vain = !known.may_rise || connection.ready.hung_up;
        satisfied
            || waiting.until.is_some_and(is_over)
            || (in_vain && is_over(waiting.began + timeout) && waiting.until.is_none())
            || connection.life == ConnectionState::Broken
            || self.runtime.lifecycle.is_stopping()
    }

    /// What is known now of writes to these shards.
    fn known(&self, shards: &mut [Target]) -> AckState {
        let mut known = AckState { replicas: u64::MAX, local: true, may_rise: true };
        let timeout = Duration::from_millis(self.config.request_timeout_ms);
        for target in shards {
            let index = target.reported.map_or(0, |(count, _)| count.index);
            let found = self.runtime.with_executor(target.shard, |executor| {
                executor.shard(target.shard)?.count(index, None, boot_nanos())
            });
            // A shard that is gone has no writes.
            let Some(least) = self.least(target.shard) else { continue };
            if let Some(count) = found {
                (target.reported, target.ask_at) = (Some((count, Instant::now())), None);
            } else {
                target.ask_at.get_or_insert_with(Instant::now);
            }
            let reported = target.reported.map_or(0, |(count, _)| count.others);
            known.replicas = known.replicas.min(reported.max(least));
            let is_sync = self.is_sync(target.shard);
            known.local &= is_sync && target.reported.is_some_and(|(count, _)| count.is_here);
            known.may_rise &=
                is_sync && target.reported.is_some_and(|(_, at)| at.elapsed() < timeout);
        }
        if known.replicas == u64::MAX {
            known = AckState { replicas: 0, local: false, may_rise: false };
        }
        known
    }

    /// Asks the leaders of shards led elsewhere, if it is time. Their answers come by mail.
    fn ask_leaders(&self, waiting: &mut ReplicaWait, now: Instant) {
        if self.runtime.peers.is_none() {
            return;
        }
        let is_due = |target: &&mut Target| target.ask_at.is_some_and(|at| at <= now);
        for target in waiting.shards.iter_mut().filter(is_due) {
            target.ask_at = Some(now + waiting.pause);
            let index = target.reported.map_or(0, |(count, _)| count.index);
            let (shard, origin) = (target.shard, Origin(self.number as u32));
            let waiter = Waiter(target.number);
            self.runtime.submit(shard, Input::Count { shard, index, origin, waiter });
        }
    }

    /// How many others have every write of a shard that was answered; none if there is no such
    /// shard.
    fn least(&self, shard: ShardId) -> Option<u64> {
        let routes = self.runtime.routing.routes();
        let view = routes.iter().find_map(|route| {
            let place = route.place_of(shard)?;
            Some(&route.views[place])
        });
        view.map(|view| view.read().members.least_others() as u64)
    }

    /// Whether answers of a shard's writes wait for its leader's disk.
    fn is_sync(&self, shard: ShardId) -> bool {
        let routes = self.runtime.routing.routes();
        let route = routes.of_shard(shard);
        route.is_some_and(|route| route.keyspace.options.durability == Durability::Sync)
    }
}

fn answer(
    connection: &mut Connection,
    session: &Session,
    wait: Wait,
    known: AckState,
    muted: bool,
) {
    if muted {
        return;
    }
    let mut writer = session.writer(&mut connection.output.bytes);
    if wait.local.is_some() {
        writer.array(2);
        writer.int(i64::from(known.local));
    }
    writer.int(known.replicas as i64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With many who wait, to look at all of them for each answer would leave no time for others.
    #[test]
    fn answer_wakes_only_its_connection() {
        let (now, mut waits) = (Instant::now(), ReplicaWaits::default());
        let late = now + Duration::from_secs(60);
        for at in 0..100 {
            let shards = (0..at as u64 % 3).map(|shard| Target {
                shard: ShardId(shard),
                number: waits.draw_number(),
                ask_at: None,
                reported: None,
            });
            let shards: Vec<_> = shards.collect();
            waits.all.push(ReplicaWait {
                at,
                wait: Wait { replicas: 2, local: None, timeout_ms: 0 },
                muted: false,
                began: now,
                until: None,
                pause: LOOK_SOON,
                look_at: late,
                newest: waits.number,
                shards,
            });
        }
        for at in 0..100 {
            for place in 0..at % 3 {
                let number = Waiter(waits.all[at].shards[place].number);
                for (others, is_new) in [(1, true), (1, false), (2, true)] {
                    let count = Count { index: 7, others, is_here: false };
                    waits.counted(number, count);
                    let due = waits.all.iter_mut().filter(|waiting| waiting.look_at != late);
                    let due: Vec<_> =
                        due.map(|w| (std::mem::replace(&mut w.look_at, late), w.at).1).collect();
                    assert_eq!(due, if is_new { vec![at] } else { vec![] });
                }
            }
        }
        // Too late, or of another time.
        let count = Count { index: 7, others: 2, is_here: false };
        for number in [0, 1, u64::MAX] {
            waits.counted(Waiter(number), count);
        }
        assert!(waits.all.iter().all(|waiting| waiting.look_at == late));
    }
}

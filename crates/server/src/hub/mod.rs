//! The node in the process: lanes, log, routes and clock, shared by all threads.
//!
//! ```text
//!   event loop 0 ┐                        ┌ lane 0 ┐
//!   event loop 1 ┼── submit ──► LaneCell ─┤ lane 1 ├──► LogRoom ◄── log thread (fsync)
//!   HTTP thread  ┘        ▲               └   …    ┘       ▲
//!                         │ answers                        └── keeper (checkpoints, safe points)
//!                     mailboxes
//! ```
//!
//! Whoever has work for a lane steps it ([`lanes`]); answers go to the mailbox of the asking loop,
//! or straight back if it asked itself. What a step wants of the rest of the node (shards to be
//! created, safe points to be passed on) is *news*, which the control plane takes in order after
//! the lane is let go ([`control`]).
//!
//! Queues and their bounds: a lane's inbox and a mailbox hold at most what connections have asked
//! and not been answered, which each connection bounds (`event_loop`).

pub mod checkpoints;
pub mod clocks;
pub mod control;
pub mod digests;
pub mod disk_pace;
pub mod durations;
mod events;
pub mod growth;
pub mod heat;
pub mod keeper;
pub mod kept;
pub mod laggards;
pub mod lanes;
pub mod levels;
pub mod log;
pub mod lookups;
pub mod mail;
pub mod mailbag;
pub mod open;
pub mod open_txns;
pub mod overview;
pub mod peers;
pub mod placement;
mod snapshots;
pub mod splits;
pub mod standings;
pub mod tallies;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use hlc::{Clock, Physical};
use keyspace::{KeyHasher, NodeId, ShardId, Standings, Timestamp};
pub use node::control::Input as News;
use node::control::{CONTROL, Control, Queue, Routes, Views};
use node::event::Recent;
use node::executor::{Answer, Input, Origin};
use node::replica::read::Now;
use node::routing::route::Route;
pub use node::routing::route::View;
use parking_lot::Mutex;
use replication::BootNanos;

use crate::counters::Counters;
use api::Overview;
use clocks::Clocks;
use disk_pace::DiskPace;
use growth::Growth;
use heat::Heat;
use lanes::LaneCell;
use levels::ClusterLevel;
use log::LogRoom;
use mail::{Mailbox, SideDoor};
use open_txns::OpenTxns;
use peers::Peers;
use splits::Requests;

/// The origin of work that nobody waits for.
pub const NOBODY: Origin = Origin(u32::MAX);
/// The origin of the side doors (HTTP).
pub const SIDE_DOOR: Origin = Origin(u32::MAX - 1);

/// See the front page of this module.
pub struct Hub {
    /// The node's id.
    pub node_id: NodeId,
    /// The cluster's id.
    pub cluster_id: u64,
    /// Hashes all keys of the cluster.
    pub hasher: KeyHasher,
    /// The node's clock.
    pub clock: Arc<Clock>,
    /// The lanes; shard `s` lives in lane `s mod lanes`.
    pub lanes: Vec<LaneCell>,
    /// The log.
    pub log: LogRoom,
    /// One for each event loop.
    pub mailboxes: Vec<Mailbox>,
    /// Those who wait at the side doors.
    pub side_door: SideDoor,
    /// Transactions that are gone through there, request by request.
    pub open_txns: OpenTxns,
    /// What the process counts.
    pub counters: Arc<Counters>,
    /// Memory that data may take.
    pub memory_bytes_max: u64,
    /// Whether it does, so that writes are refused.
    pub out_of_memory: AtomicBool,
    /// Bytes that data takes, as last summed up.
    pub memory_used_bytes: AtomicU64,
    /// Of these, old versions.
    pub memory_old_bytes: AtomicU64,
    /// Entries kept for replicas that lag.
    pub kept: kept::Kept,
    /// What single commands are about to add.
    pub growth: Growth,
    /// Whether all shards serve.
    pub ready: AtomicBool,
    /// Set when the node begins to stop: no new connections or requests.
    pub stopping: AtomicBool,
    /// What the node has of other nodes, if it has a peer listener.
    pub peers: Option<Peers>,
    /// The cluster in numbers, as the keeper saw it within the last second or so.
    pub overview: ArcSwap<Overview>,
    /// Of all replicas here.
    views: Views,
    /// Which shards are asked, what begins and ends: stepped by who spreads news only.
    pub control: Mutex<Control>,
    routes: ArcSwap<Routes>,
    routes_version: AtomicU64,
    /// How nodes stand. Changed by who spreads news only.
    standings: ArcSwap<Standings>,
    interval_keyspaces: AtomicBool,
    /// How long those wait who ask, in nanoseconds.
    pub patience_nanos: u64,
    /// Drawn at random when the node was started.
    pub seed: u64,
    news: Mutex<Queue>,
    spreading: Mutex<()>,
    started: Instant,
    time: ArcSwap<Physical>,
    /// How its clock compares with those of its peers.
    pub clocks: Clocks,
    /// Whether its disk is slow.
    pub disk_pace: DiskPace,
    /// Those who have asked control for something.
    pub requests: Requests,
    /// The cluster's feature level.
    pub level: ClusterLevel,
    /// How often shards are asked.
    pub heat: Heat,
    /// What has happened lately. Held for a moment, with nothing else.
    pub events: Mutex<Recent>,
}

impl Hub {
    /// Milliseconds since 1970: the wall clock at start plus monotonic time (SAFETY G12), unless
    /// the log was far ahead of that, or its peers' clocks are far away ([`Physical`]).
    pub fn millis(&self) -> u64 {
        self.time.load().millis(self.elapsed_millis())
    }

    fn elapsed_millis(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// When the process started, by its own clock.
    pub fn started_millis(&self) -> u64 {
        self.time.load().millis(0)
    }

    /// Tells the clock the time, and reads it: the time of reads from here on.
    pub fn now(&self) -> Timestamp {
        self.clock.observe_millis(self.millis());
        self.clock.now()
    }

    /// As [`Self::now`], on both clocks: for reads whose requests have come.
    pub fn moment(&self) -> Now {
        Now { time: self.now(), boot: boot_nanos() }
    }

    /// Whether all shards that are here serve, or know who leads them; and the catalogue, or an
    /// image of it, is here.
    pub fn is_serving(&self) -> bool {
        let routes = self.routes();
        let is_known = routes.iter().next().is_some() || self.log.facts().full;
        let serves = |view: &View| view.read().serving.at_all();
        if is_known && routes.iter().flat_map(|route| &route.views).all(serves) {
            return true;
        }
        is_known
            && self.peers.is_some()
            && self.missing().is_empty()
            && self.without_leader().is_empty()
    }

    /// What the node waits for until [`Self::is_serving`], in words: also which members it wants,
    /// and what became of the attempts to reach them.
    pub fn why_not_serving(&self) -> String {
        if self.routes().iter().next().is_none() {
            let why = "no node has told this one yet which keyspaces there are";
            return self.with_unreached(why.into(), None);
        }
        let missing = self.missing().len();
        if missing > 0 {
            let why = format!("shards are on their way to this node: {missing}");
            return self.with_unreached(why, None);
        }
        let shards = self.without_leader();
        let named: Vec<String> = shards.iter().take(8).map(ToString::to_string).collect();
        let why = format!(
            "nobody leads shard {} yet: more than half of a shard's replicas must be there",
            named.join(", ")
        );
        let views: Vec<View> = shards.iter().filter_map(|shard| self.views.get(*shard)).collect();
        let nodes_of = |view: &View| {
            let replicas = view.read().descriptor.replicas.clone();
            replicas.into_iter().map(|(_, node)| node)
        };
        self.with_unreached(why, Some(&views.iter().flat_map(nodes_of).collect()))
    }

    /// Adds to why the node waits which of these members, or of all, it does not reach.
    fn with_unreached(&self, why: String, among: Option<&BTreeSet<NodeId>>) -> String {
        let unreached = self.peers.as_ref().map(|peers| peers.cluster.unreached(among));
        let mut unreached = unreached.unwrap_or_default();
        let more = unreached.len().saturating_sub(UNREACHED_MAX);
        unreached.truncate(UNREACHED_MAX);
        match (unreached.is_empty(), more) {
            (true, _) => why,
            (false, 0) => format!("{why}. Not reached: {}", unreached.join("; ")),
            (false, more) => {
                format!("{why}. Not reached: {}; and {more} more", unreached.join("; "))
            }
        }
    }

    /// Shards of which this node is to have replicas, and has none yet: those that name it, and
    /// while a cluster grows those that have too few. A keyspace may ask for more replicas than
    /// there are nodes: what cannot come is not waited for.
    pub fn missing(&self) -> Vec<ShardId> {
        let system = self.views.get(ShardId(0));
        let nodes: Vec<NodeId> = system.map_or_else(Vec::new, |system| {
            let state = system.read();
            state.descriptor.replicas.iter().map(|(_, node)| *node).collect()
        });
        let Some(place) = nodes.iter().position(|node| *node == self.node_id) else {
            return Vec::new();
        };
        let routes = self.routes();
        let wanted = routes.iter().filter(|r| usize::from(r.keyspace.options.replicas) > place);
        let shards = wanted.flat_map(|route| {
            let replicas = usize::from(route.keyspace.options.replicas);
            route.shards().iter().map(move |shard| (*shard, replicas))
        });
        let members = self.members();
        let up = members.iter().filter(|member| member.is_up());
        let room = up.filter(|member| self.standing(member.node).takes_replicas()).count();
        let room = room.max(nodes.len());
        let comes = |shard: ShardId, replicas: usize| {
            // As the balancer has it: as many as there is room for, but an odd number.
            let most = replicas.min(room);
            let most = most - usize::from(most.is_multiple_of(2));
            let known = self.peers.as_ref().and_then(|peers| peers.lookup.shard(shard));
            known.is_none_or(|known| {
                let descriptor = known.descriptor();
                let names = descriptor.replica_on(self.node_id).is_some();
                names || descriptor.replicas.len() < most
            })
        };
        let mut missing: Vec<(ShardId, usize)> =
            shards.filter(|(shard, _)| !self.views.contains(*shard)).collect();
        missing.retain(|(shard, replicas)| comes(*shard, *replicas));
        missing.into_iter().map(|(shard, _)| shard).collect()
    }

    /// Shards here without a known leader.
    pub fn without_leader(&self) -> Vec<ShardId> {
        let mut found = Vec::new();
        for lane in &self.lanes {
            found.extend(lane.with(self, |lane| {
                let shards = lane.shards().filter(|shard| shard.leader().is_none());
                shards.map(|shard| shard.id()).collect::<Vec<_>>()
            }));
        }
        found
    }

    /// Whether a shard is on other nodes only.
    pub fn is_away(&self, route: &Route, place: usize) -> bool {
        self.peers.is_some() && route.is_away(place, self.node_id)
    }

    /// Whether what is read of a shard must be fetched: it is on other nodes only, or lags here.
    pub fn must_fetch(&self, route: &Route, place: usize) -> bool {
        self.peers.is_some() && route.must_fetch(place, self.node_id)
    }

    /// The lane of a shard.
    pub fn lane_of(&self, shard: ShardId) -> usize {
        (shard.0 % self.lanes.len() as u64) as usize
    }

    /// Hands one input to the lane of a shard.
    pub fn submit(&self, shard: ShardId, input: Input) {
        self.submit_from(shard, input, NOBODY, &mut Vec::new());
    }

    /// As [`Self::submit`], with answers for `origin` that are there at once in `answers`.
    pub fn submit_from(
        &self,
        shard: ShardId,
        input: Input,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) {
        self.lanes[self.lane_of(shard)].submit(self, [input], origin, answers);
    }

    /// The keyspaces as they are.
    pub fn routes(&self) -> Arc<Routes> {
        self.routes.load_full()
    }

    /// Changes whenever [`Self::routes`] does.
    pub fn routes_version(&self) -> u64 {
        self.routes_version.load(Ordering::Acquire)
    }

    /// Whether any keyspace has durability `interval`.
    pub fn has_interval_keyspaces(&self) -> bool {
        self.interval_keyspaces.load(Ordering::Relaxed)
    }

    /// Gives an answer to who asked: into `answers` if it is the caller.
    pub fn deliver(&self, answer: Answer, caller: Origin, answers: &mut Vec<Answer>) {
        let to = answer.origin();
        if to == caller {
            answers.push(answer);
        } else if to == CONTROL {
            self.post_news([News::Answer(answer)]);
        } else if to == SIDE_DOOR {
            self.side_door.answer(answer);
        } else if let Some(mailbox) = self.mailboxes.get(to.0 as usize) {
            // A loop that has ended has no clients left, or has given them up.
            let _read = mailbox.post(mail::Mail::Answer(answer));
        }
    }

    /// Has the loop of a lane step it, since its groups are fsynced. Without a loop, before and
    /// after the loops' time, it is stepped here; and in a cluster, where other nodes wait to be
    /// told, and the loop has no part in it.
    pub fn durable(&self, lane: usize, ticket: u64) {
        if self.peers.is_some() || !self.mailboxes[lane].post(mail::Mail::Durable { lane, ticket })
        {
            let durable = Input::Durable { ticket };
            self.lanes[lane].submit(self, [durable], NOBODY, &mut Vec::new());
        }
    }

    /// Stops the process: its disk can no longer be trusted, and nothing more may be acknowledged.
    pub fn fatal(&self, what: &str, error: &dyn std::error::Error) -> ! {
        tracing::error!(
            "{what} failed: {error}. The node stops at once. What was acknowledged at durability \
             sync is on disk; at interval and memory, what was synced last. Repair the disk and \
             start it again"
        );
        std::process::exit(EXIT_DISK_FAILED)
    }
}

/// So many members that are not reached are named.
const UNREACHED_MAX: usize = 8;

/// Exit code of a node whose disk has failed.
pub const EXIT_DISK_FAILED: i32 = 74;

/// The node's boot clock: it never steps, and counts while the machine sleeps (SAFETY G5).
pub fn boot_nanos() -> BootNanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    assert_eq!(failed, 0, "Linux has this clock since 2.6.39");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn wall_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

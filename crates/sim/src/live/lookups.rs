//! How the owner of a key is found, move by move, without a message being sent: what the tables
//! of a moment lead to.
//!
//! | lookup | in a cluster | in an overlay |
//! |---|---|---|
//! | `full` | every node knows every shard | every member knows every other |
//! | `linear`, `chord`, `chord-sharp` | the tables that shards would have on a ring at rest | those that members have now, right or wrong |
//! | `lh` | the buckets of a linear-hash keyspace, as a client finds them that has asked nothing before | a file with a bucket for each member |
//!
//! A hop, and messages by form, count as in [`crate::overlay`]. A message takes [`WAY_MICROS`].

use std::collections::BTreeMap;
use std::sync::Arc as Shared;
use std::time::Duration;

use keyspace::{NodeId, Placement, Position, ShardId};
use node::event::{Trace, TraceStep};
use overlay::lh::LinearHashTable;
use overlay::request::{Form, HopSource, RouteHop, TRAIL_MAX};
use overlay::ring::SUCCESSORS;
use overlay::ring::member::{Fingers, MemberTable};
use overlay::ring::place::Members;
use overlay::{
    Chord, ChordSharp, Kind as Finder, KnownShard, Linear, Lookup, LookupChoice, Point, Step,
};

use super::cluster::ClusterSim;
use super::setup::{Wrong, wrong};

/// How long a message takes, on average, in virtual microseconds.
pub const WAY_MICROS: u64 = 2_000;

/// A lookup under way.
pub struct Walk {
    way: LookupChoice,
    asker: NodeId,
    begins_at: Option<ShardId>,
    steps: Vec<TraceStep>,
    moves: u32,
    /// Messages to members that did not answer.
    lost: u32,
}

impl Walk {
    /// Before its first move.
    pub fn new(way: LookupChoice, asker: NodeId) -> Self {
        Self { way, asker, begins_at: None, steps: Vec::new(), moves: 0, lost: 0 }
    }

    fn step(&mut self, known: &KnownShard, by: HopSource, is_move: bool) {
        self.moves += u32::from(is_move);
        if self.steps.len() < TRAIL_MAX {
            let leg = RouteHop { shard: known.shard(), node: node_of(known), by };
            let took = Some(Duration::from_micros(2 * WAY_MICROS));
            self.steps.push(TraceStep { leg, took });
        }
    }

    /// Its end.
    fn end(self, owner: Option<Shared<KnownShard>>, failure: Option<&'static str>) -> Trace {
        let Self { way, asker, begins_at, steps, moves, lost } = self;
        let is_outside = matches!(way.kind, Finder::Full | Finder::Lh);
        // An asker that is no member asks the first one: that is no hop, but a message.
        let asked = steps.last().is_some_and(|last| last.leg.node != asker) || moves > 0;
        let messages = match way.form {
            _ if !asked => 0,
            Form::Iterative | Form::SemiRecursive => 2 * (moves + u32::from(is_outside)),
            Form::Recursive => moves + 1 + u32::from(is_outside),
        };
        Trace {
            way,
            owner,
            failure,
            hops: moves,
            messages: Some(messages + lost),
            begins_at,
            steps,
            took: Duration::from_micros(u64::from(messages + lost) * WAY_MICROS),
        }
    }

    /// By the full table.
    pub fn full(mut self, owner: Option<&Shared<KnownShard>>) -> Trace {
        match owner {
            Some(owner) => {
                self.step(owner, HopSource::Full, false);
                self.end(Some(owner.clone()), None)
            }
            None => self.end(None, Some("nobody owns the key now")),
        }
    }

    /// Along a ring, from a member's own table on.
    pub fn ring<F: Fingers>(
        mut self,
        tables: &BTreeMap<ShardId, MemberTable<F>>,
        from: ShardId,
        point: Point<'_>,
        is_alive: &dyn Fn(ShardId) -> bool,
    ) -> Trace {
        self.begins_at = Some(from);
        let mut at = from;
        for _ in 0..=tables.len() {
            let Some(table) = tables.get(&at) else { break };
            let me = table.ring().me();
            if point.is_in(me.arc()) {
                let me = me.clone();
                return self.end(Some(me), None);
            }
            let next = match table.via(point) {
                Some((entry, next)) => Some((HopSource::Ring(entry), next)),
                None => match table.next(point) {
                    Step::Owner(known) | Step::Closer(known) if known.shard() != at => {
                        Some((HopSource::RouteCache, known.clone()))
                    }
                    _ => None,
                },
            };
            let Some((by, next)) = next else {
                return self.end(None, Some("the table knows nobody closer"));
            };
            self.step(&next, by, true);
            if !is_alive(next.shard()) {
                self.lost += 1;
                return self.end(None, Some("the next member does not answer"));
            }
            at = next.shard();
        }
        self.end(None, Some("the route goes in a circle"))
    }

    /// By the buckets of a linear-hash file, as who has asked nothing before.
    pub fn buckets(mut self, shards: &[Shared<KnownShard>], hash: u64) -> Trace {
        let count = std::num::NonZeroU64::new(shards.len() as u64);
        let Some(file) = count.and_then(LinearHashTable::of_buckets) else {
            return self.end(None, Some("there is no such file"));
        };
        let mut at = LinearHashTable::FIRST.address(hash);
        self.step(&shards[at as usize], HopSource::Bucket, false);
        while let Some(next) = file.bucket(at).and_then(|bucket| bucket.forward(hash)) {
            let Some(known) = shards.get(next as usize) else { break };
            self.step(known, HopSource::Bucket, true);
            at = next;
        }
        let owner = shards.get(at as usize).cloned();
        self.end(owner, None)
    }
}

fn node_of(known: &KnownShard) -> NodeId {
    let first = known.descriptor().replicas.first().map(|(_, node)| *node);
    known.leader().or(first).unwrap_or(NodeId(0))
}

/// The hash of a key at a position of linear hashing.
pub fn hash_of(position: &Position) -> u64 {
    overlay::lh::hash_of(position.into())
}

/// What each entry of a table is called, and whom it names.
pub fn entries<F: Fingers>(table: &MemberTable<F>) -> Vec<(String, ShardId)> {
    table.entries().map(|(entry, known)| (entry.to_string(), known.shard())).collect()
}

/// Lookups among the shards of a cluster.
///
/// # Errors
/// If there is no such keyspace or node.
pub(super) fn of_cluster(
    sim: &ClusterSim,
    keyspace: &str,
    key: &[u8],
    from: Option<&str>,
    ways: &[LookupChoice],
) -> Result<(NodeId, Vec<Trace>), Wrong> {
    let world = &sim.world;
    let from = match from {
        Some(text) => sim.node(text)?,
        None => (0..world.count()).find(|at| world.is_awake(*at)).unwrap_or(0),
    };
    let asker = world.node_at(from);
    let catalogue = world.known_catalogue();
    let Some(keyspace) = catalogue.as_ref().and_then(|all| all.get(keyspace)) else {
        return wrong(format!("there is no keyspace {keyspace:?}"));
    };
    let shards = world.known_shards(keyspace);
    let placement = keyspace.options.placement;
    let position = placement.position(keyspace.id, key);
    let is_led = |shard: ShardId| world.awake_leader_of(shard).is_some();
    let of_asker = shards.iter().find(|known| known.descriptor().replica_on(asker).is_some());
    let traces = ways.iter().map(|way| {
        let (walk, point) = (Walk::new(*way, asker), Point::from(&position));
        let Some(first) = of_asker.or(shards.first()) else {
            return walk.end(None, Some("the keyspace has no shards yet"));
        };
        let begin = |mut walk: Walk| {
            if of_asker.is_none() {
                walk.step(first, HopSource::AnyNode, false);
            }
            walk
        };
        match way.kind {
            Finder::Full => walk.full(shards.iter().find(|known| point.is_in(known.arc()))),
            Finder::Chord => {
                let tables = at_rest(&shards, |all, at| Chord::ideal(all, at, SUCCESSORS));
                begin(walk).ring(&tables, first.shard(), point, &is_led)
            }
            Finder::ChordSharp => {
                let base = overlay::chord_sharp::BASE;
                let tables =
                    at_rest(&shards, |all, at| ChordSharp::ideal(all, at, SUCCESSORS, base));
                begin(walk).ring(&tables, first.shard(), point, &is_led)
            }
            Finder::Linear => {
                let tables = at_rest(&shards, |all, at| Linear::ideal(all, at, SUCCESSORS));
                begin(walk).ring(&tables, first.shard(), point, &is_led)
            }
            Finder::Lh if placement == Placement::LinearHash => {
                let mut buckets: Vec<(u64, Shared<KnownShard>)> = Vec::new();
                for known in &shards {
                    let bucket = overlay::lh::Bucket::of(known.arc());
                    buckets.extend(bucket.map(|bucket| (bucket.number(), known.clone())));
                }
                buckets.sort_by_key(|(number, _)| *number);
                let buckets: Vec<_> = buckets.into_iter().map(|(_, known)| known).collect();
                match buckets.is_empty() {
                    true => walk.end(None, Some("the keyspace has no buckets yet")),
                    false => walk.buckets(&buckets, hash_of(&position)),
                }
            }
            Finder::Lh => walk.end(None, Some("only linear-hash keyspaces have buckets")),
        }
    });
    Ok((asker, traces.collect()))
}

fn at_rest<F: Fingers>(
    shards: &[Shared<KnownShard>],
    table: impl Fn(&Members, usize) -> MemberTable<F>,
) -> BTreeMap<ShardId, MemberTable<F>> {
    let all = Members::new(shards.iter().cloned());
    (0..all.len()).map(|at| (all.after(at, 0).shard(), table(&all, at))).collect()
}

//! Safe points of keyspaces, and of their shards, which follow them (SAFETY G14).
//!
//! ```text
//!   any replica with old versions ──► replica of the system shard ──(Raise)──► its leader
//!                                        ▲ none here: straight to the leader     │ granted
//!                                        │                                       ▼
//!   shards' leaders here ◄── effects.safe_points ◄── applied: on every replica of the system shard
//!                                      ▲             … and sent to the asker (SafePoint)
//! ```
//!
//! Only the system shard has the record of a keyspace. Nodes learn applied values only, and these
//! stay true. All messages may be lost: a node that sees a shard lag asks again.
//!
//! With a safe point go the *pins* below it (G21): the times that leases and clones keep readable.
//! They are those of the same moment of the record. So any order of messages is good: of two safe
//! points the higher one's pins count, and at one safe point pins can only end.
//!
//! Invariants:
//! 1. A shard's safe point is never above its keyspace's.
//! 2. Each leader logs a rise once, however many nodes ask for it, and however often.
//! 3. A pin of the record that lies below a shard's safe point is a pin of the shard.

use hlc::{Clock, safe_point};
use keyspace::catalogue::CLONES_MAX;
use keyspace::codec::{DecodeError, Reader, put_varint};
use keyspace::leases::LEASES_MAX;
use keyspace::{KeyspaceId, NodeId, ShardId, Timestamp};

use super::Replica;
use crate::executor::Effects;
use crate::replica::catalogue::System;
use crate::replica::entry::{Kind, operation};
use crate::replica::state::{Content, ShardState};
use crate::rpc::message::RpcMessage;

/// The most pins of a keyspace: of each lease, and of each clone.
const PINS_MAX: u64 = (LEASES_MAX + CLONES_MAX) as u64;

/// A safe point, and the times below it that can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafePoint {
    /// All times from this on can be read.
    pub at: Timestamp,
    /// So can these, which rise.
    pub pins: Box<[Timestamp]>,
}

impl From<Timestamp> for SafePoint {
    /// One without pins.
    fn from(at: Timestamp) -> Self {
        Self { at, pins: Box::default() }
    }
}

impl SafePoint {
    /// Appends the bytes of its pins, of which there are some.
    pub(crate) fn encode_pins(&self, out: &mut Vec<u8>) {
        put_varint(self.pins.len() as u64, out);
        self.pins.iter().for_each(|pin| out.extend_from_slice(&pin.0.to_le_bytes()));
    }

    /// Reads pins from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are something else.
    pub(crate) fn decode_pins(reader: &mut Reader<'_>) -> Result<Box<[Timestamp]>, DecodeError> {
        let count = reader.varint_max(PINS_MAX, "count of pins")?;
        if count == 0 {
            return Err(DecodeError::Field { what: "pins: none" });
        }
        (0..count).map(|_| reader.u64().map(Timestamp)).collect()
    }

    /// What stands in an entry of a shard: the time, and the pins if there are any.
    fn encode(&self) -> Vec<u8> {
        let mut out = self.at.0.to_le_bytes().to_vec();
        if !self.pins.is_empty() {
            self.encode_pins(&mut out);
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are something else.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let at = Timestamp(reader.u64()?);
        let pins = match reader.rest().is_empty() {
            true => Box::default(),
            false => Self::decode_pins(&mut reader)?,
        };
        reader.end()?;
        Ok(Self { at, pins })
    }
}

/// A node's request to raise a keyspace's safe point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafePointRequest {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// To at least this, by the asker's clock.
    pub to: Timestamp,
    /// Whether old versions take too much memory there, so that they may go within the retention.
    pub is_pressed: bool,
}

impl Replica {
    /// The system shard is asked, by a node or (`None`) by this one. Who asks is told what the
    /// safe point is, as far as it is known here.
    pub(crate) fn raise(
        &mut self,
        from: Option<NodeId>,
        raise: SafePointRequest,
        clock: &Clock,
        is_full: bool,
        effects: &mut Effects,
    ) {
        let SafePointRequest { keyspace, to, is_pressed } = raise;
        let view = self.state.clone();
        let state = view.read();
        let Content::System(system) = &state.content else { return };
        let System { catalogue, safe_points, leases } = system;
        let current = safe_points.get(&keyspace).copied().unwrap_or_default();
        if current > Timestamp::ZERO {
            let point = SafePoint { at: current, pins: system.pins(keyspace, current) };
            match from {
                Some(node) => effects.rpcs.push((node, RpcMessage::SafePoint { keyspace, point })),
                None => effects.safe_points.push((keyspace, point)),
            }
        }
        if !self.leads() {
            // What came as an RPC is not sent on: who sent it will hear of the leader.
            if let (None, Some(leader)) = (from, self.leader()) {
                effects.rpcs.push((leader, RpcMessage::RaiseSafePoint(raise)));
            }
            return;
        }
        let Some(of) = catalogue.by_id(keyspace).filter(|_| !is_full) else { return };
        let retention_ms = of.options.retention_ms;
        self.leading.points_requested.retain(|id, _| catalogue.by_id(*id).is_some());
        let asked = self.leading.points_requested.entry(keyspace).or_default();
        let current = current.max(*asked);
        let now = clock.now();
        let granted = safe_point::granted_safe_point(current, now, retention_ms, to, is_pressed);
        // Neither age nor memory passes a hold (SAFETY G14, G21). Apply judges once more: one may
        // be under way.
        let held = leases.oldest_hold(keyspace, now.millis()).map(|lease| lease.at);
        let to = granted.map(|to| to.min(held.unwrap_or(Timestamp::MAX)));
        // What ends leases is an entry: without one, pins would stay while nothing rises.
        let ends_leases = || leases.ends_any_by(now.millis()).then_some(current);
        let Some(to) = to.filter(|to| *to > current).or_else(ends_leases) else { return };
        *asked = to;
        drop(state);
        let mut body = keyspace.0.to_le_bytes().to_vec();
        body.extend_from_slice(&to.0.to_le_bytes());
        self.operate(Kind::KeyspaceSafePoint, operation(&body), None);
    }

    /// A shard's keyspace has this safe point. Only leaders log it; not above what is past here by
    /// the shard's own time: the system shard's leader may be ahead (SAFETY G12, G13).
    pub(crate) fn follow_safe_point(&mut self, to: &SafePoint, clock: &Clock) {
        if !self.leads() {
            return;
        }
        let (current, ends_pins, below) = {
            let state: &ShardState = &self.state.read();
            let Some(engine) = state.engine() else { return };
            let ends_pins = engine.pins().iter().any(|pin| !to.pins.contains(pin));
            (engine.safe_point(), ends_pins, state.locks.below())
        };
        let at = to.at.min(clock.now()).min(below);
        // An applied one counts as far as it went: a lock that came before it has held it.
        let (asked, index) = self.leading.point_requested;
        let is_on_its_way = index > self.applied;
        let on_its_way = if is_on_its_way { asked } else { Timestamp::ZERO };
        if at > current.max(on_its_way) || (at == current && ends_pins && !is_on_its_way) {
            let next = self.group.last_index() + self.queue.len() as u64 + 1;
            self.leading.point_requested = (at, next);
            let pins = to.pins.iter().copied().filter(|pin| *pin < at).collect();
            self.operate(Kind::SafePoint, operation(&SafePoint { at, pins }.encode()), None);
        }
    }
}

/// The shard whose leader keeps the records of all keyspaces.
pub(crate) const SYSTEM: ShardId = ShardId(0);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyspace::{
        CatalogueOp, Feature, KeyHasher, Keyspace, KeyspaceOptions, Lease, LeaseKind, LeaseOp,
        Placement,
    };

    use super::*;
    use crate::executor::{FIRST_REPLICA, Input, Origin, ShardExecutor};
    use crate::replica::ReplicaStart;
    use crate::replica::catalogue::Change;
    use crate::replica::entry::Waiter;
    use crate::reshape::bootstrap;

    const KEEPS: NodeId = NodeId(1);
    const HOLDS: NodeId = NodeId(2);

    /// One node keeps the records of keyspaces, the other holds all that is in one.
    struct Two {
        executors: [(NodeId, ShardExecutor, Arc<Clock>); 2],
        of: Keyspace,
    }

    impl Two {
        fn new(retention_ms: u64) -> Self {
            let executor = |node: NodeId| {
                let clock = Arc::new(Clock::default());
                clock.observe_millis(10_000_000);
                let mut executor = ShardExecutor::new(clock.clone(), node.0, 1 << 20);
                executor.observe(1_000_000_000);
                (node, executor, clock)
            };
            let mut executors = [executor(KEEPS), executor(HOLDS)];
            let system = bootstrap::first_system(KEEPS);
            let durability = keyspace::Durability::Sync;
            executors[0].1.adopt(ReplicaStart::created(system, FIRST_REPLICA, durability));
            let mut op = Vec::new();
            let placement = Placement::Ordered;
            let options = KeyspaceOptions { placement, retention_ms, ..Default::default() };
            CatalogueOp::RaiseVersion { to: Feature::Snapshots.since() }.encode(&mut op);
            let (origin, waiter) = (Origin(1), Waiter(1));
            executors[0].1.accept(Input::Catalogue { op: std::mem::take(&mut op), origin, waiter });
            while run(&mut executors[0].1, |_| {}) {}
            CatalogueOp::Create { name: "k", options }.encode(&mut op);
            executors[0].1.accept(Input::Catalogue { op, origin, waiter });
            let mut changes = Vec::new();
            while run(&mut executors[0].1, |effects| changes.append(&mut effects.changes)) {}
            let [Change::Created(of)] = &changes[..] else { panic!("{changes:?}") };
            let mut of = of.clone();
            of.nodes = vec![HOLDS];
            let state = bootstrap::first_state(&of, 0, KeyHasher::new([1; 16]));
            executors[1].1.adopt(ReplicaStart::created(state, FIRST_REPLICA, durability));
            executors[1].1.accept(Input::RemoteShard { shard: SYSTEM, nodes: vec![KEEPS] });
            while run(&mut executors[1].1, |_| {}) {}
            Self { executors, of }
        }

        /// The holder asks, and everyone goes on until nobody has anything to say; how many
        /// entries that was.
        fn ask(&mut self, to_ms: u64, is_pressed: bool) -> u64 {
            let before = self.entries();
            let to = Timestamp::from_millis(to_ms);
            let raise = SafePointRequest { keyspace: self.of.id, to, is_pressed };
            self.executors[1].1.accept(Input::RaiseKeyspace(raise));
            let (mut quiet, shards) = (0, self.of.shards.clone());
            while quiet < 2 {
                for at in 0..2 {
                    let (from, executor, _) = &mut self.executors[at];
                    let (from, mut rpcs, mut points) = (*from, Vec::new(), Vec::new());
                    let any = run(executor, |effects| {
                        rpcs.append(&mut effects.rpcs);
                        points.append(&mut effects.safe_points);
                    });
                    quiet = if any { 0 } else { quiet + 1 };
                    for (_, to) in points {
                        let raise =
                            |shard: &ShardId| Input::RaiseShard { shard: *shard, to: to.clone() };
                        shards.iter().map(raise).for_each(|input| executor.accept(input));
                    }
                    for (node, rpc) in rpcs {
                        let other = &mut self.executors[1 - at];
                        assert_eq!(node, other.0);
                        other.1.accept(Input::Rpc { from, rpc });
                    }
                }
            }
            self.entries() - before
        }

        /// A change of leases at the node that keeps them.
        fn lease(&mut self, op: LeaseOp) -> Lease {
            let mut bytes = Vec::new();
            CatalogueOp::Lease(op).encode(&mut bytes);
            let (origin, waiter) = (Origin(1), Waiter(1));
            self.executors[0].1.accept(Input::Catalogue { op: bytes, origin, waiter });
            let mut changes = Vec::new();
            while run(&mut self.executors[0].1, |effects| changes.append(&mut effects.changes)) {}
            let [Change::Lease(lease)] = &changes[..] else { panic!("{changes:?}") };
            lease.clone()
        }

        fn open(&mut self, at_ms: u64, ttl_ms: u64) -> Lease {
            self.open_as(LeaseKind::Hold, at_ms, ttl_ms)
        }

        fn open_as(&mut self, kind: LeaseKind, at_ms: u64, ttl_ms: u64) -> Lease {
            let (request, keyspaces, at) = (at_ms, vec![self.of.id], Timestamp::from_millis(at_ms));
            self.lease(LeaseOp::Open { request, kind, keyspaces, at, ttl_ms })
        }

        fn pins_ms(&self) -> Vec<u64> {
            let view =
                self.executors[1].1.view(self.of.shards[0]).expect("the shard is on that node");
            let state = view.read();
            let pins = state.engine().expect("the shard has keys").pins();
            pins.iter().map(|pin| pin.millis()).collect()
        }

        fn entries(&self) -> u64 {
            let all = self.executors.iter().flat_map(|(_, executor, _)| executor.shards());
            all.map(Replica::applied_index).sum()
        }

        fn point_ms(&self) -> u64 {
            let view =
                self.executors[1].1.view(self.of.shards[0]).expect("the shard is on that node");
            let point = view.read().engine().expect("the shard has keys").safe_point();
            point.millis()
        }
    }

    fn run(executor: &mut ShardExecutor, mut take: impl FnMut(&mut Effects)) -> bool {
        let mut effects = Effects::default();
        executor.turn(&mut effects);
        let any = !effects.is_empty();
        if !effects.records.is_empty() {
            let ticket = effects.ticket;
            executor.accept(Input::Written { ticket, lsn: storage::log::Lsn::default() });
            executor.accept(Input::Durable { ticket });
        }
        take(&mut effects);
        any
    }

    #[test]
    fn safe_point_rises_on_node_without_replica_of_record() {
        let mut two = Two::new(600_000);
        assert_eq!(two.ask(9_300_000, false), 1, "the keyspace's record");
        assert_eq!(two.ask(9_300_000, false), 1, "the shard has heard of it, and follows");
        assert_eq!(two.point_ms(), 9_300_000);
        assert_eq!(two.ask(9_300_000, false), 0, "nothing is logged twice");
    }

    /// SAFETY G12: the holder's clock is an hour ahead.
    #[test]
    fn record_is_judged_by_clock_of_its_holder() {
        let mut two = Two::new(600_000);
        two.executors[1].2.observe_millis(13_600_000);
        assert_eq!(two.ask(13_000_000, false) + two.ask(13_000_000, false), 2);
        assert_eq!(two.point_ms(), 9_400_000);
        assert_eq!(two.ask(13_000_000, true) + two.ask(13_000_000, true), 2);
        assert_eq!(two.point_ms(), 10_000_000);
    }

    /// SAFETY G14, G21: neither age nor memory passes a lease, and when it ends the point goes on.
    #[test]
    fn safe_point_stays_at_oldest_lease() {
        let mut two = Two::new(600_000);
        let oldest = two.open(9_000_000, 1_000_000);
        let next = two.open(9_100_000, 5_000);
        assert_eq!(two.ask(9_300_000, false) + two.ask(9_300_000, false), 2);
        assert_eq!(two.point_ms(), 9_000_000);
        assert_eq!(two.ask(10_000_000, true), 0, "memory passes no lease either");
        two.lease(LeaseOp::End { id: oldest.id });
        assert_eq!(two.ask(9_300_000, false) + two.ask(9_300_000, false), 2);
        assert_eq!(two.point_ms(), next.at.millis());
        // It ends by the clock of the node that keeps it.
        two.executors[0].2.observe_millis(10_005_001);
        assert_eq!(two.ask(9_300_000, false) + two.ask(9_300_000, false), 2);
        assert_eq!(two.point_ms(), 9_300_000);
    }

    /// SAFETY G21: a pin stops nothing, and stays with the shards below their safe point, until an
    /// entry of the system shard has ended it; also if nothing rises any more.
    #[test]
    fn pins_go_with_the_safe_point_and_end_without_one() {
        let mut two = Two::new(600_000);
        let oldest = two.open_as(LeaseKind::Pin, 9_000_000, 1_000_000);
        two.open_as(LeaseKind::Pin, 9_100_000, 5_000);
        two.open_as(LeaseKind::Pin, 9_350_000, 1_000_000);
        assert_eq!(two.ask(9_300_000, false) + two.ask(9_300_000, false), 2);
        assert_eq!((two.point_ms(), two.pins_ms()), (9_300_000, vec![9_000_000, 9_100_000]));
        assert_eq!(two.ask(9_300_000, false), 0, "nothing is logged twice");
        two.lease(LeaseOp::End { id: oldest.id });
        assert_eq!(two.ask(9_300_000, false), 1, "the shard");
        assert_eq!((two.point_ms(), two.pins_ms()), (9_300_000, vec![9_100_000]));
        // The next one ends by itself.
        two.executors[0].2.observe_millis(10_005_001);
        assert_eq!(two.ask(9_300_000, false) + two.ask(9_300_000, false), 2, "both");
        assert_eq!((two.point_ms(), two.pins_ms()), (9_300_000, vec![]));
        assert_eq!(two.ask(9_400_000, false) + two.ask(9_400_000, false), 2);
        assert_eq!((two.point_ms(), two.pins_ms()), (9_400_000, vec![9_350_000]));
    }

    /// Entries from before there were pins have the time alone.
    #[test]
    fn safe_points_are_read_as_they_were_written() {
        let ms = Timestamp::from_millis;
        for pins in [vec![], vec![ms(3)], vec![ms(3), ms(5)]] {
            let point = SafePoint { at: ms(9), pins: pins.into() };
            let bytes = point.encode();
            assert_eq!(SafePoint::decode(&bytes), Ok(point.clone()));
            let cut = |len: usize| SafePoint::decode(&bytes[..len]).is_err() || len == 8;
            assert!((0..bytes.len()).all(cut), "{point:?}");
        }
        assert_eq!(SafePoint::decode(&ms(9).0.to_le_bytes()), Ok(ms(9).into()));
    }

    /// The one who raises has read the leases before the lease was there.
    #[test]
    fn rise_under_way_stops_at_lease_that_is_applied_first() {
        let mut system = System::default();
        let of = |op: &CatalogueOp<'_>, at: u64, system: &mut System| {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            system.apply(&bytes, &[KEEPS], Timestamp::from_millis(at))
        };
        let to = Feature::Snapshots.since();
        of(&CatalogueOp::RaiseVersion { to }, 1, &mut system).unwrap();
        let options = KeyspaceOptions::default();
        of(&CatalogueOp::Create { name: "k", options }, 2, &mut system).unwrap();
        let keyspace = system.catalogue.get("k").unwrap().id;
        let (request, keyspaces, at) = (1, vec![keyspace], Timestamp::from_millis(100));
        let kind = LeaseKind::Hold;
        let open = LeaseOp::Open { request, kind, keyspaces, at, ttl_ms: 1_000 };
        of(&CatalogueOp::Lease(open), 200, &mut system).unwrap();
        let mut bytes = Vec::new();
        system.encode(&mut bytes);
        let mut system = System::decode(&bytes).unwrap();
        let ms = Timestamp::from_millis;
        assert_eq!(system.raise_safe_point(keyspace, ms(150), ms(201)), ms(100).into());
        assert_eq!(system.raise_safe_point(keyspace, ms(150), ms(1_200)), ms(150).into());
    }

    #[test]
    fn full_disk_leaves_safe_point_unchanged() {
        let mut two = Two::new(600_000);
        two.executors[0].1.set_full(true);
        assert_eq!(two.ask(9_300_000, false), 0);
        two.executors[0].1.set_full(false);
        assert_eq!(two.ask(9_300_000, false), 1);
    }
}

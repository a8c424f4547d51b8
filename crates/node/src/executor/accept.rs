//! How an executor handles each kind of input: mostly, it passes it to the shard's replica, or to
//! the proxy of a remote shard.

use bytes::Bytes;
use command::NotDone;
use hlc::Clock;
use keyspace::{Cut, Durability, Feature, Generation, NodeId, ReplicaId, ShardId, Timestamp};
use overlay::KnownShard;
use replication::{BootNanos, Message, RejectedMessage};
use storage::log::Lsn;

use super::ended_replicas::QUARANTINE_NOTICE_TICKS;
use super::{Answer, Caller, Input, Origin, ShardExecutor, push};
use crate::replica::entry::{Batch, Kind, Waiter, operation};
use crate::replica::record;
use crate::replica::state::ShardState;
use crate::replica::{Replica, ReplicaEndReason, ReplicaStart, SYSTEM, SafePointRequest};
use crate::reshape::merge;
use crate::reshape::split::Split;
use crate::routing::fetch::FetchRequest;
use crate::routing::proxy::Proxy;
use crate::rpc::message::RpcMessage;
use crate::tracking::message::TrackingMessage;
use txn::locks::StepReply;

impl ShardExecutor {
    /// Takes one input. Its effects come with the next [`Self::turn`].
    pub fn accept(&mut self, input: Input) {
        match input {
            Input::Propose { shard, origin, batch } => self.propose(shard, origin, batch),
            Input::Fetch { shard, want, bytes_max, origin, waiter } => {
                self.fetch(shard, *want, bytes_max, Caller { origin, waiter });
            }
            Input::Step { shard, step, origin, waiter } => {
                self.step(shard, step, Caller { origin, waiter })
            }
            Input::AwaitRead { shard, at, lock, origin, waiter } => {
                self.await_read(shard, at, lock, Caller { origin, waiter });
            }
            Input::Catalogue { op, origin, waiter } => {
                self.catalogue(op, Caller { origin, waiter })
            }
            Input::Count { shard, index, origin, waiter } => {
                self.count(shard, index, Caller { origin, waiter });
            }
            Input::Tick => self.tick(),
            // Those with something to do have their turn.
            Input::CheckWaiters => {}
            Input::Message { from, shard, message } => self.message(from, shard, *message),
            Input::Rpc { from, rpc } => self.handle_rpc(from, rpc),
            Input::LinkLost { node } => self.link_lost(node),
            Input::Linked { node } => self.linked(node),
            Input::ChangeReplicas { shard, generation, add, remove } => {
                self.tell(shard, |shard, now, clock| {
                    shard.exchange(generation, add, remove, now, clock);
                });
            }
            Input::Split { shard, split } => self.split(shard, split),
            Input::Merge { shard, step } => self.intend(shard, step),
            Input::RequestHandover { left, at, absorb } => {
                self.has_merged = true;
                self.request_handover(left, at, &absorb);
            }
            Input::Absorb { left, state } => self.tell(left, |shard, _, _| shard.is_given(state)),
            Input::TakeOverRequests { shard, inherited } => {
                self.take_over_requests(shard, inherited)
            }
            Input::Superseded { shard, by, generation } => {
                self.superseded(shard, by, generation);
            }
            Input::Transfer { shard, to } => self.tell(shard, |shard, _, _| shard.transfer(to)),
            Input::InstallSnapshot { head, state } => self.install(*head, *state),
            Input::SnapshotDeclined { shard, head } => {
                self.tell(shard, |shard, now, _| shard.decline(*head, now));
            }
            Input::SnapshotLost { shard, to } => {
                self.tell(shard, |shard, _, _| shard.snapshot_lost(to));
            }
            Input::DigestDone { shard, replica, index, digest } => {
                self.digested(shard, replica, index, digest);
            }
            Input::CatalogueCached { index } => self.catalogue_cached(index),
            Input::RaiseKeyspace(raise) => self.raise(raise),
            Input::RaiseShard { shard, to } => {
                self.tell(shard, |shard, _, clock| shard.follow_safe_point(&to, clock));
            }
            Input::Create(start) => self.create(start),
            Input::Absorbed { shard, left } => self.note_absorbed(shard, left),
            Input::RemoteShard { shard, nodes } => self.learn_remote(shard, nodes),
            Input::DescriptorLearned { known } => self.hears_of(&known),
            Input::Drop { shard } => self.drop_shard(shard),
            Input::ClusterVersion { version } => self.allow(version),
            Input::Configure { shard, durability, skips_equal } => {
                self.configure(shard, durability, skips_equal);
            }
            Input::Written { ticket, lsn } => self.written(ticket, lsn),
            Input::Durable { ticket } => self.durable(ticket),
        }
    }

    /// Has a shard that is here do something, and have its turn.
    fn tell(&mut self, id: ShardId, tell: impl FnOnce(&mut Replica, BootNanos, &Clock)) {
        let (now, clock) = (self.now, self.clock.clone());
        if let Some(shard) = self.touch(id) {
            tell(shard, now, &clock);
        }
    }

    fn propose(&mut self, id: ShardId, origin: Origin, batch: Batch) {
        if let Some(shard) = self.touch(id) {
            return shard.propose(origin, batch);
        }
        let now = self.now;
        match self.touch_remote(id) {
            Some((proxy, pending)) => proxy.write(origin, batch, now, pending),
            None => self.reroute_commands(id, origin, batch),
        }
    }

    fn await_read(
        &mut self,
        id: ShardId,
        at: Timestamp,
        lock: Option<u64>,
        Caller { origin, waiter }: Caller,
    ) {
        let now = self.now;
        match self.touch(id) {
            // Elsewhere, who leads says when there is more to be seen.
            Some(shard)
                if let Some(released) = lock
                    && shard.is_leader() =>
            {
                shard.await_unlocked(released, Caller { origin, waiter }, now);
            }
            Some(shard) => shard.await_read(at, origin, waiter, now),
            None => self.refuse(id, origin, vec![waiter]),
        }
    }

    fn catalogue(&mut self, op: Vec<u8>, asker: Caller) {
        if self.shards.contains_key(&SYSTEM) {
            return self.operate(SYSTEM, Kind::Catalogue, &op, Some(asker));
        }
        // It may not be known yet who might have the catalogue: it waits until it is.
        self.become_remote(SYSTEM, Vec::new());
        let now = self.now;
        if let Some((proxy, _)) = self.touch_remote(SYSTEM) {
            proxy.operate(op, asker, now);
        }
    }

    fn link_lost(&mut self, node: NodeId) {
        let now = self.now;
        self.losses.lost(node, now);
        self.each_active(|shard| shard.link_lost(node));
        self.remote_shards.values_mut().for_each(|proxy| proxy.link_lost(node, now));
    }

    fn linked(&mut self, node: NodeId) {
        self.losses.linked(node, self.now);
        self.each_active(|shard| shard.ask_again(node));
        self.remote_shards.values_mut().for_each(|proxy| proxy.ask_again(node));
    }

    fn split(&mut self, id: ShardId, split: Split) {
        let is_allowed =
            matches!(split.at, Cut::Slot(_)) || self.cluster_version.allows(Feature::OrderedSplits);
        if is_allowed {
            self.tell(id, |shard, now, clock| shard.split(split, now, clock));
        }
    }

    fn intend(&mut self, id: ShardId, step: merge::MergeStep) {
        if self.cluster_version.allows(Feature::Merges) {
            self.tell(id, |shard, now, clock| shard.intend(step, now, clock));
        }
    }

    fn superseded(&mut self, id: ShardId, by: ShardId, generation: Generation) {
        self.has_merged = true;
        let mut pending = std::mem::take(&mut self.pending);
        self.supersede(id, (by, generation), &mut pending);
        self.pending = pending;
    }

    fn install(&mut self, head: Message, state: ShardState) {
        let now = self.now;
        if let Some((shard, pending)) = self.touch_here(state.descriptor.shard) {
            shard.install(head, state, now, pending);
        }
    }

    fn digested(&mut self, id: ShardId, replica: ReplicaId, index: u64, digest: Option<u128>) {
        if let Some((shard, pending)) = self.touch_here(id)
            && shard.replica() == replica
        {
            shard.digested(index, digest, pending);
        }
    }

    fn catalogue_cached(&mut self, index: u64) {
        if let Some((proxy, _)) = self.touch_remote(SYSTEM) {
            proxy.catalogue_cached(index);
        }
    }

    fn learn_remote(&mut self, id: ShardId, nodes: Vec<NodeId>) {
        if !self.shards.contains_key(&id) && !self.absorbed.contains_key(&id) {
            self.become_remote(id, nodes);
        }
    }

    fn configure(&mut self, id: ShardId, durability: Durability, skips_equal: bool) {
        if let Some(shard) = self.shards.get_mut(&id) {
            shard.configure(durability, skips_equal);
        }
    }

    fn written(&mut self, ticket: u64, lsn: Lsn) {
        for id in &self.active {
            if let Some(shard) = self.shards.get_mut(id) {
                shard.written(ticket, lsn);
            }
        }
    }

    fn durable(&mut self, ticket: u64) {
        self.marks_durable(ticket);
        for id in &self.active {
            if let Some(shard) = self.shards.get_mut(id) {
                shard.durable(ticket);
            }
        }
    }

    fn fetch(&mut self, id: ShardId, want: FetchRequest, bytes_max: usize, asker: Caller) {
        let (now, clock, Caller { origin, waiter }) = (self.now, self.clock.clone(), asker);
        if let Some((shard, pending)) = self.touch_here(id) {
            return match shard.is_elected() {
                true if shard.registers(&want) => {
                    let now_ms = clock.now().millis();
                    let found = shard.register(None, &want, now, now_ms, pending);
                    let (want, found, at) = (Box::new(want), Box::new(found), clock.now());
                    let fetched = Answer::Fetched { origin, waiter, shard: id, at, want, found };
                    pending.answers.push(fetched);
                }
                true => shard.find(want, bytes_max, asker, now, &clock),
                false => shard.fetch(want, bytes_max, asker, now, pending),
            };
        }
        match self.touch_remote(id) {
            Some((proxy, pending)) => proxy.fetch(want, bytes_max, asker, now, pending),
            None => self.refuse(id, origin, vec![waiter]),
        }
    }

    fn step(&mut self, id: ShardId, step: Bytes, Caller { origin, waiter }: Caller) {
        let now = self.now;
        if let Some((shard, pending)) = self.touch_here(id) {
            return shard.forward_step(step, Caller { origin, waiter }, now, pending);
        }
        match self.touch_remote(id) {
            Some((proxy, pending)) => {
                proxy.forward_step(step, Caller { origin, waiter }, now, pending)
            }
            None => {
                let reply = Box::new(StepReply::Moved);
                self.pending.answers.push(Answer::StepDone { origin, waiter, reply });
            }
        }
    }

    fn operate(&mut self, id: ShardId, kind: Kind, body: &[u8], asker: Option<Caller>) {
        if let Some(shard) = self.touch(id) {
            shard.operate(kind, operation(body), asker);
        }
    }

    fn count(&mut self, id: ShardId, index: u64, Caller { origin, waiter }: Caller) {
        let leader = match (self.shards.get(&id), self.remote_shards.get(&id)) {
            (Some(shard), _) => match shard.count(index, None, self.now) {
                Some(count) => {
                    return self.pending.answers.push(Answer::ReplicaCount {
                        origin,
                        waiter,
                        count,
                    });
                }
                None => shard.leader().filter(|_| !shard.is_elected()),
            },
            (None, proxy) => proxy.and_then(Proxy::leader),
        };
        let (shard, number, origin) = (id, waiter.0, origin.0);
        let rpc = RpcMessage::Count { shard, number, origin, index };
        self.pending.rpcs.extend(leader.map(|leader| (leader, rpc)));
    }

    /// Old versions here could go, if a keyspace's safe point rose.
    fn raise(&mut self, raise: SafePointRequest) {
        let (clock, is_full) = (self.clock.clone(), self.is_full);
        if let Some((shard, pending)) = self.touch_here(SYSTEM) {
            shard.raise(None, raise, &clock, is_full, pending);
        } else if let Some(proxy) = self.remote_shards.get(&SYSTEM) {
            proxy.raise(raise, &mut self.pending);
        }
    }

    pub(super) fn refuse(&mut self, shard: ShardId, origin: Origin, waiters: Vec<Waiter>) {
        let is_away = self.remote_shards.contains_key(&shard);
        if self.absorbed.contains_key(&shard) {
            // These clients must look up the shard again.
            let go = |waiter| Answer::Retry { origin, waiter };
            return self.pending.answers.extend(waiters.into_iter().map(go));
        }
        let why = if is_away { NotDone::ReplicaLagging } else { NotDone::NoSuchShard };
        self.pending.answers.push(Answer::NotDone { origin, waiters, why });
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.all_are_due = true;
        self.losses.tick(self.now);
        if self.ticks.is_multiple_of(QUARANTINE_NOTICE_TICKS) {
            self.announce_quarantined();
        }
        let now = self.now;
        for (id, shard) in self.shards.iter_mut().filter(|(_, shard)| shard.needs_ticks()) {
            if shard.tick(now) && !shard.active {
                shard.active = true;
                self.active.push(*id);
            }
        }
    }

    fn message(&mut self, from: NodeId, id: ShardId, message: Message) {
        let now = self.now;
        let Some(shard) = self.shards.get_mut(&id) else {
            return self.early.keep(from, id, message);
        };
        // It may be for one that comes after the replica here, which its group has gone on without
        // and which has not heard of that yet; or for one before.
        if message.to() != shard.replica() {
            return;
        }
        shard.hears(message.from(), from);
        if shard.rest(&message, now, &mut self.pending) {
            return;
        }
        let Some(shard) = self.touch(id) else { return };
        if let Err(refused) = shard.step(message, now) {
            self.pending.refused.push((id, refused));
            if matches!(refused, RejectedMessage::LostLog { .. }) {
                let mut pending = std::mem::take(&mut self.pending);
                self.has_merged = true;
                self.end_replica(id, ReplicaEndReason::LostLog, &mut pending);
                self.pending = pending;
            }
        }
    }

    fn handle_rpc(&mut self, from: NodeId, rpc: RpcMessage) {
        let (id, now, clock) = (rpc.shard(), self.now, self.clock.clone());
        let is_full = self.is_full;
        self.has_merged |= matches!(rpc, RpcMessage::Merge { .. });
        if let RpcMessage::Tracking { shard, message } = &rpc {
            return self.handle_tracking(from, *shard, message);
        }
        if let RpcMessage::NotLeader { known: Some(known), .. } = &rpc {
            self.pending.known.push((**known).clone());
        }
        if let Some((shard, pending)) = self.touch_here(id) {
            shard.handle_rpc(from, rpc, now, &clock, is_full, pending);
        } else if let Some(what) = rpc.request_id() {
            let known = self.remote_shards.get(&id).and_then(Proxy::known).cloned().map(Box::new);
            self.pending.rpcs.push((from, RpcMessage::NotLeader { shard: id, what, known }));
        } else if let Some((proxy, pending)) = self.touch_remote(id) {
            proxy.handle_rpc(from, rpc, now, pending);
        }
    }

    fn handle_tracking(&mut self, from: NodeId, id: ShardId, message: &TrackingMessage) {
        let (now, clock) = (self.now, self.clock.clone());
        match message {
            TrackingMessage::Renew { stream, sent } => match self.touch_here(id) {
                Some((shard, pending)) => {
                    shard.renew_tracking(from, (*stream, *sent), now, &clock, pending);
                }
                None => {
                    let message = TrackingMessage::Ended { stream: *stream };
                    self.pending.rpcs.push((from, RpcMessage::Tracking { shard: id, message }));
                }
            },
            message => self.pending.tracking.push((id, message.clone())),
        }
    }

    fn create(&mut self, start: ReplicaStart) {
        let (id, bootstrap, is_born) = {
            let state = start.view.read();
            (state.descriptor.shard, state.bootstrap_record(), state.applied_index > 0)
        };
        if self.ended.contains(&id) || !self.may_begin(id, start.replica) {
            return;
        }
        let is_half = start.half.is_some();
        if is_half && self.shards.contains_key(&id) {
            return;
        }
        if is_half {
            // The log of the left half holds it.
        } else if is_born {
            push(&mut self.pending.records, id, record::SHARD_CREATED, &[&bootstrap]);
        } else {
            let replica = start.replica.0.to_le_bytes();
            push(&mut self.pending.records, id, record::REPLICA_CREATED, &[&replica, &bootstrap]);
        }
        let mut shard = self.start(start);
        shard.begin();
        if let Some(mut proxy) = self.remote_shards.remove(&id) {
            shard.succeed(proxy.replaced(&mut self.pending));
        }
        let before = self.shards.insert(id, Box::new(shard));
        assert!(before.is_none(), "shard ids are never reused");
        self.touch(id);
        for (from, message) in self.early.take(id) {
            self.message(from, id, message);
        }
    }

    /// The lookup has learnt of a shard.
    fn hears_of(&mut self, known: &KnownShard) {
        let id = known.shard();
        if let Some(shard) = self.shards.get(&id) {
            if shard.is_out(known) {
                let mut pending = std::mem::take(&mut self.pending);
                self.has_merged = true;
                self.end_replica(id, ReplicaEndReason::Removed, &mut pending);
                self.pending = pending;
            } else {
                return;
            }
        }
        let now = self.now;
        if let Some(proxy) = self.remote_shards.get_mut(&id) {
            proxy.learn_descriptor(known, now);
        }
    }

    fn drop_shard(&mut self, id: ShardId) {
        if let Some(mut proxy) = self.remote_shards.remove(&id) {
            proxy.abandon(&mut self.pending);
        }
        let was_absorbed = self.merged_ends.remove(id);
        if self.ended_replicas.remove(&id).is_some() || was_absorbed {
            push(&mut self.pending.records, id, record::SHARD_DROPPED, &[]);
        }
        // Also if it has not begun: it may be about to.
        self.ended.insert(id);
        let Some(mut shard) = self.shards.remove(&id) else { return };
        self.ended_counters = self.ended_counters.and(shard.counters(self.now));
        push(&mut self.pending.records, id, record::SHARD_DROPPED, &[]);
        shard.abandon(&mut self.pending);
    }
}

//! What a lane does with each kind of input: mostly, it hands it to the shard that it is for, or to
//! what stands for a shard that is on other nodes only.

use bytes::Bytes;
use keyspace::{Cut, Feature, NodeId, ShardId};
use overlay::Known;
use replication::{Message, Refused};

use super::ended::TELL_TICKS;
use super::{Answer, Input, Lane, NotDone, Origin, push};
use crate::entry::{Kind, Waiter, operation};
use crate::fetch::Want;
use crate::letter::Letter;
use crate::locks::Said;
use crate::proxy::Proxy;
use crate::record;
use crate::shard::{Raise, SYSTEM, ShardStart, Unfit};

impl Lane {
    /// Takes one input. Its effects come with the next [`Self::turn`].
    pub fn accept(&mut self, input: Input) {
        match input {
            Input::Propose { shard: id, origin, batch } => {
                if let Some(shard) = self.touch(id) {
                    return shard.propose(origin, batch);
                }
                let now = self.now;
                match self.touch_away(id) {
                    Some((proxy, pending)) => proxy.write(origin, batch, now, pending),
                    None => self.turn_away(id, origin, batch),
                }
            }
            Input::Fetch { shard, want, bytes_max, origin, waiter } => {
                self.fetch(shard, *want, bytes_max, (origin, waiter));
            }
            Input::Step { shard: id, step, origin, waiter } => {
                self.step(id, step, (origin, waiter));
            }
            Input::Await { shard: id, at, lock, origin, waiter } => {
                let now = self.now;
                match self.touch(id) {
                    // Elsewhere, who leads says when there is more to be seen.
                    Some(shard)
                        if let Some(released) = lock
                            && shard.is_leader() =>
                    {
                        shard.await_unlocked(released, (origin, waiter), now);
                    }
                    Some(shard) => shard.await_read(at, origin, waiter, now),
                    None => self.refuse(id, origin, vec![waiter]),
                }
            }
            Input::Tick => self.tick(),
            // Those with something to do have their turn.
            Input::Look => {}
            Input::Message { from, shard, message } => self.message(from, shard, *message),
            Input::Exchange { shard, generation, add, remove } => {
                let (now, clock) = (self.now, self.clock.clone());
                if let Some(shard) = self.touch(shard) {
                    shard.exchange(generation, add, remove, now, &clock);
                }
            }
            Input::Split { shard, split } => {
                let (now, clock) = (self.now, self.clock.clone());
                let is_allowed =
                    matches!(split.at, Cut::Slot(_)) || self.level.allows(Feature::OrderedSplits);
                if let Some(shard) = self.touch(shard).filter(|_| is_allowed) {
                    shard.split(split, now, &clock);
                }
            }
            Input::Merge { shard, step } => {
                let (now, clock) = (self.now, self.clock.clone());
                let is_allowed = self.level.allows(Feature::Merges);
                if let Some(shard) = self.touch(shard).filter(|_| is_allowed) {
                    shard.intend(step, now, &clock);
                }
            }
            Input::Surrender { left, at, absorb } => {
                self.has_merged = true;
                self.surrender(left, at, &absorb);
            }
            Input::Absorb { left, state } => {
                if let Some(shard) = self.touch(left) {
                    shard.is_given(state);
                }
            }
            Input::Inherit { shard, heir } => self.inherit(shard, heir),
            Input::Superseded { shard, by, generation } => {
                self.has_merged = true;
                let mut pending = std::mem::take(&mut self.pending);
                self.supersede(shard, (by, generation), &mut pending);
                self.pending = pending;
            }
            Input::Transfer { shard, to } => {
                if let Some(shard) = self.touch(shard) {
                    shard.transfer(to);
                }
            }
            Input::Install { head, state } => {
                let now = self.now;
                if let Some((shard, pending)) = self.touch_here(state.descriptor.shard) {
                    shard.install(*head, *state, now, pending);
                }
            }
            Input::Letter { from, letter } => self.letter(from, letter),
            Input::LinkLost { node } => {
                let now = self.now;
                self.losses.lost(node, now);
                self.each_active(|shard| shard.link_lost(node));
                self.away.values_mut().for_each(|proxy| proxy.link_lost(node, now));
            }
            Input::Linked { node } => {
                self.losses.linked(node, self.now);
                self.each_active(|shard| shard.ask_again(node));
                self.away.values_mut().for_each(|proxy| proxy.ask_again(node));
            }
            Input::Digested { shard: id, replica, index, digest } => {
                if let Some((shard, pending)) = self.touch_here(id)
                    && shard.replica() == replica
                {
                    shard.digested(index, digest, pending);
                }
            }
            Input::Declined { shard, head } => {
                let now = self.now;
                if let Some(shard) = self.touch(shard) {
                    shard.decline(*head, now);
                }
            }
            Input::SnapshotLost { shard, to } => {
                if let Some(shard) = self.touch(shard) {
                    shard.snapshot_lost(to);
                }
            }
            Input::Image { index } => {
                if let Some((proxy, _)) = self.touch_away(ShardId(0)) {
                    proxy.has_image(index);
                }
            }
            Input::Catalogue { op, origin, waiter } => {
                if self.shards.contains_key(&SYSTEM) {
                    self.operate(SYSTEM, Kind::Catalogue, &op, Some((origin, waiter)));
                    return;
                }
                // It may not be known yet who might have the catalogue: it waits until it is.
                self.go_away(SYSTEM, Vec::new());
                let now = self.now;
                if let Some((proxy, _)) = self.touch_away(SYSTEM) {
                    proxy.operate(op, (origin, waiter), now);
                }
            }
            Input::Count { shard, index, origin, waiter } => {
                self.count(shard, index, (origin, waiter));
            }
            Input::RaiseKeyspace(raise) => self.raise(raise),
            Input::RaiseShard { shard, to } => {
                let clock = self.clock.clone();
                if let Some(shard) = self.touch(shard) {
                    shard.follow_safe_point(to, &clock);
                }
            }
            Input::Create(start) => self.create(start),
            Input::Away { shard, nodes } => {
                if !self.shards.contains_key(&shard) && !self.absorbed.contains_key(&shard) {
                    self.go_away(shard, nodes);
                }
            }
            Input::Known { known } => self.hears_of(&known),
            Input::Drop { shard } => self.drop_shard(shard),
            Input::Level { level } => self.allow(level),
            Input::Configure { shard, durability } => {
                if let Some(shard) = self.shards.get_mut(&shard) {
                    shard.configure(durability);
                }
            }
            Input::Written { ticket, lsn } => {
                for id in &self.active {
                    if let Some(shard) = self.shards.get_mut(id) {
                        shard.written(ticket, lsn);
                    }
                }
            }
            Input::Durable { ticket } => {
                self.marks_durable(ticket);
                for id in &self.active {
                    if let Some(shard) = self.shards.get_mut(id) {
                        shard.durable(ticket);
                    }
                }
            }
        }
    }

    fn fetch(&mut self, id: ShardId, want: Want, bytes_max: usize, asker: (Origin, Waiter)) {
        let (now, clock, (origin, waiter)) = (self.now, self.clock.clone(), asker);
        if let Some((shard, pending)) = self.touch_here(id) {
            return match shard.is_elected() {
                true => shard.find(want, bytes_max, asker, now, &clock),
                false => shard.fetch(want, bytes_max, asker, now, pending),
            };
        }
        match self.touch_away(id) {
            Some((proxy, pending)) => proxy.fetch(want, bytes_max, asker, now, pending),
            None => self.refuse(id, origin, vec![waiter]),
        }
    }

    fn step(&mut self, id: ShardId, step: Bytes, (origin, waiter): (Origin, Waiter)) {
        let now = self.now;
        if let Some((shard, pending)) = self.touch_here(id) {
            return shard.errand(step, (origin, waiter), now, pending);
        }
        match self.touch_away(id) {
            Some((proxy, pending)) => proxy.errand(step, (origin, waiter), now, pending),
            None => {
                let said = Box::new(Said::Moved);
                self.pending.answers.push(Answer::Stepped { origin, waiter, said });
            }
        }
    }

    fn operate(&mut self, id: ShardId, kind: Kind, body: &[u8], asker: Option<(Origin, Waiter)>) {
        if let Some(shard) = self.touch(id) {
            shard.operate(kind, operation(body), asker);
        }
    }

    fn count(&mut self, id: ShardId, index: u64, (origin, waiter): (Origin, Waiter)) {
        let leader = match (self.shards.get(&id), self.away.get(&id)) {
            (Some(shard), _) => match shard.count(index, None, self.now) {
                Some(count) => {
                    return self.pending.answers.push(Answer::Counted { origin, waiter, count });
                }
                None => shard.leader().filter(|_| !shard.is_elected()),
            },
            (None, proxy) => proxy.and_then(Proxy::leader),
        };
        let (shard, number, origin) = (id, waiter.0, origin.0);
        let letter = Letter::Count { shard, number, origin, index };
        self.pending.letters.extend(leader.map(|leader| (leader, letter)));
    }

    /// Old versions here could go, if a keyspace's safe point rose.
    fn raise(&mut self, raise: Raise) {
        let (clock, is_full) = (self.clock.clone(), self.is_full);
        if let Some((shard, pending)) = self.touch_here(SYSTEM) {
            shard.raise(None, raise, &clock, is_full, pending);
        } else if let Some(proxy) = self.away.get(&SYSTEM) {
            proxy.raise(raise, &mut self.pending);
        }
    }

    pub(super) fn refuse(&mut self, shard: ShardId, origin: Origin, waiters: Vec<Waiter>) {
        let is_away = self.away.contains_key(&shard);
        if self.absorbed.contains_key(&shard) {
            // Whoever waits looks again whose it is.
            let go = |waiter| Answer::Go { origin, waiter };
            return self.pending.answers.extend(waiters.into_iter().map(go));
        }
        let why = if is_away { NotDone::Lags } else { NotDone::NoSuchShard };
        self.pending.answers.push(Answer::NotDone { origin, waiters, why });
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.all_are_due = true;
        self.losses.tick(self.now);
        if self.ticks.is_multiple_of(TELL_TICKS) {
            self.tell_of_quarantined();
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
            if matches!(refused, Refused::LostLog { .. }) {
                let mut pending = std::mem::take(&mut self.pending);
                self.has_merged = true;
                self.end_replica(id, Unfit::LostLog, &mut pending);
                self.pending = pending;
            }
        }
    }

    fn letter(&mut self, from: NodeId, letter: Letter) {
        let (id, now, clock) = (letter.shard(), self.now, self.clock.clone());
        let is_full = self.is_full;
        self.has_merged |= matches!(letter, Letter::Merge { .. });
        if let Letter::NotLed { known: Some(known), .. } = &letter {
            self.pending.known.push((**known).clone());
        }
        if let Some((shard, pending)) = self.touch_here(id) {
            shard.letter(from, letter, now, &clock, is_full, pending);
        } else if let Some(what) = letter.asks() {
            let known = self.away.get(&id).and_then(Proxy::known).cloned().map(Box::new);
            self.pending.letters.push((from, Letter::NotLed { shard: id, what, known }));
        } else if let Some((proxy, pending)) = self.touch_away(id) {
            proxy.letter(from, letter, now, pending);
        }
    }

    fn create(&mut self, start: ShardStart) {
        let (id, birth, is_born) = {
            let state = start.view.read();
            (state.descriptor.shard, state.birth_record(), state.applied_index > 0)
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
            push(&mut self.pending.records, id, record::SHARD_CREATED, &[&birth]);
        } else {
            let replica = start.replica.0.to_le_bytes();
            push(&mut self.pending.records, id, record::REPLICA_CREATED, &[&replica, &birth]);
        }
        let mut shard = self.start(start);
        shard.begin();
        if let Some(mut proxy) = self.away.remove(&id) {
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
    fn hears_of(&mut self, known: &Known) {
        let id = known.shard();
        if let Some(shard) = self.shards.get(&id) {
            if shard.is_out(known) {
                let mut pending = std::mem::take(&mut self.pending);
                self.has_merged = true;
                self.end_replica(id, Unfit::Removed, &mut pending);
                self.pending = pending;
            } else {
                return;
            }
        }
        let now = self.now;
        if let Some(proxy) = self.away.get_mut(&id) {
            proxy.told(known, now);
        }
    }

    fn drop_shard(&mut self, id: ShardId) {
        if let Some(mut proxy) = self.away.remove(&id) {
            proxy.abandon(&mut self.pending);
        }
        if self.ended_replicas.remove(&id).is_some() {
            push(&mut self.pending.records, id, record::SHARD_DROPPED, &[]);
        }
        // Also if it has not begun: it may be about to.
        self.ended.insert(id);
        let Some(mut shard) = self.shards.remove(&id) else { return };
        self.gone = self.gone.and(shard.tally(self.now));
        push(&mut self.pending.records, id, record::SHARD_DROPPED, &[]);
        shard.abandon(&mut self.pending);
    }
}

//! What a node does in a millisecond: it reads its clock, ticks, does a few steps in random order,
//! and sends its messages.

use node::replica::{ReplicaComparison, ReplicaEndReason};

use super::attacker::AlteredFrame;
use super::{Plant, TICK_MS, World};
use crate::check::Violation;
use crate::machine::control::Outcomes;
use crate::machine::rounds::Progress;
use crate::machine::{Machine, StepFailure};

/// Planted: how long after a pause its ticks are made up.
const BURST_AFTER_MS: u64 = 5;
/// How long a round of checkpoints waits when there was no room for the last.
const ROUND_AGAIN_MS: u64 = 100;
/// More than a node has to do in a millisecond.
const ALL_ACTIONS: u64 = 100_000;

impl World {
    /// What a node does in a millisecond.
    pub(super) fn run_node(&mut self, at: usize) -> Result<(), Violation> {
        if self.now_ms < self.node_slots[at].awake_at {
            return Ok(());
        }
        if self.node_slots[at].machine.is_none() {
            return self.start(at);
        }
        if self.ends_for_its_version(at)? {
            return Ok(());
        }
        self.set_clocks(at);
        self.tick(at);
        self.tick_coordinator(at);
        if self.now_ms == self.node_slots[at].awake_at && !self.calm {
            self.look_at(at);
        }
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        if let Err(error) = machine.install_arrived() {
            return self.node_failed(at, &error);
        }
        let actions = match self.profile.is_exact {
            true => ALL_ACTIONS,
            false => self.rng.between(1, self.profile.actions_max),
        };
        for _ in 0..actions {
            match self.act(at) {
                Ok(true) => {
                    self.counts.node_steps += 1;
                    self.follow_sent_on(at);
                }
                Ok(false) => break,
                Err(StepFailure::Broken(violation)) => return Err(violation),
                Err(StepFailure::Fatal(error)) => return self.node_failed(at, &error),
            }
        }
        self.run_caches(at)?;
        self.run_travellers(at)?;
        self.run_feeds(at)?;
        self.run_volumes(at)?;
        self.send(at);
        Ok(())
    }

    /// Sets a node's clocks, before it does anything: in the millisecond in which it wakes, a
    /// client may ask it before its own steps.
    pub(super) fn set_clocks(&mut self, at: usize) {
        let now_ms = self.now_ms;
        let seat = &mut self.node_slots[at];
        let boot = seat.boot(now_ms);
        let Some(machine) = seat.machine.as_mut() else { return };
        machine.elapsed_ms = now_ms - seat.started_at;
        machine.boot = boot;
    }

    /// Ticks when it is time: once, however late it is.
    pub(super) fn tick(&mut self, at: usize) {
        let planted = self.has(Plant::BurstTicks);
        let seat = &mut self.node_slots[at];
        if let Some((_, nanos)) = seat.burst.take_if(|(from_ms, _)| self.now_ms >= *from_ms) {
            seat.boot_offset += nanos;
            self.set_clocks(at);
            let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
            (0..nanos / 1_000_000 / TICK_MS).for_each(|_| machine.tick());
        }
        let seat = &mut self.node_slots[at];
        if self.now_ms >= seat.next_tick {
            let missed_ms = self.now_ms - seat.next_tick;
            if planted && missed_ms > TICK_MS {
                // First comes what has come meanwhile.
                seat.burst = Some((self.now_ms + BURST_AFTER_MS, missed_ms * seat.rate_ppm));
            }
            seat.next_tick = self.now_ms + TICK_MS;
            seat.machine.as_mut().expect("the node runs").tick();
            self.follow_sent_on(at);
        }
    }

    /// What shards have turned away is on its way to others, or was refused.
    pub(super) fn follow_sent_on(&mut self, at: usize) {
        let Some(machine) = self.node_slots[at].machine.as_mut() else { return };
        let Outcomes { answers, changed, events, replies } = std::mem::take(&mut machine.outcomes);
        let on = std::mem::take(&mut machine.sent_on);
        let inherited = std::mem::take(&mut machine.inherited);
        let (node, given_up) = (machine.node(), std::mem::take(&mut machine.given_up));
        for shard in given_up {
            self.counts.given_up += 1;
            self.counts.ordered_given_up += u64::from(self.profile.is_ordered);
            self.agreement.absorbed(node, shard);
        }
        self.follow_coordinator(at);
        on.into_iter().for_each(|(waiter, shard)| self.sent_on(waiter, shard));
        inherited.into_iter().for_each(|(waiter, shard)| self.is_inherited(waiter, shard));
        for event in events {
            self.trace.event(format_args!("node {}: {event}", event.node));
            self.count_decided(&event.what);
            self.show(event);
        }
        changed.into_iter().for_each(|keyspace| self.keyspace_changed(at, &keyspace));
        answers.into_iter().for_each(|answer| self.answered(answer));
        replies.into_iter().for_each(|(id, reply)| self.replied(id, reply));
    }

    /// One thing; false if there is nothing to do.
    fn act(&mut self, at: usize) -> Result<bool, StepFailure> {
        let (reads, may_ask) = (self.clients.ready(at), self.may_ask(at));
        let has_script_task = self.has_script_task(at);
        let (wide, may_ask_wide) = (self.ready_wide(at), self.may_ask_wide(at));
        let seat = &mut self.node_slots[at];
        let machine = seat.machine.as_mut().expect("the node runs");
        let executors = 0..machine.executors.len();
        let busy: Vec<usize> = executors.filter(|executor| machine.is_busy(*executor)).collect();
        let sync_ends = machine.log.is_syncing() && self.now_ms >= seat.sync_ends_at;
        let streams = machine.due_streams();
        // A state that has come whole waits for a round to end, and the next round for it.
        let may_begin = self.now_ms >= seat.round_at && !machine.streams.has_complete();
        let rounds = self.profile.checkpoints && (machine.is_checkpointing() || may_begin);
        let rounds = rounds || machine.is_installing();
        let on = |possible: bool, weight: u64| if possible { weight } else { 0 };
        let weights = [
            on(!busy.is_empty(), 40),
            on(machine.log.wants_sync(), 10),
            on(sync_ends, 20),
            on(machine.log.wants_segment(), 2),
            on(machine.has_news(), 12),
            on(!reads.is_empty(), 20),
            on(may_ask, 10),
            on(rounds, if machine.is_checkpointing() { 6 } else { 1 }),
            on(!machine.digests.is_empty(), 3),
            on(self.profile.collection, 1),
            on(!streams.is_empty(), 3),
            on(!wide.is_empty(), 20),
            on(may_ask_wide, 10),
            on(has_script_task, 20),
        ];
        if weights.iter().all(|weight| *weight == 0) {
            return Ok(false);
        }
        match self.rng.weighted(&weights) {
            0 => self.step_an_executor(at, &busy)?,
            1 => self.begin_sync(at)?,
            2 => self.machine(at).end_sync()?,
            3 => self.machine(at).log.make_segment()?,
            4 => self.machine(at).step_control(),
            5 => self.try_a_read(at, &reads)?,
            6 => self.ask(at),
            8 => self.machine(at).step_digest(),
            9 => self.keep_versions(at),
            10 => self.step_a_stream(at, &streams)?,
            11 => self.continue_multi_shard(at, &wide),
            12 => self.send_multi_shard(at),
            13 => self.step_scripts(at),
            _ => self.step_round(at)?,
        }
        Ok(true)
    }

    fn machine(&mut self, at: usize) -> &mut Machine {
        self.node_slots[at].machine.as_mut().expect("the node runs")
    }

    /// An executor takes some inputs, or appends.
    fn step_an_executor(&mut self, at: usize, busy: &[usize]) -> Result<(), StepFailure> {
        let seat = &mut self.node_slots[at];
        let machine = seat.machine.as_mut().expect("the node runs");
        let executor = *self.rng.pick(busy);
        let inputs_max = self.rng.between(1, 12) as usize;
        let mut witness = self.agreement.of(seat.node);
        let answers = machine.step_executor(executor, inputs_max, &mut witness, &mut self.trace)?;
        for (shard, why) in std::mem::take(&mut machine.ended) {
            match why {
                ReplicaEndReason::Removed => self.counts.removals += 1,
                _ => self.counts.quarantines += 1,
            }
            self.agreement.ended(seat.node, shard);
        }
        let findings = std::mem::take(&mut machine.findings);
        self.judge(findings)?;
        self.look_for_leases(at)?;
        answers.into_iter().for_each(|answer| self.answered(answer));
        self.forget_sessions(at);
        self.unfreeze_undecided(at);
        Ok(())
    }

    /// A sync begins; when it may end is drawn, too.
    fn begin_sync(&mut self, at: usize) -> Result<(), StepFailure> {
        let seat = &mut self.node_slots[at];
        let machine = seat.machine.as_mut().expect("the node runs");
        machine.log.begin_sync(self.rng.one_in(2))?;
        let slow = self.rng.one_in(self.profile.slow_sync_in);
        let millis = match slow {
            true => self.rng.between(20, 400),
            false if self.profile.is_exact => 0,
            false => self.rng.below(3),
        };
        seat.sync_ends_at = self.now_ms + millis.max(seat.sync_ms_min);
        Ok(())
    }

    fn try_a_read(&mut self, at: usize, reads: &[u64]) -> Result<(), Violation> {
        let op = *self.rng.pick(reads);
        match self.clients.scan_mut(op).is_some() {
            true => self.try_scan(at, op),
            false => {
                self.read(at, op);
                Ok(())
            }
        }
    }

    /// A block of a snapshot goes out, to a member.
    fn step_a_stream(&mut self, at: usize, streams: &[usize]) -> Result<(), Violation> {
        let stream = *self.rng.pick(streams);
        let machine = self.machine(at);
        machine.step_stream(stream);
        let Some(stray) = machine.streams.strays.pop() else { return Ok(()) };
        let text = format!("a block of a state goes to {stray:?}, which is no member");
        Err(Violation::new("R12 snapshots go to members", text))
    }

    /// A round of checkpoints goes on; before it, a state that has come is installed.
    fn step_round(&mut self, at: usize) -> Result<(), StepFailure> {
        let seat = &mut self.node_slots[at];
        let machine = seat.machine.as_mut().expect("the node runs");
        if machine.is_installing() {
            return Ok(machine.install_arrived()?);
        }
        match machine.step_round()? {
            Progress::Full => seat.round_at = self.now_ms + ROUND_AGAIN_MS,
            Progress::Done => seat.round_at = self.now_ms + self.profile.round_every_ms,
            Progress::More | Progress::Busy => {}
        }
        Ok(())
    }

    /// Leaders have compared their replicas.
    pub(super) fn judge(&mut self, findings: Vec<ReplicaComparison>) -> Result<(), Violation> {
        for ReplicaComparison { shard, index, agreeing, differing } in findings {
            self.counts.digests += agreeing.len() as u64;
            if !differing.is_empty() {
                let text = format!(
                    "shard {shard} as of entry {index}: {differing:?} differ from {agreeing:?}"
                );
                return Err(Violation::new("R8 replicas digest the same", text));
            }
        }
        Ok(())
    }

    /// While a lease runs, nobody is elected in a later term. In an earlier one, late votes may yet
    /// elect somebody: a majority is beyond his term, so that he can commit and confirm nothing.
    fn look_for_leases(&mut self, elected_at: usize) -> Result<(), Violation> {
        let new = self.node_slots[elected_at].node;
        for (id, term) in self.agreement.take_elected() {
            for seat in self.node_slots.iter().filter(|seat| seat.node != new) {
                let Some(machine) = &seat.machine else { continue };
                let Some(shard) = machine.shard(id) else { continue };
                let (old, older, now) =
                    (seat.node, shard.term_and_commit().0, seat.boot(self.now_ms));
                let leads = shard.is_leader() && older < term;
                if leads && shard.view().read().serving.at(now) {
                    let text = format!("shard {id}: {new} leads term {term}, {old} term {older}");
                    return Err(Violation::new("R5 nobody is elected while a lease runs", text));
                }
            }
        }
        Ok(())
    }

    /// Puts what a node has to say on its way.
    pub(super) fn send(&mut self, at: usize) {
        let from = self.node_slots[at].node;
        let Some(machine) = self.node_slots[at].machine.as_mut() else { return };
        for packet in machine.take_outgoing() {
            let to = packet.node();
            if self.network.is_open(from, to) && self.attacker.strikes() {
                let mut bytes = packet.encode_frame();
                self.attacker.alter(&mut bytes);
                let arrives = self.now_ms + self.rng.between(0, self.profile.delay_ms_max);
                self.network.send_altered(AlteredFrame { from, to, bytes }, arrives);
                continue;
            }
            self.network.send(from, packet, self.now_ms, &self.profile, self.calm, &mut self.rng);
        }
    }
}

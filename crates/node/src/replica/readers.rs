//! Reads that could not be served outside the executor.
//!
//! The executor releases a reader when, since it came,
//! 1. this replica leads, knows all that was ever committed, and has applied all that it knew to be
//!    committed;
//! 2. a lease was in force, or a majority has confirmed the leader at a later clock: that is what
//!    ReadIndex proves (SAFETY G5, decision 0011);
//! 3. the promise covers its time: the horizon is logged, and what is in flight below that time is
//!    applied (G2).
//!
//! While the disk is full, no horizon is logged, and the promise rises up to the logged one only.
//! That is enough for values that have not expired. A reader that needs more gets an error.
//!
//! A released reader tries again with the time it had, and is served then.

use std::collections::BTreeSet;

use command::NotDone;
use hlc::{Clock, SnapshotRead};
use keyspace::{NodeId, ShardId, Timestamp};
use replication::BootNanos;

use super::Replica;
use crate::executor::{Answer, Caller, Effects, Origin, RoundContext};
use crate::feed::changes::ChangesWanted;
use crate::replica::entry::{Kind, Waiter, operation};
use crate::routing::fetch::{self, FetchRequest, FetchResult};
use crate::rpc::message::{RpcMessage, RpcRequestId};

pub(super) struct Reader {
    at: Timestamp,
    asker: Asker,
    /// When it came.
    since: BootNanos,
    /// Served when this index is applied.
    after: u64,
    /// What is promised to it: its time, or less if the disk is full.
    settled: Timestamp,
    /// A feed's, and there is nothing to tell it yet.
    awaits_changes: bool,
}

impl Reader {
    /// Whether it only waits for something to happen.
    pub(super) fn awaits_changes(&self) -> bool {
        self.awaits_changes
    }
}

/// What readers that are looked at together go by, and what is wanted for them.
struct Round {
    horizon: Timestamp,
    applied: u64,
    /// The index that holds all that may be committed.
    committed: u64,
    /// Nobody else led up to then.
    confirmed: BootNanos,
    /// Who asked before this term began was asked for too early a time.
    floor: Timestamp,
    /// Whether keys may be reserved from everyone.
    may_reserve: bool,
    /// The horizon that is to be logged.
    wanted: Timestamp,
    /// Whether one came after leadership was confirmed.
    unconfirmed: bool,
    /// Nodes whose readers were let go.
    let_go: BTreeSet<NodeId>,
    /// Questions about what this shard no longer has.
    moved: Vec<(NodeId, u64)>,
}

pub(super) enum Asker {
    /// Here.
    Local { origin: Origin, waiter: Waiter },
    /// Another node, for its readers.
    Remote { node: NodeId, number: u64 },
    /// Another node without a fit replica: it gets the values.
    Fetch { node: NodeId, number: u64, want: FetchRequest },
    /// A reader here that gets the values, too.
    Find { origin: Origin, waiter: Waiter, want: FetchRequest, bytes_max: usize },
}

impl Asker {
    /// Whether all up to its time must be settled for it. The others make do with less, if nothing
    /// that they look at has expired since.
    fn is_of_a_time(&self) -> bool {
        match self {
            Asker::Local { .. } => true,
            Asker::Fetch { want, .. } | Asker::Find { want, .. } => want.past_time().is_some(),
            Asker::Remote { .. } => false,
        }
    }

    /// The name of the retried transaction, which is the time of its first attempt.
    fn contends_since(&self) -> Option<Timestamp> {
        match self {
            Asker::Fetch { want: FetchRequest::Keys { reserving, .. }, .. }
            | Asker::Find { want: FetchRequest::Keys { reserving, .. }, .. } => {
                Some((*reserving)?.name)
            }
            _ => None,
        }
    }

    /// The question of a feed, if it is one.
    fn changes_wanted(&self) -> Option<&ChangesWanted> {
        match self {
            Asker::Fetch { want: FetchRequest::Changes(want), .. }
            | Asker::Find { want: FetchRequest::Changes(want), .. } => Some(want),
            _ => None,
        }
    }

    /// Tells it that there is no room in the log for what it needs there.
    fn refuse_for_room(&self, shard: ShardId, effects: &mut Effects) {
        let (node, what) = match *self {
            Asker::Local { origin, waiter } | Asker::Find { origin, waiter, .. } => {
                let (waiters, why) = (vec![waiter], NotDone::DiskFull);
                return effects.answers.push(Answer::NotDone { origin, waiters, why });
            }
            Asker::Remote { node, number } => (node, RpcRequestId::Read { number }),
            Asker::Fetch { node, number, .. } => (node, RpcRequestId::Fetch { number }),
        };
        effects.rpcs.push((node, RpcMessage::NoRoom { shard, what }));
    }
}

impl Replica {
    pub(crate) fn await_read(
        &mut self,
        at: Timestamp,
        origin: Origin,
        waiter: Waiter,
        since: BootNanos,
    ) {
        self.read(at, Asker::Local { origin, waiter }, since);
    }

    /// Somebody here wants to know what it holds, as nodes elsewhere do, and it leads.
    pub(crate) fn find(
        &mut self,
        want: FetchRequest,
        bytes_max: usize,
        Caller { origin, waiter }: Caller,
        now: BootNanos,
        clock: &Clock,
    ) {
        let at = clock.now().max(self.serving.floor());
        let at = want.past_time().unwrap_or(at);
        self.steps.reserve_for(&want, now);
        self.read(at, Asker::Find { origin, waiter, want, bytes_max }, now);
    }

    /// Whether what a node has asked for waits here.
    pub(super) fn is_waiting(&self, from: NodeId, asked: u64) -> bool {
        self.readers.iter().any(|reader| match reader.asker {
            Asker::Fetch { node, number, .. } => (node, number) == (from, asked),
            _ => false,
        })
    }

    /// Whether a retry that is older waits here for one of these keys.
    pub(super) fn is_behind_others(&self, want: &FetchRequest) -> bool {
        let FetchRequest::Keys { keys, reserving: Some(read) } = want else { return false };
        let wants_one = |reader: &Reader| match &reader.asker {
            Asker::Fetch { want: FetchRequest::Keys { keys: wanted, .. }, .. }
            | Asker::Find { want: FetchRequest::Keys { keys: wanted, .. }, .. } => {
                keys.iter().any(|key| wanted.contains(key))
            }
            _ => false,
        };
        self.readers.iter().any(|reader| {
            let is_older = reader.asker.contends_since().is_some_and(|at| at < read.name);
            is_older && wants_one(reader)
        })
    }

    pub(super) fn read(&mut self, at: Timestamp, asker: Asker, since: BootNanos) {
        // Of contenders the one who has tried for longest is looked at first.
        let place = asker.contends_since().and_then(|since| {
            let is_younger = |other: Timestamp| other > since;
            self.readers.iter().position(|r| r.asker.contends_since().is_some_and(is_younger))
        });
        let awaits_changes = asker.changes_wanted().is_some();
        let reader = Reader { at, asker, since, after: 0, settled: at, awaits_changes };
        self.readers.insert(place.unwrap_or(self.readers.len()), reader);
    }

    /// Lets go the readers that may read now; has a horizon logged, unless the disk is full, or
    /// leadership confirmed, for those that need it.
    pub(super) fn serve_readers(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if !self.readers.is_empty() && self.leads() && !self.merges_freeze() {
            self.release_readers(turn, effects);
        }
    }

    #[inline(never)]
    fn release_readers(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        let mut round = self.round_of_readers(turn.now);
        let mut readers = std::mem::take(&mut self.readers);
        readers.retain_mut(|reader| !self.serve_reader(reader, &mut round, turn, effects));
        self.readers = readers;
        self.steps.wake_if_reserved();
        for (node, number) in round.moved {
            self.reply_not_leader(node, RpcRequestId::Fetch { number }, effects);
        }
        // They wait there until the index is applied.
        round.let_go.into_iter().for_each(|node| self.send_commit_index(node));
        if round.wanted > self.leading.horizon_requested.max(round.horizon) {
            self.leading.horizon_requested = round.wanted;
            self.operate(Kind::Horizon, operation(&round.wanted.0.to_le_bytes()), None);
        }
        if round.unconfirmed && self.leading.confirm_requested < turn.now {
            self.leading.confirm_requested = turn.now;
            self.group.confirm();
        }
    }

    fn round_of_readers(&self, now: BootNanos) -> Round {
        let (horizon, applied) = {
            let state = self.state.read();
            (state.horizon, state.applied_index)
        };
        let (committed, confirmed) = match self.is_sole() {
            true => (applied, BootNanos::MAX),
            // A lease says that nobody else led up to its end, which lies ahead.
            false if now < self.group.lease_until() => (self.group.committed(), now),
            false => (self.group.committed(), self.group.confirmed_at()),
        };
        Round {
            horizon,
            applied,
            committed,
            confirmed,
            floor: self.serving.floor(),
            may_reserve: !self.steps.have_commands_waited_long(now),
            wanted: Timestamp::ZERO,
            unconfirmed: false,
            let_go: BTreeSet::new(),
            moved: Vec::new(),
        }
    }

    /// Lets a reader go, or refuses it, if that can be said by now. True if it is done with.
    fn serve_reader(
        &mut self,
        reader: &mut Reader,
        round: &mut Round,
        turn: &RoundContext<'_>,
        effects: &mut Effects,
    ) -> bool {
        if reader.awaits_changes
            && let Some(want) = reader.asker.changes_wanted()
        {
            let at = self.time_of_changes(want, reader.since, turn.now, turn.clock);
            let Some(at) = at else { return false };
            (reader.at, reader.settled, reader.awaits_changes) = (at, at, false);
        }
        if reader.after == 0 && !self.settle_reader(reader, round, turn) {
            reader.asker.refuse_for_room(self.id, effects);
            return true;
        }
        let known = reader.since <= round.confirmed;
        round.unconfirmed |= !known;
        let may_go = reader.after != 0 && reader.after <= round.applied && known;
        if may_go {
            // Promised, and all up to there is applied: who comes later need not ask for it.
            self.serving.close(reader.settled);
        }
        may_go && self.release_reader(reader, round, turn, effects)
    }

    /// Settles after which index a reader is served, if a promise covers its time, or says which
    /// horizon is wanted for that. False if the disk is full, and the reader needs one.
    fn settle_reader(
        &mut self,
        reader: &mut Reader,
        round: &mut Round,
        turn: &RoundContext<'_>,
    ) -> bool {
        let is_of_a_time = reader.asker.is_of_a_time();
        if !is_of_a_time {
            reader.at = reader.at.max(round.floor);
            reader.settled = reader.settled.max(round.floor);
        }
        if turn.is_full && reader.at > round.horizon {
            if is_of_a_time {
                return false;
            }
            reader.settled = round.horizon;
        }
        // A horizon that is under way will do, unless it takes so long that it may be lost.
        let asked = self.leading.horizon_requested;
        let late = Timestamp::from_millis(asked.millis() + hlc::HORIZON_AHEAD_MILLIS / 2);
        match self.promise.read_at(reader.settled, round.horizon, turn.clock) {
            SnapshotRead::Now => reader.after = round.applied.max(round.committed),
            SnapshotRead::AfterIndex(index) => reader.after = index.max(round.committed),
            SnapshotRead::NeedsHorizon(ahead) if reader.settled > asked || ahead > late => {
                round.wanted = round.wanted.max(ahead);
            }
            SnapshotRead::NeedsHorizon(_) => {}
        }
        true
    }

    /// Lets go a reader that may read now, unless what it wants cannot be told yet. True if it is
    /// done with.
    fn release_reader(
        &mut self,
        reader: &Reader,
        round: &mut Round,
        turn: &RoundContext<'_>,
        effects: &mut Effects,
    ) -> bool {
        let shard = self.id;
        match &reader.asker {
            &Asker::Local { origin, waiter } => {
                effects.answers.push(Answer::Retry { origin, waiter });
            }
            &Asker::Remote { node, number } => {
                let (index, now_ms) = (round.applied, reader.at.millis());
                let settled = reader.settled;
                let rpc = RpcMessage::ReadIndexReply { shard, number, index, now_ms, settled };
                effects.rpcs.push((node, rpc));
                round.let_go.insert(node);
            }
            Asker::Fetch { want: want @ FetchRequest::Track { .. }, .. }
            | Asker::Find { want: want @ FetchRequest::Track { .. }, .. } => {
                let node = match reader.asker {
                    Asker::Fetch { node, .. } => Some(node),
                    _ => None,
                };
                let is_owned = fetch::is_owned(&self.state.read(), want);
                let now_ms = turn.clock.now().millis();
                let found = is_owned.then(|| self.register(node, want, turn.now, now_ms, effects));
                self.tell(reader, found, round, effects);
            }
            Asker::Fetch { want: want @ FetchRequest::Changes(_), .. }
            | Asker::Find { want: want @ FetchRequest::Changes(_), .. } => {
                let found = self.find_changes(want, reader.settled.min(reader.at));
                self.tell(reader, found, round, effects);
            }
            Asker::Fetch { want, .. } | Asker::Find { want, .. } => {
                let (steps, at) = (&mut self.steps, reader.at);
                let read = want.keys_read();
                if read.is_some_and(|read| steps.queue.stops_read(read, reader.since, turn.now)) {
                    return false;
                }
                let state = self.state.read();
                let is_owned = fetch::is_owned(&state, want);
                let committed = |id| steps.queue.committed(id);
                let find = || fetch::find(&state, want, at, committed);
                let found = is_owned.then(find).flatten();
                drop(state);
                if is_owned && found.is_none() {
                    return self.refuse_if_late(reader, turn, effects);
                }
                if let Some(read) = read.filter(|_| found.is_some()) {
                    steps.queue.answered(read, round.may_reserve, turn.now);
                }
                self.tell(reader, found, round, effects);
            }
        }
        true
    }

    /// What a reader wants is hidden by a lock: refuses it if it has waited for too long, or
    /// needs more room than there is. True if it is refused.
    fn refuse_if_late(
        &self,
        reader: &Reader,
        turn: &RoundContext<'_>,
        effects: &mut Effects,
    ) -> bool {
        // Settled it is, up to what was promised: else it waits on.
        if reader.settled < reader.at {
            reader.asker.refuse_for_room(self.id, effects);
            return true;
        }
        let is_late = reader.since.saturating_add(turn.request_timeout) <= turn.now;
        if let Asker::Find { origin, waiter, .. } = reader.asker
            && is_late
        {
            let (waiters, why) = (vec![waiter], NotDone::Locked);
            effects.answers.push(Answer::NotDone { origin, waiters, why });
        }
        // A node elsewhere asks again, as long as anyone there waits for it.
        is_late
    }

    /// Tells who wants to be told what was found here; nothing is if it is not this shard's.
    fn tell(
        &self,
        reader: &Reader,
        found: Option<FetchResult>,
        round: &mut Round,
        effects: &mut Effects,
    ) {
        let (shard, at) = (self.id, reader.at);
        match (&reader.asker, found) {
            (Asker::Find { origin, waiter, bytes_max, want }, found) => {
                let (origin, waiter) = (*origin, *waiter);
                // Who is not told all of it looks by itself.
                let is_all = |found: &FetchResult| want.rest(found, *bytes_max).is_none();
                effects.answers.push(match found.filter(is_all) {
                    None => Answer::Retry { origin, waiter },
                    Some(found) => {
                        let (want, found) = (Box::new(want.clone()), Box::new(found));
                        Answer::Fetched { origin, waiter, shard, at, want, found }
                    }
                });
            }
            (&Asker::Fetch { node, number, .. }, Some(found)) => {
                let rpc = RpcMessage::FetchReply { shard, number, at, found };
                effects.rpcs.push((node, rpc));
            }
            // It was split while this waited.
            (&Asker::Fetch { node, number, .. }, None) => round.moved.push((node, number)),
            _ => unreachable!("these two want to be told"),
        }
    }

    /// All readers, when they came and for which time.
    pub(super) fn take_readers(&mut self) -> Vec<(Timestamp, Asker, BootNanos)> {
        self.readers.drain(..).map(|reader| (reader.at, reader.asker, reader.since)).collect()
    }

    pub(super) fn refuse_readers(&mut self, why: NotDone, effects: &mut Effects) {
        for (_, asker, _) in self.take_readers() {
            match asker {
                Asker::Local { origin, waiter } | Asker::Find { origin, waiter, .. } => {
                    effects.answers.push(Answer::NotDone { origin, waiters: vec![waiter], why });
                }
                Asker::Remote { node, number } => {
                    self.reply_not_leader(node, RpcRequestId::Read { number }, effects);
                }
                Asker::Fetch { node, number, .. } => {
                    self.reply_not_leader(node, RpcRequestId::Fetch { number }, effects);
                }
            }
        }
    }
}

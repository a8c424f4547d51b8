//! The state machine of membership: inputs, effects, and timers.
//!
//! Every input brings the time; effects are appended to a list that the driver empties. After every
//! input `settle` compares the detector's view with what the driver was told, and reports the
//! difference. News is made nowhere else.

use std::collections::BTreeMap;

use keyspace::codec::Reader;
use keyspace::{DecodeError, NodeId};

use crate::facts::{Facts, INCARNATION_MAX, Record, RecordBody, Stamp};
use crate::rng::Rng;
use crate::swim::{Detector, GOSSIP_NANOS, Id, Liveness, NodeView};
use crate::view::{Effect, ForgetError, FrameError, Member, News, State};
use crate::wire::{Frame, RecordFrames};

/// How often a digest goes to a random live node, in nanoseconds.
pub const DIGEST_NANOS: u64 = 1_000_000_000;
/// How often a digest goes to a random node that is down, in nanoseconds.
pub const DOWN_DIGEST_NANOS: u64 = 2_000_000_000;
/// How often a node dials its seeds while it knows no other, in nanoseconds.
pub const DIAL_NANOS: u64 = 1_000_000_000;
/// If an input comes so long after the one before, in nanoseconds, this process has slept.
pub const SLEPT_NANOS: u64 = 1_500_000_000;
/// How long a node remembers that another was forgotten, in nanoseconds.
pub const FORGOTTEN_NANOS: u64 = 3_600 * 1_000_000_000;
/// No more nodes than this are known at once; further ones are not heard.
pub const NODES_MAX: usize = 1024;
/// No more seeds than this are dialled; further ones are not used.
pub const SEEDS_MAX: usize = 16;

/// How often a leaving node says so, once a [`GOSSIP_NANOS`].
const FAREWELLS: u8 = 4;
/// How many hear each farewell, at most.
const FAREWELL_NODES_MAX: usize = 64;

/// A node's line in the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) record: Record,
    /// The state that was reported to the driver; `None`: nothing, or that the node is forgotten.
    pub(crate) reported: Option<State>,
    pub(crate) incarnation: u64,
    pub(crate) since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Here,
    /// So many farewells are yet to be said.
    Leaving(u8),
    Gone,
}

/// All that one node knows of the others. See the front page.
pub struct Membership {
    pub(crate) me: NodeId,
    pub(crate) now: u64,
    pub(crate) detector: Detector,
    /// All whose record is known, ourselves too.
    pub(crate) table: BTreeMap<NodeId, Row>,
    pub(crate) rng: Rng,
    /// Records to be told without being asked, and how often yet.
    pub(crate) gossip_queue: BTreeMap<NodeId, u8>,
    /// Where the next digest begins, if not all fit one.
    pub(crate) cursor: NodeId,
    phase: Phase,
    seeds: Vec<String>,
    digest_at: u64,
    recall_at: u64,
    dial_at: u64,
    gossip_at: u64,
    refuted_at: u64,
    /// If we lack a record: the earliest time to ask again.
    pub(crate) ask_at: u64,
    /// If one that is down speaks: the earliest time to tell it so again.
    contact_down_at: u64,
}

impl Membership {
    /// A node of its own, which knows nobody yet.
    ///
    /// `incarnation` must be above that of every earlier start (the wall clock in ms is);
    /// `seed` feeds every random choice.
    ///
    /// # Errors
    /// If the facts break a limit ([`Facts::check`]) or the incarnation [`INCARNATION_MAX`].
    pub fn new(
        node: NodeId,
        incarnation: u64,
        facts: Facts,
        now: u64,
        seed: u64,
    ) -> Result<Self, DecodeError> {
        facts.check()?;
        if incarnation > INCARNATION_MAX {
            return Err(DecodeError::Field { what: "incarnation" });
        }
        let mut rng = Rng::new(seed ^ node.0);
        let detector = Detector::new(Id { node, incarnation }, now, Rng::new(rng.draw()));
        let stamp = Stamp { incarnation, version: 1 };
        let record = Record { node, stamp, body: RecordBody::Active(facts) };
        let row = Row { record, reported: Some(State::Alive), incarnation, since: now };
        // Nodes that start together need not speak together.
        let digest_at = now + rng.draw() % DIGEST_NANOS;
        let recall_at = now + rng.draw() % DOWN_DIGEST_NANOS;
        Ok(Self {
            me: node,
            now,
            detector,
            table: BTreeMap::from([(node, row)]),
            rng,
            gossip_queue: BTreeMap::new(),
            cursor: NodeId(0),
            phase: Phase::Here,
            seeds: Vec::new(),
            digest_at,
            recall_at,
            dial_at: now,
            gossip_at: now,
            refuted_at: now,
            ask_at: now,
            contact_down_at: now,
        })
    }

    // ---- what is known ----

    /// This node's id.
    pub fn node(&self) -> NodeId {
        self.me
    }

    /// This node's present incarnation.
    pub fn incarnation(&self) -> u64 {
        self.own().record.stamp.incarnation
    }

    /// A node that is or was a member; ourselves too. `None` if it is unknown or forgotten.
    pub fn member(&self, node: NodeId) -> Option<Member<'_>> {
        self.table.get(&node).and_then(Row::member)
    }

    /// All members, ourselves too, in order of id.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        self.table.values().filter_map(Row::member)
    }

    /// All members in the order of joining (then of id); the first hold the first replicas.
    pub fn by_joining(&self) -> Vec<Member<'_>> {
        let mut members: Vec<_> = self.members().collect();
        members.sort_by_key(|member| (member.facts.joined_at, member.node));
        members
    }

    /// How new the facts of a node are.
    pub fn stamp(&self, node: NodeId) -> Option<Stamp> {
        self.table.get(&node).map(|row| row.record.stamp)
    }

    /// How often the failure detector complained of an inner error: for a metric; should be 0.
    pub fn complaints(&self) -> u64 {
        self.detector.complaints()
    }

    /// When [`Self::tick`] is next due, in the driver's nanoseconds; `None` after leaving.
    pub fn next_deadline(&self) -> Option<u64> {
        match self.phase {
            Phase::Gone => None,
            Phase::Leaving(_) => Some(self.gossip_at),
            Phase::Here => {
                let mut at = self.digest_at.min(self.recall_at);
                at = at.min(self.detector.deadline().unwrap_or(u64::MAX));
                if !self.gossip_queue.is_empty() || self.has_suspects() {
                    at = at.min(self.gossip_at);
                }
                if self.wants_to_dial() {
                    at = at.min(self.dial_at);
                }
                Some(at)
            }
        }
    }

    /// Our record as bytes, for the handshake; the other side gives it to [`Self::connected`].
    pub fn introduction(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.own().record.encode(&mut out);
        out
    }

    // ---- inputs ----

    /// The time is now `now`. Does what is due; a late or early call loses nothing.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Effect>) {
        self.advance(now);
        match self.phase {
            Phase::Gone => {}
            Phase::Leaving(left) => {
                if self.now >= self.gossip_at {
                    self.gossip_at = self.now + GOSSIP_NANOS;
                    self.farewell(out);
                    self.phase = if left > 1 { Phase::Leaving(left - 1) } else { Phase::Gone };
                }
            }
            Phase::Here => {
                self.detector.fire(self.now);
                self.run_due_timers(out);
                self.settle(None, out);
            }
        }
    }

    /// A frame has come over the link from `from`.
    ///
    /// # Errors
    /// [`FrameError`] if it makes no sense; the rest of the state is as before.
    pub fn step(
        &mut self,
        now: u64,
        from: NodeId,
        frame: &[u8],
        out: &mut Vec<Effect>,
    ) -> Result<(), FrameError> {
        self.advance(now);
        if self.phase != Phase::Here || from == self.me {
            return Ok(());
        }
        let frame = Frame::decode(frame).map_err(|source| FrameError::Decode { from, source })?;
        let result = match frame {
            Frame::Swim(packet) => {
                self.contact_down_node(from, out);
                self.detector
                    .receive(self.now, from, packet)
                    .map_err(|source| FrameError::Packet { from, source: Box::new(source) })
            }
            Frame::Digest(digest) => {
                self.take_digest(from, &digest, out);
                Ok(())
            }
            Frame::Records(records) => {
                records.into_iter().for_each(|record| self.take_record(record, out));
                Ok(())
            }
        };
        self.settle(Some(from), out);
        result
    }

    /// Dials these addresses (`host:port`) until a live node is known, and again whenever none is.
    /// The first [`SEEDS_MAX`] count.
    pub fn join(&mut self, now: u64, seeds: Vec<String>, out: &mut Vec<Effect>) {
        self.advance(now);
        self.seeds = seeds;
        self.seeds.truncate(SEEDS_MAX);
        self.dial_at = self.now;
        self.tick(now, out);
    }

    /// A link is up, whichever node opened it; its handshake brought the other's
    /// [`Self::introduction`].
    ///
    /// # Errors
    /// [`FrameError`] if the introduction is no such thing, or another's. Close the link.
    pub fn connected(
        &mut self,
        now: u64,
        node: NodeId,
        introduction: &[u8],
        out: &mut Vec<Effect>,
    ) -> Result<(), FrameError> {
        self.advance(now);
        if self.phase != Phase::Here {
            return Ok(());
        }
        let mut reader = Reader::new(introduction);
        let record = Record::decode(&mut reader)
            .and_then(|record| reader.end().map(|()| record))
            .map_err(|source| FrameError::Decode { from: node, source })?;
        let at_work = matches!(record.body, RecordBody::Active(_));
        if record.node != node || node == self.me || !at_work {
            return Err(FrameError::Introduction { from: node });
        }
        let incarnation = record.stamp.incarnation;
        self.take_record(record, out);
        if self.table.contains_key(&node) {
            let sight = NodeView { incarnation, round: 0, liveness: Liveness::Alive };
            self.detector.hear(self.now, node, sight);
        }
        self.send_digest(node, out);
        self.settle(Some(node), out);
        Ok(())
    }

    /// We have something new to tell about ourselves. Load and clock alone travel with the next
    /// digests; anything else at once.
    ///
    /// # Errors
    /// If the facts break a limit ([`Facts::check`]); the old ones stand.
    pub fn update_facts(
        &mut self,
        now: u64,
        facts: Facts,
        out: &mut Vec<Effect>,
    ) -> Result<(), DecodeError> {
        self.advance(now);
        facts.check()?;
        let own = self.own_mut();
        let before = own.record.facts().expect("we tell of ourselves");
        if *before == facts || !matches!(own.record.body, RecordBody::Active(_)) {
            return Ok(());
        }
        let matters = before.differs_in_substance(&facts);
        own.record.stamp.version += 1;
        own.record.body = RecordBody::Active(facts);
        if matters {
            self.queue_gossip(self.me);
            self.tick(now, out);
        }
        Ok(())
    }

    /// Leaves for good, saying so a few times in the next second (until [`Self::next_deadline`] is
    /// `None`). From now on nothing is answered; to come back, begin anew.
    pub fn leave(&mut self, now: u64, out: &mut Vec<Effect>) {
        self.advance(now);
        if self.phase != Phase::Here {
            return;
        }
        let since = self.now;
        let own = self.own_mut();
        own.record.stamp.version += 1;
        own.record.body =
            RecordBody::Left(own.record.facts().cloned().expect("we tell of ourselves"));
        (own.reported, own.since) = (Some(State::Left), since);
        self.phase = Phase::Leaving(FAREWELLS);
        self.gossip_at = self.now;
        self.tick(now, out);
    }

    /// Strikes a node from every list. It may come back if it is not dead after all.
    ///
    /// # Errors
    /// [`ForgetError`] if it is alive or unknown.
    pub fn forget(
        &mut self,
        now: u64,
        node: NodeId,
        out: &mut Vec<Effect>,
    ) -> Result<(), ForgetError> {
        self.advance(now);
        let row = self.table.get_mut(&node).ok_or(ForgetError::Unknown(node))?;
        match row.reported {
            Some(State::Down | State::Left) => {}
            Some(State::Alive | State::Suspect) => return Err(ForgetError::Alive(node)),
            None => return Err(ForgetError::Unknown(node)),
        }
        let incarnation = row.incarnation.max(row.record.stamp.incarnation);
        let stamp = Stamp { incarnation, version: Stamp::FORGOTTEN };
        self.take_record(Record { node, stamp, body: RecordBody::Forgotten }, out);
        self.settle(None, out);
        Ok(())
    }

    // ---- within ----

    /// Time passes. A long silence of the driver was our own sleep, not everybody's: deadlines
    /// move with it, or we would take all others for down on waking.
    fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        if passed > SLEPT_NANOS {
            self.detector.put_off(passed);
        }
    }

    fn run_due_timers(&mut self, out: &mut Vec<Effect>) {
        if self.now >= self.digest_at {
            self.digest_at = self.now + DIGEST_NANOS;
            let mut active = self.detector.active();
            if let Some(peer) = self.rng.choose(&mut active, 1).pop() {
                self.send_digest(peer, out);
            }
            self.drop_forgotten();
        }
        if self.now >= self.recall_at {
            self.recall_at = self.now + DOWN_DIGEST_NANOS;
            let down = self.table.values().filter(|row| row.reported == Some(State::Down));
            let mut down: Vec<NodeId> = down.map(|row| row.record.node).collect();
            if let Some(peer) = self.rng.choose(&mut down, 1).pop() {
                self.send_digest(peer, out);
            }
        }
        if self.now >= self.gossip_at && (!self.gossip_queue.is_empty() || self.has_suspects()) {
            self.gossip_at = self.now + GOSSIP_NANOS;
            self.gossip_queued(out);
            self.send_suspicions(out);
        }
        if self.now >= self.dial_at && self.wants_to_dial() {
            self.dial_at = self.now + DIAL_NANOS;
            let dials = self.seeds.iter().map(|address| Effect::Dial { address: address.clone() });
            out.extend(dials);
        }
    }

    fn wants_to_dial(&self) -> bool {
        !self.seeds.is_empty() && self.detector.active().is_empty()
    }

    fn has_suspects(&self) -> bool {
        self.table.values().any(|row| row.reported == Some(State::Suspect))
    }

    /// A packet of one that is down: it does not know, and its packets are not heard.
    fn contact_down_node(&mut self, from: NodeId, out: &mut Vec<Effect>) {
        let reported = self.table.get(&from).and_then(|row| row.reported);
        if reported == Some(State::Down) && self.now >= self.contact_down_at {
            self.contact_down_at = self.now + GOSSIP_NANOS;
            self.send_suspicion(from, out);
        }
    }

    fn farewell(&mut self, out: &mut Vec<Effect>) {
        let mut frames = RecordFrames::default();
        frames.put(&self.own().record);
        let bytes = frames.finish().pop().expect("one record, one frame");
        let mut active = self.detector.active();
        for to in self.rng.choose(&mut active, FAREWELL_NODES_MAX) {
            out.push(Effect::Send { to, bytes: bytes.clone() });
        }
    }

    /// Goes on under a higher incarnation than `above`. At most once in a while, lest two
    /// processes of one id shout at each other; who is not heard will be told again.
    pub(crate) fn refute(&mut self, above: u64, out: &mut Vec<Effect>) -> bool {
        if self.now < self.refuted_at {
            return false;
        }
        self.refuted_at = self.now + GOSSIP_NANOS;
        let incarnation = above.max(self.incarnation()).saturating_add(1);
        if incarnation > INCARNATION_MAX {
            return false;
        }
        self.detector.begin_incarnation(self.now, incarnation);
        let since = self.now;
        let own = self.own_mut();
        own.record.stamp = Stamp { incarnation, version: 1 };
        (own.incarnation, own.since) = (incarnation, since);
        self.queue_gossip(self.me);
        out.push(Effect::News(News::Refuted(incarnation)));
        true
    }

    fn drop_forgotten(&mut self) {
        let old = self.now.saturating_sub(FORGOTTEN_NANOS);
        let sights = self.detector.sights();
        let (now, detector) = (self.now, &mut self.detector);
        self.table.retain(|node, row| {
            let stays = !matches!(row.record.body, RecordBody::Forgotten) || row.since > old;
            if let (false, Some(sight)) = (stays, sights.get(node)) {
                detector.forget(now, *node, sight.incarnation);
            }
            stays
        });
    }

    pub(crate) fn own(&self) -> &Row {
        self.table.get(&self.me).expect("we know ourselves")
    }

    fn own_mut(&mut self) -> &mut Row {
        self.table.get_mut(&self.me).expect("we know ourselves")
    }
}

impl Row {
    fn member(&self) -> Option<Member<'_>> {
        Some(Member {
            node: self.record.node,
            incarnation: self.incarnation,
            facts: self.record.facts()?,
            state: self.reported?,
            since: self.since,
        })
    }
}

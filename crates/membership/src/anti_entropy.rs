//! How do two nodes compare what they know, and how does news spread?
//!
//! ```text
//!   A ── digest: 3 up stamp 7.2, 5 down stamp 4.9 … ──► B   B believes what is newer about lives,
//!   A ◄── records that A lacks, digest as answer ────── B   sends its newer records; so does A
//!   A ── records that B lacks ────────────────────────► B
//! ```
//!
//! A digest covers a range of node ids, so that "not in it" means "not known". If two nodes take
//! each other for down, each believes the other only about itself, and the smaller side gives way.

use std::collections::BTreeMap;

use keyspace::NodeId;

use crate::facts::{Record, RecordBody, Stamp};
use crate::machine::{Membership, NODES_MAX, Row};
use crate::swim::{Liveness, NodeView};
use crate::view::{Effect, News, State};
use crate::wire::{DIGEST_ENTRIES_MAX, Digest, Entry, RecordFrames};

/// In how many rounds a node gossips a new record.
const GOSSIP_ROUNDS: u8 = 3;
/// To how many nodes in each round.
const GOSSIP_FANOUT: usize = 3;
/// How many suspects are asked in a round.
const SUSPECTS_NOTIFIED_MAX: usize = 16;
/// How many frames of records answer one digest; the next digest brings more.
const RECORD_FRAMES_MAX: usize = 8;

impl Membership {
    /// Begins an exchange with `to` over the next range of ids.
    pub(crate) fn send_digest(&mut self, to: NodeId, out: &mut Vec<Effect>) {
        let (first, last) = (self.cursor, NodeId(u64::MAX));
        let digest = self.digest(to, first, last, false);
        self.cursor = match digest.last.0.checked_add(1) {
            Some(next) => NodeId(next),
            None => NodeId(0),
        };
        out.push(Effect::Send { to, bytes: digest.encode() });
    }

    /// What we know from `first` to at most `last`; less if that is too much for a digest.
    fn digest(&self, to: NodeId, first: NodeId, last: NodeId, answer: bool) -> Digest {
        let sights = self.detector.sights();
        let active = sights.values().filter(|sight| sight.is_active()).count() as u64;
        let mut digest = Digest { answer, active, first, last, entries: BTreeMap::new() };
        if first <= last {
            for &node in self.table.range(first..=last).map(|(node, _)| node) {
                digest.entries.insert(node, self.entry(node, &sights));
            }
            for &node in sights.range(first..=last).map(|(node, _)| node) {
                digest.entries.insert(node, self.entry(node, &sights));
            }
        }
        // Two places are reserved for the two nodes that it always names.
        while digest.entries.len() > DIGEST_ENTRIES_MAX - 2 {
            let (node, _) = digest.entries.pop_last().expect("not empty");
            digest.last = NodeId(node.0 - 1);
        }
        digest.entries.insert(self.me, self.entry(self.me, &sights));
        digest.entries.insert(to, self.entry(to, &sights));
        digest
    }

    fn entry(&self, node: NodeId, sights: &BTreeMap<NodeId, NodeView>) -> Entry {
        let stamp = self.table.get(&node).map(|row| row.record.stamp).unwrap_or_default();
        let sight = if node == self.me {
            let (incarnation, round) = (self.incarnation(), self.detector.round());
            Some(NodeView { incarnation, round, liveness: Liveness::Alive })
        } else {
            sights.get(&node).copied()
        };
        Entry { sight, stamp }
    }

    pub(crate) fn take_digest(&mut self, from: NodeId, digest: &Digest, out: &mut Vec<Effect>) {
        let mut sights = self.detector.sights();
        if let Some(entry) = digest.entries.get(&from) {
            self.adopt_liveness(from, *entry, &mut sights);
        }
        let before = sights.get(&from).copied();
        let reborn = match digest.entries.get(&self.me) {
            Some(entry) => self.handle_own_record(from, before, *entry, digest.active, out),
            None => false,
        };
        if before.is_some_and(NodeView::is_active) {
            for (&node, entry) in &digest.entries {
                if node != self.me {
                    self.adopt_liveness(node, *entry, &mut sights);
                }
            }
        }
        self.send_missing_records(from, digest, out);
        if reborn {
            self.send_digest(from, out);
        } else if !digest.answer {
            let answer = self.digest(from, digest.first, digest.last, true);
            out.push(Effect::Send { to: from, bytes: answer.encode() });
        }
    }

    /// Takes over what an entry says of another's life, if it says more than we know.
    fn adopt_liveness(
        &mut self,
        node: NodeId,
        entry: Entry,
        sights: &mut BTreeMap<NodeId, NodeView>,
    ) {
        let Some(reported) = entry.sight else { return };
        let newer = match sights.get(&node) {
            None => sights.len() < NODES_MAX,
            Some(known) if reported.incarnation != known.incarnation => {
                reported.incarnation > known.incarnation
            }
            Some(known) => match reported.liveness {
                Liveness::Alive => known.is_active() && reported.round > known.round,
                Liveness::Down => known.is_active(),
                // Gossip's work: a suspicion that we take from here would have no end of its own.
                Liveness::Suspect => false,
            },
        };
        if newer {
            let liveness = match reported.liveness {
                Liveness::Suspect => Liveness::Alive,
                other => other,
            };
            let sight = NodeView { liveness, ..reported };
            self.detector.hear(self.now, node, sight);
            sights.insert(node, sight);
        }
    }

    /// What another holds of us. Answers whether we were reborn for it.
    fn handle_own_record(
        &mut self,
        from: NodeId,
        sender: Option<NodeView>,
        entry: Entry,
        their_active: u64,
        out: &mut Vec<Effect>,
    ) -> bool {
        let reported = entry.sight;
        let claimed = reported.map_or(0, |sight| sight.incarnation).max(entry.stamp.incarnation);
        if entry.stamp > self.own().record.stamp || claimed > self.incarnation() {
            return self.refute(claimed, out);
        }
        let Some(reported) = reported.filter(|sight| sight.incarnation == self.incarnation())
        else {
            return false;
        };
        match reported.liveness {
            Liveness::Alive => false,
            Liveness::Suspect => {
                if reported.round >= self.detector.round() {
                    self.detector.hear(self.now, self.me, reported);
                }
                false
            }
            Liveness::Down => {
                let mutual = sender.is_some_and(|sight| !sight.is_active());
                let ours = (self.detector.active().len() as u64, self.me);
                (!mutual || (their_active, from) > ours) && self.refute(claimed, out)
            }
        }
    }

    /// Sends the records that are newer here than a digest says they are there.
    fn send_missing_records(&self, to: NodeId, digest: &Digest, out: &mut Vec<Effect>) {
        let mut frames = RecordFrames::default();
        for (node, row) in &self.table {
            let theirs = match digest.entries.get(node) {
                Some(entry) => entry.stamp,
                None if (digest.first..=digest.last).contains(node) => Stamp::default(),
                None => continue,
            };
            // What the other does not know, it need not forget.
            let idle =
                theirs == Stamp::default() && matches!(row.record.body, RecordBody::Forgotten);
            if row.record.stamp > theirs && !idle {
                frames.put(&row.record);
            }
        }
        for bytes in frames.finish().into_iter().take(RECORD_FRAMES_MAX) {
            out.push(Effect::Send { to, bytes });
        }
    }

    /// The newest record wins; gossip passes on what is new here.
    pub(crate) fn take_record(&mut self, record: Record, out: &mut Vec<Effect>) {
        let node = record.node;
        if node == self.me {
            // Nobody speaks for us but an earlier start of ours, or who has forgotten us.
            if record.stamp > self.own().record.stamp {
                self.refute(record.stamp.incarnation, out);
            }
            return;
        }
        let full = self.table.len() >= NODES_MAX;
        let Some(row) = self.table.get_mut(&node) else {
            if !full && !matches!(record.body, RecordBody::Forgotten) {
                let has_left = matches!(record.body, RecordBody::Left(_));
                let incarnation = record.stamp.incarnation;
                let row = Row { record, reported: None, incarnation, since: self.now };
                self.table.insert(node, row);
                if has_left {
                    let sight = NodeView { incarnation, round: 0, liveness: Liveness::Down };
                    self.detector.hear(self.now, node, sight);
                }
                self.queue_gossip(node);
            }
            return;
        };
        if record.stamp <= row.record.stamp {
            return;
        }
        let matters = match (&row.record.body, &record.body) {
            (RecordBody::Active(before), RecordBody::Active(after)) => {
                before.differs_in_substance(after)
            }
            _ => true,
        };
        let reported = row.reported;
        let differ = row.record.facts() != record.facts();
        let forgotten = matches!(record.body, RecordBody::Forgotten);
        row.record = record;
        if forgotten {
            row.reported = None;
            row.since = self.now;
        }
        match reported {
            Some(_) if forgotten => out.push(Effect::News(News::Forgotten(node))),
            Some(_) if differ => out.push(Effect::News(News::Facts(node))),
            _ => {}
        }
        if matters {
            self.queue_gossip(node);
        }
    }

    /// Gossip passes this record on in the next rounds.
    pub(crate) fn queue_gossip(&mut self, node: NodeId) {
        self.gossip_queue.insert(node, GOSSIP_ROUNDS);
    }

    /// Tells what is hot to a few at random.
    pub(crate) fn gossip_queued(&mut self, out: &mut Vec<Effect>) {
        let mut active = self.detector.active();
        if active.is_empty() || self.gossip_queue.is_empty() {
            // A node that joins will get all records anyway.
            self.gossip_queue.clear();
            return;
        }
        let mut frames = RecordFrames::default();
        for node in self.gossip_queue.keys() {
            if let Some(row) = self.table.get(node) {
                frames.put(&row.record);
            }
        }
        let frames = frames.finish();
        for to in self.rng.choose(&mut active, GOSSIP_FANOUT) {
            out.extend(frames.iter().map(|bytes| Effect::Send { to, bytes: bytes.clone() }));
        }
        self.gossip_queue.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
    }

    /// Tells suspects of their suspicion; a live one objects in its answer.
    pub(crate) fn send_suspicions(&mut self, out: &mut Vec<Effect>) {
        let suspects = self.table.values().filter(|row| row.reported == Some(State::Suspect));
        let mut suspects: Vec<NodeId> = suspects.map(|row| row.record.node).collect();
        for to in self.rng.choose(&mut suspects, SUSPECTS_NOTIFIED_MAX) {
            self.send_suspicion(to, out);
        }
    }

    /// Tells a node how we see it, and what we are: a digest of us two only.
    pub(crate) fn send_suspicion(&self, to: NodeId, out: &mut Vec<Effect>) {
        let digest = self.digest(to, NodeId(1), NodeId(0), false);
        out.push(Effect::Send { to, bytes: digest.encode() });
    }
}

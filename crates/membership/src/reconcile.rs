//! Compares the detector's view with what the driver was told, and makes news of the difference.

use keyspace::NodeId;

use crate::facts::RecordBody;
use crate::machine::{Membership, NODES_MAX};
use crate::swim::{GOSSIP_NANOS, Liveness, NodeView};
use crate::view::{Effect, News, State};

impl Membership {
    /// Compares what the detector holds with what the driver was told; tells the difference.
    /// `from` is who sent the input: the one to ask about a node without a record.
    pub(crate) fn settle(&mut self, from: Option<NodeId>, out: &mut Vec<Effect>) {
        let impostor =
            self.detector.claimed_incarnation().filter(|theirs| *theirs > self.incarnation());
        if (impostor.is_some() || self.detector.is_defunct())
            && self.refute(impostor.unwrap_or_default(), out)
            && let Some(from) = from
        {
            self.send_digest(from, out);
        }
        let mut lacking = false;
        let sights = self.detector.sights();
        for (&node, &sight) in &sights {
            match self.settle_one(node, sight, out) {
                Reconciled::Known => {}
                Reconciled::MissingRecord => lacking |= sight.is_active(),
                Reconciled::Refused(sight) => self.refuse(node, sight, sights.len()),
            }
        }
        if let Some(from) = from.filter(|_| lacking && self.now >= self.ask_at) {
            self.ask_at = self.now + GOSSIP_NANOS;
            self.send_digest(from, out);
        }
        let sends = self.detector.take_sends().into_iter();
        out.extend(sends.map(|(to, bytes)| Effect::Send { to, bytes }));
        assert_eq!(self.own().record.stamp.incarnation, self.own().incarnation, "invariant 1");
    }

    fn settle_one(
        &mut self,
        node: NodeId,
        mut sight: NodeView,
        out: &mut Vec<Effect>,
    ) -> Reconciled {
        let full = self.table.len() >= NODES_MAX;
        let Some(row) = self.table.get_mut(&node) else {
            return if full { Reconciled::Refused(sight) } else { Reconciled::MissingRecord };
        };
        let spoken = row.record.stamp.incarnation >= sight.incarnation;
        let gone = spoken && !matches!(row.record.body, RecordBody::Active(_));
        if gone && sight.is_active() {
            sight.liveness = Liveness::Down;
            self.detector.hear(self.now, node, sight);
        }
        let state = match (&row.record.body, sight.liveness) {
            (RecordBody::Forgotten, _) if spoken => return Reconciled::Known,
            (RecordBody::Forgotten, _) => return Reconciled::MissingRecord,
            (_, Liveness::Alive) => State::Alive,
            (_, Liveness::Suspect) => State::Suspect,
            (RecordBody::Left(_), Liveness::Down) if spoken => State::Left,
            (_, Liveness::Down) => State::Down,
        };
        if (row.reported, row.incarnation) != (Some(state), sight.incarnation) {
            row.reported = Some(state);
            row.incarnation = sight.incarnation;
            row.since = self.now;
            out.push(Effect::News(match state {
                State::Alive => News::Up(node),
                State::Suspect => News::Suspect(node),
                State::Down => News::Down(node),
                State::Left => News::Left(node),
            }));
        }
        Reconciled::Known
    }

    /// The table is full: the detector must not grow beyond it either.
    fn refuse(&mut self, node: NodeId, sight: NodeView, known: usize) {
        if known > NODES_MAX {
            let down = NodeView { liveness: Liveness::Down, ..sight };
            self.detector.hear(self.now, node, down);
            self.detector.forget(self.now, node, sight.incarnation);
        }
    }
}

/// What became of one sight.
enum Reconciled {
    /// The driver knows.
    Known,
    /// There is no record of this life yet, so the driver is not told.
    MissingRecord,
    /// There is no room.
    Refused(NodeView),
}

//! Requests without an answer: the client has waited too long, or the node has ended.
//!
//! The simulator learns later, if at all, whether such a request was done: from the place of its
//! entry or batch in the log, which it looks up as long as the node lives.

use node::replica::entry::Waiter;

use super::{Op, Place};
use crate::cluster::World;

impl World {
    /// It may be done, or some of it.
    pub(super) fn note_lost(&mut self, op: Op) {
        let high_ms = op.of_keys().map_or(0, |op| self.agreement.last_ms(op.shard));
        self.clients.note(op, None, high_ms);
    }

    /// Lets clients that have waited too long go on to something else, and resolves the outcomes of
    /// requests whose node has ended, where they are known by now.
    pub(in crate::cluster) fn expire_ops(&mut self) {
        let now_ms = self.now_ms;
        self.clients.events_by.resize(now_ms as usize + 1, self.clients.events);
        let late = |op: &Op| op.gives_up_at <= now_ms && !op.given_up;
        let ops = self.clients.ops.iter().filter(|(_, op)| late(op));
        let numbers: Vec<u64> = ops.map(|(number, _)| *number).collect();
        for number in numbers {
            self.trace.event(format_args!("op {number}: no answer yet"));
            let mut op = self.clients.ops.remove(&number).expect("the entry was found above");
            self.rest(&op);
            // Nobody needs to know what a read would have said.
            if op.is_write() {
                op.given_up = true;
                self.clients.ops.insert(number, op);
            }
        }
        for (op, place) in std::mem::take(&mut self.clients.lost) {
            let shard = op.of_keys().expect("a write").shard;
            let done = match place {
                Place::Batch(session, sequence) => {
                    self.agreement.has_batch(shard, (session, sequence)).then_some(true)
                }
                Place::Entry(index, term) => {
                    self.agreement.term_at(shard, index).map(|found| found == term)
                }
            };
            match done {
                None => self.clients.lost.push((op, place)),
                Some(true) => self.note_lost(op),
                Some(false) if op.is_in_parts() => self.note_lost(op),
                Some(false) => {}
            }
        }
        self.follow_writes();
    }

    /// Remembers where the writes that are under way stand.
    fn follow_writes(&mut self) {
        let waiting = self.clients.ops.iter().filter(|(_, op)| op.is_write());
        let places: Vec<(u64, Option<Place>)> =
            waiting.map(|(number, op)| (*number, self.place_of(*number, op))).collect();
        for (number, place) in places {
            let op = self.clients.ops.get_mut(&number).and_then(Op::of_keys_mut);
            op.expect("the entry was found above").place = place;
        }
    }

    /// How a write stands in the log, if it does. A batch stays the same, wherever it is proposed.
    pub(super) fn place_of(&self, number: u64, op: &Op) -> Option<Place> {
        let at = op.at;
        let op = op.of_keys()?;
        let Some(machine) = self.node_slots[at].machine.as_ref() else { return op.place };
        let Some(shard) = machine.shard(op.shard) else {
            let batch = machine.batch_of(op.shard, Waiter(number));
            return batch.map(|(a, b)| Place::Batch(a, b)).or(op.place);
        };
        let batch = shard.batch_of(Waiter(number)).map(|(a, b)| Place::Batch(a, b));
        let entry = || shard.place_of(Waiter(number)).map(|(a, b)| Place::Entry(a, b));
        match op.place {
            Some(Place::Batch(..)) => batch.or(op.place),
            _ => batch.or_else(entry).or(op.place),
        }
    }

    /// Marks all requests of this node as never to be answered.
    pub(in crate::cluster) fn lose_ops(&mut self, at: usize) {
        let lost = self.clients.ops.iter().filter(|(_, op)| op.at == at);
        let lost: Vec<(u64, Option<Place>)> =
            lost.map(|(number, op)| (*number, self.place_of(*number, op))).collect();
        self.lose_multi_shard(at);
        self.lose_volumes(at);
        self.node_slots[at].machine = None;
        for (number, place) in lost {
            let op = self.clients.ops.remove(&number).expect("the entry was found above");
            self.rest(&op);
            self.trace.event(format_args!("op {number} is lost at {place:?}"));
            self.counts.unknown += u64::from(place.is_some());
            match place {
                Some(place) => self.clients.lost.push((op, place)),
                // Not proposed, and never will be; or applied, and its answer was on its way.
                None if op.is_write() => self.note_lost(op),
                None => {}
            }
        }
    }
}

//! Commands that were sent to a shard that has split meanwhile.
//!
//! The left half refuses such a command when it applies it ([`command::Reply::Moved`]): nothing was
//! done. The node then sends it to the right half for the same client, which does not notice. If
//! the node does not know the new owner yet, the command waits:
//!
//! ```text
//!   applied ──► some replies: Moved ──► rerouted ──► routes name another shard ──► a new batch
//!          └──► the others: answered        └──── not yet: waits (later ones wait behind it)
//! ```
//!
//! Commands of one client for one key stay in order: they come back in order, even if replies of a
//! remote leader do not (`replica::forward`), and the node sends them on in order. A client that
//! learns of the right half earlier waits for its answers before it goes there.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time until routes are right | the request timeout | not done |
//! | memory | what clients may have in flight | they wait |

use std::collections::VecDeque;
use std::sync::Arc;

use keyspace::{Cut, KeyspaceId, ShardId};
use replication::BootNanos;

use crate::executor::{Answer, Effects, Origin};
use crate::replica::entry::{Batch, HEADER_BYTES, Spent, Waiter};
use crate::routing::route::Route;
use command::{NotDone, Reply, Write, codec};

/// A command that a shard has turned away because it has split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReroutedCommand {
    /// Which shard.
    pub shard: ShardId,
    /// The caller.
    pub origin: Origin,
    /// Its waiter.
    pub waiter: Waiter,
    /// Of a flush or fence, the first slot or key that is still to be done, or one before it.
    from: Cut,
    /// The command, as it stands in an entry.
    command: Box<[u8]>,
}

/// A batch is applied: answers what was done, and sorts out what was turned away.
pub(crate) fn answer_applied(
    shard: ShardId,
    origin: Origin,
    spent: Spent,
    replies: Vec<Reply>,
    effects: &mut Effects,
) {
    if !replies.iter().any(|reply| matches!(reply, Reply::Moved { .. })) {
        return effects.answers.push(Answer::Applied { origin, spent, replies, shard });
    }
    let Spent { bytes, waiters } = spent;
    let mut rest = &bytes[HEADER_BYTES..];
    let (mut done, mut kept) = (Vec::new(), Vec::new());
    for (waiter, reply) in waiters.into_iter().zip(replies) {
        let before = rest;
        codec::decode(&mut rest).expect("what was applied is readable");
        match reply {
            Reply::Moved { from } => {
                let command = before[..before.len() - rest.len()].into();
                effects.moved.push(ReroutedCommand { shard, origin, waiter, from, command });
            }
            reply => {
                done.push(waiter);
                kept.push(reply);
            }
        }
    }
    if !done.is_empty() {
        let spent = Spent { bytes, waiters: done };
        effects.answers.push(Answer::Applied { origin, spent, replies: kept, shard });
    }
}

/// Rerouted commands that wait until their shard is known.
#[derive(Debug, Default)]
pub struct PendingReroutes(VecDeque<(ReroutedCommand, BootNanos)>);

/// Commands on their way again.
#[derive(Debug)]
pub struct ReroutedBatch {
    /// To this shard.
    pub shard: ShardId,
    /// For this asker.
    pub origin: Origin,
    /// These.
    pub batch: Batch,
}

impl PendingReroutes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more.
    pub fn add(&mut self, moved: ReroutedCommand, now: BootNanos) {
        self.0.push_back((moved, now));
    }

    /// Takes out the commands whose shard is known by now, in order, and those that have waited for
    /// `request_timeout`. `route` finds the keyspace of a shard; none: the keyspace is dropped.
    pub fn sort_out(
        &mut self,
        route: impl Fn(ShardId) -> Option<Arc<Route>>,
        now: BootNanos,
        request_timeout: u64,
    ) -> (Vec<ReroutedBatch>, Vec<Answer>) {
        let (mut on, mut refused) = (Vec::<ReroutedBatch>::new(), Vec::new());
        let mut waiting = Vec::new();
        for (moved, since) in std::mem::take(&mut self.0) {
            let ReroutedCommand { shard, origin, waiter, .. } = moved;
            let mut refuse = |why| {
                refused.push(Answer::NotDone { origin, waiters: vec![waiter], why });
            };
            let Some(route) = route(shard) else {
                refuse(NotDone::NoSuchShard);
                continue;
            };
            match moved.place(&route) {
                Err(why) => refuse(why),
                // Who turned it away is not asked again, nor is anyone before those that wait.
                Ok(place) if route.shard(place) == shard || waiting.contains(&shard) => {
                    if now >= since.saturating_add(request_timeout) {
                        refuse(NotDone::NotLeader);
                        continue;
                    }
                    waiting.push(shard);
                    self.0.push_back((moved, since));
                }
                Ok(place) => {
                    let to = route.shard(place);
                    let last =
                        on.iter_mut().rfind(|sent| sent.shard == to && sent.origin == origin);
                    let batch = match last.filter(|sent| !sent.batch.is_full()) {
                        Some(sent) => &mut sent.batch,
                        None => {
                            on.push(ReroutedBatch { shard: to, origin, batch: Batch::default() });
                            &mut on.last_mut().expect("it was just pushed").batch
                        }
                    };
                    batch.push(&moved.write(route.keyspace.id), waiter);
                }
            }
        }
        (on, refused)
    }
}

impl ReroutedCommand {
    /// What is to be asked; of a flush or fence, what is left of it.
    fn write(&self, keyspace: KeyspaceId) -> Write<'_> {
        let write = codec::decode(&mut &*self.command).expect("the command was decoded before");
        write.remaining(&self.from, keyspace)
    }

    /// The place of the shard that it is for, as a route says.
    fn place(&self, route: &Route) -> Result<usize, NotDone> {
        let write = self.write(route.keyspace.id);
        if write.is_piece() {
            return Ok(route.place_of_cut(write.beginning().unwrap_or(&self.from)));
        }
        let (mut place, mut crosses) = (None, false);
        write.each_key(&mut |key| {
            let here = route.place_of_key(key);
            crosses |= place.is_some_and(|place| place != here);
            place = Some(here);
        });
        match place {
            Some(place) if !crosses => Ok(place),
            _ => Err(NotDone::CrossShard),
        }
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{
        Arc as RingArc, Catalogue, Generation, KeyHasher, KeyspaceOptions, Slot, slot_of,
    };
    use parking_lot::RwLock;

    use super::*;
    use crate::reshape::bootstrap;
    use crate::routing::route::{ArcClaim, tiles};

    const ASKER: Origin = Origin(3);

    /// The keyspace's first shard, 1, is known to have been cut at 1000, if `known`.
    fn route(is_known: bool) -> Arc<Route> {
        let mut catalogue = Catalogue::default();
        let keyspace = catalogue.create("k", KeyspaceOptions::default()).expect("a name").clone();
        let hasher = KeyHasher::new([1; 16]);
        let arc = RingArc::of_slots(keyspace.id, 1000, 2048);
        let right = ArcClaim { shard: ShardId(90), arc, generation: Generation(2) };
        let known = if is_known { vec![right] } else { Vec::new() };
        let tiles = tiles(&keyspace, &known).into_iter().map(|(shard, arc)| {
            let nothing = bootstrap::first_state(&keyspace, 0, hasher);
            (shard, arc, Arc::new(RwLock::new(nothing)))
        });
        Arc::new(Route::new(keyspace.clone(), hasher, tiles.collect()))
    }

    fn key_in(slots: std::ops::Range<Slot>, number: usize) -> Vec<u8> {
        let keys = (0u32..).map(|n| n.to_string().into_bytes());
        keys.filter(|key| slots.contains(&slot_of(key))).nth(number).expect("there are many")
    }

    fn turned_away(writes: &[Write<'_>], replies: Vec<Reply>) -> (Effects, PendingReroutes) {
        let mut batch = Batch::default();
        for (waiter, write) in (0..).zip(writes) {
            batch.push(write, Waiter(waiter));
        }
        let (bytes, waiters) = batch.into_parts();
        let (mut effects, mut postponed) = (Effects::default(), PendingReroutes::default());
        answer_applied(ShardId(1), ASKER, Spent { bytes, waiters }, replies, &mut effects);
        effects.moved.drain(..).for_each(|moved| postponed.add(moved, 10));
        (effects, postponed)
    }

    #[test]
    fn rerouted_commands_keep_order_and_others_are_answered() {
        let keys = [key_in(0..1000, 0), key_in(1000..2048, 0), key_in(1000..2048, 1)];
        let writes = keys.each_ref().map(|key| Write::Delete { key });
        let moved = || Reply::Moved { from: Cut::Slot(0) };
        let (effects, mut postponed) = turned_away(&writes, vec![Reply::Int(1), moved(), moved()]);
        let [Answer::Applied { spent, replies, .. }] = &effects.answers[..] else { panic!() };
        assert_eq!((&spent.waiters, replies), (&vec![Waiter(0)], &vec![Reply::Int(1)]));
        // Nobody has heard of the right half yet.
        let (on, refused) = postponed.sort_out(|_| Some(route(false)), 20, 1000);
        assert!(on.is_empty() && refused.is_empty() && !postponed.is_empty());
        let (on, refused) = postponed.sort_out(|_| Some(route(true)), 30, 1000);
        let [ReroutedBatch { shard: ShardId(90), origin: ASKER, batch }] = &on[..] else {
            panic!()
        };
        assert_eq!(batch.waiters(), [Waiter(1), Waiter(2)]);
        let mut expected = Batch::default();
        expected.push(&writes[1], Waiter(1));
        expected.push(&writes[2], Waiter(2));
        assert_eq!(batch.len_bytes(), expected.len_bytes());
        assert!(refused.is_empty() && postponed.is_empty());
    }

    #[test]
    fn timed_out_and_split_waiters_get_errors() {
        let (low, high) = (key_in(0..1000, 0), key_in(1000..2048, 0));
        let writes = [
            Write::Delete { key: &high },
            Write::Rename { from: &low, to: &high, if_absent: false },
            Write::Flush { from: None, end: Cut::Slot(2048) },
        ];
        let moved = |from| Reply::Moved { from: Cut::Slot(from) };
        let (_, mut postponed) = turned_away(&writes, vec![moved(0), moved(0), moved(1000)]);
        let (on, refused) = postponed.sort_out(|_| Some(route(true)), 20, 1000);
        assert_eq!(on.len(), 1);
        assert_eq!(on[0].batch.waiters(), [Waiter(0), Waiter(2)]);
        let [Answer::NotDone { waiters, why, .. }] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!((&waiters[..], *why), (&[Waiter(1)][..], NotDone::CrossShard));
        // Of a piece that says where it begins, what is left is sent on: here what the left half
        // had not done, and what a shard that is gone has turned away.
        for (from, left_from) in [(1000, 1000), (0, 1200)] {
            let piece = |from| Write::Flush { from: Some(Cut::Slot(from)), end: Cut::Slot(2048) };
            let sent = piece(if from == 0 { left_from } else { 0 });
            let (_, mut postponed) = turned_away(&[sent], vec![moved(from)]);
            let (on, _) = postponed.sort_out(|_| Some(route(true)), 20, 1000);
            let [ReroutedBatch { shard, batch, .. }] =
                <[ReroutedBatch; 1]>::try_from(on).expect("sent on");
            assert_eq!(shard, ShardId(90));
            let mut expected = Batch::default();
            expected.push(&piece(left_from), Waiter(0));
            assert_eq!(batch.into_parts(), expected.into_parts());
        }
        let (_, mut postponed) = turned_away(&writes[..1], vec![moved(0)]);
        for (now, count) in [(1009, 0), (1010, 1)] {
            let (on, refused) = postponed.sort_out(|_| Some(route(false)), now, 1000);
            assert_eq!((on.len(), refused.len()), (0, count));
        }
        let (_, mut postponed) = turned_away(&writes[..1], vec![moved(0)]);
        assert_eq!(postponed.sort_out(|_| None, 11, 1000).1.len(), 1);
    }
}

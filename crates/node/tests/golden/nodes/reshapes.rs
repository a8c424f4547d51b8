//! What a node's driver does when shards begin, end, and become one.

use keyspace::{NodeId, ShardId};
use node::executor::{Effects, Input};
use node::replica::Legacy;
use node::replica::entry::Waiter;
use node::reshape::merge::{self, Word};
use node::rpc::request::Letter;

use super::world::{Packet, World, of_arc};
use crate::words;

impl World {
    /// Shards that begin and end.
    pub(super) fn take_reshapes(&mut self, id: NodeId, effects: &mut Effects) {
        for half in effects.halves.drain(..) {
            let shard = half.view.read().descriptor.shard;
            let arc = of_arc(&half.view.read().descriptor.arc);
            let leads = half.half.is_some_and(|half| half.leads);
            let how = if leads { ", and campaigns at once" } else { "" };
            self.say(&format!("node {}: replica of shard {} {arc} begins{how}", id.0, shard.0));
            let executor = &mut self.node(id).executor;
            if executor.shard(shard).is_none() {
                executor.accept(Input::Create(half));
            }
            executor.confirm(shard);
        }
        for moved in effects.moved.drain(..) {
            let (shard, client) = (moved.shard.0, moved.waiter.0);
            self.say(&format!(
                "node {}: shard {shard} refuses the command of client {client}: not its key",
                id.0
            ));
            let now = self.now;
            self.node(id).postponed.add(moved, now);
        }
        assert!(effects.ended.is_empty(), "not in scripts: {:?}", effects.ended);
        for stuck in effects.stuck.drain(..) {
            let keys: Vec<String> = stuck.keys.iter().map(|key| words::text(key)).collect();
            self.say(&format!(
                "node {}: {} is abandoned, with locks on {}: it is to be recovered",
                id.0,
                words::name(stuck.id),
                keys.join(" ")
            ));
        }
        for (shard, word) in effects.words.drain(..) {
            self.send_word(id, shard, word);
        }
        for waits in effects.absorbing.drain(..) {
            let node::executor::Absorbing { left, at, right, index, term } = waits;
            let absorb = merge::Absorb { right, index, term };
            self.node(id).executor.accept(Input::Surrender { left, at, absorb });
        }
        for given in effects.given.drain(..) {
            let (left, right) = (given.left, given.right);
            let what = if given.state.is_some() { "hands its state over" } else { "has nothing" };
            self.say(&format!(
                "node {}: replica of shard {} {what} to that of shard {}",
                id.0, right.0, left.0
            ));
            self.node(id).executor.accept(Input::Absorb { left, state: given.state });
        }
        for bequeathed in effects.bequeathed.drain(..) {
            self.hand_over(id, bequeathed.left, bequeathed.legacy);
        }
    }

    /// What was asked of a shard that was merged goes on at the other one.
    fn hand_over(&mut self, id: NodeId, left: ShardId, legacy: Legacy) {
        let Legacy { batches, readers, sent } = legacy;
        let mut clients: Vec<Waiter> =
            batches.iter().flat_map(|(_, batch)| batch.waiters().to_vec()).collect();
        clients.extend(readers.iter().map(|(_, _, waiter)| *waiter));
        clients.extend(sent.waiters());
        for client in clients {
            let (id, client) = (id.0, client.0);
            self.say(&format!("node {id}: client {client} is handed over to shard {}", left.0));
        }
        let executor = &mut self.node(id).executor;
        for (origin, batch) in batches {
            executor.accept(Input::Propose { shard: left, origin, batch });
        }
        for (at, origin, waiter) in readers {
            executor.accept(Input::Await { shard: left, at, lock: None, origin, waiter });
        }
        executor.accept(Input::Inherit { shard: left, heir: sent });
    }

    fn send_word(&mut self, id: NodeId, shard: ShardId, word: Word) {
        let text = match &word {
            Word::Freeze { .. } => "freeze".to_owned(),
            Word::Frozen { index, .. } => format!("frozen as of entry {index}"),
            Word::Unfit { .. } => "cannot be frozen now".to_owned(),
            Word::Free { .. } => "the merge is cancelled: go on".to_owned(),
            Word::Freed { .. } => "it goes on".to_owned(),
        };
        let from = match &word {
            Word::Freeze { left, .. } | Word::Free { left, .. } => *left,
            Word::Frozen { right, .. } | Word::Unfit { right, .. } | Word::Freed { right, .. } => {
                *right
            }
        };
        self.say_once(format!("shard {} to shard {}: {text}", from.0, shard.0));
        let letter = Letter::Merge { shard, word };
        match self.leader(shard) {
            Some(to) if to == id => {
                self.node(id).executor.accept(Input::Letter { from: id, letter });
            }
            Some(to) => self.flying.push((id, to, Packet::Rpc(letter))),
            None => {}
        }
    }
}

//! What a node's driver does when shards begin, end, and become one.

use keyspace::{NodeId, ShardId};
use node::executor::{Effects, Input};
use node::replica::RequestHandover;
use node::replica::entry::Waiter;
use node::reshape::merge::{self, MergeMessage};
use node::rpc::message::RpcMessage;

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
        for abandoned in effects.abandoned.drain(..) {
            let keys: Vec<String> = abandoned.keys.iter().map(|key| words::text(key)).collect();
            self.say(&format!(
                "node {}: {} is abandoned, with locks on {}: it is to be recovered",
                id.0,
                words::name(abandoned.id),
                keys.join(" ")
            ));
        }
        for (shard, word) in effects.words.drain(..) {
            self.send_word(id, shard, word);
        }
        for waits in effects.handover_requests.drain(..) {
            let node::executor::HandoverRequest { left, at, right, index, term } = waits;
            let absorb = merge::Absorb { right, index, term };
            self.node(id).executor.accept(Input::RequestHandover { left, at, absorb });
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
        for pending_requests in effects.pending_requests.drain(..) {
            self.hand_over(id, pending_requests.left, pending_requests.legacy);
        }
    }

    /// What was asked of a shard that was merged goes on at the other one.
    fn hand_over(&mut self, id: NodeId, left: ShardId, legacy: RequestHandover) {
        let RequestHandover { batches, readers, sent } = legacy;
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
            executor.accept(Input::AwaitRead { shard: left, at, lock: None, origin, waiter });
        }
        executor.accept(Input::TakeOverRequests { shard: left, inherited: sent });
    }

    fn send_word(&mut self, id: NodeId, shard: ShardId, word: MergeMessage) {
        let text = match &word {
            MergeMessage::Freeze { .. } => "freeze".to_owned(),
            MergeMessage::Frozen { index, .. } => format!("frozen as of entry {index}"),
            MergeMessage::CannotFreeze { .. } => "cannot be frozen now".to_owned(),
            MergeMessage::Unfreeze { .. } => "the merge is cancelled: go on".to_owned(),
            MergeMessage::UnfreezeDone { .. } => "it goes on".to_owned(),
        };
        let from = match &word {
            MergeMessage::Freeze { left, .. } | MergeMessage::Unfreeze { left, .. } => *left,
            MergeMessage::Frozen { right, .. }
            | MergeMessage::CannotFreeze { right, .. }
            | MergeMessage::UnfreezeDone { right, .. } => *right,
        };
        self.say_once(format!("shard {} to shard {}: {text}", from.0, shard.0));
        let rpc = RpcMessage::Merge { shard, word };
        match self.leader(shard) {
            Some(to) if to == id => {
                self.node(id).executor.accept(Input::Rpc { from: id, rpc });
            }
            Some(to) => self.flying.push((id, to, Packet::Rpc(rpc))),
            None => {}
        }
    }
}

//! What a node does for the replicas of other nodes.
//!
//! A message goes to the lane of its shard; if the replica is not here and the message brings the
//! shard's birth, the replica begins. The head of a snapshot gets the state beside it, as of now,
//! before it leaves; on the other side the state goes to disk as a checkpoint that the manifest
//! names, and only then to the lane.

use std::sync::Arc;

use command::Reply;
use keyspace::{Catalogue, Keyspace, KeyspaceId, NodeId, ShardId, Timestamp};
use node::birth;
use node::checkpoint::{BLOCK, Checkpoint};
use node::entry::Waiter;
use node::lane::{Envelope, Input};
use node::letter::Letter;
use node::shard::Shard;
use node::state::{Content, ShardState};
use parking_lot::RwLock;
use replication::Message;
use storage::Error;

use super::Machine;
use super::lookup::Word;
use super::open::Cluster;
use super::streams::Frame;
use crate::trace::Trace;

/// What goes from node to node.
#[derive(Debug)]
pub enum Packet {
    /// What one replica, on this node, says to another.
    Message(NodeId, Box<Envelope>),
    /// What one node asks another, or answers.
    Letter(Post),
    /// A piece of a snapshot, or a word about one.
    Frame(Frame),
    /// What one node's table of descriptors says to another's.
    Lookup(Box<Word>),
}

/// A letter on its way.
#[derive(Clone, Debug)]
pub struct Post {
    /// Who wrote it.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
    /// What.
    pub letter: Letter,
}

impl Packet {
    /// Where it goes.
    pub fn node(&self) -> NodeId {
        match self {
            Packet::Message(_, envelope) => envelope.node,
            Packet::Letter(post) => post.to,
            Packet::Frame(frame) => frame.to,
            Packet::Lookup(word) => word.to,
        }
    }

    /// Whether it asks for a write.
    pub fn is_write(&self) -> bool {
        matches!(self, Packet::Letter(Post { letter: Letter::Write { .. }, .. }))
    }

    /// The same again: a network may repeat itself.
    #[must_use]
    pub fn repeated(&self) -> Self {
        match self {
            Packet::Message(from, envelope) => {
                let Envelope { shard, node, birth, message } = &**envelope;
                let (birth, message) = (birth.clone(), message.clone());
                let envelope = Envelope { shard: *shard, node: *node, birth, message };
                Packet::Message(*from, Box::new(envelope))
            }
            Packet::Letter(post) => Packet::Letter(post.clone()),
            Packet::Frame(frame) => Packet::Frame(frame.clone()),
            Packet::Lookup(word) => Packet::Lookup(word.clone()),
        }
    }
}

impl Machine {
    /// What is to be sent now. Heads of snapshots wait for their states, which come in pieces.
    pub fn take_outgoing(&mut self) -> Vec<Packet> {
        let mut sent = Vec::new();
        for packet in std::mem::take(&mut self.outgoing) {
            match packet {
                Packet::Message(_, head) if head.message.snapshot().is_some() => {
                    self.ask_stream(*head);
                    sent.append(&mut self.outgoing);
                }
                other => sent.push(other),
            }
        }
        sent
    }

    /// Something has come from another node.
    ///
    /// # Errors
    /// All are fatal.
    pub fn receive(&mut self, packet: Packet, trace: &mut Trace) -> Result<(), Error> {
        match packet {
            Packet::Message(from, envelope) => {
                let Envelope { shard, birth, message, .. } = *envelope;
                if let Some(birth) = birth {
                    self.begin_replica(shard, &birth, &message, trace);
                }
                let message = Box::new(message);
                self.submit(shard, Input::Message { from, shard, message });
                Ok(())
            }
            Packet::Letter(Post { from, letter, .. }) => {
                // As bytes, which is how it travels.
                let mut bytes = Vec::new();
                letter.encode(&mut bytes);
                let letter = Letter::decode(bytes.into()).expect("nodes send what can be read");
                self.submit(letter.shard(), Input::Letter { from, letter });
                Ok(())
            }
            Packet::Frame(frame) => {
                self.take_frame(frame)?;
                self.install_arrived(trace)
            }
            Packet::Lookup(word) => {
                self.lookup_came(*word);
                Ok(())
            }
        }
    }

    fn begin_replica(&mut self, id: ShardId, birth: &[u8], message: &Message, trace: &mut Trace) {
        let lane = self.lane_of(id);
        let creates = |input: &Input| match input {
            Input::Create(start) => start.view.read().descriptor.shard == id,
            _ => false,
        };
        if self.lanes[lane].lane.shard(id).is_some() || self.lanes[lane].inbox.iter().any(creates) {
            // Or another replica of the shard is, which its group has gone on without.
            return self.tell_known(id);
        }
        let settings = self.limits.settings(self.hasher);
        let node = self.manifest.node;
        let start = birth::by_message(birth, message.to(), node, settings);
        let start = start.expect("nodes send what can be read");
        let ended = self.lanes[lane].lane.ended_replica(id);
        let mut halves = self.lanes.iter().flat_map(|seat| seat.lane.unborn());
        if halves.any(|half| half == id) && !self.lanes[lane].lane.has_had(id) {
            return;
        }
        drop(halves);
        if self.is_dropped(start.view.read().descriptor.keyspace())
            || ended.is_some_and(|ended| ended >= start.replica)
        {
            return;
        }
        // SAFETY G11: it is cut off from another shard whose replica here has not come so far yet,
        // and will bring it.
        let arc = start.view.read().descriptor.arc.clone();
        if self.views().any(|view| view.read().descriptor.arc.overlaps(&arc)) {
            return;
        }
        trace.event(format_args!("replica {} of shard {id} begins", message.to()));
        let keyspace = arc.keyspace();
        self.submit(id, Input::Create(start));
        self.retile(keyspace);
        // The message may be of the past, and the replica's group have gone on without it.
        self.tell_known(id);
    }

    pub(super) fn tell_known(&mut self, id: ShardId) {
        if let Some(known) = self.table().shard(id).cloned().filter(|_| !self.is_deaf) {
            self.submit(id, Input::Known { known });
        }
    }

    /// Whether a keyspace was dropped, as far as the catalogue here knows.
    pub(super) fn is_dropped(&self, keyspace: KeyspaceId) -> bool {
        self.catalogue().is_some_and(|catalogue| catalogue.has_dropped(keyspace))
    }

    /// The catalogue has become this one at once.
    pub(super) fn jump(&mut self, catalogue: &Catalogue) {
        self.allow(catalogue.level());
        self.forget_keyspaces_of(catalogue);
        let gone = self.routes.values().filter(|route| {
            catalogue.get(&route.keyspace.name).is_none_or(|k| k.id != route.keyspace.id)
        });
        let gone: Vec<_> = gone.map(|route| route.keyspace.clone()).collect();
        for keyspace in gone {
            self.routes.remove(&keyspace.name);
        }
        // Also those that have begun by a message, and whose coming and going it has jumped over.
        let known = self.lanes.iter().flat_map(|seat| seat.lane.shards().map(|shard| shard.view()));
        let begun =
            self.lanes.iter().flat_map(|seat| &seat.inbox).filter_map(|input| match input {
                Input::Create(start) => Some(start.view.clone()),
                _ => None,
            });
        let mut gone = Vec::new();
        for view in known.chain(begun) {
            let descriptor = &view.read().descriptor;
            if catalogue.has_dropped(descriptor.keyspace()) {
                gone.push(descriptor.shard);
            }
        }
        for shard in gone {
            self.submit(shard, Input::Drop { shard });
        }
        for keyspace in catalogue.iter() {
            self.route(keyspace.clone());
        }
    }
}

impl Machine {
    /// The nodes that may know of a keyspace's shards: those where it began come first.
    pub(super) fn who_may_have(&self, keyspace: &Keyspace) -> Vec<NodeId> {
        let mut nodes = keyspace.nodes.clone();
        if self.image.is_kept {
            let others = self.image.others.iter().copied();
            nodes.extend(others.filter(|node| !keyspace.nodes.contains(node)));
            nodes.retain(|node| *node != self.node());
        }
        nodes
    }

    /// What every node of its cluster has.
    pub fn cluster(&self) -> Cluster {
        Cluster { id: self.manifest.cluster, hash_seed: self.manifest.hash_seed }
    }

    /// Lets all lanes look for leaders.
    pub fn tick(&mut self) {
        self.tick_lookup();
        self.tick_image();
        self.lanes.iter_mut().for_each(|seat| seat.inbox.push_back(Input::Tick));
        self.expire_streams();
        self.send_on();
    }

    /// Tells all lanes that the link to a node is gone.
    pub fn lose_link(&mut self, node: NodeId) {
        self.lanes.iter_mut().for_each(|seat| seat.inbox.push_back(Input::LinkLost { node }));
    }

    /// … and that there is another.
    pub fn link(&mut self, node: NodeId) {
        self.lanes.iter_mut().for_each(|seat| seat.inbox.push_back(Input::Linked { node }));
    }

    /// The catalogue as the replica of the system shard here has it, if there is one.
    pub fn catalogue(&self) -> Option<Catalogue> {
        let view = self.view(ShardId(0))?;
        let state = view.read();
        match &state.content {
            Content::System(system) => Some(system.catalogue.clone()),
            Content::Keys(_) => None,
        }
    }

    /// Which node it is.
    pub fn node(&self) -> NodeId {
        self.manifest.node
    }

    /// All shards that have a replica here.
    pub fn shard_ids(&self) -> Vec<ShardId> {
        self.lanes.iter().flat_map(|seat| seat.lane.shards().map(|shard| shard.id())).collect()
    }

    /// The replica of a shard.
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        self.lanes[self.lane_of(id)].lane.shard(id)
    }

    /// Session and sequence of the batch with a client's write to a shard that is on other nodes.
    pub fn batch_of(&self, id: ShardId, waiter: Waiter) -> Option<(u64, u64)> {
        self.lanes[self.lane_of(id)].lane.batch_of(id, waiter)
    }

    /// The view of a shard's replica.
    pub fn view(&self, id: ShardId) -> Option<Arc<RwLock<ShardState>>> {
        self.lanes[self.lane_of(id)].lane.view(id)
    }

    /// Planted reads: the newest value of a key, whoever leads; nothing if it has an end, for
    /// then it takes more than a look.
    pub fn peek(&self, shard: ShardId, key: &[u8]) -> Option<Reply> {
        let view = self.view(shard)?;
        let state = view.read();
        match state.keys()?.newest(&self.hasher.key(key), Timestamp::ZERO) {
            None => Some(Reply::Nil),
            Some(version) if version.expiry_ms == 0 => Some(Reply::Bulk(version.value.into())),
            Some(_) => None,
        }
    }

    /// All that a shard holds, as a checkpoint of it would.
    pub fn dump(&self, id: ShardId) -> Vec<Vec<u8>> {
        let shard = self.shard(id).expect("a shard that is here");
        let end = self.log.log.written_end();
        let mut checkpoint = Checkpoint::begin(shard, end, BLOCK);
        all_blocks(&mut checkpoint)
    }
}

fn all_blocks(checkpoint: &mut Checkpoint) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    while checkpoint.next_block(&mut block) {
        blocks.push(block.clone());
    }
    blocks
}

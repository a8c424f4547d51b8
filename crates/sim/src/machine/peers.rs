//! How does a node serve the replicas of other nodes?
//!
//! A message goes to the executor of its shard. If it carries the shard's bootstrap, it goes
//! through control, since the replica may have to be created. The head of a snapshot gets the
//! present state beside it before it leaves. The receiver writes the state to disk as a checkpoint
//! that the manifest names, and only then hands it to the executor.

use std::sync::Arc;

use command::Reply;
use keyspace::{Catalogue, NodeId, ShardId, Timestamp};
use node::control::{self, FirstMessage, Loads};
use node::executor::{Envelope, Input};
use node::recovery::checkpoint::{BLOCK, Checkpoint};
use node::replica::Replica;
use node::replica::entry::Waiter;
use node::replica::state::{Content, ShardState};
use node::rpc::frame_batch::{self as batch, FrameBatch};
use node::rpc::message::RpcMessage;
use node::rpc::{KIND_LOOKUP, KIND_RPC, KIND_SNAPSHOT};
use parking_lot::RwLock;
use storage::Error;

use super::Machine;
use super::control::LookupMessage;
use super::open::Cluster;
use super::streams::Frame;

/// Every so many ticks control looks around.
const LOOK_TICKS: u64 = 4;

/// What goes from node to node.
#[derive(Debug)]
pub enum Packet {
    /// What one replica, on this node, says to another.
    Message(NodeId, Box<Envelope>),
    /// What one node asks another, or answers.
    Rpc(OutgoingRpc),
    /// A piece of a snapshot, or a word about one.
    Frame(Frame),
    /// What one node's table of descriptors says to another's.
    Lookup(Box<LookupMessage>),
}

/// An RPC on its way.
#[derive(Clone, Debug)]
pub struct OutgoingRpc {
    /// The sending node.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
    /// What.
    pub rpc: RpcMessage,
}

impl Packet {
    /// Where it goes.
    pub fn node(&self) -> NodeId {
        match self {
            Packet::Message(_, envelope) => envelope.node,
            Packet::Rpc(post) => post.to,
            Packet::Frame(frame) => frame.to,
            Packet::Lookup(word) => word.to,
        }
    }

    /// Whether it asks for a write.
    pub fn is_write(&self) -> bool {
        matches!(self, Packet::Rpc(OutgoingRpc { rpc: RpcMessage::Write { .. }, .. }))
    }

    /// The frame in which it travels between real nodes. There one frame may carry several.
    pub fn encode_frame(&self) -> Vec<u8> {
        let (mut batch, mut body) = (FrameBatch::default(), Vec::new());
        let mut send = |_: NodeId, frame: batch::Frame<'_>| body.extend_from_slice(frame.bytes);
        let kind = match self {
            Packet::Message(_, envelope) => {
                batch.message(envelope, &mut send);
                KIND_RPC
            }
            Packet::Rpc(post) => {
                batch.rpc(post.to, &post.rpc, &mut send);
                KIND_RPC
            }
            Packet::Frame(frame) => {
                body.extend_from_slice(frame.bytes());
                KIND_SNAPSHOT
            }
            Packet::Lookup(word) => {
                word.encode(&mut body);
                KIND_LOOKUP
            }
        };
        batch.send(&mut |_: NodeId, frame: batch::Frame<'_>| body.extend_from_slice(frame.bytes));
        let mut out = Vec::new();
        link::frame::encode(&mut out, kind, &[&body]);
        out
    }

    /// The same again: a network may repeat itself.
    #[must_use]
    pub fn repeated(&self) -> Self {
        match self {
            Packet::Message(from, envelope) => {
                let Envelope { shard, node, bootstrap, message } = &**envelope;
                let (bootstrap, message) = (bootstrap.clone(), message.clone());
                let envelope = Envelope { shard: *shard, node: *node, bootstrap, message };
                Packet::Message(*from, Box::new(envelope))
            }
            Packet::Rpc(post) => Packet::Rpc(post.clone()),
            Packet::Frame(frame) => Packet::Frame(frame.clone()),
            Packet::Lookup(word) => Packet::Lookup(word.clone()),
        }
    }
}

impl Machine {
    /// Takes the packets to send now. Heads of snapshots wait for their states, which come in
    /// pieces.
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
    pub fn receive(&mut self, packet: Packet) -> Result<(), Error> {
        match packet {
            Packet::Message(from, envelope) => {
                let Envelope { shard, bootstrap, message, .. } = *envelope;
                match bootstrap {
                    Some(bootstrap) => {
                        let first = FirstMessage { from, shard, bootstrap, message };
                        self.tell(control::Input::FirstMessage(Box::new(first)));
                    }
                    None => {
                        let message = Box::new(message);
                        self.submit(shard, Input::Message { from, shard, message });
                    }
                }
                Ok(())
            }
            Packet::Rpc(OutgoingRpc { from, rpc, .. }) => {
                // As bytes, which is how it travels.
                let mut bytes = Vec::new();
                rpc.encode(&mut bytes);
                let rpc = RpcMessage::decode(bytes.into()).expect("nodes send what can be read");
                self.submit(rpc.shard(), Input::Rpc { from, rpc });
                Ok(())
            }
            Packet::Frame(frame) => {
                self.take_frame(frame)?;
                self.install_arrived()
            }
            Packet::Lookup(word) => {
                self.receive_lookup(*word);
                Ok(())
            }
        }
    }
}

impl Machine {
    /// What every node of its cluster has.
    pub fn cluster(&self) -> Cluster {
        Cluster { id: self.manifest.cluster, hash_seed: self.manifest.hash_seed }
    }

    /// Lets all executors look for leaders.
    pub fn tick(&mut self) {
        self.ticks += 1;
        self.tell(control::Input::Tick);
        self.tell(control::Input::MaintainTables);
        if self.ticks.is_multiple_of(LOOK_TICKS) {
            self.tell(control::Input::MaintainShards(Loads::default()));
        }
        self.executors.iter_mut().for_each(|seat| seat.inbox.push_back(Input::Tick));
        self.expire_streams();
    }

    /// Informs all executors that the link to a node is lost.
    pub fn lose_link(&mut self, node: NodeId) {
        self.executors.iter_mut().for_each(|seat| seat.inbox.push_back(Input::LinkLost { node }));
    }

    /// … and that there is another.
    pub fn link(&mut self, node: NodeId) {
        self.executors.iter_mut().for_each(|seat| seat.inbox.push_back(Input::Linked { node }));
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
        self.executors
            .iter()
            .flat_map(|seat| seat.executor.shards().map(|shard| shard.id()))
            .collect()
    }

    /// The replica of a shard.
    pub fn shard(&self, id: ShardId) -> Option<&Replica> {
        self.executors[self.executor_of(id)].executor.shard(id)
    }

    /// Session and sequence of the batch with a client's write to a shard that is on other nodes.
    pub fn batch_of(&self, id: ShardId, waiter: Waiter) -> Option<(u64, u64)> {
        self.executors[self.executor_of(id)].executor.batch_of(id, waiter)
    }

    /// The view of a shard's replica.
    pub fn view(&self, id: ShardId) -> Option<Arc<RwLock<ShardState>>> {
        self.executors[self.executor_of(id)].executor.view(id)
    }

    /// A planted bug's read: the newest value of a key, without asking the leader. `None` if the
    /// value has an expiry, since then one look is not enough.
    pub fn peek(&self, shard: ShardId, key: &[u8]) -> Option<Reply> {
        let view = self.view(shard)?;
        let state = view.read();
        match state.engine()?.newest(&self.hasher.key(key), Timestamp::ZERO) {
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

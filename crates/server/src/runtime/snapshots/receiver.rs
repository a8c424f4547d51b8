//! The thread that receives streams: the driver of [`node::control::snapshots::receiver`].
//!
//! It writes blocks to disk and restores them in memory, and installs states that are complete.

use std::time::Instant;

use bytes::Bytes;
use keyspace::{NodeId, ShardId};
use node::control::checkpoints::facts;
use node::control::snapshots::receiver::{Effect, SnapshotReceiver, StreamStart};
use node::executor::Input;
use node::recovery::RecoveringReplica;
use node::rpc::stream::frame::{self, ReceiverFrame};
use node::rpc::stream::incoming::Name;
use parking_lot::Mutex;
use storage::checkpoint::CheckpointWriter;

use super::{IDLE, Snapshots};
use crate::runtime::checkpoints::{Checkpoints, ReceivedSnapshot, abandon};
use crate::runtime::peers::{KIND_SNAPSHOT, Peers};
use crate::runtime::rpc_counters::RpcCounts;
use crate::runtime::{NodeRuntime, boot_nanos};

/// What the thread has.
struct Receiver<'a> {
    runtime: &'a NodeRuntime,
    peers: &'a Peers,
    checkpoints: &'a Mutex<Checkpoints>,
    core: SnapshotReceiver<ReceivedSnapshot>,
}

impl Snapshots {
    /// The receiver's thread, until [`Self::stop`].
    pub fn run_receiver(
        &self,
        runtime: &NodeRuntime,
        peers: &Peers,
        checkpoints: &Mutex<Checkpoints>,
    ) {
        let core = SnapshotReceiver::default();
        let mut receiver = Receiver { runtime, peers, checkpoints, core };
        let mut looked = Instant::now();
        while !self.is_stopping() {
            if let Some((from, body)) = self.next_frame() {
                receiver.frame(from, body);
                receiver.count();
            }
            let now = Instant::now();
            if now >= looked + IDLE {
                looked = now;
                receiver.expire();
                receiver.count();
            }
        }
    }

    /// A frame that has come, waiting a little if there is none.
    fn next_frame(&self) -> Option<(NodeId, Bytes)> {
        let mut come = self.come.lock();
        if come.frames.is_empty() {
            self.has_come.wait_for(&mut come, IDLE);
        }
        let (from, body) = come.frames.pop_front()?;
        come.bytes -= body.len();
        Some((from, body))
    }
}

impl Receiver<'_> {
    fn count(&self) {
        self.peers.rpc_counters.snapshots_coming.set(self.core.count() as u64);
    }

    fn frame(&mut self, from: NodeId, body: Bytes) {
        match frame::decode_sender_frame(body) {
            Ok((stream, sent)) => self.core.frame((from, stream), sent, boot_nanos()),
            Err((Some(stream), why)) => self.failed((from, stream), &why),
            Err((None, why)) => self.broken(from, &why),
        }
        self.execute();
        while let Some(received) = self.core.take_complete() {
            self.install(received);
            self.execute();
        }
    }

    fn broken(&self, from: NodeId, why: &str) {
        self.peers.rpc_counters.snapshots_broken.add(1);
        tracing::warn!("a snapshot from node {:016x} is abandoned: {why}", from.0);
    }

    fn failed(&mut self, name: Name, why: &str) {
        self.broken(name.0, why);
        self.core.failed(name);
    }

    fn execute(&mut self) {
        while let Some(effect) = self.core.next_effect() {
            match effect {
                Effect::Inspect(name, shard, beginning) => self.inspect(name, shard, beginning),
                Effect::Create(name, shard, beginning) => {
                    match self.create(shard, beginning) {
                        Ok(Some(half)) => self.core.created(name, shard, half, boot_nanos()),
                        Ok(None) => self.core.failed(name),
                        Err(why) => self.failed(name, &why),
                    };
                }
                Effect::Decline(shard, StreamStart { head, .. }) => {
                    self.runtime.submit(shard, Input::SnapshotDeclined { shard, head });
                }
                Effect::Write(name, block) => self.write(name, &block),
                Effect::Abandon(half) => abandon(half.writer, half.shard),
                Effect::Answer(name, reply) => self.answer(name, reply),
            }
        }
    }

    fn answer(&self, (node, stream): Name, reply: ReceiverFrame) {
        // If there is no link or no room, the sender asks.
        let bytes = frame::receiver_frame(stream, reply);
        let _asks_again = self.peers.cluster.send(node, KIND_SNAPSHOT, &[&bytes]);
        self.peers.cluster.flush();
    }

    fn inspect(&mut self, name: Name, shard: ShardId, beginning: StreamStart) {
        let runtime = self.runtime;
        let wants = |executor: &mut _| facts::wants(executor, shard, &beginning.head);
        let is_wanted = runtime.with_executor(shard, wants);
        self.core.inspected(name, shard, beginning, is_wanted);
    }

    /// Begins a file; none if the replica has ended meanwhile.
    fn create(
        &self,
        shard: ShardId,
        beginning: StreamStart,
    ) -> Result<Option<ReceivedSnapshot>, String> {
        let StreamStart { head, meta } = beginning;
        let runtime = self.runtime;
        let state = RecoveringReplica::from_checkpoint(shard, &meta, runtime.identity.hasher);
        let state = state.map_err(|error| error.to_string())?;
        let index = state.state().applied_index;
        let here = runtime.with_executor(shard, |executor| {
            let here = executor.shard(shard)?;
            Some((here.meta_of(state.state()), facts::vote_of(here)))
        });
        let Some((meta, vote)) = here else { return Ok(None) };
        tracing::debug!("receives shard {shard}, as of entry {index}");
        let mut counts = RpcCounts::default();
        counts.message(&head);
        self.peers.rpc_counters.received.add(&counts);
        let (disk, cluster) = self.checkpoints.lock().place();
        let writer = CheckpointWriter::create_received(disk, cluster, shard, index, &meta);
        let writer = writer.map_err(|error| error.to_string())?;
        Ok(Some(ReceivedSnapshot { shard, head: *head, index, vote, state, writer }))
    }

    fn write(&mut self, name: Name, block: &[u8]) {
        let half = self.core.half(name).expect("a block of it is taken");
        let written = half.writer.block(block).map_err(|error| error.to_string());
        let restored =
            written.and_then(|()| half.state.restore(block).map_err(|error| error.to_string()));
        match restored {
            Ok(()) => {
                self.peers.rpc_counters.snapshot_blocks_received.add(1);
                self.peers.rpc_counters.snapshot_bytes_received.add(block.len() as u64);
                self.core.written(name, boot_nanos());
            }
            Err(why) => self.failed(name, &why),
        }
    }

    fn install(&mut self, received: ReceivedSnapshot) {
        let shard = received.shard;
        let is_installed = match self.checkpoints.lock().install(self.runtime, received) {
            Ok(is_installed) => is_installed,
            Err(why) => {
                self.peers.rpc_counters.snapshots_broken.add(1);
                tracing::warn!("a snapshot of shard {shard} is abandoned: {why}");
                false
            }
        };
        self.peers.rpc_counters.snapshots_received.add(u64::from(is_installed));
        self.core.installed(is_installed);
    }

    fn expire(&mut self) {
        for ((from, _), shard) in self.core.expire(boot_nanos()) {
            self.peers.rpc_counters.snapshots_broken.add(1);
            let from = from.0;
            tracing::info!("node {from:016x} stopped sending a snapshot of shard {shard}");
        }
        self.execute();
    }
}

//! Scripts of snapshots, from one node to others. A block is a byte; three may be unconfirmed.
//!
//! ```text
//! > lead 4 term 3 blocks 5     this node leads shard 4, whose state has so many blocks
//! > ask 4 to 7 on 2            its leader wants the state sent to replica 7, on node 2
//! > step 3                     three rounds: each stream sends a frame; what has a link arrives
//! > time 500                   milliseconds pass
//! > cut 2 | link 2             the link to node 2 is lost; there is another one
//! > lose 2                     frames to and from node 2 are lost, and nobody notices
//! > remove 7 from 4            replica 7 is no member of shard 4 any more
//! > unlead 4 | urgent 4        another node leads it; nothing is committed in it meanwhile
//! > void 4                     another state has taken the place of the one that is sent
//! > refuse 4                   the replica of shard 4 wants no state
//! > full 2                     the disk of node 2 is full
//! > round 2 | idle 2           a round of checkpoints is under way there, or is over
//! > rate 2                     so many bytes leave in a second
//! ```

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::rc::Rc;

use bytes::Bytes;
use keyspace::{NodeId, ReplicaId, ShardId};
use node::control::snapshots::Destination;
use node::control::snapshots::receiver::{Effect, SnapshotReceiver};
use node::control::snapshots::sender::{
    EndedStream, NextFrame, SenderLimits, SnapshotRequest, SnapshotSender, StreamEnding,
};
use node::control::snapshots::source::{Blocks, DestinationFacts};
use node::rpc::stream::frame::{ReceiverFrame, tag};
use node::rpc::stream::incoming::Name;
use node::rpc::stream::pace::Pace;

use super::{number, replay};

const LIMITS: SenderLimits = SenderLimits {
    unconfirmed_bytes_max: 3,
    streams_to_node_max: 2,
    streams_max: 3,
    install_nanos: 2_000_000_000,
    retry_nanos: 1_000_000_000,
    check_nanos: 500_000_000,
};

#[test]
fn snapshot_scripts_give_golden_output() {
    replay("snapshots", World::run);
}

/// So many blocks of one byte.
struct Few {
    left: u32,
    is_void: Rc<Cell<bool>>,
}

impl Blocks for Few {
    fn next_block(&mut self, out: &mut Vec<u8>) -> bool {
        if self.left == 0 || self.is_void() {
            return false;
        }
        self.left -= 1;
        *out = vec![0];
        true
    }

    fn is_void(&self) -> bool {
        self.is_void.get()
    }
}

#[derive(Default)]
struct Shard {
    term: Option<u64>,
    blocks: u32,
    removed: BTreeSet<ReplicaId>,
    is_urgent: bool,
    is_void: Rc<Cell<bool>>,
}

#[derive(Default)]
struct Node {
    core: SnapshotReceiver<String, ()>,
    is_cut: bool,
    /// Frames are lost.
    loses: bool,
    is_full: bool,
    is_in_round: bool,
}

struct World {
    now: u64,
    sender: SnapshotSender<(), Few>,
    shards: BTreeMap<ShardId, Shard>,
    refused: BTreeSet<ShardId>,
    nodes: BTreeMap<u64, Node>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            now: 1_000_000_000,
            sender: SnapshotSender::new(LIMITS, Pace::new(None), 1),
            shards: BTreeMap::new(),
            refused: BTreeSet::new(),
            nodes: (2..=9).map(|node| (node, Node::default())).collect(),
        }
    }
}

impl World {
    fn run(&mut self, words: &[&str]) -> String {
        let at = |place: usize| number(words[place]);
        match words {
            ["lead", _, "term", _, "blocks", _] => {
                let (term, blocks) = (Some(at(3)), at(5) as u32);
                let shard = Shard { term, blocks, ..Shard::default() };
                self.shards.insert(ShardId(at(1)), shard);
            }
            ["ask", _, "to", _, "on", _] => {
                let to = Destination { shard: ShardId(at(1)), replica: ReplicaId(at(3)) };
                let term = self.shard(at(1)).term.expect("the shard is led here");
                self.sender.ask(SnapshotRequest { to, node: NodeId(at(5)), term, head: () });
            }
            ["step", _] => return (0..at(1)).map(|_| self.step()).collect(),
            ["time", _] => self.now += at(1) * 1_000_000,
            ["cut", _] => {
                self.node(at(1)).is_cut = true;
                self.sender.linked(NodeId(at(1)), false);
            }
            ["link", _] => {
                let node = self.node(at(1));
                (node.is_cut, node.loses) = (false, false);
                self.sender.linked(NodeId(at(1)), true);
            }
            ["lose", _] => self.node(at(1)).loses = true,
            ["remove", _, "from", _] => {
                self.shard(at(3)).removed.insert(ReplicaId(at(1)));
            }
            ["unlead", _] => self.shard(at(1)).term = None,
            ["urgent", _] => self.shard(at(1)).is_urgent = true,
            ["void", _] => self.shard(at(1)).is_void.set(true),
            ["refuse", _] => drop(self.refused.insert(ShardId(at(1)))),
            ["full", _] => self.node(at(1)).is_full = true,
            ["round", _] => self.node(at(1)).is_in_round = true,
            ["idle", _] => self.node(at(1)).is_in_round = false,
            ["rate", _] => {
                let pace = Pace::new(NonZeroU64::new(at(1)));
                self.sender = SnapshotSender::new(LIMITS, pace, 1);
            }
            _ => panic!("no command: {words:?}"),
        }
        String::new()
    }

    fn shard(&mut self, shard: u64) -> &mut Shard {
        self.shards.get_mut(&ShardId(shard)).expect("it was named")
    }

    fn node(&mut self, node: u64) -> &mut Node {
        self.nodes.get_mut(&node).expect("there are nodes 2 to 9")
    }

    fn facts(&self, to: Destination) -> DestinationFacts {
        let shard = &self.shards[&to.shard];
        DestinationFacts {
            leads_term: shard.term,
            is_member: !shard.removed.contains(&to.replica),
            is_urgent: shard.is_urgent,
        }
    }

    fn step(&mut self) -> String {
        let mut out = String::new();
        if self.sender.wants_facts(self.now) {
            let facts = self.sender.destinations().map(|to| (to, self.facts(to)));
            let facts: Vec<(Destination, DestinationFacts)> = facts.collect();
            for Destination { shard, .. } in self.sender.learn(&facts, self.now) {
                writeln!(out, "  shard {shard} is urgent").expect("a string");
            }
        }
        while let Some(request) = self.sender.take_request() {
            self.begin(&request, &mut out);
        }
        let mut place = 0;
        for _ in 0..self.sender.count() {
            place += usize::from(!self.send(place, &mut out));
        }
        let nodes: Vec<u64> = self.nodes.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.execute(node, &mut out));
        for EndedStream { to, ending, .. } in self.sender.take_ended() {
            let how = match ending {
                StreamEnding::Installed => "is installed".to_owned(),
                StreamEnding::Declined => "is not taken".to_owned(),
                StreamEnding::InvalidProgress(why) => format!("ends: {why}"),
                StreamEnding::Broken(why) => format!("ends: {why}"),
            };
            let Destination { shard, replica } = to;
            writeln!(out, "  the stream of shard {shard} to {replica} {how}").expect("a string");
        }
        for Destination { shard, replica } in self.sender.take_lost(self.now) {
            writeln!(out, "  shard {shard}'s leader may ask for {replica} again")
                .expect("a string");
        }
        if out.is_empty() { "  nothing\n".to_owned() } else { out }
    }

    fn begin(&mut self, request: &SnapshotRequest<()>, out: &mut String) {
        let (to, node) = (request.to, request.node);
        let Destination { shard, replica } = to;
        if let Err(why) = self.sender.check(request.term, &self.facts(to)) {
            return self.sender.refuse(to, why.to_owned(), self.now);
        }
        let Shard { blocks, is_void, .. } = &self.shards[&shard];
        let blocks = Few { left: *blocks, is_void: is_void.clone() };
        let number = self.sender.begin(request, blocks, 0, self.now);
        write!(out, "  stream {number}: shard {shard} to replica {replica} on node {node}")
            .expect("a string");
        if let Some(receiver) = self.arrives(node.0, out) {
            receiver.begins((NodeId(1), number), shard, ());
        }
        self.execute(node.0, out);
    }

    /// Where a frame arrives, or an answer from there; says so if it does not.
    fn arrives(
        &mut self,
        node: u64,
        out: &mut String,
    ) -> Option<&mut SnapshotReceiver<String, ()>> {
        let node = self.nodes.get_mut(&node).expect("there are nodes 2 to 9");
        let is_lost = node.is_cut || node.loses;
        *out += if is_lost { "   (lost)\n" } else { "\n" };
        (!is_lost).then_some(&mut node.core)
    }

    /// Sends a frame of the stream at a place. Whether another one is at its place now.
    fn send(&mut self, place: usize, out: &mut String) -> bool {
        let now = self.now;
        let frame = match self.sender.next_frame(place, now) {
            NextFrame::Nothing => return false,
            NextFrame::Held(until) => {
                writeln!(out, "  a block is held for {} ms", (until - now) / 1_000_000)
                    .expect("a string");
                return false;
            }
            NextFrame::Ended => return true,
            NextFrame::Frame(frame) => frame,
        };
        let (node, stream, tag, number) = (frame.node.0, frame.stream, frame.tag, frame.number);
        self.sender.sent(place, now);
        let what = match tag {
            tag::BLOCK => format!("block {number}"),
            tag::END => format!("the end, behind {number} blocks"),
            _ => format!("question {number}: what is there?"),
        };
        write!(out, "  stream {stream}: {what}").expect("a string");
        let name = (NodeId(1), stream);
        if let Some(receiver) = self.arrives(node, out) {
            match tag {
                tag::BLOCK => receiver.block(name, number, Bytes::new(), now),
                tag::END => receiver.end(name, number),
                _ => receiver.asked(name, number, now),
            }
        }
        self.execute(node, out);
        tag == tag::BLOCK
    }

    /// Does all that a receiver wants done.
    fn execute(&mut self, at: u64, out: &mut String) {
        let now = self.now;
        loop {
            let node = self.nodes.get_mut(&at).expect("the node exists");
            if !node.is_in_round
                && let Some(state) = node.core.take_complete()
            {
                let installed = if node.is_full { "cannot be installed" } else { "is installed" };
                writeln!(out, "    node {at}: {state} {installed}").expect("a string");
                node.core.installed(!node.is_full);
            }
            for ((_, stream), _) in node.core.expire(now) {
                writeln!(out, "    node {at}: nobody goes on with stream {stream}")
                    .expect("a string");
            }
            let Some(effect) = node.core.next_effect() else { return };
            match effect {
                Effect::Inspect(name, shard, ()) => {
                    node.core.inspected(name, shard, (), !self.refused.contains(&shard));
                }
                Effect::Create(name, shard, ()) if node.is_full => {
                    writeln!(out, "    node {at}: no file for shard {shard}").expect("a string");
                    node.core.failed(name);
                }
                Effect::Create(name, shard, ()) => {
                    let half = format!("stream {} of shard {shard}", name.1);
                    writeln!(out, "    node {at}: a file for {half}").expect("a string");
                    node.core.created(name, shard, half, now);
                }
                Effect::Decline(shard, ()) => {
                    writeln!(out, "    node {at}: shard {shard} declines").expect("a string");
                }
                Effect::Write(name, _) if node.is_full => {
                    writeln!(out, "    node {at}: the disk is full").expect("a string");
                    node.core.failed(name);
                }
                Effect::Write(name, _) => node.core.written(name, now),
                Effect::Abandon(half) => {
                    writeln!(out, "    node {at}: abandons {half}").expect("a string");
                }
                Effect::Answer(name, reply) => self.answer(at, name, reply, out),
            }
        }
    }

    fn answer(&mut self, from: u64, (_, stream): Name, reply: ReceiverFrame, out: &mut String) {
        let text = match reply {
            ReceiverFrame::Has { ask: 0, blocks } => format!("has {blocks}"),
            ReceiverFrame::Has { ask, blocks } => format!("answers question {ask}: has {blocks}"),
            ReceiverFrame::Done => "done".to_owned(),
            ReceiverFrame::NotFound => "nothing is there".to_owned(),
        };
        write!(out, "    node {from}, of stream {stream}: {text}").expect("a string");
        if self.arrives(from, out).is_some() {
            let goes_on = self.sender.hear(NodeId(from), stream, reply, self.now);
            *out += if goes_on { "  it goes on after a loss\n" } else { "" };
        }
    }
}

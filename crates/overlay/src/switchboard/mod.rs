//! All lookups of one node at once, but for the full table, which is beside them.
//!
//! ```text
//!   full table ──► whom this node leads ──► for each shard led here: linear, chord, chord-sharp ─┐
//!        │    └──► who leads whom (addresses) ──────────────────────► all of these               │
//!        │                                                                                       │
//!        └──► where buckets are ─► lh      image ◄── owners that were found                      │
//!                                  │         │                                                   │
//!   begin(request) ──► requests ◄──┴─────────┴──── where next? ──────────────────────────────────┘
//!                        └──► find, next, found … to other nodes
//! ```
//!
//! # What is taken from the full table
//! *Addresses*: which node leads a shard. In the papers a member is its address; a shard's leader
//! moves. *The first list* of a table: a node that begins to lead a shard has no table of it, and
//! begins with the neighbours that the full table names, as if the leader before had handed them
//! on. *Addresses of buckets*, by their number. Nothing else: from there on a ring keeps itself, by
//! its own messages, and finds what is cut, merged or gone.
//!
//! # With images, and without
//! With images a node goes by whatever it knows: by an owner that was found before, and by the
//! table, of all shards that it leads, that is nearest before the point. Without, a request goes
//! from table to table as in the papers: it begins at one of the shards that this node leads, in
//! turns, and each table that it reaches leads on by itself alone.
//!
//! # Limits
//! | what | at most | beyond it |
//! |---|---|---|
//! | owners remembered | `ROUTE_CACHE_ENTRIES_MAX` | one is forgotten |
//! | addresses of buckets | `ADDRESSES_MAX` | one is forgotten |
//! | messages of a node to itself, of one call | [`LOCAL_MAX`] | the rest is lost, and asked for again |
//!
//! # Invariants
//! 1. There is a table of each strategy for each shard that was led here at the last
//!    [`Switchboard::lead`], and of no other.
//! 2. All that stands here may be wrong, or gone: then requests fail, and who asked goes by the
//!    full table. It never makes a shard answer for what it does not own.

mod board;

use std::collections::VecDeque;
use std::sync::Arc as Shared;

use keyspace::{KeyspaceId, NodeId, ShardId};

use crate::known_shard::KnownShard;
use crate::lookup::{Kind, Outbox};
use crate::message::Message;
use crate::request::{LookupRequest, RequestEvent, Requests};
use crate::table::Table;
use board::{NodeTables, View};

/// The most messages that a node says to itself within one call: a walk through all shards of a
/// large keyspace, if all are here.
pub const LOCAL_MAX: usize = 256 * 1024;

/// See the front page.
#[derive(Clone, Debug)]
pub struct Switchboard {
    node: NodeId,
    board: NodeTables,
    requests: Requests,
}

/// What comes of a call: what is to be sent, and what was seen of requests.
#[derive(Debug, Default)]
pub struct Effects {
    /// For other nodes.
    pub out: Outbox,
    /// Of requests of this node.
    pub events: Vec<RequestEvent>,
}

impl Switchboard {
    /// One that knows nothing. `seed` was drawn at random at this start of the node: numbers of its
    /// questions begin there.
    pub fn new(node: NodeId, seed: u64) -> Self {
        Self { node, board: NodeTables::new(node, seed), requests: Requests::new(node, seed) }
    }

    /// These shards are led here now, each as it knows itself; no others. Whether there are tables
    /// that were not there before.
    pub fn lead(&mut self, led: &[Shared<KnownShard>], full: &Table) -> bool {
        self.board.lead(led, full)
    }

    /// The full table has learnt this: addresses of members that are known here are as new.
    pub fn learn(&mut self, known: &Shared<KnownShard>) {
        self.board.learn(known);
    }

    /// A keyspace is gone.
    pub fn drop_keyspace(&mut self, keyspace: KeyspaceId) {
        self.board.drop_keyspace(keyspace);
    }

    /// The other nodes that are believed alive.
    pub fn peers(&mut self, nodes: &[NodeId]) {
        self.board.peers(nodes);
    }

    /// Begins a request; answers its id.
    pub fn begin(&mut self, request: LookupRequest, full: &Table, effects: &mut Effects) -> u64 {
        let view = View { board: &self.board, full };
        let id = self.requests.begin(request, &view, &mut effects.out, &mut effects.events);
        self.say_here(full, effects);
        id
    }

    /// A unit of time of requests passes.
    pub fn tick_requests(&mut self, full: &Table, effects: &mut Effects) {
        let view = View { board: &self.board, full };
        self.requests.tick(&view, &mut effects.out, &mut effects.events);
        self.say_here(full, effects);
    }

    /// A unit of time passes for a part of the tables: those of every `of`-th shard led here,
    /// counted from the `turn`-th. So many calls, one for each turn, are a unit of time for all.
    pub fn tick_rings(&mut self, turn: usize, of: usize, full: &Table, effects: &mut Effects) {
        self.board.tick(turn, of, &mut effects.out);
        self.say_here(full, effects);
    }

    /// Handles what another node says. Messages of full tables are ignored.
    pub fn step(&mut self, from: NodeId, message: Message, full: &Table, effects: &mut Effects) {
        self.handle(from, message, full, effects);
        self.say_here(full, effects);
    }

    /// Forgets every table, image and address. Requests that are open go on.
    pub fn forget(&mut self) {
        self.board = NodeTables::new(self.node, self.board.numbers());
    }

    /// How many places the tables of a lookup have, over all shards led here; of `lh`, addresses
    /// that are remembered; of `full`, none: they are not here.
    pub fn entries(&self, kind: Kind) -> usize {
        self.board.entries(kind)
    }

    /// How many owners are remembered.
    pub fn images(&self) -> usize {
        self.board.images()
    }

    /// How many requests of this node are open, and how many answers it is to pass back.
    pub fn open_requests(&self) -> (usize, usize) {
        self.requests.counts()
    }

    /// Of how many shards there are tables.
    pub fn shards(&self) -> usize {
        self.board.shards()
    }

    /// The successors of a shard's table, for whoever wants to see.
    pub fn successors(&self, kind: Kind, shard: ShardId) -> Option<Vec<ShardId>> {
        self.board.successors(kind, shard)
    }

    fn handle(&mut self, from: NodeId, message: Message, full: &Table, effects: &mut Effects) {
        match message {
            Message::Request(word) => {
                let view = View { board: &self.board, full };
                self.requests.step(word, &view, &mut effects.out, &mut effects.events);
            }
            message => self.board.step(from, message, &mut effects.out),
        }
    }

    /// Learns from what was found; and what it says to itself is heard, until there is nothing.
    fn say_here(&mut self, full: &Table, effects: &mut Effects) {
        let mut here: VecDeque<Message> = VecDeque::new();
        let mut left = LOCAL_MAX;
        loop {
            for (to, message) in std::mem::take(&mut effects.out) {
                match to == self.node {
                    true => here.push_back(message),
                    false => effects.out.push((to, message)),
                }
            }
            let Some(message) = here.pop_front().filter(|_| left > 0) else { break };
            left -= 1;
            let others = std::mem::take(&mut effects.out);
            self.handle(self.node, message, full, effects);
            let new = std::mem::replace(&mut effects.out, others);
            for (to, message) in new {
                match to == self.node {
                    true => here.push_back(message),
                    false => effects.out.push((to, message)),
                }
            }
        }
        for event in &effects.events {
            match event {
                RequestEvent::Found { owner, .. } => self.board.found(owner),
                RequestEvent::Silent { shard, generation, .. } => {
                    self.board.mark_unreachable(*shard, *generation);
                }
                RequestEvent::Unsure { shard, generation } => {
                    self.board.forget_image(*shard, *generation);
                }
                RequestEvent::Failed { .. } | RequestEvent::Asked { .. } => {}
            }
        }
    }
}

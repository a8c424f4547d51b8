//! All lookups of one node, except the full table.
//!
//! ```text
//!   full table ──► shards led here ──► for each of them: linear, chord, chord-sharp ─────────────┐
//!        │    └──► leaders of shards (addresses) ───────────────────► all of these               │
//!        │                                                                                       │
//!        └──► where buckets are ─► lh    route cache ◄── owners that were found                  │
//!                                  │         │                                                   │
//!   begin(request) ──► requests ◄──┴─────────┴──── where next? ──────────────────────────────────┘
//!                        └──► find, next, found … to other nodes
//! ```
//!
//! # What the full table gives
//! *Addresses*: which node leads a shard. In the papers a member is its address; a shard's leader
//! moves.
//!
//! *The first list* of a table: a node that begins to lead a shard has no table of it. It begins
//! with the neighbours that the full table names, as if the leader before had handed them on.
//!
//! *Addresses of buckets*, by their number. Nothing else: from there on a ring maintains itself by
//! its own messages, and finds splits, merges and dead members.
//!
//! # With the route cache, and without
//! With it, a node uses all that it knows: an owner found before, and, of all shards that it leads,
//! the table nearest before the point. Without it, a request goes from table to table as in the
//! papers. It begins at one of the shards that this node leads, in turns, and each table sends it
//! on by itself alone.
//!
//! # Limits
//! | what | at most | beyond it |
//! |---|---|---|
//! | owners remembered | `ROUTE_CACHE_ENTRIES_MAX` | one is forgotten |
//! | addresses of buckets | `ADDRESSES_MAX` | one is forgotten |
//! | messages of a node to itself, of one call | [`LOCAL_MAX`] | the rest is lost, and sent again later |
//!
//! # Invariants
//! 1. There is a table of each strategy for each shard that was led here at the last
//!    [`Switchboard::lead`], and of no other.
//! 2. All of this may be wrong or missing: then requests fail, and their askers use the full table.
//!    It never makes a shard serve what it does not own.

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

/// The most messages of a node to itself within one call: a route through all shards of a large
/// keyspace, if all are here.
pub const LOCAL_MAX: usize = 256 * 1024;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Switchboard {
    node: NodeId,
    board: NodeTables,
    requests: Requests,
}

/// The effects of a call: messages to send, and events of requests.
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

    /// A keyspace was dropped.
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
        self.deliver_locally(full, effects);
        id
    }

    /// A unit of time of requests passes.
    pub fn tick_requests(&mut self, full: &Table, effects: &mut Effects) {
        let view = View { board: &self.board, full };
        self.requests.tick(&view, &mut effects.out, &mut effects.events);
        self.deliver_locally(full, effects);
    }

    /// One unit of time for a part of the tables: those of every `of`-th shard led here, from the
    /// `turn`-th on. `of` calls, one for each turn, are one unit for all.
    pub fn tick_rings(&mut self, turn: usize, of: usize, full: &Table, effects: &mut Effects) {
        self.board.tick(turn, of, &mut effects.out);
        self.deliver_locally(full, effects);
    }

    /// Handles another node's message. Messages of full tables are ignored.
    pub fn step(&mut self, from: NodeId, message: Message, full: &Table, effects: &mut Effects) {
        self.handle(from, message, full, effects);
        self.deliver_locally(full, effects);
    }

    /// Forgets every table, cached route and address. Requests that are open go on.
    pub fn forget(&mut self) {
        self.board = NodeTables::new(self.node, self.board.numbers());
    }

    /// How many places the tables of a lookup have, over all shards led here; of `lh`, addresses
    /// that are remembered; of `full`, none: they are not here.
    pub fn entries(&self, kind: Kind) -> usize {
        self.board.entries(kind)
    }

    /// How many owners are remembered.
    pub fn cached_routes(&self) -> usize {
        self.board.cached_routes()
    }

    /// How many requests of this node are open, and how many answers it is to pass back.
    pub fn open_requests(&self) -> (usize, usize) {
        self.requests.counts()
    }

    /// Of how many shards there are tables.
    pub fn shards(&self) -> usize {
        self.board.shards()
    }

    /// The successors in a shard's table, for diagnosis.
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
    fn deliver_locally(&mut self, full: &Table, effects: &mut Effects) {
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
                    self.board.forget_cached(*shard, *generation);
                }
                RequestEvent::Failed { .. } | RequestEvent::Asked { .. } => {}
            }
        }
    }
}

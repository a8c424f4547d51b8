//! The ring and nothing else: requests go from successor to successor.
//!
//! ```text
//!   point p:   a ──► b ──► c ──► d ──► e  holds p
//! ```
//!
//! A table is a list of successors ([`ring`](crate::ring)), whatever the number of members; all but
//! the first are there for when that one is gone. A request goes on to the next member that is
//! trusted: of N it asks about N / 2. Too many for most, and for [`HOPS_MAX`](crate::HOPS_MAX) as
//! soon as there are some hundred; it is what fingers are measured against, and what is still true
//! when all fingers are wrong.

use std::sync::Arc as Shared;

use keyspace::{Generation, NodeId, ShardId};

use crate::known::Known;
use crate::lookup::{Learnt, Lookup, News, Outbox, Step};
use crate::message::Message;
use crate::point::Point;
use crate::ring::place::Members;
use crate::ring::word::Strategy;
use crate::ring::{Ring, Via};

/// One member's table.
#[derive(Clone, Debug)]
pub struct Linear {
    ring: Ring,
}

impl Linear {
    /// A member that knows nobody yet, or is the only one; lists of `length` successors.
    pub fn new(me: Shared<Known>, length: usize) -> Self {
        Self { ring: Ring::new(Strategy::Linear, me, length) }
    }

    /// A member that joins right after `left`, whose list is `list` ([`Ring::list`]).
    pub fn join(
        me: Shared<Known>,
        left: Shared<Known>,
        list: &[Shared<Known>],
        length: usize,
    ) -> Self {
        Self { ring: Ring::join(Strategy::Linear, me, left, list, length) }
    }

    /// The table that the member at `at` has in a stable ring.
    pub fn ideal(all: &Members, at: usize, length: usize) -> Self {
        Self { ring: Ring::ideal(Strategy::Linear, all, at, length) }
    }

    /// Its place in the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What leads a request for a point on from here; `None` if nothing does, or it has arrived.
    pub fn via(&self, point: Point<'_>) -> Option<(Via, Shared<Known>)> {
        self.ring.via(&[], point, |_| 0)
    }

    /// Everybody in the table.
    pub fn entries(&self) -> impl Iterator<Item = (Via, &Shared<Known>)> {
        self.ring.entries()
    }
}

impl Lookup for Linear {
    fn next(&self, point: Point<'_>) -> Step<'_> {
        self.ring.next(&[], point)
    }

    fn learn(&mut self, news: News) -> Learnt {
        self.ring.learn(news, &mut Vec::new())
    }

    fn distrust(&mut self, shard: ShardId, generation: Generation) {
        let known = self.ring.remembers(shard, generation, &[]);
        self.ring.distrust(shard, known);
    }

    fn peers(&mut self, nodes: &[NodeId]) {
        self.ring.peers(nodes);
    }

    fn tick(&mut self, out: &mut Outbox) {
        self.ring.tick(out);
    }

    fn step(&mut self, _: NodeId, message: Message, out: &mut Outbox) {
        if let Some((from, word)) = self.ring.open(message) {
            self.ring.step(from, word, out);
        }
    }
}

//! The ring and nothing else: requests go from successor to successor.
//!
//! ```text
//!   point p:   a ──► b ──► c ──► d ──► e  holds p
//! ```
//!
//! A table is a list of successors ([`ring`](crate::ring)), whatever the number of members; all but
//! the first are spares. A request goes to the next trusted member, and so passes about N / 2 of N
//! members. That is too many for most uses, and above [`HOPS_MAX`](crate::HOPS_MAX) with some
//! hundred members. Fingers are measured against it, and it still works when all fingers are wrong.

use std::sync::Arc as Shared;

use crate::known_shard::KnownShard;
use crate::lookup::Outbox;
use crate::ring::Ring;
use crate::ring::member::{Finger, Fingers, MemberTable};
use crate::ring::message::{RingMessage, Strategy};
use crate::ring::place::Members;

/// One member's table.
pub type Linear = MemberTable<NoFingers>;

/// No fingers, and none are looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFingers;

impl Fingers for NoFingers {
    const STRATEGY: Strategy = Strategy::Linear;

    fn ideal(&self, _: &Ring, _: &Members, _: usize) -> Vec<Finger> {
        Vec::new()
    }

    fn tick(&mut self, _: &mut Ring, _: &mut Outbox) {}

    fn step(
        &mut self,
        _: &mut Ring,
        _: &Shared<KnownShard>,
        word: RingMessage,
        _: &mut Outbox,
    ) -> Option<RingMessage> {
        Some(word)
    }
}

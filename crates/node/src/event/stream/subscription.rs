//! What was asked of another node for one viewer, and whether anything has been lost on the way.

use keyspace::{NodeId, Timestamp};

use super::message::{EventMessage, WatchMessage};
use super::{Cursor, Filter, Item};

/// How often a node repeats what it wants.
pub const RENEW_NANOS: u64 = 1_000_000_000;
/// Who does not repeat it for so long is forgotten.
pub const LEASE_NANOS: u64 = 5_000_000_000;
/// The most bytes of items that a node sends ahead.
pub const CREDIT_BYTES_MAX: usize = 256 << 10;

/// See the module's documentation.
#[derive(Debug)]
pub struct Subscription {
    node: NodeId,
    watch: u64,
    restart: u64,
    /// The number of the frame that comes next.
    sequence: u64,
    /// Behind the last item that has come.
    cursor: Cursor,
    /// Bytes of items that have come since it was begun anew.
    received: u64,
    /// The credit that the node knows of.
    credit: u64,
    /// When it is to be repeated.
    renew_at: u64,
}

impl Subscription {
    /// Of a node, from a place on. Nothing was asked yet.
    pub fn new(node: NodeId, watch: u64, cursor: Cursor) -> Self {
        let (restart, sequence, received, credit, renew_at) = Default::default();
        Self { node, watch, restart, sequence, cursor, received, credit, renew_at }
    }

    /// What is to be sent now, if something is: it is time, or that node may send much more than it
    /// knows, since only `held` bytes of what has come still wait here.
    pub fn due(
        &mut self,
        now_nanos: u64,
        held: usize,
        filter: &Filter,
        samples: u32,
    ) -> Option<EventMessage> {
        let credit = self.received + CREDIT_BYTES_MAX.saturating_sub(held) as u64;
        let is_short = credit >= self.credit + CREDIT_BYTES_MAX as u64 / 2;
        if now_nanos < self.renew_at && !is_short {
            return None;
        }
        self.renew_at = now_nanos + RENEW_NANOS;
        self.credit = self.credit.max(credit);
        Some(EventMessage::Watch(WatchMessage {
            watch: self.watch,
            restart: self.restart,
            cursor: self.cursor,
            filter: filter.clone(),
            samples,
            credit: self.credit,
        }))
    }

    /// A frame has come. Its items, if it is the one that was to come next; else the node is asked
    /// anew, at once.
    pub fn accept(&mut self, restart: u64, sequence: u64, items: Vec<Item>) -> Option<Vec<Item>> {
        if restart != self.restart {
            return None;
        }
        if sequence != self.sequence {
            self.begin_anew();
            return None;
        }
        self.sequence += 1;
        self.received += items.iter().map(|item| item.bytes() as u64).sum::<u64>();
        for item in &items {
            if let Item::Event(at, _) = item {
                self.seen(*at);
            } else if let Item::Gap(gap) = item {
                self.seen(gap.to);
            }
        }
        Some(items)
    }

    fn seen(&mut self, at: Timestamp) {
        self.cursor = self.cursor.max(Cursor::behind(at, self.node));
    }

    /// The link was lost, or what has come cannot be used: the node is to begin behind the last
    /// event that has come.
    pub fn begin_anew(&mut self) {
        self.restart += 1;
        (self.sequence, self.received, self.credit, self.renew_at) = Default::default();
    }
}

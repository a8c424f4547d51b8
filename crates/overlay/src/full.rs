//! The full table: every node knows every shard, and gossip keeps the tables equal.
//!
//! News spreads in two ways. A **rumour** is quick: at its next tick a node tells three peers what
//! it has just learnt, and they do the same, once. A rumour may miss a node. An **exchange** is
//! sure: at each tick a node sends one peer the digest of its table. Where the tables differ, both
//! learn what they lack:
//!
//! ```text
//!   A                                                   B
//!   │ Digest: sums of 256 buckets ────────────────────► │  equal: silence
//!   │ ◄──────────────── Summary: versions in buckets ── │  that differ
//!   │ Want: what A lacks ─────────────────────────────► │
//!   │ ◄──────────────────── Shards, newest first ────── │
//!   │ Shards: what B lacks, newest first ─────────────► │
//!   learns                                         learns
//! ```
//!
//! # Why two undisturbed exchanges make the two equal
//! Within the buckets that fit, each side learns the other's newer descriptors by falling rank.
//! When a side learns X, it has already made every replacement of a higher rank. So X stays exactly
//! if nothing that stays contradicts it. That depends only on the union of both tables
//! ([`table`](crate::table), invariant 3), so it is equal on both sides: one exchange makes the
//! descriptors equal. A newer hint beside an older descriptor has then moved to the newer one on
//! its own side only; the second exchange sends it. Disturbed exchanges do no harm, and the next
//! one finds a smaller difference, since the side without the highest-ranked difference learns it.
//!
//! # Limits
//! | what | at most | beyond it |
//! |---|---|---|
//! | a message | [`MESSAGE_BYTES_MAX`](crate::message::MESSAGE_BYTES_MAX) | cut; the rest next time |
//! | messages with shards for one message or tick | [`SHARDS_MESSAGES_MAX`] | the lowest ranks wait |
//! | versions in a summary | [`SUMMARY_VERSIONS_MAX`] | other buckets wait; where it begins is drawn |
//! | news held for rumours | [`RUMOURS_MAX`] | left to exchanges |
//! | shards in the table | [`FULL_ENTRIES_MAX`] | not learnt |
//!
//! # Distrust
//! When no replica of a shard answered, the table keeps the descriptor: it is shown, and compared
//! by generation. But it sends requests to peers until it hears of the shard again, or until the
//! next tick.

use std::collections::BTreeSet;
use std::sync::Arc as Shared;

use keyspace::random::mix;
use keyspace::{Generation, NodeId, ShardId};

use crate::dropped_keyspaces::DroppedKeyspaces;
use crate::known_shard::KnownShard;
use crate::lookup::{LearnOutcome, Lookup, Outbox, Step, Update};
use crate::message::{Message, SUMMARY_VERSIONS_MAX, pieces};
use crate::point::Point;
use crate::table::{BUCKETS, Sums, Table, Version};

/// The most shards a full table holds.
pub const FULL_ENTRIES_MAX: usize = 512 * 1024;

/// To how many peers a node sends what it has just learnt.
pub const RUMOUR_PEERS: usize = 3;

/// The most shards that wait to be sent as rumours.
pub const RUMOURS_MAX: usize = 1024;

/// The most messages with shards that one message, or one tick for each peer, leads to.
pub const SHARDS_MESSAGES_MAX: usize = 4;

/// Every descriptor, kept equal to that of other nodes.
#[derive(Clone, Debug)]
pub struct FullTable {
    table: Table,
    peers: Vec<NodeId>,
    /// Shards learnt since the last tick, to be told as rumours.
    fresh: BTreeSet<ShardId>,
    /// Shards that changed since the last [`FullTable::take_changed`].
    changed: BTreeSet<ShardId>,
    /// Shards whose replicas did not answer since the last tick.
    distrusted: BTreeSet<ShardId>,
    /// The state of the generator that picks peers and buckets.
    random: u64,
}

impl FullTable {
    /// An empty table. The seed decides which peers it talks to when; give each node another.
    pub fn new(seed: u64) -> Self {
        Self {
            table: Table::default(),
            peers: Vec::new(),
            fresh: BTreeSet::new(),
            changed: BTreeSet::new(),
            distrusted: BTreeSet::new(),
            random: seed,
        }
    }

    /// Its descriptors.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// A number below `count`, which is not 0.
    fn draw(&mut self, count: usize) -> usize {
        self.random = self.random.wrapping_add(1);
        (mix(self.random) % count as u64) as usize
    }

    /// Learns a shard and trusts it again, unless what it was told is old.
    fn take(&mut self, known: Shared<KnownShard>) -> LearnOutcome {
        let shard = known.shard();
        let learnt = self.table.learn(known, FULL_ENTRIES_MAX);
        self.note(shard, learnt);
        learnt
    }

    /// What was learnt of a shard makes it trusted again, and may be news for who asks it.
    fn note(&mut self, shard: ShardId, learnt: LearnOutcome) {
        if matches!(learnt, LearnOutcome::New | LearnOutcome::Leader) {
            self.changed.insert(shard);
        }
        if matches!(learnt, LearnOutcome::New | LearnOutcome::Leader | LearnOutcome::Known) {
            self.distrusted.remove(&shard);
        }
    }

    /// The shards of which something newer was learnt since this was last asked, as they are known
    /// now.
    pub fn take_changed(&mut self) -> Vec<Shared<KnownShard>> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().filter_map(|shard| self.table.shard(shard).cloned()).collect()
    }

    /// Remembers to tell others, if it was new.
    fn spread(&mut self, shard: ShardId, learnt: LearnOutcome) -> LearnOutcome {
        let new = matches!(learnt, LearnOutcome::New | LearnOutcome::Leader);
        if new && self.fresh.len() < RUMOURS_MAX {
            self.fresh.insert(shard);
        }
        learnt
    }

    /// Tells some peers what was learnt since the last tick.
    fn rumour(&mut self, out: &mut Outbox) {
        let fresh = std::mem::take(&mut self.fresh);
        let known = fresh.into_iter().filter_map(|shard| self.table.shard(shard).cloned());
        let pieces = pieces(newest_first(known.collect()), SHARDS_MESSAGES_MAX);
        if pieces.is_empty() {
            return;
        }
        // The first places of a shuffle.
        for place in 0..RUMOUR_PEERS.min(self.peers.len()) {
            let other = place + self.draw(self.peers.len() - place);
            self.peers.swap(place, other);
            let peer = self.peers[place];
            out.extend(pieces.iter().map(|piece| (peer, Message::Rumour(piece.clone()))));
        }
    }

    /// Answers a digest, if it differs.
    fn compare(&mut self, from: NodeId, dropped: u64, sums: &Sums, out: &mut Outbox) {
        if dropped != self.table.dropped().sum() {
            out.push((from, Message::Dropped(self.table.dropped().clone())));
        }
        let first = self.draw(BUCKETS);
        let mut summary: Vec<(u8, Vec<Version>)> = Vec::new();
        let mut left = SUMMARY_VERSIONS_MAX;
        for bucket in (0..BUCKETS).map(|index| (first + index) % BUCKETS) {
            if sums[bucket] == self.table.sums()[bucket] {
                continue;
            }
            let bucket = bucket as u8;
            let count = self.table.bucket(bucket).count();
            if count > left && !summary.is_empty() {
                break;
            }
            let versions = self.table.bucket(bucket).take(left).map(|known| Version::of(known));
            summary.push((bucket, versions.collect()));
            left = left.saturating_sub(count);
        }
        if !summary.is_empty() {
            summary.sort_unstable_by_key(|(bucket, _)| *bucket);
            out.push((from, Message::Summary(summary)));
        }
    }

    /// Asks for what is lacking here, and tells what the sender of a summary lacks.
    fn reconcile(&self, from: NodeId, summary: Vec<(u8, Vec<Version>)>, out: &mut Outbox) {
        let (mut give, mut want) = (Vec::new(), Vec::new());
        for (bucket, theirs) in summary {
            for known in self.table.bucket(bucket) {
                let place = theirs.binary_search_by_key(&known.shard(), |version| version.shard);
                let lacks = match place {
                    Ok(place) => has_more(&Version::of(known), &theirs[place]),
                    Err(_) => true,
                };
                give.extend(lacks.then(|| known.clone()));
            }
            let lacks = |theirs: &&Version| {
                let ours = self.table.shard(theirs.shard);
                ours.is_none_or(|known| has_more(theirs, &Version::of(known)))
            };
            want.extend(theirs.iter().filter(lacks).map(|version| version.shard));
        }
        // The other side must read the want first: what it is told may replace what is wanted.
        if !want.is_empty() {
            out.push((from, Message::Want(want)));
        }
        self.send_shards(from, give, out);
    }

    /// Sends shards, newest first, as far as they fit.
    fn send_shards(&self, to: NodeId, known: Vec<Shared<KnownShard>>, out: &mut Outbox) {
        let pieces = pieces(newest_first(known), SHARDS_MESSAGES_MAX);
        out.extend(pieces.into_iter().map(|piece| (to, Message::Shards(piece))));
    }

    /// Unites the dropped keyspaces; answers if the sender knew fewer.
    fn unite(&mut self, from: NodeId, theirs: &DroppedKeyspaces, out: &mut Outbox) {
        for (first, last) in theirs.ranges() {
            self.table.drop_keyspaces(first, last);
        }
        if self.table.dropped() != theirs {
            out.push((from, Message::Dropped(self.table.dropped().clone())));
        }
    }
}

/// Whether the first version is news for a node with the second: a newer descriptor, or a newer
/// leader with the same one. (With an older descriptor a newer leader is no news: the other side
/// might have forgotten the newer descriptor by then, and would take this one for the truth.)
fn has_more(first: &Version, second: &Version) -> bool {
    (first.generation, first.term) > (second.generation, second.term)
}

/// By falling rank: the order in which learning leads to the same table everywhere.
fn newest_first(mut known: Vec<Shared<KnownShard>>) -> Vec<Shared<KnownShard>> {
    known.sort_unstable_by_key(|known| std::cmp::Reverse(known.rank()));
    known
}

impl Lookup for FullTable {
    fn next(&self, point: Point<'_>) -> Step<'_> {
        match self.table.owner(point) {
            Some(known) if self.peers.is_empty() || self.distrusted.is_empty() => {
                Step::Owner(known)
            }
            Some(known) if !self.distrusted.contains(&known.shard()) => Step::Owner(known),
            _ => Step::Ask(&self.peers),
        }
    }

    fn learn(&mut self, news: Update) -> LearnOutcome {
        match news {
            Update::Shard(known) => {
                let shard = known.shard();
                let learnt = self.take(known);
                self.spread(shard, learnt)
            }
            Update::Leader { shard, hint } => {
                let learnt = self.table.hint(shard, hint);
                if learnt == LearnOutcome::Leader {
                    self.note(shard, learnt);
                }
                self.spread(shard, learnt)
            }
            Update::Dropped(keyspace) => self.table.drop_keyspace(keyspace),
        }
    }

    fn mark_unreachable(&mut self, shard: ShardId, generation: Generation) {
        let known = self.table.shard(shard);
        if known.is_some_and(|known| known.generation() == generation) {
            self.distrusted.insert(shard);
        }
    }

    fn peers(&mut self, nodes: &[NodeId]) {
        self.peers = nodes.to_vec();
    }

    fn tick(&mut self, out: &mut Outbox) {
        self.distrusted.clear();
        if self.peers.is_empty() {
            return;
        }
        self.rumour(out);
        let index = self.draw(self.peers.len());
        let dropped = self.table.dropped().sum();
        let sums = Box::new(*self.table.sums());
        out.push((self.peers[index], Message::Digest { dropped, sums }));
    }

    fn step(&mut self, from: NodeId, message: Message, out: &mut Outbox) {
        match message {
            Message::Digest { dropped, sums } => self.compare(from, dropped, &sums, out),
            Message::Summary(summary) => self.reconcile(from, summary, out),
            Message::Want(shards) => {
                let known = shards.into_iter().filter_map(|shard| self.table.shard(shard).cloned());
                self.send_shards(from, known.collect(), out);
            }
            Message::Shards(known) => {
                for known in known {
                    self.take(known);
                }
            }
            Message::Rumour(known) => {
                for known in known {
                    let shard = known.shard();
                    let learnt = self.take(known);
                    self.spread(shard, learnt);
                }
            }
            Message::Dropped(dropped) => self.unite(from, &dropped, out),
            // For tables of shards, and for requests, which are not kept here.
            Message::Ring { .. } | Message::Request(_) => {}
        }
    }
}

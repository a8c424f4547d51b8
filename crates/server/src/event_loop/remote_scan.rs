//! Fetches for keyspace scans: keys of shards that are remote, or that lag here. Below, *remote*
//! means both.
//!
//! ```text
//!   DBSIZE ──► here: counted        ──┐
//!          ──► remote: Want::Size   ──┴─► the sum
//!   KEYS   ──► remote: all keys, in pieces, up to `output_bytes_max`
//!   SCAN   ──► a page of the shard in which the cursor stands, here or remote
//!   RANGE  ──► remote: the shard's part of the range, in pieces
//! ```

use std::ops::Bound;

use command::Pair;
use keyspace::{Placement, Slot};
use node::replica::scan;
use node::routing::fetch::{FetchRequest, FetchResult};
use node::routing::route::Route;

use super::keyspace_scan::range_query;
use gateway::resp::KeyspaceRequest;

/// The answers of remote shards, merged.
#[derive(Default)]
pub(super) struct RemoteScan {
    /// How many keys there are.
    pub size: u64,
    /// Keys.
    pub keys: Vec<Box<[u8]>>,
    /// Whether there are more: too many for one answer.
    pub is_cut: bool,
    /// Where the only shard asked goes on.
    pub next: Option<u64>,
    /// Keys with values.
    pub pairs: Vec<Pair>,
    /// Keys drawn, each with the size of its shard.
    drawn: Vec<(u64, Box<[u8]>)>,
}

impl RemoteScan {
    /// Merges the answers of all remote shards.
    pub fn gather<'f>(found: impl Iterator<Item = &'f FetchResult>) -> Self {
        let mut remote = Self::default();
        for found in found {
            match found {
                FetchResult::Size(size) => remote.size += size,
                FetchResult::Random { size, key } => {
                    remote.size += size;
                    remote.drawn.extend(key.clone().map(|key| (*size, key)));
                }
                FetchResult::Keys { keys, next } => {
                    remote.keys.extend(keys.iter().cloned());
                    remote.is_cut |= next.is_some();
                    remote.next = *next;
                }
                FetchResult::Pairs { pairs, reached } => {
                    remote.keys.extend(pairs.iter().map(|(key, _)| key.clone()));
                    remote.pairs.extend(pairs.iter().cloned());
                    remote.is_cut |= reached.is_some();
                }
                FetchResult::Versions(_)
                | FetchResult::Then(_)
                | FetchResult::History(_)
                | FetchResult::Past(_)
                | FetchResult::BelowSafePoint(_)
                | FetchResult::Newest(_)
                | FetchResult::SafePoints(_)
                | FetchResult::Changes(_)
                | FetchResult::Tracked(_)
                | FetchResult::Catalogue { .. } => {}
            }
        }
        remote
    }

    /// One of the keys drawn, by the size of their shards.
    pub fn random(&self, random: u64) -> Option<Box<[u8]>> {
        let total: u64 = self.drawn.iter().map(|(size, _)| size).sum();
        let mut left = random.rotate_left(29).checked_rem(total)?;
        let of_it = self.drawn.iter().find(|(size, _)| {
            let here = left < *size;
            left = left.saturating_sub(*size);
            here
        });
        of_it.map(|(_, key)| key.clone())
    }
}

/// The shard of a SCAN's page, if some shards are remote: the one in which the cursor lies. None
/// if the cursor lies in no shard.
pub(super) fn scanned_place(route: &Route, cursor: u64) -> Option<usize> {
    let has_cursors = route.keyspace.options.placement != Placement::Ordered;
    has_cursors.then(|| scan::place_of(route, cursor).unwrap_or(usize::MAX))
}

/// What a keyspace scan fetches from one remote shard.
pub(super) fn want_of(
    request: &KeyspaceRequest<'_>,
    route: &Route,
    place: usize,
    random: u64,
) -> FetchRequest {
    let (first, end) = route.slots(place);
    let ends = || route.arc(place).ends();
    let from = |slot: Slot| scan::cursor_of(storage::engine::ScanCursor { slot, hash: 0 });
    match request {
        KeyspaceRequest::Size | KeyspaceRequest::Flush | KeyspaceRequest::FlushAll => {
            FetchRequest::Size { ends: ends() }
        }
        KeyspaceRequest::RandomKey => FetchRequest::Random { ends: ends(), number: random },
        KeyspaceRequest::Keys { .. } if is(route, Placement::LinearHash) => {
            let (from, end) = route.numbers(place);
            FetchRequest::Numbers { from, end, keys_max: u64::MAX }
        }
        KeyspaceRequest::Scan { cursor, count, .. } if is(route, Placement::LinearHash) => {
            let (_, end) = route.numbers(place);
            FetchRequest::Numbers { from: *cursor, end, keys_max: *count }
        }
        KeyspaceRequest::Keys { .. } if is(route, Placement::Ordered) => {
            let (low, high) = scan::within(route.arc(place), Bound::Unbounded, Bound::Unbounded);
            FetchRequest::Range {
                low,
                high,
                reverse: false,
                keys_max: u64::MAX,
                with_values: false,
            }
        }
        KeyspaceRequest::Keys { .. } => {
            FetchRequest::Scan { cursor: from(first), end, keys_max: u64::MAX }
        }
        KeyspaceRequest::Scan { cursor, count, .. } => {
            FetchRequest::Scan { cursor: *cursor, end, keys_max: *count }
        }
        KeyspaceRequest::CountInSlot { slot } => {
            FetchRequest::Scan { cursor: from(*slot), end: slot + 1, keys_max: u64::MAX }
        }
        KeyspaceRequest::KeysInSlot { slot, count } => {
            FetchRequest::Scan { cursor: from(*slot), end: slot + 1, keys_max: *count as u64 }
        }
        KeyspaceRequest::Range(range) => {
            let bounds = range_query(range);
            let (low, high) = scan::within(route.arc(place), bounds.low, bounds.high);
            FetchRequest::Range {
                low,
                high,
                reverse: bounds.reverse,
                keys_max: bounds.keys_max as u64,
                with_values: range.with_values,
            }
        }
    }
}

fn is(route: &Route, placement: Placement) -> bool {
    route.keyspace.options.placement == placement
}

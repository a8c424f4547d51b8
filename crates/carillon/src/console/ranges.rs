//! Ranges in transactions of viewers: what is in one now, and what has to stay so until the commit.

use std::collections::{BTreeMap, BTreeSet};

use api::{ApiError, TxnPair};
use keyspace::{Keyspace, Timestamp};
use sim::live::action::{Bytes, WatchedRange};
use sim::live::{KeyView, Simulation};

use super::service::NO_LEADER;

/// Keys of a keyspace that are looked through at most.
const KEYS_MAX: usize = 1 << 20;

/// A range that is asked for.
pub struct Wanted<'a> {
    /// The first key that may be shown.
    pub from: Option<&'a [u8]>,
    /// The first key behind those.
    pub to: Option<&'a [u8]>,
    /// At most so many keys.
    pub limit: usize,
    /// From high to low.
    pub reverse: bool,
}

/// What there is.
pub struct Found {
    /// Keys with their values, as the transaction sees them.
    pub pairs: Vec<TxnPair>,
    /// Keys that have a value in the part that was looked through, without the transaction.
    pub stored: Vec<Vec<u8>>,
    /// That part.
    pub range: WatchedRange,
}

/// Looks through a range. `changed`: what the transaction knows of keys already.
///
/// # Errors
/// If a shard has no leader who is up.
pub fn look(
    sim: &Simulation,
    keyspace: &Keyspace,
    wanted: &Wanted<'_>,
    changed: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> Result<Found, ApiError> {
    let unled = || ApiError::Busy { why: NO_LEADER };
    let all = sim.keys(keyspace, b"", None, KEYS_MAX).ok_or_else(unled)?;
    let mut stored: BTreeSet<Vec<u8>> = all.into_iter().filter(|key| wanted.has(key)).collect();
    let (keys, range) = part(wanted, &stored, changed);
    stored.retain(|key| *key >= range.from.0 && range.to.as_ref().is_none_or(|to| *key < to.0));
    let mut pairs = Vec::new();
    for key in keys {
        let (value, version) = match changed.get(&key) {
            Some(value) => (value.clone().unwrap_or_default(), None),
            None => match sim.key(&keyspace.name, &key, None) {
                KeyView::Value(found) => (found.value, Some(found.timestamp)),
                KeyView::NoLeader => return Err(unled()),
                KeyView::Nil | KeyView::NilYet | KeyView::TooOld(_) => continue,
            },
        };
        let version: Option<Timestamp> = version;
        pairs.push(TxnPair { key: key.into(), value: value.into(), version });
    }
    Ok(Found { pairs, stored: stored.into_iter().collect(), range })
}

impl Wanted<'_> {
    fn has(&self, key: &[u8]) -> bool {
        self.from.is_none_or(|from| key >= from) && self.to.is_none_or(|to| key < to)
    }
}

/// The keys that are shown, and the part of the range that decides that.
fn part(
    wanted: &Wanted<'_>,
    stored: &BTreeSet<Vec<u8>>,
    changed: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> (Vec<Vec<u8>>, WatchedRange) {
    let mut seen = stored.clone();
    for (key, value) in changed.iter().filter(|(key, _)| wanted.has(key)) {
        match value {
            Some(_) => _ = seen.insert(key.clone()),
            None => _ = seen.remove(key),
        }
    }
    let is_cut = seen.len() > wanted.limit;
    let mut keys: Vec<Vec<u8>> = seen.into_iter().collect();
    if wanted.reverse {
        keys.reverse();
    }
    keys.truncate(wanted.limit);
    let mut from = wanted.from.unwrap_or_default().to_vec();
    let mut to = wanted.to.map(<[u8]>::to_vec);
    match keys.last().filter(|_| is_cut) {
        Some(last) if wanted.reverse => from = last.clone(),
        // Up to and with the last one.
        Some(last) => to = Some([last, &[0][..]].concat()),
        None => {}
    }
    (keys, WatchedRange { from: Bytes(from), to: to.map(Bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(all: &[&str]) -> Vec<Vec<u8>> {
        all.iter().map(|key| key.as_bytes().to_vec()).collect()
    }

    fn shown(limit: usize, reverse: bool) -> (Vec<Vec<u8>>, WatchedRange) {
        let stored = keys(&["b", "c", "d", "e"]).into_iter().collect();
        let changed = BTreeMap::from([
            (b"c".to_vec(), None),
            (b"cc".to_vec(), Some(b"1".to_vec())),
            (b"z".to_vec(), Some(b"2".to_vec())),
        ]);
        let wanted = Wanted { from: Some(b"b"), to: Some(b"f"), limit, reverse };
        part(&wanted, &stored, &changed)
    }

    fn range(from: &str, to: &str) -> WatchedRange {
        let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
        WatchedRange { from: bytes(from), to: Some(bytes(to)) }
    }

    #[test]
    fn range_shows_what_the_transaction_has_changed_and_watches_what_it_has_seen() {
        assert_eq!(shown(10, false), (keys(&["b", "cc", "d", "e"]), range("b", "f")));
        assert_eq!(shown(2, false), (keys(&["b", "cc"]), range("b", "cc\0")));
        assert_eq!(shown(2, true), (keys(&["e", "d"]), range("d", "f")));
        assert_eq!(shown(4, true), (keys(&["e", "d", "cc", "b"]), range("b", "f")));
    }
}

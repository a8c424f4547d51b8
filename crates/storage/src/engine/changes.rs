//! What has changed between two times? For feeds: which keys, when, and what became of each.
//!
//! ```text
//!   above              upto
//!     ┊   ●20   ●30 until 35  ✗50   F ┊     candidates of the key: 20, 30, 35, 50
//!  ───┊───────────────────────────────┊──   change at 35: expired; at 50: none
//! ```
//! A walk ([`MemoryEngine::changes`]) names times at which something may have become of a key, in
//! the order of keys, piece by piece. [`MemoryEngine::change_at`] says what it was. So a walk may
//! name too much, and names a key twice rather than not at all.
//!
//! Both want the versions above `above` and the one below it: the caller has looked that it is at
//! or above the safe point, and holds the guard.

use std::ops::Bound;

use keyspace::{HashedKey, Timestamp};

use super::era::{Era, Index};
use super::record::Record;
use super::{MemoryEngine, ReadResult, ScanCursor, Version};

/// Milliseconds since 1970 beyond which there are no timestamps.
const MILLIS_MAX: u64 = u64::MAX >> 16;

/// Where a walk goes on. Good at the replica that said it, until its state is replaced or cut.
/// Begins as its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesCursor {
    /// The number of the era.
    pub era: u64,
    /// Before this key; none: at its beginning.
    pub key: Option<Box<[u8]>>,
}

/// What became of a key at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange<'a> {
    /// It was given a value, or its value another end; and what it had before.
    Put(Version<'a>, Option<Version<'a>>),
    /// It was deleted, by its name or with all keys; and what it had before.
    Deleted(Version<'a>),
    /// The value that it had came to its end.
    Expired(Version<'a>),
}

impl MemoryEngine {
    /// What became of a key at a time, if anything did.
    pub fn change_at(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<KeyChange<'_>> {
        let value = |at| match self.at(key, at) {
            ReadResult::Value(version) => Some(version),
            ReadResult::Nil | ReadResult::NilYet => None,
        };
        let before = || at.0.checked_sub(1).and_then(|before| value(Timestamp(before)));
        match value(at) {
            Some(version) if version.timestamp == at => Some(KeyChange::Put(version, before())),
            Some(_) => None,
            None => {
                let before = before()?;
                let ends = before.expiry_ms;
                Some(match ends != 0 && ends <= at.millis() {
                    true => KeyChange::Expired(before),
                    false => KeyChange::Deleted(before),
                })
            }
        }
    }

    /// Names the times above `above`, and at or below `upto`, at which something may have become of
    /// one key.
    pub fn changes_of(
        &self,
        key: &HashedKey<'_>,
        above: Timestamp,
        upto: Timestamp,
        show: &mut dyn FnMut(Timestamp),
    ) {
        for (era, end) in self.eras_above(above) {
            if let Some(head) = era.index.find(key) {
                candidates(head, end, (above, upto), show);
            }
        }
    }

    /// The same of all keys, from a cursor on: looks at about `keys_max`, and returns where to go
    /// on, or none at the end.
    pub fn changes(
        &self,
        cursor: &ChangesCursor,
        above: Timestamp,
        upto: Timestamp,
        keys_max: usize,
        show: &mut dyn FnMut(&[u8], Timestamp),
    ) -> Option<ChangesCursor> {
        let mut left = keys_max.max(1);
        let mut from = cursor.key.as_deref();
        for (era, end) in self.eras_above(above) {
            if era.number < cursor.era {
                continue;
            }
            if era.number > cursor.era {
                from = None;
            }
            let mut look = |head: Record| {
                candidates(head, end, (above, upto), &mut |at| show(head.key(), at));
            };
            if let Some(key) = self.walk(era, from, &mut left, &mut look) {
                return Some(ChangesCursor { era: era.number, key: Some(key) });
            }
        }
        None
    }

    /// Looks at heads of an era from a key on, and says before which key it has stopped.
    pub(super) fn walk(
        &self,
        era: &Era,
        from: Option<&[u8]>,
        left: &mut usize,
        look: &mut dyn FnMut(Record),
    ) -> Option<Box<[u8]>> {
        let bound = from.map_or(Bound::Unbounded, Bound::Included);
        let heads: Box<dyn Iterator<Item = (Option<ScanCursor>, Record)> + '_> = match &era.index {
            Index::Hashed(tables) => {
                let from = from.map(|key| self.hasher.key(key));
                let from = from.map(|key| ScanCursor { slot: key.slot, hash: key.hash });
                let heads = tables.heads_from(from.unwrap_or_default());
                Box::new(heads.map(|(cursor, head)| (Some(cursor), head)))
            }
            Index::Ordered(tree) => {
                Box::new(tree.range(bound, Bound::Unbounded).map(|head| (None, head)))
            }
            Index::LinearHash(tree) => {
                Box::new(tree.range(bound, Bound::Unbounded).map(|head| (None, head)))
            }
        };
        // Never before the first, nor between keys of one hash, where it would begin again.
        let mut last = None;
        for (cursor, head) in heads {
            let is_like_last = cursor.is_some() && last == Some(cursor);
            if *left == 0 && last.is_some() && !is_like_last {
                return Some(head.key().into());
            }
            *left = left.saturating_sub(1);
            last = Some(cursor);
            look(head);
        }
        None
    }

    /// Names the keys of this era whose newest value ends above a time, and at or below another,
    /// in the order of those ends.
    pub fn ends_between(
        &self,
        above: Timestamp,
        upto: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, &[u8])> {
        let ends = self.current.expiring.from(above.millis() + 1);
        let ends = ends.take_while(move |head| head.expiry_ms() <= upto.millis());
        ends.map(|head| (Timestamp::from_millis(head.expiry_ms()), head.record.key()))
    }

    /// When the value ended that a key had before it was written at a time, if it had ended.
    pub fn ended_before(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<Timestamp> {
        let mut chain = self.current.index.find(key);
        while let Some(record) = chain {
            if record.timestamp() < at {
                let ends = record.expiry_ms();
                let has_ended = !record.is_tombstone() && ends != 0 && ends <= at.millis();
                return has_ended.then(|| Timestamp::from_millis(ends));
            }
            chain = record.older();
        }
        None
    }

    /// Eras that are seen above a time, and when each was flushed.
    fn eras_above(&self, above: Timestamp) -> impl Iterator<Item = (&Era, Option<Timestamp>)> {
        let retired = self.retired.iter().filter(move |retired| retired.end > above);
        let retired = retired.map(|retired| (&retired.era, Some(retired.end)));
        retired.chain([(&self.current, None)])
    }
}

/// Names the times of a key's chain in an era that ended then, if it has.
fn candidates(
    head: Record,
    end: Option<Timestamp>,
    (above, upto): (Timestamp, Timestamp),
    show: &mut dyn FnMut(Timestamp),
) {
    let is_within = |at: Timestamp| above < at && at <= upto;
    if let Some(end) = end.filter(|end| is_within(*end) && !head.is_dead(*end)) {
        show(end);
    }
    let (mut chain, mut newer) = (Some(head), end);
    while let Some(record) = chain {
        let ends = if record.is_tombstone() { 0 } else { record.expiry_ms() };
        if ends != 0 && ends <= MILLIS_MAX {
            let at = Timestamp::from_millis(ends);
            if is_within(at) && newer.is_none_or(|newer| at <= newer) {
                show(at);
            }
        }
        if record.timestamp() <= above {
            return;
        }
        if is_within(record.timestamp()) {
            show(record.timestamp());
        }
        newer = Some(record.timestamp());
        chain = record.older();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use keyspace::random::Random;
    use keyspace::{KeyHasher, SLOTS};

    use super::super::{Layout, Settings};
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// All that became of keys in a window, in order, as a walk in pieces finds it.
    fn walked(
        engine: &MemoryEngine,
        (above, upto): (Timestamp, Timestamp),
        keys_max: usize,
    ) -> Vec<String> {
        let (mut named, mut cursor) = (BTreeSet::new(), Some(ChangesCursor::default()));
        while let Some(from) = cursor {
            cursor = engine.changes(&from, above, upto, keys_max, &mut |key, at| {
                named.insert((at, key.to_vec()));
            });
        }
        let shown = named.iter().filter_map(|(at, key)| {
            let change = engine.change_at(&engine.hasher().key(key), *at)?;
            let (key, text) =
                (key.escape_ascii(), |v: Version<'_>| v.value.escape_ascii().to_string());
            Some(match change {
                KeyChange::Put(new, None) => format!("{at:?} {key}={}", text(new)),
                KeyChange::Put(new, Some(old)) => {
                    format!("{at:?} {key}={}<{}", text(new), text(old))
                }
                KeyChange::Deleted(old) => format!("{at:?} {key} deleted<{}", text(old)),
                KeyChange::Expired(old) => format!("{at:?} {key} expired<{}", text(old)),
            })
        });
        shown.collect()
    }

    #[test]
    fn window_shows_puts_deletions_ends_and_flushes() {
        for flush_in_place_keys_max in [0, 1_000] {
            let hasher = KeyHasher::new([7; 16]);
            let settings = Settings { hasher, flush_in_place_keys_max };
            let mut engine = MemoryEngine::new(Layout::Ordered, settings);
            let (k, l) = (hasher.key(b"k"), hasher.key(b"l"));
            engine.put(&k, &[b"a"], 0, at(10));
            engine.put(&k, &[b"b"], 25, at(20));
            engine.put(&l, &[b"x"], 90, at(22));
            engine.put(&k, &[b"c"], 0, at(30));
            engine.flush(at(40));
            engine.put(&k, &[b"d"], 60, at(50));
            assert!(!engine.delete(&k, at(70)));
            let all = [
                "10.0 k=a",
                "20.0 k=b<a",
                "22.0 l=x",
                "25.0 k expired<b",
                "30.0 k=c",
                "40.0 k deleted<c",
                "40.0 l deleted<x",
                "50.0 k=d",
                "60.0 k expired<d",
            ];
            let window = |above, upto| walked(&engine, (at(above), at(upto)), 1);
            assert_eq!(window(0, 99), all);
            assert_eq!(window(10, 99), all[1..]);
            assert_eq!(window(20, 40), all[2..7], "the end of what was there before");
            assert_eq!(window(25, 59), all[4..8]);
            assert_eq!(window(60, 99), [""; 0]);
            let ends: Vec<_> = engine.ends_between(at(50), at(60)).collect();
            assert_eq!(ends, [(at(60), &b"k"[..])]);
            assert_eq!(engine.ends_between(at(60), at(99)).count(), 0);
            engine.put(&k, &[b"e"], 0, at(80));
            assert_eq!(engine.ended_before(&k, at(80)), Some(at(60)));
            assert_eq!(engine.ended_before(&k, at(50)), None);
        }
    }

    /// Against a model that takes each step for itself.
    #[test]
    fn walk_in_pieces_finds_what_was_done() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let hasher = KeyHasher::new([7; 16]);
            let layout = match seed % 3 {
                0 => Layout::Hashed { first_slot: 0, end_slot: SLOTS },
                1 => Layout::Ordered,
                _ => Layout::LinearHash,
            };
            let settings = Settings { hasher, flush_in_place_keys_max: random.below(6) };
            let mut engine = MemoryEngine::new(layout, settings);
            let mut model: BTreeMap<Vec<u8>, (String, u64)> = BTreeMap::new();
            let mut all: Vec<(Timestamp, String)> = Vec::new();
            let mut now = 1;
            for step in 0..80 {
                let before = now;
                now += 1 + random.below(4);
                let ended: Vec<_> = model
                    .iter()
                    .filter(|(_, (_, ends))| *ends != 0 && before < *ends && *ends <= now)
                    .map(|(key, (value, ends))| (at(*ends), key.clone(), value.clone()))
                    .collect();
                for (time, key, value) in ended {
                    all.push((time, format!("{time:?} {} expired<{value}", key.escape_ascii())));
                    model.remove(&key);
                }
                let key = format!("k{}", random.below(7)).into_bytes();
                let (hashed, time) = (hasher.key(&key), at(now));
                let (name, old) = (key.escape_ascii(), model.get(&key).cloned());
                match random.below(8) {
                    0 => {
                        engine.flush(time);
                        for (key, (value, _)) in std::mem::take(&mut model) {
                            let name = key.escape_ascii();
                            all.push((time, format!("{time:?} {name} deleted<{value}")));
                        }
                    }
                    1 | 2 => {
                        engine.delete(&hashed, time);
                        if let Some((value, _)) = model.remove(&key) {
                            all.push((time, format!("{time:?} {name} deleted<{value}")));
                        }
                    }
                    _ => {
                        let ends = if random.below(2) == 0 { 0 } else { now + 1 + random.below(9) };
                        let value = format!("v{step}");
                        engine.put(&hashed, &[value.as_bytes()], ends, time);
                        let mut old = old.map(|(old, _)| format!("<{old}")).unwrap_or_default();
                        // What ends just then was there just before.
                        let ended = format!("{time:?} {name} expired");
                        if let Some(at) = all.iter().position(|(_, text)| text.starts_with(&ended))
                        {
                            old = all.remove(at).1[ended.len()..].to_owned();
                        }
                        all.push((time, format!("{time:?} {name}={value}{old}")));
                        model.insert(key, (value, ends));
                    }
                }
            }
            all.sort();
            for _ in 0..10 {
                let above = at(random.below(now));
                let upto = at(above.millis() + random.below(now));
                let upto = upto.min(at(now));
                let mut wanted: Vec<_> =
                    all.iter().filter(|(time, _)| above < *time && *time <= upto).collect();
                wanted.sort_by_key(|(time, _)| *time);
                let mut found = walked(&engine, (above, upto), 1 + random.below(4) as usize);
                let mut wanted: Vec<_> = wanted.into_iter().map(|(_, text)| text.clone()).collect();
                wanted.sort();
                found.sort();
                assert_eq!(found, wanted, "seed {seed}, {above:?} to {upto:?}");
            }
        }
    }
}

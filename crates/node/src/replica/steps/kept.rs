//! Keys that are kept for somebody, at a shard's leader: he was told what they have, and is about
//! to change them, as he was before, in vain.
//!
//! Who reads first and writes then is in vain if others change meanwhile what he has read. Of keys
//! that others change all the time he would never change several: so he asks for them all at once
//! as a contender who reserves them from all, by a name that is the time when he did so first.
//! From then on whatever is younger, and all commands, wait with these keys; what is older goes
//! first. He is told what they have when nothing is under way to change them; and his PREPARE,
//! which has his name, passes all who wait for them.
//!
//! A transaction that has locked something elsewhere waits for no longer than for an older one's
//! lock, and gives up what it has; so what he waits for comes free, and nobody waits in a circle.
//! When a command has waited for 50 ms, nothing more is kept before it is done. Nothing depends on
//! it: what is kept is forgotten with the lead, and after [`KEPT_NANOS`].

use std::collections::BTreeMap;
use std::ops::Bound;

use keyspace::Timestamp;
use replication::BootNanos;

use crate::locks::{Name, Prepare, TxnId};

/// For so long from when he asked, or was told, keys are kept for somebody.
const KEPT_NANOS: BootNanos = 100_000_000;
/// Keys of a shard that are kept; no more are.
const KEPT_MAX: usize = 4096;
/// No longer key is.
const KEPT_KEY_MAX: usize = 1024;

/// See the front page.
#[derive(Default)]
pub(in crate::replica) struct Kept {
    /// By which name, and until when.
    keys: BTreeMap<Name, (Timestamp, BootNanos)>,
}

impl Kept {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keeps those that nobody older has.
    pub fn keep(&mut self, keys: &[Box<[u8]>], name: Timestamp, now: BootNanos) {
        self.forget(now);
        for key in keys.iter().filter(|key| key.len() <= KEPT_KEY_MAX) {
            let is_full = self.keys.len() >= KEPT_MAX;
            let until = now.saturating_add(KEPT_NANOS);
            match self.keys.get_mut(&**key) {
                Some((by, _)) if *by < name => {}
                Some(kept) => *kept = (name, until),
                None if is_full => {}
                None => _ = self.keys.insert((**key).into(), (name, until)),
            }
        }
    }

    /// Whether a key is kept: commands wait.
    pub fn has(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Whether one of these keys is kept from a contender of this name.
    pub fn has_any_from(&self, name: Timestamp, keys: &[Box<[u8]>]) -> bool {
        let is_kept = |key: &[u8]| self.keys.get(key).is_some_and(|(by, _)| *by < name);
        !self.is_empty() && keys.iter().any(|key| is_kept(key))
    }

    /// Whether a PREPARE is what keys are kept for.
    pub fn is_for(&self, prepare: &Prepare<'_>, keys: &[&[u8]]) -> bool {
        let is_kept = |key: &[u8]| self.keys.get(key).is_some_and(|(by, _)| is_named(prepare, *by));
        prepare.kept_as.is_some() && keys.iter().any(|key| is_kept(key))
    }

    /// For whom a key of this PREPARE is kept from it, and which.
    pub fn stops<'a>(&self, prepare: &Prepare<'a>, keys: &[&'a [u8]]) -> Option<(TxnId, &'a [u8])> {
        if self.is_empty() {
            return None;
        }
        let keeps = |by: Timestamp| by < prepare.id.start && !is_named(prepare, by);
        let as_id = |by| TxnId { start: by, by: 0, attempt: 0 };
        let of_key =
            |key: &[u8]| self.keys.get(key).filter(|(by, _)| keeps(*by)).map(|kept| kept.0);
        let by_key = keys.iter().find_map(|key| of_key(key).map(|by| (as_id(by), *key)));
        by_key.or_else(|| {
            prepare.part.ranges.iter().find_map(|(low, high)| {
                let end = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.max(low)));
                let mut within = self.keys.range::<[u8], _>((Bound::Included(*low), end));
                within.find(|(_, (by, _))| keeps(*by)).map(|(_, (by, _))| (as_id(*by), *low))
            })
        })
    }

    /// A PREPARE goes, or is refused: nothing is kept for it any more.
    pub fn release(&mut self, prepare: &Prepare<'_>) {
        if let Some(name) = prepare.kept_as.filter(|_| !self.is_empty()) {
            self.keys.retain(|_, (by, _)| *by != name);
        }
    }

    /// Forgets what is kept no more; whether there was anything.
    pub fn forget(&mut self, now: BootNanos) -> bool {
        let before = self.keys.len();
        self.keys.retain(|_, (_, until)| now < *until);
        self.keys.len() < before
    }
}

fn is_named(prepare: &Prepare<'_>, name: Timestamp) -> bool {
    prepare.kept_as == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::steps::tests::prepare;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn boxed(keys: &[&str]) -> Vec<Box<[u8]>> {
        keys.iter().map(|key| key.as_bytes().into()).collect()
    }

    #[test]
    fn younger_ones_are_kept_from_keys_and_ranges_until_it_is_over() {
        let mut kept = Kept::default();
        kept.keep(&boxed(&["a", "m"]), at(2), 0);
        let (older, younger) = (prepare(1, &[]), prepare(3, &[]));
        let own = Prepare { kept_as: Some(at(2)), ..younger.clone() };
        let by = TxnId { start: at(2), by: 0, attempt: 0 };
        assert_eq!(kept.stops(&younger, &[b"b", b"m"]), Some((by, &b"m"[..])));
        assert_eq!(kept.stops(&younger, &[b"b"]), None);
        let range = prepare(3, &[(b"k", Some(b"n"))]);
        assert_eq!(kept.stops(&range, &[b"k"]), Some((by, &b"k"[..])));
        assert_eq!(kept.stops(&prepare(3, &[(b"n", Some(b"k"))]), &[b"n"]), None);
        assert_eq!((kept.stops(&older, &[b"a"]), kept.stops(&own, &[b"a"])), (None, None));
        assert_eq!((kept.is_for(&own, &[b"a"]), kept.is_for(&own, &[b"b"])), (true, false));
        assert!(!kept.is_for(&younger, &[b"a"]));
        kept.release(&younger);
        assert!(kept.has(b"a") && kept.has(b"m"));
        kept.release(&own);
        assert!(kept.is_empty());
    }

    #[test]
    fn the_older_of_two_keeps_a_key_and_no_longer_than_it_may() {
        let mut kept = Kept::default();
        kept.keep(&boxed(&["a", "b"]), at(2), 0);
        kept.keep(&boxed(&["b", "c"]), at(3), 1);
        let any = |kept: &Kept, name, key| kept.has_any_from(at(name), &boxed(&[key]));
        assert_eq!(
            (any(&kept, 3, "b"), any(&kept, 2, "b"), any(&kept, 2, "c")),
            (true, false, false)
        );
        kept.keep(&boxed(&["c"]), at(1), 2);
        assert!(any(&kept, 3, "c"));
        // Asked again, or told: from then on.
        kept.keep(&boxed(&["a"]), at(2), 5);
        assert!(kept.forget(KEPT_NANOS + 2));
        assert!(kept.has(b"a") && !kept.has(b"b") && !kept.has(b"c"));
        assert!(!kept.forget(KEPT_NANOS + 4) && kept.forget(KEPT_NANOS + 5));
        assert!(kept.is_empty());
        let many: Vec<String> = (0..=KEPT_MAX).map(|n| n.to_string()).collect();
        let mut many: Vec<Box<[u8]>> = many.iter().map(|key| key.as_bytes().into()).collect();
        many.insert(0, vec![b'k'; KEPT_KEY_MAX + 1].into());
        kept.keep(&many, at(1), 0);
        assert_eq!(kept.keys.len(), KEPT_MAX);
        assert!(!kept.has(&many[0]) && kept.has(&many[1]));
    }
}

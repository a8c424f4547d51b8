//! Do two engines hold the same? A number that is equal if they do, however they hold it.
//!
//! Two replicas of a shard that have applied the same entries may differ inside: one has collected
//! more old versions, one has set an era aside where the other has flushed key by key, and their
//! tables have grown in another order. So a digest covers what reads can *see* at the times from
//! `low` to `at`, and nothing else:
//!
//! ```text
//!   for every value seen at some time from low to at:  h = hash(key, timestamp, expiry, value)
//!   history = Σ h                of all of them         (sums do not depend on an order)
//!   present = Σ h                of those still seen at at: not expired, and no tombstone or
//!                                flush has ended them
//!   digest  = hash(history, present, how many)
//! ```
//!
//! The digest does not count ends (tombstones, flushes), since engines write them in several ways.
//! The values that they have ended are missing in `present`.
//!
//! The caller feeds it the pieces of a dump ([`MemoryEngine::dump`]), one after the other, so it
//! need not hold all of it. A digest finds faults of memory, disks and programs, not attacks: a
//! client that chooses values could choose two sets with one digest.
//!
//! [`MemoryEngine::dump`]: super::MemoryEngine::dump

use std::hash::Hasher;

use keyspace::Timestamp;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::dump::{DumpRecord, RestoreError, parts};

/// A digest in the making.
#[derive(Clone, Debug)]
pub struct Digest {
    at: Timestamp,
    history: u128,
    present: u128,
    values: u64,
}

impl Digest {
    /// Of nothing yet, as of this time: the end of the dump.
    pub fn new(at: Timestamp) -> Self {
        Self { at, history: 0, present: 0, values: 0 }
    }

    /// Takes the next piece of the dump.
    ///
    /// # Errors
    /// [`RestoreError`] if it is no piece of a dump. The digest is worth nothing then.
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), RestoreError> {
        // The last value of the key that is looked at. No piece ends within a key.
        let mut last: Option<(&[u8], u128)> = None;
        for part in parts(piece) {
            match part? {
                DumpRecord::Value { timestamp, expiry_ms, key, value } => {
                    self.leave(&mut last, Some(key));
                    // Who deletes or flushes what has expired need not write an end.
                    let is_expired = expiry_ms != 0 && expiry_ms <= self.at.millis();
                    let hash = hash(&[
                        &timestamp.0.to_le_bytes(),
                        &expiry_ms.to_le_bytes(),
                        &(key.len() as u64).to_le_bytes(),
                        key,
                        value,
                    ]);
                    self.history = self.history.wrapping_add(hash);
                    self.values += 1;
                    last = (!is_expired).then_some((key, hash));
                }
                DumpRecord::Tombstone { key, .. } => {
                    self.leave(&mut last, Some(key));
                    last = None;
                }
                DumpRecord::Flush { .. } => {
                    last = None;
                    self.present = 0;
                }
            }
        }
        self.leave(&mut last, None);
        Ok(())
    }

    /// The value of `last` is still there if another key follows.
    fn leave(&mut self, last: &mut Option<(&[u8], u128)>, next: Option<&[u8]>) {
        if let Some((key, hash)) = last.take()
            && next != Some(key)
        {
            self.present = self.present.wrapping_add(hash);
        }
    }

    /// The digest of all that was fed.
    pub fn finish(&self) -> u128 {
        let Self { history, present, values, .. } = self;
        hash(&[&history.to_le_bytes(), &present.to_le_bytes(), &values.to_le_bytes()])
    }
}

/// A hash of these bytes, one after the other; the same on every node and in every version.
pub fn hash(parts: &[&[u8]]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests {
    use keyspace::{HashedKey, KeyHasher};
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{DumpCursor, Layout, MemoryEngine, PieceLimits};

    const HASHER: KeyHasher = KeyHasher::new([7; 16]);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn key(number: u8) -> HashedKey<'static> {
        const KEYS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];
        HASHER.key(KEYS[usize::from(number) % KEYS.len()])
    }

    /// An engine whose flushes set everything aside, or nothing.
    fn engine(layout: Layout, in_place_keys_max: u64) -> MemoryEngine {
        let settings =
            crate::engine::Settings { flush_in_place_keys_max: in_place_keys_max, ..HASHER.into() };
        MemoryEngine::new(layout, settings)
    }

    fn digest(engine: &mut MemoryEngine, low: Timestamp, to: Timestamp) -> u128 {
        let (mut cursor, mut digest, mut piece) = (DumpCursor::default(), Digest::new(to), vec![]);
        engine.hold(engine.safe_point());
        let limits = PieceLimits { examined_max: 2, bytes_max: 1 << 20 };
        loop {
            piece.clear();
            let more = engine.dump(&mut cursor, low, to, limits, &mut piece);
            digest.feed(&piece).expect("its own piece");
            if !more {
                break;
            }
        }
        engine.release(engine.safe_point());
        digest.finish()
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put(u8, u8, bool),
        Delete(u8),
        Flush,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(k, v, e)| Step::Put(k, v, e)),
            2 => any::<u8>().prop_map(Step::Delete),
            1 => Just(Step::Flush),
        ];
        prop::collection::vec(step, 1..40)
    }

    /// Takes steps at 10, 20, 30 … ms.
    fn take(engine: &mut MemoryEngine, steps: &[Step]) {
        for (number, step) in (1u64..).zip(steps) {
            let now = at(number * 10);
            match *step {
                Step::Put(k, v, expires) => {
                    let expiry_ms = if expires { number * 10 + 1 + u64::from(v) } else { 0 };
                    engine.put(&key(k), &[&[v]], expiry_ms, now);
                }
                Step::Delete(k) => {
                    engine.delete(&key(k), now);
                }
                Step::Flush => engine.flush(now),
            }
        }
    }

    const HASHED: Layout = Layout::Hashed { first_slot: 0, end_slot: 16_384 };

    proptest! {
        /// However flushes are done, and whatever was collected below the safe point.
        #[test]
        fn digest_ignores_collected_versions(steps in steps(), low in 0u64..450) {
            let end = at(steps.len() as u64 * 10);
            let low = at(low).min(end);
            for layout in [HASHED, Layout::Ordered, Layout::LinearHash] {
                let (mut lazy, mut eager) = (engine(layout, 1 << 40), engine(layout, 0));
                take(&mut lazy, &steps);
                take(&mut eager, &steps);
                eager.raise_safe_point(low);
                while eager.collect(1_000) {}
                // What comes later is no part of it.
                lazy.put(&key(1), &[b"later"], 0, end.max(at(10_000)));
                let one = digest(&mut eager, low, end);
                prop_assert_eq!(digest(&mut lazy, low, end), one);
            }
        }

        /// Two engines whose readers see the same at the end, and before, digest the same; any
        /// value, expiry or end that differs shows.
        #[test]
        fn digest_shows_any_difference(steps in steps(), place: prop::sample::Index, value: u8) {
            let mut other = steps.clone();
            let changed = match place.get(&steps) {
                Step::Put(k, v, e) => Step::Put(*k, v ^ (value | 1), *e),
                Step::Delete(k) => Step::Put(*k, value, false),
                Step::Flush => Step::Put(value, value, false),
            };
            let place = place.index(steps.len());
            other[place] = changed;
            let (mut one, mut two) = (engine(HASHED, 2), engine(HASHED, 2));
            take(&mut one, &steps);
            take(&mut two, &other);
            let end = at(steps.len() as u64 * 10);
            let found = digest(&mut one, Timestamp::ZERO, end);
            prop_assert_ne!(digest(&mut two, Timestamp::ZERO, end), found);
        }
    }

    #[test]
    fn digest_changes_if_tombstone_is_lost() {
        let (mut one, mut two) = (engine(HASHED, 2), engine(HASHED, 2));
        for engine in [&mut one, &mut two] {
            engine.put(&key(1), &[b"value"], 0, at(10));
        }
        one.delete(&key(1), at(20));
        assert_ne!(digest(&mut one, at(5), at(30)), digest(&mut two, at(5), at(30)));
    }
}

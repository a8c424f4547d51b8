//! FLUSHDB in a transaction that runs step by step: from then on all keys are known to be absent,
//! without being read. What was read before stays a condition of the commit.

use std::ops::Bound;

use command::ObservedVersion;
use keyspace::KeyHasher;
use storage::engine::{Layout, MemoryEngine};

use super::InteractiveTxn;
use super::key_ranges::KeyRange;

impl InteractiveTxn {
    /// Flushes the keyspace: nothing that was written before is done, and what was read stays a
    /// condition.
    pub fn flush(&mut self) {
        if let Some(originals) = &mut self.originals {
            let read = self.keys.iter().filter(|(_, seen)| seen.is_some()).map(|(key, _)| key);
            for key in read.filter(|key| !self.written.contains(*key) && !self.is_flushed) {
                let version = self.copy.newest(&self.copy.hasher().key(key), self.at);
                let value = version.map(|version| (version.value.into(), version.expiry_ms));
                originals.entry(key.clone()).or_insert(value);
            }
        }
        self.copy = MemoryEngine::new(Layout::Ordered, KeyHasher::new([0; 16]));
        self.written.clear();
        self.is_flushed = true;
    }

    /// Whether it knows what a key had before it wrote it.
    pub fn has_read(&self, key: &[u8]) -> bool {
        matches!(self.keys.get(key), Some(Some(_)))
    }

    /// Whether a key that was read had a value then.
    pub fn had_value(&self, key: &[u8]) -> bool {
        matches!(self.keys.get(key), Some(Some(ObservedVersion::Version(_))))
    }

    /// The keys that commands have changed, and whether each has a value now.
    pub fn written_keys(&self) -> impl Iterator<Item = (&[u8], bool)> {
        self.written.iter().map(|key| {
            let newest = self.copy.newest(&self.copy.hasher().key(key), self.at);
            (&**key, newest.is_some())
        })
    }

    /// Flushes the keyspace, if at the commit it has no key but those that were read here and that
    /// this transaction writes behind the flush.
    pub fn flush_read(&mut self) {
        self.flushes_read_only |= !self.is_flushed;
        self.flush();
    }

    /// Whether it has flushed the keyspace.
    pub fn is_flushed(&self) -> bool {
        self.is_flushed
    }

    /// The keys that have a value in the copy, in order: after a flush all that there are.
    pub fn live_keys(&self) -> Vec<Box<[u8]>> {
        let whole = KeyRange::between(Bound::Unbounded, Bound::Unbounded);
        let pairs = whole.map_or_else(Vec::new, |whole| self.pairs(&whole, false, usize::MAX));
        pairs.into_iter().map(|(key, _)| key).collect()
    }
}

//! What a function of a topic or lock has read, and what it writes.

use std::collections::{BTreeMap, BTreeSet};

use crate::Refusal;

/// What a key has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: Vec<u8>,
    /// When it was written, as a timestamp; 0: the driver does not know.
    pub version: u64,
}

/// A write of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A new value.
    Put {
        /// The value.
        value: Vec<u8>,
        /// It ends after so long, in ms; none: never.
        ttl_ms: Option<u64>,
    },
    /// No value, whatever the key has: it need not be read for this.
    Drop,
}

/// Why a function has not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Keys must be read first: [`Draft::missing`].
    Missing,
    /// It is refused.
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What was read of keys: `None` says that one has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    read: BTreeMap<Vec<u8>, Option<Found>>,
    peeked: BTreeMap<Vec<u8>, Option<Found>>,
}

impl Known {
    /// A key has this, and must have it still when the writes are committed.
    pub fn read(&mut self, key: Vec<u8>, found: Option<Found>) {
        self.read.insert(key, found);
    }

    /// A key had this a moment ago.
    pub fn peeked(&mut self, key: Vec<u8>, found: Option<Found>) {
        self.peeked.insert(key, found);
    }

    /// How many keys are known.
    pub fn count(&self) -> usize {
        self.read.len() + self.peeked.len()
    }

    fn find(&self, key: &[u8], peeks: bool) -> Option<&Option<Found>> {
        self.read.get(key).or_else(|| self.peeked.get(key).filter(|_| peeks))
    }
}

/// See the front page of the crate.
///
/// Some keys are only *peeked* at: what they had a moment ago will do, and a change of them is no
/// conflict. Messages never change, and the number of the next one only rises. A driver may as well
/// read such keys in its transaction.
#[derive(Debug, Default)]
pub struct Draft {
    /// Milliseconds since 1970, by a clock of the store.
    pub now_ms: u64,
    known: Known,
    writes: BTreeMap<Vec<u8>, Write>,
    missing: BTreeSet<Vec<u8>>,
    missing_peeks: BTreeSet<Vec<u8>>,
}

impl Draft {
    /// A draft of a moment, of what was read by then.
    pub fn new(now_ms: u64, known: Known) -> Self {
        Self { now_ms, known, ..Self::default() }
    }

    /// What a key has, this draft's own writes included.
    ///
    /// # Errors
    /// [`Stop::Missing`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Found>, Stop> {
        self.look(key, false)
    }

    /// What a key had a moment ago, this draft's own writes included.
    ///
    /// # Errors
    /// [`Stop::Missing`].
    pub fn peek(&mut self, key: &[u8]) -> Result<Option<Found>, Stop> {
        self.look(key, true)
    }

    fn look(&mut self, key: &[u8], peeks: bool) -> Result<Option<Found>, Stop> {
        match self.writes.get(key) {
            Some(Write::Put { value, .. }) => {
                return Ok(Some(Found { value: value.clone(), version: 0 }));
            }
            Some(Write::Drop) => return Ok(None),
            None => {}
        }
        if let Some(found) = self.known.find(key, peeks) {
            return Ok(found.clone());
        }
        let missing = if peeks { &mut self.missing_peeks } else { &mut self.missing };
        missing.insert(key.to_vec());
        Err(Stop::Missing)
    }

    /// Says that these keys will be asked for, so that all are read at once.
    ///
    /// # Errors
    /// [`Stop::Missing`].
    pub fn want(&mut self, keys: impl IntoIterator<Item = Vec<u8>>) -> Result<(), Stop> {
        self.want_all(keys, false)
    }

    /// Says that these keys will be peeked at.
    ///
    /// # Errors
    /// [`Stop::Missing`].
    pub fn want_peeks(&mut self, keys: impl IntoIterator<Item = Vec<u8>>) -> Result<(), Stop> {
        self.want_all(keys, true)
    }

    fn want_all(
        &mut self,
        keys: impl IntoIterator<Item = Vec<u8>>,
        peeks: bool,
    ) -> Result<(), Stop> {
        let mut is_complete = true;
        for key in keys {
            if !self.writes.contains_key(&key) && self.known.find(&key, peeks).is_none() {
                let missing = if peeks { &mut self.missing_peeks } else { &mut self.missing };
                missing.insert(key);
                is_complete = false;
            }
        }
        if is_complete { Ok(()) } else { Err(Stop::Missing) }
    }

    /// Gives a key a value.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>, ttl_ms: Option<u64>) {
        self.writes.insert(key, Write::Put { value, ttl_ms });
    }

    /// Takes a key's value away.
    pub fn drop(&mut self, key: Vec<u8>) {
        self.writes.insert(key, Write::Drop);
    }

    /// The keys that must be read.
    pub fn missing(&self) -> impl Iterator<Item = &[u8]> {
        self.missing.iter().map(Vec::as_slice)
    }

    /// The keys that must be peeked at.
    pub fn missing_peeks(&self) -> impl Iterator<Item = &[u8]> {
        self.missing_peeks.iter().map(Vec::as_slice)
    }

    /// What was read, for the next call; and what is written, if the function has come to its end.
    pub fn end(self) -> (Known, BTreeMap<Vec<u8>, Write>) {
        (self.known, self.writes)
    }
}

//! Which keys did one entry change?

use std::collections::BTreeSet;

use command::changes::Changes;
use keyspace::{Cut, Timestamp};

/// Keys of one entry that are named one by one; of more, the whole shard is said to have changed.
const KEYS_MAX: usize = 4096;

/// The keys that an entry has changed, each once, or that it may have changed any.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    /// The keys, unless `is_any`.
    pub keys: BTreeSet<Box<[u8]>>,
    /// Whether it may be any key: a flush, or too many to name.
    pub is_any: bool,
    /// Every change with its time, if a feed wants them.
    pub versions: Option<Vec<(Timestamp, Box<[u8]>)>>,
    /// Whether keys were flushed, which `versions` does not name.
    pub is_flushed: bool,
    /// Whether `keys` are wanted by nobody.
    names_no_keys: bool,
}

impl ChangedKeys {
    /// With the times of changes; and with `keys`, if those are wanted, too.
    pub fn for_feeds(with_keys: bool) -> Self {
        let (versions, names_no_keys) = (Some(Vec::new()), !with_keys);
        Self { versions, names_no_keys, ..Self::default() }
    }

    /// Whether no key is named.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.is_any
    }
}

impl Changes for ChangedKeys {
    fn changed(&mut self, key: &[u8], at: Timestamp) {
        if let Some(versions) = &mut self.versions {
            versions.push((at, key.into()));
        }
        if self.is_any || self.names_no_keys {
            return;
        }
        self.keys.changed(key, at);
        if self.keys.len() > KEYS_MAX {
            self.is_any = true;
            self.keys.clear();
        }
    }

    fn flushed(&mut self, _: Option<&Cut>, _: &Cut, _: Timestamp) {
        self.is_flushed = true;
        self.is_any = !self.names_no_keys;
        self.keys.clear();
    }
}

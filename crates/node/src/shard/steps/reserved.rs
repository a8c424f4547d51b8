//! Keys that a PREPARE waits for which wants several: each may be free while another is not, and
//! younger transactions would take turns with them without end. So those that wait behind it for
//! its keys are kept from them as if it had locked them, from [`AFTER_NANOS`] of its wait on, until
//! it has waited for [`UNTIL_NANOS`]: mostly it waits for a lock that stays, then.

use std::collections::BTreeMap;

use replication::BootNanos;

use super::{OwnedRange, holds};
use crate::locks::{Name, Prepare, TxnId};

/// Who has waited for so long is passed over no more. Most have what they want by then.
const AFTER_NANOS: BootNanos = 20_000_000;
/// … until it has waited for so long.
const UNTIL_NANOS: BootNanos = 500_000_000;
/// What it keeps others from changes after it has waited for so long.
pub(super) const BOUNDS: [BootNanos; 2] = [AFTER_NANOS, UNTIL_NANOS];

/// See the front page.
#[derive(Default)]
pub(super) struct Reserved {
    keys: BTreeMap<Name, TxnId>,
    ranges: Vec<(OwnedRange, TxnId)>,
}

impl Reserved {
    /// A PREPARE of these keys goes on waiting, as it has for so long. The oldest comes first.
    pub fn wait(&mut self, prepare: &Prepare<'_>, keys: &[&[u8]], waited: BootNanos) {
        let wants_one = keys.len() == 1 && prepare.part.ranges.is_empty();
        if wants_one || !(AFTER_NANOS..UNTIL_NANOS).contains(&waited) {
            return;
        }
        for key in keys {
            self.keys.entry((*key).into()).or_insert(prepare.id);
        }
        let owned = |(low, high): &(&[u8], Option<&[u8]>)| ((*low).into(), high.map(Box::from));
        self.ranges.extend(prepare.part.ranges.iter().map(|range| (owned(range), prepare.id)));
    }

    /// An older transaction that waits for one of these keys, and which.
    pub fn stops<'a>(&self, id: TxnId, keys: &[&'a [u8]]) -> Option<(TxnId, &'a [u8])> {
        if self.keys.is_empty() {
            return None;
        }
        let by = |key: &[u8]| {
            let of_ranges = || self.ranges.iter().find(|(range, _)| holds(range, key));
            let of_key = self.keys.get(key).copied();
            of_key.or_else(|| of_ranges().map(|(_, by)| *by)).filter(|by| by.is_older_than(&id))
        };
        keys.iter().find_map(|key| by(key).map(|by| (by, *key)))
    }
}

//! Open transactions: those that HTTP clients run request by request.
//!
//! ```text
//!   begin ──► idle ──take──► busy ──give_back──► idle …   commit: taken, and forgotten
//!              │               └──forget──► gone when it is given back
//!              └── nobody asks for `timeout` ──sweep──► gone
//! ```
//!
//! An open transaction holds no locks, so one that expires leaves nothing behind. Only this process
//! knows it: other nodes do not, and a restart forgets it.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | open transactions | [`OPEN_MAX`] | no further one begins |
//! | values that all open transactions have read | [`OPEN_TXN_BYTES_MAX`], and a value for each request at that moment | a request is refused; the transaction goes on |
//! | requests for one at a time | 1 | a second one is refused |
//! | time without a request | as its client has asked | it expires |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keyspace::KeyspaceId;
use parking_lot::Mutex;
use replication::BootNanos;
use txn::interactive::InteractiveTxn;

/// Open transactions that a node has.
pub const OPEN_MAX: usize = 1024;
/// What all of them, and transactions in one request, may know.
pub const OPEN_TXN_BYTES_MAX: u64 = 256 << 20;
/// What a key costs besides its bytes, about.
const KEY_COSTS_BYTES: u64 = 256;

/// Its id: random bytes of the system, so that no client can guess it.
pub type OpenId = u128;

/// A transaction on its way to its commit.
pub struct HeldTxn {
    /// Whose keys it names.
    pub keyspace: KeyspaceId,
    /// What it has read and written.
    pub copy: Box<InteractiveTxn>,
    /// What that takes, of what all may take.
    pub charge: Charge,
}

/// What a transaction takes of what all may; given back when it is dropped.
pub struct Charge {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl HeldTxn {
    /// Updates the memory that it counts for. Whether all together stay within the limit.
    pub fn count(&mut self) -> bool {
        let bytes = self.copy.bytes() + self.copy.keys() as u64 * KEY_COSTS_BYTES;
        let Charge { all, bytes: before } = &mut self.charge;
        all.fetch_add(bytes, Ordering::Relaxed);
        let sum = all.fetch_sub(*before, Ordering::Relaxed) - *before;
        *before = bytes;
        sum <= OPEN_TXN_BYTES_MAX
    }
}

struct OpenTxn {
    /// None while a request is under way.
    idle: Option<HeldTxn>,
    until: BootNanos,
    timeout: u64,
}

/// Why one is not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeTxnError {
    /// There is none, or none any more.
    NotFound,
    /// Another request is under way.
    Busy,
}

/// See the front page.
#[derive(Default)]
pub struct OpenTxns {
    all: Mutex<BTreeMap<OpenId, OpenTxn>>,
    known_bytes: Arc<AtomicU64>,
}

impl OpenTxns {
    /// A transaction that is counted with the others.
    pub fn hold(&self, keyspace: KeyspaceId, copy: Box<InteractiveTxn>) -> HeldTxn {
        HeldTxn { keyspace, copy, charge: Charge { all: self.known_bytes.clone(), bytes: 0 } }
    }

    /// Begins one. False: there are too many.
    pub fn begin(&self, id: OpenId, held: HeldTxn, timeout: u64, now: BootNanos) -> bool {
        self.sweep(now);
        let mut all = self.all.lock();
        if all.len() >= OPEN_MAX {
            return false;
        }
        let until = now.saturating_add(timeout);
        all.insert(id, OpenTxn { idle: Some(held), until, timeout });
        true
    }

    /// Takes one for a request.
    ///
    /// # Errors
    /// [`TakeTxnError`].
    pub fn take(&self, id: OpenId, now: BootNanos) -> Result<HeldTxn, TakeTxnError> {
        let mut all = self.all.lock();
        let open = all.get_mut(&id).ok_or(TakeTxnError::NotFound)?;
        if open.idle.is_some() && open.until <= now {
            all.remove(&id);
            return Err(TakeTxnError::NotFound);
        }
        open.idle.take().ok_or(TakeTxnError::Busy)
    }

    /// Takes one for good.
    ///
    /// # Errors
    /// [`TakeTxnError`].
    pub fn take_for_good(&self, id: OpenId, now: BootNanos) -> Result<HeldTxn, TakeTxnError> {
        let held = self.take(id, now)?;
        self.forget(id);
        Ok(held)
    }

    /// The request is over: it waits for the next one. Nothing, if it was forgotten meanwhile.
    pub fn give_back(&self, id: OpenId, held: HeldTxn, now: BootNanos) {
        if let Some(open) = self.all.lock().get_mut(&id) {
            open.idle = Some(held);
            open.until = now.saturating_add(open.timeout);
        }
    }

    /// Forgets one, also under a request. Whether it was there.
    pub fn forget(&self, id: OpenId) -> bool {
        self.all.lock().remove(&id).is_some()
    }

    /// Drops open transactions whose timeout is over.
    pub fn sweep(&self, now: BootNanos) {
        self.all.lock().retain(|_, open| open.idle.is_none() || open.until > now);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// Bytes of values that they, and transactions in one request, hold.
    pub fn known_bytes(&self) -> u64 {
        self.known_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::ObservedVersion;
    use keyspace::Timestamp;

    const TIMEOUT: u64 = 10;

    fn held(open: &OpenTxns) -> HeldTxn {
        let copy = InteractiveTxn::new(Timestamp(1), txn::interactive::BYTES_MAX);
        open.hold(KeyspaceId(1), Box::new(copy))
    }

    #[test]
    fn one_request_at_a_time_and_time_counts_between_them() {
        let open = OpenTxns::default();
        assert!(open.begin(7, held(&open), TIMEOUT, 0));
        let first = open.take(7, 9).unwrap();
        assert_eq!(open.take(7, 9).err(), Some(TakeTxnError::Busy));
        // While a request is under way it does not end.
        open.sweep(100);
        open.give_back(7, first, 100);
        let again = open.take(7, 109).unwrap();
        open.give_back(7, again, 109);
        assert_eq!(open.take(7, 119).err(), Some(TakeTxnError::NotFound));
        assert_eq!(open.count(), 0);
    }

    #[test]
    fn what_is_forgotten_does_not_come_back() {
        let open = OpenTxns::default();
        assert!(open.begin(7, held(&open), TIMEOUT, 0));
        let first = open.take(7, 1).unwrap();
        assert!(open.forget(7) && !open.forget(7));
        open.give_back(7, first, 2);
        assert_eq!(open.take(7, 2).err(), Some(TakeTxnError::NotFound));
        assert!(open.begin(8, held(&open), TIMEOUT, 2));
        open.sweep(12);
        assert_eq!(open.count(), 0);
    }

    #[test]
    fn open_transactions_and_their_bytes_are_bounded() {
        let open = OpenTxns::default();
        for id in 0..OPEN_MAX as u128 {
            assert!(open.begin(id, held(&open), TIMEOUT, 0));
        }
        assert!(!open.begin(9999, held(&open), TIMEOUT, 9));
        assert!(open.begin(9999, held(&open), TIMEOUT, 10), "the others have ended");

        let value = vec![0; 30 << 20];
        let mut all = Vec::new();
        let fits = loop {
            let mut one = held(&open);
            one.copy
                .record_read(b"k", Some((&value, 0)), ObservedVersion::Version(Timestamp(1)))
                .unwrap();
            let fits = one.count() && one.count();
            all.push(one);
            if !fits {
                break all.len() - 1;
            }
        };
        assert_eq!(fits as u64, OPEN_TXN_BYTES_MAX / (30 << 20));
        drop(all);
        assert_eq!(open.known_bytes(), 0);
    }
}

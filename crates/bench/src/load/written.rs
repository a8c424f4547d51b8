//! Which writes of a key a read may return: is a value old?
//!
//! A write is superseded once another, which was sent after it was acknowledged, is acknowledged
//! itself. No read that is sent from then on may return it. A write without an acknowledgement may
//! take effect at any time, and a read may return it for ever.
//!
//! Times are taken just before something is sent, and just after a reply was read. So what
//! overlaps in truth overlaps here, and a store that is linearizable is never blamed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Parts, so that threads seldom wait for each other.
const PARTS: usize = 64;

/// One write.
#[derive(Clone, Copy)]
struct Write {
    id: u64,
    sent: u64,
    acknowledged: Option<u64>,
    /// From when on no read may return it.
    superseded: Option<u64>,
}

/// The writes of all keys, as far as a read may return them. Times are in nanoseconds.
pub struct Written {
    begun: Instant,
    parts: Vec<Mutex<HashMap<u64, Vec<Write>>>>,
}

impl Default for Written {
    fn default() -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { begun: Instant::now(), parts }
    }
}

impl Written {
    /// The time.
    pub fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn part(&self, key: u64) -> MutexGuard<'_, HashMap<u64, Vec<Write>>> {
        let part = &self.parts[key as usize % PARTS];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write is sent.
    pub fn sent(&self, key: u64, id: u64, at: u64) {
        let write = Write { id, sent: at, acknowledged: None, superseded: None };
        self.part(key).entry(key).or_default().push(write);
    }

    /// A write was acknowledged. Reads take `longest` at most.
    pub fn acknowledged(&self, key: u64, id: u64, at: u64, longest: u64) {
        let mut part = self.part(key);
        let Some(writes) = part.get_mut(&key) else { return };
        let Some(sent) = writes.iter().find(|write| write.id == id).map(|write| write.sent) else {
            return;
        };
        for write in writes.iter_mut() {
            if write.id == id {
                write.acknowledged = Some(at);
            } else if write.acknowledged.is_some_and(|before| before < sent) {
                write.superseded.get_or_insert(at);
            }
        }
        let is_over = |write: &Write| write.superseded.is_some_and(|from| from + longest < at);
        writes.retain(|write| !is_over(write));
    }

    /// Whether a read that was sent at this time may return this write.
    pub fn may_return(&self, key: u64, id: u64, sent: u64) -> bool {
        let part = self.part(key);
        let writes = part.get(&key).map_or(&[][..], Vec::as_slice);
        match writes.iter().find(|write| write.id == id) {
            Some(write) => write.superseded.is_none_or(|from| from >= sent),
            // Nobody here has written it: it was there before, or its time is long over.
            None => !writes.iter().any(|write| write.acknowledged.is_some_and(|at| at < sent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: u64 = 1_000;

    #[test]
    fn a_write_that_was_followed_is_old() {
        let written = Written::default();
        written.sent(1, 10, 100);
        written.acknowledged(1, 10, 200, LONGEST);
        written.sent(1, 11, 300);
        assert!(written.may_return(1, 10, 350) && written.may_return(1, 11, 350), "both may be");
        written.acknowledged(1, 11, 400, LONGEST);
        assert!(written.may_return(1, 10, 390), "it was asked before the second was answered");
        assert!(!written.may_return(1, 10, 401));
        assert!(written.may_return(1, 11, 401));
        assert!(!written.may_return(1, 7, 401), "what was there before both");
        assert!(written.may_return(2, 7, 401), "another key");
    }

    #[test]
    fn writes_that_overlap_may_be_in_either_order() {
        let written = Written::default();
        written.sent(1, 10, 100);
        written.sent(1, 11, 150);
        written.acknowledged(1, 11, 200, LONGEST);
        written.acknowledged(1, 10, 210, LONGEST);
        assert!(written.may_return(1, 10, 300) && written.may_return(1, 11, 300));
    }

    #[test]
    fn a_write_without_an_answer_may_come_late() {
        let written = Written::default();
        written.sent(1, 10, 100);
        written.sent(1, 11, 200);
        written.acknowledged(1, 11, 300, LONGEST);
        assert!(written.may_return(1, 10, 9_000));
        written.sent(1, 12, 10_000);
        written.acknowledged(1, 12, 10_100, LONGEST);
        assert!(written.may_return(1, 10, 11_000) && !written.may_return(1, 11, 11_000));
    }

    #[test]
    fn what_is_long_over_is_forgotten_and_still_old() {
        let written = Written::default();
        for id in 0..100 {
            written.sent(1, id, id * 1_000);
            written.acknowledged(1, id, id * 1_000 + 10, LONGEST);
        }
        assert!(written.part(1)[&1].len() < 5);
        assert!(!written.may_return(1, 3, 100_000) && written.may_return(1, 99, 100_000));
    }
}

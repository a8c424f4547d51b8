//! What tests of the wait queue's parts share.

use keyspace::{Cut, SLOTS, Timestamp};

use crate::locks::{Deadline, Keys, Places, Prepare, Role, TxnId};
use command::{Flush, Transaction};

/// A PREPARE that votes, begun at this millisecond, which has read these ranges.
pub(super) fn prepare(
    start: u64,
    ranges: &[(&'static [u8], Option<&'static [u8]>)],
) -> Prepare<'static> {
    let id = TxnId { start: Timestamp::from_millis(start), coordinator: 1, attempt: 0 };
    let part = Transaction { ranges: ranges.to_vec(), ..Transaction::default() };
    let (record, role, promised) = (&b"r"[..], Role::Votes, Keys::new());
    Prepare {
        id,
        is_first: true,
        reserved_as: None,
        record,
        role,
        deadline: Some(Deadline::NEVER),
        promised,
        part,
        places: Places::new(),
    }
}

/// The PREPARE of a transaction that flushes, and does nothing else.
pub(super) fn flushing(start: u64) -> Prepare<'static> {
    let (witness, from, end) = (&b"w"[..], Cut::Slot(0), Cut::Slot(SLOTS));
    let flush = Some(Box::new(Flush::Arc { witness, from, end }));
    let part = Transaction { flush, ..Transaction::default() };
    Prepare { part, ..prepare(start, &[]) }
}

//! What the tests of its parts share.

use keyspace::Timestamp;

use crate::locks::{Deadline, Keys, Places, Prepare, Role, TxnId};
use command::Transaction;

/// A PREPARE that votes, begun at this millisecond, which has read these ranges.
pub(super) fn prepare(
    start: u64,
    ranges: &[(&'static [u8], Option<&'static [u8]>)],
) -> Prepare<'static> {
    let id = TxnId { start: Timestamp::from_millis(start), by: 1, attempt: 0 };
    let part = Transaction { ranges: ranges.to_vec(), ..Transaction::default() };
    let (record, role, promised) = (&b"r"[..], Role::Votes, Keys::new());
    Prepare {
        id,
        is_first: true,
        kept_as: None,
        record,
        role,
        deadline: Some(Deadline::NEVER),
        promised,
        part,
        places: Places::new(),
    }
}

//! What may come into a lane when the log has no room?
//!
//! Whatever is proposed must be appended, come what may: so a driver reserves room in the log for
//! all that inputs may propose, before the lane takes them. It keeps reserved what the lane still
//! holds, and gives back the rest.
//!
//! ```text
//!   inputs ──► log_bytes ──► reserve ──► room: all of them ──► lane ──► turn ──► unneeded: release
//!                               └──► no room: without_room, each: let in, refused or left out
//! ```

use keyspace::NodeId;

use super::{Answer, Input, NotDone, ShardExecutor};
use crate::rpc::request::Letter;

/// Bytes of framing that an entry may need in the log beside its own.
const FRAMING_BYTES: u64 = 256;

/// What becomes of an input without room in the log.
#[derive(Debug)]
pub enum Admission {
    /// The lane takes it: it needs no room, or most of its kind do not, and the lane sees to the
    /// others ([`ShardExecutor::set_full`]).
    Taken(Input),
    /// Who asked is told that nothing was done.
    Refused(Answer),
    /// A node that asked is told so.
    Unable(NodeId, Letter),
    /// Nobody is told: whoever wants it asks again.
    LeftOut,
}

/// Bytes that an input may need in the log.
pub fn log_bytes(input: &Input) -> u64 {
    match input {
        Input::Propose { batch, .. } => batch.len_bytes() as u64 + FRAMING_BYTES,
        Input::Step { step, .. } => step.len() as u64 + FRAMING_BYTES,
        // A reader may need a horizon.
        Input::Await { .. } | Input::Catalogue { .. } => FRAMING_BYTES,
        Input::RaiseKeyspace(_) | Input::RaiseShard { .. } => FRAMING_BYTES,
        Input::Split { .. } | Input::Merge { .. } => FRAMING_BYTES,
        Input::Inherit { heir, .. } => {
            let (bytes, entries) = heir.held();
            bytes + entries * FRAMING_BYTES
        }
        Input::Letter { letter, .. } => match letter {
            Letter::Write { commands, .. } => commands.len() as u64 + FRAMING_BYTES,
            Letter::Read { .. } | Letter::Fetch { .. } | Letter::Raise(_) => FRAMING_BYTES,
            Letter::Merge { .. } => FRAMING_BYTES,
            Letter::Step { step, .. } => step.len() as u64 + FRAMING_BYTES,
            _ => 0,
        },
        Input::Message { message, .. } => message.entry_bytes(),
        _ => 0,
    }
}

/// Without room in the log, what is to be proposed is refused; readers are let in, for most of them
/// need none.
pub fn without_room(input: Input) -> Admission {
    let why = NotDone::DiskFull;
    match input {
        Input::Propose { origin, batch, .. } => {
            Admission::Refused(Answer::NotDone { origin, waiters: batch.into_parts().1, why })
        }
        Input::Catalogue { origin, waiter, .. } | Input::Step { origin, waiter, .. } => {
            Admission::Refused(Answer::NotDone { origin, waiters: vec![waiter], why })
        }
        // The keeper asks again, and so does a leader.
        Input::RaiseKeyspace(_) | Input::RaiseShard { .. } => Admission::LeftOut,
        Input::Split { .. } | Input::Merge { .. } => Admission::LeftOut,
        Input::Letter { letter: Letter::Merge { .. }, .. } => Admission::LeftOut,
        Input::Message { message, .. } if message.entry_bytes() > 0 => Admission::LeftOut,
        Input::Letter { from, letter } => match letter.when_unable() {
            Some(answer) => Admission::Unable(from, answer),
            None => Admission::Taken(Input::Letter { from, letter }),
        },
        other => Admission::Taken(other),
    }
}

/// Takes from what was reserved for a lane what nothing that it still holds will need.
pub fn unneeded(lane: &ShardExecutor, credit_bytes: &mut u64) -> u64 {
    let kept = lane.held_log_bytes(FRAMING_BYTES).min(*credit_bytes);
    std::mem::replace(credit_bytes, kept) - kept
}

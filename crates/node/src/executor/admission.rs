//! Which inputs may enter an executor when the log has no room?
//!
//! An executor appends everything that it proposes. So before it takes inputs, the driver reserves
//! room in the log for all that they may propose. It keeps the room for what the executor still
//! holds, and gives back the rest.
//!
//! ```text
//!   inputs ─► log_bytes ──► reserve ──► room: all of them ─► executor ─► turn ─► unneeded: release
//!                              └──► no room: without_room, each: let in, refused or left out
//! ```

use command::NotDone;
use keyspace::NodeId;

use super::{Answer, Input, ShardExecutor};
use crate::rpc::message::RpcMessage;

/// Bytes of framing that an entry may need in the log beside its own.
const FRAMING_BYTES: u64 = 256;

/// What becomes of an input without room in the log.
#[derive(Debug)]
pub enum Admission {
    /// The executor takes it: it needs no room, or most of its kind do not, and the executor sees
    /// to the others ([`ShardExecutor::set_full`]).
    Admitted(Input),
    /// The executor refuses the request: nothing was done.
    Refused(Answer),
    /// The executor refuses another node's request with this message.
    NoRoom(NodeId, RpcMessage),
    /// Nobody learns of it: the sender asks again.
    Dropped,
}

/// Bytes that an input may need in the log.
pub fn log_bytes(input: &Input) -> u64 {
    match input {
        Input::Propose { batch, .. } => batch.len_bytes() as u64 + FRAMING_BYTES,
        Input::Step { step, .. } => step.len() as u64 + FRAMING_BYTES,
        // A reader may need a horizon.
        Input::AwaitRead { .. } | Input::Catalogue { .. } => FRAMING_BYTES,
        Input::RaiseKeyspace(_) | Input::RaiseShard { .. } => FRAMING_BYTES,
        Input::Split { .. } | Input::Merge { .. } => FRAMING_BYTES,
        Input::TakeOverRequests { inherited, .. } => {
            let (bytes, entries) = inherited.held();
            bytes + entries * FRAMING_BYTES
        }
        Input::Rpc { rpc, .. } => match rpc {
            RpcMessage::Write { commands, .. } => commands.len() as u64 + FRAMING_BYTES,
            RpcMessage::ReadIndex { .. }
            | RpcMessage::Fetch { .. }
            | RpcMessage::RaiseSafePoint(_) => FRAMING_BYTES,
            RpcMessage::Merge { .. } => FRAMING_BYTES,
            RpcMessage::Step { step, .. } => step.len() as u64 + FRAMING_BYTES,
            _ => 0,
        },
        Input::Message { message, .. } => message.entry_bytes(),
        _ => 0,
    }
}

/// Judges an input when the log has no room: refuses proposals, and admits readers, most of which
/// need no room.
pub fn without_room(input: Input) -> Admission {
    let why = NotDone::DiskFull;
    match input {
        Input::Propose { origin, batch, .. } => {
            Admission::Refused(Answer::NotDone { origin, waiters: batch.into_parts().1, why })
        }
        Input::Catalogue { origin, waiter, .. } | Input::Step { origin, waiter, .. } => {
            Admission::Refused(Answer::NotDone { origin, waiters: vec![waiter], why })
        }
        // The maintenance thread asks again, and so does a leader.
        Input::RaiseKeyspace(_) | Input::RaiseShard { .. } => Admission::Dropped,
        Input::Split { .. } | Input::Merge { .. } => Admission::Dropped,
        Input::Rpc { rpc: RpcMessage::Merge { .. }, .. } => Admission::Dropped,
        Input::Message { message, .. } if message.entry_bytes() > 0 => Admission::Dropped,
        Input::Rpc { from, rpc } => match rpc.no_room_reply() {
            Some(answer) => Admission::NoRoom(from, answer),
            None => Admission::Admitted(Input::Rpc { from, rpc }),
        },
        other => Admission::Admitted(other),
    }
}

/// Takes from `credit_bytes`, the room reserved for an executor, what its pending requests will not
/// need.
pub fn unneeded(executor: &ShardExecutor, credit_bytes: &mut u64) -> u64 {
    let kept = executor.held_log_bytes(FRAMING_BYTES).min(*credit_bytes);
    std::mem::replace(credit_bytes, kept) - kept
}

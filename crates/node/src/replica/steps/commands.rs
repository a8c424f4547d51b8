//! What the wait queue sees of commands that are to be proposed.
//!
//! This node never refuses a batch of another node's session, however long it waits: that node
//! gives it up by itself.

use command::{Write, codec};
use txn::wait_queue::Commands;

use crate::replica::Queued;
use crate::replica::entry::SESSION_BATCH_COMMANDS_AT;

/// Whose commands wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::replica) enum CommandAsker {
    Origin(u32),
    Session(u64),
}

impl Commands for Queued {
    type Asker = CommandAsker;

    fn asker(&self) -> Option<CommandAsker> {
        match self {
            Queued::Batch { origin, .. } => Some(CommandAsker::Origin(origin.0)),
            Queued::SessionBatch { id, .. } => Some(CommandAsker::Session(id.session)),
            Queued::Operation { .. } => None,
        }
    }

    fn any(&self, mut is_such: impl FnMut(&Write<'_>) -> bool) -> bool {
        let mut rest = match self {
            Queued::Batch { batch, .. } => batch.commands(),
            Queued::SessionBatch { bytes, .. } => &bytes[SESSION_BATCH_COMMANDS_AT..],
            Queued::Operation { .. } => return false,
        };
        while let Ok(write) = codec::decode(&mut rest) {
            if is_such(&write) {
                return true;
            }
        }
        false
    }

    fn may_time_out(&self) -> bool {
        matches!(self, Queued::Batch { .. })
    }
}

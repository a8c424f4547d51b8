//! What becomes of answers to reads that have joined the log ([`node::routing::pipeline`]), until
//! they are replied.

use super::{Connection, NUMBER_MASK};
use crate::event_loop::OUTPUT_PAUSE_BYTES;
use crate::event_loop::pending_reply::{ReplyKind, ReplyState};
use crate::event_loop::state::{ConnectionState, WaitsFor};

/// The error of a read whose shard was split before an earlier write of its connection was done.
const OVERTAKEN: &str = "TRYAGAIN the shard was split while commands before this one were under \
                         way; nothing was read. Send it again";

/// … whose values were too long to be held until replies before it had come.
const TOO_MUCH_HELD: &str = "TRYAGAIN the values that commands under way have read are too long, \
                             and a later command has changed this one; nothing was read. Send it \
                             again";

impl Connection {
    /// The answer of a read that has joined the log is there, and may have to wait for replies
    /// before its own. If it is none, or too long to be held, the read will be done again.
    pub(super) fn hold_answer(&mut self, at: usize, number: u32) {
        let slot = &mut self.pending[at];
        let bytes = slot.answer_bytes();
        if bytes.is_some_and(|bytes| self.takes.hold(bytes, true)) {
            return;
        }
        let is_held = !self.pipeline.loses(number)
            && bytes.is_some_and(|bytes| self.takes.hold(bytes, false));
        if !is_held && let ReplyState::Done(_) = slot.state {
            slot.state = ReplyState::Failed(TOO_MUCH_HELD.into());
        }
    }

    /// The oldest reply is complete. If it is that of a read that has joined a batch, decides
    /// whether it counts. If not, the read is parked, and there is no reply yet: `false`.
    pub(super) fn settle_read(&mut self) -> bool {
        let Some(slot) = self.pending.front_mut() else { return true };
        if slot.kind != ReplyKind::JoinedRead {
            return true;
        }
        let counts = slot.shard.is_some_and(|shard| self.pipeline.counts(shard));
        let answer_bytes = slot.answer_bytes();
        if counts && answer_bytes.is_some() {
            return true;
        }
        let falls_back = self.pipeline.falls_back();
        if falls_back {
            (slot.kind, slot.state, slot.shard) =
                (ReplyKind::ParkedRead, ReplyState::Waiting, None);
        } else if answer_bytes.is_some() {
            slot.state = ReplyState::Failed(OVERTAKEN.into());
        }
        self.takes.release(answer_bytes.unwrap_or(0));
        !falls_back
    }

    /// The oldest parked read, whose reply has this number, has joined the log.
    pub(in crate::event_loop) fn joins(&mut self, number: u32) {
        let at = (number.wrapping_sub(self.first_number) & NUMBER_MASK) as usize;
        if let Some(slot) = self.pending.get_mut(at) {
            slot.kind = ReplyKind::JoinedRead;
        }
        self.pipeline.has_joined();
    }

    /// Whether its oldest reply owed is that of a parked read, which may be tried now.
    pub(in crate::event_loop) fn may_try_parked(&self) -> bool {
        let is_parked = self.pending.front().is_some_and(|slot| slot.kind == ReplyKind::ParkedRead);
        is_parked
            && (self.life == ConnectionState::Broken
                || (self.next.waits_for == WaitsFor::Nothing && self.unsent() < OUTPUT_PAUSE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use command::{Read, Reply};
    use gateway::native;
    use gateway::resp::Version;

    use super::super::tests::{connect, owe};
    use super::*;
    use crate::event_loop::pending_reply::{PendingReply, ReplyFrame};

    /// The connection is owed the reply of a read that has joined the log.
    fn owe_joined(connection: &mut Connection, key: &[u8]) -> u32 {
        let (number, read) = (connection.next_number(), Read::Get(key));
        let shard = keyspace::ShardId(1);
        let plan = node::routing::pipeline::ReadPlan::Join(shard);
        let hash = |key: &[u8]| u64::from(key[0]);
        connection.pipeline.add(keyspace::KeyspaceId(1), &read, number, hash, plan);
        let frame = ReplyFrame::Resp { version: Version::V3, muted: false };
        connection.pending.push_back(PendingReply::of_read(frame, ReplyKind::JoinedRead));
        number
    }

    #[test]
    fn answers_of_joined_reads_that_take_too_much_are_read_again() {
        let (mut connection, _client) = connect();
        let shard = keyspace::ShardId(1);
        connection.pipeline.wrote(shard);
        let write = owe(&mut connection);
        let reads = [b"a", b"b", b"c", b"d"].map(|key| owe_joined(&mut connection, key));
        connection.pipeline.overwrites(u64::from(b'c'));
        let long = Reply::Bulk(vec![b'v'; 600 << 10].into());
        let [long, other] = [long.clone(), long];
        let refused = Reply::Refused(command::Refusal::TooMuch);
        let answers = [long, other.clone(), other, refused].map(|reply| Reply::Array(vec![reply]));
        for (number, answer) in reads.into_iter().zip(answers) {
            connection.fill(number, Ok(answer), Some(shard));
        }
        let held = connection.pending.iter().filter_map(PendingReply::answer_bytes).sum::<u64>();
        assert!((1200 << 10..1300 << 10).contains(&held), "those of a and c: {held}");
        connection.fill(write, Ok(Reply::Ok), Some(shard));
        connection.write_replies(native::ErrorText::Text);
        assert!(connection.output.bytes.starts_with(b"+OK\r\n$614400\r\nv"));
        assert!(connection.may_try_parked(), "b is read again");
        connection.pop_reply();
        let before = connection.output.bytes.len();
        connection.write_replies(native::ErrorText::Text);
        let error = &connection.output.bytes[before..];
        assert!(
            error.starts_with(b"-TRYAGAIN"),
            "c is read after b, and a later write has changed it"
        );
        assert!(connection.may_try_parked(), "d is read again");
        connection.pop_reply();
        connection.end_replies();
        assert!(connection.pending.is_empty());
    }
}

//! Messages in the mailbox of one event loop: how many bytes they are, and which publishers wait
//! until they are fewer.
//!
//! A loop with many subscribers may take longer for a message than its publisher. Beyond
//! [`CROWDED_BYTES`] a publisher of this node gets its reply, and runs its next command, when the
//! loop has caught up. Messages of other nodes, whose publishers cannot wait here, are dropped
//! beyond [`BACKLOG_BYTES_MAX`].

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Message, WaitingReply};

/// From so many bytes on publishers wait.
const CROWDED_BYTES: usize = 8 << 20;
/// A message that would make them more than this is dropped.
pub const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// What a message takes beside its bytes.
const MESSAGE_BYTES: usize = 128;

/// See the front page of this module.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    waiting: Mutex<Vec<(WaitingReply, u64)>>,
}

fn bytes_of(message: &Message) -> usize {
    message.channel.len() + message.message.len() + MESSAGE_BYTES
}

impl Backlog {
    /// A message is to be posted; false if it must not.
    pub(super) fn add(&self, message: &Message) -> bool {
        let bytes = bytes_of(message);
        let has_room = self.bytes.fetch_add(bytes, Ordering::SeqCst) + bytes <= BACKLOG_BYTES_MAX;
        if !has_room {
            self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        }
        has_room
    }

    /// Whether publishers are to wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) > CROWDED_BYTES
    }

    /// A publisher waits for its reply, which is this. False: it need not any more.
    pub(super) fn wait(&self, waiting: WaitingReply, count: u64) -> bool {
        let mut all = self.waiting.lock();
        // The loop looks under this lock once it has caught up.
        let is_crowded = self.is_crowded();
        if is_crowded {
            all.push((waiting, count));
        }
        is_crowded
    }

    /// The loop has taken a message: those that need not wait any more.
    pub(super) fn taken(&self, message: &Message) -> Vec<(WaitingReply, u64)> {
        let bytes = bytes_of(message);
        let before = self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        match before > CROWDED_BYTES && before - bytes <= CROWDED_BYTES {
            true => std::mem::take(&mut self.waiting.lock()),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use command::TopicKind;
    use node::replica::entry::Waiter;

    use super::*;

    #[test]
    fn publishers_wait_while_a_loop_is_behind_and_other_nodes_messages_are_dropped() {
        let backlog = Backlog::default();
        let message = Message {
            kind: TopicKind::Channel,
            channel: b"c"[..].into(),
            message: Bytes::from(vec![0; 1 << 20]),
        };
        let waiting = WaitingReply { event_loop: 0, waiter: Waiter(1) };
        assert!(!backlog.wait(waiting, 1), "nothing is there");
        let added = (0..100).take_while(|_| backlog.add(&message)).count();
        assert_eq!(added, 63, "one more would be too many");
        assert!(backlog.wait(waiting, 7));
        let taken: Vec<_> = (0..added).map(|_| backlog.taken(&message).len()).collect();
        assert_eq!(taken.iter().sum::<usize>(), 1, "it is answered once");
        assert_eq!(taken[added - 8], 1, "when less than 8 MiB are left");
        assert!(!backlog.wait(waiting, 1) && backlog.bytes.load(Ordering::SeqCst) == 0);
    }
}

//! The inputs that wait for control, in order.
//!
//! Most senders bound them: clients wait for their requests, executors report only changes, and the
//! ticker waits until its tick is taken. Messages of other nodes' lookups
//! ([`Input::LookupMessage`]) have no such bound, so this queue has one.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | [`LOOKUP_MESSAGES_MAX`] | messages of lookups that wait | the oldest is dropped, and counted |
//!
//! A dropped message does no lasting harm. Any of them may be lost on its way as well, and the next
//! comparison of tables finds what is missing. The newest say the most.

use std::collections::VecDeque;

use super::Input;

/// Messages of other nodes' lookups that wait.
pub const LOOKUP_MESSAGES_MAX: usize = 1024;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Queue {
    inputs: VecDeque<Input>,
    lookup_messages: usize,
    dropped: u64,
}

impl Queue {
    /// Adds one at the end.
    pub fn push(&mut self, input: Input) {
        if matches!(input, Input::LookupMessage { .. }) {
            if self.lookup_messages == LOOKUP_MESSAGES_MAX {
                let oldest =
                    self.inputs.iter().position(|i| matches!(i, Input::LookupMessage { .. }));
                self.inputs.remove(oldest.expect("they were counted"));
                self.dropped += 1;
            } else {
                self.lookup_messages += 1;
            }
        }
        self.inputs.push_back(input);
    }

    /// Takes the first.
    pub fn pop(&mut self) -> Option<Input> {
        let input = self.inputs.pop_front()?;
        self.lookup_messages -= usize::from(matches!(input, Input::LookupMessage { .. }));
        Some(input)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// How many messages of lookups were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Extend<Input> for Queue {
    fn extend<T: IntoIterator<Item = Input>>(&mut self, inputs: T) {
        inputs.into_iter().for_each(|input| self.push(input));
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{NodeId, ShardId};
    use overlay::Message;

    use super::*;

    fn lookup_message(number: u64) -> Input {
        Input::LookupMessage { from: NodeId(number), message: Message::Want(vec![ShardId(number)]) }
    }

    #[test]
    fn queue_drops_oldest_lookup_messages_only() {
        let mut queue = Queue::default();
        queue.push(Input::Tick);
        queue.extend((0..LOOKUP_MESSAGES_MAX as u64).map(lookup_message));
        queue.push(Input::ReplicaEnded(ShardId(7)));
        assert_eq!(queue.dropped(), 0);
        queue.push(lookup_message(5_000));
        queue.push(lookup_message(5_001));
        assert_eq!(queue.dropped(), 2);
        assert!(
            matches!(queue.pop(), Some(Input::Tick)),
            "a tick is not dropped: it is no lookup message"
        );
        let from = |input: Option<Input>| match input {
            Some(Input::LookupMessage { from, .. }) => from.0,
            other => panic!("{other:?}"),
        };
        for number in 2..LOOKUP_MESSAGES_MAX as u64 {
            assert_eq!(from(queue.pop()), number, "the oldest went");
        }
        assert!(matches!(queue.pop(), Some(Input::ReplicaEnded(_))), "in its place");
        queue.extend((0..10).map(lookup_message));
        let rest: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|i| from(Some(i))).collect();
        assert_eq!(rest, [5_000, 5_001, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(queue.is_empty() && queue.dropped() == 2);
    }
}

//! How long do clients wait for this node? From the iteration in which requests were read from a
//! connection to the end of that in which the replies were sent.
//!
//! What comes together, as a pipeline does, counts once. No clock is read for it but once in an
//! iteration that ends with replies.

use std::time::Instant;

use super::connection::{Connection, is_at_most};

/// Requests of one connection whose time is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedRequests {
    since: Instant,
    /// The last reply that was owed when they had been run.
    last_owed: Option<u32>,
    /// Whether anything was sent since.
    is_sent: bool,
}

impl Connection {
    /// Requests have come, in the iteration that began then. Those before are waited for still; or
    /// what had come was less than one.
    pub(super) fn requests_come(&mut self, began: Instant) {
        if self.timed.is_none() || !self.is_owed() {
            self.timed = Some(TimedRequests { since: began, last_owed: None, is_sent: false });
        }
    }

    /// Some output was sent.
    pub(super) fn some_is_sent(&mut self) {
        if let Some(timed) = &mut self.timed {
            timed.is_sent = true;
        }
    }

    /// At the end of an iteration: since when the client has waited, if now it has all replies.
    pub(super) fn requests_answered(&mut self) -> Option<Instant> {
        let newest = self.next_number().wrapping_sub(1);
        let timed = self.timed.as_mut()?;
        let is_over = match timed.last_owed {
            _ if self.pending.is_empty() => true,
            Some(last) => !is_at_most(self.first_number, last),
            None => {
                timed.last_owed = Some(newest);
                false
            }
        };
        let since = timed.since;
        let is_answered = timed.is_sent && is_over && !self.must_wait() && self.unsent() == 0;
        is_answered.then(|| {
            self.timed = None;
            since
        })
    }

    fn is_owed(&self) -> bool {
        !self.pending.is_empty() || self.must_wait() || self.unsent() > 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::connection::tests::{connect, owe};
    use super::*;

    /// What the loop does at the end of an iteration.
    fn sent(connection: &mut Connection) -> Option<Instant> {
        if connection.unsent() > 0 {
            connection.output.sent = connection.output.bytes.len();
            connection.some_is_sent();
        }
        connection.requests_answered()
    }

    #[test]
    fn time_is_that_of_the_first_requests_that_are_not_answered() {
        let (mut connection, _client) = connect();
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        connection.requests_come(at(0));
        connection.reply_with(b"+OK".to_vec());
        assert_eq!(sent(&mut connection), Some(at(0)), "answered at once");
        assert_eq!(sent(&mut connection), None, "nothing was asked");
        connection.requests_come(at(5));
        assert_eq!(sent(&mut connection), None, "half a request");
        connection.requests_come(at(9_000));
        let first = owe(&mut connection);
        assert_eq!(sent(&mut connection), None);
        connection.requests_come(at(9_005));
        let second = owe(&mut connection);
        assert_eq!(sent(&mut connection), None);
        connection.fill_bytes(first, b"+OK".to_vec());
        connection.write_replies(gateway::native::ErrorText::Empty);
        assert_eq!(sent(&mut connection), Some(at(9_000)), "the second is owed still");
        connection.requests_come(at(9_010));
        connection.fill_bytes(second, b"+OK".to_vec());
        connection.write_replies(gateway::native::ErrorText::Empty);
        assert_eq!(sent(&mut connection), Some(at(9_010)));
    }
}

//! The stream of events of a node (`docs/events.md`), event by event.

use super::wire::ChunkReader;
use super::{Client, ClientError};

/// A stream that is open: an iterator over the JSON of events, one line each. It ends when the node
/// ends it. A node sends something every 10 seconds; the client's timeout is to be longer.
pub struct EventStream {
    client: Client,
    lines: ChunkReader,
}

impl Client {
    /// Opens a stream of events; `query` is what follows the question mark, encoded.
    ///
    /// # Errors
    /// As the node says; nothing was changed in any case.
    pub fn events(&self, query: &str) -> Result<EventStream, ClientError> {
        self.open_events(&format!("/v1/events?{query}"))
    }

    /// Opens a stream of server-sent events.
    pub(super) fn open_events(&self, path: &str) -> Result<EventStream, ClientError> {
        match self.endpoint.open(path)? {
            Ok(lines) => Ok(EventStream { client: self.clone(), lines }),
            Err(reply) => Err(self.refusal(&reply, false)),
        }
    }
}

impl Iterator for EventStream {
    type Item = Result<String, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.lines.next_line() {
                Ok(Some(line)) => {
                    if let Some(json) = line.strip_prefix("data: ") {
                        return Some(Ok(json.to_owned()));
                    }
                }
                Ok(None) => return None,
                Err(error) => return Some(Err(self.client.endpoint.broken(&error))),
            }
        }
    }
}

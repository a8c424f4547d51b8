//! `carillon topic push`: messages of a group, as POSTs to a URL.
//!
//! ```text
//!   take ──► POST ── 2xx ──► acknowledge
//!     ▲        └ else: it stays taken until its deadline; then somebody takes it again
//!     └── after failures in a row a pause, up to [`PAUSE_MAX`]
//! ```
//!
//! Messages are pushed one after the other. Who wants more of them at once starts more processes.

use std::thread;
use std::time::Duration;

use client::http::{Client, ClientError, Request, bytes_of};
use serde_json::Value;

use crate::exit::Exit;
use crate::output::{self, with_node};
use crate::topics::PlaceArgs;

/// Messages of one take: they must be pushed before their deadline.
const BATCH: u64 = 8;
/// A request for messages waits at most so long.
const WAIT_MS: u64 = 20_000;
/// A receiver may take so long.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Where messages are pushed.
struct Receiver {
    client: Client,
    path: String,
}

impl Receiver {
    /// From a URL; none if it is none of `http`.
    fn of(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let client = Client::new(&host).ok().filter(|_| is_plain)?;
        Some(Self { client: client.with_timeout(ANSWER_MAX), path: format!("/{path}") })
    }

    /// Whether it has taken a message.
    fn push(&self, topic: &str, message: &Value) -> Result<(), String> {
        let body = bytes_of(&message["message"]).unwrap_or_default();
        let (number, deliveries) =
            (message["number"].to_string(), message["deliveries"].to_string());
        let headers = [
            ("Carillon-Topic", topic),
            ("Carillon-Message", number.as_str()),
            ("Carillon-Deliveries", deliveries.as_str()),
        ];
        let request =
            Request { body: &body, headers: &headers, ..Request::write("POST", &self.path) };
        match self.client.send(&request) {
            Ok(reply) if (200..300).contains(&reply.status) => Ok(()),
            Ok(reply) => Err(format!("the receiver answered {}", reply.status)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Pushes messages.
pub fn push(place: &PlaceArgs, group: &str, url: &str, wait: Option<u64>) -> Exit {
    let Some(receiver) = Receiver::of(url) else {
        output::refuse(&place.node, &format!("{url:?} is no URL such as http://HOST:PORT/PATH"));
        return Exit::Usage;
    };
    with_node(&place.node, |client| run(client, place, group, &receiver, wait))
}

fn run(
    client: &Client,
    place: &PlaceArgs,
    group: &str,
    receiver: &Receiver,
    wait: Option<u64>,
) -> Result<Exit, ClientError> {
    let at = place.place();
    let (mut pushed, mut waited, mut pause) = (0u64, 0, PAUSE_MIN);
    loop {
        let wait_ms = wait.map_or(WAIT_MS, |wait| (wait - waited).min(WAIT_MS));
        let taken = client.topic_take(at, group, BATCH, wait_ms)?;
        let messages = taken["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let mut failed = false;
        for message in messages {
            let number = message["number"].as_u64().unwrap_or_default();
            match receiver.push(at.topic, message) {
                Ok(()) => {
                    client.topic_ack(at, group, &[number], &[])?;
                    pushed += 1;
                }
                Err(why) => {
                    output::note(&format!("message {number} was not pushed: {why}"));
                    failed = true;
                }
            }
        }
        if failed {
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        } else if !messages.is_empty() {
            pause = PAUSE_MIN;
        }
        waited = if messages.is_empty() { waited + wait_ms } else { 0 };
        if wait.is_some_and(|wait| waited >= wait) {
            return Ok(output::line(&format!("pushed {pushed}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_urls_of_http() {
        for (url, path) in [
            ("http://127.0.0.1:8000/orders?a=b", "/orders?a=b"),
            ("http://localhost:1", "/"),
            ("http://example.org/a", "/a"),
        ] {
            assert_eq!(Receiver::of(url).expect(url).path, path);
        }
        for bad in ["", "ftp://a:1/", "https://a:1/", "http:///a", "http://a:b/", "http://a:1/ b"] {
            assert!(Receiver::of(bad).is_none(), "{bad}");
        }
    }
}

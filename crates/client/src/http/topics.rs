//! Durable topics. Answers are JSON; later versions may add fields.

use serde_json::{Value, json};

use super::Client;
use super::error::ClientError;
use super::events::EventStream;
use super::txn::word;
use super::types::encode;
use super::wire::Request;

/// A topic, by its keyspace and name.
#[derive(Clone, Copy, Debug)]
pub struct TopicPlace<'a> {
    /// The keyspace.
    pub keyspace: &'a str,
    /// The name.
    pub topic: &'a str,
}

impl TopicPlace<'_> {
    fn path(&self, rest: &str) -> String {
        let (topic, keyspace) = (encode(self.topic.as_bytes()), encode(self.keyspace.as_bytes()));
        format!("/v1/topics/{topic}{rest}?keyspace={keyspace}")
    }

    fn group(&self, group: &str, rest: &str) -> String {
        self.path(&format!("/groups/{}{rest}", encode(group.as_bytes())))
    }
}

impl Client {
    /// The topics of a keyspace.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn topics(&self, keyspace: &str) -> Result<Value, ClientError> {
        let path = format!("/v1/topics?keyspace={}", encode(keyspace.as_bytes()));
        self.json(&self.ask(Request::get(&path))?)
    }

    /// Makes a topic; `settings` are those of docs/topics.md.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; what was done may be asked for again.
    pub fn topic_create(
        &self,
        place: TopicPlace<'_>,
        settings: &Value,
    ) -> Result<Value, ClientError> {
        let path = format!("/v1/topics?keyspace={}", encode(place.keyspace.as_bytes()));
        let mut body = settings.clone();
        body["name"] = json!(place.topic);
        self.send_json("POST", &path, &body.to_string())
    }

    /// A topic with its groups.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn topic(&self, place: TopicPlace<'_>) -> Result<Value, ClientError> {
        self.json(&self.ask(Request::get(&place.path("")))?)
    }

    /// Deletes a topic, with its messages and groups.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; asking again goes on.
    pub fn topic_delete(&self, place: TopicPlace<'_>) -> Result<(), ClientError> {
        self.ask(Request::write("DELETE", &place.path(""))).map(drop)
    }

    /// Publishes messages, all at one moment: the numbers of the first and the last.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn topic_publish<B: AsRef<[u8]>>(
        &self,
        place: TopicPlace<'_>,
        messages: &[B],
    ) -> Result<Value, ClientError> {
        let messages: Vec<Value> = messages.iter().map(|body| word(body.as_ref())).collect();
        let body = json!({ "messages": messages }).to_string();
        self.send_json("POST", &place.path("/messages"), &body)
    }

    /// Makes a group, or gives it other settings, those of docs/topics.md.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; what was done may be asked for again.
    pub fn topic_subscribe(
        &self,
        place: TopicPlace<'_>,
        group: &str,
        settings: &Value,
    ) -> Result<Value, ClientError> {
        self.send_json("PUT", &place.group(group, ""), &settings.to_string())
    }

    /// Ends a group.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn topic_unsubscribe(&self, place: TopicPlace<'_>, group: &str) -> Result<(), ClientError> {
        self.ask(Request::write("DELETE", &place.group(group, ""))).map(drop)
    }

    /// Takes at most so many messages, or waits for one for so long, in ms.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; what was taken without being known comes again.
    pub fn topic_take(
        &self,
        place: TopicPlace<'_>,
        group: &str,
        max: u64,
        wait_ms: u64,
    ) -> Result<Value, ClientError> {
        let body = json!({ "max": max, "wait_ms": wait_ms }).to_string();
        self.send_json("POST", &place.group(group, "/take"), &body)
    }

    /// Says which messages are done, and which are given back. How many of them were handed out.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; what was done may be asked for again.
    pub fn topic_ack(
        &self,
        place: TopicPlace<'_>,
        group: &str,
        done: &[u64],
        back: &[u64],
    ) -> Result<Value, ClientError> {
        let body = json!({ "done": done, "back": back }).to_string();
        self.send_json("POST", &place.group(group, "/ack"), &body)
    }

    /// Opens a stream of a group's messages: each is to be acknowledged by [`Self::topic_ack`].
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn topic_stream(
        &self,
        place: TopicPlace<'_>,
        group: &str,
        max: u64,
    ) -> Result<EventStream, ClientError> {
        let path = format!("{}&max={max}", place.group(group, "/stream"));
        self.open_events(&path)
    }
}

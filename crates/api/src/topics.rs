//! Durable topics: their messages, and groups that share them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A topic to be made. What is not given has the node's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicSpec {
    /// How long a message is kept, in ms.
    pub kept_ms: Option<u64>,
    /// How many messages are kept.
    pub messages_max: Option<u64>,
    /// How many bytes of messages are kept.
    pub bytes_max: Option<u64>,
}

/// A topic as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// The number of the oldest message that may be there.
    pub first: u64,
    /// The number of the next message.
    pub next: u64,
    /// Bytes of the messages that are there, at most.
    pub bytes: u64,
    /// How long a message is kept, in ms.
    pub kept_ms: u64,
    /// How many messages are kept.
    pub messages_max: u64,
    /// How many bytes of messages are kept.
    pub bytes_max: u64,
    /// Its groups, by name.
    pub groups: Vec<GroupInfo>,
}

/// A group to be made, or its new settings. What is not given has the node's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSpec {
    /// Where a new group begins.
    pub from: GroupStart,
    /// Time to acknowledge a message, in ms.
    pub ack_ms: Option<u64>,
    /// After so many deliveries a message goes to the dead-letter topic.
    pub deliveries_max: Option<u64>,
    /// That topic.
    pub dead_letter: Option<String>,
}

/// Where a new group begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupStart {
    /// With the next message that is published.
    #[default]
    Latest,
    /// With the oldest that is there.
    Earliest,
    /// With this one.
    Number(u64),
}

/// A group as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// The number of the next message that it has not had.
    pub next: u64,
    /// Messages that wait for it and that it has not had.
    pub waiting: u64,
    /// Messages that were handed out and are not acknowledged.
    pub unacknowledged: u64,
    /// Messages that the topic dropped before the group had them.
    pub missed: u64,
    /// Time to acknowledge a message, in ms.
    pub ack_ms: u64,
    /// After so many deliveries a message goes to the dead-letter topic; 0: never.
    pub deliveries_max: u64,
    /// That topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dead_letter: Option<String>,
}

/// A message as it is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMessage {
    /// Its number.
    pub number: u64,
    /// How often it was handed out, this time included.
    pub deliveries: u64,
    /// When it was published, in milliseconds since 1970.
    pub published_at_ms: u64,
    /// Where it was before it came to this dead-letter topic.
    pub origin: Option<MessageOrigin>,
    /// What was published.
    pub body: Bytes,
}

/// Where a message was before it came to a dead-letter topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageOrigin {
    /// Its topic.
    pub topic: String,
    /// The group that did not acknowledge it.
    pub group: String,
    /// Its number there.
    pub number: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// What a take has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenMessages {
    /// The messages, by rising number.
    pub messages: Vec<TopicMessage>,
    /// Messages that the topic dropped before the group had them, since its last take.
    pub missed: u64,
    /// Messages that went to the dead-letter topic.
    pub dead: u64,
}

/// What becomes of messages that were handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// These are done.
    pub done: Vec<u64>,
    /// These are given back: they are delivered again at once.
    pub back: Vec<u64>,
}

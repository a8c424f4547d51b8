//! What a node answers about locks and durable topics.

use std::time::Duration;

use bytes::Bytes;
use keyspace::Timestamp;

use crate::{
    Acknowledged, ApiError, Done, GroupInfo, GroupSpec, LockInfo, LockSpec, RequestId,
    TakenMessages, TopicInfo, TopicSpec,
};

/// Locks, topics, and groups that share them. A group is named by its topic and its own name.
pub trait TopicService {
    /// Takes a lock, if nobody else holds it: [`ApiError::LockHeld`].
    fn lock_acquire(&self, _id: RequestId, _name: &str, _spec: LockSpec, done: Done<LockInfo>) {
        done(Err(no_topics()));
    }
    /// Has a lock's lease last for so long from now on; [`ApiError::LockLost`] if it has ended.
    fn lock_renew(
        &self,
        _id: RequestId,
        _name: &str,
        _token: u64,
        _ttl_ms: u64,
        done: Done<LockInfo>,
    ) {
        done(Err(no_topics()));
    }
    /// Releases a lock; [`ApiError::LockLost`] if it is not held with this token.
    fn lock_release(&self, _id: RequestId, _name: &str, _token: u64, done: Done<()>) {
        done(Err(no_topics()));
    }
    /// A lock, if it is held.
    fn lock(&self, _name: &str, done: Done<Option<LockInfo>>) {
        done(Err(no_topics()));
    }
    /// Locks that are held, by name: those that begin so, behind one of them, at most so many.
    fn locks(&self, _prefix: &str, _after: Option<&str>, _limit: usize, done: Done<Vec<LockInfo>>) {
        done(Err(no_topics()));
    }
    /// The names of a keyspace's topics.
    fn topics(&self, _keyspace: &str, done: Done<Vec<String>>) {
        done(Err(no_topics()));
    }
    /// Makes a topic; one that is there with these settings is left as it is.
    fn topic_create(
        &self,
        _id: RequestId,
        _keyspace: &str,
        _topic: &str,
        _spec: TopicSpec,
        done: Done<TopicInfo>,
    ) {
        done(Err(no_topics()));
    }
    /// A topic, with its groups.
    fn topic(&self, _keyspace: &str, _topic: &str, done: Done<TopicInfo>) {
        done(Err(no_topics()));
    }
    /// Deletes a topic, with its messages and groups.
    fn topic_delete(&self, _id: RequestId, _keyspace: &str, _topic: &str, done: Done<()>) {
        done(Err(no_topics()));
    }
    /// Publishes messages at one moment. The number of the first; the others follow it.
    fn publish(
        &self,
        _id: RequestId,
        _keyspace: &str,
        _topic: &str,
        _bodies: Vec<Bytes>,
        done: Done<u64>,
    ) {
        done(Err(no_topics()));
    }
    /// Makes a group, or gives it other settings.
    fn subscribe(
        &self,
        _id: RequestId,
        _keyspace: &str,
        _place: (&str, &str),
        _spec: GroupSpec,
        done: Done<GroupInfo>,
    ) {
        done(Err(no_topics()));
    }
    /// Ends a group; its place is a topic and its name.
    fn unsubscribe(&self, _id: RequestId, _keyspace: &str, _place: (&str, &str), done: Done<()>) {
        done(Err(no_topics()));
    }
    /// The time, as [`Self::await_message`] and [`Self::await_lock`] take it.
    fn moment(&self) -> Timestamp {
        Timestamp::ZERO
    }
    /// Waits until a topic has new messages above a time, or for so long. `None`: it may have.
    /// `Some`: it has none up to this time, and another question may begin there.
    fn await_message(
        &self,
        _keyspace: &str,
        _topic: &str,
        _above: Timestamp,
        _wait: Duration,
        done: Done<Option<Timestamp>>,
    ) {
        done(Err(no_topics()));
    }
    /// Waits until somebody has taken, renewed or released a lock above a time; as
    /// [`Self::await_message`].
    fn await_lock(
        &self,
        _name: &str,
        _above: Timestamp,
        _wait: Duration,
        done: Done<Option<Timestamp>>,
    ) {
        done(Err(no_topics()));
    }
    /// Hands out at most so many messages to a member of a group, if there are any.
    fn take(
        &self,
        _id: RequestId,
        _keyspace: &str,
        _place: (&str, &str),
        _most: usize,
        done: Done<TakenMessages>,
    ) {
        done(Err(no_topics()));
    }
    /// Says what became of messages. How many of them were handed out.
    fn acknowledge(
        &self,
        _id: RequestId,
        _keyspace: &str,
        _place: (&str, &str),
        _what: Acknowledged,
        done: Done<u64>,
    ) {
        done(Err(no_topics()));
    }
}

/// For services that are no nodes.
fn no_topics() -> ApiError {
    ApiError::TopicRefused { why: "a simulation has no topics and locks".to_owned() }
}

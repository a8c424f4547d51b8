//! The changes of a store's keyspace: [`Store::feed`].
//!
//! A feed is served over HTTP. It has a thread of its own, which ends with it; what it tells waits
//! in a queue of [`FEED_QUEUE_MAX`] events, and a reader who is slow has the node wait.

use std::thread;

use tokio::sync::mpsc;

use super::{Error, Reason, Store};
use crate::http::{ClientError, Feed, FeedEvent, FeedOptions};

/// Events that wait for a slow reader.
pub const FEED_QUEUE_MAX: usize = 256;

/// A change feed of a store. Dropped, it ends within about a second.
#[derive(Debug)]
pub struct StoreFeed {
    events: mpsc::Receiver<Result<FeedEvent, ClientError>>,
}

impl Store {
    /// The changes of this store's keyspace, whatever `options` says of that: each commit once,
    /// whole and in order, also when nodes die. `addresses` are `HOST:PORT` of nodes' HTTP
    /// listeners; the feed learns of the others.
    ///
    /// ```no_run
    /// # async fn example(store: client::Store) -> Result<(), Box<dyn std::error::Error>> {
    /// use client::http::{FeedEvent, FeedOptions};
    ///
    /// let mut feed = store.feed(["127.0.0.1:7480"], FeedOptions::default())?;
    /// while let Some(event) = feed.next().await {
    ///     if let FeedEvent::Commit(commit) = event? {
    ///         println!("{:?}, then {}", commit.changes, commit.token);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::BadRequest`] if an address is none; [`Error::NotDone`] if there is no thread.
    pub fn feed<A: AsRef<str>>(
        &self,
        addresses: impl IntoIterator<Item = A>,
        mut options: FeedOptions,
    ) -> Result<StoreFeed, Error> {
        options.keyspace.clone_from(&self.shared.options.keyspace);
        let feed = Feed::open(addresses, options)
            .map_err(|why| Error::BadRequest { text: why.to_string() })?;
        let (sender, events) = mpsc::channel(FEED_QUEUE_MAX);
        let run = move || {
            for event in feed {
                if sender.blocking_send(event).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("feed".to_owned()).spawn(run).map_err(|why| {
            let text = format!("no thread for the feed: {why}");
            Error::NotDone { reason: Reason::NoNode, text }
        })?;
        Ok(StoreFeed { events })
    }
}

impl StoreFeed {
    /// What comes next. Behind an error there is nothing: begin another feed, `since` the last
    /// token.
    pub async fn next(&mut self) -> Option<Result<FeedEvent, ClientError>> {
        self.events.recv().await
    }
}

//! Reads and writes pages.

use std::time::Duration;

use bytes::Bytes;
use client::http::{Client, ClientError, Feed, FeedOptions, KeyspaceSpec};
use client::{Error, Expiry, KeyRange, SetOptions, Store, Transaction, When};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::markup::{self, References};

/// The keyspace of a wiki.
pub const KEYSPACE: &str = "wiki";
/// How long its revisions are kept: ten years.
pub const RETENTION_MS: u64 = 3650 * 86_400_000;
/// The longest text of a page.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// The longest name of an author, and the longest comment.
pub const NOTE_BYTES_MAX: usize = 300;
/// The most items of a list.
pub const LIST_MAX: u64 = 200;
/// How long recent changes are listed.
const RECENT_FOR: Duration = Duration::from_secs(30 * 86_400);
/// With what keys of recent changes begin.
const RECENT: &str = "recent:";

/// A revision of a page: the value of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Its number: the first is 1.
    pub revision: u64,
    /// Its text; empty: the page was deleted.
    pub text: String,
    /// Who wrote it.
    pub author: String,
    /// Why.
    pub comment: String,
}

/// What somebody wants a page to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit<'a> {
    /// The page.
    pub title: &'a str,
    /// The revision that was edited; 0: there was none.
    pub base: u64,
    /// The new text.
    pub text: &'a str,
    /// By whom.
    pub author: &'a str,
    /// Why.
    pub comment: &'a str,
}

/// What became of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// The page has this revision now.
    Done(u64),
    /// Another was faster: this is there now.
    Conflict(Page),
}

/// Why something was not done, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum WikiError {
    /// The store says so.
    #[error("{0}")]
    Store(#[from] Error),
    /// The store says so, over HTTP.
    #[error("{0}")]
    Http(#[from] ClientError),
    /// A limit.
    #[error("{0}")]
    TooLong(&'static str),
    /// Somebody else has written the key.
    #[error("the value of page {title:?} is no page")]
    Foreign {
        /// Which page.
        title: String,
    },
    /// Conflict within a transaction: nothing is done.
    #[error("another has changed the page")]
    Changed(Box<Page>),
}

/// A wiki. A clone is the same.
#[derive(Clone, Debug)]
pub struct Wiki {
    store: Store,
    http: Vec<Client>,
    addresses: Vec<String>,
}

/// A change of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Which page.
    pub title: String,
    /// Its new revision, without its text.
    pub page: Page,
}

/// A revision in a page's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// When, as the store's reads take it.
    pub at: String,
    /// The same, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it was, without its text.
    pub page: Page,
    /// The length of its text.
    pub bytes: usize,
}

fn page_key(title: &str) -> String {
    format!("page:{title}")
}

fn link_key(target: &str, source: &str) -> String {
    format!("link:{target}\0{source}")
}

fn category_key(category: &str, title: &str) -> String {
    format!("category:{category}\0{title}")
}

fn page_of(title: &str, value: Option<Bytes>) -> Result<Page, WikiError> {
    match value {
        None => Ok(Page::default()),
        Some(value) => serde_json::from_slice(&value)
            .map_err(|_| WikiError::Foreign { title: title.to_owned() }),
    }
}

/// A change, by the key and value that tell of it; none: these do not.
pub fn change_of(key: &[u8], value: &[u8]) -> Option<Change> {
    let key = std::str::from_utf8(key).ok()?;
    let (at, title) = key.strip_prefix(RECENT)?.split_once(':')?;
    let (at_ms, title) = (at.parse().ok()?, title.to_owned());
    let page = serde_json::from_slice(value).ok()?;
    Some(Change { at_ms, title, page })
}

/// What stands behind a prefix of keys.
fn behind(pairs: Vec<(Bytes, Bytes)>, prefix: &str) -> Vec<String> {
    let tail = |key: &Bytes| {
        let tail = key.strip_prefix(prefix.as_bytes())?;
        Some(String::from_utf8_lossy(tail).into_owned())
    };
    pairs.iter().filter_map(|(key, _)| tail(key)).collect()
}

impl Wiki {
    /// At a cluster whose nodes listen there, for Redis clients and for HTTP. Makes the keyspace if
    /// it is not there.
    ///
    /// # Errors
    /// The cluster cannot be reached, or refuses.
    pub async fn open(resp: &[String], http: &[String]) -> Result<Self, WikiError> {
        let clients = http.iter().map(|address| Client::new(address));
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        let made = ask(&clients, |client| client.keyspace_create(&keyspace())).await;
        match made {
            Err(ClientError::Refused(problem)) if problem.kind == "keyspace-exists" => {}
            made => drop(made?),
        }
        let store = Store::builder().keyspace(KEYSPACE).connect(resp.iter().cloned()).await?;
        Ok(Self { store, http: clients, addresses: http.to_vec() })
    }

    /// A page as it is; revision 0: there is none.
    ///
    /// # Errors
    /// [`WikiError`].
    pub async fn page(&self, title: &str) -> Result<Page, WikiError> {
        page_of(title, self.store.get(page_key(title)).await?)
    }

    /// A page as it was at a time, in any form that the store takes.
    ///
    /// # Errors
    /// [`WikiError`]; the time may be too long ago.
    pub async fn page_at(&self, title: &str, at: &str) -> Result<Page, WikiError> {
        page_of(title, self.store.at(at).get(page_key(title)).await?)
    }

    /// Saves a page, unless another has changed it since.
    ///
    /// # Errors
    /// [`WikiError`]: nothing is done, or it is not known.
    pub async fn save(&self, edit: &Edit<'_>, now_ms: u64) -> Result<Saved, WikiError> {
        if edit.text.len() > TEXT_BYTES_MAX {
            return Err(WikiError::TooLong("the text is longer than 1 MiB"));
        }
        if edit.author.len() > NOTE_BYTES_MAX || edit.comment.len() > NOTE_BYTES_MAX {
            return Err(WikiError::TooLong("the name or the comment is longer than 300 bytes"));
        }
        let done = self
            .store
            .transaction(async |tx| {
                let before = page_of(edit.title, tx.get(page_key(edit.title)).await?)?;
                if before.revision != edit.base {
                    return Err(WikiError::Changed(Box::new(before)));
                }
                put(&tx, edit, &before, now_ms).await?;
                Ok(before.revision + 1)
            })
            .await;
        match done {
            Ok(revision) => Ok(Saved::Done(revision)),
            Err(WikiError::Changed(page)) => Ok(Saved::Conflict(*page)),
            Err(error) => Err(error),
        }
    }

    /// Pages that link to this one.
    ///
    /// # Errors
    /// [`WikiError`].
    pub async fn backlinks(&self, title: &str) -> Result<Vec<String>, WikiError> {
        self.list(&link_key(title, "")).await
    }

    /// Pages of a category.
    ///
    /// # Errors
    /// [`WikiError`].
    pub async fn category(&self, name: &str) -> Result<Vec<String>, WikiError> {
        self.list(&category_key(name, "")).await
    }

    /// Pages whose titles begin so. A page that was deleted is among them.
    ///
    /// # Errors
    /// [`WikiError`].
    pub async fn search(&self, prefix: &str) -> Result<Vec<String>, WikiError> {
        self.list(&page_key(prefix))
            .await
            .map(|tails| tails.into_iter().map(|tail| format!("{prefix}{tail}")).collect())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, WikiError> {
        let range = KeyRange::prefix(prefix).limit(LIST_MAX);
        Ok(behind(self.store.range(range).await?, prefix))
    }

    /// The newest changes, the newest first.
    ///
    /// # Errors
    /// [`WikiError`].
    pub async fn recent(&self) -> Result<Vec<Change>, WikiError> {
        let range = KeyRange::prefix(RECENT).reversed().limit(LIST_MAX);
        let pairs = self.store.range(range).await?;
        Ok(pairs.iter().filter_map(|(key, value)| change_of(key, value)).collect())
    }

    /// Changes from a position of the feed on, or from now on. It goes on at other nodes when its
    /// node dies. Reading it blocks.
    ///
    /// # Errors
    /// [`WikiError`].
    pub fn changes(&self, since: Option<String>) -> Result<Feed, WikiError> {
        let (keyspace, prefix) = (KEYSPACE.to_owned(), Some(RECENT.as_bytes().to_vec()));
        let options = FeedOptions { keyspace, prefix, since, ..FeedOptions::default() };
        Ok(Feed::open(&self.addresses, options)?)
    }

    /// The revisions of a page, the newest first.
    ///
    /// # Errors
    /// [`WikiError`].
    pub async fn history(&self, title: &str) -> Result<Vec<Version>, WikiError> {
        let key = page_key(title);
        let history = move |node: &Client| node.history(KEYSPACE, key.as_bytes(), LIST_MAX, None);
        let found = ask(&self.http, history).await?;
        let version = |change: &Value| {
            let page: Page = serde_json::from_str(change["value"].as_str()?).ok()?;
            Some(Version {
                at: change["version"].as_str()?.to_owned(),
                at_ms: change["at_ms"].as_u64()?,
                bytes: page.text.len(),
                page: Page { text: String::new(), ..page },
            })
        };
        Ok(found["changes"].as_array().into_iter().flatten().filter_map(version).collect())
    }
}

/// Puts a page in place of the one before, with its links and categories.
async fn put(
    tx: &Transaction,
    edit: &Edit<'_>,
    before: &Page,
    now_ms: u64,
) -> Result<(), WikiError> {
    let page = Page {
        revision: before.revision + 1,
        text: edit.text.to_owned(),
        author: edit.author.to_owned(),
        comment: edit.comment.to_owned(),
    };
    let (old, new) = (markup::references(&before.text), markup::references(edit.text));
    let (old, new) = (keys_of(edit.title, &old), keys_of(edit.title, &new));
    for key in old.iter().filter(|key| !new.contains(key)) {
        tx.del(key).await?;
    }
    let added: Vec<(&String, &str)> =
        new.iter().filter(|key| !old.contains(key)).map(|key| (key, "")).collect();
    tx.mset(&added).await?;
    tx.set(page_key(edit.title), json(&page)).await?;
    // Two changes of one page within a millisecond are one in this list.
    let recent = format!("{RECENT}{now_ms:017}:{}", edit.title);
    let options = SetOptions { when: When::Always, expiry: Expiry::After(RECENT_FOR) };
    tx.set_with(recent, json(&Page { text: String::new(), ..page }), options).await?;
    Ok(())
}

fn keys_of(title: &str, references: &References) -> Vec<String> {
    let links = references.links.iter().map(|target| link_key(target, title));
    let categories = references.categories.iter().map(|name| category_key(name, title));
    links.chain(categories).collect()
}

fn json(page: &Page) -> Vec<u8> {
    serde_json::to_vec(page).expect("text and numbers become JSON")
}

fn keyspace() -> KeyspaceSpec {
    KeyspaceSpec {
        name: KEYSPACE.to_owned(),
        placement: Some("ordered".to_owned()),
        retention_ms: Some(RETENTION_MS),
        ..KeyspaceSpec::default()
    }
}

/// Asks the first node that can be reached.
async fn ask<T: Send + 'static>(
    nodes: &[Client],
    what: impl Fn(&Client) -> Result<T, ClientError> + Send + 'static,
) -> Result<T, ClientError> {
    let nodes = nodes.to_vec();
    blocking(move || {
        let mut last = ClientError::BadAddress { address: String::new() };
        for node in &nodes {
            match what(node) {
                Err(error @ ClientError::CannotConnect { .. }) => last = error,
                done => return done,
            }
        }
        Err(last)
    })
    .await
}

/// Runs what blocks; a panic of it goes on here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

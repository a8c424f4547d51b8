//! Recent changes as they happen: one change feed of the store for all viewers.
//!
//! ```text
//!   thread: feed of `recent:` ──► channel ──► viewer, viewer, …
//! ```
//!
//! The feed goes on at another node when its node dies. If no node serves it, it goes on from its
//! position when one does. Where that is not possible, viewers hear that they have missed some.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use client::http::{Changed, ClientError, FeedEvent};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::html;
use crate::pages::{Wiki, WikiError, change_of};

/// After the feed has ended, it is opened again after so long.
pub const PAUSE: Duration = Duration::from_secs(1);
/// Viewers at a time.
pub const VIEWERS_MAX: usize = 256;
/// Changes that a viewer may be behind; then it misses some.
const BEHIND_MAX: usize = 256;

/// What viewers are told.
#[derive(Clone, Debug)]
enum Told {
    /// A change, as an item of a list.
    Item(Arc<str>),
    /// Some changes are not told.
    Missed,
}

/// Tells recent changes.
#[derive(Clone, Debug)]
pub struct Live {
    told: Arc<Sender<Told>>,
}

impl Live {
    /// Begins to watch a wiki, until all clones of this are dropped.
    pub fn watch(wiki: Wiki) -> Self {
        let told = Arc::new(channel(BEHIND_MAX).0);
        let live = Self { told: told.clone() };
        let told = Arc::downgrade(&told);
        thread::spawn(move || {
            let mut since = None;
            while told.strong_count() > 0 {
                match follow(&wiki, &told, since.take()) {
                    Ok(token) => since = token,
                    // What is missing cannot be had.
                    Err(_) => tell(&told, Told::Missed),
                }
                thread::sleep(PAUSE);
            }
        });
        live
    }

    /// A viewer; none if there are too many.
    pub fn viewer(&self) -> Option<Viewer> {
        let is_full = self.told.receiver_count() >= VIEWERS_MAX;
        (!is_full).then(|| Viewer { told: self.told.subscribe() })
    }
}

fn tell(told: &Weak<Sender<Told>>, what: Told) {
    if let Some(told) = told.upgrade() {
        // Nobody may watch.
        let _unheard = told.send(what);
    }
}

/// Tells what the feed tells, until it ends: then its position, from which another may go on. An
/// error says that none can.
fn follow(
    wiki: &Wiki,
    told: &Weak<Sender<Told>>,
    since: Option<String>,
) -> Result<Option<String>, WikiError> {
    let mut feed = wiki.changes(since.clone())?;
    while told.strong_count() > 0 {
        match feed.next() {
            Some(Ok(FeedEvent::Commit(commit))) => {
                for change in commit.changes {
                    let Changed::Put { value, .. } = change.what else { continue };
                    if let Some(change) = change_of(&change.key, &value) {
                        tell(told, Told::Item(html::change(&change).into()));
                    }
                }
            }
            // A node tells its position once a second.
            Some(Ok(_)) => {}
            Some(Err(ClientError::Refused(problem))) if problem.kind == "too-late" => {
                return Err(ClientError::Refused(problem).into());
            }
            Some(Err(_)) | None => break,
        }
    }
    Ok(feed.token().map(str::to_owned).or(since))
}

/// Somebody who watches.
#[derive(Debug)]
pub struct Viewer {
    told: Receiver<Told>,
}

impl Viewer {
    /// The next piece of a stream of server-sent events; none at the end.
    pub async fn next(&mut self) -> Option<String> {
        let next = tokio::time::timeout(Duration::from_secs(10), self.told.recv()).await;
        match next {
            Err(_) => Some(": keep-alive\n\n".to_owned()),
            Ok(Ok(Told::Item(item))) => Some(format!("data: {}\n\n", item.trim_end())),
            Ok(Ok(Told::Missed) | Err(RecvError::Lagged(_))) => {
                Some("event: missed\ndata: \n\n".to_owned())
            }
            Ok(Err(RecvError::Closed)) => None,
        }
    }
}

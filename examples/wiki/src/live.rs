//! Recent changes as they happen.
//!
//! One task asks the store for changes behind the newest one that it knows, each second, while
//! somebody watches; all viewers share it. (The store's stream of changes will take its place.)

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::time::sleep;

use crate::html;
use crate::pages::Wiki;

/// How often the store is asked.
pub const PAUSE: Duration = Duration::from_secs(1);
/// Viewers at a time.
pub const VIEWERS_MAX: usize = 256;
/// Changes that a viewer may be behind; then it misses some.
const BEHIND_MAX: usize = 256;

/// Tells recent changes, each as an item of a list.
#[derive(Clone, Debug)]
pub struct Live {
    items: Sender<Arc<str>>,
}

impl Live {
    /// Begins to watch a wiki. It ends with the runtime.
    pub fn watch(wiki: Wiki) -> Self {
        let (items, _) = channel(BEHIND_MAX);
        let live = Self { items: items.clone() };
        tokio::spawn(async move {
            let mut last: Option<String> = None;
            loop {
                sleep(PAUSE).await;
                if items.receiver_count() == 0 {
                    last = None;
                    continue;
                }
                // If the store does not answer, the next time shows what came.
                let Ok(changes) = wiki.recent(last.as_deref()).await else { continue };
                let is_first = last.is_none();
                if let Some(newest) = changes.first() {
                    last = Some(newest.key.clone());
                }
                // Before, nobody had asked.
                if !is_first {
                    for change in changes.iter().rev() {
                        // The last viewer may have gone.
                        let _unheard = items.send(html::change(change).into());
                    }
                }
            }
        });
        live
    }

    /// A viewer; none if there are too many.
    pub fn viewer(&self) -> Option<Viewer> {
        let is_full = self.items.receiver_count() >= VIEWERS_MAX;
        (!is_full).then(|| Viewer { items: self.items.subscribe() })
    }
}

/// Somebody who watches.
#[derive(Debug)]
pub struct Viewer {
    items: Receiver<Arc<str>>,
}

impl Viewer {
    /// The next piece of a stream of server-sent events; none at the end.
    pub async fn next(&mut self) -> Option<String> {
        let next = tokio::time::timeout(Duration::from_secs(10), self.items.recv()).await;
        match next {
            Err(_) => Some(": keep-alive\n\n".to_owned()),
            Ok(Ok(item)) => Some(format!("data: {}\n\n", item.trim_end())),
            Ok(Err(RecvError::Lagged(_))) => Some("event: missed\ndata: \n\n".to_owned()),
            Ok(Err(RecvError::Closed)) => None,
        }
    }
}

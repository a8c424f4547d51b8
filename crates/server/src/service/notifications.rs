//! Redis's keyspace notifications: clients of this node hear of changes anywhere.
//!
//! ```text
//!   CONFIG SET notify-keyspace-events KEA ─► flags        SUBSCRIBE __keyevent@0__:set ─► registry
//!        thread, each LOOK_PAUSE: who wants those of a keyspace? ─► a change feed of it
//!        commits ─► messages to this node's event loops
//! ```
//!
//! Each node has feeds of its own, so no node sends notifications to another. A feed begins a
//! moment after the first subscriber has come, and ends with the last. It is one of the node's
//! change feeds ([`super::feed`]).
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | keyspaces with notifications | [`KEYSPACES_MAX`] | others have none |
//! | messages that wait for event loops | as all messages | dropped |

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use api::ApiError;
use api::feeds::{FeedOutput, FeedRequest, FeedStream, Feeding};
use bytes::Bytes;
use command::TopicKind;
use gateway::resp::KeyEventFlags;
use node::feed::changes::{HeldKeyChange, KeyFilter, WhatChanged};

use super::{NodeApi, feed};
use crate::runtime::NodeRuntime;
use crate::runtime::pubsub::{Message, Name};

/// Keyspaces whose changes are told.
pub const KEYSPACES_MAX: usize = 16;
/// How often it is looked who subscribes.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Changes taken at a time, in bytes.
const TAKEN_BYTES: usize = 256 << 10;

/// The thread.
pub struct NotificationThread {
    thread: JoinHandle<()>,
    signal: Arc<Signal>,
}

/// Something has happened, or the thread is to end.
#[derive(Default)]
struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    is_set: bool,
    is_over: bool,
}

impl Signal {
    fn set(&self, is_over: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_set = true;
        state.is_over |= is_over;
        self.changed.notify_one();
    }

    /// Waits for a moment. False: it is to end.
    fn wait(&self, most: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, most, |state| !state.is_set);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_set = false;
        !state.is_over
    }
}

impl NotificationThread {
    /// Starts it.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn spawn(api: Arc<NodeApi>) -> io::Result<Self> {
        let signal = Arc::new(Signal::default());
        let (opened, begun) = channel();
        let notifier =
            Notifier { api, signal: signal.clone(), feeds: BTreeMap::new(), opened, begun };
        let thread =
            thread::Builder::new().name("notifications".into()).spawn(|| notifier.run())?;
        Ok(Self { thread, signal })
    }

    /// Ends it.
    pub fn stop(self) {
        self.signal.set(true);
        self.thread.join().expect("a thread that panics has ended the process");
    }
}

type Begun = (String, Result<Feeding, ApiError>);

struct Notifier {
    api: Arc<NodeApi>,
    signal: Arc<Signal>,
    /// By keyspace; none: it is about to begin.
    feeds: BTreeMap<String, Option<Box<dyn FeedStream>>>,
    opened: Sender<Begun>,
    begun: Receiver<Begun>,
}

impl Notifier {
    fn run(mut self) {
        while self.signal.wait(LOOK_PAUSE) {
            let runtime = self.api.runtime.clone();
            let flags = KeyEventFlags::of(runtime.pubsub.key_events());
            if flags.is_quiet() && self.feeds.is_empty() {
                continue;
            }
            let wanted = if flags.is_quiet() { Vec::new() } else { wanted(&runtime, flags) };
            self.feeds.retain(|keyspace, _| wanted.contains(keyspace));
            for keyspace in wanted {
                self.begin(keyspace);
            }
            while let Ok((keyspace, feeding)) = self.begun.try_recv() {
                match feeding {
                    Ok(feeding) => {
                        if let Some(slot) = self.feeds.get_mut(&keyspace) {
                            *slot = Some(feeding.stream);
                        }
                    }
                    // It is tried again.
                    Err(_) => _ = self.feeds.remove(&keyspace),
                }
            }
            self.feeds.retain(|keyspace, stream| match stream {
                Some(stream) => tell(&runtime, flags, keyspace, &mut **stream),
                None => true,
            });
        }
    }

    fn begin(&mut self, keyspace: String) {
        if self.feeds.contains_key(&keyspace) || self.feeds.len() >= KEYSPACES_MAX {
            return;
        }
        self.feeds.insert(keyspace.clone(), None);
        let asked = FeedRequest {
            keyspace: keyspace.clone(),
            keys: KeyFilter::All,
            prefix: Bytes::new(),
            since: None,
            with_before: false,
            begins_with_values: false,
            compacts: false,
        };
        let (signal, woken, opened) =
            (self.signal.clone(), self.signal.clone(), self.opened.clone());
        let done = move |feeding| {
            // The thread has ended if nobody takes it.
            let _ended = opened.send((keyspace, feeding));
            signal.set(false);
        };
        feed::begin(&self.api, asked, Arc::new(move || woken.set(false)), Box::new(done));
    }
}

/// The keyspaces whose notifications clients of this node subscribe to.
fn wanted(runtime: &NodeRuntime, flags: KeyEventFlags) -> Vec<String> {
    let channels = runtime.pubsub.own_names(TopicKind::Channel);
    let patterns = runtime.pubsub.own_names(TopicKind::Pattern);
    if channels.is_empty() && patterns.is_empty() {
        return Vec::new();
    }
    let routes = runtime.routing.routes();
    let names = routes.iter().map(|route| route.keyspace.name.to_string());
    let is_wanted = |name: &String| {
        let kinds = [(flags.has_keyspace(), "keyspace"), (flags.has_keyevent(), "keyevent")];
        kinds.into_iter().filter(|(is_on, _)| *is_on).any(|(_, kind)| {
            let begin = channel_of(kind, name, b"");
            channels.iter().any(|channel| channel.starts_with(&begin))
                || patterns.iter().any(|pattern| may_match(pattern, &begin))
        })
    };
    names.filter(is_wanted).collect()
}

/// Whether a pattern may match a channel that begins so: by what stands before its first special
/// character.
fn may_match(pattern: &[u8], begin: &[u8]) -> bool {
    let special = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    let literal = &pattern[..special.unwrap_or(pattern.len())];
    literal.starts_with(begin) || (special.is_some() && begin.starts_with(literal))
}

fn channel_of(kind: &str, keyspace: &str, end: &[u8]) -> Name {
    [format!("__{kind}@{keyspace}__:").as_bytes(), end].concat().into()
}

/// Tells subscribers here what a feed has. False: it has ended, and another begins.
fn tell(
    runtime: &NodeRuntime,
    flags: KeyEventFlags,
    keyspace: &str,
    stream: &mut dyn FeedStream,
) -> bool {
    for output in stream.take(TAKEN_BYTES) {
        match output {
            FeedOutput::Commit(commit) => {
                commit.changes.iter().for_each(|change| notify(runtime, flags, keyspace, change));
            }
            output if output.is_end() => return false,
            _ => {}
        }
    }
    true
}

fn notify(runtime: &NodeRuntime, flags: KeyEventFlags, keyspace: &str, change: &HeldKeyChange) {
    let (event, is_on) = match change.what {
        WhatChanged::Put { .. } => ("set", flags.has_strings()),
        WhatChanged::Deleted => ("del", flags.has_generic()),
        WhatChanged::Expired => ("expired", flags.has_expired()),
    };
    if !is_on {
        return;
    }
    let post = |channel: Name, message: &[u8]| {
        let (kind, message) = (TopicKind::Channel, Bytes::copy_from_slice(message));
        runtime.pubsub.post(runtime, &Arc::new(Message { kind, channel, message }), None);
    };
    if flags.has_keyspace() {
        post(channel_of("keyspace", keyspace, &change.key), event.as_bytes());
    }
    if flags.has_keyevent() {
        post(channel_of("keyevent", keyspace, event.as_bytes()), &change.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_want_what_they_may_match() {
        let begin = channel_of("keyspace", "0", b"");
        for pattern in ["*", "__key*", "__keyspace@0__:*", "__keyspace@0__:a", "__key[se]*"] {
            assert!(may_match(pattern.as_bytes(), &begin), "{pattern}");
        }
        for pattern in ["news*", "__keyevent@0__:*", "__keyspace@1__:*", "__keyspace@0"] {
            assert!(!may_match(pattern.as_bytes(), &begin), "{pattern}");
        }
    }
}

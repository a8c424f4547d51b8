//! The caches of this node's clients: what they hold, and who must hear of a change
//! ([`node::tracking`], SAFETY G24).
//!
//! ```text
//!   event loops ──hold──► Interests ◄── executors: what leaders have registered, and changes
//!                            │ tick: renewals ──► leaders
//!                            └──► what clients have not heard: their loops take it before they
//!                                 write replies, or when they are woken for it
//! ```
//!
//! A node without a client that tracks pays one look at a flag for each step round.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use keyspace::{KeyspaceId, ShardId, Timestamp};
use node::executor::{Answer, Effects, Input};
use node::replica::entry::Waiter;
use node::routing::fetch::{FetchRequest, FetchResult};
use node::rpc::message::RpcMessage;
use node::tracking::interests::{Interests, Invalidation, Invalidations, TrackRequest};
use node::tracking::unheard::Unheard;
use parking_lot::Mutex;

use super::mailbox::Mail;
use super::{NO_ORIGIN, NodeRuntime, boot_nanos};

/// A connection that tracks: its loop, its place there, and its number in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// The event loop.
    pub event_loop: usize,
    /// Its place there.
    pub at: usize,
    /// Its number.
    pub id: u64,
    /// Another one each time that a connection begins to track.
    pub number: u64,
}

/// Keys that must be registered first, by shard.
pub type Missing = Vec<(ShardId, Vec<Box<[u8]>>)>;

/// What INFO says about the node's clients that track.
#[derive(Clone, Copy, Debug)]
pub struct TrackingFacts {
    /// How many there are.
    pub clients: u64,
    /// Keys that are registered.
    pub keys: usize,
    /// How many clients hold keys, summed over the keys.
    pub items: usize,
    /// Different prefixes of clients that want all changes.
    pub prefixes: usize,
}

/// See the front page of this module.
pub struct Tracking {
    /// Whether any connection has tracked since the node's start.
    is_active: AtomicBool,
    clients: AtomicU64,
    /// The number of the newest client.
    newest: AtomicU64,
    /// Whether the clients of a loop have something to hear.
    has_news: Box<[AtomicBool]>,
    tables: Mutex<Tables>,
}

struct Tables {
    interests: Interests<Client>,
    /// What clients have not heard yet, by loop.
    unheard: Box<[BTreeMap<Client, Unheard>]>,
}

impl Tables {
    /// What a client has not heard yet.
    fn unheard(&self, client: Client) -> Option<&Unheard> {
        self.unheard[client.event_loop].get(&client)
    }
}

impl Tracking {
    /// Of a node with so many loops, which tracks at most so many keys.
    pub fn new(loops: usize, keys_max: u64) -> Self {
        let interests = Interests::new(usize::try_from(keys_max).unwrap_or(usize::MAX));
        let unheard = (0..loops).map(|_| BTreeMap::new()).collect();
        Self {
            is_active: AtomicBool::new(false),
            clients: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            has_news: (0..loops).map(|_| AtomicBool::new(false)).collect(),
            tables: Mutex::new(Tables { interests, unheard }),
        }
    }

    /// Whether there may be something to do.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// A connection is about to track: a number for it.
    pub fn draw_number(&self) -> u64 {
        self.is_active.store(true, Ordering::Release);
        self.newest.fetch_add(1, Ordering::Relaxed)
    }

    /// A connection tracks from now on.
    pub fn begin(&self) {
        self.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// How many track what.
    pub fn facts(&self) -> TrackingFacts {
        let clients = self.clients.load(Ordering::Relaxed);
        let interests = &self.tables.lock().interests;
        let (keys, items) = (interests.keys(), interests.holders());
        TrackingFacts { clients, keys, items, prefixes: interests.prefixes() }
    }

    /// How many may be.
    pub fn keys_max(&self) -> usize {
        self.tables.lock().interests.keys_max()
    }

    /// Changes that: clients are told to forget those beyond within a second.
    pub fn set_keys_max(&self, keys_max: usize) {
        self.tables.lock().interests.set_keys_max(keys_max);
    }

    /// A client is about to read keys. It may, at a moment that is later than the one returned (by
    /// the boot clock), unless some must be registered first.
    ///
    /// # Errors
    /// Those that must.
    pub fn hold<'k>(
        &self,
        client: Client,
        keys: impl Iterator<Item = (ShardId, &'k [u8])>,
    ) -> Result<u64, Missing> {
        let (mut since, mut missing, now) = (0, Missing::new(), boot_nanos());
        let interests = &mut self.tables.lock().interests;
        for (shard, key) in keys {
            match interests.hold(client, shard, key, now) {
                Some(registered_at) => since = since.max(registered_at),
                None => match missing.iter_mut().find(|(of, _)| *of == shard) {
                    Some((_, keys)) => keys.push(key.into()),
                    None => missing.push((shard, vec![key.into()])),
                },
            }
        }
        if missing.is_empty() { Ok(since) } else { Err(missing) }
    }

    /// A reply shows a client these versions (none: of some) of keys that it holds. Returns what
    /// the client must hear before that reply: the keys of which it was shown another version
    /// before, and all that it has not heard yet. It hears the latter again, behind the reply,
    /// which may show the keys as they were before.
    pub fn shown<'k>(
        &self,
        client: Client,
        keys: impl Iterator<Item = (ShardId, &'k [u8], Option<Timestamp>)>,
    ) -> Unheard {
        let mut tables = self.tables.lock();
        let mut unheard = tables.unheard(client).cloned().unwrap_or_default();
        let interests = &mut tables.interests;
        let outdated = keys.filter(|(shard, key, at)| interests.told(client, *shard, key, *at));
        unheard.add_keys(outdated.map(|(_, key, _)| key.into()));
        unheard
    }

    /// Those keys that a client does not hold.
    pub fn not_held<'k>(
        &self,
        client: Client,
        keys: impl Iterator<Item = (ShardId, &'k [u8])>,
    ) -> Vec<Box<[u8]>> {
        let interests = &self.tables.lock().interests;
        let keys = keys.filter(|(shard, key)| !interests.is_held(client, *shard, key));
        keys.map(|(_, key)| key.into()).collect()
    }

    /// The client's own loop tells it that it changes these keys, and it holds them no more.
    /// Returns those of which it must hear.
    pub fn release<'k>(
        &self,
        client: Client,
        keyspace: KeyspaceId,
        keys: impl Iterator<Item = (ShardId, &'k [u8])>,
    ) -> Vec<Box<[u8]>> {
        let interests = &mut self.tables.lock().interests;
        let is_held = |(shard, key): &(ShardId, &[u8])| {
            let is_held = interests.release(client, *shard, key);
            is_held || interests.is_broadcast(client, keyspace, key)
        };
        keys.filter(is_held).map(|(_, key)| key.into()).collect()
    }

    /// The client wants all changes of keys with these prefixes. Returns the shards whose leaders
    /// must register the node first.
    pub fn broadcast(
        &self,
        client: Client,
        keyspace: KeyspaceId,
        prefixes: Vec<Box<[u8]>>,
        shards: impl Iterator<Item = ShardId>,
    ) -> Vec<ShardId> {
        let (interests, now) = (&mut self.tables.lock().interests, boot_nanos());
        let missing: Vec<_> = shards.filter(|shard| !interests.has_all(*shard, now)).collect();
        if missing.is_empty() {
            interests.broadcast(client, keyspace, prefixes);
        }
        missing
    }

    /// The client tracks no more.
    pub fn forget(&self, client: Client) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
        let mut tables = self.tables.lock();
        tables.interests.forget(client);
        tables.unheard[client.event_loop].remove(&client);
    }

    /// Whether clients of a loop have something to hear.
    #[inline]
    pub fn has_news(&self, event_loop: usize) -> bool {
        self.has_news[event_loop].load(Ordering::Acquire)
    }

    /// Takes what the clients of a loop have to hear: one message for each.
    pub fn take_news(&self, event_loop: usize) -> Vec<(Client, Invalidation)> {
        let mut tables = self.tables.lock();
        self.has_news[event_loop].store(false, Ordering::Release);
        let all = std::mem::take(&mut tables.unheard[event_loop]);
        drop(tables);
        all.into_iter().filter_map(|(client, mut what)| Some((client, what.take()?))).collect()
    }

    /// Takes what leaders have said in a step round.
    pub fn take(&self, runtime: &NodeRuntime, effects: &mut Effects) {
        let (now, mut out) = (boot_nanos(), Invalidations::new());
        let mut tables = self.tables.lock();
        let interests = &mut tables.interests;
        for answer in &effects.answers {
            let Answer::Fetched { shard, want, found, .. } = answer else { continue };
            let FetchResult::Tracked(registration) = &**found else { continue };
            let FetchRequest::Track { keys, wants_all, since } = &**want else { continue };
            let (shard, wants_all, since) = (*shard, *wants_all, *since);
            let asked = TrackRequest { shard, keys, wants_all, since };
            interests.registered(asked, registration, now, &mut out);
        }
        for (shard, message) in effects.tracking.drain(..) {
            interests.receive(shard, &message, &mut out);
        }
        self.post(runtime, &mut tables, out);
    }

    /// Hands invalidations to the loops of their clients. Answers that executors give behind this
    /// find them there.
    fn post(&self, runtime: &NodeRuntime, tables: &mut Tables, out: Invalidations<Client>) {
        for (client, what) in out {
            let event_loop = client.event_loop;
            tables.unheard[event_loop].entry(client).or_default().add(what);
            if !self.has_news[event_loop].swap(true, Ordering::AcqRel) {
                // A loop that has ended has no clients left.
                let _is_read = runtime.delivery.mailboxes[event_loop].post(Mail::Invalidate);
            }
        }
    }

    /// Renews what leaders know, and gives up what none confirms.
    pub fn tick(&self, runtime: &NodeRuntime) {
        let (now, mut out) = (boot_nanos(), Invalidations::new());
        let mut tables = self.tables.lock();
        let interests = &mut tables.interests;
        let renewals = interests.tick(now, &mut out);
        let routes = runtime.routing.routes();
        let of_all = interests.broadcast_keyspaces();
        let routes = of_all.into_iter().filter_map(|keyspace| routes.by_id(keyspace));
        let shards = routes.flat_map(|route| (0..route.views.len()).map(|at| route.shard(at)));
        let missing: Vec<ShardId> =
            shards.filter(|shard| !interests.has_all(*shard, now)).collect();
        self.post(runtime, &mut tables, out);
        drop(tables);
        for (leader, shard, message) in renewals {
            let rpc = RpcMessage::Tracking { shard, message };
            if leader == runtime.identity.node {
                runtime.submit(shard, Input::Rpc { from: leader, rpc });
            } else if let Some(peers) = &runtime.peers {
                peers.send_rpc(leader, &rpc);
            }
        }
        for shard in missing {
            let want = Box::new(track(Vec::new(), true));
            let (origin, waiter) = (NO_ORIGIN, Waiter(0));
            let input = Input::Fetch { shard, want, bytes_max: 0, origin, waiter };
            runtime.submit(shard, input);
        }
    }
}

/// The request to a leader to be registered for these keys, asked now.
pub fn track(mut keys: Vec<Box<[u8]>>, wants_all: bool) -> FetchRequest {
    keys.sort_unstable();
    keys.dedup();
    FetchRequest::Track { keys, wants_all, since: boot_nanos() }
}

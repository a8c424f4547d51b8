//! The node's side: what its clients hold, by which streams, and whom a change concerns.
//!
//! A client may read a key for its cache once [`Interests::hold`] says that the key is registered.
//! From then on the client learns of each change. A client that is gone still holds keys for a
//! while: [`Interests::tick`] looks through a few keys each time, and removes it from them.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | keys | `keys_max` | another key is given up, and its holders hear of it |

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use keyspace::{KeyspaceId, NodeId, ShardId, Timestamp};
use replication::BootNanos;

use super::message::{StreamId, TrackingMessage};
use super::unheard::NAMED_MAX;
use super::{LEASE_NANOS, RENEW_NANOS};

/// Keys that are looked through at once for clients that are gone.
const SWEPT_KEYS: usize = 4096;

/// A leader's answer: the keys are registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The leader's node.
    pub leader: NodeId,
    /// The keyspace of the shard.
    pub keyspace: KeyspaceId,
    /// The node's stream.
    pub stream: StreamId,
    /// The number of its next change.
    pub next: u64,
}

/// What a node has asked a leader to be registered for.
#[derive(Clone, Copy, Debug)]
pub struct TrackRequest<'a> {
    /// The shard.
    pub shard: ShardId,
    /// These keys.
    pub keys: &'a [Box<[u8]>],
    /// All changes.
    pub wants_all: bool,
    /// When it was asked, by the node's boot clock.
    pub since: BootNanos,
}

/// What a client must hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// These keys may have changed.
    Keys(Vec<Box<[u8]>>),
    /// Any key may have.
    All,
}

/// For whom, and what.
pub type Invalidations<C> = Vec<(C, Invalidation)>;

/// What a client was last told of a key that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing yet.
    Nothing,
    /// Some version.
    Some,
    /// This version; zero: no value.
    Version(Timestamp),
}

/// See the module's documentation. `C` names a client.
#[derive(Debug)]
pub struct Interests<C> {
    keys_max: usize,
    streams: BTreeMap<ShardId, Stream<C>>,
    /// Of all streams.
    keys: usize,
    /// Their holders, all together.
    holders: usize,
    /// Clients that want all changes of some keys.
    broadcasts: BTreeMap<C, Broadcast>,
    /// The key that was given up last.
    given_up: (ShardId, Box<[u8]>),
    sweep: Sweep<C>,
}

/// The search for what clients held that are gone, lap by lap through all keys.
#[derive(Debug)]
struct Sweep<C> {
    /// Those that this lap is about.
    gone: BTreeSet<C>,
    /// Those that have gone since it began.
    next: BTreeSet<C>,
    /// It goes on at this shard, behind this key.
    at: (ShardId, Option<Box<[u8]>>),
}

#[derive(Debug)]
struct Stream<C> {
    leader: NodeId,
    keyspace: KeyspaceId,
    id: StreamId,
    /// The number of the next change.
    next: u64,
    /// Valid for [`LEASE_NANOS`] from here on.
    confirmed: BootNanos,
    renewed: BootNanos,
    /// Whether all changes come by it.
    has_all: bool,
    /// The keys that are registered.
    keys: BTreeMap<Box<[u8]>, Key<C>>,
}

#[derive(Debug)]
struct Key<C> {
    registered_at: BootNanos,
    holders: BTreeMap<C, Seen>,
}

#[derive(Debug)]
struct Broadcast {
    keyspace: KeyspaceId,
    /// None: all keys.
    prefixes: Vec<Box<[u8]>>,
}

impl Broadcast {
    fn wants(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        let is_any = self.prefixes.is_empty();
        let begins = || self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        self.keyspace == keyspace && (is_any || begins())
    }
}

/// What a node sends to leaders: `Renew`.
pub type Renewals = Vec<(NodeId, ShardId, TrackingMessage)>;

impl<C: Ord + Copy> Interests<C> {
    /// Of a node that tracks at most so many keys.
    pub fn new(keys_max: usize) -> Self {
        Self {
            keys_max: keys_max.max(1),
            streams: BTreeMap::new(),
            keys: 0,
            holders: 0,
            broadcasts: BTreeMap::new(),
            given_up: (ShardId(0), Box::default()),
            sweep: Sweep { gone: BTreeSet::new(), next: BTreeSet::new(), at: (ShardId(0), None) },
        }
    }

    /// How many keys it tracks at most.
    pub fn keys_max(&self) -> usize {
        self.keys_max
    }

    /// Changes that; those beyond are given up with the next tick.
    pub fn set_keys_max(&mut self, keys_max: usize) {
        self.keys_max = keys_max.max(1);
    }

    /// Whether there is nothing to be done for anyone.
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.broadcasts.is_empty()
    }

    /// The keys that are registered.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// How many clients hold keys, summed over the keys.
    pub fn holders(&self) -> usize {
        self.holders
    }

    /// The different prefixes of which clients want all changes.
    pub fn prefixes(&self) -> usize {
        let all = self.broadcasts.values().flat_map(|one| &one.prefixes);
        all.collect::<BTreeSet<_>>().len()
    }

    /// The client is about to read a key. If the key is registered, the client learns of changes
    /// from now on, and this is when it was registered: the read must be of a later moment. `None`:
    /// have it registered first.
    pub fn hold(
        &mut self,
        client: C,
        shard: ShardId,
        key: &[u8],
        now: BootNanos,
    ) -> Option<BootNanos> {
        let stream = self.streams.get_mut(&shard).filter(|stream| stream.is_valid(now))?;
        let key = stream.keys.get_mut(key)?;
        key.holders.entry(client).or_insert_with(|| {
            self.holders += 1;
            Seen::Nothing
        });
        Some(key.registered_at)
    }

    /// Whether a client holds a key: it hears of the next change.
    pub fn is_held(&self, client: C, shard: ShardId, key: &[u8]) -> bool {
        let key = self.streams.get(&shard).and_then(|stream| stream.keys.get(key));
        key.is_some_and(|key| key.holders.contains_key(&client))
    }

    /// A client that holds a key is told this version (none: of some). Whether it was told of
    /// another before, so that it must hear first that the key has changed.
    pub fn told(
        &mut self,
        client: C,
        shard: ShardId,
        key: &[u8],
        version: Option<Timestamp>,
    ) -> bool {
        let Some(seen) = self.key(shard, key).and_then(|key| key.holders.get_mut(&client)) else {
            return false;
        };
        let now = version.map_or(Seen::Some, Seen::Version);
        let before = std::mem::replace(seen, now);
        before != Seen::Nothing && (before != now || now == Seen::Some)
    }

    /// The driver tells the client that a key changes: it holds it no more. Whether it did.
    pub fn release(&mut self, client: C, shard: ShardId, key: &[u8]) -> bool {
        let released =
            self.key(shard, key).is_some_and(|key| key.holders.remove(&client).is_some());
        self.holders -= usize::from(released);
        released
    }

    fn key(&mut self, shard: ShardId, key: &[u8]) -> Option<&mut Key<C>> {
        self.streams.get_mut(&shard)?.keys.get_mut(key)
    }

    /// The client wants to hear of all changes of keys with one of these prefixes (none: of all
    /// keys), once the node is registered for all changes of the keyspace's shards.
    pub fn broadcast(&mut self, client: C, keyspace: KeyspaceId, prefixes: Vec<Box<[u8]>>) {
        self.broadcasts.insert(client, Broadcast { keyspace, prefixes });
    }

    /// Whether the client has asked for all changes of this key.
    pub fn is_broadcast(&self, client: C, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.broadcasts.get(&client).is_some_and(|broadcast| broadcast.wants(keyspace, key))
    }

    /// The client is gone for ever: its name must not be used again.
    pub fn forget(&mut self, client: C) {
        self.broadcasts.remove(&client);
        self.sweep.next.insert(client);
    }

    /// Looks through some keys for clients that are gone, and for keys that nobody holds.
    fn sweep(&mut self, now: BootNanos) {
        let Sweep { gone, next, at } = &mut self.sweep;
        if gone.is_empty() {
            std::mem::swap(gone, next);
        }
        if gone.is_empty() {
            return;
        }
        let Some((shard, stream)) = self.streams.range_mut(at.0..).next() else {
            gone.clear();
            *at = (ShardId(0), None);
            return;
        };
        let last = at.1.take().filter(|_| *shard == at.0);
        let behind = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut looked, mut empty, mut reached) = (0, Vec::new(), None);
        let keys = stream.keys.range_mut::<[u8], _>((behind, Bound::Unbounded));
        for (name, key) in keys.take(SWEPT_KEYS) {
            let before = key.holders.len();
            key.holders.retain(|client, _| !gone.contains(client));
            self.holders -= before - key.holders.len();
            // Who has just had it registered is about to hold it.
            let is_old = key.registered_at.saturating_add(LEASE_NANOS) < now;
            if key.holders.is_empty() && (before > 0 || is_old) {
                empty.push(name.clone());
            }
            looked += 1;
            reached = Some(name.clone());
        }
        *at = match looked < SWEPT_KEYS {
            true => (ShardId(shard.0 + 1), None),
            false => (*shard, reached),
        };
        self.keys -= empty.len();
        empty.iter().for_each(|name| _ = stream.keys.remove(name));
    }

    /// The keyspaces of which all changes are wanted.
    pub fn broadcast_keyspaces(&self) -> BTreeSet<KeyspaceId> {
        self.broadcasts.values().map(|broadcast| broadcast.keyspace).collect()
    }

    /// Whether all changes of a shard come here.
    pub fn has_all(&self, shard: ShardId, now: BootNanos) -> bool {
        self.streams.get(&shard).is_some_and(|stream| stream.has_all && stream.is_valid(now))
    }

    /// A leader has registered the node.
    pub fn registered(
        &mut self,
        asked: TrackRequest<'_>,
        registration: &Registration,
        now: BootNanos,
        out: &mut Invalidations<C>,
    ) {
        let TrackRequest { shard, keys, wants_all, since } = asked;
        let Registration { leader, keyspace, stream: id, next } = *registration;
        if let Some(mine) = self.streams.get(&shard) {
            if mine.id > id || (mine.id == id && mine.next > next && mine.is_valid(now)) {
                // Late: what was registered may have changed since.
                return;
            }
            if mine.id < id || !mine.is_valid(now) {
                self.lose(shard, out);
            }
        }
        let new = Stream {
            leader,
            keyspace,
            id,
            next,
            confirmed: since,
            renewed: now,
            has_all: false,
            keys: BTreeMap::new(),
        };
        let stream = self.streams.entry(shard).or_insert(new);
        if !stream.is_valid(now) {
            self.streams.remove(&shard);
            return;
        }
        if wants_all && !std::mem::replace(&mut stream.has_all, true) {
            // Of what came before, nothing was heard.
            let of_it = self.broadcasts.iter().filter(|(_, one)| one.keyspace == keyspace);
            out.extend(of_it.map(|(client, _)| (*client, Invalidation::All)));
        }
        let before = stream.keys.len();
        for key in keys {
            let new = || Key { registered_at: now, holders: BTreeMap::new() };
            stream.keys.entry(key.clone()).or_insert_with(new);
        }
        self.keys += stream.keys.len() - before;
        self.give_up_excess(out);
    }

    /// A leader has sent this of a shard.
    pub fn receive(
        &mut self,
        shard: ShardId,
        message: &TrackingMessage,
        out: &mut Invalidations<C>,
    ) {
        let Some(stream) = self.streams.get_mut(&shard) else { return };
        match message {
            TrackingMessage::Renew { .. } => {}
            TrackingMessage::Alive { stream: id, next, sent } if *id == stream.id => {
                if *next > stream.next {
                    self.lose(shard, out);
                } else {
                    stream.confirmed = stream.confirmed.max(*sent);
                }
            }
            TrackingMessage::Changed { stream: id, number, keys } if *id == stream.id => {
                match stream.takes(*number) {
                    Some(true) => self.changed(shard, keys, out),
                    Some(false) => self.lose(shard, out),
                    None => {}
                }
            }
            TrackingMessage::AnyChanged { stream: id, number } if *id == stream.id => {
                match stream.takes(*number) {
                    Some(true) => self.any_changed(shard, out),
                    Some(false) => self.lose(shard, out),
                    None => {}
                }
            }
            TrackingMessage::Ended { stream: id } if *id == stream.id => self.lose(shard, out),
            _ => {}
        }
    }

    fn changed(&mut self, shard: ShardId, keys: &[Box<[u8]>], out: &mut Invalidations<C>) {
        let Some(stream) = self.streams.get_mut(&shard) else { return };
        let mut of_client: BTreeMap<C, Vec<Box<[u8]>>> = BTreeMap::new();
        for key in keys {
            let held = stream.keys.remove(key);
            self.keys -= usize::from(held.is_some());
            self.holders -= held.as_ref().map_or(0, |key| key.holders.len());
            let wants = |(client, one): (&C, &Broadcast)| {
                one.wants(stream.keyspace, key).then_some(*client)
            };
            let mut clients: BTreeSet<C> = self.broadcasts.iter().filter_map(wants).collect();
            clients.extend(held.iter().flat_map(|key| key.holders.keys()));
            for client in clients {
                of_client.entry(client).or_default().push(key.clone());
            }
        }
        out.extend(of_client.into_iter().map(|(client, keys)| (client, Invalidation::Keys(keys))));
    }

    /// All that is held of a shard may have changed.
    fn any_changed(&mut self, shard: ShardId, out: &mut Invalidations<C>) {
        let Some(stream) = self.streams.get_mut(&shard) else { return };
        let of_it = self.broadcasts.iter().filter(|(_, one)| one.keyspace == stream.keyspace);
        let mut clients: BTreeSet<C> = of_it.map(|(client, _)| *client).collect();
        let keys = std::mem::take(&mut stream.keys);
        self.keys -= keys.len();
        self.holders -= keys.values().map(|key| key.holders.len()).sum::<usize>();
        clients.extend(keys.values().flat_map(|key| key.holders.keys()));
        out.extend(clients.into_iter().map(|client| (client, Invalidation::All)));
    }

    /// A stream has ended: what its messages would have said is unknown.
    fn lose(&mut self, shard: ShardId, out: &mut Invalidations<C>) {
        let Some(stream) = self.streams.remove(&shard) else { return };
        let mut of_client: BTreeMap<C, Invalidation> = BTreeMap::new();
        if stream.has_all {
            let of_it = self.broadcasts.iter().filter(|(_, one)| one.keyspace == stream.keyspace);
            of_client.extend(of_it.map(|(client, _)| (*client, Invalidation::All)));
        }
        self.keys -= stream.keys.len();
        for (key, held) in stream.keys {
            self.holders -= held.holders.len();
            for client in held.holders.keys() {
                let said = of_client.entry(*client).or_insert(Invalidation::Keys(Vec::new()));
                if let Invalidation::Keys(keys) = said {
                    keys.push(key.clone());
                    if keys.len() > NAMED_MAX {
                        *said = Invalidation::All;
                    }
                }
            }
        }
        out.extend(of_client);
    }

    fn give_up_excess(&mut self, out: &mut Invalidations<C>) {
        while self.keys > self.keys_max {
            let (shard, key) = &self.given_up;
            let behind = |stream: &Stream<C>| {
                let behind = (Bound::Excluded(&**key), Bound::Unbounded);
                stream.keys.range::<[u8], _>(behind).next().map(|(key, _)| key.clone())
            };
            let first = |stream: &Stream<C>| stream.keys.keys().next().cloned();
            let here = self.streams.get(shard).and_then(behind).map(|key| (*shard, key));
            let next = || {
                let mut later = self.streams.range((Bound::Excluded(shard), Bound::Unbounded));
                later.find_map(|(shard, stream)| Some((*shard, first(stream)?)))
            };
            let any = || self.streams.iter().find_map(|(shard, s)| Some((*shard, first(s)?)));
            let Some((shard, key)) = here.or_else(next).or_else(any) else { return };
            let held = self.streams.get_mut(&shard).and_then(|stream| stream.keys.remove(&key));
            self.keys -= 1;
            self.holders -= held.as_ref().map_or(0, |key| key.holders.len());
            for client in held.iter().flat_map(|key| key.holders.keys()) {
                out.push((*client, Invalidation::Keys(vec![key.clone()])));
            }
            self.given_up = (shard, key);
        }
    }

    /// Time passes: gives up streams that no leader confirms, and renews the others.
    pub fn tick(&mut self, now: BootNanos, out: &mut Invalidations<C>) -> Renewals {
        self.give_up_excess(out);
        let is_lost = |(_, stream): &(&ShardId, &Stream<C>)| !stream.is_valid(now);
        let lost: Vec<ShardId> =
            self.streams.iter().filter(is_lost).map(|(shard, _)| *shard).collect();
        lost.into_iter().for_each(|shard| self.lose(shard, out));
        self.sweep(now);
        let broadcasts = &self.broadcasts;
        // A leader forgets a stream that is not renewed.
        self.streams.retain(|_, stream| {
            let wants_all = || broadcasts.values().any(|one| one.keyspace == stream.keyspace);
            !stream.keys.is_empty() || (stream.has_all && wants_all())
        });
        let mut renewals = Vec::new();
        for (shard, stream) in &mut self.streams {
            if stream.renewed.saturating_add(RENEW_NANOS) <= now {
                stream.renewed = now;
                let renew = TrackingMessage::Renew { stream: stream.id, sent: now };
                renewals.push((stream.leader, *shard, renew));
            }
        }
        renewals
    }
}

impl<C> Stream<C> {
    fn is_valid(&self, now: BootNanos) -> bool {
        now < self.confirmed.saturating_add(LEASE_NANOS)
    }

    /// Whether a change of this number is the next one; `None`: it was taken before.
    fn takes(&mut self, number: u64) -> Option<bool> {
        if number < self.next {
            return None;
        }
        let is_next = number == self.next;
        self.next = number + 1;
        Some(is_next)
    }
}

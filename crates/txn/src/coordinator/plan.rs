//! Which shard gets which part of a transaction?

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use keyspace::{KeyspaceId, ShardId, Timestamp};

use super::Routes;
use super::arena::StepArena;
use crate::ShardMap;
use crate::locks::{Deadline, Keys, Name, Places, Prepare, Role, Step, TxnId};
use command::transaction::KeyRange;
use command::{Flush, Transaction};

/// What a transaction does in one keyspace.
pub(super) struct KeyspacePart<'a> {
    pub keyspace: KeyspaceId,
    /// The keyspace's shards.
    pub map: Arc<dyn ShardMap>,
    pub transaction: Transaction<'a>,
}

impl KeyspacePart<'_> {
    /// If it flushes the keyspace, a key in each shard's arc, by the place of the shard.
    fn witnesses(&self) -> &[Box<[u8]>] {
        if self.transaction.flush.is_some() { self.map.witnesses() } else { &[] }
    }

    /// What it flushes, each with its shard.
    fn flushes(&self) -> impl Iterator<Item = (ShardId, Flush<'_>)> {
        self.witnesses().iter().enumerate().map(|(place, witness)| {
            let (from, end) = self.map.arc(place).ends();
            (self.map.shards()[place], Flush::Arc { witness, from, end })
        })
    }
}

/// A transaction, divided by shards.
pub(super) struct Plan<'a> {
    /// The names of all keys, in order, each with its shard.
    keys: Vec<(Cow<'a, [u8]>, ShardId)>,
    /// The place of the record's key among them: one of the first shard, or of the last if shards
    /// are asked in order.
    record: usize,
    /// In the order of their shards, each with the places of its commands.
    parts: Vec<(ShardId, (Places, Transaction<'a>))>,
    /// Whether shards are asked one after the other, and the last one commits.
    pub in_order: bool,
}

impl<'a> Plan<'a> {
    /// Plans a transaction. `None` if the keys of one command lie in several shards, if there are
    /// no keys, or if the record's shard has keys of empty ranges only. A single shard is asked as
    /// the last of several, and so are those of a flush.
    pub fn of(id: TxnId, whole: &'a [KeyspacePart<'a>], in_order: bool) -> Option<Self> {
        let mut keys = Vec::new();
        let mut ranges: Vec<(ShardId, KeyRange<'a>)> = Vec::new();
        let mut flushed: Vec<(ShardId, Flush<'a>)> = Vec::new();
        let mut watched_only = BTreeSet::new();
        for part in whole {
            let KeyspacePart { keyspace, map, transaction, .. } = part;
            let map = &**map;
            let pieces = transaction.ranges.iter().flat_map(|range| pieces(*range, map));
            let before = ranges.len();
            ranges.extend(pieces.map(|piece| (map.shard_of(piece.0), piece)));
            let mut add = |key| keys.push((id.name_of(*keyspace, key), map.shard_of(key)));
            ranges[before..].iter().for_each(|(_, (low, _))| add(low));
            transaction.each_key(&mut add);
            part.witnesses().iter().for_each(|witness| add(witness));
            flushed.extend(part.flushes());
            if transaction.flushes_watched_only {
                watched_only.extend(map.shards().iter().copied());
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let places = || keys.iter().enumerate().map(|(place, (name, shard))| (shard, name, place));
        let (first, last) = (places().min()?, places().max()?);
        // A staged record is decided by asking all shards that it names, and a flush names all
        // that there are: one that is unreachable would leave every key locked.
        let in_order = in_order || first.0 == last.0 || !flushed.is_empty();
        let (record_shard, _, record) = if in_order { last } else { first };
        let record_shard = *record_shard;
        let mut parts = Vec::with_capacity(2);
        for (shard, range) in ranges {
            let (_, part): &mut (Places, Transaction<'a>) = of_shard(&mut parts, shard);
            part.ranges.push(range);
        }
        for (shard, flush) in flushed {
            let (_, part): &mut (Places, Transaction<'a>) = of_shard(&mut parts, shard);
            part.flush = Some(Box::new(flush));
            part.flushes_watched_only = watched_only.contains(&shard);
        }
        let mut place = 0;
        for KeyspacePart { map, transaction, .. } in whole {
            for (key, seen) in &transaction.watched {
                of_shard(&mut parts, map.shard_of(key)).1.watched.push((key, *seen));
            }
            for command in &transaction.commands {
                let (mut shard, mut crosses) = (None, false);
                command.each_key(&mut |key| {
                    let here = map.shard_of(key);
                    crosses |= shard.is_some_and(|shard| shard != here);
                    shard = Some(here);
                });
                if crosses {
                    return None;
                }
                let (places, part) = of_shard(&mut parts, shard.unwrap_or(record_shard));
                places.push(place);
                part.commands.push(command.clone());
                place += 1;
            }
        }
        let is_home_there = parts.iter().any(|(shard, _)| *shard == record_shard);
        is_home_there.then_some(Self { keys, record, parts, in_order })
    }

    /// The name of the record's key.
    pub fn record(&self) -> &[u8] {
        &self.keys[self.record].0
    }

    fn record_shard(&self) -> ShardId {
        self.keys[self.record].1
    }

    /// The keyspace of each part, if the transaction may have several.
    pub fn keyspaces(&self, id: TxnId) -> Vec<KeyspaceId> {
        if !id.spans_keyspaces() {
            return Vec::new();
        }
        let first_of = |shard: ShardId| self.keys.iter().find(|(_, there)| *there == shard);
        let parts = self.parts.iter().filter_map(|(shard, _)| first_of(*shard));
        parts.map(|(name, _)| id.place_of(KeyspaceId(0), name).0).collect()
    }

    /// The names of all keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|(name, _)| &**name)
    }

    /// Those of keys in the record's shard.
    pub fn keys_in_record_shard(&self) -> impl Iterator<Item = &[u8]> {
        let there = self.record_shard();
        self.keys.iter().filter(move |(_, shard)| *shard == there).map(|(name, _)| &**name)
    }

    /// The PREPARE of each shard, in the order that all transactions share. The one that commits
    /// still lacks the time at which all other keys were locked.
    pub fn steps(
        mut self,
        id: TxnId,
        reserved_as: Option<Timestamp>,
        arena: &mut StepArena,
    ) -> Vec<(ShardId, Bytes)> {
        let (record_shard, parts) = (self.record_shard(), std::mem::take(&mut self.parts));
        let (record, in_order) = (self.record(), self.in_order);
        let first = parts.first().map(|(shard, _)| *shard);
        // The last one commits, and locks nothing.
        let is_promised = |shard: ShardId| !in_order || shard != record_shard;
        let names = self.keys.iter().filter(|(_, shard)| is_promised(*shard));
        let promised_there: Keys<'_> = names.map(|(name, _)| &**name).collect();
        let step = |(shard, (places, part))| {
            let is_home = shard == record_shard;
            let promised = if is_home { promised_there.clone() } else { Keys::new() };
            let role = match in_order && is_home {
                true => Role::Commits(Timestamp::ZERO),
                false => Role::Votes,
            };
            let is_first = in_order && Some(shard) == first;
            let deadline = Some(Deadline::NEVER);
            let prepare = Prepare {
                id,
                is_first,
                reserved_as,
                record,
                promised,
                role,
                deadline,
                places,
                part,
            };
            (shard, arena.put(&Step::Prepare(prepare)))
        };
        parts.into_iter().map(step).collect()
    }
}

/// The parts of a range in each of the shards of an ordered keyspace.
fn pieces<'a>(
    (low, high): KeyRange<'a>,
    route: &'a dyn ShardMap,
) -> impl Iterator<Item = KeyRange<'a>> {
    let last = high.map_or(route.shards().len() - 1, |high| route.place_of_key(high));
    (route.place_of_key(low)..=last).filter_map(move |place| {
        let (start, end) = (route.arc(place).start(), route.arc(place).end());
        let low = low.max(start.tail());
        let end = (!end.is_origin()).then_some(end.tail());
        let high = match (high, end) {
            (Some(high), Some(end)) => Some(high.min(end)),
            (high, end) => high.or(end),
        };
        high.is_none_or(|high| low < high).then_some((low, high))
    })
}

/// Finds the shards of a transaction's keys, as they are now.
pub(super) struct KeyPlaces<'r> {
    id: TxnId,
    keyspace: KeyspaceId,
    /// The shards of its keyspace, unless it spans several.
    map: Option<Arc<dyn ShardMap>>,
    routes: Routes<'r>,
}

impl<'r> KeyPlaces<'r> {
    /// Those of a transaction of this keyspace, or of several.
    pub fn of(id: TxnId, keyspace: KeyspaceId, routes: Routes<'r>) -> Self {
        let map = if id.spans_keyspaces() { None } else { routes(keyspace) };
        Self { id, keyspace, map, routes }
    }

    /// Whether its only keyspace was dropped.
    pub fn are_dropped(&self) -> bool {
        self.map.is_none() && !self.id.spans_keyspaces()
    }

    /// The shard of a name; `None` if its keyspace was dropped.
    pub fn shard_of(&self, name: &[u8]) -> Option<ShardId> {
        if let Some(map) = &self.map {
            return Some(map.shard_of(name));
        }
        let (keyspace, key) = self.id.place_of(self.keyspace, name);
        Some((self.routes)(keyspace)?.shard_of(key))
    }

    /// The keys of these names, by the shards that have them; without those of dropped keyspaces.
    pub fn by_shard<'k>(&self, names: &'k [Name]) -> Vec<(ShardId, Keys<'k>)> {
        let mut all: Vec<(ShardId, Keys<'_>)> = Vec::with_capacity(2);
        for name in names {
            if let Some(shard) = self.shard_of(name) {
                of_shard(&mut all, shard).push(self.id.key_of(name));
            }
        }
        all
    }
}

/// The entry of a shard, created if needed, in the order of shards.
fn of_shard<T: Default>(all: &mut Vec<(ShardId, T)>, shard: ShardId) -> &mut T {
    let place = all.binary_search_by_key(&shard, |(there, _)| *there).unwrap_or_else(|place| {
        all.insert(place, (shard, T::default()));
        place
    });
    &mut all[place].1
}

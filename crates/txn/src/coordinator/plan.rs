//! Which shard gets which part of a transaction?

use std::collections::BTreeSet;

use bytes::Bytes;
use keyspace::{ShardId, Timestamp};

use super::arena::StepArena;
use crate::ShardMap;
use crate::locks::{Deadline, Keys, Name, Places, Prepare, Role, Step, TxnId};
use command::Transaction;
use command::transaction::KeyRange;

/// A transaction, divided by shards.
pub(super) struct Plan<'a> {
    /// The key of the record: one of the first shard, or of the last if they are asked in order.
    pub record: &'a [u8],
    /// All keys, in order.
    pub keys: Vec<&'a [u8]>,
    /// In the order of their shards, each with the places of its commands.
    parts: Vec<(ShardId, (Places, Transaction<'a>))>,
    /// The shard that has the record.
    record_shard: ShardId,
    /// Whether shards are asked one after the other, and the last one commits.
    pub in_order: bool,
}

impl<'a> Plan<'a> {
    /// Plans a transaction. `None` if the keys of one command lie in several shards, if there are
    /// no keys, or if the record's shard has keys of empty ranges only. A single shard is asked as
    /// the last of several.
    pub fn of(
        transaction: &Transaction<'a>,
        route: &'a dyn ShardMap,
        in_order: bool,
    ) -> Option<Self> {
        let ranges = transaction.ranges.iter().flat_map(|range| pieces(*range, route));
        let ranges: Vec<KeyRange<'a>> = ranges.collect();
        let mut keys: Vec<&[u8]> = ranges.iter().map(|(low, _)| *low).collect();
        transaction.each_key(&mut |key| keys.push(key));
        keys.sort_unstable();
        keys.dedup();
        let places = || keys.iter().map(|key| (route.shard_of(key), *key));
        let (first, last) = (places().min()?, places().max()?);
        let in_order = in_order || first.0 == last.0;
        let (record_shard, record) = if in_order { last } else { first };
        let mut parts = Vec::with_capacity(2);
        for (key, seen) in &transaction.watched {
            let (_, part): &mut (Places, Transaction<'a>) =
                of_shard(&mut parts, route.shard_of(key));
            part.watched.push((key, *seen));
        }
        for range in ranges {
            of_shard(&mut parts, route.shard_of(range.0)).1.ranges.push(range);
        }
        for (place, command) in (0..).zip(&transaction.commands) {
            let (mut shard, mut crosses) = (None, false);
            command.each_key(&mut |key| {
                let here = route.shard_of(key);
                crosses |= shard.is_some_and(|shard| shard != here);
                shard = Some(here);
            });
            if crosses {
                return None;
            }
            let shard = shard.unwrap_or(route.shard_of(record));
            let (places, part) = of_shard(&mut parts, shard);
            places.push(place);
            part.commands.push(command.clone());
        }
        let is_home_there = parts.iter().any(|(shard, _)| *shard == record_shard);
        is_home_there.then_some(Self { record, keys, parts, record_shard, in_order })
    }

    /// The keys in the record's shard.
    pub fn keys_in_record_shard(&self, route: &dyn ShardMap) -> impl Iterator<Item = &'a [u8]> {
        self.keys.iter().copied().filter(|key| route.shard_of(key) == self.record_shard)
    }

    /// The PREPARE of each shard, in the order that all transactions share. The one that commits
    /// still lacks the time at which all other keys were locked.
    pub fn steps(
        self,
        id: TxnId,
        reserved_as: Option<Timestamp>,
        arena: &mut StepArena,
    ) -> Vec<(ShardId, Bytes)> {
        let Self { record, mut keys, parts, record_shard, in_order } = self;
        let first = parts.first().map(|(shard, _)| *shard);
        if in_order && let Some((_, (_, part))) = parts.last() {
            let mut here = BTreeSet::new();
            part.each_key(&mut |key| {
                here.insert(key);
            });
            keys.retain(|key| !here.contains(key));
        }
        let step = |(shard, (places, part))| {
            let is_home = shard == record_shard;
            let promised = if is_home { Keys::from_slice(&keys) } else { Keys::new() };
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

/// Keys, by the shards that have them.
pub(super) fn by_shard<'k>(route: &dyn ShardMap, keys: &'k [Name]) -> Vec<(ShardId, Keys<'k>)> {
    let mut all: Vec<(ShardId, Keys<'_>)> = Vec::with_capacity(2);
    for key in keys {
        of_shard(&mut all, route.shard_of(key)).push(key);
    }
    all
}

/// The entry of a shard, created if needed, in the order of shards.
fn of_shard<T: Default>(all: &mut Vec<(ShardId, T)>, shard: ShardId) -> &mut T {
    let place = all.binary_search_by_key(&shard, |(there, _)| *there).unwrap_or_else(|place| {
        all.insert(place, (shard, T::default()));
        place
    });
    &mut all[place].1
}

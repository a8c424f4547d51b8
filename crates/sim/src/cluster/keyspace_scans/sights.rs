//! What the answer of a keyspace scan implies for single keys.

use std::collections::{BTreeMap, BTreeSet};

use command::{Pair, Reply};
use keyspace::ShardId;
use node::replica::scan;
use node::routing::fetch::FetchResult;
use node::routing::route::Route;

use super::super::World;
use super::{KeyObservation, Scan, ScanQuery, ShardAnswer, invented};
use crate::check::Violation;
use crate::command::Command;

impl World {
    /// The keys in use, by shard.
    pub(super) fn keys_of_shards(&self, route: &Route) -> BTreeMap<ShardId, Vec<u64>> {
        let mut of_shards: BTreeMap<ShardId, Vec<u64>> = BTreeMap::new();
        for (key, name) in (0..self.profile.keys).zip(self.clients.names()) {
            let shard = route.shard(route.place(&route.key(name)));
            of_shards.entry(shard).or_default().push(key);
        }
        of_shards
    }

    /// What a shard's answer says of its keys.
    pub(super) fn see_shard(
        &self,
        route: &Route,
        ask: &ScanQuery,
        answer: &ShardAnswer,
        sights: &mut Vec<KeyObservation>,
    ) -> Result<(), Violation> {
        let ShardAnswer { shard, low_ms, high_ms, .. } = *answer;
        let its = self.keys_of_shards(route).remove(&shard).unwrap_or_default();
        let mut see = |keys: Vec<u64>, command: Command, reply: Reply| {
            sights.push(KeyObservation { keys, command, reply, low_ms, high_ms });
        };
        let key_of = |name: &[u8]| {
            let key = its.iter().copied().find(|key| *self.clients.name(*key) == *name);
            key.ok_or_else(|| invented(format!("shard {shard} shows {}", name.escape_ascii())))
        };
        let mut shown: BTreeMap<u64, &[u8]> = BTreeMap::new();
        match &answer.found {
            FetchResult::Size(size) => {
                if *size > its.len() as u64 {
                    return Err(invented(format!("shard {shard} has {size} keys, of {its:?}")));
                }
                let tags: BTreeSet<u64> = its.iter().map(|key| key / self.profile.tagged).collect();
                match its.len() {
                    1 => see(its, Command::Exists, Reply::Int(*size as i64)),
                    // Those of several tags have no history together.
                    _ if tags.len() == 1 => see(its, Command::Count, Reply::Int(*size as i64)),
                    _ => {}
                }
                return Ok(());
            }
            FetchResult::Random { key: Some(name), .. } => {
                see(vec![key_of(name)?], Command::Exists, Reply::Int(1));
                return Ok(());
            }
            FetchResult::Random { key: None, size } if *size > 0 => {
                // Of another shard a key was shown.
                return Ok(());
            }
            FetchResult::Random { .. } => {}
            FetchResult::Keys { keys, .. } => {
                for name in keys {
                    if shown.insert(key_of(name)?, &[]).is_some() {
                        return Err(invented(format!("shard {shard} shows a key twice")));
                    }
                }
            }
            FetchResult::Pairs { pairs, .. } => {
                let rises = !matches!(ask, ScanQuery::Range { reverse: true });
                let in_order = |pair: &[Pair]| (pair[0].0 < pair[1].0) == rises;
                if !pairs.windows(2).all(in_order) {
                    let text = format!("shard {shard} shows keys in no order: {pairs:?}");
                    return Err(Violation::new("RANGE is in order", text));
                }
                for (name, value) in pairs {
                    shown.insert(key_of(name)?, value);
                }
            }
            FetchResult::Versions(_)
            | FetchResult::Then(_)
            | FetchResult::History(_)
            | FetchResult::Past(_)
            | FetchResult::BelowSafePoint(_)
            | FetchResult::Newest(_)
            | FetchResult::SafePoints(_)
            | FetchResult::Changes(_)
            | FetchResult::Tracked(_)
            | FetchResult::Catalogue { .. } => {
                unreachable!("nobody asked for that")
            }
        }
        // What a page of a SCAN does not show may be on another.
        let is_all = !matches!(ask, ScanQuery::Scan(_));
        let with_values = matches!(ask, ScanQuery::Range { .. });
        for key in its.iter().copied().filter(|key| is_all || shown.contains_key(key)) {
            match (shown.get(&key), with_values) {
                (Some(value), true) => {
                    see(vec![key], Command::Get, Reply::Bulk((*value).into()));
                }
                (None, true) => see(vec![key], Command::Get, Reply::Nil),
                (found, false) => {
                    let there = i64::from(found.is_some());
                    see(vec![key], Command::Exists, Reply::Int(there));
                }
            }
        }
        Ok(())
    }

    /// A page of a SCAN was shown: where it goes on, or what it has never shown.
    pub(super) fn see_page(
        &self,
        route: &Route,
        scan: &Scan,
        answers: &[ShardAnswer],
        only: Option<usize>,
        sights: &mut Vec<KeyObservation>,
    ) -> Option<Scan> {
        let mut scan = scan.clone();
        scan.shown.extend(sights.iter().flat_map(|sight| sight.keys.iter().copied()));
        let mut next = 0;
        for answer in answers {
            scan.low_ms = scan.low_ms.min(answer.low_ms);
            scan.high_ms = scan.high_ms.max(answer.high_ms);
            if let FetchResult::Keys { next: Some(after), .. } = answer.found {
                next = after;
            }
        }
        // The end of one shard is the beginning of the next.
        if let (0, Some(place)) = (next, only) {
            next = scan::cursor_behind(route, place);
        }
        if next != 0 {
            scan.cursor = next;
            return Some(scan);
        }
        for key in (0..self.profile.keys).filter(|key| !scan.shown.contains(key)) {
            let (low_ms, high_ms) = (scan.low_ms, scan.high_ms);
            let (command, reply) = (Command::Exists, Reply::Int(0));
            sights.push(KeyObservation { keys: vec![key], command, reply, low_ms, high_ms });
        }
        None
    }
}

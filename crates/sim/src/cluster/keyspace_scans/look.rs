//! The part of an answer that a node's own shards hold.

use std::collections::BTreeMap;
use std::ops::Bound;

use command::{Pair, RangeQuery};
use node::replica::read::ReadTime;
use node::replica::scan::{self, ScanScope};
use node::routing::fetch::FetchResult;
use node::routing::route::Route;

use super::{ScanQuery, invented};
use crate::check::Violation;

/// The part of a scan for a node's own shards.
pub(super) struct Question<'a> {
    pub route: &'a Route,
    pub ask: &'a ScanQuery,
    /// The places of the shards.
    pub near: &'a [usize],
    pub asked: &'a ScanScope,
    pub moment: ReadTime,
    /// Keys of a page, or looked at under one hold.
    pub count: usize,
}

impl Question<'_> {
    /// Shows what they hold: an answer for each of the places.
    pub fn look(&self) -> Result<Vec<FetchResult>, Violation> {
        match self.ask {
            ScanQuery::Size => self.sizes(),
            ScanQuery::Random(random) => Ok(self.random(*random)),
            _ if self.near.is_empty() => Ok(Vec::new()),
            ScanQuery::Range { reverse } => self.pairs(*reverse),
            ScanQuery::Keys => self.keys(|show| {
                scan::each_key(self.route, self.asked, self.count, show);
                None
            }),
            ScanQuery::Scan(scan) => self.keys(|show| {
                let scanned = scan::scan(self.route, self.asked, scan.cursor, self.count, show);
                Some(scanned.expect("the keyspace is hashed")).filter(|next| *next != 0)
            }),
        }
    }

    fn place(&self, key: &[u8]) -> usize {
        self.route.place(&self.route.key(key))
    }

    fn sizes(&self) -> Result<Vec<FetchResult>, Violation> {
        let one = |place| {
            let one = scan::admit(self.route, &|other| other == place, self.moment);
            one.map_or(0, |one| scan::size(self.route, &one))
        };
        let sizes: Vec<u64> = self.near.iter().map(|place| one(*place)).collect();
        let (sum, size) = (sizes.iter().sum::<u64>(), scan::size(self.route, self.asked));
        if sum != size {
            let text = format!("DBSIZE is {size}, and shards have {sizes:?}");
            return Err(Violation::new("reads see what the log says", text));
        }
        Ok(sizes.into_iter().map(FetchResult::Size).collect())
    }

    fn random(&self, random: u64) -> Vec<FetchResult> {
        let key = scan::random_key(self.route, self.asked, random);
        let size = u64::from(key.is_some());
        let of = key.as_ref().map(|key| self.place(key));
        let found = |place: &usize| {
            let key = key.clone().filter(|_| of == Some(*place));
            FetchResult::Random { size, key }
        };
        self.near.iter().map(found).collect()
    }

    fn pairs(&self, reverse: bool) -> Result<Vec<FetchResult>, Violation> {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let query = RangeQuery { low, high, reverse, keys_max: usize::MAX };
        let mut all: Vec<Pair> = Vec::new();
        let show = &mut |key: &[u8], value: &[u8]| all.push((key.into(), value.into()));
        scan::range(self.route, self.asked, &query, self.count, show)
            .expect("the placement is ordered");
        if !all.windows(2).all(|pair| (pair[0].0 < pair[1].0) != reverse) {
            let text = format!("a node shows keys in no order: {all:?}");
            return Err(Violation::new("RANGE is in order", text));
        }
        if let Some(pair) = all.iter().find(|pair| !self.near.contains(&self.place(&pair.0))) {
            return Err(invented(format!("{pair:?} is of a shard that was not asked")));
        }
        let of = |asked: &usize| {
            let its = all.iter().filter(|pair| self.place(&pair.0) == *asked);
            FetchResult::Pairs { pairs: its.cloned().collect(), reached: None }
        };
        Ok(self.near.iter().map(of).collect())
    }

    /// Keys that `each` shows, and where it goes on if there are more.
    fn keys(
        &self,
        each: impl FnOnce(&mut dyn FnMut(&[u8])) -> Option<u64>,
    ) -> Result<Vec<FetchResult>, Violation> {
        let mut names: BTreeMap<usize, Vec<Box<[u8]>>> = BTreeMap::new();
        let next = each(&mut |name| names.entry(self.place(name)).or_default().push(name.into()));
        let found = |place: &usize| {
            let keys = names.remove(place).unwrap_or_default();
            FetchResult::Keys { keys, next }
        };
        let found = self.near.iter().map(found).collect();
        match names.pop_first() {
            None => Ok(found),
            Some((place, _)) => Err(invented(format!("place {place} was not asked, and answers"))),
        }
    }
}

//! The content of a keyspace according to its log, compared with reads of all its keys.

use std::ops::Bound;

use command::RangeQuery;
use keyspace::Timestamp;
use node::replica::scan::{self, ScanScope};
use node::routing::route::Route;

use super::reads::SAME;
use crate::check::Violation;
use crate::check::scan::Scan;
use crate::check::versions::Versions;
use crate::command::Value;

/// The versions of a keyspace's shards.
pub(super) struct Models<'a> {
    pub route: &'a Route,
    pub of_shards: Vec<&'a Versions>,
    /// The time of the question.
    pub now: Timestamp,
}

impl Models<'_> {
    /// What is applied is seen, also what came after the time of the question.
    fn time(&self, model: &Versions) -> Timestamp {
        self.now.max(model.last)
    }

    fn has(&self, key: &[u8]) -> bool {
        self.of_shards.iter().any(|model| model.at(key, self.time(model)).is_some())
    }

    fn alive(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.of_shards.iter().flat_map(|model| model.alive(self.time(model)))
    }

    fn differs<T>(&self, what: &str, found: &dyn std::fmt::Debug) -> Result<T, Violation> {
        let name = &self.route.keyspace.name;
        Err(Violation::new(SAME, format!("{what} of {name} at {:?}: {found:?}", self.now)))
    }

    /// DBSIZE; what it has found, in words.
    pub fn size(&self, asked: &ScanScope) -> Result<String, Violation> {
        let (size, expected) = (scan::size(self.route, asked), self.alive().count());
        if size != expected as u64 {
            return self.differs("DBSIZE", &(size, expected));
        }
        Ok(format!("{size} keys"))
    }

    /// RANGE of all keys.
    pub fn range(&self, asked: &ScanScope, keys_max: usize) -> Result<String, Violation> {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let everything = RangeQuery { low, high, reverse: false, keys_max: usize::MAX };
        let mut found = Vec::new();
        let show =
            &mut |key: &[u8], value: &[u8]| found.push((key.to_vec(), Value(value.to_vec())));
        if scan::range(self.route, asked, &everything, keys_max, show).is_err() {
            return self.differs("RANGE", &"refused");
        }
        let model = self.of_shards[0];
        let time = self.time(model);
        let value = |key: &Vec<u8>| model.at(key, time).map(|cell| cell.value);
        let expected = model.alive(time).map(|key| (key.clone(), value(key)));
        let expected: Vec<_> = expected.filter_map(|(key, value)| Some((key, value?))).collect();
        if found != expected {
            return self.differs("RANGE", &(found, expected));
        }
        Ok(format!("{} keys in order", found.len()))
    }

    /// KEYS, all of them.
    pub fn keys(&self, asked: &ScanScope, keys_max: usize) -> Result<String, Violation> {
        let mut found = Vec::new();
        scan::each_key(self.route, asked, keys_max, &mut |key| found.push(key.to_vec()));
        found.sort_unstable();
        let mut expected: Vec<Vec<u8>> = self.alive().cloned().collect();
        expected.sort_unstable();
        if found != expected {
            return self.differs("KEYS", &(found, expected));
        }
        Ok(format!("{} keys", found.len()))
    }

    /// RANDOMKEY.
    pub fn random(&self, asked: &ScanScope, random: u64) -> Result<String, Violation> {
        let found = scan::random_key(self.route, asked, random);
        let is_right = match &found {
            Some(key) => self.has(key),
            None => self.alive().next().is_none(),
        };
        if !is_right {
            return self.differs("RANDOMKEY", &found);
        }
        Ok(format!("{found:?}"))
    }

    /// One page of a SCAN: where it goes on, and what it has seen.
    pub fn scan(
        &self,
        asked: &ScanScope,
        cursor: u64,
        count: usize,
        mut scan: Scan,
    ) -> Result<(u64, Scan), Violation> {
        scan.look(|key| self.has(key));
        let mut wrong = None;
        let shown = scan::scan(self.route, asked, cursor, count, &mut |key| {
            scan.show(key);
            if !self.has(key) {
                wrong = Some(key.to_vec());
            }
        });
        let Ok(next) = shown else { return self.differs("SCAN", &"refused") };
        match wrong {
            Some(key) => self.differs("SCAN", &key),
            None => Ok((next, scan)),
        }
    }
}

//! Keys of a keyspace, page by page: `/v1/keys/{keyspace}`.
//!
//! A page is of one shard, here or fetched from its leader. Its cursor says where the next one
//! begins: in hashed keyspaces the digits of a SCAN cursor; in ordered ones `at-` or `after-` and a
//! key in hexadecimal.

use std::ops::Bound;
use std::sync::Arc;

use api::{ApiError, Done, KeysPage, KeysQuery};
use bytes::Bytes;
use command::RangeQuery;
use keyspace::{Placement, Timestamp};
use node::replica::read::{Blocked, ReadTime};
use node::replica::scan::{self, PIECE_KEYS, ScanScope};
use node::routing::fetch::{FetchRequest, FetchResult};
use node::routing::route::Route;

use super::past;
use super::reads::{fetch, fetch_past, renewed, wait};
use crate::runtime::NodeRuntime;

/// A page ends when its keys have about so many bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Keys looked at before its keys are counted again.
const STEP_KEYS: usize = 64;

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Begin {
    /// Hashed, and linear hashing: the cursor of a scan.
    Cursor(u64),
    /// Ordered: the low end of a range.
    Key(Bound<Box<[u8]>>),
}

/// A page that is asked for, however often it is tried.
struct PageRequest {
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    /// When it had come.
    now: ReadTime,
    begin: Begin,
    prefix: Bytes,
    limit: usize,
    /// The past time that it is about.
    at: Option<Timestamp>,
    done: Done<KeysPage>,
}

/// Answers a page.
pub(super) fn page(
    runtime: &Arc<NodeRuntime>,
    route: &Arc<Route>,
    asked: KeysQuery,
    done: Done<KeysPage>,
) {
    let KeysQuery { prefix, cursor, limit, at } = asked;
    if let Some(Err(error)) = at.map(|at| past::check(runtime, at)) {
        return done(Err(error));
    }
    let is_ordered = route.keyspace.options.placement == Placement::Ordered;
    let begin = match &cursor {
        None if is_ordered => Some(Begin::Key(Bound::Included((*prefix).into()))),
        None => Some(Begin::Cursor(0)),
        Some(text) => begin_of(text, is_ordered)
            .filter(|begin| place_of(route, begin).is_some() && is_behind(begin, &prefix)),
    };
    let Some(begin) = begin else {
        let cursor = cursor.unwrap_or_default();
        return done(Err(ApiError::BadCursor { cursor }));
    };
    let now = runtime.clock.moment();
    let (runtime, route) = (runtime.clone(), route.clone());
    PageRequest { runtime, route, now, begin, prefix, limit, at, done }.run();
}

/// The place that a cursor names.
fn begin_of(text: &str, is_ordered: bool) -> Option<Begin> {
    if !is_ordered {
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        return text.parse().ok().filter(|_| is_digits).map(Begin::Cursor);
    }
    let (word, digits) = text.split_once('-')?;
    let key = key_of(digits)?.into_boxed_slice();
    match word {
        "at" => Some(Begin::Key(Bound::Included(key))),
        "after" => Some(Begin::Key(Bound::Excluded(key))),
        _ => None,
    }
}

fn key_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            let is_hex = pair.bytes().all(|byte| byte.is_ascii_hexdigit());
            u8::from_str_radix(pair, 16).ok().filter(|_| is_hex)
        })
        .collect()
}

/// What a cursor is to clients.
fn shown(begin: &Begin) -> String {
    let digits = |key: &[u8]| -> String { key.iter().map(|byte| format!("{byte:02x}")).collect() };
    match begin {
        Begin::Cursor(cursor) => cursor.to_string(),
        Begin::Key(Bound::Included(key)) => format!("at-{}", digits(key)),
        Begin::Key(Bound::Excluded(key)) => format!("after-{}", digits(key)),
        Begin::Key(Bound::Unbounded) => "at-".to_owned(),
    }
}

/// The place of the shard that a page is of.
fn place_of(route: &Route, begin: &Begin) -> Option<usize> {
    match begin {
        Begin::Cursor(cursor) => scan::place_of(route, *cursor),
        Begin::Key(Bound::Included(key) | Bound::Excluded(key)) => Some(route.place_of_key(key)),
        Begin::Key(Bound::Unbounded) => Some(0),
    }
}

/// Whether a page that begins there shows keys with a prefix only.
fn is_behind(begin: &Begin, prefix: &[u8]) -> bool {
    match begin {
        Begin::Key(Bound::Included(key) | Bound::Excluded(key)) => &**key >= prefix,
        Begin::Key(Bound::Unbounded) => prefix.is_empty(),
        Begin::Cursor(_) => true,
    }
}

/// The end of the keys with a prefix.
pub(super) fn end_of(prefix: &[u8]) -> Bound<Box<[u8]>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX);
    last.map_or(Bound::Unbounded, |last| {
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        Bound::Excluded(end.into())
    })
}

fn borrowed(bound: &Bound<Box<[u8]>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &**key)
}

impl PageRequest {
    fn run(mut self) {
        self.route = renewed(&self.runtime, self.route);
        let Some(place) = place_of(&self.route, &self.begin) else {
            return (self.done)(Ok(KeysPage::default()));
        };
        if self.at.is_some() || self.runtime.routing.must_fetch(&self.route, place) {
            return self.fetch(place);
        }
        let asked = match scan::admit(&self.route, &|one| one == place, self.now) {
            Ok(asked) => asked,
            Err(blocked) => return self.wait(blocked),
        };
        let page = self.scan(place, &asked);
        match scan::is_unchanged(&self.route, &asked) {
            true => (self.done)(Ok(page)),
            // The shard was split meanwhile.
            false => self.wait(Blocked::unserved(place)),
        }
    }

    /// Goes on when the shard may be read.
    fn wait(self, blocked: Blocked) {
        let (runtime, route) = (self.runtime.clone(), self.route.clone());
        let then = move |result: Result<_, ApiError>| match result {
            Ok(_) => self.run(),
            Err(error) => (self.done)(Err(error)),
        };
        wait(&runtime, &route, blocked, Box::new(then));
    }

    /// A page of a shard here.
    fn scan(&self, place: usize, asked: &ScanScope) -> KeysPage {
        match &self.begin {
            Begin::Cursor(cursor) => self.scan_cursor(place, asked, *cursor),
            Begin::Key(low) => self.scan_range(place, asked, low),
        }
    }

    fn scan_cursor(&self, place: usize, asked: &ScanScope, mut cursor: u64) -> KeysPage {
        let (mut keys, mut bytes, mut looked) = (Vec::new(), 0, 0);
        while keys.len() < self.limit && bytes < PAGE_BYTES_MAX && looked < PIECE_KEYS {
            let step = STEP_KEYS.min(self.limit - keys.len());
            let mut show = |key: &[u8]| {
                looked += 1;
                if key.starts_with(&self.prefix) {
                    bytes += key.len();
                    keys.push(Bytes::copy_from_slice(key));
                }
            };
            let next = scan::scan(&self.route, asked, cursor, step, &mut show);
            // A step looks at one key at least, or ends the shard.
            looked += 1;
            match next.expect("the placement is not ordered") {
                next if next > 0 && scan::place_of(&self.route, next) == Some(place) => {
                    cursor = next;
                }
                _ => return self.end_of_shard(place, keys),
            }
        }
        KeysPage { keys, next: Some(shown(&Begin::Cursor(cursor))) }
    }

    fn scan_range(&self, place: usize, asked: &ScanScope, low: &Bound<Box<[u8]>>) -> KeysPage {
        let high = end_of(&self.prefix);
        let bounds = scan::within(self.route.arc(place), borrowed(low), borrowed(&high));
        let (low, high) = (borrowed(&bounds.0), borrowed(&bounds.1));
        let query = RangeQuery { low, high, reverse: false, keys_max: self.limit };
        let mut keys: Vec<Bytes> = Vec::new();
        let mut bytes = 0;
        let mut show = |key: &[u8], _: &[u8]| {
            // What is beyond is shown by the next page.
            if bytes < PAGE_BYTES_MAX {
                bytes += key.len();
                keys.push(Bytes::copy_from_slice(key));
            }
        };
        scan::range(&self.route, asked, &query, PIECE_KEYS, &mut show).expect("it is ordered");
        match keys.last() {
            Some(last) if keys.len() == self.limit || bytes >= PAGE_BYTES_MAX => {
                let next = shown(&Begin::Key(Bound::Excluded((**last).into())));
                KeysPage { keys, next: Some(next) }
            }
            _ => self.end_of_shard(place, keys),
        }
    }

    /// A page that ends with its shard.
    fn end_of_shard(&self, place: usize, keys: Vec<Bytes>) -> KeysPage {
        let next = match &self.begin {
            Begin::Cursor(_) => {
                let behind = scan::cursor_behind(&self.route, place);
                (behind > 0).then(|| shown(&Begin::Cursor(behind)))
            }
            Begin::Key(low) => {
                let high = end_of(&self.prefix);
                let places = scan::places_of(&self.route, borrowed(low), borrowed(&high));
                let end = self.route.arc(place).end();
                let goes_on = place < *places.end() && !end.is_origin();
                goes_on.then(|| shown(&Begin::Key(Bound::Included(end.tail().into()))))
            }
        };
        KeysPage { keys, next }
    }

    /// Fetches a page of a shard elsewhere.
    fn fetch(self, place: usize) {
        let (want, at) = (self.want(place), self.at);
        let (runtime, route) = (self.runtime.clone(), self.route.clone());
        let then = move |result| match result {
            Ok(Some(FetchResult::Keys { keys, next })) => {
                let page = self.fetched(place, keys, next.map(Begin::Cursor));
                (self.done)(Ok(page));
            }
            Ok(Some(FetchResult::Pairs { pairs, reached })) => {
                let last = pairs.last().map(|(key, _)| key.clone());
                let is_full = pairs.len() >= self.limit;
                let next = reached.or(last.filter(|_| is_full));
                let next = next.map(|key| Begin::Key(Bound::Excluded(key)));
                let keys = pairs.into_iter().map(|(key, _)| key).collect();
                let page = self.fetched(place, keys, next);
                (self.done)(Ok(page));
            }
            Ok(Some(FetchResult::BelowSafePoint(safe_point))) => {
                let at = self.at.unwrap_or_default();
                (self.done)(Err(ApiError::BelowSafePoint { at, safe_point }));
            }
            // It can be read here now, or the shard was split.
            Ok(_) => self.run(),
            Err(error) => (self.done)(Err(error)),
        };
        match at {
            Some(at) => fetch_past(&runtime, &route, place, (at, want), Box::new(then)),
            None => fetch(&runtime, route.shard(place), want, Box::new(then)),
        }
    }

    fn want(&self, place: usize) -> FetchRequest {
        let keys_max = match self.prefix.is_empty() {
            true => self.limit,
            // Most keys of a hashed shard may have another one.
            false => PIECE_KEYS,
        } as u64;
        match &self.begin {
            Begin::Cursor(from)
                if self.route.keyspace.options.placement == Placement::LinearHash =>
            {
                let (_, end) = self.route.numbers(place);
                FetchRequest::Numbers { from: *from, end, keys_max }
            }
            Begin::Cursor(cursor) => {
                let (_, end) = self.route.slots(place);
                FetchRequest::Scan { cursor: *cursor, end, keys_max }
            }
            Begin::Key(low) => {
                let high = end_of(&self.prefix);
                let arc = self.route.arc(place);
                let (low, high) = scan::within(arc, borrowed(low), borrowed(&high));
                let (keys_max, reverse, with_values) = (self.limit as u64, false, false);
                FetchRequest::Range { low, high, reverse, keys_max, with_values }
            }
        }
    }

    fn fetched(&self, place: usize, keys: Vec<Box<[u8]>>, next: Option<Begin>) -> KeysPage {
        let keys = keys.into_iter().filter(|key| key.starts_with(&self.prefix));
        let keys: Vec<Bytes> = keys.map(Bytes::from).collect();
        match next {
            Some(next) => KeysPage { keys, next: Some(shown(&next)) },
            None => self.end_of_shard(place, keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_are_shown() {
        let key = |key: &[u8]| Box::<[u8]>::from(key);
        for (begin, is_ordered) in [
            (Begin::Cursor(0), false),
            (Begin::Cursor(u64::MAX), false),
            (Begin::Key(Bound::Included(key(b""))), true),
            (Begin::Key(Bound::Included(key(b"a\xff"))), true),
            (Begin::Key(Bound::Excluded(key(b"a\0"))), true),
        ] {
            assert_eq!(begin_of(&shown(&begin), is_ordered), Some(begin));
        }
        for (bad, is_ordered) in [
            ("", true),
            ("", false),
            ("-1", false),
            ("+1", false),
            ("18446744073709551616", false),
            ("at-a", true),
            ("at-+1", true),
            ("at-ag", true),
            ("before-aa", true),
            ("aa", true),
            ("ü", true),
            ("at-ü", true),
        ] {
            assert_eq!(begin_of(bad, is_ordered), None, "{bad}");
        }
    }

    #[test]
    fn keys_with_a_prefix_end_before_the_next_one() {
        let end = |prefix: &[u8]| end_of(prefix);
        assert_eq!(end(b""), Bound::Unbounded);
        assert_eq!(end(b"ab"), Bound::Excluded(b"ac"[..].into()));
        assert_eq!(end(b"a\xff\xff"), Bound::Excluded(b"b"[..].into()));
        assert_eq!(end(b"\xff"), Bound::Unbounded);
    }
}

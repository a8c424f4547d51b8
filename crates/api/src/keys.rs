//! Keys of a keyspace, page by page: `/v1/keys/{keyspace}`.

use bytes::Bytes;
use keyspace::Timestamp;

/// The most keys that a page is asked for.
pub const KEYS_PAGE_MAX: usize = 1000;

/// Which page is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysQuery {
    /// What its keys begin with.
    pub prefix: Bytes,
    /// Where it begins: as the page before says; none: the first one.
    pub cursor: Option<String>,
    /// About so many keys.
    pub limit: usize,
    /// Those that had a value then; none: now.
    pub at: Option<Timestamp>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysPage {
    /// Its keys: maybe fewer than were asked for, or none, though there are more behind it.
    pub keys: Vec<Bytes>,
    /// Where the next page begins; none: this was the last one.
    pub next: Option<String>,
}

//! How does a node answer reads of a shard without a replica here, or with one that lags?
//!
//! It asks the shard's leader for what the command needs ([`FetchRequest`]), and answers the
//! command itself from the result ([`FetchResult`]). So every read command works on every node, and
//! the leader needs no knowledge of protocols.
//!
//! ```text
//!   here: MGET a b   a's shard: remote ─► FetchRequest::Keys [a] ─► its leader: at its own time,
//!                                                              under its lease, or when a majority
//!         answer(…) ◄── a = 1 ◄── FetchResult::Versions ◄───── has confirmed that it leads
//! ```
//!
//! A result serves only commands that had come before the fetch was sent. The leader's clock judges
//! whether a key has expired; the result carries its time.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | keys looked at for one result | [`crate::replica::scan::PIECE_KEYS`] | another fetch |
//! | bytes of one result | [`ANSWER_BYTES_MAX`], and a value | another fetch |
//!
//! So the keys of one command in one shard are read at one moment if they and their values are
//! below [`ANSWER_BYTES_MAX`] together. Longer answers consist of several results, each of its own
//! moment ([`FetchedData::is_of_one_moment`]). A command that needs one moment fetches until
//! nothing has changed.

use std::ops::Bound;

use command::Pair;
use keyspace::linear_hash::{bit_reversed_hash, number_at};
use keyspace::{Cut, KeyspaceId, Lease, NodeId, ShardId, Slot, Timestamp, slot_of};
use replication::BootNanos;
use storage::engine::{MemoryEngine, Range, ReadResult, ScanCursor, Version};

use crate::feed::changes::{ChangesWanted, FoundChanges};
use crate::replica::read::UnknownValue;
use crate::replica::scan::{PIECE_KEYS, cursor_of, place_of_cursor};
use crate::replica::state::{Content, ShardState};
use crate::routing::route::Route;
use crate::tracking::interests::Registration;
use txn::locks::{Intent, Lock, TxnId};
use txn::wait_queue::{KeysRead, ReserveFrom, ReservingRead};

pub(crate) mod codec;
mod fetched;
mod find;

pub use fetched::FetchedData;
pub(crate) use find::{find, is_owned};
pub use find::{history, past_here};

/// Bytes of keys and values beyond which an answer is cut; one value may be larger.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The time of a [`FetchRequest::History`] of all that the shard's leader has committed by now: the
/// asker's clock may be behind.
pub const UP_TO_NOW: Timestamp = Timestamp::MAX;
/// Keys that one question may name.
pub const KEYS_MAX: usize = 1 << 16;
/// Keys scanned before the bytes are looked at again.
const SCAN_STEP: usize = 64;

/// Where a shard's part of its keyspace begins and ends.
pub type Ends = (Cut, Cut);

/// What a node asks of a shard's leader, to answer reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchRequest {
    /// The newest versions of these keys.
    Keys {
        /// In rising order, none twice.
        keys: Vec<Box<[u8]>>,
        /// If its asker is about to change them, and lets others who are go first.
        reserving: Option<ReservingRead>,
    },
    /// What a key had at a past time.
    At {
        /// The key.
        key: Box<[u8]>,
        /// The time.
        at: Timestamp,
    },
    /// The changes of a key up to a time, the newest first.
    History {
        /// The key.
        key: Box<[u8]>,
        /// The time.
        at: Timestamp,
        /// At most so many.
        changes_max: u64,
    },
    /// What a question has for an answer at a past time, in one piece: `Keys`, `Scan`, `Numbers` or
    /// `Range`. Or `Newest`: that time, when nothing is written at or below it any more.
    Past {
        /// The time.
        at: Timestamp,
        /// The question.
        want: Box<FetchRequest>,
    },
    /// A time at or above all that was acknowledged before the question came, if the shard has just
    /// this part of its keyspace (SAFETY G23).
    Newest {
        /// Where that begins and ends.
        ends: Ends,
    },
    /// What has changed, for a feed.
    Changes(Box<ChangesWanted>),
    /// What holds safe points, of the system shard.
    SafePoints,
    /// The catalogue, of the system shard, if it is not as of this index.
    Catalogue {
        /// What is known already; 0: nothing.
        known: u64,
    },
    /// How many keys there are, if the shard has just this part of its keyspace.
    Size {
        /// Where that begins and ends ([`keyspace::Arc::ends`]).
        ends: Ends,
    },
    /// Some key, if the shard has just this part of its keyspace.
    Random {
        /// Where that begins and ends.
        ends: Ends,
        /// Draws it.
        number: u64,
    },
    /// Keys from a cursor of [`crate::replica::scan::scan`] on, about so many.
    Scan {
        /// Where to begin.
        cursor: u64,
        /// The slot where to end.
        end: Slot,
        /// About how many.
        keys_max: u64,
    },
    /// Keys of linear hashing from a number on, about so many.
    Numbers {
        /// Where to begin.
        from: u64,
        /// Where to end; 0: at the end of the circle.
        end: u64,
        /// About how many.
        keys_max: u64,
    },
    /// Nothing yet: the asker's node is to hear when these keys change ([`crate::tracking`]).
    Track {
        /// The keys, in rising order.
        keys: Vec<Box<[u8]>>,
        /// Whether it is to hear of all changes of the shard.
        wants_all: bool,
        /// When it was asked, by the boot clock of the asker's node.
        since: BootNanos,
    },
    /// A range of an ordered shard.
    Range {
        /// Its low end.
        low: Bound<Box<[u8]>>,
        /// Its high end.
        high: Bound<Box<[u8]>>,
        /// From high to low.
        reverse: bool,
        /// At most so many keys.
        keys_max: u64,
        /// With their values.
        with_values: bool,
    },
}

/// A version of a key, with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldVersion {
    /// The value.
    pub value: Box<[u8]>,
    /// When it expires, in ms since 1970; 0 for never.
    pub expiry_ms: u64,
    /// When it was written.
    pub timestamp: Timestamp,
}

/// What a key had at a past time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastValue {
    /// This.
    Value(HeldVersion),
    /// Nothing.
    Nil,
    /// Nothing, but there is something now.
    NilYet,
    /// It may be forgotten: the safe point.
    BelowSafePoint(Timestamp),
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldChange {
    /// It was given a value.
    Put(HeldVersion),
    /// It was deleted.
    Deleted(Timestamp),
}

impl HeldChange {
    /// When.
    pub fn at(&self) -> Timestamp {
        match self {
            HeldChange::Put(version) => version.timestamp,
            HeldChange::Deleted(at) => *at,
        }
    }
}

/// What has become of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Its changes, the newest first.
    pub changes: Vec<HeldChange>,
    /// Whether there are more behind them.
    pub has_more: bool,
    /// Earlier changes than the last one at or below this time are forgotten.
    pub safe_point: Timestamp,
}

/// What the system shard has beside the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldSafePoints {
    /// The clock of the shard's leader.
    pub now: Timestamp,
    /// The safe point of each keyspace that has one.
    pub safe_points: Vec<(KeyspaceId, Timestamp)>,
    /// The leases that have not ended by then, by id.
    pub leases: Vec<Lease>,
}

/// The result of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchResult {
    /// Of the first of the keys, in their order: as many as fit, and at least one. Of a key without
    /// a value, what stands for that ([`crate::replica::read::nothing_since`]).
    Versions(Vec<Result<HeldVersion, Timestamp>>),
    /// Of a key at a past time.
    Then(PastValue),
    /// What has become of a key up to a past time.
    History(History),
    /// Of the first of the keys at a past time, in their order: as many as fit, and at least one.
    Past(Vec<PastValue>),
    /// What was asked about a past time may be forgotten: the safe point.
    BelowSafePoint(Timestamp),
    /// All that was acknowledged is at or below this time.
    Newest(Timestamp),
    /// What has changed.
    Changes(FoundChanges),
    /// What holds safe points.
    SafePoints(HeldSafePoints),
    /// The catalogue as of an index, encoded; `None`: it is known already.
    Catalogue {
        /// Its index.
        index: u64,
        /// A `keyspace::Catalogue`.
        bytes: Option<Box<[u8]>>,
    },
    /// So many keys.
    Size(u64),
    /// So many keys, and one of them if there is any.
    Random {
        /// How many keys there are.
        size: u64,
        /// One of them.
        key: Option<Box<[u8]>>,
    },
    /// Keys, and the cursor to go on with in this shard; `None` at its end.
    Keys {
        /// The keys.
        keys: Vec<Box<[u8]>>,
        /// Where to go on.
        next: Option<u64>,
    },
    /// The asker's node will hear of changes.
    Tracked(Registration),
    /// Keys with their values (empty if those were not wanted), in order.
    Pairs {
        /// The pairs.
        pairs: Vec<Pair>,
        /// The last key looked at, if there may be more behind it.
        reached: Option<Box<[u8]>>,
    },
}

impl FetchRequest {
    /// The newest versions of keys in any order.
    pub fn keys<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Self {
        let mut keys: Vec<Box<[u8]>> = keys.into_iter().map(Box::from).collect();
        keys.sort_unstable();
        keys.dedup();
        Self::Keys { keys, reserving: None }
    }

    /// The same, for a transaction that is about to change these keys.
    pub fn by(self, read: ReservingRead) -> Self {
        match self {
            Self::Keys { keys, .. } => Self::Keys { keys, reserving: Some(read) },
            other => other,
        }
    }

    /// What it reads of newest values, if it does.
    pub(crate) fn keys_read(&self) -> Option<KeysRead<'_>> {
        match self {
            FetchRequest::Keys { keys, reserving } => {
                Some(KeysRead { keys, reserving: *reserving })
            }
            _ => None,
        }
    }

    /// The keys that it reserves from everyone, and for whom.
    pub(crate) fn reserves_from_everyone(&self) -> Option<(&[Box<[u8]>], Timestamp)> {
        match self {
            FetchRequest::Keys {
                keys,
                reserving: Some(ReservingRead { name, from: ReserveFrom::Everyone }),
            } => Some((keys, *name)),
            _ => None,
        }
    }

    /// The past time that is asked about, if one is.
    pub(crate) fn past_time(&self) -> Option<Timestamp> {
        match self {
            FetchRequest::At { at, .. }
            | FetchRequest::Past { at, .. }
            | FetchRequest::History { at, .. } => Some(*at).filter(|at| *at != UP_TO_NOW),
            _ => None,
        }
    }

    /// Whether its asker is about to change the keys.
    pub(crate) fn is_reserving(&self) -> bool {
        matches!(self, FetchRequest::Keys { reserving: Some(_), .. })
    }

    /// About how many bytes it takes.
    pub fn bytes_about(&self) -> usize {
        let of = |bound: &Bound<Box<[u8]>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        32 + match self {
            FetchRequest::Keys { keys, .. } | FetchRequest::Track { keys, .. } => {
                keys.iter().map(|key| key.len() + 4).sum()
            }
            FetchRequest::At { key, .. } | FetchRequest::History { key, .. } => key.len(),
            FetchRequest::Past { want, .. } => want.bytes_about(),
            FetchRequest::Changes(want) => want.keys.bytes(),
            FetchRequest::Catalogue { .. }
            | FetchRequest::SafePoints
            | FetchRequest::Newest { .. }
            | FetchRequest::Size { .. }
            | FetchRequest::Random { .. }
            | FetchRequest::Scan { .. }
            | FetchRequest::Numbers { .. } => 0,
            FetchRequest::Range { low, high, .. } => of(low) + of(high),
        }
    }

    /// Whether `found` is an answer to it.
    pub(crate) fn fits(&self, found: &FetchResult) -> bool {
        match (self, found) {
            (FetchRequest::Keys { keys, .. }, FetchResult::Versions(versions)) => {
                versions.len() <= keys.len() && (!versions.is_empty() || keys.is_empty())
            }
            (FetchRequest::Past { want, .. }, FetchResult::Past(values)) => {
                matches!(&**want, FetchRequest::Keys { keys, .. }
                    if values.len() <= keys.len() && (!values.is_empty() || keys.is_empty()))
            }
            (FetchRequest::Past { .. }, FetchResult::BelowSafePoint(_))
            | (FetchRequest::Changes(_), FetchResult::BelowSafePoint(_)) => true,
            (FetchRequest::Changes(want), FetchResult::Changes(found)) => want.fits(found),
            (FetchRequest::Past { want, .. }, found) => {
                !matches!(**want, FetchRequest::Keys { .. }) && want.fits(found)
            }
            (FetchRequest::At { .. }, FetchResult::Then(_))
            | (FetchRequest::Newest { .. }, FetchResult::Newest(_))
            | (FetchRequest::SafePoints, FetchResult::SafePoints(_))
            | (FetchRequest::History { .. }, FetchResult::History(_))
            | (FetchRequest::Catalogue { .. }, FetchResult::Catalogue { .. })
            | (FetchRequest::Size { .. }, FetchResult::Size(_))
            | (FetchRequest::Track { .. }, FetchResult::Tracked(_))
            | (FetchRequest::Random { .. }, FetchResult::Random { .. })
            | (
                FetchRequest::Scan { .. } | FetchRequest::Numbers { .. },
                FetchResult::Keys { .. },
            )
            | (FetchRequest::Range { .. }, FetchResult::Pairs { .. }) => true,
            _ => false,
        }
    }

    /// Whether the answer to one is an answer to the other.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (FetchRequest::Random { ends, .. }, FetchRequest::Random { ends: others, .. }) => {
                ends == others
            }
            _ => self == other,
        }
    }

    /// Whether a shard with this arc could answer it: it is the owner of what is wanted, and of a
    /// question about all its keys they are all.
    pub(crate) fn is_of(&self, arc: &keyspace::Arc) -> bool {
        let has = |key: &[u8]| arc.has(key);
        match self {
            FetchRequest::Keys { keys, .. } | FetchRequest::Track { keys, .. } => {
                keys.iter().all(|key| has(key))
            }
            FetchRequest::At { key, .. } | FetchRequest::History { key, .. } => has(key),
            FetchRequest::Past { want, .. } => want.is_of(arc),
            FetchRequest::Changes(want) => want.ends == arc.ends(),
            FetchRequest::Size { ends }
            | FetchRequest::Newest { ends }
            | FetchRequest::Random { ends, .. } => *ends == arc.ends(),
            FetchRequest::Scan { cursor, end: to, .. } => arc
                .slots()
                .is_some_and(|(first, end)| first <= place_of_cursor(*cursor).slot && *to <= end),
            FetchRequest::Numbers { from, end: to, .. } => {
                let end = number_at(arc.end().tail());
                let is_to_there = |end: u64| end == 0 || (1..=end).contains(to);
                arc.holds(&from.to_be_bytes()) && end.is_some_and(is_to_there)
            }
            FetchRequest::Range { low, high, .. } => {
                // What is asked of a whole circle must be said to be so of a part.
                let (start, end) = (arc.start(), arc.end());
                let begins = match low {
                    Bound::Included(key) | Bound::Excluded(key) => **key >= *start.tail(),
                    Bound::Unbounded => start.is_origin(),
                };
                begins
                    && match high {
                        _ if end.is_origin() => true,
                        Bound::Included(key) => **key < *end.tail(),
                        Bound::Excluded(key) => **key <= *end.tail(),
                        Bound::Unbounded => false,
                    }
            }
            FetchRequest::Catalogue { .. } | FetchRequest::SafePoints => true,
        }
    }

    /// What is still wanted when `found`, gathered so far, is there; `None`: it is enough. About
    /// `bytes_max` bytes of scanned keys and pairs are enough whatever was wanted.
    pub(crate) fn rest(&self, found: &FetchResult, bytes_max: usize) -> Option<Self> {
        match (self, found) {
            (FetchRequest::Keys { keys, reserving }, FetchResult::Versions(versions)) => {
                let rest = keys.get(versions.len()..).unwrap_or_default();
                let reserving = *reserving;
                (!rest.is_empty()).then(|| FetchRequest::Keys { keys: rest.to_vec(), reserving })
            }
            (
                FetchRequest::Scan { end, keys_max, .. },
                FetchResult::Keys { keys, next: Some(next) },
            ) => {
                let bytes: usize = keys.iter().map(|key| key.len()).sum();
                let left = keys_max.saturating_sub(keys.len() as u64);
                let more = left > 0 && bytes <= bytes_max;
                more.then_some(FetchRequest::Scan { cursor: *next, end: *end, keys_max: left })
            }
            (
                FetchRequest::Numbers { end, keys_max, .. },
                FetchResult::Keys { keys, next: Some(next) },
            ) => {
                let bytes: usize = keys.iter().map(|key| key.len()).sum();
                let left = keys_max.saturating_sub(keys.len() as u64);
                let more = left > 0 && bytes <= bytes_max;
                more.then_some(FetchRequest::Numbers { from: *next, end: *end, keys_max: left })
            }
            (
                FetchRequest::Range { low, high, reverse, keys_max, with_values },
                FetchResult::Pairs { pairs, reached: Some(reached) },
            ) => {
                let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
                let left = keys_max.saturating_sub(pairs.len() as u64);
                let reached = Bound::Excluded(reached.clone());
                let (low, high) = match reverse {
                    false => (reached, high.clone()),
                    true => (low.clone(), reached),
                };
                let (reverse, with_values) = (*reverse, *with_values);
                let more = left > 0 && bytes <= bytes_max;
                more.then_some(FetchRequest::Range {
                    low,
                    high,
                    reverse,
                    keys_max: left,
                    with_values,
                })
            }
            _ => None,
        }
    }
}

impl FetchResult {
    /// Puts what was found next behind it.
    pub(crate) fn append(&mut self, more: Self) {
        match (self, more) {
            (FetchResult::Versions(all), FetchResult::Versions(more)) => all.extend(more),
            (FetchResult::Keys { keys, next }, FetchResult::Keys { keys: more, next: then }) => {
                keys.extend(more);
                *next = then;
            }
            (
                FetchResult::Pairs { pairs, reached },
                FetchResult::Pairs { pairs: more, reached: then },
            ) => {
                pairs.extend(more);
                *reached = then;
            }
            (this, more) => *this = more,
        }
    }
}

impl HeldVersion {
    /// A copy of a version.
    pub fn of(version: &Version<'_>) -> Self {
        let Version { value, expiry_ms, timestamp } = *version;
        Self { value: value.into(), expiry_ms, timestamp }
    }

    /// As if it were read here.
    pub fn version(&self) -> Version<'_> {
        Version { value: &self.value, expiry_ms: self.expiry_ms, timestamp: self.timestamp }
    }
}

impl Route {
    /// Whether a shard is on other nodes only, as far as routes know.
    pub fn is_remote(&self, place: usize, node: NodeId) -> bool {
        self.views[place].read().descriptor.replica_on(node).is_none()
    }

    /// Whether reads of a shard must be fetched: it is remote, or the replica here lags. That may
    /// change at any time, so a command looks once and keeps to that.
    pub fn must_fetch(&self, place: usize, node: NodeId) -> bool {
        let state = self.views[place].read();
        state.serving.lags() || state.descriptor.replica_on(node).is_none()
    }

    /// The fetches for these keys, by shard: for the shards at these places.
    pub fn missing_fetches<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        is_fetched: impl Fn(usize) -> bool,
    ) -> Vec<(ShardId, FetchRequest)> {
        let mut by_place: Vec<(usize, Vec<&[u8]>)> = Vec::new();
        for key in keys {
            let place = self.place(&self.key(key));
            match by_place.iter_mut().find(|(at, _)| *at == place) {
                Some((_, keys)) => keys.push(key),
                None => by_place.push((place, vec![key])),
            }
        }
        by_place.retain(|(place, _)| is_fetched(*place));
        by_place
            .into_iter()
            .map(|(place, keys)| (self.shard(place), FetchRequest::keys(keys)))
            .collect()
    }
}

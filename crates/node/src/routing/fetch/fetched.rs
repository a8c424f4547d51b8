//! The fetched data for one command, or for several that came together.

use keyspace::{ShardId, Timestamp};
use storage::engine::Version;

use super::{ANSWER_BYTES_MAX, FetchRequest, FetchResult, HeldVersion, KEYS_MAX};

/// The fetched data for one command, or for several that came together.
#[derive(Debug, Default)]
pub struct FetchedData(Vec<Piece>);

#[derive(Debug)]
struct Piece {
    shard: ShardId,
    at: Timestamp,
    want: FetchRequest,
    found: FetchResult,
}

impl FetchedData {
    /// None.
    pub const NONE: &'static Self = &Self(Vec::new());

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts an answer in. Of one shard, the newest counts.
    pub fn add(&mut self, shard: ShardId, at: Timestamp, want: FetchRequest, found: FetchResult) {
        self.0.retain(|piece| piece.shard != shard);
        self.0.push(Piece { shard, at, want, found });
    }

    /// What a key has, if it was fetched, and the time at which.
    pub fn version(&self, shard: ShardId, key: &[u8]) -> Option<(Option<Version<'_>>, Timestamp)> {
        let (found, at) = self.found(shard, key)?;
        Some((found.as_ref().ok().map(HeldVersion::version), at))
    }

    /// The same, or what stands for nothing.
    pub(crate) fn found(
        &self,
        shard: ShardId,
        key: &[u8],
    ) -> Option<(&Result<HeldVersion, Timestamp>, Timestamp)> {
        let piece = self.0.iter().find(|piece| piece.shard == shard)?;
        let (FetchRequest::Keys { keys, .. }, FetchResult::Versions(versions)) =
            (&piece.want, &piece.found)
        else {
            return None;
        };
        let place = keys.binary_search_by(|there| (**there).cmp(key)).ok()?;
        Some((versions.get(place)?, piece.at))
    }

    /// Whether the keys of each shard are what they were at one moment there: they came in one
    /// answer.
    pub fn is_of_one_moment(&self) -> bool {
        let is_one = |piece: &Piece| {
            let (FetchRequest::Keys { keys, .. }, FetchResult::Versions(versions)) =
                (&piece.want, &piece.found)
            else {
                return true;
            };
            let named: usize = keys.iter().map(|key| key.len()).sum();
            let held = versions.iter().flatten().map(|held| held.value.len());
            keys.len() <= KEYS_MAX && named + held.sum::<usize>() <= ANSWER_BYTES_MAX
        };
        self.0.iter().all(is_one)
    }

    /// The result of a shard, if it answers this fetch.
    pub fn of(&self, shard: ShardId, want: &FetchRequest) -> Option<&FetchResult> {
        let piece = self.0.iter().find(|piece| piece.shard == shard)?;
        piece.want.is_like(want).then_some(&piece.found)
    }
}

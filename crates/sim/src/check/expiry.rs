//! Does a value that was seen expired stay so, also after a restart with a slower clock?
//!
//! A version has one timestamp for ever, so an engine's version that a read found expired once, at
//! any time, must be found expired by every later read (SAFETY G2, G13).

use std::collections::BTreeSet;

use keyspace::{ShardId, Timestamp};

use super::Violation;

/// The versions that reads have found expired.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    expired: BTreeSet<(ShardId, Vec<u8>, Timestamp)>,
}

impl Sightings {
    /// A read found this version, alive or expired.
    ///
    /// # Errors
    /// It is alive, and was seen expired before.
    pub fn saw(
        &mut self,
        shard: ShardId,
        key: &[u8],
        version: Timestamp,
        alive: bool,
    ) -> Result<(), Violation> {
        let sighting = (shard, key.to_vec(), version);
        if !alive {
            self.expired.insert(sighting);
        } else if self.expired.contains(&sighting) {
            let text = format!(
                "shard {shard}: the value of {} written at {version:?} was seen expired, and now \
                 it is back",
                key.escape_ascii()
            );
            return Err(Violation::new("G13 what has expired stays so", text));
        }
        Ok(())
    }
}

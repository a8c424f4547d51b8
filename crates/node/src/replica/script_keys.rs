//! What a script's commands read: the newest values of their keys, under the guards of
//! [`read`], into a copy on which they run.

use command::{ObservedVersion, Reply, Step};
use txn::interactive::{InteractiveTxn, TxnTooLarge};

use crate::replica::read::{self, ReadTime};
use crate::routing::fetch::FetchedData;
use crate::routing::route::Route;

/// Why a script cannot go on here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptHalt {
    /// It touches a key of another shard than its queue's.
    OtherShard,
    /// These keys must be read first, and it runs again.
    Missing(Vec<Box<[u8]>>),
    /// It would read or write too much.
    TooMuch,
}

/// The keys as one script sees them.
pub struct ScriptKeys<'a> {
    /// Where they lie.
    pub route: &'a Route,
    /// The place of the only shard whose keys it may touch.
    pub place: Option<usize>,
    /// When its reads happen, and what time it is for it.
    pub now: ReadTime,
    /// What it has read and written.
    pub copy: &'a mut InteractiveTxn,
    /// Whether it has changed the copy.
    pub wrote: bool,
}

/// Whether all keys are as they were seen: then all was so at one moment.
pub fn are_unchanged(route: &Route, watched: &[(&[u8], ObservedVersion)], now: ReadTime) -> bool {
    watched.iter().all(|(key, seen)| read::is_as_seen(route, key, *seen, now))
}

/// Whether a key is read before a script runs: where another node leads, the replica here answers
/// only what is read a moment later.
pub fn is_read_first(route: &Route, key: &[u8], now: ReadTime) -> bool {
    !route.views[route.place_of_key(key)].read().serving.at(now.boot)
}

impl ScriptKeys<'_> {
    /// Runs the commands that are one to the script.
    ///
    /// # Errors
    /// The script ends here; the copy may hold a part of what it has written.
    pub fn run(&mut self, steps: &[Step<'_>]) -> Result<Vec<Reply>, ScriptHalt> {
        for step in steps {
            self.read(step)?;
            self.wrote |= matches!(step, Step::Write(_));
        }
        self.copy.run_all(steps).map_err(|TxnTooLarge| ScriptHalt::TooMuch)
    }

    /// Has the copy know what a command needs.
    fn read(&mut self, step: &Step<'_>) -> Result<(), ScriptHalt> {
        if let Some(place) = self.place {
            let mut is_elsewhere = false;
            step.each_key(&mut |key| is_elsewhere |= self.route.place_of_key(key) != place);
            if is_elsewhere {
                return Err(ScriptHalt::OtherShard);
            }
        }
        self.read_all(self.copy.missing_keys(step))
    }

    /// Has the copy know what these keys have in their shards.
    ///
    /// # Errors
    /// The script ends here.
    pub fn read_all(&mut self, keys: Vec<&[u8]>) -> Result<(), ScriptHalt> {
        let mut blocked = Vec::new();
        for key in keys {
            let (copy, fetched) = (&mut *self.copy, FetchedData::NONE);
            let learnt = read::seen_with(self.route, key, self.now, fetched, |version, seen| {
                copy.record_read(key, version.map(|v| (v.value, v.expiry_ms)), seen)
            });
            match learnt {
                Ok(Ok(())) => {}
                Ok(Err(TxnTooLarge)) => return Err(ScriptHalt::TooMuch),
                Err(_) => blocked.push(Box::from(key)),
            }
        }
        if blocked.is_empty() { Ok(()) } else { Err(ScriptHalt::Missing(blocked)) }
    }
}

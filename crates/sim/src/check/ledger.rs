//! Are all acknowledged entries still there after a restart, in order, and nothing else?
//!
//! The driver shows every group to the ledger before it goes to the log, and reports when it was
//! written. After each restart the shards report how far they were recovered:
//!
//! ```text
//!   groups   1 ─ 2 ─ 3 ─ 4 ─ 5 ─ 6 ─ 7
//!                    ▲           ▲   └ handed out, maybe written
//!              durable           written
//!
//!   after a power cut: a prefix that holds at least 1 … 3;  after a kill: at least 1 … 6 (R6)
//! ```
//!
//! A node must recover a prefix of *groups*, over all shards: no group behind a lost one. Besides
//! the entries each shard has its [`Versions`], as far as the node has applied.

use std::collections::{BTreeMap, VecDeque};

use command::Reply;
use keyspace::ShardId;
use node::replica::entry::{Header, Kind};
use node::replica::record;
use storage::log::{Group, Lsn};

use super::versions::Versions;
use super::{ReplicaObserver, Violation};

/// The number of a group, rising over the whole run.
pub type Number = u64;

/// Everything that was ever handed to the log and may still be there.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    shards: BTreeMap<ShardId, Shard>,
    groups: Number,
    /// The newest group whose write was reported as done.
    written: Number,
    /// The newest group known to be durable.
    durable: Number,
    /// Where the groups after it end.
    ends: VecDeque<(Number, Lsn)>,
}

/// One shard of the ledger.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    born: Number,
    dropped: Option<Number>,
    entries: Vec<Entry>,
    /// What its entries have made, as far as the node has applied them.
    pub versions: Versions,
    /// Replies to the batches applied and not answered yet.
    replies: VecDeque<Vec<Reply>>,
}

#[derive(Clone, Debug)]
struct Entry {
    group: Number,
    data: Vec<u8>,
}

const R6: &str = "R6 nothing is lost, invented or reordered";

impl ReplicaObserver for Ledger {
    /// # Errors
    /// Entries that do not follow each other.
    fn hand_out(&mut self, group: &Group) -> Result<Number, Violation> {
        self.take(group)
    }

    fn written(&mut self, group: Number, end: Lsn) {
        self.written = group;
        self.ends.push_back((group, end));
    }

    /// # Errors
    /// What [`Versions::apply`] finds; an entry that was never handed out.
    fn look(&mut self, shard: &node::replica::Replica) -> Result<(), Violation> {
        self.applied(shard.id(), shard.view().read().applied_index)
    }
}

impl Ledger {
    fn take(&mut self, group: &Group) -> Result<Number, Violation> {
        self.groups += 1;
        let number = self.groups;
        for record in group.iter() {
            let id = record.shard;
            match record.kind {
                record::SHARD_CREATED => {
                    // The entry before its first.
                    let born = Entry { group: number, data: Vec::new() };
                    let mut shard = Shard { born: number, ..Shard::default() };
                    shard.entries.push(born);
                    if self.shards.insert(id, shard).is_some() {
                        return Err(Violation::new(R6, format!("shard {id} is created twice")));
                    }
                }
                record::SHARD_DROPPED => {
                    if let Some(shard) = self.shards.get_mut(&id) {
                        shard.dropped = Some(number);
                    }
                }
                record::ENTRY => {
                    let Some((index, _, data)) = record::split_entry(record.payload) else {
                        return Err(Violation::new(R6, "a record that cannot be read"));
                    };
                    let shard = self.shards.get_mut(&id).ok_or_else(|| {
                        Violation::new(R6, format!("an entry of shard {id}, which has not started"))
                    })?;
                    if index != shard.entries.len() as u64 + 1 {
                        let last = shard.entries.len();
                        let text = format!("shard {id}: entry {index} follows entry {last}");
                        return Err(Violation::new(R6, text));
                    }
                    shard.entries.push(Entry { group: number, data: data.to_vec() });
                }
                _ => {}
            }
        }
        Ok(number)
    }

    /// The newest group that must survive if everything before `durable_end` does.
    pub fn durable(&mut self, durable_end: Lsn) -> Number {
        while let Some((group, _)) = self.ends.pop_front_if(|(_, end)| *end <= durable_end) {
            self.durable = group;
        }
        self.durable
    }

    /// The newest group that must survive the death of the process.
    pub fn last_written(&self) -> Number {
        self.written
    }

    /// The node was recovered, each shard to this index. `guaranteed` is the newest group that
    /// must be there.
    ///
    /// # Errors
    /// R6.
    pub fn restarted(
        &mut self,
        recovered: &BTreeMap<ShardId, u64>,
        guaranteed: Number,
    ) -> Result<(), Violation> {
        let lost = |id, what: String, group| {
            let text = format!(
                "shard {id}: {what} of group {group} is gone; groups up to \
                                {guaranteed} may not be lost"
            );
            Violation::new(R6, text)
        };
        let (mut newest_kept, mut oldest_lost) = (0, Number::MAX);
        for (id, shard) in &self.shards {
            let Some(index) = recovered.get(id) else {
                if shard.dropped.is_none() {
                    if shard.born <= guaranteed {
                        return Err(lost(id, "its beginning".into(), shard.born));
                    }
                    oldest_lost = oldest_lost.min(shard.born);
                }
                continue;
            };
            if let Some(group) = shard.dropped.filter(|group| *group <= guaranteed) {
                return Err(lost(id, "its end".into(), group));
            }
            let kept = *index as usize;
            if kept > shard.entries.len() {
                let text = format!("shard {id}: entry {index} was never handed out");
                return Err(Violation::new(R6, text));
            }
            newest_kept = newest_kept.max(shard.born);
            if let Some(last) = shard.entries[..kept].last() {
                newest_kept = newest_kept.max(last.group);
            }
            if let Some(first) = shard.entries.get(kept) {
                if first.group <= guaranteed {
                    return Err(lost(id, format!("entry {}", kept + 1), first.group));
                }
                oldest_lost = oldest_lost.min(first.group);
            }
        }
        if newest_kept >= oldest_lost {
            let text = format!("group {newest_kept} is there, group {oldest_lost} is not");
            return Err(Violation::new(R6, text));
        }
        if let Some(id) = recovered.keys().find(|id| !self.shards.contains_key(id)) {
            return Err(Violation::new(R6, format!("shard {id} was never created")));
        }
        self.cut(recovered)
    }

    /// Forgets what was lost, and begins anew with what is there.
    fn cut(&mut self, recovered: &BTreeMap<ShardId, u64>) -> Result<(), Violation> {
        self.shards.retain(|id, _| recovered.contains_key(id));
        for (id, shard) in &mut self.shards {
            shard.entries.truncate(recovered[id] as usize);
            shard.dropped = None;
            shard.replies.clear();
            // A promise is kept through every restart: its horizon was logged.
            let promised = shard.versions.promised;
            let mut versions = Versions::default();
            for entry in &shard.entries {
                versions.apply(&entry.data)?;
            }
            versions.promised = promised;
            shard.versions = versions;
        }
        // All of it was made durable again before anyone was served.
        (self.written, self.durable) = (self.groups, self.groups);
        self.ends.clear();
        Ok(())
    }

    /// The node has applied a shard's entries up to `index`.
    fn applied(&mut self, id: ShardId, index: u64) -> Result<(), Violation> {
        let Some(shard) = self.shards.get_mut(&id) else { return Ok(()) };
        while shard.versions.index < index {
            let Some(entry) = shard.entries.get(shard.versions.index as usize) else {
                let text = format!("shard {id} has applied entry {index}, never handed out");
                return Err(Violation::new("G3 log before apply", text));
            };
            let replies = shard.versions.apply(&entry.data)?;
            let is_batch = Header::decode(&entry.data)
                .is_some_and(|(header, _)| header.kind == Kind::Commands);
            if is_batch {
                shard.replies.push_back(replies);
            }
        }
        Ok(())
    }

    /// The replies that the next answered batch of a shard must give.
    pub fn next_replies(&mut self, id: ShardId) -> Option<Vec<Reply>> {
        self.shards.get_mut(&id)?.replies.pop_front()
    }

    /// One shard.
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        self.shards.get(&id)
    }

    /// As [`Self::shard`], to note a promise.
    pub fn shard_mut(&mut self, id: ShardId) -> Option<&mut Shard> {
        self.shards.get_mut(&id)
    }

    /// Bodies of the entries that a shard has applied, with their kinds.
    pub fn bodies(&self, id: ShardId) -> impl Iterator<Item = (Kind, &[u8])> {
        let shard = self.shards.get(&id);
        let applied = shard.map_or(0, |shard| shard.versions.index as usize);
        let entries = shard.into_iter().flat_map(move |shard| &shard.entries[..applied]);
        entries
            .filter_map(|entry| Header::decode(&entry.data))
            .map(|(header, body)| (header.kind, body))
    }
}

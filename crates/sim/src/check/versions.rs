//! Does every read answer as a store that forgets nothing would?
//!
//! One [`Versions`] per shard: the entries of its log applied by this crate's own judge, every
//! version kept for ever. The node's engine, which shares, replaces and collects, must not be told
//! apart from it by any read at or above the safe point (R9).

use std::collections::BTreeMap;

use command::{Reply, Write, codec};
use keyspace::Timestamp;
use node::replica::entry::{Header, Kind};

use super::Violation;
use crate::command::{Cell, Command};

/// All versions that a shard's keys ever had.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    keys: BTreeMap<Vec<u8>, Vec<(Timestamp, Option<Cell>)>>,
    /// Index of the newest entry applied.
    pub index: u64,
    /// Its timestamp, or the last one that had any.
    pub last: Timestamp,
    /// Below it, reads must fail.
    pub safe_point: Timestamp,
    /// As logged.
    pub horizon: Timestamp,
    /// Readers at timestamps were promised that nothing more happens up to here.
    pub promised: Timestamp,
}

impl Versions {
    /// Applies the next entry; the replies to its commands.
    ///
    /// # Errors
    /// G2: its timestamp does not rise, or a reader was promised otherwise.
    pub fn apply(&mut self, data: &[u8]) -> Result<Vec<Reply>, Violation> {
        self.index += 1;
        if data.is_empty() {
            return Ok(Vec::new());
        }
        let (header, mut body) = Header::decode(data)
            .ok_or_else(|| Violation::new("G3", "an entry in the log cannot be read"))?;
        if header.timestamp <= self.last {
            let text = format!("{:?} after {:?}", header.timestamp, self.last);
            return Err(Violation::new("G2 timestamps rise", text));
        }
        if header.timestamp <= self.promised {
            let text = format!(
                "entry {} at {:?}, but a reader was promised that nothing comes up to {:?}",
                self.index, header.timestamp, self.promised
            );
            return Err(Violation::new("G2 promises are kept", text));
        }
        self.last = header.timestamp;
        match header.kind {
            Kind::Commands => {
                let mut replies = Vec::new();
                for _ in 0..header.count {
                    let write = codec::decode(&mut body)
                        .map_err(|e| Violation::new("G3", format!("a command: {e}")))?;
                    replies.push(self.command(&write, header.timestamp)?);
                }
                return Ok(replies);
            }
            Kind::Horizon => self.horizon = self.horizon.max(timestamp(body)),
            Kind::SafePoint => self.safe_point = self.safe_point.max(timestamp(body)),
            // One node alone has nobody to ask.
            Kind::SessionBatch | Kind::Steps => {
                return Err(Violation::new("nothing invented", "what only several nodes do"));
            }
            Kind::Catalogue | Kind::KeyspaceSafePoint => {}
            Kind::Members | Kind::Check | Kind::Settle | Kind::Split | Kind::Merge => {}
        }
        Ok(Vec::new())
    }

    fn command(&mut self, write: &Write<'_>, at: Timestamp) -> Result<Reply, Violation> {
        let command = Command::of(write)
            .ok_or_else(|| Violation::new("nothing invented", format!("{write:?} in the log")))?;
        if command == Command::Flush {
            let keys: Vec<Vec<u8>> = self.keys.keys().cloned().collect();
            keys.iter().for_each(|key| self.put(key, None, at));
            return Ok(Reply::Ok);
        }
        let mut keys = Vec::new();
        write.each_key(&mut |key| keys.push(key));
        let mut cells: Vec<Option<Cell>> = keys.iter().map(|key| self.at(key, at)).collect();
        let mut replies = command.run_all(&keys, &mut cells);
        for (key, cell) in keys.iter().zip(cells) {
            // An end in the past is a deletion.
            let cell = cell.filter(|cell| cell.expiry_ms == 0 || cell.expiry_ms > at.millis());
            self.put(key, cell, at);
        }
        Ok(replies.pop().expect("a write answers"))
    }

    fn put(&mut self, key: &[u8], cell: Option<Cell>, at: Timestamp) {
        let versions = self.keys.entry(key.to_vec()).or_default();
        if versions.last().and_then(|(_, last)| last.as_ref()) != cell.as_ref() {
            versions.push((at, cell));
        }
    }

    /// What a key had at a time.
    pub fn at(&self, key: &[u8], at: Timestamp) -> Option<Cell> {
        let versions = self.keys.get(key)?;
        let (_, cell) = versions.iter().rev().find(|(written, _)| *written <= at)?;
        cell.clone().filter(|cell| cell.expiry_ms == 0 || cell.expiry_ms > at.millis())
    }

    /// What a key has, expired or not.
    pub fn newest(&self, key: &[u8]) -> Option<Cell> {
        self.keys.get(key)?.last()?.1.clone()
    }

    /// All keys that have a value at `now`.
    pub fn alive(&self, now: Timestamp) -> impl Iterator<Item = &Vec<u8>> {
        self.keys.keys().filter(move |key| self.at(key, now).is_some())
    }
}

fn timestamp(bytes: &[u8]) -> Timestamp {
    // Behind it pins may stand.
    Timestamp(bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)))
}

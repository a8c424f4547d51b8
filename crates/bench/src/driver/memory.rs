//! A map in the instrument: nothing leaves the process, so a run with it shows what the instrument
//! itself costs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::{Reply, Request};
use crate::load::random::scramble;
use crate::scenario::Action;

/// Parts, so that threads seldom wait for each other.
const SHARDS: usize = 64;

/// The map.
pub struct MemoryStore {
    shards: Vec<Mutex<HashMap<Bytes, Bytes>>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl MemoryStore {
    /// Does a request at once.
    pub fn ask(&self, request: &Request<'_>) -> Reply {
        let mixed = request.key.chunks(8).fold(0, |hash, piece| {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            scramble(hash ^ u64::from_le_bytes(bytes))
        });
        let shard = &self.shards[mixed as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        match request.action {
            Action::Get => {
                shard.get(request.key).map_or(Reply::Absent, |value| Reply::Value(value.clone()))
            }
            Action::Put | Action::Insert => {
                let value = Bytes::copy_from_slice(request.value);
                match shard.get_mut(request.key) {
                    Some(old) => *old = value,
                    None => {
                        shard.insert(Bytes::copy_from_slice(request.key), value);
                    }
                }
                Reply::Done
            }
            Action::Delete => {
                shard.remove(request.key);
                Reply::Done
            }
            // `driver::refusal` refuses transfers before a run.
            Action::Command(_) | Action::Transfer(_) | Action::Sleep(_) => Reply::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map() {
        let store = MemoryStore::default();
        let ask = |action: Action, value: &[u8]| {
            store.ask(&Request { action: &action, key: b"some longer key", other: b"", value })
        };
        assert_eq!(ask(Action::Get, b""), Reply::Absent);
        assert_eq!(ask(Action::Put, b"1"), Reply::Done);
        assert_eq!(ask(Action::Insert, b"2"), Reply::Done);
        assert_eq!(ask(Action::Get, b""), Reply::Value("2".into()));
        assert_eq!(ask(Action::Delete, b""), Reply::Done);
        assert_eq!(ask(Action::Get, b""), Reply::Absent);
    }
}

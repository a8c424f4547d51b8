//! FLUSHDB and FLUSHALL that scripts call, and questions about keyspaces that they have flushed.
//!
//! A flush empties the copy on which the script runs. All keys are known to be absent then, so
//! DBSIZE, KEYS, SCAN, RANDOMKEY, RANGE and questions about slots behind it are answered from the
//! copy.

use std::borrow::Cow;

use command::{Sink as _, ValueType, glob};
use gateway::resp::{KeyspaceRequest, Mode, RespWriter, Version};
use keyspace::slot_of;
use lua::Flow;
use txn::coordinator::TxnOutcome;
use txn::interactive::InteractiveTxn;

use super::host::{Halt, ScriptHost, is_scan};
use super::run::Ground;
use crate::event_loop::{ended_text, needs_other_layout, range_query, write_range};

const BUSY: &str = "BUSY conflict on keys of a keyspace that the transaction flushes; nothing was \
                    done. Send it again";

impl ScriptHost<'_> {
    /// FLUSHDB, or FLUSHALL: of the selected keyspace, or of all. In mode `cluster` there is one.
    pub(super) fn flush(&mut self, all: bool, version: Version, reply: &mut Vec<u8>) -> Flow {
        let Ground { route, copy, others, .. } = &mut self.ground;
        let Some(others) = others else {
            // It concerns other shards than that of its queue.
            self.halt = Some(Halt::TakesLong);
            return Flow::Abort;
        };
        let own = route.keyspace.id;
        let selected = self.selected.as_ref().map_or(own, |route| route.keyspace.id);
        let routes = self.runtime.routing.routes();
        let is_all = all && self.mode != Mode::Cluster;
        let each = routes.iter().map(|route| route.keyspace.id).filter(|_| is_all);
        for id in each.filter(|id| *id != selected).chain([selected]) {
            match id == own {
                true => copy.flush(),
                false => others.copy(self.runtime, id, copy).flush(),
            }
        }
        self.wrote = true;
        if let Some(touched) = &mut self.touched {
            touched.flush(is_all || selected == own);
        }
        RespWriter::new(reply, version).ok();
        Flow::Continue
    }

    /// Answers a question about the selected keyspace from the copy, if the script has flushed it.
    pub(super) fn shows_flushed(
        &mut self,
        asked: &KeyspaceRequest<'_>,
        version: Version,
        reply: &mut Vec<u8>,
    ) -> bool {
        let Ground { route, copy, others, .. } = &mut self.ground;
        let selected =
            self.selected.as_ref().filter(|other| other.keyspace.id != route.keyspace.id);
        let (route, copy) = match (selected, others) {
            (Some(other), Some(others)) => {
                (other, &*others.copy(self.runtime, other.keyspace.id, copy))
            }
            _ => (*route, &**copy),
        };
        if !copy.is_flushed() || !is_scan(asked) {
            return false;
        }
        let mut writer = RespWriter::new(reply, version);
        match needs_other_layout(asked, route) {
            Some(text) => writer.error(text),
            None => answer(asked, copy, &mut writer),
        }
        true
    }
}

/// The error text for a transaction that flushes, and was not done or may not be. It met others at
/// any key of the keyspace: the one by which it knows a shard's keys says nothing to its client.
pub(super) fn flush_ended_text(ended: &TxnOutcome) -> Cow<'static, str> {
    match ended {
        TxnOutcome::Busy(Some(_)) => BUSY.into(),
        ended => ended_text(ended),
    }
}

/// Answers a question about a keyspace that has no keys but those of a copy.
fn answer(asked: &KeyspaceRequest<'_>, copy: &InteractiveTxn, writer: &mut RespWriter<'_>) {
    let keys = || copy.live_keys().into_iter();
    let in_slot = |slot| keys().filter(move |key| slot_of(key) == slot);
    match asked {
        KeyspaceRequest::Size => writer.int(keys().len() as i64),
        KeyspaceRequest::RandomKey => match keys().next() {
            Some(key) => writer.bulk(&key),
            None => writer.nil(),
        },
        KeyspaceRequest::Keys { pattern } => {
            write_keys(writer, keys().filter(|key| glob::matches(pattern, key)));
        }
        KeyspaceRequest::Scan { pattern, type_filter, .. } => {
            let is_shown =
                type_filter.is_none_or(|t| ValueType::named(t) == Some(ValueType::String));
            let matches = |key: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, key));
            writer.array(2);
            writer.bulk(b"0");
            write_keys(writer, keys().filter(|key| is_shown && matches(key)));
        }
        KeyspaceRequest::CountInSlot { slot } => writer.int(in_slot(*slot).count() as i64),
        KeyspaceRequest::KeysInSlot { slot, count } => {
            write_keys(writer, in_slot(*slot).take(*count));
        }
        KeyspaceRequest::Range(range) => {
            write_range(range, &copy.range(&range_query(range)), writer);
        }
        KeyspaceRequest::Flush | KeyspaceRequest::FlushAll => unreachable!("flushes are no scans"),
    }
}

fn write_keys(writer: &mut RespWriter<'_>, keys: impl Iterator<Item = Box<[u8]>>) {
    let keys: Vec<_> = keys.collect();
    writer.array(keys.len());
    keys.iter().for_each(|key| writer.bulk(key));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_that_loses_is_busy_as_other_transactions_are() {
        let ended = TxnOutcome::Busy(Some(Box::from(*b"41")));
        let [flush, other] = [flush_ended_text(&ended), ended_text(&ended)];
        let ends = |text: &str| {
            let (conflict, end) = text.split_once("; ").expect("it says what was done");
            assert!(conflict.starts_with("BUSY conflict on key"), "{text}");
            end.to_owned()
        };
        assert_eq!(ends(&flush), ends(&other));
        assert!(!flush.contains("41"), "no client has named that key: {flush}");
        let unknown = TxnOutcome::Unknown;
        assert_eq!(flush_ended_text(&unknown), ended_text(&unknown));
    }
}

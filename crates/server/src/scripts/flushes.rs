//! FLUSHDB and FLUSHALL that scripts call, and questions about keyspaces that they have flushed.
//!
//! A flush empties the copy on which the script runs. All keys are known to be absent then, so
//! DBSIZE, KEYS, SCAN and RANDOMKEY behind it are answered from the copy.

use command::{Sink as _, ValueType, glob};
use gateway::resp::{KeyspaceRequest, Mode, RespWriter, Version};
use lua::Flow;

use super::host::{Halt, ScriptHost};
use super::run::Ground;

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
        let copy = match (selected, others) {
            (Some(other), Some(others)) => others.copy(self.runtime, other.keyspace.id, copy),
            _ => copy,
        };
        if !copy.is_flushed() {
            return false;
        }
        let keys = copy.live_keys();
        let matching = |pattern: &[u8]| {
            let all = keys.iter().filter(|key| glob::matches(pattern, key));
            all.cloned().collect::<Vec<_>>()
        };
        let mut writer = RespWriter::new(reply, version);
        let write_all = |writer: &mut RespWriter<'_>, keys: &[Box<[u8]>]| {
            writer.array(keys.len());
            keys.iter().for_each(|key| writer.bulk(key));
        };
        match asked {
            KeyspaceRequest::Size => writer.int(keys.len() as i64),
            KeyspaceRequest::RandomKey => match keys.first() {
                Some(key) => writer.bulk(key),
                None => writer.nil(),
            },
            KeyspaceRequest::Keys { pattern } => write_all(&mut writer, &matching(pattern)),
            KeyspaceRequest::Scan { pattern, type_filter, .. } => {
                let is_shown =
                    type_filter.is_none_or(|t| ValueType::named(t) == Some(ValueType::String));
                let keys = if is_shown { matching(pattern.unwrap_or(b"*")) } else { Vec::new() };
                writer.array(2);
                writer.bulk(b"0");
                write_all(&mut writer, &keys);
            }
            _ => return false,
        }
        true
    }
}

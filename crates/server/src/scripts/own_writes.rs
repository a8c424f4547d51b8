//! Commands on a whole keyspace (KEYS, SCAN, DBSIZE, RANDOMKEY, CLUSTER COUNTKEYSINSLOT and
//! GETKEYSINSLOT) of a script or an EXEC that has written keys there: what the shards say, and over
//! it what was written.
//!
//! ```text
//!   SET new 1, DEL old ──► on the copy        KEYS * ──► shards: old, other
//!                             └──────── written: new, not old ──┴──► other, new
//! ```
//!
//! SCAN shows keys that were written and have a value with its first page, and leaves out those
//! that were written from all pages. RANGE shows no own writes. After a flush all comes from the
//! copy ([`super::flushes`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use command::{Sink as _, ValueType, glob};
use gateway::resp::{Args, KeyspaceRequest, RespWriter, Version};
use keyspace::slot_of;
use lua::Flow;
use node::routing::route::Route;

use super::host::{Halt, ScriptHost};
use super::swaps::elements;

const NOT_SCANNED: &str = "ERR the keyspace could not be looked through in time";
/// How often RANDOMKEY asks for another key when it has got one that was deleted here.
const RANDOM_KEYS_MAX: usize = 8;

/// Keys that were written, and whether they have a value.
type Written = BTreeMap<Box<[u8]>, bool>;

/// Why there is no answer.
enum NoAnswer {
    Halted(Halt),
    /// This is said in its place.
    Error(Vec<u8>),
}

impl From<String> for NoAnswer {
    fn from(text: String) -> Self {
        Self::Error(format!("-ERR {text}\r\n").into_bytes())
    }
}

impl ScriptHost<'_> {
    /// Runs a command on the selected keyspace as a whole, beside the copy.
    pub(super) fn scan(
        &mut self,
        asked: &KeyspaceRequest<'_>,
        args: Args<'_>,
        version: Version,
        reply: &mut Vec<u8>,
    ) -> Flow {
        let selected = self.selected.clone();
        let written = self.keys_of(selected.as_ref()).copy.written_keys();
        let written: Written = written.map(|(key, is_live)| (key.into(), is_live)).collect();
        let answered = match written.is_empty() || matches!(asked, KeyspaceRequest::Range(_)) {
            true => self.ask_shards(args, version).map(|bytes| reply.extend(bytes)),
            false => {
                let mut bytes = Vec::new();
                let mut writer = RespWriter::new(&mut bytes, version);
                self.scan_over(selected.as_ref(), &written, asked, args, &mut writer)
                    .map(|()| reply.append(&mut bytes))
            }
        };
        match answered {
            Ok(()) => {}
            Err(NoAnswer::Error(bytes)) => reply.extend(bytes),
            Err(NoAnswer::Halted(halt)) => {
                self.halt = Some(halt);
                return Flow::Abort;
            }
        }
        Flow::Continue
    }

    /// What the shards say.
    fn ask_shards(&mut self, args: Args<'_>, version: Version) -> Result<Vec<u8>, NoAnswer> {
        self.ask_shards_words(args.iter(), version)
    }

    fn ask_shards_words<'w>(
        &mut self,
        words: impl ExactSizeIterator<Item = &'w [u8]>,
        version: Version,
    ) -> Result<Vec<u8>, NoAnswer> {
        let name = self.selected_name().to_owned();
        let mut bytes = Vec::new();
        let ran = self.with_own_client(&name, version, |client, is_over| {
            bytes = client.ask(words, is_over)?;
            Ok(())
        });
        match ran {
            Ok(()) if bytes.starts_with(b"-") => Err(NoAnswer::Error(bytes)),
            Ok(()) => Ok(bytes),
            Err(_) => Err(NoAnswer::Error(format!("-{NOT_SCANNED}\r\n").into_bytes())),
        }
    }

    fn scan_over(
        &mut self,
        selected: Option<&Arc<Route>>,
        written: &Written,
        asked: &KeyspaceRequest<'_>,
        args: Args<'_>,
        writer: &mut RespWriter<'_>,
    ) -> Result<(), NoAnswer> {
        let live = || written.iter().filter(|(_, is_live)| **is_live).map(|(key, _)| &**key);
        let in_slot = |slot| move |key: &&[u8]| slot_of(key) == slot;
        match *asked {
            KeyspaceRequest::Size => {
                let count = self.count_over(selected, written, args, |_| true)?;
                writer.int(count);
            }
            KeyspaceRequest::CountInSlot { slot } => {
                let count = self.count_over(selected, written, args, |key| slot_of(key) == slot)?;
                writer.int(count);
            }
            KeyspaceRequest::Keys { pattern } => {
                let theirs = self.ask_shards(args, Version::V2)?;
                let own = live().filter(|key| glob::matches(pattern, key));
                write_over(&theirs, written, own, usize::MAX, writer)?;
            }
            KeyspaceRequest::KeysInSlot { slot, count } => {
                let theirs = self.ask_shards(args, Version::V2)?;
                write_over(&theirs, written, live().filter(in_slot(slot)), count, writer)?;
            }
            KeyspaceRequest::Scan { cursor, pattern, type_filter, .. } => {
                let theirs = self.ask_shards(args, Version::V2)?;
                let (next, page) = page(&theirs)?;
                let is_first = cursor == 0;
                let is_shown =
                    type_filter.is_none_or(|t| ValueType::named(t) == Some(ValueType::String));
                let own = live().filter(|key| {
                    is_first && is_shown && pattern.is_none_or(|all| glob::matches(all, key))
                });
                writer.array(2);
                writer.bulk(next);
                write_over(page, written, own, usize::MAX, writer)?;
            }
            KeyspaceRequest::RandomKey => match self.random_key(written, args)? {
                Some(key) => writer.bulk(&key),
                None => writer.nil(),
            },
            KeyspaceRequest::Range(_) | KeyspaceRequest::Flush | KeyspaceRequest::FlushAll => {
                unreachable!("these are asked elsewhere")
            }
        }
        Ok(())
    }

    /// How many keys there are of which `is_meant` is true, if the shards count those.
    fn count_over(
        &mut self,
        selected: Option<&Arc<Route>>,
        written: &Written,
        args: Args<'_>,
        is_meant: impl Fn(&[u8]) -> bool,
    ) -> Result<i64, NoAnswer> {
        let meant: Vec<_> = written.iter().filter(|(key, _)| is_meant(key)).collect();
        // Whether the shards count a key that was written is known when it was read.
        let mut keys = self.keys_of(selected);
        let keyspace = keys.route.keyspace.id;
        let unread = meant.iter().map(|(key, _)| &***key);
        let unread = unread.filter(|key| !keys.copy.has_read(key)).collect();
        keys.read_all(unread).map_err(|halt| NoAnswer::Halted(Halt::Keys(keyspace, halt)))?;
        let counted = meant.iter().filter(|(key, _)| keys.copy.had_value(key)).count();
        let live = meant.iter().filter(|(_, is_live)| **is_live).count();
        let theirs = self.ask_shards(args, Version::V2)?;
        let number = std::str::from_utf8(&theirs).ok().and_then(|text| text.strip_prefix(':'));
        let number = number.and_then(|text| text.trim_end().parse::<i64>().ok());
        let number = number.ok_or_else(|| NoAnswer::from("no count of keys".to_owned()))?;
        // They may have counted when another client had deleted some: then this is not committed.
        Ok((number - counted as i64).max(0) + live as i64)
    }

    /// Some key that has a value.
    fn random_key(
        &mut self,
        written: &Written,
        args: Args<'_>,
    ) -> Result<Option<Box<[u8]>>, NoAnswer> {
        for _ in 0..RANDOM_KEYS_MAX {
            let theirs = self.ask_shards(args, Version::V2)?;
            let listed = [b"*1\r\n", &*theirs].concat();
            let Some(key) = elements(&listed).ok().and_then(|all| all.first().copied()) else {
                break;
            };
            if written.get(key) != Some(&false) {
                return Ok(Some(key.into()));
            }
        }
        if let Some((key, _)) = written.iter().find(|(_, is_live)| **is_live) {
            return Ok(Some(key.clone()));
        }
        let all = self.ask_shards_words([&b"KEYS"[..], b"*"].into_iter(), Version::V2)?;
        let left = elements(&all)?.into_iter().find(|key| !written.contains_key(*key));
        Ok(left.map(Box::from))
    }
}

/// The next cursor of a reply to SCAN, and its keys as a list.
fn page(reply: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let parts = || {
        let rest = reply.strip_prefix(b"*2\r\n$")?;
        let end = rest.iter().position(|byte| *byte == b'\n')? + 1;
        let length: usize = std::str::from_utf8(&rest[..end]).ok()?.trim_end().parse().ok()?;
        Some((rest.get(end..end + length)?, rest.get(end + length + 2..)?))
    };
    parts().ok_or_else(|| "its list is unreadable".to_owned())
}

/// The keys of a list that were not written, and some that were.
fn write_over<'w>(
    theirs: &'w [u8],
    written: &Written,
    own: impl Iterator<Item = &'w [u8]>,
    keys_max: usize,
    writer: &mut RespWriter<'_>,
) -> Result<(), NoAnswer> {
    let theirs = elements(theirs)?.into_iter().filter(|key| !written.contains_key(*key));
    let all: BTreeSet<&[u8]> = theirs.chain(own).take(keys_max).collect();
    writer.array(all.len());
    all.into_iter().for_each(|key| writer.bulk(key));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Written {
        [(b"new".as_slice(), true), (b"old", false)]
            .into_iter()
            .map(|(key, is_live)| (key.into(), is_live))
            .collect()
    }

    #[test]
    fn written_keys_are_shown_and_deleted_ones_are_not() {
        let theirs = b"*3\r\n$3\r\nold\r\n$3\r\nnew\r\n$1\r\nz\r\n";
        for (keys_max, expected) in
            [(usize::MAX, &b"*2\r\n$3\r\nnew\r\n$1\r\nz\r\n"[..]), (1, b"*1\r\n$1\r\nz\r\n")]
        {
            let mut out = Vec::new();
            let mut writer = RespWriter::new(&mut out, Version::V2);
            let own = [&b"new"[..]].into_iter();
            assert!(write_over(theirs, &written(), own, keys_max, &mut writer).is_ok());
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn page_of_scan_is_read() {
        let reply = b"*2\r\n$2\r\n17\r\n*1\r\n$1\r\nk\r\n";
        assert_eq!(page(reply), Ok((&b"17"[..], &b"*1\r\n$1\r\nk\r\n"[..])));
        for cut in 0..12 {
            assert!(page(&reply[..cut]).is_err(), "{cut}");
        }
    }
}

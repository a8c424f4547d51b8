//! SWAPDB: two keyspaces exchange their keys, at one moment.
//!
//! ```text
//!   read all keys of both ──► flush both ──► write each one's values into the other
//! ```
//!
//! All of it happens on copies, like what a script does, and is committed with what was read. The
//! flushes lock both keyspaces whole; where a key has appeared that was not read, they are refused
//! ([`command::Transaction::flushes_watched_only`]), and all begins again. Placement, durability
//! and the other settings stay where they are: the keys move.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of keys and values of both | as of any script | an error; nothing is done |
//! | bytes of all names of one keyspace | `output_bytes_max` | an error; nothing is done |

use std::collections::BTreeSet;
use std::sync::Arc;

use command::{Expiry, Read, Reply, SetIf, SetReply, Sink as _, Step, Write};
use gateway::resp::{RespWriter, Version};
use lua::Flow;
use node::replica::script_keys::ScriptKeys;
use node::routing::route::Route;

use super::host::{Halt, Named, ScriptHost};

/// A key's name, its value and when that ends.
type Valued = (Box<[u8]>, Box<[u8]>, Expiry);

/// Why a keyspace was not exchanged.
enum NotSwapped {
    Halted(Halt),
    /// All keys could not be listed, for this reason.
    Unlisted(String),
}

impl ScriptHost<'_> {
    /// SWAPDB.
    pub(super) fn swap(
        &mut self,
        names: [&[u8]; 2],
        version: Version,
        reply: &mut Vec<u8>,
    ) -> Flow {
        if self.ground.others.is_none() || !self.ground.is_long {
            self.halt = Some(Halt::TakesLong);
            return Flow::Abort;
        }
        let mut both = Vec::with_capacity(names.len());
        for name in names {
            both.push(match self.find_keyspace(name, version) {
                Named::Own => None,
                Named::Other(route) => Some(route),
                other => return self.without_keyspace(&other, version, reply),
            });
        }
        match self.exchange(both[0].as_ref(), both[1].as_ref()) {
            Ok(()) => RespWriter::new(reply, version).ok(),
            Err(NotSwapped::Unlisted(why)) => RespWriter::new(reply, version).error(format!(
                "ERR SWAPDB could not list all keys of a keyspace ({why}); nothing was done"
            )),
            Err(NotSwapped::Halted(halt)) => {
                self.halt = Some(halt);
                return Flow::Abort;
            }
        }
        Flow::Continue
    }

    /// Each keyspace gets what the other has.
    fn exchange(
        &mut self,
        first: Option<&Arc<Route>>,
        second: Option<&Arc<Route>>,
    ) -> Result<(), NotSwapped> {
        let id = |route: Option<&Arc<Route>>| route.map(|route| route.keyspace.id);
        if id(first) == id(second) {
            return Ok(());
        }
        let [of_first, of_second] = [self.take_all(first)?, self.take_all(second)?];
        self.put_all(second, of_first).map_err(NotSwapped::Halted)?;
        self.put_all(first, of_second).map_err(NotSwapped::Halted)
    }

    /// Reads all keys of a keyspace, and flushes it.
    fn take_all(&mut self, route: Option<&Arc<Route>>) -> Result<Vec<Valued>, NotSwapped> {
        let keys = self.all_keys(route)?;
        let reads = keys.iter().flat_map(|key| {
            let ends = Read::Ttl { key, millis: true, absolute: true };
            [Step::Read(Read::Get(key)), Step::Read(ends)]
        });
        let reads: Vec<Step<'_>> = reads.collect();
        let replies = self.run_in(route, &reads).map_err(NotSwapped::Halted)?;
        let mut all = Vec::with_capacity(keys.len());
        for (key, pair) in keys.iter().zip(replies.chunks_exact(2)) {
            // One that has ended since it was listed has no value.
            let [Reply::Bulk(value), Reply::Int(ends)] = pair else { continue };
            let expiry = u64::try_from(*ends).map_or(Expiry::Never, Expiry::At);
            all.push((key.clone(), value[..].into(), expiry));
        }
        self.keys_of(route).copy.flush_read();
        self.wrote = true;
        Ok(all)
    }

    /// The names of all keys, as the script sees them.
    fn all_keys(&mut self, route: Option<&Arc<Route>>) -> Result<BTreeSet<Box<[u8]>>, NotSwapped> {
        let ScriptKeys { route: of, copy, .. } = self.keys_of(route);
        let mut keys: BTreeSet<Box<[u8]>> = copy.live_keys().into_iter().collect();
        if copy.is_flushed() {
            return Ok(keys);
        }
        let name = of.keyspace.name.clone();
        let mut listed = Vec::new();
        let asked = self.with_own_client(&name, Version::V2, |client, is_over| {
            listed = client.ask([&b"KEYS"[..], b"*"].into_iter(), is_over)?;
            Ok(())
        });
        asked.map_err(|error| NotSwapped::Unlisted(error.to_string()))?;
        let listed = elements(&listed).map_err(NotSwapped::Unlisted)?;
        // All at once, and those as well that it has written without a look.
        let mut of = self.keys_of(route);
        let unread = listed.iter().copied().filter(|key| !of.copy.has_read(key)).collect();
        let keyspace = of.route.keyspace.id;
        let read = of.read_all(unread).map_err(|halt| Halt::Keys(keyspace, halt));
        read.map_err(NotSwapped::Halted)?;
        keys.extend(listed.into_iter().map(Box::from));
        Ok(keys)
    }

    fn put_all(&mut self, route: Option<&Arc<Route>>, all: Vec<Valued>) -> Result<(), Halt> {
        let (when, reply) = (SetIf::Always, SetReply::Ok);
        let sets = all.iter().map(|(key, value, expiry)| Write::Set {
            key,
            value,
            when,
            expiry: *expiry,
            reply,
        });
        let sets: Vec<Step<'_>> = sets.map(Step::Write).collect();
        self.run_in(route, &sets).map(|_| ())
    }
}

/// The elements of a RESP2 array of bulk strings, or the error that came in its place.
pub(super) fn elements(reply: &[u8]) -> Result<Vec<&[u8]>, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let unreadable = || "its list is unreadable".to_owned();
    let line = |bytes: &'_ [u8]| bytes.windows(2).position(|two| two == b"\r\n");
    let end = line(reply).ok_or_else(unreadable)?;
    let Some((b'*', _)) = reply[..end].split_first() else {
        return Err(text(reply[..end].strip_prefix(b"-ERR ").unwrap_or(&reply[..end])));
    };
    let (mut rest, mut all) = (&reply[end + 2..], Vec::new());
    while let Some((b'$', after)) = rest.split_first() {
        let end = line(after).ok_or_else(unreadable)?;
        let length = text(&after[..end]).parse::<usize>().map_err(|_| unreadable())?;
        let from = end + 2;
        all.push(after.get(from..from + length).ok_or_else(unreadable)?);
        rest = after.get(from + length + 2..).ok_or_else(unreadable)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_keys_is_read() {
        let list = b"*3\r\n$1\r\na\r\n$0\r\n\r\n$4\r\n\r\n$1\r\n";
        assert_eq!(elements(list), Ok(vec![&b"a"[..], b"", b"\r\n$1"]));
        assert_eq!(elements(b"*0\r\n"), Ok(Vec::new()));
        assert_eq!(elements(b"-ERR too long\r\n"), Err("too long".into()));
        for cut in 0..list.len() {
            assert!(elements(&list[..cut]).map_or(true, |all| all.len() < 3), "{cut}");
        }
    }
}

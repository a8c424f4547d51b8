//! RENAME, RENAMENX and COPY from one shard to another.
//!
//! ```text
//!   look at both, as they are at one moment ──► the source is not there, or the target may not be:
//!                                               answered
//!        └──► a transaction: if the source is that version still, and the target as it must be,
//!             then write the one and delete the other ──► changed meanwhile: look again
//! ```

use keyspace::Timestamp;
use node::command::{
    Expiry, Read, Refusal, Seen, SetIf, SetReply, Sink as _, Step, Transaction, Write,
};
use node::entry::Waiter;
use node::fetch::Fetched;
use node::read::{Blocked, Now};
use node::route::Route;

use super::EventLoop;
use super::connection::{Connection, Frame, Protocol, Slot};
use super::resp::{Done, crosses};
use super::serve::place;
use super::transactions::Part;
use crate::gateway::resp::{Gather, Session};

/// A command that takes a value from one key to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move<'a> {
    from: &'a [u8],
    to: &'a [u8],
    /// Whether the source stays.
    copies: bool,
    /// Whether the target may have a value.
    replaces: bool,
}

impl<'a> Move<'a> {
    /// If a write is one, over several shards.
    pub fn of(write: &Write<'a>, route: &Route) -> Option<Self> {
        let (from, to, copies, replaces) = match *write {
            Write::Rename { from, to, if_absent } => (from, to, false, !if_absent),
            Write::Copy { from, to, replace } => (from, to, true, replace),
            _ => return None,
        };
        crosses(route, [from, to]).then_some(Self { from, to, copies, replaces })
    }

    /// As its client would send it.
    fn command(&self) -> Vec<u8> {
        let name: &[u8] = match (self.copies, self.replaces) {
            (true, _) => b"COPY",
            (false, true) => b"RENAME",
            (false, false) => b"RENAMENX",
        };
        let mut args = vec![name, self.from, self.to];
        if self.copies && self.replaces {
            args.push(b"REPLACE");
        }
        let mut out = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            out.extend_from_slice(arg);
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    fn transaction<'t>(&self, found: &'t Found) -> Transaction<'t>
    where
        'a: 't,
    {
        let mut watched = vec![(self.from, Seen::Version(found.version))];
        if !self.replaces {
            watched.push((self.to, Seen::Nothing(Timestamp::MAX)));
        }
        let expiry = if found.expiry_ms == 0 { Expiry::Never } else { Expiry::At(found.expiry_ms) };
        let (key, value) = (self.to, &*found.value);
        let (when, reply) = (SetIf::Always, SetReply::Ok);
        let mut commands = vec![Step::Write(Write::Set { key, value, when, expiry, reply })];
        if !self.copies {
            commands.push(Step::Write(Write::Delete { key: self.from }));
        }
        Transaction { watched, commands }
    }
}

/// What the source has.
struct Found {
    value: Vec<u8>,
    expiry_ms: u64,
    version: Timestamp,
}

/// Both keys at one moment.
enum Looked {
    /// There is no source.
    Nothing,
    /// The target has a value that it must not have.
    Taken,
    Found(Found),
    /// Something has changed between two looks.
    Unsure,
}

impl EventLoop {
    /// Moves or copies a value to another shard.
    pub(super) fn move_value(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        what: &Move<'_>,
        (mut now, mut fetched): (Now, Fetched),
        muted: bool,
    ) -> Done {
        if !connection.pending.is_empty() {
            connection.barrier = true;
            return Done::PutOff;
        }
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let found = loop {
            match self.look_at_both(connection, &route, what, now, &fetched) {
                Ok(Looked::Unsure) => (now, fetched) = (self.moment(), Fetched::default()),
                Ok(looked) => break looked,
                Err(blocked) => {
                    connection.fetched = fetched;
                    let keys = [what.from, what.to];
                    self.wait_or_fetch(at, connection, &route, blocked, now, &keys);
                    return Done::PutOff;
                }
            }
        };
        let found = match found {
            Looked::Found(found) => found,
            _ if muted => return Done::Yes,
            Looked::Nothing if !what.copies => {
                session.writer(&mut connection.output).refused(Refusal::NoSuchKey);
                return Done::Yes;
            }
            _ => {
                session.writer(&mut connection.output).int(0);
                return Done::Yes;
            }
        };
        let done = self.put_transaction(at, connection, Box::new(what.transaction(&found)));
        if let Err(refused) = done {
            return match refused {
                None => Done::PutOff,
                Some(text) => self.refuse(connection, session, text, muted),
            };
        }
        let gather = if what.copies || !what.replaces { Gather::One } else { Gather::Ok };
        let parts = vec![Part::Moved(gather, what.command().into())];
        let frame = Frame::Resp { version: session.version(), muted };
        connection.pending.push_back(Slot::executing(parts, frame));
        Done::Yes
    }

    fn look_at_both(
        &self,
        connection: &mut Connection,
        route: &Route,
        what: &Move<'_>,
        now: Now,
        fetched: &Fetched,
    ) -> Result<Looked, Blocked> {
        let both = Read::Exists(vec![what.from, what.to]);
        let mut nowhere = node::command::Collect::default();
        let seen = node::read::look(route, &both, now, fetched, &mut nowhere)?;
        let is_first = connection.looked.as_ref().is_none_or(|(_, last)| *last != seen);
        if is_first && self.hub.peers.is_some() {
            connection.looked = Some((0, seen));
            return Ok(Looked::Unsure);
        }
        let found = node::read::value_with(route, what.from, now, fetched, |version| {
            version.map(|version| Found {
                value: version.value.to_vec(),
                expiry_ms: version.expiry_ms,
                version: version.timestamp,
            })
        })?;
        connection.looked = None;
        Ok(match (found, seen[1]) {
            _ if seen[0] == Timestamp::ZERO => Looked::Nothing,
            (_, to) if to != Timestamp::ZERO && !what.replaces => Looked::Taken,
            (Some(found), _) if found.version == seen[0] => Looked::Found(found),
            _ => Looked::Unsure,
        })
    }

    /// If a command that has met a change is one of these, it is run again.
    pub(super) fn move_again(&mut self, waiter: Waiter) -> bool {
        let at = place(waiter);
        let connection = self.connection_at(at);
        let Some((command, muted)) = connection.take_moved() else { return false };
        connection.input.splice(0..0, command);
        connection.put_off_muted = Some(muted);
        if let Protocol::Resp(_, ranges) = &mut connection.protocol {
            ranges.begin_again();
        }
        self.enqueue(at);
        true
    }
}

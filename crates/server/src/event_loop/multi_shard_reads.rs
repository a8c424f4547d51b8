//! Reads of keys in several shards, and reads of a remote shard whose answer comes in pieces. All
//! values are of one moment (SAFETY G7).
//!
//! ```text
//!   look: versions 7, 9 ──► look again, with a later clock: 7, 9 ──► answered: equal between both
//!                      └─► another version: look again, up to LOOKS_MAX ──► the keys are locked
//!                                              LCS: up to LOOKS_UNLOCKED_MAX ──► busy
//! ```
//!
//! Each look is a linearizable read of every key by itself. A version that was the newest of its
//! key in both looks was the newest at every moment between them. So two equal looks show all keys
//! at one moment. A look waits for keys that a transaction has locked.
//!
//! What WATCH saw counts as a first look. If a later look differs while WATCH's reply is still
//! unsent, the later one replaces it: WATCH and the read then take effect at one moment. A node
//! alone holds the guards of all shards at once, and needs one look only.

use command::{ObservedVersion, Read, Step, Transaction};
use node::routing::route::Route;

use super::EventLoop;
use super::connection::Connection;
use super::moment::ReadMoment;
use super::pending_reply::ReplyFrame;
use super::reply_limit::{LimitedSink, TOO_LONG};
use super::resp::CommandOutcome;
use super::transactions::ExecPart;
use gateway::resp::Session;

/// Looks that may see something else than those before, until the keys are locked for a read.
const LOOKS_MAX: u32 = 4;
/// Looks for LCS, whose work is too long for an entry, so that it locks nothing. Beyond: busy.
const LOOKS_UNLOCKED_MAX: u32 = 64;

const CHANGES_ALL_THE_TIME: &str = "BUSY conflict: other clients kept changing the keys between \
                                    two reads; nothing was done. Send it again";

impl EventLoop {
    /// Serves a read of keys in several shards.
    pub(super) fn read_multi_shard(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        read: &Read<'_>,
        mut moment: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let before = connection.output.bytes.len();
        if connection.next.looked.is_none()
            && let Some(seen) = watched(session, read)
        {
            // That was a first look. The next is at what is now.
            connection.next.looked = Some((0, seen));
            moment = ReadMoment::at(self.moment());
        }
        let are_watched =
            session.watches() && read.keys().iter().all(|key| session.seen(key).is_some());
        loop {
            if are_watched
                && self.is_contending(
                    at,
                    connection,
                    &route,
                    read.keys(),
                    moment.now,
                    &moment.fetched,
                )
            {
                return CommandOutcome::Deferred;
            }
            let seen = match self.look(at, connection, session, &route, read, &mut moment) {
                LookOutcome::Versions(seen) => seen,
                LookOutcome::Deferred => return CommandOutcome::Deferred,
                LookOutcome::Refused(text) => {
                    connection.next.looked = None;
                    return self.refuse(connection, session, &text, muted);
                }
            };
            let count = match connection.next.looked.take() {
                Some((_, last)) if last == seen => {
                    self.note_read(&route, read, connection.next.lookups.as_deref());
                    if connection.may_watch_later(before - connection.output.sent) {
                        session.watch_later(read.keys(), &seen);
                    }
                    if muted {
                        connection.output.bytes.truncate(before);
                    }
                    if connection.tracking.is_some() {
                        self.show_observed(connection, session, read, &seen, before);
                    }
                    return CommandOutcome::Answered;
                }
                Some((count, _)) => count + 1,
                None => 1,
            };
            connection.output.bytes.truncate(before);
            if count == LOOKS_MAX
                && let Some((transaction, part)) = locking(read)
            {
                let done = self.put_transaction(at, connection, Box::new(transaction));
                if let Err(Some(text)) = done {
                    return self.refuse(connection, session, text, muted);
                }
                connection.owe_locked(part, ReplyFrame::Resp { version: session.version(), muted });
                return CommandOutcome::Answered;
            }
            if count == LOOKS_UNLOCKED_MAX {
                return self.refuse(connection, session, CHANGES_ALL_THE_TIME, muted);
            }
            connection.next.looked = Some((count, seen));
            // What was fetched was so before: the next look is at what is then.
            moment = ReadMoment::at(self.moment());
        }
    }

    /// Looks once at all keys, and writes the reply as it would be. Unless it has seen them all,
    /// nothing is written.
    fn look(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        route: &Route,
        read: &Read<'_>,
        moment: &mut ReadMoment,
    ) -> LookOutcome {
        let before = connection.output.bytes.len();
        let ReadMoment { now, fetched } = moment;
        let mut writer = session.writer(&mut connection.output.bytes);
        let mut capped = LimitedSink::new(&mut writer, self.config.output_bytes_max as usize);
        let looked = node::replica::read::look(route, read, *now, fetched, &mut capped);
        let is_long = capped.overflown;
        let blocked = match looked {
            Ok(seen) if !is_long => return LookOutcome::Versions(seen),
            Ok(_) => {
                connection.output.bytes.truncate(before);
                return LookOutcome::Refused(TOO_LONG.into());
            }
            Err(blocked) => blocked,
        };
        connection.output.bytes.truncate(before);
        let (keys, redirects) = (read.keys(), &mut connection.redirects);
        if let Some(moved) = self.redirect_of_read(redirects, session, route, blocked, keys) {
            return LookOutcome::Refused(moved);
        }
        connection.next.fetched = std::mem::take(fetched);
        self.fetch_or_wait(at, connection, route, blocked, *now, keys);
        LookOutcome::Deferred
    }
}

/// What one look at all keys of a read has come to.
enum LookOutcome {
    /// These versions.
    Versions(Vec<ObservedVersion>),
    /// It is to be tried again.
    Deferred,
    /// It is answered with this error.
    Refused(Box<str>),
}

/// The versions of all keys of a read, if all are watched and had a value: then these were the
/// newest at that time. A key without a value may have had one since.
fn watched(session: &Session, read: &Read<'_>) -> Option<Vec<ObservedVersion>> {
    let version =
        |key: &&[u8]| session.seen(key).filter(|seen| matches!(seen, ObservedVersion::Version(_)));
    read.keys().iter().map(version).collect()
}

/// A read as a transaction, which locks its keys.
fn locking<'a>(read: &Read<'a>) -> Option<(Transaction<'a>, ExecPart)> {
    let each = |one: fn(&'a [u8]) -> Read<'a>, keys: &[&'a [u8]]| {
        let commands = keys.iter().map(|key| Step::Read(one(key))).collect();
        Transaction { commands, ..Transaction::default() }
    };
    match read {
        Read::GetMany(keys) => Some((each(Read::Get, keys), ExecPart::Listed(keys.len()))),
        Read::Exists(keys) => {
            let one = |key| Read::Exists(vec![key]);
            let part = ExecPart::Alone(gateway::resp::Gather::Sum, keys.len());
            Some((each(one, keys), part))
        }
        // LCS, and its keys may be of any length: it looks until it sees the same twice.
        _ => None,
    }
}

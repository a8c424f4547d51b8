//! Commands of a transaction that run behind it: scans of the keyspace, and what changes the
//! connection.
//!
//! ```text
//!   EXEC ──► the shards' commands ──► their answer is kept
//!                                          └──► EXEC again ──► the late ones ──► reply
//! ```
//!
//! A scan asks many shards, each at a moment of its own, so it is no part of the transaction: it
//! sees all that the transaction wrote, and what others wrote by then. If a command that writes
//! stands behind it, all run on copies of their keys instead, in their order
//! ([`exec_scripts`](EventLoop::exec_scripts)). The connection changes only if EXEC was done.

use command::{Read, Reply, Sink, Step, View};
use keyspace::Timestamp;
use storage::engine::Version as StoredVersion;

use super::EventLoop;
use super::connection::Connection;
use super::moment::ReadMoment;
use super::resp::CommandOutcome;
use super::transactions::{ExecPart, effects_of, write_executed};
use gateway::resp::{Args, Queue, Request, RespWriter, Session, concerns_connection};

/// The error of EXEC when its late commands cannot be run.
const LATE_FAILED: &str = "UNKNOWN the transaction was done, but not all of its commands on the \
                           whole keyspace or the connection:";

/// A transaction that was done, as far as shards do it, and whose late commands were not all run.
pub struct Executed {
    /// How its commands are answered.
    pub parts: Box<[ExecPart]>,
    /// What the shards answered.
    pub outcome: Result<Reply, Box<str>>,
}

/// LCS of two values that the transaction has read.
#[derive(Clone, Copy, Debug)]
pub struct LcsOptions {
    len: bool,
    idx: bool,
    min_match: u64,
    with_match_len: bool,
}

impl LcsOptions {
    /// Of this read, if it is LCS.
    pub fn of<'k>(read: &Read<'k>) -> Option<([&'k [u8]; 2], Self)> {
        let Read::Lcs { keys, len, idx, min_match, with_match_len } = *read else { return None };
        Some((keys, Self { len, idx, min_match, with_match_len }))
    }

    /// Gives the answer for what was read of the two keys.
    pub fn give(self, found: [&Reply; 2], sink: &mut impl Sink) {
        if let Some(refused) = found.iter().find(|reply| matches!(reply, Reply::Refused(_))) {
            return refused.give(sink);
        }
        let Self { len, idx, min_match, with_match_len } = self;
        let keys = [&b"0"[..], b"1"];
        let read = Read::Lcs { keys, len, idx, min_match, with_match_len };
        command::answer(&Two(found), &read, Timestamp::ZERO, sink);
    }
}

/// Two values under the keys 0 and 1.
struct Two<'r>([&'r Reply; 2]);

impl View for Two<'_> {
    fn newest(&self, key: &[u8]) -> Option<StoredVersion<'_>> {
        let Reply::Bulk(value) = self.0[usize::from(key == b"1")] else { return None };
        Some(StoredVersion { value, expiry_ms: 0, timestamp: Timestamp::ZERO })
    }
}

/// Whether late commands stand where they can run behind the others.
#[derive(Default)]
pub(super) struct Order {
    has_scanned: bool,
    is_elsewhere: bool,
    /// Whether commands on keys follow a SELECT of another keyspace, or one that writes follows a
    /// scan.
    pub needs_copies: bool,
}

impl Order {
    /// A late command comes next, of a connection with this keyspace.
    pub fn late(&mut self, args: Args<'_>, keyspace: &str) {
        match args.is(0, "select") {
            true => self.is_elsewhere |= args.get(1).is_some_and(|at| at != keyspace.as_bytes()),
            false => self.has_scanned |= !concerns_connection(args),
        }
    }

    /// These are what a command comes to that shards do.
    pub fn steps(&mut self, steps: &[Step<'_>]) {
        self.needs_copies |= self.is_elsewhere && !steps.is_empty();
        let writes = steps.iter().any(|step| matches!(step, Step::Write(_)));
        self.needs_copies |= self.has_scanned && writes;
    }
}

impl EventLoop {
    /// A SELECT that stands first in a transaction decides which keyspace this is of. False if the
    /// keyspace must be made before.
    pub(super) fn select_first(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        queue: &Queue,
    ) -> bool {
        let Some(args) = queue.commands().next().filter(|args| args.is(0, "select")) else {
            return true;
        };
        let request = session.translate_queued(args, &self.context_of(connection), &mut Vec::new());
        match request {
            Request::Select(name) if name != session.keyspace().as_bytes() => {
                let done = self.select(at, connection, session, name, true);
                matches!(done, CommandOutcome::Answered)
            }
            _ => true,
        }
    }

    /// The shards have answered: runs the late commands, and replies to EXEC.
    pub(super) fn run_late(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        queue: &Queue,
        moment: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        let Some(mut executed): Option<Box<Executed>> = connection.next.executed.take() else {
            unreachable!("it is asked before")
        };
        if let Ok(Reply::Array(_)) = executed.outcome {
            let mut moment = Some(moment);
            for (part, args) in executed.parts.iter_mut().zip(queue.commands()) {
                if !matches!(part, ExecPart::Late) {
                    continue;
                }
                let moment = moment.take().unwrap_or_else(|| ReadMoment::at(self.moment()));
                match self.run_late_one(at, connection, session, args, moment) {
                    Some(reply) => *part = ExecPart::Known(reply),
                    None => {
                        connection.next.executed = Some(executed);
                        return CommandOutcome::Deferred;
                    }
                }
            }
        }
        let mut bytes = Vec::new();
        match &executed.outcome {
            Ok(reply) => write_executed(&executed.parts, reply, session.version(), &mut bytes),
            Err(text) => RespWriter::new(&mut bytes, session.version()).error(text.as_bytes()),
        }
        if !muted {
            connection.reply_with(bytes);
        }
        if let Ok(reply) = &executed.outcome {
            let effects = effects_of(&executed.parts, reply);
            if !effects.is_empty() {
                self.run_effects_of(at, connection, session, effects);
            }
        }
        CommandOutcome::Answered
    }

    /// The reply of one late command; nothing if it has to wait.
    fn run_late_one(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        args: Args<'_>,
        moment: ReadMoment,
    ) -> Option<Vec<u8>> {
        let mut known = Vec::new();
        let request = session.translate_queued(args, &self.context_of(connection), &mut known);
        let before = connection.output.bytes.len();
        let done = match request {
            Request::Answered => {
                self.describe(connection, session);
                return Some(known);
            }
            Request::Keyspace(request) => {
                self.scan_keyspace(at, connection, session, &request, moment, false)
            }
            Request::Select(name) => self.select(at, connection, session, name, false),
            _ => unreachable!("no other command is late"),
        };
        let reply = connection.output.bytes.split_off(before);
        matches!(done, CommandOutcome::Answered).then_some(reply)
    }
}

/// The error of an EXEC that is refused when it waits; what shards do of it may be done already.
pub(super) fn refusal_of_exec(connection: &mut Connection, text: &str) -> String {
    match connection.next.executed.take() {
        None => text.to_owned(),
        Some(_) => format!("{LATE_FAILED} {text}"),
    }
}

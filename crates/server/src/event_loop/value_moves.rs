//! Commands that move a value from one shard to another: RENAME, RENAMENX and COPY, alone and in a
//! transaction; and MSETNX in one.
//!
//! ```text
//!   run on a copy of all keys, as between BEGIN and COMMIT ──► the reply is known
//!        └──► a transaction: if all that was read is as it was, what was written
//!                 └──► changed meanwhile: run again, unless the client has watched the key
//! ```
//!
//! Commands of a loop that share a key run one after the other ([`super::retries`]). After a
//! conflict the loop runs the command again, until the request timeout since its first attempt is
//! over: then the client gets `BUSY`, and nothing was done. If other requests always come first,
//! the command reserves its keys.

use std::collections::BTreeSet;

use command::{Reply, Step, Write};
use node::replica::entry::Waiter;
use node::routing::route::Route;
use txn::interactive::InteractiveTxn;

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::interactive::StepOutcome;
use super::moment::ReadMoment;
use super::pubsub::CommitEffect;
use super::resp::{CommandOutcome, EXEC_OUT_OF_MEMORY, OUT_OF_MEMORY};
use super::serve::place;
use super::state::WaitsFor;
use super::transactions::{
    ExecPart, QueuedCommands, crosses_in, effects_of, may_grow, write_executed,
};
use gateway::resp::{Args, Queue, Session, Watched};

/// Bytes that such a command may read and write: a value that a shard may have locked, twice.
const BYTES_MAX: u64 = 256 << 20;
/// The error beyond this limit.
const TOO_MUCH: &str = "ERR the command moves values of more than 128 MiB, or more than 65536 \
                        keys, from shard to shard; nothing was done";

/// A reply that is known, if nothing changes before it is true.
pub struct SpeculativeReply {
    /// In the protocol of its client.
    pub bytes: Vec<u8>,
    /// What is done beside it.
    pub(super) effects: Vec<CommitEffect>,
    /// What is run again otherwise.
    pub(super) again: RetriedCommand,
}

/// What is run again.
pub enum RetriedCommand {
    /// A command, as its client would send it.
    Command(Vec<u8>),
    /// EXEC.
    Exec(Box<Queue>, Watched),
}

/// Whether a command that met a conflict is run again.
pub(super) enum RetryDecision {
    /// Yes, or it rests before.
    Retry,
    /// Conflicts lasted for the whole request timeout.
    TimedOut,
    /// It is another command, or a key has changed that its client has watched.
    Never,
}

/// EXEC, as a client would send it.
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Whether a command takes a value from one shard to another.
pub(super) fn moves_value(write: &Write<'_>, route: &Route) -> bool {
    matches!(write, Write::Rename { .. } | Write::Copy { .. })
        && crosses_in(&Step::Write(write.clone()), route)
}

/// A command that moves a value, translated and as bytes.
pub(super) struct MoveCommand<'a> {
    pub write: Write<'a>,
    pub args: Args<'a>,
}

/// EXEC of queued commands, as they were understood.
pub(super) struct Execution<'a> {
    pub parts: &'a [ExecPart],
    pub steps: &'a [Step<'a>],
    pub queued: QueuedCommands<'a>,
}

impl EventLoop {
    /// Runs a command that moves a value.
    pub(super) fn move_value(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        MoveCommand { write, args }: MoveCommand<'_>,
        moment: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        if self.is_out_of_memory() && write.may_grow() {
            return self.refuse(connection, session, OUT_OF_MEMORY, muted);
        }
        let steps = [Step::Write(write)];
        let ran = self.run_on_copy(at, connection, &steps, moment);
        let (copy, replies) = match ran {
            StepOutcome::Ready(ran) => ran,
            StepOutcome::Pending => return CommandOutcome::Deferred,
            StepOutcome::TooMuch => return self.refuse(connection, session, TOO_MUCH, muted),
        };
        let mut bytes = Vec::new();
        let reply = Reply::Array(replies);
        write_executed(&[ExecPart::Single], &reply, session.version(), &mut bytes);
        let told = SpeculativeReply {
            bytes,
            effects: Vec::new(),
            again: RetriedCommand::Command(encoded(args)),
        };
        let transaction = Box::new(copy.transaction());
        self.write_all(
            at,
            connection,
            session,
            transaction,
            ExecPart::Speculative(Box::new(told)),
            muted,
        )
    }

    /// Runs EXEC of commands some of which need keys of several shards each.
    pub(super) fn exec_on_copy(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        Execution { parts, steps, queued: QueuedCommands { queue, watched } }: Execution<'_>,
        moment: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        if self.is_out_of_memory() && steps.iter().any(may_grow) {
            return self.refuse(connection, session, EXEC_OUT_OF_MEMORY, muted);
        }
        let (copy, replies) = match self.run_on_copy(at, connection, steps, moment) {
            StepOutcome::Ready(ran) => ran,
            StepOutcome::Pending => return CommandOutcome::Deferred,
            StepOutcome::TooMuch => return self.refuse(connection, session, TOO_MUCH, muted),
        };
        let mut bytes = Vec::new();
        let reply = Reply::Array(replies);
        write_executed(parts, &reply, session.version(), &mut bytes);
        let effects = effects_of(parts, &reply);
        let again = RetriedCommand::Exec(Box::new(queue.clone()), watched.clone());
        let mut transaction = Box::new(copy.transaction());
        transaction.watched.splice(0..0, watched.keys());
        let part = ExecPart::Speculative(Box::new(SpeculativeReply { bytes, effects, again }));
        self.write_all(at, connection, session, transaction, part, muted)
    }

    fn run_on_copy(
        &mut self,
        at: usize,
        connection: &mut Connection,
        steps: &[Step<'_>],
        moment: ReadMoment,
    ) -> StepOutcome<(Box<InteractiveTxn>, Vec<Reply>)> {
        if connection.waits_at_barrier() {
            return StepOutcome::Pending;
        }
        let mut keys = BTreeSet::new();
        steps.iter().for_each(|step| step.each_key(&mut |key| _ = keys.insert(key)));
        let keys: Vec<Box<[u8]>> = keys.into_iter().map(Box::from).collect();
        if !self.may_run_retry(at, keys.clone()) {
            connection.next.waits_for = WaitsFor::Permission;
            return StepOutcome::Pending;
        }
        if self.has_reserved(at, connection, &keys, moment.now, &moment.fetched) {
            return StepOutcome::Pending;
        }
        let begun = connection.next.copy.take();
        let mut copy = begun.unwrap_or_else(|| Box::new(InteractiveTxn::new(self.now, BYTES_MAX)));
        match self.run_steps(at, connection, &mut copy, steps, moment) {
            StepOutcome::Ready(replies) => StepOutcome::Ready((copy, replies)),
            StepOutcome::Pending => {
                connection.next.copy = Some(copy);
                StepOutcome::Pending
            }
            StepOutcome::TooMuch => StepOutcome::TooMuch,
        }
    }

    /// Runs a command again that met a conflict, if it is one of these and not too late.
    pub(super) fn run_again(&mut self, waiter: Waiter, changed: &[u8]) -> RetryDecision {
        let at = place(waiter);
        let is_one = self
            .connection_at(at)
            .speculative_reply()
            .is_some_and(|told| !told.has_watched(changed));
        if !is_one {
            return RetryDecision::Never;
        }
        if !self.back_off(at, changed) {
            return RetryDecision::TimedOut;
        }
        let connection = self.connection_at(at);
        let Some((again, muted)) = connection.take_again() else { return RetryDecision::Never };
        let Protocol::Resp(session, ranges) = &mut connection.protocol else {
            return RetryDecision::Never;
        };
        ranges.begin_again();
        let command = match again {
            RetriedCommand::Command(command) => command,
            RetriedCommand::Exec(queue, watched) => {
                session.queue_again(queue, watched);
                EXEC.to_vec()
            }
        };
        connection.input.splice(0..0, command);
        connection.next.muted = Some(muted);
        connection.next.waits_for = WaitsFor::Permission;
        RetryDecision::Retry
    }
}

impl SpeculativeReply {
    /// Whether its client has watched a key.
    fn has_watched(&self, key: &[u8]) -> bool {
        let RetriedCommand::Exec(_, watched) = &self.again else { return false };
        watched.keys().any(|(watched, _)| watched == key)
    }
}

/// A command as its client would send it.
fn encoded(args: Args<'_>) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args.iter() {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

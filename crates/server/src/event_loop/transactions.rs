//! Runs WATCH and EXEC.
//!
//! If all its keys lie in one shard, watched ones included, EXEC becomes one command of that
//! shard's log ([`command::transaction`]). Else the loop's coordinator runs it
//! ([`super::coordinator`]). The connection answers some commands itself (PING, syntax errors): it
//! puts these replies between the shard's answers.

use command::transaction::WRITTEN_BYTES_MAX;
use command::{Read, Reply, Sink as _, Step, TopicKind, Transaction, Write};
use keyspace::Feature;
use node::routing::route::Route;

use super::EventLoop;
use super::connection::{Connection, OK, QUEUED};
use super::late::{Executed, LcsOptions, Order};
use super::libraries::write_known;
use super::memory_need::MemoryNeed;
use super::moment::ReadMoment;
use super::pending_reply::{PendingReply, ReplyFrame};
use super::pubsub::CommitEffect;
use super::reply_limit::{TOO_LONG, size_of};
use super::resp::{COMMAND_TOO_LONG, CommandOutcome, EXEC_OUT_OF_MEMORY, NO_KEYSPACE};
use super::serve::waiter;
use super::state::WatchedExec;
use super::value_moves::Execution;
use super::value_moves::SpeculativeReply;
use crate::runtime::growth::Reservation;
use crate::scripts::Draft;
use gateway::resp::{Gather, Queue, Request, RespWriter, Session, Version, Watched, is_script};
use gateway::resp::{changes_scripts, flushes, runs_late, spans_keyspaces};

/// The error of a command in a transaction whose own keys lie in several shards.
const CROSS_SHARD: &str = "CROSSSLOT the keys of one command of the transaction lie in several \
                           shards; nothing was done. Give them one hash tag, as in {user1}.name";
/// The error of SSUBSCRIBE in EXEC.
pub(super) const SHARD_SUBSCRIPTION: &str =
    "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
/// … whose cluster has nodes that cannot read a transaction yet.
pub(super) const CLUSTER_VERSION_TOO_LOW: &str = "ERR transactions need a higher cluster version; \
                                                  nothing was done. See `carillon upgrade --check`";

/// How one command of a transaction is answered.
pub enum ExecPart {
    /// With these bytes, whatever else is done.
    Known(Vec<u8>),
    /// With these, and beside the transaction it does this.
    Effect(Vec<u8>, CommitEffect),
    /// With the next of the shard's answers.
    Next,
    /// With the size of that, which is the value of a key of so many bytes.
    Size(usize),
    /// With the LCS of the next two, which are values.
    Lcs(LcsOptions),
    /// With what the command says when it is run, behind the others.
    Late,
    /// With so many of these, as a list.
    List(usize),
    /// With so many of these, as one.
    Gathered(Gather, usize),
    /// The same, of a command that is a transaction by itself: there are no other parts.
    Alone(Gather, usize),
    /// With what is known, unless something has changed: there are no other parts.
    Speculative(Box<SpeculativeReply>),
    /// With all of these, which are as many, as a list: there are no other parts.
    Listed(usize),
    /// With the only one: there are no other parts.
    Single,
    /// As COMMIT is: there are no other parts.
    Committed,
}

/// Writes the reply of a transaction.
pub fn write_executed(parts: &[ExecPart], reply: &Reply, version: Version, out: &mut Vec<u8>) {
    let mut writer = RespWriter::new(out, version);
    let is_alone = matches!(
        parts,
        [ExecPart::Alone(..)
            | ExecPart::Listed(_)
            | ExecPart::Single
            | ExecPart::Speculative(_)
            | ExecPart::Committed]
    );
    let Reply::Array(answers) = reply else {
        match reply {
            Reply::Changed(key) if matches!(parts, [ExecPart::Committed]) => writer.error(format!(
                "CONFLICT '{}' has changed since the transaction read it (another client wrote it, \
                 or its value expired); nothing was done. BEGIN again",
                key.escape_ascii()
            )),
            Reply::Changed(_) if matches!(parts, [ExecPart::Speculative(_)]) => writer.null_array(),
            // There was a key that must not be there.
            Reply::Changed(_) if is_alone => writer.int(0),
            Reply::Changed(_) => writer.null_array(),
            other => other.give(&mut writer),
        }
        return;
    };
    let mut answers = answers.iter();
    if !is_alone {
        writer.array(parts.len());
    }
    for part in parts {
        match part {
            ExecPart::Known(bytes) | ExecPart::Effect(bytes, _) => {
                writer.out.extend_from_slice(bytes)
            }
            ExecPart::Committed => writer.ok(),
            ExecPart::Next | ExecPart::Single => {
                answers.next().unwrap_or(&Reply::Nil).give(&mut writer)
            }
            ExecPart::Size(key_bytes) => match answers.next() {
                Some(Reply::Bulk(value)) => writer.int(size_of(*key_bytes, value.len())),
                other => other.unwrap_or(&Reply::Nil).give(&mut writer),
            },
            ExecPart::Lcs(options) => {
                let (one, other) = (answers.next(), answers.next());
                let found = [one, other].map(|found| found.unwrap_or(&Reply::Nil));
                options.give(found, &mut writer);
            }
            ExecPart::Late => writer.nil(),
            ExecPart::List(count) | ExecPart::Listed(count) => {
                writer.array(*count);
                answers.by_ref().take(*count).for_each(|answer| answer.give(&mut writer));
            }
            ExecPart::Speculative(told) => writer.out.extend_from_slice(&told.bytes),
            ExecPart::Gathered(gather, count) | ExecPart::Alone(gather, count) => {
                let answers = answers.by_ref().take(*count);
                let number = |answer: &Reply| if let Reply::Int(n) = answer { *n } else { 0 };
                let sum = answers.map(number).sum();
                match gather {
                    Gather::Sum => writer.int(sum),
                    Gather::Ok => writer.ok(),
                    Gather::One => writer.int(1),
                }
            }
        }
    }
}

/// What a transaction does beside its writes, if this reply says that it was committed.
pub fn effects_of(parts: &[ExecPart], reply: &Reply) -> Vec<CommitEffect> {
    let is_committed = matches!(reply, Reply::Array(_));
    let effects = parts.iter().filter(|_| is_committed).flat_map(|part| match part {
        ExecPart::Effect(_, effect) => std::slice::from_ref(effect),
        ExecPart::Speculative(speculative) => &speculative.effects,
        _ => &[],
    });
    effects.cloned().collect()
}

/// Why a transaction of the session's keyspace cannot be done, if keys of another are watched.
fn watches_elsewhere(watched: &Watched, session: &Session) -> Option<String> {
    let is_elsewhere = !watched.is_empty() && watched.keyspace() != session.keyspace();
    is_elsewhere.then(|| {
        format!(
            "ERR keys of keyspace '{}' are watched, and a transaction is of one keyspace; \
             nothing was done",
            watched.keyspace()
        )
    })
}

/// The commands that MULTI has queued, and the keys watched before.
#[derive(Clone, Copy)]
pub(super) struct QueuedCommands<'a> {
    pub queue: &'a Queue,
    pub watched: &'a Watched,
}

/// The queued commands of an EXEC, translated.
struct Understood<'q> {
    /// How each is answered.
    parts: Vec<ExecPart>,
    /// What shards do.
    commands: Vec<Step<'q>>,
    /// Whether they run on copies of their keys: their order asks for it, or several keyspaces.
    needs_copies: bool,
}

impl EventLoop {
    pub(super) fn watch(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        keys: &[&[u8]],
        ReadMoment { now, fetched }: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        if self.is_contending(at, connection, &route, keys, now, &fetched) {
            return CommandOutcome::Deferred;
        }
        let mut seen = Vec::with_capacity(keys.len());
        for key in keys {
            match node::replica::read::seen(&route, key, now, &fetched) {
                Ok(had) => seen.push((*key, had)),
                Err(blocked) => {
                    connection.next.fetched = fetched;
                    self.fetch_or_wait(at, connection, &route, blocked, now, keys);
                    return CommandOutcome::Deferred;
                }
            }
        }
        let watched_before = session.watches();
        if let Err(error) = session.watch(route.keyspace.id, &seen) {
            return self.refuse(connection, session, &String::from_utf8_lossy(error.text()), muted);
        }
        if !muted {
            connection.watching.is_new = !watched_before && connection.unsent() == 0;
            session.writer(&mut connection.output.bytes).ok();
        }
        CommandOutcome::Answered
    }

    pub(super) fn exec(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        moment: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        let Some(queue) = session.take_queue() else {
            unreachable!("EXEC without MULTI is refused before");
        };
        // Before the commands are understood: an UNWATCH among them comes too late.
        let watched = session.take_watched();
        let queued = QueuedCommands { queue: &queue, watched: &watched };
        let done = self.exec_queued(at, connection, session, queued, moment, muted);
        match done {
            CommandOutcome::Deferred => session.queue_again(queue, watched),
            CommandOutcome::Answered => session.end_transaction(),
        }
        done
    }

    fn exec_queued(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        queued: QueuedCommands<'_>,
        moment: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        let QueuedCommands { queue, watched } = queued;
        if connection.next.executed.is_some() {
            return self.run_late(at, connection, session, queue, moment, muted);
        }
        if !self.runtime.version.allows(Feature::Transactions) {
            return self.refuse(connection, session, CLUSTER_VERSION_TOO_LOW, muted);
        }
        if watched.is_empty() && !self.select_first(at, connection, session, queue) {
            return CommandOutcome::Deferred;
        }
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        if let Some(text) = watches_elsewhere(watched, session) {
            return self.refuse(connection, session, &text, muted);
        }
        let is_same = watched.is_empty() || watched.is_of(route.keyspace.id);
        let needs_copies = |args| {
            is_script(args) || spans_keyspaces(args) || flushes(args) || changes_scripts(args)
        };
        if is_same && queue.commands().any(needs_copies) {
            return self.exec_scripts(at, connection, session, queued, muted);
        }
        let understood = self.understand(connection, session, queue);
        let Understood { parts, commands, needs_copies } = understood;
        let has_late = parts.iter().any(|part| matches!(part, ExecPart::Late));
        let crosses = commands.iter().any(|step| crosses_in(step, &route));
        if is_same && (needs_copies || has_late && crosses) {
            return self.exec_scripts(at, connection, session, queued, muted);
        }
        let has_effects = parts.iter().any(|part| matches!(part, ExecPart::Effect(..)));
        // They are done with its reply, and by then in the order of the client's commands.
        if (has_late || has_effects) && connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        if has_late && commands.is_empty() && watched.is_empty() {
            let (parts, outcome) = (parts.into(), Ok(Reply::Array(Vec::new())));
            connection.next.executed = Some(Box::new(Executed { parts, outcome }));
            return self.run_late(at, connection, session, queue, moment, muted);
        }
        // What was watched is gone with its keyspace, whatever has its name now.
        let is_gone = !watched.is_empty() && !watched.is_of(route.keyspace.id);
        if is_gone || (commands.is_empty() && watched.is_empty()) {
            let mut bytes = Vec::new();
            let reply = match watched.keys().next() {
                Some((key, _)) => Reply::Changed(key.into()),
                None => Reply::Array(Vec::new()),
            };
            write_executed(&parts, &reply, session.version(), &mut bytes);
            if !muted {
                connection.reply_with(bytes);
            }
            let effects = effects_of(&parts, &reply);
            if !effects.is_empty() {
                self.run_effects_of(at, connection, session, effects);
            }
            return CommandOutcome::Answered;
        }
        if crosses {
            let what = Execution { parts: &parts, steps: &commands, queued };
            return self.exec_on_copy(at, connection, session, what, moment, muted);
        }
        let (takes, reservation) = match self.make_room(connection, &commands) {
            Ok(room) => room,
            Err(None) => return CommandOutcome::Deferred,
            Err(Some(text)) => return self.refuse(connection, session, text, muted),
        };
        let only_reads = !commands.iter().any(|step| matches!(step, Step::Write(_)));
        // It must see what the writes before it have done, in whichever shard (SAFETY G26).
        if only_reads && !connection.pending.is_empty() && connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let watched = watched.keys().collect();
        let transaction = Box::new(Transaction { watched, commands, ..Transaction::default() });
        if let Err(refused) = self.put_exec(at, connection, transaction) {
            return match refused {
                None => CommandOutcome::Deferred,
                Some(text) => self.refuse(connection, session, text, muted),
            };
        }
        let number = connection.next_number();
        let frame = match has_late {
            true => ReplyFrame::Kept,
            false => ReplyFrame::Resp { version: session.version(), muted },
        };
        // What MULTI and the queued commands were answered says nothing yet: if it was not sent, it
        // goes with EXEC's reply.
        let queued_bytes = if muted { 0 } else { OK.len() + QUEUED.len() * queue.len() };
        // Invalidations may come between.
        let is_next = connection.pending.is_empty() && connection.tracking.is_none();
        let before = connection.take_unsent(if is_next { queued_bytes } else { 0 });
        let slot = PendingReply::executing(parts, frame).behind(before).reading(only_reads);
        connection.pending.push_back(slot);
        connection.takes.add(number, &takes, reservation);
        connection.next.barrier |= has_effects;
        if has_late {
            // EXEC is run again when the answer is there.
            connection.next.barrier = true;
            return CommandOutcome::Deferred;
        }
        CommandOutcome::Answered
    }

    /// Reserves the memory that the commands of an EXEC need. Fails with the reason; or with none,
    /// if the EXEC is to be tried again when replies owed are sent.
    fn make_room(
        &self,
        connection: &mut Connection,
        commands: &[Step<'_>],
    ) -> Result<(MemoryNeed, Reservation), Option<&'static str>> {
        let takes = self.all_take(connection, commands);
        if takes.reply_bytes > self.config.output_bytes_max {
            return Err(Some(TOO_LONG));
        }
        if takes.must_wait(connection) {
            connection.next.barrier = true;
            return Err(None);
        }
        let has_none = self.is_out_of_memory() && commands.iter().any(may_grow);
        match self.runtime.memory.reserve(takes.adds_bytes).filter(|_| !has_none) {
            Some(reservation) => Ok((takes, reservation)),
            None => Err(Some(EXEC_OUT_OF_MEMORY)),
        }
    }

    /// As [`Self::put_transaction`], for an EXEC.
    fn put_exec(
        &mut self,
        at: usize,
        connection: &mut Connection,
        transaction: Box<Transaction<'_>>,
    ) -> Result<(), Option<&'static str>> {
        connection.watching.exec = match transaction.watched.is_empty() {
            true => WatchedExec::None,
            false => WatchedExec::HandedOver,
        };
        let done = self.put_transaction(at, connection, transaction);
        if connection.watching.exec != WatchedExec::OverShards {
            connection.watching.exec = WatchedExec::None;
            if done.is_ok() {
                // One shard does it, or it watches nothing.
                connection.watching.reservation_name = None;
            }
        }
        done
    }

    /// Begins a transaction whose reply is the connection's next. Fails with the reason; or with
    /// none, if it is to be tried again when all replies owed are complete.
    pub(super) fn put_transaction(
        &mut self,
        at: usize,
        connection: &mut Connection,
        transaction: Box<Transaction<'_>>,
    ) -> Result<(), Option<&'static str>> {
        let Some(route) = connection.route.clone() else { return Err(Some(NO_KEYSPACE)) };
        let waiter = waiter(at, connection.next_number());
        // Ranges are locked. What keys are kept for must say so, as commands do not.
        let is_kept = self.retries.reserved_as(at).is_some();
        let (mut first, mut crosses) = (None, is_kept || !transaction.ranges.is_empty());
        transaction.each_key(&mut |key| {
            let here = route.place_of_key(key);
            crosses |= *first.get_or_insert(here) != here;
        });
        if !crosses {
            if self.holds_back(at, connection, |show| transaction.each_key(&mut |key| show(key))) {
                return Err(None);
            }
            let write = Write::Transaction(transaction);
            return self.put_write(connection, &write, waiter).map_err(Some);
        }
        if connection.waits_at_barrier() {
            return Err(None);
        }
        let bytes = transaction.writes().map(Write::bytes_about).sum::<usize>();
        if self.runtime.is_too_long(bytes) {
            return Err(Some(COMMAND_TOO_LONG));
        }
        if transaction.commands.iter().any(|step| crosses_in(step, &route)) {
            return Err(Some(CROSS_SHARD));
        }
        self.coordinate(connection, route.keyspace.id, &transaction, waiter);
        Ok(())
    }

    /// Translates the queued commands: the form of each answer, and the shard's command.
    fn understand<'q>(
        &self,
        connection: &Connection,
        session: &mut Session,
        queue: &'q Queue,
    ) -> Understood<'q> {
        let mut context = self.context_of(connection);
        // An EXEC that has waited is of the time at which it began.
        if let Some(copy) = &connection.next.copy {
            context.now = copy.began();
        }
        let (mut parts, mut commands) = (Vec::with_capacity(queue.len()), Vec::new());
        let mut subscriptions = None;
        let mut order = Order::default();
        for args in queue.commands() {
            let mut known = Vec::new();
            if runs_late(args) {
                order.late(args, session.keyspace());
                parts.push(ExecPart::Late);
                continue;
            }
            let steps_before = commands.len();
            parts.push(match session.translate_queued(args, &context, &mut known) {
                Request::Answered => ExecPart::Known(known),
                // Whichever shards they lie in.
                Request::Read(Read::GetMany(keys)) => {
                    commands.extend(keys.iter().map(|key| Step::Read(Read::Get(key))));
                    ExecPart::List(keys.len())
                }
                Request::Read(Read::Exists(keys)) => {
                    let one = |key: &&'q [u8]| Step::Read(Read::Exists(vec![*key]));
                    commands.extend(keys.iter().map(one));
                    ExecPart::Gathered(Gather::Sum, keys.len())
                }
                Request::Read(read) if let Some((keys, options)) = LcsOptions::of(&read) => {
                    commands.extend(keys.map(|key| Step::Read(Read::Get(key))));
                    ExecPart::Lcs(options)
                }
                Request::Read(read) => {
                    let key_bytes = read.keys().first().map_or(0, |key| key.len());
                    commands.push(Step::Read(read));
                    match session.replies_size() {
                        true => ExecPart::Size(key_bytes),
                        false => ExecPart::Next,
                    }
                }
                Request::Write(write) => {
                    commands.push(Step::Write(write));
                    ExecPart::Next
                }
                Request::WriteEach { gather, writes } => {
                    let count = writes.len();
                    commands.extend(writes.into_iter().map(Step::Write));
                    ExecPart::Gathered(gather, count)
                }
                // Redis takes the others within MULTI for compatibility alone.
                Request::Subscribe { kind: TopicKind::Shard, .. } => {
                    session.writer(&mut known).error(SHARD_SUBSCRIPTION);
                    ExecPart::Known(known)
                }
                request @ (Request::Subscribe { .. }
                | Request::Unsubscribe { .. }
                | Request::Publish { .. }) => {
                    let subscriptions =
                        subscriptions.get_or_insert_with(|| session.subscriptions().clone());
                    let (bytes, effect) = self.queue_pubsub(session, subscriptions, request);
                    ExecPart::Effect(bytes, effect)
                }
                request => {
                    let mut writer = session.writer(&mut known);
                    if !write_known(&self.runtime, &Draft::default(), &request, &mut writer) {
                        writer.error("ERR this is not allowed in transactions");
                    }
                    ExecPart::Known(known)
                }
            });
            order.steps(&commands[steps_before..]);
        }
        Understood { parts, commands, needs_copies: order.needs_copies }
    }

    /// What the commands of a transaction may take of memory, all together.
    fn all_take(&self, connection: &Connection, commands: &[Step<'_>]) -> MemoryNeed {
        let mut all = connection.takes.none();
        for step in commands {
            match step {
                Step::Read(read) => {
                    let keys = read.keys().iter();
                    let bytes = keys.map(|key| self.value_bytes(connection, key));
                    all.reply_bytes += bytes.sum::<u64>() + all.unseen_bytes;
                }
                Step::Write(write) => {
                    let takes = self.takes(connection, write);
                    all.reply_bytes += takes.reply_bytes;
                    // What is copied may have been made by a command before it.
                    let made = if takes.copies { all.lengthens_bytes } else { 0 };
                    all.adds_bytes += takes.adds_bytes.max(made);
                    all.copies |= takes.copies;
                    all.lengthens_bytes = all.lengthens_bytes.saturating_add(takes.lengthens_bytes);
                    // Commands behind it may meet what it makes.
                    all.unseen_bytes = all.unseen_bytes.saturating_add(takes.lengthens_bytes);
                }
            }
        }
        all.adds_bytes = match all.adds_bytes {
            bytes if bytes < MemoryNeed::ADDS_BYTES_MIN => 0,
            bytes => bytes.min(WRITTEN_BYTES_MAX),
        };
        all
    }
}

/// Whether a command may take more memory.
pub(super) fn may_grow(step: &Step<'_>) -> bool {
    matches!(step, Step::Write(write) if write.may_grow())
}

/// Whether the keys of one command lie in several shards.
pub(super) fn crosses_in(step: &Step<'_>, route: &Route) -> bool {
    let (mut first, mut crosses) = (None, false);
    step.each_key(&mut |key| {
        let here = route.place_of_key(key);
        crosses |= *first.get_or_insert(here) != here;
    });
    crosses
}

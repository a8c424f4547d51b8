//! WATCH and EXEC, run.
//!
//! EXEC becomes one command of one shard's log ([`node::command::transaction`]), so all its keys,
//! those watched among them, lie in one shard. What the connection itself answers (PING, errors of
//! syntax) is put between the shard's answers when these have come.

use std::sync::atomic::Ordering;

use keyspace::Feature;
use node::command::transaction::WRITTEN_BYTES_MAX;
use node::command::{Reply, Sink as _, Step, Transaction, Write};
use node::fetch::Fetched;
use node::read::Now;

use super::EventLoop;
use super::capped::TOO_LONG;
use super::connection::{Connection, Frame, Slot};
use super::context::CommandContext;
use super::resp::{CROSS_SLOT, Done, OUT_OF_MEMORY};
use super::serve::waiter;
use super::takes::Takes;
use crate::gateway::resp::{Gather, Queue, Request, RespWriter, Session, Version, Watched};

/// What a client is told whose keys lie in several shards.
const CROSS_SHARD: &str = "CROSSSLOT keys of a transaction lie in several shards; nothing was \
                           done. Give them one hash tag, as in {user1}.name and {user1}.mail";
/// … whose cluster has nodes that cannot read a transaction yet.
const LEVEL_TOO_LOW: &str = "ERR transactions need a higher feature level of the cluster; nothing \
                             was done. See `carillon upgrade --check`";

/// How one command of a transaction is answered.
pub enum Part {
    /// With these bytes, whatever else is done.
    Known(Vec<u8>),
    /// With the next of the shard's answers.
    Next,
    /// With so many of these, as one.
    Gathered(Gather, usize),
}

/// Writes what a transaction has come to.
pub fn write_executed(parts: &[Part], reply: &Reply, version: Version, out: &mut Vec<u8>) {
    let mut writer = RespWriter::new(out, version);
    let Reply::Array(answers) = reply else {
        match reply {
            Reply::Nil => writer.null_array(),
            other => other.give(&mut writer),
        }
        return;
    };
    let mut answers = answers.iter();
    writer.array(parts.len());
    for part in parts {
        match part {
            Part::Known(bytes) => writer.out.extend_from_slice(bytes),
            Part::Next => answers.next().unwrap_or(&Reply::Nil).give(&mut writer),
            Part::Gathered(gather, count) => {
                let answers = answers.by_ref().take(*count);
                let number = |answer: &Reply| if let Reply::Int(n) = answer { *n } else { 0 };
                let sum = answers.map(number).sum();
                match gather {
                    Gather::Sum => writer.int(sum),
                    Gather::Ok => writer.ok(),
                }
            }
        }
    }
}

impl EventLoop {
    pub(super) fn watch(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        keys: &[&[u8]],
        (now, fetched): (Now, Fetched),
        muted: bool,
    ) -> Done {
        if !connection.pending.is_empty() {
            connection.barrier = true;
            return Done::PutOff;
        }
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let mut seen = Vec::with_capacity(keys.len());
        for key in keys {
            match node::read::seen(&route, key, now, &fetched) {
                Ok(had) => seen.push((*key, had)),
                Err(blocked) => {
                    connection.fetched = fetched;
                    self.wait_or_fetch(at, connection, &route, blocked, now, keys);
                    return Done::PutOff;
                }
            }
        }
        if let Err(error) = session.watch(&seen) {
            return self.refuse(connection, session, &String::from_utf8_lossy(error.text()), muted);
        }
        if !muted {
            session.writer(&mut connection.output).ok();
        }
        Done::Yes
    }

    pub(super) fn exec(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        muted: bool,
    ) -> Done {
        let Some(queue) = session.take_queue() else {
            unreachable!("EXEC without MULTI is refused before");
        };
        // Before the commands are understood: an UNWATCH among them comes too late.
        let watched = session.take_watched();
        let done = self.exec_queued(at, connection, session, (&queue, &watched), muted);
        match done {
            Done::PutOff => session.queue_again(queue, watched),
            Done::Yes => session.end_transaction(),
        }
        done
    }

    fn exec_queued(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        (queue, watched): (&Queue, &Watched),
        muted: bool,
    ) -> Done {
        if !self.hub.may_use(Feature::Transactions) {
            return self.refuse(connection, session, LEVEL_TOO_LOW, muted);
        }
        if connection.route.is_none() {
            return self.without_keyspace(at, connection, session, muted);
        }
        let (parts, commands) = self.understand(connection, session, queue);
        if !watched.is_empty() && watched.keyspace() != session.keyspace() {
            let text = format!(
                "ERR keys of keyspace '{}' are watched, and a transaction is of one keyspace; \
                 nothing was done",
                watched.keyspace()
            );
            return self.refuse(connection, session, &text, muted);
        }
        if commands.is_empty() && watched.is_empty() {
            let mut bytes = Vec::new();
            write_executed(&parts, &Reply::Array(Vec::new()), session.version(), &mut bytes);
            match (muted, connection.pending.is_empty()) {
                (true, _) => {}
                (false, true) => connection.output.extend_from_slice(&bytes),
                (false, false) => connection.pending.push_back(Slot::bytes(bytes)),
            }
            return Done::Yes;
        }
        let takes = self.all_take(connection, &commands);
        if takes.reply_bytes > self.config.output_bytes_max {
            return self.refuse(connection, session, TOO_LONG, muted);
        }
        if takes.must_wait(connection) {
            connection.barrier = true;
            return Done::PutOff;
        }
        if takes.adds_bytes > 0 {
            let used_bytes = self.hub.memory_used_bytes.load(Ordering::Relaxed);
            if !self.hub.growth.ask(takes.adds_bytes, used_bytes, self.hub.memory_bytes_max) {
                return self.refuse(connection, session, OUT_OF_MEMORY, muted);
            }
        }
        let watched = watched.keys().collect();
        let write = Write::Transaction(Box::new(Transaction { watched, commands }));
        let number = connection.next_number();
        if let Err(text) = self.put_write(connection, &write, waiter(at, number)) {
            if takes.adds_bytes > 0 {
                self.hub.growth.done(takes.adds_bytes);
            }
            let text = if text == CROSS_SLOT { CROSS_SHARD } else { text };
            return self.refuse(connection, session, text, muted);
        }
        let frame = Frame::Resp { version: session.version(), muted };
        connection.pending.push_back(Slot::executing(parts, frame));
        connection.takes.add(number, &takes);
        Done::Yes
    }

    /// What was queued: how each command is answered, and what the shard is to do.
    fn understand<'q>(
        &self,
        connection: &Connection,
        session: &mut Session,
        queue: &'q Queue,
    ) -> (Vec<Part>, Vec<Step<'q>>) {
        let context = CommandContext {
            hub: &self.hub,
            config: &self.config,
            clients: &self.clients,
            texts: &self.texts,
            now: self.now,
            id: connection.id,
        };
        let (mut parts, mut commands) = (Vec::with_capacity(queue.len()), Vec::new());
        for args in queue.commands() {
            let mut known = Vec::new();
            parts.push(match session.translate_queued(args, &context, &mut known) {
                Request::Answered => Part::Known(known),
                Request::Read(read) => {
                    commands.push(Step::Read(read));
                    Part::Next
                }
                Request::Write(write) => {
                    commands.push(Step::Write(write));
                    Part::Next
                }
                Request::WriteEach { gather, writes } => {
                    let count = writes.len();
                    commands.extend(writes.into_iter().map(Step::Write));
                    Part::Gathered(gather, count)
                }
                _ => {
                    session.writer(&mut known).error("ERR this is not allowed in transactions");
                    Part::Known(known)
                }
            });
        }
        (parts, commands)
    }

    /// What the commands of a transaction may take of memory, all together.
    fn all_take(&self, connection: &Connection, commands: &[Step<'_>]) -> Takes {
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
            bytes if bytes < Takes::ADDS_BYTES_MIN => 0,
            bytes => bytes.min(WRITTEN_BYTES_MAX),
        };
        all
    }
}

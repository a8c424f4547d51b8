//! Puts writes into this iteration's batch for their shard, if memory admits them. A write to
//! several shards becomes one transaction.

use command::{ObservedVersion, Step, Transaction, Write};
use keyspace::{Feature, ShardId, Timestamp};
use node::replica::entry::Waiter;
use node::routing::route::Route;

use super::EventLoop;
use super::connection::Connection;
use super::memory_need::MemoryNeed;
use super::pending_reply::{PendingReply, ReplyFrame};
use super::resp::{COMMAND_TOO_LONG, CROSS_SLOT, CommandOutcome, NO_KEYSPACE, OUT_OF_MEMORY};
use super::serve::waiter;
use super::transactions::ExecPart;
use gateway::resp::{Gather, Session};

impl EventLoop {
    pub(super) fn write(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        write: &Write<'_>,
        muted: bool,
    ) -> CommandOutcome {
        let Some(route) = &connection.route else {
            return self.without_keyspace(at, connection, session, muted);
        };
        if let Write::SetAllIfAbsent { pairs } = write
            && self.runtime.version.allows(Feature::Transactions)
            && crosses(route, pairs.iter().map(|(key, _)| *key))
        {
            let transaction = Box::new(all_if_absent(pairs));
            let part = ExecPart::Alone(Gather::One, pairs.len());
            return self.write_all(at, connection, session, transaction, part, muted);
        }
        if self.holds_back(at, connection, |show| write.each_key(&mut |key| show(key))) {
            return CommandOutcome::Deferred;
        }
        let mut takes = self.takes(connection, write);
        if let Some(key) = write.replied_key() {
            takes.reply_bytes = self.expected_value_bytes(connection, key) + takes.unseen_bytes;
        }
        if takes.must_wait(connection) {
            connection.next.barrier = true;
            return CommandOutcome::Deferred;
        }
        let Some(reservation) = self.runtime.memory.reserve(takes.adds_bytes) else {
            return self.refuse(connection, session, OUT_OF_MEMORY, muted);
        };
        let number = connection.next_number();
        match self.put_write(connection, write, waiter(at, number)) {
            Ok(()) => connection.pending.push_back(PendingReply::waiting(ReplyFrame::Resp {
                version: session.version(),
                muted,
            })),
            Err(text) => return self.refuse(connection, session, text, muted),
        }
        connection.takes.add(number, &takes, reservation);
        CommandOutcome::Answered
    }

    /// Whether there is no memory for what may take more.
    #[inline]
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.runtime.memory.is_full()
    }

    /// What a write may take of memory beyond what the client sends for it.
    #[inline]
    pub(super) fn takes(&self, connection: &Connection, write: &Write<'_>) -> MemoryNeed {
        let mut takes =
            MemoryNeed { lengthens_bytes: write.growth_bytes_max(), ..connection.takes.none() };
        if let Some(key) = write.replied_key() {
            takes.reply_bytes = self.value_bytes(connection, key) + takes.unseen_bytes;
        }
        if let Some(from) = write.copied_key() {
            takes.copies = true;
            takes.lengthens_bytes = self.value_bytes(connection, from);
        }
        let from_little = takes.copies || matches!(write, Write::SetRange { .. });
        if from_little && write.may_grow() && takes.lengthens_bytes >= MemoryNeed::ADDS_BYTES_MIN {
            let before = self.value_bytes(connection, write.last_key());
            takes.adds_bytes = takes.lengthens_bytes.saturating_sub(before);
        }
        takes
    }

    /// As [`Self::value_bytes`]; if that cannot be seen at once, how long it was when the local
    /// replica was not behind, or what values elsewhere have. Only to decide what must wait.
    pub(super) fn expected_value_bytes(&self, connection: &Connection, key: &[u8]) -> u64 {
        let Some(route) = &connection.route else { return 0 };
        match self.value_bytes(connection, key) {
            0 => node::replica::read::applied_bytes(route, key)
                .unwrap_or_else(|| connection.takes.unseen_value_bytes()),
            bytes => bytes,
        }
    }

    /// How long the value of a key is now, as far as that can be seen at once.
    pub(super) fn value_bytes(&self, connection: &Connection, key: &[u8]) -> u64 {
        let Some(route) = &connection.route else { return 0 };
        let bytes = node::replica::read::value(route, key, self.moment(), |version| {
            version.map_or(0, |version| version.value.len() as u64)
        });
        bytes.unwrap_or(0)
    }

    pub(super) fn write_each(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        gather: Gather,
        writes: &[Write<'_>],
        muted: bool,
    ) -> CommandOutcome {
        if connection.route.is_none() {
            return self.without_keyspace(at, connection, session, muted);
        }
        if self.is_out_of_memory() && writes.iter().any(Write::may_grow) {
            return self.refuse(connection, session, OUT_OF_MEMORY, muted);
        }
        if writes.len() > 1 && self.runtime.version.allows(Feature::Transactions) {
            let commands = writes.iter().cloned().map(Step::Write).collect();
            let transaction = Box::new(Transaction { commands, ..Transaction::default() });
            let part = ExecPart::Alone(gather, writes.len());
            return self.write_all(at, connection, session, transaction, part, muted);
        }
        let each = |show: &mut dyn FnMut(&_)| {
            writes.iter().for_each(|write| write.each_key(&mut |key| show(key)));
        };
        if self.holds_back(at, connection, each) {
            return CommandOutcome::Deferred;
        }
        let is_long = |write: &Write<'_>| self.runtime.is_too_long(write.bytes_about());
        if writes.iter().any(is_long) {
            return self.refuse(connection, session, COMMAND_TOO_LONG, muted);
        }
        let lengthens_bytes = writes.iter().map(Write::growth_bytes_max).max().unwrap_or_default();
        connection.takes.lengthens(lengthens_bytes);
        let number = connection.next_number();
        for write in writes {
            // Not judged by memory again: maintenance may find it full between two of them.
            let put = self.put_admitted(connection, write, waiter(at, number));
            put.expect("a single key lies in one shard, and is not too long");
        }
        let frame = ReplyFrame::Resp { version: session.version(), muted };
        let slot = PendingReply::gathering(gather, writes.len() as u32, frame);
        connection.pending.push_back(slot);
        CommandOutcome::Answered
    }

    /// Has several writes done as one, which are one command.
    pub(super) fn write_all(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        transaction: Box<Transaction<'_>>,
        part: ExecPart,
        muted: bool,
    ) -> CommandOutcome {
        let lengths = transaction.writes().map(Write::growth_bytes_max);
        connection.takes.lengthens(lengths.max().unwrap_or_default());
        let only_reads = transaction.writes().next().is_none();
        // What takes a value from shard to shard was judged by what its client has asked for.
        let is_judged = matches!(part, ExecPart::Speculative(_));
        if !is_judged && self.is_out_of_memory() && transaction.writes().any(Write::may_grow) {
            return self.refuse(connection, session, OUT_OF_MEMORY, muted);
        }
        match self.put_transaction(at, connection, transaction) {
            Ok(()) => {}
            Err(None) => return CommandOutcome::Deferred,
            Err(Some(text)) => return self.refuse(connection, session, text, muted),
        }
        let frame = ReplyFrame::Resp { version: session.version(), muted };
        connection
            .pending
            .push_back(PendingReply::executing(vec![part], frame).reading(only_reads));
        CommandOutcome::Answered
    }

    /// Puts a write into this turn's batch for its shard.
    pub(super) fn put_write(
        &mut self,
        connection: &mut Connection,
        write: &Write<'_>,
        waiter: Waiter,
    ) -> Result<(), &'static str> {
        if connection.route.is_none() {
            return Err(NO_KEYSPACE);
        }
        if self.is_out_of_memory() && write.may_grow() {
            return Err(OUT_OF_MEMORY);
        }
        self.put_admitted(connection, write, waiter)
    }

    /// As [`Self::put_write`], for a write that memory admits.
    #[inline]
    pub(super) fn put_admitted(
        &mut self,
        connection: &mut Connection,
        write: &Write<'_>,
        waiter: Waiter,
    ) -> Result<(), &'static str> {
        let Some(route) = &connection.route else { return Err(NO_KEYSPACE) };
        if self.runtime.is_too_long(write.bytes_about()) {
            return Err(COMMAND_TOO_LONG);
        }
        let shard = match write {
            Write::Set { key, .. } | Write::Block { key, .. } => {
                route.shard(route.place_of_key(key))
            }
            other => shard_of_all(route, other)?,
        };
        if self.sampler.notes() {
            self.runtime.request_rates.note_write(route, write);
        }
        if self.runtime.events.is_sampling() {
            let mut keys = Vec::new();
            write.each_key(&mut |key| keys.push(key));
            let traces = connection.next.lookups.as_deref().unwrap_or_default();
            self.runtime.sample_request(route, true, keys, traces);
        }
        if self.runtime.peers.is_some() {
            connection.written.add(shard);
        }
        connection.pipeline.wrote(shard);
        if !connection.pipeline.has_no_reads() {
            write.each_key(&mut |key| connection.pipeline.overwrites(route.key(key).hash));
        }
        self.put_in_batch(shard, write, waiter);
        Ok(())
    }

    #[inline]
    pub(super) fn put_in_batch(
        &mut self,
        shard: keyspace::ShardId,
        write: &Write<'_>,
        waiter: Waiter,
    ) {
        self.batch(shard).push(write, waiter);
        self.counted.writes += 1;
    }
}

/// The shard in which all keys of a write lie.
fn shard_of_all(route: &Route, write: &Write<'_>) -> Result<ShardId, &'static str> {
    let mut place = None;
    let mut crosses = false;
    write.each_key(&mut |key| {
        let here = route.place_of_key(key);
        crosses |= place.is_some_and(|place| place != here);
        place = Some(here);
    });
    if crosses {
        return Err(CROSS_SLOT);
    }
    Ok(route.shard(place.expect("commands for one shard name a key")))
}

/// Whether keys lie in several shards.
pub(super) fn crosses<'k>(route: &Route, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
    let mut first = None;
    keys.into_iter()
        .map(|key| route.place_of_key(key))
        .any(|here| *first.get_or_insert(here) != here)
}

/// MSETNX, as a transaction: sets all, unless a key has a value.
fn all_if_absent<'a>(pairs: &[(&'a [u8], &'a [u8])]) -> Transaction<'a> {
    let set = |(key, value): &(&'a [u8], &'a [u8])| Step::Write(Write::set(key, value));
    let watched = pairs.iter().map(|(key, _)| (*key, ObservedVersion::Absent(Timestamp::MAX)));
    let (watched, commands) = (watched.collect(), pairs.iter().map(set).collect());
    Transaction { watched, commands, ..Transaction::default() }
}

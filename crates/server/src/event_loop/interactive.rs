//! Runs the commands between BEGIN and COMMIT.
//!
//! ```text
//!   GET a ──► Interactive lacks a ──► read as any key is, here or at its leader ──► run on a copy
//!   RANGE ──► there is a gap ──► one shard's part of it is looked at, its keys are read ──► …
//!   COMMIT ──► all of it as one transaction ──► OK, or CONFLICT and the key
//! ```
//!
//! A command that lacks a value waits, and is tried again when the value has come. It keeps what it
//! has read by then.

use command::{Pair, RangeQuery, Read, Reply, Sink as _, Step};
use keyspace::Feature;
use node::replica::read::ReadTime;
use node::replica::scan::{self, PIECE_KEYS};
use node::routing::fetch::{FetchRequest, FetchResult};
use node::routing::route::Route;
use txn::interactive::{BYTES_MAX, InteractiveTxn, TxnTooLarge, UnreadRange};

use super::EventLoop;
use super::connection::Connection;
use super::keyspace_scan::{needs_other_layout, range_query};
use super::moment::ReadMoment;
use super::reply_limit::size_of;
use super::resp::CommandOutcome;
use super::serve::go_waiter;
use super::transactions::{CLUSTER_VERSION_TOO_LOW, ExecPart, write_executed};
use gateway::resp::{KeyspaceRequest, Range, Request, RespWriter, Session};

/// The error of a transaction that would read and write too much.
const TOO_MUCH: &str = "ERR a transaction reads and writes at most 65536 keys, and 32 MiB of keys \
                        and values, and at most 1024 separate ranges; the command was not run, and \
                        the transaction goes on";
/// … of a command on the connection, or of a keyspace scan.
const NOT_WITHIN: &str = "ERR the command is not allowed between BEGIN and COMMIT; it was not run, \
                          and the transaction goes on";

/// … of a transaction whose keyspace was dropped, even if a new one has the name.
const DROPPED: &str = "ERR the keyspace was dropped since BEGIN; nothing was done, and the \
                       transaction is over";

/// The outcome of a step of a command.
pub(super) enum StepOutcome<T> {
    /// It is there.
    Ready(T),
    /// It waits for something.
    Pending,
    /// The transaction would know too much.
    TooMuch,
}

impl EventLoop {
    pub(super) fn begin(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        if !self.runtime.version.allows(Feature::Transactions) {
            return self.refuse(connection, session, CLUSTER_VERSION_TOO_LOW, muted);
        }
        let Some(route) = &connection.route else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let mut transaction = InteractiveTxn::new(self.now, BYTES_MAX);
        transaction.keyspace = Some(route.keyspace.id);
        session.begin(Box::new(transaction));
        if !muted {
            session.writer(&mut connection.output.bytes).ok();
        }
        CommandOutcome::Answered
    }

    /// Runs a command of a transaction that was begun.
    pub(super) fn interact(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        request: Request<'_>,
        moment: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let Some(route) = connection.route.clone() else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let mut transaction = session.take_transaction().expect("a transaction is open");
        if transaction.keyspace != Some(route.keyspace.id) {
            return self.refuse(connection, session, DROPPED, muted);
        }
        let before = connection.output.bytes.len();
        let got = match request {
            Request::Keyspace(request @ KeyspaceRequest::Range(_))
                if let Some(text) = needs_other_layout(&request, &route) =>
            {
                session.writer(&mut connection.output.bytes).error(text);
                StepOutcome::Ready(())
            }
            Request::Keyspace(KeyspaceRequest::Range(range)) => {
                self.show_range(at, connection, session, &mut transaction, &range, moment)
            }
            request => match steps_of(request) {
                None => {
                    session.writer(&mut connection.output.bytes).error(NOT_WITHIN);
                    StepOutcome::Ready(())
                }
                Some((steps, part)) => {
                    let got = self.run_steps(at, connection, &mut transaction, &steps, moment);
                    match got {
                        StepOutcome::Ready(mut replies) => {
                            if session.replies_size() {
                                to_sizes(&steps, &mut replies);
                            }
                            let (version, reply) = (session.version(), Reply::Array(replies));
                            write_executed(&[part], &reply, version, &mut connection.output.bytes);
                            StepOutcome::Ready(())
                        }
                        StepOutcome::Pending => StepOutcome::Pending,
                        StepOutcome::TooMuch => StepOutcome::TooMuch,
                    }
                }
            },
        };
        session.begin(transaction);
        match got {
            StepOutcome::Pending => return CommandOutcome::Deferred,
            StepOutcome::TooMuch => return self.refuse(connection, session, TOO_MUCH, muted),
            StepOutcome::Ready(()) if connection.output.bytes.get(before) == Some(&b'-') => {
                self.runtime.counters.errors.add(1);
            }
            StepOutcome::Ready(()) => {}
        }
        if muted {
            connection.output.bytes.truncate(before);
        }
        CommandOutcome::Answered
    }

    /// Runs steps on a copy, once it has the values that they need.
    pub(super) fn run_steps(
        &mut self,
        at: usize,
        connection: &mut Connection,
        transaction: &mut InteractiveTxn,
        steps: &[Step<'_>],
        moment: ReadMoment,
    ) -> StepOutcome<Vec<Reply>> {
        let mut lacks: Vec<&[u8]> =
            steps.iter().flat_map(|step| transaction.missing_keys(step)).collect();
        lacks.sort_unstable();
        lacks.dedup();
        match self.read_into(at, connection, transaction, &lacks, moment) {
            StepOutcome::Ready(()) => {}
            StepOutcome::Pending => return StepOutcome::Pending,
            StepOutcome::TooMuch => return StepOutcome::TooMuch,
        }
        match transaction.run_all(steps) {
            Ok(replies) => StepOutcome::Ready(replies),
            Err(TxnTooLarge) => StepOutcome::TooMuch,
        }
    }

    /// Has a transaction learn what keys have.
    fn read_into(
        &mut self,
        at: usize,
        connection: &mut Connection,
        transaction: &mut InteractiveTxn,
        keys: &[&[u8]],
        ReadMoment { now, fetched }: ReadMoment,
    ) -> StepOutcome<()> {
        if keys.is_empty() {
            return StepOutcome::Ready(());
        }
        let Some(route) = connection.route.clone() else { return StepOutcome::Pending };
        for (place, key) in keys.iter().enumerate() {
            let learnt =
                node::replica::read::seen_with(&route, key, now, &fetched, |version, seen| {
                    let value = version.map(|version| (version.value, version.expiry_ms));
                    transaction.record_read(key, value, seen)
                });
            match learnt {
                Ok(Ok(())) => {}
                Ok(Err(TxnTooLarge)) => return StepOutcome::TooMuch,
                Err(blocked) => {
                    connection.next.fetched = fetched;
                    self.wait_or_fetch(at, connection, &route, blocked, now, &keys[place..]);
                    return StepOutcome::Pending;
                }
            }
        }
        self.note_read(&route, &Read::GetMany(keys.to_vec()), None);
        StepOutcome::Ready(())
    }

    /// Answers RANGE.
    fn show_range(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        transaction: &mut InteractiveTxn,
        range: &Range<'_>,
        ReadMoment { now, mut fetched }: ReadMoment,
    ) -> StepOutcome<()> {
        let Some(route) = connection.route.clone() else { return StepOutcome::Pending };
        let wanted = range_query(range);
        loop {
            let unread: Vec<Box<[u8]>> = transaction.unread().map(Box::from).collect();
            let unread: Vec<&[u8]> = unread.iter().map(|key| &**key).collect();
            let moment = ReadMoment { now, fetched: std::mem::take(&mut fetched) };
            match self.read_into(at, connection, transaction, &unread, moment) {
                StepOutcome::Ready(()) => {}
                other => return other,
            }
            let Some(gap) = transaction.unread_range(&wanted) else { break };
            match self.look_into(at, connection, transaction, &route, &gap, now) {
                StepOutcome::Ready(()) => {}
                other => return other,
            }
        }
        let mut writer = session.writer(&mut connection.output.bytes);
        write_range(range, &transaction.range(&wanted), &mut writer);
        StepOutcome::Ready(())
    }

    /// Looks which keys are in the part of a gap that one shard has.
    fn look_into(
        &mut self,
        at: usize,
        connection: &mut Connection,
        transaction: &mut InteractiveTxn,
        route: &Route,
        gap: &UnreadRange,
        now: ReadTime,
    ) -> StepOutcome<()> {
        let (place, part) = gap.first_part(route);
        let (low, high) = part.bounds();
        let keys_max = gap.keys_max.min(txn::interactive::KEYS_MAX);
        let shard = route.shard(place);
        let (mut keys, mut reached) = (Vec::new(), None);
        if self.runtime.routing.must_fetch(route, place) {
            let (low, high) = (low.map(Box::from), high.map(Box::from));
            let (reverse, keys_max, with_values) = (gap.reverse, keys_max as u64, false);
            let want = FetchRequest::Range { low, high, reverse, keys_max, with_values };
            let Some(FetchResult::Pairs { pairs, reached: to }) =
                connection.next.fetched.of(shard, &want)
            else {
                self.fetch(at, connection, vec![(shard, want)], now);
                return StepOutcome::Pending;
            };
            keys.extend(pairs.iter().map(|(key, _)| key.clone()));
            reached = to.clone();
        } else {
            let asked = match scan::admit(route, &|other| other == place, now) {
                Ok(asked) => asked,
                Err(blocked) => {
                    self.wait_for(connection, route, blocked, now, go_waiter(at));
                    return StepOutcome::Pending;
                }
            };
            let query = RangeQuery { low, high, reverse: gap.reverse, keys_max };
            let mut show = |key: &[u8], _: &[u8]| keys.push(Box::from(key));
            let shown = scan::range(route, &asked, &query, PIECE_KEYS, &mut show);
            if shown.is_err() || !scan::is_unchanged(route, &asked) {
                // The shard was split meanwhile.
                let somewhere = node::replica::read::Blocked::unserved(place);
                self.wait_for(connection, route, somewhere, now, go_waiter(at));
                return StepOutcome::Pending;
            }
            if keys.len() == keys_max {
                reached = keys.last().cloned();
            }
        }
        match transaction.found(&part, gap.reverse, &keys, reached.as_deref()) {
            Ok(()) => StepOutcome::Ready(()),
            Err(TxnTooLarge) => StepOutcome::TooMuch,
        }
    }

    /// Has all of a transaction done. Whatever comes of it, it is over.
    pub(super) fn commit(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let begun = session.take_transaction().expect("a transaction is open");
        let id = connection.route.as_ref().map(|route| route.keyspace.id);
        if begun.keyspace != id {
            return self.refuse(connection, session, DROPPED, muted);
        }
        if begun.is_empty() {
            if !muted {
                session.writer(&mut connection.output.bytes).ok();
            }
            return CommandOutcome::Answered;
        }
        let transaction = Box::new(begun.transaction());
        self.write_all(at, connection, session, transaction, ExecPart::Committed, muted)
    }
}

/// Puts sizes in the places of values that were read.
fn to_sizes(steps: &[Step<'_>], replies: &mut [Reply]) {
    for (step, reply) in steps.iter().zip(replies) {
        let Reply::Bulk(value) = &*reply else { continue };
        let value_bytes = value.len();
        step.each_key(&mut |key| *reply = Reply::Int(size_of(key.len(), value_bytes)));
    }
}

/// Writes the reply to RANGE, from a copy.
pub(crate) fn write_range(range: &Range<'_>, pairs: &[Pair], writer: &mut RespWriter<'_>) {
    match range.with_values {
        true => writer.pairs(pairs.len()),
        false => writer.array(pairs.len()),
    }
    for (key, value) in pairs {
        if range.with_values {
            writer.pair();
        }
        writer.bulk(key);
        if range.with_values {
            writer.bulk(value);
        }
    }
}

/// What a command does on a copy, and how it is answered; none if it is not for one.
pub(crate) fn steps_of(request: Request<'_>) -> Option<(Vec<Step<'_>>, ExecPart)> {
    Some(match request {
        Request::Read(read) => (vec![Step::Read(read)], ExecPart::Single),
        Request::Write(write) => (vec![Step::Write(write)], ExecPart::Single),
        Request::WriteEach { gather, writes } => {
            let count = writes.len();
            (writes.into_iter().map(Step::Write).collect(), ExecPart::Alone(gather, count))
        }
        _ => return None,
    })
}

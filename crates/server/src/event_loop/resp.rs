//! RESP commands, run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::{CatalogueOp, Feature, ShardId, Timestamp, is_made_on_use};
use node::command::{Expiry, Read, Seen, SetIf, SetReply, Step, Transaction, Write};
use node::entry::Waiter;
use node::fetch::{Fetched, Want};
use node::lane::{Input, Origin};
use node::read::{Blocked, Now};
use node::route::Route;

use super::EventLoop;
use super::capped::{Capped, TOO_LONG};
use super::connection::{Connection, Frame, Protocol, Slot};
use super::context::CommandContext;
use super::executes::moves;
use super::gets::{GETS_MAX, Get};
use super::plain::plain_set;
use super::serve::{go_waiter, waiter};
use super::takes::Takes;
use super::transactions::Part;
use crate::config::Config;
use crate::gateway::resp::{self, Args, Gather, Limits, Parsed, Request, Session};
use crate::hub::NOBODY;
use crate::peer::COMMAND_BYTES_MAX;

/// What a client is told when data takes all of `memory_max`. Redis's words.
pub(super) const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// … when the keys of one command lie in different shards.
pub(super) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
/// … when its keyspace is gone.
pub(super) const NO_KEYSPACE: &str =
    "ERR the selected keyspace does not exist; nothing was done. Create it or select another";

/// … when nodes could not send its command to each other.
pub(super) const TOO_LONG_TO_SEND: &str = concat!(
    "ERR the command has more than 64 MiB, and nodes send each other no longer ones; ",
    "nothing was done"
);

/// Longest request, however long `input_bytes_max` lets it be: MSETNX is one entry, which must fit
/// into a group of the log (1 GiB) behind what its turn has proposed already (256 MiB).
const REQUEST_BYTES_MAX: u64 = 640 << 20;

/// What requests may be like, by the node's configuration.
pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        key_bytes_max: config.key_bytes_max as usize,
        value_bytes_max: config.value_bytes_max as usize,
        request_bytes_max: config.input_bytes_max.min(REQUEST_BYTES_MAX) as usize,
        ..Limits::default()
    }
}

/// What became of a command.
pub(super) enum Done {
    /// It is answered, or its answer is on its way.
    Yes,
    /// It must be tried again when the connection may go on.
    PutOff,
}

impl EventLoop {
    /// Runs commands from the front of `input` until one must wait; how many bytes are done.
    pub(super) fn run_resp(
        &mut self,
        at: usize,
        connection: &mut Connection,
        input: &[u8],
    ) -> usize {
        // Taken out, so that the rest of the connection can be used meanwhile.
        let protocol = std::mem::replace(&mut connection.protocol, Protocol::Native);
        let Protocol::Resp(mut session, mut ranges) = protocol else { return 0 };
        let (mut done, mut commands) = (0, 0);
        let mut plain = self.plain(connection, &session);
        while done < input.len() && self.may_run(connection) {
            let rest = &input[done..];
            let consumed = match resp::parse(rest, &self.limits, &mut ranges) {
                Ok(Parsed::Command { consumed }) => consumed,
                Ok(Parsed::Empty { consumed }) => {
                    done += consumed;
                    continue;
                }
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    if let Some(waits) = self.answer_gets(at, connection, &session, input) {
                        done = waits;
                        break;
                    }
                    let muted = session.is_muted();
                    self.reply_error(connection, &session, &error.to_string(), muted);
                    connection.closing = true;
                    break;
                }
            };
            let args = ranges.args(rest);
            let key_bytes_max = self.limits.key_bytes_max;
            if plain.gets
                && let Some(get) = Get::of(args, input, done, key_bytes_max)
            {
                self.gets.push(get);
                if self.gets.len() == GETS_MAX
                    && let Some(waits) = self.answer_gets(at, connection, &session, input)
                {
                    done = waits;
                    break;
                }
            } else {
                if let Some(waits) = self.answer_gets(at, connection, &session, input) {
                    done = waits;
                    break;
                }
                if plain.sets
                    && let Some(pair) = plain_set(args, key_bytes_max)
                {
                    self.set(at, connection, &mut session, pair);
                    // Its reply is owed before theirs.
                    plain.gets = false;
                } else {
                    if let Done::PutOff = self.run_command(at, connection, &mut session, args) {
                        break;
                    }
                    plain = self.plain(connection, &session);
                }
            }
            done += consumed;
            commands += 1;
        }
        if let Some(waits) = self.answer_gets(at, connection, &session, input) {
            // The beginning of a command behind it may have been parsed already.
            ranges.begin_again();
            done = waits;
        }
        self.tally.commands += commands;
        connection.protocol = Protocol::Resp(session, ranges);
        done
    }

    fn run_command(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        args: Args<'_>,
    ) -> Done {
        let context = CommandContext {
            hub: &self.hub,
            config: &self.config,
            clients: &self.clients,
            texts: &self.texts,
            now: self.now,
            id: connection.id,
        };
        let replies = (connection.output.len(), connection.pending.len());
        // Behind replies that are owed, what is known now must wait for its turn.
        let behind = !connection.pending.is_empty();
        let mut later = Vec::new();
        let out = if behind { &mut later } else { &mut connection.output };
        let before = out.len();
        let request = session.translate(args, &context, out);
        let muted = connection.put_off_muted.take().unwrap_or(session.is_muted());
        if out.get(before) == Some(&b'-') {
            self.hub.counters.errors.add(1);
        }
        // All that a command was put off with is for this one: those put off are tried first.
        let refused = connection.refuse_next.take();
        let put_off_at = connection.put_off_at.take();
        if put_off_at.is_none() {
            connection.looked = None;
            connection.copy = None;
        }
        let fetched = std::mem::take(&mut connection.fetched);
        if !matches!(request, Request::Write(_) | Request::WriteEach { .. }) {
            self.tally.others += 1;
        }
        if !matches!(request, Request::Read(_)) {
            // It stands between WATCH and what reads, even if nobody is told what it says.
            connection.watches_anew = false;
        }
        let done = match request {
            Request::Answered => {
                if args.is(0, "client") || args.is(0, "hello") {
                    self.describe(connection, session);
                }
                Done::Yes
            }
            Request::Reset => {
                connection.last_ways.clear();
                connection.route_version = u64::MAX;
                match connection.pending.is_empty() {
                    true => self.route_of(connection, session),
                    // What is on its way may come back: see `refresh_route`.
                    false => connection.barrier = true,
                }
                Done::Yes
            }
            Request::Close => {
                connection.closing = true;
                Done::Yes
            }
            request if let Some(text) = refused => {
                if request == Request::Exec {
                    session.end_transaction();
                }
                if request == Request::Commit {
                    session.take_begun();
                }
                self.refuse(connection, session, &text, muted)
            }
            Request::Explain(explain) => self.explain(at, connection, session, &explain, muted),
            Request::LastWays => self.last_ways(connection, session, muted),
            request
                if session.names_lookup()
                    && connection.ways.is_none()
                    && self.look_up(at, connection, session, &request) =>
            {
                Done::PutOff
            }
            Request::Begin => self.begin(at, connection, session, muted),
            Request::Commit => self.commit(at, connection, session, muted),
            request if session.is_begun() => {
                let now = put_off_at.unwrap_or_else(|| self.moment());
                self.interact(at, connection, session, request, (now, fetched), muted)
            }
            ref request if let Some(text) = self.elsewhere(connection, session, request) => {
                self.refuse(connection, session, &text, muted)
            }
            Request::Read(read) => {
                let now = put_off_at.unwrap_or_else(|| self.moment());
                self.read(at, connection, session, &read, (now, fetched), muted)
            }
            Request::Write(write)
                if connection.route.as_ref().is_some_and(|route| moves(&write, route))
                    && self.hub.may_use(Feature::Transactions) =>
            {
                let now = put_off_at.unwrap_or_else(|| self.moment());
                let what = (write, args);
                self.move_value(at, connection, session, what, (now, fetched), muted)
            }
            Request::Write(write) => self.write(at, connection, session, &write, muted),
            Request::WriteEach { gather, writes } => {
                self.write_each(at, connection, session, gather, &writes, muted)
            }
            Request::Watch(keys) => {
                let now = put_off_at.unwrap_or_else(|| self.moment());
                self.watch(at, connection, session, &keys, (now, fetched), muted)
            }
            Request::Exec => {
                let now = put_off_at.unwrap_or_else(|| self.moment());
                self.exec(at, connection, session, (now, fetched), muted)
            }
            Request::Keyspace(request) => {
                let now = put_off_at.unwrap_or_else(|| self.moment());
                self.run_whole(at, connection, session, &request, (now, fetched), muted)
            }
            Request::Wait(wait) => self.wait_for_replicas(at, connection, session, wait, muted),
            Request::Select(name) => self.select(at, connection, session, name, muted),
        };
        if !later.is_empty() {
            connection.pending.push_back(Slot::bytes(later));
        }
        if matches!(done, Done::Yes) && connection.told().is_none() {
            self.leaves_line(at);
        }
        match done {
            Done::PutOff => connection.put_off_muted = Some(muted),
            Done::Yes if connection.ways.is_some() => {
                let attribute = self.attribute(connection, session, muted);
                connection.precede(attribute, replies);
            }
            Done::Yes => {}
        }
        done
    }

    fn read(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        read: &Read<'_>,
        (now, fetched): (Now, Fetched),
        muted: bool,
    ) -> Done {
        if connection.waits_its_turn() {
            return Done::PutOff;
        }
        let Some(route) = &connection.route else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let age_max = session.stale_nanos();
        let is_wide = read.keys().len() > 1 && self.hub.peers.is_some() && age_max == 0;
        let in_pieces = || connection.looked.is_some() || !fetched.is_of_one_moment();
        if is_wide && (in_pieces() || crosses(route, read.keys().iter().copied())) {
            return self.read_wide(at, connection, session, read, (now, fetched), muted);
        }
        let before = connection.output.len();
        let mut writer = session.writer(&mut connection.output);
        let bytes_max = self.config.output_bytes_max as usize;
        let mut capped = Capped::new(&mut writer, bytes_max);
        let answered = match age_max {
            0 => node::read::read_with(route, read, now, &fetched, &mut capped).map(|()| 0),
            _ => node::read::read_stale(route, read, now, age_max, &fetched, &mut capped),
        };
        if let (Ok(age), true) = (&answered, age_max > 0) {
            session.was_old(*age);
        }
        match answered {
            Ok(_) if capped.overflown => {
                connection.output.truncate(before);
                self.refuse(connection, session, TOO_LONG, muted)
            }
            Ok(_) => {
                self.note_read(route, read);
                if let Read::Get(_) = read {
                    let found =
                        connection.output.get(before + 1).is_some_and(|b| b.is_ascii_digit());
                    if found { self.tally.hits += 1 } else { self.tally.misses += 1 }
                }
                if muted {
                    connection.output.truncate(before);
                }
                Done::Yes
            }
            Err(blocked) => {
                connection.output.truncate(before);
                let route = route.clone();
                let sent_on = &mut connection.sent_on;
                if let Some(moved) = self.moved_read(sent_on, session, &route, blocked, read.keys())
                {
                    return self.refuse(connection, session, &moved, muted);
                }
                connection.fetched = fetched;
                self.wait_or_fetch(at, connection, &route, blocked, now, read.keys());
                Done::PutOff
            }
        }
    }

    /// Has a blocked read of keys wait for its shard, or for what is fetched for it of shards that
    /// are on other nodes, or lag here.
    pub(super) fn wait_or_fetch(
        &mut self,
        at: usize,
        connection: &mut Connection,
        route: &Route,
        blocked: Blocked,
        now: Now,
        keys: &[&[u8]],
    ) {
        if !self.hub.must_fetch(route, blocked.place) {
            self.wait_for(connection, route, blocked, now, go_waiter(at));
            return self.prepare(route, blocked, now, keys.iter().copied());
        }
        let wants = route.wants(keys.iter().copied(), |place| self.hub.must_fetch(route, place));
        if wants.is_empty() {
            // It has come here, or has caught up, between two looks.
            return self.wait_for(connection, route, blocked, now, go_waiter(at));
        }
        self.fetch(at, connection, wants, now);
    }

    /// As [`Self::wait_or_fetch`], for who looks at keys of several shards and soon again: what
    /// others lead is asked of them, all at once, and what is locked is asked of who leads, who
    /// tells it when it is not.
    pub(super) fn fetch_or_wait(
        &mut self,
        at: usize,
        connection: &mut Connection,
        route: &Route,
        blocked: Blocked,
        now: Now,
        keys: &[&[u8]],
    ) {
        let is_fetched = |place: usize| {
            let state = route.views[place].read();
            let is_locked = place == blocked.place && blocked.lock.is_some();
            let leader = state.serving.leader();
            let is_elsewhere = leader.is_some_and(|leader| leader != self.hub.node_id);
            drop(state);
            (is_locked && leader.is_some())
                || (is_elsewhere && !route.views[place].read().serving.at(now.boot))
                || self.hub.must_fetch(route, place)
        };
        if self.hub.peers.is_none() || !is_fetched(blocked.place) {
            return self.wait_or_fetch(at, connection, route, blocked, now, keys);
        }
        let wants = route.wants(keys.iter().copied(), is_fetched);
        match wants.is_empty() {
            // Somebody else leads by now.
            true => self.wait_or_fetch(at, connection, route, blocked, now, keys),
            false => self.fetch(at, connection, wants, now),
        }
    }

    /// Has a command wait for what shards on other nodes hold.
    pub(super) fn fetch(
        &mut self,
        at: usize,
        connection: &mut Connection,
        wants: Vec<(ShardId, Want)>,
        now: Now,
    ) {
        connection.awaiting = true;
        connection.put_off_at = Some(now);
        connection.route_version = u64::MAX;
        connection.fetching = wants.len() as u32;
        let bytes_max = usize::try_from(self.config.output_bytes_max).unwrap_or(usize::MAX);
        let (origin, waiter) = (Origin(self.number as u32), go_waiter(at));
        let fetch = |(shard, want)| {
            let want = Box::new(want);
            (shard, Input::Fetch { shard, want, bytes_max, origin, waiter })
        };
        self.inputs.extend(wants.into_iter().map(fetch));
    }

    /// Has the lane of a shard say when a read may be tried again: with the clock it had, for what
    /// is found out until then is as of that clock.
    pub(super) fn wait_for(
        &mut self,
        connection: &mut Connection,
        route: &Route,
        blocked: Blocked,
        now: Now,
        waiter: Waiter,
    ) {
        connection.awaiting = true;
        connection.put_off_at = Some(now);
        // A shard that was dropped answers that it is not there: look the keyspace up again then.
        connection.route_version = u64::MAX;
        let shard = route.shard(blocked.place);
        let origin = Origin(self.number as u32);
        self.inputs.push((
            shard,
            Input::Await { shard, at: blocked.at, lock: blocked.lock, origin, waiter },
        ));
    }

    /// A read that is blocked at one shard may be so at others: has their lanes find out meanwhile.
    pub(super) fn prepare<'k>(
        &mut self,
        route: &Route,
        blocked: Blocked,
        now: Now,
        keys: impl Iterator<Item = &'k [u8]>,
    ) {
        if self.hub.peers.is_none() {
            return;
        }
        let mut places: Vec<usize> = keys.map(|key| route.place(&route.key(key))).collect();
        places.sort_unstable();
        places.dedup();
        let serves = |place: usize| route.views[place].read().serving.at(now.boot);
        let must_fetch = |place: usize| self.hub.must_fetch(route, place);
        places.retain(|p| *p != blocked.place && !serves(*p) && !must_fetch(*p));
        for shard in places.into_iter().map(|place| route.shard(place)) {
            let (at, origin, waiter) = (blocked.at, NOBODY, Waiter(0));
            self.inputs.push((shard, Input::Await { shard, at, lock: None, origin, waiter }));
        }
    }

    fn write(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        write: &Write<'_>,
        muted: bool,
    ) -> Done {
        let Some(route) = &connection.route else {
            return self.without_keyspace(at, connection, session, muted);
        };
        if let Write::SetAllIfAbsent { pairs } = write
            && self.hub.may_use(Feature::Transactions)
            && crosses(route, pairs.iter().map(|(key, _)| *key))
        {
            let transaction = Box::new(all_if_absent(pairs));
            let part = Part::Alone(Gather::One, pairs.len());
            return self.write_all(at, connection, session, transaction, part, muted);
        }
        let takes = self.takes(connection, write);
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
        let number = connection.next_number();
        match self.put_write(connection, write, waiter(at, number)) {
            Ok(()) => connection
                .pending
                .push_back(Slot::waiting(Frame::Resp { version: session.version(), muted })),
            Err(text) => {
                if takes.adds_bytes > 0 {
                    self.hub.growth.done(takes.adds_bytes);
                }
                return self.refuse(connection, session, text, muted);
            }
        }
        connection.takes.add(number, &takes);
        Done::Yes
    }

    /// What a write may take of memory beyond what the client sends for it.
    #[inline]
    pub(super) fn takes(&self, connection: &Connection, write: &Write<'_>) -> Takes {
        let mut takes =
            Takes { lengthens_bytes: write.lengthens_bytes(), ..connection.takes.none() };
        if let Some(key) = write.replies_value_of() {
            takes.reply_bytes = self.value_bytes(connection, key) + takes.unseen_bytes;
        }
        if let Some(from) = write.copies_value_of() {
            takes.copies = true;
            takes.lengthens_bytes = self.value_bytes(connection, from);
        }
        let from_little = takes.copies || matches!(write, Write::SetRange { .. });
        if from_little && write.may_grow() && takes.lengthens_bytes >= Takes::ADDS_BYTES_MIN {
            let before = self.value_bytes(connection, write.last_key());
            takes.adds_bytes = takes.lengthens_bytes.saturating_sub(before);
        }
        takes
    }

    /// How long the value of a key is now, as far as that can be seen at once.
    pub(super) fn value_bytes(&self, connection: &Connection, key: &[u8]) -> u64 {
        let Some(route) = &connection.route else { return 0 };
        let bytes = node::read::value(route, key, self.moment(), |version| {
            version.map_or(0, |version| version.value.len() as u64)
        });
        bytes.unwrap_or(0)
    }

    fn write_each(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        gather: Gather,
        writes: &[Write<'_>],
        muted: bool,
    ) -> Done {
        if connection.route.is_none() {
            return self.without_keyspace(at, connection, session, muted);
        }
        if self.hub.out_of_memory.load(Ordering::Relaxed) && writes.iter().any(Write::may_grow) {
            return self.refuse(connection, session, OUT_OF_MEMORY, muted);
        }
        if writes.len() > 1 && self.hub.may_use(Feature::Transactions) {
            let commands = writes.iter().cloned().map(Step::Write).collect();
            let transaction = Box::new(Transaction { commands, ..Transaction::default() });
            let part = Part::Alone(gather, writes.len());
            return self.write_all(at, connection, session, transaction, part, muted);
        }
        let is_long = |write: &Write<'_>| write.bytes_about() > COMMAND_BYTES_MAX;
        if self.hub.peers.is_some() && writes.iter().any(is_long) {
            return self.refuse(connection, session, TOO_LONG_TO_SEND, muted);
        }
        let lengthens_bytes = writes.iter().map(Write::lengthens_bytes).max().unwrap_or_default();
        connection.takes.lengthens(lengthens_bytes);
        let number = connection.next_number();
        for write in writes {
            // Not judged by memory again: the keeper may find it full between two of them.
            let put = self.put_admitted(connection, write, waiter(at, number));
            put.expect("a single key lies in one shard, and is not too long");
        }
        let frame = Frame::Resp { version: session.version(), muted };
        let slot = Slot::gathering(gather, writes.len() as u32, frame);
        connection.pending.push_back(slot);
        Done::Yes
    }

    /// Has several writes done as one, which are one command.
    pub(super) fn write_all(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        transaction: Box<Transaction<'_>>,
        part: Part,
        muted: bool,
    ) -> Done {
        let lengths = transaction.writes().map(Write::lengthens_bytes);
        connection.takes.lengthens(lengths.max().unwrap_or_default());
        match self.put_transaction(at, connection, transaction) {
            Ok(()) => {}
            Err(None) => return Done::PutOff,
            Err(Some(text)) => return self.refuse(connection, session, text, muted),
        }
        let frame = Frame::Resp { version: session.version(), muted };
        connection.pending.push_back(Slot::executing(vec![part], frame));
        Done::Yes
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
        if self.hub.out_of_memory.load(Ordering::Relaxed) && write.may_grow() {
            return Err(OUT_OF_MEMORY);
        }
        self.put_admitted(connection, write, waiter)
    }

    /// As [`Self::put_write`], for a write that memory admits.
    #[inline]
    fn put_admitted(
        &mut self,
        connection: &mut Connection,
        write: &Write<'_>,
        waiter: Waiter,
    ) -> Result<(), &'static str> {
        let Some(route) = &connection.route else { return Err(NO_KEYSPACE) };
        if self.hub.peers.is_some() && write.bytes_about() > COMMAND_BYTES_MAX {
            return Err(TOO_LONG_TO_SEND);
        }
        let shard = match write {
            Write::Set { key, .. } => route.shard(route.place_of_key(key)),
            other => shard_of_all(route, other)?,
        };
        if self.sampler.notes() {
            self.hub.heat.note_write(route, write);
        }
        if self.hub.peers.is_some() {
            connection.written.add(shard);
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
        self.tally.writes += 1;
    }

    /// The session's keyspace is not there: one of 0 to 15 is made, any other is an error.
    pub(super) fn without_keyspace(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        muted: bool,
    ) -> Done {
        let name = session.keyspace();
        if !is_made_on_use(name) {
            return self.refuse(connection, session, NO_KEYSPACE, muted);
        }
        self.create(at, connection, name);
        Done::PutOff
    }

    fn select(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        name: &[u8],
        muted: bool,
    ) -> Done {
        if connection.waits_its_turn() {
            return Done::PutOff;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if self.hub.routes().get(&name).is_none() {
            if is_made_on_use(&name) {
                self.create(at, connection, &name);
                return Done::PutOff;
            }
            return self.refuse(connection, session, NO_KEYSPACE, muted);
        }
        session.selected(&name);
        connection.route_version = u64::MAX;
        self.route_of(connection, session);
        if !muted {
            connection.output.extend_from_slice(b"+OK\r\n");
        }
        Done::Yes
    }

    /// Creates a numbered keyspace; the connection's next command waits for it.
    pub(super) fn create(&mut self, at: usize, connection: &mut Connection, name: &str) {
        connection.awaiting = true;
        connection.route_version = u64::MAX;
        let mut op = Vec::new();
        let options = self.config.keyspace_options();
        CatalogueOp::Create { name, options }.encode(&mut op);
        let origin = Origin(self.number as u32);
        let input = Input::Catalogue { op, origin, waiter: go_waiter(at) };
        self.inputs.push((keyspace::ShardId(0), input));
    }

    /// Renews what other connections' CLIENT LIST shows of this one.
    pub(super) fn describe(&self, connection: &Connection, session: &Session) {
        let (input, output) = (connection.input.len(), connection.unsent());
        let idle_secs = self.now.millis().saturating_sub(connection.active_millis) / 1000;
        let line = session.describe(self.now.millis(), idle_secs, input, output);
        self.clients.describe(connection.id, line);
    }

    fn route_of(&self, connection: &mut Connection, session: &Session) {
        connection.route = self.hub.routes().get(session.keyspace()).map(Arc::clone);
    }

    /// Has a command done by replying with an error.
    pub(super) fn refuse(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        text: &str,
        muted: bool,
    ) -> Done {
        self.reply_error(connection, session, text, muted);
        Done::Yes
    }

    /// Replies with an error, behind what is owed already.
    fn reply_error(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        text: &str,
        muted: bool,
    ) {
        self.hub.counters.errors.add(1);
        if muted {
            return;
        }
        if connection.pending.is_empty() {
            session.writer(&mut connection.output).error(text);
        } else {
            let mut bytes = Vec::new();
            session.writer(&mut bytes).error(text);
            connection.pending.push_back(Slot::bytes(bytes));
        }
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
    let set = |(key, value): &(&'a [u8], &'a [u8])| {
        let (when, expiry, reply) = (SetIf::Always, Expiry::Never, SetReply::Ok);
        Step::Write(Write::Set { key, value, when, expiry, reply })
    };
    let watched = pairs.iter().map(|(key, _)| (*key, Seen::Nothing(Timestamp::MAX)));
    let (watched, commands) = (watched.collect(), pairs.iter().map(set).collect());
    Transaction { watched, commands, ..Transaction::default() }
}

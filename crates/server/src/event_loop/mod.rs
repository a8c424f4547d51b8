//! One event loop: a thread with its share of the connections.
//!
//! ```text
//!   turn:  wait ─► mail, sockets ─► read and run commands ─► propose batches ─► write replies
//!                                       ▲   reads: at once        │ one entry per shard
//!                                       └── those whose replies ◄─┘
//!                                           unblocked them
//! ```
//!
//! The loop answers reads at once, from the shards' views. It gathers writes into one batch per
//! shard, and proposes them when it has read all sockets of the iteration. So an iteration costs
//! one log entry per shard, one log write per executor and one socket write per connection, for any
//! number of commands.
//!
//! A read behind unanswered writes of the same connection sees what they write: it joins the log of
//! its shard, or is parked until they are answered (`parked_reads`). Commands that can do neither
//! wait until nothing is owed (a *barrier*), and so does all that is behind them. Pipelined writes
//! to one shard take effect in order; writes to different shards are under way at the same time.
//!
//! | queue | bound | when full |
//! |---|---|---|
//! | input of a connection | `input_bytes_max` | not read further until commands are done |
//! | replies owed to one | [`connection::PENDING_MAX`] | its commands wait in its input |
//! | reads among them | [`node::routing::pipeline::READS_MAX`], copied keys `READ_BYTES_MAX` | the next waits until nothing is owed |
//! | stored values in them | 1 MiB and a value | its writes that reply values wait for the others |
//! | output of one | 1 MiB and a reply | its commands wait until it has read |
//! | one reply | `output_bytes_max` | replaced by an error |
//! | pushes to one | `output_bytes_max`, with its output | not taken: the caller closes the connection |
//! | messages to a subscriber | `pubsub_output_bytes_max`, with its output | it is cut off |
//! | output of all together | `output_bytes_total_max` | the longest ones' connections are closed |
//! | connections | `connections_max` | refused with an error |

mod cluster;
pub mod connection;
mod context;
mod coordinator;
mod gets;
mod interactive;
mod invalidations;
mod keyspace_scan;
mod kill;
mod late;
mod libraries;
mod lookup;
mod memory_need;
mod moment;
mod monitors;
mod multi_shard_reads;
mod native;
mod parked_reads;
mod past;
mod past_keyspace;
mod pending_reply;
mod plain;
mod polling;
pub mod pubsub;
mod reads;
mod refusals;
mod remote_scan;
mod reply_limit;
mod reserve;
mod resp;
mod retries;
mod scans;
mod scripts;
mod selection;
mod serve;
mod sockets;
mod state;
mod statistics;
mod timing;
mod topology;
mod tracking;
mod tracking_connection;
mod transactions;
mod transport;
mod unread;
mod value_moves;
pub(crate) mod volumes;
mod wait;
mod writes;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balancer::hot::Sampler;
use command::Read;
use command::Reply;
use keyspace::{ShardId, Timestamp};
use mio::net::TcpListener;
use mio::{Events, Poll, Token};
use node::executor::{Answer, Input, Origin};
use node::replica::entry::{Batch, Waiter};
use node::replica::read::ReadTime;
use node::routing::route::Route;
use slab::Slab;
use txn::ConflictRate;
use txn::coordinator::{Coordinator, TxnOutcome};
use txn::retry_queue::RetryQueue;

use crate::config::Config;
use crate::listeners::{Bound, Listener};
use crate::password::PasswordGate;
use crate::peer::InlinePoller;
use crate::process::disk_failed;
use crate::runtime::NodeRuntime;
use crate::runtime::boot_nanos;
use crate::runtime::durations::DurationCounts;
use crate::runtime::executors;
use crate::runtime::lookups::Trace;
use crate::runtime::mailbox::Mail;
use crate::scripts::RunsAt;
use crate::scripts::{Job, Surroundings};
use crate::tls::Tls;
use connection::Connection;
pub(crate) use context::CommandContext;
pub use context::{Clients, Texts};
pub(crate) use coordinator::ended_text;
use gateway::resp::{Mode, RequestLimits};
use gets::Get;
pub(crate) use interactive::{steps_of, write_range};
pub(crate) use keyspace_scan::{needs_other_layout, range_query};
pub(crate) use libraries::write_known;
pub(crate) use reply_limit::size_of;
pub(crate) use resp::limits as request_limits;
pub(crate) use serve::not_done_text;
use statistics::LoopStatistics;
pub(crate) use transactions::write_executed;
use wait::ReplicaWaits;

/// Bytes read from one socket per turn, so that all get their turn.
const READ_BYTES: usize = 128 << 10;
/// Rounds of serving and proposing in one turn.
const ROUNDS_MAX: usize = 16;
/// Output buffers larger than this are given back when they are empty.
const OUTPUT_SPARE_BYTES: usize = 16 << 10;
/// A connection that has so much to be sent has its further commands wait until it has read.
const OUTPUT_PAUSE_BYTES: usize = 1 << 20;
/// Applied batches whose memory a loop keeps for the next ones, and how large they may be.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 300 << 10;
/// Token of the loop's waker.
pub const WAKER: Token = Token(usize::MAX);
const PEERS: Token = Token(usize::MAX - 1);
/// Token of the first listener; those of the others follow. There are never so many connections.
const LISTENERS: usize = usize::MAX - 1024;
/// How often idle connections are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// After so many turns with nothing but writes, a loop makes the fsyncs they wait for itself …
const WRITE_TURNS_MIN: u32 = 64;
/// … in turns of no more writes than this: more are worth another thread, which syncs while the
/// loop serves the next.
const WRITES_SYNCED_MAX: u64 = 64;

/// A connection that was accepted, on its way to its loop.
pub struct NewConnection {
    stream: std::net::TcpStream,
    listener: Arc<Listener>,
    id: u64,
    /// Whether this node made it for itself: no client sees or closes it.
    is_own: bool,
    /// See [`Connection::mode`].
    mode: Mode,
}

impl NewConnection {
    /// A connection that this node made for itself, as if it had come to this listener of a node
    /// in this mode.
    pub fn own(stream: std::net::TcpStream, listener: Arc<Listener>, id: u64, mode: Mode) -> Self {
        Self { stream, listener, id, is_own: true, mode }
    }
}

#[derive(Default)]
struct LoopCounters {
    commands: u64,
    writes: u64,
    /// Commands that were no writes.
    others: u64,
    hits: u64,
    misses: u64,
    input_bytes: u64,
    output_bytes: u64,
    /// How long requests took, see [`timing`].
    request_times: DurationCounts,
}

/// One event loop.
pub struct EventLoop {
    runtime: Arc<NodeRuntime>,
    config: Arc<Config>,
    clients: Arc<Clients>,
    texts: Arc<Texts>,
    /// The node's certificate.
    tls: Option<Arc<Tls>>,
    /// The password that clients must give.
    gate: Option<Arc<PasswordGate>>,
    limits: RequestLimits,
    number: usize,
    poll: Poll,
    /// The listeners; only the first loop has any.
    listeners: Vec<(Arc<Listener>, TcpListener)>,
    /// What a node's only loop has of the links to other nodes.
    inline_poller: Option<InlinePoller>,
    connections: Slab<Option<Box<Connection>>>,
    /// Connections to be served in this turn.
    queue: VecDeque<usize>,
    /// Connections whose output is to be sent at the end of the turn.
    touched: Vec<usize>,
    /// Commands of this turn, by shard.
    open: Vec<(ShardId, Batch)>,
    full: Vec<(ShardId, Batch)>,
    spare: Vec<Batch>,
    /// GETs of the connection being served that wait to be answered together.
    gets: Vec<Get>,
    /// Other inputs of this iteration for executors.
    inputs: Vec<(ShardId, Input)>,
    /// Scripts of this iteration, and where they run: behind its writes.
    scripts: Vec<(RunsAt, Job)>,
    /// Counts of this iteration that are not in the process's counters yet.
    counted: LoopCounters,
    /// … and the calls of each command.
    statistics: LoopStatistics,
    /// Which of the requests are noted, to know how often shards are asked.
    sampler: Sampler,
    random: u64,
    answers: Vec<Answer>,
    /// Executors and tickets of a sync that this loop has made.
    synced: Vec<(usize, u64)>,
    /// Connections that wait for replicas (WAIT).
    waits: ReplicaWaits,
    /// Commands that take values from shard to shard.
    retries: RetryQueue,
    /// Who subscribes to what.
    subscribers: pubsub::Subscribers,
    /// Transactions over several shards.
    coordinator: Coordinator,
    /// Outcomes of transactions that their connections have not got yet.
    endings: Vec<(Waiter, TxnOutcome)>,
    /// HTTP requests that wait for one.
    external_txns: coordinator::ExternalTxns,
    /// When executors last looked at requests that wait for locks.
    looked_at: Instant,
    /// How many EXECs conflict.
    conflicts: ConflictRate,
    /// Turns in a row that brought nothing but writes.
    write_turns: u32,
    buffer: Vec<u8>,
    /// The time of this turn's reads.
    now: Timestamp,
    next_loop: usize,
    /// When it last looked after what clients track.
    tracking_ticked: Instant,
    accepting: bool,
    /// Whether it looks around for a while before it sleeps.
    spins: bool,
}

impl EventLoop {
    /// A loop with its poll, whose waker is registered already.
    pub fn new(
        runtime: Arc<NodeRuntime>,
        surroundings: Surroundings,
        number: usize,
        poll: Poll,
        listeners: Vec<Bound>,
    ) -> Self {
        let Surroundings { config, clients, texts, tls, gate } = surroundings;
        let statistics = clients.statistics.of_loop();
        let listeners = listeners.into_iter();
        let listeners = listeners.map(|b| (b.row, TcpListener::from_std(b.socket))).collect();
        Self {
            sampler: runtime.request_rates.sampler(number),
            coordinator: coordinator::coordinator(&runtime, number),
            endings: Vec::new(),
            external_txns: coordinator::ExternalTxns::default(),
            looked_at: Instant::now(),
            conflicts: ConflictRate::default(),
            runtime,
            limits: resp::limits(&config),
            config,
            clients,
            texts,
            tls,
            gate,
            number,
            poll,
            listeners,
            inline_poller: None,
            connections: Slab::new(),
            queue: VecDeque::new(),
            touched: Vec::new(),
            open: Vec::new(),
            full: Vec::new(),
            spare: Vec::new(),
            gets: Vec::with_capacity(gets::GETS_MAX),
            inputs: Vec::new(),
            scripts: Vec::new(),
            counted: LoopCounters::default(),
            statistics,
            random: number as u64,
            answers: Vec::new(),
            synced: Vec::new(),
            waits: ReplicaWaits::default(),
            retries: RetryQueue::default(),
            subscribers: pubsub::Subscribers::default(),
            write_turns: 0,
            buffer: vec![0; READ_BYTES],
            now: Timestamp::ZERO,
            next_loop: 0,
            tracking_ticked: Instant::now(),
            accepting: true,
            spins: false,
        }
    }

    /// Runs until the node stops and its connections are drained, or `shutdown_timeout_ms` after.
    ///
    /// # Errors
    /// If the poll fails, which leaves the loop useless.
    pub fn run(mut self) -> io::Result<()> {
        self.listen()?;
        self.poll_inline()?;
        let mut events = Events::with_capacity(1024);
        let mut mail = Vec::new();
        let mut deadline = None;
        let mut swept = Instant::now();
        loop {
            self.wait(&mut events, deadline)?;
            self.statistics.begin();
            // First, so that what it brings is of this turn.
            if let Some(inline_poller) = &self.inline_poller
                && events.iter().any(|event| event.token() == PEERS)
            {
                inline_poller.turn();
            }
            self.now = self.runtime.clock.now();
            for event in &events {
                match event.token() {
                    WAKER | PEERS => {}
                    Token(at) if at >= LISTENERS => self.accept(at - LISTENERS),
                    Token(at) => self.woken(at, event),
                }
            }
            self.runtime.delivery.mailboxes[self.number].take(&mut mail);
            mail.drain(..).for_each(|mail| self.read_mail(mail));
            self.look_at_waits();
            self.tick_coordinator();
            self.tick_retry_queue();
            self.tick_tracking();
            self.serve_all();
            self.count();
            if self.runtime.lifecycle.is_stopping() {
                let until = *deadline.get_or_insert_with(|| self.begin_to_stop());
                self.serve_all();
                let is_idle = self.connections.is_empty() && self.external_txns.is_empty();
                if is_idle || Instant::now() >= until {
                    self.end();
                    return Ok(());
                }
            }
            if self.sweeps() && swept.elapsed() >= SWEEP {
                swept = Instant::now();
                self.sweep();
            }
        }
    }

    /// When the reads happen whose requests have come: asked once for each batch of them, since
    /// reading the boot clock has its price.
    fn moment(&self) -> ReadTime {
        ReadTime { time: self.now, boot: boot_nanos() }
    }

    /// Adds what this turn has counted to the process's counters: once a turn, since all loops
    /// share them.
    fn count(&mut self) {
        self.statistics.end();
        let counters = &self.runtime.counters;
        self.runtime.request_times.take(&mut self.counted.request_times);
        let counted = std::mem::take(&mut self.counted);
        let LoopCounters { commands, writes, others, hits, misses, .. } = counted;
        let LoopCounters { input_bytes, output_bytes, .. } = counted;
        match (writes, others) {
            (0, 0) => {}
            (_, 0) => self.write_turns = self.write_turns.saturating_add(1),
            _ => self.write_turns = 0,
        }
        let sums = [
            (&counters.commands, commands),
            (&counters.writes, writes),
            (&counters.hits, hits),
            (&counters.misses, misses),
            (&counters.input_bytes, input_bytes),
            (&counters.output_bytes, output_bytes),
        ];
        sums.into_iter().filter(|(_, n)| *n > 0).for_each(|(counter, n)| counter.add(n));
    }

    /// Takes the last mail: its inputs for executors come from nowhere else.
    fn end(&mut self) {
        for mail in self.runtime.delivery.mailboxes[self.number].close() {
            match mail {
                Mail::Durable { executor, ticket } => self.durable(executor, ticket),
                // Other loops may go on for a while.
                Mail::Kill(kill) => self.kill_for(&kill),
                Mail::Message(message) => {
                    self.runtime.pubsub.taken(&self.runtime, self.number, &message);
                }
                _ => {}
            }
        }
    }

    fn read_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Answer(answer) => self.answered(answer),
            Mail::Durable { executor, ticket } => self.durable(executor, ticket),
            Mail::Connection(new) => self.adopt(new),
            Mail::Kill(kill) => self.kill_for(&kill),
            Mail::Message(message) => self.take_message(&message),
            Mail::Push(push) => self.push_to(&push),
            Mail::Receivers(waiter, count) => self.fill(waiter, Ok(Reply::Int(count))),
            Mail::Evict(id) => self.evict(id),
            Mail::Killed(waiter, count) => self.fill(waiter, Ok(Reply::Int(count))),
            Mail::Abandoned(txn) => self.finish(txn),
            Mail::Traced(at, trace) => self.traced(at, *trace),
            Mail::Transact(asked) => self.transact(*asked),
            Mail::Scripted(replies) => self.scripted(replies),
            Mail::Invalidate => self.tell_news(),
        }
    }

    /// Steps an executor whose groups are fsynced: here, where its shards' memory is at home.
    fn durable(&mut self, executor: usize, ticket: u64) {
        let origin = Origin(self.number as u32);
        let mut answers = std::mem::take(&mut self.answers);
        self.runtime.executors.cells()[executor].submit(
            &self.runtime,
            [Input::Durable { ticket }],
            origin,
            &mut answers,
        );
        answers.drain(..).for_each(|answer| self.answered(answer));
        self.answers = answers;
    }

    /// Serves connections and proposes their writes until no connection has work, or the mailbox
    /// and other sockets have waited long enough. Without this bound, a client that sends without a
    /// pause and reads no replies would occupy the loop.
    fn serve_all(&mut self) {
        // Where all clients wait for the same fsync, handing it to another thread and back costs
        // more than it gives.
        // With other replicas, what they have may be enough to answer before an own sync is done.
        let is_alone = self.runtime.peers.is_none();
        let claimed = is_alone && self.write_turns >= WRITE_TURNS_MIN && self.runtime.log.claim();
        self.serve_rounds();
        if claimed {
            self.sync_claimed();
        }
        self.send_all();
    }

    fn serve_rounds(&mut self) {
        for _ in 0..ROUNDS_MAX {
            // Those that are queued meanwhile have their turn after this round's proposals.
            for _ in 0..self.queue.len() {
                let Some(at) = self.queue.pop_front() else { break };
                self.serve(at);
            }
            self.propose();
            self.hand_over_scripts();
            self.deliver_outcomes();
            if self.inputs.is_empty() && !self.queue.iter().any(|at| self.can_go_on(*at)) {
                break;
            }
        }
    }

    /// Makes the fsync that this turn's writes wait for, unless they are too many.
    fn sync_claimed(&mut self) {
        if self.counted.writes > WRITES_SYNCED_MAX {
            return self.runtime.log.release_claim();
        }
        let mut synced = std::mem::take(&mut self.synced);
        if let Err(error) = self.runtime.log.sync_claimed(&mut synced) {
            disk_failed("the log", &error);
        }
        for (executor, ticket) in synced.drain(..) {
            if executor == self.number {
                self.durable(executor, ticket);
            } else {
                executors::durable(&self.runtime, executor, ticket);
            }
        }
        self.synced = synced;
    }

    /// Whether a queued connection could be served now without waiting for its socket.
    fn can_go_on(&self, at: usize) -> bool {
        let connection = self.connections[at].as_ref().expect("only taken while it is served");
        !connection.input.is_empty() || connection.may_try_parked()
    }

    /// Hands the gathered batches to their executors; what is answered at once goes to connections.
    fn propose(&mut self) {
        self.full.append(&mut self.open);
        if self.full.is_empty() && self.inputs.is_empty() {
            return;
        }
        let origin = Origin(self.number as u32);
        let mut answers = std::mem::take(&mut self.answers);
        let Self { runtime, full, inputs, .. } = self;
        for (number, executor) in runtime.executors.cells().iter().enumerate() {
            let is_its = |shard: &ShardId| runtime.executors.number_of(*shard) == number;
            let mut shards = full.iter().map(|(id, _)| id).chain(inputs.iter().map(|(id, _)| id));
            if !shards.any(is_its) {
                continue;
            }
            let batches = full.extract_if(.., |(shard, _)| is_its(shard));
            let batches = batches.map(|(shard, batch)| Input::Propose { shard, origin, batch });
            let others = inputs.extract_if(.., |(shard, _)| is_its(shard)).map(|(_, input)| input);
            executor.submit(runtime, batches.chain(others), origin, &mut answers);
        }
        answers.drain(..).for_each(|answer| self.answered(answer));
        self.answers = answers;
    }

    /// The batch of this turn for a shard.
    fn batch(&mut self, shard: ShardId) -> &mut Batch {
        let place = match self.open.iter().position(|(id, _)| *id == shard) {
            Some(place) => place,
            None => {
                let batch = self.spare.pop().unwrap_or_default();
                self.open.push((shard, batch));
                self.open.len() - 1
            }
        };
        if self.open[place].1.is_full() {
            let next = self.spare.pop().unwrap_or_default();
            self.full.push((shard, std::mem::replace(&mut self.open[place].1, next)));
        }
        &mut self.open[place].1
    }

    /// A read was served: it is counted, noted if it is its turn, and shown if somebody watches.
    /// `traces` are of the lookups that were made for it.
    #[inline]
    fn note_read(&mut self, route: &Route, read: &Read<'_>, traces: Option<&[Trace]>) {
        if self.sampler.notes() {
            self.runtime.request_rates.note_keys(route, read.keys().iter().copied());
        }
        if self.runtime.events.is_sampling() {
            let keys = read.keys().iter().copied();
            self.runtime.sample_request(route, false, keys, traces.unwrap_or_default());
        }
    }

    /// Puts a connection into this turn's queue.
    fn enqueue(&mut self, at: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(at)
            && !connection.turn.queued
        {
            connection.turn.queued = true;
            self.queue.push_back(at);
        }
    }
}

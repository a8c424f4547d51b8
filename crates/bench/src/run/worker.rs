//! A thread of the load: some clients of a phase, on one event loop.
//!
//! ```text
//!   queue: clients that may send           pending: what each waits for, in order
//!   closed loop   a client in the queue sends until it has `pipeline` requests under way
//!   open loop     when a request is due, the first client in the queue sends it
//!   reply         is judged and recorded; its client enters the queue again
//! ```
//!
//! The clock is read once for each batch of requests and of replies. Nothing waits on one
//! connection: they are opened, greeted and opened again while others go on.
//!
//! Invariants: a request is in exactly one place: pending, answered or failed. When a connection
//! breaks, all that it had under way has failed, by kind. What is due and finds no free client is
//! sent later, and its latency counts from when it was due; what is still due at the end has
//! failed as `not sent`.

mod cluster;
mod connections;
mod requests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use rustix::time::{ClockId, clock_gettime};

use self::cluster::Again;
use super::RunError;
use super::link::{Broken, Link, READ_BYTES};
use super::phase::Shared;
use super::slots::{Redirect, SlotMap};
use super::timer::Timer;
use crate::load::keys::KeyPicker;
use crate::load::mix::Mix;
use crate::load::random::Random;
use crate::load::schedule::Schedule;
use crate::measure::record::{PhaseData, Recorder, Second};
use crate::scenario::{Driver, Phase, Scenario};

/// Between two looks for requests that take too long, connections to open again, and the end.
const TICK_NANOS: u64 = 100_000_000;
/// How long a client waits before it opens a broken connection again.
const RETRY_NANOS: u64 = 100_000_000;
/// How long connections may take to open before a phase.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that a worker opens at once: half of what listeners keep that asked for no more.
const CONNECTS_MAX: usize = 64;
/// Between those and the next, for the server to accept them.
const CONNECT_PAUSE: Duration = Duration::from_millis(2);
/// Events that are taken at once.
const EVENTS_MAX: usize = 4096;
/// Digits of a key's number, so that keys are of one length.
const KEY_DIGITS: usize = 12;
const TIMER: Token = Token(usize::MAX);

/// What a worker is to do.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The cell.
    pub scenario: &'a Scenario,
    /// The phase.
    pub phase: &'a Phase,
    /// Which it is, from 0.
    pub number: u64,
    /// Whether it is over when each key was named once.
    pub is_walk: bool,
    /// The targets.
    pub addresses: &'a [SocketAddr],
    /// Which of all workers this one is, on whatever agent.
    pub worker: u64,
    /// How many there are.
    pub workers: u64,
    /// What the steps of a run share.
    pub shared: &'a Shared,
    /// Set when all is to end.
    pub stop: &'a AtomicBool,
}

struct Pending {
    entry: usize,
    key: u64,
    /// From when its latency counts.
    since: u64,
    /// When it was sent.
    sent: u64,
    /// In a cluster: how to send it again.
    again: Option<Again>,
    /// Where it is checked whether values are old: the write that it is, and when it was sent.
    write: u64,
    stamp: u64,
    /// Whether its reply means nothing.
    is_skipped: bool,
}

impl Pending {
    fn new(entry: usize, key: u64, since: u64, sent: u64) -> Self {
        Self { entry, key, since, sent, again: None, write: 0, stamp: 0, is_skipped: false }
    }

    /// What goes before a request, and has a reply of its own.
    fn skipped(now: u64) -> Self {
        Self { is_skipped: true, ..Self::new(0, 0, now, now) }
    }
}

#[derive(Default)]
struct Client {
    link: Option<Link>,
    pending: VecDeque<Pending>,
    is_queued: bool,
    is_asleep: bool,
    /// When its connection is to be opened again.
    retry: Option<u64>,
    /// Which address it connects to.
    target: usize,
}

/// See the front page.
pub struct Worker<'a> {
    job: Job<'a>,
    start: Instant,
    end: u64,
    poll: Poll,
    timer: Timer,
    buffer: Vec<u8>,
    /// By connection: in a cluster a client has one to each node ([`cluster`]).
    clients: Vec<Client>,
    /// Clients, not counting connections.
    count: usize,
    /// In a cluster: who serves what.
    slots: Option<SlotMap>,
    /// What the reply that was read last has redirected.
    redirected: Vec<(Pending, Redirect)>,
    /// How many requests were redirected.
    redirects: u64,
    queue: VecDeque<usize>,
    /// Clients with something to flush.
    unsent: Vec<usize>,
    sleepers: BinaryHeap<Reverse<(u64, usize)>>,
    under_way: usize,
    /// When no client was free for a request that was due, the last time.
    starved_at: u64,
    recorder: Recorder,
    random: Random,
    mix: Mix,
    keys: KeyPicker,
    schedule: Option<Schedule>,
    is_walked: bool,
    reconnects: u64,
    /// How often transfers began again.
    retries: u64,
    /// What the numbers that were read add up to.
    sum: i64,
    key: Vec<u8>,
    /// The second key of a request.
    other: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> Worker<'a> {
    /// Opens all connections.
    ///
    /// # Errors
    /// A target cannot be reached, or refuses the greeting; or it was stopped.
    pub fn new(job: Job<'a>) -> Result<Self, RunError> {
        let Job { scenario, phase, worker, workers, .. } = job;
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let phase_seed = phase
            .name
            .bytes()
            .fold(0u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let seed = scenario.seed.wrapping_add(phase_seed.rotate_left(20)) ^ (worker << 40);
        let mut random = Random::new(seed);
        let seconds = phase.length.as_secs_f64();
        let schedule =
            phase.rate.map(|rate| Schedule::new(rate, seconds, worker, workers, &mut random));
        let end = if job.is_walk { u64::MAX } else { phase.length.as_nanos() as u64 };
        let count = phase.clients / workers + u64::from(worker < phase.clients % workers);
        let slots = match &scenario.target.driver {
            Driver::Resp { greeting, is_cluster: true } => {
                Some(SlotMap::discover(job.addresses, greeting)?)
            }
            _ => None,
        };
        let nodes = slots.as_ref().map_or(1, |slots| slots.nodes().len() as u64);
        let keys = &scenario.keys;
        let client = |number: u64| {
            let target = match slots {
                Some(_) => number / count,
                None => (worker + number * workers) % job.addresses.len().max(1) as u64,
            };
            Client { target: target as usize, ..Client::default() }
        };
        let mut made = Self {
            job,
            start: Instant::now(),
            end,
            poll,
            timer,
            buffer: vec![0; READ_BYTES],
            clients: (0..count * nodes).map(client).collect(),
            count: count as usize,
            slots,
            redirected: Vec::new(),
            redirects: 0,
            queue: VecDeque::new(),
            unsent: Vec::new(),
            sleepers: BinaryHeap::new(),
            under_way: 0,
            starved_at: 0,
            recorder: Recorder::new(phase.mix.iter().map(|entry| entry.name.as_str()), end),
            random,
            mix: Mix::new(phase.mix.iter().map(|entry| entry.weight)),
            keys: KeyPicker::new(keys.choice, keys.count, worker, workers, job.number),
            schedule,
            is_walked: false,
            reconnects: 0,
            retries: 0,
            sum: 0,
            key: Vec::new(),
            other: Vec::new(),
            value: Vec::new(),
        };
        made.connect_all()?;
        Ok(made)
    }

    fn is_memory(&self) -> bool {
        matches!(self.job.scenario.target.driver, Driver::Memory)
    }

    fn enqueue(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if !client.is_queued && !client.is_asleep {
            client.is_queued = true;
            self.queue.push_back(index);
        }
    }

    /// Runs the phase, which begins at `start`. `second` gets each second that is past.
    ///
    /// # Errors
    /// It was stopped, or the system refuses to wait.
    pub fn run(
        mut self,
        start: Instant,
        second: &mut dyn FnMut(Second),
    ) -> Result<PhaseData, RunError> {
        while let Some(wait) = start.checked_duration_since(Instant::now()) {
            if self.job.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            std::thread::sleep(wait.min(Duration::from_millis(20)));
        }
        self.start = start;
        let cpu = thread_seconds();
        let mut events = Events::with_capacity(EVENTS_MAX);
        let grace = self.job.scenario.target.request_timeout.as_nanos() as u64;
        let mut tick = TICK_NANOS;
        let mut is_closed = false;
        loop {
            let now = self.now();
            while let Some(past) = self.recorder.past_second(now) {
                second(past);
            }
            if now >= tick {
                tick = now + TICK_NANOS;
                self.tick(now)?;
            }
            // One key without a value is as bad as all: a target that is gone is not asked for
            // each of ten million.
            self.is_walked |= self.job.is_walk && self.recorder.has_failures();
            let is_over = now >= self.end || self.is_walked;
            // What was due until the end, and has a free client, is still sent: once.
            if is_over && !std::mem::replace(&mut is_closed, true) && self.schedule.is_some() {
                self.issue(now);
                self.flush(now);
            }
            if is_over && (self.under_way == 0 || now >= self.end.saturating_add(grace)) {
                break;
            }
            if !is_over {
                self.wake(now);
                self.issue(now);
                self.flush(now);
            }
            self.wait(&mut events, tick)?;
            if !events.is_empty() {
                let now = self.now();
                self.recorder.advance(now);
                for event in events.iter().filter(|event| event.token() != TIMER) {
                    let index = event.token().0;
                    if let Err(why) = self.handle(index, event.is_writable(), now) {
                        self.fail(index, &why, now);
                    }
                }
            }
        }
        self.finish(cpu, second)
    }

    fn finish(mut self, cpu: f64, second: &mut dyn FnMut(Second)) -> Result<PhaseData, RunError> {
        let now = self.now();
        let late = Broken("timeout".to_owned());
        (0..self.clients.len()).for_each(|index| self.fail(index, &late, now));
        let mut not_sent = 0;
        if let Some(schedule) = &mut self.schedule {
            while schedule.next().is_some() {
                not_sent += 1;
                schedule.advance(&mut self.random);
            }
        }
        self.recorder.failed(0, "not sent", not_sent);
        while let Some(past) = self.recorder.past_second(now) {
            second(past);
        }
        let (last, mut data) = self.recorder.finish();
        last.into_iter().for_each(second);
        data.reconnects = self.reconnects;
        data.redirects = self.redirects;
        data.retries = self.retries;
        data.sum = self.sum;
        data.instrument_cpu = thread_seconds() - cpu;
        Ok(data)
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn wake(&mut self, now: u64) {
        while self.sleepers.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            if let Some(Reverse((_, index))) = self.sleepers.pop() {
                self.clients[index].is_asleep = false;
                self.enqueue(index);
            }
        }
    }

    fn flush(&mut self, now: u64) {
        let mut unsent = std::mem::take(&mut self.unsent);
        for index in unsent.drain(..) {
            let flushed = self.clients[index].link.as_mut().map(Link::flush);
            if let Some(Err(why)) = flushed {
                self.fail(index, &why, now);
            }
        }
        self.unsent = unsent;
    }

    /// Waits for what comes next: an event, a request that is due, a client that wakes, a tick.
    fn wait(&mut self, events: &mut Events, tick: u64) -> Result<(), RunError> {
        events.clear();
        let now = self.now();
        let is_over = now >= self.end || self.is_walked;
        let has_room = !self.queue.is_empty() && !is_over;
        let due = self.schedule.as_ref().and_then(Schedule::next).filter(|_| has_room);
        let asleep = self.sleepers.peek().map(|Reverse((at, _))| *at).filter(|_| !is_over);
        let next = [due, asleep].into_iter().flatten().min();
        let is_busy = has_room && self.schedule.is_none() || next.is_some_and(|at| at <= now);
        if is_busy {
            if !self.is_memory() {
                self.poll_for(events, Duration::ZERO)?;
            }
            return Ok(());
        }
        if let Some(at) = next.filter(|at| *at < tick) {
            self.timer.arm(now, at)?;
        }
        let end = if now < self.end { self.end } else { u64::MAX };
        let until = tick.min(end).saturating_sub(now);
        self.poll_for(events, Duration::from_nanos(until.max(1)))
    }

    fn poll_for(&mut self, events: &mut Events, timeout: Duration) -> Result<(), RunError> {
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Processor time of this thread, in seconds.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

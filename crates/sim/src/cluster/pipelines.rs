//! Clients that send pipelines of reads and writes over several shards (SAFETY G26).
//!
//! ```text
//!   a round: 2 or 3 clients at once, each at some node, with keys of their own
//!   client i:  SET k(i) 1 · GET k(i+1) · GET k(i) · SET k(i) 2 · GET k(i) · GET k(i+1)
//! ```
//!
//! What each may join, park or send is decided as in event loops ([`node::routing::pipeline`]).
//! Checked of each client whose writes were all done: it sees its own writes, not those that it
//! sends later, and other clients' values only forwards. Of the whole round: some client sees what
//! another has set, for each has set its own key before it reads (a litmus of store buffers).
//! Replies in order are how answers are taken here.
//!
//! A third of the runs with transactions over shards have such clients, in the same keyspace. A
//! separate random sequence decides that, and drives them.

mod lines;

use keyspace::Feature;
use keyspace::random::{Random, mix};
use node::executor::Answer;

use super::multi_shard::WIDE;
use super::{Options, Plant, World};
use crate::check::Violation;
use crate::rng::Rng;
use lines::Line;

/// Numbers of what they ask begin here, above those of all other clients.
const FIRST: u64 = 1 << 50;
/// Commands of one line at most: numbers of its commands follow each other.
const COMMANDS_MAX: u64 = 64;
/// Rounds that are under way at once.
const ROUNDS_MAX: usize = 2;
/// A line that has no end after so long is given up.
const PATIENCE_MS: u64 = 8_000;
const RULE: &str = "pipelines";

/// These clients, with their rounds.
pub(super) struct PipelineClients {
    rng: Rng,
    /// By number; a round's lines follow each other.
    lines: Vec<Line>,
    made: u64,
    rounds: u64,
    next_at_ms: u64,
}

/// Whether a run has such clients.
pub(super) fn has(options: &Options) -> bool {
    match options.plant {
        _ if options.workload.is_some() => false,
        Some(plant) => plant == Plant::EagerJoin,
        None => Random::new(mix(mix(options.seed) ^ 0x7069_7065)).below(3) == 0,
    }
}

impl PipelineClients {
    /// The clients before their first round.
    pub fn new(options: &Options) -> Self {
        let rng = Rng::new(mix(mix(options.seed) ^ 0x6c69_6e65));
        Self { rng, lines: Vec::new(), made: 0, rounds: 0, next_at_ms: 0 }
    }
}

impl World {
    /// Whether an answer is for one of them.
    pub(super) fn is_of_pipelines(answer: &Answer) -> bool {
        answer.waiters().iter().any(|waiter| waiter.0 >= FIRST)
    }

    /// One of them has an answer.
    pub(super) fn handle_pipeline_answer(&mut self, answer: Answer) {
        let Some(clients) = &mut self.pipelines else { return };
        let Some(first) = answer.waiters().first() else { return };
        let (line, place) = ((first.0 - FIRST) / COMMANDS_MAX, (first.0 % COMMANDS_MAX) as usize);
        if let Some(line) = clients.lines.iter_mut().find(|of| of.number == line) {
            line.take(place, answer);
        }
    }

    /// Lets all of them go on, and judges the rounds that are over.
    pub(super) fn step_pipelines(&mut self) -> Result<(), Violation> {
        let Some(mut clients) = self.pipelines.take() else { return Ok(()) };
        self.begin_round(&mut clients);
        for line in &mut clients.lines {
            let seat = &mut self.node_slots[line.at];
            let is_up = seat.awake_at <= self.now_ms && seat.started_at == line.node_started_at;
            match seat.machine.as_mut() {
                None => line.is_lost = true,
                Some(_) if seat.started_at != line.node_started_at => line.is_lost = true,
                Some(machine) if is_up => line.step(machine, &mut clients.rng),
                Some(_) => {}
            }
            line.is_lost |= self.now_ms >= line.began_ms + PATIENCE_MS;
        }
        let judged = self.judge_rounds(&mut clients);
        self.pipelines = Some(clients);
        judged
    }

    fn begin_round(&mut self, clients: &mut PipelineClients) {
        let open =
            clients.lines.iter().map(|line| line.round).collect::<std::collections::BTreeSet<_>>();
        if !self.clients.asking
            || self.calm
            || self.now_ms < clients.next_at_ms
            || open.len() >= ROUNDS_MAX
        {
            return;
        }
        clients.next_at_ms = self.now_ms + clients.rng.between(1, 40);
        let may = |at: &usize| {
            let seat = &self.node_slots[*at];
            let is_awake = seat.awake_at <= self.now_ms;
            seat.machine.as_ref().is_some_and(|machine| {
                let has = machine.routes.contains_key(WIDE);
                is_awake && has && machine.cluster_version.allows(Feature::Transactions)
            })
        };
        let nodes: Vec<usize> = (0..self.node_slots.len()).filter(may).collect();
        let Some(wide) = self.wide.as_ref().filter(|_| !nodes.is_empty()) else { return };
        let (count, round) = (clients.rng.between(2, 3) as usize, clients.rounds);
        clients.rounds += 1;
        let mut key = || {
            let list = clients.rng.pick(&wide.names);
            [&list[..], b"-pipe-", round.to_string().as_bytes()].concat()
        };
        let mut keys: Vec<Vec<u8>> = (0..count).map(|_| key()).collect();
        keys.iter_mut().enumerate().for_each(|(n, key)| key.push(b'a' + n as u8));
        for n in 0..count {
            let at = *clients.rng.pick(&nodes);
            let slot = &self.node_slots[at];
            let Some(machine) = &slot.machine else { continue };
            let [mine, next] = [n, (n + 1) % count].map(|n| keys[n].clone());
            let mut line = Line::new(clients.made, round, at, [mine, next], &mut clients.rng);
            (line.began_ms, line.node_started_at) = (self.now_ms, slot.started_at);
            line.route = Some(machine.routes[WIDE].clone());
            if self.options.plant == Some(Plant::EagerJoin) {
                line.pipeline.plant_eager_join();
            }
            clients.made += 1;
            self.trace.event(format_args!(
                "pipeline {} of round {round} at node {}: {}",
                line.number,
                slot.node,
                line.describe()
            ));
            clients.lines.push(line);
        }
    }

    /// Judges the oldest round, if all its lines have ended.
    fn judge_rounds(&mut self, clients: &mut PipelineClients) -> Result<(), Violation> {
        let Some(round) = clients.lines.first().map(|line| line.round) else { return Ok(()) };
        let count = clients.lines.iter().take_while(|line| line.round == round).count();
        if !clients.lines[..count].iter().all(|line| line.is_lost || line.is_done()) {
            return Ok(());
        }
        let lines: Vec<Line> = clients.lines.drain(..count).collect();
        for line in &lines {
            self.trace.event(format_args!("pipeline {}: {}", line.number, line.describe()));
            self.counts.pipelines += u64::from(line.is_done());
            self.counts.joined_reads += line.joined;
            self.counts.parked_reads += line.parked;
            line.judge().map_err(|text| Violation::new(RULE, text))?;
        }
        let are_blind = lines.iter().all(Line::is_blind);
        if are_blind {
            let all: Vec<String> = lines.iter().map(Line::describe).collect();
            let all = all.join("\n    ");
            let text = format!("round {round}: no client sees what another has set:\n    {all}");
            return Err(Violation::new(RULE, text));
        }
        Ok(())
    }

    /// Whether none of these clients waits.
    pub(super) fn is_pipeline_idle(&self) -> bool {
        self.pipelines.as_ref().is_none_or(|clients| clients.lines.is_empty())
    }
}

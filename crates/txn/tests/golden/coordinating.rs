//! A coordinator of transactions, and the shards that it asks. What it asks for is in flight until
//! a script says what becomes of it. Each entry of a shard is 10 ms after the one before.
//!
//! | verb | does |
//! |---|---|
//! | `shards m t` | shard 1 has the keys before m, shard 2 those before t, shard 3 the rest |
//! | `begin "SET a x" "SET n y" watch=k@50` | a client's transaction; its id is the time, in ms |
//! | `deliver 2` | what is asked of shard 2 is applied there and answered; without a number, of all |
//! | `lose 2` | what is asked of shard 2 does not arrive; the coordinator hears that it is unknown |
//! | `lose_answer 2` | it is applied, and the coordinator hears that it is unknown |
//! | `unreachable 2` | nobody leads the shard: it is certainly not done |
//! | `settle` | delivers until nothing is in flight |
//! | `sleep 100` | so many ms pass, and the coordinator looks what is due |
//! | `crash` | the coordinator is gone, with what it knew; another begins. What it asked stays in flight, and nobody hears the answers |
//! | `recover n` | the leader of n's shard finds its lock abandoned, and has the coordinator finish the transaction |
//! | `apply "SET k v"` | a command by itself |
//! | `trace` | steps of transactions that begin from now on are told to who watches |
//! | `show` | values and locks of all shards |

use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;

use command::{NotDone, Step as Command, Transaction};
use goldenscript::Context;
use keyspace::codec::Reader;
use keyspace::{KeyspaceId, ShardId, Timestamp};
use txn::coordinator::{Coordinator, CoordinatorAction, CoordinatorTime, TxnOutcome};
use txn::locks::{Step, StepReply};
use txn::{AbandonedTxn, ShardMap};

use crate::shard::{Shard, Shards};
use crate::shown::{self, KEYSPACE};
use crate::{steps, words};

const TIMEOUT_NANOS: u64 = 2_000_000_000;
const STEP_BYTES_MAX: usize = 1 << 20;

#[derive(goldenscript::Command)]
pub enum Verb {
    Shards(Vec<String>),
    Begin {
        #[arg(key, optional)]
        watch: String,
        #[arg(optional)]
        commands: Vec<String>,
    },
    Deliver(Option<u64>),
    Lose(Option<u64>),
    LoseAnswer(Option<u64>),
    Unreachable(Option<u64>),
    Settle,
    Sleep(u64),
    Crash,
    Recover(String),
    Apply(String),
    Trace,
    Show,
}

/// A step that a coordinator has asked a shard for; the coordinator may have ended since.
struct SentStep {
    name: u64,
    ask: u64,
    shard: ShardId,
    step: bytes::Bytes,
}

pub struct Runner {
    shards: Vec<Shard>,
    coordinator: Coordinator,
    name: u64,
    flying: Vec<SentStep>,
    next_token: u64,
    millis: u64,
    out: String,
}

impl Default for Runner {
    fn default() -> Self {
        let coordinator = Coordinator::new(1, TIMEOUT_NANOS, STEP_BYTES_MAX);
        Self {
            shards: Vec::new(),
            coordinator,
            name: 1,
            flying: Vec::new(),
            next_token: 1,
            millis: 100,
            out: String::new(),
        }
    }
}

impl Runner {
    fn shards(&mut self, cuts: &[String]) {
        let mut ends: Vec<&str> = cuts.iter().map(String::as_str).collect();
        ends.push("");
        let mut start = "";
        for (place, end) in (1..).zip(ends) {
            self.shards.push(shown::ordered(place, start, end));
            start = end;
        }
    }

    fn say(&mut self, text: &str) {
        writeln!(self.out, "{text}").expect("a string");
    }

    fn tick(&mut self) -> Timestamp {
        self.millis += 10;
        Timestamp::from_millis(self.millis)
    }

    fn map(&self) -> Arc<dyn ShardMap> {
        Arc::new(Shards::of(&self.shards))
    }

    fn shard(&mut self, shard: ShardId) -> &mut Shard {
        &mut self.shards[shard.0 as usize - 1]
    }

    fn shard_of(&mut self, key: &[u8]) -> &mut Shard {
        let shard = self.map().shard_of(key);
        self.shard(shard)
    }

    fn with(
        &mut self,
        act: impl FnOnce(&mut Coordinator, CoordinatorTime, txn::coordinator::Routes<'_>),
    ) {
        let time = Timestamp::from_millis(self.millis);
        let at = CoordinatorTime { now: self.millis * 1_000_000, time };
        let map = self.map();
        let routes = |keyspace: KeyspaceId| (keyspace == KEYSPACE).then(|| map.clone());
        act(&mut self.coordinator, at, &routes);
        for act in self.coordinator.take_actions().collect::<Vec<_>>() {
            match act {
                CoordinatorAction::SendStep { shard, step, ask } => {
                    let text = of_step(&step);
                    self.say(&format!("  asks shard {}: {text}", shard.0));
                    self.flying.push(SentStep { name: self.name, ask, shard, step });
                }
                CoordinatorAction::Report { token, ended } => {
                    let text = of_end(&ended);
                    self.say(&format!("  client {token} is answered: {text}"));
                }
                CoordinatorAction::Trace(trace) => {
                    self.say(&format!(
                        "  watched: attempt {}, {:?}",
                        trace.id.attempt, trace.phase
                    ));
                }
            }
        }
    }

    /// Those that are in flight to a shard, or to all.
    fn due(&mut self, shard: Option<u64>) -> Vec<SentStep> {
        let is_due = |asked: &mut SentStep| shard.is_none_or(|shard| asked.shard == ShardId(shard));
        self.flying.extract_if(.., is_due).collect()
    }

    fn apply(&mut self, asked: &SentStep) -> StepReply {
        let at = self.tick();
        let step =
            Step::decode(&mut Reader::new(&asked.step)).expect("the bytes were encoded here");
        let reply = shown::step(self.shard(asked.shard), at, &step);
        let (shard, step, text) = (asked.shard.0, steps::step(&step), words::step_reply(&reply));
        self.say(&format!("{}: shard {shard}: {step}: {text}", at.millis()));
        reply
    }

    fn answer(&mut self, asked: &SentStep, reply: Result<StepReply, NotDone>) {
        if let Err(why) = reply {
            let why =
                if why == NotDone::OutcomeUnknown { "unknown" } else { "not done, no leader" };
            self.say(&format!("shard {}: {why}", asked.shard.0));
        }
        if asked.name == self.name {
            let ask = asked.ask;
            self.with(|coordinator, at, routes| coordinator.answered(ask, reply, at, routes));
        }
    }

    fn deliver(&mut self, shard: Option<u64>) {
        for asked in self.due(shard) {
            let reply = self.apply(&asked);
            self.answer(&asked, Ok(reply));
        }
    }

    fn recover(&mut self, key: &str) -> Result<(), Box<dyn Error>> {
        let locks = &self.shard_of(key.as_bytes()).locks;
        let lock = locks.get(key.as_bytes()).cloned().ok_or("it is not locked")?;
        let abandoned = AbandonedTxn {
            keyspace: KEYSPACE,
            id: lock.id,
            record: Box::from(&*lock.record),
            keys: vec![key.as_bytes().into()],
        };
        self.with(|coordinator, at, routes| coordinator.finish(abandoned, at, routes));
        Ok(())
    }

    fn show(&mut self) {
        for shard in &self.shards {
            writeln!(self.out, "{}", shown::contents(shard)).expect("a string");
        }
    }
}

fn of_step(bytes: &[u8]) -> String {
    steps::step(&Step::decode(&mut Reader::new(bytes)).expect("the bytes were encoded here"))
}

fn of_end(ended: &TxnOutcome) -> String {
    match ended {
        TxnOutcome::Done(replies) => format!("done {}", words::replies(replies)),
        TxnOutcome::ChangedIn(..) => unreachable!("scripts have one keyspace"),
        TxnOutcome::Changed(key) => format!("not done: {} has changed", words::text(key)),
        TxnOutcome::Busy(Some(key)) => format!("not done: busy, conflict on {}", words::text(key)),
        TxnOutcome::Busy(None) => "not done: busy, a shard has not answered".to_owned(),
        TxnOutcome::Unknown => "unknown".to_owned(),
        TxnOutcome::CrossShard => "not done: a command's keys lie in several shards".to_owned(),
        other => panic!("not in scripts: {other:?}"),
    }
}

impl goldenscript::Runner for Runner {
    type Command = Verb;

    fn run(&mut self, verb: &Verb, _: &Context) -> Result<String, Box<dyn Error>> {
        match verb {
            Verb::Shards(cuts) => self.shards(cuts),
            Verb::Begin { commands, watch } => {
                let commands = commands.iter().map(|text| words::command(text)).collect();
                let watched = steps::watched(watch);
                let transaction = Transaction { watched, commands, ..Transaction::default() };
                let token = self.next_token;
                self.next_token += 1;
                self.with(|coordinator, at, routes| {
                    coordinator.begin(KEYSPACE, &transaction, token, at, routes);
                });
            }
            Verb::Deliver(shard) => self.deliver(*shard),
            Verb::Lose(shard) => {
                for asked in self.due(*shard) {
                    self.answer(&asked, Err(NotDone::OutcomeUnknown));
                }
            }
            Verb::LoseAnswer(shard) => {
                for asked in self.due(*shard) {
                    self.apply(&asked);
                    self.answer(&asked, Err(NotDone::OutcomeUnknown));
                }
            }
            Verb::Unreachable(shard) => {
                for asked in self.due(*shard) {
                    self.answer(&asked, Err(NotDone::NotLeader));
                }
            }
            Verb::Settle => {
                while !self.flying.is_empty() {
                    self.deliver(None);
                }
            }
            Verb::Sleep(millis) => {
                self.millis += millis;
                self.with(|coordinator, at, routes| coordinator.tick(at, routes));
            }
            Verb::Crash => {
                self.name += 1;
                self.coordinator = Coordinator::new(self.name, TIMEOUT_NANOS, STEP_BYTES_MAX);
            }
            Verb::Recover(key) => self.recover(key)?,
            Verb::Apply(text) => {
                let Command::Write(write) = words::command(text) else {
                    return Err("reads need no entry".into());
                };
                let at = self.tick();
                let reply = shown::write(self.shard_of(write.first_key()), at, &write);
                self.say(&format!("{}: {}", at.millis(), words::reply(&reply)));
            }
            Verb::Trace => self.coordinator.set_tracing(true),
            Verb::Show => self.show(),
        }
        Ok(std::mem::take(&mut self.out))
    }
}

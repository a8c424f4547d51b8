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
//! | `show` | values and locks of all shards |

use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;

use command::{Step as Command, Transaction};
use goldenscript::Context;
use keyspace::codec::Reader;
use keyspace::{Catalogue, Keyspace, KeyspaceId, KeyspaceOptions, Placement, ShardId, Timestamp};
use node::coordinator::{Act, At, Coordinator, Ended};
use node::executor::NotDone;
use node::locks::{Said, Step};
use node::replica::Stuck;
use node::replica::state::ShardState;
use node::routing::route::Route;
use parking_lot::RwLock;

use crate::{shard, words};

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
    Show,
}

/// What is asked of a shard, by a coordinator that may be gone.
struct Asked {
    by: u64,
    ask: u64,
    shard: ShardId,
    step: bytes::Bytes,
}

pub struct Runner {
    keyspace: Keyspace,
    views: Vec<Arc<RwLock<ShardState>>>,
    coordinator: Coordinator,
    by: u64,
    flying: Vec<Asked>,
    next_token: u64,
    millis: u64,
    out: String,
}

impl Default for Runner {
    fn default() -> Self {
        let mut catalogue = Catalogue::default();
        let options = KeyspaceOptions { placement: Placement::Ordered, ..Default::default() };
        let keyspace = catalogue.create("k", options).expect("a name").clone();
        let coordinator = Coordinator::new(1, TIMEOUT_NANOS, STEP_BYTES_MAX);
        Self {
            keyspace,
            views: Vec::new(),
            coordinator,
            by: 1,
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
            let state = shard::ordered(place, shard::arc(start, end));
            self.views.push(Arc::new(RwLock::new(state)));
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

    fn route(&self) -> Arc<Route> {
        let tiles = self.views.iter().map(|view| {
            let descriptor = view.read().descriptor.clone();
            (descriptor.shard, descriptor.arc, view.clone())
        });
        Arc::new(Route::new(self.keyspace.clone(), shard::HASHER, tiles.collect()))
    }

    fn view(&self, shard: ShardId) -> &Arc<RwLock<ShardState>> {
        &self.views[shard.0 as usize - 1]
    }

    fn with(&mut self, act: impl FnOnce(&mut Coordinator, At, node::coordinator::Routes<'_>)) {
        let time = Timestamp::from_millis(self.millis);
        let at = At { now: self.millis * 1_000_000, time };
        let route = self.route();
        let routes = |keyspace: KeyspaceId| (keyspace == route.keyspace.id).then(|| route.clone());
        act(&mut self.coordinator, at, &routes);
        for act in self.coordinator.acts().collect::<Vec<_>>() {
            match act {
                Act::Ask { shard, step, ask } => {
                    let text = of_step(&step);
                    self.say(&format!("  asks shard {}: {text}", shard.0));
                    self.flying.push(Asked { by: self.by, ask, shard, step });
                }
                Act::End { token, ended } => {
                    let text = of_end(&ended);
                    self.say(&format!("  client {token} is answered: {text}"));
                }
            }
        }
    }

    /// Those that are in flight to a shard, or to all.
    fn due(&mut self, shard: Option<u64>) -> Vec<Asked> {
        let is_due = |asked: &mut Asked| shard.is_none_or(|shard| asked.shard == ShardId(shard));
        self.flying.extract_if(.., is_due).collect()
    }

    fn apply(&mut self, asked: &Asked) -> Said {
        let at = self.tick();
        let step = Step::decode(&mut Reader::new(&asked.step)).expect("it was encoded");
        let said = shard::step(&mut self.view(asked.shard).write(), at, &step);
        let (shard, step, text) = (asked.shard.0, words::step(&step), words::said(&said));
        self.say(&format!("{}: shard {shard}: {step}: {text}", at.millis()));
        said
    }

    fn answer(&mut self, asked: &Asked, said: Result<Said, NotDone>) {
        if let Err(why) = said {
            let why = if why == NotDone::Unknown { "unknown" } else { "not done, no leader" };
            self.say(&format!("shard {}: {why}", asked.shard.0));
        }
        if asked.by == self.by {
            let ask = asked.ask;
            self.with(|coordinator, at, routes| coordinator.answered(ask, said, at, routes));
        }
    }

    fn deliver(&mut self, shard: Option<u64>) {
        for asked in self.due(shard) {
            let said = self.apply(&asked);
            self.answer(&asked, Ok(said));
        }
    }

    fn recover(&mut self, key: &str) -> Result<(), Box<dyn Error>> {
        let route = self.route();
        let view = &route.views[route.place_of_key(key.as_bytes())];
        let lock = view.read().locks.get(key.as_bytes()).cloned().ok_or("it is not locked")?;
        let stuck = Stuck {
            keyspace: self.keyspace.id,
            id: lock.id,
            record: Box::from(&*lock.record),
            keys: vec![key.as_bytes().into()],
        };
        self.with(|coordinator, at, routes| coordinator.finish(stuck, at, routes));
        Ok(())
    }

    fn show(&mut self) {
        for view in self.views.clone() {
            let state = view.read();
            let engine = state.keys().expect("it has keys");
            let mut values = String::new();
            let all = storage::engine::Range {
                start: std::ops::Bound::Unbounded,
                end: std::ops::Bound::Unbounded,
                reverse: false,
                visited_max: usize::MAX,
                examined_max: usize::MAX,
            };
            let mut show = |key: &[u8], version: storage::engine::Version<'_>| {
                let (key, value) = (words::text(key), words::text(version.value));
                write!(values, " {key}=\"{value}\"").expect("a string");
            };
            let more = engine.range(&all, Timestamp::MAX, &mut show);
            assert_eq!(more, Ok(None), "it shows all");
            let locks = shard::shown(&state.locks).replace('\n', "; ");
            let text = format!("shard {}:{values}; {locks}", state.descriptor.shard.0);
            writeln!(self.out, "{}", text.trim_end_matches("; ")).expect("a string");
        }
    }
}

fn of_step(bytes: &[u8]) -> String {
    words::step(&Step::decode(&mut Reader::new(bytes)).expect("it was encoded"))
}

fn of_end(ended: &Ended) -> String {
    match ended {
        Ended::Done(replies) => format!("done {}", words::replies(replies)),
        Ended::Changed(key) => format!("not done: {} has changed", words::text(key)),
        Ended::Busy(Some(key)) => format!("not done: busy, conflict on {}", words::text(key)),
        Ended::Busy(None) => "not done: busy, a shard has not answered".to_owned(),
        Ended::Unknown => "unknown".to_owned(),
        Ended::CrossShard => "not done: a command's keys lie in several shards".to_owned(),
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
                let watched = words::watched(watch);
                let transaction = Transaction { watched, commands, ..Transaction::default() };
                let (keyspace, token) = (self.keyspace.id, self.next_token);
                self.next_token += 1;
                self.with(|coordinator, at, routes| {
                    coordinator.begin(keyspace, &transaction, token, at, routes);
                });
            }
            Verb::Deliver(shard) => self.deliver(*shard),
            Verb::Lose(shard) => {
                for asked in self.due(*shard) {
                    self.answer(&asked, Err(NotDone::Unknown));
                }
            }
            Verb::LoseAnswer(shard) => {
                for asked in self.due(*shard) {
                    self.apply(&asked);
                    self.answer(&asked, Err(NotDone::Unknown));
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
                self.by += 1;
                self.coordinator = Coordinator::new(self.by, TIMEOUT_NANOS, STEP_BYTES_MAX);
            }
            Verb::Recover(key) => self.recover(key)?,
            Verb::Apply(text) => {
                let Command::Write(write) = words::command(text) else {
                    return Err("reads need no entry".into());
                };
                let route = self.route();
                let mut key = None;
                write.each_key(&mut |it| key = Some(it.to_vec()));
                let place = route.place_of_key(&key.expect("it has a key"));
                let at = self.tick();
                let reply = shard::write(&mut self.views[place].write(), at, &write);
                self.say(&format!("{}: {}", at.millis(), words::reply(&reply)));
            }
            Verb::Show => self.show(),
        }
        Ok(std::mem::take(&mut self.out))
    }
}

//! Coordinators against shards that are lists of entries: what they are asked and answer comes
//! late, twice, in any order or not at all; coordinators die, and others finish what they began.
//!
//! Whatever happens: money is neither made nor lost, in any moment that a transaction sees; what
//! was said to be done is done, once, everywhere; what was said not to be done is done nowhere; and
//! when all is over no lock is left.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::codec::Reader;
use keyspace::{Catalogue, Cut, Keyspace, KeyspaceOptions, random};
use storage::engine::Layout;

use super::*;
use crate::locks::{Intent, Prepare, RETAINED_ANSWER_BYTES_MAX, RecordState, Role};
use crate::{AbandonedTxn, ConflictRetry};
use command::{Read, Step as Command, Transaction, Write, integer};

mod floors;
mod keyspaces;
mod retries;
#[path = "../../../tests/golden/shard.rs"]
mod shard;
mod traces;

use shard::{HASHER, Shard, Shards};

const ACCOUNTS: u64 = 6;
const EACH: i64 = 100;
const CLIENTS: usize = 5;
const TRANSACTIONS: usize = 60;
/// A coordinator that is gone.
const NOBODY: usize = usize::MAX;

struct Dice(u64);

impl Dice {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = random::mix(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.0 % below
    }
}

struct World {
    dice: Dice,
    keyspace: Keyspace,
    /// The shards of that.
    map: Arc<Shards>,
    /// Where the ledgers are, if that is another keyspace.
    ledgers: Option<(KeyspaceId, Arc<Shards>)>,
    shards: BTreeMap<ShardId, Shard>,
    /// Each shard's clock, and how far it is behind the others.
    times: BTreeMap<ShardId, u64>,
    coordinators: Vec<Coordinator>,
    /// Coordinator, its question, shard, step.
    sent_steps: Vec<(usize, u64, ShardId, Bytes)>,
    answered: Vec<(usize, u64, Result<StepReply, NotDone>)>,
    ended: BTreeMap<u64, TxnOutcome>,
    now: BootNanos,
    next_name: u64,
    /// Somebody has asked for DECIDE of these as what is sure: readers may have been told.
    sure: BTreeSet<TxnId>,
    /// What who watches is told.
    traces: traces::SeenTraces,
}

fn account(number: u64) -> Vec<u8> {
    format!("account-{number}").into_bytes()
}

fn ledger(number: u64) -> Vec<u8> {
    format!("ledger-{number}").into_bytes()
}

fn coordinator(name: u64, conflicts: ConflictRate) -> Coordinator {
    let is_tracing = true;
    Coordinator { conflicts, is_tracing, ..Coordinator::new(name, 2_000_000_000, 1 << 20) }
}

impl World {
    fn new(seed: u64) -> Self {
        Self::with_ledgers_in(seed, "k")
    }

    /// The ledgers are in the keyspace of this name, the accounts in that of the name k.
    fn with_ledgers_in(seed: u64, name: &str) -> Self {
        let mut catalogue = Catalogue::default();
        let (mut shards, mut times) = (BTreeMap::new(), BTreeMap::new());
        let mut dice = Dice(seed);
        let mut make = |name: &str, dice: &mut Dice| {
            let made = catalogue.create(name, KeyspaceOptions::default()).expect("a name");
            let mut own = Vec::new();
            for (shard, arc) in made.tiles() {
                let (first_slot, end_slot) = arc.slots().expect("the keyspace is hashed");
                let layout = Layout::Hashed { first_slot, end_slot };
                shards.insert(shard, Shard::new(shard, arc, layout));
                times.insert(shard, 1_000 + dice.draw(3_000));
                own.push(shard);
            }
            (made.clone(), Arc::new(Shards::of(own.iter().map(|shard| &shards[shard]))))
        };
        let (keyspace, map) = make("k", &mut dice);
        let ledgers = (name != "k").then(|| make(name, &mut dice));
        let ledgers = ledgers.map(|(keyspace, map)| (keyspace.id, map));
        // Some find others in the way from the beginning.
        let rates = [ConflictRate::default(), ConflictRate::ALMOST_HIGH, ConflictRate::HIGHEST];
        let conflicts = rates[dice.draw(3) as usize];
        let coordinators = (0..CLIENTS as u64).map(|name| coordinator(name, conflicts)).collect();
        let mut world = Self {
            dice,
            keyspace,
            map,
            ledgers,
            shards,
            times,
            coordinators,
            sent_steps: Vec::new(),
            answered: Vec::new(),
            ended: BTreeMap::new(),
            now: 1_000_000_000,
            next_name: 1_000,
            sure: BTreeSet::new(),
            traces: traces::SeenTraces::default(),
        };
        // Ledgers are longer than what a mark keeps of an answer.
        let money = (0..ACCOUNTS).map(|number| (account(number), EACH.to_string()));
        let blank = " ".repeat(2 * RETAINED_ANSWER_BYTES_MAX);
        let blanks = (0..ACCOUNTS).map(|number| (ledger(number), blank.clone()));
        for (key, value) in money.chain(blanks) {
            let shard = world.shard_of(&key);
            let at = world.tick(shard);
            let state = world.shards.get_mut(&shard).expect("the shard exists");
            state.last = at;
            state.engine.put(&HASHER.key(&key), &[value.as_bytes()], 0, at);
        }
        world
    }

    /// The time of a shard's next entry.
    fn tick(&mut self, shard: ShardId) -> Timestamp {
        let step = 1 + self.dice.draw(5);
        let time = self.times.get_mut(&shard).expect("the shard has a clock");
        *time += step;
        Timestamp::from_millis(*time)
    }

    fn at(&self) -> CoordinatorTime {
        CoordinatorTime { now: self.now, time: Timestamp::from_millis(self.now / 1_000_000) }
    }

    fn routes(&self) -> impl Fn(KeyspaceId) -> Option<Arc<dyn ShardMap>> + use<> {
        let mut maps = BTreeMap::from([(self.keyspace.id, self.map.clone())]);
        maps.extend(self.ledgers.clone());
        move |keyspace| Some(maps.get(&keyspace)?.clone() as Arc<dyn ShardMap>)
    }

    /// The shard of an account or a ledger.
    fn shard_of(&self, key: &[u8]) -> ShardId {
        match &self.ledgers {
            Some((_, map)) if key.starts_with(b"ledger") => map.shard_of(key),
            _ => self.map.shard_of(key),
        }
    }

    /// Begins a transaction; its replies come in the order of its commands.
    fn begin(&mut self, who: usize, commands: Vec<Command<'static>>, token: u64) {
        let id = self.keyspace.id;
        let Some((other, _)) = self.ledgers else {
            let transaction = Transaction { commands, ..Transaction::default() };
            return self.with(who, |c, at, routes| c.begin(id, &transaction, token, at, routes));
        };
        let (mut here, mut there) = (Transaction::default(), Transaction::default());
        for command in commands {
            let mut is_there = false;
            command.each_key(&mut |key| is_there |= key.starts_with(b"ledger"));
            let part = if is_there { &mut there } else { &mut here };
            part.commands.push(command);
        }
        let whole = [(id, &here), (other, &there)];
        self.with(who, |c, at, routes| c.begin_spanning(&whole, token, None, at, routes));
    }

    fn with(
        &mut self,
        who: usize,
        act: impl FnOnce(&mut Coordinator, CoordinatorTime, Routes<'_>),
    ) {
        let (at, routes) = (self.at(), self.routes());
        act(&mut self.coordinators[who], at, &routes);
        for act in self.coordinators[who].take_actions().collect::<Vec<_>>() {
            match act {
                CoordinatorAction::SendStep { shard, step, ask } => {
                    let read =
                        Step::decode(&mut Reader::new(&step)).expect("the bytes were encoded here");
                    if let Step::Decide { id, is_sure: true, .. } = read {
                        self.sure.insert(id);
                    }
                    drop(read);
                    self.sent_steps.push((who, ask, shard, step));
                }
                CoordinatorAction::Report { token, ended } => {
                    assert_eq!(self.ended.insert(token, ended), None, "told once");
                }
                CoordinatorAction::Trace(trace) => {
                    let by = self.coordinators[who].name;
                    self.traces.take(by, *trace);
                }
            }
        }
    }

    /// Applies a step, as an entry of its shard's log.
    fn apply(&mut self, shard: ShardId, bytes: &[u8]) -> StepReply {
        let step = Step::decode(&mut Reader::new(bytes)).expect("the bytes were encoded here");
        let at = self.tick(shard);
        if let Step::Decide { outcome: Outcome::Committed(past), .. }
        | Step::Resolve { outcome: Outcome::Committed(past), .. }
        | Step::Prepare(Prepare { role: Role::Commits(past), .. }) = &step
        {
            let time = self.times.get_mut(&shard).expect("the shard has a clock");
            *time = (*time).max(past.millis() + 1);
        }
        let mut at = at.max(Timestamp::from_millis(self.times[&shard]));
        // It may stand in one entry with the last one.
        let state = self.shards.get_mut(&shard).expect("the shard exists");
        if let Step::Prepare(Prepare { role, .. }) = &step
            && !matches!(role, Role::Commits(after) if *after >= state.last)
            && self.dice.draw(3) == 0
        {
            at = state.last;
        }
        let reply = state.step(at, &step);
        let is_aborted = matches!(reply, StepReply::Record(RecordState::Aborted, _));
        assert!(!is_aborted || !self.sure.contains(&step.id()), "it was sure");
        reply
    }

    /// One thing happens.
    fn step(&mut self) {
        self.now += 100_000 + self.dice.draw(2_000_000);
        match self.dice.draw(12) {
            0..=5 if !self.sent_steps.is_empty() => {
                let place = self.dice.draw(self.sent_steps.len() as u64) as usize;
                let is_twice = self.dice.draw(8) == 0;
                let (who, ask, shard, step) = match is_twice {
                    true => self.sent_steps[place].clone(),
                    false => self.sent_steps.swap_remove(place),
                };
                let reply = self.apply(shard, &step);
                if who == NOBODY {
                    return;
                }
                match self.dice.draw(12) {
                    // What was said is lost, and it is asked again.
                    2.. if self.dice.draw(6) == 0 => self.sent_steps.push((who, ask, shard, step)),
                    0 => self.answered.push((who, ask, Err(NotDone::OutcomeUnknown))),
                    _ => self.answered.push((who, ask, Ok(reply))),
                }
            }
            6..=10 if !self.answered.is_empty() => {
                let place = self.dice.draw(self.answered.len() as u64) as usize;
                let (who, ask, reply) = self.answered.swap_remove(place);
                self.with(who, |c, at, routes| c.answered(ask, reply, at, routes));
            }
            _ => {
                let who = self.dice.draw(CLIENTS as u64) as usize;
                self.with(who, |c, at, routes| c.tick(at, routes));
                self.carry_floors();
                if self.dice.draw(4) == 0 {
                    self.lie();
                }
            }
        }
    }

    /// What one shard knows of floors comes to another, as by a merge.
    fn carry_floors(&mut self) {
        let shards: Vec<ShardId> = self.shards.keys().copied().collect();
        let [from, to] = [0; 2].map(|_| shards[self.dice.draw(shards.len() as u64) as usize]);
        let nothing = Cut::Slot(keyspace::SLOTS);
        let floors = self.shards[&from].locks.clone().split_off(&nothing);
        self.shards.get_mut(&to).expect("the shard exists").locks.unite(floors);
    }

    /// A shard hears of a floor that is not true: that may be in the way of what is under way, and
    /// yet nothing is done by halves.
    fn lie(&mut self) {
        let key = account(self.dice.draw(ACCOUNTS));
        let name = self.coordinators[self.dice.draw(CLIENTS as u64) as usize].name;
        let before = self.at().time.millis() - self.dice.draw(100);
        let id = TxnId { start: Timestamp(1), coordinator: name, attempt: 0 };
        let floor = Some((name, Timestamp::from_millis(before)));
        let mut step = Vec::new();
        Step::Forget { all: vec![(id, &key)], floor }.encode(&mut step);
        self.apply(self.map.shard_of(&key), &step);
    }

    /// A coordinator dies: what it had asked is still on its way.
    fn kill(&mut self, who: usize) {
        self.next_name += 1;
        self.traces.died(self.coordinators[who].name);
        self.coordinators[who] = coordinator(self.next_name, self.coordinators[who].conflicts);
        self.answered.retain(|(of, ..)| *of != who);
        self.sent_steps
            .iter_mut()
            .filter(|(of, ..)| *of == who)
            .for_each(|sent_steps| sent_steps.0 = NOBODY);
    }

    /// Somebody finds locks that have been there for long.
    fn find_abandoned(&mut self) {
        let mut all = Vec::new();
        for state in self.shards.values() {
            let (locks, keyspace) = (&state.locks, state.arc.keyspace());
            for (key, lock) in locks.iter() {
                let (id, record) = (lock.id, Box::from(&*lock.record));
                let keys = vec![Box::from(id.name_of(keyspace, key))];
                all.push(AbandonedTxn { keyspace, id, record, keys });
            }
            for (id, record, _) in locks.unfinished() {
                let record = Box::from(id.name_of(keyspace, record));
                all.push(AbandonedTxn { keyspace, id, record, keys: Vec::new() });
            }
        }
        for stuck in all {
            let who = self.dice.draw(CLIENTS as u64) as usize;
            self.with(who, |c, at, routes| c.finish(stuck, at, routes));
        }
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        let state = &self.shards[&self.shard_of(key)];
        assert!(state.locks.get(key).is_none(), "a lock is left");
        let version = state.engine.newest(&HASHER.key(key), Timestamp::MAX);
        version.map(|version| version.value.to_vec())
    }
}

/// From one account to another; both ledgers name the token.
fn transfer(from: u64, to: u64, by: i64, token: u64) -> Vec<(Vec<u8>, Option<i64>, Vec<u8>)> {
    let name = format!("{token} ").into_bytes();
    vec![
        (account(from), Some(-by), name.clone()),
        (account(to), Some(by), name.clone()),
        (ledger(from), None, name.clone()),
        (ledger(to), None, name),
    ]
}

fn play(mut world: World, seed: u64) -> (usize, usize) {
    let mut transfers = BTreeMap::new();
    for token in 0..TRANSACTIONS as u64 {
        let who = world.dice.draw(CLIENTS as u64) as usize;
        let (from, to) = (world.dice.draw(ACCOUNTS), world.dice.draw(ACCOUNTS - 1));
        let to = (from + 1 + to) % ACCOUNTS;
        let writes = transfer(from, to, 1 + world.dice.draw(9) as i64, token);
        let names: Vec<Vec<u8>> =
            (0..ACCOUNTS).flat_map(|number| [account(number), ledger(number)]).collect();
        let commands: Vec<Command<'static>> = if token.is_multiple_of(4) {
            names.iter().map(|key| Command::Read(Read::Get(leak(key)))).collect()
        } else {
            transfers.insert(token, (from, to));
            let command = |(key, by, name): &'_ (Vec<u8>, Option<i64>, Vec<u8>)| match by {
                Some(by) => Command::Write(Write::Increment { key: leak(key), by: *by }),
                None => Command::Write(Write::append(leak(key), leak(name))),
            };
            writes.iter().map(command).collect()
        };
        world.begin(who, commands, token);
        (0..world.dice.draw(30)).for_each(|_| world.step());
        if world.dice.draw(10) == 0 {
            let who = world.dice.draw(CLIENTS as u64) as usize;
            world.kill(who);
        }
        if world.dice.draw(12) == 0 {
            world.find_abandoned();
        }
    }
    for _ in 0..40 {
        (0..400).for_each(|_| world.step());
        world.find_abandoned();
    }
    let mut sum = 0;
    for number in 0..ACCOUNTS {
        let value = world.value(&account(number)).expect("the account has money");
        sum += integer::parse(&value).expect("a number");
    }
    assert_eq!(sum, ACCOUNTS as i64 * EACH, "seed {seed}: money was made or lost");
    let names: Vec<Vec<u64>> = (0..ACCOUNTS)
        .map(|number| {
            let text = world.value(&ledger(number)).unwrap_or_default();
            let text = String::from_utf8(text).expect("the bytes are text");
            text.split_whitespace().map(|token| token.parse().expect("a token")).collect()
        })
        .collect();
    let (mut done, mut not_done) = (0, 0);
    for (token, (from, to)) in &transfers {
        let count = |number: u64| names[number as usize].iter().filter(|n| *n == token).count();
        let counts = (count(*from), count(*to));
        assert!(counts == (0, 0) || counts == (1, 1), "seed {seed}: {token} is done {counts:?}");
        match world.ended.get(token) {
            Some(TxnOutcome::Done(_)) => {
                done += 1;
                assert_eq!(counts, (1, 1), "seed {seed}: {token} was acknowledged");
            }
            Some(TxnOutcome::Unknown) | None => {}
            Some(_) => {
                not_done += 1;
                assert_eq!(counts, (0, 0), "seed {seed}: {token} was said not to be done");
            }
        }
    }
    for (token, ended) in &world.ended {
        if let (TxnOutcome::Done(replies), true) = (ended, token.is_multiple_of(4)) {
            assert_eq!(replies.len() as u64, 2 * ACCOUNTS, "seed {seed}: {token} lacks answers");
            let number = |reply: &Reply| match reply {
                Reply::Bulk(text) => integer::parse(text).expect("a number"),
                other => panic!("{other:?}"),
            };
            // Accounts come first, if ledgers are elsewhere.
            let apart = if world.ledgers.is_some() { 1 } else { 2 };
            let of_accounts = replies.iter().step_by(apart).take(ACCOUNTS as usize);
            let seen: i64 = of_accounts.map(number).sum();
            assert_eq!(seen, ACCOUNTS as i64 * EACH, "seed {seed}: {token} saw a moment between");
        }
    }
    world.traces.check(seed);
    (done, not_done)
}

fn leak(bytes: &[u8]) -> &'static [u8] {
    Box::leak(bytes.to_vec().into_boxed_slice())
}

#[test]
fn transaction_is_atomic_under_faults() {
    let (mut done, mut not_done) = (0, 0);
    for seed in 0..150 {
        let (one, other) = play(World::new(seed), seed);
        done += one;
        not_done += other;
    }
    assert!(done > 400 && not_done > 400, "{done} were done, {not_done} were not");
}

/// What a coordinator asks is done at once, and answered.
fn settle(world: &mut World, who: usize) {
    while let Some(place) = world.sent_steps.iter().position(|(of, ..)| *of == who) {
        let (_, ask, shard, step) = world.sent_steps.remove(place);
        let reply = world.apply(shard, &step);
        world.with(who, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
    }
}

#[test]
fn intent_counts_bytes_of_its_value() {
    assert_eq!(Intent::Put(b"four".as_slice().into(), 0).bytes(), 4);
    assert_eq!(Intent::Delete.bytes() + Intent::Keep.bytes(), 0);
}

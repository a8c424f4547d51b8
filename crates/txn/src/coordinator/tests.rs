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
use crate::AbandonedTxn;
use crate::locks::{Intent, Prepare, RETAINED_ANSWER_BYTES_MAX, RecordState, Role};
use command::{Read, Step as Command, Write, integer};

#[path = "../../tests/golden/shard.rs"]
mod shard;

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
    map: Arc<Shards>,
    shards: BTreeMap<ShardId, Shard>,
    /// Each shard's clock, and how far it is behind the others.
    times: BTreeMap<ShardId, u64>,
    coordinators: Vec<Coordinator>,
    /// Coordinator, its question, shard, step.
    sent_steps: Vec<(usize, u64, ShardId, Bytes)>,
    answered: Vec<(usize, u64, Result<StepReply, NotDone>)>,
    ended: BTreeMap<u64, TxnOutcome>,
    now: BootNanos,
    next_by: u64,
    /// Somebody has asked for DECIDE of these as what is sure: readers may have been told.
    sure: BTreeSet<TxnId>,
}

fn account(number: u64) -> Vec<u8> {
    format!("account-{number}").into_bytes()
}

fn ledger(number: u64) -> Vec<u8> {
    format!("ledger-{number}").into_bytes()
}

fn coordinator(by: u64, conflicts: ConflictRate) -> Coordinator {
    Coordinator { conflicts, ..Coordinator::new(by, 2_000_000_000, 1 << 20) }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut catalogue = Catalogue::default();
        let made = catalogue.create("k", KeyspaceOptions::default()).expect("a name");
        let keyspace = made.clone();
        let (mut shards, mut times) = (BTreeMap::new(), BTreeMap::new());
        let mut dice = Dice(seed);
        for (shard, arc) in keyspace.tiles() {
            let (first_slot, end_slot) = arc.slots().expect("it is hashed");
            let layout = Layout::Hashed { first_slot, end_slot };
            shards.insert(shard, Shard::new(shard, arc, layout));
            times.insert(shard, 1_000 + dice.draw(3_000));
        }
        let map = Arc::new(Shards::of(shards.values()));
        // Some find others in the way from the beginning.
        let rates = [ConflictRate::default(), ConflictRate::ALMOST_HIGH, ConflictRate::HIGHEST];
        let conflicts = rates[dice.draw(3) as usize];
        let coordinators = (0..CLIENTS as u64).map(|by| coordinator(by, conflicts)).collect();
        let mut world = Self {
            dice,
            keyspace,
            map,
            shards,
            times,
            coordinators,
            sent_steps: Vec::new(),
            answered: Vec::new(),
            ended: BTreeMap::new(),
            now: 1_000_000_000,
            next_by: 1_000,
            sure: BTreeSet::new(),
        };
        // Ledgers are longer than what a mark keeps of an answer.
        let money = (0..ACCOUNTS).map(|number| (account(number), EACH.to_string()));
        let blank = " ".repeat(2 * RETAINED_ANSWER_BYTES_MAX);
        let blanks = (0..ACCOUNTS).map(|number| (ledger(number), blank.clone()));
        for (key, value) in money.chain(blanks) {
            let shard = world.map.shard_of(&key);
            let at = world.tick(shard);
            let state = world.shards.get_mut(&shard).expect("it is one of them");
            state.last = at;
            state.engine.put(&HASHER.key(&key), &[value.as_bytes()], 0, at);
        }
        world
    }

    /// The time of a shard's next entry.
    fn tick(&mut self, shard: ShardId) -> Timestamp {
        let step = 1 + self.dice.draw(5);
        let time = self.times.get_mut(&shard).expect("it is known");
        *time += step;
        Timestamp::from_millis(*time)
    }

    fn at(&self) -> CoordinatorTime {
        CoordinatorTime { now: self.now, time: Timestamp::from_millis(self.now / 1_000_000) }
    }

    fn routes(&self) -> impl Fn(KeyspaceId) -> Option<Arc<dyn ShardMap>> + use<> {
        let (map, id) = (self.map.clone(), self.keyspace.id);
        move |keyspace| (keyspace == id).then(|| map.clone() as Arc<dyn ShardMap>)
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
                    let read = Step::decode(&mut Reader::new(&step)).expect("it was encoded");
                    if let Step::Decide { id, is_sure: true, .. } = read {
                        self.sure.insert(id);
                    }
                    drop(read);
                    self.sent_steps.push((who, ask, shard, step));
                }
                CoordinatorAction::Report { token, ended } => {
                    assert_eq!(self.ended.insert(token, ended), None, "told once");
                }
            }
        }
    }

    /// Applies a step, as an entry of its shard's log.
    fn apply(&mut self, shard: ShardId, bytes: &[u8]) -> StepReply {
        let step = Step::decode(&mut Reader::new(bytes)).expect("it was encoded");
        let at = self.tick(shard);
        if let Step::Decide { outcome: Outcome::Committed(past), .. }
        | Step::Resolve { outcome: Outcome::Committed(past), .. }
        | Step::Prepare(Prepare { role: Role::Commits(past), .. }) = &step
        {
            let time = self.times.get_mut(&shard).expect("it is known");
            *time = (*time).max(past.millis() + 1);
        }
        let mut at = at.max(Timestamp::from_millis(self.times[&shard]));
        // It may stand in one entry with the last one.
        let state = self.shards.get_mut(&shard).expect("it is one of them");
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
        self.shards.get_mut(&to).expect("it is one of them").locks.unite(floors);
    }

    /// A shard hears of a floor that is not true: that may be in the way of what is under way, and
    /// yet nothing is done by halves.
    fn lie(&mut self) {
        let key = account(self.dice.draw(ACCOUNTS));
        let by = self.coordinators[self.dice.draw(CLIENTS as u64) as usize].by;
        let before = self.at().time.millis() - self.dice.draw(100);
        let id = TxnId { start: Timestamp(1), by, attempt: 0 };
        let floor = Some((by, Timestamp::from_millis(before)));
        let mut step = Vec::new();
        Step::Forget { all: vec![(id, &key)], floor }.encode(&mut step);
        self.apply(self.map.shard_of(&key), &step);
    }

    /// A coordinator dies: what it had asked is still on its way.
    fn kill(&mut self, who: usize) {
        self.next_by += 1;
        self.coordinators[who] = coordinator(self.next_by, self.coordinators[who].conflicts);
        self.answered.retain(|(of, ..)| *of != who);
        self.sent_steps
            .iter_mut()
            .filter(|(of, ..)| *of == who)
            .for_each(|sent_steps| sent_steps.0 = NOBODY);
    }

    /// Somebody finds locks that have been there for long.
    fn find_abandoned(&mut self) {
        let keyspace = self.keyspace.id;
        let mut all = Vec::new();
        for state in self.shards.values() {
            let locks = &state.locks;
            for (key, lock) in locks.iter() {
                let (id, record, keys) = (lock.id, Box::from(&*lock.record), vec![Box::from(key)]);
                all.push(AbandonedTxn { keyspace, id, record, keys });
            }
            for (id, record, _) in locks.unfinished() {
                all.push(AbandonedTxn {
                    keyspace,
                    id,
                    record: Box::from(&**record),
                    keys: Vec::new(),
                });
            }
        }
        for stuck in all {
            let who = self.dice.draw(CLIENTS as u64) as usize;
            self.with(who, |c, at, routes| c.finish(stuck, at, routes));
        }
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        let state = &self.shards[&self.map.shard_of(key)];
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

fn play(seed: u64) -> (usize, usize) {
    let mut world = World::new(seed);
    let mut transfers = BTreeMap::new();
    for token in 0..TRANSACTIONS as u64 {
        let who = world.dice.draw(CLIENTS as u64) as usize;
        let (from, to) = (world.dice.draw(ACCOUNTS), world.dice.draw(ACCOUNTS - 1));
        let to = (from + 1 + to) % ACCOUNTS;
        let writes = transfer(from, to, 1 + world.dice.draw(9) as i64, token);
        let names: Vec<Vec<u8>> =
            (0..ACCOUNTS).flat_map(|number| [account(number), ledger(number)]).collect();
        let commands: Vec<Command<'_>> = if token.is_multiple_of(4) {
            names.iter().map(|key| Command::Read(Read::Get(key))).collect()
        } else {
            transfers.insert(token, (from, to));
            let command = |(key, by, name): &'_ (Vec<u8>, Option<i64>, Vec<u8>)| match by {
                Some(by) => Command::Write(Write::Increment { key: leak(key), by: *by }),
                None => Command::Write(Write::append(leak(key), leak(name))),
            };
            writes.iter().map(command).collect()
        };
        let transaction = Transaction { commands, ..Transaction::default() };
        let keyspace = world.keyspace.id;
        world.with(who, |c, at, routes| c.begin(keyspace, &transaction, token, at, routes));
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
        let value = world.value(&account(number)).expect("it has money");
        sum += integer::parse(&value).expect("a number");
    }
    assert_eq!(sum, ACCOUNTS as i64 * EACH, "seed {seed}: money was made or lost");
    let names: Vec<Vec<u64>> = (0..ACCOUNTS)
        .map(|number| {
            let text = world.value(&ledger(number)).unwrap_or_default();
            let text = String::from_utf8(text).expect("it is text");
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
            let seen: i64 = replies.iter().step_by(2).map(number).sum();
            assert_eq!(seen, ACCOUNTS as i64 * EACH, "seed {seed}: {token} saw a moment between");
        }
    }
    (done, not_done)
}

fn leak(bytes: &[u8]) -> &'static [u8] {
    Box::leak(bytes.to_vec().into_boxed_slice())
}

#[test]
fn transaction_is_atomic_under_faults() {
    let (mut done, mut not_done) = (0, 0);
    for seed in 0..150 {
        let (one, other) = play(seed);
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

/// A vote is lost on its way, another finishes the transaction, and the shard is asked again when
/// long answers are forgotten: an answer is not passed off as another command's, or as nil.
#[test]
fn forgotten_replies_are_not_replaced_by_others() {
    let mut world = World::new(1);
    world.coordinators[0].conflicts = ConflictRate::default();
    let names: Vec<Vec<u8>> = (0..ACCOUNTS).map(ledger).collect();
    let commands = names.iter().map(|key| Command::Read(Read::Get(key))).collect();
    let transaction = Transaction { commands, ..Transaction::default() };
    let keyspace = world.keyspace.id;
    world.with(0, |c, at, routes| c.begin(keyspace, &transaction, 7, at, routes));
    assert!(world.sent_steps.len() > 1, "it is of several shards");
    for (_, _, shard, step) in world.sent_steps.clone() {
        assert!(matches!(world.apply(shard, &step), StepReply::Voted(..)));
    }
    let shard = world.map.shard_of(&names[0]);
    let stuck = {
        let state = &world.shards[&shard];
        let (key, lock) = state.locks.iter().next().expect("it is locked");
        AbandonedTxn {
            keyspace,
            id: lock.id,
            record: Box::from(&*lock.record),
            keys: vec![key.into()],
        }
    };
    world.with(1, |c, at, routes| c.finish(stuck, at, routes));
    settle(&mut world, 1);
    settle(&mut world, 0);
    world.now += FORGET_NANOS;
    for who in 0..2 {
        assert!(!world.coordinators[who].is_busy() && world.coordinators[who].waits());
        world.with(who, |c, at, routes| c.tick(at, routes));
        settle(&mut world, who);
    }
    assert!(world.shards.values().all(|state| state.locks.is_quiet()));
    assert_eq!(world.ended.get(&7), Some(&TxnOutcome::Unknown));
    assert!(world.coordinators.iter().all(Coordinator::is_idle));
}

/// What is begun again is not tried for longer than if it had been tried all the time.
#[test]
fn restarted_transaction_keeps_its_deadline() {
    let mut world = World::new(1);
    world.now += world.coordinators[1].request_timeout;
    let keyspace = world.keyspace.id;
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let incr = |key: &Vec<u8>| Command::Write(Write::Increment { key: leak(key), by: 1 });
    let commands = keys.iter().map(incr).collect();
    let transaction = Transaction { commands, ..Transaction::default() };
    world.with(0, |c, at, routes| c.begin(keyspace, &transaction, 1, at, routes));
    let held = std::mem::take(&mut world.sent_steps);
    for (_, _, shard, step) in &held {
        assert!(matches!(world.apply(*shard, step), StepReply::Voted(..)));
    }
    for (token, ago) in [(2, 2), (3, 1)] {
        let since = world.now + 1_000_000 * ago - world.coordinators[1].request_timeout;
        world.with(1, |c, at, routes| {
            let before = Some(ConflictRetry { since, key: account(0).into(), reserved_as: None });
            c.begin_again(keyspace, &transaction, token, before, at, routes);
        });
    }
    world.now += 1_000_000;
    for _ in 0..20 {
        let sent_steps = std::mem::take(&mut world.sent_steps);
        for (who, ask, shard, step) in sent_steps {
            let reply = world.apply(shard, &step);
            world.with(who, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
        }
    }
    assert!(matches!(world.ended.get(&3), Some(TxnOutcome::Busy(Some(_)))), "{:?}", world.ended);
    assert_eq!(world.ended.get(&2), None, "it has a millisecond left");
    world.now += 1_000_000;
    settle(&mut world, 1);
    assert!(matches!(world.ended.get(&2), Some(TxnOutcome::Busy(Some(_)))), "{:?}", world.ended);
    // Begun when its time is over, it says whose fault that was.
    let since = world.now - world.coordinators[1].request_timeout;
    let before = Some(ConflictRetry { since, key: (*b"w").into(), reserved_as: None });
    world.with(1, |c, at, routes| c.begin_again(keyspace, &transaction, 4, before, at, routes));
    assert_eq!(world.ended.get(&4), Some(&TxnOutcome::Busy(Some((*b"w").into()))));
}

/// Who has met others before, and then a shard that nobody led, is told of the shard.
#[test]
fn unanswered_step_reports_no_conflicting_key() {
    let mut world = World::new(1);
    world.coordinators[0].conflicts = ConflictRate::default();
    world.now += world.coordinators[0].request_timeout;
    let keyspace = world.keyspace.id;
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let incr = |key: &Vec<u8>| Command::Write(Write::Increment { key: leak(key), by: 1 });
    let commands = keys.iter().map(incr).collect();
    let transaction = Transaction { commands, ..Transaction::default() };
    let before =
        Some(ConflictRetry { since: world.now - 1, key: account(0).into(), reserved_as: None });
    world.with(0, |c, at, routes| c.begin_again(keyspace, &transaction, 1, before, at, routes));
    let (who, ask, ..) = world.sent_steps.pop().expect("all shards are asked");
    world.with(who, |c, at, routes| c.answered(ask, Err(NotDone::NotLeader), at, routes));
    settle(&mut world, 0);
    assert_eq!(world.ended.get(&1), Some(&TxnOutcome::Busy(None)));
}

#[test]
fn an_intent_counts_what_it_writes() {
    assert_eq!(Intent::Put(b"four".as_slice().into(), 0).bytes(), 4);
    assert_eq!(Intent::Delete.bytes() + Intent::Keep.bytes(), 0);
}

/// The floor that goes with FORGET leaves what is under way alone, and follows it.
#[test]
fn floor_is_below_running_transactions() {
    let mut world = World::new(1);
    world.coordinators[0].conflicts = ConflictRate::default();
    let keyspace = world.keyspace.id;
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let begin = |world: &mut World, token: u64, keys: &[Vec<u8>]| {
        let incr = |key: &Vec<u8>| Command::Write(Write::Increment { key: leak(key), by: 1 });
        let commands = keys.iter().map(incr).collect();
        let transaction = Transaction { commands, ..Transaction::default() };
        world.with(0, |c, at, routes| c.begin(keyspace, &transaction, token, at, routes));
    };
    // The floors that it tells when it is time, and that is done.
    let forget = |world: &mut World| {
        world.now += FORGET_NANOS;
        world.with(0, |c, at, routes| c.tick(at, routes));
        let told = world.sent_steps.iter().filter_map(|(_, _, _, step)| {
            let step = Step::decode(&mut Reader::new(step)).expect("it was encoded");
            if let Step::Forget { floor, .. } = step { floor } else { None }
        });
        let told: Vec<(u64, Timestamp)> = told.collect();
        settle(world, 0);
        told
    };
    let started = |world: &World, key: &[u8]| {
        let state = &world.shards[&world.map.shard_of(key)];
        state.locks.get(key).map(|lock| lock.id.start)
    };
    // One is under way: its steps are done, and its coordinator does not know yet.
    begin(&mut world, 1, &keys[..3]);
    let first = std::mem::take(&mut world.sent_steps);
    let reply: Vec<StepReply> =
        first.iter().map(|(_, _, shard, step)| world.apply(*shard, step)).collect();
    let start = started(&world, &keys[0]).expect("it is locked");
    world.now += 5_000_000;
    begin(&mut world, 2, &keys[3..]);
    settle(&mut world, 0);
    let told = forget(&mut world);
    assert!(!told.is_empty() && told.iter().all(|floor| *floor == (0, start)), "{told:?}");
    // It goes on, and is over.
    for ((_, ask, ..), reply) in first.into_iter().zip(reply) {
        world.with(0, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
    }
    settle(&mut world, 0);
    assert!(matches!(world.ended.get(&1), Some(TxnOutcome::Done(_))));
    let told = forget(&mut world);
    assert!(!told.is_empty() && told.iter().all(|floor| floor.1 > start), "{told:?}");
    // Who was told has forgotten all of it; the other's record is where nothing was told since.
    let counts = world.shards.values().map(|state| state.locks.counts());
    assert_eq!(counts.map(|(locks, records, _)| locks + records).sum::<usize>(), 1);
}
/// The clock of one shard is behind: it finds a value alive that has expired when the entry of
/// another shard would commit. An attempt fails for that, and the next one begins after a pause;
/// else one would follow the other at once, until that clock has come so far.
#[test]
fn the_next_attempt_pauses_after_a_missed_deadline() {
    let mut world = World::new(1);
    world.coordinators[0].conflicts = ConflictRate::default();
    world.now = 20_000_000_000;
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let behind = world.map.shard_of(&keys[0]);
    let other = keys.iter().find(|key| world.map.shard_of(key) != behind).expect("of all shards");
    for (shard, millis) in [(behind, 19_000), (world.map.shard_of(other), 21_000)] {
        world.times.insert(shard, millis);
        let shard = world.shards.get_mut(&shard).expect("it is one of them");
        shard.last = Timestamp::from_millis(millis);
        if shard.id == behind {
            shard.engine.put(&HASHER.key(&keys[0]), &[b"7"], 19_500, shard.last);
        }
    }
    let incr = |key: &[u8]| Command::Write(Write::Increment { key: leak(key), by: 1 });
    let commands = vec![incr(&keys[0]), incr(other)];
    let transaction = Transaction { commands, ..Transaction::default() };
    let keyspace = world.keyspace.id;
    world.with(0, |c, at, routes| c.begin(keyspace, &transaction, 1, at, routes));
    // Does all that is asked for, and says which attempt was the last.
    let settle = |world: &mut World| {
        let mut last = None;
        while !world.sent_steps.is_empty() {
            let (_, ask, shard, step) = world.sent_steps.remove(0);
            if let Ok(Step::Prepare(prepare)) = Step::decode(&mut Reader::new(&step)) {
                last = last.max(Some(prepare.id.attempt));
            }
            let reply = world.apply(shard, &step);
            world.with(0, |c, at, routes| c.answered(ask, Ok(reply), at, routes));
        }
        last
    };
    // At once, and then one shard after the other.
    for attempt in 0..3 {
        assert_eq!(settle(&mut world), Some(attempt));
        world.with(0, |c, at, routes| c.tick(at, routes));
        assert_eq!(settle(&mut world), None, "it pauses");
        world.now += ROUTE_RETRY_NANOS;
        world.with(0, |c, at, routes| c.tick(at, routes));
    }
    world.times.insert(behind, 19_500);
    world.shards.get_mut(&behind).expect("it is there").last = Timestamp::from_millis(19_500);
    settle(&mut world);
    assert!(matches!(world.ended.get(&1), Some(TxnOutcome::Done(_))), "{:?}", world.ended);
}

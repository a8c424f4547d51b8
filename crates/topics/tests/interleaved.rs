//! Clients whose transactions run at once, on one map.
//!
//! ```text
//!   a step of a client: the function, on what it knows ── keys are missing: they are read
//!                         └ it has come to its end: committed, if what it has read is unchanged;
//!                           else it begins anew
//! ```
//!
//! Some end before they commit, some after it, without having had their answer. Whatever the order
//! of steps: messages are the transactions that were committed, in their order; none is lost; none
//! is handed out while another member has it, nor after it was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use topics::draft::Known;
use topics::group::{self, Start, Taken};
use topics::record::{GroupSettings, Head, Record, TopicSettings};
use topics::topic;
use topics::{Draft, Found, Stop, Write, keys};

const CLIENTS: usize = 4;
const ACK_MS: u64 = 200;
const DELIVERIES_MAX: u64 = 3;

/// What a client does in a transaction.
#[derive(Clone, Debug)]
enum Op {
    /// Adds one to a sum, and publishes the sum that it has made.
    Publish,
    Take(usize),
    Ack(Vec<u64>),
    Back(Vec<u64>),
}

/// What it has brought.
enum Done {
    Published(u64),
    Taken(Taken),
    Acknowledged(usize),
    Back,
}

fn run(op: &Op, draft: &mut Draft) -> Result<Done, Stop> {
    match op {
        Op::Publish => {
            let sum = draft.get(b"sum")?.map_or(0, |found| number_of(&found.value)) + 1;
            draft.put(b"sum".to_vec(), sum.to_string().into_bytes(), None);
            topic::publish(draft, "t", sum.to_string().as_bytes()).map(Done::Published)
        }
        Op::Take(most) => group::take(draft, "t", "g", *most).map(Done::Taken),
        Op::Ack(numbers) => group::ack(draft, "t", "g", numbers).map(Done::Acknowledged),
        Op::Back(numbers) => group::give_back(draft, "t", "g", numbers).map(|_| Done::Back),
    }
}

fn number_of(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text).parse().expect("digits")
}

/// A transaction under way.
struct Task {
    op: Op,
    now_ms: u64,
    known: Known,
    /// The versions of what it has read.
    read: BTreeMap<Vec<u8>, u64>,
}

/// A value with its end.
type Stored = (Vec<u8>, u64);

/// What the group has handed out, as an observer of commits knows it.
struct HandedOut {
    deliveries: u64,
    until_ms: u64,
}

struct World {
    now_ms: u64,
    values: BTreeMap<Vec<u8>, Stored>,
    /// Of each key that was ever written.
    versions: BTreeMap<Vec<u8>, u64>,
    commits: u64,
    tasks: [Option<Task>; CLIENTS],
    /// What each client has taken.
    hands: [Vec<u64>; CLIENTS],
    out: BTreeMap<u64, HandedOut>,
    gone: BTreeSet<u64>,
    published: u64,
    acknowledged: u64,
    dead: u64,
    conflicts: u64,
}

impl World {
    fn new(topic: TopicSettings, group: GroupSettings) -> Self {
        let mut world = Self {
            now_ms: 1_000_000,
            values: BTreeMap::new(),
            versions: BTreeMap::new(),
            commits: 0,
            tasks: [const { None }; CLIENTS],
            hands: [const { Vec::new() }; CLIENTS],
            out: BTreeMap::new(),
            gone: BTreeSet::new(),
            published: 0,
            acknowledged: 0,
            dead: 0,
            conflicts: 0,
        };
        let settings = TopicSettings::default();
        world.alone(|draft| topic::create(draft, "dead", settings).map(drop));
        world.alone(|draft| topic::create(draft, "t", topic).map(drop));
        world.alone(|draft| {
            group::subscribe(draft, "t", "g", group.clone(), Start::Earliest).map(drop)
        });
        world
    }

    fn found(&self, key: &[u8]) -> Option<Found> {
        let (value, end) = self.values.get(key)?;
        (*end > self.now_ms).then(|| Found { value: value.clone(), version: 0 })
    }

    fn write(&mut self, writes: BTreeMap<Vec<u8>, Write>) {
        self.commits += 1;
        for (key, write) in writes {
            self.versions.insert(key.clone(), self.commits);
            match write {
                Write::Drop => drop(self.values.remove(&key)),
                Write::Put { value, ttl_ms } => {
                    let end = ttl_ms.map_or(u64::MAX, |ttl_ms| self.now_ms + ttl_ms);
                    self.values.insert(key, (value, end));
                }
            }
        }
    }

    /// Has a transaction learn what it lacks.
    fn learn(&self, task: &mut Task, draft: Draft) {
        let missing: Vec<Vec<u8>> = draft.missing().map(<[u8]>::to_vec).collect();
        let peeks: Vec<Vec<u8>> = draft.missing_peeks().map(<[u8]>::to_vec).collect();
        assert!(!missing.is_empty() || !peeks.is_empty(), "it says what it lacks");
        for key in missing {
            let version = self.versions.get(&key).copied().unwrap_or_default();
            task.read.insert(key.clone(), version);
            let found = self.found(&key);
            task.known.read(key, found);
        }
        for key in peeks {
            let found = self.found(&key);
            task.known.peeked(key, found);
        }
    }

    /// Runs a transaction while nothing else happens.
    fn alone<T>(&mut self, program: impl Fn(&mut Draft) -> Result<T, Stop>) -> T {
        let mut task = self.begin(Op::Publish);
        loop {
            let mut draft = Draft::new(task.now_ms, task.known.clone());
            match program(&mut draft) {
                Ok(done) => {
                    self.write(draft.end().1);
                    return done;
                }
                Err(Stop::Missing) => self.learn(&mut task, draft),
                Err(Stop::Refused(refusal)) => panic!("{refusal}"),
            }
        }
    }

    fn begin(&self, op: Op) -> Task {
        Task { op, now_ms: self.now_ms, known: Known::default(), read: BTreeMap::new() }
    }

    /// One step of a client's transaction.
    fn step(&mut self, client: usize) {
        let Some(mut task) = self.tasks[client].take() else { return };
        let mut draft = Draft::new(task.now_ms, task.known.clone());
        match run(&task.op, &mut draft) {
            Err(Stop::Refused(refusal)) => panic!("{:?}: {refusal}", task.op),
            Err(Stop::Missing) => {
                self.learn(&mut task, draft);
                self.tasks[client] = Some(task);
            }
            Ok(done) => {
                let version = |key: &Vec<u8>| self.versions.get(key).copied().unwrap_or_default();
                let is_valid = task.read.iter().all(|(key, read)| version(key) == *read);
                if !is_valid {
                    self.conflicts += 1;
                    self.tasks[client] = Some(self.begin(task.op));
                    return;
                }
                self.write(draft.end().1);
                self.note(client, &task, done);
            }
        }
    }

    /// Judges what was committed.
    fn note(&mut self, client: usize, task: &Task, done: Done) {
        match (&task.op, done) {
            (_, Done::Published(number)) => {
                self.published += 1;
                assert_eq!(number, self.published, "numbers rise by one");
            }
            (_, Done::Taken(taken)) => {
                self.dead += taken.dead;
                for one in taken.messages {
                    let number = one.number;
                    assert_eq!(number_of(&one.body), number, "in the order of commits");
                    assert!(!self.gone.contains(&number), "{number} was acknowledged");
                    let until_ms = task.now_ms + ACK_MS;
                    let next = HandedOut { deliveries: one.deliveries, until_ms };
                    let before = self.out.insert(number, next);
                    let (deliveries, until_ms) =
                        before.map_or((0, 0), |before| (before.deliveries, before.until_ms));
                    assert_eq!(one.deliveries, deliveries + 1, "message {number}");
                    assert!(until_ms <= task.now_ms, "another member has {number}");
                    self.hands[client].push(number);
                }
            }
            (Op::Ack(numbers), Done::Acknowledged(count)) => {
                self.acknowledged += count as u64;
                self.gone.extend(numbers);
                self.hands[client].retain(|number| !numbers.contains(number));
            }
            (Op::Back(numbers), Done::Back) => {
                for number in numbers {
                    if let Some(out) = self.out.get_mut(number) {
                        out.until_ms = 0;
                    }
                }
                self.hands[client].retain(|number| !numbers.contains(number));
            }
            (op, _) => panic!("{op:?} has brought something else"),
        }
    }

    /// What happens next: a client goes on, begins something, or ends; or time passes.
    fn turn(&mut self, who: u8, what: u8) {
        let client = usize::from(who) % CLIENTS;
        let hands = self.hands[client].clone();
        match (what, self.tasks[client].is_some()) {
            // It ends: what it did is not done, and what it has taken it does not know any more.
            (0..8, _) => {
                self.tasks[client] = None;
                self.hands[client].clear();
            }
            (8..24, _) => self.now_ms += 10 * u64::from(what),
            (_, true) => self.step(client),
            (24..100, false) => self.tasks[client] = Some(self.begin(Op::Publish)),
            (100..180, false) => {
                self.tasks[client] = Some(self.begin(Op::Take(1 + usize::from(what) % 6)));
            }
            (180..240, false) if !hands.is_empty() => {
                self.tasks[client] = Some(self.begin(Op::Ack(hands)));
            }
            (240.., false) if !hands.is_empty() => {
                self.tasks[client] = Some(self.begin(Op::Back(hands)));
            }
            (_, false) => {}
        }
    }

    /// Takes and acknowledges what is left. How many messages the group has missed.
    fn drain(&mut self) -> u64 {
        self.tasks = [const { None }; CLIENTS];
        let mut is_empty = false;
        while !is_empty {
            self.now_ms += ACK_MS;
            self.hands = [const { Vec::new() }; CLIENTS];
            self.tasks[0] = Some(self.begin(Op::Take(64)));
            while self.tasks[0].is_some() {
                self.step(0);
            }
            let numbers = self.hands[0].clone();
            is_empty = numbers.is_empty();
            self.tasks[0] = Some(self.begin(Op::Ack(numbers)));
            while self.tasks[0].is_some() {
                self.step(0);
            }
        }
        let shown = self.alone(|draft| topic::show(draft, "t"));
        assert_eq!(shown.head.next, self.published + 1);
        assert!(shown.groups[0].1.pending.is_empty());
        shown.groups[0].1.missed
    }
}

fn turns() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec(any::<(u8, u8)>(), 50..600)
}

fn group_of(deliveries_max: u64) -> GroupSettings {
    let dead_letter = (deliveries_max > 0).then(|| "dead".to_owned());
    GroupSettings { ack_ms: ACK_MS, deliveries_max, dead_letter }
}

proptest! {
    #[test]
    fn no_message_is_lost_or_had_by_two(turns in turns()) {
        let mut world = World::new(TopicSettings::default(), group_of(0));
        turns.iter().for_each(|(who, what)| world.turn(*who, *what));
        prop_assert_eq!(world.drain(), 0);
        prop_assert_eq!(world.acknowledged, world.published);
    }

    #[test]
    fn what_the_topic_drops_is_counted_as_missed(
        turns in turns(),
        kept_ms in prop_oneof![Just(400), Just(1_000_000)],
        messages_max in 1u64..12,
    ) {
        let settings = TopicSettings { kept_ms, messages_max, ..TopicSettings::default() };
        let mut world = World::new(settings, group_of(0));
        turns.iter().for_each(|(who, what)| world.turn(*who, *what));
        let missed = world.drain();
        prop_assert_eq!(world.acknowledged + missed, world.published);
    }

    #[test]
    fn what_is_delivered_too_often_is_a_dead_letter_once(turns in turns()) {
        let mut world = World::new(TopicSettings::default(), group_of(DELIVERIES_MAX));
        turns.iter().for_each(|(who, what)| world.turn(*who, *what));
        prop_assert_eq!(world.drain(), 0);
        prop_assert!(world.out.values().all(|out| out.deliveries <= DELIVERIES_MAX));
        prop_assert_eq!(world.acknowledged + world.dead, world.published);
        let key = keys::head("dead");
        let head = Head::of(&key, world.found(&key)).unwrap().unwrap();
        prop_assert_eq!(head.next, world.dead + 1);
    }
}

/// Else the tests above would say little.
#[test]
fn turns_bring_conflicts_deliveries_again_and_dead_letters() {
    let mut world = World::new(TopicSettings::default(), group_of(1));
    let mut state = 7u64;
    for _ in 0..3000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [who, what, ..] = (state >> 33).to_le_bytes();
        world.turn(who, what);
    }
    world.drain();
    let World { published, acknowledged, dead, conflicts, .. } = world;
    let all = [published, acknowledged, dead, conflicts];
    assert!(all.iter().all(|count| *count > 20), "{all:?}");
}

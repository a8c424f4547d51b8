//! Topics, groups and locks over a store of one map, whose clock is set by hand.
//!
//! The driver here does what real ones do: it reads what is missing, calls again, and writes.

use std::collections::BTreeMap;

use topics::draft::Known;
use topics::group::{self, Start, Taken};
use topics::record::{GroupSettings, TopicSettings};
use topics::topic::{self, Deleted};
use topics::{Draft, Found, Refusal, Stop, Write, keys, lock};

/// Rounds of reads that a function may need: what drivers allow.
const ROUNDS_MAX: usize = 128;

#[derive(Default)]
struct Store {
    now_ms: u64,
    version: u64,
    /// Value, version, end.
    keys: BTreeMap<Vec<u8>, (Vec<u8>, u64, u64)>,
    /// Keys that the last call has read.
    reads: usize,
}

impl Store {
    fn found(&self, key: &[u8]) -> Option<Found> {
        let (value, version, end) = self.keys.get(key)?;
        (*end > self.now_ms).then(|| Found { value: value.clone(), version: *version })
    }

    fn run<T>(&mut self, program: impl Fn(&mut Draft) -> Result<T, Stop>) -> Result<T, Refusal> {
        let mut known = Known::default();
        for _ in 0..ROUNDS_MAX {
            let mut draft = Draft::new(self.now_ms, known);
            match program(&mut draft) {
                Ok(done) => {
                    let (known, writes) = draft.end();
                    self.reads = known.count();
                    self.write(writes);
                    return Ok(done);
                }
                Err(Stop::Refused(refusal)) => return Err(refusal),
                Err(Stop::Missing) => {
                    let missing: Vec<Vec<u8>> = draft.missing().map(<[u8]>::to_vec).collect();
                    let peeks: Vec<Vec<u8>> = draft.missing_peeks().map(<[u8]>::to_vec).collect();
                    let before = draft.end().0;
                    known = before.clone();
                    for key in missing {
                        let found = self.found(&key);
                        known.read(key, found);
                    }
                    for key in peeks {
                        let found = self.found(&key);
                        known.peeked(key, found);
                    }
                    assert!(known.count() > before.count(), "it asks for what it has");
                }
            }
        }
        panic!("it asks without end");
    }

    fn write(&mut self, writes: BTreeMap<Vec<u8>, Write>) {
        self.version += 1;
        for (key, write) in writes {
            match write {
                Write::Drop => drop(self.keys.remove(&key)),
                Write::Put { value, ttl_ms } => {
                    let end = ttl_ms.map_or(u64::MAX, |ttl_ms| self.now_ms + ttl_ms);
                    self.keys.insert(key, (value, self.version, end));
                }
            }
        }
    }

    fn create(&mut self, topic: &str, settings: TopicSettings) {
        self.run(|draft| topic::create(draft, topic, settings)).unwrap();
    }

    fn publish(&mut self, topic: &str, body: &str) -> u64 {
        self.run(|draft| topic::publish(draft, topic, body.as_bytes())).unwrap()
    }

    fn subscribe(&mut self, topic: &str, group: &str, settings: GroupSettings, from: Start) {
        self.run(|draft| group::subscribe(draft, topic, group, settings.clone(), from)).unwrap();
    }

    fn take(&mut self, topic: &str, group: &str, most: usize) -> Taken {
        self.run(|draft| group::take(draft, topic, group, most)).unwrap()
    }

    /// Numbers, deliveries and bodies.
    fn taken(&mut self, topic: &str, group: &str, most: usize) -> Vec<(u64, u64, String)> {
        let taken = self.take(topic, group, most).messages.into_iter();
        taken.map(|m| (m.number, m.deliveries, String::from_utf8(m.body).unwrap())).collect()
    }

    fn ack(&mut self, topic: &str, group: &str, numbers: &[u64]) -> usize {
        self.run(|draft| group::ack(draft, topic, group, numbers)).unwrap()
    }

    /// The number of the first message that the topic says it has, and how many it says.
    fn kept(&mut self, topic: &str) -> (u64, u64) {
        let head = self.run(|draft| topic::show(draft, topic)).unwrap().head;
        (head.first, head.messages())
    }

    fn messages(&self, topic: &str) -> usize {
        let first = topics::keys::message(topic, 0);
        self.keys.range(first..topics::keys::message(topic, u64::MAX)).count()
    }
}

fn one(number: u64, deliveries: u64, body: &str) -> (u64, u64, String) {
    (number, deliveries, body.to_owned())
}

#[test]
fn members_of_a_group_share_a_topic_and_groups_do_not() {
    let mut store = Store::default();
    store.create("t", TopicSettings::default());
    store.subscribe("t", "a", GroupSettings::default(), Start::Earliest);
    assert_eq!(store.publish("t", "one"), 1);
    assert_eq!(store.publish("t", "two"), 2);
    store.subscribe("t", "late", GroupSettings::default(), Start::Latest);
    store.subscribe("t", "b", GroupSettings::default(), Start::Earliest);
    store.subscribe("t", "c", GroupSettings::default(), Start::Number(2));
    assert_eq!(store.publish("t", "three"), 3);

    assert_eq!(store.taken("t", "a", 2), [one(1, 1, "one"), one(2, 1, "two")]);
    assert_eq!(store.taken("t", "a", 2), [one(3, 1, "three")], "another member");
    assert_eq!(store.taken("t", "a", 2), []);
    assert_eq!(store.taken("t", "b", 9).len(), 3);
    assert_eq!(store.taken("t", "c", 9), [one(2, 1, "two"), one(3, 1, "three")]);
    assert_eq!(store.taken("t", "late", 9), [one(3, 1, "three")]);

    // A group that is made again with other settings goes on where it is.
    let settings = GroupSettings { ack_ms: 5, ..GroupSettings::default() };
    store.subscribe("t", "a", settings, Start::Earliest);
    assert_eq!(store.taken("t", "a", 9), []);
    store.run(|draft| group::unsubscribe(draft, "t", "a")).unwrap();
    assert!(store.run(|draft| group::take(draft, "t", "a", 1)).is_err());
    let shown = store.run(|draft| topic::show(draft, "t")).unwrap();
    let names: Vec<_> = shown.groups.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "c", "late"]);
}

#[test]
fn what_is_not_acknowledged_comes_again_and_at_last_goes_to_the_dead_letters() {
    let mut store = Store::default();
    store.create("t", TopicSettings::default());
    store.create("dead", TopicSettings::default());
    let dead_letter = Some("dead".to_owned());
    let settings = GroupSettings { ack_ms: 100, deliveries_max: 2, dead_letter };
    store.subscribe("t", "g", settings, Start::Earliest);
    store.subscribe("dead", "g", GroupSettings::default(), Start::Earliest);
    for body in ["one", "two", "three"] {
        store.publish("t", body);
    }
    assert_eq!(store.taken("t", "g", 9).len(), 3);
    assert_eq!(store.ack("t", "g", &[2, 7]), 1);
    assert_eq!(store.ack("t", "g", &[2]), 0, "twice is no error");
    let back = store.run(|draft| group::give_back(draft, "t", "g", &[3])).unwrap();
    assert_eq!((back, store.taken("t", "g", 9)), (1, vec![one(3, 2, "three")]));
    store.now_ms = 99;
    assert_eq!(store.taken("t", "g", 9), []);
    store.now_ms = 100;
    // The third has its two deliveries; the first comes again.
    let taken = store.take("t", "g", 9);
    assert_eq!((taken.dead, taken.messages.len(), taken.messages[0].number), (1, 1, 1));
    store.now_ms = 300;
    assert_eq!(store.take("t", "g", 9).dead, 1);
    store.now_ms = 1000;
    assert_eq!(store.take("t", "g", 9), Taken::default());

    let dead = store.take("dead", "g", 9).messages;
    let bodies: Vec<_> = dead.iter().map(|message| &message.body[..]).collect();
    assert_eq!(bodies, [b"three".as_slice(), b"one"]);
    let origin = dead[0].origin.as_ref().unwrap();
    assert_eq!((&*origin.topic, &*origin.group), ("t", "g"));
    assert_eq!((origin.number, origin.deliveries), (3, 2));
}

#[test]
fn without_its_dead_letter_topic_a_group_keeps_its_messages() {
    let mut store = Store::default();
    store.create("t", TopicSettings::default());
    store.create("dead", TopicSettings::default());
    let dead_letter = Some("dead".to_owned());
    let settings = GroupSettings { ack_ms: 10, deliveries_max: 1, dead_letter };
    store.subscribe("t", "g", settings, Start::Earliest);
    store.publish("t", "one");
    while store.run(|draft| topic::delete(draft, "dead")) == Ok(Deleted::Part) {}
    for round in 1..4 {
        assert_eq!(store.taken("t", "g", 9), [one(1, round, "one")]);
        store.now_ms += 10;
    }
}

#[test]
fn topics_keep_so_many_messages_and_bytes_for_so_long() {
    let mut store = Store::default();
    let settings = TopicSettings { messages_max: 10, ..TopicSettings::default() };
    store.create("many", settings);
    store.subscribe("many", "slow", GroupSettings::default(), Start::Earliest);
    for _ in 0..100 {
        store.publish("many", "x");
    }
    assert_eq!((store.kept("many"), store.messages("many")), ((91, 10), 10));
    let taken = store.take("many", "slow", 9);
    assert_eq!((taken.missed, taken.messages[0].number), (90, 91));

    store.create("long", TopicSettings { bytes_max: 1000, ..TopicSettings::default() });
    for _ in 0..100 {
        store.publish("long", &"x".repeat(99));
    }
    assert_eq!((store.kept("long"), store.messages("long")), ((91, 10), 10));
    assert!(store.reads < 20, "{}", store.reads);
    store.publish("long", &"x".repeat(5000));
    assert_eq!(store.kept("long"), (101, 1), "the newest one stays");
    store.publish("long", "x");
    assert_eq!(store.kept("long"), (102, 1));

    store.create("short", TopicSettings { kept_ms: 1000, ..TopicSettings::default() });
    store.subscribe("short", "slow", GroupSettings::default(), Start::Earliest);
    for _ in 0..300 {
        store.now_ms += 10;
        store.publish("short", "x");
    }
    let (first, count) = store.kept("short");
    assert!((100..=165).contains(&count), "{first} {count}");
    let taken = store.take("short", "slow", 256);
    assert_eq!((taken.missed, taken.messages.len()), (200, 100));
    store.now_ms += 10_000;
    store.run(|draft| group::give_back(draft, "short", "slow", &[250])).unwrap();
    let taken = store.take("short", "slow", 256);
    assert_eq!((taken.missed, taken.messages.len()), (1, 0), "it has expired meanwhile");
}

#[test]
fn many_messages_are_published_at_once() {
    let mut store = Store::default();
    let settings = TopicSettings { messages_max: 20, ..TopicSettings::default() };
    store.create("t", settings);
    let bodies: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let first = store.run(|draft| topic::publish_all(draft, "t", &bodies)).unwrap();
    assert_eq!((first, store.kept("t"), store.messages("t")), (Some(1), (81, 20), 20));
    let none = store.run(|draft| topic::publish_all::<&str>(draft, "t", &[])).unwrap();
    assert_eq!(none, None);
}

#[test]
fn a_group_has_so_many_messages_under_way() {
    let mut store = Store::default();
    store.create("t", TopicSettings::default());
    store.subscribe("t", "g", GroupSettings::default(), Start::Earliest);
    for _ in 0..group::PENDING_MAX + 5 {
        store.publish("t", "x");
    }
    let mut count = 0;
    while let taken @ 1.. = store.take("t", "g", 256).messages.len() {
        count += taken;
    }
    assert_eq!(count, group::PENDING_MAX);
    assert_eq!(store.ack("t", "g", &[1, 2]), 2);
    assert_eq!(store.taken("t", "g", 256).len(), 2);
}

#[test]
fn a_topic_is_deleted_step_by_step() {
    let mut store = Store::default();
    store.create("t", TopicSettings::default());
    store.subscribe("t", "g", GroupSettings::default(), Start::Earliest);
    for _ in 0..topic::DELETED_MAX * 2 + 7 {
        store.publish("t", "x");
    }
    assert_eq!(store.run(|draft| topic::delete(draft, "t")), Ok(Deleted::Part));
    let gone = store.run(|draft| topic::publish(draft, "t", b"x"));
    assert_eq!(gone, Err(Refusal::NoTopic { topic: "t".into() }));
    let again = store.run(|draft| topic::create(draft, "t", TopicSettings::default()));
    assert_eq!(again, Err(Refusal::Leaving { topic: "t".into() }));
    let mut steps = 1;
    while store.run(|draft| topic::delete(draft, "t")) == Ok(Deleted::Part) {
        steps += 1;
    }
    assert_eq!(steps, 2);
    let left: Vec<_> = store.keys.keys().map(|key| key.escape_ascii().to_string()).collect();
    assert_eq!(left, ["carillon:topics"]);
    assert!(store.run(|draft| topic::delete(draft, "t")).is_err());
    store.create("t", TopicSettings::default());
    assert_eq!(store.publish("t", "x"), 1);
}

#[test]
fn a_topic_whose_keys_were_written_over_is_deleted_and_made_anew() {
    let mut store = Store::default();
    store.create("t", TopicSettings::default());
    store.create("u", TopicSettings::default());
    store.subscribe("t", "g", GroupSettings::default(), Start::Earliest);
    store.publish("t", "x");
    let foreign = || (b"foreign".to_vec(), 9, u64::MAX);
    store.keys.insert(keys::head("t"), foreign());
    store.keys.insert(keys::groups("t"), foreign());
    let refused = store.run(|draft| topic::publish(draft, "t", b"x")).unwrap_err();
    assert!(refused.to_string().contains("can be deleted"), "{refused}");
    while store.run(|draft| topic::delete(draft, "t")) == Ok(Deleted::Part) {}
    store.create("t", TopicSettings::default());
    assert_eq!(store.publish("t", "x"), 1);
    assert_eq!(store.run(topic::list), Ok(vec!["t".to_owned(), "u".into()]));
    // A list that is lost is made again, topic by topic.
    store.keys.remove(&keys::topics());
    store.create("u", TopicSettings::default());
    assert_eq!(store.run(topic::list), Ok(vec!["u".to_owned()]));
}

#[test]
fn bad_input_is_refused() {
    let mut store = Store::default();
    store.create("t", TopicSettings::default());
    store.create("t", TopicSettings::default());
    let other = TopicSettings { messages_max: 5, ..TopicSettings::default() };
    let exists = Refusal::TopicExists { topic: "t".into() };
    assert_eq!(store.run(|draft| topic::create(draft, "t", other)), Err(exists));
    let is_bad = |refusal: Refusal| matches!(refusal, Refusal::Bad { .. });
    for settings in [
        TopicSettings { kept_ms: 0, ..TopicSettings::default() },
        TopicSettings { messages_max: topic::MESSAGES_MAX + 1, ..TopicSettings::default() },
        TopicSettings { bytes_max: 0, ..TopicSettings::default() },
    ] {
        assert!(is_bad(store.run(|draft| topic::create(draft, "u", settings)).unwrap_err()));
    }
    let long = vec![0; topic::MESSAGE_BYTES_MAX + 1];
    let refused = store.run(|draft| topic::publish(draft, "t", &long)).unwrap_err();
    assert!(matches!(refused, Refusal::MessageTooLong { .. }));
    for settings in [
        GroupSettings { ack_ms: 0, ..GroupSettings::default() },
        GroupSettings { deliveries_max: 3, ..GroupSettings::default() },
        GroupSettings { dead_letter: Some("t".into()), ..GroupSettings::default() },
        GroupSettings { deliveries_max: 3, dead_letter: Some("t".into()), ack_ms: 5 },
    ] {
        let refused =
            store.run(|draft| group::subscribe(draft, "t", "g", settings.clone(), Start::Latest));
        assert!(is_bad(refused.unwrap_err()), "{settings:?}");
    }
    let settings = GroupSettings { deliveries_max: 3, dead_letter: Some("no".into()), ack_ms: 5 };
    let refused =
        store.run(|draft| group::subscribe(draft, "t", "g", settings.clone(), Start::Latest));
    assert_eq!(refused, Err(Refusal::NoTopic { topic: "no".into() }));
    for number in 0..group::GROUPS_MAX {
        store.subscribe("t", &format!("g{number}"), GroupSettings::default(), Start::Latest);
    }
    let refused = store
        .run(|draft| group::subscribe(draft, "t", "more", GroupSettings::default(), Start::Latest));
    assert!(matches!(refused, Err(Refusal::TooMany { .. })));
    assert!(store.run(|draft| group::take(draft, "t", "g0", 0)).is_err());
    // What others write into keys of topics is an error, and no panic.
    store.keys.insert(topics::keys::head("t"), (b"nonsense".to_vec(), 1, u64::MAX));
    let refused = store.run(|draft| topic::publish(draft, "t", b"x")).unwrap_err();
    assert!(matches!(refused, Refusal::Foreign { .. }));
}

#[test]
fn tokens_of_locks_grow_and_old_holders_are_refused() {
    let mut store = Store { version: 100, ..Store::default() };
    let acquire = |store: &mut Store, owner: &str| {
        store.run(|draft| lock::acquire(draft, "l", owner, 1000))?;
        Ok(store.run(|draft| lock::show(draft, "l"))?.unwrap())
    };
    let ann = acquire(&mut store, "ann").unwrap();
    assert_eq!((ann.until_ms, &*ann.owner), (1000, "ann"));
    let held: Refusal = acquire(&mut store, "bob").unwrap_err();
    assert_eq!(held, Refusal::Held { name: "l".into(), held: ann.clone() });
    // Who has it and asks again, or renews, keeps the token.
    store.now_ms = 500;
    assert_eq!(acquire(&mut store, "ann").unwrap().token, ann.token);
    store.run(|draft| lock::renew(draft, "l", ann.token, 2000)).unwrap();
    let renewed = store.run(|draft| lock::show(draft, "l")).unwrap().unwrap();
    assert_eq!((renewed.token, renewed.until_ms), (ann.token, 2500));
    store.now_ms = 2499;
    assert!(acquire(&mut store, "bob").is_err());
    store.now_ms = 2500;
    let bob = acquire(&mut store, "bob").unwrap();
    assert!(bob.token > ann.token);
    let lost = Refusal::NotHeld { name: "l".into(), token: ann.token };
    assert_eq!(store.run(|draft| lock::renew(draft, "l", ann.token, 1000)), Err(lost.clone()));
    assert_eq!(store.run(|draft| lock::release(draft, "l", ann.token)), Err(lost));
    store.run(|draft| lock::release(draft, "l", bob.token)).unwrap();
    assert_eq!(store.run(|draft| lock::show(draft, "l")), Ok(None));
    assert!(acquire(&mut store, "ann").unwrap().token > bob.token);
    for ttl_ms in [0, lock::TTL_MS_MIN - 1, lock::TTL_MS_MAX + 1] {
        assert!(store.run(|draft| lock::acquire(draft, "m", "ann", ttl_ms)).is_err());
    }
}

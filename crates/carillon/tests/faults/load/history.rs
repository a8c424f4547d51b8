//! Histories of clients, and a check whether a store that loses nothing could have answered so.
//!
//! There are two kinds of keys, because each tests something else:
//!
//! - **Registers** are set to values that occur once, and read. The simulator's search
//!   ([`sim::check::linear`]) looks for an order of the commands of a key that explains all
//!   answers. A SET whose outcome is unknown has taken effect before the first answer that shows
//!   its value; if nobody ever saw that, leaving it out changes nothing.
//! - **Counters** are raised by one, and read. Every answer names its place in the order. So no
//!   place may be taken twice (a retry that was done twice, or a lost increment). A request that
//!   began after another's answer must not come before it. Increments with unknown outcomes must
//!   be able to fill the places that no answer names.
//!
//! A command that was refused ("not done") must have left nothing.
//!
//! It does not know the log, the nodes or the leaders: it sees what clients see.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use command::{Expiry, Reply, SetIf, SetReply};
use sim::check::linear::{Linearizability, ObservedCommand, first_bad_prefix, is_linear};
use sim::command::{Command, Value};

/// A key, by its kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Set and read.
    Register(usize),
    /// Raised and read.
    Counter(usize),
}

impl Key {
    /// Whether it is raised by what was read of it, and not by INCR.
    pub fn is_raised_by_transactions(self) -> bool {
        matches!(self, Key::Counter(number) if number % 2 == 1)
    }

    /// As the nodes know it.
    pub fn name(self) -> String {
        match self {
            Key::Register(number) => format!("register-{number}"),
            Key::Counter(number) => format!("counter-{number}"),
        }
    }
}

/// What was asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// GET.
    Read,
    /// SET of a value that occurs once.
    Set(u64),
    /// INCR.
    Increment,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A SET was answered.
    Done,
    /// The value that was read, or made by INCR; none is no value.
    Value(Option<u64>),
    /// The node refused it.
    NotDone(String),
    /// Nobody knows.
    Unknown(String),
}

/// One command.
#[derive(Clone, Debug)]
pub struct Record {
    /// Who asked.
    pub client: u16,
    /// Which node, counted from 1.
    pub node: usize,
    /// Since the beginning of the load.
    pub call: Duration,
    /// When its end was known.
    pub back: Duration,
    /// Of which key.
    pub key: Key,
    /// What.
    pub asked: RequestKind,
    /// How it ended.
    pub outcome: Outcome,
}

impl Record {
    fn is_answered(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Value(_))
    }

    /// Whether waiting for it says something of the nodes that are not gone.
    fn proves_without(&self, (gone, back): (usize, Duration)) -> bool {
        self.node != gone || self.call >= back
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client, node, call, back, asked, outcome, .. } = self;
        write!(
            f,
            "client {client} at node {node}, {call:.4?} to {back:.4?}: {asked:?}, {outcome:?}"
        )
    }
}

/// What was done to a cluster, and until when its effects are looked for.
#[derive(Clone, Debug)]
pub struct Event {
    /// For people.
    pub what: String,
    /// When it was done, since the beginning of the load.
    pub from: Duration,
    /// Until then.
    pub until: Duration,
    /// A node that cannot be reached meanwhile, counted from 1, and when it can be again.
    pub gone: Option<(usize, Duration)>,
}

/// Everything that was asked, in the order of calls.
#[derive(Debug, Default)]
pub struct History(Vec<Record>);

impl History {
    /// Of these commands, in any order.
    pub fn new(mut records: Vec<Record>) -> Self {
        records.sort_by_key(|record| record.call);
        Self(records)
    }

    /// How many were answered, refused, and left unknown.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |which: fn(&Outcome) -> bool| {
            self.0.iter().filter(|record| which(&record.outcome)).count()
        };
        (
            self.0.iter().filter(|record| record.is_answered()).count(),
            count(|outcome| matches!(outcome, Outcome::NotDone(_))),
            count(|outcome| matches!(outcome, Outcome::Unknown(_))),
        )
    }

    /// Errors and how often each came, the most frequent first.
    pub fn errors(&self) -> Vec<(usize, String)> {
        let mut all: BTreeMap<String, usize> = BTreeMap::new();
        for record in &self.0 {
            match &record.outcome {
                Outcome::NotDone(why) => *all.entry(format!("not done: {why}")).or_default() += 1,
                Outcome::Unknown(why) => *all.entry(format!("unknown: {why}")).or_default() += 1,
                Outcome::Done | Outcome::Value(_) => {}
            }
        }
        let mut all: Vec<_> = all.into_iter().map(|(why, count)| (count, why)).collect();
        all.sort_by(|one, other| other.cmp(one));
        all
    }

    /// What took longest, in the order of calls.
    pub fn slowest(&self, count: usize) -> Vec<&Record> {
        let mut all: Vec<&Record> = self.0.iter().collect();
        all.sort_by_key(|record| std::cmp::Reverse(record.back - record.call));
        all.truncate(count);
        all.sort_by_key(|record| record.call);
        all
    }

    /// The longest time within `event` in which some key was not read, or not written, by anybody,
    /// though somebody tried.
    ///
    /// Clients take turns with the keys, and those of a node that is gone wait there, so that a key
    /// can rest for most of a second without anybody asking for it. With `event.gone` a silence
    /// begins no sooner than a node that is not gone was asked.
    pub fn longest_silence(&self, event: &Event) -> Duration {
        let (from, until) = (event.from, event.until);
        let mut of_keys: BTreeMap<(Key, bool), Vec<&Record>> = BTreeMap::new();
        for record in &self.0 {
            of_keys
                .entry((record.key, record.asked == RequestKind::Read))
                .or_default()
                .push(record);
        }
        let longest = of_keys.into_values().map(|records| {
            let answered = records.iter().filter(|record| record.is_answered());
            let mut ends: Vec<Duration> = answered.map(|record| record.back).collect();
            ends.retain(|end| (from..until).contains(end));
            ends.push(until);
            ends.sort_unstable();
            let begins = [from].into_iter().chain(ends.iter().copied());
            let gaps = begins.zip(&ends).map(|(begin, end)| match event.gone {
                None => *end - begin,
                Some(gone) => {
                    let asked = records.iter().filter(|record| record.proves_without(gone));
                    let waits = asked.filter(|record| record.back > begin && record.call < *end);
                    let first = waits.map(|record| record.call.max(begin)).min();
                    first.map_or(Duration::ZERO, |first| *end - first)
                }
            });
            gaps.max().unwrap_or_default()
        });
        longest.max().unwrap_or(until - from)
    }

    /// Whether all answers can be true.
    ///
    /// # Errors
    /// The first key for which they cannot, and why.
    pub fn check(&self) -> Result<(), String> {
        let mut keys: BTreeMap<Key, Vec<&Record>> = BTreeMap::new();
        for record in &self.0 {
            keys.entry(record.key).or_default().push(record);
        }
        for (key, records) in keys {
            let checked = match key {
                Key::Register(_) => check_register(&records),
                Key::Counter(_) => check_counter(&records),
            };
            checked.map_err(|why| format!("{}: {why}", key.name()))?;
        }
        Ok(())
    }
}

fn check_register(records: &[&Record]) -> Result<(), String> {
    // When each value was first known to be there.
    let mut seen: BTreeMap<u64, Duration> = BTreeMap::new();
    for record in records {
        if let (RequestKind::Read, Outcome::Value(Some(value))) = (record.asked, &record.outcome) {
            let first = seen.entry(*value).or_insert(record.back);
            *first = record.back.min(*first);
        }
    }
    let mut history = Vec::new();
    for record in records {
        let (command, reply) = match (record.asked, &record.outcome) {
            (RequestKind::Read, Outcome::Value(value)) => {
                let bulk = |value: &u64| Reply::Bulk(value.to_string().into_bytes().into());
                (Command::Get, value.as_ref().map_or(Reply::Nil, bulk))
            }
            (RequestKind::Read, _) => continue,
            (RequestKind::Set(value), Outcome::NotDone(why)) if seen.contains_key(&value) => {
                return Err(format!("{value} was read, but setting it was refused: {why}"));
            }
            (RequestKind::Set(_), Outcome::NotDone(_)) => continue,
            (RequestKind::Set(value), Outcome::Unknown(_)) if !seen.contains_key(&value) => {
                continue;
            }
            (RequestKind::Set(value), _) => (set(value), Reply::Ok),
            (RequestKind::Increment, _) => return Err("a register is not raised".into()),
        };
        let back = match (record.asked, &record.outcome) {
            (RequestKind::Set(value), Outcome::Unknown(_)) => seen[&value],
            _ => record.back,
        };
        history.push(ObservedCommand {
            command,
            places: vec![0],
            client: record.client as u8,
            call: record.call.as_nanos() as u64,
            back: back.as_nanos() as u64,
            // Nothing here ends by itself, so no clock matters.
            low_ms: 0,
            high_ms: 0,
            replies: Some(vec![reply]),
        });
    }
    match is_linear(&[None], &history) {
        Linearizability::Yes => Ok(()),
        Linearizability::TooLong => {
            Err("too much was asked at once to be checked: ask less".into())
        }
        Linearizability::No => {
            let bad = first_bad_prefix(&[None], &history);
            let lines = history[bad.saturating_sub(12)..bad].iter().map(|seen| format!("\n{seen}"));
            Err(format!("no order explains the answers:{}", lines.collect::<String>()))
        }
    }
}

fn set(value: u64) -> Command {
    Command::Set {
        value: Value(value.to_string().into_bytes()),
        when: SetIf::Always,
        expiry: Expiry::Never,
        reply: SetReply::Ok,
    }
}

fn check_counter(records: &[&Record]) -> Result<(), String> {
    // A place in the order for each answer: INCR to 3 is 6, a GET that shows 3 is 7.
    let place = |record: &Record| match (record.asked, &record.outcome) {
        (RequestKind::Increment, Outcome::Value(Some(value))) => Some(2 * value),
        (RequestKind::Read, Outcome::Value(value)) => Some(2 * value.unwrap_or(0) + 1),
        _ => None,
    };
    let mut answered: Vec<(u64, &Record)> =
        records.iter().filter_map(|record| Some((place(record)?, *record))).collect();

    let mut made = BTreeSet::new();
    for (place, record) in answered.iter().filter(|(place, _)| place % 2 == 0) {
        if *place == 0 || !made.insert(place / 2) {
            return Err(format!("two increments were answered {}: {record}", place / 2));
        }
    }

    // In the order of calls, nobody may stand before one who was answered before that call.
    let mut backs = answered.clone();
    backs.sort_by_key(|(_, record)| record.back);
    let (mut backs, mut furthest) = (backs.into_iter().peekable(), None::<(u64, &Record)>);
    for (place, record) in &answered {
        while let Some(earlier) = backs.next_if(|(_, earlier)| earlier.back < record.call) {
            if furthest.is_none_or(|(place, _)| earlier.0 > place) {
                furthest = Some(earlier);
            }
        }
        if let Some((_, earlier)) = furthest.filter(|(furthest, _)| furthest > place) {
            return Err(format!("went back: {earlier}; and later {record}"));
        }
    }

    // Places that no answer names belong to increments whose outcome is unknown, each of which
    // was called before anybody saw it done.
    let of_unknown = records.iter().filter(|record| {
        record.asked == RequestKind::Increment && matches!(record.outcome, Outcome::Unknown(_))
    });
    let unknown: Vec<Duration> = of_unknown.map(|record| record.call).collect();
    answered.sort_by_key(|(place, _)| *place);
    let top = answered.last().map_or(0, |(place, _)| place / 2);
    // Seen from the end: when was this value, or a higher one, first answered?
    let mut first_back = Duration::MAX;
    let mut deadlines = Vec::new();
    let mut from_the_end = answered.iter().rev().peekable();
    for value in (1..=top).rev() {
        while let Some((_, record)) = from_the_end.next_if(|(place, _)| *place >= 2 * value) {
            first_back = first_back.min(record.back);
        }
        if !made.contains(&value) {
            deadlines.push((first_back, value));
        }
    }
    deadlines.sort_unstable();
    for (needed, (deadline, value)) in (1..).zip(deadlines) {
        let called = unknown.iter().filter(|call| **call < deadline).count();
        if called < needed {
            return Err(format!(
                "nobody has raised it to {value}: {called} increments are unknown by {deadline:?}, \
                 and {needed} would have to be done"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(call: u64, back: u64, key: Key, asked: RequestKind, outcome: Outcome) -> Record {
        let (call, back) = (Duration::from_millis(call), Duration::from_millis(back));
        Record { client: 0, node: 1, call, back, key, asked, outcome }
    }

    fn unknown() -> Outcome {
        Outcome::Unknown("the connection broke".into())
    }

    fn check(records: &[Record]) -> Result<(), String> {
        History::new(records.to_vec()).check()
    }

    #[test]
    fn register_must_show_last_set_value() {
        let of = |call, back, asked, outcome| record(call, back, Key::Register(0), asked, outcome);
        let value = |value| Outcome::Value(Some(value));
        let set = of(0, 10, RequestKind::Set(1), Outcome::Done);
        assert_eq!(check(&[set.clone(), of(20, 30, RequestKind::Read, value(1))]), Ok(()));
        let lost = check(&[set.clone(), of(20, 30, RequestKind::Read, Outcome::Value(None))]);
        assert!(lost.unwrap_err().contains("no order explains"));

        let maybe = of(20, 30, RequestKind::Set(2), unknown());
        let read = |call, seen| of(call, call + 5, RequestKind::Read, value(seen));
        assert_eq!(check(&[set.clone(), maybe.clone(), read(40, 1), read(50, 2)]), Ok(()));
        assert_eq!(check(&[set.clone(), maybe.clone(), read(40, 1)]), Ok(()));
        assert!(check(&[set.clone(), maybe, read(40, 2), read(50, 1)]).is_err(), "went back");

        let refused = of(20, 30, RequestKind::Set(2), Outcome::NotDone("OOM".into()));
        assert_eq!(check(&[set.clone(), refused.clone(), read(40, 1)]), Ok(()));
        assert!(check(&[set, refused, read(40, 2)]).unwrap_err().contains("refused"));
    }

    #[test]
    fn counter_must_return_each_value_once() {
        let of = |call, back, asked, outcome| record(call, back, Key::Counter(0), asked, outcome);
        let up = |call, to| of(call, call + 5, RequestKind::Increment, Outcome::Value(Some(to)));
        let read = |call, seen| of(call, call + 5, RequestKind::Read, Outcome::Value(Some(seen)));
        let maybe = |call| of(call, call + 5, RequestKind::Increment, unknown());
        let none = of(0, 1, RequestKind::Read, Outcome::Value(None));
        assert_eq!(check(&[none.clone(), up(2, 1), up(10, 2), read(20, 2)]), Ok(()));
        assert!(check(&[up(0, 1), up(10, 1)]).unwrap_err().contains("two increments"));
        assert!(check(&[up(0, 1), none.clone(), read(10, 0)]).unwrap_err().contains("went back"));
        assert!(check(&[up(0, 1), up(10, 3)]).unwrap_err().contains("nobody has raised"));
        assert_eq!(check(&[up(0, 1), maybe(5), up(10, 3)]), Ok(()), "it was done");
        assert_eq!(check(&[up(0, 1), maybe(5), up(10, 2)]), Ok(()), "it was not");
        assert!(check(&[up(0, 2), maybe(10)]).is_err(), "it was called too late");
        assert!(check(&[maybe(0), up(10, 3)]).is_err(), "one cannot be two");
        // A retry that was done twice: the answered one took both places.
        assert!(check(&[up(0, 1), up(10, 2), read(20, 3)]).is_err());
        // Both overlap: either may be first.
        let long = of(0, 50, RequestKind::Increment, Outcome::Value(Some(2)));
        assert_eq!(check(&[long, up(10, 1)]), Ok(()));
    }

    #[test]
    fn unavailability_is_measured_per_key_and_kind() {
        let of = |back, number, asked, outcome| {
            record(back - 1, back, Key::Register(number), asked, outcome)
        };
        let nil = || Outcome::Value(None);
        let history = History::new(vec![
            of(100, 0, RequestKind::Read, nil()),
            of(150, 0, RequestKind::Set(1), Outcome::Done),
            of(200, 0, RequestKind::Read, nil()),
            of(400, 0, RequestKind::Read, nil()),
            of(450, 0, RequestKind::Set(2), Outcome::NotDone("no leader".into())),
            of(500, 0, RequestKind::Set(3), Outcome::Done),
        ]);
        let event = |from, until, gone| Event {
            what: String::new(),
            from: Duration::from_millis(from),
            until: Duration::from_millis(until),
            gone,
        };
        let silence = |from, until| history.longest_silence(&event(from, until, None));
        assert_eq!(silence(100, 600), Duration::from_millis(350), "of writes");
        assert_eq!(silence(100, 900), Duration::from_millis(500), "of reads, at the end");
        assert_eq!(silence(160, 190), Duration::from_millis(30));
        assert_eq!(history.counts(), (5, 1, 0));
        // Nobody asked another node to write before 449, and nobody asked at all after 500.
        let gone = |node| Some((node, Duration::from_millis(700)));
        let silence = |from, until, node| history.longest_silence(&event(from, until, gone(node)));
        assert_eq!(silence(160, 600, 2), Duration::from_millis(51), "of writes");
        assert_eq!(silence(160, 600, 1), Duration::ZERO, "only the one that is gone was asked");
        assert_eq!(silence(445, 449, 2), Duration::ZERO);
    }
}

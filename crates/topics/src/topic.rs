//! Topics: create, list, show, publish, delete.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | topics of a keyspace | [`TOPICS_MAX`] | refused |
//! | a message | [`MESSAGE_BYTES_MAX`] | refused |
//! | messages of a topic | its settings, at most [`MESSAGES_MAX`] | the oldest go |
//! | bytes of a topic | its settings, at most [`BYTES_MAX`] | the oldest go |
//! | time that a message is kept | its topic's settings, at most [`KEPT_MS_MAX`] | it expires |
//! | old messages that one publishing drops | [`TRIMMED_MAX`], and two for each message | the next one goes on |
//! | messages that one step of a deletion drops | [`DELETED_MAX`] | the next step goes on |

use crate::Refusal;
use crate::draft::{Draft, Stop};
use crate::keys;
use crate::record::{Group, Head, Message, Names, Origin, Record, TopicSettings};

/// Topics of one keyspace.
pub const TOPICS_MAX: usize = 1024;
/// Bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Messages of one topic, if its settings say so.
pub const MESSAGES_MAX: u64 = 10_000_000;
/// … and unless they say otherwise.
pub const MESSAGES_DEFAULT: u64 = 100_000;
/// Bytes of one topic's messages, if its settings say so.
pub const BYTES_MAX: u64 = 64 << 30;
/// … and unless they say otherwise.
pub const BYTES_DEFAULT: u64 = 256 << 20;
/// How long a message is kept, if the settings say so: a year.
pub const KEPT_MS_MAX: u64 = 366 * 86_400_000;
/// … and unless they say otherwise: a week.
pub const KEPT_MS_DEFAULT: u64 = 7 * 86_400_000;
/// Old messages that one publishing drops beside two for each that it adds.
pub const TRIMMED_MAX: u64 = 32;
/// Messages that one step of a deletion drops.
pub const DELETED_MAX: u64 = 512;
/// How often expired messages are looked for: once in so many that are published.
const EXPIRED_EVERY: u64 = 64;

impl Default for TopicSettings {
    fn default() -> Self {
        Self { kept_ms: KEPT_MS_DEFAULT, messages_max: MESSAGES_DEFAULT, bytes_max: BYTES_DEFAULT }
    }
}

/// A topic and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The topic.
    pub head: Head,
    /// Its groups, by name.
    pub groups: Vec<(String, Group)>,
}

/// How far a deletion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// All of it is gone.
    All,
    /// There is more: go on.
    Part,
}

/// The topic, if there is one.
pub(crate) fn head(draft: &mut Draft, topic: &str) -> Result<Option<Head>, Stop> {
    let key = keys::head(topic);
    let found = draft.get(&key)?;
    Ok(Head::of(&key, found)?)
}

/// The topic as it was a moment ago.
pub(crate) fn peeked(draft: &mut Draft, topic: &str) -> Result<Head, Stop> {
    let key = keys::head(topic);
    let found = draft.peek(&key)?;
    let head = Head::of(&key, found)?.filter(|head| !head.is_leaving);
    Ok(head.ok_or_else(|| Refusal::NoTopic { topic: topic.to_owned() })?)
}

/// The topic, which must be there.
pub(crate) fn live(draft: &mut Draft, topic: &str) -> Result<Head, Stop> {
    let head = head(draft, topic)?.filter(|head| !head.is_leaving);
    Ok(head.ok_or_else(|| Refusal::NoTopic { topic: topic.to_owned() })?)
}

/// A message, if it is still there. None ever changes.
pub(crate) fn message(
    draft: &mut Draft,
    topic: &str,
    number: u64,
) -> Result<Option<(Message, u64)>, Stop> {
    let key = keys::message(topic, number);
    let found = draft.peek(&key)?;
    let version = found.as_ref().map_or(0, |found| found.version);
    Ok(Message::of(&key, found)?.map(|message| (message, version)))
}

pub(crate) fn names(draft: &mut Draft, key: &[u8]) -> Result<Names, Stop> {
    let found = draft.get(key)?;
    Ok(Names::of(key, found)?.unwrap_or_default())
}

/// A list; an empty one, if somebody else has written over it.
fn ours(found: Result<Names, Stop>) -> Result<Names, Stop> {
    match found {
        Err(Stop::Refused(Refusal::Foreign { .. })) => Ok(Names::default()),
        found => found,
    }
}

fn check(settings: &TopicSettings) -> Result<(), Refusal> {
    let rows = [
        ("kept_ms", settings.kept_ms, KEPT_MS_MAX),
        ("messages_max", settings.messages_max, MESSAGES_MAX),
        ("bytes_max", settings.bytes_max, BYTES_MAX),
    ];
    match rows.into_iter().find(|(_, value, max)| !(1..=*max).contains(value)) {
        None => Ok(()),
        Some((name, value, max)) => {
            Err(Refusal::Bad { why: format!("{name} is {value}: it has to be from 1 to {max}") })
        }
    }
}

/// Makes a topic. One that is there with the same settings is left as it is.
///
/// # Errors
/// [`Stop`].
pub fn create(draft: &mut Draft, topic: &str, settings: TopicSettings) -> Result<Head, Stop> {
    keys::check_name("topic", topic)?;
    check(&settings)?;
    draft.want([keys::topics(), keys::head(topic)])?;
    match head(draft, topic)? {
        Some(Head { is_leaving: true, .. }) => {
            return Err(Refusal::Leaving { topic: topic.to_owned() }.into());
        }
        Some(head) if head.settings == settings => {
            // Somebody may have written over the list.
            let mut all = names(draft, &keys::topics())?;
            if !all.0.iter().any(|name| name == topic) {
                all.add(topic);
                draft.put(keys::topics(), all.encode(), None);
            }
            return Ok(head);
        }
        Some(_) => return Err(Refusal::TopicExists { topic: topic.to_owned() }.into()),
        None => {}
    }
    let mut all = names(draft, &keys::topics())?;
    all.add(topic);
    if all.0.len() > TOPICS_MAX {
        let why = format!("a keyspace has at most {TOPICS_MAX} topics, and this one has them");
        return Err(Refusal::TooMany { why }.into());
    }
    let head = Head::new(settings);
    draft.put(keys::topics(), all.encode(), None);
    draft.put(keys::head(topic), head.encode(), None);
    Ok(head)
}

/// The names of all topics.
///
/// # Errors
/// [`Stop`].
pub fn list(draft: &mut Draft) -> Result<Vec<String>, Stop> {
    Ok(names(draft, &keys::topics())?.0)
}

/// A topic with its groups.
///
/// # Errors
/// [`Stop`].
pub fn show(draft: &mut Draft, topic: &str) -> Result<Shown, Stop> {
    keys::check_name("topic", topic)?;
    let list = keys::groups(topic);
    draft.want_peeks([keys::head(topic), list.clone()])?;
    let head = peeked(draft, topic)?;
    let found = draft.peek(&list)?;
    let names = Names::of(&list, found)?.unwrap_or_default().0;
    draft.want_peeks(names.iter().map(|name| keys::group(topic, name)))?;
    let mut groups = Vec::new();
    for name in names {
        let key = keys::group(topic, &name);
        let found = draft.peek(&key)?;
        if let Some(group) = Group::of(&key, found)? {
            groups.push((name, group));
        }
    }
    Ok(Shown { head, groups })
}

/// Publishes a message. Its number.
///
/// # Errors
/// [`Stop`].
pub fn publish(draft: &mut Draft, topic: &str, body: &[u8]) -> Result<u64, Stop> {
    publish_all(draft, topic, &[body]).map(|first| first.unwrap_or_default())
}

/// Publishes messages, which get numbers one behind the other. The first number, if there are any.
///
/// # Errors
/// [`Stop`].
pub fn publish_all<B: AsRef<[u8]>>(
    draft: &mut Draft,
    topic: &str,
    bodies: &[B],
) -> Result<Option<u64>, Stop> {
    let bodies = bodies.iter().map(|body| (body.as_ref(), None));
    append(draft, topic, bodies.collect())
}

/// Publishes messages that may have been elsewhere before.
pub(crate) fn append(
    draft: &mut Draft,
    topic: &str,
    bodies: Vec<(&[u8], Option<Origin>)>,
) -> Result<Option<u64>, Stop> {
    keys::check_name("topic", topic)?;
    if let Some((long, _)) = bodies.iter().find(|(body, _)| body.len() > MESSAGE_BYTES_MAX) {
        let (bytes, bytes_max) = (long.len(), MESSAGE_BYTES_MAX);
        return Err(Refusal::MessageTooLong { bytes, bytes_max }.into());
    }
    let mut head = live(draft, topic)?;
    let (before, count) = (head.next, bodies.len() as u64);
    for (body, origin) in bodies {
        let record = Message { offset: head.total, origin, body: body.to_vec() };
        let kept = Some(head.settings.kept_ms);
        draft.put(keys::message(topic, head.next), record.encode(), kept);
        head.total += body.len() as u64;
        head.next += 1;
    }
    if before / EXPIRED_EVERY != head.next / EXPIRED_EVERY {
        let first = first_live(draft, topic, head.first, before)?;
        advance(draft, topic, &mut head, first, false)?;
    }
    trim(draft, topic, &mut head, TRIMMED_MAX + 2 * count)?;
    draft.put(keys::head(topic), head.encode(), None);
    Ok((count > 0).then_some(before))
}

/// Drops the oldest messages of a topic that has too many, or too many bytes; at most so many.
fn trim(draft: &mut Draft, topic: &str, head: &mut Head, most: u64) -> Result<(), Stop> {
    let last = head.first.saturating_add(most).min(head.next);
    let many = head.messages().saturating_sub(head.settings.messages_max);
    let to = head.first.saturating_add(many).min(last);
    advance(draft, topic, head, to, true)?;
    // The newest one stays, however long it is.
    let last = last.min(head.next.saturating_sub(1));
    if head.bytes() <= head.settings.bytes_max || head.first >= last {
        return Ok(());
    }
    // Offsets rise: the first message from which on what is there fits is found by halving.
    let (mut low, mut high) = (head.first + 1, last);
    while low < high {
        let middle = low + (high - low) / 2;
        let rest = message(draft, topic, middle)?
            .map(|(message, _)| head.total.saturating_sub(message.offset));
        match rest {
            Some(rest) if rest <= head.settings.bytes_max => high = middle,
            _ => low = middle + 1,
        }
    }
    advance(draft, topic, head, low, true)
}

/// Forgets messages before a number; drops them, unless they have expired.
fn advance(
    draft: &mut Draft,
    topic: &str,
    head: &mut Head,
    to: u64,
    drops: bool,
) -> Result<(), Stop> {
    if to == head.first {
        return Ok(());
    }
    let offset = if to == head.next {
        Some(head.total)
    } else {
        // Of one that has expired nobody knows: bytes before it count until a later one is first.
        message(draft, topic, to)?.map(|(message, _)| message.offset)
    };
    if drops {
        (head.first..to).for_each(|number| draft.drop(keys::message(topic, number)));
    }
    head.first = to;
    head.first_offset = offset.unwrap_or(head.first_offset);
    Ok(())
}

/// The first message in a stretch that has not expired, or the stretch's end. Messages expire in
/// their order, but for what clocks of nodes differ by.
pub(crate) fn first_live(draft: &mut Draft, topic: &str, from: u64, end: u64) -> Result<u64, Stop> {
    if from >= end || message(draft, topic, from)?.is_some() {
        return Ok(from);
    }
    // `dead` has expired; `end` counts as alive.
    let (mut dead, mut alive, mut step) = (from, end, 1);
    while dead + step < alive {
        match message(draft, topic, dead + step)? {
            Some(_) => alive = dead + step,
            None => {
                dead += step;
                step *= 2;
            }
        }
    }
    while dead + 1 < alive {
        let middle = dead + (alive - dead) / 2;
        match message(draft, topic, middle)? {
            Some(_) => alive = middle,
            None => dead = middle,
        }
    }
    Ok(alive)
}

/// Deletes a topic, with its messages and groups, step by step: nobody can use it from the first
/// step on. Asking again goes on.
///
/// # Errors
/// [`Stop`].
pub fn delete(draft: &mut Draft, topic: &str) -> Result<Deleted, Stop> {
    keys::check_name("topic", topic)?;
    let mut head = match head(draft, topic) {
        Ok(Some(head)) => head,
        Ok(None) => return Err(Refusal::NoTopic { topic: topic.to_owned() }.into()),
        // Nobody knows which messages there are: they expire.
        Err(Stop::Refused(Refusal::Foreign { .. })) => {
            let settings = TopicSettings::default();
            Head { is_leaving: true, ..Head::new(settings) }
        }
        Err(stop) => return Err(stop),
    };
    let end = head.next.min(head.first.saturating_add(DELETED_MAX));
    if end < head.next || !head.is_leaving {
        (head.first..end).for_each(|number| draft.drop(keys::message(topic, number)));
        (head.first, head.is_leaving) = (end, true);
        draft.put(keys::head(topic), head.encode(), None);
        return Ok(Deleted::Part);
    }
    draft.want([keys::topics(), keys::groups(topic)])?;
    // Lists that somebody else has written over are begun anew.
    let mut all = ours(names(draft, &keys::topics()))?;
    let groups = ours(names(draft, &keys::groups(topic)))?;
    all.remove(topic);
    draft.put(keys::topics(), all.encode(), None);
    (head.first..end).for_each(|number| draft.drop(keys::message(topic, number)));
    groups.0.iter().for_each(|group| draft.drop(keys::group(topic, group)));
    draft.drop(keys::groups(topic));
    draft.drop(keys::head(topic));
    Ok(Deleted::All)
}

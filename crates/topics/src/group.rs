//! Groups: subscribe, take, acknowledge.
//!
//! ```text
//!   take ──► handed out until a deadline ── acknowledged ──► gone
//!                │  ▲                    └─ given back, or the deadline is over ──┐
//!                │  └──────────────────── handed out again ◄──────────────────────┤
//!                └ the topic has dropped it: missed      too often: dead letter ◄─┘
//! ```
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | groups of a topic | [`GROUPS_MAX`] | refused |
//! | messages handed out and not acknowledged | [`PENDING_MAX`] | no more are handed out |
//! | messages of one take | [`TAKE_MAX`], [`TAKE_BYTES_MAX`] and one message | the next take |
//! | time to acknowledge | [`ACK_MS_MAX`] | refused |
//! | a group that takes nothing | | the topic goes on; what it drops is counted as missed |

use crate::Refusal;
use crate::draft::{Draft, Stop};
use crate::keys;
use crate::record::{Group, GroupSettings, Head, Message, Origin, Pending, Record};
use crate::topic::{append, first_live, live, message, names, peeked};

/// Groups of a topic.
pub const GROUPS_MAX: usize = 64;
/// Messages that a group may have without having acknowledged them.
pub const PENDING_MAX: usize = 1024;
/// Messages of one take.
pub const TAKE_MAX: usize = 256;
/// Bytes after which a take ends.
pub const TAKE_BYTES_MAX: usize = 4 << 20;
/// Messages that are looked at together.
const WINDOW: usize = 32;
/// Time to acknowledge, unless the group says otherwise.
pub const ACK_MS_DEFAULT: u64 = 30_000;
/// The longest.
pub const ACK_MS_MAX: u64 = 43_200_000;
/// Most deliveries before a message goes to a dead-letter topic.
pub const DELIVERIES_MAX: u64 = 1000;

impl Default for GroupSettings {
    fn default() -> Self {
        Self { ack_ms: ACK_MS_DEFAULT, deliveries_max: 0, dead_letter: None }
    }
}

/// Where a new group begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the next message that is published.
    #[default]
    Latest,
    /// With the oldest that is there.
    Earliest,
    /// With this one, or the oldest after it.
    Number(u64),
}

/// A message as it is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its number.
    pub number: u64,
    /// How often it was handed out, this time included.
    pub deliveries: u64,
    /// When it was published, as a timestamp; 0: not known.
    pub version: u64,
    /// Where it was before it came to this dead-letter topic.
    pub origin: Option<Origin>,
    /// What was published.
    pub body: Vec<u8>,
}

/// What a take has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The messages, by rising number.
    pub messages: Vec<Delivery>,
    /// Messages that the topic dropped before this group had them, in this take.
    pub missed: u64,
    /// Messages that went to the dead-letter topic, in this take.
    pub dead: u64,
}

fn check(settings: &GroupSettings) -> Result<(), Refusal> {
    let GroupSettings { ack_ms, deliveries_max, dead_letter } = settings;
    let bad = |why: String| Err(Refusal::Bad { why });
    if !(1..=ACK_MS_MAX).contains(ack_ms) {
        return bad(format!("ack_ms is {ack_ms}: it has to be from 1 to {ACK_MS_MAX}"));
    }
    if *deliveries_max > DELIVERIES_MAX {
        return bad(format!("deliveries_max is {deliveries_max}, and may be {DELIVERIES_MAX}"));
    }
    match dead_letter {
        Some(topic) if *deliveries_max > 0 => keys::check_name("dead-letter topic", topic),
        None if *deliveries_max == 0 => Ok(()),
        _ => bad("deliveries_max and a dead-letter topic go together".to_owned()),
    }
}

/// The group, which must be there. Its topic is not read: a group goes with its topic, and messages
/// that are published meanwhile are no conflict.
fn group_of(draft: &mut Draft, topic: &str, group: &str) -> Result<Group, Stop> {
    keys::check_name("topic", topic)?;
    keys::check_name("group", group)?;
    let key = keys::group(topic, group);
    let found = draft.get(&key)?;
    match Group::of(&key, found)? {
        Some(found) => Ok(found),
        None => {
            peeked(draft, topic)?;
            let (topic, group) = (topic.to_owned(), group.to_owned());
            Err(Refusal::NoGroup { topic, group }.into())
        }
    }
}

fn put(draft: &mut Draft, topic: &str, name: &str, group: &Group) {
    draft.put(keys::group(topic, name), group.encode(), None);
}

/// Makes a group. One that is there gets these settings, and goes on where it is.
///
/// # Errors
/// [`Stop`].
pub fn subscribe(
    draft: &mut Draft,
    topic: &str,
    group: &str,
    settings: GroupSettings,
    from: Start,
) -> Result<Group, Stop> {
    check(&settings)?;
    if settings.dead_letter.as_deref() == Some(topic) {
        let why = "a topic cannot be its own dead-letter topic".to_owned();
        return Err(Refusal::Bad { why }.into());
    }
    if let Some(dead) = &settings.dead_letter {
        live(draft, dead)?;
    }
    keys::check_name("topic", topic)?;
    // A topic that is being deleted must not get new groups.
    let head = live(draft, topic)?;
    match group_of(draft, topic, group) {
        Ok(found) if found.settings == settings => Ok(found),
        Ok(mut found) => {
            found.settings = settings;
            put(draft, topic, group, &found);
            Ok(found)
        }
        Err(Stop::Refused(Refusal::NoGroup { .. })) => {
            let mut all = names(draft, &keys::groups(topic))?;
            all.add(group);
            if all.0.len() > GROUPS_MAX {
                let why = format!("a topic has at most {GROUPS_MAX} groups, and this one has them");
                return Err(Refusal::TooMany { why }.into());
            }
            let next = match from {
                Start::Latest => head.next,
                Start::Earliest => head.first,
                Start::Number(number) => number.clamp(head.first, head.next),
            };
            let found = Group { settings, next, missed: 0, pending: Vec::new() };
            draft.put(keys::groups(topic), all.encode(), None);
            put(draft, topic, group, &found);
            Ok(found)
        }
        Err(stop) => Err(stop),
    }
}

/// Ends a group.
///
/// # Errors
/// [`Stop`].
pub fn unsubscribe(draft: &mut Draft, topic: &str, group: &str) -> Result<(), Stop> {
    group_of(draft, topic, group)?;
    let mut all = names(draft, &keys::groups(topic))?;
    all.remove(group);
    draft.put(keys::groups(topic), all.encode(), None);
    draft.drop(keys::group(topic, group));
    Ok(())
}

/// Hands out messages to a member of a group: first those whose deadline is over, then new ones.
///
/// # Errors
/// [`Stop`].
pub fn take(draft: &mut Draft, topic: &str, name: &str, most: usize) -> Result<Taken, Stop> {
    if !(1..=TAKE_MAX).contains(&most) {
        let why = format!("max is {most}: it has to be from 1 to {TAKE_MAX}");
        return Err(Refusal::Bad { why }.into());
    }
    keys::check_name("topic", topic)?;
    // The topic and the group are asked for at once.
    let asked = draft.want_peeks([keys::head(topic)]);
    let group = group_of(draft, topic, name)?;
    asked?;
    let head = peeked(draft, topic)?;
    let before = group.clone();
    let until_ms = draft.now_ms.saturating_add(group.settings.ack_ms);
    let mut take = Take { topic, name, most, until_ms, group, taken: Taken::default(), bytes: 0 };
    take.again(draft)?;
    take.new_ones(draft, &head)?;
    let Take { mut group, mut taken, .. } = take;
    group.missed += taken.missed;
    group.pending.sort_unstable_by_key(|pending| pending.number);
    taken.messages.sort_unstable_by_key(|delivery| delivery.number);
    if group != before {
        put(draft, topic, name, &group);
    }
    Ok(taken)
}

/// A take under way.
struct Take<'a> {
    topic: &'a str,
    name: &'a str,
    most: usize,
    until_ms: u64,
    group: Group,
    taken: Taken,
    bytes: usize,
}

impl Take<'_> {
    fn is_full(&self) -> bool {
        self.taken.messages.len() >= self.most || self.bytes >= TAKE_BYTES_MAX
    }

    fn hand_out(&mut self, number: u64, deliveries: u64, (message, version): (Message, u64)) {
        let Message { origin, body, .. } = message;
        self.bytes += body.len();
        self.group.pending.push(Pending { number, until_ms: self.until_ms, deliveries });
        self.taken.messages.push(Delivery { number, deliveries, version, origin, body });
    }

    /// Those whose deadline is over.
    fn again(&mut self, draft: &mut Draft) -> Result<(), Stop> {
        let is_due = |pending: &Pending| pending.until_ms <= draft.now_ms;
        let due: Vec<Pending> = self.group.pending.iter().copied().filter(is_due).collect();
        for window in due.chunks(WINDOW) {
            if self.is_full() {
                return Ok(());
            }
            draft.want_peeks(window.iter().map(|one| keys::message(self.topic, one.number)))?;
            for Pending { number, deliveries, .. } in window.iter().copied() {
                if self.is_full() {
                    return Ok(());
                }
                let found = message(draft, self.topic, number)?;
                let Some(found) = found else {
                    self.group.pending.retain(|pending| pending.number != number);
                    self.taken.missed += 1;
                    continue;
                };
                let is_dead = self.bury(draft, number, deliveries, &found.0)?;
                self.group.pending.retain(|pending| pending.number != number);
                if !is_dead {
                    self.hand_out(number, deliveries + 1, found);
                }
            }
        }
        Ok(())
    }

    /// Moves a message that was delivered too often to the dead-letter topic. False: it stays, for
    /// it was not, or there is no such topic any more.
    fn bury(
        &mut self,
        draft: &mut Draft,
        number: u64,
        deliveries: u64,
        message: &Message,
    ) -> Result<bool, Stop> {
        let GroupSettings { deliveries_max, dead_letter, .. } = &self.group.settings;
        let Some(dead) = dead_letter.as_deref().filter(|_| deliveries >= *deliveries_max) else {
            return Ok(false);
        };
        let origin = Origin {
            topic: self.topic.to_owned(),
            group: self.name.to_owned(),
            number,
            deliveries,
        };
        match append(draft, dead, vec![(&message.body, Some(origin))]) {
            Ok(_) => {
                self.taken.dead += 1;
                Ok(true)
            }
            Err(Stop::Refused(Refusal::NoTopic { .. })) => Ok(false),
            Err(stop) => Err(stop),
        }
    }

    /// Those that were not handed out yet.
    fn new_ones(&mut self, draft: &mut Draft, head: &Head) -> Result<(), Stop> {
        if self.group.next < head.first {
            self.taken.missed += head.first - self.group.next;
            self.group.next = head.first;
        }
        let live = first_live(draft, self.topic, self.group.next, head.next)?;
        self.taken.missed += live.saturating_sub(self.group.next);
        self.group.next = self.group.next.max(live);
        while self.group.next < head.next {
            let room = PENDING_MAX.saturating_sub(self.group.pending.len());
            let wanted = self.most.saturating_sub(self.taken.messages.len()).min(room).min(WINDOW);
            if wanted == 0 || self.is_full() {
                return Ok(());
            }
            let end = head.next.min(self.group.next + wanted as u64);
            let window = self.group.next..end;
            draft.want_peeks(window.clone().map(|number| keys::message(self.topic, number)))?;
            for number in window {
                if self.is_full() {
                    return Ok(());
                }
                match message(draft, self.topic, number)? {
                    Some(found) => self.hand_out(number, 1, found),
                    None => self.taken.missed += 1,
                }
                self.group.next = number + 1;
            }
        }
        Ok(())
    }
}

/// Acknowledges messages, by number: they are not delivered again. How many of them were handed
/// out.
///
/// # Errors
/// [`Stop`].
pub fn ack(draft: &mut Draft, topic: &str, name: &str, numbers: &[u64]) -> Result<usize, Stop> {
    let mut group = group_of(draft, topic, name)?;
    let before = group.pending.len();
    group.pending.retain(|pending| !numbers.contains(&pending.number));
    let acknowledged = before - group.pending.len();
    if acknowledged > 0 {
        put(draft, topic, name, &group);
    }
    Ok(acknowledged)
}

/// Gives messages back: they are delivered again at once. How many of them were handed out.
///
/// # Errors
/// [`Stop`].
pub fn give_back(
    draft: &mut Draft,
    topic: &str,
    name: &str,
    numbers: &[u64],
) -> Result<usize, Stop> {
    let mut group = group_of(draft, topic, name)?;
    let given = group.pending.iter_mut().filter(|pending| numbers.contains(&pending.number));
    let given = given.map(|pending| pending.until_ms = 0).count();
    if given > 0 {
        put(draft, topic, name, &group);
    }
    Ok(given)
}

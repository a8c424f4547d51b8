//! One reader of a ring: what it gets next, and what it has missed.

use std::collections::VecDeque;
use std::sync::Arc;

use keyspace::{NodeId, Timestamp};

use super::followed::{Follow, Followed, GroupStep, SampleGroup};
use super::pace::SamplePace;
use super::ring::{KeptEvent, Ring};
use super::{Cursor, Filter, Gap, GapReason};
use crate::event::EventType;

/// The most bytes of samples that wait for one feed; and of further steps of what it has begun
/// with, so that these are the last ones to be dropped.
pub const SAMPLE_BYTES_MAX: usize = 256 << 10;

/// What a feed gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event of the ring.
    Event(Timestamp, Arc<str>),
    /// A sample: it is not in the ring. And what it is a step of, if it is one of several.
    Sample(Timestamp, Arc<str>, Option<SampleGroup>),
    /// Events are missing here.
    Gap(Gap),
}

impl Item {
    /// When it happened, or the last that is missing.
    pub fn at(&self) -> Timestamp {
        match self {
            Item::Event(at, _) | Item::Sample(at, ..) => *at,
            Item::Gap(gap) => gap.to,
        }
    }

    /// Whether it happened after a time, all of it.
    pub fn is_after(&self, time: Timestamp) -> bool {
        match self {
            Item::Event(at, _) | Item::Sample(at, ..) => *at > time,
            Item::Gap(gap) => gap.from > time,
        }
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        const BESIDE: usize = 64;
        match self {
            Item::Event(_, body) | Item::Sample(_, body, _) => body.len() + BESIDE,
            Item::Gap(_) => BESIDE,
        }
    }
}

/// Who reads a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// A viewer.
    Viewer,
    /// A merge, which may have got the first steps of a group from another node.
    Merge,
}

/// A sample on its way to feeds.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// When.
    pub at: Timestamp,
    /// Its type.
    pub event_type: EventType,
    /// The keyspace that it is about.
    pub keyspace: Option<&'a str>,
    /// All of it, as text.
    pub body: Arc<str>,
    /// What it is a step of, if it is one of several samples: a feed gets all of them, or none.
    pub group: Option<SampleGroup>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Feed {
    kind: FeedKind,
    filter: Filter,
    /// The number of the next event; it passes the filter, if it is there.
    next: u64,
    /// All up to then was given, or did not pass.
    seen: Timestamp,
    gap: Option<Gap>,
    samples: VecDeque<(Timestamp, Arc<str>, Option<SampleGroup>)>,
    sample_bytes: usize,
    /// Samples that had no room, and when the last of them was.
    dropped: Option<(u64, Timestamp)>,
    samples_wanted: u32,
    /// Of requests and of transactions ([`SamplePace`]).
    turns: [u64; 2],
    followed: Followed,
}

impl Feed {
    /// A reader that begins behind a cursor. It gets at most so many samples a second.
    pub fn new(
        kind: FeedKind,
        ring: &Ring,
        filter: Filter,
        samples: u32,
        cursor: Cursor,
        own: NodeId,
    ) -> Self {
        let (next, gap) = ring.place_behind(cursor, own);
        let samples_wanted = if filter.passes_samples() { samples } else { 0 };
        let mut feed = Self {
            kind,
            filter,
            next,
            seen: cursor.at,
            gap,
            samples: VecDeque::new(),
            sample_bytes: 0,
            dropped: None,
            samples_wanted,
            turns: [0; 2],
            followed: Followed::default(),
        };
        feed.settle(ring);
        feed
    }

    /// How many samples a second it wants at most.
    pub fn samples_wanted(&self) -> u32 {
        self.samples_wanted
    }

    /// From now on it wants so many samples.
    pub fn set_samples(&mut self, samples: u32) {
        self.samples_wanted = if self.filter.passes_samples() { samples } else { 0 };
    }

    /// The ring has got one more event, of this number. Whether the feed has it to give.
    pub fn pushed(&mut self, number: u64, event: &KeptEvent) -> bool {
        let passes = self.filter.passes(event.event_type, event.keyspace.as_deref());
        if !passes && self.next == number {
            (self.next, self.seen) = (number + 1, event.at);
        }
        passes
    }

    /// Takes a sample, if the feed wants it.
    pub fn sample(&mut self, now_nanos: u64, sample: &Sample<'_>) -> SampleTaken {
        let follow = match &sample.group {
            Some(group) => self.followed.step(*group, now_nanos),
            None => Follow::MayBegin,
        };
        let bytes = self.sample_bytes + sample.body.len();
        let has_room = match follow {
            Follow::No => return SampleTaken::No,
            Follow::Yes => bytes <= 2 * SAMPLE_BYTES_MAX,
            Follow::MayBegin => {
                if !self.wants(sample, now_nanos) {
                    return SampleTaken::No;
                }
                bytes <= SAMPLE_BYTES_MAX
                    && sample.group.is_none_or(|group| self.followed.begin(group, now_nanos))
            }
        };
        if !has_room {
            let (count, _) = self.dropped.unwrap_or_default();
            self.dropped = Some((count + 1, sample.at));
            return SampleTaken::Dropped;
        }
        self.sample_bytes = bytes;
        self.samples.push_back((sample.at, sample.body.clone(), sample.group));
        SampleTaken::Yes
    }

    /// Whether it wants a sample that it may begin with.
    fn wants(&mut self, sample: &Sample<'_>, now_nanos: u64) -> bool {
        let passes = self.filter.passes(sample.event_type, sample.keyspace);
        let Some(pace) = SamplePace::new(self.samples_wanted).filter(|_| passes) else {
            return false;
        };
        // Only the merge knows whether it follows that.
        let is_taken_over = sample.group.is_some_and(|group| group.step == GroupStep::Takeover);
        if is_taken_over && self.kind == FeedKind::Merge {
            return true;
        }
        let next = &mut self.turns[usize::from(sample.group.is_some())];
        let turn = pace.take(*next, now_nanos);
        *next = turn.unwrap_or(*next);
        turn.is_some()
    }

    /// These were taken, and did not come to its reader. Events are in the ring still.
    pub fn give_back_samples(&mut self, items: &[Item]) {
        for item in items.iter().rev() {
            if let Item::Sample(at, body, group) = item {
                self.sample_bytes += body.len();
                self.samples.push_front((*at, body.clone(), *group));
            }
        }
    }

    /// Takes over what another feed of the same reader has begun with, and the samples that wait
    /// there.
    pub fn go_on_from(&mut self, before: Feed) {
        self.samples = before.samples;
        self.sample_bytes = before.sample_bytes;
        self.dropped = before.dropped;
        (self.turns, self.followed) = (before.turns, before.followed);
    }

    /// Whether it has something to give.
    pub fn has_more(&self, ring: &Ring) -> bool {
        self.gap.is_some()
            || self.next < ring.end()
            || !self.samples.is_empty()
            || self.dropped.is_some()
    }

    /// When the next thing that it has to give happened.
    pub fn next_at(&self, ring: &Ring) -> Option<Timestamp> {
        if !self.has_more(ring) {
            return None;
        }
        let event = ring.get(self.next).map(|event| event.at);
        let sample = self.samples.front().map(|(at, ..)| *at);
        match (event, sample) {
            (Some(event), Some(sample)) => Some(event.min(sample)),
            // What is missing lies behind what was seen.
            (event, sample) => {
                let behind = Timestamp(self.seen.0.saturating_add(1));
                Some(event.or(sample).unwrap_or(behind))
            }
        }
    }

    /// Gives what comes next, in the order of time, about so many bytes of it.
    pub fn take(&mut self, ring: &Ring, bytes_max: usize) -> Vec<Item> {
        let mut items = Vec::new();
        let mut bytes = 0;
        if let Some(gap) = ring.missed_from(self.next, self.seen) {
            self.next = ring.first();
            self.settle(ring);
            self.gap = Some(gap);
        }
        if let Some((samples, to)) = self.dropped.take() {
            let (reason, from) = (GapReason::Slow, self.seen);
            let of_samples =
                Gap { reason, events: Some(0), is_exact: true, samples: 0, from, to: to.max(from) };
            self.gap = Some(Gap { samples, ..self.gap.unwrap_or(of_samples) });
        }
        if let Some(gap) = self.gap.take() {
            self.seen = self.seen.max(gap.to);
            bytes += Item::Gap(gap).bytes();
            items.push(Item::Gap(gap));
        }
        while bytes < bytes_max {
            let event = ring.get(self.next);
            let sample = self.samples.front();
            let item = match (event, sample) {
                (Some(event), Some((at, ..))) if *at < event.at => self.take_sample(),
                (Some(event), _) => {
                    self.next += 1;
                    self.seen = event.at;
                    let item = Item::Event(event.at, event.body.clone());
                    self.settle(ring);
                    Some(item)
                }
                (None, Some(_)) => self.take_sample(),
                (None, None) => None,
            };
            let Some(item) = item else { break };
            bytes += item.bytes();
            items.push(item);
        }
        items
    }

    fn take_sample(&mut self) -> Option<Item> {
        let (at, body, group) = self.samples.pop_front()?;
        self.sample_bytes -= body.len();
        Some(Item::Sample(at, body, group))
    }

    /// Goes on to the next event that passes.
    fn settle(&mut self, ring: &Ring) {
        while let Some(event) = ring.get(self.next) {
            if self.filter.passes(event.event_type, event.keyspace.as_deref()) {
                return;
            }
            (self.next, self.seen) = (self.next + 1, event.at);
        }
    }
}

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleTaken {
    /// The feed does not want it.
    No,
    /// It has it.
    Yes,
    /// It has no room.
    Dropped,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: NodeId = NodeId(7);

    fn push(ring: &mut Ring, feeds: &mut [&mut Feed], now: u64, event_type: EventType) {
        let at = ring.stamp(Timestamp(now));
        let number = ring.end();
        let event = KeptEvent { at, event_type, keyspace: None, body: now.to_string().into() };
        ring.push(event.clone());
        feeds.iter_mut().for_each(|feed| _ = feed.pushed(number, &event));
    }

    fn sample(at: u64, group: Option<(u64, GroupStep)>) -> Sample<'static> {
        let body = format!("s{at}").into();
        let (at, event_type) = (Timestamp(at), EventType::Request);
        let group = group.map(|(id, step)| SampleGroup { id, step });
        Sample { at, event_type, keyspace: None, body, group }
    }

    fn texts(items: &[Item]) -> Vec<String> {
        let text = |item: &Item| match item {
            Item::Event(_, body) | Item::Sample(_, body, _) => body.to_string(),
            Item::Gap(gap) => format!("gap {:?} {}", gap.events, gap.samples),
        };
        items.iter().map(text).collect()
    }

    fn feed(ring: &Ring, filter: Filter, samples: u32) -> Feed {
        let cursor = Cursor { at: Timestamp(1), node: None };
        Feed::new(FeedKind::Viewer, ring, filter, samples, cursor, OWN)
    }

    #[test]
    fn events_and_samples_come_in_order_of_time() {
        let mut ring = Ring::new(Timestamp(1));
        let mut feed = feed(&ring, Filter::default(), 1000);
        push(&mut ring, &mut [&mut feed], 10, EventType::Split);
        assert_eq!(feed.sample(0, &sample(15, None)), SampleTaken::Yes);
        push(&mut ring, &mut [&mut feed], 20, EventType::Split);
        assert_eq!(feed.next_at(&ring), Some(Timestamp(10)));
        assert_eq!(texts(&feed.take(&ring, 1)), ["10"], "a piece has one at least");
        assert_eq!(feed.next_at(&ring), Some(Timestamp(15)));
        assert_eq!(texts(&feed.take(&ring, 1000)), ["s15", "20"]);
        assert!(!feed.has_more(&ring) && feed.next_at(&ring).is_none());
    }

    #[test]
    fn events_that_do_not_pass_are_no_gap_and_nothing_to_wait_for() {
        let mut ring = Ring::of_size(Timestamp(1), 2, 1 << 20);
        let mut feed = feed(&ring, Filter::of_types([EventType::Link]), 0);
        for now in 10..20 {
            push(&mut ring, &mut [&mut feed], now, EventType::Split);
            assert!(!feed.has_more(&ring));
        }
        push(&mut ring, &mut [&mut feed], 20, EventType::Link);
        (21..25).for_each(|now| push(&mut ring, &mut [&mut feed], now, EventType::Split));
        assert!(feed.has_more(&ring));
        assert_eq!(texts(&feed.take(&ring, 1000)), ["gap Some(3) 0"], "nobody took it in time");
        push(&mut ring, &mut [&mut feed], 30, EventType::Link);
        assert_eq!(texts(&feed.take(&ring, 1000)), ["30"]);
    }

    #[test]
    fn slow_reader_learns_how_much_it_has_missed() {
        let mut ring = Ring::of_size(Timestamp(1), 3, 1 << 20);
        let mut feed = feed(&ring, Filter::default(), 0);
        (10..20).for_each(|now| push(&mut ring, &mut [&mut feed], now, EventType::Split));
        assert_eq!(texts(&feed.take(&ring, 1000)), ["gap Some(7) 0", "17", "18", "19"]);
    }

    #[test]
    fn samples_without_room_are_counted() {
        let ring = Ring::new(Timestamp(1));
        let mut feed = feed(&ring, Filter::default(), 1000);
        let body: Arc<str> = "x".repeat(SAMPLE_BYTES_MAX / 2).into();
        let mut take = |at| {
            let body = body.clone();
            feed.sample(at * 1_000_000_000, &Sample { body, ..sample(at, None) })
        };
        assert_eq!((take(10), take(11)), (SampleTaken::Yes, SampleTaken::Yes));
        assert_eq!((take(12), take(13)), (SampleTaken::Dropped, SampleTaken::Dropped));
        let items = feed.take(&ring, usize::MAX);
        let Item::Gap(gap) = &items[0] else { panic!("{items:?}") };
        assert_eq!((gap.events, gap.samples, gap.reason), (Some(0), 2, GapReason::Slow));
        assert_eq!(items.len(), 3);
    }

    #[test]
    fn all_steps_of_a_group_come_or_none() {
        let ring = Ring::new(Timestamp(1));
        use GroupStep::{First, Last, Middle, Takeover};
        let mut feed = feed(&ring, Filter::default(), 1);
        let mut take = |at: u64, group, step| {
            feed.sample(5_000_000_000 + at, &sample(at, Some((group, step))))
        };
        assert_eq!(take(1, 8, Middle), SampleTaken::No, "its beginning was not seen");
        assert_eq!(take(2, 9, First), SampleTaken::Yes);
        assert_eq!(take(3, 10, First), SampleTaken::No, "one a second");
        assert_eq!(take(4, 10, Middle), SampleTaken::No);
        assert_eq!(take(5, 9, Middle), SampleTaken::Yes);
        assert_eq!(take(6, 11, Takeover), SampleTaken::No);
        assert_eq!(take(7, 9, Last), SampleTaken::Yes);
    }

    /// Whatever the pace, a merge learns who goes on with a transaction, and later steps come.
    #[test]
    fn feed_of_a_merge_takes_what_a_node_takes_over() {
        use GroupStep::{First, Last, Takeover};
        let ring = Ring::new(Timestamp(1));
        let cursor = Cursor { at: Timestamp(1), node: None };
        let new = || Feed::new(FeedKind::Merge, &ring, Filter::default(), 1, cursor, OWN);
        let mut feed = new();
        let take = |feed: &mut Feed, at: u64, group, step| {
            feed.sample(5_000_000_000 + at, &sample(at, Some((group, step))))
        };
        assert_eq!(take(&mut feed, 1, 8, First), SampleTaken::Yes);
        assert_eq!(take(&mut feed, 2, 9, Takeover), SampleTaken::Yes);
        let mut again = new();
        again.go_on_from(feed);
        assert_eq!(take(&mut again, 3, 9, Last), SampleTaken::Yes);
        assert_eq!(take(&mut again, 4, 8, Last), SampleTaken::Yes);
        assert_eq!(texts(&again.take(&ring, 1000)), ["s1", "s2", "s3", "s4"]);
    }

    /// When there is no room, it is what has not begun yet that is dropped.
    #[test]
    fn steps_of_what_was_begun_find_room_where_new_samples_find_none() {
        use GroupStep::{First, Last};
        let ring = Ring::new(Timestamp(1));
        let mut feed = feed(&ring, Filter::default(), 1000);
        let body: Arc<str> = "x".repeat(SAMPLE_BYTES_MAX).into();
        let mut take = |at: u64, group| {
            let body = body.clone();
            feed.sample(at * 1_000_000_000, &Sample { body, ..sample(at, group) })
        };
        assert_eq!(take(10, Some((1, First))), SampleTaken::Yes);
        assert_eq!(take(11, None), SampleTaken::Dropped);
        assert_eq!(take(12, Some((2, First))), SampleTaken::Dropped);
        assert_eq!(take(13, Some((2, Last))), SampleTaken::No);
        assert_eq!(take(14, Some((1, Last))), SampleTaken::Yes);
        assert_eq!(take(15, Some((1, Last))), SampleTaken::Dropped, "that has a bound as well");
    }
}

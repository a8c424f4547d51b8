//! The last events of a node, and how many there were before.
//!
//! Events have numbers without gaps, from 0 at the start of the process. Of forgotten events the
//! ring keeps the times for a while, so that it can tell how many a late reader has missed.

use std::collections::VecDeque;
use std::sync::Arc;

use keyspace::{NodeId, Timestamp};

use super::{Cursor, Gap, GapReason};
use crate::event::EventType;

/// The most events in memory.
pub const EVENTS_KEPT_MAX: usize = 8192;
/// … and the most bytes of them.
pub const EVENT_BYTES_KEPT_MAX: usize = 4 << 20;
/// Of so many forgotten events the times are kept.
const FORGOTTEN_TIMES_MAX: usize = 16 << 10;
/// What an event takes beside its text.
const OVERHEAD_BYTES: usize = 96;
/// An event has so many bytes at least, with what it takes beside its text.
const EVENT_BYTES_MIN: usize = 256;

/// An event in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptEvent {
    /// When.
    pub at: Timestamp,
    /// Its type.
    pub event_type: EventType,
    /// The keyspace that it is about.
    pub keyspace: Option<Box<str>>,
    /// All of it, as text.
    pub body: Arc<str>,
}

impl KeptEvent {
    fn bytes(&self) -> usize {
        self.body.len() + self.keyspace.as_ref().map_or(0, |name| name.len()) + OVERHEAD_BYTES
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Ring {
    events: VecDeque<KeptEvent>,
    bytes: usize,
    /// The number of the oldest event that is kept.
    first: u64,
    /// When the process started: nothing is known of what was before.
    started: Timestamp,
    /// No event gets this time, or one before it.
    last: Timestamp,
    /// When the last forgotten events happened.
    forgotten: VecDeque<Timestamp>,
    events_max: usize,
    bytes_max: usize,
}

impl Ring {
    /// The ring of a process that starts at this time.
    pub fn new(started: Timestamp) -> Self {
        Self::of_size(started, EVENTS_KEPT_MAX, EVENT_BYTES_KEPT_MAX)
    }

    /// A ring of at most so many events and bytes.
    pub fn of_size(started: Timestamp, events_max: usize, bytes_max: usize) -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            first: 0,
            started,
            last: started,
            forgotten: VecDeque::new(),
            events_max,
            bytes_max,
        }
    }

    /// The time of an event that happens now: above all that were given or promised.
    pub fn stamp(&mut self, now: Timestamp) -> Timestamp {
        self.last = now.max(Timestamp(self.last.0 + 1));
        self.last
    }

    /// A time at or below which no further event will be: now, if possible.
    pub fn promise(&mut self, now: Timestamp) -> Timestamp {
        self.last = self.last.max(now);
        self.last
    }

    /// Adds an event, whose time was [stamped](Self::stamp) last. Forgets the oldest ones, if it
    /// must.
    pub fn push(&mut self, event: KeptEvent) {
        debug_assert!(self.events.back().is_none_or(|last| last.at < event.at), "times rise");
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > self.events_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.bytes();
            self.first += 1;
            if self.forgotten.len() == FORGOTTEN_TIMES_MAX {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back(oldest.at);
        }
    }

    /// Keeps so many bytes from now on, and puts events of earlier lives of the node before those
    /// that there are. Nobody may have begun to read.
    pub fn restore(&mut self, earlier: Vec<KeptEvent>, bytes_max: usize) {
        self.bytes_max = self.bytes_max.max(bytes_max);
        self.events_max = self.events_max.max(bytes_max / EVENT_BYTES_MIN);
        for event in earlier.into_iter().rev() {
            let first = self.events.front().map_or(self.started, |first| first.at);
            let has_room =
                self.events.len() < self.events_max && self.bytes + event.bytes() <= self.bytes_max;
            if event.at < first && has_room {
                self.bytes += event.bytes();
                // What was before it is not known.
                self.started = self.started.min(Timestamp(event.at.0.saturating_sub(1)));
                self.events.push_front(event);
            }
        }
    }

    /// All that are kept.
    pub fn iter(&self) -> impl Iterator<Item = &KeptEvent> {
        self.events.iter()
    }

    /// The number of the oldest event that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of the next event.
    pub fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// An event, if it is kept.
    pub fn get(&self, number: u64) -> Option<&KeptEvent> {
        self.events.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Where a reader begins whose last event was before this place; and what it has missed.
    pub fn place_behind(&self, cursor: Cursor, own: NodeId) -> (u64, Option<Gap>) {
        let skipped = self.events.partition_point(|event| !cursor.is_before(event.at, own));
        (self.first + skipped as u64, self.missed_since(cursor.at))
    }

    /// What is missing for a reader that wants events by number from this one on, and has seen all
    /// up to a time.
    pub fn missed_from(&self, next: u64, seen: Timestamp) -> Option<Gap> {
        let missed = self.first.checked_sub(next).filter(|missed| *missed > 0)?;
        let to = *self.forgotten.back()?;
        Some(Gap { events: Some(missed), ..gap(GapReason::Kept, seen, to) })
    }

    fn missed_since(&self, seen: Timestamp) -> Option<Gap> {
        let newest = self.forgotten.back().copied();
        if seen > Timestamp::ZERO && seen < self.started {
            let to = newest.unwrap_or(self.started);
            let gap = gap(GapReason::Restart, seen, to);
            return Some(Gap { events: None, is_exact: false, ..gap });
        }
        let to = newest.filter(|newest| seen < *newest)?;
        let known = self.forgotten.partition_point(|at| *at <= seen);
        let (missed, is_exact) = match seen {
            // All that there ever were.
            Timestamp::ZERO => (self.first, true),
            _ => {
                let are_all_known = known > 0 || self.first == self.forgotten.len() as u64;
                ((self.forgotten.len() - known) as u64, are_all_known)
            }
        };
        Some(Gap { events: Some(missed), is_exact, ..gap(GapReason::Kept, seen, to) })
    }
}

fn gap(reason: GapReason, from: Timestamp, to: Timestamp) -> Gap {
    Gap { reason, events: Some(0), is_exact: true, samples: 0, from, to }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: NodeId = NodeId(7);

    fn push(ring: &mut Ring, now: u64, text: &str) -> u64 {
        let at = ring.stamp(Timestamp(now));
        let (event_type, keyspace, body) = (EventType::Split, None, text.into());
        ring.push(KeptEvent { at, event_type, keyspace, body });
        at.0
    }

    fn place(ring: &Ring, at: u64) -> (u64, Option<(Option<u64>, bool)>) {
        let cursor = Cursor { at: Timestamp(at), node: Some(OWN) };
        let (next, gap) = ring.place_behind(cursor, OWN);
        (next, gap.map(|gap| (gap.events, gap.is_exact)))
    }

    #[test]
    fn stamps_rise_above_each_other_and_above_promises() {
        let mut ring = Ring::new(Timestamp(100));
        assert_eq!(ring.stamp(Timestamp(90)), Timestamp(101));
        assert_eq!(ring.stamp(Timestamp(101)), Timestamp(102));
        assert_eq!(ring.promise(Timestamp(50)), Timestamp(102));
        assert_eq!(ring.promise(Timestamp(200)), Timestamp(200));
        assert_eq!(ring.stamp(Timestamp(150)), Timestamp(201));
    }

    #[test]
    fn reader_within_the_ring_misses_nothing() {
        let mut ring = Ring::of_size(Timestamp(100), 3, 1 << 20);
        for now in [110, 120, 130] {
            push(&mut ring, now, "e");
        }
        assert_eq!(place(&ring, 100), (0, None));
        assert_eq!(place(&ring, 115), (1, None));
        assert_eq!(place(&ring, 120), (2, None));
        assert_eq!(place(&ring, 500), (3, None), "a cursor of the future waits for nothing");
        assert_eq!(ring.place_behind(Cursor::START, OWN), (0, None));
        let before_node = Cursor { at: Timestamp(120), node: Some(NodeId(6)) };
        assert_eq!(ring.place_behind(before_node, OWN).0, 1, "this node's lies behind that one's");
    }

    #[test]
    fn forgotten_events_are_counted_exactly_while_their_times_are_known() {
        let mut ring = Ring::of_size(Timestamp(100), 2, 1 << 20);
        (1..=5).for_each(|n| _ = push(&mut ring, 100 + 10 * n, "e"));
        assert_eq!(ring.first(), 3);
        assert_eq!(place(&ring, 105), (3, Some((Some(3), true))));
        assert_eq!(place(&ring, 110), (3, Some((Some(2), true))));
        assert_eq!(place(&ring, 130), (3, None), "the last forgotten one was seen");
        let (_, gap) = ring.place_behind(Cursor::START, OWN);
        let gap = gap.unwrap();
        assert_eq!((gap.events, gap.from, gap.to), (Some(3), Timestamp(0), Timestamp(130)));
        assert_eq!(gap.reason, GapReason::Kept);
        let gap = ring.missed_from(1, Timestamp(110)).unwrap();
        assert_eq!((gap.events, gap.from, gap.to), (Some(2), Timestamp(110), Timestamp(130)));
        assert_eq!(ring.missed_from(3, Timestamp(130)), None);
        for n in 0..FORGOTTEN_TIMES_MAX as u64 {
            push(&mut ring, 1000 + n, "e");
        }
        assert_eq!(place(&ring, 105).1, Some((Some(FORGOTTEN_TIMES_MAX as u64), false)));
        assert_eq!(place(&ring, 1000).1, Some((Some(FORGOTTEN_TIMES_MAX as u64 - 3), true)));
    }

    #[test]
    fn nobody_knows_what_was_before_the_start() {
        let mut ring = Ring::of_size(Timestamp(100), 2, 1 << 20);
        push(&mut ring, 110, "e");
        let (next, gap) = ring.place_behind(Cursor { at: Timestamp(50), node: None }, OWN);
        let gap = gap.unwrap();
        assert_eq!((next, gap.reason, gap.events), (0, GapReason::Restart, None));
        assert_eq!((gap.from, gap.to), (Timestamp(50), Timestamp(100)));
        assert_eq!(ring.place_behind(Cursor::START, OWN), (0, None), "all that there is");
    }

    #[test]
    fn events_of_earlier_lives_come_first() {
        let mut before = Ring::new(Timestamp(10));
        (20..25).for_each(|now| _ = push(&mut before, now, "e"));
        push(&mut before, 200, "its clock was ahead");
        let mut ring = Ring::new(Timestamp(100));
        push(&mut ring, 110, "e");
        ring.restore(before.iter().cloned().collect(), 8 << 20);
        let times: Vec<u64> = ring.iter().map(|event| event.at.0).collect();
        assert_eq!(times, [20, 21, 22, 23, 24, 110]);
        assert_eq!(place(&ring, 22), (3, None), "nothing is missing");
        let (next, gap) = place(&ring, 15);
        assert_eq!((next, gap), (0, Some((None, false))), "nobody knows what was before");
        assert_eq!(push(&mut ring, 111, "e"), 111);
    }

    #[test]
    fn bytes_are_bounded() {
        let mut ring = Ring::of_size(Timestamp(0), 100, 1000);
        (1..100).for_each(|now| _ = push(&mut ring, now, &"x".repeat(150)));
        assert_eq!(ring.end() - ring.first(), 4);
        push(&mut ring, 100, &"x".repeat(2000));
        assert_eq!((ring.end(), ring.first()), (100, 100), "one that is too long is forgotten");
        assert_eq!(ring.bytes, 0);
    }
}

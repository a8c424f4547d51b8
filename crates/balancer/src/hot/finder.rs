//! Which split point halves a shard's requests?
//!
//! The finder picks twenty of the sampled requests, each as likely as any other, as candidates. For
//! each it counts how many later requests lie to its left, to its right, or on both sides. That is
//! the finder of CockroachDB (`split/unweighted_finder.go`), with its numbers.
//!
//! ```text
//!   candidate 4096:  left 180   right 210   both sides 6      |180 - 210| / 390 = 0.08   6 / 396
//! ```
//!
//! A request on both sides costs more after a split than before. So a candidate is fit if its sides
//! are even and few requests are on both; the fittest is the one with the least of both together.

use keyspace::random::{Random, mix};

/// So many candidates are kept.
const CANDIDATES: usize = 20;
/// A candidate counts once it has seen so many requests.
const SEEN_MIN: u32 = 100;
/// The sides of a cut may differ by less than this part of both.
const UNEVEN_MAX: f64 = 0.25;
/// Less than this part of the requests may be on both sides.
const BOTH_MAX: f64 = 0.5;

/// What the requests noted say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitPoint {
    /// A cut here parts them well: the first place of the right half.
    Cut(Box<[u8]>),
    /// They are too few to say.
    TooFew,
    /// So many are for one and the same place that no cut parts them evenly. Three times in a
    /// thousand it is chance instead: no candidate was near the middle. So ask again later.
    OneKey,
    /// No cut parts them evenly and leaves few on both sides: most are for many keys each.
    Scans,
}

/// Sees requests, and remembers what cuts would have done to them.
#[derive(Clone, Debug)]
pub struct SplitPointFinder {
    random: Random,
    seen: u64,
    /// Of these, such as were for more than one place.
    range_requests: u64,
    candidates: Vec<Candidate>,
}

#[derive(Clone, Debug)]
struct Candidate {
    at: Box<[u8]>,
    left: u32,
    right: u32,
    both: u32,
}

impl SplitPointFinder {
    /// That has seen nothing; which places it keeps is decided by the seed.
    pub fn new(seed: u64) -> Self {
        let (seen, range_requests) = (0, 0);
        Self { random: Random::new(mix(seed)), seen, range_requests, candidates: Vec::new() }
    }

    /// A request for places from `first` up to and with `last`, or up to the shard's end.
    pub fn add(&mut self, first: &[u8], last: Option<&[u8]>) {
        for candidate in &mut self.candidates {
            candidate.count(first, last);
        }
        self.seen += 1;
        self.range_requests += u64::from(last != Some(first));
        let place = match self.candidates.len() {
            len if len < CANDIDATES => len,
            _ => self.random.below(self.seen) as usize,
        };
        let new = || Candidate { at: first.into(), left: 0, right: 0, both: 0 };
        if place == self.candidates.len() {
            self.candidates.push(new());
        } else if let Some(old) = self.candidates.get_mut(place) {
            *old = new();
        }
    }

    /// What they say.
    pub fn found(&self) -> SplitPoint {
        let counts = || self.candidates.iter().filter(|c| c.seen() >= SEEN_MIN);
        let fit = counts().filter(|c| c.uneven() < UNEVEN_MAX && c.shared() < BOTH_MAX);
        let worth = |c: &&Candidate| c.uneven() + c.shared();
        let best = fit.min_by(|a, b| worth(a).total_cmp(&worth(b)));
        match best {
            Some(best) => SplitPoint::Cut(best.at.clone()),
            None if counts().count() == 0 => SplitPoint::TooFew,
            None if 2 * self.range_requests >= self.seen => SplitPoint::Scans,
            None => SplitPoint::OneKey,
        }
    }
}

impl Candidate {
    fn count(&mut self, first: &[u8], last: Option<&[u8]>) {
        if first >= &*self.at {
            self.right += 1;
        } else if last.is_some_and(|last| last < &*self.at) {
            self.left += 1;
        } else {
            self.both += 1;
        }
    }

    fn seen(&self) -> u32 {
        self.left + self.right + self.both
    }

    /// By how much the sides differ, in parts of both; 1 if there is nothing on either.
    fn uneven(&self) -> f64 {
        match self.left + self.right {
            0 => 1.0,
            sides => f64::from(self.left.abs_diff(self.right)) / f64::from(sides),
        }
    }

    /// Which part of all is on both sides.
    fn shared(&self) -> f64 {
        f64::from(self.both) / f64::from(self.seen().max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a finder says that has seen these.
    fn found(seed: u64, requests: impl IntoIterator<Item = (u16, u16)>) -> SplitPoint {
        let mut finder = SplitPointFinder::new(seed);
        for (first, last) in requests {
            finder.add(&first.to_be_bytes(), Some(&last.to_be_bytes()));
        }
        finder.found()
    }

    fn cut(found: &SplitPoint) -> Option<u16> {
        let SplitPoint::Cut(at) = found else { return None };
        Some(u16::from_be_bytes(at[..].try_into().expect("a slot")))
    }

    proptest! {
        /// Requests that are spread are parted in their middle, wherever most of them are: by one
        /// of five finders, for one in three hundred has no candidate there.
        #[test]
        fn finder_halves_spread_requests(seed: u64, from in 0u64..16_000, width in 30u64..384) {
            let mut random = Random::new(seed);
            let slot = |_| (from + random.below(width)) as u16;
            let slots: Vec<u16> = (0..1_000).map(slot).collect();
            let found = |n| found(mix(seed ^ n), slots.iter().map(|slot| (*slot, *slot)));
            let at = (0..5).find_map(|n| cut(&found(n)));
            prop_assert!(at.is_some());
            let left = slots.iter().filter(|slot| **slot < at.unwrap()).count();
            prop_assert!((300..=700).contains(&left), "{left} of 1000 are left of it");
        }

        /// One place with most of the requests is not parted, whatever else is asked.
        #[test]
        fn one_place_is_not_parted(seed: u64, hot in 0u16..16_384) {
            let mut random = Random::new(seed);
            let slots: Vec<u16> = (0..1_000)
                .map(|_| if random.one_in(5) { random.below(16_384) as u16 } else { hot })
                .collect();
            let found = found(mix(seed), slots.iter().map(|slot| (*slot, *slot)));
            prop_assert_eq!(found, SplitPoint::OneKey);
        }

        /// Requests for ranges that nearly all cuts would lie within.
        #[test]
        fn scans_are_not_parted(seed: u64) {
            let mut random = Random::new(seed);
            let requests: Vec<(u16, u16)> = (0..1_000)
                .map(|_| match random.one_in(4) {
                    true => { let slot = random.below(16_384) as u16; (slot, slot) }
                    false => (random.below(100) as u16, 16_300 + random.below(84) as u16),
                })
                .collect();
            prop_assert_eq!(found(mix(seed), requests), SplitPoint::Scans);
        }

        /// What it says is a place that was asked for, and equal arguments say the same.
        #[test]
        fn places_are_among_those_asked_for(
            seed: u64,
            requests in prop::collection::vec((0u16..50, 0u16..10), 0..400),
        ) {
            let requests: Vec<_> = requests.into_iter().map(|(f, more)| (f, f + more)).collect();
            let said = found(seed, requests.iter().copied());
            if let Some(at) = cut(&said) {
                prop_assert!(requests.iter().any(|(first, _)| *first == at));
            }
            prop_assert_eq!(found(seed, requests), said);
        }
    }

    #[test]
    fn few_requests_say_nothing() {
        for (many, few) in [(100, true), (1_000, false)] {
            let said = found(1, (0..many).map(|slot| (slot, slot)));
            assert_eq!(said == SplitPoint::TooFew, few, "{many}: {said:?}");
        }
    }

    #[test]
    fn what_has_no_end_is_on_both_sides_of_all_behind_its_beginning() {
        let mut finder = SplitPointFinder::new(1);
        finder.add(b"m", Some(b"m"));
        (2..CANDIDATES).for_each(|_| finder.add(b"a", None));
        assert_eq!(finder.candidates[0].both, 18);
        finder.add(b"m", None);
        assert_eq!(finder.candidates[0].right, 1);
    }
}

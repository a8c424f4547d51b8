//! Which key a request names: a number below the count of keys, by one of five distributions.
//!
//! Zipf: the key of rank k (from 1) is drawn with weight k^-exponent, by rejection-inversion
//! (Hörmann and Derflinger, ACM TOMACS 1996): no table, any number of keys. Ranks are spread over
//! the keys, so that popular ones are no neighbours.
//!
//! Invariants: a key is below the count, or one that this picker has inserted. A part of a load
//! walks and inserts only keys of its own: number modulo parts is the part. Each phase inserts into
//! a range of its own, so that what is inserted after a warm-up is new, too.

use super::random::Random;

/// Ranks are multiplied by this prime to spread them.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c55;

/// Keys that a phase may insert before it meets those of the next one.
const INSERTS_MAX: u64 = 10_000_000_000;

/// How often a second key is drawn, to be another than the first.
const OTHER_DRAWS_MAX: usize = 16;

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyChoice {
    /// All alike.
    Uniform,
    /// Few of them often.
    Zipf {
        /// How uneven; 0 would be uniform.
        exponent: f64,
    },
    /// Those that were inserted last often; falls off as with Zipf.
    Latest {
        /// How uneven.
        exponent: f64,
    },
    /// One after the other, and again from the start.
    Sequential,
    /// A few of them get a given share of all requests.
    Hot {
        /// Share of the keys that is hot.
        keys: f64,
        /// Share of the requests that go there.
        requests: f64,
    },
}

/// Draws ranks by Zipf's law.
#[derive(Clone, Debug)]
struct Zipf {
    count: f64,
    exponent: f64,
    /// Integral of the density at 1.5, minus 1.
    from: f64,
    /// Integral of the density at count + 0.5.
    to: f64,
    /// Below this distance a draw is accepted at once.
    accept: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Self { count: count as f64, exponent, from: 0.0, to: 0.0, accept: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(zipf.count + 0.5);
        zipf.accept = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the density from 1 to `x`: (x^(1-s) - 1) / (1-s), which is ln x for s = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() > 1e-8 { power.exp_m1() / power * log } else { log * (1.0 + power / 2.0) }
    }

    fn inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        if t.abs() > 1e-8 { (t.ln_1p() / t * area).exp() } else { (area * (1.0 - t / 2.0)).exp() }
    }

    /// A rank, from 0.
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.to + random.fraction() * (self.from - self.to);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.count);
            let is_near = rank - x <= self.accept;
            if is_near || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// Draws keys for one part of a load.
#[derive(Clone, Debug)]
pub struct KeyPicker {
    choice: KeyChoice,
    zipf: Option<Zipf>,
    count: u64,
    part: u64,
    parts: u64,
    walked: u64,
    inserted: u64,
    /// The first key that it may insert, but for its part.
    first: u64,
}

impl KeyPicker {
    /// For part `part` of `parts` of a phase, by its number, over `count` keys, at least 1 of them
    /// and of parts.
    pub fn new(choice: KeyChoice, count: u64, part: u64, parts: u64, phase: u64) -> Self {
        let zipf = match choice {
            KeyChoice::Zipf { exponent } | KeyChoice::Latest { exponent } => {
                Some(Zipf::new(count, exponent))
            }
            _ => None,
        };
        let first = count + phase * INSERTS_MAX;
        Self { choice, zipf, count, part, parts, walked: 0, inserted: 0, first }
    }

    /// The next key.
    pub fn pick(&mut self, random: &mut Random) -> u64 {
        let rank = self.zipf.as_ref().map_or(0, |zipf| zipf.draw(random));
        match self.choice {
            KeyChoice::Uniform => random.below(self.count),
            KeyChoice::Zipf { .. } => self.spread(rank),
            KeyChoice::Latest { .. } if rank < self.inserted => {
                self.inserted_key(self.inserted - 1 - rank)
            }
            KeyChoice::Latest { .. } => (self.count - 1).saturating_sub(rank - self.inserted),
            KeyChoice::Sequential => {
                let key = self.walk().or_else(|| {
                    self.walked = 0;
                    self.walk()
                });
                // A part without keys of its own: there are more parts than keys.
                key.unwrap_or(self.part % self.count)
            }
            KeyChoice::Hot { keys, requests } => {
                let hot = ((self.count as f64 * keys) as u64).clamp(1, self.count);
                let is_hot = hot == self.count || random.fraction() < requests;
                let rank = match is_hot {
                    true => random.below(hot),
                    false => hot + random.below(self.count - hot),
                };
                self.spread(rank)
            }
        }
    }

    /// Another key than this one, of at least two keys. Where the same one is drawn again and again
    /// it is the next.
    pub fn pick_other(&mut self, key: u64, random: &mut Random) -> u64 {
        let drawn = (0..OTHER_DRAWS_MAX).map(|_| self.pick(random)).find(|other| *other != key);
        drawn.unwrap_or((key + 1) % self.count)
    }

    /// The next of this part's own keys, once each; `None` after the last.
    pub fn walk(&mut self) -> Option<u64> {
        let key = self.walked.checked_mul(self.parts)?.checked_add(self.part)?;
        self.walked += 1;
        (key < self.count).then_some(key)
    }

    /// A key that nobody has named yet.
    pub fn insert(&mut self) -> u64 {
        self.inserted += 1;
        self.inserted_key(self.inserted - 1)
    }

    fn inserted_key(&self, number: u64) -> u64 {
        self.first + self.part + number * self.parts
    }

    /// Another number below the count for each rank.
    fn spread(&self, rank: u64) -> u64 {
        if self.count.is_multiple_of(SPREAD) {
            return rank;
        }
        (u128::from(rank) * u128::from(SPREAD) % u128::from(self.count)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 1_000;
    const DRAWS: u64 = 200_000;

    fn counts(choice: KeyChoice) -> Vec<u64> {
        let (mut picker, mut random) = (KeyPicker::new(choice, COUNT, 0, 1, 0), Random::new(3));
        let mut counts = vec![0; COUNT as usize];
        for _ in 0..DRAWS {
            counts[picker.pick(&mut random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn uniform_keys_are_even() {
        let counts = counts(KeyChoice::Uniform);
        assert!(counts.iter().all(|count| (120..290).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_ranks_have_their_weights() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let mut counts = counts(KeyChoice::Zipf { exponent });
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let sum: f64 = (1..=COUNT).map(|rank| (rank as f64).powf(-exponent)).sum();
            for rank in [1u64, 2, 5] {
                let expected = DRAWS as f64 * (rank as f64).powf(-exponent) / sum;
                let found = counts[rank as usize - 1] as f64;
                let tolerance = 0.05 * expected + 5.0 * expected.sqrt();
                assert!((found - expected).abs() < tolerance, "{exponent} {rank}: {found}");
            }
        }
    }

    #[test]
    fn popular_keys_are_no_neighbours() {
        let counts = counts(KeyChoice::Zipf { exponent: 1.0 });
        let first = counts.iter().enumerate().max_by_key(|pair| pair.1).unwrap().0;
        let others = counts.iter().enumerate().filter(|(key, _)| *key != first);
        let second = others.max_by_key(|pair| pair.1).unwrap().0;
        assert!(first.abs_diff(second) > 1, "{first} {second}");
    }

    #[test]
    fn latest_keys_are_those_inserted_last() {
        let choice = KeyChoice::Latest { exponent: 0.99 };
        let (mut picker, mut random) = (KeyPicker::new(choice, COUNT, 1, 4, 0), Random::new(3));
        let inserted: Vec<u64> = (0..50).map(|_| picker.insert()).collect();
        assert_eq!(inserted[..2], [COUNT + 1, COUNT + 5]);
        let drawn: Vec<u64> = (0..10_000).map(|_| picker.pick(&mut random)).collect();
        let of = |key: u64| drawn.iter().filter(|drawn| **drawn == key).count();
        assert!(of(inserted[49]) > 2 * of(inserted[40]) && of(inserted[40]) > of(3));
        assert!(drawn.iter().all(|key| *key < COUNT || inserted.contains(key)));
    }

    #[test]
    fn phases_insert_keys_that_no_other_has_inserted() {
        let choice = KeyChoice::Latest { exponent: 0.99 };
        let mut seen = std::collections::BTreeSet::new();
        for phase in 0..3 {
            for part in 0..4 {
                let mut picker = KeyPicker::new(choice, COUNT, part, 4, phase);
                let inserted: Vec<u64> = (0..50).map(|_| picker.insert()).collect();
                assert!(inserted.iter().all(|key| *key >= COUNT && seen.insert(*key)));
                let drawn = picker.pick(&mut Random::new(1));
                assert!(drawn < COUNT || inserted.contains(&drawn));
            }
        }
    }

    #[test]
    fn a_second_key_is_another() {
        let mut random = Random::new(3);
        for choice in [KeyChoice::Uniform, KeyChoice::Hot { keys: 0.001, requests: 1.0 }] {
            let mut picker = KeyPicker::new(choice, COUNT, 0, 1, 0);
            for _ in 0..1_000 {
                let key = picker.pick(&mut random);
                let other = picker.pick_other(key, &mut random);
                assert!(other != key && other < COUNT, "{choice:?}: {key} {other}");
            }
        }
    }

    #[test]
    fn hot_keys_get_their_share() {
        let mut counts = counts(KeyChoice::Hot { keys: 0.01, requests: 0.9 });
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot: u64 = counts[..10].iter().sum();
        assert!((0.89..0.91).contains(&(hot as f64 / DRAWS as f64)), "{hot}");
    }

    #[test]
    fn parts_walk_all_keys_once_and_begin_again_when_sequential() {
        let mut all: Vec<u64> = Vec::new();
        for part in 0..3 {
            let mut picker = KeyPicker::new(KeyChoice::Sequential, 10, part, 3, 0);
            while let Some(key) = picker.walk() {
                all.push(key);
            }
        }
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        let mut picker = KeyPicker::new(KeyChoice::Sequential, 4, 1, 2, 0);
        let mut random = Random::new(1);
        assert_eq!([0; 5].map(|_| picker.pick(&mut random)), [1, 3, 1, 3, 1]);
    }
}

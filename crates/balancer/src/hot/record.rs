//! A shard's request rate, and what to do about it.
//!
//! The rate is a mean that follows within seconds. While it is above `rate_max`, a
//! [`SplitPointFinder`] sees the samples. After [`RECORD_MS`], and with enough samples, it reports
//! its result, and another begins: what clients ask for changes.

use super::{GAP, SplitPoint, SplitPointFinder};

/// How long a finder sees samples before it must answer.
pub const RECORD_MS: u64 = 10_000;
/// With each look the rate goes this part of the way to what was counted since the last.
const FOLLOW: f64 = 0.25;

/// The request rate of a shard, as estimated.
#[derive(Clone, Debug, Default)]
pub struct ShardLoad {
    /// Noted since the last look.
    noted: u32,
    /// Of these, writes, and the bytes that they bring.
    noted_writes: u32,
    noted_bytes: u64,
    /// Requests a second.
    rate: f64,
    /// Writes a second, and their bytes.
    writes: f64,
    bytes: f64,
    /// Since when it sees what is noted.
    finder: Option<(u64, SplitPointFinder)>,
    /// Why the shard stays whole although it is asked too often.
    whole: Option<SplitPoint>,
}

impl ShardLoad {
    /// A request was noted: see [`SplitPointFinder::add`].
    pub fn add(&mut self, first: &[u8], last: Option<&[u8]>) {
        self.noted = self.noted.saturating_add(1);
        if let Some((_, finder)) = &mut self.finder {
            finder.add(first, last);
        }
    }

    /// The last one that was noted was a write of so many bytes.
    pub fn is_write(&mut self, bytes: usize) {
        self.noted_writes = self.noted_writes.saturating_add(1);
        self.noted_bytes = self.noted_bytes.saturating_add(bytes as u64);
    }

    /// At `now_ms`, which is `elapsed_ms` after the last look: where the shard is to be cut, if it
    /// is. `seed` decides what the next finder keeps.
    pub fn look(
        &mut self,
        now_ms: u64,
        elapsed_ms: u64,
        rate_max: u64,
        seed: u64,
    ) -> Option<Box<[u8]>> {
        let a_second = f64::from(GAP) * 1_000.0 / elapsed_ms.max(1) as f64;
        let follow = |rate: &mut f64, noted: f64| *rate += (noted * a_second - *rate) * FOLLOW;
        follow(&mut self.rate, std::mem::take(&mut self.noted).into());
        follow(&mut self.writes, std::mem::take(&mut self.noted_writes).into());
        follow(&mut self.bytes, std::mem::take(&mut self.noted_bytes) as f64);
        if self.rate <= rate_max as f64 {
            (self.finder, self.whole) = (None, None);
            return None;
        }
        let Some((since, finder)) = &self.finder else {
            self.finder = Some((now_ms, SplitPointFinder::new(seed)));
            return None;
        };
        if now_ms.saturating_sub(*since) < RECORD_MS {
            return None;
        }
        let found = finder.found();
        if found == SplitPoint::TooFew {
            return None;
        }
        self.finder = Some((now_ms, SplitPointFinder::new(seed)));
        match found {
            SplitPoint::Cut(at) => {
                self.whole = None;
                Some(at)
            }
            found => {
                self.whole = Some(found);
                None
            }
        }
    }

    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Writes a second.
    pub fn writes(&self) -> f64 {
        self.writes
    }

    /// Bytes that writes bring, a second.
    pub fn written_bytes(&self) -> f64 {
        self.bytes
    }

    /// Why the shard does not split although its request rate is too high, if known:
    /// [`SplitPoint::OneKey`] or [`SplitPoint::Scans`].
    pub fn whole(&self) -> Option<&SplitPoint> {
        self.whole.as_ref()
    }

    /// Whether it may be forgotten: there was no request for long.
    pub fn is_idle(&self) -> bool {
        self.noted == 0 && self.rate < 1.0
    }
}

#[cfg(test)]
mod tests {
    use keyspace::random::Random;

    use super::*;

    /// One second with so many requests noted, each for a slot that `slot` says; what comes of it.
    fn second(
        record: &mut ShardLoad,
        now: u64,
        noted: u32,
        mut slot: impl FnMut() -> u16,
    ) -> Option<Box<[u8]>> {
        for _ in 0..noted {
            let slot = slot().to_be_bytes();
            record.add(&slot, Some(&slot));
        }
        record.look(now * 1_000, 1_000, 1_000, now)
    }

    #[test]
    fn the_rate_follows_what_is_asked() {
        let mut record = ShardLoad::default();
        for now in 0..20 {
            second(&mut record, now, 10, || 1);
        }
        assert!((record.rate() - 640.0).abs() < 5.0, "{}", record.rate());
        assert_eq!((record.writes(), record.written_bytes()), (0.0, 0.0), "all were reads");
        for now in 20..60 {
            second(&mut record, now, 0, || 1);
        }
        assert!(record.is_idle());
    }

    #[test]
    fn writes_and_their_bytes_are_apart() {
        let mut record = ShardLoad::default();
        for now in 0..40 {
            for bytes in [100, 300] {
                record.add(&[1], Some(&[1]));
                record.is_write(bytes);
            }
            second(&mut record, now, 3, || 1);
        }
        let found = [record.rate(), record.writes(), record.written_bytes()].map(f64::round);
        assert_eq!(found, [320.0, 128.0, 25_600.0]);
    }

    #[test]
    fn finder_samples_ten_seconds_before_it_answers() {
        let mut random = Random::new(3);
        let mut record = ShardLoad::default();
        let mut slot = || random.below(16_384) as u16;
        let cuts: Vec<u64> =
            (0..26).filter(|now| second(&mut record, *now, 100, &mut slot).is_some()).collect();
        // It begins with the first second, which is above: 6 400 / 4 > 1 000.
        assert_eq!(cuts, [10, 20]);
        assert!(record.whole().is_none());
    }

    #[test]
    fn no_split_reason_is_known_until_rate_falls() {
        let mut record = ShardLoad::default();
        for now in 0..12 {
            assert_eq!(second(&mut record, now, 100, || 7), None);
        }
        assert_eq!(record.whole(), Some(&SplitPoint::OneKey));
        for now in 12..30 {
            second(&mut record, now, 0, || 7);
        }
        assert_eq!(record.whole(), None);
    }

    #[test]
    fn few_requests_are_seen_for_longer() {
        let mut record = ShardLoad::default();
        let mut random = Random::new(5);
        let at = |now: u64| second(&mut record, now, 20, || random.below(16_384) as u16);
        // 1 280 a second; the first candidates have seen a hundred after five seconds or so.
        let cut = (0..40).map(at).position(|cut| cut.is_some());
        assert!(cut.is_some_and(|second| (10..20).contains(&second)), "{cut:?}");
    }
}

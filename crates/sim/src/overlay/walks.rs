//! Requests from members drawn by chance, for points drawn by chance, each walked to its end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::ring::{Ring, Tail};
use super::tables::Tables;
use crate::rng::Rng;

/// Requests that draw from one row of numbers: what a thread does at a time.
const PIECE: u64 = 4_096;

/// How often each number was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread(Vec<u64>);

impl Spread {
    /// Sees a number.
    pub fn add(&mut self, number: usize) {
        if number >= self.0.len() {
            self.0.resize(number + 1, 0);
        }
        self.0[number] += 1;
    }

    /// Sees what another saw.
    pub fn join(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (here, there) in self.0.iter_mut().zip(&other.0) {
            *here += there;
        }
    }

    /// How many were seen.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Their mean; 0 of none.
    pub fn mean(&self) -> f64 {
        let sum: u64 = self.0.iter().enumerate().map(|(number, times)| number as u64 * times).sum();
        sum as f64 / self.count().max(1) as f64
    }

    /// The least number that so many hundredths of all do not exceed; 0 of none.
    pub fn percentile(&self, hundredths: u64) -> usize {
        let wanted = (self.count() * hundredths).div_ceil(100);
        let mut seen = 0;
        let reaches = |times: &u64| {
            seen += times;
            seen >= wanted
        };
        self.0.iter().position(reaches).unwrap_or(0)
    }

    /// The greatest; 0 of none.
    pub fn max(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// Which part of them is not 0.
    pub fn above_zero(&self) -> f64 {
        let zeros = self.0.first().copied().unwrap_or(0);
        (self.count() - zeros) as f64 / self.count().max(1) as f64
    }

    /// Each number up to the greatest with the part of all that it is.
    pub fn parts(&self) -> impl Iterator<Item = (usize, f64)> {
        let count = self.count().max(1) as f64;
        self.0.iter().enumerate().map(move |(number, times)| (number, *times as f64 / count))
    }
}

/// How requests went.
#[derive(Clone, Debug, Default)]
pub struct LookupStats {
    /// Hops of those that ended.
    pub hops: Spread,
    /// Requests that ended at a member that is not the owner, or not at all.
    pub wrong: u64,
}

/// Sends requests, on all processors; calls `on_progress` with the number done so far.
pub fn walks(
    ring: &Ring,
    tables: &dyn Tables,
    requests: u64,
    seed: u64,
    on_progress: &(dyn Fn(u64) + Sync),
) -> LookupStats {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    let (unbegun, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let all = Mutex::new(LookupStats::default());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = LookupStats::default();
                loop {
                    let piece = unbegun.fetch_add(1, Ordering::Relaxed);
                    let count = requests.saturating_sub(piece * PIECE).min(PIECE);
                    if count == 0 {
                        break;
                    }
                    let mut rng = Rng::new(seed.wrapping_add(piece.wrapping_mul(0x5eed)));
                    for _ in 0..count {
                        walk(ring, tables, &mut rng, &mut mine);
                    }
                    on_progress(done.fetch_add(count, Ordering::Relaxed) + count);
                }
                let mut all = all.lock().expect("nobody panics with it");
                all.hops.join(&mine.hops);
                all.wrong += mine.wrong;
            });
        }
    });
    all.into_inner().expect("all threads have ended")
}

fn walk(ring: &Ring, tables: &dyn Tables, rng: &mut Rng, walks: &mut LookupStats) {
    let tail = ring.draw(rng);
    let from = rng.below(ring.len() as u64) as usize;
    route_from(ring, tables, from, &tail, walks);
}

/// Sends one request from a member to the owner of a point.
pub fn route_from(
    ring: &Ring,
    tables: &dyn Tables,
    from: usize,
    tail: &Tail,
    walks: &mut LookupStats,
) {
    let (point, owner) = (Ring::point(tail), ring.owner(tail));
    let mut at = from;
    for hops in 0..=ring.len() {
        match tables.next(at, point) {
            Some(next) if next == at => {
                let free = usize::from(tables.is_outside());
                walks.hops.add(hops.saturating_sub(free));
                walks.wrong += u64::from(at != owner);
                return;
            }
            Some(next) => at = next,
            None => break,
        }
    }
    walks.wrong += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_tells_mean_and_percentiles() {
        let mut spread = Spread::default();
        assert_eq!((spread.mean(), spread.percentile(50), spread.max()), (0.0, 0, 0));
        for number in [0, 1, 1, 2] {
            spread.add(number);
        }
        assert_eq!((spread.mean(), spread.above_zero()), (1.0, 0.75));
        assert_eq!([25, 26, 75, 99].map(|part| spread.percentile(part)), [0, 1, 1, 2]);
        let mut other = Spread::default();
        other.add(5);
        spread.join(&other);
        assert_eq!((spread.count(), spread.max()), (5, 5));
    }
}

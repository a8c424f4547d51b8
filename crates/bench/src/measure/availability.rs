//! When a store was away: stretches in which nothing was answered well.
//!
//! A phase is cut into tenths of a second, or into seconds if fewer than `RATE_MIN` requests a
//! second are answered where any are: a tenth without an answer is then no news. What a phase did
//! before its first answer counts, what comes after its end does not.

use super::record::TENTHS;
use super::result::Row;

/// With fewer requests a second, pieces are whole seconds.
const RATE_MIN: u64 = 100;

/// What share of a phase was answered, and how long none was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Availability {
    /// Time without an answer, in seconds.
    pub dark: f64,
    /// The longest stretch of it.
    pub longest: f64,
    /// When that began, in seconds of the phase.
    pub longest_at: f64,
    /// Seconds in which something failed.
    pub failing: u64,
    /// Requests that were answered well, as a share of all; 1 without any.
    pub share: f64,
}

impl Availability {
    /// Of a phase of so many seconds.
    pub fn of(rows: &[Row], seconds: f64) -> Self {
        let is_within = |row: &&Row| (row.second as f64) < seconds;
        let mut counts: Vec<u64> =
            rows.iter().filter(|row| row.count > 0).map(|r| r.count).collect();
        counts.sort_unstable();
        let usual = counts.get(counts.len() / 2).copied().unwrap_or(0);
        let piece = if usual < RATE_MIN { 1.0 } else { 1.0 / TENTHS as f64 };
        let mut found = Self { share: 1.0, ..Self::default() };
        let mut stretch = 0.0;
        let mut look = |at: f64, is_dark: bool| {
            // The last piece is cut by the end; a sliver says nothing.
            let length = piece.min(seconds - at);
            if !is_dark || length < piece / 2.0 {
                stretch = 0.0;
                return;
            }
            stretch += length;
            found.dark += length;
            if stretch > found.longest {
                (found.longest, found.longest_at) = (stretch, at + length - stretch);
            }
        };
        let mut next = 0;
        for row in rows.iter().filter(is_within) {
            // No part reported this second: nothing was answered in it.
            for missing in next..row.second {
                pieces(piece, missing, &[0; TENTHS], &mut look);
            }
            pieces(piece, row.second, &row.tenths, &mut look);
            next = row.second + 1;
        }
        for missing in next..seconds.ceil() as u64 {
            pieces(piece, missing, &[0; TENTHS], &mut look);
        }
        found.failing = rows.iter().filter(|row| row.failures > 0).count() as u64;
        let (good, bad) = rows.iter().fold((0, 0), |(g, b), r| (g + r.count, b + r.failures));
        if good + bad > 0 {
            found.share = good as f64 / (good + bad) as f64;
        }
        found
    }
}

fn pieces(piece: f64, second: u64, tenths: &[u64; TENTHS], look: &mut impl FnMut(f64, bool)) {
    let from = second as f64;
    if piece >= 1.0 {
        look(from, tenths.iter().all(|count| *count == 0));
        return;
    }
    for (number, count) in tenths.iter().enumerate() {
        look(from + number as f64 * piece, *count == 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn row(second: u64, tenths: [u64; TENTHS], failures: u64) -> Row {
        let count = tenths.iter().sum();
        let kinds = BTreeMap::new();
        Row { second, count, failures, kinds, tenths, p50: 0, p99: 0, max: 0 }
    }

    #[test]
    fn stretches_without_an_answer_are_added_up_over_seconds() {
        let all = [50; TENTHS];
        let mut late = all;
        late[8..].fill(0);
        let mut early = all;
        early[..3].fill(0);
        early[6] = 0;
        let found = Availability::of(&[row(0, late, 0), row(1, early, 7), row(2, all, 0)], 3.0);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(found.dark, 0.6), "{found:?}");
        assert!(near(found.longest, 0.5) && near(found.longest_at, 0.8), "{found:?}");
        assert_eq!(found.failing, 1);
        assert!(found.share < 1.0 && found.share > 0.99);
    }

    #[test]
    fn seconds_that_nobody_reports_are_dark_and_few_requests_are_no_news() {
        let all = [50; TENTHS];
        let found = Availability::of(&[row(0, all, 0), row(3, all, 0)], 4.0);
        assert!((found.dark - 2.0).abs() < 1e-9 && (found.longest_at - 1.0).abs() < 1e-9);
        let mut one = [0; TENTHS];
        one[4] = 1;
        let sparse = Availability::of(&[row(0, one, 0), row(1, one, 0)], 2.0);
        assert_eq!((sparse.dark, sparse.share), (0.0, 1.0));
        let none = Availability::of(&[], 2.5);
        assert!((none.dark - 2.5).abs() < 1e-9, "{none:?}");
    }

    #[test]
    fn what_comes_after_the_end_is_not_missed() {
        let mut cut = [0; TENTHS];
        cut[..5].fill(90);
        let found = Availability::of(&[row(0, cut, 0)], 0.5);
        assert_eq!(found.dark, 0.0, "{found:?}");
    }
}

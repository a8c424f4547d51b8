//! Which numbers an axis shows, and from where to where it goes.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis, whose marks are round numbers.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    is_log: bool,
    from: f64,
    to: f64,
    marks: Vec<f64>,
}

impl Scale {
    /// An axis that reaches beyond all these numbers, with about so many marks at most.
    pub fn new(is_log: bool, numbers: impl Iterator<Item = f64>, marks_max: f64) -> Self {
        let numbers: Vec<f64> = numbers.map(|number| to_axis(is_log, number)).collect();
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Ends on marks, not on one another; a plain axis begins at 0.
        let from = if is_log { least.floor() } else { 0.0 };
        let is_empty = numbers.is_empty();
        let (from, most) = if is_empty { (0.0, 1.0) } else { (from, most) };
        let step = round_step((most - from) / marks_max);
        let step = if is_log { step.max(1.0) } else { step };
        let count = ((most - from) / step - 1e-9).ceil().max(1.0) as u32;
        let mark = |n: u32| from_axis(is_log, from + f64::from(n) * step);
        Self { is_log, from: mark(0), to: mark(count), marks: (0..=count).map(mark).collect() }
    }

    /// The same axis, but it ends at this number, which may lie between two marks.
    pub fn ending_at(mut self, to: f64) -> Self {
        self.to = to;
        self.marks.retain(|mark| *mark <= to);
        self
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, number: &f64, (begin, end): (i32, i32)) -> i32 {
        let [number, from, to] = [*number, self.from, self.to].map(|it| to_axis(self.is_log, it));
        begin + (f64::from(end - begin) * (number - from) / (to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // No lines between those of marks.
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Scale {
    /// A round number, as short as an axis has room for.
    fn format(number: &f64) -> String {
        let round = |number: f64| (number * 1e6).round() / 1e6;
        match *number {
            1e6.. => format!("{}M", round(number / 1e6)),
            1e4.. => format!("{}k", round(number / 1e3)),
            _ => round(*number).to_string(),
        }
    }
}

/// Where a number stands on an axis.
fn to_axis(is_log: bool, number: f64) -> f64 {
    if is_log { number.log10() } else { number }
}

fn from_axis(is_log: bool, place: f64) -> f64 {
    if is_log { 10f64.powf(place) } else { place }
}

/// The smallest of 1, 2, 5 and their tenfolds that is not below this one.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].into_iter().map(|step| step * power);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(is_log: bool, numbers: &[f64]) -> Vec<String> {
        Scale::new(is_log, numbers.iter().copied(), 8.0).marks.iter().map(Scale::format).collect()
    }

    #[test]
    fn marks_are_round_and_reach_beyond_all_numbers() {
        assert_eq!(
            marks(false, &[0.3, 0.31]),
            ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35"]
        );
        assert_eq!(marks(false, &[100.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(marks(false, &[0.0]), ["0", "1"]);
        assert_eq!(marks(true, &[32.0, 1000.0]), ["10", "100", "1000"]);
        assert_eq!(marks(true, &[5e3, 1e7]), ["1000", "10k", "100k", "1M", "10M"]);
        assert_eq!(marks(true, &[]), ["1", "10"]);
        assert_eq!(marks(false, &[4000.0]).len(), 9);
        assert_eq!(marks(false, &[41_000.0]).last().map(String::as_str), Some("50k"));
    }

    #[test]
    fn numbers_stand_where_their_axis_says() {
        let log = Scale::new(true, [10.0, 1000.0].into_iter(), 8.0);
        assert_eq!([10.0, 100.0, 1000.0].map(|number| log.map(&number, (0, 200))), [0, 100, 200]);
        let plain = Scale::new(false, [7.0].into_iter(), 8.0).ending_at(7.5);
        assert_eq!([0.0, 7.5].map(|number| plain.map(&number, (100, 0))), [100, 0]);
        assert_eq!(plain.marks.last(), Some(&7.0));
    }
}

//! Percentiles and medians of figures.

/// The percentile: the smallest figure that this part of all does not exceed; 0 without figures.
pub fn part(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(count.max(1) - 1).copied().unwrap_or(0.0)
}

/// The median of one figure of some runs; 0 without runs.
pub fn median<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        let of = |values: &[f64]| median(values, |value| *value);
        assert_eq!(of(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(of(&[]), 0.0);
    }

    #[test]
    fn parts_are_figures_that_were_measured() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|p| part(&figures, p)), [1.0, 50.0, 99.0, 100.0]);
        assert_eq!(part(&[7.0], 0.99), 7.0);
        assert_eq!(part(&[], 0.5), 0.0);
    }
}

//! Percentiles of sorted figures.

/// The percentile: the smallest figure that this part of all does not exceed; 0 without figures.
pub fn part(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(count.max(1) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_figures_that_were_measured() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|p| part(&figures, p)), [1.0, 50.0, 99.0, 100.0]);
        assert_eq!(part(&[7.0], 0.99), 7.0);
        assert_eq!(part(&[], 0.5), 0.0);
    }
}

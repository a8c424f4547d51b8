//! Results as one page.
use crate::measure::result::Results;
/// The page.
pub fn page(results: &Results) -> String { results.about.clone() }

//! What nodes have counted, in short: `/v1/metrics`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Family, Metrics, SilentNode};

/// What each name of a metric begins with.
const PREFIX: &str = "carillon_";

/// What a node has counted, without labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricsSummary {
    /// The node's id, in hexadecimal.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When, in milliseconds since 1970, by the node's clock.
    pub at_ms: u64,
    /// How long its process has run; it counts from 0 when it starts.
    pub uptime_ms: u64,
    /// The sum of each metric's numbers, by its name without `carillon_`.
    pub numbers: BTreeMap<String, f64>,
    /// The sum of each metric's histograms.
    pub histograms: BTreeMap<String, HistogramSummary>,
}

/// How often values fell below each of some bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistogramSummary {
    /// Rising bounds, each with how many values were at or below it.
    pub buckets: Vec<(f64, u64)>,
    /// Sum of all values.
    pub sum: f64,
    /// How many values there were.
    pub count: u64,
}

/// What `GET /v1/metrics` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeMetrics {
    /// Of each node that answered; the one that was asked is the first.
    pub nodes: Vec<MetricsSummary>,
    /// Nodes that did not answer.
    pub silent: Vec<SilentNode>,
}

impl MetricsSummary {
    /// Of a node's metrics.
    pub fn new(id: String, name: String, at_ms: u64, uptime_ms: u64, metrics: &Metrics) -> Self {
        let mut summary = Self {
            id,
            name,
            at_ms,
            uptime_ms,
            numbers: BTreeMap::new(),
            histograms: BTreeMap::new(),
        };
        for family in &metrics.families {
            match family {
                Family::Numbers { name, samples, .. } => {
                    let sum = samples.iter().map(|sample| sample.value).sum();
                    summary.numbers.insert(short(name), sum);
                }
                Family::Histograms { name, histograms, .. } => {
                    let mut sum = HistogramSummary::default();
                    for one in histograms {
                        sum.sum += one.sum;
                        sum.count += one.count;
                        if sum.buckets.is_empty() {
                            sum.buckets = one.buckets.clone();
                        } else {
                            // All of a family have the same bounds.
                            let both = sum.buckets.iter_mut().zip(&one.buckets);
                            both.for_each(|((_, all), (_, more))| *all += more);
                        }
                    }
                    summary.histograms.insert(short(name), sum);
                }
            }
        }
        summary
    }
}

fn short(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Histogram, Kind};

    #[test]
    fn labels_are_summed() {
        let mut metrics = Metrics::default();
        let labelled = [(vec![("kind", "a".to_owned())], 2.0), (vec![], 3.0)];
        metrics.numbers("carillon_x_total", "X.", Kind::Counter, labelled);
        let histogram = |below, count| Histogram {
            labels: Vec::new(),
            buckets: vec![(0.5, below), (1.0, count)],
            sum: 0.25,
            count,
        };
        metrics.histograms("carillon_y_seconds", "Y.", vec![histogram(1, 2), histogram(3, 4)]);
        let summary = MetricsSummary::new("1".into(), "n".into(), 5, 6, &metrics);
        assert_eq!(summary.numbers["x_total"], 5.0);
        let wanted = HistogramSummary { buckets: vec![(0.5, 4), (1.0, 6)], sum: 0.5, count: 6 };
        assert_eq!(summary.histograms["y_seconds"], wanted);
    }
}

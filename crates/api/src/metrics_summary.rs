//! What nodes have counted, in short: `/v1/metrics`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Family, Metrics, Sample, SilentNode};

/// What each name of a metric begins with.
const PREFIX: &str = "carillon_";
/// A node tells so many of its links; the others are left out.
const LINKS_MAX: usize = 128;

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
    /// Its links to other nodes, 128 at most; none if they were not asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSummary>,
}

/// A node's link to another, as it sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LinkSummary {
    /// The other node's id, in hexadecimal.
    pub to: String,
    /// Whether they have a connection now.
    pub connected: bool,
    /// Bytes that came over it since the node's process started.
    pub received_bytes: f64,
    /// Bytes that went over it.
    pub sent_bytes: f64,
    /// How long the last ping took; 0: none has come back.
    pub round_trip_seconds: f64,
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
            links: links(metrics),
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

/// Links, from the metrics whose label names a peer.
fn links(metrics: &Metrics) -> Vec<LinkSummary> {
    let mut links: BTreeMap<&str, LinkSummary> = BTreeMap::new();
    for family in &metrics.families {
        let Family::Numbers { name, samples, .. } = family else { continue };
        if !name.starts_with("carillon_peer_") {
            continue;
        }
        for Sample { labels, value } in samples {
            let label = |wanted: &str| {
                let found = labels.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| value.as_str())
            };
            let Some(to) = label("peer") else { continue };
            let link = links
                .entry(to)
                .or_insert_with(|| LinkSummary { to: to.to_owned(), ..Default::default() });
            match (*name, label("direction")) {
                ("carillon_peer_bytes_total", Some("received")) => link.received_bytes = *value,
                ("carillon_peer_bytes_total", _) => link.sent_bytes = *value,
                ("carillon_peer_connected", _) => link.connected = *value > 0.0,
                ("carillon_peer_round_trip_seconds", _) => link.round_trip_seconds = *value,
                // Nobody who draws links asks for the others.
                _ => {}
            }
        }
    }
    links.into_values().take(LINKS_MAX).collect()
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

    #[test]
    fn links_are_told_one_by_one_and_survive_json() {
        let mut metrics = Metrics::default();
        let of = |peer: &str| vec![("peer", peer.to_owned()), ("name", format!("node {peer}"))];
        let way = |peer: &str, direction: &str| {
            let mut labels = of(peer);
            labels.push(("direction", direction.to_owned()));
            labels
        };
        let bytes = [(way("0b", "received"), 7.0), (way("0b", "sent"), 9.0)];
        metrics.numbers("carillon_peer_bytes_total", "Bytes.", Kind::Counter, bytes);
        let connected = [(of("0c"), 0.0), (of("0b"), 1.0)];
        metrics.numbers("carillon_peer_connected", "Links.", Kind::Gauge, connected);
        let trips = [(of("0b"), 0.5)];
        metrics.numbers("carillon_peer_round_trip_seconds", "Pings.", Kind::Gauge, trips);
        let summary = MetricsSummary::new("0a".into(), "n".into(), 5, 6, &metrics);
        let linked = LinkSummary {
            to: "0b".into(),
            connected: true,
            received_bytes: 7.0,
            sent_bytes: 9.0,
            round_trip_seconds: 0.5,
        };
        let lost = LinkSummary { to: "0c".into(), ..Default::default() };
        assert_eq!(summary.links, [linked, lost]);
        let json = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<MetricsSummary>(&json).unwrap(), summary);
        // A node of the version before tells none.
        let older = r#"{"id":"1","name":"n","at_ms":5,"uptime_ms":6,"numbers":{},"histograms":{}}"#;
        assert_eq!(serde_json::from_str::<MetricsSummary>(older).unwrap().links, []);
    }

    #[test]
    fn links_are_bounded() {
        let mut metrics = Metrics::default();
        let many = (0..LINKS_MAX + 3).map(|i| (vec![("peer", format!("{i:016x}"))], 1.0));
        metrics.numbers("carillon_peer_connected", "Links.", Kind::Gauge, many);
        let summary = MetricsSummary::new("0a".into(), "n".into(), 5, 6, &metrics);
        assert_eq!(summary.links.len(), LINKS_MAX);
    }
}

//! A node's metrics as values, and as the text that Prometheus reads.
//!
//! A snapshot is built on request. Counters live in the modules that count; nothing on the hot path
//! knows this module.

use std::fmt::Write;

/// What a family's numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises while the process runs. Its name ends in `_total`.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// One number of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What tells it from the family's others: names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

/// How often values fell below each of some bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// What tells it from the family's others.
    pub labels: Vec<(&'static str, String)>,
    /// Upper bounds, rising, each with how many values were at or below it.
    pub buckets: Vec<(f64, u64)>,
    /// Sum of all values.
    pub sum: f64,
    /// How many values there were.
    pub count: u64,
}

/// Numbers of one name.
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// Single numbers.
    Numbers {
        /// Name, with its unit: `carillon_memory_used_bytes`.
        name: &'static str,
        /// What it counts, one sentence.
        help: &'static str,
        /// Counter or gauge.
        kind: Kind,
        /// The numbers.
        samples: Vec<Sample>,
    },
    /// Histograms.
    Histograms {
        /// Name, with its unit: `carillon_fsync_seconds`.
        name: &'static str,
        /// What it measures, one sentence.
        help: &'static str,
        /// The histograms.
        histograms: Vec<Histogram>,
    },
}

/// A snapshot of everything that is counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// In the order in which they are shown. No name appears twice.
    pub families: Vec<Family>,
}

impl Metrics {
    /// Adds a counter without labels.
    pub fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.numbers(name, help, Kind::Counter, [(Vec::new(), value as f64)]);
    }

    /// Adds a gauge without labels.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.numbers(name, help, Kind::Gauge, [(Vec::new(), value)]);
    }

    /// Adds a family of labelled numbers.
    pub fn numbers(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: Kind,
        samples: impl IntoIterator<Item = (Vec<(&'static str, String)>, f64)>,
    ) {
        let samples = samples.into_iter().map(|(labels, value)| Sample { labels, value }).collect();
        self.families.push(Family::Numbers { name, help, kind, samples });
    }

    /// Adds a family of histograms.
    pub fn histograms(
        &mut self,
        name: &'static str,
        help: &'static str,
        histograms: Vec<Histogram>,
    ) {
        self.families.push(Family::Histograms { name, help, histograms });
    }

    /// In Prometheus's text format 0.0.4.
    pub fn prometheus(&self) -> String {
        let mut out = String::new();
        for family in &self.families {
            match family {
                Family::Numbers { name, help, kind, samples } => {
                    let kind = match kind {
                        Kind::Counter => "counter",
                        Kind::Gauge => "gauge",
                    };
                    head(&mut out, name, help, kind);
                    for sample in samples {
                        line(&mut out, name, "", &sample.labels, None, sample.value);
                    }
                }
                Family::Histograms { name, help, histograms } => {
                    head(&mut out, name, help, "histogram");
                    for histogram in histograms {
                        histogram.write(&mut out, name);
                    }
                }
            }
        }
        out
    }
}

impl Histogram {
    fn write(&self, out: &mut String, name: &str) {
        let total = (f64::INFINITY, self.count);
        for (bound, count) in self.buckets.iter().chain([&total]) {
            line(out, name, "_bucket", &self.labels, Some(*bound), *count as f64);
        }
        line(out, name, "_sum", &self.labels, None, self.sum);
        line(out, name, "_count", &self.labels, None, self.count as f64);
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    let _infallible = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: &[(&'static str, String)],
    bound: Option<f64>,
    value: f64,
) {
    out.push_str(name);
    out.push_str(suffix);
    let bound = bound.map(|bound| ("le", number(bound)));
    let mut open = '{';
    for (name, value) in labels.iter().chain(bound.as_ref()) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _infallible = write!(out, "{open}{name}=\"{value}\"");
        open = ',';
    }
    if open == ',' {
        out.push('}');
    }
    let _infallible = writeln!(out, " {}", number(value));
}

fn number(value: f64) -> String {
    if value == f64::INFINITY { "+Inf".into() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_prometheus_reads() {
        let mut metrics = Metrics::default();
        metrics.counter("carillon_commands_total", "Commands done.", 1 << 53);
        metrics.numbers(
            "carillon_keys",
            "Keys.",
            Kind::Gauge,
            [(vec![("keyspace", "a\"\\\n".to_owned()), ("x", String::new())], 2.5)],
        );
        metrics.histograms(
            "carillon_fsync_seconds",
            "Time of an fsync.",
            vec![Histogram {
                labels: vec![("disk", "0".into())],
                buckets: vec![(0.001, 3), (0.01, 4)],
                sum: 0.5,
                count: 5,
            }],
        );
        let expected = r#"# HELP carillon_commands_total Commands done.
# TYPE carillon_commands_total counter
carillon_commands_total 9007199254740992
# HELP carillon_keys Keys.
# TYPE carillon_keys gauge
carillon_keys{keyspace="a\"\\\n",x=""} 2.5
# HELP carillon_fsync_seconds Time of an fsync.
# TYPE carillon_fsync_seconds histogram
carillon_fsync_seconds_bucket{disk="0",le="0.001"} 3
carillon_fsync_seconds_bucket{disk="0",le="0.01"} 4
carillon_fsync_seconds_bucket{disk="0",le="+Inf"} 5
carillon_fsync_seconds_sum{disk="0"} 0.5
carillon_fsync_seconds_count{disk="0"} 5
"#;
        assert_eq!(metrics.prometheus(), expected);
    }
}

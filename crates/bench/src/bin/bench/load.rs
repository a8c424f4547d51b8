//! One run of redis-benchmark: what it printed, and the processor time it cost the server.

use std::process::Command;
use std::str::FromStr;

use serde::Serialize;

use crate::server::Server;
use crate::{Outcome, machine};

/// Connections of every run.
pub const CONNECTIONS: usize = 50;
/// Bytes of every value.
pub const VALUE_BYTES: usize = 100;
/// Random keys are drawn from so many.
pub const KEYS: usize = 1_000_000;

/// What one run measured. Latencies are of requests as the load generator sees them: with a
/// pipeline, of the whole pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Requests per second.
    pub rate: f64,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile in milliseconds.
    pub p99_ms: f64,
    /// Processor time of the server per request, all its threads, in microseconds.
    pub cpu_us: f64,
}

/// Runs `requests` GETs or SETs against a server. Whatever the server does meanwhile counts as
/// theirs.
pub fn run(
    server: &Server,
    test: &str,
    pipeline: usize,
    requests: usize,
    threads: usize,
) -> Outcome<Run> {
    let mut command = Command::new("redis-benchmark");
    command.args(["--csv", "-t", test]);
    let numbers = [
        ("-p", usize::from(server.port)),
        ("-c", CONNECTIONS),
        ("-d", VALUE_BYTES),
        ("-r", KEYS),
        ("-P", pipeline),
        ("-n", requests),
    ];
    for (flag, number) in numbers {
        command.arg(flag).arg(number.to_string());
    }
    // Its threaded mode counts in steps of a quarter of a second, so it is not for one thread.
    if threads > 1 {
        command.args(["--threads", &threads.to_string()]);
    }
    let before_seconds = machine::cpu_seconds(server.pid())?;
    let output = command.output()?;
    let cpu_seconds = machine::cpu_seconds(server.pid())? - before_seconds;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("redis-benchmark {test}: {}: {error}", output.status).into());
    }
    let cpu_us = cpu_seconds * 1e6 / requests as f64;
    parse(&text, cpu_us).ok_or_else(|| format!("redis-benchmark printed {text}").into())
}

/// Reads the figures by the names of their columns, and adds the one that is not among them.
pub fn parse(csv: &str, cpu_us: f64) -> Option<Run> {
    let get = |name| column(csv, name);
    Some(Run {
        rate: get("rps")?,
        p50_ms: get("p50_latency_ms")?,
        p99_ms: get("p99_latency_ms")?,
        cpu_us,
    })
}

/// The figure below a name, of two lines of names and figures.
pub fn column<T: FromStr>(csv: &str, name: &str) -> Option<T> {
    let mut rows = csv.lines().filter(|line| line.starts_with('"'));
    let mut cells = || Some(rows.next()?.split(',').map(|cell| cell.trim_matches('"')));
    let (mut names, mut figures) = (cells()?, cells()?);
    figures.nth(names.position(|each| each == name)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_redis_benchmark_prints() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                   \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"SET\",\"83333.34\",\"0.316\",\"0.088\",\"0.303\",\"0.463\",\
                   \"0.719\",\"1.9\"\n";
        let run = parse(csv, 9.5).unwrap();
        assert_eq!(run, Run { rate: 83333.34, p50_ms: 0.303, p99_ms: 0.719, cpu_us: 9.5 });
        assert_eq!(parse("Could not connect", 9.5), None);
    }
}

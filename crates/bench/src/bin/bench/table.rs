//! The results as Markdown.

use std::fmt::Write;

use crate::Options;
use crate::load::Run;
use crate::machine::Machine;
use crate::memory::{Size, Sizes};
use crate::rates::{ModeRates, median};

/// Everything, ready for docs/performance.md.
pub fn render(
    machine: &Machine,
    options: &Options,
    rates: &[ModeRates],
    sizes: Option<&Sizes>,
) -> String {
    let mut out = format!("{}\n\n", machine.line());
    let _ = writeln!(
        out,
        "redis-benchmark, 50 connections, 100-byte values, 1 M random keys; medians of {} \
         alternating rounds. k/s: thousands of requests per second; ratio: Carillon ÷ Redis. \
         µs: processor time of the server per request, all its threads, user and system, polling \
         included; ratio: Redis ÷ Carillon. Both ratios are above 1 where Carillon is better. \
         Latencies in ms, of a whole pipeline.\n",
        options.rounds
    );
    out += "| mode | command | pipeline | Redis k/s | Carillon k/s | ratio \
            | Redis µs | Carillon µs | ratio | Redis p50 / p99 | Carillon p50 / p99 |\n\
            |---|---|---|---|---|---|---|---|---|---|---|\n";
    for mode in rates {
        for pair in &mode.pairs {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {:.0} | {:.0} | **{:.2}** | {:.2} | {:.2} | {} | {} | {} |",
                mode.mode.durability(),
                pair.test.to_uppercase(),
                pair.pipeline,
                median(&pair.redis, |run| run.rate) / 1000.0,
                median(&pair.carillon, |run| run.rate) / 1000.0,
                pair.ratio(),
                median(&pair.redis, |run| run.cpu_us),
                median(&pair.carillon, |run| run.cpu_us),
                pair.cpu_ratio().map_or_else(|| "–".into(), |ratio| format!("**{ratio:.2}**")),
                latencies(&pair.redis),
                latencies(&pair.carillon),
            );
        }
    }
    let fsyncs: Vec<String> = rates
        .iter()
        .map(|mode| format!("{} {:.0}", mode.mode.durability(), mode.fsyncs_per_second))
        .collect();
    let _ = writeln!(out, "\nfsyncs per second before each mode: {}.", fsyncs.join(", "));
    if let Some(sizes) = sizes {
        out += &render_sizes(sizes);
    }
    out
}

/// One figure of a server.
type Figure = fn(&Size) -> f64;

fn latencies(runs: &[Run]) -> String {
    format!("{:.2} / {:.2}", median(runs, |run| run.p50_ms), median(runs, |run| run.p99_ms))
}

fn render_sizes(sizes: &Sizes) -> String {
    let live_mib = mib(sizes.live_bytes);
    let mut out = format!(
        "\n{} keys of 16 bytes with values of 100 bytes ({live_mib:.0} MiB of live data):\n\n\
         | | Redis | Carillon | ratio |\n|---|---|---|---|\n",
        sizes.keys
    );
    let rows: [(&str, Figure); 8] = [
        ("memory with the data, MiB", |s| mib(s.rss_bytes)),
        ("memory after a restart, MiB", |s| mib(s.rss_after_restart_bytes)),
        ("files on disk, MiB", |s| mib(s.disk_bytes)),
        ("ready after a stop, s", |s| s.ready_seconds),
        ("ready after kill -9, s", |s| s.ready_after_kill_seconds),
        ("filling, k keys/s", |s| s.fill_rate / 1000.0),
        ("idle memory, MiB", |s| mib(s.idle_rss_bytes)),
        ("idle processor, % of a core", |s| s.idle_cpu_percent),
    ];
    for (title, figure) in rows {
        let (redis, carillon) = (figure(&sizes.redis), figure(&sizes.carillon));
        let ratio = if redis > 0.0 { format!("{:.2}", carillon / redis) } else { "–".into() };
        let _ = writeln!(out, "| {title} | {redis:.2} | {carillon:.2} | {ratio} |");
    }
    out
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

//! Results as one page of HTML: tables, charts, and the raw figures behind them. Pure.
//!
//! The page holds everything: styles, charts as SVG, and a script that chooses which runs are shown
//! and says a chart's figures under the pointer. It asks the network for nothing, so it can be
//! mailed and opened years later. Without the script everything is shown.

mod charts;

use std::fmt::Write as _;

use crate::measure::record::from_pairs;
use crate::measure::result::{Figure, PhaseResult, Results, Row, RunFile, shown, shown_time};
use crate::scenario::Metric;
use crate::scenario::plan::label;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The page that [`crate::live`] serves.
pub fn live_page() -> String {
    include_str!("live.html").replacen("STYLE\n", STYLE, 1)
}

/// Text as HTML holds it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

/// The page.
pub fn page(results: &Results) -> String {
    let title = escaped(&results.origin.scenario);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    // Writing to a string does not fail.
    let _infallible = body(results, &mut out);
    out.push_str(&format!("<script>\n{SCRIPT}</script>\n</body>\n</html>\n"));
    out
}

fn body(results: &Results, out: &mut String) -> std::fmt::Result {
    writeln!(out, "<p>{}</p>", escaped(&results.about))?;
    if !results.is_complete() {
        let whole = results.runs.iter().filter(|run| run.failure.is_none()).count();
        let planned = results.planned;
        writeln!(out, "<p class=\"bad\">Not complete: {whole} of {planned} runs.</p>")?;
    }
    verdicts(results, out)?;
    summary(results, out)?;
    for chart in charts::of_parameters(results) {
        writeln!(out, "<figure>{chart}</figure>")?;
    }
    writeln!(out, "<h2>Runs</h2>\n<p><label>Show <select id=\"runs\"></select></label></p>")?;
    for run in &results.runs {
        section(run, out)?;
    }
    origin(results, out)
}

fn verdicts(results: &Results, out: &mut String) -> std::fmt::Result {
    let all = results.runs.iter().flat_map(|run| run.verdicts.iter().map(move |v| (run, v)));
    let all: Vec<_> = all.collect();
    if all.is_empty() {
        return Ok(());
    }
    let missed: Vec<_> = all.iter().filter(|(_, verdict)| !verdict.is_met).collect();
    if missed.is_empty() {
        return writeln!(out, "<p class=\"good\">Passed: all {} criteria.</p>", all.len());
    }
    writeln!(out, "<p class=\"bad\">Failed: {} of {} criteria.</p><ul>", missed.len(), all.len())?;
    for (run, verdict) in missed {
        writeln!(out, "<li>{}: {}</li>", escaped(&title(run)), escaped(&verdict.text))?;
    }
    writeln!(out, "</ul>")
}

/// The charts of the page as pictures of their own: names for files, and SVG.
pub fn pictures(results: &Results) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (number, chart) in (1..).zip(charts::of_parameters(results)) {
        all.push((format!("parameters-{number}.svg"), chart));
    }
    for run in &results.runs {
        let phases = run.phases.iter().enumerate().filter(|(_, phase)| phase.is_measured);
        for (number, phase) in phases {
            // Names of phases hold whatever people like: files have numbers.
            let stem = format!("run-{:03}-{}-phase-{number}", run.cell, run.repetition);
            for (kind, chart) in [
                ("seconds", charts::series(phase)),
                ("percentiles", charts::percentiles(phase)),
                ("resources", charts::resources(phase)),
                ("messages", charts::messages(phase)),
            ] {
                if !chart.is_empty() {
                    all.push((format!("{stem}-{kind}.svg"), chart));
                }
            }
        }
    }
    all
}

const COLUMNS: [Metric; 6] =
    [Metric::Throughput, Metric::P50, Metric::P99, Metric::P999, Metric::Max, Metric::Failures];

/// A table of medians, with their intervals where there are repetitions.
fn summary(results: &Results, out: &mut String) -> std::fmt::Result {
    writeln!(out, "<h2>Medians</h2>\n<table>\n<tr><th>cell</th><th>phase</th><th>operation</th>")?;
    for metric in COLUMNS {
        writeln!(out, "<th class=\"n\">{}</th>", metric.name())?;
    }
    writeln!(out, "</tr>")?;
    let rows = results.figures.chunk_by(|one, two| {
        one.parameters == two.parameters && one.phase == two.phase && one.entry == two.entry
    });
    for row in rows {
        let first = &row[0];
        let (cell, phase) = (escaped(&label(&first.parameters)), escaped(&first.phase));
        let entry = escaped(first.entry.as_deref().unwrap_or("all"));
        write!(out, "<tr><td>{cell}</td><td>{phase}</td><td>{entry}</td>")?;
        for metric in COLUMNS {
            let found = row.iter().find(|figure| figure.metric == metric.name());
            let cell = found.map_or_else(String::new, |figure| median(metric, figure));
            write!(out, "<td class=\"n\">{cell}</td>")?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</table>")?;
    let repetitions = results.figures.iter().map(|figure| figure.median.count).max();
    let cover = results.figures.iter().map(|figure| figure.median.cover).fold(0.0, f64::max);
    match repetitions {
        Some(count) if count > 1 => writeln!(
            out,
            "<p class=\"small\">Of {count} runs each. Below a median: the interval that holds the \
             true one with a probability of {:.1} %.</p>",
            cover * 100.0
        ),
        _ => writeln!(out, "<p class=\"small\">Of one run each: no intervals.</p>"),
    }
}

fn median(metric: Metric, figure: &Figure) -> String {
    let median = &figure.median;
    let value = shown(metric, median.value);
    match median.count > 1 && median.low < median.high {
        true => {
            let (low, high) = (shown(metric, median.low), shown(metric, median.high));
            format!("{value}<br><small>{low} … {high}</small>")
        }
        false => value,
    }
}

fn title(run: &RunFile) -> String {
    let cell = label(&run.parameters);
    let repetition = format!("run {}", run.repetition + 1);
    if cell.is_empty() { repetition } else { format!("{cell}, {repetition}") }
}

fn section(run: &RunFile, out: &mut String) -> std::fmt::Result {
    let title = escaped(&title(run));
    writeln!(out, "<section class=\"run\" data-title=\"{title}\">\n<h3>{title}</h3>")?;
    if let Some(why) = &run.failure {
        writeln!(out, "<p class=\"bad\">Ended early: {}</p>", escaped(why))?;
    }
    for phase in run.phases.iter().filter(|phase| phase.is_measured) {
        writeln!(out, "<h4>{}</h4>", escaped(&phase.name))?;
        table(phase, out)?;
        happened(phase, out)?;
        writeln!(out, "<figure {}>{}</figure>", rows(phase), charts::series(phase))?;
        for chart in [charts::percentiles(phase), charts::resources(phase), charts::messages(phase)]
        {
            if !chart.is_empty() {
                writeln!(out, "<figure>{chart}</figure>")?;
            }
        }
        used(phase, out)?;
    }
    writeln!(out, "</section>")
}

fn table(phase: &PhaseResult, out: &mut String) -> std::fmt::Result {
    writeln!(out, "<table>\n<tr><th>operation</th>")?;
    for metric in COLUMNS {
        writeln!(out, "<th class=\"n\">{}</th>", metric.name())?;
    }
    writeln!(out, "<th>failures by kind</th></tr>")?;
    for data in &phase.data.entries {
        write!(out, "<tr><td>{}</td>", escaped(&data.name))?;
        for metric in COLUMNS {
            let value = shown(metric, phase.metric(metric, Some(&data.name)));
            write!(out, "<td class=\"n\">{value}</td>")?;
        }
        let kinds = data.failures.iter().map(|(kind, count)| format!("{count} × {kind}"));
        let kinds = escaped(&kinds.collect::<Vec<_>>().join(", "));
        writeln!(out, "<td>{kinds}</td></tr>")?;
    }
    writeln!(out, "</table>\n<p class=\"small\">{}</p>", escaped(&notes(phase)))
}

/// The rows behind a chart of seconds, for the script that says them under the pointer.
fn rows(phase: &PhaseResult) -> String {
    let row = |row: &Row| {
        let kinds: Vec<String> =
            row.kinds.iter().map(|(kind, n)| format!("{n} × {kind}")).collect();
        serde_json::json!([row.second, row.count, kinds.join(", "), row.p50, row.p99])
    };
    let rows: Vec<serde_json::Value> = phase.series.iter().map(row).collect();
    let rows = escaped(&serde_json::Value::from(rows).to_string());
    format!("data-end=\"{}\" data-rows=\"{rows}\"", phase.seconds.max(1.0))
}

/// What the timeline did, and what clients saw of it.
fn happened(phase: &PhaseResult, out: &mut String) -> std::fmt::Result {
    let found = phase.availability();
    if phase.marks.is_empty() && found.dark == 0.0 && found.failing == 0 {
        return Ok(());
    }
    writeln!(out, "<p>{}</p>", escaped(&availability(phase)))?;
    if phase.marks.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<table>\n<tr><th class=\"n\">at</th><th>what</th><th class=\"n\">took</th></tr>"
    )?;
    for mark in &phase.marks {
        let took = mark.took.map_or("not ended".to_owned(), |took| format!("{took:.2} s"));
        let why = mark.failure.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let mut name = escaped(&format!("{}{why}", mark.name));
        if !mark.output.is_empty() {
            write!(name, "<pre>{}</pre>", escaped(&mark.output))?;
        }
        let at = mark.at;
        writeln!(
            out,
            "<tr><td class=\"n\">{at:.1} s</td><td>{name}</td><td class=\"n\">{took}</td></tr>"
        )?;
    }
    writeln!(out, "</table>")
}

/// How available the target was, in a sentence.
pub fn availability(phase: &PhaseResult) -> String {
    let found = phase.availability();
    let mut text = format!("{:.3} % answered well", found.share * 100.0);
    // Writing to a string does not fail.
    let _infallible = match found.dark > 0.0 {
        true => write!(
            text,
            "; nothing was answered for {:.1} s, {:.1} s of that from {:.1} s on",
            found.dark, found.longest, found.longest_at
        ),
        false => write!(text, "; something was answered all the time"),
    };
    if found.failing > 0 {
        let _infallible = write!(text, "; requests failed in {} seconds", found.failing);
    }
    text
}

/// What processes, networks and messages cost.
fn used(phase: &PhaseResult, out: &mut String) -> std::fmt::Result {
    let usage = &phase.usage;
    let head = |out: &mut String, first: &str, names: &[&str]| {
        let names: String = names.iter().map(|n| format!("<th class=\"n\">{n}</th>")).collect();
        writeln!(out, "<table>\n<tr><th>{first}</th>{names}</tr>")
    };
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let row = |out: &mut String, name: &str, values: &[String]| {
        let cells: String = values.iter().map(|v| format!("<td class=\"n\">{v}</td>")).collect();
        writeln!(out, "<tr><td>{}</td>{cells}</tr>", escaped(name))
    };
    let answered = phase.data.entries.iter().map(|data| data.count).sum::<u64>().max(1);
    if !usage.processes.is_empty() {
        head(
            out,
            "process",
            &[
                "processors",
                "memory at most, MiB",
                "from disks, MiB/s",
                "to disks, MiB/s",
                "voluntary switches/s",
                "involuntary",
                "files, MiB",
                "µs a request",
            ],
        )?;
        for one in &usage.processes {
            row(
                out,
                &one.name,
                &[
                    format!("{:.2}", one.mean(|row| row.cpu)),
                    format!("{:.0}", mib(one.rss_max() as f64)),
                    format!("{:.2}", mib(one.mean(|row| row.read))),
                    format!("{:.2}", mib(one.mean(|row| row.written))),
                    format!("{:.0}", one.mean(|row| row.voluntary)),
                    format!("{:.0}", one.mean(|row| row.involuntary)),
                    format!("{:.1}", mib(one.rows.last().map_or(0, |row| row.files) as f64)),
                    format!("{:.2}", 1e6 * one.cpu / answered as f64),
                ],
            )?;
        }
        writeln!(out, "</table>")?;
    }
    if !usage.networks.is_empty() {
        let names = ["received, MiB/s", "sent, MiB/s", "TCP segments/s", "sent again/s"];
        head(out, "network", &names)?;
        for one in &usage.networks {
            row(
                out,
                &one.name,
                &[
                    format!("{:.2}", mib(one.mean(|row| row.received))),
                    format!("{:.2}", mib(one.mean(|row| row.sent))),
                    format!("{:.0}", one.mean(|row| row.segments)),
                    format!("{:.2}", one.mean(|row| row.resent)),
                ],
            )?;
        }
        writeln!(out, "</table>")?;
    }
    if !usage.messages.is_empty() {
        head(out, "messages between nodes", &["in the phase", "for each request"])?;
        for one in &usage.messages {
            let each = one.total / answered as f64;
            row(out, &one.kind, &[format!("{:.0}", one.total), format!("{each:.3}")])?;
        }
        writeln!(out, "</table>")?;
    }
    Ok(())
}

/// How the load was made, and what that cost.
pub fn notes(phase: &PhaseResult) -> String {
    let mut notes = match phase.rate {
        Some((from, to)) if from != to => format!("open loop, {from:.0}/s to {to:.0}/s"),
        Some((rate, _)) => format!("open loop, {rate:.0}/s"),
        None => "closed loop".to_owned(),
    };
    let (clients, pipeline) = (phase.clients, phase.pipeline);
    write!(notes, "; {clients} clients, pipeline {pipeline}").expect("a string takes all");
    let cpu = 100.0 * phase.data.instrument_cpu / phase.seconds;
    write!(notes, "; instrument {cpu:.0} % of a core").expect("a string takes all");
    let answered = phase.latencies(None).len();
    if answered > 0 {
        let each = shown_time(1e9 * phase.data.instrument_cpu / answered as f64);
        write!(notes, ", {each} a request").expect("a string takes all");
    }
    let lag = from_pairs(&phase.data.lag);
    if !lag.is_empty() {
        let p99 = shown_time(lag.value_at_quantile(0.99) as f64);
        write!(notes, ", sends late by {p99} (p99)").expect("a string takes all");
    }
    for used in &phase.processes {
        let (name, mib) = (&used.name, used.rss_bytes >> 20);
        let cpu = 100.0 * used.cpu / phase.seconds;
        write!(notes, "; {name}: {cpu:.0} % of a core, {mib} MiB").expect("a string takes all");
    }
    if phase.data.reconnects > 0 {
        write!(notes, "; {} reconnects", phase.data.reconnects).expect("a string takes all");
    }
    if phase.data.redirects > 0 {
        write!(notes, "; {} redirects", phase.data.redirects).expect("a string takes all");
    }
    if phase.data.retries > 0 {
        let done = phase.data.entries.iter().map(|entry| entry.count).sum::<u64>();
        let retries = phase.data.retries;
        let share = 100.0 * retries as f64 / (retries + done) as f64;
        write!(notes, "; {retries} transfers began again ({share:.2} % of attempts)")
            .expect("a string takes all");
    }
    notes
}

fn origin(results: &Results, out: &mut String) -> std::fmt::Result {
    let origin = &results.origin;
    writeln!(out, "<h2>Where this comes from</h2>\n<table>")?;
    let rows = [
        ("machine", origin.machine.line()),
        ("version", origin.version.clone()),
        ("checksum of the program", origin.build.clone()),
        ("command", origin.command.clone()),
        ("agents", origin.agents.join(", ")),
        ("target", origin.target.clone()),
        ("scenario's checksum", origin.checksum.clone()),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "<tr><th>{name}</th><td>{}</td></tr>", escaped(value))?;
    }
    writeln!(out, "</table>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::compare::tests::results;
    use crate::measure::usage::Mark;

    #[test]
    fn a_page_holds_everything_and_asks_for_nothing() {
        let mut results = results(1, 3, 1.0, 0.1);
        results.about = "less < more & \"more\"".to_owned();
        let page = page(&results);
        assert!(page.contains("less &lt; more &amp; &quot;more&quot;"));
        assert_eq!(page.matches("<section").count(), 3);
        assert!(page.matches("<svg").count() >= 6, "a series and percentiles of each run");
        // Names of XML are no requests.
        let rest = page.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:", "https:", "//cdn", " src=", "href=", "@import", "url("] {
            assert!(!rest.contains(word), "{word}");
        }
        let pictures = pictures(&results);
        let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"run-000-2-phase-0-seconds.svg"), "{names:?}");
        for (name, picture) in &pictures {
            assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{name}");
            assert!(page.contains(picture.as_str()), "{name} is in the page");
        }
        assert!(!page.contains("NaN"), "{page}");
    }

    #[test]
    fn a_result_that_lacks_runs_says_so() {
        let mut results = results(1, 2, 1.0, 0.1);
        assert!(!page(&results).contains("Not complete"));
        results.planned = 5;
        assert!(page(&results).contains("Not complete: 2 of 5 runs."));
        results.planned = 2;
        let evil = || "\"><script>alert(1)</script>".to_owned();
        let run = &mut results.runs[1];
        run.failure = Some(evil());
        run.parameters = vec![(evil(), evil())];
        run.phases[0].name = evil();
        run.phases[0].data.entries[0].name = evil();
        run.phases[0].data.entries[0].failures.insert(evil(), 1);
        let mark =
            Mark { at: 0.1, name: evil(), took: None, failure: Some(evil()), output: evil() };
        run.phases[0].marks.push(mark);
        results.figures[0].phase = evil();
        results.figures[0].entry = Some(evil());
        results.origin.command = evil();
        results.about = evil();
        let page = page(&results);
        assert!(page.contains("Not complete: 1 of 2 runs."), "one that ended early is not whole");
        assert!(!page.contains("<script>alert"), "no text of a run is a script");
    }
}

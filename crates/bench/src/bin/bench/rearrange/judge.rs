//! Derives figures from a timeline, beside their targets.

use std::time::Duration;

use super::live_cluster::RunRecord;
use super::load::Recovery;
use super::scenarios::Scenario;
use super::svg::Limits;
use super::timeline::{ClientsSecond, Figure, NodeSecond, Second};

/// Of the load alone, what must be answered in every second.
const THROUGHPUT_MIN: f64 = 0.7;
/// σ ÷ mean of bytes per node, at most.
const UNEVEN_MAX: f64 = 0.1;
/// How far from what was configured a node's rate may be.
const RATE_OFF_MAX: f64 = 0.2;
/// What is left of states is known about: this much may be nothing.
const UNSENT_MIN: u64 = 2 << 20;
/// How long a drain may take, in parts of bytes ÷ rate.
const DRAIN_MAX: f64 = 1.1;
/// How long a client may wait when a node is lost.
pub const SILENCE_MAX_S: f64 = 1.5;
/// After so long a node without a majority serves no client: leases have ended.
const LEASES_S: f64 = 2.0;
/// Above this a second was disturbed: cores that the host took away.
const HOST_TAKEN: f64 = 0.15;
/// Likewise, for how long the machine stalled.
const STALLED_MS: f64 = 100.0;
/// The figure of the load alone.
const ALONE: &str = "load alone";
const MIB: f64 = 1_048_576.0;

/// From when until when, in seconds since the load began.
type Window = (f64, f64);

/// The whole seconds within a window.
fn within(seen: &RunRecord, (from, until): Window) -> impl Iterator<Item = &Second> {
    let is_in = move |second: &&Second| {
        second.at_s as f64 >= from && second.at_s as f64 + 1.0 <= until.max(from + 1.0)
    };
    seen.seconds.iter().filter(is_in)
}

/// The seconds that a window touches.
fn touching(seen: &RunRecord, (from, until): Window) -> impl Iterator<Item = &Second> {
    let is_in =
        move |second: &&Second| second.at_s as f64 + 1.0 > from && (second.at_s as f64) < until;
    seen.seconds.iter().filter(is_in)
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// σ ÷ mean.
fn unevenness(figures: &[f64]) -> f64 {
    let mean_of_all = mean(figures.iter().copied());
    let squares = mean(figures.iter().map(|one| (one - mean_of_all).powi(2)));
    if mean_of_all > 0.0 { squares.sqrt() / mean_of_all } else { 0.0 }
}

fn answered_alone(seen: &RunRecord, alone: Window) -> f64 {
    mean(within(seen, alone).map(|second| second.answered as f64))
}

fn lowest<'a>(seconds: impl Iterator<Item = &'a Second>) -> Option<&'a Second> {
    seconds.min_by_key(|second| second.answered)
}

fn is_disturbed(second: &Second) -> bool {
    second.host_taken > HOST_TAKEN || second.machine_stalled_ms > STALLED_MS
}

/// What the load is before anything happens, and how much it scatters by itself.
pub fn load_alone(seen: &RunRecord, alone: Window) -> Vec<Figure> {
    let answered = answered_alone(seen, alone);
    let processor = |second: &Second| second.nodes.iter().map(|node| node.processor).sum();
    let cores = mean(within(seen, alone).map(processor));
    let least = lowest(within(seen, alone)).map_or(0.0, |second| second.answered as f64);
    let host = mean(seen.seconds.iter().map(|second| second.host_taken));
    let most = seen.seconds.iter().map(|second| second.host_taken).fold(0.0, f64::max);
    vec![
        Figure::told(ALONE, answered, "requests/s")
            .noted(format!("all nodes use {cores:.2} cores")),
        Figure::told("load alone, its lowest second ÷ mean", least / answered.max(1.0), ""),
        Figure::told("the host took away", host, "cores").noted(format!("{most:.2} in a second")),
    ]
}

/// The lowest second of a window beside the load alone. Seconds in which the machine itself was
/// disturbed count; how low the others are stands beside it.
pub fn lowest_second(seen: &RunRecord, what: &str, alone: Window, window: Window) -> Figure {
    let answered = answered_alone(seen, alone).max(1.0);
    let part = |second: &Second| second.answered as f64 / answered;
    let all = lowest(touching(seen, window));
    let calm = lowest(touching(seen, window).filter(|second| !is_disturbed(second)));
    let (value, at_s) = all.map_or((0.0, 0), |second| (part(second), second.at_s));
    let disturbed = touching(seen, window).filter(|second| is_disturbed(second)).count();
    let calm = calm.map_or(0.0, part);
    let seconds = touching(seen, window).count();
    Figure::told(format!("{what}: lowest second ÷ load alone"), value, "").noted(format!(
        "second {at_s}, of {seconds}; {calm:.2} without the {disturbed} in which the machine was \
         disturbed"
    ))
}

/// As [`lowest_second`], and it must be as high as it must be when nodes join.
pub fn throughput(seen: &RunRecord, what: &str, alone: Window, window: Window) -> Figure {
    let lowest = lowest_second(seen, what, alone, window);
    let judged = Figure::at_least(lowest.what.clone(), lowest.value, "", THROUGHPUT_MIN);
    judged.noted(lowest.note)
}

/// What must not be passed in a picture of these figures.
pub fn limits(figures: &[Figure], play: Scenario) -> Limits {
    let alone = figures.iter().find(|figure| figure.what == ALONE);
    match play {
        Scenario::Join => {
            let answered = alone.map(|figure| figure.value * THROUGHPUT_MIN);
            Limits { answered, wait_ms: None }
        }
        Scenario::Drain => Limits::default(),
        _ => Limits { answered: None, wait_ms: Some(SILENCE_MAX_S * 1e3) },
    }
}

/// How even the nodes are at the end, but for those that were drained.
pub fn evenness(seen: &RunRecord, drained: &[usize]) -> Vec<Figure> {
    let known = seen.seconds.iter().rev().find(|second| !second.nodes.is_empty());
    let Some(last) = known else { return Vec::new() };
    let of = |figure: fn(&NodeSecond) -> u64| -> Vec<f64> {
        let nodes = last.nodes.iter().filter(|node| !drained.contains(&node.node));
        nodes.map(|node| figure(node) as f64).collect()
    };
    let (bytes, replicas, leaders) = (of(|n| n.bytes), of(|n| n.replicas), of(|n| n.leaders));
    let shown = |all: &[f64], unit: f64| {
        let all: Vec<String> = all.iter().map(|one| format!("{:.0}", one / unit)).collect();
        all.join(", ")
    };
    vec![
        Figure::at_most("settled: σ ÷ mean of bytes per node", unevenness(&bytes), "", UNEVEN_MAX)
            .noted(format!("{} MiB", shown(&bytes, MIB))),
        Figure::told("settled: σ ÷ mean of replicas per node", unevenness(&replicas), "")
            .noted(shown(&replicas, 1.0)),
        Figure::told("settled: σ ÷ mean of leaders per node", unevenness(&leaders), "")
            .noted(shown(&leaders, 1.0)),
    ]
}

/// What nodes sent in seconds in which they had something to send at both ends. A state that has
/// left, and is not installed yet, is none.
pub fn rate(seen: &RunRecord) -> Vec<Figure> {
    let mut full = Vec::new();
    let mut most: f64 = 0.0;
    for pair in seen.seconds.windows(2) {
        for node in &pair[1].nodes {
            // If it was not seen before, it is not known in which second it sent them.
            let before = pair[0].nodes.iter().find(|before| before.node == node.node);
            let Some(before) = before else { continue };
            most = most.max(node.sent_bytes as f64);
            if [before.unsent_bytes, node.unsent_bytes].iter().all(|left| *left > UNSENT_MIN) {
                full.push(node.sent_bytes as f64);
            }
        }
    }
    let configured = seen.setup.snapshot_rate as f64;
    let total = seen.seconds.iter().map(|second| second.moved_bytes as f64).sum::<f64>();
    vec![
        Figure::told("moved", total / MIB, "MiB"),
        Figure::at_most(
            "fastest second of a node ÷ snapshot_rate",
            most / configured,
            "",
            1.0 + RATE_OFF_MAX,
        ),
        Figure::told(
            "mean of a node's seconds with something to send ÷ snapshot_rate",
            mean(full.iter().copied()) / configured,
            "",
        )
        .noted(format!("{} seconds", full.len())),
    ]
}

/// How long a drain took.
pub fn drain(seen: &RunRecord, bytes: u64, took_s: f64) -> Figure {
    let at_rate = bytes as f64 / seen.setup.snapshot_rate as f64;
    Figure::at_most("drained in", took_s, "s", at_rate * DRAIN_MAX).noted(format!(
        "{:.0} MiB, which is {at_rate:.1} s at the rate of one node",
        bytes as f64 / MIB
    ))
}

/// What clients of some nodes saw in the seconds that a window touches; of all, if none is named.
fn of_clients<'a>(
    seen: &'a RunRecord,
    window: Window,
    nodes: &'a [usize],
) -> impl Iterator<Item = &'a ClientsSecond> {
    let is_meant = |one: &&ClientsSecond| nodes.is_empty() || nodes.contains(&one.node);
    touching(seen, window).flat_map(|second| &second.clients).filter(is_meant)
}

fn longest_s(seen: &RunRecord, window: Window, nodes: &[usize]) -> f64 {
    of_clients(seen, window, nodes).map(|one| one.longest_wait_ms).fold(0.0, f64::max) / 1e3
}

/// A wait from some time on, and how long it may be; what the machine could not do comes on top.
fn wait(seen: &RunRecord, what: String, from: f64, wait_s: f64, most_s: f64) -> Figure {
    let since = Duration::from_secs_f64(from);
    let until = since + Duration::from_secs_f64(wait_s.max(0.0));
    let allowance = seen.stalls.allowance(since, until);
    let most_s = most_s + allowance.as_secs_f64();
    Figure::at_most(what, wait_s, "s", most_s).noted(match allowance.as_millis() {
        0 => String::new(),
        ms => format!("{ms} ms of the limit are the machine's own stalls"),
    })
}

/// The longest wait of clients of some nodes, or of all, in a window.
pub fn waits(seen: &RunRecord, what: &str, window: Window, nodes: &[usize], most_s: f64) -> Figure {
    let longest = longest_s(seen, window, nodes);
    wait(seen, format!("{what}: longest wait of a client"), window.0, longest, most_s)
}

/// After how long clients of some nodes, or all, were served again once something was over; if
/// any client never was, the time that was left.
pub fn served_again(
    seen: &RunRecord,
    what: &str,
    over_s: f64,
    nodes: &[usize],
    most_s: f64,
) -> Figure {
    let returns = || seen.returns.iter().filter(|one| one.since_s == over_s);
    let is_meant = |one: &&Recovery| nodes.is_empty() || nodes.contains(&one.node);
    let last = returns().filter(is_meant).map(|one| one.after_s).fold(0.0, f64::max);
    let away = seen.setup.clients - returns().count();
    let end_s = seen.seconds.last().map_or(0.0, |second| second.at_s as f64 + 1.0);
    let after_s = if away == 0 { last } else { (end_s - over_s).max(last) };
    let what = format!("{what}: all clients are served after");
    if away > 0 {
        let never = Figure::at_most(what, after_s, "s", 0.0);
        return never.noted(format!("{away} clients were never served again"));
    }
    wait(seen, what, over_s, after_s, most_s)
}

/// Requests of clients of nodes that reach no majority: once leases have ended, none is answered.
/// If any is, they were not cut off.
pub fn is_cut_off(seen: &RunRecord, what: &str, (from, until): Window, nodes: &[usize]) -> Figure {
    let window = (from + LEASES_S, until);
    let answered: u64 = within(seen, window).map(|second| answered_by(second, nodes)).sum();
    let what = format!("{what}: answered after {LEASES_S} s");
    Figure::at_most(what, answered as f64, "", 0.0)
}

/// Whether all has settled, and after how long.
pub fn settled(what: &str, is_so: bool, after_s: f64) -> Figure {
    let (what, is_so) = (format!("{what}: settled"), f64::from(u8::from(is_so)));
    Figure::at_least(what, is_so, "", 1.0).noted(format!("after {after_s:.1} s"))
}

/// Requests of clients of some nodes, or of all, that failed in a window: none may.
pub fn none_fails(seen: &RunRecord, what: &str, window: Window, nodes: &[usize]) -> Figure {
    let failed: u64 = of_clients(seen, window, nodes).map(|one| one.failed).sum();
    Figure::at_most(format!("{what}: requests failed"), failed as f64, "", 0.0)
}

fn answered_by(second: &Second, nodes: &[usize]) -> u64 {
    let clients = second.clients.iter().filter(|one| nodes.contains(&one.node));
    clients.map(|one| one.answered).sum()
}

/// Requests of clients of some nodes that were answered in a second of a window.
pub fn answered(seen: &RunRecord, what: &str, window: Window, nodes: &[usize]) -> Figure {
    let rate = mean(within(seen, window).map(|second| answered_by(second, nodes) as f64));
    Figure::told(format!("{what}: answered"), rate, "requests/s")
}

/// Requests that failed.
pub fn failures(seen: &RunRecord, must_be_none: bool) -> Vec<Figure> {
    let sum = |of: fn(&Second) -> u64| seen.seconds.iter().map(of).sum::<u64>() as f64;
    let figure = |what: &str, value| match must_be_none {
        true => Figure::at_most(what, value, "", 0.0),
        false => Figure::told(what, value, ""),
    };
    vec![
        Figure::told("requests answered", sum(|second| second.answered), ""),
        figure("requests not done", sum(|second| second.not_done)),
        figure("requests of unknown outcome", sum(|second| second.unknown)),
    ]
}

/// Acknowledged writes that were lost.
pub fn lost(seen: &RunRecord) -> Figure {
    let contradicted = seen.seconds.iter().map(|second| second.lost).sum::<u64>();
    let lost = (seen.read_back.lost + contradicted) as f64;
    let keys = seen.read_back.client_keys + seen.read_back.filled_keys;
    Figure::at_most("acknowledged keys that are lost", lost, "", 0.0)
        .noted(format!("{keys} were read back"))
}

#[cfg(test)]
mod tests {
    use super::super::timeline::Setup;
    use super::*;

    #[test]
    fn unevenness_is_that_of_statistics() {
        assert!((unevenness(&[2.0, 0.0, 1.0, 1.0]) - 0.5f64.sqrt()).abs() < 1e-9);
        assert_eq!(unevenness(&[]), 0.0);
    }

    #[test]
    fn clients_of_nodes_are_judged_apart() {
        // For ten seconds from second 10 on clients of node 1 get no answer, and one request fails.
        let second = |at_s| {
            let is_cut = (10..20).contains(&at_s);
            let waited_s = if at_s == 20 { 10.4 } else { 0.1 };
            let client = |node, answered, failed, waited_s: f64| ClientsSecond {
                node,
                answered,
                failed,
                longest_wait_ms: waited_s * 1e3,
            };
            let first = client(1, if is_cut { 0 } else { 9 }, u64::from(at_s == 15), waited_s);
            Second { at_s, clients: vec![first, client(2, 7, 0, 0.2)], ..Second::default() }
        };
        let seen = RunRecord { seconds: (0..30).map(second).collect(), ..RunRecord::default() };
        let (window, cut) = ((10.0, 30.0), (10.0, 20.0));
        assert_eq!(waits(&seen, "", window, &[], 1.5).holds, Some(false));
        assert_eq!(waits(&seen, "", window, &[2], 1.5).holds, Some(true));
        assert_eq!(waits(&seen, "", (21.0, 30.0), &[], 1.5).value, 0.2);
        assert_eq!(none_fails(&seen, "", window, &[1]).holds, Some(false));
        assert_eq!(none_fails(&seen, "", window, &[2]).holds, Some(true));
        assert_eq!([[1], [2]].map(|nodes| answered(&seen, "", cut, &nodes).value), [0.0, 7.0]);
        assert_eq!(is_cut_off(&seen, "", cut, &[1]).holds, Some(true));
        assert_eq!(is_cut_off(&seen, "", cut, &[2]).holds, Some(false));
        // They were cut off when this began, and were not later than that.
        assert_eq!(is_cut_off(&seen, "", (10.0, 25.0), &[1]).holds, Some(false));
    }

    #[test]
    fn unserved_replica_is_reported_missing() {
        let at = |node, after_s| Recovery { since_s: 10.0, after_s, node };
        let setup = Setup { clients: 2, ..Setup::default() };
        let seconds = vec![Second { at_s: 29, ..Second::default() }];
        let returns = vec![at(1, 0.4), at(2, 4.0), Recovery { since_s: 3.0, ..at(1, 9.0) }];
        let all = RunRecord { returns, setup, seconds, ..RunRecord::default() };
        let again = |seen: &RunRecord, nodes: &[usize]| {
            let figure = served_again(seen, "", 10.0, nodes, 0.5);
            (figure.value, figure.holds)
        };
        assert_eq!(again(&all, &[1]), (0.4, Some(true)));
        assert_eq!(again(&all, &[]), (4.0, Some(false)));
        let one = RunRecord { returns: vec![at(1, 0.4)], ..all };
        assert_eq!(again(&one, &[1]), (20.0, Some(false)));
    }
}

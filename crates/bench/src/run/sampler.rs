//! Makes series of what hosts count: once a second, the difference to the second before.

use std::collections::BTreeMap;
use std::time::Instant;

use super::host::HostCounts;
use super::proc::{NetworkCounts, ProcessCounts};
use super::scrape::Scraped;
use crate::measure::usage::{
    INSTRUMENT, KINDS_MAX, MessageSeries, NetworkRow, NetworkSeries, ProcessRow, ProcessSeries,
    ROWS_MAX, Usage,
};

/// What kinds beyond [`KINDS_MAX`] are called.
const OTHER_KINDS: &str = "other";

/// Counts of all hosts at a moment.
#[derive(Default)]
struct Counts {
    at: Option<Instant>,
    processes: BTreeMap<String, (Instant, ProcessCounts)>,
    networks: BTreeMap<String, NetworkCounts>,
}

/// Samples hosts while phases go on.
pub struct Sampler {
    names: Vec<String>,
    before: Counts,
    usage: Usage,
    /// What each node had counted of each kind when it was asked last.
    messages: BTreeMap<(usize, String), f64>,
    /// What was sent since the last row, by kind.
    sent: BTreeMap<String, f64>,
    asked: BTreeMap<usize, Instant>,
}

impl Sampler {
    /// Of nodes with these names.
    pub fn new(names: Vec<String>) -> Self {
        Self {
            names,
            before: Counts::default(),
            usage: Usage::default(),
            messages: BTreeMap::new(),
            sent: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// A phase begins: what was counted until now is not its.
    pub fn begin(&mut self, hosts: &[(u64, HostCounts)]) {
        self.before = self.counts(hosts);
        self.usage = Usage::default();
        self.sent.clear();
    }

    /// A second of a phase has ended, `at` seconds after its begin.
    pub fn second(&mut self, at: f64, hosts: &[(u64, HostCounts)]) {
        let mut now = self.counts(hosts);
        let seconds = match (self.before.at, now.at) {
            (Some(before), Some(now)) => (now - before).as_secs_f64().max(1e-3),
            _ => return,
        };
        for (name, (time, counts)) in &now.processes {
            let before = self.before.processes.get(name);
            // A process that was started anew counts from zero.
            let before = before.filter(|(_, before)| before.began == counts.began);
            let seconds = before.map_or(seconds, |(at, _)| (*time - *at).as_secs_f64().max(1e-3));
            let before = before.map(|(_, before)| *before).unwrap_or_default();
            let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
            let row = ProcessRow {
                at,
                cpu: (counts.cpu - before.cpu) / seconds,
                rss: counts.rss,
                read: rate(counts.read, before.read),
                written: rate(counts.written, before.written),
                voluntary: rate(counts.voluntary, before.voluntary),
                involuntary: rate(counts.involuntary, before.involuntary),
                files: counts.files,
            };
            let all = &mut self.usage.processes;
            let found = match all.iter().position(|series| series.name == *name) {
                Some(found) => found,
                None => {
                    all.push(ProcessSeries { name: name.clone(), cpu: 0.0, rows: Vec::new() });
                    all.len() - 1
                }
            };
            all[found].cpu += counts.cpu - before.cpu;
            push(&mut all[found].rows, row);
        }
        for (name, counts) in &now.networks {
            let Some(before) = self.before.networks.get(name) else { continue };
            let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
            let row = NetworkRow {
                at,
                received: rate(counts.received, before.received),
                sent: rate(counts.sent, before.sent),
                segments: rate(counts.segments, before.segments),
                resent: rate(counts.resent, before.resent),
            };
            let all = &mut self.usage.networks;
            let found = match all.iter().position(|series| series.name == *name) {
                Some(found) => found,
                None => {
                    all.push(NetworkSeries { name: name.clone(), rows: Vec::new() });
                    all.len() - 1
                }
            };
            push(&mut all[found].rows, row);
        }
        for (kind, count) in std::mem::take(&mut self.sent) {
            let all = &mut self.usage.messages;
            let found = match all.iter().position(|series| series.kind == kind) {
                Some(found) => found,
                None => {
                    all.push(MessageSeries { kind, total: 0.0, rows: Vec::new() });
                    all.len() - 1
                }
            };
            all[found].total += count;
            push(&mut all[found].rows, (at, count / seconds));
        }
        // Of a process that could not be looked at, the next row is about all of its time since.
        for (name, counts) in std::mem::take(&mut self.before.processes) {
            now.processes.entry(name).or_insert(counts);
        }
        self.before = now;
    }

    /// A node has told what it has counted of each kind since it began.
    pub fn messages(&mut self, scraped: Scraped) {
        let is_first = self.asked.insert(scraped.node, Instant::now()).is_none();
        for (kind, count) in scraped.kinds {
            let is_known = self.sent.contains_key(&kind) || self.sent.len() < KINDS_MAX;
            let shown = if is_known { kind.clone() } else { OTHER_KINDS.to_owned() };
            let before = self.messages.insert((scraped.node, kind), count);
            // What it had counted before anybody asked is of no second.
            let more = match before {
                Some(before) if before <= count => count - before,
                None if is_first => 0.0,
                _ => count,
            };
            if more > 0.0 {
                *self.sent.entry(shown).or_default() += more;
            }
        }
    }

    /// What the phase has used until now.
    pub fn so_far(&self) -> &Usage {
        &self.usage
    }

    /// What the phase has used, with the most frequent kinds of messages first.
    pub fn usage(&self) -> Usage {
        let mut usage = self.usage.clone();
        usage.messages.sort_by(|one, other| other.total.total_cmp(&one.total));
        usage
    }

    fn counts(&self, hosts: &[(u64, HostCounts)]) -> Counts {
        let now = Instant::now();
        let mut all = Counts { at: Some(now), ..Counts::default() };
        for (agent, counts) in hosts {
            let own = if *agent == 0 { INSTRUMENT.to_owned() } else { format!("agent {agent}") };
            let host = if *agent == 0 { "this host" } else { own.as_str() };
            for (node, found) in &counts.nodes {
                if let Some(name) = self.names.get(*node) {
                    all.processes.insert(name.clone(), (now, *found));
                }
            }
            for network in &counts.networks {
                let is_own = counts.own.is_none_or(|own| own.network == network.network);
                let node = counts.nodes.iter().find(|(_, one)| one.network == network.network);
                let name = match node.and_then(|(node, _)| self.names.get(*node)) {
                    Some(name) if !is_own => format!("namespace of {name}"),
                    _ => format!("all of {host}"),
                };
                all.networks.insert(name, *network);
            }
            if let Some(found) = counts.own {
                all.processes.insert(own, (now, found));
            }
        }
        all
    }
}

fn push<T>(rows: &mut Vec<T>, row: T) {
    if rows.len() < ROWS_MAX {
        rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn host(cpu: f64, read: u64, resent: u64) -> Vec<(u64, HostCounts)> {
        // It was started anew if it has used less than before.
        let began = u64::from(cpu < 1.0);
        let process = ProcessCounts { cpu, read, began, network: 7, ..ProcessCounts::default() };
        let own = Some(ProcessCounts { network: 1, ..ProcessCounts::default() });
        let network = |network, resent| NetworkCounts { network, resent, ..Default::default() };
        let networks = vec![network(1, 0), network(7, resent)];
        vec![(0, HostCounts { nodes: vec![(0, process)], own, networks })]
    }

    #[test]
    fn rows_are_differences_and_a_restart_counts_from_zero() {
        let mut sampler = Sampler::new(vec!["n1".to_owned()]);
        sampler.begin(&host(5.0, 100, 3));
        std::thread::sleep(Duration::from_millis(20));
        sampler.second(1.0, &host(5.01, 300, 8));
        std::thread::sleep(Duration::from_millis(20));
        sampler.second(2.0, &host(0.01, 50, 8));
        let usage = sampler.usage();
        let node = usage.processes.iter().find(|series| series.name == "n1").unwrap();
        assert_eq!(node.rows.len(), 2);
        assert!(node.rows[0].cpu > 0.0 && node.rows[0].cpu < 1.0, "{node:?}");
        assert!(node.rows[0].read > 0.0 && node.rows[1].read > 0.0 && node.rows[1].cpu > 0.0);
        let names: Vec<&str> = usage.networks.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["all of this host", "namespace of n1"]);
        assert!(usage.networks[1].rows[0].resent > 0.0 && usage.networks[1].rows[1].resent == 0.0);
    }

    #[test]
    fn a_second_without_a_look_at_a_process_makes_no_spike() {
        let mut sampler = Sampler::new(vec!["n1".to_owned()]);
        let pause = || std::thread::sleep(Duration::from_millis(50));
        sampler.begin(&host(5.0, 0, 0));
        pause();
        sampler.second(1.0, &[(0, HostCounts::default())]);
        pause();
        sampler.second(2.0, &host(5.02, 0, 0));
        let usage = sampler.usage();
        let node = usage.processes.iter().find(|series| series.name == "n1").unwrap();
        assert_eq!(node.rows.len(), 1, "no row of nothing");
        assert!((node.cpu - 0.02).abs() < 1e-9 && node.rows[0].cpu < 0.25, "{node:?}");
    }

    #[test]
    fn messages_are_summed_over_nodes_by_kind() {
        let mut sampler = Sampler::new(vec!["n1".to_owned(), "n2".to_owned()]);
        let told = |node, count| Scraped { node, kinds: vec![("append".to_owned(), count)] };
        sampler.begin(&host(1.0, 0, 0));
        sampler.messages(told(0, 1_000.0));
        sampler.messages(told(1, 500.0));
        sampler.second(1.0, &host(1.0, 0, 0));
        assert!(sampler.usage().messages.is_empty(), "the past is of no second");
        sampler.messages(told(0, 1_010.0));
        sampler.messages(told(1, 2.0));
        sampler.second(2.0, &host(1.0, 0, 0));
        let usage = sampler.usage();
        assert_eq!((usage.messages.len(), usage.messages[0].total), (1, 12.0));
    }
}

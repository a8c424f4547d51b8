//! A timeline as a picture: a panel for each quantity, and a line through all for each event.

use chart::{Event, Line, Panel, Stack, stack};

use super::timeline::{NodeSecond, Second, Timeline};

const MIB: f64 = 1_048_576.0;

/// What must not be passed, where it matters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Requests answered in a second, at least.
    pub answered: Option<f64>,
    /// A client's wait, at most.
    pub wait_ms: Option<f64>,
}

/// The picture.
pub fn render(timeline: &Timeline, limits: Limits) -> String {
    let end = timeline.seconds.last().map_or(1.0, |second| second.at_s as f64 + 1.0).max(1.0);
    let event = |event: &super::timeline::Event| Event { at: event.at_s, name: event.what.clone() };
    stack(&Stack {
        title: timeline.title.clone(),
        about: about(timeline),
        time: "seconds since the load began",
        end,
        events: timeline.events.iter().map(event).collect(),
        panels: panels(timeline, limits),
    })
}

/// Load and machine in a line.
fn about(timeline: &Timeline) -> String {
    let (setup, machine) = (&timeline.setup, &timeline.machine);
    format!(
        "{} clients, {} shards, {:.0} MiB ×3, snapshot_rate {:.0} MiB/s; {}, {} cores, commit {}",
        setup.clients,
        setup.shards,
        setup.filled_bytes as f64 / MIB,
        setup.snapshot_rate as f64 / MIB,
        machine.cpu,
        machine.cores,
        machine.commit
    )
}

fn panels(timeline: &Timeline, limits: Limits) -> Vec<Panel> {
    let all = |of: fn(&Second) -> f64| {
        let points = timeline.seconds.iter().map(|second| (second.at_s as f64 + 0.5, of(second)));
        vec![Line::new("", 1, points.collect())]
    };
    let nodes = |of: fn(&NodeSecond) -> f64| {
        let count = timeline.setup.nodes + timeline.setup.held;
        (1..=count).map(|node| of_node(timeline, node, of)).collect()
    };
    let panel = |name: &str, lines| Panel { name: name.to_owned(), lines, limit: None };
    vec![
        Panel {
            limit: limits.answered,
            ..panel("requests answered, per second", all(|second| second.answered as f64))
        },
        panel(
            "requests failed (not done, unknown), per second",
            all(|second| (second.not_done + second.unknown) as f64),
        ),
        Panel {
            limit: limits.wait_ms,
            ..panel("longest wait of a client, ms", all(|second| second.longest_wait_ms))
        },
        panel("bytes moved, MiB/s", all(|second| second.moved_bytes as f64 / MIB)),
        panel("bytes of each node, MiB", nodes(|node| node.bytes as f64 / MIB)),
        panel("replicas of each node", nodes(|node| node.replicas as f64)),
        panel("leaders of each node", nodes(|node| node.leaders as f64)),
        panel("processor of each node, cores", nodes(|node| node.processor)),
        panel("taken away by the host, cores", all(|second| second.host_taken)),
    ]
}

fn of_node(timeline: &Timeline, node: usize, of: fn(&NodeSecond) -> f64) -> Line {
    let point = |second: &Second| {
        let sample = second.nodes.iter().find(|sample| sample.node == node)?;
        Some((second.at_s as f64 + 1.0, of(sample)))
    };
    let points = timeline.seconds.iter().filter_map(point).collect();
    Line::new(format!("node {node}"), node, points)
}

//! Figures 15 and 16 of the thesis: a node for each computer, 800 clients.
//!
//! All nodes share a machine here, so this is not the rate that was measured. It is what the nodes
//! could serve if each had a processor of its own: nodes ÷ processor time that all of them take for
//! a request. With agents the rate itself is measured on as many machines: it stands beside.

use chart::{Line, log, plain};

use super::page::{Page, Verdict, shown};

/// The thesis: this much more with twice the computers.
const DOUBLING: f64 = 1.3;
/// How far from it counts as reproduced.
const TOLERANCE: f64 = 0.2;

/// A lookup on so many nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Nodes.
    pub nodes: usize,
    /// The lookup.
    pub lookup: &'static str,
    /// Processor time of all nodes for a request, in seconds.
    pub cost: f64,
    /// Requests a second that were answered.
    pub rate: f64,
}

impl Point {
    /// What so many processors serve.
    fn served(&self) -> f64 {
        self.nodes as f64 / self.cost
    }
}

/// By how much requests grow with each doubling of nodes, from the fewest to the most.
fn doubling(points: &[Point], lookup: &str, of: impl Fn(&Point) -> f64) -> Option<f64> {
    let all: Vec<&Point> = points.iter().filter(|point| point.lookup == lookup).collect();
    let first = all.iter().min_by_key(|point| point.nodes)?;
    let last = all.iter().max_by_key(|point| point.nodes)?;
    let doublings = (last.nodes as f64 / first.nodes as f64).log2();
    let growth = (of(last) / of(first)).powf(1.0 / doublings);
    (doublings > 0.0 && growth.is_finite()).then_some(growth)
}

/// Whether the claim holds. `is_apart` says that nodes have machines of their own.
pub fn verdict(points: &[Point], is_apart: bool) -> Verdict {
    let claim = "twice the computers, 30 % more queries (figures 15, 16)";
    let of = |lookup| match is_apart {
        true => doubling(points, lookup, |point| point.rate),
        false => doubling(points, lookup, Point::served),
    };
    let (Some(full), Some(chord)) = (of("full"), of("chord")) else {
        return Verdict::new(claim, "one number of nodes alone", None);
    };
    let how = match is_apart {
        true => "measured on machines of their own",
        false => "if each node had a processor of its own",
    };
    let is_near = |growth: f64| (growth - DOUBLING).abs() <= TOLERANCE;
    Verdict::new(
        claim,
        format!("× {} with full, × {} with chord, {how}", shown(full), shown(chord)),
        Some(is_near(full) && is_near(chord)),
    )
}

/// Adds the figures to a page.
pub fn add(page: &mut Page, points: &[Point], clients: u64, is_apart: bool) {
    page.head("A node for each computer (figures 15 and 16)");
    let place = match is_apart {
        true => "Nodes were spread over the machines of the agents: *measured* is theirs.",
        false => {
            "All nodes share one machine here: *measured* says how it is shared. With as many \
             agents as nodes (`--agents`) each node has a machine."
        }
    };
    page.say(&format!(
        "Half puts, half gets, {clients} clients. *With a processor for each node* is what the \
         nodes could serve then, by the processor time that all of them together took for a \
         request; clients, and the network, are left out. {place} The thesis says 30 % more with \
         twice the computers, for both lookups."
    ));
    for (figure, lookup) in [("15", "full"), ("16", "chord")] {
        let of = points.iter().filter(|point| point.lookup == lookup);
        let served: Vec<(f64, f64)> = of.map(|p| (p.nodes as f64, p.served())).collect();
        let Some((first, rate)) = served.first().copied() else { continue };
        let theirs = served.iter().map(|(nodes, _)| {
            let doublings = (nodes / first).log2();
            (*nodes, rate * DOUBLING.powf(doublings))
        });
        let lines = [
            Line::new("30 % more with twice as many", 1, theirs.collect()).dashed(),
            Line::new("with a processor for each node", 2, served.clone()),
        ];
        let title = format!("Figure {figure}: {lookup}, a node for each computer");
        let axes = [log("nodes"), plain("queries a second")];
        page.chart(&format!("fig{figure}"), &title, axes, &lines);
    }
    let rows = points.iter().map(|point| {
        let cost = shown(point.cost * 1e6);
        let (nodes, lookup) = (point.nodes.to_string(), point.lookup.to_owned());
        vec![nodes, lookup, cost, shown(point.served()), shown(point.rate)]
    });
    let head = [
        "nodes",
        "lookup",
        "µs of all nodes' processors a request",
        "with a processor for each node, a second",
        "measured, a second",
    ];
    page.table(&head, &rows.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(costs: &[(usize, f64)]) -> Vec<Point> {
        let both = costs.iter().flat_map(|(nodes, cost)| {
            ["full", "chord"].map(|lookup| Point {
                nodes: *nodes,
                lookup,
                cost: *cost,
                rate: 1.3f64.powf((*nodes as f64).log2()),
            })
        });
        both.collect()
    }

    #[test]
    fn growth_is_of_each_doubling() {
        // Twice the processor time for a request on four times the nodes: × √2 for a doubling.
        let two = points(&[(1, 1e-5), (4, 2e-5)]);
        let growth = doubling(&two, "full", Point::served).unwrap();
        assert!((growth - 2f64.sqrt()).abs() < 1e-9, "{growth}");
        assert_eq!(verdict(&two, false).holds, Some(true));
        assert_eq!(verdict(&points(&[(1, 1e-5), (2, 1e-5)]), false).holds, Some(false));
        assert_eq!(verdict(&points(&[(1, 1e-5), (2, 1e-5)]), true).holds, Some(true), "measured");
        assert_eq!(verdict(&two[..2], false).holds, None);
    }
}

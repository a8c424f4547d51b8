//! Which transactions must come before themselves?

use super::anomaly::{List, Name};
use super::edges;
use super::graph::{CyclePath, EdgeKind, Graph, Kinds, RW, Search, TIME, WR, WW};
use super::orders::Orders;
use super::{Anomaly, Class, Kind, Outcome};

/// How many edges are looked at, in all, for the sake of short cycles.
const LOOKS_MAX: usize = 20_000_000;

/// A short cycle of each tangle: one of the worst class, those without time first.
pub(super) fn find(orders: &Orders<'_>) -> Vec<Anomaly> {
    let graph = edges::graph(orders);
    let mut found = Vec::new();
    if graph.tangles(WW | WR | RW | TIME).0.is_empty() {
        return found;
    }
    let mut told = vec![false; graph.transactions];
    let mut search = Search::new(&graph, LOOKS_MAX);
    for time in [0, TIME] {
        for kinds in [WW, WW | WR, WW | WR | RW] {
            let (tangles, sets) = graph.tangles(kinds | time);
            for mut tangle in tangles {
                // What remains are its transactions.
                tangle.retain(|node| (*node as usize) < graph.transactions);
                tangle.sort_unstable();
                if tangle.iter().any(|at| told[*at as usize]) {
                    continue;
                }
                let one = (kinds & RW != 0)
                    .then(|| with_one(&graph, &mut search, &tangle, (kinds & !RW) | time, &sets));
                let way = one
                    .flatten()
                    .or_else(|| any(&graph, &mut search, &tangle, kinds | time, &sets));
                tangle.iter().for_each(|at| told[*at as usize] = true);
                found.extend(way.map(|way| tell(orders, &graph, &way)));
            }
        }
    }
    found
}

/// How many transactions a way has.
fn len(graph: &Graph, way: &CyclePath) -> u32 {
    way.iter().filter(|(from, _)| (*from as usize) < graph.transactions).count() as u32
}

/// A short cycle of a tangle that has one rw edge; the others are of `kinds`.
fn with_one(
    graph: &Graph,
    search: &mut Search<'_>,
    tangle: &[u32],
    kinds: Kinds,
    sets: &[u32],
) -> Option<CyclePath> {
    let mut best: Option<(u32, CyclePath)> = None;
    for from in tangle {
        let is_its = |to: u32| sets[to as usize] == sets[*from as usize];
        let rw = graph.edges(*from).iter().filter(|edge| edge.why.kind() == RW && is_its(edge.to));
        for edge in rw {
            let hops_max = best.as_ref().map_or(u32::MAX, |(len, _)| len - 1);
            if hops_max == 1 || search.left == 0 {
                return best.map(|(_, way)| way);
            }
            // That edge is a hop of its own if it ends at a transaction.
            let is_hop = u32::from((edge.to as usize) < graph.transactions);
            if let Some(rest) =
                search.way((edge.to, *from), kinds, sets, hops_max.saturating_sub(is_hop))
            {
                let way = [vec![(*from, *edge)], rest].concat();
                best = Some((len(graph, &way), way));
            }
        }
    }
    best.map(|(_, way)| way)
}

/// A short cycle of a tangle.
fn any(
    graph: &Graph,
    search: &mut Search<'_>,
    tangle: &[u32],
    kinds: Kinds,
    sets: &[u32],
) -> Option<CyclePath> {
    let mut best: Option<(u32, CyclePath)> = None;
    for from in tangle {
        let hops_max = best.as_ref().map_or(u32::MAX, |(len, _)| len - 1);
        if hops_max == 1 || (search.left == 0 && best.is_some()) {
            break;
        }
        if let Some(way) = search.way((*from, *from), kinds, sets, hops_max) {
            best = Some((len(graph, &way), way));
        }
    }
    best.map(|(_, way)| way)
}

/// One before another, and why.
struct Hop {
    from: usize,
    to: usize,
    why: EdgeKind,
}

/// A cycle, for people.
fn tell(orders: &Orders<'_>, graph: &Graph, way: &CyclePath) -> Anomaly {
    let is_transaction = |(from, _): &&(u32, _)| (*from as usize) < graph.transactions;
    let firsts: Vec<_> = way.iter().filter(is_transaction).collect();
    let hops: Vec<Hop> = (0..firsts.len())
        .map(|at| {
            let ((from, edge), (to, _)) = (firsts[at], firsts[(at + 1) % firsts.len()]);
            Hop { from: *from as usize, to: *to as usize, why: edge.why }
        })
        .collect();
    let count = |kind: Kinds| hops.iter().filter(|hop| hop.why.kind() == kind).count();
    let class = match (count(RW), count(WR)) {
        (0, 0) => Class::G0,
        (0, _) => Class::G1c,
        (1, _) => Class::GSingle,
        _ => Class::G2,
    };
    let transactions: Vec<usize> = hops.iter().map(|hop| hop.from).collect();
    let mut text = format!("{} transactions, each before the next", hops.len());
    for hop in &hops {
        text.push_str(&format!("\n  {}", explain(orders, hop)));
    }
    let kind = Kind::Cycle { class, realtime: count(TIME) > 0 };
    Anomaly::new(kind, orders.history, transactions, text)
}

/// Why one comes before another.
fn explain(orders: &Orders<'_>, Hop { from, to, why }: &Hop) -> String {
    let of = |key: u32| (&orders.keys[key as usize], Name(orders.keys[key as usize].name));
    // What the other appended that comes after so many.
    let next = |key: u32, at: usize| {
        let its = || orders.appends(*to, key as usize);
        let unread = || its().find(|known| known.at.is_none());
        let known = its().find(|known| known.at == Some(at)).or_else(unread);
        known.map_or(0, |known| known.element)
    };
    match *why {
        EdgeKind::Ww { key, at } => {
            let ((order, name), at) = (of(key), at as usize);
            let (first, next) = (order.longest[at], next(key, at + 1));
            format!("T{from} → T{to} (ww): {first}, then {next} was appended to {name}")
        }
        EdgeKind::Wr { key, at } => {
            let (order, name) = of(key);
            let element = order.longest[at as usize];
            format!("T{from} → T{to} (wr): {element} was appended to {name}, and read there")
        }
        EdgeKind::Rw { key, at } => {
            let ((order, name), at) = (of(key), at as usize);
            let (seen, next) = (List(&order.longest[..at]), next(key, at));
            format!("T{from} → T{to} (rw): {seen} was read in {name}, before {next} was appended")
        }
        EdgeKind::Time | EdgeKind::Via => {
            let answered = match orders.history[*from].outcome {
                Outcome::Committed { answered_at } => answered_at,
                Outcome::Unknown | Outcome::NotDone => 0,
            };
            let invoked = orders.history[*to].invoked_at;
            format!("T{from} → T{to} (rt): answered at {answered}, invoked at {invoked}")
        }
    }
}

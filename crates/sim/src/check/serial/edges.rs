//! Which edges does a history have?
//!
//! So few that all can be looked at: those that follow from others are left out, and where each of
//! many comes before each of many others, they meet at nodes between them.
//!
//! ```text
//!   time:    T0 answered at 3 ──▶ (3) ──▶ (8) ◀── T1 answered at 8
//!                                  │       └────▶ T3 invoked at 9
//!                                  └▶ T2 invoked at 5
//!
//!   unread:  appended by U0 U1 U2; who read all others comes before each of them, but not itself
//!            up:    (U0) ◀── (U1) ◀── (U2)        U1 ──▶ up (U0)     any other ──▶ up (U2)
//!            down:  (U0) ──▶ (U1) ──▶ (U2)        U1 ──▶ down (U2)
//! ```

use super::Outcome;
use super::graph::{DependencyEdge, EdgeKind, Graph};
use super::orders::{Orders, Step};

/// A graph in the making.
struct Edges<'a> {
    orders: &'a Orders<'a>,
    edges: Vec<(u32, DependencyEdge)>,
    nodes: u32,
    /// For each key, the first node of those between readers and unread appends.
    unread: Vec<u32>,
}

/// The graph of a history whose lists make sense.
pub(super) fn graph(orders: &Orders<'_>) -> Graph {
    let transactions = orders.history.len();
    let unread = Vec::with_capacity(orders.keys.len());
    let mut edges = Edges { orders, edges: Vec::new(), nodes: transactions as u32, unread };
    edges.time();
    edges.appends();
    edges.reads();
    Graph::new(transactions, edges.nodes as usize, &edges.edges)
}

impl Edges<'_> {
    fn add(&mut self, from: usize, to: usize, why: EdgeKind) {
        if from != to {
            self.edges.push((from as u32, DependencyEdge { to: to as u32, why }));
        }
    }

    /// From each answer to the calls that follow it.
    fn time(&mut self) {
        let orders = self.orders;
        let counted = |at: &usize| orders.counts[*at];
        let answered = |at: usize| match orders.history[at].outcome {
            // No answer comes before its call.
            Outcome::Committed { answered_at } => {
                Some((answered_at.max(orders.history[at].invoked_at), at))
            }
            Outcome::Unknown | Outcome::NotDone => None,
        };
        let all = || (0..orders.history.len()).filter(counted);
        let answers: Vec<(u64, usize)> = all().filter_map(answered).collect();
        let mut times: Vec<u64> = answers.iter().map(|(time, _)| *time).collect();
        times.sort_unstable();
        times.dedup();
        let first = self.nodes as usize;
        self.nodes += times.len() as u32;
        (1..times.len()).for_each(|at| self.add(first + at - 1, first + at, EdgeKind::Via));
        for (time, by) in answers {
            let at = times.partition_point(|known| *known < time);
            self.add(by, first + at, EdgeKind::Time);
        }
        for by in all() {
            let earlier = times.partition_point(|known| *known < orders.history[by].invoked_at);
            if earlier > 0 {
                self.add(first + earlier - 1, by, EdgeKind::Via);
            }
        }
    }

    /// From each append to the next of its key.
    fn appends(&mut self) {
        let orders = self.orders;
        for (key, order) in orders.keys.iter().enumerate() {
            for (at, two) in order.writers.windows(2).enumerate() {
                self.add(two[0], two[1], EdgeKind::Ww { key: key as u32, at: at as u32 });
            }
            let (first, count) = (self.nodes as usize, order.unread.len());
            self.nodes += 2 * count as u32;
            self.unread.push(first as u32);
            for (at, by) in order.unread.iter().enumerate() {
                let (up, down) = (first + at, first + count + at);
                self.add(up, *by, EdgeKind::Via);
                self.add(down, *by, EdgeKind::Via);
                if at > 0 {
                    self.add(up, up - 1, EdgeKind::Via);
                    self.add(down - 1, down, EdgeKind::Via);
                }
            }
            if let Some(last) = order.writers.last() {
                let at = order.writers.len() - 1;
                self.before_unread(*last, key, EdgeKind::Ww { key: key as u32, at: at as u32 });
            }
        }
    }

    /// From one to all others whose appends to a key nobody has read.
    fn before_unread(&mut self, from: usize, key: usize, why: EdgeKind) {
        let unread = &self.orders.keys[key].unread;
        let (first, count) = (self.unread[key] as usize, unread.len());
        let (before, after) = match unread.binary_search(&from) {
            Ok(at) => (at, at + 1),
            Err(_) => (count, count),
        };
        if before > 0 {
            self.add(from, first + before - 1, why);
        }
        if after < count {
            self.add(from, first + count + after, why);
        }
    }

    /// From appends to who read them, and from there to the appends that follow.
    fn reads(&mut self) {
        let orders = self.orders;
        for by in (0..orders.history.len()).filter(|by| orders.counts[*by]) {
            for step in &orders.steps[by] {
                let Step::Read { key, list } = *step else { continue };
                // What it appended itself is part of the list; from there, the ww edges go on.
                let (number, seen) = (key as u32, list.len());
                let writers = &orders.keys[key].writers;
                if seen > 0 {
                    let why = EdgeKind::Wr { key: number, at: seen as u32 - 1 };
                    self.add(writers[seen - 1], by, why);
                }
                let why = EdgeKind::Rw { key: number, at: seen as u32 };
                match writers.get(seen) {
                    Some(next) => self.add(by, *next, why),
                    None => self.before_unread(by, key, why),
                }
            }
        }
    }
}

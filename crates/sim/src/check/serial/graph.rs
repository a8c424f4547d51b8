//! Which transactions must come before which: the graph, its strongly connected components, and
//! short cycles in them.

use std::collections::VecDeque;

/// Why one comes before another. Keys and places are those of `orders`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeKind {
    /// It appended the element at this place of the key, the other the next one.
    Ww { key: u32, at: u32 },
    /// It appended the element at this place of the key, which is the last one the other read.
    Wr { key: u32, at: u32 },
    /// It read this many elements of the key; the other appended one that follows.
    Rw { key: u32, at: u32 },
    /// It was answered before the other was invoked.
    Time,
    /// The way goes on from a node that is no transaction.
    Via,
}

/// A set of kinds of edges.
pub(super) type Kinds = u8;
/// Appends in a row.
pub(super) const WW: Kinds = 1;
/// Appends that were read.
pub(super) const WR: Kinds = 2;
/// Reads that missed appends.
pub(super) const RW: Kinds = 4;
/// Time.
pub(super) const TIME: Kinds = 8;
/// Always taken.
const VIA: Kinds = 16;

impl EdgeKind {
    /// Its kind.
    pub fn kind(self) -> Kinds {
        match self {
            Self::Ww { .. } => WW,
            Self::Wr { .. } => WR,
            Self::Rw { .. } => RW,
            Self::Time => TIME,
            Self::Via => VIA,
        }
    }
}

/// An edge, stored at the node where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct DependencyEdge {
    /// Where it ends.
    pub to: u32,
    /// Why it is there.
    pub why: EdgeKind,
}

/// The graph. The first nodes are transactions; the others stand for many edges, from all whose
/// edges end there to all that their own edges lead to.
#[derive(Debug)]
pub(super) struct Graph {
    /// How many nodes are transactions.
    pub transactions: usize,
    /// Where the edges of each node begin, and the end.
    starts: Vec<usize>,
    edges: Vec<DependencyEdge>,
}

/// No node, or not yet.
const NONE: u32 = u32::MAX;

impl Graph {
    /// A graph of so many transactions and nodes.
    pub fn new(transactions: usize, nodes: usize, edges: &[(u32, DependencyEdge)]) -> Self {
        let mut starts = vec![0; nodes + 1];
        edges.iter().for_each(|(from, _)| starts[*from as usize + 1] += 1);
        (0..nodes).for_each(|node| starts[node + 1] += starts[node]);
        let mut next = starts.clone();
        let mut sorted = vec![DependencyEdge { to: 0, why: EdgeKind::Via }; edges.len()];
        for (from, edge) in edges {
            sorted[next[*from as usize]] = *edge;
            next[*from as usize] += 1;
        }
        Self { transactions, starts, edges: sorted }
    }

    /// The edges of a node.
    pub fn edges(&self, node: u32) -> &[DependencyEdge] {
        &self.edges[self.starts[node as usize]..self.starts[node as usize + 1]]
    }

    /// The tangles by edges of these kinds: the largest sets of several nodes where each leads to
    /// each. Tarjan's (1972), with a stack of its own. Also, to which set each node belongs.
    pub fn tangles(&self, kinds: Kinds) -> (Vec<Vec<u32>>, Vec<u32>) {
        let nodes = self.starts.len() - 1;
        let (mut index, mut low) = (vec![NONE; nodes], vec![0u32; nodes]);
        let mut set = vec![NONE; nodes];
        let (mut sets, mut tangles) = (0, Vec::new());
        let (mut stack, mut calls) = (Vec::new(), Vec::new());
        let mut count = 0;
        for root in 0..nodes {
            if index[root] == NONE {
                calls.push((root, self.starts[root]));
            }
            while let Some((node, next)) = calls.pop() {
                if index[node] == NONE {
                    (index[node], low[node]) = (count, count);
                    count += 1;
                    stack.push(node as u32);
                }
                let mut go = None;
                for at in next..self.starts[node + 1] {
                    let DependencyEdge { to, why } = self.edges[at];
                    let to = to as usize;
                    if why.kind() & (kinds | VIA) == 0 || set[to] != NONE {
                        continue;
                    }
                    if index[to] == NONE {
                        // This edge again when that node is done, for its `low`.
                        go = Some((at, to));
                        break;
                    }
                    low[node] = low[node].min(low[to]);
                }
                if let Some((at, to)) = go {
                    calls.push((node, at));
                    calls.push((to, self.starts[to]));
                } else if low[node] == index[node] {
                    let begin = stack.iter().rposition(|one| *one == node as u32);
                    let its = stack.split_off(begin.expect("it is on the stack"));
                    its.iter().for_each(|one| set[*one as usize] = sets);
                    sets += 1;
                    if its.len() > 1 {
                        tangles.push(its);
                    }
                }
            }
        }
        (tangles, set)
    }
}

/// A way: each edge, and where it begins.
pub(super) type CyclePath = Vec<(u32, DependencyEdge)>;

/// A search for short ways.
pub(super) struct Search<'g> {
    graph: &'g Graph,
    /// Edges that may still be looked at before one should give up.
    pub left: usize,
    /// In which search a node was last reached, in how many hops, from where.
    reached: Vec<(u32, u32, u32, DependencyEdge)>,
    number: u32,
}

impl<'g> Search<'g> {
    /// A search in this graph.
    pub fn new(graph: &'g Graph, left: usize) -> Self {
        let none = (0, 0, NONE, DependencyEdge { to: NONE, why: EdgeKind::Via });
        Self { graph, left, reached: vec![none; graph.starts.len() - 1], number: 0 }
    }

    /// The way of the fewest transactions, at most `hops_max` after the first, from a node to a
    /// transaction, or from a transaction around to itself, by edges of these kinds between nodes
    /// of one set.
    pub fn way(
        &mut self,
        (from, to): (u32, u32),
        kinds: Kinds,
        sets: &[u32],
        hops_max: u32,
    ) -> Option<CyclePath> {
        self.number += 1;
        let graph = self.graph;
        let set = sets[from as usize];
        self.reached[from as usize] =
            (self.number, 0, NONE, DependencyEdge { to: from, why: EdgeKind::Via });
        // Steps to transactions are hops, others are none: those are taken first.
        let mut open = VecDeque::from([from]);
        while let Some(node) = open.pop_front() {
            let hops = self.reached[node as usize].1;
            self.left = self.left.saturating_sub(graph.edges(node).len());
            for edge in graph.edges(node) {
                if edge.why.kind() & (kinds | VIA) == 0 || sets[edge.to as usize] != set {
                    continue;
                }
                let is_hop = (edge.to as usize) < graph.transactions;
                let hops = hops + u32::from(is_hop);
                if hops > hops_max {
                    continue;
                }
                if edge.to == to {
                    return Some(self.back(from, node, *edge));
                }
                let reached = &mut self.reached[edge.to as usize];
                if reached.0 == self.number {
                    continue;
                }
                *reached = (self.number, hops, node, *edge);
                if is_hop {
                    open.push_back(edge.to);
                } else {
                    open.push_front(edge.to);
                }
            }
        }
        None
    }

    /// The way to `node`, and this edge.
    fn back(&self, from: u32, mut node: u32, edge: DependencyEdge) -> CyclePath {
        let mut way = vec![(node, edge)];
        while node != from {
            let (_, _, before, edge) = self.reached[node as usize];
            way.push((before, edge));
            node = before;
        }
        way.reverse();
        way
    }
}

//! Tables of members, as they are when all is well.

use overlay::{Full, Lookup, News, Point, Step};

use super::ring::Ring;

/// What members know.
pub trait Tables: Sync {
    /// Where member `at` sends a request for `point`: to itself, if it says that it is the owner;
    /// nowhere, if it knows nobody.
    fn next(&self, at: usize, point: Point<'_>) -> Option<usize>;

    /// Places in the table of member `at`.
    fn entries(&self, at: usize) -> usize;

    /// Different members in it, but for itself.
    fn connections(&self, at: usize) -> usize;
}

/// The place that a step leads to.
fn place(step: Step<'_>) -> Option<usize> {
    match step {
        Step::Owner(known) | Step::Closer(known) => Some(Ring::place(known)),
        Step::Ask(_) => None,
    }
}

/// The full table. All that are of one version are equal, so here they are one and the same.
pub struct Shared {
    full: Full,
    members: usize,
}

impl Shared {
    /// Every descriptor of a ring.
    pub fn new(ring: &Ring) -> Self {
        let mut full = Full::new(0);
        for known in ring.members() {
            full.learn(News::Shard(known.clone()));
        }
        Self { full, members: ring.len() }
    }
}

impl Tables for Shared {
    fn next(&self, _at: usize, point: Point<'_>) -> Option<usize> {
        place(self.full.next(point))
    }

    fn entries(&self, _at: usize) -> usize {
        self.full.table().len()
    }

    fn connections(&self, _at: usize) -> usize {
        self.members - 1
    }
}

//! Whom to dial, and when again?
//!
//! A target is a peer whose link is to be kept, or a seed: an address behind which some member is.
//! After a failure it waits 100 ms, then twice as long each time up to 2 s, less a random part of
//! up to a half, so that nodes that lost each other do not meet in step. A seed is done with the
//! first link; a peer is dialled again whenever its link is gone.
//!
//! Two nodes that dial each other at the same moment make one connection too many. So the node that
//! is not the judge of the pair (see `handshake`) waits [`DIAL_GRACE`] before it dials first.
//!
//! Pure: time and randomness are given.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keyspace::NodeId;

/// The first pause after a failure.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// The longest.
pub const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// How long the node with the larger id lets the other dial first.
pub const DIAL_GRACE: Duration = Duration::from_millis(250);

/// What is dialled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A peer whose link is kept.
    Peer(NodeId),
    /// An address; any member will do.
    Seed(String),
}

#[derive(Debug)]
struct Plan {
    address: String,
    failures: u32,
    /// None while it is being dialled or linked.
    next: Option<Instant>,
}

/// All targets.
#[derive(Debug)]
pub struct Targets {
    node: NodeId,
    plans: BTreeMap<Target, Plan>,
}

impl Targets {
    /// No targets, for this node.
    pub fn new(node: NodeId) -> Self {
        Self { node, plans: BTreeMap::new() }
    }

    /// Sets the peers to dial, with addresses; no others are dialled any more. `linked` names those
    /// that need no dialling. Seeds stay.
    pub fn set_peers(
        &mut self,
        peers: BTreeMap<NodeId, String>,
        now: Instant,
        linked: impl Fn(NodeId) -> bool,
    ) {
        self.plans.retain(|target, _| match target {
            Target::Peer(node) => peers.contains_key(node),
            Target::Seed(_) => true,
        });
        for (node, address) in peers.into_iter().filter(|(node, _)| *node != self.node) {
            let next = (!linked(node)).then(|| now + self.dial_grace(node));
            let new = Plan { address: address.clone(), failures: 0, next };
            let plan = self.plans.entry(Target::Peer(node)).or_insert(new);
            if plan.address != address {
                // What is being dialled fails or not; then the new address has its turn.
                *plan = Plan { address, failures: 0, next: plan.next.and(next) };
            }
        }
    }

    /// An address to be dialled until some node there is linked.
    pub fn add_seed(&mut self, address: String, now: Instant) {
        let plan = Plan { address: address.clone(), failures: 0, next: Some(now) };
        self.plans.entry(Target::Seed(address)).or_insert(plan);
    }

    /// Whether anything waits to be dialled.
    pub fn is_waiting(&self) -> bool {
        self.plans.values().any(|plan| plan.next.is_some())
    }

    /// A target that is due, with its address and how often it has failed; it counts as being
    /// dialled from now on.
    pub fn take_due(&mut self, now: Instant) -> Option<(Target, String, u32)> {
        let due = |plan: &Plan| plan.next.is_some_and(|next| next <= now);
        let (target, plan) = self.plans.iter_mut().find(|(_, plan)| due(plan))?;
        plan.next = None;
        Some((target.clone(), plan.address.clone(), plan.failures))
    }

    /// A target could not be linked.
    pub fn failed(&mut self, target: &Target, now: Instant, random: u64) {
        let Some(plan) = self.plans.get_mut(target) else { return };
        let longest = (BACKOFF_MIN * (1 << plan.failures.min(8))).min(BACKOFF_MAX);
        plan.failures += 1;
        plan.next = Some(now + longest - longest / 2 * (random % 1024) as u32 / 1024);
    }

    /// A target has led to a link with some node, or will lead to none.
    pub fn done(&mut self, target: &Target) {
        if let Target::Seed(_) = target {
            self.plans.remove(target);
        }
    }

    /// A peer is linked, by a connection of either side.
    pub fn linked(&mut self, node: NodeId) {
        if let Some(plan) = self.plans.get_mut(&Target::Peer(node)) {
            plan.failures = 0;
            plan.next = None;
        }
    }

    /// A peer's link is down.
    pub fn link_lost(&mut self, node: NodeId, now: Instant, random: u64) {
        let courtesy = self.dial_grace(node);
        if let Some(plan) = self.plans.get_mut(&Target::Peer(node)) {
            plan.next = Some(now + courtesy + BACKOFF_MIN * (random % 1024) as u32 / 1024);
        }
    }

    fn dial_grace(&self, node: NodeId) -> Duration {
        if self.node < node { Duration::ZERO } else { DIAL_GRACE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(pairs: &[(u64, &str)]) -> BTreeMap<NodeId, String> {
        pairs.iter().map(|(node, address)| (NodeId(*node), (*address).to_owned())).collect()
    }

    #[test]
    fn pauses_grow_to_two_seconds_and_begin_anew_after_a_link() {
        let start = Instant::now();
        let mut targets = Targets::new(NodeId(1));
        targets.set_peers(peers(&[(1, "self"), (2, "a:1")]), start, |_| false);
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let (target, address, _) = targets.take_due(now).unwrap();
            assert_eq!((&target, address.as_str()), (&Target::Peer(NodeId(2)), "a:1"));
            assert_eq!(targets.take_due(now), None);
            targets.failed(&target, now, 0);
            let step = Duration::from_millis(1);
            let pause = (0..)
                .find(|n| targets.plans[&target].next.is_some_and(|next| next <= now + step * *n));
            pauses.push(pause.unwrap());
            now += step * pause.unwrap();
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        targets.linked(NodeId(2));
        assert!(!targets.is_waiting());
        targets.link_lost(NodeId(2), now, 1023);
        assert!(targets.take_due(now + BACKOFF_MIN).is_some());
    }

    #[test]
    fn the_larger_id_lets_the_smaller_dial_first() {
        let now = Instant::now();
        let mut targets = Targets::new(NodeId(5));
        targets.set_peers(peers(&[(2, "a:1"), (7, "b:1"), (8, "c:1")]), now, |n| n == NodeId(8));
        assert_eq!(targets.take_due(now).unwrap().0, Target::Peer(NodeId(7)));
        assert_eq!(targets.take_due(now), None);
        assert_eq!(targets.take_due(now + DIAL_GRACE).unwrap().0, Target::Peer(NodeId(2)));
        assert_eq!(targets.take_due(now + DIAL_GRACE), None);
    }

    #[test]
    fn a_seed_is_done_with_its_link_and_a_peer_that_is_no_more_is_forgotten() {
        let now = Instant::now();
        let mut targets = Targets::new(NodeId(1));
        targets.add_seed("s:1".into(), now);
        targets.set_peers(peers(&[(2, "a:1")]), now, |_| true);
        let (seed, ..) = targets.take_due(now).unwrap();
        targets.failed(&seed, now, 512);
        assert!(targets.take_due(now).is_none());
        assert!(targets.take_due(now + BACKOFF_MIN).is_some());
        targets.done(&seed);
        targets.set_peers(BTreeMap::new(), now, |_| false);
        targets.link_lost(NodeId(2), now, 0);
        assert!(!targets.is_waiting());
    }
}

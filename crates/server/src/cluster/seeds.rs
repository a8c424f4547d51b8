//! The state of each address that a starting node dials, and whether a refusal ends the start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{ClusterError, Identity};
use crate::peer::Refusal;

/// For so long "this node is there already" may mean a process of this node that has just died.
const DUPLICATE_GRACE: Duration = Duration::from_secs(4);

/// The state of one address to dial.
#[derive(Debug, Default)]
struct SeedStatus {
    /// It was given with `--join`.
    is_seed: bool,
    /// It is where a member is, or was.
    is_members: bool,
    /// Why it has led to no link yet.
    why: Option<DialFailure>,
}

#[derive(Debug)]
enum DialFailure {
    /// No connection to this address could be made.
    Unreachable(String),
    /// The node that answered refuses this node, or this node refuses it.
    Refused(String),
}

/// Each address, and why it has led to no link yet.
#[derive(Debug)]
pub struct SeedStatuses {
    all: BTreeMap<String, SeedStatus>,
    /// A link was made since the start: refusals at addresses end the process no more.
    has_linked: bool,
    /// Since when members report that another process is this node.
    duplicate_since: Option<Instant>,
}

impl SeedStatuses {
    /// Nothing has been heard of these seeds.
    pub fn new(seeds: &[String]) -> Self {
        let door = || SeedStatus { is_seed: true, ..SeedStatus::default() };
        let all = seeds.iter().map(|seed| (seed.clone(), door())).collect();
        Self { all, has_linked: false, duplicate_since: None }
    }

    /// Members are at these addresses, or were; and at no others.
    pub fn follow<'a>(&mut self, addresses: impl Iterator<Item = &'a String>) {
        self.all.values_mut().for_each(|door| door.is_members = false);
        for address in addresses {
            self.all.entry(address.clone()).or_default().is_members = true;
        }
        self.all.retain(|_, door| door.is_seed || door.is_members);
    }

    /// There is a link, to the member that is expected at this address, if it is known.
    pub fn linked(&mut self, address: Option<&str>) {
        self.has_linked = true;
        for (at, door) in &mut self.all {
            if door.is_seed || address == Some(at) {
                door.why = None;
            }
        }
    }

    /// No connection could be made.
    pub fn unreachable(&mut self, address: &str, why: &str) {
        if let Some(door) = self.all.get_mut(address) {
            door.why = Some(DialFailure::Unreachable(why.to_owned()));
        }
    }

    /// The node that answered refuses this node, or this node refuses it. Returns an error if this
    /// ends the start.
    pub fn refused(
        &mut self,
        address: &str,
        refusal: &Refusal,
        identity: Option<&Identity>,
        now: Instant,
    ) -> Option<ClusterError> {
        let door = self.all.get_mut(address)?;
        door.why = Some(DialFailure::Refused(match refusal {
            Refusal::TooSlow => {
                "no answer in time; is a member running, and does the network let nodes through?"
                    .into()
            }
            refusal => refusal.to_string(),
        }));
        let identity = identity.filter(|_| !self.has_linked)?;
        let (address, own) = (address.to_owned(), identity.cluster.id);
        match *refusal {
            // A member's old address may be another cluster's today; a seed was given just now.
            Refusal::WrongCluster { here, there } if door.is_seed => {
                let there = if here == own { there } else { here };
                Some(ClusterError::WrongCluster { address, here: own, there })
            }
            Refusal::SameNodeTwice { node } if node == identity.node => {
                let since = *self.duplicate_since.get_or_insert(now);
                let lasts = now.duration_since(since) >= DUPLICATE_GRACE;
                lasts.then_some(ClusterError::SameNodeTwice { address, node })
            }
            _ => None,
        }
    }

    /// What is known of each seed, in words.
    pub fn shown(&self) -> String {
        let one = |(seed, door): (&String, &SeedStatus)| match &door.why {
            None => format!("{seed}: no answer yet"),
            Some(DialFailure::Refused(why)) => format!("{seed}: {why}"),
            Some(DialFailure::Unreachable(why)) => format!(
                "{seed}: no node answers ({why}); is a member running, and is this its --peer \
                 address?"
            ),
        };
        let seeds = self.all.iter().filter(|(_, door)| door.is_seed);
        seeds.map(one).collect::<Vec<String>>().join("; ")
    }

    /// The result of the attempts to reach an address, for people.
    pub fn outcome(&self, address: &str) -> String {
        match self.all.get(address).and_then(|door| door.why.as_ref()) {
            None => "no answer yet".into(),
            Some(DialFailure::Refused(why)) => why.clone(),
            Some(DialFailure::Unreachable(why)) => format!("no node answers ({why})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Cluster;
    use keyspace::NodeId;

    const IDENTITY: Identity =
        Identity { node: NodeId(7), cluster: Cluster { id: 1, hash_seed: [0; 16] }, joined_at: 5 };
    const SAME_NODE_TWICE: Refusal = Refusal::SameNodeTwice { node: NodeId(7) };

    #[test]
    fn another_cluster_behind_a_seed_ends_a_start_but_nothing_later() {
        let mut seed_statuses = SeedStatuses::new(&["a:1".into()]);
        let now = Instant::now();
        let wrong = Refusal::WrongCluster { here: 9, there: 1 };
        assert_eq!(
            seed_statuses.refused("a:1", &wrong, None, now),
            None,
            "no directory, no contradiction"
        );
        assert_eq!(seed_statuses.refused("b:1", &wrong, Some(&IDENTITY), now), None, "not a seed");
        let error = seed_statuses.refused("a:1", &wrong, Some(&IDENTITY), now).unwrap();
        let (address, here, there) = ("a:1".into(), 1, 9);
        assert_eq!(error, ClusterError::WrongCluster { address, here, there });
        seed_statuses.linked(None);
        assert_eq!(seed_statuses.refused("a:1", &wrong, Some(&IDENTITY), now), None);
    }

    #[test]
    fn a_process_that_has_just_died_ends_no_start() {
        let mut seed_statuses = SeedStatuses::new(&["a:1".into()]);
        let now = Instant::now();
        assert_eq!(seed_statuses.refused("a:1", &SAME_NODE_TWICE, Some(&IDENTITY), now), None);
        let almost = now + DUPLICATE_GRACE - Duration::from_millis(1);
        assert_eq!(seed_statuses.refused("a:1", &SAME_NODE_TWICE, Some(&IDENTITY), almost), None);
        let error =
            seed_statuses.refused("a:1", &SAME_NODE_TWICE, Some(&IDENTITY), now + DUPLICATE_GRACE);
        assert!(matches!(error, Some(ClusterError::SameNodeTwice { .. })));
    }

    #[test]
    fn seed_status_names_the_failure_of_each_address() {
        let mut seed_statuses = SeedStatuses::new(&["a:1".into(), "b:2".into(), "c:3".into()]);
        let now = Instant::now();
        seed_statuses.unreachable("a:1", "Connection refused");
        assert_eq!(seed_statuses.refused("b:2", &Refusal::WrongSecret, None, now), None);
        let shown = seed_statuses.shown();
        for words in ["a:1: no node answers (Connection", "b:2: wrong secret", "c:3: no answer yet"]
        {
            assert!(shown.contains(words), "{shown}");
        }
    }

    #[test]
    fn a_members_old_address_may_be_another_clusters_and_ends_no_start() {
        let mut seed_statuses = SeedStatuses::new(&["a:1".into()]);
        let now = Instant::now();
        seed_statuses.follow(["a:1".to_owned(), "b:2".to_owned()].iter());
        let wrong = Refusal::WrongCluster { here: 9, there: 1 };
        assert_eq!(seed_statuses.refused("b:2", &wrong, Some(&IDENTITY), now), None);
        assert!(
            seed_statuses.outcome("b:2").contains("wrong cluster"),
            "{}",
            seed_statuses.outcome("b:2")
        );
        assert!(!seed_statuses.shown().contains("b:2"), "no seed");
        assert!(seed_statuses.refused("a:1", &wrong, Some(&IDENTITY), now).is_some());
        seed_statuses.unreachable("b:2", "Connection refused");
        assert_eq!(seed_statuses.outcome("b:2"), "no node answers (Connection refused)");
        seed_statuses.linked(Some("b:2"));
        assert_eq!(seed_statuses.outcome("b:2"), "no answer yet");
        seed_statuses.follow([].iter());
        seed_statuses.unreachable("b:2", "Connection refused");
        assert_eq!(seed_statuses.outcome("b:2"), "no answer yet", "nobody is expected there");
    }
}

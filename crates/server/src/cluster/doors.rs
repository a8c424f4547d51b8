//! What became of the addresses to be asked, and is there one that ends this start?

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{ClusterError, Identity};
use crate::peer::Refusal;

/// For so long "this node is there already" may be said of a process that has just died.
const TWICE_PATIENCE: Duration = Duration::from_secs(4);

/// Each seed, and why it has led to no link yet.
#[derive(Debug)]
pub struct Doors {
    seeds: BTreeMap<String, Option<String>>,
    /// Some link was there in this life: what is heard at a door ends nothing any more.
    is_in: bool,
    /// Since when it is said that another process is this node.
    twice: Option<Instant>,
}

impl Doors {
    /// Nothing has been heard of these.
    pub fn new(seeds: &[String]) -> Self {
        let seeds = seeds.iter().map(|seed| (seed.clone(), None)).collect();
        Self { seeds, is_in: false, twice: None }
    }

    /// There is a link, to whomever.
    pub fn linked(&mut self) {
        self.is_in = true;
        self.seeds.values_mut().for_each(|why| *why = None);
    }

    /// Nobody could be spoken with.
    pub fn unreachable(&mut self, address: &str, why: &str) {
        if let Some(seed) = self.seeds.get_mut(address) {
            *seed = Some(format!(
                "nobody answers ({why}); is a member running, and is this its --peer address?"
            ));
        }
    }

    /// Whoever answered refuses, or is refused. An error if this ends the start.
    pub fn refused(
        &mut self,
        address: &str,
        refusal: &Refusal,
        identity: Option<&Identity>,
        now: Instant,
    ) -> Option<ClusterError> {
        let seed = self.seeds.get_mut(address)?;
        *seed = Some(match refusal {
            Refusal::TooSlow => {
                "no answer in time; is a member running, and does the network let nodes through?"
                    .into()
            }
            refusal => refusal.to_string(),
        });
        let identity = identity.filter(|_| !self.is_in)?;
        let (address, own) = (address.to_owned(), identity.cluster.id);
        match *refusal {
            Refusal::WrongCluster { here, there } => {
                let there = if here == own { there } else { here };
                Some(ClusterError::WrongCluster { address, here: own, there })
            }
            Refusal::SameNodeTwice { node } if node == identity.node => {
                let since = *self.twice.get_or_insert(now);
                let lasts = now.duration_since(since) >= TWICE_PATIENCE;
                lasts.then_some(ClusterError::SameNodeTwice { address, node })
            }
            _ => None,
        }
    }

    /// What is known of each seed, in words.
    pub fn shown(&self) -> String {
        let one = |(seed, why): (&String, &Option<String>)| {
            format!("{seed}: {}", why.as_deref().unwrap_or("no answer yet"))
        };
        self.seeds.iter().map(one).collect::<Vec<String>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Cluster;
    use keyspace::NodeId;

    const IDENTITY: Identity =
        Identity { node: NodeId(7), cluster: Cluster { id: 1, hash_seed: [0; 16] }, joined_at: 5 };
    const TWICE: Refusal = Refusal::SameNodeTwice { node: NodeId(7) };

    #[test]
    fn another_cluster_behind_a_seed_ends_a_start_but_nothing_later() {
        let mut doors = Doors::new(&["a:1".into()]);
        let now = Instant::now();
        let wrong = Refusal::WrongCluster { here: 9, there: 1 };
        assert_eq!(doors.refused("a:1", &wrong, None, now), None, "no directory, no contradiction");
        assert_eq!(doors.refused("b:1", &wrong, Some(&IDENTITY), now), None, "not a seed");
        let error = doors.refused("a:1", &wrong, Some(&IDENTITY), now).unwrap();
        let (address, here, there) = ("a:1".into(), 1, 9);
        assert_eq!(error, ClusterError::WrongCluster { address, here, there });
        doors.linked();
        assert_eq!(doors.refused("a:1", &wrong, Some(&IDENTITY), now), None);
    }

    #[test]
    fn a_process_that_has_just_died_ends_no_start() {
        let mut doors = Doors::new(&["a:1".into()]);
        let now = Instant::now();
        assert_eq!(doors.refused("a:1", &TWICE, Some(&IDENTITY), now), None);
        let almost = now + TWICE_PATIENCE - Duration::from_millis(1);
        assert_eq!(doors.refused("a:1", &TWICE, Some(&IDENTITY), almost), None);
        let error = doors.refused("a:1", &TWICE, Some(&IDENTITY), now + TWICE_PATIENCE);
        assert!(matches!(error, Some(ClusterError::SameNodeTwice { .. })));
    }

    #[test]
    fn words_say_what_is_wrong_at_each_door() {
        let mut doors = Doors::new(&["a:1".into(), "b:2".into(), "c:3".into()]);
        let now = Instant::now();
        doors.unreachable("a:1", "Connection refused");
        assert_eq!(doors.refused("b:2", &Refusal::WrongSecret, None, now), None);
        let shown = doors.shown();
        for words in ["a:1: nobody answers (Connection", "b:2: wrong secret", "c:3: no answer yet"]
        {
            assert!(shown.contains(words), "{shown}");
        }
    }
}

//! Does a cluster that arranges itself come to rest? Within a bound after the last fault the ring
//! must be ideal: tiled, agreed upon, at full strength, even ([`crate::check::ring`]).

use std::collections::BTreeMap;

use keyspace::{KeyspaceId, ShardId};

use super::World;
use crate::check::Violation;
use crate::check::ring::{Node, Replica, Ring};

/// Virtual time within which a cluster comes to rest after the last fault.
pub(super) const REST_MS_MAX: u64 = 60_000;
/// It is looked at once in so many milliseconds.
const LOOK_MS: u64 = 100;

impl World {
    /// The ring as it is now; nothing while nobody leads the system shard.
    pub(super) fn ring(&self) -> Option<Ring> {
        let machines = || self.seats.iter().filter_map(|seat| seat.machine.as_ref());
        let leads = |machine: &&crate::machine::Machine| {
            machine.shard(ShardId(0)).is_some_and(|shard| shard.is_leader())
        };
        let catalogue = machines().find(leads)?.catalogue()?;
        let mut keyspaces = BTreeMap::from([(KeyspaceId(0), self.mood.system_replicas)]);
        keyspaces.extend(catalogue.iter().map(|keyspace| (keyspace.id, self.asked_of(keyspace))));
        let mut nodes = Vec::new();
        for (at, seat) in self.seats.iter().enumerate() {
            let Some(machine) = &seat.machine else { continue };
            let replica = |shard: ShardId| {
                let here = machine.shard(shard).expect("it was listed");
                let view = here.view();
                let state = view.read();
                let members = &state.members;
                Replica {
                    shard,
                    id: here.replica(),
                    leads: here.is_leader(),
                    voters: members.voters.clone(),
                    learners: members.learners.clone(),
                    is_quiet: !members.is_joint() && state.roster.is_settled,
                }
            };
            let domains = self.arranging.as_ref().map(|arranging| &arranging.domains);
            let domain = domains.and_then(|domains| domains.get(at).cloned());
            // Who is in none that is known is in one of its own.
            let own = || format!("node {at}").into_boxed_str();
            let mut table: Vec<_> = machine.table().iter().cloned().collect();
            table.sort_by_key(|known| known.shard());
            nodes.push(Node {
                id: seat.node,
                domain: domain.filter(|domain| !domain.is_empty()).unwrap_or_else(own),
                keeps: catalogue.standings().of(seat.node).keeps_replicas(),
                table,
                replicas: machine.shard_ids().into_iter().map(replica).collect(),
            });
        }
        Some(Ring { keyspaces, nodes })
    }

    /// Lets time pass until the ring is ideal, and says how long that took.
    ///
    /// # Errors
    /// The rule that is broken when the bound is reached.
    pub(crate) fn come_to_rest(&mut self, millis_max: u64) -> Result<u64, Violation> {
        self.come_to(Ring::check, millis_max)
    }

    /// Lets time pass until the ring is ideal, but for load.
    ///
    /// # Errors
    /// As [`World::come_to_rest`].
    pub(crate) fn come_to_strength(&mut self, millis_max: u64) -> Result<u64, Violation> {
        self.come_to(
            |ring| ring.tiles().and_then(|()| ring.agrees()).and_then(|()| ring.is_whole()),
            millis_max,
        )
    }

    fn come_to(
        &mut self,
        check: impl Fn(&Ring) -> Result<(), Violation>,
        millis_max: u64,
    ) -> Result<u64, Violation> {
        let begun = self.now_ms;
        loop {
            let found = match self.ring() {
                Some(ring) => check(&ring),
                None => Err(Violation::new("liveness", "nobody leads the system shard")),
            };
            match found {
                Ok(()) => {
                    let took = self.now_ms - begun;
                    self.trace.event(format_args!("at rest after {took} ms"));
                    self.counts.rest_ms = self.counts.rest_ms.max(took);
                    return Ok(took);
                }
                Err(Violation { rule, text }) if self.now_ms - begun >= millis_max => {
                    let text = format!("{millis_max} ms after the last fault: {text}");
                    return Err(Violation::new(rule, text));
                }
                Err(_) => {}
            }
            for _ in 0..LOOK_MS {
                self.millisecond()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Plant, Stage};

    const BOUND_MS: u64 = 30_000;

    fn founded(plant: Option<Plant>) -> World {
        let mut world = World::on_stage(
            1,
            &Stage { nodes: 4, keyspaces: 1, domains: 0, is_ordered: false, is_linear: false },
            false,
        );
        world.found(1, BOUND_MS).expect("a cluster without faults comes to rest");
        for machine in world.seats.iter_mut().filter_map(|seat| seat.machine.as_mut()) {
            machine.is_deaf = plant == Some(Plant::ForgottenReplica);
        }
        world
    }

    #[test]
    fn a_dead_node_is_missed_until_it_is_replaced() {
        let mut world = founded(None);
        world.power_off(2);
        world.pass(3_000).expect("three of four are there");
        let early = world.come_to_rest(0).expect_err("nobody can have replaced it yet");
        assert_eq!(early.rule, "R12 every shard is at full strength");
        let took = world.come_to_rest(BOUND_MS).expect("its replicas are replaced");
        assert!(took > 0);
        world.power_on(2);
        world.finish().expect("it comes back");
    }

    #[test]
    fn a_forgotten_replica_is_found() {
        let mut world = founded(Some(Plant::ForgottenReplica));
        let (shard, _) = world.led_key(0).expect("somebody leads it");
        let (holders, others) = world.holders(shard);
        let follower = holders.iter().find(|at| Some(**at) != world.leader_of(shard));
        world.exchange(shard, *follower.expect("two followers"), others[0]);
        world.change_ends(shard).expect("another has taken its place");
        // Soon: another that is to come to its node would wait for it.
        let found = world.come_to_rest(3_000).expect_err("it stays where it was");
        assert_eq!(found.rule, "R12 no replica is forgotten", "{found}");
    }
}

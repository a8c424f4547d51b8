//! Does a cluster that balances itself come to rest? Within a bound after the last fault the ring
//! must be ideal ([`crate::check::ring`]).

use std::collections::BTreeMap;

use keyspace::{KeyspaceId, ShardId};

use super::World;
use crate::check::Violation;
use crate::check::ring::{Node, Replica, Ring};

/// Virtual time within which a cluster comes to rest after the last fault.
pub(super) const CONVERGENCE_MS_MAX: u64 = 60_000;
/// It is looked at once in so many milliseconds.
const LOOK_MS: u64 = 100;

impl World {
    /// The ring as it is now; `None` while the system shard has no leader.
    pub(super) fn ring(&self) -> Option<Ring> {
        let machines = || self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        let leads = |machine: &&crate::machine::Machine| {
            machine.shard(ShardId(0)).is_some_and(|shard| shard.is_leader())
        };
        let catalogue = machines().find(leads)?.catalogue()?;
        let mut keyspaces = BTreeMap::from([(KeyspaceId(0), self.profile.system_replicas)]);
        keyspaces.extend(catalogue.iter().map(|keyspace| (keyspace.id, self.asked_of(keyspace))));
        let mut nodes = Vec::new();
        for (at, seat) in self.node_slots.iter().enumerate() {
            let Some(machine) = &seat.machine else { continue };
            let replica = |shard: ShardId| {
                let here = machine.shard(shard).expect("the shard is on this node");
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
            let domains =
                self.placement_state.as_ref().map(|placement_state| &placement_state.domains);
            let domain = domains.and_then(|domains| domains.get(at).cloned());
            // Who is in none that is known is in one of its own.
            let own = || format!("node {at}").into_boxed_str();
            let mut table: Vec<_> = machine.table().iter().cloned().collect();
            table.sort_by_key(|known| known.shard());
            nodes.push(Node {
                id: seat.node,
                domain: domain.filter(|domain| !domain.is_empty()).unwrap_or_else(own),
                keeps: catalogue.admin_states().of(seat.node).keeps_replicas(),
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
    pub(crate) fn converge(&mut self, millis_max: u64) -> Result<u64, Violation> {
        self.converge_to(Ring::check, millis_max)
    }

    /// Lets time pass until the ring is ideal, but for load.
    ///
    /// # Errors
    /// As [`World::converge`].
    pub(crate) fn converge_without_balance(&mut self, millis_max: u64) -> Result<u64, Violation> {
        self.converge_to(
            |ring| ring.tiles().and_then(|()| ring.agrees()).and_then(|()| ring.is_whole()),
            millis_max,
        )
    }

    fn converge_to(
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
    use crate::cluster::{Plant, ScenarioSetup};

    const BOUND_MS: u64 = 30_000;

    fn founded(plant: Option<Plant>) -> World {
        let mut world = World::for_scenario(
            1,
            &ScenarioSetup {
                nodes: 4,
                keyspaces: 1,
                domains: 0,
                is_ordered: false,
                is_linear: false,
            },
            false,
        );
        world.found(1, BOUND_MS).expect("a cluster without faults comes to rest");
        for machine in world.node_slots.iter_mut().filter_map(|seat| seat.machine.as_mut()) {
            machine.ignores_lookup = plant == Some(Plant::ForgottenReplica);
        }
        world
    }

    #[test]
    fn a_dead_node_is_missed_until_it_is_replaced() {
        let mut world = founded(None);
        world.power_off(2);
        world.pass(3_000).expect("three of four are there");
        let early = world.converge(0).expect_err("nobody can have replaced it yet");
        assert_eq!(early.rule, "R12 every shard is fully replicated");
        let took = world.converge(BOUND_MS).expect("its replicas are replaced");
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
        world.wait_for_change(shard).expect("another has taken its place");
        // Soon: another that is to come to its node would wait for it.
        let found = world.converge(3_000).expect_err("it stays where it was");
        assert_eq!(found.rule, "R12 no replica is forgotten", "{found}");
    }
}

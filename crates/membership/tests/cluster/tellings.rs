//! What nodes tell about themselves: it reaches all, and the newest wins.

use keyspace::NodeId;
use membership::{Effect, Facts, FrameError, Load, Membership, Stamp};
use proptest::prelude::*;

use crate::world::{MILLI, SECOND, World, facts};

fn has_name(world: &World, node: u64, name: &str) -> bool {
    let seen = |core: &Membership| core.member(NodeId(node)).is_some_and(|m| m.facts.name == name);
    world.nodes.values().all(|node| seen(&node.core))
}

#[test]
fn a_new_address_is_known_to_all_soon_and_load_a_little_later() {
    for (count, loss) in [(5, 0), (50, 0), (50, 100), (50, 300)] {
        let mut world = World::cluster(count + loss, count, loss);
        world.with(2, |core, now, out| {
            let moved = Facts { name: "moved".into(), ..facts(2) };
            core.update_facts(now, moved, out).unwrap();
        });
        let took = world.until(10 * SECOND, "moved", |world| has_name(world, 2, "moved"));
        let load = Load {
            shards: 7,
            leaders: 3,
            data_bytes: 1 << 40,
            requests: None,
            follower_reads: 0,
            is_slow: true,
        };
        world.with(2, |core, now, out| {
            let loaded = Facts { name: "moved".into(), load, ..facts(2) };
            core.update_facts(now, loaded, out).unwrap();
        });
        let loaded = |world: &World| {
            let seen = |core: &Membership| core.member(NodeId(2)).unwrap().facts.load == load;
            world.nodes.values().all(|node| seen(&node.core))
        };
        let later = world.until(15 * SECOND, "loaded", loaded);
        println!(
            "{count} nodes, loss {loss}/1000: address known to all in {} ms, load in {} ms",
            took / MILLI,
            later / MILLI
        );
    }
}

#[test]
fn members_are_listed_in_the_order_of_joining() {
    let mut world = World::new(1);
    for node in [3, 1, 2] {
        let joined_at = 100 - node;
        world.start_as(node, 1, Facts { joined_at, ..facts(node) }, &[3]);
    }
    world.until(5 * SECOND, "whole", World::is_whole);
    let order: Vec<u64> = world.core(1).by_joining().iter().map(|m| m.node.0).collect();
    assert_eq!(order, [3, 2, 1]);
}

fn lone(node: u64, incarnation: u64, facts: Facts) -> Membership {
    Membership::new(NodeId(node), incarnation, facts, 0, 7).unwrap()
}

#[test]
fn facts_beyond_their_limits_are_refused_and_the_old_ones_stand() {
    let mut core = lone(1, 5, facts(1));
    let (mut out, long) = (Vec::new(), Facts { name: "x".repeat(65), ..facts(1) });
    core.update_facts(0, long.clone(), &mut out).unwrap_err();
    assert_eq!(*core.member(NodeId(1)).unwrap().facts, facts(1));
    assert!(Membership::new(NodeId(1), 5, long, 0, 7).is_err());
    assert!(Membership::new(NodeId(1), u64::MAX, facts(1), 0, 7).is_err());
}

#[test]
fn an_introduction_must_be_that_nodes_own() {
    let (mut core, mut out) = (lone(1, 5, facts(1)), Vec::new());
    let other = lone(2, 5, facts(2)).introduction();
    let wrong = core.connected(0, NodeId(3), &other, &mut out);
    assert!(matches!(wrong, Err(FrameError::Introduction { from: NodeId(3) })));
    for cut in 0..other.len() {
        let short = core.connected(0, NodeId(2), &other[..cut], &mut out);
        assert!(matches!(short, Err(FrameError::Decode { .. })));
    }
    assert_eq!((core.members().count(), out.len()), (1, 0));
    core.connected(0, NodeId(2), &other, &mut out).unwrap();
    assert_eq!(core.members().count(), 2);
}

proptest! {
    /// Tellings of one node reach another in any order, some twice: the newest stays.
    #[test]
    fn the_newest_facts_win_in_any_order(
        stamps in prop::collection::vec((1u64..4, 0usize..4), 1..12),
    ) {
        let mut core = lone(1, 1, facts(1));
        let mut out = Vec::new();
        let mut newest: Option<(Stamp, Facts)> = None;
        for (incarnation, updates) in stamps {
            let mut owner = lone(2, incarnation, facts(2));
            for update in 0..updates {
                let name = format!("{incarnation}.{update}");
                owner.update_facts(0, Facts { name, ..facts(2) }, &mut out).unwrap();
            }
            let stamp = owner.stamp(NodeId(2)).unwrap();
            let told = owner.member(NodeId(2)).unwrap().facts.clone();
            core.connected(0, NodeId(2), &owner.introduction(), &mut out).unwrap();
            if newest.as_ref().is_none_or(|(before, _)| stamp > *before) {
                newest = Some((stamp, told));
            }
            let (stamp, facts) = newest.as_ref().unwrap();
            prop_assert_eq!(core.stamp(NodeId(2)), Some(*stamp));
            prop_assert_eq!(core.member(NodeId(2)).unwrap().facts, facts);
        }
    }

    /// Frames that were bent on the way, or made up, never panic, and the node goes on.
    #[test]
    fn bent_frames_do_no_harm(
        bends in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        noise: Vec<u8>,
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut core, other) = (lone(1, 1, facts(1)), lone(2, 1, facts(2)));
        let mut out = Vec::new();
        core.connected(0, NodeId(2), &other.introduction(), &mut out).unwrap();
        let frames: Vec<Vec<u8>> = out.iter().filter_map(|effect| match effect {
            Effect::Send { bytes, .. } => Some(bytes.clone()),
            _ => None,
        }).collect();
        let mut twin = lone(2, 1, facts(2));
        let mut out = Vec::new();
        for mut bytes in frames.into_iter().chain([noise]) {
            for (place, value) in &bends {
                if !bytes.is_empty() {
                    let place = place.index(bytes.len());
                    bytes[place] = *value;
                }
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            let _refused_or_not = twin.step(MILLI, NodeId(1), &bytes, &mut out);
        }
        for second in 1..5 {
            twin.tick(second * SECOND, &mut out);
        }
        prop_assert!(twin.next_deadline().is_some());
    }
}

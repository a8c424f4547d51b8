//! Samples that belong together: a viewer that sees the first step of a transaction sees the last,
//! whichever nodes take the steps, and however few samples it wants.

use super::brokers::{World, events, everything, node};
use crate::event::EventType;
use crate::event::stream::{GroupStep, SampleGroup, Scope, ViewerId, WatchOptions};

fn watch(world: &mut World, samples: u32) -> ViewerId {
    let scope = Scope::Cluster(world.others(1));
    let viewer = world.watch(1, WatchOptions { scope, samples, ..everything() });
    (0..2).for_each(|_| world.tick());
    viewer
}

/// A node takes a step of a transaction.
fn step(world: &mut World, number: u64, id: u64, step: GroupStep) {
    let at = world.at();
    let group = Some(SampleGroup { id, step });
    let body = |_| format!("{{\"txn\":{id},\"by\":{number}}}");
    world.broker(number).sample(at, EventType::Transaction, Some("0"), group, body);
}

fn seen(world: &mut World, viewer: ViewerId) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..4 {
        world.tick();
        all.extend(events(&world.take(1, viewer)));
    }
    all
}

fn of(id: u64, nodes: &[u64]) -> Vec<String> {
    nodes.iter().map(|by| format!("{{\"txn\":{id},\"by\":{by}}}")).collect()
}

#[test]
fn transaction_of_many_steps_is_one_sample() {
    let mut world = World::new();
    let viewer = watch(&mut world, 1);
    for id in [1, 2] {
        step(&mut world, 2, id, GroupStep::First);
        (0..10).for_each(|_| step(&mut world, 2, id, GroupStep::Middle));
        step(&mut world, 2, id, GroupStep::Last);
    }
    assert_eq!(seen(&mut world, viewer), of(1, &[2; 12]), "all of the first, none of the second");
}

/// A busy node has requests for every sample that is wanted.
#[test]
fn requests_do_not_hide_transactions() {
    let mut world = World::new();
    let viewer = watch(&mut world, 1);
    for number in 0..10 {
        let at = world.at();
        let body = |_| format!("{{\"request\":{number}}}");
        world.broker(2).sample(at, EventType::Request, Some("0"), None, body);
    }
    step(&mut world, 2, 1, GroupStep::First);
    step(&mut world, 2, 1, GroupStep::Last);
    let expected = [vec!["{\"request\":0}".to_owned()], of(1, &[2, 2])].concat();
    assert_eq!(seen(&mut world, viewer), expected);
}

#[test]
fn transaction_that_another_node_takes_over_comes_whole() {
    let mut world = World::new();
    let viewer = watch(&mut world, 1);
    step(&mut world, 2, 1, GroupStep::First);
    step(&mut world, 2, 1, GroupStep::Middle);
    assert_eq!(seen(&mut world, viewer), of(1, &[2, 2]));
    world.cut.push(node(2));
    // Node 3 has begun to be asked for samples long ago, and has just given one.
    step(&mut world, 3, 5, GroupStep::First);
    step(&mut world, 3, 6, GroupStep::Takeover);
    step(&mut world, 3, 1, GroupStep::Takeover);
    step(&mut world, 3, 6, GroupStep::Last);
    step(&mut world, 3, 1, GroupStep::Last);
    let mut all = Vec::new();
    (0..10).for_each(|_| all.extend(seen(&mut world, viewer)));
    let of_first: Vec<_> = all.iter().filter(|one| one.contains(":1,")).cloned().collect();
    assert_eq!(of_first, of(1, &[3, 3]));
    let of_unknown = all.iter().filter(|one| one.contains(":6,")).count();
    assert_ne!(of_unknown, 1, "all or nothing: {all:?}");
}

#[test]
fn transaction_goes_on_behind_a_lost_link() {
    let mut world = World::new();
    let viewer = watch(&mut world, 1);
    step(&mut world, 2, 1, GroupStep::First);
    assert_eq!(seen(&mut world, viewer), of(1, &[2]));
    let at = world.at();
    world.broker(2).link_changed(node(1), at);
    step(&mut world, 2, 1, GroupStep::Middle);
    world.cut.push(node(2));
    (0..10).for_each(|_| world.tick());
    world.cut.clear();
    let at = world.at();
    world.broker(1).link_changed(node(2), at);
    world.broker(2).link_changed(node(1), at);
    world.carry(|| false);
    step(&mut world, 2, 1, GroupStep::Last);
    assert_eq!(seen(&mut world, viewer), of(1, &[2, 2]));
}

#[test]
fn transaction_goes_on_behind_a_message_that_was_not_sent() {
    let mut world = World::new();
    let viewer = watch(&mut world, 1);
    step(&mut world, 2, 1, GroupStep::First);
    // What the node sends at its tick does not go.
    let at = world.at();
    world.broker(2).tick(at);
    for (to, message) in world.broker(2).take_messages() {
        world.broker(2).not_sent(to, &message);
    }
    step(&mut world, 2, 1, GroupStep::Last);
    let mut all = Vec::new();
    (0..10).for_each(|_| all.extend(seen(&mut world, viewer)));
    assert_eq!(all, of(1, &[2, 2]));
}

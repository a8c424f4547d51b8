//! Who is alive: joins, deaths, pauses, partitions, restarts, departures.

use keyspace::NodeId;
use membership::{News, State};

use crate::world::{MILLI, SECOND, World, facts};

#[test]
fn three_five_and_fifty_nodes_find_together_under_loss() {
    for (count, bound) in [(3, 3), (5, 3), (50, 5)] {
        for loss in [0, 100, 300] {
            let mut world = World::new(count * 1_000 + loss);
            world.loss = loss;
            for node in 1..=count {
                // Everybody knows one other, not always the same.
                world.start(node, &[node / 2]);
            }
            let took = world.until(30 * SECOND, "together", World::is_together);
            println!("{count} nodes at {loss}/1000 loss join in {} ms", took / MILLI);
            if loss == 0 {
                assert!(took <= bound * SECOND, "{count} nodes took {} ms", took / MILLI);
            }
        }
    }
}

#[test]
fn a_death_is_known_to_all_in_four_seconds() {
    for count in [3, 5, 50] {
        for loss in [0, 100] {
            let (mut times, seeds) = (Vec::new(), if count == 50 { 10 } else { 40 });
            for seed in 0..seeds {
                let mut world = World::cluster(seed + 77, count, loss);
                let wait = 2 * SECOND + world.draw_below(1_000) * MILLI;
                world.run(wait);
                let victim = 1 + world.draw_below(count);
                world.kill(victim);
                let took =
                    world.until(10 * SECOND, "down", |world| world.all_see(victim, State::Down));
                times.push(took / MILLI);
                assert!(world.nodes.values().all(|node| node.core.complaints() == 0));
            }
            times.sort_unstable();
            let (median, last) = (times[times.len() / 2], times[times.len() - 1]);
            println!("{count} nodes, loss {loss}/1000: median {median} ms, worst {last} ms");
            assert!(last <= 4_000, "{count} nodes: {last} ms");
        }
    }
}

#[test]
fn live_nodes_come_back_and_none_is_suspected_without_loss() {
    for (count, loss) in [(3, 0), (50, 0), (3, 300), (5, 300), (50, 300)] {
        let mut world = World::cluster(5, count, loss);
        let begin = world.now;
        world.run(60 * SECOND);
        let suspected = world.count_since(begin, |news| matches!(news, News::Suspect(_)));
        let down = world.count_since(begin, |news| matches!(news, News::Down(_)));
        println!("{count} nodes, loss {loss}/1000, 60 s: {suspected} suspicions, {down} downs");
        if loss == 0 {
            assert_eq!((suspected, down), (0, 0));
        }
        world.loss = 0;
        world.until(8 * SECOND, "all alive again", World::is_whole);
    }
}

#[test]
fn a_paused_node_comes_back_by_itself_after_any_time() {
    for (pause, dies) in [(1, false), (6, true), (600, true)] {
        let mut world = World::cluster(pause, 5, 0);
        let before = world.core(4).incarnation();
        world.pause(4);
        world.run(pause * SECOND);
        assert_eq!(world.all_see(4, State::Down), dies, "{pause} s");
        let begin = world.now;
        world.resume(4);
        world.until(4 * SECOND, "back", World::is_whole);
        world.run(5 * SECOND);
        assert!(world.is_whole());
        assert_eq!(world.core(4).incarnation() > before, dies);
        // Who slept blames nobody, and the others were there all the time.
        let down = world.count_since(begin, |news| matches!(news, News::Down(_)));
        assert_eq!(down, 0, "after {pause} s");
    }
}

#[test]
fn a_partition_heals_and_the_larger_side_sees_returns_only() {
    for (count, minority) in [(3, 1), (5, 2), (50, 1), (50, 20), (4, 2), (50, 25)] {
        let mut world = World::cluster(count + minority, count, 0);
        let some: Vec<u64> = (1..=minority).collect();
        world.isolate(&some);
        world.run(30 * SECOND);
        for &node in &some {
            let here = |id: u64| world.core(node).member(NodeId(id)).unwrap().state;
            assert_eq!(here(count), State::Down);
            assert_eq!(here(1), State::Alive, "a side stays together");
        }
        let healed = world.now;
        world.cut.clear();
        let took = world.until(20 * SECOND, "whole", World::is_whole);
        println!("{count} nodes, {minority} of them apart: whole in {} ms", took / MILLI);
        if minority * 2 < count {
            let large = world.nodes.range(minority + 1..).flat_map(|(_, node)| &node.news);
            let wrong = large.filter(|(at, news)| {
                *at >= healed && matches!(news, News::Down(_) | News::Refuted(_))
            });
            assert_eq!(wrong.count(), 0, "{count} nodes, {minority} apart");
        }
        world.run(10 * SECOND);
        assert!(world.is_whole());
    }
}

#[test]
fn a_link_that_is_dead_one_way_kills_nobody() {
    let mut world = World::cluster(11, 5, 0);
    let begin = world.now;
    world.cut.extend([(1, 2), (3, 4)]);
    world.run(60 * SECOND);
    assert_eq!(world.count_since(begin, |news| matches!(news, News::Down(_))), 0);
    assert!(world.is_whole());
}

#[test]
fn slow_links_that_reorder_frames_kill_nobody() {
    let mut world = World::cluster(13, 5, 0);
    world.delay_max = 150 * MILLI;
    let begin = world.now;
    world.run(60 * SECOND);
    assert_eq!(world.count_since(begin, |news| matches!(news, News::Down(_))), 0);
    world.kill(2);
    let took = world.until(10 * SECOND, "down", |world| world.all_see(2, State::Down));
    println!("5 nodes, delays up to 150 ms: death known in {} ms", took / MILLI);
    assert!(took <= 4 * SECOND);
}

#[test]
fn a_restarted_node_is_known_by_its_new_life() {
    for away in [20, 500, 10_000] {
        let mut world = World::cluster(away, 5, 0);
        world.kill(3);
        world.run(away * MILLI);
        world.start(3, &[5]);
        world.until(3 * SECOND, "back", World::is_whole);
        assert_eq!(world.core(1).members().count(), 5);
    }
}

#[test]
fn a_start_with_too_low_an_incarnation_outbids_itself() {
    let mut world = World::cluster(3, 3, 0);
    let before = world.core(2).incarnation();
    world.kill(2);
    world.run(300 * MILLI);
    world.start_as(2, 1, facts(2), &[1]);
    world.until(4 * SECOND, "back", World::is_whole);
    assert!(world.core(2).incarnation() > before);
}

#[test]
fn a_wiped_node_is_another_and_the_old_one_can_be_forgotten() {
    let mut world = World::cluster(21, 5, 0);
    world.kill(3);
    world.start(103, &[4]);
    world.until(8 * SECOND, "down", |world| world.all_see(3, State::Down) && world.is_whole());
    assert!(world.with(1, |core, now, out| core.forget(now, NodeId(4), out)).is_err());
    assert!(world.with(1, |core, now, out| core.forget(now, NodeId(99), out)).is_err());
    world.with(1, |core, now, out| core.forget(now, NodeId(3), out)).unwrap();
    let gone =
        |world: &World| world.nodes.values().all(|node| node.core.member(NodeId(3)).is_none());
    world.until(10 * SECOND, "forgotten", gone);
    world.run(20 * SECOND);
    assert!(gone(&world));
    assert_eq!(world.count_since(0, |news| *news == News::Forgotten(NodeId(3))), 5);
    // It was alive after all, somewhere: it may come back.
    world.start_as(3, 1, facts(3), &[4]);
    world.until(10 * SECOND, "back", World::is_whole);
    // What was forgotten goes out of mind in the end.
    world.kill(3);
    world.until(10 * SECOND, "down", |world| world.all_see(3, State::Down));
    world.with(4, |core, now, out| core.forget(now, NodeId(3), out)).unwrap();
    world.until(10 * SECOND, "forgotten", gone);
    world.run(membership::FORGOTTEN_NANOS + 60 * SECOND);
    assert!(world.nodes.values().all(|node| node.core.stamp(NodeId(3)).is_none()));
    assert!(world.is_whole());
}

#[test]
fn leaving_is_told_apart_from_dying() {
    for (count, loss) in [(3, 0), (5, 100), (50, 0), (50, 300)] {
        let mut world = World::cluster(count + loss, count, loss);
        let begin = world.now;
        world.with(2, |core, now, out| core.leave(now, out));
        while world.core(2).next_deadline().is_some() {
            world.run(100 * MILLI);
        }
        assert!(world.now <= begin + SECOND);
        world.kill(2);
        world.until(10 * SECOND, "left", |world| world.all_see(2, State::Left));
        world.run(20 * SECOND);
        assert!(world.all_see(2, State::Left));
        let down = world.count_since(begin, |news| *news == News::Down(NodeId(2)));
        assert!(loss > 0 || down == 0, "{down} saw a death");
        world.start(2, &[3]);
        world.until(10 * SECOND, "back", World::is_together);
    }
}

#[test]
fn any_live_member_is_a_seed_and_dead_ones_are_no_hindrance() {
    let mut world = World::cluster(31, 5, 100);
    world.kill(1);
    world.start(6, &[1, 5]);
    world.until(10 * SECOND, "joined by 5", World::is_whole);
    // Nobody is there yet: it dials until somebody is.
    world.start(7, &[8]);
    world.run(5 * SECOND);
    world.start(8, &[6]);
    world.until(10 * SECOND, "joined by 8", World::is_whole);
}

#[test]
fn a_hundred_nodes_join_at_once() {
    let mut world = World::cluster(41, 3, 0);
    for node in 4..=103 {
        world.start(node, &[1 + node % 3]);
    }
    let took = world.until(15 * SECOND, "whole", World::is_whole);
    println!("100 nodes join at once in {} ms", took / MILLI);
    assert!(world.frame_bytes_longest <= membership::FRAME_BYTES_MAX);
}

#[test]
fn more_nodes_than_a_digest_holds_find_together() {
    let mut world = World::new(43);
    for node in 1..=300 {
        world.start(node, &[node / 2]);
    }
    let took = world.until(60 * SECOND, "whole", World::is_whole);
    println!("300 nodes join in {} ms", took / MILLI);
    assert!(world.frame_bytes_longest <= membership::FRAME_BYTES_MAX);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let mut world = World::cluster(seed, 5, 200);
        world.pause(2);
        world.run(8 * SECOND);
        world.resume(2);
        world.kill(3);
        world.run(8 * SECOND);
        (world.trace, world.nodes.values().map(|node| node.sent).sum::<u64>())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_idle_cluster_is_quiet() {
    for count in [3, 5, 50] {
        let mut world = World::cluster(51, count, 0);
        world.run(10 * SECOND);
        let sum = |world: &World| {
            let nodes = world.nodes.values();
            nodes.fold((0, 0), |(frames, bytes), n| (frames + n.sent, bytes + n.sent_bytes))
        };
        let (frames, bytes) = sum(&world);
        world.run(60 * SECOND);
        let (frames, bytes) = (sum(&world).0 - frames, sum(&world).1 - bytes);
        let each = |total: u64| total as f64 / 60.0 / count as f64;
        println!("{count} nodes, idle: {:.1} frames/s, {:.0} B/s", each(frames), each(bytes));
        assert!(each(frames) <= 8.0);
    }
}

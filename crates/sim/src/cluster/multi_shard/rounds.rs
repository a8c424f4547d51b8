//! How many rounds of consensus does a client wait for? Measured where everything takes exactly its
//! time: a message [`D`] milliseconds, all else none. A round takes two of them, to the other
//! replicas and back; an exchange of messages between two nodes takes two as well.

use keyspace::ShardId;
use node::routing::fetch::FetchedData;

use super::reads::see;
use super::workloads::Workload;
use super::{OpPath, Part, WIDE, World};
use crate::check::Violation;
use crate::cluster::{Options, RunProfile};
use crate::options::Faults;
use crate::rng::Rng;

/// How long a message takes.
const D: u64 = 10;
/// A round of consensus.
const ROUND: u64 = 2 * D;
/// There and back between two nodes.
const EXCHANGE: u64 = 2 * D;

/// Three nodes, keys in shards that one of them leads, and its place.
struct ExactCluster {
    world: World,
    /// Two keys of one shard, and one of each of two others.
    keys: [usize; 4],
    leader: usize,
}

impl ExactCluster {
    fn new() -> Self {
        Self::of(1)
    }

    /// A world whose elections are drawn from this seed.
    fn of(seed: u64) -> Self {
        let options = Options { nodes: 3, faults: Faults::NONE, millis: 0, ..Options::of(4) };
        let mut rng = Rng::new(seed);
        let profile = RunProfile {
            replicas: 3,
            system_replicas: 3,
            starts_with_all_replicas: true,
            checkpoints: false,
            collection: false,
            check_nanos: 0,
            delay_ms_max: D,
            is_exact: true,
            places_replicas: false,
            is_ordered: false,
            is_linear: false,
            ..RunProfile::draw(&mut rng, &options)
        };
        let mut world = World::with_profile(&options, profile, rng);
        world.wide = Some(super::MultiShardClients::hashed(&options));
        // What they ask would open sessions, and make replicas current.
        world.caches = None;
        world.begin().expect("nothing breaks");
        world.begin_multi_shard().expect("nothing breaks");
        wait(&mut world, 3_000);
        let route =
            world.node_slots[0].machine.as_ref().expect("the node runs").routes[WIDE].clone();
        let names = world.wide.as_ref().expect("there are transactions").names.clone();
        let shard = |key: usize| route.shard(route.place_of_key(&names[key]));
        for leader in 0..3 {
            let led: Vec<usize> = (0..super::KEYS)
                .filter(|key| world.leader_of(shard(*key)) == Some(leader))
                .collect();
            let mut keys: Vec<usize> = Vec::new();
            for key in &led {
                if keys.iter().all(|other| shard(*other) != shard(*key)) {
                    keys.push(*key);
                }
            }
            let beside = |first: usize| {
                led.iter().copied().find(|key| *key != first && shard(*key) == shard(first))
            };
            // The record is kept in the first of the shards that are asked for.
            keys.sort_by_key(|key| shard(*key));
            if let ([a, b, c, ..], Some(two)) = (&keys[..], keys.first().and_then(|k| beside(*k))) {
                let keys = [*a, two, *b, *c];
                return Self { world, keys, leader };
            }
        }
        panic!("nobody leads three shards");
    }

    fn other(&self) -> usize {
        (self.leader + 1) % 3
    }

    /// How long who asks a node waits for this.
    fn takes(&mut self, at: usize, path: OpPath, parts: Vec<Part>) -> u64 {
        let world = &mut self.world;
        world.set_clocks(at);
        let is_coordinated = matches!(path, OpPath::Coordinated);
        let lists = Workload::ListAppend;
        let number = world.put_asked(None, at, lists, parts, Vec::new(), path);
        match is_coordinated {
            true => world.coordinate_wide(number),
            false => world.propose_wide(number),
        }
        self.wait_for(number)
    }

    /// A transaction that appends to these keys begins at a node.
    fn begins(&mut self, at: usize, keys: &[usize]) -> u64 {
        let (parts, lists) = (appends(self, keys), Workload::ListAppend);
        let world = &mut self.world;
        world.set_clocks(at);
        let number = world.put_asked(None, at, lists, parts, Vec::new(), OpPath::Coordinated);
        world.coordinate_wide(number);
        number
    }

    /// A node dies, and the others miss their links to it.
    fn dies(&mut self, at: usize) {
        self.world.kill(at);
        self.world.end_links(at, false);
        wait(&mut self.world, 5);
        self.world.lose_links();
    }

    fn shards(&self, keys: &[usize]) -> Vec<ShardId> {
        let route =
            &self.world.node_slots[self.leader].machine.as_ref().expect("the node runs").routes
                [WIDE];
        let names = &self.world.wide.as_ref().expect("there are transactions").names;
        keys.iter().map(|key| route.shard(route.place_of_key(&names[*key]))).collect()
    }

    fn wait_for(&mut self, number: u64) -> u64 {
        // Nodes hear of what is asked in the next millisecond.
        let asked_ms = self.world.now_ms + 1;
        while self.world.wide.as_ref().expect("the workload runs").pending.contains_key(&number) {
            wait(&mut self.world, 1);
            assert!(self.world.now_ms < asked_ms + 2_000, "it takes too long");
        }
        self.world.now_ms - asked_ms
    }

    /// The same for a read of keys, by looks; what was under way is over first, or not.
    fn look_takes(&mut self, at: usize, keys: &[usize]) -> u64 {
        let parts = keys.iter().copied().map(Part::Get).collect();
        self.world.begin_looking(None, at, Workload::ListAppend, parts);
        let number = self.world.wide.as_ref().expect("the workload runs").made;
        self.wait_for(number)
    }

    /// … and for a transaction that watches keys, which were looked at before.
    fn watched_takes(&mut self, at: usize, keys: &[usize]) -> u64 {
        let parts = appends(self, &keys[..1]);
        self.world.set_clocks(self.leader);
        let machine = self.world.node_slots[self.leader].machine.as_ref().expect("the node runs");
        let wide = self.world.wide.as_ref().expect("the workload runs");
        let names: Vec<&[u8]> = keys.iter().map(|key| wide.names[*key].as_slice()).collect();
        let (route, now) = (&machine.routes[WIDE], machine.moment());
        let seen = see(route, &names, now, FetchedData::NONE).expect("it leads them");
        let keys = keys.iter().copied().zip(seen);
        let watched = keys.map(|(key, (seen, value))| (key, seen, value)).collect();
        let (lists, path) = (Workload::ListAppend, OpPath::Coordinated);
        let number = self.world.put_asked(None, at, lists, parts, watched, path);
        let done = self.world.counts.wide_committed;
        self.world.coordinate_wide(number);
        let took = self.wait_for(number);
        assert_eq!(self.world.counts.wide_committed, done + 1, "nothing has changed");
        took
    }

    /// Until nothing is left to be done for what was before: records are forgotten together, after
    /// a tenth of a second.
    fn rest(&mut self) {
        wait(&mut self.world, 40 * D);
    }
}

fn wait(world: &mut World, millis: u64) {
    let passed: Result<(), Violation> = (0..millis).try_for_each(|_| world.millisecond());
    passed.expect("nothing breaks");
}

fn appends(exact: &mut ExactCluster, keys: &[usize]) -> Vec<Part> {
    let wide = exact.world.wide.as_mut().expect("the workload runs");
    keys.iter().map(|key| wide.append(*key)).collect()
}

#[test]
fn one_shard_takes_one_round() {
    let mut exact = ExactCluster::new();
    let [a, beside, ..] = exact.keys;
    let (here, other) = (exact.leader, exact.other());
    // The first that a node sends on opens a session, which takes as long again.
    let parts = appends(&mut exact, &[a]);
    assert_eq!(exact.takes(other, OpPath::Proposed, parts), 2 * (EXCHANGE + ROUND));
    for keys in [&[a][..], &[a, beside]] {
        let parts = appends(&mut exact, keys);
        assert_eq!(exact.takes(here, OpPath::Proposed, parts), ROUND);
        let parts = appends(&mut exact, keys);
        assert_eq!(exact.takes(other, OpPath::Proposed, parts), EXCHANGE + ROUND);
        exact.rest();
    }
}

#[test]
fn several_shards_take_one_round() {
    let mut exact = ExactCluster::new();
    let [a, beside, b, c] = exact.keys;
    let (here, other) = (exact.leader, exact.other());
    for keys in [&[a, b][..], &[a, beside, b, c]] {
        let parts = appends(&mut exact, keys);
        assert_eq!(exact.takes(here, OpPath::Coordinated, parts), ROUND);
        exact.rest();
        let parts = appends(&mut exact, keys);
        assert_eq!(exact.takes(other, OpPath::Coordinated, parts), EXCHANGE + ROUND);
        exact.rest();
    }
}

#[test]
fn what_is_watched_takes_no_further_round() {
    let mut exact = ExactCluster::new();
    let [a, _, b, c] = exact.keys;
    let (here, other) = (exact.leader, exact.other());
    assert_eq!(exact.watched_takes(here, &[a, b, c]), ROUND);
    exact.rest();
    assert_eq!(exact.watched_takes(other, &[a, b, c]), EXCHANGE + ROUND);
}

#[test]
fn keys_are_free_again_after_one_round_or_two() {
    let mut exact = ExactCluster::new();
    let [a, _, b, ..] = exact.keys;
    let here = exact.leader;
    assert_eq!(exact.look_takes(here, &[a, b]), 0);
    for (key, rounds) in [(a, 1), (b, 2)] {
        let parts = appends(&mut exact, &[a, b]);
        assert_eq!(exact.takes(here, OpPath::Coordinated, parts), ROUND);
        assert_eq!(exact.look_takes(here, &[key]) + 1, rounds * ROUND, "the answer, and then");
        exact.rest();
    }
}

#[test]
fn reads_ask_one_shard_after_the_other() {
    let mut exact = ExactCluster::new();
    let [a, _, b, c] = exact.keys;
    let (here, other) = (exact.leader, exact.other());
    assert_eq!(exact.look_takes(here, &[a, b, c]), 0);
    for key in [a, b, c] {
        // What was committed last it may hear of only now.
        let first = exact.look_takes(other, &[key]);
        assert!(first == EXCHANGE || first == 2 * EXCHANGE, "{first}");
        assert_eq!(exact.look_takes(other, &[key]), EXCHANGE);
    }
    for keys in [&[a, b][..], &[a, b, c]] {
        let looks = 2 * keys.len() as u64;
        exact.look_takes(other, keys);
        assert_eq!(exact.look_takes(other, keys), looks * EXCHANGE);
    }
}

/// A node dies whose transactions hold locks and stand in line for them: those that do are not
/// granted any more, and what is locked is free as soon as its links are missed for a while.
#[test]
fn keys_of_the_dead_are_free_soon() {
    // All is locked, and the answers are on their way; or those that were refused then stand in
    // line behind one of them.
    for (dies_ms, took_ms_max) in [(EXCHANGE / 2 + ROUND + D / 2, 600), (10 * D, 900)] {
        let mut exact = ExactCluster::new();
        let [a, _, b, ..] = exact.keys;
        let (dies, lives) = (exact.other(), (exact.leader + 2) % 3);
        for _ in 0..4 {
            exact.begins(dies, &[a, b]);
        }
        wait(&mut exact.world, dies_ms);
        exact.dies(dies);
        let parts = appends(&mut exact, &[a, b]);
        let took = exact.takes(lives, OpPath::Coordinated, parts);
        assert!(took < took_ms_max, "{took} ms after it died at {dies_ms}");
    }
}

/// A node dies that leads the shards in which its transactions hold locks: these are free as soon
/// as others lead there, however long that takes. What was asked of a replica just before it led is
/// asked again after half a second at most, which depends on how elections go: so over many.
///
/// Where the dead node is back in time to be elected again, it has lost no link to itself: what its
/// life before has locked is found after a second, as all that stays.
#[test]
fn keys_of_a_dead_leader_are_free_as_soon_as_another_leads() {
    let moments = [D + D / 2, ROUND - 2, ROUND + D / 2, 2 * ROUND - D / 2, 2 * ROUND + D / 2];
    let mut all = Vec::new();
    for seed in 1..12 {
        all.extend(moments.map(|dies_ms| freed_after(seed, dies_ms)));
    }
    all.sort_unstable();
    assert!(all[all.len() / 2] < 10 * ROUND, "{all:?} ms after others led");
    assert!(all[all.len() * 97 / 100] < 500, "{all:?} ms after others led");
    assert!(all[all.len() - 1] < 1_200, "{all:?} ms after others led");
}

/// How long after others lead the keys of a leader are free that dies at this moment.
fn freed_after(seed: u64, dies_ms: u64) -> u64 {
    let mut exact = ExactCluster::of(seed);
    let [a, _, b, ..] = exact.keys;
    let (dies, lives) = (exact.leader, exact.other());
    let shards = exact.shards(&[a, b]);
    for _ in 0..4 {
        exact.begins(dies, &[a, b]);
    }
    wait(&mut exact.world, dies_ms);
    exact.dies(dies);
    let number = exact.begins(lives, &[a, b]);
    let world = &mut exact.world;
    let (died_ms, mut led_ms) = (world.now_ms, 0);
    while world.wide.as_ref().expect("the workload runs").pending.contains_key(&number) {
        wait(world, 1);
        if shards.iter().any(|shard| world.leader_of(*shard).is_none()) {
            led_ms = world.now_ms;
        }
        assert!(world.now_ms < died_ms + 5_000, "it takes too long");
    }
    world.now_ms - led_ms
}

/// Who lives is not taken for dead: a transaction that has locked a key, and waits for a shard
/// whose leader has died, goes on when there is another one.
#[test]
fn transaction_awaiting_leader_is_not_recovered_by_others() {
    let mut exact = ExactCluster::new();
    let (dies, leads, lives) = (exact.leader, exact.other(), (exact.leader + 2) % 3);
    // The record is kept where somebody lives, or nobody could finish the transaction either.
    let [.., dead] = exact.keys;
    let is_led = |key: &usize| {
        let shards = exact.shards(&[*key, dead]);
        shards[0] < shards[1] && exact.world.leader_of(shards[0]) == Some(leads)
    };
    let led = (0..super::KEYS).find(is_led).expect("the node leads a shard");
    exact.dies(dies);
    let done = exact.world.counts.wide_committed;
    let number = exact.begins(lives, &[led, dead]);
    let (began_ms, world) = (exact.world.now_ms, &mut exact.world);
    while world.wide.as_ref().expect("the workload runs").pending.contains_key(&number) {
        wait(world, 1);
        let other = world.node_slots[leads].machine.as_ref().expect("the node runs");
        assert_eq!(other.coordinated(), 0, "after {} ms", world.now_ms - began_ms);
    }
    assert!(world.now_ms - began_ms > 500, "another had to be elected first");
    assert_eq!(world.counts.wide_committed, done + 1);
}

/// Clients go through transactions of one or the other of two keys of a shard, all the time, and
/// somebody wants both: he is not passed over without end because one of them is never free.
#[test]
fn transaction_on_several_keys_of_shard_is_not_starved() {
    for begins_ms in 500..540 {
        let mut exact = ExactCluster::new();
        let [a, beside, b, c] = exact.keys;
        let (began_ms, mut under_way) = (exact.world.now_ms, [0; 6]);
        let mut wide = None;
        loop {
            let pending = &exact.world.wide.as_ref().expect("the workload runs").pending;
            if wide.is_some_and(|wide| !pending.contains_key(&wide)) {
                break;
            }
            let is_over = under_way.map(|number| !pending.contains_key(&number));
            for client in (0..under_way.len()).filter(|client| is_over[*client]) {
                let keys = if client % 2 == 0 { [a, b] } else { [beside, c] };
                under_way[client] = exact.begins(client % 3, &keys);
            }
            let took = (exact.world.now_ms - began_ms).saturating_sub(begins_ms);
            if exact.world.now_ms - began_ms == begins_ms {
                wide = Some(exact.begins(exact.leader, &[a, beside, b, c]));
            }
            assert!(took < 30 * ROUND, "{took} ms, when it began at {begins_ms}");
            wait(&mut exact.world, 1);
        }
    }
}

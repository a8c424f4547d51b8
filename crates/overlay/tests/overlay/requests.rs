//! One set of requests against all lookups, in all forms: each ends at the owner, or says why not.

use std::collections::BTreeMap;

use keyspace::random::Random;
use keyspace::{NodeId, ShardId};
use overlay::request::{
    ATTEMPTS_MAX, FORWARDED_ANSWERS_MAX, Failure, Form, HOPS_LINEAR_MAX, HopSource, LookupRequest,
    NextHop, RequestEvent, RequestMessage, Requests, RouteHop, TableQuery, Tables, answer_ticks,
};
use overlay::route_cache::ROUTE_CACHE_ENTRIES_MAX;
use overlay::{
    FullTable, HOPS_MAX, Kind, Lookup, Message, Outbox, RouteCache, Step, Table as Descriptors,
    Update,
};
use proptest::prelude::*;

use crate::ring_world::{KEYSPACE, KINDS, Table, World};

/// The table of one shard on one node; of `full` and cached routes the node's,
/// which leads one shard.
enum Here<'a> {
    Shard(ShardId, &'a Table),
    Node(ShardId, &'a dyn Lookup),
}

impl Tables for Here<'_> {
    fn next(&self, ask: &TableQuery<'_>) -> Option<NextHop> {
        let (lookup, shard) = match self {
            Here::Shard(here, table) => (ask.at == Some(*here)).then(|| (table.lookup(), *here))?,
            Here::Node(here, lookup) => (*lookup, *here),
        };
        let is_hop = matches!(self, Here::Shard(..));
        Some(match lookup.next(ask.point) {
            Step::Owner(owner) if owner.shard() == shard => NextHop::Here(owner.clone()),
            Step::Owner(member) | Step::Closer(member) => {
                let (member, by) = (member.clone(), HopSource::RouteCache);
                NextHop::Member { member, by, is_hop, from: None }
            }
            Step::Ask(peers) => NextHop::AnyNode(peers.to_vec()),
        })
    }
}

/// What leads from node to node.
enum Led {
    /// By the tables of a ring.
    Ring(World),
    /// By a full table on every node.
    Full(FullTable),
}

/// Nodes with requests, and what is on its way between them.
struct Net {
    led: Led,
    /// What a request begins with, if not with what leads.
    image: Option<RouteCache>,
    nodes: BTreeMap<NodeId, Requests>,
    flying: Vec<(NodeId, RequestMessage)>,
    events: Vec<RequestEvent>,
    messages: usize,
    is_traced: bool,
}

impl Net {
    fn new(led: Led, shards: &[ShardId]) -> Self {
        let node = |shard: &ShardId| (NodeId(shard.0), Requests::new(NodeId(shard.0), 0));
        let nodes = shards.iter().map(node).collect();
        let (image, flying, events) = (None, Vec::new(), Vec::new());
        Self { led, image, nodes, flying, events, messages: 0, is_traced: false }
    }

    /// Something happens at a node.
    fn at(
        &mut self,
        node: NodeId,
        f: impl FnOnce(&mut Requests, &Here<'_>, &mut Outbox, &mut Vec<RequestEvent>),
    ) {
        let shard = ShardId(node.0);
        let here = match (&self.led, &self.image) {
            (Led::Full(_), Some(image)) if node == NodeId(1) => Here::Node(shard, image),
            (Led::Full(full), _) => Here::Node(shard, full),
            (Led::Ring(world), _) => match world.tables.get(&shard) {
                Some(table) => Here::Shard(shard, table),
                None => return,
            },
        };
        let mut out = Outbox::new();
        let requests = self.nodes.get_mut(&node).expect("a node");
        f(requests, &here, &mut out, &mut self.events);
        for (to, message) in out {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
            let Message::Request(word) = message else { panic!("{message:?}") };
            self.messages += 1;
            self.flying.push((to, word));
        }
    }

    fn deliver(&mut self, index: usize, again: bool) {
        let (to, word) = self.flying[index].clone();
        if !again {
            self.flying.remove(index);
        }
        self.at(to, |requests, here, out, events| requests.step(word, here, out, events));
    }

    fn tick(&mut self) {
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.at(node, |requests, here, out, events| requests.tick(here, out, events));
        }
        // The table where the request began distrusts a shard that was silent.
        for event in &self.events {
            if let (RequestEvent::Silent { at: Some(at), shard, generation }, Led::Ring(world)) =
                (event, &mut self.led)
            {
                let table = world.tables.get_mut(at);
                table
                    .into_iter()
                    .for_each(|t| t.lookup_mut().mark_unreachable(*shard, *generation));
            }
        }
    }

    fn begin(&mut self, from: ShardId, tail: &[u8], form: Form, hops_max: u32) {
        let at = matches!(self.led, Led::Ring(_)).then_some(from);
        let (kind, cached, is_traced) = (Kind::Chord, false, self.is_traced);
        let (keyspace, tail) = (KEYSPACE, tail.to_vec());
        let request = LookupRequest { kind, at, keyspace, tail, form, cached, is_traced, hops_max };
        self.at(NodeId(from.0), |requests, here, out, events| {
            requests.begin(request, here, out, events);
        });
    }

    /// Everything arrives in order; what came of it.
    fn settle(&mut self) -> Vec<RequestEvent> {
        while !self.flying.is_empty() {
            self.deliver(0, false);
        }
        std::mem::take(&mut self.events)
    }

    fn open(&self) -> usize {
        self.nodes.values().map(|requests| requests.counts().0 + requests.counts().1).sum()
    }
}

fn places(count: u8) -> Vec<Vec<u8>> {
    (1..count).map(|n| vec![n.wrapping_mul(37), n]).collect()
}

/// All five lookups over the same shards, and for each the shards.
fn nets(count: u8) -> Vec<(String, Net, World)> {
    let mut nets = Vec::new();
    for kind in KINDS {
        let mut world = World::grown(kind, 3, &places(count));
        (0..100).for_each(|_| world.round());
        let again = World::grown(kind, 3, &places(count));
        let net = Net::new(Led::Ring(world), &again.shards());
        nets.push((format!("{kind:?}"), net, again));
    }
    for with_image in [false, true] {
        let world = World::grown(KINDS[0], 3, &places(count));
        let mut full = FullTable::new(1);
        for ring in world.rings() {
            full.learn(Update::Shard(ring.me().clone()));
        }
        let mut net = Net::new(Led::Full(full), &world.shards());
        if with_image {
            let mut image = RouteCache::new(ROUTE_CACHE_ENTRIES_MAX);
            image.peers(&[NodeId(2), NodeId(3)]);
            net.image = Some(image);
        }
        nets.push((if with_image { "image" } else { "full" }.to_owned(), net, world));
    }
    nets
}

#[test]
fn every_lookup_in_every_form_ends_at_the_owner() {
    for (name, mut net, world) in nets(24) {
        for form in Form::ALL {
            let (mut asked, mut legs_in_all) = (0, 0);
            (net.messages, net.is_traced) = (0, true);
            for (from, place) in world
                .shards()
                .into_iter()
                .flat_map(|from| places(24).into_iter().map(move |place| (from, place)))
            {
                let tail = [&place[..], b"x"].concat();
                net.begin(from, &tail, form, HOPS_MAX.into());
                let events = net.settle();
                let Some(RequestEvent::Found { owner, hops, trail, .. }) = events.last() else {
                    panic!("{name} {form:?}: {events:?}")
                };
                assert_eq!(Some(owner.shard()), world.owner(&tail), "{name} {form:?}");
                let most = match name.as_str() {
                    "full" => 0,
                    "image" => 1,
                    ring if ring.contains("Linear") => 23,
                    _ => 9,
                };
                assert!(*hops <= most, "{name} {form:?}: {hops} hops");
                let asked_legs = events.iter().filter_map(|event| match event {
                    RequestEvent::Asked { leg, .. } => Some(leg),
                    _ => None,
                });
                let legs: Vec<_> = asked_legs.chain(trail).collect();
                if matches!(net.led, Led::Ring(_)) {
                    assert_eq!(legs.len(), *hops as usize, "{name} {form:?}");
                }
                let is_there =
                    |leg: &&RouteHop| leg.shard == owner.shard() || leg.by == HopSource::AnyNode;
                assert!(legs.last().is_none_or(is_there), "{legs:?}");
                legs_in_all += legs.len();
                asked += usize::from(!legs.is_empty());
                if let Some(image) = &mut net.image {
                    image.learn(Update::Shard(owner.clone()));
                }
            }
            // As many messages as the form promises.
            let messages = match form {
                Form::Iterative | Form::SemiRecursive => 2 * legs_in_all,
                Form::Recursive => legs_in_all + asked,
            };
            assert_eq!(net.messages, messages, "{name} {form:?}");
            assert_eq!(net.open(), 0);
        }
        if let Some(image) = &net.image {
            let known: &Descriptors = image.table();
            assert_eq!(known.len(), 23, "it has learnt whom it asked for");
        }
    }
}

#[test]
fn a_request_that_goes_too_far_is_lost() {
    for form in Form::ALL {
        let (_, mut net, world) = nets(40).swap_remove(0);
        net.begin(ShardId(1), &[255], form, 3);
        let lost = |id| vec![RequestEvent::Failed { id, why: Failure::Lost }];
        assert_eq!(net.settle(), lost(1), "{form:?}");
        net.begin(ShardId(1), &[255], form, HOPS_LINEAR_MAX);
        let events = net.settle();
        let [RequestEvent::Found { owner, hops: 4.., .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(Some(owner.shard()), world.owner(&[255]));
    }
}

#[test]
fn silent_node_is_reported_and_bypassed_until_lookup_fails() {
    for form in Form::ALL {
        let (_, mut net, _) = nets(12).swap_remove(1);
        net.begin(ShardId(1), &[255], form, HOPS_MAX.into());
        net.flying.clear();
        let mut silent = 0;
        for _ in 0..200 {
            net.tick();
            net.flying.clear();
            for event in std::mem::take(&mut net.events) {
                match event {
                    RequestEvent::Silent { at, .. } => {
                        assert_eq!(at, Some(ShardId(1)));
                        silent += 1;
                    }
                    RequestEvent::Asked { .. } => panic!("it is not traced"),
                    event => {
                        // Nobody is left to go to: that is why it fails in the end.
                        let failed = matches!(event, RequestEvent::Failed { id: 1, .. });
                        assert!(failed, "{event:?}");
                        silent += 100;
                    }
                }
            }
        }
        assert!((101..=100 + usize::from(ATTEMPTS_MAX)).contains(&silent), "{silent}");
        assert_eq!(net.open(), 0);
    }
}

#[test]
fn overloaded_forwarder_replies_busy_and_expires_entries() {
    let (_, mut net, _) = nets(24).swap_remove(0);
    let mut through = 0;
    for _ in 0..=FORWARDED_ANSWERS_MAX {
        net.begin(ShardId(1), &[255], Form::SemiRecursive, HOPS_MAX.into());
        // The first hop passes it on, and no answer comes.
        net.deliver(0, false);
        through += usize::from(matches!(net.flying[0].1, RequestMessage::Find { .. }));
        net.flying.clear();
    }
    assert_eq!(through, FORWARDED_ANSWERS_MAX);
    for _ in 0..answer_ticks(Form::SemiRecursive, HOPS_MAX.into()) {
        net.tick();
        net.flying.clear();
    }
    let passed: usize = net.nodes.values().map(|requests| requests.counts().1).sum();
    assert_eq!(passed, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lost_late_and_repeated_each_request_ends_once(
        lookup in 0..6usize,
        form in prop::sample::select(&Form::ALL[..]),
        seed: u64,
        disturbed in 0..200usize,
    ) {
        let (name, mut net, world) = nets(12).swap_remove(lookup);
        let (mut random, shards) = (Random::new(seed), world.shards());
        let mut begun = 0;
        let mut ended = BTreeMap::new();
        for step in 0..2000 {
            if step < disturbed {
                let from = shards[random.below(shards.len() as u64) as usize];
                let tail = random.bits().to_be_bytes();
                if random.one_in(3) {
                    net.begin(from, &tail, form, HOPS_MAX.into());
                    begun += 1;
                }
                if !net.flying.is_empty() {
                    let index = random.below(net.flying.len() as u64) as usize;
                    match random.below(8) {
                        0 => drop(net.flying.remove(index)),
                        1 => net.deliver(index, true),
                        _ => net.deliver(index, false),
                    }
                }
                if random.one_in(6) {
                    net.tick();
                }
            } else {
                while !net.flying.is_empty() {
                    net.deliver(0, false);
                }
                net.tick();
            }
            for event in std::mem::take(&mut net.events) {
                match event {
                    RequestEvent::Found { owner, .. } => {
                        let owner = owner.shard();
                        prop_assert!(shards.contains(&owner));
                        *ended.entry("found").or_insert(0) += 1;
                    }
                    RequestEvent::Failed { why, .. } => {
                        prop_assert!(why != Failure::Refused && why != Failure::Lost, "{}", name);
                        *ended.entry("failed").or_insert(0) += 1;
                    }
                    RequestEvent::Silent { .. }
                    | RequestEvent::Unsure { .. }
                    | RequestEvent::Asked { .. } => {}
                }
            }
        }
        prop_assert_eq!(ended.values().sum::<i32>(), begun, "{:?}", ended);
        prop_assert_eq!(net.open(), 0);
    }
}

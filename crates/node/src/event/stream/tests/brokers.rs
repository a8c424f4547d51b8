//! Brokers of three nodes: whatever links lose, viewers get each event once and in order, or are
//! told that some are missing.

use std::collections::BTreeMap;

use keyspace::random::Random;
use keyspace::{NodeId, Timestamp};

use crate::event::EventType;
use crate::event::stream::broker::{REMOTE_VIEWERS_MAX, VIEWER_STALL_NANOS, VIEWERS_MAX};
use crate::event::stream::{
    Broker, CREDIT_BYTES_MAX, Cursor, EVENTS_KEPT_MAX, EventMessage, Filter, LEASE_NANOS, Moment,
    Output, Scope, Source, SourceState, ViewerId, WatchOptions, WatchRefusal,
};

const TICK_NANOS: u64 = 50_000_000;
const NODES: u64 = 3;

pub(super) struct World {
    brokers: BTreeMap<NodeId, Broker>,
    nanos: u64,
    flying: Vec<(NodeId, NodeId, Vec<u8>)>,
    told: u64,
    /// Of nodes that are cut off.
    pub(super) cut: Vec<NodeId>,
}

pub(super) fn node(number: u64) -> NodeId {
    NodeId(number)
}

impl World {
    pub(super) fn new() -> Self {
        let nanos = 1_000_000_000;
        let started = Timestamp(nanos);
        let make = |number| (node(number), Broker::new(node(number), started, number << 20));
        let brokers = (1..=NODES).map(make).collect();
        Self { brokers, nanos, flying: Vec::new(), told: 0, cut: Vec::new() }
    }

    pub(super) fn at(&self) -> Moment {
        Moment { now: Timestamp(self.nanos), nanos: self.nanos }
    }

    pub(super) fn others(&self, own: u64) -> Vec<Source> {
        let others = (1..=NODES).filter(|number| *number != own);
        others.map(|number| Source { node: node(number), is_up: true }).collect()
    }

    pub(super) fn broker(&mut self, number: u64) -> &mut Broker {
        self.brokers.get_mut(&node(number)).expect("the node is there")
    }

    fn tell(&mut self, number: u64, event_type: EventType) {
        self.told += 1;
        let (at, told) = (self.at(), self.told);
        let body = |_| format!(r#"{{"n":{told}}}"#);
        self.broker(number).event(at, event_type, None, body);
    }

    pub(super) fn watch(&mut self, number: u64, options: WatchOptions) -> ViewerId {
        let at = self.at();
        self.broker(number).watch(at, options).expect("there is room").0
    }

    fn watch_cluster(&mut self, number: u64) -> ViewerId {
        let scope = Scope::Cluster(self.others(number));
        self.watch(number, WatchOptions { scope, ..everything() })
    }

    /// Carries messages; those that `loses` holds for are lost.
    pub(super) fn carry(&mut self, mut loses: impl FnMut() -> bool) {
        for _ in 0..4 {
            for (from, broker) in &mut self.brokers {
                for (to, message) in broker.take_messages() {
                    let mut bytes = Vec::new();
                    message.encode(&mut bytes);
                    self.flying.push((*from, to, bytes));
                }
            }
            let at = self.at();
            for (from, to, bytes) in std::mem::take(&mut self.flying) {
                if self.cut.contains(&from) || self.cut.contains(&to) || loses() {
                    continue;
                }
                let message = EventMessage::decode(&bytes).expect("it was encoded here");
                if let Some(broker) = self.brokers.get_mut(&to) {
                    broker.receive(from, message, at);
                }
            }
        }
    }

    pub(super) fn tick(&mut self) {
        self.nanos += TICK_NANOS;
        let at = self.at();
        self.brokers.values_mut().for_each(|broker| broker.tick(at));
        self.carry(|| false);
    }

    pub(super) fn take(&mut self, number: u64, viewer: ViewerId) -> Vec<Output> {
        let at = self.at();
        let mut all = Vec::new();
        loop {
            let some = self.broker(number).take(viewer, at, 1 << 20);
            if some.is_empty() {
                return all;
            }
            all.extend(some);
        }
    }
}

pub(super) fn everything() -> WatchOptions {
    let (filter, scope, cursor, samples, until) = (Filter::default(), Scope::Node, None, 0, None);
    WatchOptions { filter, scope, cursor, samples, until }
}

fn texts(outputs: &[Output]) -> Vec<String> {
    let text = |output: &Output| match output {
        Output::Event { body, is_late: false, .. } => body.to_string(),
        Output::Event { body, is_late: true, .. } => format!("{body} late"),
        Output::Gap { of, gap, .. } => {
            format!("gap of {}: {:?}, {}", of.0, gap.events, gap.reason.name())
        }
        Output::Node { of, state } => format!("{} {}", of.0, state.name()),
        Output::End(reason) => format!("end {}", reason.name()),
    };
    outputs.iter().map(text).collect()
}

pub(super) fn events(outputs: &[Output]) -> Vec<String> {
    texts(outputs).into_iter().filter(|text| text.starts_with('{')).collect()
}

fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(|n| format!(r#"{{"n":{n}}}"#)).collect()
}

#[test]
fn viewer_of_a_node_gets_what_happens_and_resumes_behind_it() {
    let mut world = World::new();
    world.tell(1, EventType::Split);
    let viewer = world.watch(1, everything());
    assert_eq!(world.take(1, viewer), [], "it begins now");
    world.tell(1, EventType::Split);
    world.tell(2, EventType::Split);
    assert_eq!(world.broker(1).take_woken(), [viewer]);
    let outputs = world.take(1, viewer);
    assert_eq!(texts(&outputs), numbered([2]));
    let Some(Output::Event { cursor: Some(cursor), .. }) = outputs.last().cloned() else {
        panic!("{outputs:?}")
    };
    world.broker(1).unwatch(viewer);
    world.tell(1, EventType::Split);
    let again = world.watch(1, WatchOptions { cursor: Some(cursor), ..everything() });
    assert_eq!(texts(&world.take(1, again)), numbered([4]));
    let all = world.watch(1, WatchOptions { cursor: Some(Cursor::START), ..everything() });
    assert_eq!(texts(&world.take(1, all)), numbered([1, 2, 4]));
}

#[test]
fn viewer_that_resumes_too_late_is_told_how_many_are_missing() {
    let mut world = World::new();
    let viewer = world.watch(1, everything());
    world.tell(1, EventType::Split);
    world.take(1, viewer);
    (0..EVENTS_KEPT_MAX + 10).for_each(|_| world.tell(1, EventType::Split));
    let outputs = world.take(1, viewer);
    assert_eq!(texts(&outputs[..1]), ["gap of 1: Some(10), kept"]);
    assert_eq!(events(&outputs), numbered(12..=EVENTS_KEPT_MAX as u64 + 11));
}

#[test]
fn cluster_is_merged_by_time() {
    let mut world = World::new();
    let viewer = world.watch_cluster(1);
    world.carry(|| false);
    let mut outputs = Vec::new();
    for round in 0..20 {
        world.tell(1 + round % NODES, EventType::Split);
        world.nanos += 1000;
        world.tell(1 + (round + 1) % NODES, EventType::Merged);
        world.tick();
        outputs.extend(world.take(1, viewer));
    }
    world.tick();
    outputs.extend(world.take(1, viewer));
    assert_eq!(events(&outputs), numbered(1..=40));
    let mut sources = texts(&outputs).into_iter().filter(|text| text.ends_with("streaming"));
    assert_eq!(sources.by_ref().count(), 3, "each node once");
}

#[test]
fn stream_ends_when_all_was_told_up_to_a_time() {
    let mut world = World::new();
    world.tell(1, EventType::Split);
    world.nanos += 10;
    let until = Some(Timestamp(world.nanos));
    let cursor = Some(Cursor::START);
    let past = WatchOptions { cursor, until, ..everything() };
    let viewer = world.watch(1, past.clone());
    assert_eq!(texts(&world.take(1, viewer)), [r#"{"n":1}"#, "end until"]);
    let ahead = Some(Timestamp(world.nanos + 3 * TICK_NANOS));
    let viewer = world.watch(1, WatchOptions { until: ahead, ..past.clone() });
    assert_eq!(texts(&world.take(1, viewer)), [r#"{"n":1}"#]);
    let scope = Scope::Cluster(world.others(1));
    let merged = world.watch(1, WatchOptions { scope, until: ahead, ..past });
    world.tick();
    world.tell(2, EventType::Split);
    (0..2).for_each(|_| world.tick());
    world.nanos += 1;
    world.tell(1, EventType::Split);
    assert_eq!(texts(&world.take(1, viewer)), ["end until"], "nothing later");
    (0..2).for_each(|_| world.tick());
    let outputs = texts(&world.take(1, merged));
    let told: Vec<_> = outputs.iter().filter(|text| !text.ends_with("streaming")).collect();
    assert_eq!(told, [r#"{"n":1}"#, r#"{"n":2}"#, "end until"]);
}

#[test]
fn cluster_of_one_node_needs_no_ticks() {
    let mut world = World::new();
    let scope = Scope::Cluster(Vec::new());
    let viewer = world.watch(1, WatchOptions { scope, ..everything() });
    world.broker(1).take_woken();
    world.take(1, viewer);
    world.tell(1, EventType::Split);
    assert_eq!(world.broker(1).take_woken(), [viewer]);
    assert_eq!(texts(&world.take(1, viewer)), numbered([1]));
}

#[test]
fn nobody_is_asked_when_nobody_watches() {
    let mut world = World::new();
    let viewer = world.watch_cluster(1);
    world.tick();
    assert!(world.broker(2).needs_ticks());
    world.broker(1).unwatch(viewer);
    world.carry(|| false);
    assert!(!world.broker(1).needs_ticks() && !world.broker(2).needs_ticks());
    // The message that says so may be lost; so may the node.
    let _viewer = world.watch_cluster(1);
    world.tick();
    world.cut.push(node(1));
    world.nanos += LEASE_NANOS;
    world.tick();
    assert!(!world.broker(2).needs_ticks(), "the lease is over");
}

#[test]
fn node_that_goes_is_no_stall_and_comes_back_with_what_it_kept() {
    let mut world = World::new();
    let viewer = world.watch_cluster(1);
    (0..2).for_each(|_| world.tick());
    world.take(1, viewer);
    world.cut.push(node(3));
    world.tell(3, EventType::Split);
    for _ in 0..19 {
        world.tick();
        assert_eq!(texts(&world.take(1, viewer)), [""; 0]);
    }
    world.tell(2, EventType::Split);
    (0..2).for_each(|_| world.tick());
    assert_eq!(texts(&world.take(1, viewer)), ["3 silent", r#"{"n":2}"#]);
    world.cut.clear();
    let at = world.at();
    world.broker(1).link_changed(node(3), at);
    world.broker(3).link_changed(node(1), at);
    world.carry(|| false);
    world.tick();
    let outputs = world.take(1, viewer);
    assert_eq!(texts(&outputs), ["3 streaming", r#"{"n":1} late"#]);
    // It starts anew, and has forgotten everything.
    let started = Timestamp(world.nanos);
    world.brokers.insert(node(3), Broker::new(node(3), started, 99 << 20));
    let at = world.at();
    world.broker(1).link_changed(node(3), at);
    world.tell(3, EventType::Split);
    (0..3).for_each(|_| world.tick());
    let outputs = world.take(1, viewer);
    assert_eq!(texts(&outputs), ["gap of 3: None, restart", r#"{"n":3}"#]);
}

#[test]
fn members_that_are_down_or_gone_are_told() {
    let mut world = World::new();
    let viewer = world.watch_cluster(1);
    (0..2).for_each(|_| world.tick());
    world.take(1, viewer);
    let down = [Source { node: node(2), is_up: false }, Source { node: node(4), is_up: true }];
    for _ in 0..5 {
        let at = world.at();
        world.broker(1).set_members(&down, at);
        world.tick();
    }
    assert_eq!(texts(&world.take(1, viewer)), ["3 gone"], "node 2 streams, whatever is believed");
    world.cut.push(node(2));
    for _ in 0..25 {
        let at = world.at();
        world.broker(1).set_members(&down, at);
        world.tick();
    }
    let outputs = texts(&world.take(1, viewer));
    assert_eq!(outputs, ["4 silent", "2 silent", "2 down"], "and this node is there");
}

/// Frames are lost one by one, as no link does, and links with all that they carry.
#[test]
fn each_event_comes_once_whatever_is_lost() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut world = World::new();
        let viewer = world.watch_cluster(1);
        let mut outputs = Vec::new();
        for _ in 0..100 {
            for _ in 0..random.below(4) {
                world.nanos += 1;
                world.tell(1 + random.below(NODES), EventType::Split);
            }
            world.nanos += TICK_NANOS;
            let at = world.at();
            if random.below(10) == 0 {
                let gone = node(2 + random.below(NODES - 1));
                world.broker(1).link_changed(gone, at);
                world.brokers.get_mut(&gone).expect("it is there").link_changed(node(1), at);
            }
            world.brokers.values_mut().for_each(|broker| broker.tick(at));
            let loss = random.below(3);
            let mut dice = Random::new(random.bits());
            world.carry(|| dice.below(10) < loss);
            outputs.extend(world.take(1, viewer));
        }
        for _ in 0..60 {
            world.tick();
            outputs.extend(world.take(1, viewer));
        }
        let mut found: Vec<String> =
            events(&outputs).iter().map(|text| text.replace(" late", "")).collect();
        let is_late = |output: &Output| matches!(output, Output::Event { is_late: true, .. });
        let late = outputs.iter().filter(|output| is_late(output)).count();
        if late == 0 {
            assert_eq!(found, numbered(1..=world.told), "seed {seed}");
        }
        found.sort_by_key(|text| (text.len(), text.clone()));
        assert_eq!(found, numbered(1..=world.told), "seed {seed}: each one once");
        let cursors: Vec<Cursor> = outputs
            .iter()
            .filter_map(|output| match output {
                Output::Event { cursor, .. } => *cursor,
                _ => None,
            })
            .collect();
        assert!(cursors.is_sorted(), "seed {seed}");
    }
}

#[test]
fn viewer_that_takes_nothing_is_bounded_everywhere_and_found_stuck() {
    let mut world = World::new();
    let viewer = world.watch_cluster(1);
    let body = format!(r#"{{"x":"{}"}}"#, "x".repeat(1000));
    let tick = |world: &mut World| {
        let at = world.at();
        for _ in 0..100 {
            world.broker(2).event(at, EventType::Split, None, |_| body.clone());
        }
        world.tick();
    };
    let began = world.nanos;
    while !{
        let nanos = world.nanos;
        world.broker(1).is_stuck(viewer, nanos)
    } {
        tick(&mut world);
        assert!(world.nanos < began + 2 * VIEWER_STALL_NANOS, "it is found");
    }
    assert!(world.nanos >= began + VIEWER_STALL_NANOS);
    let outputs = world.take(1, viewer);
    let held: usize = events(&outputs).iter().map(String::len).sum();
    assert!(held <= 2 * CREDIT_BYTES_MAX, "{held} bytes were held for it");
    let nanos = world.nanos;
    assert!(!world.broker(1).is_stuck(viewer, nanos), "it has taken something");
    // A gap says how many events were not sent.
    (0..200).for_each(|_| tick(&mut world));
    for _ in 0..100 {
        world.tick();
        if texts(&world.take(1, viewer)).iter().any(|text| text.starts_with("gap of 2: Some(")) {
            return;
        }
    }
    panic!("no gap was told");
}

#[test]
fn samples_are_shared_among_nodes() {
    let mut world = World::new();
    let options = WatchOptions { samples: 10, ..everything() };
    let scope = Scope::Cluster(world.others(1));
    let viewer = world.watch(1, WatchOptions { scope, ..options });
    world.tick();
    let wanted = |world: &mut World, number| world.broker(number).samples_wanted();
    assert_eq!([1, 2, 3].map(|number| wanted(&mut world, number)), [4; 3]);
    let mut seen = 0;
    for _ in 0..40 {
        for number in 1..=NODES {
            let at = world.at();
            let (kind, group) = (EventType::Request, None);
            world.broker(number).sample(at, kind, Some("0"), group, |_| "{}".to_owned());
        }
        world.tick();
        seen += events(&world.take(1, viewer)).len();
    }
    assert!((12..=22).contains(&seen), "{seen} in two seconds, of 10 a second");
    world.broker(1).unwatch(viewer);
    world.carry(|| false);
    assert_eq!([1, 2, 3].map(|number| wanted(&mut world, number)), [0; 3]);
}

#[test]
fn viewers_are_bounded() {
    let mut world = World::new();
    let viewers: Vec<_> = (0..VIEWERS_MAX).map(|_| world.watch(1, everything())).collect();
    let at = world.at();
    assert_eq!(world.broker(1).watch(at, everything()), Err(WatchRefusal::TooMany));
    world.broker(1).unwatch(viewers[0]);
    world.watch(1, everything());
    assert_eq!(world.broker(1).counts().viewers_refused, 1);

    let mut world = World::new();
    let watch = |broker: &mut Broker, number: u64, at| {
        let message = EventMessage::Watch(crate::event::stream::WatchMessage {
            watch: number,
            restart: 0,
            cursor: Cursor::START,
            filter: Filter::default(),
            samples: 0,
            credit: 0,
        });
        broker.receive(node(9), message, at);
    };
    let at = world.at();
    (0..REMOTE_VIEWERS_MAX as u64).for_each(|number| watch(world.broker(2), number, at));
    assert_eq!(world.broker(2).take_messages(), []);
    watch(world.broker(2), 1000, at);
    let refused = (node(9), EventMessage::Refused { watch: 1000 });
    assert_eq!(world.broker(2).take_messages(), [refused]);
    // And its own viewers learn that.
    let viewer = world.watch_cluster(1);
    world.broker(1).take_messages();
    world.broker(1).receive(node(2), EventMessage::Refused { watch: viewer.0 }, at);
    let outputs = world.take(1, viewer);
    assert_eq!(outputs[0], Output::Node { of: node(2), state: SourceState::Refused });
}

#[test]
fn stopping_node_gives_what_there_is_and_the_end() {
    let mut world = World::new();
    let viewer = world.watch(1, everything());
    world.tell(1, EventType::NodeStopping);
    world.broker(1).stop();
    assert!(world.broker(1).take_woken().contains(&viewer));
    assert_eq!(texts(&world.take(1, viewer)), [r#"{"n":1}"#, "end stopping"]);
    assert_eq!(world.take(1, viewer), [], "once");
    let at = world.at();
    assert_eq!(world.broker(1).watch(at, everything()), Err(WatchRefusal::Stopping));
}

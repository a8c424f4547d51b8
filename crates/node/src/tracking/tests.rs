//! The tables of both sides: a leader of one shard, and a node with a few clients.

use keyspace::{KeyspaceId, NodeId, ShardId, Timestamp};

use super::changed::ChangedKeys;
use super::interests::{Interests, Invalidation, Invalidations, Registration, TrackRequest};
use super::leader::{KeyInterest, LeaderTable, Outbox, changes_at};
use super::message::{StreamId, TrackingMessage};
use super::unheard::{NAMED_MAX, Unheard};
use super::{LEASE_NANOS, RENEW_NANOS};
use command::changes::Changes;
use keyspace::codec::Reader;

const SHARD: ShardId = ShardId(6);
const KEYSPACE: KeyspaceId = KeyspaceId(1);
const NODE: NodeId = NodeId(2);

/// A node, and the leader of the only shard, without a network between them.
struct Pair {
    leader: LeaderTable,
    node: Interests<u32>,
    now: u64,
    heard: Invalidations<u32>,
}

impl Pair {
    fn new(keys_max: usize) -> Self {
        let (leader, node) = (LeaderTable::default(), Interests::new(keys_max));
        Self { leader, node, now: 1_000, heard: Vec::new() }
    }

    fn register(&mut self, keys: &[&str], wants_all: bool) {
        let (interests, mut out) =
            (keys.iter().map(|key| KeyInterest { key: key.as_bytes(), expiry_ms: 0 }), Vec::new());
        let (stream, next) =
            self.leader.register(NODE, 7, interests, wants_all, self.now, &mut out);
        let registration = Registration { leader: NodeId(1), keyspace: KEYSPACE, stream, next };
        let keys: Vec<Box<[u8]>> = keys.iter().map(|key| key.as_bytes().into()).collect();
        let asked = TrackRequest { shard: SHARD, keys: &keys, wants_all, since: self.now };
        self.node.registered(asked, &registration, self.now, &mut self.heard);
        self.deliver(out);
    }

    fn deliver(&mut self, out: Outbox) {
        for (node, message) in out {
            assert_eq!(node, NODE);
            self.node.receive(SHARD, &message, &mut self.heard);
        }
    }

    fn change(&mut self, keys: &[&str]) -> Outbox {
        let mut changed = ChangedKeys::default();
        keys.iter().for_each(|key| changed.changed(key.as_bytes(), Timestamp(1)));
        let mut out = Vec::new();
        self.leader.changed(&changed, &mut out);
        out
    }

    fn hold(&mut self, client: u32, key: &str) -> bool {
        self.node.hold(client, SHARD, key.as_bytes(), self.now).is_some()
    }

    fn heard(&mut self) -> Vec<(u32, String)> {
        let text = |what| match what {
            Invalidation::All => "all".to_owned(),
            Invalidation::Keys(keys) => {
                let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
                keys.join(" ")
            }
        };
        self.heard.drain(..).map(|(client, what)| (client, text(what))).collect()
    }
}

fn of(all: &[(u32, &str)]) -> Vec<(u32, String)> {
    all.iter().map(|(client, what)| (*client, (*what).to_owned())).collect()
}

#[test]
fn holders_of_a_changed_key_hear_of_it_once() {
    let mut pair = Pair::new(10);
    assert!(!pair.hold(1, "a"), "it is not registered");
    pair.register(&["a", "b"], false);
    assert!(pair.hold(1, "a") && pair.hold(2, "a") && pair.hold(2, "b"));
    let out = pair.change(&["a", "c"]);
    pair.deliver(out);
    assert_eq!(pair.heard(), of(&[(1, "a"), (2, "a")]));
    assert!(!pair.hold(1, "a") && pair.hold(2, "b"), "a must be registered again");
    assert!(pair.change(&["a"]).is_empty(), "nobody is registered for it");
}

#[test]
fn a_lost_message_invalidates_all_that_its_stream_holds() {
    let mut pair = Pair::new(10);
    pair.register(&["a", "b", "c"], false);
    assert!(pair.hold(1, "a") && pair.hold(2, "b"));
    let _lost = pair.change(&["a"]);
    let out = pair.change(&["c"]);
    pair.deliver(out);
    assert_eq!(pair.heard(), of(&[(1, "a"), (2, "b")]));
    assert!(!pair.hold(2, "b"));
}

#[test]
fn the_next_confirmation_shows_a_lost_message() {
    let mut pair = Pair::new(10);
    pair.register(&["a"], false);
    assert!(pair.hold(1, "a"));
    let _lost = pair.change(&["a"]);
    pair.now += RENEW_NANOS;
    let renewals = pair.node.tick(pair.now, &mut pair.heard);
    let [(_, SHARD, TrackingMessage::Renew { stream, sent })] = renewals[..] else {
        panic!("{renewals:?}")
    };
    let mut out = Vec::new();
    pair.leader.renew(NODE, (stream, sent), true, pair.now, &mut out);
    pair.deliver(out);
    assert_eq!(pair.heard(), of(&[(1, "a")]));
}

#[test]
fn silence_of_a_lease_invalidates_and_a_confirmation_prevents_it() {
    let mut pair = Pair::new(10);
    pair.register(&["a"], false);
    assert!(pair.hold(1, "a"));
    for is_leased in [true, false] {
        pair.now += LEASE_NANOS / 2;
        let renewals = pair.node.tick(pair.now, &mut pair.heard);
        let mut out = Vec::new();
        for (_, _, message) in renewals {
            let TrackingMessage::Renew { stream, sent } = message else { panic!("{message:?}") };
            pair.leader.renew(NODE, (stream, sent), is_leased, pair.now, &mut out);
        }
        pair.deliver(out);
        assert_eq!(pair.heard(), []);
    }
    pair.now += LEASE_NANOS / 2;
    assert!(!pair.hold(2, "a"), "nothing is read by a stream that nobody confirms");
    pair.node.tick(pair.now, &mut pair.heard);
    assert_eq!(pair.heard(), of(&[(1, "a")]));
}

#[test]
fn a_late_registration_registers_nothing() {
    let mut pair = Pair::new(10);
    pair.register(&["a"], false);
    let interest = KeyInterest { key: b"b", expiry_ms: 0 };
    let interests = std::iter::once(interest);
    let (stream, next) = pair.leader.register(NODE, 7, interests, false, 0, &mut Vec::new());
    let out = pair.change(&["b"]);
    pair.deliver(out);
    // The answer comes behind the change of what it has registered.
    let registration = Registration { leader: NodeId(1), keyspace: KEYSPACE, stream, next };
    let keys = [Box::from(*b"b")];
    let asked = TrackRequest { shard: SHARD, keys: &keys, wants_all: false, since: pair.now };
    pair.node.registered(asked, &registration, pair.now, &mut pair.heard);
    assert!(!pair.hold(1, "b") && pair.hold(1, "a"));
}

#[test]
fn a_new_stream_and_the_end_of_one_invalidate() {
    let mut pair = Pair::new(10);
    pair.register(&["a"], false);
    assert!(pair.hold(1, "a"));
    // Another leader, which knows nothing.
    pair.leader = LeaderTable::default();
    let (key, since) = ([Box::from(*b"b")], pair.now);
    let stream = StreamId { term: 8, number: 1 };
    let registration = Registration { leader: NodeId(3), keyspace: KEYSPACE, stream, next: 0 };
    let asked = TrackRequest { shard: SHARD, keys: &key, wants_all: false, since };
    pair.node.registered(asked, &registration, since, &mut pair.heard);
    assert_eq!(pair.heard(), of(&[(1, "a")]));
    assert!(pair.hold(1, "b"));
    pair.node.receive(SHARD, &TrackingMessage::Ended { stream }, &mut pair.heard);
    assert_eq!(pair.heard(), of(&[(1, "b")]));
}

#[test]
fn expired_values_count_as_changed() {
    let mut pair = Pair::new(10);
    pair.register(&["a", "b"], false);
    let interest = KeyInterest { key: b"a", expiry_ms: 500 };
    let interests = std::iter::once(interest);
    pair.leader.register(NODE, 7, interests, false, 0, &mut Vec::new());
    assert!(pair.hold(1, "a") && pair.hold(1, "b"));
    let mut out = Vec::new();
    pair.leader.expire(499, &mut out);
    assert!(out.is_empty());
    pair.leader.expire(500, &mut out);
    pair.deliver(out);
    assert_eq!(pair.heard(), of(&[(1, "a")]));
}

#[test]
fn a_value_that_has_expired_counts_as_changed_less_and_less_often() {
    assert_eq!((changes_at(0, 500), changes_at(700, 500)), (0, 700));
    let (mut now, mut changes) = (1_000, 0);
    while now < 61_000 {
        now = changes_at(1_000, now).next_multiple_of(100);
        changes += 1;
    }
    assert!(changes < 12, "{changes} changes in a minute");
}

#[test]
fn broadcasts_name_keys_with_the_prefix_and_flushes_all() {
    let mut pair = Pair::new(10);
    pair.node.broadcast(1, KEYSPACE, vec![Box::from(*b"user:")]);
    pair.node.broadcast(2, KeyspaceId(9), vec![Box::from(*b"")]);
    pair.register(&[], true);
    assert_eq!(pair.heard(), of(&[(1, "all")]), "nothing was heard before");
    assert!(pair.node.has_all(SHARD, pair.now));
    let out = pair.change(&["user:1", "x"]);
    pair.deliver(out);
    assert_eq!(pair.heard(), of(&[(1, "user:1")]));
    let (mut flushed, mut out) = (ChangedKeys::default(), Vec::new());
    flushed.flushed(None, &keyspace::Cut::Slot(0), Timestamp(1));
    pair.leader.changed(&flushed, &mut out);
    pair.deliver(out);
    assert_eq!(pair.heard(), of(&[(1, "all")]));
}

#[test]
fn a_full_table_gives_keys_up_and_says_so() {
    let mut pair = Pair::new(2);
    pair.register(&["a"], false);
    assert!(pair.hold(1, "a"));
    pair.register(&["b", "c"], false);
    assert_eq!((pair.node.keys(), pair.heard()), (2, of(&[(1, "a")])));
}

#[test]
fn another_version_than_the_client_was_told_is_noticed() {
    let mut pair = Pair::new(10);
    pair.register(&["a"], false);
    assert!(pair.hold(1, "a"));
    let told = |pair: &mut Pair, at| pair.node.told(1, SHARD, b"a", at);
    assert!(!told(&mut pair, Some(Timestamp(5))), "it is the first");
    assert!(!told(&mut pair, Some(Timestamp(5))));
    assert!(told(&mut pair, Some(Timestamp(6))));
    assert!(told(&mut pair, None), "which one is not known");
    assert!(told(&mut pair, Some(Timestamp(6))), "it was some version before");
    assert!(pair.node.release(1, SHARD, b"a") && !pair.node.release(1, SHARD, b"a"));
}

#[test]
fn clients_that_are_gone_hold_nothing_after_a_while() {
    let mut pair = Pair::new(10_000);
    let names: Vec<String> = (0..6_000).map(|number| format!("key:{number}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    pair.register(&keys, false);
    assert!(keys.iter().all(|key| pair.hold(1, key)) && pair.hold(2, "key:7"));
    assert_eq!((pair.node.keys(), pair.node.holders()), (6_000, 6_001));
    pair.node.forget(1);
    for _ in 0..100 {
        pair.now += LEASE_NANOS / 4;
        let renewals = pair.node.tick(pair.now, &mut pair.heard);
        let mut out = Vec::new();
        for (_, _, message) in renewals {
            let TrackingMessage::Renew { stream, sent } = message else { panic!("{message:?}") };
            pair.leader.renew(NODE, (stream, sent), true, pair.now, &mut out);
        }
        pair.deliver(out);
    }
    assert_eq!(pair.heard(), []);
    assert_eq!((pair.node.keys(), pair.node.holders()), (1, 1));
    assert!(pair.node.is_held(2, SHARD, b"key:7") && !pair.node.is_held(1, SHARD, b"key:7"));
    let out = pair.change(&["key:7", "key:8"]);
    pair.deliver(out);
    assert_eq!(pair.heard(), of(&[(2, "key:7")]));
    assert_eq!((pair.node.keys(), pair.node.holders()), (0, 0));
}

#[test]
fn what_is_unheard_is_one_message_of_bounded_length() {
    let mut unheard = Unheard::default();
    assert_eq!(unheard.take(), None);
    let keys = |names: &[&str]| names.iter().map(|name| name.as_bytes().into()).collect();
    unheard.add(Invalidation::Keys(keys(&["b", "a"])));
    unheard.add_keys(keys(&["b"]));
    assert!(unheard.names(b"a") && !unheard.names(b"c"));
    assert_eq!(unheard.take(), Some(Invalidation::Keys(keys(&["a", "b"]))));
    assert!(unheard.is_empty());
    for key in 0..NAMED_MAX as u64 + 1 {
        unheard.add_keys([Box::from(&key.to_le_bytes()[..])]);
    }
    unheard.add_keys(keys(&["b"]));
    assert!(unheard.names(b"c"));
    assert_eq!(unheard.take(), Some(Invalidation::All));
    assert!(unheard.is_empty());
}

#[test]
fn many_keys_of_one_entry_are_any_key() {
    let mut changed = ChangedKeys::default();
    (0..5_000u32).for_each(|key| changed.changed(&key.to_le_bytes(), Timestamp(1)));
    assert!(changed.is_any && changed.keys.is_empty());
}

#[test]
fn messages_are_read_as_they_were_written() {
    let stream = StreamId { term: 300, number: 5 };
    let keys = vec![Box::from(*b"a"), Box::from(*b"")];
    for message in [
        TrackingMessage::Renew { stream, sent: 1 << 40 },
        TrackingMessage::Alive { stream, next: 3, sent: 9 },
        TrackingMessage::Changed { stream, number: 4, keys },
        TrackingMessage::AnyChanged { stream, number: 7 },
        TrackingMessage::Ended { stream },
    ] {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(TrackingMessage::decode(&mut reader), Ok(message));
        assert!(reader.rest().is_empty());
        assert!(
            (0..bytes.len())
                .all(|n| TrackingMessage::decode(&mut Reader::new(&bytes[..n])).is_err())
        );
    }
}

#[test]
fn keys_beyond_a_limit_that_falls_are_given_up_with_the_next_tick() {
    let mut pair = Pair::new(10);
    pair.register(&["a", "b", "c"], false);
    for key in ["a", "b", "c"] {
        assert!(pair.hold(1, key));
    }
    pair.node.set_keys_max(1);
    assert_eq!((pair.node.keys_max(), pair.heard()), (1, Vec::new()));
    pair.node.tick(pair.now, &mut pair.heard);
    assert_eq!((pair.heard().len(), pair.node.keys()), (2, 1));
}

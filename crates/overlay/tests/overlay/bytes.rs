//! Messages as bytes: read as written, refused or read one way when changed, never a panic.

use std::sync::Arc as Shared;

use keyspace::{
    Arc, DecodeError, Descriptor, Generation, KeyspaceId, NodeId, Position, ReplicaId, ShardId,
};
use overlay::message::{MESSAGE_BYTES_MAX, SUMMARY_VERSIONS_MAX, WANT_SHARDS_MAX};
use overlay::ring::message::{RingMessage, Strategy as Ring};
use overlay::ring::{SUCCESSORS_MAX, TableEntry};
use overlay::table::{BUCKETS, Version, bucket_of};
use overlay::{DroppedKeyspaces, Kind, KnownShard, Message};
use proptest::prelude::*;

fn known() -> impl Strategy<Value = Shared<KnownShard>> {
    let tail = || prop::collection::vec(any::<u8>(), 0..5);
    let leader = prop::option::of((0..u64::MAX, 1..u64::MAX));
    (any::<(u64, u32, u64)>(), [tail(), tail()], 0..4u64, leader).prop_map(
        |((shard, keyspace, generation), [start, end], replicas, leader)| {
            let at = |tail: &[u8]| Position::at(KeyspaceId(keyspace), tail);
            let descriptor = Descriptor {
                shard: ShardId(shard),
                arc: Arc::new(at(&start), at(&end)).unwrap(),
                replicas: (0..replicas)
                    .map(|n| (ReplicaId(n * 200), NodeId(n + shard / 2)))
                    .collect(),
                generation: Generation(generation),
                leader: leader.map(|(replica, _)| ReplicaId(replica)),
            };
            Shared::new(KnownShard::new(descriptor, leader.map_or(0, |(_, term)| term)))
        },
    )
}

fn summary() -> impl Strategy<Value = Message> {
    prop::collection::vec(any::<(u64, u64, u64)>(), 0..30).prop_map(|versions| {
        let mut buckets = vec![Vec::new(); BUCKETS];
        let mut versions: Vec<Version> = versions
            .into_iter()
            .map(|(shard, generation, term)| Version {
                shard: ShardId(shard),
                generation: Generation(generation),
                term,
            })
            .collect();
        versions.sort_by_key(|version| version.shard);
        versions.dedup_by_key(|version| version.shard);
        for version in versions {
            buckets[usize::from(bucket_of(version.shard))].push(version);
        }
        let told = (0..=255)
            .zip(buckets)
            .filter(|(bucket, versions)| *bucket % 64 == 0 || !versions.is_empty());
        Message::Summary(told.collect())
    })
}

fn dropped() -> impl Strategy<Value = Message> {
    prop::collection::vec((any::<u32>(), 0..9u32), 0..9).prop_map(|ranges| {
        let mut dropped = DroppedKeyspaces::default();
        for (first, more) in ranges {
            dropped.insert(KeyspaceId(first), KeyspaceId(first.saturating_add(more)));
        }
        Message::Dropped(dropped)
    })
}

fn words() -> impl Strategy<Value = RingMessage> {
    let number = any::<u64>;
    prop_oneof![
        number().prop_map(|number| RingMessage::Ask { number }),
        (number(), prop::option::of(known()), prop::collection::vec(known(), 0..5)).prop_map(
            |(number, predecessor, successors)| RingMessage::Neighbours {
                number,
                predecessor,
                successors
            }
        ),
        Just(RingMessage::Notify),
        number().prop_map(|number| RingMessage::Ping { number }),
        number().prop_map(|number| RingMessage::Pong { number }),
        any::<(u64, u64, u64, u8, u64)>().prop_map(|(number, asker, node, hops, target)| {
            RingMessage::Find { number, asker: ShardId(asker), node: NodeId(node), hops, target }
        }),
        (number(), known()).prop_map(|(number, member)| RingMessage::Found { number, member }),
        any::<(u64, u8)>().prop_map(|(number, level)| RingMessage::AskFinger { number, level }),
        (number(), prop::option::of(known()))
            .prop_map(|(number, member)| RingMessage::Finger { number, member }),
    ]
}

fn rings() -> impl Strategy<Value = Message> {
    let strategy = prop::sample::select(&Ring::ALL[..]);
    (strategy, any::<u64>().prop_map(ShardId), known(), words())
        .prop_map(|(strategy, to, from, word)| Message::Ring { strategy, to, from, word })
}

fn requests() -> impl Strategy<Value = Message> {
    use overlay::request::{Find, Form, HOPS_LINEAR_MAX, HopSource, RequestMessage, RouteHop};
    let by = || {
        prop_oneof![
            Just(HopSource::AnyNode),
            Just(HopSource::RouteCache),
            Just(HopSource::Bucket),
            Just(HopSource::Full),
            any::<u8>().prop_map(|index| HopSource::Ring(TableEntry::Successor(index))),
            any::<u8>().prop_map(|level| HopSource::Ring(TableEntry::Finger(level))),
        ]
    };
    let leg = move || {
        (any::<(u64, u64)>(), by()).prop_map(|((shard, node), by)| RouteHop {
            shard: ShardId(shard),
            node: NodeId(node),
            by,
        })
    };
    let trail = move || prop::collection::vec(leg(), 0..5);
    let kinds = prop::sample::select(&Kind::ALL[..]);
    let forms = prop::sample::select(&Form::ALL[..]);
    let hops = || 0..=HOPS_LINEAR_MAX;
    let find = (any::<(u64, Option<u64>, u64, u32)>(), kinds, forms, any::<bool>());
    let find = (find, hops(), hops(), any::<Vec<u8>>(), prop::option::of(trail()));
    let find = find.prop_map(|((ids, kind, form, cached), hops, hops_max, tail, trail)| {
        let (number, to, origin, keyspace) = ids;
        let (to, origin, keyspace) = (to.map(ShardId), NodeId(origin), KeyspaceId(keyspace));
        RequestMessage::Find(Find {
            number,
            kind,
            to,
            form,
            cached,
            origin,
            hops,
            hops_max,
            keyspace,
            tail,
            trail,
        })
    });
    let words = prop_oneof![
        find,
        (any::<u64>(), known(), by()).prop_map(|(number, member, by)| RequestMessage::Next {
            number,
            member,
            by
        }),
        (any::<u64>(), hops(), known(), trail()).prop_map(|(number, hops, owner, trail)| {
            RequestMessage::Found { number, hops, owner, trail }
        }),
        any::<u64>().prop_map(|number| RequestMessage::Busy { number }),
        any::<u64>().prop_map(|number| RequestMessage::Lost { number }),
    ];
    words.prop_map(Message::Request)
}

fn messages() -> impl Strategy<Value = Message> {
    let sums = prop::collection::vec(any::<u64>(), BUCKETS)
        .prop_map(|sums| Box::new(<[u64; BUCKETS]>::try_from(sums).expect("as many")));
    let known = || prop::collection::vec(known(), 0..5);
    prop_oneof![
        (any::<u64>(), sums).prop_map(|(dropped, sums)| Message::Digest { dropped, sums }),
        summary(),
        prop::collection::vec(any::<u64>().prop_map(ShardId), 0..9).prop_map(Message::Want),
        known().prop_map(Message::Shards),
        known().prop_map(Message::Rumour),
        dropped(),
        rings(),
        requests(),
    ]
}

fn bytes(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written(message in messages()) {
        prop_assert_eq!(Message::decode(&bytes(&message)), Ok(message));
    }

    #[test]
    fn changed_bytes_are_refused_or_read_one_way(
        message in messages(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
        cut: prop::sample::Index,
    ) {
        let mut changed = bytes(&message);
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        if let Ok(read) = Message::decode(&changed) {
            prop_assert_eq!(bytes(&read), changed.clone());
        }
        let whole = bytes(&message);
        let cut = &whole[..cut.index(whole.len())];
        prop_assert!(Message::decode(cut).is_err(), "a piece of a message");
    }

    #[test]
    fn any_bytes_are_refused_or_read_one_way(tag in 0..10u8, rest: Vec<u8>) {
        let any = [&[1, tag][..], &rest].concat();
        if let Ok(read) = Message::decode(&any) {
            prop_assert_eq!(bytes(&read), any);
        }
    }
}

#[test]
fn the_bytes_of_small_messages() {
    assert_eq!(bytes(&Message::Want(vec![ShardId(300), ShardId(2)])), b"\x01\x03\x02\xac\x02\x02");
    let mut dropped = DroppedKeyspaces::default();
    dropped.insert(KeyspaceId(3), KeyspaceId(5));
    assert_eq!(bytes(&Message::Dropped(dropped)), b"\x01\x06\x01\x03\x05");
    let digest = Message::Digest { dropped: 1, sums: Box::new([2; BUCKETS]) };
    let digest = bytes(&digest);
    assert_eq!(digest[..18], *b"\x01\x01\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
    assert_eq!(digest.len(), 2 + 8 + 8 * BUCKETS);
    let whole = Descriptor {
        shard: ShardId(5),
        arc: Arc::whole(KeyspaceId(1)),
        replicas: Vec::new(),
        generation: Generation(2),
        leader: None,
    };
    let from = Shared::new(KnownShard::new(whole, 0));
    let (strategy, to) = (Ring::Chord, ShardId(300));
    let ring = |word| bytes(&Message::Ring { strategy, to, from: from.clone(), word });
    let head = b"\x01\x07\x02\xac\x02\x01\x05\x02\x01\0\0\0\0\0";
    assert_eq!(ring(RingMessage::Notify), [&head[..], b"\x03"].concat());
    let word = RingMessage::Find {
        number: 300,
        asker: ShardId(5),
        node: NodeId(7),
        hops: 2,
        target: 1 << 63,
    };
    let body = b"\x06\xac\x02\x05\x07\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x80";
    assert_eq!(ring(word), [&head[..], body].concat());
}

#[test]
fn what_breaks_a_limit_or_an_order_is_refused() {
    let bucket = bucket_of(ShardId(9));
    for bad in [
        &[2, 3, 0][..],                              // a version that is not known
        &[1, 9],                                     // a message that is not known
        &[1, 3, 0, 0],                               // more than the message
        &[1, 2, 2, 7, 0, 7, 0],                      // a bucket twice
        &[1, 2, 1, bucket, 2, 9, 1, 1, 9, 1, 1],     // a shard twice
        &[1, 2, 1, bucket ^ 1, 1, 9, 1, 1],          // a shard of another bucket
        &[1, 6, 1, 0, 2],                            // the system keyspace
        &[1, 6, 2, 3, 4, 5, 6],                      // ranges that touch
        &[1, 6, 1, 4, 3],                            // an empty range
        &[1, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], // shards that are not there
    ] {
        assert!(Message::decode(bad).is_err(), "{bad:?}");
    }
    assert!(Message::decode(&[1, 2, 1, bucket, 1, 9, 1, 1]).is_ok());
    let count = |tag: u8, count: usize| {
        let mut out = vec![1, tag];
        keyspace::codec::put_varint(count as u64, &mut out);
        Message::decode(&out)
    };
    let field = |what| Err(DecodeError::Field { what });
    assert_eq!(count(3, WANT_SHARDS_MAX + 1), field("want count"));
    assert_eq!(count(3, WANT_SHARDS_MAX), Err(DecodeError::Short));
    let mut many = vec![1, 2, 1, 0];
    keyspace::codec::put_varint(SUMMARY_VERSIONS_MAX as u64 + 1, &mut many);
    assert_eq!(Message::decode(&many), field("version count"));
    let known = b"\x01\x05\x02\x01\0\0\0\0\0";
    let ring = |strategy: u8, rest: &[u8]| {
        let head = [1, 7, strategy, 3];
        Message::decode(&[&head[..], known, rest].concat())
    };
    assert!(ring(1, &[1, 9]).is_ok());
    assert_eq!(ring(4, &[1, 9]), Err(DecodeError::Tag { what: "strategy", found: 4 }));
    assert_eq!(ring(1, &[10]), Err(DecodeError::Tag { what: "word of a ring", found: 10 }));
    assert_eq!(ring(1, &[9, 1, 2]), field("member count"));
    assert_eq!(ring(1, &[2, 1, 0, SUCCESSORS_MAX as u8 + 1]), field("member count"));
    for bad in [&[1, 8, 6, 1][..], &[1, 8, 4, 1, 0], &[1, 8, 1, 1, 4], &[1, 8, 1, 1, 1, 2]] {
        assert!(Message::decode(bad).is_err(), "{bad:?}");
    }
    let long = vec![1; MESSAGE_BYTES_MAX + 1];
    assert_eq!(Message::decode(&long), field("message: too long"));
}

/// With the longest keys for places, an answer holds as many members as one message has room for.
#[test]
fn an_answer_with_the_longest_places_is_cut_to_a_message() {
    use overlay::known_shard::TAIL_BYTES_MAX;
    use overlay::{Linear, Lookup};
    let keyspace = KeyspaceId(1);
    let at = |byte: u8| Position::at(keyspace, &vec![byte; TAIL_BYTES_MAX]);
    let member = |byte: u8| {
        let arc = Arc::new(at(byte), at(byte + 1)).expect("one circle");
        let replicas = vec![(ReplicaId(1), NodeId(byte.into()))];
        let (shard, generation) = (ShardId(byte.into()), Generation(1));
        Shared::new(KnownShard::new(
            Descriptor { shard, arc, replicas, generation, leader: None },
            0,
        ))
    };
    let list: Vec<_> = (3..6).map(member).collect();
    let mut table = Linear::join(member(2), member(1), &list, 4);
    assert_eq!(table.ring().successors().len(), 3);
    let ask = Message::Ring {
        strategy: Ring::Linear,
        to: ShardId(2),
        from: member(1),
        word: RingMessage::Ask { number: 1 },
    };
    let mut out = Vec::new();
    table.step(NodeId(1), ask, &mut out);
    let [(NodeId(1), answer)] = &out[..] else { panic!("one answer") };
    assert_eq!(Message::decode(&bytes(answer)).as_ref(), Ok(answer));
    let Message::Ring { word: RingMessage::Neighbours { predecessor, successors, .. }, .. } =
        answer
    else {
        panic!("an answer")
    };
    assert!(predecessor.is_none() && successors.is_empty(), "two do not fit beside the sender");
}

#[test]
fn kinds_have_names_of_their_own() {
    let names: std::collections::BTreeSet<_> = Message::KINDS.into_iter().collect();
    assert_eq!(names.len(), Message::KINDS.len());
    assert_eq!((Message::KINDS[5], Message::KINDS[6]), ("dropped", "ring_ask"));
}

/// The fuzzer's seeds: the good ones are messages, the bad ones are refused.
#[test]
#[expect(clippy::disallowed_methods, reason = "the corpus lies in ordinary files")]
fn fuzz_corpus_roundtrips_and_bad_seeds_are_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/lookup_message");
    let mut count = 0;
    for file in std::fs::read_dir(corpus).unwrap() {
        let path = file.unwrap().path();
        let found = std::fs::read(&path).unwrap();
        let good = path.file_name().unwrap().to_str().unwrap().starts_with("good-");
        match Message::decode(&found) {
            Ok(message) => assert!(good && bytes(&message) == found, "{path:?}"),
            Err(error) => assert!(!good, "{path:?}: {error}"),
        }
        count += 1;
    }
    assert!(count >= 32, "{count} seeds");
}

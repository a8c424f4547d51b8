//! What the catalogue promises, by example and against random ops.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::codec::{DecodeError, Reader};

const ORDERED: KeyspaceOptions = KeyspaceOptions {
    placement: Placement::Ordered,
    durability: Durability::Memory,
    retention_ms: 0,
    replicas: 1,
};

fn encoded(catalogue: &Catalogue) -> Vec<u8> {
    let mut out = Vec::new();
    catalogue.encode(&mut out);
    out
}

#[test]
fn a_hashed_keyspace_is_eight_equal_arcs_of_slots() {
    let mut catalogue = Catalogue::default();
    let keyspace = catalogue.create("0", KeyspaceOptions::default()).unwrap();
    assert_eq!((keyspace.id, keyspace.shards.len()), (KeyspaceId(1), 8));
    for (index, (shard, arc)) in keyspace.tiles().enumerate() {
        assert_eq!(shard, ShardId(index as u64 + 1));
        assert_eq!(arc.slots(), Some((index as u16 * 2048, (index as u16 + 1) * 2048)));
    }
    assert_eq!(keyspace.shard_of(b"foo"), ShardId(12182 / 2048 + 1));
}

#[test]
fn an_ordered_keyspace_is_one_whole_circle() {
    let mut catalogue = Catalogue::default();
    let keyspace = catalogue.create("events", ORDERED).unwrap();
    assert_eq!(keyspace.tiles().collect::<Vec<_>>(), [(ShardId(1), Arc::whole(keyspace.id))]);
    assert_eq!(keyspace.shard_of(b"anything"), ShardId(1));
}

#[test]
fn ids_are_never_given_out_again() {
    let mut catalogue = Catalogue::default();
    catalogue.create("a", ORDERED).unwrap();
    let old = catalogue.drop("a").unwrap();
    let new = catalogue.create("a", ORDERED).unwrap().clone();
    assert!(new.id > old.id && new.shards[0] > old.shards[0]);
    let shard = catalogue.draw_shard(new.id).unwrap();
    assert!(shard > new.shards[0] && catalogue.draw_shard(new.id).unwrap() > shard);
    let refused = CatalogueError::NotFound { name: "(id 1)".into() };
    assert_eq!(catalogue.draw_shard(old.id), Err(refused));
}

#[test]
fn refusals_change_nothing() {
    let mut catalogue = Catalogue::default();
    catalogue.create("a", KeyspaceOptions { replicas: 3, ..Default::default() }).unwrap();
    let before = catalogue.clone();
    let options = KeyspaceOptions::default();
    let name = |name: &str| Box::<str>::from(name);
    assert_eq!(catalogue.create("a", options), Err(CatalogueError::Exists { name: name("a") }));
    for bad in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
        assert_eq!(
            catalogue.create(bad, options),
            Err(CatalogueError::BadName { name: name(bad) })
        );
    }
    let retention_ms = RETENTION_MS_MAX + 1;
    let too_long = CatalogueError::RetentionTooLong { retention_ms };
    assert_eq!(
        catalogue.create("b", KeyspaceOptions { retention_ms, ..options }),
        Err(too_long.clone())
    );
    for replicas in [0, 2, 8, 10, 11, u8::MAX] {
        let asked = KeyspaceOptions { replicas, ..options };
        assert_eq!(catalogue.create("b", asked), Err(CatalogueError::BadReplicas { replicas }));
    }
    let memory = Alteration { durability: Some(Durability::Memory), ..Default::default() };
    assert_eq!(catalogue.alter("a", memory), Err(CatalogueError::NeedsSync { replicas: 3 }));
    let replicas = |replicas| Alteration { replicas: Some(replicas), ..Default::default() };
    let fewer = CatalogueError::FewerReplicas { from: 3, to: 1 };
    assert_eq!(catalogue.alter("a", replicas(1)), Err(fewer));
    for bad in [0, 2, 4, 11] {
        let refused = Err(CatalogueError::BadReplicas { replicas: bad });
        assert_eq!(catalogue.alter("a", replicas(bad)), refused);
    }
    let long = Alteration { retention_ms: Some(retention_ms), ..Default::default() };
    assert_eq!(catalogue.alter("a", long), Err(too_long));
    let not_found = CatalogueError::NotFound { name: name("b") };
    assert_eq!(catalogue.alter("b", Alteration::default()), Err(not_found.clone()));
    assert_eq!(catalogue.drop("b"), Err(not_found));
    assert_eq!(catalogue, before);
}

#[test]
fn replicas_are_raised_where_every_one_of_them_syncs() {
    let mut catalogue = Catalogue::default();
    catalogue.create("a", ORDERED).unwrap();
    let three = Alteration { replicas: Some(3), ..Default::default() };
    assert_eq!(catalogue.alter("a", three), Err(CatalogueError::NeedsSync { replicas: 3 }));
    let both = Alteration { durability: Some(Durability::Sync), ..three };
    assert_eq!(catalogue.alter("a", both).unwrap().options.replicas, 3);
    assert_eq!(catalogue.alter("a", three).unwrap().options.replicas, 3, "as it is");
    let nine = Alteration { replicas: Some(9), ..Default::default() };
    assert_eq!(catalogue.alter("a", nine).unwrap().options.replicas, 9);
}

#[test]
fn an_even_number_of_old_stays_until_it_is_raised() {
    let bytes = b"\x02\x02\x02\x01\x02ab\x01\x01\x00\x00\x04\x01\x01\x00";
    let mut catalogue = Catalogue::decode(&mut Reader::new(bytes)).unwrap();
    let same = Alteration { retention_ms: Some(5), replicas: Some(4), ..Default::default() };
    assert_eq!(catalogue.alter("ab", same).unwrap().options.replicas, 4);
    let five = Alteration { replicas: Some(5), ..Default::default() };
    assert_eq!(catalogue.alter("ab", five).unwrap().options.replicas, 5);
}

#[test]
fn numbers_beyond_15_are_no_names() {
    let mut catalogue = Catalogue::default();
    for name in ["16", "2026", "-1"] {
        let refused = catalogue.create(name, ORDERED).map(|_| ());
        assert_eq!(refused, Err(CatalogueError::NumberedName { name: name.into() }));
    }
    for name in ["0", "15", "016", "1.0", "15a"] {
        catalogue.create(name, ORDERED).unwrap();
    }
}

#[test]
fn there_is_a_most() {
    let mut catalogue = Catalogue::default();
    for index in 0..KEYSPACES_MAX {
        catalogue.create(&format!("k{index}"), ORDERED).unwrap();
    }
    assert_eq!(catalogue.create("more", ORDERED), Err(CatalogueError::TooMany));
    assert_eq!(Catalogue::decode(&mut Reader::new(&encoded(&catalogue))), Ok(catalogue));
}

#[test]
fn the_bytes_of_a_catalogue() {
    let mut catalogue = Catalogue::default();
    catalogue.create("ab", ORDERED).unwrap();
    catalogue.place("none", &[NodeId(7)]);
    assert_eq!(encoded(&catalogue), b"\x02\x02\x02\x01\x02ab\x01\x01\x02\x00\x01\x01\x01\x00");
}

/// Shards begin on an odd number of nodes, and the bytes say on which.
#[test]
fn a_keyspace_is_placed() {
    let mut catalogue = Catalogue::default();
    let three = KeyspaceOptions { replicas: 3, ..Default::default() };
    catalogue.create("three", three).unwrap();
    catalogue.create("one", ORDERED).unwrap();
    let nodes = [7, 9, 8, 5].map(NodeId);
    assert_eq!(catalogue.place("three", &nodes).unwrap().nodes, nodes[..3]);
    assert_eq!(catalogue.place("three", &nodes[..2]).unwrap().nodes, nodes[..1]);
    assert_eq!(catalogue.place("one", &nodes).unwrap().nodes, nodes[..1]);
    assert_eq!(catalogue.place("none", &nodes), None);
    assert_eq!(Catalogue::decode(&mut Reader::new(&encoded(&catalogue))), Ok(catalogue));
}

/// The system's keyspace was never made, and is never gone.
#[test]
fn what_was_dropped_is_known() {
    let mut catalogue = Catalogue::default();
    let id = catalogue.create("a", ORDERED).unwrap().id;
    assert!(!catalogue.has_dropped(id) && !catalogue.has_dropped(KeyspaceId(0)));
    catalogue.drop("a").unwrap();
    assert!(catalogue.has_dropped(id) && !catalogue.has_dropped(KeyspaceId(id.0 + 1)));
}

fn among(nodes: &[u64]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(NodeId).collect()
}

#[test]
fn nodes_stand_as_they_are_told_and_removal_is_for_ever() {
    let mut catalogue = Catalogue::default();
    let all = among(&[1, 2, 3]);
    let node = NodeId(2);
    let not_draining = |standing| Err(CatalogueError::NotDraining { node, standing });
    use Standing::{Cordoned, Draining, Member, Removed};
    assert_eq!(catalogue.set_standing(node, Removed, &all), not_draining(Member));
    for to in [Cordoned, Cordoned, Draining, Draining, Cordoned, Member, Draining, Member] {
        assert_eq!(catalogue.set_standing(node, to, &all), Ok(()));
        assert_eq!(catalogue.standing(node), to);
        assert_eq!(catalogue.standings().is_empty(), to == Member);
    }
    catalogue.set_standing(node, Cordoned, &all).unwrap();
    assert_eq!(catalogue.set_standing(node, Removed, &all), not_draining(Cordoned));
    catalogue.set_standing(node, Draining, &all).unwrap();
    for _ in 0..2 {
        assert_eq!(catalogue.set_standing(node, Removed, &all), Ok(()));
    }
    for to in [Member, Cordoned, Draining] {
        let removed = Err(CatalogueError::NodeRemoved { node });
        assert_eq!(catalogue.set_standing(node, to, &all), removed);
    }
    assert!(catalogue.standings().removed().eq([node]));
}

#[test]
fn enough_nodes_are_left_for_what_keyspaces_promise() {
    let mut catalogue = Catalogue::default();
    let (all, alone) = (among(&[1, 2, 3, 4]), among(&[1]));
    use Standing::{Cordoned, Draining, Member};
    let last = Err(CatalogueError::LastNode);
    assert_eq!(catalogue.set_standing(NodeId(1), Draining, &alone), last);
    for (name, replicas) in [("c", 1), ("b", 3), ("a", 3)] {
        catalogue.create(name, KeyspaceOptions { replicas, ..Default::default() }).unwrap();
    }
    assert_eq!(catalogue.set_standing(NodeId(1), Cordoned, &all), Ok(()));
    let before = catalogue.clone();
    for to in [Cordoned, Draining] {
        let (keyspace, replicas, left) = ("a".into(), 3, 2);
        let few = Err(CatalogueError::TooFewNodes { keyspace, replicas, left });
        assert_eq!(catalogue.set_standing(NodeId(2), to, &all), few);
    }
    assert_eq!(catalogue, before);
    // One that is down takes nothing away, and one that is cordoned has gone already.
    assert_eq!(catalogue.set_standing(NodeId(5), Draining, &all), Ok(()));
    assert_eq!(catalogue.set_standing(NodeId(1), Draining, &all), Ok(()));
    assert_eq!(catalogue.set_standing(NodeId(1), Member, &alone), Ok(()));
    assert_eq!(catalogue.set_standing(NodeId(2), Cordoned, &all), Ok(()));
}

#[test]
fn there_is_a_most_of_standings() {
    let mut catalogue = Catalogue::default();
    let nobody = among(&[]);
    for node in 1..=STANDINGS_MAX as u64 {
        catalogue.set_standing(NodeId(node), Standing::Draining, &nobody).unwrap();
    }
    let one_more = catalogue.set_standing(NodeId(0), Standing::Cordoned, &nobody);
    assert_eq!(one_more, Err(CatalogueError::TooManyStandings));
    catalogue.set_standing(NodeId(7), Standing::Removed, &nobody).unwrap();
    assert_eq!(Catalogue::decode(&mut Reader::new(&encoded(&catalogue))), Ok(catalogue));
}

/// Version 2 is what there was before, and is written as long as it says all.
#[test]
fn the_bytes_of_standings() {
    let mut catalogue = Catalogue::default();
    assert_eq!(encoded(&catalogue), b"\x02\x01\x01\x00");
    let nobody = among(&[]);
    for (node, to) in [(9, Standing::Cordoned), (7, Standing::Draining), (7, Standing::Removed)] {
        catalogue.set_standing(NodeId(node), to, &nobody).unwrap();
    }
    let bytes = b"\x03\x01\x01\x00\x02\x07\0\0\0\0\0\0\0\x03\x09\0\0\0\0\0\0\0\x01";
    assert_eq!(encoded(&catalogue), bytes);
    assert_eq!(Catalogue::decode(&mut Reader::new(bytes)), Ok(catalogue));
    let (node, standing) = (NodeId(7), Standing::Draining);
    let op = CatalogueOp::Node { node, standing, among: among(&[1, 7]) };
    let mut bytes = Vec::new();
    op.encode(&mut bytes);
    let expected = b"\x04\x07\0\0\0\0\0\0\0\x02\x02\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0";
    assert_eq!(bytes, expected);
}

/// Level 1 is not written, so that who knows no levels can still read it.
#[test]
fn a_level_rises_by_one_and_never_falls() {
    let level = |number| Level::new(number).unwrap();
    let mut catalogue = Catalogue::default();
    assert_eq!(catalogue.level(), Level::FIRST);
    let skipped = CatalogueError::LevelSkipped { from: level(1), to: level(3) };
    assert_eq!(catalogue.raise_level(level(3)), Err(skipped));
    assert_eq!(encoded(&catalogue), b"\x02\x01\x01\x00");
    for (to, now) in [(1, 1), (2, 2), (2, 2), (3, 3), (1, 3)] {
        assert_eq!(catalogue.raise_level(level(to)), Ok(level(now)));
    }
    let bytes = b"\x04\x01\x01\x00\x00\x03";
    assert_eq!(encoded(&catalogue), bytes);
    assert_eq!(Catalogue::decode(&mut Reader::new(bytes)).unwrap(), catalogue);
    catalogue.set_standing(NodeId(7), Standing::Cordoned, &among(&[])).unwrap();
    let bytes = b"\x04\x01\x01\x00\x01\x07\0\0\0\0\0\0\0\x01\x03";
    assert_eq!(encoded(&catalogue), bytes);
    let mut op = Vec::new();
    CatalogueOp::Level { to: level(2) }.encode(&mut op);
    assert_eq!(op, b"\x06\x02");
}

#[test]
fn a_catalogue_that_breaks_its_invariants_is_refused() {
    let field = |what| Err(DecodeError::Field { what });
    for (bytes, refusal) in [
        (&b"\x05"[..], Err(DecodeError::Version { what: "catalogue", found: 5 })),
        (b"\x04\x01\x01\x00\x00\x00", field("level: 0")),
        (b"\x04\x01\x01\x00\x00\x01", field("level: the first is not named")),
        (b"\x01", Err(DecodeError::Version { what: "catalogue", found: 1 })),
        (b"\x03\x01\x01\x00\x00", field("standings: none")),
        (
            b"\x03\x01\x01\x00\x01\x07\0\0\0\0\0\0\0\x00",
            field("standings: of a member, or not by node"),
        ),
        (
            b"\x02\x01\x02\x01\x02ab\x01\x01\x02\x00\x01\x01\x01\x00",
            field("id: out of range or used twice"),
        ),
        (b"\x02\x02\x02\x01\x02ab\x01\x01\x02\x00\x01\x02\x01\x01", field("shard count")),
        (b"\x02\x02\x02\x01\x02a/\x01\x01\x02\x00\x01\x01\x01", field("keyspace: name or options")),
    ] {
        assert_eq!(Catalogue::decode(&mut Reader::new(bytes)), refusal);
    }
}

fn options() -> impl Strategy<Value = KeyspaceOptions> {
    let placement =
        prop_oneof![Just(Placement::Hashed), Just(Placement::Ordered), Just(Placement::LinearHash)];
    (placement, durability(), prop_oneof![Just(u64::MAX), 0..100_000u64], 0..11u8).prop_map(
        |(placement, durability, retention_ms, replicas)| KeyspaceOptions {
            placement,
            durability,
            retention_ms,
            replicas,
        },
    )
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Sync), Just(Durability::Interval), Just(Durability::Memory)]
}

fn errors() -> impl Strategy<Value = CatalogueError> {
    let named = (0..4u8, any::<String>()).prop_map(|(kind, name)| {
        let name = name.into();
        match kind {
            0 => CatalogueError::BadName { name },
            1 => CatalogueError::NumberedName { name },
            2 => CatalogueError::Exists { name },
            _ => CatalogueError::NotFound { name },
        }
    });
    prop_oneof![
        4 => named,
        1 => Just(CatalogueError::TooMany),
        1 => Just(CatalogueError::OutOfIds),
        1 => any::<u64>()
            .prop_map(|retention_ms| CatalogueError::RetentionTooLong { retention_ms }),
        1 => any::<u8>().prop_map(|replicas| CatalogueError::BadReplicas { replicas }),
        1 => any::<u8>().prop_map(|replicas| CatalogueError::NeedsSync { replicas }),
        1 => any::<(u8, u8)>().prop_map(|(from, to)| CatalogueError::FewerReplicas { from, to }),
        1 => any::<u64>().prop_map(|node| CatalogueError::NodeRemoved { node: NodeId(node) }),
        1 => (any::<u64>(), standing()).prop_map(|(node, standing)| {
            CatalogueError::NotDraining { node: NodeId(node), standing }
        }),
        1 => any::<(String, u8, u64)>().prop_map(|(keyspace, replicas, left)| {
            CatalogueError::TooFewNodes { keyspace: keyspace.into(), replicas, left }
        }),
        1 => Just(CatalogueError::LastNode),
        1 => Just(CatalogueError::TooManyStandings),
        1 => (level(), level()).prop_map(|(from, to)| CatalogueError::LevelSkipped { from, to }),
        1 => (level(), level())
            .prop_map(|(level, needs)| CatalogueError::LevelTooLow { level, needs }),
        1 => any::<String>().prop_map(|name| CatalogueError::NoFile { name: name.into() }),
        1 => (any::<String>(), record()).prop_map(|(name, record)| {
            CatalogueError::FileIs { name: name.into(), record }
        }),
    ]
}

fn record() -> impl Strategy<Value = FileRecord> {
    let step = prop_oneof![Just(None), Just(Some(FileStep::Grow)), Just(Some(FileStep::Shrink))];
    (2..file::BUCKETS_MAX, any::<u64>(), step).prop_map(|(buckets, turn, step)| FileRecord {
        buckets,
        turn,
        step,
    })
}

fn act() -> impl Strategy<Value = FileAct> {
    prop_oneof![
        Just(FileAct::Grow),
        Just(FileAct::Shrink),
        Just(FileAct::Begin),
        Just(FileAct::Done)
    ]
}

fn level() -> impl Strategy<Value = Level> {
    (1..=u8::MAX).prop_map(|number| Level::new(number).expect("not 0"))
}

fn standing() -> impl Strategy<Value = Standing> {
    prop_oneof![
        Just(Standing::Member),
        Just(Standing::Cordoned),
        Just(Standing::Draining),
        Just(Standing::Removed)
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Create(String, KeyspaceOptions),
    Alter(String, Alteration),
    Drop(String),
    Node(u64, Standing, BTreeSet<u64>),
    Shard(u32),
    Level(Level),
    File(u32, u64, FileAct),
}

impl Op {
    fn borrowed(&self) -> CatalogueOp<'_> {
        match self {
            Op::Create(name, options) => CatalogueOp::Create { name, options: *options },
            Op::Alter(name, change) => CatalogueOp::Alter { name, change: *change },
            Op::Drop(name) => CatalogueOp::Drop { name },
            Op::Shard(keyspace) => CatalogueOp::Shard { keyspace: KeyspaceId(*keyspace) },
            Op::Level(to) => CatalogueOp::Level { to: *to },
            Op::File(keyspace, turn, act) => {
                CatalogueOp::File { keyspace: KeyspaceId(*keyspace), turn: *turn, act: *act }
            }
            Op::Node(node, standing, others) => CatalogueOp::Node {
                node: NodeId(*node),
                standing: *standing,
                among: others.iter().copied().map(NodeId).collect(),
            },
        }
    }
}

fn ops() -> impl Strategy<Value = Op> {
    let name = || "[a-c/]{1,2}";
    let change = (durability(), 0..9u64, 0..11u8);
    let change =
        (prop::option::of(change.0), prop::option::of(change.1), prop::option::of(change.2))
            .prop_map(|(durability, retention_ms, replicas)| Alteration {
                durability,
                retention_ms,
                replicas,
            });
    prop_oneof![
        3 => (name(), options()).prop_map(|(name, options)| Op::Create(name, options)),
        1 => (name(), change).prop_map(|(name, change)| Op::Alter(name, change)),
        1 => name().prop_map(Op::Drop),
        1 => (0..9u32).prop_map(Op::Shard),
        1 => (1..4u8).prop_map(|to| Op::Level(Level::new(to).expect("not 0"))),
        2 => (0..4u32, 0..4u64, act())
            .prop_map(|(keyspace, turn, act)| Op::File(keyspace, turn, act)),
        2 => (0..6u64, standing(), prop::collection::btree_set(0..6u64, 0..6))
            .prop_map(|(node, standing, among)| Op::Node(node, standing, among)),
    ]
}

proptest! {
    #[test]
    fn what_the_catalogue_said_comes_back_from_bytes(
        error in errors(),
        node: u64,
        standing in standing(),
        level in level(),
        options in options(),
    ) {
        let mut catalogue = Catalogue::default();
        let made = catalogue.create("k", options).cloned();
        let made = made.map(Subject::Keyspace).map(Box::new);
        let drawn = Subject::Shard(KeyspaceId(node as u32), ShardId(node));
        let stands = Subject::Node(NodeId(node), standing);
        let subjects = [stands, drawn, Subject::Level(level)].map(|subject| Ok(Box::new(subject)));
        for said in [made, Err(error)].into_iter().chain(subjects) {
            let mut bytes = Vec::new();
            Subject::encode_result(&said, &mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Subject::decode_result(&mut reader), Ok(said));
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn any_ops_keep_the_invariants_and_come_back_from_bytes(
        ops in prop::collection::vec(ops(), 0..40),
        key: Vec<u8>,
    ) {
        let mut catalogue = Catalogue::default();
        let mut given = BTreeSet::new();
        for op in &ops {
            let mut bytes = Vec::new();
            op.borrowed().encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            let read = CatalogueOp::decode(&mut reader);
            prop_assert_eq!(read, Ok(op.borrowed()));
            prop_assert_eq!(reader.end(), Ok(()));
            let before = catalogue.clone();
            match catalogue.apply(&op.borrowed()) {
                Err(_) => prop_assert_eq!(&catalogue, &before),
                Ok(Subject::Keyspace(keyspace)) if matches!(op, Op::Create(..)) => {
                    prop_assert!(keyspace.shards.iter().all(|shard| given.insert(*shard)));
                }
                Ok(Subject::Node(node, standing)) => {
                    prop_assert_eq!(catalogue.standing(node), standing);
                }
                Ok(Subject::Shard(_, shard)) => prop_assert!(given.insert(shard)),
                Ok(Subject::Level(level)) => prop_assert_eq!(catalogue.level(), level),
                Ok(Subject::Keyspace(keyspace)) => {
                    let is_one = keyspace.options.placement == Placement::LinearHash;
                    prop_assert_eq!(keyspace.file.is_some(), is_one);
                }
            }
            let rise = catalogue.level().number() - before.level().number();
            prop_assert!(rise == 0 || rise == 1 && matches!(op, Op::Level(_)));
            let stays = before.standings().removed();
            for node in stays {
                prop_assert_eq!(catalogue.standing(node), Standing::Removed);
            }
        }
        for keyspace in catalogue.iter() {
            let mut bytes = Vec::new();
            keyspace.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Keyspace::decode(&mut reader), Ok(keyspace.clone()));
            prop_assert_eq!(reader.end(), Ok(()));
            let KeyspaceOptions { replicas, durability, .. } = keyspace.options;
            prop_assert!([1, 3, 5, 7, 9].contains(&replicas));
            prop_assert!(replicas == 1 || durability == Durability::Sync);
            prop_assert_eq!(catalogue.by_id(keyspace.id), Some(keyspace));
            let position = keyspace.options.placement.position(keyspace.id, &key);
            let owners: Vec<_> =
                keyspace.tiles().filter(|(_, arc)| arc.contains(&position)).collect();
            prop_assert_eq!(owners.len(), 1);
            prop_assert_eq!(owners[0].0, keyspace.shard_of(&key));
        }
        let bytes = encoded(&catalogue);
        prop_assert_eq!(Catalogue::decode(&mut Reader::new(&bytes)), Ok(catalogue));
    }

    #[test]
    fn errors_come_back_from_bytes(error in errors(), at: prop::sample::Index, byte: u8) {
        let mut bytes = Vec::new();
        error.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(CatalogueError::decode(&mut reader), Ok(error));
        prop_assert_eq!(reader.end(), Ok(()));
        let index = at.index(bytes.len());
        bytes[index] = byte;
        let mut reader = Reader::new(&bytes);
        if let Ok(read) = CatalogueError::decode(&mut reader) {
            let mut again = Vec::new();
            read.encode(&mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_read_one_way(
        ops in prop::collection::vec(ops(), 0..10),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut catalogue = Catalogue::default();
        for op in &ops {
            let _ = catalogue.apply(&op.borrowed());
            let mut bytes = Vec::new();
            op.borrowed().encode(&mut bytes);
            let index = at.index(bytes.len());
            bytes[index] = byte;
            let mut reader = Reader::new(&bytes);
            if let Ok(read) = CatalogueOp::decode(&mut reader) {
                let mut again = Vec::new();
                read.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
            }
        }
        let mut bytes = encoded(&catalogue);
        let index = at.index(bytes.len());
        bytes[index] = byte;
        let mut reader = Reader::new(&bytes);
        if let Ok(read) = Catalogue::decode(&mut reader) {
            prop_assert_eq!(&encoded(&read)[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
    }
}

/// Old directories and logs may have such keyspaces: they are read, and can be dropped.
#[test]
fn names_that_clients_cannot_say_are_not_proposed_but_still_applied() {
    let create = |name| CatalogueOp::Create { name, options: KeyspaceOptions::default() };
    let dots = [".", ".."];
    let numbers = ["16", "007", "00", "010", "99999999999999999999"];
    let mut catalogue = Catalogue::default();
    for name in dots.into_iter().chain(numbers) {
        let refused = create(name).check_proposal().unwrap_err();
        match dots.contains(&name) {
            true => assert_eq!(refused, CatalogueError::BadName { name: name.into() }),
            false => assert_eq!(refused, CatalogueError::NumberedName { name: name.into() }),
        }
        if name == "16" {
            continue;
        }
        catalogue.apply(&create(name)).unwrap();
        assert_eq!(CatalogueOp::Drop { name }.check_proposal(), Ok(()));
    }
    let mut bytes = Vec::new();
    catalogue.encode(&mut bytes);
    let mut read = Catalogue::decode(&mut Reader::new(&bytes)).unwrap();
    assert_eq!(read, catalogue);
    for name in [".", "..", "007"] {
        read.apply(&CatalogueOp::Drop { name }).unwrap();
    }
    for name in ["0", "15", "...", ".a", "1e3", "a007"] {
        assert_eq!(create(name).check_proposal(), Ok(()), "{name}");
    }
}

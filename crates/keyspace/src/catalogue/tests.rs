//! What the catalogue promises, by example and against random ops.

mod libraries;
mod properties;
mod volumes;

use std::collections::BTreeSet;

use super::*;
use crate::codec::{DecodeError, Reader};

const ORDERED: KeyspaceOptions = KeyspaceOptions {
    placement: Placement::Ordered,
    durability: Durability::Memory,
    retention_ms: 0,
    replicas: 1,
    skips_equal: false,
    volume: None,
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
    let shard = catalogue.allocate_shard_id(new.id).unwrap();
    assert!(shard > new.shards[0] && catalogue.allocate_shard_id(new.id).unwrap() > shard);
    let refused = CatalogueError::NotFound { name: "(id 1)".into() };
    assert_eq!(catalogue.allocate_shard_id(old.id), Err(refused));
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
    let memory = KeyspaceAlteration { durability: Some(Durability::Memory), ..Default::default() };
    assert_eq!(catalogue.alter("a", memory), Err(CatalogueError::NeedsSync { replicas: 3 }));
    let replicas = |replicas| KeyspaceAlteration { replicas: Some(replicas), ..Default::default() };
    let fewer = CatalogueError::FewerReplicas { from: 3, to: 1 };
    assert_eq!(catalogue.alter("a", replicas(1)), Err(fewer));
    for bad in [0, 2, 4, 11] {
        let refused = Err(CatalogueError::BadReplicas { replicas: bad });
        assert_eq!(catalogue.alter("a", replicas(bad)), refused);
    }
    let long = KeyspaceAlteration { retention_ms: Some(retention_ms), ..Default::default() };
    assert_eq!(catalogue.alter("a", long), Err(too_long));
    let not_found = CatalogueError::NotFound { name: name("b") };
    assert_eq!(catalogue.alter("b", KeyspaceAlteration::default()), Err(not_found.clone()));
    assert_eq!(catalogue.drop("b"), Err(not_found));
    assert_eq!(catalogue, before);
}

#[test]
fn replicas_are_raised_where_every_one_of_them_syncs() {
    let mut catalogue = Catalogue::default();
    catalogue.create("a", ORDERED).unwrap();
    let three = KeyspaceAlteration { replicas: Some(3), ..Default::default() };
    assert_eq!(catalogue.alter("a", three), Err(CatalogueError::NeedsSync { replicas: 3 }));
    let both = KeyspaceAlteration { durability: Some(Durability::Sync), ..three };
    assert_eq!(catalogue.alter("a", both).unwrap().options.replicas, 3);
    assert_eq!(catalogue.alter("a", three).unwrap().options.replicas, 3, "as it is");
    let nine = KeyspaceAlteration { replicas: Some(9), ..Default::default() };
    assert_eq!(catalogue.alter("a", nine).unwrap().options.replicas, 9);
}

#[test]
fn an_even_number_of_old_stays_until_it_is_raised() {
    let bytes = b"\x02\x02\x02\x01\x02ab\x01\x01\x00\x00\x04\x01\x01\x00";
    let mut catalogue = Catalogue::decode(&mut Reader::new(bytes)).unwrap();
    let same =
        KeyspaceAlteration { retention_ms: Some(5), replicas: Some(4), ..Default::default() };
    assert_eq!(catalogue.alter("ab", same).unwrap().options.replicas, 4);
    let five = KeyspaceAlteration { replicas: Some(5), ..Default::default() };
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
fn dropped_keyspace_is_known_as_dropped() {
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
fn admin_state_is_set_and_removal_is_final() {
    let mut catalogue = Catalogue::default();
    let all = among(&[1, 2, 3]);
    let node = NodeId(2);
    let not_draining = |admin_state| Err(CatalogueError::NotDraining { node, admin_state });
    use AdminState::{Cordoned, Draining, Member, Removed};
    assert_eq!(catalogue.set_admin_state(node, Removed, &all), not_draining(Member));
    for to in [Cordoned, Cordoned, Draining, Draining, Cordoned, Member, Draining, Member] {
        assert_eq!(catalogue.set_admin_state(node, to, &all), Ok(()));
        assert_eq!(catalogue.admin_state(node), to);
        assert_eq!(catalogue.admin_states().is_empty(), to == Member);
    }
    catalogue.set_admin_state(node, Cordoned, &all).unwrap();
    assert_eq!(catalogue.set_admin_state(node, Removed, &all), not_draining(Cordoned));
    catalogue.set_admin_state(node, Draining, &all).unwrap();
    for _ in 0..2 {
        assert_eq!(catalogue.set_admin_state(node, Removed, &all), Ok(()));
    }
    for to in [Member, Cordoned, Draining] {
        let removed = Err(CatalogueError::NodeRemoved { node });
        assert_eq!(catalogue.set_admin_state(node, to, &all), removed);
    }
    assert!(catalogue.admin_states().removed().eq([node]));
}

#[test]
fn enough_nodes_are_left_for_what_keyspaces_promise() {
    let mut catalogue = Catalogue::default();
    let (all, alone) = (among(&[1, 2, 3, 4]), among(&[1]));
    use AdminState::{Cordoned, Draining, Member};
    let last = Err(CatalogueError::LastNode);
    assert_eq!(catalogue.set_admin_state(NodeId(1), Draining, &alone), last);
    for (name, replicas) in [("c", 1), ("b", 3), ("a", 3)] {
        catalogue.create(name, KeyspaceOptions { replicas, ..Default::default() }).unwrap();
    }
    assert_eq!(catalogue.set_admin_state(NodeId(1), Cordoned, &all), Ok(()));
    let before = catalogue.clone();
    for to in [Cordoned, Draining] {
        let (keyspace, replicas, left) = ("a".into(), 3, 2);
        let few = Err(CatalogueError::TooFewNodes { keyspace, replicas, left });
        assert_eq!(catalogue.set_admin_state(NodeId(2), to, &all), few);
    }
    assert_eq!(catalogue, before);
    // One that is down takes nothing away, and one that is cordoned has gone already.
    assert_eq!(catalogue.set_admin_state(NodeId(5), Draining, &all), Ok(()));
    assert_eq!(catalogue.set_admin_state(NodeId(1), Draining, &all), Ok(()));
    assert_eq!(catalogue.set_admin_state(NodeId(1), Member, &alone), Ok(()));
    assert_eq!(catalogue.set_admin_state(NodeId(2), Cordoned, &all), Ok(()));
}

#[test]
fn admin_states_are_bounded() {
    let mut catalogue = Catalogue::default();
    let nobody = among(&[]);
    for node in 1..=ADMIN_STATES_MAX as u64 {
        catalogue.set_admin_state(NodeId(node), AdminState::Draining, &nobody).unwrap();
    }
    let one_more = catalogue.set_admin_state(NodeId(0), AdminState::Cordoned, &nobody);
    assert_eq!(one_more, Err(CatalogueError::TooManyAdminStates));
    catalogue.set_admin_state(NodeId(7), AdminState::Removed, &nobody).unwrap();
    assert_eq!(Catalogue::decode(&mut Reader::new(&encoded(&catalogue))), Ok(catalogue));
}

/// Version 2 is what there was before, and is written as long as it says all.
#[test]
fn bytes_of_admin_states() {
    let mut catalogue = Catalogue::default();
    assert_eq!(encoded(&catalogue), b"\x02\x01\x01\x00");
    let nobody = among(&[]);
    for (node, to) in
        [(9, AdminState::Cordoned), (7, AdminState::Draining), (7, AdminState::Removed)]
    {
        catalogue.set_admin_state(NodeId(node), to, &nobody).unwrap();
    }
    let bytes = b"\x03\x01\x01\x00\x02\x07\0\0\0\0\0\0\0\x03\x09\0\0\0\0\0\0\0\x01";
    assert_eq!(encoded(&catalogue), bytes);
    assert_eq!(Catalogue::decode(&mut Reader::new(bytes)), Ok(catalogue));
    let (node, admin_state) = (NodeId(7), AdminState::Draining);
    let op = CatalogueOp::Node { node, admin_state, among: among(&[1, 7]) };
    let mut bytes = Vec::new();
    op.encode(&mut bytes);
    let expected = b"\x04\x07\0\0\0\0\0\0\0\x02\x02\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0";
    assert_eq!(bytes, expected);
}

/// Cluster version 1 is not written, so that a node without cluster versions can still read it.
#[test]
fn cluster_version_rises_by_one_and_never_falls() {
    let version = |number| ClusterVersion::new(number).unwrap();
    let mut catalogue = Catalogue::default();
    assert_eq!(catalogue.cluster_version(), ClusterVersion::FIRST);
    let skipped = CatalogueError::VersionSkipped { from: version(1), to: version(3) };
    assert_eq!(catalogue.raise_version(version(3)), Err(skipped));
    assert_eq!(encoded(&catalogue), b"\x02\x01\x01\x00");
    for (to, now) in [(1, 1), (2, 2), (2, 2), (3, 3), (1, 3)] {
        assert_eq!(catalogue.raise_version(version(to)), Ok(version(now)));
    }
    let bytes = b"\x04\x01\x01\x00\x00\x03";
    assert_eq!(encoded(&catalogue), bytes);
    assert_eq!(Catalogue::decode(&mut Reader::new(bytes)).unwrap(), catalogue);
    catalogue.set_admin_state(NodeId(7), AdminState::Cordoned, &among(&[])).unwrap();
    let bytes = b"\x04\x01\x01\x00\x01\x07\0\0\0\0\0\0\0\x01\x03";
    assert_eq!(encoded(&catalogue), bytes);
    let mut op = Vec::new();
    CatalogueOp::RaiseVersion { to: version(2) }.encode(&mut op);
    assert_eq!(op, b"\x06\x02");
}

#[test]
fn a_catalogue_that_breaks_its_invariants_is_refused() {
    let field = |what| Err(DecodeError::Field { what });
    for (bytes, refusal) in [
        (&b"\x06"[..], Err(DecodeError::Version { what: "catalogue", found: 6 })),
        (b"\x05\x01\x01\x00\x00\x02\x00\x00", field("libraries: none, at script epoch 0")),
        (b"\x05\x01\x01\x00\x00\x02\x01\x01\x01a\x00\x00", field("functions: none")),
        (
            b"\x05\x01\x01\x00\x00\x02\x00\x01\x02a-\x00\x01\x01f\x00\x00",
            field("name of a library or function"),
        ),
        (
            b"\x05\x01\x01\x00\x00\x02\x00\x02\x01a\x00\x01\x01f\x00\x00\x01b\x00\x01\x01F\x00\x00",
            field("libraries: a function of two"),
        ),
        (b"\x04\x01\x01\x00\x00\x00", field("cluster version: 0")),
        (b"\x04\x01\x01\x00\x00\x01", field("cluster version: the first is not named")),
        (b"\x01", Err(DecodeError::Version { what: "catalogue", found: 1 })),
        (b"\x03\x01\x01\x00\x00", field("admin states: none")),
        (
            b"\x03\x01\x01\x00\x01\x07\0\0\0\0\0\0\0\x00",
            field("admin states: of a member, or not by node"),
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

/// Old directories and logs may have such keyspaces: they are read, and can be dropped.
#[test]
fn names_unusable_by_clients_are_applied_but_not_proposed() {
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

//! What a rise of the cluster's version waits for.

use keyspace::{AdminState, AdminStates, ClusterVersion, NodeId, VersionRange};
use node::control::version::{MemberVersions, objections, required_nodes};

fn member(node: u64, highest: ClusterVersion) -> MemberVersions {
    let supported = VersionRange::new(ClusterVersion::FIRST, highest).expect("in order");
    let name = format!("n{node}");
    MemberVersions { node: NodeId(node), name, supported, is_up: true, has_left: false }
}

fn second() -> ClusterVersion {
    ClusterVersion::FIRST.next().expect("there is one")
}

#[test]
fn upgrade_needs_members_and_holders_but_no_removed_node() {
    let left = MemberVersions { has_left: true, ..member(3, second()) };
    let members = [member(1, second()), member(2, ClusterVersion::FIRST), left];
    let mut states = AdminStates::default();
    states.set(NodeId(5), AdminState::Removed);
    // 3 has left, and holds a replica yet; nobody has heard of 4; 5 was removed.
    let holders = [1, 3, 4, 5].map(NodeId);
    let found = required_nodes(holders, &members, &states);
    let nodes: Vec<u64> = found.iter().map(|voice| voice.node.0).collect();
    assert_eq!(nodes, [1, 2, 3, 4]);
    assert_eq!(
        objections(&found, second(), 2),
        [
            &format!("n2 supports {}", members[1].supported)[..],
            "n3 has not been heard of",
            "0000000000000004 has not been heard of",
            "this node does not know yet where all shards are (2 missing)",
        ]
    );
    assert_eq!(objections(&found[..1], second(), 0), [""; 0]);
}

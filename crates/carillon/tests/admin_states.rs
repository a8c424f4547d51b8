//! Nodes that are cordoned, drained and removed: real processes, the command line and HTTP.

mod four;
use four::{Cluster, EMPTY, until};

/// A cluster in which everything that people can ask of nodes is asked for, and outlives them.
#[test]
fn admin_states_are_set_and_removal_is_final() {
    let mut cluster = Cluster::new("admin_states", &["--balance=off"]);
    // It comes when the others have all replicas.
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    let id = cluster.node(0, EMPTY).unwrap()["id"].as_str().unwrap().to_owned();

    // All know, also who has no replica of the catalogue.
    cluster.done(EMPTY, "nodes cordon n3", "n3 is cordoned");
    [0, 1, EMPTY].iter().for_each(|asked| cluster.stands(*asked, EMPTY, "cordoned"));
    let few = "keyspace '0' keeps 3 replicas, and only 2 nodes would be left";
    for line in ["nodes cordon n0", "drain n1 --no-wait"] {
        cluster.refused(1, line, few);
    }
    cluster.done(0, &format!("nodes uncordon {id}"), "n3 is a plain member");
    cluster.done(2, "nodes cordon n0", "n0 is cordoned");
    cluster.refused(1, "drain n3", few);
    cluster.done(0, "nodes uncordon n0", "n0 is a plain member");
    cluster.refused(2, "nodes remove n0", "n0 still has 9 replicas");
    cluster.refused(2, "nodes remove nobody", "there is no node");
    // A mistyped id: nothing is done, and who there is is said.
    let mistyped = "00000000000000a9";
    for command in ["nodes remove", "nodes cordon", "nodes uncordon", "drain"] {
        cluster.refused(2, &format!("{command} {mistyped}"), "known are n0 (");
        cluster.refused(2, &format!("{command} {mistyped}"), &format!("n3 ({id})"));
    }
    assert!(cluster.nodes(1)["removed"].as_array().unwrap().is_empty());

    // Nothing has to move: it is done at once.
    cluster.done(1, "drain n3", "n3 is empty");
    // There is nowhere for what is full to go.
    let (code, text) = cluster.run(1, "drain n0 --timeout 200ms");
    assert!(code == 1 && text.contains(few), "{code} {text}");
    (0..=EMPTY).for_each(|number| cluster.kill(number));
    cluster.begin(0..=EMPTY);
    [0, 2, EMPTY].iter().for_each(|asked| cluster.stands(*asked, EMPTY, "draining"));

    // By way of itself, like by any other.
    cluster.done(EMPTY, "nodes remove n3", "n3 is removed, for good");
    assert_eq!(cluster.code_of(EMPTY), Some(5), "{}", cluster.log_of(EMPTY));
    let removal = format!("node {id} was removed from the cluster for good");
    assert!(cluster.log_of(EMPTY).contains(&removal), "{}", cluster.log_of(EMPTY));
    until("it is forgotten", || cluster.node(0, EMPTY).is_none().then_some(()));
    assert_eq!(cluster.nodes(1)["removed"][0], *id);

    // For good: also after all others were started anew.
    for is_anew in [false, true] {
        if is_anew {
            (0..EMPTY).for_each(|number| cluster.kill(number));
            cluster.begin(0..=EMPTY - 1);
        }
        cluster.start(EMPTY);
        assert_eq!(cluster.code_of(EMPTY), Some(5), "{}", cluster.log_of(EMPTY));
        assert!(cluster.log_of(EMPTY).contains(&removal), "{}", cluster.log_of(EMPTY));
        assert!(cluster.node(0, EMPTY).is_none());
    }
    cluster.refused(0, &format!("nodes uncordon {id}"), "was removed from the cluster");
    cluster.done(0, &format!("nodes remove {id}"), "is removed, for good");

    // The machine comes back as another node.
    std::fs::remove_dir_all(cluster.dir_of(EMPTY)).unwrap();
    cluster.start(EMPTY);
    let new = until("the new node", || cluster.node(0, EMPTY).filter(|new| new["state"] == "up"));
    assert_ne!(new["id"], *id);
    assert_eq!(new["standing"], "member");
}

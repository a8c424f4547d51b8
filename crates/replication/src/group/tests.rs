//! One voter by itself: what it commits, and how it begins again.

use bytes::Bytes;

use super::*;
use crate::Entry;

fn sole() -> Group {
    Group::new(
        ReplicaId(1),
        &Members::of_voters(&[ReplicaId(1)]),
        Start::default(),
        &Limits::default(),
        Boot::default(),
    )
}

fn settle(group: &mut Group, applied: &mut Vec<Bytes>) {
    while let Some(work) = group.ready() {
        if let Some(last) = work.committed.last().map(Entry::index) {
            applied.extend(work.committed.into_iter().map(Entry::into_data));
            group.applied(last);
        }
        group.persisted(work.number);
    }
}

#[test]
fn a_sole_voter_leads_and_commits_what_it_persisted() {
    let mut group = sole();
    assert_eq!(group.propose(vec![1]), Err(NotLeader));
    group.campaign();
    let mut applied = Vec::new();
    settle(&mut group, &mut applied);
    assert_eq!(group.propose(b"a".to_vec()), Ok(Proposed { index: 2, term: 1 }));
    let work = group.ready().expect("an entry to persist");
    assert!(work.committed.is_empty(), "committed before it was persisted");
    assert_eq!(work.entries.len(), 1);
    // A second proposal while the first is on its way to the disk.
    group.propose(b"b".to_vec()).expect("leads");
    group.persisted(work.number);
    settle(&mut group, &mut applied);
    assert_eq!(applied, [Bytes::new(), Bytes::from("a"), Bytes::from("b")]);
}

#[test]
fn restarts_from_a_checkpoint_and_a_log() {
    let start = Start {
        hard_state: HardState { term: 3, vote: 1, commit: 7 },
        before: (7, 2),
        entries: vec![Entry::new(8, 3, Bytes::from("x"), false)],
        applied: 7,
    };
    let mut group = Group::new(
        ReplicaId(1),
        &Members::of_voters(&[ReplicaId(1)]),
        start,
        &Limits::default(),
        Boot::default(),
    );
    group.campaign();
    let mut applied = Vec::new();
    settle(&mut group, &mut applied);
    assert_eq!(applied, [Bytes::from("x"), Bytes::new()]);
    assert_eq!(group.term(), 4);
    assert_eq!(group.hard_state(), HardState { term: 4, vote: 1, commit: 9 });
}

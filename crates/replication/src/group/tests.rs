//! One voter by itself: what it commits, and how it begins again.

use bytes::Bytes;

use super::*;
use raft::Storage;

use crate::{Entry, MessageKind};

fn sole() -> Group {
    Group::new(
        ReplicaId(1),
        &Members::of_voters(&[ReplicaId(1)]),
        StartState::default(),
        &GroupLimits::default(),
        StartContext::default(),
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
fn sole_voter_leads_and_commits_persisted_entries() {
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
fn group_restarts_from_checkpoint_and_log() {
    let start = StartState {
        hard_state: HardState { term: 3, vote: 1, commit: 7 },
        before: (7, 2),
        entries: vec![Entry::new(8, 3, Bytes::from("x"), false)],
        applied: 7,
    };
    let mut group = Group::new(
        ReplicaId(1),
        &Members::of_voters(&[ReplicaId(1)]),
        start,
        &GroupLimits::default(),
        StartContext::default(),
    );
    group.campaign();
    let mut applied = Vec::new();
    settle(&mut group, &mut applied);
    assert_eq!(applied, [Bytes::from("x"), Bytes::new()]);
    assert_eq!(group.term(), 4);
    assert_eq!(group.hard_state(), HardState { term: 4, vote: 1, commit: 9 });
}

/// A leader and its follower, where nothing has been said for a while.
fn pair() -> (Group, Group) {
    let members = Members::of_voters(&[ReplicaId(1), ReplicaId(2)]);
    let new = |id| {
        let clock = StartContext { now: 10_000_000_000, started: 1, seed: 7 };
        Group::new(ReplicaId(id), &members, StartState::default(), &GroupLimits::default(), clock)
    };
    let (mut leader, mut follower) = (new(1), new(2));
    leader.campaign();
    for round in 0..20 {
        if round == 10 {
            leader.propose(b"x".to_vec()).expect("leads");
        }
        // What is committed is told with a heartbeat at last.
        leader.tick(10_000_000_000);
        for message in work(&mut leader) {
            follower.step(message, 10_000_000_000).expect("sound");
        }
        for message in work(&mut follower) {
            leader.step(message, 10_000_000_000).expect("sound");
        }
    }
    (leader, follower)
}

fn work(group: &mut Group) -> Vec<Message> {
    settle(group, &mut Vec::new());
    let mut out = Vec::new();
    group.take_messages(&mut out);
    out
}

/// The next heartbeat of a leader.
fn heartbeat(leader: &mut Group, now: BootNanos) -> Message {
    loop {
        leader.tick(now);
        if let Some(message) = work(leader).pop() {
            return message;
        }
    }
}

/// What is known of a group from outside.
fn seen(group: &Group) -> String {
    let core = &group.raw.raft;
    let active: Vec<_> = core.prs().iter().map(|(id, pr)| (*id, pr.recent_active)).collect();
    let (hard, vote_promise, elapsed) =
        (group.hard_state(), &group.vote_promise, core.election_elapsed);
    let lease = (group.confirmed_at(), group.lease_until());
    format!("{hard:?} {vote_promise:?} {elapsed} {lease:?} {:?} {active:?}", group.followers())
}

#[test]
fn heartbeat_fast_path_equals_full_step() {
    let now = 10_200_000_000;
    let ((mut leader, mut follower), (mut leader2, mut follower2)) = (pair(), pair());
    let (beat, beat2) = (heartbeat(&mut leader, now), heartbeat(&mut leader2, now));
    assert_eq!(beat, beat2);
    follower2.step(beat2, now + 5).expect("sound");
    assert!(follower.rest(&beat, now + 5), "there is nothing to do about it");
    assert!(follower.ready().is_none(), "work that nobody would ask for");
    let (answer, answer2) = (work(&mut follower), work(&mut follower2));
    assert_eq!(answer, answer2);
    assert_eq!(seen(&follower), seen(&follower2));
    leader2.step(answer2[0].clone(), now + 9).expect("sound");
    assert!(leader.rest(&answer[0], now + 9), "there is nothing to do about it");
    assert!(leader.ready().is_none(), "work that nobody would ask for");
    assert_eq!((seen(&leader), work(&mut leader)), (seen(&leader2), work(&mut leader2)));
    assert!(leader.lease_until() > now);
}

#[test]
fn fast_path_ignores_messages_that_need_work() {
    let now = 10_200_000_000;
    let (mut leader, mut follower) = pair();
    let good = heartbeat(&mut leader, now);
    let changed = |change: fn(&mut eraftpb::Message)| {
        let mut message = good.clone();
        change(&mut message.inner);
        message
    };
    let others = [
        changed(|inner| inner.term += 1),
        changed(|inner| inner.term -= 1),
        changed(|inner| inner.from = 3),
        changed(|inner| inner.to = 3),
        changed(|inner| inner.commit += 1),
        changed(|inner| inner.context = Bytes::from_static(b"read")),
        changed(|inner| inner.set_msg_type(MessageType::MsgAppend)),
    ];
    let before = seen(&follower);
    for other in &others {
        assert!(!follower.rest(other, now), "{other:?}");
    }
    assert_eq!(seen(&follower), before);
    assert!(follower.rest(&good, now));
    let answer = work(&mut follower).remove(0);
    // It has not got everything.
    leader.propose(b"y".to_vec()).expect("leads");
    let appends = work(&mut leader);
    let before = seen(&leader);
    assert!(!leader.rest(&answer, now));
    assert_eq!(seen(&leader), before);
    // What it has got is not on its disk.
    follower.step(appends[0].clone(), now).expect("sound");
    let held = follower.ready().expect("an entry");
    assert!(!follower.rest(&good, now));
    follower.persisted(held.number);
    assert!(follower.rest(&good, now));
    // From the future: the leader's clock has not stood there.
    let mut early = answer;
    early.clock = now + 1_000;
    assert!(!leader.rest(&early, now));
}

/// Of three the second gets everything, the third nothing but heartbeats, and those only while it
/// is `lively`. How much of the log the first, which leads, keeps for it.
fn kept_for_the_third(lively: bool) -> u64 {
    let members = Members::of_voters(&[ReplicaId(1), ReplicaId(2), ReplicaId(3)]);
    let limits = GroupLimits {
        retained_bytes: 0,
        retained_for_followers_bytes: 300,
        retained_for_active_followers_bytes: 1_200,
        ..GroupLimits::default()
    };
    let mut now = 10_000_000_000;
    let mut groups = [1, 2, 3].map(|id| {
        let clock = StartContext { now, started: 1, seed: 7 };
        Group::new(ReplicaId(id), &members, StartState::default(), &limits, clock)
    });
    groups[0].campaign();
    for round in 0..200 {
        now += 100_000_000;
        groups[0].tick(now);
        if round > 20 {
            groups[0].propose(vec![7; 100]).expect("leads");
        }
        for from in [0, 1, 2, 0] {
            for message in work(&mut groups[from]) {
                let to = message.to().0 as usize - 1;
                let is_beat = message.kind() == Some(MessageKind::Heartbeat);
                if to != 2 || round < 10 || (lively && is_beat) {
                    groups[to].step(message, now).expect("sound");
                }
            }
        }
    }
    assert!(groups[0].committed() > 150);
    groups[0].committed() - groups[0].raw.store().first_index().expect("in memory")
}

#[test]
fn leader_retains_more_log_for_active_followers() {
    let (lively, silent) = (kept_for_the_third(true), kept_for_the_third(false));
    assert!((9..=12).contains(&lively), "{lively} entries");
    assert!((1..=3).contains(&silent), "{silent} entries");
}

/// Of five, the fourth is gone for good, and the fifth gets everything a round late: what the
/// fourth lacks is not kept on the fifth's account.
#[test]
fn dead_follower_takes_no_share_of_retained_log() {
    let members = Members::of_voters(&[1, 2, 3, 4, 5].map(ReplicaId));
    let limits = GroupLimits {
        retained_bytes: 0,
        retained_for_followers_bytes: 300,
        retained_for_active_followers_bytes: 1_200,
        ..GroupLimits::default()
    };
    let mut now = 10_000_000_000;
    let mut groups = [1, 2, 3, 4, 5].map(|id| {
        let clock = StartContext { now, started: 1, seed: 7 };
        Group::new(ReplicaId(id), &members, StartState::default(), &limits, clock)
    });
    groups[0].campaign();
    let mut late: Vec<Message> = Vec::new();
    for round in 0..100 {
        now += 100_000_000;
        groups[0].tick(now);
        if round > 20 {
            groups[0].propose(vec![7; 100]).expect("the group leads");
        }
        let before = std::mem::take(&mut late);
        for from in [0, 1, 2, 0, 4, 0] {
            for message in work(&mut groups[from]) {
                match message.to().0 {
                    4 if round >= 10 => {}
                    5 if round >= 10 => late.push(message),
                    to => groups[to as usize - 1].step(message, now).expect("the message is valid"),
                }
            }
        }
        before
            .into_iter()
            .for_each(|late| groups[4].step(late, now).expect("the message is valid"));
    }
    let first = groups[0].raw.store().first_index().expect("in memory");
    let kept = groups[0].committed() - first;
    assert!((1..=4).contains(&kept), "{kept} entries are kept");
    // A share of the node's memory that is smaller than all limits.
    groups[0].set_retained_bytes_max(0);
    groups[0].applied(groups[0].committed());
    assert_eq!(groups[0].retained_bytes(), 0);
}

/// Who has the log and no group finds the same members.
#[test]
fn members_follow_from_change_entries_alone() {
    let ids = |list: &[u64]| list.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
    let enter = |promote: &[u64], remove: &[u64]| Change::EnterJoint {
        promote: ids(promote),
        remove: ids(remove),
    };
    let changes = [
        Change::AddLearners(ids(&[3, 2])),
        Change::LeaveJoint,
        enter(&[2, 3], &[]),
        Change::LeaveJoint,
        Change::AddLearners(ids(&[4, 5])),
        Change::LeaveJoint,
        enter(&[4], &[1, 5]),
        Change::LeaveJoint,
        Change::AddLearners(ids(&[3, 6])),
        Change::LeaveJoint,
        enter(&[6], &[2]),
        Change::LeaveJoint,
    ];
    let mut group = sole();
    let mut members = group.members().clone();
    for change in &changes {
        members = members.after(change);
        assert_eq!(group.change(change), &members, "{change:?}");
    }
    assert_eq!((members.voters, members.learners), (ids(&[4, 6]), ids(&[3])));
}

/// Hears in one breath that a change of members is committed and that it is to stand: it applies
/// the one, and then does the other.
#[test]
fn timeout_now_before_applied_change_campaigns_afterwards() {
    let (mut leader, mut follower) = pair();
    let now = 10_000_000_000;
    let change = Change::AddLearners(vec![ReplicaId(3)]);
    leader.propose_change(&change, b"change".to_vec()).expect("leads");
    work(&mut leader).into_iter().for_each(|message| follower.step(message, now).expect("sound"));
    work(&mut follower).into_iter().for_each(|message| leader.step(message, now).expect("sound"));
    let mut said = work(&mut leader);
    leader.change(&change);
    leader.send_commit_index_to_all();
    leader.transfer(ReplicaId(2));
    let (term, committed) = (follower.term(), follower.committed());
    said.extend(work(&mut leader));
    said.retain(|message| message.to() == ReplicaId(2));
    said.into_iter().for_each(|message| follower.step(message, now).expect("sound"));
    assert!(follower.committed() > committed && follower.term() == term, "it has not applied it");
    let stands = work(&mut follower).iter().any(|message| message.term() == term + 1);
    assert!(stands && follower.term() == term + 1);
}

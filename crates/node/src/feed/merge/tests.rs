//! Feeds of shards that answer as a test wants.

use std::collections::BTreeSet;

use keyspace::random::Random;
use keyspace::{KeyspaceId, Position};

use super::super::changes::{CHANGE_BYTES, WhatChanged};
use super::*;

const K: KeyspaceId = KeyspaceId(1);

fn change(at: u64, key: &[u8]) -> HeldKeyChange {
    let value = at.to_le_bytes().into();
    let (what, before) = (WhatChanged::Put { value, expiry_ms: 0 }, None);
    HeldKeyChange { at: Timestamp(at), key: key.into(), what, before }
}

fn arc(start: &[u8], end: &[u8]) -> Arc {
    Arc::new(Position::at(K, start), Position::at(K, end)).unwrap()
}

fn place(shard: u64, start: &[u8], end: &[u8]) -> Place {
    Place { shard: ShardId(shard), arc: arc(start, end) }
}

fn live(changes: &[HeldKeyChange], resolved: u64) -> FetchResult {
    let (changes, resolved) = (changes.to_vec(), Timestamp(resolved));
    FetchResult::Changes(FoundChanges::Live { changes, resolved })
}

fn taken(feed: &mut FeedMerge) -> Vec<(u64, usize)> {
    feed.take(usize::MAX).iter().map(|one| (one.at.0, one.changes.len())).collect()
}

fn above(question: &Question) -> (u64, How) {
    let FetchRequest::Changes(want) = &question.want else { panic!("{question:?}") };
    (want.above.0, want.how.clone())
}

#[test]
fn commit_is_told_when_all_parts_are_resolved_up_to_it() {
    let mut feed = FeedMerge::new(KeyFilter::All, false, Timestamp(10));
    feed.set_places(vec![place(1, b"", b"m"), place(2, b"m", b"")]);
    let asked = feed.questions(0);
    assert_eq!(asked.len(), 2);
    feed.answered(asked[0].number, live(&[change(20, b"a"), change(30, b"b")], 35), 0);
    assert!(taken(&mut feed).is_empty() && feed.position() == Timestamp(10));
    // The second is asked whether it is as far, and the first goes on a moment later.
    let more = feed.questions(0);
    let asks = How::Live { until: Timestamp(30), wait_ms: CATCH_UP_WAIT_MS };
    assert_eq!(more.iter().map(above).collect::<Vec<_>>(), [(10, asks)]);
    assert_eq!(feed.look_at(0), Some(PACE_NANOS));
    let later: Vec<_> = feed.questions(PACE_NANOS).iter().map(above).collect();
    let waits = How::Live { until: Timestamp::ZERO, wait_ms: LIVE_WAIT_MS };
    assert_eq!(later, [(35, waits)]);
    feed.answered(more[0].number, live(&[change(20, b"z")], 25), 0);
    assert_eq!(taken(&mut feed), [(20, 2)], "both halves of a transaction at once");
    assert_eq!(feed.position(), Timestamp(25));
    // What waited at the leader tells it once more.
    feed.answered(asked[1].number, live(&[change(20, b"z"), change(28, b"y")], 40), 0);
    assert_eq!(taken(&mut feed), [(28, 1), (30, 1)]);
    assert_eq!(feed.position(), Timestamp(35));
}

#[test]
fn parts_begin_where_those_were_that_they_come_from() {
    let mut feed = FeedMerge::new(KeyFilter::All, false, Timestamp(10));
    feed.set_places(vec![place(1, b"", b"m"), place(2, b"m", b"")]);
    let asked = feed.questions(0);
    feed.answered(asked[0].number, live(&[change(20, b"a")], 50), 0);
    feed.answered(asked[1].number, live(&[change(20, b"z")], 25), 0);
    assert_eq!(taken(&mut feed), [(20, 2)]);
    feed.set_places(vec![place(1, b"", b"f"), place(3, b"f", b"p"), place(2, b"p", b"")]);
    let positions: Vec<_> = feed.questions(PACE_NANOS).iter().map(|q| above(q).0).collect();
    assert_eq!(positions, [50, 25, 25]);
    feed.answered(asked[1].number, live(&[change(60, b"z")], 70), 0);
    assert!(!feed.has_commit(), "an answer of a part that is no more");
}

#[test]
fn walk_begins_again_behind_the_first_commits_if_there_is_too_much() {
    let mut feed = FeedMerge::new(KeyFilter::All, false, Timestamp::ZERO);
    feed.set_places(vec![place(1, b"", b"")]);
    let asked = feed.questions(0);
    let epoch = WalkEpoch { term: 1, replacements: 0 };
    let not_kept = FoundChanges::NotKept { upto: Timestamp(1_000_000), epoch };
    feed.answered(asked[0].number, FetchResult::Changes(not_kept), 0);
    let count = WALK_BYTES_MAX / (CHANGE_BYTES + 8) + 10;
    let all: Vec<_> = (1..=count as u64).map(|at| change(at / 2, &at.to_be_bytes())).collect();
    let piece = |changes: &[HeldKeyChange], next| {
        FetchResult::Changes(FoundChanges::Piece { changes: changes.to_vec(), next })
    };
    let asked = feed.questions(0);
    feed.answered(asked[0].number, piece(&all, Some(ChangesCursor::default())), 0);
    let asked = feed.questions(0);
    let (_, How::Walk { upto, .. }) = above(&asked[0]) else { panic!("{asked:?}") };
    assert!(upto < Timestamp(count as u64 / 2), "{upto:?}");
    feed.answered(asked[0].number, piece(&all, None), 0);
    let told = taken(&mut feed);
    assert_eq!(told.last().map(|(at, count)| (*at, *count)), Some((upto.0, 2)));
    assert_eq!(above(&feed.questions(0)[0]).0, upto.0);
}

#[test]
fn too_late_and_too_large_end_a_feed() {
    let mut feed = FeedMerge::new(KeyFilter::All, false, Timestamp(5));
    feed.set_places(vec![place(1, b"", b"")]);
    let asked = feed.questions(0);
    feed.answered(asked[0].number, FetchResult::BelowSafePoint(Timestamp(9)), 0);
    assert_eq!(feed.end(), Some(FeedEnd::TooLate { safe_point: Timestamp(9) }));
    assert!(feed.questions(0).is_empty());
}

#[test]
fn slow_reader_stops_questions() {
    let mut feed = FeedMerge::new(KeyFilter::All, false, Timestamp::ZERO);
    feed.set_places(vec![place(1, b"", b"m"), place(2, b"m", b"")]);
    let (mut at, mut now) = (0, 0);
    for _ in 0..10_000 {
        now += PACE_NANOS;
        let asked = feed.questions(now);
        let Some(first) = asked.iter().find(|question| question.shard == ShardId(1)) else {
            break;
        };
        let changes: Vec<_> = (0..1000).map(|i| change(at + i + 1, b"a")).collect();
        at += 1000;
        feed.answered(first.number, live(&changes, at), now);
    }
    assert!(feed.buffer.bytes < BUFFER_BYTES_MAX + (1 << 20), "{}", feed.buffer.bytes);
    // The other is still asked, until there is something to take.
    let asked = feed.parts[1].live.expect("it is asked").0;
    feed.answered(asked, live(&[], at), now);
    now += PACE_NANOS;
    assert!(feed.has_commit() && feed.questions(now).is_empty());
    taken(&mut feed);
    assert_eq!(feed.questions(now).len(), 2);
}

/// Shards that split and merge, leaders that answer late, twice, in part or not at all: all
/// commits are told in order, whole and once.
#[test]
fn random_shards_lose_and_double_nothing() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let keys: Vec<Vec<u8>> = (b'a'..=b'p').map(|byte| vec![byte]).collect();
        let mut history: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut cuts: BTreeSet<u8> = BTreeSet::from([b'h']);
        let mut feed = FeedMerge::new(KeyFilter::All, false, Timestamp(3));
        let (mut now, mut open): (u64, Vec<Question>) = (3, Vec::new());
        let mut told: Vec<(u64, Vec<u8>)> = Vec::new();
        for step in 0..600 {
            let is_end = step > 500;
            if !is_end && random.below(2) == 0 {
                now += 1 + random.below(3);
                for _ in 0..1 + random.below(3) {
                    let key = keys[random.below(16) as usize].clone();
                    if !history.contains(&(now, key.clone())) {
                        history.push((now, key));
                    }
                }
            }
            if random.below(20) == 0 {
                let cut = b'b' + random.below(14) as u8;
                if !cuts.remove(&cut) {
                    cuts.insert(cut);
                }
            }
            let ends: Vec<Vec<u8>> = [vec![]]
                .into_iter()
                .chain(cuts.iter().map(|cut| vec![*cut]))
                .chain([vec![]])
                .collect();
            let places = ends.windows(2).map(|pair| {
                place(pair[0].first().map_or(0, |b| u64::from(*b)), &pair[0], &pair[1])
            });
            let places: Vec<Place> = places.collect();
            if is_end || random.below(3) > 0 {
                feed.set_places(places.clone());
            }
            let nanos = step * 10_000_000;
            open.extend(feed.questions(nanos));
            for _ in 0..random.below(4) + u64::from(is_end) * 4 {
                if open.is_empty() {
                    break;
                }
                let at = random.below(open.len() as u64) as usize;
                let question = open.swap_remove(at);
                let FetchRequest::Changes(want) = &question.want else { panic!() };
                let mine = places.iter().find(|place| place.arc.ends() == want.ends);
                let Some(mine) = mine.filter(|_| is_end || random.below(5) > 0) else {
                    feed.refused(question.number, nanos);
                    continue;
                };
                let upto = match is_end {
                    true => now,
                    false => now.saturating_sub(random.below(4)),
                };
                let upto = upto.max(want.above.0);
                let mut changes: Vec<_> = history
                    .iter()
                    .filter(|(at, key)| *at > want.above.0 && *at <= upto && mine.arc.has(key))
                    .map(|(at, key)| change(*at, key))
                    .collect();
                changes.sort_by_key(|one| one.at);
                feed.answered(question.number, live(&changes, upto), nanos);
            }
            for commit in feed.take(200) {
                let at = commit.at.0;
                told.extend(commit.changes.into_iter().map(|one| (at, one.key.into_vec())));
            }
        }
        history.sort();
        assert_eq!(told, history, "seed {seed}");
    }
}

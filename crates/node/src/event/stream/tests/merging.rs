//! One merge, fed by hand.

use keyspace::{NodeId, Timestamp};

use crate::event::stream::{Cursor, Gap, GapReason, Item, Merge, Output, SourceState};

const MS: u64 = 1_000_000;
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

fn merge() -> Merge {
    let mut merge = Merge::new(Cursor::START, Timestamp::MAX, 1000);
    merge.add(A, 0);
    merge.add(B, 0);
    merge
}

fn event(at: u64) -> Item {
    Item::Event(Timestamp(at), format!("{at}").into())
}

fn all(merge: &mut Merge, now: u64) -> Vec<String> {
    let text = |output| match output {
        Output::Event { cursor, body, is_late } => {
            assert_eq!(cursor.is_none(), is_late, "samples are not among these");
            format!("{body}{}", if is_late { " late" } else { "" })
        }
        Output::Gap { of, gap, .. } => format!("gap {} {:?}", of.0, gap.events),
        Output::Node { of, state } => format!("{} {}", of.0, state.name()),
        Output::End(_) => unreachable!("a broker ends streams"),
    };
    std::iter::from_fn(|| merge.take(now)).map(text).collect()
}

#[test]
fn events_come_in_order_up_to_the_lowest_promise() {
    let mut merge = merge();
    merge.receive(A, [event(10), event(30)], Timestamp(30), 0);
    assert_eq!(all(&mut merge, 0), ["1 streaming"], "the other one has not promised anything");
    merge.receive(B, [event(20)], Timestamp(25), 0);
    assert_eq!(all(&mut merge, 0), ["2 streaming", "10", "20"]);
    merge.receive(B, [], Timestamp(40), 0);
    assert_eq!(all(&mut merge, 0), ["30"]);
    assert_eq!(merge.given(), Cursor::behind(Timestamp(30), A));
}

#[test]
fn events_of_one_time_come_in_order_of_nodes() {
    let mut merge = merge();
    merge.receive(B, [event(10)], Timestamp(10), 0);
    merge.receive(A, [event(10)], Timestamp(10), 0);
    let cursors: Vec<_> = std::iter::from_fn(|| merge.take(0))
        .filter_map(|output| match output {
            Output::Event { cursor, .. } => cursor,
            _ => None,
        })
        .collect();
    assert_eq!(cursors, [A, B].map(|node| Cursor::behind(Timestamp(10), node)));
}

#[test]
fn silent_node_is_not_waited_for_and_comes_back_late() {
    let mut merge = merge();
    merge.receive(A, [], Timestamp(5), 0);
    merge.receive(B, [], Timestamp(5), 0);
    assert_eq!(all(&mut merge, 0), ["1 streaming", "2 streaming"]);
    for now in [400 * MS, 800 * MS] {
        merge.receive(A, [event(now)], Timestamp(now), now);
        merge.tick(now);
        assert_eq!(all(&mut merge, now), [""; 0], "it may still say something earlier");
    }
    let now = 1000 * MS;
    merge.receive(A, [event(now)], Timestamp(now), now);
    merge.tick(now);
    assert_eq!(all(&mut merge, now), ["2 silent", "400000000", "800000000", "1000000000"]);
    merge.receive(B, [event(500 * MS), event(1100 * MS)], Timestamp(1100 * MS), now);
    merge.receive(A, [], Timestamp(1200 * MS), now);
    assert_eq!(all(&mut merge, now), ["2 streaming", "500000000 late", "1100000000"]);
}

#[test]
fn event_waits_for_a_second_at_most() {
    let mut merge = merge();
    merge.receive(A, [event(100)], Timestamp(100), 0);
    let mut now = 0;
    while now < 950 * MS {
        now += 50 * MS;
        // Its clock is far behind.
        merge.receive(B, [event(now / MS / 50)], Timestamp(now / MS / 50), now);
        merge.receive(A, [], Timestamp(100), now);
        merge.tick(now);
        assert!(!all(&mut merge, now).contains(&"100".to_owned()));
    }
    now += 50 * MS;
    merge.tick(now);
    assert_eq!(all(&mut merge, now), ["100"]);
    merge.receive(B, [event(50)], Timestamp(50), now);
    assert_eq!(all(&mut merge, now), ["50 late"]);
}

#[test]
fn node_that_is_down_or_gone_is_told_once_and_not_waited_for() {
    let mut merge = merge();
    merge.receive(A, [event(10)], Timestamp(10), 0);
    merge.set_state(B, SourceState::Down);
    merge.set_state(B, SourceState::Down);
    assert_eq!(all(&mut merge, 0), ["1 streaming", "2 down", "10"]);
    merge.remove(B);
    merge.receive(A, [event(20)], Timestamp(20), 0);
    assert_eq!(all(&mut merge, 0), ["2 gone", "20"]);
    merge.await_again(B, 0);
    merge.receive(A, [event(30)], Timestamp(30), 0);
    assert_eq!(all(&mut merge, 0), [""; 0], "it is waited for again");
}

#[test]
fn gap_stands_in_its_place_and_moves_the_cursor() {
    let mut merge = merge();
    let gap = Gap {
        reason: GapReason::Kept,
        events: Some(3),
        is_exact: true,
        samples: 0,
        from: Timestamp(5),
        to: Timestamp(15),
    };
    merge.receive(A, [Item::Gap(gap), event(20)], Timestamp(20), 0);
    merge.receive(B, [event(10), event(17)], Timestamp(30), 0);
    assert_eq!(
        all(&mut merge, 0),
        ["1 streaming", "2 streaming", "10", "gap 1 Some(3)", "17", "20"]
    );
    assert_eq!(merge.held_bytes(A) + merge.held_bytes(B), 0);
}

#[test]
fn samples_over_all_nodes_are_bounded_and_move_no_cursor() {
    let mut merge = Merge::new(Cursor::START, Timestamp::MAX, 2);
    merge.add(A, 0);
    let samples = (0..10).map(|at| Item::Sample(Timestamp(at), "{}".into(), None));
    merge.receive(A, samples, Timestamp(100), 0);
    let given: Vec<_> = std::iter::from_fn(|| merge.take(0)).collect();
    let sample = Output::Event { cursor: None, body: "{}".into(), is_late: false };
    assert_eq!(given, [Output::Node { of: A, state: SourceState::Streaming }, sample]);
    assert_eq!(merge.given(), Cursor::START);
}

#[test]
fn merge_is_over_when_all_have_told_up_to_its_end() {
    let mut merge = Merge::new(Cursor::START, Timestamp(100), 0);
    merge.add(A, 0);
    merge.add(B, 0);
    merge.receive(A, [event(50), event(101)], Timestamp(200), 0);
    merge.receive(B, [event(60)], Timestamp(99), 0);
    assert_eq!(all(&mut merge, 0), ["1 streaming", "2 streaming", "50", "60"]);
    assert!(!merge.is_over(), "the other may still tell something at 100");
    merge.receive(B, [event(100)], Timestamp(100), 0);
    assert!(!merge.is_over(), "it is not given yet");
    assert_eq!(all(&mut merge, 0), ["100"]);
    assert!(merge.is_over() && !merge.has_more(0), "what is later is not given");
}

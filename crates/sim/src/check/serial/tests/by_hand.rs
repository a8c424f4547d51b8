//! Each anomaly, written down.

use super::*;

/// What is found in a history, by name; the oracle agrees whether there is anything.
fn names(history: &[ObservedTxn]) -> Vec<String> {
    let found = check(history);
    assert_eq!(found.is_empty(), oracle::is_serial(history), "{found:?}");
    found.iter().map(|anomaly| anomaly.kind.to_string()).collect()
}

/// What the only anomaly of a history says, without the transactions.
fn described(history: &[ObservedTxn]) -> String {
    let found = check(history);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(!oracle::is_serial(history));
    let text = found[0].to_string();
    text.lines().filter(|line| !line.contains(" client ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn nothing_is_wrong_with_one_after_another() {
    assert_eq!(check(&[]), []);
    let history = [
        ok(1, 9, "a: a+1 a:1 b+2"),
        ok(2, 8, "a:1 a+3 b:2"),
        lost(3, "b? b+4 c+5"),
        lost(3, "b:7 b+9"),
        not(3, "a+6"),
        ok(10, 11, "a:1,3 b:2,4 c:5"),
    ];
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn dirty_write() {
    let history = [ok(1, 9, "a+1 b+1"), ok(1, 9, "a+2 b+2"), ok(1, 9, "a:1,2 b:2,1")];
    assert_eq!(
        described(&history),
        "G0: 2 transactions, each before the next\n  \
         T0 → T1 (ww): 1, then 2 was appended to a\n  \
         T1 → T0 (ww): 2, then 1 was appended to b"
    );
    let amid = [ok(1, 9, "a+1 a+2"), ok(1, 9, "a+3"), ok(1, 9, "a:1,3,2")];
    assert_eq!(names(&amid), ["G0"]);
    let half = [ok(1, 9, "a+1 a+2"), ok(1, 9, "a+3"), ok(1, 9, "a:1,3")];
    assert_eq!(names(&half), ["G0"], "2 must come after what was read");
    let late = [ok(1, 2, "a+1"), ok(3, 4, "a+2"), ok(1, 9, "a:2,1")];
    assert_eq!(names(&late), ["G0-realtime"]);
}

#[test]
fn aborted_read() {
    let history = [not(1, "a+1"), ok(2, 3, "a:1")];
    assert_eq!(described(&history), "G1a (aborted read): T1 read 1 in a; T0 did not happen");
    assert_eq!(described(&[ok(2, 3, "a:7")]), "garbage read: T0 read 7 in a; nobody appended it");
}

#[test]
fn intermediate_read() {
    let history = [ok(1, 9, "a+1 a+2"), ok(1, 9, "a:1"), ok(1, 9, "a:1,2")];
    assert_eq!(
        described(&history),
        "G1b (intermediate read): T1 read [1] in a: 1 of T0, and not yet 2 of the same"
    );
    assert_eq!(names(&history[..2]), ["G1b (intermediate read)"]);
    assert_eq!(names(&[lost(1, "a+1 a+2"), ok(1, 9, "a:1")]), ["G1b (intermediate read)"]);
}

#[test]
fn circular_reads() {
    let history = [ok(1, 9, "a+1 b:1"), ok(1, 9, "b+1 a:1")];
    assert_eq!(
        described(&history),
        "G1c: 2 transactions, each before the next\n  \
         T0 → T1 (wr): 1 was appended to a, and read there\n  \
         T1 → T0 (wr): 1 was appended to b, and read there"
    );
    let future = [ok(1, 2, "a:1"), ok(3, 4, "a+1")];
    assert_eq!(names(&future), ["G1c-realtime"]);
    assert_eq!(names(&[ok(1, 2, "a:1"), lost(3, "a+1")]), ["G1c-realtime"]);
}

#[test]
fn lost_update() {
    let history = [ok(1, 9, "a: a+1"), ok(1, 9, "a: a+2"), ok(10, 11, "a:1,2")];
    assert_eq!(
        described(&history),
        "G-single: 2 transactions, each before the next\n  \
         T1 → T0 (rw): [] was read in a, before 1 was appended\n  \
         T0 → T1 (ww): 1, then 2 was appended to a"
    );
    assert_eq!(names(&history[..2]), ["G2"], "nobody knows which came first");
    let lost = [ok(1, 9, "a: a+1"), ok(1, 9, "a: a+2"), ok(10, 11, "a:2")];
    assert_eq!(names(&lost), ["G-single"]);
}

#[test]
fn lost_append() {
    let history = [ok(1, 2, "a+1"), ok(3, 4, "a+2"), ok(5, 6, "a:2")];
    assert_eq!(names(&history), ["G0-realtime"]);
    let history = [ok(1, 2, "a+1"), ok(1, 4, "a+2"), ok(5, 6, "a:2")];
    assert_eq!(
        described(&history),
        "G-single-realtime: 2 transactions, each before the next\n  \
         T2 → T0 (rw): [2] was read in a, before 1 was appended\n  \
         T0 → T2 (rt): answered at 2, invoked at 5"
    );
    assert_eq!(names(&[lost(1, "a+1"), ok(5, 6, "a:")]), [""; 0]);
    let half = [lost(1, "a+1 b+1"), ok(5, 6, "a:1 b:")];
    assert_eq!(names(&half), ["G-single"], "it has happened: its other half is missing");
}

#[test]
fn write_skew() {
    let history = [ok(1, 9, "a: b+1"), ok(1, 9, "b: a+1"), ok(10, 11, "a:1 b:1")];
    assert_eq!(
        described(&history),
        "G2: 2 transactions, each before the next\n  \
         T0 → T1 (rw): [] was read in a, before 1 was appended\n  \
         T1 → T0 (rw): [] was read in b, before 1 was appended"
    );
    assert_eq!(names(&history[..2]), ["G2"]);
}

#[test]
fn the_worst_cycle_is_told_then_the_shortest() {
    let three = [ok(1, 9, "a: b+1"), ok(1, 9, "b: d: c+1"), ok(1, 9, "c: a+1 d+1")];
    assert_eq!(check(&three)[0].transactions, [1, 2]);
    assert_eq!(names(&three), ["G2"]);
    // There is one of two transactions and two rw, but that of three and one rw is worse.
    let mixed = [ok(1, 9, "a: b+1"), ok(1, 9, "b: a+1"), ok(1, 9, "a:1 c+1"), ok(1, 9, "c:1 a:")];
    assert_eq!(names(&mixed), ["G-single"]);
}

#[test]
fn long_fork() {
    let writes = [ok(1, 9, "a+1"), ok(1, 9, "b+1")];
    let reads = [ok(1, 9, "a:1 b:"), ok(1, 9, "a: b:1")];
    let history = [writes, reads].concat();
    assert_eq!(names(&history), ["G2"]);
    assert_eq!(check(&history)[0].transactions.len(), 4);
    assert_eq!(names(&history[..3]), [""; 0]);
}

#[test]
fn read_only_anomaly() {
    // Fekete, O'Neil and O'Neil (2004): the deposit b+1 is seen, the withdrawal that missed it is
    // not, though it would have had to come first.
    let history = [ok(1, 9, "a: b: a+1"), ok(1, 3, "b: b+1"), ok(4, 6, "a: b:1")];
    let found = check(&history);
    assert_eq!(names(&history), ["G2"]);
    assert_eq!(found[0].transactions.len(), 3);
    assert_eq!(names(&history[..2]), [""; 0], "without who only reads, nothing is wrong");
}

#[test]
fn phantom() {
    // Both looked whether the other's key is there.
    let absent = [ok(1, 9, "x: y: x+1"), ok(1, 9, "x: y: y+1")];
    assert_eq!(names(&absent), ["G2"]);
    let one = [ok(1, 9, "x: y+1 x:1"), ok(1, 9, "x+1 y:"), ok(1, 9, "x:1 y:1")];
    assert_eq!(names(&one)[..1], ["internal inconsistency"]);
}

#[test]
fn stale_read() {
    let history = [ok(1, 2, "a+1"), ok(3, 4, "a:")];
    assert_eq!(names(&history), ["G-single-realtime"]);
    assert_eq!(names(&[ok(1, 3, "a+1"), ok(3, 4, "a:")]), [""; 0], "they touch");
    let between = [ok(1, 20, "a+1 b+1"), ok(1, 5, "a:1"), ok(6, 9, "c:"), ok(10, 12, "b:")];
    assert_eq!(names(&between), ["G-single-realtime"]);
    let early = [ok(1, 4, "a: b+1"), ok(5, 8, "b:1"), ok(1, 9, "a+1"), ok(9, 10, "a:1 b:1")];
    assert_eq!(names(&early), [""; 0]);
    let several = [ok(1, 4, "a+1"), ok(5, 8, "b:"), ok(1, 9, "b+1 c:"), ok(1, 9, "c+1 a:")];
    assert_eq!(names(&several), ["G2-realtime"]);
}

#[test]
fn read_that_cannot_be_repeated() {
    let history = [ok(1, 9, "a+1"), ok(1, 9, "a: a:1")];
    assert_eq!(
        described(&history),
        "internal inconsistency: T1 read [] of others in a, later [1]: it cannot be repeated"
    );
}

#[test]
fn fractured_read() {
    let history = [ok(1, 9, "a+1 b+1"), ok(1, 9, "a:1 b:")];
    assert_eq!(
        described(&history),
        "G-single: 2 transactions, each before the next\n  \
         T1 → T0 (rw): [] was read in b, before 1 was appended\n  \
         T0 → T1 (wr): 1 was appended to a, and read there"
    );
    let skew = [ok(1, 9, "a+1"), ok(1, 9, "a:1 b+1"), ok(1, 9, "a: b:1")];
    assert_eq!(names(&skew), ["G-single"]);
}

#[test]
fn own_appends_unseen() {
    assert_eq!(names(&[ok(1, 9, "a+1 a:")]), ["internal inconsistency"]);
    let half = names(&[ok(1, 9, "a+1 a+2 a:2")]);
    assert_eq!(half, ["appends out of order", "internal inconsistency"]);
    assert_eq!(
        described(&[ok(1, 9, "a:1 a+1")]),
        "internal inconsistency: T0 read [1] in a before it appended 1"
    );
    assert_eq!(names(&[ok(1, 9, "a+1 a+2"), ok(1, 9, "a:2,1")])[0], "appends out of order");
    assert_eq!(names(&[ok(1, 9, "a+1 a+2"), ok(1, 9, "a:2")])[0], "appends out of order");
}

#[test]
fn incompatible_orders() {
    let history = [ok(1, 9, "a+1"), ok(1, 9, "a+2"), ok(1, 9, "a:1,2"), ok(1, 9, "a:2")];
    assert_eq!(described(&history), "incompatible orders: after 0 elements of a, T2 read 1, T3 2");
}

#[test]
fn duplicate_append() {
    let history = [ok(1, 9, "a+1"), ok(1, 9, "a+2"), ok(1, 9, "a:1,2,1"), ok(1, 9, "a:1,2")];
    assert_eq!(described(&history), "duplicate element: T2 read 1 twice in a, [1, 2, 1]");
}

#[test]
fn unknown_outcome_counts_once_observed() {
    // T1 counts since T2 saw it, and T0 since T1 did.
    let history = [lost(1, "a+1 c+1"), lost(1, "a:1 b+1"), ok(1, 9, "b:1 c:")];
    assert_eq!(names(&history), ["G-single"]);
    assert_eq!(names(&[history[0].clone(), history[1].clone(), ok(1, 9, "c:")]), [""; 0]);
}

#[test]
#[should_panic(expected = "were both appended to a")]
fn a_history_with_an_element_twice_says_nothing() {
    check(&[ok(1, 9, "a+1"), not(1, "a+1")]);
}

#[test]
fn all_transactions_of_a_cycle_are_shown() {
    let found = check(&[ok(1, 2, "a+1"), did(Outcome::Unknown, 3, "b?"), ok(3, 4, "a:")]);
    let text = found[0].to_string();
    assert!(text.contains("\n  T0 client 0, 1-2: append a 1"), "{text}");
    assert!(text.contains("\n  T2 client 0, 3-4: read a []"), "{text}");
    assert!(!text.contains("T1"), "{text}");
}

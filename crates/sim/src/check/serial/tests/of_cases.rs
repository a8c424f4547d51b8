//! Each case, distinguished from those that look like it.

use super::*;

fn keys<const N: usize>(names: [&str; N]) -> [Vec<u8>; N] {
    names.map(|name| name.as_bytes().to_vec())
}

fn described(found: Option<Anomaly>) -> String {
    let text = found.map(|anomaly| anomaly.to_string()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn write_skew_between_two_appends_is_found() {
    let keys = keys(["x", "y"]);
    let good = [ok(1, 9, "x: y: x+1"), ok(1, 9, "x:1 y: y+2"), ok(1, 9, "x:1 y:2 y+3")];
    assert_eq!(described(cases::write_skew(&good, &keys)), "");
    let skewed = [ok(1, 9, "x: y: x+1"), ok(1, 9, "x: y: y+2")];
    assert_eq!(
        described(cases::write_skew(&skewed, &keys)),
        "write skew: T0 and T1 both saw 0 elements, and appended one"
    );
    // Whether one of unknown end has happened, a reader says.
    let open = [ok(1, 9, "x: y: x+1"), lost(1, "x: y: y+2")];
    assert_eq!(described(cases::write_skew(&open, &keys)), "");
    let seen = [open[0].clone(), open[1].clone(), ok(10, 11, "x:1 y:2")];
    assert!(cases::write_skew(&seen, &keys).is_some());
    assert_eq!(described(cases::write_skew(&[skewed[0].clone(), not(1, "x: y: y+2")], &keys)), "");
    // Other keys are another matter.
    assert_eq!(
        described(cases::write_skew(&[ok(1, 9, "a: b: a+1"), ok(1, 9, "a: b: b+2")], &keys)),
        ""
    );
}

#[test]
fn one_of_absent_keys_is_made() {
    let keys = keys(["x", "y", "z"]);
    assert_eq!(
        described(cases::phantom(&[ok(1, 9, "x: y: z: y+1"), not(1, "x: y: z: z+2")], &keys)),
        ""
    );
    let two = [ok(1, 9, "x: y: z: x+1"), lost(1, "x: y: z: z+2"), ok(10, 11, "x:1 y: z:2")];
    assert_eq!(described(cases::phantom(&two[..2], &keys)), "");
    assert_eq!(
        described(cases::phantom(&two, &keys)),
        "phantom: T0 and T1 have each made the first of these keys"
    );
}

#[test]
fn readers_agree_which_came_first() {
    let keys = keys(["x", "y"]);
    let writes = [ok(1, 9, "x+1"), ok(1, 9, "y+2"), ok(1, 9, "x+3")];
    let good = [ok(1, 9, "x: y:"), ok(1, 9, "x:1 y:"), ok(1, 9, "x:1 y:2"), ok(1, 9, "x:1,3 y:2")];
    assert_eq!(described(cases::long_fork(&[&writes[..], &good].concat(), &keys)), "");
    let fork = [&writes[..], &[ok(1, 9, "x:1 y:"), ok(1, 9, "x: y:2")]].concat();
    assert_eq!(
        described(cases::long_fork(&fork, &keys)),
        "long fork: T3 saw [1, 0] elements, T4 [0, 1]: which came first?"
    );
    // Also if one of them has seen more.
    let fork = [&writes[..], &[ok(1, 9, "x:1,3 y:"), good[0].clone(), ok(1, 9, "x: y:2")]].concat();
    assert!(cases::long_fork(&fork, &keys).is_some());
}

#[test]
fn a_reader_sees_a_withdrawal_before_what_it_missed() {
    let [x, y] = &keys(["x", "y"]);
    let both = [ok(1, 9, "x: y: x+1"), ok(1, 3, "y+2")];
    for good in ["x: y:", "x:1 y:", "x:1 y:2"] {
        let history = [&both[..], &[ok(4, 6, good)]].concat();
        assert_eq!(described(cases::read_only(&history, [x, y])), "", "{good}");
    }
    let history = [&both[..], &[ok(4, 6, "x: y:2")]].concat();
    assert_eq!(
        described(cases::read_only(&history, [x, y])),
        "read-only anomaly: T2 saw 1 deposits, and not what T0 withdrew after 0"
    );
    // It has seen the deposit: it comes later.
    let history = [ok(1, 9, "x: y:2 x+1"), ok(1, 3, "y+2"), ok(4, 6, "x: y:2")];
    assert_eq!(described(cases::read_only(&history, [x, y])), "");
}

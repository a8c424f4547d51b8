//! Requests on calm, lossy and failing networks.

use overlay::request::ANSWER_TICKS;

use super::*;

/// Linear walks, there and back, are not longer than anybody waits.
fn of(kind: Kind, network: Network) -> [Outcome; 3] {
    let nodes = if kind == Kind::Linear { 120 } else { 200 };
    Form::ALL.map(|form| outcome(Case { kind, form, network }, nodes, 300, 1, &|_| {}))
}

#[test]
fn every_form_finds_owners_with_the_messages_it_promises() {
    for outcome in Kind::ALL.into_iter().flat_map(|kind| of(kind, Network::Calm)) {
        let Outcome { kind, form, messages, .. } = outcome;
        assert_eq!((outcome.found, outcome.wrong, outcome.attempts.max()), (300, 0, 1));
        // Who is the owner asks nobody; from outside there is one move more.
        let asked = outcome.took_us.iter().filter(|took| **took > 0).count() as u64;
        let is_outside = matches!(kind, Kind::Full | Kind::Lh);
        let hops: f64 = outcome.hops.mean() * 300.0;
        let moves = hops.round() as u64 + if is_outside { asked } else { 0 };
        let promised = match form {
            Form::Iterative | Form::SemiRecursive => 2 * moves,
            Form::Recursive => moves + asked,
        };
        assert_eq!(messages, promised, "{kind:?} {form:?}");
    }
}

#[test]
fn lossy_network_costs_time_but_no_wrong_answer() {
    for kind in [Kind::Full, Kind::Chord, Kind::ChordSharp, Kind::Lh] {
        for outcome in of(kind, Network::Lossy) {
            assert_eq!((outcome.wrong, outcome.requests), (0, 300), "{outcome:?}");
            assert!(outcome.found >= 299, "{outcome:?}");
            let patience_ms = u64::from(ANSWER_TICKS) * TICK_US / 1_000;
            let waited = outcome.took_ms(100) > (patience_ms - TICK_US / 1_000) as f64;
            assert!(outcome.attempts.max() > 1 && waited, "{outcome:?}");
        }
    }
}

#[test]
fn where_members_fail_rings_find_out() {
    for kind in [Kind::Chord, Kind::ChordSharp, Kind::Linear] {
        for outcome in of(kind, Network::Failing) {
            assert_eq!((outcome.wrong, outcome.requests), (0, 300), "{outcome:?}");
            let (early, late) = outcome.windows.split_at(WINDOWS / 2);
            let failed = |windows: &[(u64, u64)]| {
                windows.iter().map(|(begun, found)| begun - found).sum::<u64>()
            };
            assert_eq!(failed(late), 0, "{kind:?}: {:?}", outcome.windows);
            assert_eq!(failed(early), outcome.failed.iter().sum::<u64>());
        }
    }
}

#[test]
fn equal_seeds_lead_to_equal_ends() {
    let (kind, form, network) = (Kind::Chord, Form::Recursive, Network::Lossy);
    let case = Case { kind, form, network };
    let told = |seed| format!("{:?}", outcome(case, 50, 100, seed, &|_| {}));
    assert_eq!(told(3), told(3));
    assert_ne!(told(3), told(4));
}

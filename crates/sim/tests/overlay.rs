//! Lookups alone: every answer is right, figures are what the papers say, and equal seeds give
//! equal reports.

use overlay::Point;
use overlay::lh::FORWARDS_MAX;
use sim::overlay::churn::{self, Event};
use sim::overlay::ring::Ring;
use sim::overlay::studies::{Study, StudyResult, study};
use sim::overlay::tables::{SharedTable, Tables};
use sim::overlay::{Keys, Kind, Kinds, Options, Report, SUCCESSORS_MIN, plot, report, run, walks};
use sim::rng::Rng;

fn measured(kinds: &str, nodes: &[usize], keys: Keys) -> Report {
    let kinds: Kinds = kinds.parse().unwrap();
    let (nodes, successors) = (nodes.to_vec(), SUCCESSORS_MIN);
    run(&Options { nodes, kinds, requests: 10_000, seed: 7, keys, successors }, &|_, _, _| {})
}

#[test]
fn no_answer_is_wrong_on_any_ring() {
    for keys in [Keys::Uniform, Keys::Zipf] {
        let report = measured("all", &[1, 2, 3, 10, 500], keys);
        assert_eq!(report.runs.len(), 5 * Kind::ALL.len());
        for run in &report.runs {
            assert_eq!((run.wrong, run.hops.count()), (0, run.requests), "{run:?}");
        }
    }
}

#[test]
fn a_full_table_takes_no_hop() {
    let report = measured("full", &[1, 1000], Keys::Uniform);
    let [alone, many] = &report.runs[..] else { panic!("two runs") };
    assert_eq!((alone.hops.max(), alone.connections), (0, 0.0));
    assert_eq!((many.hops.max(), many.hops.count()), (0, 10_000));
    assert_eq!((many.entries, many.connections), (1000.0, 999.0));
    // It is asked, and answers.
    let messages = many.messages();
    assert_eq!((messages.iterative, messages.recursive), (2.0, 2.0));
}

#[test]
fn a_growing_file_takes_few_forwards() {
    let report = measured("lh", &[300], Keys::Uniform);
    let growth = report.runs[0].file.as_ref().expect("a file");
    assert_eq!(growth.ahead, 0, "an image was ahead of a file that only grows");
    let hops = &report.runs[0].hops;
    assert!(hops.max() <= FORWARDS_MAX as usize);
    assert!(hops.mean() <= 0.1, "{}", hops.mean());
    assert!(growth.still.mean() < hops.mean() && hops.mean() <= growth.learnt.mean());
    assert!(growth.learnt.max() <= FORWARDS_MAX as usize);
    // 300 buckets: 256 would be of one width, 44 of them are halved.
    assert!((growth.utilisation - 256.0 / 300.0).abs() < 1e-9, "{}", growth.utilisation);
}

/// The papers' ½·log2 N, on rings of several seeds: a ring of chance is a little shorter or longer.
#[test]
fn fingers_take_half_of_log2_n_hops() {
    for kinds in ["chord", "chord-sharp"] {
        let kinds: Kinds = kinds.parse().unwrap();
        let ratios = (1..=5).map(|seed| {
            let (nodes, keys) = (vec![1000], Keys::Uniform);
            let (kinds, requests, successors) = (kinds.clone(), 20_000, SUCCESSORS_MIN);
            let options = Options { nodes, kinds, requests, seed, keys, successors };
            let report = run(&options, &|_, _, _| {});
            let one = &report.runs[0];
            assert_eq!(one.wrong, 0);
            one.hops.mean() / one.half_log()
        });
        let mean = ratios.sum::<f64>() / 5.0;
        assert!((mean - 1.0).abs() <= 0.05, "{kinds:?}: {mean} of it");
    }
}

#[test]
fn where_keys_begin_alike_only_chord_takes_more_hops() {
    let hops = |kinds: &str, keys| measured(kinds, &[20_000], keys).runs.remove(0).hops;
    let ratio = |kinds: &str| hops(kinds, Keys::Zipf).mean() / hops(kinds, Keys::Uniform).mean();
    let (sharp, chord) = (ratio("chord-sharp"), ratio("chord"));
    assert!((sharp - 1.0).abs() < 0.05, "{sharp}");
    assert!(chord > 1.2, "{chord}");
}

#[test]
fn a_ring_becomes_right_again() {
    for kind in [Kind::Linear, Kind::Chord, Kind::ChordSharp] {
        for event in Event::ALL {
            let outcome = churn::outcome(kind, event, 60, 1).expect("a ring");
            assert_eq!(outcome.wrong, 0, "{outcome:?}");
            assert!(outcome.to_ring.is_some() && outcome.to_tables.is_some(), "{outcome:?}");
            assert!(outcome.moved > 0 && outcome.messages > 0);
            let right = &outcome.right;
            assert!(right[0] < 1.0 && right.last() == Some(&1.0), "{right:?}");
        }
    }
    assert!(churn::outcome(Kind::Full, Event::Joins, 60, 1).is_none());
}

/// Every study has a table, JSON and charts, and finds nothing that must not be.
#[test]
fn studies_tell_what_they_found() {
    for of in Study::ALL {
        let nodes = vec![20, 60];
        let options = Options { nodes, requests: 200, ..Options::default() };
        let StudyResult { table, json, charts, flaw } = study(of, &options, &|_, _, _| {});
        assert_eq!(flaw, None, "{of:?}");
        assert!(table.lines().count() > 4 && json.ends_with("\n]}\n"), "{of:?}");
        assert!(!charts.is_empty(), "{of:?}");
        for (name, chart) in charts {
            let is_whole = chart.starts_with("<svg") && chart.ends_with("</svg>\n");
            assert!(is_whole && name.ends_with(".svg"), "{of:?}: {name}");
            assert!(!chart.contains("NaN") && !chart.contains("inf"), "{of:?}: {name}");
        }
        assert!("neatness".parse::<Study>().is_err_and(|why| why.to_string().contains(of.name())));
        assert_eq!(of.name().parse(), Ok(of));
    }
}

/// Who says of itself that it is the owner, or sends everybody around.
struct WrongTables {
    arrives: bool,
}

impl Tables for WrongTables {
    fn next(&self, at: usize, _: Point<'_>) -> Option<usize> {
        Some(if self.arrives { at } else { (at + 1) % 10 })
    }

    fn entries(&self, _: usize) -> usize {
        1
    }

    fn connections(&self, _: usize) -> usize {
        1
    }
}

#[test]
fn wrong_answers_and_circles_are_found() {
    let ring = Ring::new(10, Keys::Uniform, &mut Rng::new(1));
    let wrong = |tables: &dyn Tables| walks::walks(&ring, tables, 1000, 1, &|_| {}).wrong;
    let found = wrong(&WrongTables { arrives: true });
    assert!((500..1000).contains(&found), "{found}: one in ten asks for what is its own, or so");
    assert_eq!(wrong(&WrongTables { arrives: false }), 1000);
    assert_eq!(wrong(&SharedTable::new(&ring)), 0);
}

#[test]
fn equal_seeds_give_equal_reports() {
    let texts = |seed| {
        let kinds = Kinds(Kind::ALL.to_vec());
        let nodes = vec![10, 200];
        let (requests, keys, successors) = (20_000, Keys::Zipf, SUCCESSORS_MIN);
        let options = Options { nodes, kinds, requests, seed, keys, successors };
        let report = run(&options, &|_, _, _| {});
        let charts = plot::charts(&report).into_iter().map(|(_, chart)| chart);
        let texts = [report::table(&report), report::notes(&report), report::json(&report)];
        texts.into_iter().chain(charts).collect::<Vec<String>>()
    };
    assert_eq!(texts(3), texts(3));
    assert_ne!(texts(3), texts(4));
}

#[test]
fn names_are_what_is_typed() {
    assert_eq!("all".parse(), Ok(Kinds(Kind::ALL.to_vec())));
    assert_eq!("lh,full,lh".parse(), Ok(Kinds(vec![Kind::Full, Kind::Lh])));
    let why = "full,pastry".parse::<Kinds>().unwrap_err().to_string();
    assert!(why.contains("no lookup 'pastry'") && why.contains("full"), "{why}");
    assert!("even".parse::<Keys>().is_err());
}

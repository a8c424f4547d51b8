//! Lookups alone: every answer is right, figures are what the papers say, and equal seeds give
//! equal reports.

use overlay::Point;
use overlay::lh::FORWARDS_MAX;
use sim::overlay::ring::Ring;
use sim::overlay::tables::{Shared, Tables};
use sim::overlay::{Keys, Kind, Kinds, Options, Report, plot, report, run, walks};
use sim::rng::Rng;

fn measured(kinds: &str, nodes: &[usize], keys: Keys) -> Report {
    let kinds: Kinds = kinds.parse().unwrap();
    run(&Options { nodes: nodes.to_vec(), kinds, requests: 10_000, seed: 7, keys }, &|_, _, _| {})
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
fn a_full_table_takes_one_hop_unless_the_asker_is_the_owner() {
    let report = measured("full", &[1, 1000], Keys::Uniform);
    let [alone, many] = &report.runs[..] else { panic!("two runs") };
    assert_eq!((alone.hops.max(), alone.connections), (0, 0.0));
    assert_eq!((many.hops.max(), many.hops.percentile(50)), (1, 1));
    assert!((many.hops.mean() - 0.999).abs() < 0.002, "{}", many.hops.mean());
    assert_eq!((many.entries, many.connections), (1000.0, 999.0));
    assert!((many.messages().recursive - 2.0 * many.hops.mean()).abs() < 1e-9);
}

#[test]
fn a_growing_file_takes_few_forwards() {
    let report = measured("lh", &[300], Keys::Uniform);
    let growth = report.runs[0].file.as_ref().expect("a file");
    assert_eq!(growth.ahead, 0, "an image was ahead of a file that only grows");
    assert!(growth.growing.max() <= FORWARDS_MAX as usize);
    assert!(growth.growing.mean() <= 0.1, "{}", growth.growing.mean());
    assert!(growth.still.mean() < growth.growing.mean());
    assert!(report.runs[0].hops.max() <= 1 + FORWARDS_MAX as usize);
    // 300 buckets: 256 would be of one width, 44 of them are halved.
    assert!((growth.utilisation - 256.0 / 300.0).abs() < 1e-9, "{}", growth.utilisation);
}

/// Who says of itself that it is the owner, or sends everybody around.
struct Liar {
    arrives: bool,
}

impl Tables for Liar {
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
    let found = wrong(&Liar { arrives: true });
    assert!((500..1000).contains(&found), "{found}: one in ten asks for what is its own, or so");
    assert_eq!(wrong(&Liar { arrives: false }), 1000);
    assert_eq!(wrong(&Shared::new(&ring)), 0);
}

#[test]
fn equal_seeds_give_equal_reports() {
    let texts = |seed| {
        let kinds = Kinds(Kind::ALL.to_vec());
        let nodes = vec![10, 200];
        let options = Options { nodes, kinds, requests: 20_000, seed, keys: Keys::Zipf };
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

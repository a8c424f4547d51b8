//! Whole clusters under faults.

use sim::cluster::{Options, Plant, World};

/// Runs a seed; what it has seen, or the rule that was broken.
fn run(options: &Options) -> Result<sim::cluster::Counts, String> {
    let mut world = World::new(options);
    match world.run() {
        Ok(()) => Ok(world.counts),
        Err(violation) => Err(format!("{options:?}: {violation}")),
    }
}

#[test]
fn all_rules_hold() {
    let (mut sum, mut unjudged, mut transfers, mut fetched) = (0, 0, 0, 0);
    let mut stale = 0;
    let (mut digests, mut tails, mut quarantines) = (0, 0, 0);
    for seed in 0..60 {
        let counts = run(&Options::of(seed)).unwrap_or_else(|text| panic!("{text}"));
        sum += counts.answered;
        unjudged += counts.unjudged;
        transfers += counts.transfers;
        fetched += counts.fetched;
        stale += counts.stale;
        digests += counts.digests;
        tails += counts.tails_lost;
        quarantines += counts.quarantines;
    }
    println!("{digests} digests, {tails} tails lost, {quarantines} quarantines");
    assert!(digests > 300 && quarantines > 10, "replicas are compared, and replaced");
    assert!(sum > 1_000 && transfers > 50, "the runs do something");
    assert!(stale > 30, "replicas that do not lead answer: {stale}");
    assert!(fetched > 30, "nodes without a replica answer: {fetched}");
    assert!(unjudged <= 4, "nearly all histories can be judged, but not {unjudged}");
}

#[test]
fn planted_faults_are_found() {
    for plant in Plant::ALL {
        let found = (0..300).find(|seed| {
            let options = Options { plant: Some(plant), ..Options::of(*seed) };
            run(&options).is_err()
        });
        println!("{}: {found:?}", plant.name());
        assert!(found.is_some(), "{}", plant.name());
    }
}

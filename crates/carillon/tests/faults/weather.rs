//! Tests what clients notice when links between nodes misbehave in all ways that TCP allows.
//!
//! Each node is behind a proxy ([`crate::cluster::proxy`]) that misbehaves in one way after the
//! other, each proxy in another way at the same time. Clients reach the nodes directly: only
//! traffic between nodes breaks. A node forwards a write again that was applied but not confirmed;
//! the history must show that it was done once.
//!
//! `FAULTS_SEED=7` chooses another storm.

use std::thread::sleep;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::cluster::proxy::Weather;
use crate::load::Load;
use crate::load::history::Event;
use crate::service::{NODES, SETTLE, SILENCE_ODD_MAX, judge, started};

/// How long a proxy misbehaves in one way.
const SPELL: Duration = Duration::from_millis(2_000);
/// After the storm: if service does not come back, this is how long it is seen to be away.
const CALM: Duration = Duration::from_millis(5_500);
/// Unless `FAULTS_SEED` says otherwise.
const SEED: u64 = 1;

/// Each way to misbehave, and all together.
fn weathers() -> [Weather; 5] {
    let delay = Some((Duration::from_millis(3), Duration::from_millis(1_500)));
    // Longer than any lease.
    let stall = Some((60, Duration::from_millis(2_500)));
    let (cut, rate) = (Some(60), Some(48 << 10));
    let fair = Weather::default();
    [
        Weather { delay, ..fair },
        Weather { stall, ..fair },
        Weather { cut, ..fair },
        Weather { rate, ..fair },
        Weather { delay, stall: Some((600, Duration::from_secs(1))), cut: Some(300), rate },
    ]
}

#[test]
fn bad_network_loses_no_acknowledged_write() {
    let seed = std::env::var("FAULTS_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    eprintln!("FAULTS_SEED={seed}");
    let cluster = started(Cluster::behind_proxies(NODES, seed));
    let load = Load::start(&cluster);
    sleep(SETTLE);
    let all = weathers();
    let begun = load.now();
    for spell in 0..all.len() {
        for (place, proxy) in cluster.proxies().iter().enumerate() {
            proxy.set(all[(spell + 2 * place + (seed % 5) as usize) % all.len()]);
        }
        sleep(SPELL);
    }
    let deeds: Vec<[u64; 4]> = cluster.proxies().iter().map(|at| at.deeds().counts()).collect();
    let fair = load.now();
    cluster.proxies().iter().for_each(|proxy| proxy.set(Weather::default()));
    eprintln!("a storm from {begun:.3?} to {fair:.3?}: late, stalls, cuts, narrowed {deeds:?}");
    sleep(CALM);
    let event =
        Event { what: "fair weather".to_owned(), from: fair, until: load.now(), gone: None };
    judge(load, &[event], SILENCE_ODD_MAX);
    let of = |deed: usize| deeds.iter().map(|deeds| deeds[deed]).sum::<u64>();
    assert!((0..4).all(|deed| of(deed) > 0), "a part of the storm did not happen: {deeds:?}");
}

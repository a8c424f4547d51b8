//! 000, simulated: what it could not measure, on rings of any size.

use chart::{Line, log};
use sim::overlay::join::{self, Cost};
use sim::overlay::{Kind, Kinds, Options, load, run};

use super::Bed;
use super::page::{Page, Verdict, count, shown};

/// The seed of all simulations.
const SEED: u64 = 1;

/// Lookups between two changes of the members at which a full table and Chord cost the same
/// messages; `None` if the full table is cheaper however often members change.
///
/// A change costs a message for each member with full tables, and `join` messages with Chord; a
/// lookup costs nothing but its request with full tables, and two messages a hop with Chord.
pub fn lookups_per_change(members: f64, join: f64, hops: f64) -> Option<f64> {
    (members > join && hops > 0.0).then(|| (members - join) / (2.0 * hops))
}

/// A ring of one size.
struct Size {
    cost: Cost,
    hops: f64,
}

/// Shards of the keyspace that is measured live: members of its ring.
const SHARDS: usize = 8;

/// Adds it to the page. `live` are nodes and hops of a lookup by Chord, of live runs.
pub fn add(page: &mut Page, bed: &mut Bed<'_>, live: &[(usize, f64)]) {
    let sizes: &[usize] =
        bed.pick(&[10, 100, 1_000], &[10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000]);
    let mut all = Vec::new();
    for nodes in sizes.iter().copied() {
        bed.say(&format!("000: {nodes} members, simulated"));
        let options = Options {
            nodes: vec![nodes],
            kinds: Kinds(vec![Kind::Chord]),
            requests: bed.pick(1_000, 20_000),
            seed: SEED,
            ..Options::default()
        };
        let hops = run(&options, &|_, _, _| {}).runs[0].hops.mean();
        all.push(Size { cost: join::cost(nodes, SEED), hops });
    }
    page.head("The break-even of full tables and Chord (T95), simulated and live");
    page.say(
        "The thesis argues (5.2.3) that a join costs N messages with full tables and M·log2 N with \
         Chord, so that FCN wins while N < M·log2 N. A join is not all: each lookup of Chord costs \
         messages, too. So the question is how many lookups there are between two changes of the \
         members. `carillon sim overlay` runs the code of the nodes on rings of any size.",
    );
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let head = [
        "members",
        "join, full",
        "join, chord",
        "M·log2 N, M = 64",
        "hops, chord",
        "equal at lookups per change",
    ];
    page.table(&head, &rows);
    let of = |value: &dyn Fn(&Size) -> f64| -> Vec<(f64, f64)> {
        all.iter().map(|size| (size.cost.nodes as f64, value(size))).collect()
    };
    let lines = [
        Line::new("full", 1, of(&|size| size.cost.full)),
        Line::new("chord, counted", 2, of(&|size| size.cost.chord)),
        Line::new("M·log2 N", 2, of(&|size| size.cost.papers)).dashed(),
    ];
    page.chart("join", "Messages of a join", [log("members"), log("messages")], &lines);
    let equal = |size: &Size| {
        let lookups = lookups_per_change(size.cost.full, size.cost.chord, size.hops)?;
        Some((size.cost.nodes as f64, lookups))
    };
    let points: Vec<(f64, f64)> = all.iter().filter_map(equal).collect();
    if points.len() > 1 {
        let title = "Above the line full tables send fewer messages, below it Chord";
        let lines = [Line::new("equal", 1, points.clone())];
        page.chart("break-even", title, [log("members"), log("lookups per change")], &lines);
    }
    let costs: Vec<Cost> = all.iter().map(|size| size.cost).collect();
    let [counted, papers] =
        [join::break_even(&costs, |cost| cost.chord), join::break_even(&costs, |cost| cost.papers)];
    let members = |number: Option<f64>| number.map_or("no size here".to_owned(), count);
    let last = points.last().copied().unwrap_or((f64::NAN, f64::NAN));
    page.verdicts(&[
        Verdict::new(
            "FCN has the cheaper joins while N < M·log2 N (590 members with M = 64)",
            format!("by the formula {}; by what is counted {}", members(papers), members(counted)),
            Some(counted.is_some()),
        ),
        Verdict::new(
            "in very large networks FCN is likely not reasonable (5.2.3)",
            format!(
                "with {} members it still sends fewer messages in all, if there are more than {} \
                 lookups between two changes",
                count(last.0),
                shown(last.1)
            ),
            Some(false),
        ),
    ]);
    live_break_even(page, live);
    let nodes = bed.pick(100, 1_000);
    let rows = load::loads(nodes, SEED).into_iter().map(|load| {
        let shards = load.shards.map_or("equal arcs".to_owned(), |shards| shards.to_string());
        vec![shards, shown(load.deviation), shown(load.largest)]
    });
    page.say(&format!(
        "And figure 17, simulated with {nodes} nodes: how uneven parts of the ring are, if each \
         node has one random place, or several.",
    ));
    let rows: Vec<Vec<String>> = rows.collect();
    page.table(&["places of a node", "σ ÷ mean", "largest ÷ mean"], &rows);
    page.say(
        "Which lookup suits which use (T98): `carillon route --advise` says it for the cluster at \
         hand, from these formulas and from what it measures there.",
    );
}

/// The same from what nodes have counted. A ring of eight shards stays one of eight, whatever the
/// number of nodes; but a hop to a shard of the same node costs no message.
fn live_break_even(page: &mut Page, live: &[(usize, f64)]) {
    let mut sizes: Vec<usize> = live.iter().map(|(nodes, _)| *nodes).collect();
    sizes.dedup();
    let join = join::cost(SHARDS, SEED).chord;
    let row = |nodes: usize| {
        let hops: Vec<f64> = live.iter().filter(|one| one.0 == nodes).map(|one| one.1).collect();
        let mean = hops.iter().sum::<f64>() / hops.len() as f64;
        let away = mean * (nodes - 1) as f64 / nodes as f64;
        let equal = lookups_per_change(nodes as f64, join, away);
        vec![
            nodes.to_string(),
            shown(mean),
            shown(2.0 * away),
            shown(nodes as f64),
            shown(join),
            equal.map_or("full always wins".to_owned(), shown),
        ]
    };
    let rows: Vec<Vec<String>> = sizes.into_iter().map(row).collect();
    if rows.is_empty() {
        return;
    }
    page.say(
        "Live, with the hops that nodes counted in the runs above. The keyspace has eight shards, \
         so its ring has eight members with any number of nodes; each node learns of a change by \
         full tables, which costs what a join of eight members costs by Chord.",
    );
    let head = [
        "nodes",
        "hops, chord",
        "messages a lookup",
        "change, full",
        "change, chord",
        "equal at lookups per change",
    ];
    page.table(&head, &rows);
}

fn row(size: &Size) -> Vec<String> {
    let Size { cost, hops } = size;
    let equal = lookups_per_change(cost.full, cost.chord, *hops);
    vec![
        count(cost.nodes as f64),
        count(cost.full),
        shown(cost.chord),
        shown(cost.papers),
        shown(*hops),
        equal.map_or("full always wins".to_owned(), shown),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_wins_on_small_rings_and_where_lookups_are_many() {
        assert_eq!(lookups_per_change(50.0, 48.75, 2.5), Some(0.25));
        assert_eq!(lookups_per_change(10.0, 23.9, 1.5), None);
        assert_eq!(lookups_per_change(1_000.0, 130.0, 5.0), Some(87.0));
        assert_eq!(lookups_per_change(1_000.0, 130.0, 0.0), None);
    }
}

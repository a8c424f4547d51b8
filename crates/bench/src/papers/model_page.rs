//! What the page of 001 says of the cost model: constants, live runs beside predictions, and up to
//! a thousand nodes.

use chart::{Line, log};

use super::constants::Study;
use super::model::Op;
use super::page::{Page, count, shown};
use super::percent;
use super::riak::{BROKEN, PROCESSORS};

/// Sizes for which the model is shown.
const SIZES: [f64; 12] =
    [3.0, 5.0, 8.0, 10.0, 20.0, 40.0, 60.0, 100.0, 200.0, 400.0, 700.0, 1000.0];

/// Says it all.
pub(super) fn model(page: &mut Page, study: &Study) {
    page.head("A cost model, from 3 to 1 000 nodes");
    let of = &study.constants;
    page.say(
        "A request costs processor time where it is served, for its way between nodes, and, if it \
         writes, at each follower. The constants come from live runs of one, three and five \
         nodes on this machine (25 connections for each node, 1 and 16 requests under way on each, \
         values of 100 bytes, durability `sync`); `crates/bench/src/papers/model.rs` has the \
         formulas.",
    );
    let rows = [
        ("a read at the shard's leader", of.leader[0], "µs"),
        ("a read at a follower costs more", of.index, "µs"),
        ("a write at the leader, with its entry and fsync", of.leader[1], "µs"),
        ("a write at each follower, with its messages and fsync", of.follow, "µs"),
        ("a write that a follower forwards, at both nodes", of.forward[1], "µs"),
        ("a read from a node without a replica, at both", of.proxy[0], "µs"),
        ("a write from a node without a replica, at both", of.proxy[1], "µs"),
        ("a frame between nodes, at both ends", of.frame, "µs"),
        ("the load, for a read, of one node", of.load_alone[0], "µs"),
        ("the load, for a write, of one node", of.load_alone[1], "µs"),
        ("the load, for a read, of three", of.load[0], "µs"),
        ("the load, for a write, of three", of.load[1], "µs"),
        ("the load, for a read, of five", of.load_strangers[0], "µs"),
        ("the load, for a write, of five", of.load_strangers[1], "µs"),
        ("requests that a node sends to others at once", of.at_once, ""),
        ("an idle node, a second", of.idle, "µs"),
        ("each other node adds to that", of.peer, "µs"),
        ("frames between three nodes, for a read", study.runs.three[0].frames, ""),
        ("frames between three nodes, for a write", study.runs.three[1].frames, ""),
        ("bytes between three nodes, for a read", study.bytes[0], ""),
        ("bytes between three nodes, for a write", study.bytes[1], ""),
        ("fsyncs of three nodes, for a write", study.syncs, ""),
        ("processor time of an fsync of 4 KiB", study.disk.1, "µs"),
        ("fsyncs of the disk, a second", study.disk.0, ""),
    ];
    let rows = rows.map(|(name, value, unit)| {
        vec![name.to_owned(), format!("{} {unit}", shown(value)).trim_end().to_owned()]
    });
    page.table(&["constant", "measured"], &rows);
    page.say(
        "Live runs beside the model. *Processors* is what nodes and load had of this machine \
         during the run, since others use it as well; the model divides that by what a request \
         costs, with what the load itself takes. Sizes 1, 3 and 5 are those that the constants \
         come from. Frames and fsyncs of all nodes were counted in the run: where the model errs, \
         they say where to look.",
    );
    let rows = study.validations.iter().map(|run| {
        let op = if run.op == Op::Read { "read" } else { "write" };
        vec![
            run.nodes.to_string(),
            op.to_owned(),
            shown(run.processors),
            shown(run.predicted),
            shown(run.measured),
            format!("{:+.0} %", 100.0 * run.error()),
            format!("{}, {}", shown(of.cost(run.op, run.nodes as f64)), shown(run.cost[0])),
            format!("{}, {}", shown(of.load(run.op, run.nodes as f64)), shown(run.cost[1])),
            shown(run.frames),
            shown(run.syncs),
            if run.is_calibrated { "constants" } else { "prediction" }.to_owned(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let head = [
        "nodes",
        "",
        "processors",
        "model/s",
        "live/s",
        "error",
        "µs in nodes: model, live",
        "µs in the load: model, live",
        "frames a request",
        "fsyncs a request",
        "",
    ];
    page.table(&head, &rows);
    let errors: Vec<f64> = study.validations.iter().map(|run| run.error().abs()).collect();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let within = errors.iter().filter(|error| **error <= 0.15).count();
    page.say(&format!(
        "{within} of {} runs are within 15 %; the worst is off by {}.",
        errors.len(),
        percent(worst)
    ));
    let points = |op| SIZES.map(|nodes| (nodes, of.per_node(op, nodes, PROCESSORS))).to_vec();
    let lines =
        [Line::new("reads", 1, points(Op::Read)), Line::new("writes", 2, points(Op::Write))];
    let title = "Requests a second and node of eight processors, by the model";
    page.chart("model", title, [log("nodes"), log("requests a second and node")], &lines);
    let rows = SIZES.map(|nodes| {
        let [read, write] = [Op::Read, Op::Write].map(|op| of.per_node(op, nodes, PROCESSORS));
        let background = of.background(nodes) / (PROCESSORS * 1e6);
        vec![
            count(nodes),
            count(read),
            count(write),
            count(nodes * write),
            shown(of.cost(Op::Write, nodes)),
            percent(background),
        ]
    });
    let head = [
        "nodes",
        "reads/s a node",
        "writes/s a node",
        "writes/s in all",
        "µs a write",
        "background",
    ];
    page.table(&head, &rows);
    let broken = match of.breaks_at(PROCESSORS, BROKEN) {
        Some(nodes) => format!("with {} nodes that is half of each node", count(nodes)),
        None => "that is less than half of each node up to a million nodes".to_owned(),
    };
    page.say(&format!(
        "**Where it breaks.** With every node a request meets a replica of its shard less often, \
         and fewer requests share a frame: that costs up to some tens of nodes, and then no more. \
         What grows on is the background: each node pings, gossips with and has a link to every \
         other one. It takes {} µs a second more for each node, as far as it could be seen here; \
         {broken}. Riak broke at 60 by one process that all remote calls of a node went through: \
         nothing here has that shape, since every event loop sends for itself.",
        shown(of.peer),
    ));
    page.say(
        "**What the model does not know:** the network (at 1 000 nodes, a million links), disks \
         whose fsyncs are the limit rather than processors, shards that are asked more than \
         others, and how changes of members spread. The background is measured on up to eight \
         nodes and taken to grow evenly; gossip sends whole digests, so beyond some hundred nodes \
         it will grow faster. `carillon sim` runs 200 nodes at most.",
    );
}

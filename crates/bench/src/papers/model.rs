//! What a request costs in a cluster of any size, and how many requests a node serves. Pure.
//!
//! ```text
//!   read  = at the leader + follower · index + stranger · (proxying + framed)
//!   write = at the leader + follower · (forwarding + framed) + stranger · (proxying + framed)
//!           + (R − 1) · following
//!   framed = frames(N) · a frame at both ends
//! ```
//!
//! N nodes, R replicas; clients ask nodes at random. So a request meets the leader of its shard
//! with 1/N, a follower with (R − 1)/N, and else a *stranger*, a node without a replica. A follower
//! reads its own data, and asks the leader for an index to read at. All are microseconds of
//! processor time, summed over all nodes, measured by `constants`.
//!
//! What forwarding costs is measured with one replica, on three nodes. Where shards have three
//! replicas a stranger's request costs more than that: it takes another way through both nodes, and
//! its reply comes when those beside it have been sent. So proxying is measured on five nodes with
//! three replicas, of which two fifths of the requests meet a stranger.
//!
//! **Frames.** Requests to one peer share a frame as far as they are sent at once. Of *k* that a
//! node sends at once to N − 1 peers, (N − 1)·(1 − (1 − 1/(N − 1))^k) different peers get one. So
//! the more peers, the fewer share: frames(N) goes from what was measured to 2, a question and an
//! answer. *k* itself grows with the part of requests that do not meet their leader, (N − 1)/N.
//! What a follower asks its leader for an index shares frames in the same way.
//!
//! **The load** takes longer for a request whose reply comes later than those before it: replies of
//! one pipeline then come in several pieces. So what it takes goes from that of one node to that of
//! three with the part of requests that do not meet their leader, and from there to that of five
//! with the part that meets a stranger.
//!
//! **Fsyncs.** With as many clients for each node, as many writes reach the log of each node at
//! once, so a write has its part of an fsync in `leader` and `follow`. Live runs say how many
//! fsyncs a write took.
//!
//! **Background.** A node without requests takes `idle` + (N − 1)·`peer` a second: ticks, gossip,
//! heartbeats.
//!
//! What the model leaves out: waiting, networks, disks that are full of fsyncs, shards that are
//! asked more than others. It says when processors are busy, not how long a request takes.

/// Replicas of a shard, if there are as many nodes.
const REPLICAS: f64 = 3.0;
/// The part of requests that do not meet their leader on three nodes, where constants come from.
const AWAY: f64 = 2.0 / 3.0;
/// The part of requests that meet a stranger on five nodes.
const STRANGERS: f64 = 2.0 / 5.0;
/// Requests that share a frame, at most.
const AT_ONCE_MAX: f64 = 10_000.0;

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// GET.
    Read,
    /// SET, synced.
    Write,
}

/// Costs in microseconds of processor time. Pairs are of a read and of a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// A request at the node that leads its shard; a write with its entry and its part of an fsync.
    pub leader: [f64; 2],
    /// What a read at a follower costs more.
    pub index: f64,
    /// A request that a node forwards to the leader, at both, without its frames.
    pub forward: [f64; 2],
    /// The same of a node without a replica, where shards have three.
    pub proxy: [f64; 2],
    /// A frame, at both ends.
    pub frame: f64,
    /// A write at each follower, with its messages and its part of an fsync.
    pub follow: f64,
    /// What the load itself takes, of one node.
    pub load_alone: [f64; 2],
    /// The same, of three nodes.
    pub load: [f64; 2],
    /// The same, of five.
    pub load_strangers: [f64; 2],
    /// A second of a node that is alone.
    pub idle: f64,
    /// What each other node adds to that.
    pub peer: f64,
    /// How many requests a node sends to others at once.
    pub at_once: f64,
}

/// A run from which constants follow: microseconds per request, frames per request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Processor time of all nodes.
    pub cost: f64,
    /// Frames between nodes.
    pub frames: f64,
    /// Processor time of the load.
    pub load: f64,
}

/// The runs from which constants follow. Pairs are of a read and of a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// One node, several requests under way on each connection.
    pub alone: [Sample; 2],
    /// Three nodes, one replica: a node that does not lead is a stranger.
    pub away: [Sample; 2],
    /// Three nodes, three replicas.
    pub three: [Sample; 2],
    /// Five nodes, three replicas.
    pub five: [Sample; 2],
    /// Reads with one request under way: one node, and three with one replica.
    pub flat: [Sample; 2],
    /// Idle nodes: how many, and microseconds a second of each. Of two sizes.
    pub idle: [(f64, f64); 2],
}

/// Frames per proxied request, if each node sends so many at once to so many peers.
fn frames(peers: f64, at_once: f64) -> f64 {
    if peers < 1.0 || at_once <= 1.0 {
        return 2.0;
    }
    let different = peers * (1.0 - (1.0 - 1.0 / peers).powf(at_once));
    2.0 * different / at_once
}

/// How many requests are sent at once, if a proxied one takes so many frames.
fn at_once(peers: f64, measured: f64) -> f64 {
    let (mut low, mut high) = (1.0, AT_ONCE_MAX);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        match frames(peers, middle) > measured {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

impl Constants {
    /// From measurements. What came out below 0, by the noise of a busy machine, is 0.
    pub fn of(runs: &Calibration) -> Self {
        let Calibration { alone, away, three, five, flat, .. } = runs;
        let proxying = [0, 1].map(|op| (away[op].cost - alone[op].cost) / AWAY);
        let framed = [0, 1].map(|op| away[op].frames / AWAY);
        let (flat_proxying, flat_framed) =
            ((flat[1].cost - flat[0].cost) / AWAY, flat[1].frames / AWAY);
        let apart = flat_framed - framed[0];
        // Both runs had the same frames: they cannot be told from the requests.
        let frame = if apart.abs() < 0.05 { 0.0 } else { (flat_proxying - proxying[0]) / apart };
        // A frame is no dearer than all that was done for a request.
        let frame = frame.clamp(0.0, (proxying[0] / framed[0].max(1e-6)).max(0.0));
        let follow = three[1].cost - alone[1].cost - AWAY * proxying[1];
        let [(few, low), (many, high)] = runs.idle;
        let peer = ((high - low) / (many - few).max(1.0)).max(0.0);
        let mut found = Self {
            leader: [alone[0].cost, alone[1].cost],
            index: ((three[0].cost - alone[0].cost) / AWAY).max(0.0),
            forward: [0, 1].map(|op| (proxying[op] - frame * framed[op]).max(0.0)),
            proxy: [0.0; 2],
            frame,
            follow: (follow / (REPLICAS - 1.0)).max(0.0),
            load_alone: [alone[0].load, alone[1].load],
            load: [three[0].load, three[1].load],
            load_strangers: [five[0].load, five[1].load],
            idle: (low - peer * (few - 1.0)).max(0.0),
            peer,
            at_once: at_once(2.0, framed[0].clamp(1e-3, 2.0)),
        };
        // What five nodes take beyond all else is the way from strangers.
        found.proxy = [Op::Read, Op::Write].map(|op| {
            let measured = five[usize::from(op == Op::Write)].cost;
            ((measured - found.cost(op, 5.0)) / STRANGERS).max(0.0)
        });
        found
    }

    /// How many of the requests that a node gets it sends to others, beside three nodes.
    fn away(nodes: f64) -> f64 {
        (nodes - 1.0) / nodes / AWAY
    }

    /// What the frames of a request to another node cost.
    fn framed(&self, nodes: f64) -> f64 {
        self.frame * frames(nodes - 1.0, self.at_once * Self::away(nodes))
    }

    /// What a request costs the load.
    pub fn load(&self, op: Op, nodes: f64) -> f64 {
        let at = usize::from(op == Op::Write);
        let away = (self.load[at] - self.load_alone[at]) * Self::away(nodes).min(1.0);
        let strangers = if nodes < REPLICAS { 0.0 } else { 1.0 - REPLICAS / nodes };
        let late = (self.load_strangers[at] - self.load[at]) * strangers / STRANGERS;
        (self.load_alone[at] + away + late).max(0.0)
    }

    /// What a request costs all nodes together.
    pub fn cost(&self, op: Op, nodes: f64) -> f64 {
        let replicas = if nodes < REPLICAS { 1.0 } else { REPLICAS };
        let (follower, stranger) = ((replicas - 1.0) / nodes, 1.0 - replicas / nodes);
        let framed = self.framed(nodes);
        match op {
            Op::Read => {
                // Frames of three nodes are in `index` already.
                let index = self.index + (framed - self.framed(3.0)).max(0.0);
                self.leader[0] + follower * index + stranger * (self.proxy[0] + framed)
            }
            Op::Write => {
                let forwarded = follower * (self.forward[1] + framed);
                let proxied = stranger * (self.proxy[1] + framed);
                self.leader[1] + forwarded + proxied + (replicas - 1.0) * self.follow
            }
        }
    }

    /// What a node does in a second without requests.
    pub fn background(&self, nodes: f64) -> f64 {
        self.idle + self.peer * (nodes - 1.0)
    }

    /// Requests a second, if all nodes and the load share so many processors.
    pub fn shared(&self, op: Op, nodes: f64, processors: f64) -> f64 {
        let left = processors * 1e6 - nodes * self.background(nodes);
        (left / (self.cost(op, nodes) + self.load(op, nodes))).max(0.0)
    }

    /// Requests a second and node, if each node has so many processors of its own, and the load has
    /// others.
    pub fn per_node(&self, op: Op, nodes: f64, processors: f64) -> f64 {
        let left = processors * 1e6 - self.background(nodes);
        (left / self.cost(op, nodes)).max(0.0)
    }

    /// From how many nodes on the background takes this part of each node; `None` if not below a
    /// million.
    pub fn breaks_at(&self, processors: f64, part: f64) -> Option<f64> {
        let room = part * processors * 1e6 - self.idle;
        let nodes = (room / self.peer + 1.0).ceil().max(1.0);
        (nodes <= 1e6).then_some(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted() -> Constants {
        Constants {
            leader: [3.0, 20.0],
            index: 1.5,
            forward: [4.0, 5.0],
            proxy: [4.5, 7.0],
            frame: 6.0,
            follow: 9.0,
            load_alone: [0.7, 2.0],
            load: [1.0, 2.6],
            load_strangers: [1.4, 3.0],
            idle: 5_000.0,
            peer: 300.0,
            at_once: 8.0,
        }
    }

    /// What runs of a store with these constants would measure.
    fn runs(of: &Constants) -> Calibration {
        let sample = |cost: f64, frames: f64, op: usize| Sample { cost, frames, load: of.load[op] };
        let lone = |op: usize| Sample { load: of.load_alone[op], ..sample(of.leader[op], 0.0, op) };
        let proxied = |op: usize, at_once: f64| {
            let frames = frames(2.0, at_once);
            let cost = of.leader[op] + AWAY * (of.forward[op] + of.frame * frames);
            sample(cost, AWAY * frames, op)
        };
        let alone = [0, 1].map(lone);
        let three = [Op::Read, Op::Write].map(|op| of.cost(op, 3.0));
        let five = [Op::Read, Op::Write].map(|op| of.cost(op, 5.0));
        let late = |op: usize| Sample { cost: five[op], frames: 1.0, load: of.load_strangers[op] };
        Calibration {
            alone,
            away: [0, 1].map(|op| proxied(op, of.at_once)),
            three: [0, 1].map(|op| sample(three[op], 1.0, op)),
            five: [0, 1].map(late),
            flat: [alone[0], proxied(0, 1.0)],
            idle: [3.0, 8.0].map(|nodes| (nodes, of.background(nodes))),
        }
    }

    #[test]
    fn constants_are_found_again() {
        let (planted, found) = (planted(), Constants::of(&runs(&planted())));
        for (name, one, two) in [
            ("read", planted.leader[0], found.leader[0]),
            ("write", planted.leader[1], found.leader[1]),
            ("index", planted.index, found.index),
            ("forwarded write", planted.forward[1], found.forward[1]),
            ("proxied read", planted.proxy[0], found.proxy[0]),
            ("proxied write", planted.proxy[1], found.proxy[1]),
            ("frame", planted.frame, found.frame),
            ("follow", planted.follow, found.follow),
            ("idle", planted.idle, found.idle),
            ("peer", planted.peer, found.peer),
            ("at once", planted.at_once, found.at_once),
            ("load alone", planted.load_alone[0], found.load(Op::Read, 1.0)),
            ("load of three", planted.load[1], found.load(Op::Write, 3.0)),
            ("load of five", planted.load_strangers[0], found.load(Op::Read, 5.0)),
            ("five nodes", planted.cost(Op::Write, 5.0), found.cost(Op::Write, 5.0)),
        ] {
            assert!((one - two).abs() < 1e-3 * one, "{name}: {one} {two}");
        }
    }

    #[test]
    fn noise_makes_no_negative_costs() {
        let mut runs = runs(&planted());
        runs.away = runs.alone;
        runs.three = [Sample { cost: 1.0, ..runs.alone[0] }; 2];
        runs.five = runs.three;
        runs.idle = [(3.0, 10.0), (8.0, 1.0)];
        let found = Constants::of(&runs);
        let costs = [found.index, found.proxy[0], found.proxy[1], found.frame, found.follow];
        for cost in costs.into_iter().chain([found.peer, found.idle]) {
            assert!((0.0..=10.0).contains(&cost), "{found:?}");
        }
    }

    #[test]
    fn more_nodes_share_fewer_frames() {
        assert_eq!(frames(2.0, 1.0), 2.0);
        // Of two requests to one peer both share; of two to two peers, half of the time.
        assert_eq!(frames(1.0, 2.0), 1.0);
        assert_eq!(frames(2.0, 2.0), 1.5);
        let all: Vec<f64> = [2.0, 4.0, 16.0, 999.0].map(|peers| frames(peers, 8.0)).to_vec();
        assert!(all.is_sorted() && all[3] < 2.0 && all[3] > 1.99, "{all:?}");
    }

    #[test]
    fn requests_meet_leaders_followers_and_strangers() {
        let of = Constants { frame: 0.0, ..planted() };
        assert_eq!(of.cost(Op::Read, 1.0), 3.0);
        assert_eq!(of.cost(Op::Write, 1.0), 20.0);
        // Of six nodes one leads and two follow: half are strangers.
        let read = 3.0 + 1.5 / 3.0 + 4.5 / 2.0;
        assert!((of.cost(Op::Read, 6.0) - read).abs() < 1e-9);
        let write = 20.0 + 5.0 / 3.0 + 7.0 / 2.0 + 2.0 * 9.0;
        assert!((of.cost(Op::Write, 6.0) - write).abs() < 1e-9);
        // In the end nearly all are.
        assert!((of.cost(Op::Read, 1e6) - 7.5).abs() < 1e-3);
    }

    #[test]
    fn what_is_asked_of_leaders_shares_fewer_frames_with_more_nodes() {
        let of = Constants { at_once: 40.0, ..planted() };
        // Three nodes: all that its frames cost is in what was measured.
        let three = of.leader[0] + of.index * 2.0 / 3.0;
        assert!((of.cost(Op::Read, 3.0) - three).abs() < 1e-9);
        let eight = Constants { frame: 0.0, ..of };
        let more = of.cost(Op::Read, 8.0) - eight.cost(Op::Read, 8.0);
        let (few, many) = (frames(2.0, 40.0), frames(7.0, 40.0 * (7.0 / 8.0) * 1.5));
        let expected = 6.0 * (0.25 * (many - few) + 0.625 * many);
        assert!(many > few && (more - expected).abs() < 1e-9, "{more} {expected}");
    }

    #[test]
    fn throughput_is_what_costs_leave() {
        let of = planted();
        let alone = of.shared(Op::Write, 1.0, 2.0);
        assert!((alone - (2e6 - 5_000.0) / 22.0).abs() < 1e-6, "{alone}");
        assert!(of.load(Op::Write, 8.0) > 2.6, "replies come in more pieces");
        assert!(of.per_node(Op::Read, 3.0, 2.0) > of.per_node(Op::Read, 100.0, 2.0));
        assert_eq!(of.per_node(Op::Read, 1e7, 2.0), 0.0, "all of it is background");
    }

    #[test]
    fn it_breaks_where_the_background_takes_its_part() {
        let of = planted();
        let breaks = of.breaks_at(2.0, 0.5).unwrap();
        assert!(of.background(breaks) >= 1e6 && of.background(breaks - 1.0) < 1e6, "{breaks}");
        assert_eq!(Constants { peer: 0.0, ..of }.breaks_at(2.0, 0.5), None);
    }
}

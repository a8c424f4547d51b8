//! `carillon prove`: which nodes or domains the cluster can lose, as its shards are placed now.
//!
//! Only a shard's leader knows its voters. So every node is asked for the shards that it leads:
//!
//! ```text
//!   node asked ──► who is there ──► each of them ──► the shards it leads ─┐
//!                  failure domains ───────────────────────────────────────┴─► balancer::prove
//! ```
//!
//! A lagging voter counts as lost, and so does a node that is not surely up. A shard is not proven
//! if its leader did not answer, or its replicas are just changing. Nothing is proven while a node
//! that is up does not answer.

use std::collections::{BTreeMap, BTreeSet};

use balancer::survivability::{FatalSet, Voters, smallest};
use client::http::{Client, ClientError};
use keyspace::{NodeId, ShardId};
use serde_json::{Value, json};

use crate::all_nodes::{AllNodes, members};
use crate::cli::{ProveArgs, Survive};
use crate::colour::{Paint, Tone};
use crate::exit::Exit;
use crate::output::{self, with_node};

/// Shards that are named at most.
const NAMED_MAX: usize = 8;

/// Proves it, or prints what prevents the proof.
pub fn prove(args: &ProveArgs) -> Exit {
    with_node(&args.node, |client| {
        let seen = Cluster::ask(client)?;
        let proof = seen.prove(args.survive);
        let written = match args.node.json {
            true => output::json(&seen.as_json(&proof)),
            false => output::raw(seen.as_text(&proof, Paint::of_stdout()).as_bytes()),
        };
        let is_done = written == Exit::Done;
        Ok(if is_done && !proof.holds() { Exit::Refused } else { written })
    })
}

/// A member.
#[derive(Clone, Debug, Default)]
struct Member {
    name: String,
    domain: String,
    is_up: bool,
}

/// What is known of a shard.
#[derive(Clone, Debug, Default)]
struct Shard {
    keyspace: Option<String>,
    /// The number of voters, and the nodes of those that are live; none before its leader answers.
    voters: Option<(usize, Vec<NodeId>)>,
    is_changing: bool,
    /// The term of the leader that reported this.
    term: u64,
}

/// What the nodes have reported.
#[derive(Debug, Default)]
struct Cluster {
    members: BTreeMap<NodeId, Member>,
    shards: BTreeMap<ShardId, Shard>,
    /// Nodes that are up and did not answer.
    silent: Vec<String>,
}

/// What comes of it.
#[derive(Debug)]
struct SurvivabilityReport {
    survive: Survive,
    /// Each shard's smallest set, the smallest first.
    sets: Vec<FatalSet<String>>,
    /// Shards of which it is not known.
    unproven: Vec<ShardId>,
    /// Why it is not known, for people.
    obstacles: Vec<String>,
}

impl Survive {
    /// How many units may go.
    fn units(self) -> usize {
        match self {
            Survive::Node | Survive::Domain => 1,
            Survive::TwoNodes => 2,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Survive::Node => "any one node",
            Survive::Domain => "any one failure domain",
            Survive::TwoNodes => "any two nodes",
        }
    }
}

impl SurvivabilityReport {
    /// Sets that are not to be lost, and may.
    fn failing(&self) -> impl Iterator<Item = &FatalSet<String>> {
        self.sets.iter().take_while(|set| set.units.len() <= self.survive.units())
    }

    fn holds(&self) -> bool {
        self.failing().next().is_none() && self.obstacles.is_empty()
    }
}

impl Cluster {
    /// Asks this node for the members, and then all of them.
    fn ask(client: &Client) -> Result<Self, ClientError> {
        let all = AllNodes::ask(client, |client| client.shards(None))?;
        let mut cluster = Self { silent: all.silent, ..Self::default() };
        for node in members(&all.nodes) {
            let Some(id) = id_of(&node["id"]) else { continue };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (name, domain) = (text(&node["name"]), text(&node["domain"]));
            let is_up = node["state"] == "up";
            cluster.members.insert(id, Member { name, domain, is_up });
        }
        for (node, answer) in &all.answers {
            match id_of(&node["id"]).filter(|_| answer["node"] == node["id"]) {
                Some(id) => cluster.take_answer(id, answer),
                // Its address leads to somebody else.
                None => cluster.silent.push(node["name"].as_str().unwrap_or_default().to_owned()),
            }
        }
        Ok(cluster)
    }

    /// Takes a node's answer about its shards.
    fn take_answer(&mut self, node: NodeId, answer: &Value) {
        for entry in answer["shards"].as_array().into_iter().flatten() {
            let Some(id) = entry["id"].as_u64().map(ShardId) else { continue };
            let shard = self.shards.entry(id).or_default();
            shard.keyspace = entry["keyspace"].as_str().map(str::to_owned);
            let replicas = || entry["replicas"].as_array().into_iter().flatten();
            let on = |replica: &Value| id_of(&replica["node"]);
            let leads = replicas().any(|one| one["leader"] == true && on(one) == Some(node));
            let term = entry["term"].as_u64().unwrap_or(0);
            let is_news = shard.voters.is_none() || shard.term < term;
            let serves = entry["here"] == true && leads && entry["without_leader_ms"] == 0;
            if serves && is_news {
                let list = |name: &str| entry[name].as_array().cloned().unwrap_or_default();
                let bad = [list("lagging"), list("quarantined")].concat();
                let is_good =
                    |one: &&Value| one["role"] == "voter" && !bad.contains(&one["replica"]);
                let count = entry["voters"].as_u64().unwrap_or(0) as usize;
                shard.voters = Some((count, replicas().filter(is_good).filter_map(on).collect()));
                shard.is_changing = entry["changing"] != false || count == 0;
                shard.term = term;
            }
        }
    }

    fn prove(&self, survive: Survive) -> SurvivabilityReport {
        let mut shards = Vec::new();
        let mut unproven = Vec::new();
        for (id, shard) in &self.shards {
            match &shard.voters {
                Some((count, nodes)) if !shard.is_changing => {
                    shards.push(Voters { shard: *id, count: *count, nodes: nodes.clone() });
                }
                _ => unproven.push(*id),
            }
        }
        let unit_of = |node: NodeId| {
            let member = self.members.get(&node).filter(|member| member.is_up)?;
            Some(match survive {
                Survive::Domain if !member.domain.is_empty() => format!("={}", member.domain),
                // A node without a domain is reported below as unknown.
                _ => format!("{:016x}", node.0),
            })
        };
        let mut obstacles = Vec::new();
        for id in unproven.iter().take(NAMED_MAX) {
            let is_changing = self.shards.get(id).is_some_and(|shard| shard.is_changing);
            let why = match is_changing {
                true => "its replicas are changing: ask again",
                false => "no node that answered leads it",
            };
            obstacles.push(format!("{}: {why}", self.shard(*id)));
        }
        if unproven.len() > NAMED_MAX {
            obstacles.push(format!("and {} more shards", unproven.len() - NAMED_MAX));
        }
        if !self.silent.is_empty() {
            obstacles.push(format!("did not answer by HTTP: {}", self.silent.join(", ")));
        }
        let lacks = self.members.values().filter(|member| member.is_up && member.domain.is_empty());
        let lacks: Vec<&str> = lacks.map(|member| &*member.name).collect();
        if survive == Survive::Domain && !lacks.is_empty() {
            let why = "no failure domain is known (set domain) of";
            obstacles.push(format!("{why} {}", lacks.join(", ")));
        }
        SurvivabilityReport { survive, sets: smallest(&shards, unit_of), unproven, obstacles }
    }

    /// The name of a unit, for people.
    fn unit(&self, unit: &str) -> String {
        match (unit.strip_prefix('='), u64::from_str_radix(unit, 16)) {
            (Some(domain), _) => format!("domain {domain}"),
            (None, Ok(id)) => {
                let name = self.members.get(&NodeId(id)).map(|member| member.name.clone());
                name.filter(|name| !name.is_empty()).unwrap_or_else(|| unit.to_owned())
            }
            (None, Err(_)) => unit.to_owned(),
        }
    }

    fn units(&self, set: &FatalSet<String>) -> String {
        set.units.iter().map(|unit| self.unit(unit)).collect::<Vec<_>>().join(" and ")
    }

    fn shard(&self, id: ShardId) -> String {
        match self.shards.get(&id).and_then(|shard| shard.keyspace.as_deref()) {
            Some(keyspace) => format!("shard {id} of keyspace {keyspace}"),
            None => format!("shard {id} (the catalogue)"),
        }
    }

    fn down(&self) -> Vec<&str> {
        let down = self.members.values().filter(|member| !member.is_up);
        down.map(|member| &*member.name).collect()
    }

    fn as_text(&self, proof: &SurvivabilityReport, paint: Paint) -> String {
        let all = self.shards.len();
        let failing: Vec<_> = proof.failing().collect();
        let mut out = match (proof.holds(), failing.first()) {
            (true, _) => {
                let yes = paint.paint(Tone::Good, "yes");
                let words = proof.survive.words();
                format!("{yes}: each of {all} shards keeps a majority without {words}\n")
            }
            (false, None) => {
                let not = paint.paint(Tone::Uneasy, "not proven");
                format!("{not}: the answer is not known for all shards\n")
            }
            (false, Some(worst)) if worst.units.is_empty() => {
                let no = paint.paint(Tone::Bad, "no");
                format!("{no}: {} has no majority now\n", self.shard(worst.shard))
            }
            (false, Some(worst)) => {
                let no = paint.paint(Tone::Bad, "no");
                let (count, units) = (failing.len(), self.units(worst));
                let first = format!("the first without {units}");
                format!("{no}: {count} of {all} shards may have no majority; {first}\n")
            }
        };
        for set in failing.iter().take(NAMED_MAX) {
            let without = match set.units.is_empty() {
                true => "now".to_owned(),
                false => format!("without {}", self.units(set)),
            };
            let (shard, left, voters) = (self.shard(set.shard), set.left, set.voters);
            let needed = set.needed();
            out +=
                &format!("  {shard} has {left} of {voters} voters {without}, and needs {needed}\n");
        }
        if failing.len() > NAMED_MAX {
            out += &format!("  and {} more\n", failing.len() - NAMED_MAX);
        }
        if let Some(set) = proof.sets.first().filter(|_| failing.is_empty()) {
            let (units, shard, left, voters) =
                (self.units(set), self.shard(set.shard), set.left, set.voters);
            out += &format!(
                "smallest failing set: {units}; {shard} would have {left} of {voters} voters\n"
            );
        }
        out.extend(proof.obstacles.iter().map(|why| format!("  {why}\n")));
        if !self.down().is_empty() {
            out += &format!("counted as lost already: {}\n", self.down().join(", "));
        }
        out
    }

    fn as_json(&self, proof: &SurvivabilityReport) -> Value {
        let set = |set: &FatalSet<String>| {
            let units: Vec<String> = set.units.iter().map(|unit| self.unit(unit)).collect();
            let keyspace = self.shards.get(&set.shard).and_then(|shard| shard.keyspace.clone());
            json!({
                "shard": set.shard.0, "keyspace": keyspace, "lost": units, "left": set.left,
                "voters": set.voters, "needed": set.needed(),
            })
        };
        json!({
            "survive": proof.survive.name(),
            "holds": proof.holds(),
            "shards": self.shards.len(),
            "failing": proof.failing().map(set).collect::<Vec<_>>(),
            "smallest": proof.sets.first().map(set),
            "unproven": proof.unproven.iter().map(|shard| shard.0).collect::<BTreeSet<_>>(),
            "obstacles": proof.obstacles,
            "silent": self.silent,
            "down": self.down(),
        })
    }
}

fn id_of(value: &Value) -> Option<NodeId> {
    u64::from_str_radix(value.as_str()?, 16).ok().map(NodeId)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, domain: &str, is_up: bool) -> Member {
        Member { name: name.into(), domain: domain.into(), is_up }
    }

    fn cluster(lagging: &[u64]) -> Cluster {
        let mut cluster = Cluster::default();
        let members = [
            (0xa, member("a", "r1", true)),
            (0xb, member("b", "r1", true)),
            (0xc, member("c", "r2", true)),
        ];
        cluster.members.extend(members.map(|(id, member)| (NodeId(id), member)));
        let shards = |term: u64, lagging: &[u64], leader: usize| {
            let replicas: Vec<Value> = ["a", "b", "c"]
                .iter()
                .enumerate()
                .map(|(at, node)| {
                    let (node, is_leader) = (format!("{node:0>16}"), at == leader);
                    json!({ "node": node, "role": "voter", "leader": is_leader,
                            "replica": at + 1 })
                })
                .collect();
            json!({ "shards": [{
                "id": 3, "keyspace": "orders", "here": true, "term": term, "replicas": replicas,
                "voters": 3, "changing": false, "without_leader_ms": 0, "quarantined": [],
                "lagging": lagging,
            }] })
        };
        // Who does not lead is not believed.
        cluster.take_answer(NodeId(0xb), &shards(9, &[1, 2, 3], 0));
        cluster.take_answer(NodeId(0xa), &shards(4, lagging, 0));
        // Nor who led in an older term.
        cluster.take_answer(NodeId(0xc), &shards(3, &[1, 2, 3], 2));
        cluster
    }

    #[test]
    fn what_may_be_lost_is_said() {
        let cluster = cluster(&[]);
        let text = |survive| {
            let proof = cluster.prove(survive);
            (proof.holds(), cluster.as_text(&proof, Paint::PLAIN))
        };
        let (holds, words) = text(Survive::Node);
        assert!(holds);
        assert_eq!(
            words,
            "yes: each of 1 shards keeps a majority without any one node\n\
             smallest failing set: a and b; shard 3 of keyspace orders would have 1 of 3 voters\n"
        );
        let (holds, words) = text(Survive::Domain);
        assert!(!holds);
        assert_eq!(
            words,
            "no: 1 of 1 shards may have no majority; the first without domain r1\n  \
             shard 3 of keyspace orders has 1 of 3 voters without domain r1, and needs 2\n"
        );
        assert!(!text(Survive::TwoNodes).0);
    }

    #[test]
    fn down_node_counts_as_lost() {
        let mut cluster = cluster(&[]);
        cluster.members.insert(NodeId(0xc), member("c", "", false));
        let proof = cluster.prove(Survive::Node);
        let text = cluster.as_text(&proof, Paint::PLAIN);
        assert!(text.starts_with("no: 1 of 1 shards may have no majority; the first without a\n"));
        assert!(text.ends_with("counted as lost already: c\n"), "{text}");
        cluster.members.insert(NodeId(0xb), member("b", "r1", false));
        let proof = cluster.prove(Survive::Node);
        let text = cluster.as_text(&proof, Paint::PLAIN);
        assert!(text.starts_with("no: shard 3 of keyspace orders has no majority now\n"), "{text}");
    }

    #[test]
    fn what_is_not_known_is_not_proven() {
        let mut cluster = cluster(&[]);
        cluster.shards.insert(ShardId(4), Shard::default());
        let proof = cluster.prove(Survive::Node);
        assert!(!proof.holds());
        let text = cluster.as_text(&proof, Paint::PLAIN);
        let words = "not proven: the answer is not known for all shards\n";
        assert!(text.starts_with(words), "{text}");
        assert!(
            text.contains("  shard 4 (the catalogue): no node that answered leads it\n"),
            "{text}"
        );
        assert_eq!(cluster.as_json(&proof)["unproven"], json!([4]));
        cluster.shards.get_mut(&ShardId(3)).unwrap().is_changing = true;
        assert_eq!(cluster.prove(Survive::Node).unproven, [ShardId(3), ShardId(4)]);
        let mut cluster = self::cluster(&[]);
        cluster.silent.push("b".into());
        assert!(!cluster.prove(Survive::Node).holds(), "b may hold anything");
    }

    #[test]
    fn lagging_voter_counts_as_lost() {
        let proof = cluster(&[2]).prove(Survive::Node);
        assert_eq!((proof.sets[0].units.len(), proof.sets[0].left), (1, 1));
        assert!(!proof.holds());
    }

    #[test]
    fn without_domains_nothing_is_known_of_them() {
        let mut cluster = cluster(&[]);
        let domains = ["r1", "r2", ""];
        for (id, domain) in [0xa, 0xb, 0xc].map(NodeId).into_iter().zip(domains) {
            cluster.members.insert(id, member("x", domain, true));
        }
        let proof = cluster.prove(Survive::Domain);
        assert!(!proof.holds() && proof.failing().next().is_none());
        assert!(cluster.prove(Survive::Node).holds());
    }
}

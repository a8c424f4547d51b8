//! Which lookup suits a cluster: `carillon route --advise`. Pure, but for [`observe`].
//!
//! A full table finds an owner without a message, and each change of the shards is told to every
//! node. A ring of fingers takes messages for each lookup, and fewer nodes hear of a change. So it
//! depends on how many lookups there are between two changes (docs/papers/000.md).

use std::thread::sleep;
use std::time::{Duration, Instant};

use bench::papers::lookups_per_change;
use client::http::{Client, ClientError};
use serde_json::{Value, json};
use sim::overlay::join;

use crate::output;

/// Keys whose owners are looked up, spread over the requests of the time that is watched.
const SAMPLES: u32 = 16;
/// On larger rings a join is not simulated any more, but extrapolated: it grows with the logarithm.
const SIMULATED_MAX: usize = 20_000;

/// What was measured of one lookup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Its name.
    pub lookup: String,
    /// Means of those that found the owner.
    pub hops: f64,
    /// See above.
    pub messages: f64,
    /// See above.
    pub micros: f64,
    /// How many found it.
    pub found: u32,
}

/// What is known of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// How keys are placed: `hashed`, `ordered` or `linear-hash`.
    pub placement: String,
    /// Shards of the keyspace.
    pub shards: u64,
    /// Nodes of the cluster.
    pub nodes: u64,
    /// How long was watched, in seconds.
    pub seconds: f64,
    /// Changes of shards in that time: of their replicas, leaders, ends.
    pub changes: u64,
    /// Requests of this node's clients in that time.
    pub requests: f64,
    /// Each lookup.
    pub lookups: Vec<Measured>,
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The lookup.
    pub lookup: &'static str,
    /// Messages of a change: by full tables, by fingers.
    pub change: [f64; 2],
    /// Messages a second of lookups and changes: by full tables, by fingers.
    pub messages: [f64; 2],
    /// With fewer lookups than this between two changes, fingers send fewer messages; `None`:
    /// never.
    pub equal: Option<f64>,
    /// The ring of fingers that would be taken.
    pub ring: &'static str,
}

/// Messages of a change in a ring of fingers.
fn change_of_ring(shards: u64) -> f64 {
    let simulated = (shards.max(1) as usize).min(SIMULATED_MAX);
    let cost = join::cost(simulated, 1).chord;
    let grown = (shards.max(2) as f64).log2() / (simulated.max(2) as f64).log2();
    cost * grown * grown
}

/// Decides.
pub fn advise(facts: &Facts) -> Advice {
    // Where keys begin alike, Chord's fingers lie badly; Chord#'s count members.
    let ring = if facts.placement == "ordered" { "chord-sharp" } else { "chord" };
    let measured = facts.lookups.iter().find(|one| one.lookup == ring && one.found > 0);
    // Half of the logarithm, if nothing could be measured.
    let hops = (facts.shards.max(1) as f64).log2() / 2.0;
    let hops = measured.map_or(hops, |one| one.hops);
    let change = [facts.nodes as f64, change_of_ring(facts.shards)];
    let [lookups, changes] =
        [facts.requests * facts.nodes as f64, facts.changes as f64].map(|n| n / facts.seconds);
    let messages = [changes * change[0], changes * change[1] + lookups * 2.0 * hops];
    let equal = lookups_per_change(change[0], change[1], hops);
    let lookup = if messages[1] < messages[0] { ring } else { "full" };
    Advice { lookup, change, messages, equal, ring }
}

/// Watches a cluster for a while.
///
/// # Errors
/// The node does not answer; nothing was changed.
pub fn observe(client: &Client, keyspace: &str, time: Duration) -> Result<Facts, ClientError> {
    let placement = client.keyspaces()?.into_iter().find(|one| one.name == keyspace);
    let nodes = client.nodes()?["nodes"].as_array().map_or(1, Vec::len) as u64;
    let before = (generations(client, keyspace)?, commands(client)?);
    let begun = Instant::now();
    let mut lookups: Vec<Measured> = Vec::new();
    for number in 0..SAMPLES {
        let key = format!("advise-{number}");
        let ways = client.routes(keyspace, key.as_bytes(), "all noimages")?;
        ways.as_array().into_iter().flatten().for_each(|way| add(&mut lookups, way));
        sleep((time * (number + 1) / SAMPLES).saturating_sub(begun.elapsed()));
    }
    let seconds = begun.elapsed().as_secs_f64();
    let after = (generations(client, keyspace)?, commands(client)?);
    for one in &mut lookups {
        let count = f64::from(one.found.max(1));
        one.hops /= count;
        one.messages /= count;
        one.micros /= count;
    }
    Ok(Facts {
        placement: placement.map_or_else(|| "hashed".to_owned(), |one| one.placement),
        shards: after.0.0,
        nodes: nodes.max(1),
        seconds: seconds.max(0.001),
        changes: after.0.1.abs_diff(before.0.1),
        requests: (after.1 - before.1).max(0.0),
        lookups,
    })
}

fn add(lookups: &mut Vec<Measured>, way: &Value) {
    let name = way["lookup"].as_str().unwrap_or_default();
    let at = lookups.iter().position(|one| one.lookup == name).unwrap_or_else(|| {
        lookups.push(Measured { lookup: name.to_owned(), ..Measured::default() });
        lookups.len() - 1
    });
    if !way["failure"].is_null() {
        return;
    }
    let number = |name: &str| way[name].as_f64().unwrap_or(0.0);
    lookups[at].found += 1;
    lookups[at].hops += number("hops");
    lookups[at].messages += number("messages");
    lookups[at].micros += number("micros");
}

/// How many shards there are, and how often they have changed: generations rise with replicas and
/// ends, terms with leaders.
fn generations(client: &Client, keyspace: &str) -> Result<(u64, u64), ClientError> {
    let shards = client.shards(Some(keyspace))?;
    let all = shards["shards"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |shard: &Value| {
        shard["generation"].as_u64().unwrap_or(0) + shard["term"].as_u64().unwrap_or(0)
    };
    Ok((all.len() as u64, all.iter().map(of).sum()))
}

fn commands(client: &Client) -> Result<f64, ClientError> {
    let text = client.metrics()?;
    let line = text.lines().find_map(|line| line.strip_prefix("carillon_commands_total "));
    Ok(line.and_then(|number| number.parse().ok()).unwrap_or(0.0))
}

/// The advice with its reasons, for people.
pub fn shown(facts: &Facts, advice: &Advice) -> String {
    let rows = facts.lookups.iter().map(|one| {
        let of = |value: f64| match one.found {
            0 => "-".to_owned(),
            _ => format!("{value:.1}"),
        };
        vec![one.lookup.clone(), of(one.hops), of(one.messages), of(one.micros)]
    });
    let table = output::table(&["LOOKUP", "HOPS", "MESSAGES", "MICROS"], &rows.collect::<Vec<_>>());
    let Facts { shards, nodes, seconds, changes, requests, placement, .. } = facts;
    let [full, ring] = advice.change;
    let [by_full, by_ring] = advice.messages;
    let name = advice.ring;
    let equal = match advice.equal {
        None => format!("{name} is never cheaper here: a change costs it more messages as well"),
        Some(lookups) => {
            format!("{name} is cheaper with fewer than {lookups:.0} lookups between two changes")
        }
    };
    format!(
        "{lookup} suits this cluster.\n\n\
         {shards} shards ({placement}) on {nodes} nodes: a full table has {shards} entries at \
         each node\n\
         in {seconds:.0} s: {changes} changes of shards, {requests:.0} requests through this node\n\
         a change takes {full:.0} messages by full, {ring:.0} by {name}\n\
         if all nodes are as busy as this one: {by_full:.0} messages a second by full, \
         {by_ring:.0} by {name}\n\
         {equal}\n\n{table}",
        lookup = advice.lookup,
    )
}

/// The same for programs.
pub fn as_json(facts: &Facts, advice: &Advice) -> Value {
    let lookups = facts.lookups.iter().map(|one| {
        json!({ "lookup": one.lookup, "found": one.found, "hops": one.hops,
                "messages": one.messages, "micros": one.micros })
    });
    json!({
        "advice": advice.lookup,
        "placement": facts.placement,
        "shards": facts.shards,
        "nodes": facts.nodes,
        "seconds": facts.seconds,
        "changes": facts.changes,
        "requests": facts.requests,
        "messages_per_change": { "full": advice.change[0], advice.ring: advice.change[1] },
        "messages_per_second": { "full": advice.messages[0], advice.ring: advice.messages[1] },
        "lookups_per_change_when_equal": advice.equal,
        "lookups": lookups.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let chord = Measured {
            lookup: "chord".to_owned(),
            hops: 1.5,
            messages: 3.0,
            micros: 200.0,
            found: 16,
        };
        Facts {
            placement: "hashed".to_owned(),
            shards: 8,
            nodes: 3,
            seconds: 10.0,
            changes: 0,
            requests: 1_000.0,
            lookups: vec![chord],
        }
    }

    #[test]
    fn small_and_stable_clusters_keep_full_tables() {
        let advice = advise(&facts());
        assert_eq!((advice.lookup, advice.ring, advice.equal), ("full", "chord", None));
        // 1 000 requests in 10 s on each of 3 nodes, 1.5 hops of two messages.
        assert_eq!(advice.messages, [0.0, 900.0]);
        let text = shown(&facts(), &advice);
        assert!(text.starts_with("full suits this cluster."), "{text}");
        assert!(text.contains("chord is never cheaper here"), "{text}");
    }

    #[test]
    fn large_clusters_that_change_more_often_than_they_are_asked_take_fingers() {
        let large = Facts { shards: 2_000, nodes: 1_000, changes: 500, requests: 0.1, ..facts() };
        let advice = advise(&large);
        assert_eq!(advice.lookup, "chord");
        let equal = advice.equal.unwrap();
        assert!((100.0..400.0).contains(&equal), "{equal}");
        assert!(shown(&large, &advice).contains("lookups between two changes"));
        let ordered = Facts { placement: "ordered".to_owned(), ..large.clone() };
        assert_eq!(advise(&ordered).lookup, "chord-sharp");
        let asked = Facts { requests: 1e6, ..large };
        assert_eq!(advise(&asked).lookup, "full");
        assert_eq!(as_json(&asked, &advise(&asked))["advice"], "full");
    }

    #[test]
    fn a_change_of_a_ring_costs_more_with_more_shards() {
        let costs = [8, 1_000, 20_000, 1_000_000].map(change_of_ring);
        assert!(costs.is_sorted() && costs[3] < 1_000.0, "{costs:?}");
    }
}

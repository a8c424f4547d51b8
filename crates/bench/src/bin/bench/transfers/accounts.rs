//! The accounts in Carillon: opened, summed, and told apart by shard.
//!
//! An account is a key with a number, without a hash tag, so two of them mostly lie in different
//! shards. Whatever transfers do, the sum of all stays what it was at first.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::ops::Range;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::cluster::nodes::{NODES, Nodes};
use crate::http;
use crate::resp::{Connection, encode};

/// What each account holds at first.
pub const OPENING: i64 = 1_000;
/// Commands in flight on each connection.
const PIPELINE: usize = 1_000;
/// Accounts that are asked for their slots, to say how many pairs lie in different shards.
const SAMPLE: usize = 4_000;
/// How often a SET is sent again that a shard refuses while it is cut.
const REFUSALS_MAX: usize = 200;
/// How long shards may take to come to rest after they were filled.
const REST_MAX: Duration = Duration::from_secs(180);

/// The key of an account.
pub fn account(number: usize) -> String {
    format!("account:{number:012}")
}

/// Sets so many accounts, a third through each node.
pub fn open(nodes: &Nodes, accounts: usize) -> Outcome<()> {
    let opening = OPENING.to_string();
    let opened = in_parallel(nodes, accounts, |connection, part| {
        let mut out = Vec::new();
        for number in part.clone() {
            encode(&mut out, &["SET", &account(number), &opening]);
        }
        connection.send(&out)?;
        let mut refused = Vec::new();
        for number in part {
            match connection.reply() {
                Err(error) if is_refusal(&*error) => refused.push(number),
                reply => drop(reply?),
            }
        }
        for number in refused {
            set_again(connection, &account(number), &opening)?;
        }
        Ok(0)
    });
    opened.map(drop)
}

/// What so many accounts hold together; each must be there.
pub fn sum(nodes: &Nodes, accounts: usize) -> Outcome<i64> {
    in_parallel(nodes, accounts, |connection, part| {
        let mut out = Vec::new();
        for number in part.clone() {
            encode(&mut out, &["GET", &account(number)]);
        }
        connection.send(&out)?;
        let mut sum = 0;
        for number in part {
            let held = connection.reply()?;
            let wrong = || format!("{} holds {held:?}", account(number));
            sum += held.parse::<i64>().map_err(|_| wrong())?;
        }
        Ok(sum)
    })
}

fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    !error.is::<io::Error>()
}

fn set_again(connection: &mut Connection, key: &str, value: &str) -> Outcome<()> {
    let mut last = Ok(());
    for _ in 0..REFUSALS_MAX {
        match connection.call(&["SET", key, value]) {
            Ok(_) => return Ok(()),
            Err(error) => last = Err(error),
        }
        sleep(Duration::from_millis(50));
    }
    last
}

/// Does something with all accounts, part by part, through all nodes; the sum of what comes of it.
fn in_parallel(
    nodes: &Nodes,
    accounts: usize,
    work: impl Fn(&mut Connection, Range<usize>) -> Outcome<i64> + Sync,
) -> Outcome<i64> {
    let through = |node: usize| -> Result<i64, String> {
        let run = || -> Outcome<i64> {
            let mut connection = Connection::open(nodes.resp(node))?;
            let firsts = (node * PIPELINE..accounts).step_by(NODES * PIPELINE);
            firsts.map(|n| work(&mut connection, n..(n + PIPELINE).min(accounts))).sum()
        };
        run().map_err(|error| format!("node {}: {error}", node + 1))
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..NODES).map(|node| scope.spawn(move || through(node))).collect();
        let sums =
            threads.into_iter().map(|thread| thread.join().expect("the thread does not panic"));
        Ok(sums.sum::<Result<i64, String>>()?)
    })
}

/// The last slots of keyspace 0's shards, and their ids.
fn shards(nodes: &Nodes) -> Outcome<BTreeMap<u64, u64>> {
    let answer = http::body(nodes.http(0), "/v1/shards?keyspace=0")?;
    let answer: serde_json::Value = serde_json::from_str(&answer)?;
    let shards = answer["shards"].as_array().ok_or("/v1/shards names no shards")?;
    let ends = shards.iter().map(|shard| shard["slots"][1].as_u64().zip(shard["id"].as_u64()));
    ends.collect::<Option<_>>().ok_or_else(|| "/v1/shards: no slots, or no id".into())
}

/// Waits until no shard has been cut for so long; returns how many there are. Many accounts are
/// more than `split_keys` of a keyspace's first shards.
pub fn wait_until_at_rest(nodes: &Nodes, quiet: Duration) -> Outcome<usize> {
    let began = Instant::now();
    let (mut last, mut since) = (shards(nodes)?, Instant::now());
    while since.elapsed() < quiet {
        if began.elapsed() > REST_MAX {
            return Err(format!("{} shards, and they do not come to rest", last.len()).into());
        }
        sleep(Duration::from_millis(200));
        let now = shards(nodes)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last.len())
}

/// The part of all pairs of accounts whose two lie in different shards; by a sample of them.
pub fn share_apart(nodes: &Nodes, accounts: usize) -> Outcome<f64> {
    let shards = shards(nodes)?;
    let mut connection = Connection::open(nodes.resp(0))?;
    let step = accounts.div_ceil(SAMPLE);
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for number in (0..accounts).step_by(step) {
        let slot: u64 = connection.call(&["CLUSTER", "KEYSLOT", &account(number)])?.parse()?;
        let (_, shard) = shards.range(slot..).next().ok_or("a slot without a shard")?;
        *counts.entry(*shard).or_default() += 1;
    }
    Ok(apart_of(&counts.into_values().collect::<Vec<_>>()))
}

/// Of all pairs of two things that lie in heaps of these sizes, the part in two heaps.
fn apart_of(heaps: &[usize]) -> f64 {
    let all: usize = heaps.iter().sum();
    let pairs = |of: usize| (of * of.saturating_sub(1)) as f64;
    1.0 - heaps.iter().map(|heap| pairs(*heap)).sum::<f64>() / pairs(all).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_in_two_heaps() {
        assert_eq!(apart_of(&[2, 2]), 1.0 - 4.0 / 12.0);
        assert_eq!(apart_of(&[5]), 0.0);
        assert_eq!(apart_of(&[1; 8]), 1.0);
    }
}

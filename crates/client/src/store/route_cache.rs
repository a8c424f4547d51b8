//! The route cache: which node leads a slot, as far as this client knows.
//!
//! ```text
//!   slot 12182 ──► shard 5 ──► node 2        CLUSTER SHARDS makes all of it,
//!                                            MOVED puts a shard's node right
//! ```
//!
//! It may be wrong: then the node asked names the leader (`MOVED`), and one such answer corrects
//! the whole shard. A wrong route costs one hop, never a wrong answer. The lookups of [overlay]
//! keep descriptors by generation and term; a Redis listener sends neither, so the newest answer
//! counts.
//!
//! [overlay]: https://github.com/carillon-db/carillon/tree/main/crates/overlay

use std::sync::atomic::{AtomicU16, Ordering};

use keyspace::{SLOTS, Slot};

use super::reply::Reply;

/// The most nodes that a client knows. Further ones are reached through these.
pub const NODES_MAX: usize = 1024;
/// The most shards.
const SHARDS_MAX: usize = 16_384;
const NO_LEADER: u16 = u16::MAX;

/// A shard as a node reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardFacts {
    /// Its first and last slot.
    pub slots: (Slot, Slot),
    /// Where its leader listens.
    pub leader: Option<String>,
}

/// Slots to shards to leaders. Nodes are indexes.
#[derive(Debug)]
pub(crate) struct RouteCache {
    /// Of each slot; empty if nothing is known.
    shards: Vec<u16>,
    leaders: Vec<AtomicU16>,
}

impl RouteCache {
    /// One that knows nothing.
    pub fn unknown() -> Self {
        Self { shards: Vec::new(), leaders: Vec::new() }
    }

    /// Of these shards; `node` gives the index of an address.
    pub fn new(facts: &[ShardFacts], mut node: impl FnMut(&str) -> Option<usize>) -> Self {
        if facts.is_empty() {
            return Self::unknown();
        }
        let mut shards = vec![NO_LEADER; usize::from(SLOTS)];
        let mut leaders = Vec::with_capacity(facts.len());
        for (index, shard) in facts.iter().take(SHARDS_MAX).enumerate() {
            let leader = shard.leader.as_deref().and_then(&mut node);
            leaders.push(AtomicU16::new(leader.map_or(NO_LEADER, |leader| leader as u16)));
            let (first, last) = shard.slots;
            shards[usize::from(first)..=usize::from(last)].fill(index as u16);
        }
        Self { shards, leaders }
    }

    /// Whether nothing is known: then all nodes are as good.
    pub fn is_unknown(&self) -> bool {
        self.shards.is_empty()
    }

    fn shard(&self, slot: Slot) -> Option<u16> {
        self.shards.get(usize::from(slot)).copied().filter(|shard| *shard != NO_LEADER)
    }

    /// The node that leads a slot.
    #[inline]
    pub fn leader(&self, slot: Slot) -> Option<usize> {
        let leader = self.leaders[usize::from(self.shard(slot)?)].load(Ordering::Relaxed);
        (leader != NO_LEADER).then_some(usize::from(leader))
    }

    /// Sets the leader of a slot's shard, as a node has reported it.
    pub fn adjust(&self, slot: Slot, node: usize) {
        if let Some(shard) = self.shard(slot) {
            self.leaders[usize::from(shard)].store(node as u16, Ordering::Relaxed);
        }
    }
}

/// Parses a reply to CLUSTER SHARDS of a node at `host`: the shards, and the addresses of all
/// nodes. It leaves out items that it cannot parse.
pub(crate) fn parse_shards(reply: &Reply, host: &str) -> (Vec<ShardFacts>, Vec<String>) {
    let (mut shards, mut nodes) = (Vec::new(), Vec::new());
    for shard in reply.items() {
        let (Some(slots), Some(holders)) = (shard.field(b"slots"), shard.field(b"nodes")) else {
            continue;
        };
        let mut leader = None;
        for holder in holders.items() {
            let Some(address) = address_of(holder, host) else { continue };
            if holder.field(b"role").and_then(Reply::bytes).is_some_and(|role| role == "master") {
                leader = Some(address.clone());
            }
            if nodes.len() < NODES_MAX && !nodes.contains(&address) {
                nodes.push(address);
            }
        }
        for range in slots.items().chunks_exact(2) {
            let slot = |number: &Reply| {
                let number = number.integer().and_then(|number| Slot::try_from(number).ok());
                number.filter(|slot| *slot < SLOTS)
            };
            let (Some(first), Some(last)) = (slot(&range[0]), slot(&range[1])) else {
                continue;
            };
            if first <= last {
                shards.push(ShardFacts { slots: (first, last), leader: leader.clone() });
            }
        }
    }
    (shards, nodes)
}

fn address_of(holder: &Reply, asked: &str) -> Option<String> {
    // By TLS a node is known by its port for that.
    let port = holder.field(b"tls-port").or_else(|| holder.field(b"port"))?;
    let port = port.integer().filter(|port| (1..=65_535).contains(port))?;
    let host = holder.field(b"endpoint").and_then(Reply::bytes)?;
    address(std::str::from_utf8(host).ok()?, port as u16, asked)
}

/// An address to connect with. Without a host it is the one that was asked.
pub(crate) fn address(host: &str, port: u16, asked: &str) -> Option<String> {
    let host = if host.is_empty() || host == "?" { host_of(asked)? } else { host };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    Some(if bare.contains(':') { format!("[{bare}]:{port}") } else { format!("{bare}:{port}") })
}

fn host_of(address: &str) -> Option<&str> {
    address.rsplit_once(':').map(|(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.to_owned().into())
    }

    fn holder(host: &str, port: i64, role: &str) -> Reply {
        Reply::Map(vec![
            (bulk("port"), Reply::Integer(port)),
            (bulk("endpoint"), bulk(host)),
            (bulk("role"), bulk(role)),
        ])
    }

    #[test]
    fn a_port_for_tls_is_as_good() {
        let holder = Reply::Map(vec![
            (bulk("tls-port"), Reply::Integer(7)),
            (bulk("endpoint"), bulk("h")),
            (bulk("role"), bulk("master")),
        ]);
        let reply = Reply::Array(vec![shard((0, 16_383), vec![holder])]);
        assert_eq!(parse_shards(&reply, "asked:9").1, ["h:7"]);
    }

    fn shard(slots: (i64, i64), holders: Vec<Reply>) -> Reply {
        let slots = vec![Reply::Integer(slots.0), Reply::Integer(slots.1)];
        // Flat, as in RESP2.
        Reply::Array(vec![bulk("slots"), Reply::Array(slots), bulk("nodes"), Reply::Array(holders)])
    }

    #[test]
    fn shards_are_told_and_one_answer_puts_a_whole_one_right() {
        let reply = Reply::Array(vec![
            shard((0, 99), vec![holder("h", 1, "master"), holder("h", 2, "replica")]),
            shard((100, 16_383), vec![holder("", 2, "replica"), holder("h", 0, "master")]),
            shard((5, 99_999), vec![holder("h", 3, "master")]),
            Reply::Nil,
        ]);
        let (shards, nodes) = parse_shards(&reply, "asked:9");
        assert_eq!(nodes, ["h:1", "h:2", "asked:2", "h:3"]);
        let cache =
            RouteCache::new(&shards, |address| nodes.iter().position(|node| node == address));
        assert_eq!(
            (cache.leader(0), cache.leader(99), cache.leader(100)),
            (Some(0), Some(0), None)
        );
        assert_eq!(cache.shard(16_383), Some(1));
        cache.adjust(50, 2);
        cache.adjust(16_383, 1);
        assert_eq!((cache.leader(0), cache.leader(100)), (Some(2), Some(1)));
    }

    #[test]
    fn unknown_route_cache_is_reported_as_unknown() {
        let cache = RouteCache::new(&parse_shards(&Reply::Error("ERR".into()), "h:1").0, |_| None);
        assert!(cache.is_unknown());
        assert_eq!((cache.shard(1), cache.leader(1)), (None, None));
        cache.adjust(1, 1);
        assert_eq!(cache.leader(1), None);
    }

    #[test]
    fn addresses_have_a_host() {
        assert_eq!(address("", 5, "[::1]:9"), Some("[::1]:5".into()));
        assert_eq!(address("::1", 5, "h:9"), Some("[::1]:5".into()));
        assert_eq!(address("a.b", 5, "h:9"), Some("a.b:5".into()));
    }
}

//! The known nodes of a cluster, and the choice of a link for each request.
//!
//! | what is known of the key's shard | goes to |
//! |---|---|
//! | its leader, and the slot's link with it is up | the leader, over that link |
//! | its leader, and that link is down; or that it has no leader | any other node that is up, over its **detour**: that node forwards, or waits for the next leader |
//! | nothing of any shard (an ordered keyspace, a node alone) | any node that is up |
//!
//! The detour is a separate connection: a request that waits for a leader holds up no others.
//!
//! `MOVED` corrects the route cache. Besides, the client reads all routes again, over a connection
//! of its own, from the first node that answers: after a `MOVED`, when a link went down, and when a
//! request took a detour; but not again within [`ROUTE_REFRESH_PAUSE`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use keyspace::Slot;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::dial::{self, DialError, Purpose};
use super::link::Link;
use super::options::Options;
use super::reply::Reply;
use super::route_cache::{NODES_MAX, RouteCache, ShardFacts, parse_shards};
use super::{Error, Reason};

/// Routes are not read again more often than this.
pub const ROUTE_REFRESH_PAUSE: Duration = Duration::from_millis(100);
/// … and not more often than this as long as no shard is known.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(2);

/// A node and the links with it.
#[derive(Debug)]
pub(crate) struct Node {
    pub address: String,
    direct: Vec<Arc<Link>>,
    detour: Arc<Link>,
}

impl Node {
    /// The link of a slot, if it is up. If it is not, the node may be dying, and a write over
    /// another link would be lost as this one was.
    fn of_slot(&self, slot: Slot) -> Option<&Arc<Link>> {
        Some(&self.direct[usize::from(slot) % self.direct.len()]).filter(|link| link.is_up())
    }

    /// A link that is up, beginning with that of a number.
    fn direct(&self, number: usize) -> Option<&Arc<Link>> {
        let first = number % self.direct.len();
        let (before, from) = self.direct.split_at(first);
        from.iter().chain(before).find(|link| link.is_up())
    }

    fn is_up(&self) -> bool {
        self.detour.is_up() || self.direct.iter().any(|link| link.is_up())
    }

    fn close(&self) {
        self.direct.iter().chain([&self.detour]).for_each(|link| link.close());
    }
}

/// All nodes, and the route cache. It is replaced as a whole; only leaders change in place.
#[derive(Debug)]
struct View {
    nodes: Vec<Arc<Node>>,
    route_cache: RouteCache,
    shards: Vec<ShardFacts>,
}

impl View {
    fn find(&self, address: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.address == address)
    }
}

/// Where a request goes now.
#[derive(Clone, Debug)]
pub(crate) struct RequestRoute {
    pub link: Arc<Link>,
    pub node: Arc<Node>,
}

/// The nodes as this client knows them.
#[derive(Debug)]
pub(crate) struct Cluster {
    options: Arc<Options>,
    seeds: Vec<String>,
    view: ArcSwap<View>,
    /// Held while the view is replaced.
    replacing: Mutex<()>,
    /// Wakes the task that reads routes.
    news: Arc<Notify>,
    turn: AtomicUsize,
}

impl Cluster {
    /// Reads routes from the first of `seeds` that answers, and keeps them current until it is
    /// dropped.
    pub async fn open(options: Arc<Options>, seeds: Vec<String>) -> Result<Arc<Self>, Error> {
        if seeds.is_empty() {
            return Err(Error::bad("no address of a node"));
        }
        let view =
            View { nodes: Vec::new(), route_cache: RouteCache::unknown(), shards: Vec::new() };
        let cluster = Arc::new(Self {
            options,
            seeds,
            view: ArcSwap::from_pointee(view),
            replacing: Mutex::new(()),
            news: Arc::new(Notify::new()),
            turn: AtomicUsize::new(0),
        });
        match cluster.learn().await {
            Ok(()) => {}
            Err(DialError::Refused(text)) => return Err(Error::bad(text)),
            Err(DialError::Unreachable(text)) => return Err(Error::not_done(Reason::NoNode, text)),
        }
        tokio::spawn(keep_learning(Arc::downgrade(&cluster), cluster.news.clone()));
        Ok(cluster)
    }

    /// The route for a request, unless no node is up. `spread` differs from attempt to attempt.
    pub fn choose_route(&self, slot: Option<Slot>, spread: usize) -> Option<RequestRoute> {
        let view = self.view.load();
        let leader = slot.and_then(|slot| view.route_cache.leader(slot)).map(|at| &view.nodes[at]);
        if let (Some(slot), Some(leader)) = (slot, leader)
            && spread == 0
            && let Some(link) = leader.of_slot(slot)
        {
            return Some(RequestRoute { link: link.clone(), node: leader.clone() });
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let nodes = view.nodes.iter().cycle().skip(turn % view.nodes.len().max(1));
        let nodes = nodes.take(view.nodes.len());
        if view.route_cache.is_unknown() {
            let mut up = nodes.filter_map(|node| Some((node, node.direct(turn)?)));
            return up
                .next()
                .map(|(node, link)| RequestRoute { link: link.clone(), node: node.clone() });
        }
        if slot.is_some() {
            self.news.notify_one();
        }
        // Of a leader whose links are down there is nothing to be had.
        let is_away = |node: &Arc<Node>| leader.is_some_and(|leader| Arc::ptr_eq(leader, node));
        let mut up = nodes.filter(|node| !is_away(node) && node.detour.is_up());
        let node = up.next().or(leader.filter(|leader| leader.detour.is_up()))?;
        Some(RequestRoute { link: node.detour.clone(), node: node.clone() })
    }

    /// A node answered `MOVED`. Returns the route to the new leader, if its link is up.
    pub fn moved(&self, slot: Slot, address: &str) -> Option<RequestRoute> {
        self.news.notify_one();
        if self.view.load().find(address).is_none() {
            self.add(address);
        }
        let view = self.view.load();
        let at = view.find(address)?;
        view.route_cache.adjust(slot, at);
        let node = &view.nodes[at];
        let link = node.of_slot(slot)?;
        Some(RequestRoute { link: link.clone(), node: node.clone() })
    }

    fn add(&self, address: &str) {
        let _one_at_a_time = self.replacing.lock();
        let view = self.view.load_full();
        if view.find(address).is_none() && view.nodes.len() < NODES_MAX {
            let mut nodes = view.nodes.clone();
            nodes.push(self.node(address));
            self.put(nodes, view.shards.clone());
        }
    }

    fn put(&self, nodes: Vec<Arc<Node>>, shards: Vec<ShardFacts>) {
        let find = |address: &str| nodes.iter().position(|node| node.address == address);
        let route_cache = RouteCache::new(&shards, find);
        self.view.store(Arc::new(View { nodes, route_cache, shards }));
    }

    fn node(&self, address: &str) -> Arc<Node> {
        let link = |purpose| {
            let (options, news) = (self.options.clone(), self.news.clone());
            Link::start(address.to_owned(), purpose, options, news)
        };
        let direct = (0..self.options.connections_per_node).map(|_| link(Purpose::Direct));
        let address = address.to_owned();
        Arc::new(Node { address, direct: direct.collect(), detour: link(Purpose::Detour) })
    }

    /// The nodes to ask for what any node can do: each node once, first those that are up, rotated
    /// from call to call.
    pub fn rotated_addresses(&self) -> Vec<String> {
        let view = self.view.load();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut addresses: Vec<&String> = Vec::new();
        let (up, down): (Vec<_>, Vec<_>) = view.nodes.iter().partition(|node| node.is_up());
        if !up.is_empty() {
            let start = turn % up.len();
            addresses.extend(up[start..].iter().chain(&up[..start]).map(|node| &node.address));
        }
        addresses.extend(&self.seeds);
        addresses.extend(down.iter().map(|node| &node.address));
        let firsts = addresses.iter().enumerate();
        let firsts = firsts.filter(|(at, address)| !addresses[..*at].contains(address));
        firsts.map(|(_, address)| (*address).clone()).collect()
    }

    /// Asks one node after the other for all routes, until one answers.
    async fn learn(&self) -> Result<(), DialError> {
        let mut failed = None;
        for address in self.rotated_addresses() {
            match self.ask(&address).await {
                Ok(reply) => {
                    self.learnt(&reply, &address);
                    return Ok(());
                }
                Err(why) => failed = Some(why),
            }
        }
        Err(failed.unwrap_or(DialError::Unreachable("no node is known".into())))
    }

    async fn ask(&self, address: &str) -> Result<Reply, DialError> {
        let limit = self.options.connect_timeout;
        let mut node = dial::dial(address, &self.options, Purpose::Direct, limit).await?;
        node.ask(&[b"CLUSTER", b"SHARDS"], limit).await
    }

    fn learnt(&self, reply: &Reply, asked: &str) {
        let (shards, mut addresses) = parse_shards(reply, asked);
        if addresses.is_empty() {
            // An ordered keyspace, or a node alone: what is known of nodes is what was said.
            addresses = self.seeds.clone();
            addresses.push(asked.to_owned());
            addresses.sort();
            addresses.dedup();
        }
        let _one_at_a_time = self.replacing.lock();
        let view = self.view.load_full();
        let find = |address: &String| view.nodes.iter().find(|node| node.address == *address);
        let mut nodes: Vec<Arc<Node>> = addresses
            .iter()
            .map(|address| find(address).cloned().unwrap_or_else(|| self.node(address)))
            .collect();
        // Those that are told of no more stay until nothing can be under way with them.
        for node in &view.nodes {
            match addresses.contains(&node.address) {
                true => {}
                false if node.is_up() && nodes.len() < NODES_MAX => nodes.push(node.clone()),
                false => node.close(),
            }
        }
        self.put(nodes, shards);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.view.load().nodes.iter().for_each(|node| node.close());
        self.news.notify_one();
    }
}

async fn keep_learning(cluster: Weak<Cluster>, news: Arc<Notify>) {
    loop {
        news.notified().await;
        let Some(alive) = cluster.upgrade() else { return };
        // No node answers: the next request that needs routes wakes this task again.
        let _failed = alive.learn().await;
        let unknown = alive.view.load().route_cache.is_unknown();
        drop(alive);
        sleep(if unknown { UNKNOWN_PAUSE } else { ROUTE_REFRESH_PAUSE }).await;
    }
}

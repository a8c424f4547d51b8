//! The state under the membership driver's one lock: membership, what linked nodes said of
//! themselves, this node's own identity, and effects that are still to be carried out.
//!
//! Nothing here waits, sends or reads a clock: the thread that holds the lock takes the effects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bytes::Bytes;
use keyspace::{DecodeError, NodeId};
use membership::{Effect, FrameError, Load, Membership, News, State};

use super::addresses::AddressBook;
use super::members::MemberInfo;
use super::seeds::SeedStatuses;
use super::{Identity, Options, wall_millis};
use crate::peer::{PeerHello, Refusal};

/// See the front page.
pub struct MembershipState {
    pub membership: Membership,
    /// Effects that are still to be carried out.
    pub effects: Vec<Effect>,
    /// Linked nodes with their introductions; none if a node is no member of this cluster (yet).
    links: BTreeMap<NodeId, Option<Bytes>>,
    /// None until the node has joined.
    pub identity: Option<Identity>,
    /// The identity is durable: this node tells others of itself.
    pub begun: bool,
    pub seed_statuses: SeedStatuses,
    seeds: Vec<String>,
    /// Where all other members are, or were last.
    pub book: AddressBook,
    /// Removed nodes, whatever other members gossip of them.
    removed: BTreeSet<NodeId>,
    /// Nodes that the net has to dial, with addresses.
    pub peers: BTreeMap<NodeId, String>,
    /// The list of members is out of date.
    pub stale: bool,
    /// The list of members has changed, and was not reported yet.
    pub has_unreported_change: bool,
    /// When the thread of members means to look again, in nanoseconds.
    pub planned: u64,
    pub stopping: bool,
    pub refutations: u64,
    pub bad_frames: u64,
}

impl MembershipState {
    /// The state of a node that knows no other; `random` feeds every choice.
    pub fn new(
        options: &Options,
        node: NodeId,
        identity: Option<Identity>,
        random: u64,
    ) -> Result<Self, DecodeError> {
        let joined_at = identity.map_or(0, |identity| identity.joined_at);
        let facts = options.facts(joined_at);
        let membership = Membership::new(node, wall_millis(), facts, 0, random)?;
        Ok(Self {
            membership,
            effects: Vec::new(),
            links: BTreeMap::new(),
            identity,
            begun: false,
            seed_statuses: SeedStatuses::new(&options.seeds),
            seeds: options.seeds.clone(),
            book: AddressBook::new(options.addresses.clone(), node),
            removed: BTreeSet::new(),
            peers: BTreeMap::new(),
            stale: true,
            has_unreported_change: false,
            planned: u64::MAX,
            stopping: false,
            refutations: 0,
            bad_frames: 0,
        })
    }

    /// A link is there.
    pub fn linked(&mut self, now: u64, node: NodeId, hello: &PeerHello) {
        let other = hello
            .cluster_id
            .filter(|there| self.identity.is_some_and(|identity| identity.cluster.id != *there));
        if let Some(there) = other {
            // While this node had no cluster it asked several seeds at once.
            tracing::error!("--join names members of several clusters; {there:016x} is ignored");
        }
        let address = self.book.get(node).map(|address| address.peer.clone());
        self.seed_statuses.linked(address.as_deref());
        let introduction = match (other, hello.cluster_id) {
            (None, Some(_)) => Some(hello.facts.clone()),
            _ => None,
        };
        self.links.insert(node, introduction.clone());
        if let Some(introduction) = introduction {
            self.introduce(now, node, &introduction);
        }
        if let (None, Some(cluster)) = (self.identity, hello.join) {
            // After all that are known, whatever this machine's clock says.
            let latest = self.membership.members().map(|member| member.facts.joined_at).max();
            let joined_at = wall_millis().max(latest.unwrap_or(0) + 1);
            self.identity = Some(Identity { node: self.membership.node(), cluster, joined_at });
            self.change_facts(now, |facts| facts.joined_at = joined_at);
        }
    }

    /// A link is gone.
    pub fn unlinked(&mut self, node: NodeId) {
        self.links.remove(&node);
    }

    /// The identity is durable: linked nodes learn that this node is a member.
    pub fn begin(&mut self, now: u64) {
        assert!(self.identity.is_some(), "a node begins when it knows its cluster");
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        for (node, introduction) in self.links.clone() {
            if let Some(introduction) = introduction {
                self.introduce(now, node, &introduction);
            }
        }
        self.membership.join(now, self.seeds.clone(), &mut self.effects);
    }

    fn introduce(&mut self, now: u64, node: NodeId, introduction: &[u8]) {
        let heard = self.membership.connected(now, node, introduction, &mut self.effects);
        self.count(heard);
    }

    /// A frame about members has come.
    pub fn frame(&mut self, now: u64, from: NodeId, frame: &[u8]) {
        if self.begun {
            let heard = self.membership.step(now, from, frame, &mut self.effects);
            self.count(heard);
        }
    }

    fn count(&mut self, heard: Result<(), FrameError>) {
        if let Err(error) = heard {
            self.bad_frames += 1;
            tracing::warn!("ignored a peer's message about members: {error}");
        }
    }

    /// Lets time pass until `now`.
    pub fn tick(&mut self, now: u64) {
        if self.begun && self.membership.next_deadline().is_some_and(|at| at <= now) {
            self.membership.tick(now, &mut self.effects);
        }
    }

    /// When the next tick is due.
    pub fn deadline(&self) -> u64 {
        match self.begun {
            true => self.membership.next_deadline().unwrap_or(u64::MAX),
            false => u64::MAX,
        }
    }

    /// Whether this node has left, and the others know.
    pub fn has_left(&self) -> bool {
        self.membership.next_deadline().is_none()
    }

    /// Sets this node's load.
    pub fn set_load(&mut self, now: u64, load: Load) {
        self.change_facts(now, |facts| facts.load = load);
    }

    fn change_facts(&mut self, now: u64, change: impl FnOnce(&mut membership::Facts)) {
        let own = self.membership.member(self.membership.node()).expect("we know ourselves");
        let mut facts = own.facts.clone();
        change(&mut facts);
        let taken = self.membership.update_facts(now, facts, &mut self.effects);
        taken.expect("numbers break no limit");
        self.stale = true;
    }

    /// These nodes are no members any more.
    pub fn set_removed(&mut self, now: u64, removed: BTreeSet<NodeId>) {
        self.removed = removed;
        self.stale = true;
        self.forget_removed(now);
    }

    /// Has the membership forget those that were removed, as soon as they are down. Others may
    /// bring one up again that they have not heard of: so this is looked at again and again.
    pub fn forget_removed(&mut self, now: u64) {
        if !self.begun {
            return;
        }
        let me = self.membership.node();
        let is_over = |state| matches!(state, State::Down | State::Left);
        let known = self.membership.members().filter(|member| member.node != me);
        let over = known.filter(|m| is_over(m.state) && self.removed.contains(&m.node));
        let over: Vec<NodeId> = over.map(|member| member.node).collect();
        for node in over {
            let forgotten = self.membership.forget(now, node, &mut self.effects);
            forgotten.expect("it was just seen down");
        }
    }

    /// An address has refused this node.
    pub fn refused(&mut self, address: &str, refusal: &Refusal) -> Option<super::ClusterError> {
        self.seed_statuses.refused(address, refusal, self.identity.as_ref(), Instant::now())
    }

    /// Something has happened to a member. Logs it.
    pub fn news(&mut self, news: News) {
        self.stale = true;
        let name = |node| match self.membership.member(node) {
            Some(member) => format!("{} at {}", member.facts.name, member.facts.peer),
            None => "without a name".to_owned(),
        };
        let id = |node: NodeId| format!("{:016x}", node.0);
        match news {
            News::Up(node) => {
                tracing::info!(node = id(node), "member {} is up", name(node))
            }
            News::Suspect(node) => {
                tracing::debug!(node = id(node), "member {} does not answer", name(node));
            }
            News::Down(node) if self.membership.member(node).is_none() => {
                tracing::debug!(node = id(node), "a member that was removed is down")
            }
            News::Down(node) => {
                tracing::warn!(node = id(node), "member {} is down", name(node))
            }
            News::Left(node) => {
                tracing::info!(node = id(node), "member {} has left", name(node))
            }
            News::Facts(_) => {}
            News::Forgotten(node) => {
                tracing::info!(node = id(node), "the record of a member is dropped")
            }
            News::Refuted(_) => {
                self.refutations += 1;
                tracing::warn!(
                    "other nodes considered this one down: it was paused, overloaded or partitioned"
                );
            }
        }
    }

    /// All members in the order of joining, ourselves among them.
    pub fn members(&self, began: Instant) -> Vec<MemberInfo> {
        let me = self.membership.node();
        let members = self.membership.by_joining().into_iter();
        let members = members.filter(|m| m.node == me || !self.removed.contains(&m.node));
        members.map(|member| MemberInfo::of(&member, began)).collect()
    }

    /// Brings the addresses of all members up to date.
    pub fn update_addresses(&mut self) {
        self.book.update(&self.membership, &self.removed);
    }

    /// Which of these members, or of all, are not up, where each is expected, and what became of
    /// the attempts to reach it there.
    pub fn unreached(&self, among: Option<&BTreeSet<NodeId>>) -> Vec<String> {
        let is_up = |node| {
            let member = self.membership.member(node);
            member.is_some_and(|m| matches!(m.state, State::Alive | State::Suspect))
        };
        let all = || self.book.all().map(|address| address.node).collect();
        let nodes: BTreeSet<NodeId> = among.cloned().unwrap_or_else(all);
        let nodes = nodes.into_iter().filter(|node| *node != self.membership.node());
        nodes.filter(|node| !is_up(*node)).map(|node| self.unreached_one(node)).collect()
    }

    fn unreached_one(&self, node: NodeId) -> String {
        match self.book.get(node) {
            Some(address) => {
                let outcome = self.seed_statuses.outcome(&address.peer);
                format!("{} ({:016x}) at {}: {outcome}", address.name, node.0, address.peer)
            }
            None => {
                format!("node {:016x}, whose address is not known: name it with --join", node.0)
            }
        }
    }

    /// The nodes to keep links with: all members that have not left. If several give one address,
    /// only the one that is up counts: a node that lost its disk comes back under another id.
    /// Members without gossip yet are expected at their last addresses.
    pub fn wanted_peers(&self) -> BTreeMap<NodeId, String> {
        let me = self.membership.node();
        let is_up = |state| matches!(state, State::Alive | State::Suspect);
        let up = self.membership.members().filter(|member| is_up(member.state));
        let taken: BTreeSet<&str> = up.map(|member| member.facts.peer.as_str()).collect();
        let wanted = self.membership.members().filter(|member| {
            let free = member.state == State::Down && !taken.contains(member.facts.peer.as_str());
            let is_there = is_up(member.state) || free;
            let is_other = member.node != me && !self.removed.contains(&member.node);
            is_other && is_there && !member.facts.peer.is_empty()
        });
        let wanted = wanted.map(|member| (member.node, member.facts.peer.clone()));
        let unheard = self.book.all().filter(|address| {
            let is_unheard = self.membership.member(address.node).is_none();
            is_unheard && !taken.contains(address.peer.as_str())
        });
        wanted.chain(unheard.map(|address| (address.node, address.peer.clone()))).collect()
    }
}

//! The last known addresses of other members, and how they get into the directory.
//!
//! A node that starts knows its peers from the file `ADDRESSES` (`storage::addresses`) until gossip
//! tells more. Members that have left or were removed are struck from the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::NodeId;
use membership::{Membership, State};
use storage::addresses::{self, ADDRESSES_MAX, NodeAddress};
use storage::disk::Disk;

use super::MembershipDriver;

/// How long a full disk is left alone.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The last known address of every other member.
#[derive(Debug, Default)]
pub struct AddressBook {
    known: BTreeMap<NodeId, NodeAddress>,
    /// Of these, the ones that gossip has confirmed since the start.
    heard: BTreeSet<NodeId>,
}

impl AddressBook {
    /// The addresses that the directory holds.
    pub fn new(stored: Vec<NodeAddress>, own: NodeId) -> Self {
        let others = stored.into_iter().filter(|one| one.node != own);
        let known = others.map(|one| (one.node, one)).collect();
        Self { known, heard: BTreeSet::new() }
    }

    /// Takes over what gossip knows now.
    pub fn update(&mut self, membership: &Membership, removed: &BTreeSet<NodeId>) {
        let is_member = |node| membership.member(node).is_some_and(|m| m.state != State::Left);
        let Self { known, heard } = self;
        known.retain(|node, _| {
            !removed.contains(node) && (!heard.contains(node) || is_member(*node))
        });
        heard.retain(|node| known.contains_key(node));
        for member in membership.members() {
            let is_other = member.node != membership.node() && !removed.contains(&member.node);
            if !is_other || member.state == State::Left || member.facts.peer.is_empty() {
                continue;
            }
            let (name, peer) = (member.facts.name.clone(), member.facts.peer.clone());
            known.insert(member.node, NodeAddress { node: member.node, name, peer });
            heard.insert(member.node);
        }
        while known.len() > ADDRESSES_MAX {
            let unheard = known.keys().rfind(|node| !heard.contains(node)).copied();
            let last = unheard.or_else(|| known.keys().next_back().copied());
            let last = last.expect("it is too long");
            known.remove(&last);
            heard.remove(&last);
        }
    }

    /// A member's address.
    pub fn get(&self, node: NodeId) -> Option<&NodeAddress> {
        self.known.get(&node)
    }

    /// All, by rising id.
    pub fn all(&self) -> impl Iterator<Item = &NodeAddress> {
        self.known.values()
    }
}

/// The file in the node's directory.
pub struct AddressFile {
    disk: Arc<dyn Disk>,
    cluster: u64,
    /// What was stored last, or found at the start.
    stored: Arc<Vec<NodeAddress>>,
    retry_at: Option<Instant>,
}

impl AddressFile {
    /// For the directory of a node of this cluster.
    pub fn new(disk: Arc<dyn Disk>, cluster: u64) -> Self {
        // A damaged one is replaced, as if it were empty.
        let stored = Arc::new(addresses::load(&*disk, cluster).unwrap_or_default());
        Self { disk, cluster, stored, retry_at: None }
    }

    /// Stores the addresses if they have changed. They are hints: what the disk refuses is logged,
    /// and tried again after a while.
    pub fn save(&mut self, cluster: &MembershipDriver) {
        let addresses = cluster.addresses();
        let waits = self.retry_at.is_some_and(|at| Instant::now() < at);
        if waits || Arc::ptr_eq(&addresses, &self.stored) || addresses == self.stored {
            return;
        }
        match addresses::store(&*self.disk, self.cluster, &addresses) {
            Ok(()) => (self.stored, self.retry_at) = (addresses, None),
            Err(error) => {
                tracing::warn!(
                    "cannot store the addresses of the other members: {error}. No other data is \
                     affected; the node tries again in {} s",
                    RETRY_PAUSE.as_secs()
                );
                self.retry_at = Some(Instant::now() + RETRY_PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use membership::Facts;

    fn address(node: u64, peer: &str) -> NodeAddress {
        NodeAddress { node: NodeId(node), name: format!("n{node}"), peer: peer.into() }
    }

    fn facts(name: &str, peer: &str) -> Facts {
        Facts { name: name.into(), peer: peer.into(), ..Facts::default() }
    }

    fn introduce(to: &mut Membership, node: u64, incarnation: u64, peer: &str) {
        let facts = facts(&format!("n{node}"), peer);
        let other = Membership::new(NodeId(node), incarnation, facts, 0, 1).unwrap();
        let mut effects = Vec::new();
        to.connected(0, NodeId(node), &other.introduction(), &mut effects).unwrap();
    }

    #[test]
    fn stored_addresses_stay_until_gossip_corrects_them_or_the_node_is_removed() {
        let mut membership = Membership::new(NodeId(1), 1, facts("n1", "a:1"), 0, 1).unwrap();
        let stored = vec![address(1, "old:1"), address(2, "b:1"), address(3, "c:1")];
        let mut book = AddressBook::new(stored, NodeId(1));
        let all = |book: &AddressBook| book.all().cloned().collect::<Vec<_>>();
        book.update(&membership, &BTreeSet::new());
        assert_eq!(all(&book), [address(2, "b:1"), address(3, "c:1")], "not itself");
        introduce(&mut membership, 3, 5, "elsewhere:1");
        introduce(&mut membership, 4, 5, "d:1");
        book.update(&membership, &BTreeSet::new());
        let now = [address(2, "b:1"), address(3, "elsewhere:1"), address(4, "d:1")];
        assert_eq!(all(&book), now);
        book.update(&membership, &[NodeId(2), NodeId(3)].into());
        assert_eq!(all(&book), [address(4, "d:1")]);
    }

    #[test]
    fn full_address_book_drops_unconfirmed_addresses() {
        let stored = (10..10 + ADDRESSES_MAX as u64).map(|node| address(node, "x:1")).collect();
        let mut book = AddressBook::new(stored, NodeId(1));
        let mut membership = Membership::new(NodeId(1), 1, facts("n1", "a:1"), 0, 1).unwrap();
        introduce(&mut membership, u64::MAX, 5, "z:1");
        book.update(&membership, &BTreeSet::new());
        assert_eq!(book.all().count(), ADDRESSES_MAX);
        assert!(book.get(NodeId(u64::MAX)).is_some() && book.get(NodeId(10)).is_some());
    }
}

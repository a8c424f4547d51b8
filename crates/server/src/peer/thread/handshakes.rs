//! Steps handshakes until each ends, with a link or without.

use std::sync::Arc;

use keyspace::{NodeId, UnsupportedVersion};
use mio::event::Event;

use super::{Connection, Linked, PeerThread, WARNING_PAUSE};
use crate::peer::dial::Target;
use crate::peer::frame::{Decoder, FRAME_BYTES_MAX};
use crate::peer::handshake::{HandshakeError, PeerHello};
use crate::peer::handshaking::{Ending, Handshaking, Parts, Step};
use crate::peer::links::{Link, PeerHandler};
use crate::peer::outbox::Outbox;
use crate::peer::pieces::Assembly;
use crate::peer::refusal::Refusal;

impl PeerThread {
    pub(super) fn woken(&mut self, at: usize, event: &Event, handler: &dyn PeerHandler) {
        match self.connections.get_mut(at) {
            Some(Connection::Shaking(shaking)) => {
                let step = shaking.step();
                self.shaken(at, step, handler);
            }
            Some(Connection::Linked(linked)) => {
                linked.read_closed |= event.is_read_closed() || event.is_error();
                if event.is_writable() && linked.link.wire.send_rest().is_err() {
                    // The read that follows finds it closed.
                    linked.read_closed = true;
                }
                if event.is_writable() && linked.link.outbox.unblock() {
                    self.shared.touch(&linked.link);
                }
                if event.is_readable() || linked.read_closed {
                    self.enqueue(at);
                }
            }
            None => {}
        }
    }

    fn shaken(&mut self, at: usize, mut step: Step, handler: &dyn PeerHandler) {
        loop {
            step = match step {
                Step::Wait => return,
                Step::Proven(peer) => self.judge(at, &peer, handler),
                Step::Linked(peer, commit) => return self.link(at, &peer, commit, handler),
                Step::Ended(ending) => return self.end(at, &ending, handler),
            }
        }
    }

    pub(super) fn shaking(&mut self, at: usize) -> &mut Handshaking {
        match &mut self.connections[at] {
            Connection::Shaking(shaking) => shaking,
            Connection::Linked(_) => unreachable!("its handshake is not done"),
        }
    }

    /// Whether a node that has proven itself may have a link.
    fn judge(&mut self, at: usize, peer: &PeerHello, handler: &dyn PeerHandler) -> Step {
        let there = self.linked.get(&peer.node).map(|at| &self.connections[*at]);
        let is_another = there.is_some_and(|there| match there {
            // A node that was started anew may come before its end was noticed.
            Connection::Linked(linked) => {
                let silent = self.now.duration_since(linked.heard);
                linked.link.process != peer.process && silent < 2 * self.shared.options.ping
            }
            Connection::Shaking(_) => unreachable!("only links are listed"),
        });
        let local = self.shared.local.load();
        let (supported, version) =
            (local.supported, local.cluster_version.max(peer.cluster_version));
        let is_removed = self.shared.removed.load().contains(&peer.node);
        self.commit += 1;
        let commit = self.commit;
        let shaking = self.shaking(at);
        if is_removed {
            return Step::Ended(shaking.refuse_removed(peer.node));
        }
        // The higher cluster version of the two is right: it is never lowered.
        if let Some(unsupported) =
            version.and_then(|version| UnsupportedVersion::of(version, supported))
        {
            handler.version_unsupported(unsupported);
            return Step::Ended(shaking.refuse_version(unsupported.version, supported));
        }
        if let Some(version) = version.filter(|version| !peer.supported.supports(*version)) {
            let (node, software) = (format!("{:016x}", peer.node.0), &peer.software);
            tracing::warn!(
                node,
                software,
                "a node that supports {} is refused: the cluster is at cluster version {version}",
                peer.supported
            );
            return Step::Ended(shaking.refuse_version(version, peer.supported));
        }
        if is_another {
            return Step::Ended(shaking.refuse(Refusal::SameNodeTwice { node: peer.node }));
        }
        shaking.proceed(peer, commit)
    }

    /// Makes a connection the link to its node.
    fn link(&mut self, at: usize, peer: &PeerHello, commit: u64, handler: &dyn PeerHandler) {
        let node = peer.node;
        if let Some(&there) = self.linked.get(&node) {
            if let Connection::Linked(linked) = &self.connections[there]
                && linked.link.process == peer.process
                && linked.link.commit > commit
            {
                self.connections.remove(at);
                return;
            }
            self.close(there, "replaced by a newer connection", handler);
        }
        self.drop_dials(node, at);
        let Connection::Shaking(shaking) = self.connections.remove(at) else {
            unreachable!("its handshake was not done")
        };
        if let Some(target) = &shaking.target {
            self.targets.done(target);
            self.complaints.remove(&shaking.address);
        }
        let address = shaking.address.clone();
        let Parts { wire, out, rest } = shaking.into_parts();
        let counters = self.shared.counters(node);
        counters.links.add(1);
        let outbox = Outbox::new(self.shared.options.outbox_bytes_max, out);
        let link = Arc::new(Link::new(peer, commit, wire, outbox, counters));
        let linked = Box::new(Linked {
            link: link.clone(),
            decoder: Decoder::new(FRAME_BYTES_MAX, &rest),
            assembly: Assembly::default(),
            heard: self.now,
            pinged: self.now,
            read_closed: false,
            queued: false,
            shut: false,
        });
        // The slot that was freed above: the socket is registered under it.
        let entry = self.connections.vacant_entry();
        assert_eq!(entry.key(), at, "a slot that was freed last is given out first");
        entry.insert(Connection::Linked(linked));
        self.linked.insert(node, at);
        self.targets.linked(node);
        self.shared.links.rcu(|links| {
            let mut links = (**links).clone();
            links.insert(node, link.clone());
            links
        });
        self.shared.touch(&link);
        tracing::info!(
            node = format!("{:016x}", node.0),
            address,
            software = peer.software,
            "connected to a peer"
        );
        self.delivered = true;
        handler.connected(node, peer);
        self.enqueue(at);
    }

    /// Ends this node's attempts to dial a node that is linked now, but the one that did it.
    fn drop_dials(&mut self, node: NodeId, but: usize) {
        let wanted = Some(Target::Peer(node));
        let own = self.connections.iter().filter_map(|(at, connection)| match connection {
            Connection::Shaking(shaking) => {
                let other = at != but && shaking.target == wanted;
                (other && shaking.is_undecided()).then_some(at)
            }
            Connection::Linked(_) => None,
        });
        for at in own.collect::<Vec<usize>>() {
            self.connections.remove(at);
        }
    }

    /// A handshake has ended without a link.
    pub(super) fn end(&mut self, at: usize, ending: &Ending, handler: &dyn PeerHandler) {
        let Connection::Shaking(shaking) = self.connections.remove(at) else {
            unreachable!("its handshake was not done")
        };
        let Some(target) = shaking.target else {
            return self.warn(&shaking.address, ending);
        };
        let refusal = match ending {
            Ending::Handshake(error) => Some(error.refusal()),
            Ending::Tls(_) | Ending::Socket(_) => None,
        };
        if let (Target::Seed(_), Some(Refusal::Linked)) = (&target, refusal) {
            return self.targets.done(&target);
        }
        match refusal {
            Some(refusal) => {
                match refusal {
                    // Two nodes have dialled each other at the same moment: all is well.
                    Refusal::Linked => tracing::debug!(address = shaking.address, "{ending}"),
                    _ => self.log_dial_failure(&shaking.address, &ending.to_string()),
                }
                handler.refused(&shaking.address, refusal);
            }
            None => self.unreachable(&shaking.address, &ending.to_string(), handler),
        }
        match (&target, refusal) {
            (Target::Seed(_), Some(Refusal::OwnAddress { .. })) => self.targets.done(&target),
            _ => self.failed(&target),
        }
    }

    /// Logs that a stranger was refused; not what port scanners leave, and not all of it.
    fn warn(&mut self, address: &str, ending: &Ending) {
        let quiet = match ending {
            Ending::Handshake(error) => {
                matches!(error.refusal(), Refusal::Malformed | Refusal::TooSlow | Refusal::Linked)
            }
            // What port scanners send is no TLS, either.
            Ending::Tls(rustls::Error::InvalidMessage(_)) | Ending::Socket(_) => true,
            Ending::Tls(_) => false,
        };
        let lately = self.warned.is_some_and(|warned| self.now < warned + WARNING_PAUSE);
        if !quiet && !lately {
            self.warned = Some(self.now);
            match ending {
                Ending::Handshake(error @ HandshakeError::Refused(_)) => {
                    tracing::warn!(address, "a node is {error}");
                }
                Ending::Handshake(error @ HandshakeError::RefusedByPeer(_)) => {
                    tracing::warn!(address, "{error}");
                }
                Ending::Tls(rustls::Error::AlertReceived(_)) => {
                    tracing::warn!(address, "{ending}");
                }
                Ending::Tls(_) | Ending::Socket(_) => {
                    tracing::warn!(address, "a node is refused: {ending}");
                }
            }
        }
    }
}

//! Accepts connections, and dials peers and seeds.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::{ACCEPT_MAX, Connection, LookUp, PeerThread};
use crate::peer::dial::Target;
use crate::peer::draw;
use crate::peer::handshake::ExpectedPeer;
use crate::peer::handshaking::Handshaking;
use crate::peer::links::{PeerCommand, PeerHandler};
use crate::peer::resolve;
use crate::peer::wire::Wire;

impl PeerThread {
    pub(super) fn accept(&mut self) {
        self.accept_again = false;
        for _ in 0..ACCEPT_MAX {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, address)) => self.welcome(stream, address),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of descriptors: the next tick tries again.
                    tracing::warn!("cannot accept connections of peers now: {error}");
                    break;
                }
            }
        }
        self.accept_again = true;
    }

    fn welcome(&mut self, stream: TcpStream, address: SocketAddr) {
        let Ok(nonce) = draw() else { return };
        let strangers = self.connections.iter().filter_map(|(at, connection)| match connection {
            Connection::Shaking(shaking) if shaking.target.is_none() => Some((shaking.began, at)),
            _ => None,
        });
        let (count, oldest) = strangers.fold((0, None), |(count, oldest), stranger| {
            (count + 1, Some(oldest.map_or(stranger, |oldest| stranger.min(oldest))))
        });
        if count >= self.shared.options.half_open_max
            && let Some((_, at)) = oldest
        {
            self.connections.remove(at);
        }
        let local = (**self.shared.local.load()).clone();
        match Wire::accept(stream, self.shared.tls.as_ref()) {
            Ok(wire) => {
                let address = address.to_string();
                self.add(Handshaking::accept(local, wire, address, nonce, self.now));
            }
            Err(error) => tracing::warn!("a connection of a peer is closed: {error}"),
        }
    }

    /// Watches a connection. False if the system refuses to.
    fn add(&mut self, mut shaking: Handshaking) -> bool {
        // Frames go out as they are; without this they may wait for an acknowledgement.
        let socket = shaking.wire().socket_mut();
        let _unsupported = socket.set_nodelay(true);
        let entry = self.connections.vacant_entry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(entry.key());
        if let Err(error) = self.poll.registry().register(socket, token, interest) {
            tracing::warn!("cannot watch a connection of a peer, so it is closed: {error}");
            return false;
        }
        entry.insert(Connection::Shaking(Box::new(shaking)));
        true
    }

    pub(super) fn dial_due(&mut self, handler: &dyn PeerHandler) {
        while let Some((target, address, failures)) = self.targets.take_due(self.now) {
            match resolve::numeric(&address) {
                Some(socket) => self.dial(target, address, socket, handler),
                None => {
                    let number = self.next_look_up;
                    self.next_look_up += 1;
                    resolve::look_up(&self.shared, number, address.clone());
                    self.look_ups.insert(number, LookUp { target, address, failures });
                }
            }
        }
    }

    fn dial(
        &mut self,
        target: Target,
        address: String,
        socket: SocketAddr,
        handler: &dyn PeerHandler,
    ) {
        if let Target::Peer(node) = target
            && self.linked.contains_key(&node)
        {
            return;
        }
        let expected = match target {
            Target::Peer(node) => ExpectedPeer::Node(node),
            Target::Seed(_) => {
                let links = self.shared.links.load();
                ExpectedPeer::AnyBut(links.values().map(|link| (link.node, link.process)).collect())
            }
        };
        let local = (**self.shared.local.load()).clone();
        let dialled = draw().and_then(|nonce| {
            let (target, address) = (target.clone(), address.clone());
            let wire = Wire::dial(socket, self.shared.tls.as_ref())?;
            let now = self.now;
            Ok(Handshaking::dial(local, target, expected, wire, address, nonce, now))
        });
        let watched = dialled.map(|shaking| self.add(shaking)).unwrap_or_else(|error| {
            self.unreachable(&address, &error.to_string(), handler);
            false
        });
        if !watched {
            self.failed(&target);
        }
    }

    pub(super) fn answer_asks(&mut self, handler: &dyn PeerHandler) {
        let asks = std::mem::take(&mut *self.shared.asks.lock());
        if asks.is_empty() || self.shared.stopping.load(Ordering::Acquire) {
            return;
        }
        for ask in asks {
            match ask {
                PeerCommand::Peers(peers) => {
                    let linked = |node| self.linked.contains_key(&node);
                    self.targets.set_peers(peers, self.now, linked);
                }
                PeerCommand::Seed(address) => self.targets.add_seed(address, self.now),
                PeerCommand::Resolved { ask, found } => self.resolved(ask, found, handler),
            }
        }
        self.dial_due(handler);
        self.read_queued(handler);
    }

    fn resolved(
        &mut self,
        ask: u64,
        found: io::Result<Vec<SocketAddr>>,
        handler: &dyn PeerHandler,
    ) {
        let Some(LookUp { target, address, failures }) = self.look_ups.remove(&ask) else { return };
        match found {
            // Each attempt takes the next of a name's addresses.
            Ok(all) if !all.is_empty() => {
                self.dial(target, address, all[failures as usize % all.len()], handler);
            }
            found => {
                let why = found.err().map_or_else(|| "no address".into(), |e| e.to_string());
                self.unreachable(&address, &format!("cannot look up {address}: {why}"), handler);
                self.failed(&target);
            }
        }
    }

    pub(super) fn failed(&mut self, target: &Target) {
        let random = self.draw();
        self.targets.failed(target, self.now, random);
        if let Target::Peer(node) = target {
            self.shared.counters(*node).dials_failed.add(1);
        }
    }

    pub(super) fn unreachable(&mut self, address: &str, why: &str, handler: &dyn PeerHandler) {
        self.log_dial_failure(address, why);
        handler.unreachable(address, why);
    }

    /// Logs why an address cannot be linked, unless that was said last.
    pub(super) fn log_dial_failure(&mut self, address: &str, why: &str) {
        if self.complaints.get(address).is_none_or(|last| last != why) {
            tracing::warn!(address, "cannot connect to a peer, and tries again: {why}");
            self.complaints.insert(address.to_owned(), why.to_owned());
        }
    }
}

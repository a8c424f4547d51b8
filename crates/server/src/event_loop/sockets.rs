//! Accepts and closes connections.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::connection::{Connection, Protocol};
use super::state::{ConnectionState, WaitsFor};
use super::transport::Transport;
use super::volumes::VolumeSession;
use super::{EventLoop, LISTENERS, NewConnection};
use crate::listeners::{self, Listener, TransportKind};
use crate::runtime::mailbox::Mail;
use crate::tls::HANDSHAKE_MS;
use gateway::access::Principal;
use gateway::resp::{ArgRanges, Peer, Session};

/// Connections accepted in a row before those that are there have their turn.
const ACCEPT_MAX: usize = 64;

impl EventLoop {
    /// Accepts what is waiting, and spreads it over the loops.
    pub(super) fn accept(&mut self, place: usize) {
        for _ in 0..ACCEPT_MAX {
            let listener = self.listeners.get(place).filter(|_| self.accepting);
            let Some((listener, socket)) = listener else { return };
            match socket.accept() {
                Ok((stream, _)) => self.welcome(stream, listener.clone()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of descriptors: clients wait in the backlog until one is free.
                    tracing::warn!("cannot accept connections now: {error}");
                    std::thread::sleep(Duration::from_millis(10));
                    break;
                }
            }
        }
        // The listener is edge-triggered, and there may be more.
        let (token, registry) = (Token(LISTENERS + place), self.poll.registry());
        if let Some((_, socket)) = self.listeners.get_mut(place)
            && let Err(error) = registry.reregister(socket, token, Interest::READABLE)
        {
            tracing::error!("cannot listen any more: {error}; restart the node");
        }
    }

    fn welcome(&mut self, stream: TcpStream, listener: Arc<Listener>) {
        let counters = &self.runtime.counters;
        counters.connections_accepted.add(1);
        if counters.connections.get() >= self.config.connections_max {
            counters.connections_rejected.add(1);
            // As a courtesy; the socket is closed either way. By TLS it would take a handshake.
            if listener.transport == TransportKind::Plain {
                let mut socket = stream;
                let _refused = io::Write::write(&mut socket, listener.protocol.too_many());
            }
            return;
        }
        counters.connections.add(1);
        let id = self.clients.next_id();
        let (stream, mode) = (std::net::TcpStream::from(stream), self.config.resp_mode);
        let new = NewConnection { stream, listener, id, is_own: false, mode };
        let target = self.next_loop % self.runtime.delivery.mailboxes.len();
        self.next_loop += 1;
        if target == self.number {
            self.adopt(new);
        } else if !self.runtime.delivery.mailboxes[target].post(Mail::Connection(new)) {
            // Its loop has ended already: the node stops.
            counters.connections.sub(1);
        }
    }

    /// Takes a connection as its own.
    pub(super) fn adopt(&mut self, new: NewConnection) {
        let listener = new.listener;
        let transport = Transport::new(listener.transport, self.tls.as_deref(), new.stream);
        let mut transport = match transport {
            Ok(transport) => transport,
            Err(error) => {
                tracing::warn!("a connection by TLS is closed: {error}");
                return self.runtime.counters.connections.sub(1);
            }
        };
        // Nothing of it is read before its client has shown the certificate.
        let is_certain = transport.is_tls() && self.config.tls_client_ca_file.is_some();
        let asks = self.gate.is_some();
        let principal = match transport.peer_addr() {
            _ if new.is_own => Principal::Local,
            _ if asks && is_certain => Principal::Authenticated,
            _ if asks => Principal::Stranger,
            Ok(addr) if addr.ip().to_canonical().is_loopback() => Principal::Local,
            _ => Principal::Anonymous,
        };
        let peer = Peer {
            principal,
            addr: transport.peer_addr().map_or_else(|_| "?".into(), |a| a.to_string()),
            laddr: transport.local_addr().map_or_else(|_| "?".into(), |a| a.to_string()),
            fd: transport.fd(),
            is_tls: transport.is_tls(),
        };
        let entry = self.connections.vacant_entry();
        if let Err(error) = transport.register(self.poll.registry(), Token(entry.key())) {
            tracing::warn!("cannot watch a connection, so it is closed: {error}");
            if !new.is_own {
                self.runtime.counters.connections.sub(1);
            }
            return;
        }
        let protocol = match listener.protocol {
            listeners::Protocol::Native => Protocol::Native,
            listeners::Protocol::Nbd => {
                let tls = self.config.nbd_tls.offer();
                Protocol::Volume(Box::new(VolumeSession::new(tls)))
            }
            listeners::Protocol::Http | listeners::Protocol::Peer => {
                unreachable!("the loops have no such listeners")
            }
            listeners::Protocol::Resp | listeners::Protocol::RespReplica => {
                if !new.is_own {
                    self.clients.add(new.id, (self.number, entry.key()), &peer);
                }
                let now_millis = self.runtime.clock.millis();
                let mut session =
                    Session::new(new.id, peer, self.limits, listener.lookup, now_millis);
                if listener.protocol == listeners::Protocol::RespReplica {
                    session.serve_as_replica();
                }
                self.clients.describe(new.id, session.describe(now_millis, 0, 0, 0));
                Protocol::Resp(Box::new(session), ArgRanges::new())
            }
        };
        let mut connection =
            Connection::new(new.id, principal, transport, protocol, self.runtime.clock.millis());
        (connection.is_own, connection.mode) = (new.is_own, new.mode);
        if let Protocol::Volume(_) = connection.protocol {
            connection.output.bytes.extend_from_slice(&gateway::nbd::GREETING);
        }
        // Accepted by another loop when this one had begun to stop already.
        if self.runtime.lifecycle.is_stopping() {
            connection.advance(ConnectionState::Ended);
        }
        let at = entry.key();
        entry.insert(Some(Box::new(connection)));
        self.enqueue(at);
    }

    /// Lets go of a connection that is finished.
    pub(super) fn forget(&mut self, at: usize, connection: &Connection) {
        self.connections.remove(at);
        self.leave_retry_queue(at);
        if let Protocol::Resp(session, _) = &connection.protocol {
            self.end_subscriptions(at, session.subscriptions());
        }
        self.forget_output(connection);
        self.clients.remove(connection.id);
        if let Some(tracking) = &connection.tracking {
            self.runtime.tracking.forget(tracking.client);
        }
        if !connection.is_own {
            self.runtime.counters.connections.sub(1);
        }
    }

    /// Whether there are connections that may be silent for too long.
    pub(super) fn sweeps(&self) -> bool {
        self.config.idle_timeout_ms > 0 || self.tls.is_some()
    }

    /// Closes connections that were silent for too long.
    pub(super) fn sweep(&mut self) {
        let now = self.runtime.clock.millis();
        let limit = self.config.idle_timeout_ms;
        // As in Redis: messages may come at any time.
        let subscribes = |connection: &Connection| {
            matches!(&connection.protocol, Protocol::Resp(session, _)
                if !session.subscriptions().is_empty())
        };
        // Who has not said who he is may not stay.
        let is_late = |connection: &Connection| {
            connection.transport.is_handshaking()
                && now.saturating_sub(connection.active_millis) > HANDSHAKE_MS
        };
        let idle = |connection: &Connection| {
            is_late(connection)
                || limit > 0
                    && connection.pending.is_empty()
                    && !connection.is_own
                    && !subscribes(connection)
                    && connection.next.waits_for == WaitsFor::Nothing
                    && now.saturating_sub(connection.active_millis) > limit
        };
        let idle: Vec<usize> = self
            .connections
            .iter_mut()
            .filter_map(|(at, slot)| slot.as_mut().filter(|c| idle(c)).map(|c| (at, c)))
            .map(|(at, connection)| {
                connection.advance(ConnectionState::Closing);
                // Who does not take his replies either would be waited for for ever.
                if connection.unsent() > 0 {
                    connection.advance(ConnectionState::Broken);
                }
                at
            })
            .collect();
        idle.into_iter().for_each(|at| self.enqueue(at));
    }

    /// Stops accepting, and has every connection closed when it is owed nothing. Until when to
    /// wait for that.
    pub(super) fn begin_to_stop(&mut self) -> Instant {
        self.accepting = false;
        let all: Vec<usize> = self.connections.iter().map(|(at, _)| at).collect();
        for at in all {
            if let Some(connection) = &mut self.connections[at] {
                // What was received whole is run, though it may wait for replies owed before it;
                // what was not, is not done.
                connection.advance(ConnectionState::Ended);
            }
            self.enqueue(at);
        }
        self.runtime.lifecycle.begin_stop();
        Instant::now() + Duration::from_millis(self.config.shutdown_timeout_ms)
    }
}

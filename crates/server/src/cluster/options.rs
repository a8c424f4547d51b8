//! Options of the membership driver.

use std::net::SocketAddr;
use std::sync::Arc;

use keyspace::VersionRange;
use membership::Facts;
use storage::addresses::NodeAddress;

use crate::config::Config;
use crate::peer::{self, Secret, VERSIONS};
use crate::tls::PeerTls;

/// Options of the membership driver: this node's own facts, its seeds, and the secret.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name, for people.
    pub name: String,
    /// The host that clients and other nodes get as this node's address.
    pub host: String,
    /// `HOST:PORT` where other nodes reach this one.
    pub peer: String,
    /// What the node shares a fate with; empty: unknown.
    pub domain: String,
    /// The port of RESP, if it listens.
    pub resp: Option<u16>,
    /// The port of RESP for clients that ask for replicas, if it listens.
    pub resp_replica: Option<u16>,
    /// The port of the native protocol, if it listens.
    pub native: Option<u16>,
    /// The port of HTTP, if it listens.
    pub http: Option<u16>,
    /// The port of RESP by TLS, if it listens.
    pub resp_tls: Option<u16>,
    /// The port of HTTP by TLS, if it listens.
    pub http_tls: Option<u16>,
    /// Peer addresses of members to ask.
    pub seeds: Vec<String>,
    /// Last addresses of the other members, from the node's directory: they are dialled as well.
    pub addresses: Vec<NodeAddress>,
    /// The cluster versions that it supports.
    pub supported: VersionRange,
    /// What all nodes of the cluster know.
    pub secret: Secret,
    /// Its certificate for other nodes, if links are encrypted.
    pub tls: Option<Arc<PeerTls>>,
    /// Limits and periods of the links.
    pub net: peer::Options,
}

impl Options {
    /// Options of a checked configuration whose listeners are bound, so that it holds their real
    /// ports. `peer` is the address of the peer listener.
    pub fn new(config: &Config, peer: SocketAddr, secret: Secret) -> Self {
        let (host, peer) = config.advertised(peer).expect("checked with the configuration");
        let port = |listen: crate::config::Listen| listen.address().map(|address| address.port());
        Self {
            name: config.name.clone(),
            host,
            peer,
            domain: config.domain.clone(),
            resp: config.resp_port_advertised(),
            resp_replica: config.resp_replica_port_advertised(),
            native: port(config.native),
            http: port(config.http),
            resp_tls: port(config.resp_tls),
            http_tls: port(config.http_tls),
            seeds: config.join.clone(),
            addresses: Vec::new(),
            supported: config.supported_versions(),
            secret,
            tls: None,
            net: peer::Options::default(),
        }
    }

    /// The program and its version, as sent to other nodes.
    pub(super) fn software() -> String {
        format!("carillon {}", env!("CARGO_PKG_VERSION"))
    }

    pub(super) fn facts(&self, joined_at: u64) -> Facts {
        Facts {
            name: self.name.clone(),
            peer: self.peer.clone(),
            advertised: self.host.clone(),
            domain: self.domain.clone(),
            software: Self::software(),
            resp: self.resp,
            resp_replica: self.resp_replica,
            native: self.native,
            http: self.http,
            resp_tls: self.resp_tls,
            http_tls: self.http_tls,
            protocol_lowest: VERSIONS.lowest as u8,
            protocol_highest: VERSIONS.highest as u8,
            supported: self.supported,
            joined_at,
            ..Facts::default()
        }
    }
}

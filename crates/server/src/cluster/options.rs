//! What does a cluster's edge need to be told?

use std::net::SocketAddr;

use keyspace::VersionRange;
use membership::Facts;
use storage::addresses::NodeAddress;

use crate::config::Config;
use crate::peer::{self, Secret, VERSIONS};

/// What this node says of itself, whom it asks, and by what they know each other.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name, for people.
    pub name: String,
    /// The host that clients and other nodes are told.
    pub host: String,
    /// `HOST:PORT` where other nodes reach this one.
    pub peer: String,
    /// What the node shares a fate with; empty: unknown.
    pub domain: String,
    /// The port of RESP, if it listens.
    pub resp: Option<u16>,
    /// The port of the native protocol, if it listens.
    pub native: Option<u16>,
    /// The port of HTTP, if it listens.
    pub http: Option<u16>,
    /// Peer addresses of members to ask.
    pub seeds: Vec<String>,
    /// Where the other members were last, as the node's directory says: they are dialled as well.
    pub addresses: Vec<NodeAddress>,
    /// The cluster versions that it speaks.
    pub levels: VersionRange,
    /// What all nodes of the cluster know.
    pub secret: Secret,
    /// Limits and periods of the links.
    pub net: peer::Options,
}

impl Options {
    /// As a configuration says that has passed its check, whose listeners are bound: their real
    /// ports are in it. `peer` is where the peer listener is.
    pub fn new(config: &Config, peer: SocketAddr, secret: Secret) -> Self {
        let (host, peer) = config.advertised(peer).expect("checked with the configuration");
        let port = |listen: crate::config::Listen| listen.address().map(|address| address.port());
        Self {
            name: config.name.clone(),
            host,
            peer,
            domain: config.domain.clone(),
            resp: config.resp_port_advertised(),
            native: port(config.native),
            http: port(config.http),
            seeds: config.join.clone(),
            addresses: Vec::new(),
            levels: config.levels(),
            secret,
            net: peer::Options::default(),
        }
    }

    /// The program and its version, as others are told.
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
            native: self.native,
            http: self.http,
            protocol_lowest: VERSIONS.lowest as u8,
            protocol_highest: VERSIONS.highest as u8,
            levels: self.levels,
            joined_at,
            ..Facts::default()
        }
    }
}

//! Resolves HOST:PORT on a thread of its own, since the system may take seconds to answer.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use super::links::{PeerCommand, Shared};

/// The address, if it is written as numbers.
pub fn numeric(address: &str) -> Option<SocketAddr> {
    address.parse().ok()
}

/// Looks a name up; the peer thread gets the result as [`PeerCommand::Resolved`].
pub fn look_up(shared: &Arc<Shared>, ask: u64, address: String) {
    let answer = shared.clone();
    let spawned = thread::Builder::new().name("peer-names".into()).spawn(move || {
        let found = address.to_socket_addrs().map(Iterator::collect);
        answer.ask(PeerCommand::Resolved { ask, found });
    });
    if let Err(error) = spawned {
        shared.ask(PeerCommand::Resolved { ask, found: Err(error) });
    }
}

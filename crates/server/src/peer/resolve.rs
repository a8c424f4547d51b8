//! Where is HOST:PORT? Asking may take seconds, so another thread waits for the answer.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use super::links::{PeerCommand, Shared};

/// The address, if it is written as numbers.
pub fn numeric(address: &str) -> Option<SocketAddr> {
    address.parse().ok()
}

/// Has a name looked up; the peer thread is told as [`PeerCommand::Resolved`].
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

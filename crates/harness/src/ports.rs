//! Finds free addresses for processes to listen on.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// An address of this machine that nobody listens on, below those that the system gives to clients:
/// one of these could take it before the process does. No two are the same within a process; tests
/// that run at the same time begin at other places.
pub fn unused() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let from = std::process::id() % 300 * 20;
    loop {
        let port = 25_000 + (from + NEXT.fetch_add(1, Ordering::Relaxed)) % 7_000;
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// A port below those of [`unused`], from which on nobody listens on any of `count` ports at each
/// of these distances. No two are the same within a process.
pub fn base(distances: &[u16], count: u16) -> u16 {
    const APART: u16 = 16;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = 8_000 + (std::process::id() % 700) as u16 * APART;
    loop {
        let base = first + NEXT.fetch_add(u32::from(APART), Ordering::Relaxed) as u16;
        let all = distances.iter().flat_map(|from| (0..count).map(move |port| base + from + port));
        if all.map(|port| TcpListener::bind(("127.0.0.1", port))).all(|bound| bound.is_ok()) {
            return base;
        }
    }
}

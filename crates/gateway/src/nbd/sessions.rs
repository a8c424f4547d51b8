//! Which connections to a volume are one session of writers (SAFETY G28)?
//!
//! The protocol does not say which connections are of one client. So a client may name its session
//! in the export, `disk@session=NAME`: all connections of that name are one session, whichever node
//! they come to. Of those that name none, a node takes these for one session: they come from one
//! address, each within [`JOIN_MILLIS`] of the first, and before any of them writes.
//!
//! ```text
//!   nbdcopy --connections=4     1 ─ 2 ─ 3 ─ 4 ─ first write ──────────────►   one session
//!   another client, later                                   5 ─ first write   another session
//! ```
//!
//! Clients with several connections open them all before they write, and those that open more while
//! they write have to name a session. So does a client that uses several nodes at once.
//!
//! Which session writes is not decided here, but by the shards ([`command::Fence`]).

use std::collections::BTreeMap;
use std::net::IpAddr;

use command::{Claim, Epochs, Writer};
use keyspace::KeyspaceId;
use keyspace::linear_hash::hash64;

/// How long connections without a name join a session.
pub const JOIN_MILLIS: u64 = 5_000;
/// What begins the name of a session in that of an export, behind `@`.
pub const SESSION_PREFIX: &str = "session=";
/// The longest name of a session.
pub const SESSION_NAME_BYTES_MAX: usize = 255;

/// What distinguishes sessions with names from those without.
const NAMED: u64 = 1 << 63;

/// The sessions of a node that connections may still join.
#[derive(Debug, Default)]
pub struct WriterSessions {
    open: BTreeMap<(KeyspaceId, IpAddr), OpenSession>,
    epochs: Epochs,
}

#[derive(Clone, Copy, Debug)]
struct OpenSession {
    session: u64,
    since_ms: u64,
}

/// Now, as a node says it.
#[derive(Clone, Copy, Debug)]
pub struct SessionTime {
    /// A timestamp that nothing else has.
    pub tick: u64,
    /// The time in milliseconds.
    pub millis: u64,
    /// Which node it is.
    pub node: u64,
}

impl WriterSessions {
    /// A connection from this address has chosen a volume, and may name its session.
    pub fn claim(
        &mut self,
        volume: KeyspaceId,
        address: IpAddr,
        name: Option<&str>,
        now: SessionTime,
    ) -> Claim {
        self.open.retain(|_, open| now.millis.saturating_sub(open.since_ms) <= JOIN_MILLIS);
        let epoch = self.epochs.next(now.tick);
        if let Some(name) = name {
            let session = hash64(name.as_bytes()) | NAMED;
            return Claim::new(Writer { epoch, session });
        }
        let open = self.open.entry((volume, address.to_canonical())).or_insert_with(|| {
            let mut unique = [0; 16];
            unique[..8].copy_from_slice(&now.node.to_le_bytes());
            unique[8..].copy_from_slice(&epoch.to_le_bytes());
            let session = (hash64(&unique) & !NAMED).max(1);
            OpenSession { session, since_ms: now.millis }
        });
        Claim::new(Writer { epoch, session: open.session })
    }

    /// A connection of this session is going to write: nobody joins it any more.
    pub fn begins_to_write(&mut self, writer: Writer) {
        self.open.retain(|_, open| open.session != writer.session);
    }

    /// As [`Epochs::saw`].
    pub fn saw(&mut self, epoch: u64) {
        self.epochs.saw(epoch);
    }
}

/// Whether a session may be called so.
///
/// # Errors
/// Why not.
pub fn check_session_name(name: &str) -> Result<(), String> {
    match (1..=SESSION_NAME_BYTES_MAX).contains(&name.len()) {
        true => Ok(()),
        false => Err(format!("the name of a session has 1 to {SESSION_NAME_BYTES_MAX} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const DISK: KeyspaceId = KeyspaceId(7);
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Sessions of a node, and its clock in milliseconds.
    struct Node(WriterSessions, u64, u64);

    impl Node {
        fn come(&mut self, from: IpAddr, name: Option<&str>) -> Writer {
            self.2 += 1;
            let now = SessionTime { tick: (self.1 << 16) + self.2, millis: self.1, node: 3 };
            self.0.claim(DISK, from, name, now).writer()
        }
    }

    #[test]
    fn connections_before_the_first_write_are_one_session() {
        let mut node = Node(WriterSessions::default(), 1_000, 0);
        let first = node.come(HERE, None);
        node.1 += JOIN_MILLIS;
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        for more in [node.come(HERE, None), node.come(mapped, None)] {
            assert!(more.session == first.session && more.epoch > first.epoch);
        }
        let other = node.come(IpAddr::V6(Ipv6Addr::LOCALHOST), None);
        assert!(other.session != first.session && other.epoch > first.epoch);
        let other_volume = SessionTime { tick: 1 << 40, millis: node.1, node: 3 };
        let elsewhere = node.0.claim(KeyspaceId(8), HERE, None, other_volume).writer();
        assert_ne!(elsewhere.session, first.session);

        node.0.begins_to_write(first);
        let second = node.come(HERE, None);
        assert!(second.session != first.session && second.epoch > first.epoch);
        node.1 += JOIN_MILLIS + 1;
        assert_ne!(node.come(HERE, None).session, second.session, "it has come too late");
        assert_eq!(node.0.open.len(), 1, "what nobody joins any more is forgotten");
    }

    #[test]
    fn name_makes_connections_to_any_node_one_session() {
        let (mut one, mut two) = (WriterSessions::default(), WriterSessions::default());
        let now = |node| SessionTime { tick: 100 + node, millis: 5, node };
        let first = one.claim(DISK, HERE, Some("a"), now(1)).writer();
        one.begins_to_write(first);
        let second = two.claim(DISK, HERE, Some("a"), now(2)).writer();
        assert!(first.session == second.session && first.epoch != second.epoch);
        assert_ne!(one.claim(DISK, HERE, Some("b"), now(3)).writer().session, first.session);
        assert_ne!(one.claim(DISK, HERE, None, now(4)).writer().session & NAMED, NAMED);
        assert!(check_session_name("a").is_ok());
        assert!(check_session_name("").is_err() && check_session_name(&"a".repeat(256)).is_err());
    }

    #[test]
    fn next_connection_is_newer_than_what_has_refused_one() {
        let mut node = Node(WriterSessions::default(), 1_000, 0);
        let first = node.come(HERE, None);
        let ahead = first.epoch + (1 << 40);
        node.0.saw(ahead);
        node.0.begins_to_write(first);
        let next = node.come(HERE, None);
        assert!(next.epoch > ahead);
        assert!(node.come(HERE, Some("a")).epoch > next.epoch);
    }
}

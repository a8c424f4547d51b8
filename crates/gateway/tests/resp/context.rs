//! A fake server whose time stands still, and a client of it.

use gateway::resp::{
    ArgRanges, ClientFacts, ClusterFacts, Context, Facts, KeyspaceFacts, Parsed, Peer, Request,
    RequestLimits, Session, parse,
};

/// What the clock says.
pub const NOW_MILLIS: u64 = 1_700_000_000_123;

/// A server without surprises.
pub struct Still;

impl Context for Still {
    fn now_millis(&self) -> u64 {
        NOW_MILLIS
    }

    fn keyspace_exists(&self, name: &[u8]) -> bool {
        name == b"orders"
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            carillon_version: "0.1.0",
            node_id: "0123456789abcdef0123456789abcdef01234567",
            durability: "sync",
            port: 6379,
            started_millis: NOW_MILLIS - 5_000,
            clients: 2,
            memory_used_bytes: 1 << 20,
            cluster_id: 0xaa,
            cluster: ClusterFacts {
                members_up: 2,
                members_down: 1,
                companions: 1,
                health: "degraded",
                ..ClusterFacts::default()
            },
            ..Facts::default()
        }
    }

    fn each_keyspace(&self, show: &mut dyn FnMut(KeyspaceFacts<'_>)) {
        show(KeyspaceFacts { name: "0", keys: 3, expires: 1, average_ttl_ms: 7 });
        show(KeyspaceFacts { name: "1", keys: 0, expires: 0, average_ttl_ms: 0 });
        show(KeyspaceFacts { name: "orders", keys: 0, expires: 0, average_ttl_ms: 0 });
    }

    fn each_other_client(&self, show: &mut dyn FnMut(ClientFacts<'_>)) {
        show(ClientFacts { id: 3, addr: "10.0.0.3:5", laddr: "10.0.0.1:6379", line: "id=3 other" });
    }
}

/// A new connection.
pub fn session() -> Session {
    let principal = gateway::access::Principal::Anonymous;
    let (addr, laddr) = ("10.0.0.7:5".into(), "10.0.0.1:6379".into());
    let peer = Peer { addr, laddr, fd: 9, principal, is_tls: false };
    Session::new(7, peer, RequestLimits::default(), Default::default(), NOW_MILLIS - 2_000)
}

/// Sends one inline command, and shows the request as `{:?}` and the bytes of the reply.
pub fn send(session: &mut Session, line: &[u8]) -> (String, Vec<u8>) {
    send_bytes(session, &[line, b"\r\n"].concat())
}

/// As [`send`], of a command in whatever form.
pub fn send_bytes(session: &mut Session, bytes: &[u8]) -> (String, Vec<u8>) {
    send_to(&Still, session, bytes)
}

/// As [`send_bytes`], to another server.
pub fn send_to(server: &dyn Context, session: &mut Session, bytes: &[u8]) -> (String, Vec<u8>) {
    let mut ranges = ArgRanges::new();
    let parsed = parse(bytes, &RequestLimits::default(), &mut ranges).expect("a request");
    assert_eq!(parsed, Parsed::Command { consumed: bytes.len() });
    let mut out = Vec::new();
    let request = session.translate(ranges.args(bytes), server, &mut out);
    if request == Request::Answered {
        assert_eq!(out.is_empty(), session.is_muted());
    }
    (format!("{request:?}"), out)
}

//! Which node of a Redis Cluster serves a slot, as one worker knows it.
//!
//! `CLUSTER SLOTS` tells it before a phase. In the phase a `MOVED` corrects one slot, and the slots
//! of a node whose connection broke are asked of the others, which serve them or say `MOVED`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::BytesMut;
use client::{Decoder, Reply};
use keyspace::{SLOTS, slot_of};

use super::RunError;
use crate::driver::Codec;
use crate::driver::resp::Resp;

/// The most nodes.
const NODES_MAX: usize = 1_000;
/// How long a node may take to name the slots.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long that answer may be.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// No node is known.
const NOBODY: u16 = u16::MAX;

/// Where a node sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// The slot is served there from now on.
    Moved(u16, SocketAddr),
    /// This one request is served there.
    Ask(SocketAddr),
}

impl Redirect {
    /// Of an error; `None` if it is another one.
    pub fn of(error: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(error).ok()?;
        let mut words = text.split_ascii_whitespace();
        let (kind, slot, address) = (words.next()?, words.next()?, words.next()?);
        let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
        let address = address.to_socket_addrs().ok()?.next()?;
        match kind {
            "MOVED" => Some(Redirect::Moved(slot, address)),
            "ASK" => Some(Redirect::Ask(address)),
            _ => None,
        }
    }
}

/// See the front page.
pub struct SlotMap {
    nodes: Vec<SocketAddr>,
    /// Of each slot: the number of a node.
    owners: Vec<u16>,
    /// Whom to ask next where nobody is known.
    next: usize,
}

impl SlotMap {
    /// Asks one address after the other until one names the slots.
    ///
    /// # Errors
    /// None does.
    pub fn discover(addresses: &[SocketAddr], greeting: &[Vec<String>]) -> Result<Self, RunError> {
        let mut failure = None;
        for address in addresses {
            match ask(*address, greeting).and_then(|reply| Self::of(&reply, *address)) {
                Ok(map) => return Ok(map),
                Err(why) => {
                    let target = address.to_string();
                    failure = Some(RunError::Unreachable { target, why });
                }
            }
        }
        Err(failure.unwrap_or_else(|| RunError::Mismatch("a cluster needs addresses".to_owned())))
    }

    fn of(reply: &Reply, asked: SocketAddr) -> Result<Self, String> {
        let mut map = Self { nodes: Vec::new(), owners: vec![NOBODY; SLOTS.into()], next: 0 };
        if let Reply::Error(why) = reply {
            return Err(String::from_utf8_lossy(why).into_owned());
        }
        for range in items(reply) {
            let [Reply::Integer(first), Reply::Integer(last), Reply::Array(node), ..] =
                items(range)
            else {
                return Err("no answer to CLUSTER SLOTS".to_owned());
            };
            let [Reply::Bulk(host), Reply::Integer(port), ..] = &node[..] else {
                // A node that does not know its own host is reached by the one that was asked.
                let [_, Reply::Integer(port), ..] = &node[..] else { continue };
                map.set(*first, *last, SocketAddr::new(asked.ip(), port_of(*port)?));
                continue;
            };
            let host = String::from_utf8_lossy(host);
            let address = match (host.is_empty(), port_of(*port)?) {
                (true, port) => SocketAddr::new(asked.ip(), port),
                (false, port) => {
                    let found = (host.as_ref(), port).to_socket_addrs();
                    let found = found.ok().and_then(|mut all| all.next());
                    found.ok_or_else(|| format!("no such host: {host}"))?
                }
            };
            map.set(*first, *last, address);
        }
        if map.nodes.is_empty() { Err("no node serves a slot".to_owned()) } else { Ok(map) }
    }

    fn set(&mut self, first: i64, last: i64, address: SocketAddr) {
        let Some(node) = self.number(address) else { return };
        let slots = first.clamp(0, i64::from(SLOTS)) as usize
            ..(last.clamp(-1, i64::from(SLOTS) - 1) + 1) as usize;
        if let Some(owners) = self.owners.get_mut(slots) {
            owners.fill(node as u16);
        }
    }

    /// The number of a node, a new one if it is not known; `None` if there are too many.
    pub fn number(&mut self, address: SocketAddr) -> Option<usize> {
        if let Some(known) = self.nodes.iter().position(|node| *node == address) {
            return Some(known);
        }
        (self.nodes.len() < NODES_MAX).then(|| {
            self.nodes.push(address);
            self.nodes.len() - 1
        })
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> &[SocketAddr] {
        &self.nodes
    }

    /// The node to ask for a key.
    pub fn node_of(&mut self, key: &[u8]) -> usize {
        match self.owners[usize::from(slot_of(key))] {
            NOBODY => {
                self.next = (self.next + 1) % self.nodes.len();
                self.next
            }
            node => node.into(),
        }
    }

    /// A slot is served by this node now.
    pub fn moved(&mut self, slot: u16, node: usize) {
        self.owners[usize::from(slot)] = node as u16;
    }

    /// A connection to a node broke.
    pub fn lost(&mut self, node: usize) {
        let others = self.nodes.len();
        let mut other = node;
        for owner in self.owners.iter_mut().filter(|owner| usize::from(**owner) == node) {
            other = (other + 1) % others;
            if other == node {
                other = (other + 1) % others;
            }
            *owner = other as u16;
        }
    }
}

fn items(reply: &Reply) -> &[Reply] {
    match reply {
        Reply::Array(items) => items,
        _ => &[],
    }
}

fn port_of(port: i64) -> Result<u16, String> {
    u16::try_from(port).map_err(|_| format!("no port: {port}"))
}

/// What a node answers to `CLUSTER SLOTS`.
fn ask(address: SocketAddr, greeting: &[Vec<String>]) -> Result<Reply, String> {
    let mut commands = greeting.to_vec();
    commands.push(vec!["CLUSTER".to_owned(), "SLOTS".to_owned()]);
    let mut out = BytesMut::new();
    let mut replies = Resp::new(commands).greet(&mut out);
    let told = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT).map_err(told)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(told)?;
    stream.write_all(&out).map_err(told)?;
    let (mut decoder, mut input) = (Decoder::new(ANSWER_BYTES_MAX), BytesMut::new());
    let mut piece = [0; 4096];
    loop {
        while let Some(reply) = decoder.next(&mut input).map_err(|error| error.to_string())? {
            replies -= 1;
            if replies == 0 {
                return Ok(reply);
            }
        }
        match stream.read(&mut piece).map_err(told)? {
            0 => return Err("closed by the target".to_owned()),
            len => input.extend_from_slice(&piece[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn slots(ranges: &[(i64, i64, Reply, i64)]) -> Reply {
        let range = |(first, last, host, port): &(i64, i64, Reply, i64)| {
            let node = Reply::Array(vec![host.clone(), Reply::Integer(*port)]);
            Reply::Array(vec![Reply::Integer(*first), Reply::Integer(*last), node])
        };
        Reply::Array(ranges.iter().map(range).collect())
    }

    #[test]
    fn slots_have_the_nodes_that_were_named() {
        let host = |host: &'static str| Reply::Bulk(host.into());
        let reply = slots(&[
            (0, 12_181, host(""), 1),
            (12_182, 12_182, Reply::Nil, 2),
            (12_183, 16_383, host("127.0.0.1"), 3),
        ]);
        let mut map = SlotMap::of(&reply, address(9)).unwrap();
        assert_eq!(map.nodes(), [address(1), address(2), address(3)]);
        // `CLUSTER KEYSLOT foo` says 12182.
        assert_eq!(map.node_of(b"foo"), 1);
        map.moved(12_182, 2);
        assert_eq!(map.node_of(b"x{foo}"), 2);
        map.lost(2);
        assert_ne!(map.node_of(b"foo"), 2);
        assert_eq!(map.number(address(4)), Some(3));
    }

    #[test]
    fn other_answers_are_refused() {
        for reply in [
            Reply::Error("ERR This instance has cluster support disabled".into()),
            Reply::Array(Vec::new()),
            Reply::Array(vec![Reply::Integer(1)]),
            slots(&[(0, 1, Reply::Nil, 70_000)]),
        ] {
            assert!(SlotMap::of(&reply, address(9)).is_err(), "{reply:?}");
        }
        let odd = slots(&[(-5, 99_999, Reply::Nil, 7), (9, 3, Reply::Nil, 7)]);
        assert_eq!(SlotMap::of(&odd, address(9)).unwrap().node_of(b"foo"), 0);
    }

    #[test]
    fn redirects_are_told_from_other_errors() {
        let of = |text: &str| Redirect::of(text.as_bytes());
        assert_eq!(of("MOVED 3999 127.0.0.1:6381"), Some(Redirect::Moved(3999, address(6381))));
        assert_eq!(of("ASK 3999 127.0.0.1:6381"), Some(Redirect::Ask(address(6381))));
        for other in
            ["MOVED 16384 127.0.0.1:1", "MOVED 1", "TRYAGAIN wait 127.0.0.1:1", "MOVED 1 :"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}

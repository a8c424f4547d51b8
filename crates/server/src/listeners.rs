//! The table of a node's listeners: address, protocol, transport.
//!
//! [`Config::listeners`] builds the rows; [`Listening::bind`] opens those that are on. These read
//! the table: the check of the configuration, the event loops (RESP, native frames, NBD), the HTTP
//! server, the links to other nodes, the banner at the start, and `GET /v1/node`. A new protocol
//! needs a [`Protocol`] and a row.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use overlay::LookupChoice;

use crate::config::{Config, Listen};

/// Connections that the kernel keeps for a listener until they are accepted.
const BACKLOG: i32 = 4096;

/// The protocol of a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Redis clients.
    Resp,
    /// Redis clients that ask for replicas.
    RespReplica,
    /// Native frames.
    Native,
    /// Clients of volumes.
    Nbd,
    /// HTTP.
    Http,
    /// Other nodes.
    Peer,
}

impl Protocol {
    /// The name of its setting.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp => "resp",
            Protocol::RespReplica => "resp_replica",
            Protocol::Native => "native",
            Protocol::Nbd => "nbd",
            Protocol::Http => "http",
            Protocol::Peer => "peer",
        }
    }

    /// Whether the event loops serve it.
    pub fn is_of_loops(self) -> bool {
        matches!(self, Protocol::Resp | Protocol::RespReplica | Protocol::Native | Protocol::Nbd)
    }

    /// The error for a client beyond `connections_max`, before its connection is closed.
    pub fn too_many(self) -> &'static [u8] {
        match self {
            Protocol::Resp | Protocol::RespReplica => b"-ERR max number of clients reached\r\n",
            Protocol::Native | Protocol::Nbd | Protocol::Http | Protocol::Peer => b"",
        }
    }
}

/// How the bytes of a connection travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// As they are.
    Plain,
    /// Encrypted.
    Tls,
}

/// A row: one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its protocol.
    pub protocol: Protocol,
    /// Where it is; once it is bound, never port 0.
    pub listen: Listen,
    /// How the bytes travel.
    pub transport: TransportKind,
    /// How owners of keys are looked up there, unless a request says otherwise.
    pub lookup: LookupChoice,
}

impl Listener {
    /// The name of its setting.
    pub fn name(&self) -> &'static str {
        match (self.transport, self.protocol) {
            (TransportKind::Tls, Protocol::Resp) => "resp_tls",
            (TransportKind::Tls, Protocol::Native) => "native_tls",
            (TransportKind::Tls, Protocol::Http) => "http_tls",
            (_, protocol) => protocol.name(),
        }
    }
}

/// A listener that clients or nodes can connect to.
#[derive(Debug)]
pub struct Bound {
    /// Its row, with the real address.
    pub row: Arc<Listener>,
    /// Its socket.
    pub socket: TcpListener,
}

/// All listeners that are on and not yet given to a server.
#[derive(Debug)]
pub struct Listening(Vec<Bound>);

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address} for {protocol}: {source}. Stop what listens there, or choose \
     another address with --{}",
    .protocol.replace('_', "-")
)]
pub struct ListenError {
    /// The setting.
    protocol: &'static str,
    /// The address.
    address: SocketAddr,
    /// Why not.
    source: io::Error,
}

impl Listening {
    /// Opens every listener of the configuration that is on, and puts the real ports into it.
    ///
    /// # Errors
    /// For the first that the system refuses; those before it are closed again.
    pub fn bind(config: &mut Config) -> Result<Self, ListenError> {
        let mut all = Vec::new();
        for mut row in config.listeners() {
            let Some(address) = row.listen.address() else { continue };
            let protocol = row.name();
            let refused = |source| ListenError { protocol, address, source };
            let socket = listen_on(address).map_err(refused)?;
            row.listen = Listen::On(socket.local_addr().map_err(refused)?);
            *config.listen_mut(&row) = row.listen;
            all.push(Bound { row: Arc::new(row), socket });
        }
        Ok(Self(all))
    }

    /// Names and addresses, in the table's order.
    pub fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let address = |bound: &Bound| Some((bound.row.name(), bound.row.listen.address()?));
        self.0.iter().filter_map(address).collect()
    }

    /// Takes the socket of a protocol, if it is on.
    pub fn take(&mut self, protocol: Protocol, transport: TransportKind) -> Option<TcpListener> {
        let is_it = |row: &Listener| (row.protocol, row.transport) == (protocol, transport);
        let place = self.0.iter().position(|bound| is_it(&bound.row))?;
        Some(self.0.remove(place).socket)
    }

    /// Takes all those that the event loops serve.
    pub fn take_for_loops(&mut self) -> Vec<Bound> {
        self.0.extract_if(.., |bound| bound.row.protocol.is_of_loops()).collect()
    }
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // The standard library's backlog is short for thousands of clients that come at once.
    // SAFETY: listen takes an open socket and no memory.
    if unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), BACKLOG) } != 0 {
        return Err(io::Error::last_os_error());
    }
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;

    #[test]
    fn the_table_has_what_is_on_with_real_ports_and_each_socket_once() {
        let any = Listen::On((Ipv4Addr::LOCALHOST, 0).into());
        let off = Listen::Off;
        let mut config =
            Config { resp: any, native: any, http: off, peer: any, ..Config::default() };
        let mut listening = Listening::bind(&mut config).expect("loopback has ports");
        let addresses = listening.addresses();
        let names: Vec<_> = addresses.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["resp", "native", "peer"]);
        for (name, address) in addresses {
            assert_ne!(address.port(), 0, "{name}");
            TcpStream::connect(address).expect("somebody listens");
        }
        assert_eq!(config.listeners()[3].listen, Listen::Off);
        let loops = listening.take_for_loops();
        let rows: Vec<_> = loops.iter().map(|bound| *bound.row).collect();
        let [resp, replica, native, ..] = config.listeners();
        assert_eq!(rows, [resp, native], "the configuration has the real ports");
        assert_eq!(replica.listen, Listen::Off);
        assert!(listening.take(Protocol::Peer, TransportKind::Plain).is_some());
        assert!(listening.take(Protocol::Peer, TransportKind::Plain).is_none());
        assert!(listening.take_for_loops().is_empty());
    }

    #[test]
    fn an_address_that_is_taken_is_named_with_its_setting() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = taken.local_addr().expect("the listener has an address");
        let mut config = Config { native: Listen::On(address), ..Config::default() };
        (config.resp, config.http) = (Listen::Off, Listen::Off);
        let error = Listening::bind(&mut config).expect_err("it is taken").to_string();
        assert!(error.contains(&address.to_string()) && error.contains("--native"), "{error}");
    }
}

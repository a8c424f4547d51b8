//! A connection in its handshake, which is no link yet.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Instant;

use super::dial::Target;
use super::handshake::{ExpectedPeer, Handshake, HandshakeError, Local, PeerHello, Progress};
use super::handshake_record::NONCE_BYTES;
use super::refusal::Refusal;
use super::wire::Wire;
use keyspace::{ClusterVersion, NodeId, VersionRange};

/// Bytes read at once.
const READ_BYTES: usize = 2 << 10;

/// What a step has led to.
#[derive(Debug)]
pub enum Step {
    /// More must come.
    Wait,
    /// The other side has proven itself; see [`Handshaking::proceed`] and [`Handshaking::refuse`].
    Proven(PeerHello),
    /// It is a link.
    Linked(PeerHello, u64),
    /// It is over.
    Ended(Ending),
}

/// Why it is over.
#[derive(Debug, thiserror::Error)]
pub enum Ending {
    /// One of the two refuses.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// One of the two refuses the other's certificate, or what comes is no TLS.
    #[error("{}", explained(.0))]
    Tls(rustls::Error),
    /// The socket broke.
    #[error("{0}")]
    Socket(io::Error),
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => Self::Tls(error.clone()),
            None => Self::Socket(error),
        }
    }
}

/// What an error of TLS means to people.
fn explained(error: &rustls::Error) -> String {
    use rustls::{Error, InvalidMessage};
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what came is not TLS: peer_tls_cert_file must be set on all nodes or on none".into()
        }
        Error::InvalidCertificate(why) => {
            format!("its certificate is not that of a node of this cluster: {why}")
        }
        Error::NoCertificatesPresented => "it has shown no certificate".into(),
        Error::AlertReceived(alert) => {
            format!("the other node refuses this node's certificate, or TLS with it: {alert:?}")
        }
        other => other.to_string(),
    }
}

/// A connection in its handshake.
#[derive(Debug)]
pub struct Handshaking {
    wire: Wire,
    /// The other side, for people.
    pub address: String,
    /// What was dialled, if this node did.
    pub target: Option<Target>,
    /// When it was dialled or accepted.
    pub began: Instant,
    handshake: Handshake,
    peer: Option<PeerHello>,
    /// Not sent yet.
    out: Vec<u8>,
    connecting: bool,
    /// The bytes of the handshake may go: TLS below it is done, if there is any.
    is_open: bool,
}

/// The parts of a handshake that has led to a link.
pub struct Parts {
    /// The way to the peer.
    pub wire: Wire,
    /// The beginning of what the link sends.
    pub out: Vec<u8>,
    /// The beginning of what it has received.
    pub rest: Vec<u8>,
}

impl Handshaking {
    /// A connection that was dialled.
    pub fn dial(
        local: Local,
        target: Target,
        expected: ExpectedPeer,
        wire: Wire,
        address: String,
        nonce: [u8; NONCE_BYTES],
        now: Instant,
    ) -> Self {
        let mut out = Vec::new();
        let handshake = Handshake::dial(local, expected, nonce, &mut out);
        let (target, peer, connecting) = (Some(target), None, true);
        let is_open = false;
        Self { wire, address, target, began: now, handshake, peer, out, connecting, is_open }
    }

    /// A connection that was accepted.
    pub fn accept(
        local: Local,
        wire: Wire,
        address: String,
        nonce: [u8; NONCE_BYTES],
        now: Instant,
    ) -> Self {
        let handshake = Handshake::accept(local, nonce);
        let (target, peer, out, connecting) = (None, None, Vec::new(), false);
        let is_open = false;
        Self { wire, address, target, began: now, handshake, peer, out, connecting, is_open }
    }

    /// The way to the peer.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Whether it can be dropped for another connection without the other side's taking it for
    /// the link meanwhile.
    pub fn is_undecided(&self) -> bool {
        self.connecting || self.handshake.is_judge()
    }

    /// The socket may be read or written.
    pub fn step(&mut self) -> Step {
        match self.connect_and_send() {
            Ok(true) => {}
            Ok(false) => return Step::Wait,
            Err(error) => return Step::Ended(error.into()),
        }
        let mut buffer = [0; READ_BYTES];
        loop {
            let room = self.handshake.room().min(READ_BYTES);
            let count = match (&self.wire).read(&mut buffer[..room]) {
                Ok(0) => {
                    return Step::Ended(io::Error::from(ErrorKind::UnexpectedEof).into());
                }
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Wait,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Step::Ended(error.into()),
            };
            let progress = self.handshake.step(&buffer[..count], &mut self.out);
            match self.went(progress) {
                Step::Wait => {}
                other => return other,
            }
        }
    }

    /// Whether it is connected; sends what is to be sent.
    fn connect_and_send(&mut self) -> io::Result<bool> {
        if self.connecting {
            if let Some(error) = self.wire.socket().take_error()? {
                return Err(error);
            }
            match self.wire.socket().peer_addr() {
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
                peer => peer.map(drop)?,
            }
            self.connecting = false;
        }
        if !self.is_open {
            let Some(key) = self.wire.handshake()? else { return Ok(false) };
            if let Some(key) = key {
                self.handshake.bind(key);
            }
            self.is_open = true;
        }
        self.send()?;
        Ok(true)
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match (&self.wire).write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.wire.send_rest()
    }

    fn went(&mut self, progress: Result<Progress, HandshakeError>) -> Step {
        let sent = match &progress {
            // What is not sent yet leaves first on the link.
            Ok(Progress::Linked { .. }) => Ok(()),
            _ => self.send(),
        };
        match (progress, sent) {
            (Err(error), _) => Step::Ended(error.into()),
            (_, Err(error)) => Step::Ended(error.into()),
            (Ok(Progress::More), _) => Step::Wait,
            (Ok(Progress::Proven(peer)), _) => {
                self.peer = Some(peer.clone());
                Step::Proven(peer)
            }
            (Ok(Progress::Linked { commit }), _) => {
                let peer = self.peer.take().expect("who is linked was proven");
                Step::Linked(peer, commit)
            }
        }
    }

    /// The other side may be linked; if it is this side's to decide, by this number.
    pub fn proceed(&mut self, peer: &PeerHello, commit: u64) -> Step {
        let progress = self.handshake.proceed(peer, commit, &mut self.out);
        match self.went(progress) {
            // What waits in the socket will not be told of again.
            Step::Wait => self.step(),
            other => other,
        }
    }

    /// Sends the other side a refusal, as far as the socket takes it at once.
    pub fn refuse(&mut self, refusal: Refusal) -> Ending {
        let error = self.handshake.refuse(refusal, &mut self.out);
        self.close(error)
    }

    /// As [`refuse`](Self::refuse), because the node, which has proven itself, was removed.
    pub fn refuse_removed(&mut self, node: NodeId) -> Ending {
        let error = self.handshake.refuse_removed(node, &mut self.out);
        self.close(error)
    }

    /// As [`refuse`](Self::refuse), for a proven node that does not support the cluster version.
    pub fn refuse_version(&mut self, version: ClusterVersion, supported: VersionRange) -> Ending {
        let error = self.handshake.refuse_version(version, supported, &mut self.out);
        self.close(error)
    }

    fn close(&mut self, error: HandshakeError) -> Ending {
        // Nobody is there to be told otherwise. Before TLS is done nothing can be said.
        let said = if self.is_open { self.send() } else { Ok(()) };
        let _gone = said.and_then(|()| self.wire.shutdown(Shutdown::Write));
        error.into()
    }

    /// Takes it apart, for the link.
    pub fn into_parts(self) -> Parts {
        Parts { wire: self.wire, out: self.out, rest: self.handshake.into_rest() }
    }
}

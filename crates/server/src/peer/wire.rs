//! The way to one peer: its socket, with TLS or without.
//!
//! One thread reads and any may write, so a session of TLS lies behind a lock. It is held while
//! bytes are encrypted or decrypted and given to the socket, which never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;

use mio::net::TcpStream;
use parking_lot::Mutex;

use crate::tls::{PeerTls, TlsSession};

/// What the key that both ends share is for.
const KEY_LABEL: &[u8] = b"EXPORTER-carillon-peer";

/// See the front page.
#[derive(Debug)]
pub struct Wire {
    socket: TcpStream,
    tls: Option<Box<Mutex<TlsSession>>>,
}

impl Wire {
    /// Begins to connect with a peer.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn dial(socket: SocketAddr, tls: Option<&Arc<PeerTls>>) -> io::Result<Self> {
        let session = tls.map(|tls| {
            let config = tls.config();
            TlsSession::dial(config.client.clone(), config.name.clone())
        });
        Self::new(TcpStream::connect(socket)?, session)
    }

    /// Over a socket that was accepted.
    ///
    /// # Errors
    /// The configuration of TLS does not fit.
    pub fn accept(socket: TcpStream, tls: Option<&Arc<PeerTls>>) -> io::Result<Self> {
        Self::new(socket, tls.map(|tls| TlsSession::accept(tls.config().server.clone())))
    }

    fn new(socket: TcpStream, session: Option<io::Result<TlsSession>>) -> io::Result<Self> {
        let tls = session.transpose()?.map(|session| Box::new(Mutex::new(session)));
        Ok(Self { socket, tls })
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket, to be registered.
    pub fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Goes on with the handshake of TLS. `None` while it is not done; then the key that only the
    /// two ends know, if there is TLS.
    ///
    /// # Errors
    /// One of the two refuses the other, or the socket broke.
    pub fn handshake(&self) -> io::Result<Option<Option<[u8; 32]>>> {
        let Some(tls) = &self.tls else { return Ok(Some(None)) };
        let mut tls = tls.lock();
        match tls.handshake(&self.socket)? {
            true => Ok(Some(Some(tls.shared_key(KEY_LABEL)?))),
            false => Ok(None),
        }
    }

    /// Whether bytes that it has taken have not left.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.lock().has_unsent())
    }

    /// Sends bytes that it has taken, as far as the socket takes them.
    ///
    /// # Errors
    /// The socket broke.
    pub fn send_rest(&self) -> io::Result<()> {
        let Some(tls) = &self.tls else { return Ok(()) };
        match tls.lock().send(&self.socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Ends directions of it.
    ///
    /// # Errors
    /// It has ended already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }
}

impl Read for &Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => (&self.socket).read(buffer),
            Some(tls) => tls.lock().read(&self.socket, buffer),
        }
    }
}

impl Write for &Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            None => (&self.socket).write(bytes),
            Some(tls) => tls.lock().write(&self.socket, bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match &self.tls {
            None => (&self.socket).write_vectored(pieces),
            Some(tls) => {
                let first = pieces.iter().find(|piece| !piece.is_empty());
                first.map_or(Ok(0), |piece| tls.lock().write(&self.socket, piece))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.socket).flush()
    }
}

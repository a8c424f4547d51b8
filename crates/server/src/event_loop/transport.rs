//! A connection's transport: all reads and writes of its socket pass here.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::listeners::TransportKind;
use crate::tls::{Tls, TlsSession};

/// The way to one client. A call costs a branch on the kind.
#[derive(Debug)]
pub struct Transport {
    socket: TcpStream,
    /// What encrypts; without it bytes travel as they are.
    tls: Option<Box<TlsSession>>,
}

impl Transport {
    /// Over a socket that was just accepted.
    ///
    /// # Errors
    /// TLS is not set up.
    pub fn new(
        kind: TransportKind,
        tls: Option<&Tls>,
        stream: std::net::TcpStream,
    ) -> io::Result<Self> {
        let socket = TcpStream::from_std(stream);
        // Replies go out as they are; without this they may wait for the client's acknowledgement.
        let _unsupported = socket.set_nodelay(true);
        let mut this = Self { socket, tls: None };
        if kind == TransportKind::Tls {
            this.start_tls(tls)?;
        }
        Ok(this)
    }

    /// What follows, in both directions, is TLS.
    ///
    /// # Errors
    /// TLS is not set up.
    pub fn start_tls(&mut self, tls: Option<&Tls>) -> io::Result<()> {
        let tls = tls.ok_or_else(|| io::Error::other("there is no certificate"))?;
        self.tls = Some(Box::new(TlsSession::accept(tls.config())?));
        Ok(())
    }

    /// Whether it is encrypted.
    #[inline]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Has the poll tell when there is more to read or room to write.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut self.socket, token, interest)
    }

    /// Whether a read of `received` bytes into `room` has taken all that is there, so that the
    /// poll tells when there is more.
    #[inline]
    pub fn is_drained(&self, received: usize, room: usize) -> bool {
        match &self.tls {
            None => received < room,
            Some(tls) => tls.is_drained(),
        }
    }

    /// Whether it has bytes to send that were given to it before.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Whether nothing can be asked of it yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Ends both directions at once.
    pub fn shut_down(&self) {
        // The client may have closed it already.
        let _gone_already = self.socket.shutdown(Shutdown::Both);
    }

    /// The client's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// The address that the client has connected to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The descriptor's number.
    pub fn fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }
}

impl Read for Transport {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            Some(tls) => tls.read(&self.socket, buffer),
        }
    }
}

impl Write for Transport {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(tls) => tls.write(&self.socket, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => self.socket.flush(),
            Some(tls) => tls.send(&self.socket),
        }
    }
}

//! A connection's transport: all reads and writes of its socket pass here.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::listeners::TransportKind;
use crate::tls::{Tls, TlsStream};

/// The way to one client. A call costs a branch on the kind.
#[derive(Debug)]
pub enum Transport {
    /// The socket's bytes as they are.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream>),
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
        let stream = TcpStream::from_std(stream);
        // Replies go out as they are; without this they may wait for the client's acknowledgement.
        let _unsupported = stream.set_nodelay(true);
        match (kind, tls) {
            (TransportKind::Plain, _) => Ok(Transport::Plain(stream)),
            (TransportKind::Tls, Some(tls)) => {
                Ok(Transport::Tls(Box::new(TlsStream::new(tls.config(), stream)?)))
            }
            (TransportKind::Tls, None) => Err(io::Error::other("there is no certificate")),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.socket(),
        }
    }

    /// Has the poll tell when there is more to read or room to write.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let stream = match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.socket_mut(),
        };
        registry.register(stream, token, interest)
    }

    /// Whether a read of `received` bytes into `room` has taken all that is there, so that the
    /// poll tells when there is more.
    #[inline]
    pub fn is_drained(&self, received: usize, room: usize) -> bool {
        match self {
            Transport::Plain(_) => received < room,
            Transport::Tls(stream) => stream.is_drained(),
        }
    }

    /// Whether it has bytes to send that were given to it before.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.has_unsent(),
        }
    }

    /// Whether nothing can be asked of it yet.
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Transport::Tls(stream) if stream.is_handshaking())
    }

    /// Ends both directions at once.
    pub fn shut_down(&self) {
        // The client may have closed it already.
        let _gone_already = self.socket().shutdown(Shutdown::Both);
    }

    /// The client's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket().peer_addr()
    }

    /// The address that the client has connected to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().local_addr()
    }

    /// The descriptor's number.
    pub fn fd(&self) -> i32 {
        self.socket().as_raw_fd()
    }
}

impl Read for Transport {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.read(buffer),
            Transport::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.write(bytes),
            Transport::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.flush(),
            Transport::Tls(stream) => stream.flush(),
        }
    }
}

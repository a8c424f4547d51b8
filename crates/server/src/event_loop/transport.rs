//! A connection's transport: all reads and writes of its socket pass here.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::listeners::TransportKind;

/// The way to one client. A call costs a branch on the kind.
#[derive(Debug)]
pub enum Transport {
    /// The socket's bytes as they are.
    Plain(TcpStream),
}

impl Transport {
    /// Over a socket that was just accepted.
    pub fn new(kind: TransportKind, stream: std::net::TcpStream) -> Self {
        let stream = TcpStream::from_std(stream);
        // Replies go out as they are; without this they may wait for the client's acknowledgement.
        let _unsupported = stream.set_nodelay(true);
        match kind {
            TransportKind::Plain => Transport::Plain(stream),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(stream) => stream,
        }
    }

    /// Has the poll tell when there is more to read or room to write.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Transport::Plain(stream) => registry.register(stream, token, interest),
        }
    }

    /// Whether a read of `received` bytes into `room` has taken all that is there, so that the
    /// poll tells when there is more.
    #[inline]
    pub fn is_drained(&self, received: usize, room: usize) -> bool {
        match self {
            Transport::Plain(_) => received < room,
        }
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
        }
    }
}

impl Write for Transport {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.flush(),
        }
    }
}

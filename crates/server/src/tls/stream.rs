//! One connection's TLS over a socket that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};

/// Bytes that wait to be sent, encrypted; further writes wait.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// The server's side of a TLS connection.
#[derive(Debug)]
pub struct TlsStream {
    tls: ServerConnection,
    socket: TcpStream,
    /// Whether the last read has taken all that the socket had.
    is_drained: bool,
}

impl TlsStream {
    /// Over a socket that was just accepted.
    ///
    /// # Errors
    /// The configuration does not fit.
    pub fn new(config: Arc<ServerConfig>, socket: TcpStream) -> io::Result<Self> {
        let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
        tls.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(Self { tls, socket, is_drained: false })
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket, to be registered.
    pub fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Whether a read found nothing more to take.
    pub fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Whether the client is not known yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Whether there are encrypted bytes to send.
    pub fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends what is encrypted, as far as the socket takes it.
    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes what the socket has; true at its end.
    fn receive(&mut self) -> io::Result<bool> {
        let received = self.tls.read_tls(&mut self.socket)?;
        if let Err(error) = self.tls.process_new_packets() {
            // The client hears why, if it still listens.
            let _unheard = self.send();
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        match self.send() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(received == 0),
        }
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_drained = false;
        let mut filled = 0;
        loop {
            match self.tls.reader().read(&mut buffer[filled..]) {
                // There is no room, or the client has ended its side.
                Ok(0) => return Ok(filled),
                Ok(read) => {
                    filled += read;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It has ended without saying so: what is cut off shows in what it has sent.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(filled),
                Err(error) => return Err(error),
            }
            match self.receive() {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_drained = true;
                    return if filled == 0 { Err(error) } else { Ok(filled) };
                }
                // What came before is good.
                Err(_) if filled > 0 => return Ok(filled),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.tls.writer().write(bytes)?;
        match self.send() {
            // The rest leaves when there is room.
            Err(error) if error.kind() == ErrorKind::WouldBlock && taken > 0 => Ok(taken),
            Err(error) => Err(error),
            // It takes nothing when too much waits: that has left now.
            Ok(()) if taken == 0 && !bytes.is_empty() => {
                let taken = self.tls.writer().write(bytes)?;
                match self.send() {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    sent => sent?,
                }
                Ok(taken)
            }
            Ok(()) => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

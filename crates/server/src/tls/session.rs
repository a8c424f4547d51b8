//! The TLS of one connection over a socket that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// Bytes that wait to be sent, encrypted; further writes wait.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// One side's state. Its socket is given to each call.
#[derive(Debug)]
pub struct TlsSession {
    tls: Connection,
    /// Whether the last read has taken all that the socket had.
    is_drained: bool,
}

/// Notices when a socket has given less than it was asked for: then it has no more.
struct Noticed<'a> {
    socket: &'a TcpStream,
    is_drained: &'a mut bool,
}

impl Read for Noticed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = self.socket.read(buffer)?;
        *self.is_drained = received < buffer.len();
        Ok(received)
    }
}

/// What an error of TLS means to people.
fn explained(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl TlsSession {
    /// Of the side that has accepted a connection.
    ///
    /// # Errors
    /// The configuration does not fit.
    pub fn accept(config: Arc<ServerConfig>) -> io::Result<Self> {
        Ok(Self::new(ServerConnection::new(config).map_err(io::Error::other)?.into()))
    }

    /// Of the side that has dialled `name`.
    ///
    /// # Errors
    /// The configuration does not fit.
    pub fn dial(config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        Ok(Self::new(ClientConnection::new(config, name).map_err(io::Error::other)?.into()))
    }

    fn new(mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Self { tls, is_drained: false }
    }

    /// Whether the last read found nothing more to take.
    pub fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Whether the other side is not known yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Whether there are encrypted bytes to send.
    pub fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// What only the two ends of this session know, once the handshake is done.
    ///
    /// # Errors
    /// It is not done.
    pub fn shared_key(&self, label: &[u8]) -> io::Result<[u8; 32]> {
        let key = self.tls.export_keying_material([0; 32], label, None);
        key.map_err(io::Error::other)
    }

    /// Goes on with the handshake. Whether it is done.
    ///
    /// # Errors
    /// The other side is refused, or refuses; or the socket broke.
    pub fn handshake(&mut self, socket: &TcpStream) -> io::Result<bool> {
        loop {
            match self.send(socket) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ if !self.tls.is_handshaking() => return Ok(true),
                _ => {}
            }
            match self.receive(socket) {
                Ok(true) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends what is encrypted, as far as the socket takes it.
    ///
    /// # Errors
    /// The socket takes no more now, or broke.
    pub fn send(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &*socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes what the socket has; true at its end.
    fn receive(&mut self, socket: &TcpStream) -> io::Result<bool> {
        let is_drained = &mut self.is_drained;
        let received = self.tls.read_tls(&mut Noticed { socket, is_drained })?;
        if let Err(error) = self.tls.process_new_packets() {
            // The other side hears why, if it still listens.
            let _unheard = self.send(socket);
            return Err(explained(error));
        }
        match self.send(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(received == 0),
        }
    }

    /// Reads what has come, decrypted: as much as there is room for.
    ///
    /// # Errors
    /// As of a socket; [`ErrorKind::InvalidData`] for what is no TLS, or of nobody who is taken.
    pub fn read(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_drained = false;
        let mut filled = 0;
        loop {
            match self.tls.reader().read(&mut buffer[filled..]) {
                // There is no room, and so there may be more; or the other side has ended.
                Ok(0) => {
                    self.is_drained &= filled < buffer.len();
                    return Ok(filled);
                }
                Ok(read) => {
                    filled += read;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It has ended without saying so: what is cut off shows in what it has sent.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(filled),
                Err(error) => return Err(error),
            }
            // The poll tells when there is more.
            if filled > 0 && self.is_drained {
                return Ok(filled);
            }
            match self.receive(socket) {
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

    /// Takes bytes to be sent.
    ///
    /// # Errors
    /// As of a socket.
    pub fn write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.tls.writer().write(bytes)?;
        match self.send(socket) {
            // The rest leaves when there is room.
            Err(error) if error.kind() == ErrorKind::WouldBlock && taken > 0 => Ok(taken),
            Err(error) => Err(error),
            // It takes nothing when too much waits: that has left now.
            Ok(()) if taken == 0 && !bytes.is_empty() => {
                let taken = self.tls.writer().write(bytes)?;
                match self.send(socket) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    sent => sent?,
                }
                Ok(taken)
            }
            Ok(()) => Ok(taken),
        }
    }
}

//! A connection's bytes, as they are or by TLS. Reads and writes never wait; [`Stream::ready`]
//! does.

use std::io::{self, ErrorKind, Read, Write};

use bytes::{BufMut, BytesMut};
use rustls::ClientConnection;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::Tls;

/// Encrypted bytes that may wait to be sent.
const UNSENT_BYTES_MAX: usize = 256 << 10;

/// See the front page.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

/// A socket whose calls fail where they would wait.
struct Now<'a>(&'a TcpStream);

impl Read for Now<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends what is encrypted, as far as the socket takes it.
fn send(tls: &mut ClientConnection, socket: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(&mut Now(socket)) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Takes what the socket has; false at its end.
fn receive(tls: &mut ClientConnection, socket: &TcpStream) -> io::Result<bool> {
    let received = tls.read_tls(&mut Now(socket))?;
    let processed = tls.process_new_packets();
    send(tls, socket)?;
    processed.map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
    Ok(received > 0)
}

impl Stream {
    /// Connects with a node, and does the handshake of TLS if that is wanted.
    pub async fn connect(address: &str, tls: Option<&Tls>) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut stream = Self { socket, tls: None };
        if let Some(tls) = tls {
            let mut connection = tls.connection(address)?;
            connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
            stream.tls = Some(Box::new(connection));
            while !stream.shake_hands()? {
                stream.ready(Interest::READABLE).await?;
            }
        }
        Ok(stream)
    }

    /// Goes on with the handshake. Whether it is done.
    fn shake_hands(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        send(tls, &self.socket)?;
        while tls.is_handshaking() {
            match receive(tls, &self.socket) {
                Ok(true) => {}
                Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(why) => return Err(why),
            }
        }
        Ok(true)
    }

    /// Takes bytes to be sent; those it has taken count as sent.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.try_write(bytes) };
        send(tls, &self.socket)?;
        let taken = tls.writer().write(bytes)?;
        send(tls, &self.socket)?;
        if taken == 0 && !bytes.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Appends bytes that have come, as far as there is room; 0 at the end.
    pub fn try_read_buf(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.try_read_buf(buffer) };
        send(tls, &self.socket)?;
        loop {
            let before = buffer.len();
            let room = buffer.capacity() - before;
            buffer.put_bytes(0, room);
            let read = tls.reader().read(&mut buffer[before..]);
            buffer.truncate(before + read.as_ref().map_or(0, |read| *read));
            match read {
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                // It has ended without saying so: replies say where they end.
                Err(why) if why.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            receive(tls, &self.socket)?;
        }
    }

    /// Until it can be read from, or written to if that is of interest.
    pub async fn ready(&self, interest: Interest) -> io::Result<()> {
        let has_unsent = self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        let interest = if has_unsent { interest | Interest::WRITABLE } else { interest };
        self.socket.ready(interest).await.map(drop)
    }

    /// Sends all of these.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    self.ready(Interest::WRITABLE).await?;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Appends what comes next; 0 at the end.
    pub async fn read_buf(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        loop {
            buffer.reserve(4096);
            match self.try_read_buf(buffer) {
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    self.ready(Interest::READABLE).await?;
                }
                read => return read,
            }
        }
    }
}

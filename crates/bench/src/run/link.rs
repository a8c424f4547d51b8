//! One client's connection to a target: a socket, or a process that speaks over one.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use bytes::{Buf, Bytes, BytesMut};
use harness::net::end_with_thread;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use super::tls::Tls;
use crate::driver::{Codec, Reply, Request};

/// Bytes that are read at once.
pub const READ_BYTES: usize = 64 << 10;

/// What carries the bytes.
enum Socket {
    Tcp(TcpStream),
    Tls(TcpStream, Box<Tls>),
    /// Ends with its link.
    Process(UnixStream, Child),
}

/// A connection. Dropping it closes it, and ends its process.
pub struct Link {
    socket: Socket,
    codec: Box<dyn Codec>,
    out: BytesMut,
    input: BytesMut,
    /// Replies to the greeting that have not come yet.
    greetings: usize,
    is_connected: bool,
}

/// Why a connection is of no use any more: a kind of failure for results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Broken(match error.kind() {
            ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "connection reset".to_owned(),
            _ => format!("connection: {error}"),
        })
    }
}

impl Link {
    /// Begins to connect to an address.
    ///
    /// # Errors
    /// The system refuses at once.
    pub fn connect(
        address: SocketAddr,
        is_tls: bool,
        codec: Box<dyn Codec>,
    ) -> Result<Self, Broken> {
        let socket = TcpStream::connect(address)?;
        let socket = match is_tls {
            true => Socket::Tls(socket, Box::new(Tls::new(address.ip())?)),
            false => Socket::Tcp(socket),
        };
        Ok(Self::new(socket, codec))
    }

    /// Starts a program that speaks on its standard input and output.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(program: &[String], codec: Box<dyn Codec>) -> Result<Self, Broken> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]);
        command.stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)));
        command.stdout(Stdio::from(OwnedFd::from(theirs)));
        end_with_thread(&mut command);
        let child = command
            .spawn()
            .map_err(|error| Broken(format!("cannot start {}: {error}", program[0])))?;
        Ok(Self::new(Socket::Process(UnixStream::from_std(ours), child), codec))
    }

    fn new(socket: Socket, mut codec: Box<dyn Codec>) -> Self {
        let mut out = BytesMut::new();
        let greetings = codec.greet(&mut out);
        Self { socket, codec, out, input: BytesMut::new(), greetings, is_connected: false }
    }

    /// Has events of it reported under this token.
    ///
    /// # Errors
    /// The system refuses.
    pub fn register(&mut self, registry: &Registry, token: Token) -> Result<(), Broken> {
        let both = Interest::READABLE | Interest::WRITABLE;
        match &mut self.socket {
            Socket::Tcp(socket) | Socket::Tls(socket, _) => {
                registry.register(socket, token, both)?;
            }
            Socket::Process(socket, _) => registry.register(socket, token, both)?,
        }
        Ok(())
    }

    /// Whether requests can be sent.
    pub fn is_ready(&self) -> bool {
        self.is_connected && self.greetings == 0
    }

    /// It can be written to: the first time, it is connected, or else it failed to.
    ///
    /// # Errors
    /// It is broken.
    pub fn on_writable(&mut self) -> Result<(), Broken> {
        if !self.is_connected {
            if let Socket::Tcp(socket) | Socket::Tls(socket, _) = &self.socket {
                if let Some(error) = socket.take_error()? {
                    return Err(error.into());
                }
                match socket.peer_addr() {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
                socket.set_nodelay(true)?;
            }
            self.is_connected = true;
        }
        self.flush()
    }

    /// Appends a request to what is to be sent.
    pub fn send(&mut self, request: &Request<'_>) {
        self.codec.encode(request, &mut self.out);
    }

    /// The bytes of a request, which may be sent more than once.
    pub fn encode(&mut self, request: &Request<'_>) -> Bytes {
        let mut out = BytesMut::new();
        self.codec.encode(request, &mut out);
        out.freeze()
    }

    /// Appends such bytes to what is to be sent.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// It is broken.
    pub fn flush(&mut self) -> Result<(), Broken> {
        if let Socket::Tls(socket, tls) = &mut self.socket
            && self.is_connected
        {
            tls.send(socket)?;
        }
        while self.is_connected && !self.out.is_empty() {
            let written = match &mut self.socket {
                Socket::Tcp(socket) => socket.write(&self.out),
                Socket::Tls(socket, tls) => tls.write(socket, &self.out),
                Socket::Process(socket, _) => socket.write(&self.out),
            };
            match written {
                Ok(0) => return Err(closed()),
                Ok(len) => self.out.advance(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads once. Returns whether there may be more.
    ///
    /// # Errors
    /// It is broken, or closed.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, Broken> {
        loop {
            if !self.is_connected {
                return Ok(false);
            }
            let read = match &mut self.socket {
                Socket::Tcp(socket) => socket.read(buffer),
                Socket::Tls(socket, tls) => tls.read(socket, buffer),
                Socket::Process(socket, _) => socket.read(buffer),
            };
            return match read {
                Ok(0) => Err(closed()),
                Ok(len) => {
                    self.input.extend_from_slice(&buffer[..len]);
                    Ok(len == buffer.len())
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// The next reply to a request, if it has come whole.
    ///
    /// # Errors
    /// It is no reply, or the greeting was refused.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, Broken> {
        loop {
            if self.input.is_empty() && !self.codec.has_replies() {
                return self.acknowledge().map(|()| None);
            }
            let reply = self.codec.decode(&mut self.input);
            let reply = reply.map_err(|why| Broken(format!("protocol: {why}")))?;
            match reply {
                Some(Reply::Refused(why)) if self.greetings > 0 => {
                    let why = String::from_utf8_lossy(&why).into_owned();
                    return Err(Broken(format!("greeting refused: {why}")));
                }
                Some(_) if self.greetings > 0 => self.greetings -= 1,
                Some(reply) => return Ok(Some(reply)),
                None => return self.acknowledge().map(|()| None),
            }
        }
    }

    /// Which of the requests under way the last reply is of, counted from the oldest.
    pub fn place(&self) -> usize {
        self.codec.place()
    }

    /// Sends what the protocol says of its own.
    fn acknowledge(&mut self) -> Result<(), Broken> {
        let before = self.out.len();
        self.codec.take_output(&mut self.out);
        if self.out.len() > before { self.flush() } else { Ok(()) }
    }
}

fn closed() -> Broken {
    Broken("closed by the target".to_owned())
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Socket::Process(_, child) = &mut self.socket {
            // It has ended already, or ends now; either way it is gone.
            let _ended = child.kill();
            let _gone = child.wait();
        }
    }
}

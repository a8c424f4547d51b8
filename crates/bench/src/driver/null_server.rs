//! A server that answers every command with the same reply, without looking at it.
//!
//! A run against it shows what instrument and sockets cost together: nothing that is measured can
//! be faster. It counts requests by their first byte: lines that begin with `*`. Values that the
//! instrument writes hold letters only, so no other line does.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::TcpStream as Socket;
use mio::{Events, Interest, Poll, Token, Waker};

/// What it answers: no value, which fits reads and is no failure of writes.
const REPLY: &[u8] = b"$-1\r\n";
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Connections at most; others are closed.
const CONNECTIONS_MAX: usize = 200_000;
const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// The server, on a thread of its own. Dropping it ends it.
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

struct Connection {
    socket: Socket,
    /// Whether the next byte begins a line.
    at_line: bool,
    /// Replies that found no room yet, in bytes.
    owed: usize,
}

impl NullServer {
    /// Starts it on a free port of this machine.
    ///
    /// # Errors
    /// The system refuses sockets or threads.
    pub fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let listener = mio::net::TcpListener::from_std(listener);
        let thread = std::thread::Builder::new()
            .name("null-server".to_owned())
            .spawn(move || serve(listener, poll, &is_stopped))?;
        Ok(Self { address, stop, waker, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // If it cannot be woken it looks by itself, in a second.
        let _later = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It panics only if this program is wrong; what was measured shows that.
            let _ended = thread.join();
        }
    }
}

fn serve(mut listener: mio::net::TcpListener, mut poll: Poll, stop: &AtomicBool) {
    let mut events = Events::with_capacity(1024);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    if poll.registry().register(&mut listener, LISTENER, Interest::READABLE).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        // A signal may end the wait early: the loop goes on.
        let _early = poll.poll(&mut events, Some(Duration::from_secs(1)));
        for event in &events {
            match event.token() {
                LISTENER => accept(&listener, &poll, &mut connections),
                WAKER => {}
                Token(index) => {
                    let slot = &mut connections[index];
                    if slot.as_mut().is_some_and(|one| !one.answer(&mut buffer)) {
                        *slot = None;
                    }
                }
            }
        }
    }
}

fn accept(listener: &mio::net::TcpListener, poll: &Poll, all: &mut Vec<Option<Connection>>) {
    while let Ok((mut socket, _)) = listener.accept() {
        let free = all.iter().position(Option::is_none);
        let index = free.unwrap_or(all.len());
        let both = Interest::READABLE | Interest::WRITABLE;
        // Latency matters; without the option it is measured worse, not wrongly.
        let _slower = socket.set_nodelay(true);
        let registered = poll.registry().register(&mut socket, Token(index), both).is_ok();
        if !registered || index >= CONNECTIONS_MAX {
            continue;
        }
        if free.is_none() {
            all.push(None);
        }
        all[index] = Some(Connection { socket, at_line: true, owed: 0 });
    }
}

impl Connection {
    /// Reads and answers until nothing more comes. Returns whether the connection lives.
    fn answer(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return false,
                Ok(len) => {
                    self.owed += REPLY.len() * self.count(&buffer[..len]);
                    if !self.write() {
                        return false;
                    }
                    if len < buffer.len() {
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.write(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// How many requests begin in these bytes.
    fn count(&mut self, bytes: &[u8]) -> usize {
        let mut count = 0;
        for byte in bytes {
            count += usize::from(self.at_line && *byte == b'*');
            self.at_line = *byte == b'\n';
        }
        count
    }

    fn write(&mut self) -> bool {
        const MANY: usize = 1024;
        static REPLIES: [u8; REPLY.len() * MANY] = {
            let mut all = [0; REPLY.len() * MANY];
            let mut at = 0;
            while at < all.len() {
                all[at] = REPLY[at % REPLY.len()];
                at += 1;
            }
            all
        };
        while self.owed > 0 {
            // A reply that was cut goes on where it was cut.
            let from = (REPLY.len() - self.owed % REPLY.len()) % REPLY.len();
            let to = (from + self.owed).min(REPLIES.len());
            match self.socket.write(&REPLIES[from..to]) {
                Ok(0) => return false,
                Ok(written) => self.owed -= written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn each_command_gets_one_reply() {
        let server = NullServer::start().unwrap();
        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        let many = get.repeat(5_000);
        let mut writer = socket.try_clone().unwrap();
        let writing = std::thread::spawn(move || writer.write_all(&many));
        let mut replies = vec![0; 5_000 * REPLY.len()];
        socket.read_exact(&mut replies).unwrap();
        writing.join().unwrap().unwrap();
        assert_eq!(replies, REPLY.repeat(5_000));
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(socket.read(&mut replies).is_err(), "nothing more");
    }
}

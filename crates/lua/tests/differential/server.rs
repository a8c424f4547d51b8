//! A redis-server of the test's own, and a connection that sees raw replies.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Ends its process when it is dropped.
pub struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts redis-server on a free port; `None` if it is not installed.
    pub fn start() -> Option<Self> {
        let port = free_port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--dir", "/tmp", "--loglevel", "warning"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let server = Self { child, port };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// A connection that speaks this version of RESP.
    pub fn connect(&self, version: u8) -> Connection {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let mut connection = Connection { reader: BufReader::new(stream) };
        connection.call(&[b"HELLO", version.to_string().as_bytes()]);
        connection
    }
}

/// A free port below those that the system gives to outgoing connections: one of these could
/// connect to itself before the server listens.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 5000) as u16;
    loop {
        let port = 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 5000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// A connection that sees raw replies.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Sends a command; the bytes of its reply.
    pub fn call(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.reader.get_mut().write_all(&request).expect("a write");
        let mut reply = Vec::new();
        self.read(&mut reply);
        reply
    }

    fn read(&mut self, reply: &mut Vec<u8>) {
        let start = reply.len();
        self.reader.read_until(b'\n', reply).expect("a line");
        assert!(reply.len() > start, "redis-server closed the connection");
        let number = std::str::from_utf8(&reply[start + 1..reply.len() - 2]).ok();
        let number = number.and_then(|number| number.parse::<i64>().ok()).unwrap_or(-1);
        match reply[start] {
            b'$' | b'=' if number >= 0 => {
                let end = reply.len();
                reply.resize(end + number as usize + 2, 0);
                self.reader.read_exact(&mut reply[end..]).expect("a string");
            }
            b'*' | b'~' | b'>' => (0..number).for_each(|_| self.read(reply)),
            b'%' => (0..number * 2).for_each(|_| self.read(reply)),
            _ => {}
        }
    }
}

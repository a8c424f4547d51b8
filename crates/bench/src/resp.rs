//! A blocking RESP client: enough to fill a server and to ask it something.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::Outcome;

/// Commands in flight while filling.
const PIPELINE: usize = 1_000;

/// How long a server on this machine may take to take a connection.
const CONNECT_MAX: Duration = Duration::from_secs(120);

/// One connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Connection {
    /// Connects to a server on this machine.
    pub fn open(port: u16) -> Outcome<Self> {
        Self::open_for(port, Duration::from_secs(120))
    }

    /// Connects to a server on this machine, whose replies may take so long.
    pub fn open_for(port: u16, reply_max: Duration) -> Outcome<Self> {
        Self::open_at((Ipv4Addr::LOCALHOST, port).into(), CONNECT_MAX, reply_max)
    }

    /// Connects to a server, which may take so long, whose replies may take so long.
    pub fn open_at(at: SocketAddr, connect_max: Duration, reply_max: Duration) -> Outcome<Self> {
        let writer = TcpStream::connect_timeout(&at, connect_max)?;
        writer.set_nodelay(true)?;
        writer.set_read_timeout(Some(reply_max))?;
        Ok(Self { reader: BufReader::with_capacity(1 << 16, writer.try_clone()?), writer })
    }

    /// Connects to a server that is asked for much at once.
    pub fn open_for_bulk(at: SocketAddr) -> Outcome<Self> {
        Self::open_at(at, CONNECT_MAX, CONNECT_MAX)
    }

    /// Sends a command and returns its reply as text; an error reply is an `Err`.
    pub fn call(&mut self, args: &[&str]) -> Outcome<String> {
        let mut out = Vec::new();
        encode(&mut out, args);
        self.send(&out)?;
        self.reply()
    }

    /// Sends commands, encoded; each is owed a reply.
    pub fn send(&mut self, commands: &[u8]) -> Outcome<()> {
        Ok(self.writer.write_all(commands)?)
    }

    /// Sets `count` keys of 16 bytes, made from their number by `key`, to values of `value_bytes`.
    pub fn fill(&mut self, count: usize, value_bytes: usize) -> Outcome<()> {
        let value = "v".repeat(value_bytes);
        let mut out = Vec::new();
        for first in (0..count).step_by(PIPELINE) {
            let part = first..(first + PIPELINE).min(count);
            out.clear();
            for number in part.clone() {
                encode(&mut out, &["SET", &key(number), &value]);
            }
            self.send(&out)?;
            for _ in part {
                self.reply()?;
            }
        }
        Ok(())
    }

    /// The next reply, as [`Self::call`] returns it.
    pub fn reply(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            let why = "the server closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why).into());
        }
        let rest = line[1..].trim_end();
        match line.as_bytes()[0] {
            b'+' | b':' => Ok(rest.into()),
            b'-' => Err(rest.into()),
            b'$' if rest == "-1" => Ok(String::new()),
            b'$' => {
                let mut body = vec![0; rest.parse::<usize>()? + 2];
                self.reader.read_exact(&mut body)?;
                body.truncate(body.len() - 2);
                Ok(String::from_utf8_lossy(&body).into())
            }
            _ => Err(format!("unexpected reply {line:?}").into()),
        }
    }
}

/// The key of a number as redis-benchmark writes it: 16 bytes.
pub fn key(number: usize) -> String {
    format!("key:{number:012}")
}

/// Appends a command as RESP has it.
pub fn encode(out: &mut Vec<u8>, args: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        out.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_redis_benchmark() {
        assert_eq!(key(7), "key:000000000007");
        assert_eq!(key(999_999).len(), 16);
    }

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        encode(&mut out, &["GET", "k"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}

//! The least of a Redis client: one request out, one reply in, and never longer than it may take.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK` and its like.
    Simple(String),
    /// An error, which the node has answered.
    Error(String),
    /// A number.
    Int(i64),
    /// A value.
    Bulk(String),
    /// No value, or no array.
    Nil,
    /// An array.
    Many(Vec<Reply>),
}

/// A connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
    answer_max: Duration,
}

impl Connection {
    /// Connects; an answer may take so long.
    ///
    /// # Errors
    /// What the system says; nothing was sent.
    pub fn open(
        address: SocketAddr,
        connect_max: Duration,
        answer_max: Duration,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, connect_max)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(answer_max))?;
        Ok(Self { stream: BufReader::new(stream), answer_max })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// Nobody knows whether it was done; the connection is of no further use.
    pub fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        let deadline = Instant::now() + self.answer_max;
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.reply(deadline)
    }

    fn reply(&mut self, deadline: Instant) -> io::Result<Reply> {
        let line = self.line(deadline)?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(bad)?;
        Ok(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(rest.parse().map_err(|_| bad())?),
            "$" | "*" if rest == "-1" => Reply::Nil,
            "*" => {
                let count: usize = rest.parse().map_err(|_| bad())?;
                Reply::Many((0..count).map(|_| self.reply(deadline)).collect::<Result<_, _>>()?)
            }
            "$" => {
                let mut value = vec![0; rest.parse::<usize>().map_err(|_| bad())? + 2];
                self.wait_until(deadline)?;
                self.stream.read_exact(&mut value)?;
                value.truncate(value.len() - 2);
                Reply::Bulk(String::from_utf8(value).map_err(|_| bad())?)
            }
            _ => return Err(bad()),
        })
    }

    fn line(&mut self, deadline: Instant) -> io::Result<String> {
        let mut line = String::new();
        self.wait_until(deadline)?;
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn wait_until(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        // Zero would mean for ever.
        self.stream.get_ref().set_read_timeout(Some(left.max(Duration::from_millis(1))))
    }
}

fn bad() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "that is no reply of a node")
}

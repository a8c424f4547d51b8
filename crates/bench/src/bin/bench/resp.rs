//! A blocking RESP client: enough to ask a server something.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

pub use harness::resp::encode;
use harness::resp::{self, TextReply};

use crate::Outcome;

/// How long a server on this machine may take to take a connection.
const CONNECT_MAX: Duration = Duration::from_secs(120);

/// One connection.
pub struct Connection(resp::Connection);

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
        Ok(Self(resp::Connection::open(at, connect_max, reply_max)?))
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
        Ok(self.0.send(commands)?)
    }

    /// The next reply, as [`Self::call`] returns it.
    pub fn reply(&mut self) -> Outcome<String> {
        match self.0.reply()? {
            TextReply::Error(why) => Err(why.into()),
            TextReply::Nil => Ok(String::new()),
            TextReply::Many(all) => Err(format!("unexpected reply {all:?}").into()),
            reply => Ok(reply.text()),
        }
    }
}

//! Commands on a whole keyspace that scripts call: KEYS, SCAN, DBSIZE, RANDOMKEY.
//!
//! A script thread asks an event loop for them, as a client of its own. So they are what they are
//! to any client: linearizable for each shard. They are not validated at the script's commit. What
//! the script has written comes over their replies ([`super::own_writes`]).
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time of one | what is left for the script | the script is stopped |
//! | bytes of a reply | `output_bytes_max` | the error that any client gets |

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use gateway::resp::{Mode, Version};
use overlay::LookupChoice;

use super::Surroundings;
use crate::config::Listen;
use crate::event_loop::NewConnection;
use crate::listeners::{Listener, Protocol, TransportKind};
use crate::runtime::NodeRuntime;
use crate::runtime::mailbox::Mail;

/// How often a script that waits for a reply looks whether its time is over.
const LOOK: Duration = Duration::from_millis(20);

/// A script thread's own connection to an event loop.
pub struct OwnClient {
    stream: TcpStream,
    keyspace: String,
    version: Version,
    mode: Mode,
}

impl OwnClient {
    /// Connects to the first event loop, which answers as a node in this mode would.
    ///
    /// # Errors
    /// If the system gives no sockets, or the node stops.
    pub fn connect(
        runtime: &NodeRuntime,
        surroundings: &Surroundings,
        mode: Mode,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stream = TcpStream::connect(address)?;
        let own = stream.local_addr()?;
        // A stranger who finds the port is not let in.
        let theirs = loop {
            let (theirs, from) = listener.accept()?;
            if from == own {
                break theirs;
            }
        };
        theirs.set_nonblocking(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_nodelay(true)?;
        let row = Listener {
            protocol: Protocol::Resp,
            listen: Listen::On(address),
            transport: TransportKind::Plain,
            lookup: LookupChoice::default(),
        };
        let id = surroundings.clients.next_id();
        let new = NewConnection::own(theirs, Arc::new(row), id, mode);
        if !runtime.delivery.mailboxes[0].post(Mail::Connection(new)) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(Self { stream, keyspace: "0".into(), version: Version::V2, mode })
    }

    /// In which mode it is answered.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Has the next commands run on a keyspace, and answered in this protocol. One that has a
    /// number is made before, if need be.
    ///
    /// # Errors
    /// As [`Self::ask`]; or it is not there, and cannot be made.
    pub fn select(
        &mut self,
        keyspace: &str,
        version: Version,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        if self.version != version {
            let name: &[u8] = if version == Version::V3 { b"3" } else { b"2" };
            self.ask([&b"HELLO"[..], name].into_iter(), is_over)?;
            self.version = version;
        }
        if self.keyspace != keyspace {
            let selected = self.ask([&b"SELECT"[..], keyspace.as_bytes()].into_iter(), is_over)?;
            if selected != b"+OK\r\n" {
                return Err(io::ErrorKind::NotFound.into());
            }
            keyspace.clone_into(&mut self.keyspace);
        }
        Ok(())
    }

    /// The reply to a command.
    ///
    /// # Errors
    /// None has come before it was over: the connection is of no use any more.
    pub fn ask<'a>(
        &mut self,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<Vec<u8>> {
        let mut command = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            command.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            command.extend_from_slice(arg);
            command.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&command)?;
        let (mut reply, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        let mut progress = Progress { at: 0, missing: 1 };
        while !progress.is_whole(&reply) {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => reply.extend_from_slice(&piece[..received]),
                Err(error) if is_timeout(&error) && !is_over() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reply)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// How far a reply is known to reach.
struct Progress {
    at: usize,
    /// Elements that must still come.
    missing: usize,
}

impl Progress {
    /// Whether all of a reply is there.
    fn is_whole(&mut self, bytes: &[u8]) -> bool {
        while self.missing > 0 {
            let Some(line) = bytes[self.at..].windows(2).position(|two| two == b"\r\n") else {
                return false;
            };
            let head = &bytes[self.at..self.at + line];
            let length = || {
                let text = std::str::from_utf8(head.get(1..)?).ok()?;
                Some(text.parse::<i64>().ok()?.max(0) as usize)
            };
            let mut end = self.at + line + 2;
            match head.first() {
                Some(b'$' | b'=' | b'!') if !head.ends_with(b"-1") => {
                    end += length().unwrap_or(0) + 2;
                    if bytes.len() < end {
                        return false;
                    }
                    self.missing -= 1;
                }
                Some(b'*' | b'~' | b'>') => self.missing = self.missing - 1 + length().unwrap_or(0),
                Some(b'%') => self.missing = self.missing - 1 + 2 * length().unwrap_or(0),
                _ => self.missing -= 1,
            }
            self.at = end;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_when_its_last_element_has_come() {
        for whole in [
            &b"+OK\r\n"[..],
            b"$-1\r\n",
            b"$3\r\na\r\n\r\n",
            b"*0\r\n",
            b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n",
            b"%1\r\n+a\r\n*1\r\n:1\r\n",
        ] {
            for end in 1..whole.len() {
                let mut progress = Progress { at: 0, missing: 1 };
                assert!(!progress.is_whole(&whole[..end]), "{:?}", whole[..end].escape_ascii());
                assert!(progress.is_whole(whole));
            }
        }
    }
}

//! Opens a connection: `HELLO 3`, `SELECT`, `CLIENT ROUTE ON`, sent at once.
//!
//! With a server that does not know RESP3 or CLIENT ROUTE, the client goes on without them.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::timeout;

use super::options::Options;
use super::reply::{Decoder, Reply};
use super::request::Request;
use super::stream::Stream;
use crate::http::Password;

/// What the first answers of a node may take.
const GREETING_BYTES_MAX: usize = 4 << 20;

/// Why there is no connection. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DialError {
    /// No node answers there in time.
    #[error("{0}")]
    Unreachable(String),
    /// The node does not have the keyspace.
    #[error("{0}")]
    Refused(String),
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests for shards that the node leads: it says so if another does.
    Direct,
    /// Requests that the node is to pass on.
    Detour,
}

/// A connection that has been greeted.
pub(crate) struct OpenedConnection {
    pub stream: Stream,
    input: BytesMut,
    decoder: Decoder,
    address: String,
}

/// Connects and greets, all within `limit`.
pub(crate) async fn dial(
    address: &str,
    options: &Options,
    purpose: Purpose,
    limit: Duration,
) -> Result<OpenedConnection, DialError> {
    match timeout(limit, greet(address, options, purpose)).await {
        Ok(done) => done,
        Err(_) => Err(DialError::Unreachable(format!("{address} does not answer"))),
    }
}

async fn greet(
    address: &str,
    options: &Options,
    purpose: Purpose,
) -> Result<OpenedConnection, DialError> {
    let nobody = |why: std::io::Error| DialError::Unreachable(format!("{address}: {why}"));
    let stream = Stream::connect(address, options.tls.as_ref()).await.map_err(nobody)?;
    let decoder = Decoder::new(GREETING_BYTES_MAX);
    let address = address.to_owned();
    let mut greeted = OpenedConnection { stream, input: BytesMut::new(), decoder, address };
    let mut out = Vec::new();
    let mut put = |args: &[&[u8]]| Request { args, slot: None, reads: true }.write(&mut out);
    match &options.password {
        Some(Password(password)) => {
            let auth: [&[u8]; 3] = [b"AUTH", b"default", password.as_bytes()];
            let hello: [&[u8]; 4] = [b"HELLO", b"3", b"SETNAME", b"carillon-rust"];
            put(&[&hello[..2], &auth[..], &hello[2..]].concat());
        }
        None => put(&[b"HELLO", b"3", b"SETNAME", b"carillon-rust"]),
    }
    put(&[b"SELECT", options.keyspace.as_bytes()]);
    if purpose == Purpose::Direct {
        put(&[b"CLIENT", b"ROUTE", b"ON"]);
    }
    greeted.send(&out).await?;
    let hello = greeted.receive().await?;
    let selected = match greeted.receive().await {
        // What it said before it hung up.
        Err(DialError::Unreachable(why)) => {
            let said = match &hello {
                Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
                _ => why,
            };
            return Err(DialError::Unreachable(format!("{}: {said}", greeted.address)));
        }
        other => other?,
    };
    if let Reply::Error(text) = selected {
        return Err(DialError::Refused(String::from_utf8_lossy(&text).into_owned()));
    }
    if purpose == Purpose::Direct {
        greeted.receive().await?;
    }
    Ok(greeted)
}

impl OpenedConnection {
    async fn send(&mut self, bytes: &[u8]) -> Result<(), DialError> {
        let sent = self.stream.write_all(bytes).await;
        sent.map_err(|why| DialError::Unreachable(format!("{}: {why}", self.address)))
    }

    async fn receive(&mut self) -> Result<Reply, DialError> {
        loop {
            let next = self.decoder.next(&mut self.input);
            let nobody = |why: &str| DialError::Unreachable(format!("{}: {why}", self.address));
            if let Some(reply) = next.map_err(|why| nobody(&why.to_string()))? {
                return Ok(reply);
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return Err(nobody("it has closed the connection")),
                Ok(_) => {}
                Err(why) => return Err(nobody(&why.to_string())),
            }
        }
    }

    /// Asks one thing.
    pub async fn ask(&mut self, args: &[&[u8]], limit: Duration) -> Result<Reply, DialError> {
        let mut out = Vec::new();
        Request { args, slot: None, reads: true }.write(&mut out);
        let asked = async {
            self.send(&out).await?;
            self.receive().await
        };
        let done = timeout(limit, asked).await;
        done.unwrap_or_else(|_| {
            Err(DialError::Unreachable(format!("{} does not answer", self.address)))
        })
    }
}

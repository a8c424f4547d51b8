//! A connection's bytes, as they are or by TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The certificate of a server, as it is when a connection begins.
pub trait TlsIdentity: std::fmt::Debug + Send + Sync {
    /// What the connection begins with.
    fn config(&self) -> Arc<ServerConfig>;
}

/// The way to one client.
pub enum Socket {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Over a connection that was just accepted; with an identity, after its handshake.
    ///
    /// # Errors
    /// The handshake fails, or takes too long.
    pub async fn open(stream: TcpStream, tls: Option<&dyn TlsIdentity>) -> io::Result<Self> {
        let Some(tls) = tls else { return Ok(Self::Plain(stream)) };
        let handshake = TlsAcceptor::from(tls.config()).accept(stream);
        match timeout(HANDSHAKE, handshake).await {
            Ok(stream) => Ok(Self::Tls(Box::new(stream?))),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// The socket below.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

macro_rules! either {
    ($socket:expr, $method:ident, $($argument:expr),*) => {
        match $socket.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, poll_read, cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, poll_write, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, poll_write_vectored, cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_flush, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_shutdown, cx)
    }
}

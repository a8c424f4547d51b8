//! Bytes in memory that an HTTP/2 connection takes for a socket.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is on its way.
#[derive(Default)]
pub struct Bytes {
    /// From the server.
    pub input: BytesMut,
    /// To the server.
    pub output: BytesMut,
}

/// Both ends of it. The codec polls the connection after it has moved bytes: nothing is woken.
#[derive(Clone, Default)]
pub struct Pipe(Arc<Mutex<Bytes>>);

impl Pipe {
    /// The bytes; nothing else runs while they are held.
    pub fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let input = &mut self.bytes().input;
        if input.is_empty() {
            return Poll::Pending;
        }
        let len = input.len().min(buffer.remaining());
        buffer.put_slice(&input[..len]);
        input.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.bytes().output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

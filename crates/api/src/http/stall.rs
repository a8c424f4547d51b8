//! Closes a connection whose client has stopped reading.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::socket::Socket;

/// A stream whose writes fail once no byte has left for a while. Reads are not timed here: heads
/// and bodies have their own limits.
pub struct StallTimeoutStream<'a> {
    stream: &'a mut Socket,
    stalled: &'a mut bool,
    timeout: Duration,
    /// Runs only while a write waits.
    clock: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<'a> StallTimeoutStream<'a> {
    /// Gives up after `timeout` without progress, and says so in `stalled`.
    pub fn new(stream: &'a mut Socket, stalled: &'a mut bool, timeout: Duration) -> Self {
        Self { stream, stalled, timeout, clock: Box::pin(sleep(timeout)), waiting: false }
    }

    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.waiting = false;
            return progress;
        }
        if !self.waiting {
            self.waiting = true;
            self.clock.as_mut().reset(Instant::now() + self.timeout);
        }
        match self.clock.as_mut().poll(cx) {
            Poll::Ready(()) => {
                *self.stalled = true;
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for StallTimeoutStream<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for StallTimeoutStream<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut *self.stream).poll_write(cx, bytes);
        self.judge(cx, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut *self.stream).poll_write_vectored(cx, pieces);
        self.judge(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(cx)
    }
}

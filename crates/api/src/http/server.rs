//! The thread, its runtime, and its connections from accept to close.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{self, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::Options;
use super::auth::ClientAddress;
use super::context::{Context, Shared};
use super::events::CutOff;
use super::extension::Extension;
use super::handlers::router;
use super::library::{RefusalRewriter, Replies, ReplyBody};
use super::linger::linger;
use super::socket::Socket;
use super::stall::StallTimeoutStream;
use crate::NodeService;

/// Head of a request and what is read ahead of its body, per connection.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// After a failed accept (no file descriptors left, mostly), to let connections end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running HTTP server. Dropped, it is stopped without waiting for requests under way.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<Option<Duration>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves `api` on a listener that is bound already.
///
/// # Errors
/// If the runtime or the thread cannot be made; nothing is served then.
pub fn start(
    listener: StdListener,
    api: Arc<dyn NodeService>,
    options: Options,
) -> io::Result<Server> {
    start_with(listener, api, None, options)
}

/// The same, with more endpoints than those of a node.
///
/// # Errors
/// As [`start`].
pub fn start_with(
    listener: StdListener,
    api: Arc<dyn NodeService>,
    extension: Option<Arc<dyn Extension>>,
    options: Options,
) -> io::Result<Server> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let (stop, stopping) = watch::channel(None);
    let context = Arc::new(Context::new(api, options, address.ip()));
    let thread = thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(serve(listener, context, extension, stopping));
    })?;
    Ok(Server { address, stop, thread: Some(thread) })
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing more, answers the requests under way for at most `drain`, and ends.
    pub fn stop(mut self, drain: Duration) {
        self.end(drain);
    }

    fn end(&mut self, drain: Duration) {
        self.stop.send_replace(Some(drain));
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened.
            let _panicked = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

type Stopping = watch::Receiver<Option<Duration>>;

async fn serve(
    listener: TcpListener,
    context: Shared,
    extension: Option<Arc<dyn Extension>>,
    mut stopping: Stopping,
) {
    let connections_max = context.options.connections_max;
    let seats = Arc::new(Semaphore::new(connections_max));
    let router = router(context.clone(), extension.as_ref());
    let for_each = stopping.clone();
    let accepting = accept(&listener, &seats, &router, &context, &for_each);
    let drain = tokio::select! {
        biased;
        drain = stopped(&mut stopping) => drain,
        () = accepting => Duration::ZERO,
    };
    drop(listener);
    // Connections hold a seat each until they are closed.
    let all = timeout(drain, seats.acquire_many(connections_max as u32)).await;
    if all.is_err() && !drain.is_zero() {
        let connections = connections_max - seats.available_permits();
        tracing::warn!(connections, "HTTP connections were closed before they had ended");
    }
}

/// Ends when the server is to stop, with how long it may drain.
async fn stopped(stopping: &mut Stopping) -> Duration {
    // An error means that the `Server` is gone, which stops it before.
    stopping.wait_for(Option::is_some).await.map_or(Duration::ZERO, |stop| stop.unwrap_or_default())
}

/// Accepts until it is dropped.
async fn accept(
    listener: &TcpListener,
    seats: &Arc<Semaphore>,
    router: &Router,
    context: &Shared,
    stopping: &Stopping,
) {
    loop {
        let Ok(seat) = seats.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (context, router) = (context.clone(), router.clone());
                tokio::spawn(connection(stream, router, context, stopping.clone(), seat));
            }
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    context: Shared,
    mut stopping: Stopping,
    _seat: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "an HTTP connection stays without TCP_NODELAY");
    }
    let opened = tokio::select! {
        biased;
        opened = Socket::open(stream, context.options.tls.as_deref()) => opened,
        _drain = stopped(&mut stopping) => return,
    };
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake has failed");
            return;
        }
    };
    let address = stream.tcp().peer_addr().ok().map(|address| ClientAddress(address.ip()));
    context.connections.fetch_add(1, Ordering::Relaxed);
    let mut has_stalled = false;
    let stalling =
        StallTimeoutStream::new(&mut stream, &mut has_stalled, context.options.stall_timeout);
    let cut_off = CutOff::default();
    let ended = requests(stalling, router, &context, &mut stopping, &cut_off, address);
    let ended = tokio::select! {
        biased;
        ended = ended => ended,
        () = cut_off.wanted() => {
            // What it has not read is of no use to it.
            let _reset = stream.tcp().set_zero_linger();
            context.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended badly");
    }
    if !has_stalled {
        tokio::select! {
            biased;
            _drain = stopped(&mut stopping) => {}
            () = linger(&mut stream) => {}
        }
    }
    context.connections.fetch_sub(1, Ordering::Relaxed);
}

/// Answers requests until their connection ends, or those under way when the server is to stop.
async fn requests(
    stream: StallTimeoutStream<'_>,
    router: Router,
    context: &Shared,
    stopping: &mut Stopping,
    cut_off: &CutOff,
    address: Option<ClientAddress>,
) -> hyper::Result<()> {
    let replies = Arc::new(Replies::default());
    let stream = RefusalRewriter::new(stream, context.clone(), replies.clone());
    let handlers = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(cut_off.clone());
        if let Some(address) = address {
            request.extensions_mut().insert(address);
        }
        let (open, reply) = (replies.begin(), handlers.call(request));
        async move { reply.await.map(|reply| reply.map(|body| ReplyBody::new(body, open))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(context.options.header_timeout)
        .max_buf_size(BUFFER_BYTES_MAX)
        // Who has sent all may say so, and reads what is answered.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        _drain = stopped(stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

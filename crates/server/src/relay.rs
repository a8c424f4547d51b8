//! A node that holds no data yet: how does it answer clients all the same?
//!
//! Its clients' connections go on, byte for byte, to a node that holds some, which forwards what
//! it does not lead itself. So a node that has just joined, or that a cluster of few replicas has
//! nothing for, takes any request; what a client sees of its session (INFO, CLIENT) is the other
//! node's.
//!
//! ```text
//!   event loop accepts ──► relay thread: connects to a member that holds shards
//!   client ◄═══════════════ bytes, both ways ═══════════════► member
//! ```
//!
//! A connection stays with its member until either side ends it. If the member dies, the client
//! sees its connection end, connects again, and gets another member. If none can be reached, it is
//! told so and let go; nothing was done. HTTP requests for keys and keyspaces are redirected
//! instead (307): what the node says of itself by HTTP is its own.
//!
//! | limit | bound | when reached |
//! |---|---|---|
//! | connections | `connections_max`, with all others | refused by the event loop |
//! | bytes under way | 8 KiB for each direction | the sender waits |
//! | time to reach a member | `CONNECT` each, in turn | the next one is tried |

use std::io;
use std::net::TcpStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::cluster::{Cluster, MemberInfo};
use crate::counters::Counters;

/// How long a member has to take a connection.
const CONNECT: Duration = Duration::from_secs(1);

const NOBODY: &[u8] = b"-TRYAGAIN this node holds no data yet, and no node that does can be \
    reached; nothing was done\r\n";

/// A client's connection.
pub struct Relayed {
    /// The client.
    pub stream: StdStream,
    /// Whether it speaks the native protocol, else RESP.
    pub is_native: bool,
}

/// Where event loops leave connections for the relay's thread.
pub struct Relay {
    queue: Mutex<Option<UnboundedSender<Relayed>>>,
}

impl Relay {
    /// Starts the thread, which ends, and ends its connections, after [`Self::stop`].
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn start(
        cluster: Arc<Cluster>,
        counters: Arc<Counters>,
    ) -> io::Result<(Arc<Self>, JoinHandle<()>)> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (queue, connections) = unbounded_channel();
        let thread = thread::Builder::new().name("relay".into()).spawn(move || {
            runtime.block_on(run(connections, cluster, counters));
        })?;
        Ok((Arc::new(Self { queue: Mutex::new(Some(queue)) }), thread))
    }

    /// Leaves a connection, which is counted already. False if the relay has stopped.
    pub fn take(&self, connection: Relayed) -> bool {
        self.queue.lock().as_ref().is_some_and(|queue| queue.send(connection).is_ok())
    }

    /// Has the thread end.
    pub fn stop(&self) {
        self.queue.lock().take();
    }
}

/// Whether a member could answer clients of a protocol: where.
fn address_of(member: &MemberInfo, is_native: bool) -> Option<String> {
    let port = if is_native { member.native } else { member.resp };
    let holds = member.is_up() && member.load.shards > 0;
    port.filter(|_| holds).map(|port| format!("{}:{port}", member.host))
}

/// Whether any other member holds data.
pub fn has_target(cluster: &Cluster) -> bool {
    let members = cluster.members();
    members.iter().any(|m| m.node != cluster.node() && m.is_up() && m.load.shards > 0)
}

/// `HOST:PORT` where a member that holds data listens for HTTP.
pub fn http_target(cluster: &Cluster) -> Option<String> {
    let members = cluster.members();
    let mut others = members.iter().filter(|m| m.node != cluster.node());
    others.find_map(|member| {
        let holds = member.is_up() && member.load.shards > 0;
        member.http.filter(|_| holds).map(|port| format!("{}:{port}", member.host))
    })
}

async fn run(
    mut connections: UnboundedReceiver<Relayed>,
    cluster: Arc<Cluster>,
    counters: Arc<Counters>,
) {
    let turn = Arc::new(AtomicUsize::new(0));
    while let Some(relayed) = connections.recv().await {
        let (cluster, counters, turn) = (cluster.clone(), counters.clone(), turn.clone());
        tokio::spawn(async move {
            // Its end is the client's business, and the member's.
            let _ended = serve(relayed, &cluster, turn.fetch_add(1, Ordering::Relaxed)).await;
            counters.connections.sub(1);
        });
    }
}

async fn serve(relayed: Relayed, cluster: &Cluster, turn: usize) -> io::Result<()> {
    let Relayed { stream, is_native } = relayed;
    stream.set_nonblocking(true)?;
    let mut client = TcpStream::from_std(stream)?;
    let members = cluster.members();
    let others = members.iter().filter(|member| member.node != cluster.node());
    let addresses: Vec<String> = others.filter_map(|m| address_of(m, is_native)).collect();
    for number in 0..addresses.len() {
        let address = &addresses[(turn + number) % addresses.len()];
        if let Ok(Ok(mut member)) = timeout(CONNECT, TcpStream::connect(address)).await {
            member.set_nodelay(true)?;
            client.set_nodelay(true)?;
            copy_bidirectional(&mut client, &mut member).await?;
            return Ok(());
        }
    }
    if !is_native {
        client.write_all(NOBODY).await?;
    }
    client.shutdown().await
}

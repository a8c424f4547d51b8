//! Links between the nodes of a cluster: one connection per pair, which carries frames. The
//! implementor of [`PeerHandler`] interprets the frames.
//!
//! ```text
//!   any thread ── PeerNet::send, flush ──► outbox ──► socket ══════════╗
//!                                                                      ║
//!   PeerHandler ◄── frame, turn_ended ── a turn ◄── decoder ◄══════════╝
//! ```
//!
//! The peer thread runs turns, or an event loop that polls the net inline ([`inline_poll`]).
//!
//! | limit | bound | when reached |
//! |---|---|---|
//! | a message | [`MESSAGE_BYTES_MAX`] | `send` fails; received: the connection ends |
//! | a frame's body | [`FRAME_BYTES_MAX`] | longer messages go in [`pieces`]; received: the connection ends |
//! | on its way to a peer | [`Options::outbox_bytes_max`], and one longer message | `send` fails with [`SendError::Full`] |
//! | connections in a handshake | [`Options::half_open_max`] | the oldest is closed |
//! | bytes of a handshake | [`INPUT_BYTES_MAX`](handshake::INPUT_BYTES_MAX) | the connection ends |
//! | time of a handshake | [`Options::handshake`] | the same |
//! | silence of a peer | [`Options::dead`] | the same: the link is gone |
//! | bytes read of one peer in a turn | 1 MiB | the others have their turn |
//!
//! # Invariants
//! 1. A link is to a node that has proven the secret, is of the same cluster (or of none yet) and
//!    speaks a common version. At most one link per node, to one process of it.
//! 2. Frames of one link come whole, in order, once; but urgent frames overtake long messages.
//!    A link that breaks loses the rest: callers repeat what must not be lost, under ids that
//!    make it harmless.
//! 3. `send` and `flush` never wait, for no peer, however it hangs.
//! 4. The handler hears `connected` and `disconnected` of a node in turn.
//!
//! # What it does not know
//! Which nodes belong to the cluster and where they listen (`set_peers` gives both), what frames
//! mean, clocks other than the monotonic one.
//!
//! # Caveats
//! Connections are encrypted if the net has certificates (`wire`), and else not: see `handshake`.
//! The sender's and the receiver's kernel buffers
//! come on top of the bound on what is on its way.

pub mod counters;
mod dial;
mod handshaking;
pub mod inline_poll;
mod links;
mod outbox;
pub mod pieces;
mod resolve;
mod thread;
mod wire;

use std::time::Duration;

pub use counters::PeerCounters;
pub use inline_poll::InlinePoller;
pub use link::frame::{self, FRAME_BYTES_MAX};
pub use link::{Cluster, Local, PeerHello, Refusal, Secret, VERSIONS, Versions};
pub use link::{handshake, handshake_record, refusal};
pub use links::{PeerHandler, PeerNet, SendError};
pub use pieces::MESSAGE_BYTES_MAX;

/// Most bytes on their way to one peer: a longest frame, and as much again. One message that is
/// longer is taken beside them.
pub const OUTBOX_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;

/// Limits and periods of a net; the defaults are meant for use, others for tests.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes on their way to one peer. A longer message is taken if no other long one is there.
    pub outbox_bytes_max: usize,
    /// Accepted connections whose handshake is not done.
    pub half_open_max: usize,
    /// How long a handshake may take, from dialling or accepting to the link.
    pub handshake: Duration,
    /// How often a link is pinged.
    pub ping: Duration,
    /// After so long without a byte a peer counts as dead, and the link is closed.
    pub dead: Duration,
    /// How long a stop waits for peers to take what was sent.
    pub stop: Duration,
    /// How long a link with a node that was removed stays, so that it may hear of it.
    pub farewell: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            outbox_bytes_max: OUTBOX_BYTES_MAX,
            half_open_max: 128,
            handshake: Duration::from_secs(3),
            ping: Duration::from_millis(500),
            dead: Duration::from_secs(3),
            stop: Duration::from_secs(1),
            farewell: Duration::from_secs(2),
        }
    }
}

/// A number that no other process draws, from the system.
///
/// # Errors
/// If `/dev/urandom` cannot be read.
pub fn draw<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}

//! Which nodes are members, which of them are alive, and what does each report about itself?
//!
//! A node that knows one member gets to know all, and all get to know it. Three protocols run at
//! once:
//!
//! - **Liveness**: SWIM (`swim`) pings at random, suspects silent nodes, and takes a suspect for
//!   down that no node vouches for within 1.25 s. News spreads as gossip, in rounds of 200 ms.
//! - **Records**: each node owns a record of [`Facts`] (addresses, failure domain, version, load)
//!   with a [`Stamp`]; the newest stamp wins, in whatever order records arrive.
//! - **Anti-entropy**: once a second each node sends a random live one a **digest** of its stamps
//!   and of the liveness it sees; both then send what the other lacks. Gossip is fast and forgets;
//!   digests are slow and sure. Now and then they go to nodes that are down, so that a healed
//!   partition reunites.
//!
//! ```text
//!   new node 9                         seed 4                     3, 5, 7 …
//!       │ Dial "host:7600"                │                           │
//!       │── handshake: introductions ────►│                           │
//!       │── digest {9 alive} ────────────►│ 9 is up                   │
//!       │◄──────── digest {3,4,5,7 …} ────│── gossip: 9 up, its facts ►│
//!       │◄──────── records of 3,4,5,7 … ──│                           │ 9 is up
//!       │ 3, 4, 5, 7 … are up; pings begin                            │
//! ```
//!
//! # Incarnations
//!
//! A node id is for ever; an **incarnation** is one life of it. "Down" is final for an incarnation.
//! A node that hears of its own death (it was paused, or cut off) **refutes** it: it raises its
//! incarnation and is up again. Two halves of a partition may take each other for down: the one
//! that sees fewer nodes gives way, node by node, and the other sees only returns. The driver gives
//! an incarnation above all earlier ones, best the wall clock in milliseconds at the start. If it
//! is too low after all, the node learns so from the others and outbids it.
//!
//! A node leaves by its own record. Another node may forget it by a record with a version above all
//! the owner's in that incarnation, once the node is down or has left.
//!
//! # Invariants
//! 1. A node's own record has the incarnation that its detector uses, and only the node writes it.
//! 2. A stamp of a record never falls (except that a forgotten node is dropped in the end).
//! 3. What the driver learns of a node begins with `Up`, `Down` or `Left`, with its facts.
//! 4. No frame exceeds [`FRAME_BYTES_MAX`], no table [`NODES_MAX`].
//!
//! # What this crate does not know
//! Addresses beyond those in facts, links, handshakes (they check cluster, secret and protocol
//! versions before [`Membership::connected`]), shards. It decides nothing about data: a wrong view
//! costs time, never safety, and elections of shards do not wait for it. Times are monotonic
//! nanoseconds of the driver; randomness comes from the seed.
//!
//! # Caveats
//! - Frames are believed: a node with the cluster's secret can lie about all others.
//! - Two processes with one id outbid each other for ever, at most once in 200 ms each. The driver
//!   must lock its directory.
//! - A forgotten node can come back as down, from a node that was cut off for longer than
//!   [`FORGOTTEN_NANOS`]; forget it again.
//!
//! # Where to start
//! [`Membership`], then `anti_entropy` (digests and records), then `swim`. Bytes: `wire`, `facts`.

mod anti_entropy;
mod facts;
mod machine;
mod reconcile;
mod rng;
mod swim;
mod view;
mod wire;

pub use facts::{
    ADDRESS_BYTES_MAX, DOMAIN_BYTES_MAX, Facts, HOST_BYTES_MAX, INCARNATION_MAX, Load,
    NAME_BYTES_MAX, RECORD_BYTES_MAX, SOFTWARE_BYTES_MAX, Stamp,
};
pub use machine::{
    DIAL_NANOS, DIGEST_NANOS, DOWN_DIGEST_NANOS, FORGOTTEN_NANOS, Membership, NODES_MAX, SEEDS_MAX,
    SLEPT_NANOS,
};
pub use swim::{GOSSIP_NANOS, PACKET_BYTES_MAX, PROBE_ANSWER_NANOS, PROBE_NANOS, SUSPECT_NANOS};
pub use view::{Effect, ForgetError, FrameError, Member, News, State};
pub use wire::{DIGEST_ENTRIES_MAX, FRAME_BYTES_MAX};

//! Which shard owns this position, and which node should be asked?
//!
//! Ownership is decided elsewhere: each shard's own log holds its descriptor, and a shard serves
//! only what it owns. This crate holds copies of descriptors, possibly too old. An old copy may
//! cost a hop; it never gives a wrong answer. A node that is asked in error returns what it knows
//! (**image adjustment**), and the asker goes on.
//!
//! ```text
//!            path (one request): next ─► ask node 4 ─► "not mine: shard 9, generation 6" ┐
//!              ▲                                                                         │ learn
//!   ┌──────────┴───────────── Lookup ──────────────────────────┐ ◄───────────────────────┘
//!   │ full   every descriptor, kept equal by gossip            │
//!   │ cache  what this client or node happened to learn        │
//!   │ lh     two numbers, and addresses it happened to learn   │
//!   │ linear, chord, chord-sharp  some other members of a ring │
//!   └──────────┬───────────────────────────────────────────────┘
//!            table: rows by arc start, one row for a shard, no two rows overlap
//!            ring:  each shard's successors and predecessor, on the node that leads it
//! ```
//!
//! | lookup | state | hops | messages of its own |
//! |---|---|---|---|
//! | [`full`] | every descriptor | 0 | a rumour to three peers, a digest to one peer a tick |
//! | [`route_cache`] | at most a limit | 1 for each change since it learnt | none |
//! | [`linear`] | r successors, of N shards | N / 2 | a question to the successor a tick, a notify |
//! | [`chord`] | and about log2 N fingers | ½ log2 N | and a find of ½ log2 N hops a tick |
//! | [`chord_sharp`] | and log2 N fingers, (b − 1) log_b N with base b | ½ log2 N | and a question to a finger a tick |
//! | [`lh`] | the shape of a table, and addresses up to a limit | 2 forwards at most while it grows | none |
//!
//! A node has one `full`, one `route_cache` and one `lh`. The others have a table for each shard,
//! and a request goes from shard to shard ([`ring`] tells of joins, leaves and failures).
//!
//! # Which of two descriptors is newer
//! A split gives both halves a generation one above that of the shard before. A merge gives the
//! result one above the larger of the two. A change of replicas adds one. So among all descriptors
//! that ever held a position the later has the higher generation, *whatever their shards*, and no
//! clock is needed:
//!
//! ```text
//!   generation 1   ├──────────── shard 1 ───────────────┤
//!   split          ├── shard 1, 2 ──┼─── shard 2, 2 ────┤
//!   split          │                ├ sh. 2, 3 ┼ sh. 3, 3┤
//!   merge          ├──── shard 1, generation 4 ─┼ sh. 3, 3┤
//! ```
//!
//! Beside it there is a **hint**: the shard's leader, and its term. Of two hints the newer term
//! wins. Hint and descriptor are replaced separately, because leaders change without a new
//! generation.
//!
//! # Three examples
//! *Split.* The node of shard 1 learns both halves at once. They replace the old descriptor in its
//! table, and spread as a rumour. A route cache with the old one asks shard 1 for a key of shard 2
//! and gets shard 2's descriptor. From then on it holds only that one and a gap.
//!
//! *A node was down.* Its first digest differs in many buckets. It receives what it lacks, newest
//! first, in messages of bounded size, over as many rounds as that takes.
//!
//! *A keyspace is dropped.* Its rows are removed and its id is remembered for ever (ids are never
//! reused), so late gossip cannot bring it back.
//!
//! # Invariants
//! 1. No two rows of a table overlap, and no shard has two ([`table`]).
//! 1. No two rows of a table overlap, and no shard has two ([`table`]).
//! 2. A descriptor is replaced only by one with a higher rank, (generation, shard), that overlaps
//!    it or is of the same shard. It is removed only with its keyspace, or by a route cache that
//!    distrusts it.
//! 3. Two full tables are equal after two undisturbed exchanges within their limits ([`full`] says
//!    why).
//! 4. Every handler runs to its end at once and waits for no answer: messages may be lost, repeated
//!    and reordered.
//!
//! # What it does not know
//! Which nodes are alive (membership says so by [`Lookup::peers`]), addresses, sockets, time: a
//! tick is an input. How keys become positions, and whether an answer is right.
//!
//! # Caveats
//! Peers are believed. A peer that invents generations can send requests astray, but it cannot make
//! a shard serve what it does not own. Descriptors of one shard and generation are taken to be the
//! same.
//!
//! # Where to start
//! [`lookup`], then [`known_shard`], [`table`], [`lookup_path`], [`full`]; then [`ring`],
//! [`chord`], [`request`]; [`lh`]; bytes in [`message`].

pub mod choice;
pub mod chord;
pub mod chord_sharp;
pub mod dropped_keyspaces;
pub mod full;
pub mod known_shard;
pub mod lh;
pub mod linear;
pub mod lookup;
pub mod lookup_path;
pub mod message;
pub mod point;
pub mod request;
pub mod ring;
pub mod route_cache;
pub mod switchboard;
pub mod table;

pub use choice::LookupChoice;
pub use chord::Chord;
pub use chord_sharp::ChordSharp;
pub use dropped_keyspaces::DroppedKeyspaces;
pub use full::FullTable;
pub use known_shard::{Hint, KnownShard};
pub use lh::LinearHashCache;
pub use linear::Linear;
pub use lookup::{Kind, LearnOutcome, Lookup, Outbox, Step, Update};
pub use lookup_path::{HOPS_MAX, Hop, LookupPath};
pub use message::Message;
pub use point::Point;
pub use ring::{Ring, TableEntry};
pub use route_cache::RouteCache;
pub use switchboard::Switchboard;
pub use table::Table;

//! Which shard owns this position, and which node is to be asked?
//!
//! Ownership is agreed elsewhere: each shard's own log holds its descriptor, and a shard answers
//! only for what it owns. What stands here is *memory of that*, possibly too old. It may cost a
//! hop; it never costs an answer. A node that is asked in error says what it knows (**image
//! adjustment**), and the asker goes on.
//!
//! ```text
//!            walk (one request): next ─► ask node 4 ─► "not mine: shard 9, generation 6" ┐
//!              ▲                                                                         │ learn
//!   ┌──────────┴───────────── Lookup ──────────────────────────┐ ◄───────────────────────┘
//!   │ full   every descriptor, kept equal by gossip            │
//!   │ image  what this client or node happened to learn        │
//!   │ lh     two numbers, and addresses it happened to learn   │
//!   │ linear, chord, chord-sharp  some others of a ring        │
//!   └──────────┬───────────────────────────────────────────────┘
//!            table: rows by arc start, one row for a shard, no two rows overlap
//!            ring:  each shard's successors and predecessor, kept by the node that leads it
//! ```
//!
//! | lookup | state | hops | messages of its own |
//! |---|---|---|---|
//! | [`full`] | every descriptor | 0 | a rumour to three peers, a digest to one peer a tick |
//! | [`image`] | at most a limit | 1 for each change since it learnt | none |
//! | [`linear`] | r successors, of N shards | N / 2 | a question to the successor a tick, a notify |
//! | [`chord`] | and about log2 N fingers | ½ log2 N | and a find of ½ log2 N hops a tick |
//! | [`chord_sharp`] | and log2 N fingers, (b − 1) log_b N with base b | ½ log2 N | and a question to a finger a tick |
//! | [`lh`] | the shape of a file, and addresses up to a limit | 2 forwards at most while it grows | none |
//!
//! `full`, `image` and `lh` are one for a node; the others are tables of a shard, one for each, and
//! a request goes from shard to shard ([`ring`] tells of joins, leaves and failures).
//!
//! # Which of two descriptors is newer
//! Every split gives both halves a generation one above that of the whole; every merge gives the
//! result one above the larger of the two; every change of replicas adds one. So among all
//! descriptors that ever held a position the later has the higher generation, *whatever their
//! shards*, and no clock is needed:
//!
//! ```text
//!   generation 1   ├──────────── shard 1 ───────────────┤
//!   split          ├── shard 1, 2 ──┼─── shard 2, 2 ────┤
//!   split          │                ├ sh. 2, 3 ┼ sh. 3, 3┤
//!   merge          ├──── shard 1, generation 4 ─┼ sh. 3, 3┤
//! ```
//!
//! Beside it stands a **hint**: who led the shard in which term. Of two the newer term wins.
//! Hint and descriptor are replaced apart, for leaders change without a new generation.
//!
//! # Three stories
//! *Split.* The node of shard 1 learns both halves at once. They replace the whole in its table and
//! run as a rumour through the others. An image that still holds the whole asks shard 1 for a key
//! of shard 2, is told shard 2's descriptor, and holds from then on only that one and a gap.
//! *A node was away.* Its first digest differs in many buckets; it receives what it lacks, newest
//! first, in messages of bounded size, over as many rounds as that takes.
//! *A keyspace is dropped.* Its rows go, its id is remembered for ever (ids are never reused), and
//! late gossip cannot bring it back.
//!
//! # Invariants
//! 1. No two rows of a table overlap, and no shard has two ([`table`]).
//! 2. A descriptor gives way only to one with a higher rank, (generation, shard), that overlaps it
//!    or is of the same shard; or is removed with its keyspace, or by an image that distrusts it.
//! 3. Two full tables are equal after two undisturbed exchanges within their limits ([`full`] says
//!    why).
//! 4. Every handler runs to its end at once and waits for no answer: messages may be lost, repeated
//!    and reordered.
//!
//! # What it does not know
//! Who is alive (membership says so by [`Lookup::peers`]), addresses, sockets, time: a tick is an
//! input. How keys become positions, and whether an answer is right.
//!
//! # Caveats
//! Peers are believed: a peer that invents generations can send requests astray, though never
//! make a shard answer for what it does not own. Descriptors of one shard and generation are taken
//! to be the same.
//!
//! # Where to start
//! [`lookup`], then [`known`], [`table`], [`walk`], [`full`]; then [`ring`], [`chord`],
//! [`request`]; [`lh`]; bytes in [`message`].

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

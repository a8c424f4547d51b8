//! The driver of a node: it turns bytes from sockets into inputs of crate `node`, and effects into
//! files and replies. Configuration, protocols, sockets, files, threads and time are here.
//!
//! # Threads, and the queues between them
//!
//! ```text
//!            accept (loop 0)
//!                 │ new connections (mailbox)
//!   ┌─────────────▼────────────┐   batches, awaits    ┌────────────────────┐
//!   │ loop-0 … loop-n: parse,  ├─────── inbox ───────►│ executor 0 … n     │
//!   │ read under guards, write │◄────── mailbox ──────┤ stepped by threads │
//!   └──────────────────────────┘   answers            │ with work for them │
//!   ┌──────────────────────────┐   batches of one     │                    │ append
//!   │ http: one thread, tokio  ├─────── inbox ───────►│                    ├───────► log
//!   │ tasks per connection     │◄── API waiters ──────┤                    │          │
//!   └──────────────────────────┘   callbacks          └──▲──────────▲──────┘          │
//!   ┌──────────────────────────┐   safe points           │          │ durable         │
//!   │ maintenance: memory, old ├─────────────────────────┘   ┌──────┴──────┐          │
//!   │ versions, checkpoints    │                             │ log: fsync  │◄─ wanted ┤
//!   └──────────────────────────┘                             ├─────────────┤          │
//!   ┌──────────────────────────┐   frames about              │ segments    │◄─ needed ┘
//!   │ peers: accept, dial, read├──► members: lets time pass  └─────────────┘
//!   └──────────────────────────┘   those who are there
//! ```
//!
//! | queue | bound | when full |
//! |---|---|---|
//! | input of a connection | `input_bytes_max` | not read further until commands are done (1) |
//! | replies owed to one | [`PENDING_MAX`](event_loop::connection::PENDING_MAX) | commands wait |
//! | output of a connection | `output_bytes_max` | its commands wait (2) |
//! | an executor's inbox, a mailbox | unanswered requests | cannot be: each connection is bounded |
//! | proposed, not in the log yet | room reserved in the log | `MISCONF`, nothing is done |
//! | executors that wait for an fsync | one place each | a newer ticket replaces the older |
//! | news of catalogue and safe points | one for each change under way | cannot be |
//! | connections | `connections_max` | refused with an error |
//! | connections of HTTP | `http_connections_max` | not accepted until one ends |
//! | on its way to a peer | [`OUTBOX_BYTES_MAX`](peer::OUTBOX_BYTES_MAX) | not taken; see [`peer`] |
//! | bodies of HTTP requests | four of the longest values | the request waits, then 503 |
//!
//! (1) A single longer request is a protocol error. (2) A single longer reply becomes an error.
//!
//! # Errors that clients get (SAFETY G10)
//!
//! Native clients get the reason as the value of `GER`, `PER` or `DER`.
//!
//! | what | RESP | HTTP | native | done? |
//! |---|---|---|---|---|
//! | refused by the command itself | Redis's words | – | reason | no |
//! | no such keyspace | `ERR` | 404 `no-keyspace` | reason | no |
//! | keyspace exists; bad name or options | – | 409; 400 | – | no |
//! | key too long; value too long | `ERR` | 400; 413 | reason, closed | no |
//! | the condition fails; nothing to delete | nil, 0 | 412; 404 `nil` | `DOK` | no |
//! | no value; none yet at that time | nil | 404 `nil`; 404 `nil-yet` | `not found` | no |
//! | below the safe point; in the future | – | 410; 400 | – | no |
//! | memory is full | `OOM` | 507 `out-of-memory` | reason | no |
//! | the disk is full | `MISCONF` | 507 `disk-full` | reason | no |
//! | keys of one command in several shards | `CROSSSLOT` | – | – | no |
//! | still reading its data | waits for the node to accept | the same | the same | no |
//! | stopping | closed | 503 `stopping` | closed | no |
//! | a commit of a transaction that is not open | – | 404 `no-transaction` | – | unknown |
//! | no answer in time | – | 503 reads, 504 writes | – | unknown |
//! | keyspace dropped under way | `UNKNOWN` | 504 `unknown-outcome` | reason | unknown |
//! | the log cannot be written or synced | the process ends: 74 | | | unknown |
//! | a broken invariant, on any thread | the process aborts | | | unknown |
//!
//! # Invariants
//! 1. Crate `node` decides what a command does, when it may be answered and what a read may see.
//!    This driver decides nothing of what clients see: another driver would give the same.
//! 2. No `async` but in [`api::http`]; nothing on the hot path waits for its thread.
//! 3. No lock is held while a socket is read or written, nor during an fsync. Order of locks:
//!    executor, shard state, log.
//! 4. The first failed write or fsync of the log ends the process; so does a panic on any thread.
//! 5. Every limit is a setting or a named constant, with a defined behaviour when it is reached.
//!
//! # What it does not know
//! What the log's records mean, how replicas agree, how values lie in memory.
//!
//! # Where to start
//! [`run`], then [`event_loop`], then [`runtime`] and its `executors` and `log`. Other nodes:
//! [`cluster`], then [`peer`].

pub mod check;
pub mod cluster;
pub mod config;
pub mod counters;
pub mod directory;
pub mod event_loop;
pub mod listeners;
pub mod logging;
pub mod password;
pub mod peer;
pub mod process;
pub mod recover;
pub mod repair_clock;
pub mod run;
pub mod runtime;
pub mod scripts;
pub mod service;
pub mod signals;
mod threads;
pub mod tls;
pub mod utc;

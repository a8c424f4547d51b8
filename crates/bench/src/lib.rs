//! How fast is a store, how does it answer under load, and did it get slower? `carillon bench`.
//!
//! ```text
//!   scenario (TOML)          what to measure                              pure
//!      │ cells of its matrix × repetitions
//!      ▼
//!   run ── target            starts the nodes that are to be measured, if asked
//!    ├─ director             kills, pauses, adds them by a timeline; counts what they use
//!    │  └─ phase             threads with an event loop each: setup, warm-up, phases, teardown
//!    │       ├─ load         which request comes next, and when           pure
//!    │       ├─ driver       requests to bytes, bytes to replies          pure, but for memory
//!    │       └─ measure      latencies, failures, a row per second        pure
//!    ▼
//!   results.json ── measure::compare: slower than before?                 pure
//!               └── report:           a page with charts                  pure
//! ```
//!
//! [`live`] shows a run in a browser while it goes on. With agents the phases run on other hosts:
//! [`agents`] ships the scenario, starts all at one moment and gathers what they measured. Nodes
//! may run there, too.
//!
//! [`papers`] measures five documents with it, and [`papers::model`] says what a request costs in a
//! cluster of any size.
//!
//! Invariants:
//! 1. A latency of an open loop counts from when the request was meant to be sent, not from when a
//!    connection had room for it: a target that stalls is charged for all that it kept waiting.
//! 2. A value that is read must be one that some write gave to that key ([`load::values`]): a fast
//!    wrong answer is a failure.
//! 3. What is wrong with a scenario is said before anything is started. Whatever ends a run, the
//!    processes that it has started end with it.
//! 4. A result file is written whole or not at all, and says which scenario, machine, commit and
//!    command it is of.

pub mod agents;
pub mod driver;
pub mod live;
pub mod load;
pub mod machine;
pub mod measure;
pub mod papers;
pub mod report;
pub mod run;
pub mod scenario;

/// What measuring yields: a value, or a message for the person who measures.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

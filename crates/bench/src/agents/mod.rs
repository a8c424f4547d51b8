//! Loads from other hosts: a controller ships a scenario, starts a step on all agents at one
//! moment, and gathers what they measured.
//!
//! ```text
//!   controller                    agents
//!   Plan, files of its program →  checked, written to a directory of their own
//!   Begin: cell, addresses     →
//!   Step                       →  connections are opened      ← Ready
//!   Go, when all are ready     →  the load                    ← Second…, Alive, Ended
//!   End                        →
//! ```
//!
//! Nodes of a scenario may run on agents' hosts, too ([`nodes`]).
//!
//! Parts of a load: worker w of thread t on agent a of n is t·n + a, so that clients and rates are
//! divided evenly.
//!
//! Invariants: an agent that is silent for [`LOST_AFTER`] or closes its connection is lost; the run
//! fails, and says which. A controller that fails closes all connections. An agent whose controller
//! is gone ends its step, the programs of its clients included, within a moment.

pub mod agent;
mod controller;
mod message;
pub mod nodes;
mod wire;

use std::time::Duration;

pub use controller::Remote;
pub use wire::{Channel, Secret};

/// How often an agent at work says so.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// By how much the clocks of agents and controller may differ. The load does not depend on them,
/// but comparisons of logs of two hosts do, and nodes that order writes by time.
pub const CLOCKS_APART_MAX: Duration = Duration::from_secs(1);
/// After this time without a word an agent is lost.
pub const LOST_AFTER: Duration = Duration::from_secs(5);

/// Reads the body of a frame as every message that there is, and checks the plan that it may hold.
/// Returns whether it was any of them. For fuzzing: an agent trusts who knows its secret, but no
/// bytes make it panic.
pub fn decode(body: &[u8]) -> bool {
    let order = serde_json::from_slice::<message::Order>(body);
    if let Ok(message::Order::Plan { name, text, sets, .. }) = &order {
        // What is wrong with it is said; here it is enough that nothing panics.
        let _checked = crate::scenario::Plan::parse(name, text, sets);
    }
    let is_node = serde_json::from_slice::<nodes::NodeOrder>(body).is_ok();
    let is_answer = serde_json::from_slice::<message::Answer>(body).is_ok();
    order.is_ok()
        || is_node
        || is_answer
        || serde_json::from_slice::<nodes::NodeAnswer>(body).is_ok()
}

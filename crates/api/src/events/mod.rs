//! The stream of events, `/v1/events`: what a viewer asks for, and each event as JSON.
//!
//! `docs/events.md` is the contract: every type and field. Events of a node's cores become JSON
//! where they happen ([`encode`]); what the stream itself says, where it is read ([`stream`]).

mod encode;
mod fields;
mod recorded;
pub mod stream;

use std::sync::Arc;

use keyspace::NodeId;
use node::event::stream::{Cursor, Filter, Output};

pub use encode::encode;
pub use recorded::{kept_of_line, recorded_line};

/// The version of the format: `hello` tells it.
pub const EVENTS_VERSION: u64 = 1;

/// Called, from any thread, when there is something to take.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What a viewer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// Which events.
    pub filter: Filter,
    /// Whether of all nodes.
    pub is_cluster: bool,
    /// From where on; none: from now on.
    pub cursor: Option<Cursor>,
    /// At most so many samples a second.
    pub samples: u32,
    /// What happened later is not wanted: the stream ends.
    pub until: Option<keyspace::Timestamp>,
}

/// A stream has begun.
pub struct Watching {
    /// The asked node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Where the stream begins.
    pub cursor: Cursor,
    /// The nodes that are asked, and their names.
    pub nodes: Vec<(NodeId, String)>,
    /// The stream. Dropped, it has ended.
    pub stream: Box<dyn EventStream>,
}

/// A stream that a viewer takes from.
pub trait EventStream: Send + Sync {
    /// What comes next, about so many bytes. Nothing: there will be a wake.
    fn take(&mut self, bytes_max: usize) -> Vec<Output>;
    /// The node's time, for what the stream itself says.
    fn now(&self) -> keyspace::Timestamp;
    /// What people call a node.
    fn name_of(&self, node: NodeId) -> String;
    /// Whether its viewer has taken nothing for so long that it is to be cut off.
    fn is_stuck(&self) -> bool;
    /// It was cut off.
    fn was_cut_off(&self);
}

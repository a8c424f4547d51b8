//! Streams of events: who watches gets what happens, from one node or from all, and costs nothing
//! while nobody does.
//!
//! ```text
//!   event ──► Ring ──┬── Feed of a viewer here ─────────────► items ──► Merge ──► viewer
//!     (the last ones │                                                    ▲
//!      of this node) └── Feed of another node's viewer ──► Events frame ──┘ (on that node)
//!   sample ──► the queue of each feed that asks for samples
//! ```
//!
//! | part | question |
//! |---|---|
//! | [`Ring`] | what has happened here lately, and how much more has been forgotten |
//! | [`Feed`] | what does one reader of the ring get next, and what has it missed |
//! | [`Merge`] | what comes next over all nodes, and which of them are not waited for |
//! | [`Subscription`] | what was asked of another node, and has anything been lost on the way |
//! | [`Broker`] | all of these for one node, by inputs: event, message, tick |
//!
//! A reader is a place in the ring, so it takes no memory, and nobody waits for it. An event is
//! text that its driver has encoded; only its time, type and keyspace are known here.
//!
//! # Order
//! A node stamps its events so that they rise strictly. Over all nodes they are in the order of
//! (time, node), and a [`Cursor`] is a place in that order. A node *promises* with what it sends
//! that nothing at or below a time will follow; the merge passes on what is at or below all
//! promises.
//!
//! # Between nodes
//! `Watch` is repeated each [`RENEW_NANOS`], and says everything: what is wanted, from where on,
//! how many bytes may be sent. Who does not repeat it for [`LEASE_NANOS`] is forgotten. Frames are
//! numbered; if one is missing, the asking node begins again behind the last event that it has.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | events of a ring | [`EVENTS_KEPT_MAX`], [`EVENT_BYTES_KEPT_MAX`] | the oldest is forgotten; a gap |
//! | samples that wait for a feed | [`SAMPLE_BYTES_MAX`] | dropped, and counted |
//! | … of what it has begun with, besides | the same | the same |
//! | groups of samples that a reader follows | [`FOLLOWED_MAX`] | dropped, and counted |
//! | viewers | [`VIEWERS_MAX`], [`REMOTE_VIEWERS_MAX`] | refused |
//! | events that wait in a merge, of a source | [`CREDIT_BYTES_MAX`] | the source keeps them |
//! | time that one event waits in a merge | [`HOLD_NANOS`] | it passes, and later ones are late |
//! | time that a viewer takes nothing | [`VIEWER_STALL_NANOS`] | the driver cuts it off |

mod broker;
mod cursor;
mod feed;
mod filter;
mod followed;
mod merge;
mod message;
mod pace;
mod ring;
mod subscription;
#[cfg(test)]
mod tests;

use keyspace::Timestamp;

pub use broker::{
    Broker, BrokerCounts, Moment, REMOTE_VIEWERS_MAX, Scope, Source, VIEWER_STALL_NANOS,
    VIEWERS_MAX, ViewerId, WatchOptions, WatchRefusal,
};
pub use cursor::Cursor;
pub use feed::{Feed, FeedKind, Item, SAMPLE_BYTES_MAX};
pub use filter::Filter;
pub use followed::{FOLLOWED_MAX, GroupStep, SampleGroup};
pub use merge::{EndReason, HOLD_NANOS, Merge, Output, SILENT_NANOS, SourceState};
pub use message::{EventMessage, FRAME_BYTES_MAX, WatchMessage};
pub use pace::{SAMPLES_MAX, SamplePace};
pub use ring::{EVENT_BYTES_KEPT_MAX, EVENTS_KEPT_MAX, KeptEvent, Ring};
pub use subscription::{CREDIT_BYTES_MAX, LEASE_NANOS, RENEW_NANOS, Subscription};

/// The longest event, as text.
pub const EVENT_BYTES_MAX: usize = 64 << 10;

/// Events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Why.
    pub reason: GapReason,
    /// How many, whatever a filter says; none: nobody knows.
    pub events: Option<u64>,
    /// Whether they are exactly so many, not at least.
    pub is_exact: bool,
    /// How many samples, besides.
    pub samples: u64,
    /// They happened after this …
    pub from: Timestamp,
    /// … and before this, or then.
    pub to: Timestamp,
}

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// More has happened than is kept.
    Kept,
    /// Their node has started since.
    Restart,
    /// Samples had no room on their way.
    Slow,
}

impl GapReason {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            GapReason::Kept => "kept",
            GapReason::Restart => "restart",
            GapReason::Slow => "slow",
        }
    }
}

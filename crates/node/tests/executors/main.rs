//! Executors of up to six nodes, on links that a test cuts and mends: each file tells one story.
//!
//! One program, for the executors take longer to compile than to test.

mod catalogue_snapshot;
mod checkpoints;
mod five;
mod forwarded_log_room;
mod lagging_reads;
mod leader_loss;
mod leader_script;
mod no_room;
mod pending_writes;
mod recovered;
mod replaced_entry;
mod replaced_log;
mod reservation;
mod safe_point;
mod stalled;
mod starvation_guard;
mod unknown_entries;

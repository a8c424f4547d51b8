//! Lanes of up to six nodes, on links that a test cuts and mends: each file tells one story.
//!
//! One program, for the lanes take longer to compile than to test.

mod checkpoints;
mod five;
mod gone;
mod held;
mod jumped;
mod kept;
mod lags;
mod no_room;
mod recovered;
mod replaced;
mod replaced_log;
mod safe_point;
mod sought;
mod stalled;
mod story;
mod unknown_entries;
mod withheld;

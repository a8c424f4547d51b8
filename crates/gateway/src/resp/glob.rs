//! Which keys and names fit a pattern? The node knows: KEYS, SCAN and CONFIG GET read them alike.

pub use command::glob::{matches as glob_matches, matches_nocase as glob_matches_nocase};

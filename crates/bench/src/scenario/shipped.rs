//! Scenarios that come with the program.

/// Name and text of each, in the order in which they are listed.
pub const ALL: [(&str, &str); 0] = [];

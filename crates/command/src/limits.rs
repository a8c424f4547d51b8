//! How long values and commands may be at all: bounds of the format, the same on every node and in
//! every version that reads it (SAFETY G3).
//!
//! A node's own limit (`value_bytes_max`) lies at or below. A command that could make a longer
//! value of a shorter one names the limit of the node that its client has asked
//! ([`Write::Append`](crate::Write::Append)), so all replicas judge by the same one
//! (docs/decisions/0041).

/// The longest value that a command may make, as Redis has it.
pub const VALUE_BYTES_MAX: u64 = 512 << 20;

/// The largest limit for keys that can be configured: the engine stores lengths in 20 bits.
pub const KEY_BYTES_MAX: u64 = storage::engine::KEY_BYTES_MAX as u64;

/// The most bytes of keys and values that a command may have: the longest value, the longest keys.
/// An entry with it, and any answer about it, fits into a message between nodes.
pub const COMMAND_BYTES_MAX: usize = (VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX) as usize;

/// The same where some node may be of a version that knows no message in pieces: an entry with it
/// fits into one frame, beside what stands before it.
pub const SINGLE_FRAME_COMMAND_BYTES_MAX: usize = (64 << 20) + (512 << 10);

//! The limits that state depends on: the same on every replica, or replicas would differ (G3).

/// Limits judged at apply.
#[derive(Clone, Copy, Debug)]
pub struct ApplyLimits {
    /// The longest value a command may grow a value to (APPEND, SETRANGE).
    pub value_bytes_max: u64,
}

/// As every replica applies them in this version: 512 MiB, as Redis has it. Gateways refuse longer
/// arguments earlier, by their own configuration.
pub const APPLY: ApplyLimits = ApplyLimits { value_bytes_max: 512 << 20 };

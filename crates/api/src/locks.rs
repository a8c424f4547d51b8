//! Locks with fencing tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Locks that one page lists at most.
pub const LOCKS_PAGE_MAX: usize = 1000;

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockInfo {
    /// Its name.
    pub name: String,
    /// Who holds it.
    pub owner: String,
    /// Its token, as digits: larger than those of all holders before.
    pub token: String,
    /// When its lease ends unless it is renewed, in milliseconds since 1970.
    pub ends_at_ms: u64,
}

/// What somebody asks for to get a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// Who; one who has it already keeps it. None: somebody new.
    pub owner: Option<String>,
    /// For how long, in ms.
    pub ttl_ms: u64,
}

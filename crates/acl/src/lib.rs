//! Who may do what? Redis's language of users and rules, and its judge.
//!
//! ```text
//!   SETUSER ann on >secret ~cache:* %R~shared:* &news:* +@read +set -@dangerous db=orders
//!               │    │         │         │         │       │                       │
//!              user  password  keys      read only channels commands, categories   keyspaces
//! ```
//!
//! A [`User`] has passwords and *selectors*: sets of commands, keys, channels and keyspaces. The
//! first selector is the user's own; further ones stand in parentheses. A call is allowed if one
//! selector allows all of it: its command, each of its keys, each channel, and its keyspace.
//!
//! | here | what |
//! |---|---|
//! | [`commands`] | the commands that rules name, by category; from the gateway's table |
//! | [`rule`] | rules as text and as values |
//! | [`user`] | a user, which rules change |
//! | [`selector`] | commands, keys, channels and keyspaces |
//! | [`check`] | whether a user may do a call, and what of it he may not |
//! | [`describe`] | users as text again, as `ACL LIST` and `ACL GETUSER` show them |
//!
//! # Differences from Redis
//! `db=NAME,…`, `alldbs` and `resetdbs` are rules on keyspaces, whose names may be patterns. A user
//! has all of them unless a rule says otherwise. `+command|first-argument`, which Redis calls
//! deprecated, is refused for commands that have no such subcommand.
//!
//! # Invariants
//! 1. Pure: passwords are hashed and compared by others. A rule with a password in the clear
//!    changes no user.
//! 2. A rule that is refused changes nothing, nor do those that came with it.
//! 3. What [`describe`] writes of a user makes the same user.
//!
//! # What it does not know
//! Connections, where users are kept, how passwords are hashed.

pub mod check;
pub mod commands;
pub mod describe;
pub mod rule;
pub mod selector;
pub mod user;

pub use check::{Call, ChannelUse, Denied, KeyUse};
pub use commands::{CATEGORIES, Command, CommandId, Commands};
pub use rule::{Rule, RuleError};
pub use selector::{KeyAccess, Selector};
pub use user::{Password, User};

/// Rules of one user, counted over all selectors: keys, channels, keyspaces and commands.
pub const RULES_MAX: usize = 4096;
/// Passwords of one user.
pub const PASSWORDS_MAX: usize = 32;
/// Selectors of one user, beside its own.
pub const SELECTORS_MAX: usize = 64;
/// Bytes of a user's name.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes of one rule.
pub const RULE_BYTES_MAX: usize = 4096;

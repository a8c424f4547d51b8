//! What a connection has asked to be told for its cache (`CLIENT TRACKING`).

use std::collections::BTreeSet;

/// The options of CLIENT TRACKING ON, and what CLIENT CACHING said since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// Changes of all keys with one of the prefixes, read or not.
    pub broadcasts: bool,
    /// Those prefixes; an empty one stands for all keys.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// Which reads it may cache, unless it broadcasts.
    pub choice: Choice,
    /// Not the changes of its own commands.
    pub is_noloop: bool,
    /// The connection that is told; 0: this one.
    pub redirect: u64,
    /// That one is gone.
    pub has_lost_redirect: bool,
    /// CLIENT CACHING has set this for the next command.
    pub is_next_chosen: bool,
}

/// Which reads a connection may cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All.
    #[default]
    All,
    /// Those that CLIENT CACHING YES has chosen.
    OptIn,
    /// All but those that CLIENT CACHING NO has chosen.
    OptOut,
}

impl Tracking {
    /// Whether it may cache this key, if the next command reads it.
    pub fn caches(&self, key: &[u8]) -> bool {
        let is_wanted =
            || !self.broadcasts || self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        self.caches_next() && is_wanted()
    }

    /// Whether it may cache what the next command reads.
    pub fn caches_next(&self) -> bool {
        match self.choice {
            Choice::All => true,
            Choice::OptIn => self.is_next_chosen,
            Choice::OptOut => !self.is_next_chosen,
        }
    }
}

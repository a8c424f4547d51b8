//! The state of a connection between WATCH or MULTI and EXEC.
//!
//! ```text
//!   WATCH a ──► Watched: a and what it had      MULTI ──► Queue ◄── INCR a (QUEUED)
//!                         └──────────────── EXEC ────────────┘
//! ```
//!
//! Commands are queued as bytes, and translated again at EXEC: `SET k v EX 10` ends ten seconds
//! after EXEC. Errors that Redis finds only when it runs a command come only then. Errors that it
//! finds when it queues the command come at once, and EXEC then does nothing (EXECABORT).
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | commands queued | [`QUEUED_MAX`] | the command is refused, and EXEC does nothing |
//! | their arguments, names too | [`ARGS_MAX`] | the same |
//! | their bytes | [`QUEUED_BYTES_MAX`] | the same |
//! | keys watched | [`WATCHED_MAX`] | WATCH is refused, and watches nothing more |
//! | their bytes | [`WATCHED_BYTES_MAX`] | the same |
//!
//! So an EXEC fits into one message between nodes, and takes its shard a fraction of a second.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use command::ObservedVersion;
use keyspace::{KeyspaceId, Moment};

use super::args::Args;
use super::error::CommandError;
use super::{commands, table};

/// Commands that one transaction may have.
pub const QUEUED_MAX: usize = 65_536;
/// Arguments that they may have together.
pub const ARGS_MAX: usize = 262_144;
/// … and bytes.
pub const QUEUED_BYTES_MAX: usize = 32 << 20;
/// Keys that a connection may watch at a time.
pub const WATCHED_MAX: usize = 65_536;
/// Bytes that they may have together.
pub const WATCHED_BYTES_MAX: usize = 4 << 20;

/// Whether a queued command runs behind the others at EXEC, which shards do.
pub fn runs_late(args: Args<'_>) -> bool {
    table::lookup(args).is_ok_and(|spec| commands::transaction::is_late(spec.name))
}

/// Whether such a command is about the connection alone.
pub fn concerns_connection(args: Args<'_>) -> bool {
    table::lookup(args).is_ok_and(|spec| commands::transaction::concerns_connection(spec.name))
}

/// Commands that wait for EXEC.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// All arguments, one behind the other.
    bytes: Vec<u8>,
    /// Where each lies.
    ranges: Vec<(u32, u32)>,
    /// How many arguments there are up to the end of each command.
    ends: Vec<usize>,
    /// The past time that they read.
    pub(super) at: Option<Moment>,
    /// A command was refused: EXEC does nothing.
    pub(super) is_broken: bool,
}

impl Queue {
    /// One command, which is run like a queued one.
    pub fn of(args: Args<'_>) -> Self {
        let mut queue = Self::default();
        queue.push(args);
        queue
    }

    fn push(&mut self, args: Args<'_>) {
        for arg in args.iter() {
            self.ranges.push((self.bytes.len() as u32, arg.len() as u32));
            self.bytes.extend_from_slice(arg);
        }
        self.ends.push(self.ranges.len());
    }

    /// One more command.
    pub(super) fn add(&mut self, args: Args<'_>) -> Result<(), CommandError> {
        let bytes: usize = args.iter().map(<[u8]>::len).sum();
        if self.ends.len() == QUEUED_MAX {
            return Err(CommandError::formatted(format!(
                "ERR a transaction has at most {QUEUED_MAX} commands"
            )));
        }
        if self.ranges.len() + args.len() > ARGS_MAX {
            return Err(CommandError::formatted(format!(
                "ERR the commands of a transaction have at most {ARGS_MAX} arguments"
            )));
        }
        if self.bytes.len() + bytes > QUEUED_BYTES_MAX {
            return Err(CommandError::formatted(format!(
                "ERR the commands of a transaction have at most {QUEUED_BYTES_MAX} bytes"
            )));
        }
        if self.ends.is_empty() {
            // Room for a few short commands.
            self.bytes.reserve(128);
            self.ranges.reserve(16);
        }
        self.push(args);
        Ok(())
    }

    /// The past time that they read, if they do not read the newest values.
    pub fn at(&self) -> Option<Moment> {
        self.at
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The commands, in their order.
    pub fn commands(&self) -> impl Iterator<Item = Args<'_>> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| Args::new(&self.bytes, &self.ranges[begin..*end]))
    }
}

/// Watched keys, which must be unchanged at EXEC, with their versions.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The keyspace of all of them.
    pub(super) keyspace: String,
    /// Which of that name it was when the first of them was watched.
    id: Option<KeyspaceId>,
    keys: BTreeMap<Box<[u8]>, ObservedVersion>,
    bytes: usize,
}

impl Watched {
    /// The keyspace that the keys are of.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Whether they are of this keyspace, and not of one that was dropped and had the same name.
    pub fn is_of(&self, keyspace: KeyspaceId) -> bool {
        self.id == Some(keyspace)
    }

    /// Keys, and what they had when they were first watched.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = (&[u8], ObservedVersion)> {
        self.keys.iter().map(|(key, seen)| (&**key, *seen))
    }

    /// What a key of a keyspace had, if it is watched.
    pub(super) fn seen(&self, keyspace: &str, key: &[u8]) -> Option<ObservedVersion> {
        let is_its = !self.is_empty() && self.keyspace == keyspace;
        self.keys.get(key).copied().filter(|_| is_its)
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Watches more keys of a keyspace; keys that are watched already keep their first version.
    pub(super) fn add(
        &mut self,
        (keyspace, id): (&str, KeyspaceId),
        seen: &[(&[u8], ObservedVersion)],
    ) -> Result<(), CommandError> {
        if !self.is_empty() && self.keyspace != keyspace {
            return Err(CommandError::formatted(format!(
                "ERR keys of keyspace '{}' are watched, and a transaction is of one keyspace: \
                 UNWATCH them first",
                self.keyspace
            )));
        }
        if self.keys.len() + seen.len() > WATCHED_MAX {
            return Err(CommandError::formatted(format!(
                "ERR at most {WATCHED_MAX} keys are watched"
            )));
        }
        if self.bytes + seen.iter().map(|(key, _)| key.len()).sum::<usize>() > WATCHED_BYTES_MAX {
            return Err(CommandError::formatted(format!(
                "ERR keys of at most {WATCHED_BYTES_MAX} bytes are watched"
            )));
        }
        if self.is_empty() {
            keyspace.clone_into(&mut self.keyspace);
            self.id = Some(id);
        }
        for (key, seen) in seen {
            if let Entry::Vacant(place) = self.keys.entry((*key).into()) {
                place.insert(*seen);
                self.bytes += key.len();
            }
        }
        Ok(())
    }

    /// Replaces the versions of those watched keys that are among these, by their current ones.
    pub(super) fn renew_versions(
        &mut self,
        keyspace: &str,
        keys: &[&[u8]],
        seen: &[ObservedVersion],
    ) {
        if self.keyspace != keyspace {
            return;
        }
        for (key, seen) in keys.iter().zip(seen) {
            if let (Some(watched), ObservedVersion::Version(_)) = (self.keys.get_mut(*key), seen) {
                *watched = *seen;
            }
        }
    }

    /// Nothing is watched any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

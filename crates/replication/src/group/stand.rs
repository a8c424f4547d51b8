//! When may this replica stand for election?
//!
//! By itself, when nothing is heard of a leader, and no word to one forbids it. At once, when its
//! leader tells it to, so as to go: that is said once, and until it has stood, or an election's
//! time is over, the leader proposes nothing. So if it comes too early it is not forgotten:
//!
//! ```text
//!   the leader:  commit index ── stand! ─►
//!   the heir:    (reads both) ── applies what is committed ── stands
//! ```
//! Who leads a joint state and is not to stay says both in one breath, as it has just applied the
//! change itself.

use super::Group;

impl Group {
    /// Stands for election, unless its word to a leader forbids it. A sole voter wins at once.
    pub fn campaign(&mut self) {
        if self.may_stand() {
            self.raw.campaign().expect("campaign fails only on a broken store, and ours is memory");
            self.elections += 1;
            self.choose_timeout();
        }
    }

    /// Whether it may stand for election by itself. Not with entries that it could still lose: the
    /// library would not have it.
    pub(super) fn may_stand(&self) -> bool {
        let word = self.word.still_until.max(self.word.silent_until);
        self.unsynced == 0 && self.now >= word
    }

    /// Whether it could stand as soon as it is told to: not with entries that it could still lose,
    /// nor before it has applied a change of members that it knows to be committed. The library
    /// would not have it.
    pub(super) fn is_fit(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        self.unsynced == 0 && log.applied >= log.committed
    }

    /// Stands if it was told to and could not.
    pub(super) fn stand_if_told(&mut self) {
        if self.told_to_stand.is_some() && self.is_fit() {
            let told = self.told_to_stand.take().expect("it was just looked at");
            // Of a term that is over, it is of no account.
            let _refused = self.step(told, self.now);
        }
    }
}

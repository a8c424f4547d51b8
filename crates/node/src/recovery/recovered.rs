//! A replica that an operator has made the only voter of its shard, since the others are lost
//! ([`crate::recovery::quorum_loss`]).
//!
//! A restart applies its log up to the record, committed or not, with all changes of members. It
//! needs these, because a change of the catalogue depends on them. Then the record overrules them.
//! If the record names a cut, the shard was split later than the log knows, and the keys behind the
//! cut are dropped.
//!
//! The record may stay in the log long after it took effect. Later checkpoints and changes of
//! members have a higher generation than the record. So a replica at that generation has applied
//! the record.

use keyspace::codec::DecodeError;
use replication::{HardState, Members};

use super::{RecoveringReplica, unreadable};
use crate::recovery::RecoverError;
use crate::replica::members::Roster;
use crate::replica::record::Recovered;
use crate::replica::state::{Content, ShardState};
use crate::reshape::merge::MergeStatus;

impl RecoveringReplica {
    /// Applies all that waits, as if it were committed: what the changes of members among it, at
    /// these indexes, make of them.
    pub fn take_all(&mut self) -> Vec<(u64, Members)> {
        let mut changes = Vec::new();
        for entry in std::mem::take(&mut self.pending) {
            if self.apply(&entry) {
                changes.push((entry.index(), self.state.members.clone()));
            }
        }
        self.pending_from = None;
        changes
    }

    /// Takes the record that it is the only voter.
    ///
    /// # Errors
    /// [`RecoverError::Unreadable`], [`RecoverError::Gap`].
    pub(super) fn recovered(&mut self, payload: &[u8]) -> Result<(), RecoverError> {
        let what = "the record of its recovery";
        let record =
            Recovered::decode(payload).map_err(|source| unreadable(self.shard, what, source))?;
        if self.state.descriptor.generation >= record.generation {
            return Ok(());
        }
        self.take_all();
        let (shard, found) = (self.shard, self.state.applied_index);
        if (self.replica, found) != (record.replica, record.index) || self.gap.is_some() {
            return Err(RecoverError::Gap { shard, expected: found + 1, found: record.index });
        }
        if let Some(cut) = &record.cut {
            let field = DecodeError::Field { what: "cut" };
            self.state.cut_off(cut).ok_or_else(|| unreadable(shard, what, field))?;
        }
        let Recovered { replica, node, generation, newest, next_ids, .. } = record;
        let ShardState { descriptor, roster, members, content, merging, .. } = &mut self.state;
        *members = Members::of_voters(&[replica]);
        *roster = Roster { newest, leaving: Vec::new(), is_settled: true };
        descriptor.replicas = vec![(replica, node)];
        (descriptor.generation, descriptor.leader) = (generation, Some(replica));
        // Its left neighbour cannot thaw it any more: that one asks for a lower generation, and
        // cancels the merge when it is refused.
        if merging.is_frozen() {
            *merging = MergeStatus::None;
        }
        if let Content::System(system) = content {
            system.catalogue.reserve_ids(next_ids);
        }
        self.hard_state = HardState { term: record.term, vote: 0, commit: found };
        Ok(())
    }
}

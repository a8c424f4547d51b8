//! A replica that people have made its shard's only voter, for the others are lost
//! ([`crate::recovery::quorum_loss`]).
//!
//! Its log up to the record counts, whether it was committed or not, with all changes of members in
//! it: what a change of the catalogue makes depends on them. Then the record overrules them. If it
//! names a cut, the shard was split later than the log knows, and what is behind is dropped.
//!
//! The record may be there long after it was taken: behind it come checkpoints and changes of
//! members, each with a generation above the record's. So whoever is at that generation has it.

use keyspace::codec::DecodeError;
use replication::{HardState, Members};

use super::{Recovering, unreadable};
use crate::recovery::RecoverError;
use crate::replica::members::Roster;
use crate::replica::record::Recovered;
use crate::replica::state::{Content, ShardState};

impl Recovering {
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
        let ShardState { descriptor, roster, members, content, .. } = &mut self.state;
        *members = Members::of_voters(&[replica]);
        *roster = Roster { newest, going: Vec::new(), is_settled: true };
        descriptor.replicas = vec![(replica, node)];
        (descriptor.generation, descriptor.leader) = (generation, Some(replica));
        if let Content::System(system) = content {
            system.catalogue.pass_over(next_ids);
        }
        self.hard_state = HardState { term: record.term, vote: 0, commit: found };
        Ok(())
    }
}

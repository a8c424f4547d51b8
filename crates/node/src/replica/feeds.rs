//! The replica as the leader of a shard that feeds watch ([`crate::feed`], SAFETY G23).
//!
//! A feed's question waits among the readers until there is something to tell, or its time is over.
//! Only then does it get its time, which the promise to readers is raised to, as for a read. So an
//! idle shard logs a horizon once a second while it is watched, and none else.

use hlc::Clock;
use keyspace::Timestamp;
use replication::BootNanos;

use super::Replica;
use super::rpc_handler::is_near;
use crate::feed::changes::{ChangesWanted, How};
use crate::feed::log::ChangeLog;
use crate::routing::fetch::{FetchRequest, FetchResult};

const NANOS_PER_MS: u64 = 1_000_000;
/// No question waits for longer here: who asks repeats it.
pub const WAIT_MS_MAX: u64 = 1_000;

impl Replica {
    /// The time at which a question of a feed is answered that has waited since then; none: it is
    /// to wait on.
    pub(super) fn time_of_changes(
        &mut self,
        want: &ChangesWanted,
        since: BootNanos,
        now: BootNanos,
        clock: &Clock,
    ) -> Option<Timestamp> {
        let time = clock.now().max(self.serving.floor());
        let state = self.state.read();
        let log = self.change_log.get_or_insert_with(|| Box::new(ChangeLog::new(&state, now)));
        log.asked(now);
        if !log.is_of(&state) {
            **log = ChangeLog::new(&state, now);
        }
        let (until, wait_ms) = match want.how {
            How::Live { until, wait_ms } => (until, wait_ms.min(WAIT_MS_MAX)),
            How::Walk { .. } => (Timestamp::ZERO, 0),
        };
        let is_late = now >= since.saturating_add(wait_ms * NANOS_PER_MS);
        if !is_late && !want.is_answered_by(&state, log, time) {
            return None;
        }
        // No clock is drawn far ahead by another (SAFETY G12).
        Some(if is_near(until, clock) { time.max(until) } else { time })
    }

    /// What a question of a feed is answered, when nothing more comes at or below `settled`; none:
    /// the shard has not the part that is asked about.
    pub(super) fn find_changes(
        &self,
        want: &FetchRequest,
        settled: Timestamp,
    ) -> Option<FetchResult> {
        let FetchRequest::Changes(want) = want else { return None };
        let state = self.state.read();
        let log = self.change_log.as_deref()?;
        let is_owned = state.engine().is_some() && want.ends == state.descriptor.arc.ends();
        is_owned.then(|| want.answer(&state, log, settled, self.group.term()))
    }

    /// Nobody has asked for the newest changes for long.
    pub(super) fn drop_unasked_log(&mut self, now: BootNanos) {
        self.change_log.take_if(|log| log.is_unasked(now));
    }
}

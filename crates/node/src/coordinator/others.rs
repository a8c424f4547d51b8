//! Transactions that others have left: whose coordinator is gone, or seems to be.
//!
//! ```text
//!   LOOK at the record ── an outcome ────────────────────────────► RESOLVE, as for one's own
//!          └── staged ──► PREVENT every key ── one is prevented ──► DECIDE aborted
//!                                ├── a value found alive expires ─► DECIDE aborted
//!                                └── all are locked ──────────────► DECIDE committed
//! ```
//!
//! Several may do so at a time, and beside the coordinator itself: each step says what is so, and
//! is done once.

use bytes::Bytes;
use replication::BootNanos;

use super::{At, Coordinator, Phase, Routes, Run, Then};
use crate::executor::NotDone;
use crate::locks::{Deadline, Finding, Mark, Name, Outcome, Said, Standing, commit_time};
use crate::replica::Stuck;

impl Coordinator {
    /// Finishes a transaction whose coordinator seems to be gone.
    pub fn finish(&mut self, stuck: Stuck, at: At, routes: Routes<'_>) {
        let Stuck { keyspace, id, record, keys } = stuck;
        if self.runs.values().any(|run| run.id == id) {
            return;
        }
        let run = Run {
            keyspace,
            id,
            token: None,
            body: Bytes::new(),
            commands: 0,
            began: at.now,
            until: BootNanos::MAX,
            record,
            keys: Vec::new(),
            at_home: Vec::new(),
            in_order: false,
            phase: Phase::Looking(keys),
            locked: None,
            kept_as: None,
            tries: 0,
            not_before: 0,
            asks_from: 0,
        };
        self.start(run, at, routes);
    }

    /// The record has said what it says.
    pub(super) fn looked(
        &mut self,
        number: u64,
        said: Result<Said, NotDone>,
        at: At,
        routes: Routes<'_>,
    ) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let (Ok(Said::Record(standing, keys)), Phase::Looking(locked)) = (said, &mut run.phase)
        else {
            // Whoever has found it finds it again.
            self.runs.remove(&number);
            return;
        };
        let locked = std::mem::take(locked);
        run.keys = keys;
        let outcome = match standing {
            Standing::Staged => {
                return self.enter(number, Phase::Preventing(Vec::new()), at, routes);
            }
            Standing::Committed(at) => Outcome::Committed(at),
            // What is too old and still locked was never committed: a record that says so keeps
            // its keys until all are resolved.
            Standing::Aborted | Standing::TooOld => Outcome::Aborted,
        };
        run.keys.extend(locked.iter().map(|key| Name::from(&**key)));
        run.keys.sort_unstable();
        run.keys.dedup();
        self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
    }

    /// A part has said what it found.
    pub(super) fn prevented(
        &mut self,
        number: u64,
        part: usize,
        said: Result<Said, NotDone>,
        at: At,
        routes: Routes<'_>,
    ) {
        let Some(Run { phase: Phase::Preventing(found), .. }) = self.runs.get_mut(&number) else {
            return;
        };
        let Ok(Said::Found(findings)) = said else {
            self.runs.remove(&number);
            return;
        };
        found[part] = Some(findings);
        if found.iter().any(Option::is_none) {
            return;
        }
        let locked_at = |finding: &Finding| match finding {
            Finding::Locked(vote) => Some((vote.at, vote.deadline)),
            // The record says so, whatever is found elsewhere.
            Finding::Marked(Mark::Committed(at, _, _)) => Some((*at, Deadline::NEVER)),
            Finding::Marked(Mark::Aborted) => None,
        };
        let all: Option<Vec<_>> = found.iter().flatten().flatten().map(locked_at).collect();
        let commit = all.and_then(commit_time);
        let outcome = commit.map_or(Outcome::Aborted, Outcome::Committed);
        self.enter(number, Phase::Deciding(outcome, Then::Nothing), at, routes);
    }
}

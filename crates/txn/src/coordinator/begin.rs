//! How does a transaction begin? In one keyspace or in several, for the first time or again.

use keyspace::{KeyspaceId, Timestamp};

use super::{
    Coordinator, CoordinatorAction, CoordinatorTime, Phase, Routes, RunningTxn, TxnOutcome,
};
use crate::ConflictRetry;
use crate::locks::TxnId;
use command::Transaction;

impl Coordinator {
    /// Begins a transaction. `routes` finds its keyspace's shards, now and later.
    pub fn begin(
        &mut self,
        keyspace: KeyspaceId,
        transaction: &Transaction<'_>,
        token: u64,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        self.begin_again(keyspace, transaction, token, None, at, routes);
    }

    /// Begins a transaction that has failed before, or has waited: its attempts end when it has
    /// taken the request's timeout in all.
    pub fn begin_again(
        &mut self,
        keyspace: KeyspaceId,
        transaction: &Transaction<'_>,
        token: u64,
        before: Option<ConflictRetry>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        self.begin_spanning(&[(keyspace, transaction)], token, before, at, routes);
    }

    /// Begins a transaction that does this in one keyspace or more, at one moment.
    pub fn begin_spanning(
        &mut self,
        whole: &[(KeyspaceId, &Transaction<'_>)],
        token: u64,
        before: Option<ConflictRetry>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let Some((keyspace, _)) = whole.first() else {
            let ended = TxnOutcome::Done(Vec::new());
            return self.acts.push(CoordinatorAction::Report { token, ended });
        };
        let since = before.as_ref().map_or(at.now, |before| before.since);
        let arena = &mut self.arena;
        let body = |(keyspace, transaction): &(KeyspaceId, &Transaction<'_>)| {
            (*keyspace, arena.with(|out| transaction.encode(out)))
        };
        let bodies = whole.iter().map(body).collect();
        let id = self.new_id(at.time);
        let run = RunningTxn {
            keyspace: *keyspace,
            id: if whole.len() > 1 { id.spanning() } else { id },
            token: Some(token),
            bodies,
            commands: whole.iter().map(|(_, transaction)| transaction.commands.len()).sum(),
            began: at.now,
            until: since.saturating_add(self.request_timeout),
            record: Box::default(),
            keyspaces: Vec::new(),
            keys: Vec::new(),
            in_record_shard: Vec::new(),
            in_order: false,
            may_be_committed: false,
            phase: Phase::New,
            reserved_as: before.as_ref().and_then(|before| before.reserved_as),
            locked: before.and_then(|before| before.key),
            tries: 0,
            not_before: 0,
            asks_from: 0,
            trace: self.new_trace(),
            record_shard: None,
        };
        self.start(run, at, routes);
    }

    pub(super) fn start(&mut self, run: RunningTxn, at: CoordinatorTime, routes: Routes<'_>) {
        let number = self.next_run;
        self.next_run += 1;
        self.runs.insert(number, run);
        self.go_on(number, at, routes);
    }

    /// An id with a start above all earlier ones.
    pub(super) fn new_id(&mut self, time: Timestamp) -> TxnId {
        self.newest = Timestamp(self.newest.0 + 1).max(time);
        TxnId { start: self.newest, coordinator: self.name, attempt: 0 }
    }
}

//! All shards of a node on their way back, as a driver reads the log once.

use super::*;

/// Recovers all shards of a node: a driver passes it each record of the log.
///
/// ```text
///   checkpoints ──► Replay::new ──► record, record, … ──► finish ──► shards to be adopted
/// ```
///
/// A dropped shard may leave records without a beginning: its checkpoint went with an old manifest,
/// and the log may begin between the shard's bootstrap and its end. Such records are ignored, but
/// then the shard's end must follow.
pub struct Replay {
    settings: Settings,
    node: NodeId,
    pub(super) shards: BTreeMap<ShardId, RecoveringReplica>,
    /// Whose end was passed: ids are never used again.
    pub(super) dropped: BTreeSet<ShardId>,
    /// Which of them another shard has taken in, and which one.
    pub(super) absorbed: BTreeMap<ShardId, ShardId>,
    /// Whose replica here takes no part any more, and no other has begun since.
    ended: BTreeMap<ShardId, EndedReplica>,
    /// Right halves of replicas that have ended, each with the left one.
    halves: BTreeMap<ShardId, (ShardId, Box<ShardState>)>,
    /// Of whom there were records, but neither a beginning nor, so far, an end.
    headless: BTreeSet<ShardId>,
    evidence: LogEvidence,
}

impl Replay {
    /// Of this node, with the shards that the manifest's checkpoints hold, each restored.
    pub fn new(
        node: NodeId,
        shards: BTreeMap<ShardId, RecoveringReplica>,
        settings: impl Into<Settings>,
    ) -> Self {
        let settings = settings.into();
        let (dropped, absorbed, headless, halves) = Default::default();
        let mut evidence = LogEvidence::default();
        shards.values().for_each(|shard| evidence.checkpoint(shard));
        let ended = BTreeMap::new();
        Self { settings, node, shards, dropped, absorbed, ended, halves, headless, evidence }
    }

    /// Takes the log's next record, which stands in the group at `lsn`.
    ///
    /// # Errors
    /// As [`RecoveringReplica::record`] and [`RecoveringReplica::created`].
    pub fn record(&mut self, lsn: Lsn, record: &Record<'_>) -> Result<(), RecoverError> {
        let id = record.shard;
        self.evidence.record(record);
        if [record::SHARD_DROPPED, record::SHARD_ABSORBED].contains(&record.kind) {
            self.end(id);
            self.headless.remove(&id);
            self.ended.remove(&id);
            self.dropped.insert(id);
            self.absorbed.remove(&id);
            if record.kind == record::SHARD_ABSORBED {
                let left = decode_merged(record.payload);
                let left =
                    left.map_err(|source| unreadable(id, "the record of a merge", source))?;
                self.absorbed.insert(id, left);
            }
            return Ok(());
        }
        if record.kind != record::REPLICA_CREATED {
            self.begin_half(id);
        }
        if [record::REPLICA_QUARANTINED, record::REPLICA_REMOVED].contains(&record.kind) {
            return self.end_replica(id, record.kind, record.payload);
        }
        let ended = self.ended.get(&id).map(|ended| ended.replica);
        match self.shards.get_mut(&id) {
            Some(shard) => {
                shard.record(lsn, record.kind, record.payload)?;
                self.take_in(id);
            }
            None if self.dropped.contains(&id) => {}
            None if record.kind == record::SHARD_CREATED && ended.is_none() => {
                let shard =
                    RecoveringReplica::created(id, self.node, record.payload, self.settings)?;
                self.shards.insert(id, shard);
            }
            None if record.kind == record::REPLICA_CREATED => {
                self.shards
                    .insert(id, RecoveringReplica::awaiting(id, record.payload, self.settings)?);
                self.ended.remove(&id);
            }
            None if ended.is_some() => {}
            None => {
                self.headless.insert(id);
            }
        }
        Ok(())
    }

    /// A replica has ended, which had this state; what was cut off from it goes on.
    pub(super) fn end(&mut self, id: ShardId) -> Option<ShardState> {
        let RecoveringReplica { halves, state, .. } = self.shards.remove(&id)?;
        self.halves.extend(halves.into_iter().map(|(half, state)| (half, (id, state))));
        Some(state)
    }

    /// A record of this shard is read: if it is the first one of a right half, that begins.
    fn begin_half(&mut self, id: ShardId) {
        if self.shards.contains_key(&id)
            || self.ended.contains_key(&id)
            || self.dropped.contains(&id)
        {
            return;
        }
        let mut lefts = self.shards.iter_mut();
        let found = lefts.find_map(|(left, shard)| Some((*left, shard.halves.remove(&id)?)));
        let found = found.or_else(|| self.halves.remove(&id));
        if let Some((left, state)) = found
            && let Some(replica) = state.descriptor.replica_on(self.node)
        {
            let half = RecoveringReplica::of(id, replica, *state, HardState::default());
            self.shards.insert(id, RecoveringReplica { left: Some(left), ..half });
        }
    }

    /// The shards as the whole log has made them.
    ///
    /// # Errors
    /// [`RecoverError::NoBeginning`], [`RecoverError::Gap`], [`RecoverError::CutShort`].
    pub fn finish(mut self) -> Result<ReplayResult, RecoverError> {
        // Those that had written nothing yet. One may have been split in its turn.
        loop {
            let known = |id: &ShardId| {
                self.shards.contains_key(id)
                    || self.ended.contains_key(id)
                    || self.dropped.contains(id)
            };
            let halves = self.shards.values().flat_map(|shard| shard.halves.keys());
            let mut halves = halves.chain(self.halves.keys());
            let Some(id) = halves.find(|id| !known(id)).copied() else { break };
            self.begin_half(id);
        }
        self.evidence.finish()?;
        if let Some(shard) = self.headless.first() {
            return Err(RecoverError::NoBeginning { shard: *shard });
        }
        for (shard, recovering) in &self.shards {
            if let Some(Gap { expected, found }) = recovering.gap {
                return Err(RecoverError::Gap { shard: *shard, expected, found });
            }
        }
        let Self { shards, ended, dropped, absorbed, .. } = self;
        Ok(ReplayResult { shards, ended, dropped, absorbed })
    }

    /// The shard's replica takes no part any more; unless one that came after it is here already,
    /// from a checkpoint.
    fn end_replica(&mut self, id: ShardId, kind: u8, payload: &[u8]) -> Result<(), RecoverError> {
        let ended = EndedReplica::decode(kind, payload)
            .map_err(|source| unreadable(id, "the record of a replica's end", source))?;
        if self.dropped.contains(&id) {
            return Ok(());
        }
        self.headless.remove(&id);
        match self.shards.get_mut(&id) {
            Some(later) if later.replica > ended.replica => later.forget_log(),
            _ => {
                self.end(id);
                self.ended.insert(id, ended);
            }
        }
        Ok(())
    }
}

/// What a log and its checkpoints hold.
#[derive(Default)]
pub struct ReplayResult {
    /// The shards.
    pub shards: BTreeMap<ShardId, RecoveringReplica>,
    /// Replicas that take no part any more ([`crate::executor::ShardExecutor::adopt_ended`]).
    pub ended: BTreeMap<ShardId, EndedReplica>,
    /// Shards whose end the log holds ([`crate::executor::ShardExecutor::mark_ended`]). The replica
    /// of the catalogue may still have them: it knows again what is committed when it hears its
    /// group.
    pub dropped: BTreeSet<ShardId>,
    /// Which of them another shard has taken in, and which one
    /// ([`crate::executor::ShardExecutor::adopt_merged`]).
    pub absorbed: BTreeMap<ShardId, ShardId>,
}

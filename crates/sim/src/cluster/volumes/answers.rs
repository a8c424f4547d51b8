//! What these clients are answered, and what they never are.

use command::{NotDone, Reply};
use node::executor::Answer;

use super::judge::BlockAccess;
use super::{VolumeClients, VolumeOp, VolumeRequest};
use crate::check::Violation;
use crate::cluster::{Plant, World};

/// A healed cluster lets a new session write within this.
const GETS_ON_MS_MAX: u64 = 15_000;

impl World {
    /// An answer for one of these clients.
    pub(in crate::cluster) fn volume_answered(&mut self, answer: Answer) {
        let Some(mut all) = self.volumes.take() else { return };
        match answer {
            Answer::Applied { spent, replies, .. } => {
                for (waiter, reply) in spent.waiters.iter().zip(replies) {
                    self.block_answered(&mut all, waiter.0, Ok(reply));
                }
            }
            Answer::NotDone { waiters, why, .. } => {
                for waiter in waiters {
                    self.block_answered(&mut all, waiter.0, Err(why));
                }
            }
            Answer::Retry { waiter, .. } => all.read_goes_on(waiter.0),
            Answer::Fetched { waiter, at, want, found, shard, .. } => {
                if let Some(VolumeRequest::Read(read)) =
                    all.ops.get_mut(&waiter.0).map(|op| &mut op.what)
                {
                    read.fetched.add(shard, at, *want, *found);
                }
                all.read_goes_on(waiter.0);
            }
            _ => unreachable!("these clients ask nothing else"),
        }
        self.volumes = Some(all);
    }

    fn block_answered(
        &mut self,
        all: &mut VolumeClients,
        number: u64,
        reply: Result<Reply, NotDone>,
    ) {
        let Some(op) = all.ops.remove(&number) else { return };
        self.trace.event(format_args!("volume {number}: {reply:?}"));
        if let (VolumeRequest::Read(_), Err(NotDone::ReplicaLagging)) = (&op.what, &reply) {
            all.ops.insert(number, op);
            return all.read_goes_on(number);
        }
        let now = self.clients.next_event();
        match (&op.what, reply) {
            // It reads again, or not at all.
            (VolumeRequest::Read(_), _) => {}
            (VolumeRequest::Fence, reply) => self.fence_answered(all, &op, reply, now),
            (VolumeRequest::Write { writer, .. }, Ok(Reply::Fenced { epoch })) => {
                self.counts.fenced += 1;
                all.refused(&op, *writer, epoch);
            }
            (VolumeRequest::Write { block, value, writer }, Ok(_)) => {
                self.counts.blocks_written += 1;
                let access = BlockAccess::wrote(op.call, Some(now), *value, *writer);
                all.history.entry(*block).or_default().push(access);
            }
            (
                VolumeRequest::Write { block, value, writer },
                Err(NotDone::OutcomeUnknown | NotDone::Dropped),
            ) => {
                let access = BlockAccess::wrote(op.call, None, *value, *writer);
                all.history.entry(*block).or_default().push(access);
            }
            (VolumeRequest::Write { .. }, Err(_)) => {}
        }
    }

    fn fence_answered(
        &mut self,
        all: &mut VolumeClients,
        op: &VolumeOp,
        reply: Result<Reply, NotDone>,
        now: u64,
    ) {
        let planted = all.planted == Some(Plant::UnwaitedFence);
        let Some(connection) = all.connection(op) else { return };
        let writer = connection.claim.writer();
        let refused_by = match reply {
            Ok(Reply::Fenced { epoch }) => Some(epoch),
            Ok(_) => None,
            Err(_) => {
                connection.all_done = false;
                None
            }
        };
        if refused_by.is_some() {
            connection.claim.refused();
        }
        connection.pieces = connection.pieces.saturating_sub(1);
        if connection.pieces == 0 || planted {
            connection.claim.answered(connection.all_done);
            if connection.claim.is_held() {
                self.counts.takeovers += 1;
                all.had.push((now, writer));
            }
        }
        if let Some(epoch) = refused_by {
            all.refused(op, writer, epoch);
        }
    }

    /// The node of these requests has ended: they are never answered.
    pub(in crate::cluster) fn lose_volumes(&mut self, at: usize) {
        let Some(all) = &mut self.volumes else { return };
        let lost: Vec<VolumeOp> =
            all.ops.extract_if(.., |_, op| op.at == at).map(|(_, op)| op).collect();
        for op in lost {
            if let VolumeRequest::Write { block, value, writer } = op.what {
                let access = BlockAccess::wrote(op.call, None, value, writer);
                all.history.entry(block).or_default().push(access);
            }
        }
    }

    /// Nothing breaks any more: a new session takes the volume and writes, and every block is read.
    pub(in crate::cluster) fn volumes_get_on(&mut self) -> Result<(), Violation> {
        let Some(all) = &self.volumes else { return Ok(()) };
        let (since, first) = (self.clients.next_event(), all.connections);
        let until = self.now_ms + GETS_ON_MS_MAX;
        while self.now_ms < until {
            self.millisecond()?;
            let Some(all) = &self.volumes else { return Ok(()) };
            if all.lacks(since, first).is_empty() {
                return Ok(());
            }
        }
        let all = self.volumes.as_ref();
        let lacks = all.map(|all| all.lacks(since, first)).unwrap_or_default();
        let text = format!("{GETS_ON_MS_MAX} ms after the last fault: {lacks}");
        Err(Violation::new("liveness", text))
    }

    /// Whether none of these clients waits.
    pub(in crate::cluster) fn is_volume_idle(&self) -> bool {
        self.volumes.as_ref().is_none_or(|all| all.ops.is_empty() && all.cloner.is_idle())
    }

    /// What these clients wait for, as text.
    pub(in crate::cluster) fn describe_volumes(&self) -> String {
        self.volumes.as_ref().map(|all| all.open()).unwrap_or_default()
    }
}

impl VolumeClients {
    fn read_goes_on(&mut self, number: u64) {
        if let Some(VolumeRequest::Read(read)) = self.ops.get_mut(&number).map(|op| &mut op.what) {
            read.is_ready = true;
        }
    }

    /// A shard has refused this writer.
    fn refused(&mut self, op: &VolumeOp, writer: command::Writer, epoch: u64) {
        self.epochs[op.at].1.saw(epoch);
        if let Some(connection) = self.connection(op) {
            connection.claim.refused();
        }
        let is_later = |other: &command::Writer| {
            other.session != writer.session && other.epoch >= writer.epoch
        };
        if !self.asked.iter().any(is_later) {
            let text = format!("{writer:?} is refused by epoch {epoch}, and nobody came later");
            self.broken = Some(Violation::new(super::judge::RULE, text));
        }
    }
}

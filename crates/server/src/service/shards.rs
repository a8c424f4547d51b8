//! The state of each shard: `/v1/shards`.

use keyspace::{Arc, NodeId, ReplicaId, ShardId};
use overlay::KnownShard;
use replication::{BootNanos, Follower, Members};

use super::NodeApi;
use crate::runtime::boot_nanos;
use crate::runtime::survey;
use crate::runtime::survey::{ShardView, Survey};
use api::{ApiError, ReplicaRole, ReplicaStatus, ShardStatus, Shards, ShardsQuery, SnapshotStatus};

impl NodeApi {
    pub(super) fn show_shards(&self, asked: &ShardsQuery<'_>) -> Result<Shards, ApiError> {
        let keyspace = asked.keyspace;
        if let Some(name) = keyspace
            && self.runtime.routing.routes().get(name).is_none()
        {
            return Err(self.no_keyspace(name));
        }
        let survey = survey::survey(&self.runtime);
        let is_asked =
            |seen: &&ShardView| keyspace.is_none() || seen.keyspace.as_deref() == keyspace;
        let now = boot_nanos();
        let shards = survey.shards.iter().filter(is_asked);
        let shards = shards.map(|seen| self.shard(seen, &survey, now));
        let page = Shards::page(survey.health.clone(), shards, asked);
        Ok(Shards { node: shown(self.runtime.identity.node), ..page })
    }

    pub(super) fn shard(&self, seen: &ShardView, survey: &Survey, now: BootNanos) -> ShardStatus {
        let arc = &seen.descriptor.arc;
        let slots = arc.slots().filter(|_| seen.has_slots).map(|(first, end)| [first, end - 1]);
        let report = seen.report.as_ref();
        let known = seen.known.as_deref();
        let leader = seen.leader();
        let lease = report.filter(|report| report.leads && report.lease_until != BootNanos::MAX);
        ShardStatus {
            id: seen.id().0,
            keyspace: seen.keyspace.as_deref().map(str::to_owned),
            slots,
            arc: (!seen.has_slots && seen.keyspace.is_some()).then(|| ends(arc)),
            generation: seen.descriptor.generation.0,
            verdict: seen.verdict(),
            here: report.is_some(),
            replicas_wanted: seen.replicas_wanted as u64,
            replicas_live: seen.live as u64,
            voters: seen.members.voters.len() as u64,
            changing: seen.is_changing(),
            replicas: self.replicas(seen, survey, now),
            leader: leader.map(shown),
            without_leader_ms: report.map_or(0, |report| report.leaderless_for_nanos() / 1_000_000),
            term: report.map_or(known.map_or(0, KnownShard::term), |report| report.term),
            committed: report.map_or(0, |report| report.committed),
            applied: report.map_or(0, |report| report.applied),
            lease_ms: lease.map(|report| report.lease_until.saturating_sub(now) / 1_000_000),
            sessions: seen.sessions,
            keys: seen.keys,
            bytes: seen.bytes,
            quarantined: seen.quarantined.iter().map(|replica| replica.0).collect(),
            lagging: seen.behind.iter().map(|behind| behind.lagging.replica.0).collect(),
            load: report.map(|report| self.runtime.request_rates.of_shard(seen.id(), report.leads)),
            told_by: report.map(|_| shown(self.runtime.identity.node)),
        }
    }

    fn replicas(&self, seen: &ShardView, survey: &Survey, now: BootNanos) -> Vec<ReplicaStatus> {
        let one = |(replica, node): &(ReplicaId, NodeId)| {
            let member = survey.members.iter().find(|member| member.node == *node);
            let this = *node == self.runtime.identity.node;
            let name = match member {
                Some(member) => Some(member.name.clone()),
                None => this.then(|| self.config.name.clone()),
            };
            let report = seen.report.as_ref();
            let hint = seen.known.as_ref().and_then(|known| known.hint());
            let leader = report.map_or(hint.map(|hint| hint.leader), |report| report.leader);
            let is = |follower: &&Follower| follower.replica == *replica;
            let follower = report.and_then(|report| report.followers.iter().find(is));
            let last_index = report.map_or(0, |report| report.last_index);
            let contact = follower.filter(|follower| follower.echoed > 0);
            ReplicaStatus {
                replica: replica.0,
                node: shown(*node),
                name,
                role: role(&seen.members, *replica),
                live: this || member.is_some_and(|member| member.is_up()),
                leader: leader == Some(*replica),
                behind: follower.and_then(|follower| follower.behind(last_index)),
                contact_ms: contact.map(|follower| now.saturating_sub(follower.echoed) / 1_000_000),
                awaits_snapshot: follower.is_some_and(|follower| follower.awaits_snapshot),
                snapshot: follower.and_then(|follower| self.snapshot(seen.id(), follower)),
            }
        };
        seen.descriptor.replicas.iter().map(one).collect()
    }

    fn snapshot(&self, shard: ShardId, follower: &Follower) -> Option<SnapshotStatus> {
        let peers = self.runtime.peers.as_ref().filter(|_| follower.awaits_snapshot)?;
        let progress = peers.snapshots.progress();
        let progress = progress.iter().find(|stream| stream.goes_to(shard, follower.replica))?;
        let (sent_bytes, about_bytes) = (progress.sent_bytes, progress.about_bytes);
        Some(SnapshotStatus { sent_bytes, about_bytes })
    }
}

pub(super) fn shown(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

fn role(members: &Members, replica: ReplicaId) -> ReplicaRole {
    match replica {
        _ if members.voters.contains(&replica) => ReplicaRole::Voter,
        _ if members.outgoing.contains(&replica) => ReplicaRole::Outgoing,
        _ => ReplicaRole::Learner,
    }
}

fn ends(arc: &Arc) -> [String; 2] {
    let hex = |tail: &[u8]| tail.iter().map(|byte| format!("{byte:02x}")).collect();
    [hex(arc.start().tail()), hex(arc.end().tail())]
}

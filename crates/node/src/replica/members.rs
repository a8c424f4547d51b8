//! Changes of a shard's replicas: how they stand in an entry, and in the head of a checkpoint.
//!
//! An entry of kind [`crate::replica::entry::Kind::Members`] holds one step of a change; numbers
//! and lists as in [`keyspace::codec`]:
//!
//! ```text
//!   0  count  (replica varint · node u64)…     new replicas follow the log, each in the place of
//!                                              who was on its node
//!   1  list of replicas · list of replicas     joint: these learners will vote, those will go
//!   2                                          the joint state ends
//!   3  as 0, then a list of replicas           as 0; these will go when the new ones vote
//! ```
//!
//! Others only say which replicas there should be ([`crate::executor::Input::ChangeReplicas`]). The
//! next steps follow from the state that the log has made, so any later leader can continue the
//! change (SAFETY G20, ALGORITHMS 6.1). An entry of kind [`crate::replica::entry::Kind::Settle`]
//! ends the change. Only then do removed replicas lose their place, and their nodes may forget them
//! (decision 0024).

use keyspace::codec::{DecodeError, Reader, put_varint};
use keyspace::{Descriptor, Generation, NodeId, ReplicaId};
use replication::{Change, Members};

const ADD: u8 = 0;
const ENTER: u8 = 1;
const LEAVE: u8 = 2;
const EXCHANGE: u8 = 3;

/// The most replicas in a list: far more than a descriptor may hold.
const LIST_MAX: u64 = 64;

/// One step, as an entry holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeStep {
    /// What the group does.
    pub change: Change,
    /// Where new replicas are.
    pub nodes: Vec<(ReplicaId, NodeId)>,
    /// Replicas to remove once the new ones vote.
    pub leaving: Vec<ReplicaId>,
}

/// The replicas of a shard, beside those in its descriptor, as its log has made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// The greatest id that a replica of the shard ever had: none is used again.
    pub newest: ReplicaId,
    /// Replicas to remove once the learners vote.
    pub leaving: Vec<ReplicaId>,
    /// Whether nobody could still believe that a joint state is in force. Until then those that
    /// have gone keep their places.
    pub is_settled: bool,
}

impl ChangeStep {
    /// New replicas follow the log.
    pub fn add(nodes: Vec<(ReplicaId, NodeId)>) -> Self {
        let replicas = nodes.iter().map(|(replica, _)| *replica).collect();
        Self { change: Change::AddLearners(replicas), nodes, leaving: Vec::new() }
    }

    /// New replicas follow the log, and others will go for them.
    pub fn exchange(nodes: Vec<(ReplicaId, NodeId)>, leaving: Vec<ReplicaId>) -> Self {
        Self { leaving, ..Self::add(nodes) }
    }

    /// A step without new replicas.
    pub fn of(change: Change) -> Self {
        Self { change, nodes: Vec::new(), leaving: Vec::new() }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.change {
            Change::AddLearners(_) => {
                out.push(if self.leaving.is_empty() { ADD } else { EXCHANGE });
                put_varint(self.nodes.len() as u64, &mut out);
                for (replica, node) in &self.nodes {
                    put_varint(replica.0, &mut out);
                    out.extend_from_slice(&node.0.to_le_bytes());
                }
                if !self.leaving.is_empty() {
                    put_list(&self.leaving, &mut out);
                }
            }
            Change::EnterJoint { promote, remove } => {
                out.push(ENTER);
                put_list(promote, &mut out);
                put_list(remove, &mut out);
            }
            Change::LeaveJoint => out.push(LEAVE),
        }
        out
    }

    /// Reads one from all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`]: they hold no step.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(bytes);
        let step = match reader.u8()? {
            tag @ (ADD | EXCHANGE) => {
                let count = reader.varint_max(LIST_MAX, "new replicas")?;
                let node = |_| Ok((ReplicaId(reader.varint()?), NodeId(reader.u64()?)));
                let nodes = (0..count).map(node).collect::<Result<_, DecodeError>>()?;
                let leaving = if tag == EXCHANGE { take_list(reader)? } else { Vec::new() };
                Self::exchange(nodes, leaving)
            }
            ENTER => Self::of(Change::EnterJoint {
                promote: take_list(reader)?,
                remove: take_list(reader)?,
            }),
            LEAVE => Self::of(Change::LeaveJoint),
            _ => return Err(DecodeError::Field { what: "step of a change of replicas" }),
        };
        reader.end()?;
        Ok(step)
    }

    /// What the step makes of a shard's descriptor and roster.
    pub(crate) fn apply(&self, descriptor: &mut Descriptor, roster: &mut Roster) {
        match &self.change {
            Change::AddLearners(new) => {
                roster.newest = new.iter().copied().fold(roster.newest, ReplicaId::max);
                roster.leaving.extend_from_slice(&self.leaving);
            }
            Change::EnterJoint { .. } => {
                roster.leaving.clear();
                roster.is_settled = false;
            }
            Change::LeaveJoint => {}
        }
        // The earlier replica on a new replica's node loses its place, and will be removed.
        let is_taken = |at: NodeId| self.nodes.iter().any(|(_, node)| *node == at);
        descriptor.replicas.retain(|(_, node)| !is_taken(*node));
        descriptor.replicas.extend_from_slice(&self.nodes);
        descriptor.replicas.sort_unstable();
        descriptor.generation = Generation(descriptor.generation.0 + 1);
    }
}

impl Roster {
    /// Of a shard that is born with these replicas.
    pub fn of(descriptor: &Descriptor) -> Self {
        let newest = descriptor.replicas.iter().map(|(replica, _)| *replica).max();
        let newest = newest.unwrap_or(ReplicaId(0));
        Self { newest, leaving: Vec::new(), is_settled: true }
    }

    /// A change has ended for good: who is no member has no place any more.
    pub(crate) fn settle(&mut self, descriptor: &mut Descriptor, members: &Members) {
        let all = members.all();
        descriptor.replicas.retain(|(replica, _)| all.contains(replica));
        descriptor.generation = Generation(descriptor.generation.0 + 1);
        self.is_settled = true;
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.newest.0, out);
        put_list(&self.leaving, out);
        out.push(u8::from(self.is_settled));
    }

    /// Reads what [`Self::encode`] has written.
    ///
    /// # Errors
    /// [`DecodeError`]: it is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let newest = ReplicaId(reader.varint()?);
        let leaving = take_list(reader)?;
        let is_settled = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Field { what: "whether a change is settled" }),
        };
        Ok(Self { newest, leaving, is_settled })
    }
}

/// Appends the four lists of `members`.
pub fn encode(members: &Members, out: &mut Vec<u8>) {
    let Members { voters, learners, outgoing, learners_next } = members;
    [voters, learners, outgoing, learners_next].into_iter().for_each(|list| put_list(list, out));
}

/// Reads what [`encode`] has written.
///
/// # Errors
/// [`DecodeError`]: it is something else.
pub fn decode(reader: &mut Reader<'_>) -> Result<Members, DecodeError> {
    Ok(Members {
        voters: take_list(reader)?,
        learners: take_list(reader)?,
        outgoing: take_list(reader)?,
        learners_next: take_list(reader)?,
    })
}

fn put_list(list: &[ReplicaId], out: &mut Vec<u8>) {
    put_varint(list.len() as u64, out);
    list.iter().for_each(|replica| put_varint(replica.0, out));
}

fn take_list(reader: &mut Reader<'_>) -> Result<Vec<ReplicaId>, DecodeError> {
    let count = reader.varint_max(LIST_MAX, "replicas")?;
    (0..count).map(|_| Ok(ReplicaId(reader.varint()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_steps_roundtrip_and_other_bytes_are_refused() {
        let ids = |list: &[u64]| list.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
        let steps = [
            ChangeStep::add(vec![(ReplicaId(2), NodeId(20)), (ReplicaId(300), NodeId(u64::MAX))]),
            ChangeStep::of(Change::EnterJoint { promote: ids(&[2, 300]), remove: ids(&[1]) }),
            ChangeStep::of(Change::LeaveJoint),
            ChangeStep::exchange(vec![(ReplicaId(4), NodeId(40))], ids(&[1, 3])),
        ];
        for step in steps {
            let bytes = step.encode();
            assert_eq!(ChangeStep::decode(&bytes), Ok(step));
            assert!(ChangeStep::decode(&[&bytes[..], &[0]].concat()).is_err());
            assert!(ChangeStep::decode(&bytes[..bytes.len() - 1]).is_err());
        }
        assert!(ChangeStep::decode(&[ADD, 65]).is_err());
    }

    #[test]
    fn members_roundtrip() {
        let ids = |list: &[u64]| list.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
        let members = Members {
            voters: ids(&[1, 2]),
            learners: ids(&[3]),
            outgoing: ids(&[1, 4]),
            learners_next: ids(&[4]),
        };
        let mut out = Vec::new();
        encode(&members, &mut out);
        let mut reader = Reader::new(&out);
        assert_eq!(decode(&mut reader), Ok(members));
        assert!(reader.end().is_ok());
        let roster = Roster { newest: ReplicaId(300), leaving: ids(&[2, 9]), is_settled: false };
        out.clear();
        roster.encode(&mut out);
        assert_eq!(Roster::decode(&mut Reader::new(&out)), Ok(roster));
        *out.last_mut().expect("it is not empty") = 2;
        assert!(Roster::decode(&mut Reader::new(&out)).is_err());
    }

    /// Who goes has a place until all that stay know that it has gone; no id comes again.
    #[test]
    fn places_end_when_the_change_is_settled() {
        let replicas: Vec<_> = (1..=3).map(|id| (ReplicaId(id), NodeId(id * 10))).collect();
        let mut descriptor = Descriptor {
            shard: keyspace::ShardId(9),
            arc: keyspace::Arc::whole(keyspace::KeyspaceId(1)),
            replicas,
            generation: Generation(1),
            leader: None,
        };
        let ids = |list: &[u64]| list.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
        let mut roster = Roster::of(&descriptor);
        let nodes = vec![(ReplicaId(4), NodeId(40))];
        ChangeStep::exchange(nodes, ids(&[3])).apply(&mut descriptor, &mut roster);
        assert_eq!((roster.newest, &roster.leaving), (ReplicaId(4), &ids(&[3])));
        let enter = Change::EnterJoint { promote: ids(&[4]), remove: ids(&[3]) };
        ChangeStep::of(enter).apply(&mut descriptor, &mut roster);
        ChangeStep::of(Change::LeaveJoint).apply(&mut descriptor, &mut roster);
        assert!(!roster.is_settled && roster.leaving.is_empty());
        assert_eq!(descriptor.node_of(ReplicaId(3)), Some(NodeId(30)));
        roster.settle(&mut descriptor, &Members::of_voters(&ids(&[1, 2, 4])));
        assert!(roster.is_settled);
        assert_eq!(descriptor.node_of(ReplicaId(3)), None);
        assert_eq!((roster.newest, descriptor.generation), (ReplicaId(4), Generation(5)));
        // The newest goes without another in its place: its id is not used again.
        let enter = Change::EnterJoint { promote: Vec::new(), remove: ids(&[4]) };
        ChangeStep::of(enter).apply(&mut descriptor, &mut roster);
        roster.settle(&mut descriptor, &Members::of_voters(&ids(&[1, 2])));
        assert_eq!(roster.newest, ReplicaId(4));
    }
}

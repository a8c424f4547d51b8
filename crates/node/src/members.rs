//! Changes of a shard's replicas: how they stand in an entry, and in the head of a checkpoint.
//!
//! An entry of kind [`crate::entry::Kind::Members`] holds one step of a change; numbers and lists
//! as in [`keyspace::codec`]:
//!
//! ```text
//!   0  count  (replica varint · node u64)…     new replicas follow the log, each in the place of
//!                                              who was on its node
//!   1  list of replicas · list of replicas     joint: these learners will vote, those will go
//!   2                                          the joint state ends
//! ```
//!
//! The outside says only which replicas there should be ([`crate::lane::Input::AddReplicas`]). The
//! other steps follow from the state that the log has made, so whoever leads next goes on with them
//! (SAFETY G20, ALGORITHMS 3).

use keyspace::codec::{DecodeError, Reader, put_varint};
use keyspace::{Descriptor, Generation, NodeId, ReplicaId};
use replication::{Change, Members};

const ADD: u8 = 0;
const ENTER: u8 = 1;
const LEAVE: u8 = 2;

/// The most replicas in a list: far more than a descriptor may hold.
const LIST_MAX: u64 = 64;

/// One step, as an entry holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the group does.
    pub change: Change,
    /// Where new replicas are.
    pub nodes: Vec<(ReplicaId, NodeId)>,
}

impl Step {
    /// New replicas follow the log.
    pub fn add(nodes: Vec<(ReplicaId, NodeId)>) -> Self {
        let replicas = nodes.iter().map(|(replica, _)| *replica).collect();
        Self { change: Change::AddLearners(replicas), nodes }
    }

    /// A step without new replicas.
    pub fn of(change: Change) -> Self {
        Self { change, nodes: Vec::new() }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.change {
            Change::AddLearners(_) => {
                out.push(ADD);
                put_varint(self.nodes.len() as u64, &mut out);
                for (replica, node) in &self.nodes {
                    put_varint(replica.0, &mut out);
                    out.extend_from_slice(&node.0.to_le_bytes());
                }
            }
            Change::Enter { promote, remove } => {
                out.push(ENTER);
                put_list(promote, &mut out);
                put_list(remove, &mut out);
            }
            Change::Leave => out.push(LEAVE),
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
            ADD => {
                let count = reader.varint_max(LIST_MAX, "new replicas")?;
                let node = |_| Ok((ReplicaId(reader.varint()?), NodeId(reader.u64()?)));
                Self::add((0..count).map(node).collect::<Result<_, DecodeError>>()?)
            }
            ENTER => {
                Self::of(Change::Enter { promote: take_list(reader)?, remove: take_list(reader)? })
            }
            LEAVE => Self::of(Change::Leave),
            _ => return Err(DecodeError::Field { what: "step of a change of replicas" }),
        };
        reader.end()?;
        Ok(step)
    }

    /// What the step makes of a descriptor. `members` are those after it.
    pub(crate) fn apply(&self, descriptor: &mut Descriptor, members: &Members) {
        // Whoever was on the node of a new replica has no place any more, and will go.
        let is_taken = |at: NodeId| self.nodes.iter().any(|(_, node)| *node == at);
        descriptor.replicas.retain(|(_, node)| !is_taken(*node));
        descriptor.replicas.extend_from_slice(&self.nodes);
        descriptor.replicas.sort_unstable();
        let all = members.all();
        descriptor.replicas.retain(|(replica, _)| all.contains(replica));
        descriptor.generation = Generation(descriptor.generation.0 + 1);
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
    fn steps_survive_their_bytes_and_nothing_else_is_one() {
        let ids = |list: &[u64]| list.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
        let steps = [
            Step::add(vec![(ReplicaId(2), NodeId(20)), (ReplicaId(300), NodeId(u64::MAX))]),
            Step::of(Change::Enter { promote: ids(&[2, 300]), remove: ids(&[1]) }),
            Step::of(Change::Leave),
        ];
        for step in steps {
            let bytes = step.encode();
            assert_eq!(Step::decode(&bytes), Ok(step));
            assert!(Step::decode(&[&bytes[..], &[0]].concat()).is_err());
            assert!(Step::decode(&bytes[..bytes.len() - 1]).is_err());
        }
        assert!(Step::decode(&[ADD, 65]).is_err());
    }

    #[test]
    fn members_survive_their_bytes() {
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
    }
}

//! Reports of survivors, and plans, as JSON and back.
//!
//! Ids of clusters and nodes are sixteen hexadecimal digits, as everywhere; all other numbers are
//! JSON numbers. `what` and `format` stand first: a file of another kind or version is refused.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::codec::Reader;
use keyspace::{Cut, Generation, KeyspaceId, NodeId, ReplicaId, ShardId, Slot, Timestamp};
use node::recovery::quorum_loss::{
    KeyspaceNames, LostShard, Members, Named, RecoveryPlan, ShardRecovery, SurvivingReplica,
    Survivor,
};
use node::replica::record::Recovered;
use serde_json::{Value, json};
use storage::log::Lsn;

/// The only format that is read.
const FORMAT: u64 = 2;
const SURVIVOR: &str = "survivor";
const PLAN: &str = "plan";

/// Why a file is not what it should be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFile {
    /// Another kind of file.
    #[error("this is not a {wanted} of this version. `carillon recover {by}` prints one")]
    Kind {
        /// What was wanted.
        wanted: &'static str,
        /// What prints it.
        by: &'static str,
    },
    /// A member is not there, or is something else.
    #[error("'{name}' is missing or has an invalid value: was the file edited?")]
    Member {
        /// Its name.
        name: &'static str,
    },
}

type Read<T> = Result<T, InvalidFile>;

/// The report of a survivor.
pub fn survivor(survivor: &Survivor) -> Value {
    let replicas: Vec<Value> =
        survivor.replicas.iter().map(|(shard, one)| remains(*shard, one)).collect();
    let ended = survivor.ended.iter().map(|(shard, (replica, is_removed))| {
        json!({ "shard": shard.0, "replica": replica.0, "removed": is_removed })
    });
    json!({
        "what": SURVIVOR,
        "format": FORMAT,
        "cluster": hex(survivor.cluster),
        "node": hex(survivor.node.0),
        "log_end": survivor.log_end.0,
        "replicas": replicas,
        "ended": ended.collect::<Vec<_>>(),
        "catalogue": survivor.catalogue.as_ref().map(names),
    })
}

/// Reads what [`survivor`] has written.
///
/// # Errors
/// [`InvalidFile`].
pub fn survivor_of(value: &Value) -> Read<Survivor> {
    check(value, SURVIVOR, "inspect")?;
    let replicas = list(value, "replicas")?.iter().map(remains_of);
    let ended = list(value, "ended")?.iter().map(|one| {
        let is_removed = one["removed"].as_bool().ok_or(InvalidFile::Member { name: "removed" })?;
        Ok((ShardId(number(one, "shard")?), (ReplicaId(number(one, "replica")?), is_removed)))
    });
    Ok(Survivor {
        cluster: word(value, "cluster")?,
        node: NodeId(word(value, "node")?),
        log_end: Lsn(number(value, "log_end")?),
        replicas: replicas.collect::<Read<_>>()?,
        ended: ended.collect::<Read<_>>()?,
        catalogue: some(&value["catalogue"]).map(names_of).transpose()?,
    })
}

fn remains(shard: ShardId, one: &SurvivingReplica) -> Value {
    let changes = one
        .changes
        .iter()
        .map(|(index, after)| json!({ "index": index, "members": members(after) }));
    json!({
        "shard": shard.0,
        "keyspace_id": one.keyspace.0,
        "slots": slots(one.slots),
        "begins_at": bytes(&one.ends.0),
        "ends_at": bytes(&one.ends.1),
        "replica": one.replica.0,
        "replicas": placed(&one.placed),
        "generation": one.generation.0,
        "newest_replica": one.newest.0,
        "term": one.term,
        "vote": one.vote,
        "commit": one.commit,
        "applied": one.applied,
        "last_term": one.last.0,
        "last_index": one.last.1,
        "last_at": one.last_at.0,
        "members": members(&one.members),
        "changes": changes.collect::<Vec<_>>(),
    })
}

fn remains_of(value: &Value) -> Read<(ShardId, SurvivingReplica)> {
    let changes = list(value, "changes")?.iter();
    let changes = changes.map(|one| Ok((number(one, "index")?, members_of(&one["members"])?)));
    let remains = SurvivingReplica {
        replica: ReplicaId(number(value, "replica")?),
        keyspace: keyspace_id(value, "keyspace_id")?,
        slots: slots_of(&value["slots"])?,
        ends: (bytes_of(value, "begins_at")?, bytes_of(value, "ends_at")?),
        placed: placed_of(value, "replicas")?,
        generation: Generation(number(value, "generation")?),
        newest: ReplicaId(number(value, "newest_replica")?),
        term: number(value, "term")?,
        vote: number(value, "vote")?,
        commit: number(value, "commit")?,
        applied: number(value, "applied")?,
        last: (number(value, "last_term")?, number(value, "last_index")?),
        last_at: Timestamp(number(value, "last_at")?),
        members: members_of(&value["members"])?,
        changes: changes.collect::<Read<_>>()?,
    };
    Ok((ShardId(number(value, "shard")?), remains))
}

fn members(members: &Members) -> Value {
    json!({
        "voters": ids(&members.voters),
        "learners": ids(&members.learners),
        "outgoing": ids(&members.outgoing),
        "learners_next": ids(&members.learners_next),
    })
}

fn members_of(value: &Value) -> Read<Members> {
    Ok(Members {
        voters: ids_of(value, "voters")?,
        learners: ids_of(value, "learners")?,
        outgoing: ids_of(value, "outgoing")?,
        learners_next: ids_of(value, "learners_next")?,
    })
}

fn names(names: &KeyspaceNames) -> Value {
    let keyspaces = names.keyspaces.iter().map(|named| {
        let shards = named.shards.iter();
        let shards = shards.map(|(shard, of)| json!({ "shard": shard.0, "slots": slots(*of) }));
        json!({ "id": named.id.0, "name": named.name, "shards": shards.collect::<Vec<_>>() })
    });
    json!({
        "next_keyspace": names.next_ids.0.0,
        "next_shard": names.next_ids.1.0,
        "keyspaces": keyspaces.collect::<Vec<_>>(),
    })
}

fn names_of(value: &Value) -> Read<KeyspaceNames> {
    let shard = |one: &Value| Ok((ShardId(number(one, "shard")?), slots_of(&one["slots"])?));
    let keyspaces = list(value, "keyspaces")?.iter().map(|one| {
        Ok(Named {
            id: keyspace_id(one, "id")?,
            name: text(one, "name")?,
            shards: list(one, "shards")?.iter().map(shard).collect::<Read<_>>()?,
        })
    });
    Ok(KeyspaceNames { next_ids: next_ids_of(value)?, keyspaces: keyspaces.collect::<Read<_>>()? })
}

fn next_ids_of(value: &Value) -> Read<(KeyspaceId, ShardId)> {
    Ok((keyspace_id(value, "next_keyspace")?, ShardId(number(value, "next_shard")?)))
}

/// A plan.
pub fn plan(plan: &RecoveryPlan) -> Value {
    let nodes = plan.nodes.iter();
    let nodes = nodes.map(|(node, end)| json!({ "node": hex(node.0), "log_end": end.0 }));
    json!({
        "what": PLAN,
        "format": FORMAT,
        "cluster": hex(plan.cluster),
        "nodes": nodes.collect::<Vec<_>>(),
        "lost": plan.lost.iter().map(|node| hex(node.0)).collect::<Vec<_>>(),
        "shards": plan.shards.iter().map(recovery).collect::<Vec<_>>(),
        "gone": plan.lost_shards.iter().map(lost_shard).collect::<Vec<_>>(),
        "nameless": plan.nameless.iter().map(|shard| shard.0).collect::<Vec<_>>(),
        "sound": plan.sound,
    })
}

/// Reads what [`plan`] has written.
///
/// # Errors
/// [`InvalidFile`].
pub fn plan_of(value: &Value) -> Read<RecoveryPlan> {
    check(value, PLAN, "plan")?;
    let nodes = list(value, "nodes")?.iter();
    let nodes = nodes.map(|one| Ok((NodeId(word(one, "node")?), Lsn(number(one, "log_end")?))));
    let bad = |name| move || InvalidFile::Member { name };
    let lost = list(value, "lost")?.iter();
    let lost = lost.map(|one| one.as_str().and_then(of_hex).map(NodeId).ok_or_else(bad("lost")));
    let nameless = list(value, "nameless")?.iter();
    let nameless = nameless.map(|one| one.as_u64().map(ShardId).ok_or_else(bad("nameless")));
    Ok(RecoveryPlan {
        cluster: word(value, "cluster")?,
        nodes: nodes.collect::<Read<BTreeMap<_, _>>>()?,
        lost: lost.collect::<Read<BTreeSet<_>>>()?,
        shards: list(value, "shards")?.iter().map(recovery_of).collect::<Read<_>>()?,
        lost_shards: list(value, "gone")?.iter().map(lost_shard_of).collect::<Read<_>>()?,
        nameless: nameless.collect::<Read<_>>()?,
        sound: number(value, "sound")? as usize,
    })
}

fn recovery(recovery: &ShardRecovery) -> Value {
    let Recovered { replica, node, index, term, generation, newest, next_ids, cut } =
        &recovery.record;
    let encoded = |cut: &Cut| {
        let mut out = Vec::new();
        cut.encode(&mut out);
        bytes(&out)
    };
    let removed: Vec<_> = recovery.removed.iter().map(|(node, one)| (*one, *node)).collect();
    json!({
        "shard": lost_shard(&recovery.shard),
        "goes_on": {
            "replica": replica.0,
            "node": hex(node.0),
            "index": index,
            "term": term,
            "generation": generation.0,
            "newest_replica": newest.0,
            "next_keyspace": next_ids.0.0,
            "next_shard": next_ids.1.0,
            "cut": cut.as_ref().map(encoded),
        },
        "removed": placed(&removed),
        "voters_left": recovery.voters.0,
        "voters": recovery.voters.1,
        "committed": recovery.committed,
        "last_at": recovery.last_at.0,
        "may_miss_acknowledged_writes": recovery.may_miss,
        "end": recovery.end.as_ref().map(encoded),
    })
}

fn recovery_of(value: &Value) -> Read<ShardRecovery> {
    let on = &value["goes_on"];
    let may_miss = "may_miss_acknowledged_writes";
    let removed = placed_of(value, "removed")?;
    Ok(ShardRecovery {
        shard: lost_shard_of(&value["shard"])?,
        record: Recovered {
            replica: ReplicaId(number(on, "replica")?),
            node: NodeId(word(on, "node")?),
            index: number(on, "index")?,
            term: number(on, "term")?,
            generation: Generation(number(on, "generation")?),
            newest: ReplicaId(number(on, "newest_replica")?),
            next_ids: next_ids_of(on)?,
            cut: cut_of(on, "cut")?,
        },
        removed: removed.into_iter().map(|(one, node)| (node, one)).collect(),
        voters: (number(value, "voters_left")? as usize, number(value, "voters")? as usize),
        committed: number(value, "committed")?,
        last_at: Timestamp(number(value, "last_at")?),
        may_miss: value[may_miss].as_bool().ok_or(InvalidFile::Member { name: may_miss })?,
        end: cut_of(value, "end")?,
    })
}

/// A cut, if there is one.
fn cut_of(value: &Value, name: &'static str) -> Read<Option<Cut>> {
    if value[name].is_null() {
        return Ok(None);
    }
    let bytes = bytes_of(value, name)?;
    let mut reader = Reader::new(&bytes);
    let cut = Cut::decode(&mut reader).and_then(|cut| reader.end().map(|()| cut));
    cut.map(Some).map_err(|_| InvalidFile::Member { name })
}

fn lost_shard(lost: &LostShard) -> Value {
    json!({ "shard": lost.shard.0, "keyspace": lost.keyspace, "slots": slots(lost.slots) })
}

fn lost_shard_of(value: &Value) -> Read<LostShard> {
    Ok(LostShard {
        shard: ShardId(number(value, "shard")?),
        keyspace: some(&value["keyspace"]).map(|_| text(value, "keyspace")).transpose()?,
        slots: slots_of(&value["slots"])?,
    })
}

fn slots(slots: Option<(Slot, Slot)>) -> Value {
    slots.map_or(Value::Null, |(first, end)| json!([first, end]))
}

fn slots_of(value: &Value) -> Read<Option<(Slot, Slot)>> {
    let slot = |value: &Value| value.as_u64().and_then(|slot| Slot::try_from(slot).ok());
    let pair = |value: &Value| match value {
        Value::Array(pair) if pair.len() == 2 => slot(&pair[0]).zip(slot(&pair[1])),
        _ => None,
    };
    some(value).map(|value| pair(value).ok_or(InvalidFile::Member { name: "slots" })).transpose()
}

fn placed(placed: &[(ReplicaId, NodeId)]) -> Vec<Value> {
    let one = |(replica, node): &(ReplicaId, NodeId)| {
        let node = hex(node.0);
        json!({ "replica": replica.0, "node": node })
    };
    placed.iter().map(one).collect()
}

fn placed_of(value: &Value, name: &'static str) -> Read<Vec<(ReplicaId, NodeId)>> {
    let one = |one| Ok((ReplicaId(number(one, "replica")?), NodeId(word(one, "node")?)));
    list(value, name)?.iter().map(one).collect()
}

fn ids(ids: &[ReplicaId]) -> Vec<u64> {
    ids.iter().map(|replica| replica.0).collect()
}

fn ids_of(value: &Value, name: &'static str) -> Read<Vec<ReplicaId>> {
    let id = |one: &Value| one.as_u64().map(ReplicaId).ok_or(InvalidFile::Member { name });
    list(value, name)?.iter().map(id).collect()
}

fn check(value: &Value, wanted: &'static str, by: &'static str) -> Read<()> {
    let is_it = value["what"] == wanted && value["format"] == FORMAT;
    if is_it { Ok(()) } else { Err(InvalidFile::Kind { wanted, by }) }
}

fn some(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

fn number(value: &Value, name: &'static str) -> Read<u64> {
    value[name].as_u64().ok_or(InvalidFile::Member { name })
}

fn keyspace_id(value: &Value, name: &'static str) -> Read<KeyspaceId> {
    let id = number(value, name)?.try_into();
    id.map(KeyspaceId).map_err(|_| InvalidFile::Member { name })
}

fn text(value: &Value, name: &'static str) -> Read<String> {
    value[name].as_str().map(str::to_owned).ok_or(InvalidFile::Member { name })
}

fn list<'a>(value: &'a Value, name: &'static str) -> Read<&'a Vec<Value>> {
    value[name].as_array().ok_or(InvalidFile::Member { name })
}

fn word(value: &Value, name: &'static str) -> Read<u64> {
    value[name].as_str().and_then(of_hex).ok_or(InvalidFile::Member { name })
}

fn of_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn hex(word: u64) -> String {
    format!("{word:016x}")
}

fn bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(value: &Value, name: &'static str) -> Read<Vec<u8>> {
    let text = value[name].as_str().filter(|text| text.is_ascii() && text.len().is_multiple_of(2));
    let text = text.ok_or(InvalidFile::Member { name })?;
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16));
    bytes.collect::<Result<_, _>>().map_err(|_| InvalidFile::Member { name })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A node that is left of three.
    pub fn left() -> Survivor {
        let ids = |list: &[u64]| list.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
        let voters = ids(&[1, 2, 3]);
        let joint =
            Members { voters, learners: ids(&[9]), outgoing: ids(&[1]), learners_next: ids(&[8]) };
        let one = |keyspace, slots| SurvivingReplica {
            replica: ReplicaId(1),
            keyspace: KeyspaceId(keyspace),
            slots,
            ends: (Vec::new(), vec![0x20, 0x00]),
            placed: vec![(ReplicaId(1), NodeId(0xa)), (ReplicaId(2), NodeId(u64::MAX))],
            generation: Generation(5),
            newest: ReplicaId(3),
            term: 4,
            vote: 1,
            commit: 117,
            applied: 100,
            last: (4, 120),
            last_at: Timestamp::from_millis(1_700_000_000_123),
            members: Members::of_voters(&ids(&[1, 2, 3])),
            changes: Vec::new(),
        };
        let late = SurvivingReplica { changes: vec![(119, joint)], ..one(1, Some((0, 8192))) };
        let replicas = [(ShardId(0), one(0, None)), (ShardId(1), late)];
        let shards = vec![(ShardId(1), Some((0, 8192))), (ShardId(2), Some((8192, 16384)))];
        let named = Named { id: KeyspaceId(1), name: "orders".into(), shards };
        Survivor {
            cluster: 7,
            node: NodeId(0xa),
            log_end: Lsn(4096),
            replicas: replicas.into_iter().collect(),
            ended: BTreeMap::from([(ShardId(2), (ReplicaId(4), true))]),
            catalogue: Some(KeyspaceNames {
                next_ids: (KeyspaceId(2), ShardId(3)),
                keyspaces: vec![named],
            }),
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let left = left();
        assert_eq!(survivor_of(&survivor(&left)), Ok(left.clone()));
        let without = Survivor { catalogue: None, ..left.clone() };
        assert_eq!(survivor_of(&survivor(&without)), Ok(without));
        let mut made = node::recovery::quorum_loss::plan(&[left]).expect("two of three are lost");
        assert!(made.shards.len() == 2 && made.lost_shards.len() == 1, "{made:?}");
        assert_eq!(plan_of(&plan(&made)), Ok(made.clone()));
        made.shards[1].record.cut = Some(Cut::Key(b"melon"[..].into()));
        assert_eq!(plan_of(&plan(&made)), Ok(made));
    }

    #[test]
    fn a_file_that_is_something_else_is_refused() {
        let good = survivor(&left());
        assert_eq!(plan_of(&good), Err(InvalidFile::Kind { wanted: "plan", by: "plan" }));
        let mut newer = good.clone();
        newer["format"] = (FORMAT + 1).into();
        assert!(matches!(survivor_of(&newer), Err(InvalidFile::Kind { .. })));
        let mut cut = good;
        cut["replicas"][0]["term"] = Value::Null;
        assert_eq!(survivor_of(&cut), Err(InvalidFile::Member { name: "term" }));
    }
}

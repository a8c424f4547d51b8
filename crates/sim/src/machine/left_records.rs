//! Planted: a shard that is cut keeps the records of transactions, also of those whose record keys
//! go to the right half (SAFETY G8: a record moves with its key).
//!
//! The cores have no switch for that. So this file changes the encoded lock table ([`txn::locks`])
//! before the right half begins.

use keyspace::codec::{Reader, put_varint};
use keyspace::{DecodeError, ShardId};
use node::routing::route::View;
use txn::locks::Locks;

use super::Machine;

impl Machine {
    /// Gives the records of a right half that is about to begin back to the shard that it was cut
    /// off from, if that is here.
    pub(super) fn leave_records(&self, right: &View) {
        let start = right.read().descriptor.arc.start().clone();
        let (theirs, records) = without_records(&right.read().locks);
        if records.0 == 0 {
            return;
        }
        right.write().locks = theirs;
        let is_left = |view: &View| *view.read().descriptor.arc.end() == start;
        let views = self.control.views().all();
        let left: Option<ShardId> =
            views.into_iter().find(|(_, view)| is_left(view)).map(|(shard, _)| shard);
        if let Some(left) = left.and_then(|left| self.view(left)) {
            let mut left = left.write();
            left.locks = with_records(&left.locks, &records);
        }
    }
}

/// How many records, and their bytes.
type Records = (u64, Vec<u8>);

fn without_records(locks: &Locks) -> (Locks, Records) {
    let mut bytes = Vec::new();
    locks.encode(&mut bytes);
    let (before, records, behind) = parts(&bytes).expect("the bytes were encoded here");
    let mut rest = before.to_vec();
    put_varint(0, &mut rest);
    rest.extend_from_slice(behind);
    (Locks::decode(&mut Reader::new(&rest)).expect("the bytes were encoded here"), records)
}

fn with_records(locks: &Locks, (count, more): &Records) -> Locks {
    let mut bytes = Vec::new();
    locks.encode(&mut bytes);
    let (before, (own, records), behind) = parts(&bytes).expect("the bytes were encoded here");
    let mut all = before.to_vec();
    put_varint(own + count, &mut all);
    all.extend_from_slice(&records);
    all.extend_from_slice(more);
    all.extend_from_slice(behind);
    Locks::decode(&mut Reader::new(&all)).expect("the bytes were encoded here")
}

/// What stands before the records, these, and what stands behind them.
fn parts(bytes: &[u8]) -> Result<(&[u8], Records, &[u8]), DecodeError> {
    let mut reader = Reader::new(bytes);
    for _ in 0..reader.varint()? {
        reader.bytes()?;
        skip_id(&mut reader)?;
        reader.bytes()?;
        reader.u64()?;
        if reader.u8()? == 1 {
            reader.u64()?;
            reader.bytes()?;
        }
        // How far it reaches.
        if reader.u8()? == 1 {
            reader.bytes()?;
        }
        for _ in 0..reader.varint()? {
            reader.varint()?;
            reader.bytes()?;
        }
    }
    let before = &bytes[..bytes.len() - reader.rest().len()];
    let count = reader.varint()?;
    let from = bytes.len() - reader.rest().len();
    for _ in 0..count {
        skip_id(&mut reader)?;
        reader.bytes()?;
        if reader.u8()? == 1 {
            reader.u64()?;
        }
        for _ in 0..reader.varint()? {
            reader.bytes()?;
        }
    }
    let behind = reader.rest();
    Ok((before, (count, bytes[from..bytes.len() - behind.len()].to_vec()), behind))
}

fn skip_id(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    reader.u64()?;
    reader.u64()?;
    reader.varint()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use command::{Step as Command, Transaction, Write};
    use keyspace::{KeyHasher, Timestamp};
    use storage::engine::{Layout, MemoryEngine};
    use txn::locks::apply::{Owns, apply};
    use txn::locks::{Deadline, Prepare, Role, Step, TxnId};

    use super::*;

    fn prepared(start: u64) -> Locks {
        let (mut locks, hasher) = (Locks::default(), KeyHasher::new([1; 16]));
        let mut engine = MemoryEngine::new(Layout::Ordered, hasher);
        let id = TxnId { start: Timestamp::from_millis(start), coordinator: 7, attempt: 0 };
        let write = |key| Command::Write(Write::append(key, b"1 "));
        let commands = vec![write(b"a"), write(b"b")];
        let part = Transaction { commands, ..Transaction::default() };
        let promised = [b"a".as_slice(), b"b", b"c"].into_iter().collect();
        let places = [0, 1].into_iter().collect();
        let record = b"a".as_slice();
        let role = Role::Votes;
        let (reserved_as, deadline) = (None, Some(Deadline::NEVER));
        let prepare = Prepare {
            id,
            is_first: false,
            reserved_as,
            record,
            promised,
            role,
            deadline,
            places,
            part,
        };
        let step = Step::Prepare(prepare);
        let at = Timestamp::from_millis(start + 1);
        let arc = &keyspace::Arc::whole(keyspace::KeyspaceId(1));
        let owns = Owns { arc, key: &|_| true, up_to: &|_| true };
        apply(&mut locks, &mut engine, &step, at, &owns, &mut ());
        locks
    }

    #[test]
    fn records_go_and_nothing_else() {
        let (one, other) = (prepared(100), prepared(200));
        assert_eq!(one.counts(), (2, 1, 0));
        let (rest, records) = without_records(&one);
        assert_eq!(rest.counts(), (2, 0, 0));
        assert_eq!(with_records(&rest, &records), one);
        assert_eq!(with_records(&other, &records).counts(), (2, 2, 0));
    }
}

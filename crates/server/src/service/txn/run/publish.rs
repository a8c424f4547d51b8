//! Publishes a message within a transaction: it is there if and only if the transaction is done.

use bytes::Bytes;
use command::{Read, Reply, Step};
use topics::draft::Known;
use topics::{Draft, Found, Stop};
use txn::interactive::TxnTooLarge;

use super::super::super::drafts::{self, ROUNDS_MAX};
use super::{Run, Suspended, knows_too_much, put, too_large, version};
use api::{TxnOp, TxnResult};

impl Run {
    /// Publishes a message: reads what that needs, then writes all of it, or nothing.
    pub(super) fn publish(&mut self, topic: &str, body: &[u8]) -> Result<TxnResult, Suspended> {
        let now_ms = self.runtime.clock.millis();
        let mut known = Known::default();
        for _ in 0..ROUNDS_MAX {
            let mut draft = Draft::new(now_ms, known);
            let number = match topics::topic::publish(&mut draft, topic, body) {
                Ok(number) => number,
                Err(Stop::Refused(refusal)) => return Err(self.refused(refusal.to_string())),
                Err(Stop::Missing) => {
                    let keys = draft.missing().chain(draft.missing_peeks());
                    let keys: Vec<Bytes> = keys.map(Bytes::copy_from_slice).collect();
                    (known, _) = draft.end();
                    self.learn_values(keys, &mut known)?;
                    continue;
                }
            };
            let (_, writes) = draft.end();
            let ops = writes.into_iter().map(|(key, write)| drafts::op_of(key, write, now_ms));
            let ops: Vec<TxnOp> = ops.collect();
            let steps: Vec<Step<'_>> = ops.iter().filter_map(put).collect();
            let done = self.held.copy.run_all(&steps);
            done.map_err(|TxnTooLarge| knows_too_much())?;
            self.count()?;
            return Ok(TxnResult::Published(number));
        }
        Err(too_large("it would read keys of the topic in too many rounds"))
    }

    /// What keys have, for a draft; they are read if the copy does not know them.
    fn learn_values(&mut self, keys: Vec<Bytes>, known: &mut Known) -> Result<(), Suspended> {
        let is_read = |key: &Bytes| !self.held.copy.missing_keys(&get(key)).is_empty();
        let lacks: Vec<Bytes> = keys.iter().filter(|key| is_read(key)).cloned().collect();
        self.read(&lacks)?;
        for key in keys {
            let reply = self.held.copy.run(&get(&key));
            let value = match reply.map_err(|TxnTooLarge| knows_too_much())? {
                Reply::Bulk(value) => {
                    let version = version(self.held.copy.seen(&key)).map_or(0, |at| at.0);
                    Some(Found { value: value.into_vec(), version })
                }
                _ => None,
            };
            known.read(key.to_vec(), value);
        }
        Ok(())
    }
}

fn get(key: &Bytes) -> Step<'_> {
    Step::Read(Read::Get(key))
}

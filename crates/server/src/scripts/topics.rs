//! TPUBLISH: publishes to a durable topic, by itself, in MULTI or in a script.
//!
//! By itself it is a script that declares the topic's key ([`SOURCE`]): it runs in the queue of the
//! topic's shard, at its leader, so that those who publish to one topic do not conflict.

use command::{Expiry, Read, Reply, SetIf, SetReply, Sink as _, Step};
use gateway::resp::{RespWriter, Version};
use lua::Flow;
use topics::draft::Known;
use topics::{Draft, Found, Stop, Write};

use super::host::{Halt, ScriptHost};

/// TPUBLISH by itself, as a script.
pub const SOURCE: &[u8] = b"return redis.pcall('TPUBLISH', unpack(ARGV))";
/// Rounds of reads that one publishing may need.
const ROUNDS_MAX: usize = 128;

/// What a draft writes, as a command.
fn step<'a>(key: &'a [u8], write: &'a Write, now_ms: u64) -> Step<'a> {
    let (value, expiry) = match write {
        Write::Put { value, ttl_ms } => {
            let at = |ttl_ms: u64| Expiry::At(now_ms.saturating_add(ttl_ms));
            (value.as_slice(), ttl_ms.map_or(Expiry::Never, at))
        }
        // What ended long ago is gone when it is written, and need not be read before.
        Write::Drop => (&[][..], Expiry::At(1)),
    };
    let (when, reply) = (SetIf::Always, SetReply::Ok);
    Step::Write(command::Write::Set { key, value, when, expiry, reply })
}

impl ScriptHost<'_> {
    /// TPUBLISH.
    pub(super) fn publish_to_topic(
        &mut self,
        topic: &[u8],
        messages: &[&[u8]],
        version: Version,
        reply: &mut Vec<u8>,
    ) -> Flow {
        match self.try_publish(&String::from_utf8_lossy(topic), messages) {
            Ok(Ok(number)) => RespWriter::new(reply, version).int(number),
            Ok(Err(text)) => RespWriter::new(reply, version).error(text),
            Err(halt) => {
                self.halt = Some(halt);
                return Flow::Abort;
            }
        }
        Flow::Continue
    }

    /// The number of the first message, or the error.
    fn try_publish(
        &mut self,
        topic: &str,
        messages: &[&[u8]],
    ) -> Result<Result<i64, String>, Halt> {
        // Time stands still, also when it runs again.
        let now_ms = self.ground.copy.began().millis();
        let mut known = Known::default();
        for _ in 0..ROUNDS_MAX {
            let mut draft = Draft::new(now_ms, known);
            match topics::topic::publish_all(&mut draft, topic, messages) {
                Err(Stop::Refused(refusal)) => return Ok(Err(format!("ERR {refusal}"))),
                Err(Stop::Missing) => {
                    let keys = draft.missing().chain(draft.missing_peeks());
                    let keys: Vec<Vec<u8>> = keys.map(<[u8]>::to_vec).collect();
                    (known, _) = draft.end();
                    let reads = keys.iter().map(|key| Step::Read(Read::Get(key)));
                    let replies = self.run(&reads.collect::<Vec<_>>())?;
                    for (key, reply) in keys.into_iter().zip(replies) {
                        let value = match reply {
                            Reply::Bulk(value) => Some(value.into_vec()),
                            _ => None,
                        };
                        known.read(key, value.map(|value| Found { value, version: 0 }));
                    }
                }
                Ok(first) => {
                    let (_, writes) = draft.end();
                    let steps = writes.iter().map(|(key, write)| step(key, write, now_ms));
                    self.run(&steps.collect::<Vec<_>>())?;
                    return Ok(Ok(first.unwrap_or_default() as i64));
                }
            }
        }
        Ok(Err("ERR it would read keys of the topic in too many rounds".to_owned()))
    }
}

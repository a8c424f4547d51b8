//! The bytes of RPCs: tag `u8`, then the fields of [`RpcMessage`] in their order; words as in
//! [`keyspace::codec`].

use bytes::{Buf, Bytes};
use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{DecodeError, KeyspaceId, ShardId, Subject, Timestamp};
use overlay::KnownShard;

use super::{RpcMessage, RpcRequestId};
use crate::replica::{Count, SYSTEM, SafePoint, SafePointRequest};
use crate::reshape::merge::MergeMessage;
use crate::routing::fetch::{FetchRequest, FetchResult};
use crate::routing::session::{BatchId, BatchVerdict};
use crate::rpc::notice::ReplicaNotice;
use crate::tracking::message::TrackingMessage;
use txn::locks::StepReply;

impl RpcMessage {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            RpcMessage::Write { shard, id, count, commands } => {
                begin(1, *shard, out);
                out.extend_from_slice(&id.to_bytes());
                put_varint(u64::from(*count), out);
                out.extend_from_slice(commands);
            }
            RpcMessage::ReadIndex { shard, number, at } => {
                begin(2, *shard, out);
                put_varint(*number, out);
                out.extend_from_slice(&at.0.to_le_bytes());
            }
            RpcMessage::Catalogue { number, op } => {
                out.push(3);
                put_varint(*number, out);
                put_bytes(op, out);
            }
            RpcMessage::WriteReply { shard, session, sequence, verdict } => {
                begin(4, *shard, out);
                out.extend_from_slice(&session.to_le_bytes());
                put_varint(*sequence, out);
                put_verdict(verdict, out);
            }
            RpcMessage::ReadIndexReply { shard, number, index, now_ms, settled } => {
                begin(5, *shard, out);
                for word in [number, index, now_ms] {
                    put_varint(*word, out);
                }
                out.extend_from_slice(&settled.0.to_le_bytes());
            }
            RpcMessage::CatalogueReply { number, index, result } => {
                out.push(6);
                put_varint(*number, out);
                put_varint(*index, out);
                Subject::encode_result(result, out);
            }
            RpcMessage::NotLeader { shard, what, known } => {
                begin(7, *shard, out);
                put_request_id(*what, out);
                out.push(u8::from(known.is_some()));
                known.iter().for_each(|known| known.encode(out));
            }
            RpcMessage::NoRoom { shard, what } => {
                begin(8, *shard, out);
                put_request_id(*what, out);
            }
            RpcMessage::Fetch { shard, number, want } => {
                begin(9, *shard, out);
                put_varint(*number, out);
                want.encode(out);
            }
            RpcMessage::FetchReply { shard, number, at, found } => {
                begin(10, *shard, out);
                put_varint(*number, out);
                out.extend_from_slice(&at.0.to_le_bytes());
                found.encode(out);
            }
            RpcMessage::RaiseSafePoint(SafePointRequest { keyspace, to, is_pressed }) => {
                put_point(11, *keyspace, *to, out);
                out.push(u8::from(*is_pressed));
            }
            RpcMessage::SafePoint { keyspace, point } => {
                let tag = if point.pins.is_empty() { 12 } else { 21 };
                put_point(tag, *keyspace, point.at, out);
                if !point.pins.is_empty() {
                    point.encode_pins(out);
                }
            }
            RpcMessage::Count { shard, number, origin, index } => {
                begin(13, *shard, out);
                for word in [*number, u64::from(*origin), *index] {
                    put_varint(word, out);
                }
            }
            RpcMessage::Merge { shard, word } => {
                begin(15, *shard, out);
                word.encode(out);
            }
            RpcMessage::Step { shard, number, step } => {
                begin(16, *shard, out);
                put_varint(*number, out);
                out.extend_from_slice(step);
            }
            RpcMessage::StepReply { shard, number, reply } => {
                begin(17, *shard, out);
                put_varint(*number, out);
                reply.encode(out);
            }
            RpcMessage::CountReply { shard, number, origin, count } => {
                begin(14, *shard, out);
                for word in [*number, u64::from(*origin), count.index, count.others] {
                    put_varint(word, out);
                }
                out.push(u8::from(count.is_here));
            }
            RpcMessage::Tracking { shard, message } => {
                begin(18, *shard, out);
                message.encode(out);
            }
            RpcMessage::Notice { shard, notice } => {
                begin(20, *shard, out);
                notice.encode(out);
            }
        }
    }

    /// Reads one that takes up all the bytes. Commands share their memory.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(mut bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(&bytes);
        let tag = reader.u8()?;
        if tag == 1 {
            let shard = ShardId(reader.varint()?);
            let (id, rest) = BatchId::split(reader.rest()).ok_or(DecodeError::Short)?;
            let mut reader = Reader::new(rest);
            let count = reader.varint_max(u32::MAX.into(), "count of commands")? as u32;
            let left = reader.rest().len();
            bytes.advance(bytes.len() - left);
            return Ok(RpcMessage::Write { shard, id, count, commands: bytes });
        }
        if tag == 16 {
            let (shard, number) = (ShardId(reader.varint()?), reader.varint()?);
            let left = reader.rest().len();
            bytes.advance(bytes.len() - left);
            return Ok(RpcMessage::Step { shard, number, step: bytes });
        }
        let rpc = Self::decode_small(tag, &mut reader)?;
        reader.end()?;
        Ok(rpc)
    }

    fn decode_small(tag: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let shard = match tag {
            3 | 6 | 11 | 12 | 21 => SYSTEM,
            _ => ShardId(reader.varint()?),
        };
        Ok(match tag {
            2 => RpcMessage::ReadIndex {
                shard,
                number: reader.varint()?,
                at: Timestamp(reader.u64()?),
            },
            3 => RpcMessage::Catalogue { number: reader.varint()?, op: reader.bytes()?.into() },
            4 => RpcMessage::WriteReply {
                shard,
                session: reader.u64()?,
                sequence: reader.varint()?,
                verdict: read_verdict(reader)?,
            },
            5 => RpcMessage::ReadIndexReply {
                shard,
                number: reader.varint()?,
                index: reader.varint()?,
                now_ms: reader.varint()?,
                settled: Timestamp(reader.u64()?),
            },
            6 => {
                let (number, index) = (reader.varint()?, reader.varint()?);
                let result = Subject::decode_result(reader)?;
                RpcMessage::CatalogueReply { number, index, result }
            }
            7 => {
                let (what, known) = (read_request_id(reader)?, read_known(reader)?);
                if known.as_ref().is_some_and(|known| known.shard() != shard) {
                    return Err(DecodeError::Field { what: "a shard that is known: another" });
                }
                RpcMessage::NotLeader { shard, what, known }
            }
            8 => RpcMessage::NoRoom { shard, what: read_request_id(reader)? },
            9 => RpcMessage::Fetch {
                shard,
                number: reader.varint()?,
                want: FetchRequest::decode(reader)?,
            },
            10 => RpcMessage::FetchReply {
                shard,
                number: reader.varint()?,
                at: Timestamp(reader.u64()?),
                found: FetchResult::decode(reader)?,
            },
            11 => {
                let (keyspace, to) = read_point(reader)?;
                let is_pressed = read_flag(reader, "shortness of memory")?;
                RpcMessage::RaiseSafePoint(SafePointRequest { keyspace, to, is_pressed })
            }
            tag @ (12 | 21) => {
                let (keyspace, at) = read_point(reader)?;
                let pins = match tag {
                    12 => Box::default(),
                    _ => SafePoint::decode_pins(reader)?,
                };
                RpcMessage::SafePoint { keyspace, point: SafePoint { at, pins } }
            }
            13 => {
                let (number, origin) = read_asker(reader)?;
                RpcMessage::Count { shard, number, origin, index: reader.varint()? }
            }
            14 => {
                let (number, origin) = read_asker(reader)?;
                let (index, others) = (reader.varint()?, reader.varint()?);
                let is_here = read_flag(reader, "replica on disk")?;
                RpcMessage::CountReply {
                    shard,
                    number,
                    origin,
                    count: Count { index, others, is_here },
                }
            }
            15 => RpcMessage::Merge { shard, word: MergeMessage::decode(reader)? },
            17 => RpcMessage::StepReply {
                shard,
                number: reader.varint()?,
                reply: StepReply::decode(reader)?,
            },
            18 => RpcMessage::Tracking { shard, message: TrackingMessage::decode(reader)? },
            20 => RpcMessage::Notice { shard, notice: ReplicaNotice::decode(reader)? },
            found => return Err(DecodeError::Tag { what: "RPC", found }),
        })
    }
}

fn begin(tag: u8, shard: ShardId, out: &mut Vec<u8>) {
    out.push(tag);
    put_varint(shard.0, out);
}

fn read_flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, DecodeError> {
    match reader.u8()? {
        flag @ (0 | 1) => Ok(flag == 1),
        found => Err(DecodeError::Tag { what, found }),
    }
}

/// Number and origin of the asker.
fn read_asker(reader: &mut Reader<'_>) -> Result<(u64, u32), DecodeError> {
    Ok((reader.varint()?, reader.varint_max(u32::MAX.into(), "origin")? as u32))
}

fn put_point(tag: u8, keyspace: KeyspaceId, point: Timestamp, out: &mut Vec<u8>) {
    out.push(tag);
    put_varint(u64::from(keyspace.0), out);
    out.extend_from_slice(&point.0.to_le_bytes());
}

fn read_point(reader: &mut Reader<'_>) -> Result<(KeyspaceId, Timestamp), DecodeError> {
    let keyspace = reader.varint_max(u32::MAX.into(), "keyspace id")? as u32;
    Ok((KeyspaceId(keyspace), Timestamp(reader.u64()?)))
}

fn put_request_id(what: RpcRequestId, out: &mut Vec<u8>) {
    match what {
        RpcRequestId::Write { session, sequence } => {
            out.push(0);
            out.extend_from_slice(&session.to_le_bytes());
            put_varint(sequence, out);
        }
        RpcRequestId::Read { number } => {
            out.push(1);
            put_varint(number, out);
        }
        RpcRequestId::Catalogue { number } => {
            out.push(2);
            put_varint(number, out);
        }
        RpcRequestId::Fetch { number } => {
            out.push(3);
            put_varint(number, out);
        }
        RpcRequestId::Count { number } => {
            out.push(4);
            put_varint(number, out);
        }
        RpcRequestId::Step { number } => {
            out.push(5);
            put_varint(number, out);
        }
    }
}

fn read_request_id(reader: &mut Reader<'_>) -> Result<RpcRequestId, DecodeError> {
    Ok(match reader.u8()? {
        0 => RpcRequestId::Write { session: reader.u64()?, sequence: reader.varint()? },
        1 => RpcRequestId::Read { number: reader.varint()? },
        2 => RpcRequestId::Catalogue { number: reader.varint()? },
        3 => RpcRequestId::Fetch { number: reader.varint()? },
        4 => RpcRequestId::Count { number: reader.varint()? },
        5 => RpcRequestId::Step { number: reader.varint()? },
        found => return Err(DecodeError::Tag { what: "what was asked", found }),
    })
}

fn read_known(reader: &mut Reader<'_>) -> Result<Option<Box<KnownShard>>, DecodeError> {
    Ok(match reader.u8()? {
        0 => None,
        1 => Some(Box::new(KnownShard::decode(reader)?)),
        found => return Err(DecodeError::Tag { what: "a shard that is known", found }),
    })
}

fn put_verdict(verdict: &BatchVerdict, out: &mut Vec<u8>) {
    match verdict {
        BatchVerdict::Done(Some(replies)) => {
            out.push(0);
            put_bytes(replies, out);
        }
        BatchVerdict::Done(None) => out.push(1),
        BatchVerdict::Gap { next } => {
            out.push(2);
            put_varint(*next, out);
        }
        BatchVerdict::Known => out.push(3),
        BatchVerdict::TooOld => out.push(4),
        BatchVerdict::Ahead => out.push(5),
    }
}

fn read_verdict(reader: &mut Reader<'_>) -> Result<BatchVerdict, DecodeError> {
    Ok(match reader.u8()? {
        0 => BatchVerdict::Done(Some(reader.bytes()?.into())),
        1 => BatchVerdict::Done(None),
        2 => BatchVerdict::Gap { next: reader.varint()? },
        3 => BatchVerdict::Known,
        4 => BatchVerdict::TooOld,
        5 => BatchVerdict::Ahead,
        found => return Err(DecodeError::Tag { what: "verdict", found }),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fuzzer's seeds: the good ones are RPCs, the bad ones are refused.
    #[test]
    fn fuzz_corpus_roundtrips_and_bad_seeds_are_refused() {
        let decode = |bytes: &[u8]| RpcMessage::decode(Bytes::copy_from_slice(bytes));
        let seeds = harness::seeds::replay("rpc_message", |bytes| {
            let mut again = Vec::new();
            decode(bytes).map_err(|error| error.to_string())?.encode(&mut again);
            Ok(again)
        });
        let mut kinds = [false; RpcMessage::KINDS.len()];
        seeds.iter().for_each(|seed| kinds[decode(seed).unwrap().kind()] = true);
        assert!(kinds.iter().all(|there| *there), "a kind without a seed: {kinds:?}");
    }

    /// The asker would take one shard's replicas for another's.
    #[test]
    fn not_leader_reply_names_only_the_shard() {
        let arc = keyspace::Arc::whole(KeyspaceId(1));
        let (replicas, leader, generation) = (Vec::new(), None, keyspace::Generation(1));
        let descriptor =
            keyspace::Descriptor { shard: ShardId(4), arc, replicas, generation, leader };
        for shard in [4, 5] {
            let known = Some(Box::new(KnownShard::new(descriptor.clone(), 0)));
            let what = RpcRequestId::Read { number: 1 };
            let mut bytes = Vec::new();
            RpcMessage::NotLeader { shard: ShardId(shard), what, known }.encode(&mut bytes);
            assert_eq!(RpcMessage::decode(bytes.into()).is_ok(), shard == 4);
        }
    }

    #[test]
    fn safe_points_are_read_with_and_without_pins() {
        for pins in [vec![], vec![Timestamp(3)], vec![Timestamp(3), Timestamp(7)]] {
            let point = SafePoint { at: Timestamp(9), pins: pins.into() };
            let rpc = RpcMessage::SafePoint { keyspace: KeyspaceId(1), point };
            let mut bytes = Vec::new();
            rpc.encode(&mut bytes);
            assert_eq!(RpcMessage::decode(Bytes::from(bytes)), Ok(rpc));
        }
        let none = [&[21, 1][..], &[0; 9]].concat();
        assert!(RpcMessage::decode(Bytes::from(none)).is_err(), "it has pins or another tag");
    }

    proptest! {
        /// Whatever comes is refused, or is what its own bytes say.
        #[test]
        fn any_bytes_are_read_or_refused(
            tag in 0u8..22,
            rest in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let bytes = Bytes::from([&[tag][..], &rest].concat());
            if let Ok(rpc) = RpcMessage::decode(bytes.clone()) {
                let mut again = Vec::new();
                rpc.encode(&mut again);
                prop_assert_eq!(RpcMessage::decode(again.into()), Ok(rpc));
            }
        }
    }
}

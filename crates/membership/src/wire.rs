//! The frames between two nodes, byte by byte.
//!
//! | frame | bytes |
//! |---|---|
//! | swim | `01`, then a packet of the failure detector (front page of `swim`) |
//! | digest | `02`, `00` asks for an answer or `01` is one, `varint` nodes the sender sees active, first and last node of the range (u64 each), `varint` count, entries in rising order of node |
//! | records | `03`, `varint` count, records (front page of `facts`) |
//!
//! | entry | bytes |
//! |---|---|
//! | node | u64 |
//! | liveness | `00` unknown · `01` alive, `02` suspect, `03` down, each with `varint` incarnation and `varint` round |
//! | stamp | `varint` incarnation, `varint` version; 0 and 0: no record |
//!
//! Frames may be lost, repeated and reordered; each is harmless to repeat. No frame is longer than
//! [`FRAME_BYTES_MAX`]. Reading allocates no more than the frame's size allows.

use std::collections::BTreeMap;

use keyspace::codec::{Reader, put_varint};
use keyspace::{DecodeError, NodeId};

use crate::facts::{INCARNATION_MAX, RECORD_BYTES_MAX, Record, Stamp};
use crate::swim::{Liveness, NodeView};

/// No frame is longer than this, in bytes.
pub const FRAME_BYTES_MAX: usize = 16 * 1024;
/// The most nodes in a digest; larger clusters need several, in turns.
pub const DIGEST_ENTRIES_MAX: usize = 256;

const SWIM: u8 = 1;
const DIGEST: u8 = 2;
const RECORDS: u8 = 3;

/// The longest entry: node, tag, two numbers, stamp.
const ENTRY_BYTES_MAX: usize = 8 + 1 + 10 + 3 + 10 + 10;
const _: () = assert!(32 + DIGEST_ENTRIES_MAX * ENTRY_BYTES_MAX <= FRAME_BYTES_MAX);
const _: () = assert!(16 + RECORD_BYTES_MAX <= FRAME_BYTES_MAX);

/// What the sender of a digest knows of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Whether it is alive; `None` if the sender does not know.
    pub(crate) sight: Option<NodeView>,
    /// How new the sender's record of it is; all 0 if it has none.
    pub(crate) stamp: Stamp,
}

/// All that the sender knows of the nodes from `first` to `last`, in short. The entries of sender
/// and receiver are there even if they lie outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    /// Whether it answers another; an answer is not answered.
    pub(crate) answer: bool,
    /// How many nodes the sender sees active: of two that hold each other for down, the one who
    /// sees fewer gives way.
    pub(crate) active: u64,
    pub(crate) first: NodeId,
    pub(crate) last: NodeId,
    pub(crate) entries: BTreeMap<NodeId, Entry>,
}

/// One frame between two nodes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// For the failure detector.
    Swim(&'a [u8]),
    Digest(Digest),
    Records(Vec<Record>),
}

impl<'a> Frame<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(DecodeError::Field { what: "length of a frame" });
        }
        let mut reader = Reader::new(bytes);
        let frame = match reader.u8()? {
            SWIM => return Ok(Frame::Swim(reader.rest())),
            DIGEST => Frame::Digest(Digest::decode(&mut reader)?),
            RECORDS => Frame::Records(decode_records(&mut reader)?),
            found => return Err(DecodeError::Tag { what: "kind of frame", found }),
        };
        reader.end()?;
        Ok(frame)
    }

    #[cfg(test)]
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Frame::Swim(packet) => swim(packet),
            Frame::Digest(digest) => digest.encode(),
            Frame::Records(records) => {
                let mut frames = RecordFrames::default();
                records.iter().for_each(|record| frames.put(record));
                let mut frames = frames.finish();
                assert!(frames.len() <= 1, "fits one frame");
                frames.pop().unwrap_or_else(|| vec![RECORDS, 0])
            }
        }
    }
}

/// A packet of the failure detector as a frame.
pub(crate) fn swim(packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + packet.len());
    out.push(SWIM);
    out.extend_from_slice(packet);
    out
}

impl Digest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= DIGEST_ENTRIES_MAX, "a digest beyond its limit");
        let mut out = Vec::with_capacity(32 + self.entries.len() * 28);
        out.extend([DIGEST, u8::from(self.answer)]);
        put_varint(self.active, &mut out);
        out.extend_from_slice(&self.first.0.to_le_bytes());
        out.extend_from_slice(&self.last.0.to_le_bytes());
        put_varint(self.entries.len() as u64, &mut out);
        for (node, entry) in &self.entries {
            out.extend_from_slice(&node.0.to_le_bytes());
            put_sight(entry.sight, &mut out);
            put_varint(entry.stamp.incarnation, &mut out);
            put_varint(entry.stamp.version, &mut out);
        }
        out
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let answer = match reader.u8()? {
            0 => false,
            1 => true,
            found => return Err(DecodeError::Tag { what: "turn of a digest", found }),
        };
        let active = reader.varint()?;
        let (first, last) = (NodeId(reader.u64()?), NodeId(reader.u64()?));
        let count = reader.varint_max(DIGEST_ENTRIES_MAX as u64, "entries of a digest")?;
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            let node = NodeId(reader.u64()?);
            if entries.last_key_value().is_some_and(|(before, _)| *before >= node) {
                return Err(DecodeError::Field { what: "order of a digest" });
            }
            let sight = read_sight(reader)?;
            let incarnation = reader.varint_max(INCARNATION_MAX, "incarnation")?;
            let stamp = Stamp { incarnation, version: reader.varint()? };
            entries.insert(node, Entry { sight, stamp });
        }
        Ok(Self { answer, active, first, last, entries })
    }
}

fn put_sight(sight: Option<NodeView>, out: &mut Vec<u8>) {
    let Some(sight) = sight else { return out.push(0) };
    out.push(match sight.liveness {
        Liveness::Alive => 1,
        Liveness::Suspect => 2,
        Liveness::Down => 3,
    });
    put_varint(sight.incarnation, out);
    put_varint(u64::from(sight.round), out);
}

fn read_sight(reader: &mut Reader<'_>) -> Result<Option<NodeView>, DecodeError> {
    let liveness = match reader.u8()? {
        0 => return Ok(None),
        1 => Liveness::Alive,
        2 => Liveness::Suspect,
        3 => Liveness::Down,
        found => return Err(DecodeError::Tag { what: "liveness", found }),
    };
    let incarnation = reader.varint_max(INCARNATION_MAX, "incarnation")?;
    let round = reader.varint_max(u16::MAX.into(), "round")? as u16;
    Ok(Some(NodeView { incarnation, round, liveness }))
}

fn decode_records(reader: &mut Reader<'_>) -> Result<Vec<Record>, DecodeError> {
    let count = reader.varint_max(FRAME_BYTES_MAX as u64, "records of a frame")?;
    let mut records = Vec::new();
    for _ in 0..count {
        records.push(Record::decode(reader)?);
    }
    Ok(records)
}

/// Packs records into as few frames as keep the limit.
#[derive(Default)]
pub(crate) struct RecordFrames {
    done: Vec<Vec<u8>>,
    count: u64,
    body: Vec<u8>,
}

impl RecordFrames {
    pub(crate) fn put(&mut self, record: &Record) {
        if self.body.len() + RECORD_BYTES_MAX + 16 > FRAME_BYTES_MAX {
            self.close();
        }
        record.encode(&mut self.body);
        self.count += 1;
    }

    /// The frames; none if there was no record.
    pub(crate) fn finish(mut self) -> Vec<Vec<u8>> {
        if self.count > 0 {
            self.close();
        }
        self.done
    }

    fn close(&mut self) {
        let mut frame = Vec::with_capacity(self.body.len() + 11);
        frame.push(RECORDS);
        put_varint(self.count, &mut frame);
        frame.append(&mut self.body);
        assert!(frame.len() <= FRAME_BYTES_MAX, "a frame beyond its limit");
        self.done.push(frame);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_that_is_written_the_same_or_an_error(
            kind in 0u8..5, mut bytes: Vec<u8>,
        ) {
            bytes.insert(0, kind);
            if let Ok(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }

        #[test]
        fn digests_are_read_as_written(
            answer: bool, active: u64, first: u64, last: u64,
            nodes in prop::collection::btree_map(
                any::<u64>(), (0u8..4, 0..=INCARNATION_MAX, any::<u16>(), any::<u64>()), 0..256,
            ),
        ) {
            let entries = nodes.into_iter().map(|(node, (state, incarnation, round, version))| {
                let liveness = match state {
                    1 => Some(Liveness::Alive),
                    2 => Some(Liveness::Suspect),
                    3 => Some(Liveness::Down),
                    _ => None,
                };
                let sight = liveness.map(|liveness| NodeView { incarnation, round, liveness });
                (NodeId(node), Entry { sight, stamp: Stamp { incarnation, version } })
            });
            let (first, last) = (NodeId(first), NodeId(last));
            let digest = Digest { answer, active, first, last, entries: entries.collect() };
            let bytes = digest.encode();
            prop_assert!(bytes.len() <= FRAME_BYTES_MAX);
            prop_assert_eq!(Frame::decode(&bytes), Ok(Frame::Digest(digest)));
        }
    }
}

//! The frames that carry messages and RPCs of a step round to another node.
//!
//! All messages of a round for one node go into one frame, in order; those of a long round into
//! several. Heartbeats and their answers go into a frame of their own, which may overtake others: a
//! long value under way must not cost a leader its leadership.
//!
//! | field | bytes | |
//! |---|---|---|
//! | kind | u8 | 1 a message of a replica, 2 an RPC |
//! | length | u32 | of what follows |
//! | message | | shard u64, length of the bootstrap u32 and the bootstrap (0: none), the message |
//! | RPC | | the RPC |
//!
//! Numbers are little-endian.

use bytes::{Buf, Bytes};
use keyspace::{NodeId, ShardId};
use replication::{Message, MessageKind};

use crate::executor::Envelope;
use crate::rpc::message::RpcMessage;

const MESSAGE: u8 = 1;
const RPC: u8 = 2;
const HEAD_BYTES: usize = 5;

/// A frame is closed when it is as long as this; one item may be longer.
pub const FRAME_BYTES: usize = 1 << 20;

/// An item of a frame.
#[derive(Debug)]
pub enum Item {
    /// A message of one replica to another.
    Message {
        /// Of this shard.
        shard: ShardId,
        /// Its bootstrap record, if the replica may not be here yet.
        bootstrap: Option<Bytes>,
        /// What it says.
        message: Message,
    },
    /// What a node asks, or answers.
    Rpc(RpcMessage),
}

/// A frame for a node.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Whether it may overtake others.
    pub is_urgent: bool,
}

/// What is to be sent, by node and urgency.
#[derive(Default)]
pub struct FrameBatch(Vec<(Place, Vec<u8>)>);

/// The target node, and whether the frame is urgent.
type Place = (NodeId, bool);

impl FrameBatch {
    /// Puts a message in.
    pub fn message(&mut self, envelope: &Envelope, send: &mut impl FnMut(NodeId, Frame<'_>)) {
        let Envelope { shard, node, bootstrap, message } = envelope;
        self.put((*node, is_urgent(message)), MESSAGE, send, |out| {
            out.extend_from_slice(&shard.0.to_le_bytes());
            let bootstrap = bootstrap.as_deref().unwrap_or_default();
            out.extend_from_slice(&(bootstrap.len() as u32).to_le_bytes());
            out.extend_from_slice(bootstrap);
            message.encode(out);
        });
    }

    /// Puts an RPC in.
    pub fn rpc(
        &mut self,
        node: NodeId,
        rpc: &RpcMessage,
        send: &mut impl FnMut(NodeId, Frame<'_>),
    ) {
        self.put((node, false), RPC, send, |out| rpc.encode(out));
    }

    fn put(
        &mut self,
        to: Place,
        kind: u8,
        send: &mut impl FnMut(NodeId, Frame<'_>),
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let place = self.0.iter().position(|(of, _)| *of == to).unwrap_or_else(|| {
            self.0.push((to, Vec::new()));
            self.0.len() - 1
        });
        let frame = &mut self.0[place].1;
        let start = frame.len();
        frame.extend_from_slice(&[kind, 0, 0, 0, 0]);
        write(frame);
        let length = (frame.len() - start - HEAD_BYTES) as u32;
        frame[start + 1..start + HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
        if frame.len() >= FRAME_BYTES {
            send(to.0, Frame { bytes: frame, is_urgent: to.1 });
            *frame = Vec::new();
        }
    }

    /// Hands out what is there; whether there was anything.
    pub fn send(&mut self, send: &mut impl FnMut(NodeId, Frame<'_>)) -> bool {
        let mut any = false;
        for ((node, is_urgent), frame) in self.0.iter_mut().filter(|(_, frame)| !frame.is_empty()) {
            send(*node, Frame { bytes: frame, is_urgent: *is_urgent });
            frame.clear();
            any = true;
        }
        any
    }
}

/// Whether it may overtake others: it carries no entries, and a group takes it in any order.
fn is_urgent(message: &Message) -> bool {
    matches!(
        message.kind(),
        Some(
            MessageKind::Heartbeat
                | MessageKind::HeartbeatAnswer
                | MessageKind::PreVote
                | MessageKind::PreVoteAnswer
                | MessageKind::Vote
                | MessageKind::VoteAnswer
        )
    )
}

/// Takes the next item off the front of a frame. `None` at its end.
///
/// # Errors
/// What is wrong with it: the rest cannot be read.
pub fn take(frame: &mut Bytes) -> Result<Option<Item>, String> {
    if frame.is_empty() {
        return Ok(None);
    }
    let short = || "it ends too early".to_owned();
    if frame.len() < HEAD_BYTES {
        return Err(short());
    }
    let kind = frame.get_u8();
    let length = frame.get_u32_le() as usize;
    if frame.len() < length {
        return Err(short());
    }
    let mut item = frame.split_to(length);
    match kind {
        MESSAGE => {
            let shard = ShardId(item.try_get_u64_le().map_err(|_| short())?);
            let length = item.try_get_u32_le().map_err(|_| short())? as usize;
            if item.len() < length {
                return Err(short());
            }
            let bootstrap = Some(item.split_to(length)).filter(|bootstrap| !bootstrap.is_empty());
            let message = Message::decode(item).map_err(|error| error.to_string())?;
            Ok(Some(Item::Message { shard, bootstrap, message }))
        }
        RPC => Ok(Some(Item::Rpc(RpcMessage::decode(item).map_err(|e| e.to_string())?))),
        _ => Err(format!("an item of kind {kind}")),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the fuzz corpus is files")]
mod tests {
    use keyspace::Timestamp;

    use super::*;

    #[test]
    fn what_is_put_in_comes_out_in_order() {
        let mut batch = FrameBatch::default();
        let mut sent: Vec<(NodeId, Vec<u8>)> = Vec::new();
        let mut send = |node: NodeId, frame: Frame<'_>| sent.push((node, frame.bytes.to_vec()));
        let rpc =
            |number| RpcMessage::ReadIndex { shard: ShardId(7), number, at: Timestamp(number + 1) };
        for number in 0..3 {
            batch.rpc(NodeId(1 + number % 2), &rpc(number), &mut send);
        }
        assert!(batch.send(&mut send));
        assert!(!batch.send(&mut send));
        let mut found = Vec::new();
        for (node, frame) in sent {
            let mut body = Bytes::from(frame);
            while let Some(Item::Rpc(rpc)) = take(&mut body).expect("the message is complete") {
                found.push((node.0, rpc));
            }
        }
        assert_eq!(found, [(1, rpc(0)), (1, rpc(2)), (2, rpc(1))]);
        let cut = Bytes::from_static(&[RPC, 9, 0, 0, 0, 1]);
        assert!(take(&mut cut.clone()).is_err());
        assert!(take(&mut Bytes::from_static(&[9, 0, 0, 0, 0])).is_err());
    }

    /// A heartbeat does not wait behind an RPC, however the two were put in.
    #[test]
    fn heartbeats_have_a_frame_of_their_own() {
        let seed =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/frame_batch/good-heartbeats");
        let (mut frame, node) = (Bytes::from(std::fs::read(seed).unwrap()), NodeId(2));
        let (mut batch, mut sent) = (FrameBatch::default(), Vec::new());
        let mut send =
            |_: NodeId, frame: Frame<'_>| sent.push((frame.is_urgent, frame.bytes.to_vec()));
        while let Some(item) = take(&mut frame).unwrap() {
            let Item::Message { shard, bootstrap, message } = item else { continue };
            let bootstrap = bootstrap.map(|bootstrap| bootstrap.to_vec());
            batch.message(&Envelope { shard, node, bootstrap, message }, &mut send);
        }
        let rpc = RpcMessage::ReadIndex { shard: ShardId(7), number: 1, at: Timestamp(1) };
        batch.rpc(node, &rpc, &mut send);
        batch.send(&mut send);
        let mut heartbeats = 0;
        for (is_urgent, frame) in sent {
            let mut body = Bytes::from(frame);
            while let Some(item) = take(&mut body).unwrap() {
                let may =
                    matches!(&item, Item::Message { message, .. } if super::is_urgent(message));
                assert_eq!(may, is_urgent, "{item:?}");
                heartbeats += u32::from(may);
            }
        }
        assert!(heartbeats > 0);
    }

    /// All items of a frame, batched again; whether it is whole.
    fn again(mut frame: Bytes) -> (Vec<u8>, bool) {
        let (mut batch, mut sent, node) = (FrameBatch::default(), Vec::new(), NodeId(2));
        let mut send = |_: NodeId, frame: Frame<'_>| sent.extend_from_slice(frame.bytes);
        let is_whole = loop {
            match take(&mut frame) {
                Ok(Some(Item::Message { shard, bootstrap, message })) => {
                    let bootstrap = bootstrap.map(|bootstrap| bootstrap.to_vec());
                    batch.message(&Envelope { shard, node, bootstrap, message }, &mut send);
                }
                Ok(Some(Item::Rpc(rpc))) => batch.rpc(node, &rpc, &mut send),
                Ok(None) => break true,
                Err(_) => break false,
            }
            // Each by itself: what is urgent would go into a frame of its own.
            batch.send(&mut send);
        };
        (sent, is_whole)
    }

    /// The fuzzer's seeds: the good ones are whole, the bad ones are refused somewhere.
    #[test]
    fn fuzz_corpus_roundtrips_and_bad_seeds_are_refused() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/frame_batch");
        let mut count = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let path = file.unwrap().path();
            let found = std::fs::read(&path).unwrap();
            let good = path.file_name().unwrap().to_str().unwrap().starts_with("good-");
            let (bytes, is_whole) = again(found.clone().into());
            assert_eq!(is_whole, good, "{path:?}");
            assert!(found.starts_with(&bytes) && (!good || found == bytes), "{path:?}");
            count += 1;
        }
        assert!(count >= 12, "{count} seeds");
    }
}

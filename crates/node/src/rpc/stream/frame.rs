//! Which bytes carry a stream's steps? Numbers are little-endian.
//!
//! | frame | after the tag u8 and the stream's number u64 | of |
//! |---|---|---|
//! | 1 begin | shard u64, length of the head u32, head, meta | the sender |
//! | 2 block | its number u32, the block | the sender |
//! | 3 end | number of blocks u32 | the sender |
//! | 4 ask | number of the question u32, from 1 | the sender |
//! | 5 has | the question's number u32, or 0; it has the blocks below this u32 | the receiver |
//! | 6 done | | the receiver: it is installed |
//! | 7 gone | | the receiver: it has nothing of it, and takes nothing |
//!
//! Frames have checksums, and so has the file. Numbers of streams begin anywhere in every process.

use bytes::{Buf, Bytes};
use keyspace::ShardId;
use replication::Message;

/// Bytes before what a frame says: its tag and its stream.
const HEAD_BYTES: usize = 9;

/// What a frame does, its first byte.
pub mod tag {
    /// A stream begins.
    pub const BEGIN: u8 = 1;
    /// One of its blocks.
    pub const BLOCK: u8 = 2;
    /// Its end.
    pub const END: u8 = 3;
    /// The sender asks what has arrived.
    pub const ASK: u8 = 4;
    /// This is.
    pub const HAS: u8 = 5;
    /// All of it is installed.
    pub const DONE: u8 = 6;
    /// Nothing of it is there.
    pub const NOT_FOUND: u8 = 7;
}

/// A frame of the sender of a stream.
#[derive(Debug)]
pub enum SenderFrame {
    /// It begins.
    Begin {
        /// Of this shard.
        shard: ShardId,
        /// The message that heads it.
        head: Box<Message>,
        /// The checkpoint's meta.
        meta: Bytes,
    },
    /// A block.
    Block {
        /// The first is 0.
        number: u32,
        /// What is in it.
        block: Bytes,
    },
    /// There are no more.
    End {
        /// How many there are.
        blocks: u32,
    },
    /// What does the receiver have?
    Ask {
        /// For its answer.
        ask: u32,
    },
}

/// A frame of the receiver of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverFrame {
    /// It has the blocks below a number.
    Has {
        /// The question that this answers, or 0.
        ask: u32,
        /// It has the blocks below this.
        blocks: u32,
    },
    /// It has all of it, and holds it in place of what it had.
    Done,
    /// It has nothing of it, and takes nothing.
    NotFound,
}

/// Whether a frame is of a stream's receiver.
pub fn is_receiver_frame(body: &Bytes) -> bool {
    body.first().is_some_and(|first| *first > tag::ASK)
}

/// Decodes a frame from the sender of a stream; with the stream's number.
///
/// # Errors
/// What is wrong with it; the stream, if that could be read.
pub fn decode_sender_frame(mut body: Bytes) -> Result<(u64, SenderFrame), (Option<u64>, String)> {
    let (tag, stream) = head(&mut body).map_err(|why| (None, why))?;
    let sent = match tag {
        tag::BEGIN => begin(body),
        tag::BLOCK => number(&mut body).map(|number| SenderFrame::Block { number, block: body }),
        tag::END => number(&mut body).map(|blocks| SenderFrame::End { blocks }),
        tag::ASK => number(&mut body).map(|ask| SenderFrame::Ask { ask }),
        other => Err(format!("a frame of kind {other}")),
    };
    sent.map(|sent| (stream, sent)).map_err(|why| (Some(stream), why))
}

/// Decodes a frame from the receiver of a stream; with the stream's number.
///
/// # Errors
/// What is wrong with it.
pub fn decode_receiver_frame(mut body: Bytes) -> Result<(u64, ReceiverFrame), String> {
    let (tag, stream) = head(&mut body)?;
    let reply = match tag {
        tag::HAS => {
            let ask = number(&mut body)?;
            ReceiverFrame::Has { ask, blocks: number(&mut body)? }
        }
        tag::DONE => ReceiverFrame::Done,
        tag::NOT_FOUND => ReceiverFrame::NotFound,
        other => return Err(format!("a frame of kind {other}")),
    };
    Ok((stream, reply))
}

/// The beginning of every frame.
pub fn head_of(tag: u8, stream: u64) -> [u8; HEAD_BYTES] {
    let mut head = [tag; HEAD_BYTES];
    head[1..].copy_from_slice(&stream.to_le_bytes());
    head
}

/// The part of a [`tag::BEGIN`] frame before the meta.
pub fn begin_of(shard: ShardId, head: &Message) -> Vec<u8> {
    let mut encoded = Vec::new();
    head.encode(&mut encoded);
    let length = (encoded.len() as u32).to_le_bytes();
    [&shard.0.to_le_bytes()[..], &length, &encoded].concat()
}

/// A complete frame of a receiver.
pub fn receiver_frame(stream: u64, reply: ReceiverFrame) -> Vec<u8> {
    match reply {
        ReceiverFrame::Has { ask, blocks } => {
            let head = head_of(tag::HAS, stream);
            [&head[..], &ask.to_le_bytes(), &blocks.to_le_bytes()].concat()
        }
        ReceiverFrame::Done => head_of(tag::DONE, stream).to_vec(),
        ReceiverFrame::NotFound => head_of(tag::NOT_FOUND, stream).to_vec(),
    }
}

fn begin(mut body: Bytes) -> Result<SenderFrame, String> {
    let shard = ShardId(body.try_get_u64_le().map_err(short)?);
    let length = number(&mut body)? as usize;
    if body.len() < length {
        return Err("a frame ends too early".into());
    }
    let head = Message::decode(body.split_to(length)).map_err(|error| error.to_string())?;
    Ok(SenderFrame::Begin { shard, head: Box::new(head), meta: body })
}

fn head(body: &mut Bytes) -> Result<(u8, u64), String> {
    let tag = body.try_get_u8().map_err(short)?;
    Ok((tag, body.try_get_u64_le().map_err(short)?))
}

fn number(body: &mut Bytes) -> Result<u32, String> {
    body.try_get_u32_le().map_err(short)
}

fn short(_: bytes::TryGetError) -> String {
    "a frame ends too early".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receiver_frame_roundtrips_and_truncated_one_is_refused() {
        for reply in [
            ReceiverFrame::Has { ask: 7, blocks: u32::MAX },
            ReceiverFrame::Done,
            ReceiverFrame::NotFound,
        ] {
            let bytes = Bytes::from(receiver_frame(u64::MAX - 1, reply));
            assert!(is_receiver_frame(&bytes));
            assert_eq!(decode_receiver_frame(bytes.clone()), Ok((u64::MAX - 1, reply)));
            for length in 0..bytes.len() {
                assert!(
                    decode_receiver_frame(bytes.slice(..length)).is_err(),
                    "{length} bytes of {reply:?}"
                );
            }
        }
        assert!(decode_receiver_frame(Bytes::from(head_of(8, 1).to_vec())).is_err());
    }

    #[test]
    fn sender_frame_is_decoded_and_truncated_one_is_refused() {
        let block = [&head_of(tag::BLOCK, 3)[..], &5u32.to_le_bytes(), b"block"].concat();
        let block = Bytes::from(block);
        assert!(!is_receiver_frame(&block));
        let Ok((3, SenderFrame::Block { number: 5, block: found })) =
            decode_sender_frame(block.clone())
        else {
            panic!("not taken as it was sent");
        };
        assert_eq!(found, b"block"[..]);
        let (stream, _) = decode_sender_frame(block.slice(..12)).unwrap_err();
        assert_eq!(stream, Some(3));
        assert!(matches!(decode_sender_frame(block.slice(..8)), Err((None, _))));
        let long = [&head_of(tag::BEGIN, 3)[..], &[0; 8], &[255; 4], b"no message"].concat();
        assert!(decode_sender_frame(Bytes::from(long)).is_err());
    }
}

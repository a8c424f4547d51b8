//! What nodes send each other about a script that one of them runs for the other.
//!
//! # Bytes
//! A frame: `u8` 0, a call: number u64, keyspace id `varint`, client u64, flags `u8` (1 RESP3, 2
//! reads only, 4 a function, 8 its client caches, 16 its client's node is in mode `cluster`),
//! source `bytes`, or the function's name `bytes` and the SHA1 of its library of 40 bytes, count
//! `varint` of keys, count `varint` of other arguments, each `bytes`. Or `u8` 1, a reply: number
//! u64, `u8` 0 it does not lead, 1 the reply, 2 the reply, an error, 3 the reply was lost; of 1 and
//! 2 then count `varint` of the shards it has written to, each `varint`, and its bytes. 5 and 6 are
//! 1 and 2 to a client that caches: before the bytes stand the keys read, the keys written, and
//! those touched in other keyspaces, each time count `varint`, each `bytes`. With 8 in addition the
//! script has flushed a keyspace.

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{DecodeError, KeyspaceId, ShardId};

use super::job::TouchedKeys;

const CALL: u8 = 0;
const REPLY: u8 = 1;
const RESP3: u8 = 1;
const READ_ONLY: u8 = 2;
const FUNCTION: u8 = 4;
const TRACKS: u8 = 8;
const CLUSTER: u8 = 16;
/// Of a library's name.
const SHA1_HEX_BYTES: u64 = 40;
const NOT_LEADER: u8 = 0;
const ENDED: u8 = 1;
const ERROR: u8 = 2;
const LOST: u8 = 3;
/// Added to a reply with the keys that the script has touched.
const TOUCHED: u8 = 4;
/// Added to such a reply if the script has flushed a keyspace.
const FLUSHED: u8 = 8;

/// A frame, which borrows what it was read from. It repeats the number of its call.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptFrame<'a> {
    /// Run this.
    Call(u64, ScriptCallFrame<'a>),
    /// It was run, or was not.
    Reply(u64, ScriptReplyFrame<'a>),
}

/// Whom to run, and for whom.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptCallFrame<'a> {
    /// The keyspace in which it begins.
    pub keyspace: KeyspaceId,
    /// The client, as its own node numbers it.
    pub client: u64,
    /// Whether the client speaks RESP3.
    pub is_resp3: bool,
    /// Whether it may not write.
    pub read_only: bool,
    /// Whether its client caches, and so must hear which keys it has touched.
    pub tracks: bool,
    /// Whether its client's node is in mode `cluster`.
    pub is_cluster: bool,
    /// What to run.
    pub program: CalledProgram<'a>,
    /// The keys it declares.
    pub keys: Vec<&'a [u8]>,
    /// What else it is given.
    pub args: Vec<&'a [u8]>,
}

/// What a call runs.
#[derive(Debug, PartialEq, Eq)]
pub enum CalledProgram<'a> {
    /// A script, by its source.
    Script(&'a [u8]),
    /// A function, by its name, and the SHA1 of its library's code in hexadecimal.
    Function(&'a [u8], &'a [u8]),
}

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptReplyFrame<'a> {
    /// Its shard is not led there, or the program is unknown: nothing was done.
    NotLeader,
    /// It was run, but the reply did not fit.
    Lost,
    /// It was run.
    Ended {
        /// Whether the reply is an error.
        is_error: bool,
        /// The shards it has written to.
        written: Vec<ShardId>,
        /// The keys it has touched, if the client caches.
        touched: Option<Box<TouchedKeys>>,
        /// The reply in RESP.
        bytes: &'a [u8],
    },
}

impl<'a> ScriptFrame<'a> {
    /// Reads a whole frame.
    ///
    /// # Errors
    /// [`DecodeError`]: it is none. Nothing is to be done then.
    pub fn decode(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame);
        let tag = reader.u8()?;
        let number = reader.u64()?;
        match tag {
            CALL => Ok(ScriptFrame::Call(number, ScriptCallFrame::read(&mut reader)?)),
            REPLY => Ok(ScriptFrame::Reply(number, ScriptReplyFrame::read(&mut reader)?)),
            tag => Err(DecodeError::Tag { what: "script frame", found: tag }),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (tag, number) = match self {
            ScriptFrame::Call(number, _) => (CALL, number),
            ScriptFrame::Reply(number, _) => (REPLY, number),
        };
        let mut frame = vec![tag];
        frame.extend_from_slice(&number.to_le_bytes());
        match self {
            ScriptFrame::Call(_, call) => call.write(&mut frame),
            ScriptFrame::Reply(_, reply) => reply.write(&mut frame),
        }
        frame
    }
}

impl<'a> ScriptCallFrame<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let keyspace = reader.varint_max(u64::from(u32::MAX), "keyspace id")? as u32;
        let client = reader.u64()?;
        let flags = reader.u8()?;
        if flags > RESP3 | READ_ONLY | FUNCTION | TRACKS | CLUSTER {
            return Err(DecodeError::Tag { what: "set of flags of a script call", found: flags });
        }
        let name = reader.bytes()?;
        let program = match flags & FUNCTION {
            0 => CalledProgram::Script(name),
            _ => CalledProgram::Function(name, reader.take(SHA1_HEX_BYTES)?),
        };
        let (keys, args) = (reader.varint()?, reader.varint()?);
        let mut take = |count| (0..count).map(|_| reader.bytes()).collect::<Result<Vec<_>, _>>();
        let call = Self {
            keyspace: KeyspaceId(keyspace),
            client,
            is_resp3: flags & RESP3 != 0,
            read_only: flags & READ_ONLY != 0,
            tracks: flags & TRACKS != 0,
            is_cluster: flags & CLUSTER != 0,
            program,
            keys: take(keys)?,
            args: take(args)?,
        };
        reader.end()?;
        Ok(call)
    }

    fn write(&self, frame: &mut Vec<u8>) {
        put_varint(u64::from(self.keyspace.0), frame);
        frame.extend_from_slice(&self.client.to_le_bytes());
        let is_function = matches!(self.program, CalledProgram::Function(..));
        let flags = [
            (self.is_resp3, RESP3),
            (self.read_only, READ_ONLY),
            (is_function, FUNCTION),
            (self.tracks, TRACKS),
            (self.is_cluster, CLUSTER),
        ];
        frame.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
        match self.program {
            CalledProgram::Script(source) => put_bytes(source, frame),
            CalledProgram::Function(name, library_sha) => {
                put_bytes(name, frame);
                frame.extend_from_slice(library_sha);
            }
        }
        put_varint(self.keys.len() as u64, frame);
        put_varint(self.args.len() as u64, frame);
        self.keys.iter().chain(&self.args).for_each(|arg| put_bytes(arg, frame));
    }
}

impl<'a> ScriptReplyFrame<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let what = reader.u8()?;
        match what {
            NOT_LEADER | LOST => {
                reader.end()?;
                let is_lost = what == LOST;
                return Ok(if is_lost { Self::Lost } else { Self::NotLeader });
            }
            _ if [ENDED, ERROR].contains(&(what & !TOUCHED & !FLUSHED))
                && what & (TOUCHED | FLUSHED) != FLUSHED => {}
            _ => return Err(DecodeError::Tag { what: "reply to a script call", found: what }),
        }
        let shards = reader.varint()?;
        let written = (0..shards).map(|_| Ok(ShardId(reader.varint()?)));
        let written = written.collect::<Result<_, DecodeError>>()?;
        let touched = match what & TOUCHED {
            0 => None,
            _ => Some(Box::new(read_touched(what & FLUSHED != 0, reader)?)),
        };
        let is_error = what & !TOUCHED & !FLUSHED == ERROR;
        Ok(Self::Ended { is_error, written, touched, bytes: reader.rest() })
    }

    fn write(&self, frame: &mut Vec<u8>) {
        let (is_error, written, touched, bytes) = match self {
            Self::NotLeader => return frame.push(NOT_LEADER),
            Self::Lost => return frame.push(LOST),
            Self::Ended { is_error, written, touched, bytes } => {
                (*is_error, written, touched, bytes)
            }
        };
        let what = if is_error { ERROR } else { ENDED };
        frame.push(match touched {
            None => what,
            Some(touched) if touched.all => what | TOUCHED | FLUSHED,
            Some(_) => what | TOUCHED,
        });
        put_varint(written.len() as u64, frame);
        written.iter().for_each(|shard| put_varint(shard.0, frame));
        for keys in touched.iter().flat_map(|it| [&it.read, &it.written, &it.elsewhere]) {
            put_varint(keys.len() as u64, frame);
            keys.iter().for_each(|key| put_bytes(key, frame));
        }
        frame.extend_from_slice(bytes);
    }
}

fn read_touched(all: bool, reader: &mut Reader<'_>) -> Result<TouchedKeys, DecodeError> {
    let mut keys = || {
        let count = reader.varint()?;
        (0..count).map(|_| Ok(Box::from(reader.bytes()?))).collect::<Result<_, DecodeError>>()
    };
    Ok(TouchedKeys { read: keys()?, written: keys()?, elsewhere: keys()?, all })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names of functions and sources, keys, arguments.
    fn calls() -> impl Strategy<Value = Vec<u8>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..5);
        let many = || proptest::collection::vec(bytes(), 0..4);
        let flags = any::<[bool; 5]>();
        (any::<(u64, u32, u64)>(), flags, bytes(), many(), many()).prop_map(
            |((number, keyspace, client), flags, name, keys, args)| {
                let program = match flags[0] {
                    true => CalledProgram::Function(&name, &[b'a'; SHA1_HEX_BYTES as usize]),
                    false => CalledProgram::Script(&name),
                };
                let call = ScriptCallFrame {
                    keyspace: KeyspaceId(keyspace),
                    client,
                    is_resp3: flags[1],
                    read_only: flags[2],
                    tracks: flags[3],
                    is_cluster: flags[4],
                    program,
                    keys: keys.iter().map(Vec::as_slice).collect(),
                    args: args.iter().map(Vec::as_slice).collect(),
                };
                ScriptFrame::Call(number, call).encode()
            },
        )
    }

    fn replies() -> impl Strategy<Value = Vec<u8>> {
        let keys = || {
            let key = proptest::collection::vec(any::<u8>(), 0..4);
            proptest::collection::btree_set(key.prop_map(Box::from), 0..3)
        };
        let touched = (keys(), keys(), keys(), any::<bool>());
        let touched = touched.prop_map(|(read, written, elsewhere, all)| {
            Box::new(TouchedKeys { read, written, elsewhere, all })
        });
        let ended = (any::<bool>(), any::<Vec<u64>>(), proptest::option::of(touched));
        (any::<u64>(), 0_u8..3, ended, any::<Vec<u8>>()).prop_map(
            |(number, kind, (is_error, written, touched), bytes)| {
                let written = written.into_iter().map(ShardId).collect();
                let reply = match kind {
                    0 => ScriptReplyFrame::NotLeader,
                    1 => ScriptReplyFrame::Lost,
                    _ => ScriptReplyFrame::Ended { is_error, written, touched, bytes: &bytes },
                };
                ScriptFrame::Reply(number, reply).encode()
            },
        )
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_written(
            frame in prop_oneof![calls(), replies()], cut in any::<prop::sample::Index>(),
        ) {
            prop_assert_eq!(&ScriptFrame::decode(&frame).unwrap().encode(), &frame);
            // Where a frame is cut it is none, or a reply of fewer bytes.
            let part = &frame[..cut.index(frame.len())];
            if let Ok(found) = ScriptFrame::decode(part) {
                prop_assert!(matches!(found, ScriptFrame::Reply(..)), "{:?}", found);
                prop_assert_eq!(found.encode(), part);
            }
        }

        /// Whatever comes is refused, or is what its own bytes say.
        #[test]
        fn any_bytes_are_read_or_refused(
            tag in 0_u8..4, bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let frame: Vec<u8> = std::iter::once(tag).chain(bytes).collect();
            if let Ok(found) = ScriptFrame::decode(&frame) {
                let again = found.encode();
                prop_assert_eq!(ScriptFrame::decode(&again).unwrap(), found);
            }
        }
    }

    #[test]
    fn bad_frames_are_refused() {
        let call = [&[CALL][..], &[0; 8], &[0], &[0; 8], &[0], &[0, 0, 0]].concat();
        assert!(ScriptFrame::decode(&call).is_ok());
        let bad = |at: usize, byte: u8| {
            let mut frame = call.clone();
            frame[at] = byte;
            ScriptFrame::decode(&frame).expect_err("it is bad")
        };
        assert_eq!(bad(0, 2), DecodeError::Tag { what: "script frame", found: 2 });
        assert!(matches!(bad(18, 32), DecodeError::Tag { found: 32, .. }), "flags");
        assert_eq!(bad(20, 1), DecodeError::Short, "a key that is missing");
        // A keyspace id beyond 32 bits is not cut to another one.
        let mut frame = vec![CALL];
        frame.extend_from_slice(&[0; 8]);
        put_varint(1 << 32, &mut frame);
        frame.extend_from_slice(&call[10..]);
        assert_eq!(ScriptFrame::decode(&frame), Err(DecodeError::Field { what: "keyspace id" }));
        // Only to a client that caches a reply says that all was flushed.
        let reply = [&[REPLY][..], &[0; 8], &[ENDED | FLUSHED, 0]].concat();
        assert!(matches!(ScriptFrame::decode(&reply), Err(DecodeError::Tag { found: 9, .. })));
        let left_over = [&call[..], &[0]].concat();
        assert!(matches!(ScriptFrame::decode(&left_over), Err(DecodeError::Field { .. })));
    }
}

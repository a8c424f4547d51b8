//! Carillon's native frames: three letters, two lengths of 32 bits (big-endian), key, value.

use bytes::{Buf, BufMut, BytesMut};

use super::{Codec, REPLY_BYTES_MAX, Reply, Request};
use crate::scenario::Action;

/// Letters and lengths.
const HEAD_BYTES: usize = 11;

/// One connection's.
pub struct Native;

impl Codec for Native {
    fn encode(&mut self, request: &Request<'_>, out: &mut BytesMut) {
        let (op, value): (&[u8], &[u8]) = match request.action {
            Action::Get => (b"GET", b""),
            Action::Put | Action::Insert => (b"PUT", request.value),
            Action::Delete => (b"DEL", b""),
            // Refused before anything has started (`driver::refusal`).
            Action::Command(_) | Action::Transfer(_) | Action::Sleep(_) => return,
        };
        out.put_slice(op);
        out.put_u32(request.key.len() as u32);
        out.put_u32(value.len() as u32);
        out.put_slice(request.key);
        out.put_slice(value);
    }

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, String> {
        let Some(head) = input.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let len = |at: usize| {
            let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            u32::from_be_bytes(bytes) as usize
        };
        let (op, key_len, value_len) = ([head[0], head[1], head[2]], len(3), len(7));
        if !matches!(&op, b"GOK" | b"POK" | b"DOK" | b"GER" | b"PER" | b"DER") {
            return Err(format!("not a native frame: {:?}", String::from_utf8_lossy(&op)));
        }
        let whole = HEAD_BYTES.saturating_add(key_len).saturating_add(value_len);
        if whole > REPLY_BYTES_MAX {
            return Err(format!("a frame of {whole} bytes"));
        }
        if input.len() < whole {
            return Ok(None);
        }
        input.advance(HEAD_BYTES + key_len);
        let value = input.split_to(value_len).freeze();
        Ok(Some(match &op {
            b"GOK" => Reply::Value(value),
            // Says so too if the key has no value: the frame cannot tell.
            b"GER" | b"DER" if value.is_empty() => Reply::Absent,
            b"GER" | b"PER" | b"DER" => Reply::Refused(value),
            _ => Reply::Done,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_letters_lengths_key_and_value() {
        let mut out = BytesMut::new();
        let request = Request { action: &Action::Put, key: b"k", other: b"", value: b"vw" };
        Native.encode(&request, &mut out);
        assert_eq!(out, &b"PUT\0\0\0\x01\0\0\0\x02kvw"[..]);
        let mut input = BytesMut::from(&b"GOK\0\0\0\x01\0\0\0\x02kv"[..]);
        assert_eq!(Native.decode(&mut input), Ok(None));
        input.put_slice(b"wGER\0\0\0\x01\0\0\0\0kPER\0\0\0\x01\0\0\0\x03koom");
        assert_eq!(Native.decode(&mut input), Ok(Some(Reply::Value("vw".into()))));
        assert_eq!(Native.decode(&mut input), Ok(Some(Reply::Absent)));
        assert_eq!(Native.decode(&mut input), Ok(Some(Reply::Refused("oom".into()))));
        assert!(Native.decode(&mut BytesMut::from("+OK\r\n1234567")).is_err());
    }
}

//! The payload of `FUNCTION DUMP` and `FUNCTION RESTORE`, as redis-server 7.0 writes it.
//!
//! ```text
//! 245  text     for each library: its whole text, as an RDB string
//! version       2 bytes, little endian: 10
//! CRC-64        8 bytes, little endian, of all before
//! ```
//! An RDB string is a length and bytes. Redis compresses long ones (LZF); [`decode`] reads them,
//! [`encode`] writes plain ones, which every Redis reads.

use super::lzf;

const FUNCTION: u8 = 245;
const VERSION: u16 = 10;
const FOOTER: usize = 10;
/// Bytes of all texts of a payload that is read: compressed ones can claim far more than they are.
const TEXT_MAX: usize = 16 << 20;

/// Why a payload cannot be read: the error reply, with its code and without the dash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DumpError(pub &'static str);

const BAD_FOOTER: DumpError = DumpError("ERR DUMP payload version or checksum are wrong");
const BAD_TYPE: DumpError = DumpError("ERR given type is not a function");
const BAD_TEXT: DumpError = DumpError("ERR Failed loading library data");

/// The payload of libraries, given their texts.
pub fn encode<'a>(libraries: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in libraries {
        payload.push(FUNCTION);
        put_length(&mut payload, text.len());
        payload.extend_from_slice(text);
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    payload.extend_from_slice(&crc64(&payload).to_le_bytes());
    payload
}

/// The texts of a payload's libraries. They need not be libraries that can be loaded.
pub fn decode(payload: &[u8]) -> Result<Vec<Vec<u8>>, DumpError> {
    let end = payload.len().checked_sub(FOOTER).ok_or(BAD_FOOTER)?;
    let (mut rest, footer) = payload.split_at(end);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let sum = u64::from_le_bytes(footer[2..].try_into().unwrap_or_default());
    // A sum of zero means that the writer made none.
    let is_whole = sum == 0 || sum == crc64(&payload[..end + 2]);
    if version > VERSION || !is_whole {
        return Err(BAD_FOOTER);
    }
    let (mut texts, mut bytes) = (Vec::new(), 0);
    while let Some((&kind, after)) = rest.split_first() {
        if kind != FUNCTION {
            return Err(BAD_TYPE);
        }
        let (text, after) = take_string(after).ok_or(BAD_TEXT)?;
        bytes += text.len();
        if bytes > TEXT_MAX {
            return Err(BAD_TEXT);
        }
        texts.push(text);
        rest = after;
    }
    Ok(texts)
}

fn put_length(out: &mut Vec<u8>, len: usize) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        _ => {
            out.push(0x80);
            let len = u32::try_from(len).expect("a library is shorter than 4 GiB");
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// A length, or a special form's number with its high bits.
fn take_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, rest) = match *bytes {
        [first @ 0..0x40, ref rest @ ..] => (u64::from(first), rest),
        [first @ 0x40..=0x7f, low, ref rest @ ..] => {
            (u64::from(first & 0x3f) << 8 | u64::from(low), rest)
        }
        [0x80, a, b, c, d, ref rest @ ..] => (u64::from(u32::from_be_bytes([a, b, c, d])), rest),
        [0x81, ref rest @ ..] => {
            let (number, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*number), rest)
        }
        _ => return None,
    };
    Some((usize::try_from(len).ok().filter(|len| *len <= TEXT_MAX)?, rest))
}

fn take_string(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    const LZF: u8 = 0xc3;
    if let Some(rest) = bytes.strip_prefix(&[LZF]) {
        let (packed_len, rest) = take_length(rest)?;
        let (len, rest) = take_length(rest)?;
        let (packed, rest) = rest.split_at_checked(packed_len)?;
        return Some((lzf::unpack(packed, len)?, rest));
    }
    let (len, rest) = take_length(bytes)?;
    let (text, rest) = rest.split_at_checked(len)?;
    Some((text.to_vec(), rest))
}

/// CRC-64 with Jones's polynomial, reflected, from zero.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut sum = index as u64;
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
                bit += 1;
            }
            table[index] = sum;
            index += 1;
        }
        table
    };
    bytes.iter().fold(0, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_has_its_check_value() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_is_written_is_read() {
        let long = vec![b'x'; 20_000];
        let texts: [&[u8]; 4] = [b"a", &long[..63], &long[..16_383], &long];
        assert_eq!(decode(&encode(texts)).unwrap(), texts);
        assert_eq!(decode(&encode([])), Ok(Vec::new()));
    }

    #[test]
    fn damage_is_an_error() {
        let payload = encode([&b"#!lua name=a\n"[..], b"b"]);
        for at in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), Err(BAD_FOOTER), "byte {at}");
            assert!(decode(&payload[..at]).is_err());
        }
    }

    /// Without a sum everything else is tried: no bytes may panic.
    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut state = 1_u64;
        for len in 0..2_000_usize {
            let mut bytes = vec![FUNCTION, 0xc3];
            for _ in 0..len % 40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bytes.push((state >> 58) as u8 | (state >> 30) as u8 & 0x81);
            }
            bytes.extend([10, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let _ = decode(&bytes);
        }
    }
}

//! The bytes of small values: little-endian numbers, short numbers, counted bytes.
//!
//! | form | bytes |
//! |---|---|
//! | `u8`, `u64` | that many bits, little-endian |
//! | `varint` | 7 bits per byte, lowest first; the top bit says that another byte follows. Shortest form only: 1 to 10 bytes |
//! | `bytes` | `varint` length, then the bytes |
//!
//! Example: `varint` 5 is `05`, 300 is `ac 02`; `bytes` "ab" is `02 61 62`.
//!
//! Reading borrows, never panics, and allocates no more than the input's size allows. Every value
//! has one encoding only, so that equal values are equal bytes (checksums, tests).

use thiserror::Error;

/// Bytes that are not what they should be. The reader's position is then of no use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends within a field.
    #[error("the bytes end within a field")]
    Short,
    /// A `varint` that is too long, or longer than it need be.
    #[error("a number that is not in its shortest form or exceeds 64 bits")]
    BadVarint,
    /// A version this program does not know.
    #[error("version {found} of a {what} is not known")]
    Version {
        /// What was to be read.
        what: &'static str,
        /// The version found.
        found: u8,
    },
    /// A byte that names no alternative.
    #[error("{found:#04x} is no {what}")]
    Tag {
        /// What was to be read.
        what: &'static str,
        /// The byte found.
        found: u8,
    },
    /// A field that breaks a rule.
    #[error("bad {what}")]
    Field {
        /// Which field.
        what: &'static str,
    },
}

/// Takes values from the front of borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// At the beginning of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that were not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let (&first, rest) = self.rest.split_first().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        let (&first, rest) = self.rest.split_first_chunk::<8>().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(first))
    }

    /// A number in 1 to 10 bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`], [`DecodeError::BadVarint`].
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.rest.split_first() {
            Some((&first, rest)) if first < 0x80 => {
                self.rest = rest;
                Ok(u64::from(first))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::BadVarint);
            }
            value |= bits << shift;
            if byte < 0x80 {
                // A last byte of zero adds nothing: the number had a shorter form.
                let shortest = byte != 0 || shift == 0;
                return if shortest { Ok(value) } else { Err(DecodeError::BadVarint) };
            }
        }
        Err(DecodeError::BadVarint)
    }

    /// A `varint` that must not exceed `max`.
    ///
    /// # Errors
    /// As [`Self::varint`]; [`DecodeError::Field`] named `what` if it is larger.
    pub fn varint_max(&mut self, max: u64, what: &'static str) -> Result<u64, DecodeError> {
        let value = self.varint()?;
        if value <= max { Ok(value) } else { Err(DecodeError::Field { what }) }
    }

    /// `len` bytes as they are.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn take(&mut self, len: u64) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(len).map_err(|_| DecodeError::Short)?;
        let (first, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// Counted bytes.
    ///
    /// # Errors
    /// As [`Self::varint`] and [`Self::take`].
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.varint()?;
        self.take(len)
    }

    /// That nothing is left.
    ///
    /// # Errors
    /// [`DecodeError::Field`] if something is.
    pub fn end(&self) -> Result<(), DecodeError> {
        let done = self.rest.is_empty();
        if done { Ok(()) } else { Err(DecodeError::Field { what: "end: bytes are left over" }) }
    }
}

/// The most bytes a `varint` takes.
pub const VARINT_BYTES_MAX: usize = 10;

/// Writes a `varint` at the front of `out` and answers its length.
#[inline]
pub fn write_varint(mut value: u64, out: &mut [u8]) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        out[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    out[len] = value as u8;
    len + 1
}

/// Appends a `varint`.
pub fn put_varint(value: u64, out: &mut Vec<u8>) {
    let mut buf = [0; VARINT_BYTES_MAX];
    let len = write_varint(value, &mut buf);
    out.extend_from_slice(&buf[..len]);
}

/// Appends what `write` appends, counted.
pub fn put_counted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    // Mostly short, so that one byte says how long.
    out.push(0);
    write(out);
    let len = out.len() - start - 1;
    if len < 0x80 {
        out[start] = len as u8;
        return;
    }
    let mut buf = [0; VARINT_BYTES_MAX];
    let count = write_varint(len as u64, &mut buf);
    out.splice(start..=start, buf[..count].iter().copied());
}

/// Appends counted bytes.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn varints_are_as_the_front_page_says() {
        for (value, bytes) in [
            (5, &[0x05][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (300, &[0xac, 0x02]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ] {
            let mut out = Vec::new();
            put_varint(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(Reader::new(bytes).varint(), Ok(value));
        }
    }

    #[test]
    fn longer_forms_and_larger_numbers_are_refused() {
        for bytes in [
            &[0x80, 0x00][..],
            &[0xff; 11],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        ] {
            assert_eq!(Reader::new(bytes).varint(), Err(DecodeError::BadVarint), "{bytes:?}");
        }
        assert_eq!(Reader::new(&[0x80]).varint(), Err(DecodeError::Short));
        assert_eq!(Reader::new(&[3, 1, 2]).bytes(), Err(DecodeError::Short));
    }

    proptest! {
        #[test]
        fn what_is_counted_is_counted_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let (mut counted, mut plain) = (vec![7], vec![7]);
            put_counted(&mut counted, |out| out.extend_from_slice(&bytes));
            put_bytes(&bytes, &mut plain);
            prop_assert_eq!(counted, plain);
        }

        #[test]
        fn what_is_read_is_what_was_written(value: u64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put_varint(value, &mut out);
            put_bytes(&bytes, &mut out);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.bytes(), Ok(&bytes[..]));
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn a_varint_that_reads_is_written_the_same(bytes: [u8; 12]) {
            let mut reader = Reader::new(&bytes);
            if let Ok(value) = reader.varint() {
                let mut out = Vec::new();
                put_varint(value, &mut out);
                prop_assert_eq!(&out[..], &bytes[..bytes.len() - reader.rest().len()]);
            }
        }
    }
}

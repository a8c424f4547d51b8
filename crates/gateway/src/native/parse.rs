//! Parses requests.

use super::{HEADER_BYTES, Op, Request};

/// What a request may be as long as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Longest key.
    pub key_bytes_max: u32,
    /// Longest value.
    pub value_bytes_max: u32,
}

/// What the front of the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A request and how many bytes it took.
    Request(Request<'a>, usize),
    /// Not yet a request. No verdict can change before the input is this long.
    Incomplete {
        /// Bytes from the front of the input; more than there are.
        needed_bytes: usize,
    },
}

/// Why no further request can be read from this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The three letters are no request.
    #[error("unknown operation; there are GET, PUT and DEL")]
    UnknownOp,
    /// The key would be longer than allowed.
    #[error("key of {bytes} bytes is too long, at most {bytes_max} are allowed")]
    KeyTooLong {
        /// As announced.
        bytes: u32,
        /// The limit.
        bytes_max: u32,
    },
    /// The value would be longer than allowed.
    #[error("value of {bytes} bytes is too long, at most {bytes_max} are allowed")]
    ValueTooLong {
        /// As announced.
        bytes: u32,
        /// The limit.
        bytes_max: u32,
    },
    /// A `GET` or `DEL` announces a value.
    #[error("the value length of GET and DEL must be 0")]
    ValueUnexpected,
}

/// A request that makes no sense: write [`super::write_fault`], then close. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct Fault {
    /// What was asked, if that could be read.
    pub op: Option<Op>,
    /// What is wrong.
    pub kind: FaultKind,
}

/// Reads the request at the front of `input`.
///
/// # Errors
/// [`Fault`] as soon as the bytes so far fit no request; more bytes do not change that.
#[inline]
pub fn parse<'a>(input: &'a [u8], limits: &FrameLimits) -> Result<Parsed<'a>, Fault> {
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else { return incomplete(input) };
    let [a, b, c, k0, k1, k2, k3, v0, v1, v2, v3] = *header;
    let op = known_op([a, b, c])?;
    let key_bytes = u32::from_be_bytes([k0, k1, k2, k3]);
    let value_bytes = u32::from_be_bytes([v0, v1, v2, v3]);

    let fault = |kind| Fault { op: Some(op), kind };
    if key_bytes > limits.key_bytes_max {
        let (bytes, bytes_max) = (key_bytes, limits.key_bytes_max);
        return Err(fault(FaultKind::KeyTooLong { bytes, bytes_max }));
    }
    if op != Op::Put && value_bytes != 0 {
        return Err(fault(FaultKind::ValueUnexpected));
    }
    if value_bytes > limits.value_bytes_max {
        let (bytes, bytes_max) = (value_bytes, limits.value_bytes_max);
        return Err(fault(FaultKind::ValueTooLong { bytes, bytes_max }));
    }

    // Fits: three numbers of 32 bits in one of 64.
    let value_at = HEADER_BYTES + key_bytes as usize;
    let end = value_at + value_bytes as usize;
    if input.len() < end {
        return Ok(Parsed::Incomplete { needed_bytes: end });
    }
    let (key, value) = (&input[HEADER_BYTES..value_at], &input[value_at..end]);
    Ok(Parsed::Request(Request { op, key, value }, end))
}

/// Less than a header. A wrong op is refused at its third byte, not at the eleventh: a client of
/// another protocol may never send eleven.
#[cold]
fn incomplete(input: &[u8]) -> Result<Parsed<'_>, Fault> {
    match input.first_chunk::<3>() {
        Some(letters) => {
            known_op(*letters).map(|_| Parsed::Incomplete { needed_bytes: HEADER_BYTES })
        }
        None => Ok(Parsed::Incomplete { needed_bytes: 3 }),
    }
}

fn known_op(letters: [u8; 3]) -> Result<Op, Fault> {
    Op::from_letters(letters).ok_or(Fault { op: None, kind: FaultKind::UnknownOp })
}

//! Writes replies.

use command::{Refusal, Sink};

use super::{Fault, HEADER_BYTES, Op};

/// Writes one frame: a reply, or for clients and tests a request.
///
/// # Panics
/// If the key or the value has 4 GiB or more, which the limits on both rule out.
pub fn write_frame(out: &mut Vec<u8>, letters: [u8; 3], key: &[u8], value: &[u8]) {
    let length =
        |bytes: &[u8]| u32::try_from(bytes.len()).expect("limits are below 4 GiB").to_be_bytes();
    let mut header = [0; HEADER_BYTES];
    header[..3].copy_from_slice(&letters);
    header[3..7].copy_from_slice(&length(key));
    header[7..].copy_from_slice(&length(value));
    out.reserve(HEADER_BYTES + key.len() + value.len());
    out.extend_from_slice(&header);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// What the value of an error reply holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorText {
    /// The reason, in words.
    Text,
    /// Nothing, as in the thesis.
    Empty,
}

/// Writes an error reply: `GER`, `PER` or `DER` with the key and the reason.
pub fn write_error(out: &mut Vec<u8>, op: Op, key: &[u8], reason: ErrorText, why: &str) {
    let value = match reason {
        ErrorText::Text => why.as_bytes(),
        ErrorText::Empty => b"",
    };
    write_frame(out, op.error(), key, value);
}

/// Writes the last reply of a connection after a malformed request.
pub fn write_fault(out: &mut Vec<u8>, fault: &Fault, reason: ErrorText) {
    write_error(out, fault.op.unwrap_or(Op::Get), b"", reason, &fault.to_string());
}

/// Takes the answer to one request and writes it as a frame.
pub struct FrameSink<'a> {
    /// Where the frame goes.
    pub out: &'a mut Vec<u8>,
    /// What was asked.
    pub op: Op,
    /// Of which key.
    pub key: &'a [u8],
    /// What errors say.
    pub reason: ErrorText,
}

impl FrameSink<'_> {
    fn done(&mut self, value: &[u8]) {
        write_frame(self.out, self.op.done(), self.key, value);
    }

    /// Writes an error reply.
    pub fn error(&mut self, why: &str) {
        write_error(self.out, self.op, self.key, self.reason, why);
    }
}

impl Sink for FrameSink<'_> {
    fn ok(&mut self) {
        self.done(b"");
    }

    fn nil(&mut self) {
        self.error("not found");
    }

    /// What a delete answers: 1 or 0, whether there was something to delete. Both are fine.
    fn int(&mut self, _deleted: i64) {
        self.done(b"");
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.done(bytes);
    }

    fn status(&mut self, _word: &'static str) {
        self.done(b"");
    }

    /// No request of this protocol is answered with several values.
    fn array(&mut self, _len: usize) {
        unreachable!("GET, PUT and DEL answer one value");
    }

    /// Nor with pairs.
    fn map(&mut self, _len: usize) {
        unreachable!("GET, PUT and DEL answer one value");
    }

    fn refused(&mut self, why: Refusal) {
        self.error(match why {
            Refusal::TooLong | Refusal::LcsTooLarge | Refusal::TooMuch => "value too long",
            Refusal::Moved => "moved, try again",
            Refusal::NoSuchKey => "not found",
            Refusal::Fenced => "another session writes to the volume",
            Refusal::WrongType => "value is of another type",
            Refusal::NotInteger | Refusal::NotFloat => "value is not a number",
            Refusal::Overflow | Refusal::NotFinite => "value out of range",
        });
    }
}

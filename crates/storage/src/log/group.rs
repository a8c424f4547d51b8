//! A group under construction: one buffer that becomes one write.

use keyspace::ShardId;

use super::Records;
use super::layout::{self, GROUP_BYTES_MAX, GROUP_HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::Error;

/// A buffer larger than this is given back when the group is cleared.
const BUFFER_RETAINED_BYTES_MAX: usize = 1 << 20;

/// Records that become durable together or not at all.
///
/// Records are copied once, behind room for the header that [`super::Log::append`] fills in. The
/// buffer is used again after an append or [`Group::clear`].
#[derive(Debug)]
pub struct Group {
    /// Room for the header, then records.
    pub(super) bytes: Vec<u8>,
    pub(super) records: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self::new()
    }
}

impl Group {
    /// A group without records.
    pub fn new() -> Self {
        Self { bytes: vec![0; GROUP_HEADER_BYTES], records: 0 }
    }

    /// Adds a record whose payload is `parts` one after the other. `kind` means nothing to the
    /// log, but 0 is reserved for it.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the group would outgrow [`GROUP_BYTES_MAX`]; it is as it was.
    pub fn push(&mut self, shard: ShardId, kind: u8, parts: &[&[u8]]) -> Result<(), Error> {
        assert!(kind != 0, "record kind 0 is the log's own");
        let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = layout::aligned(self.bytes.len() + RECORD_HEADER_BYTES + payload_bytes);
        if bytes > GROUP_BYTES_MAX {
            let bytes_max = GROUP_BYTES_MAX as u64;
            return Err(Error::TooLarge { what: "log group", bytes: bytes as u64, bytes_max });
        }
        self.bytes.reserve(RECORD_HEADER_BYTES + payload_bytes);
        layout::put_record_header(&mut self.bytes, shard, kind, payload_bytes as u32);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.records += 1;
        Ok(())
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// How many records there are.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// The records, in the order they were pushed.
    pub fn iter(&self) -> Records<'_> {
        let records = Records::new(&self.bytes[GROUP_HEADER_BYTES..], self.records);
        records.expect("pushed records tile the payload")
    }

    /// The bytes the group will take in the log, header and padding included.
    pub fn bytes(&self) -> u64 {
        layout::aligned(self.bytes.len()) as u64
    }

    /// The bytes a record of `payload_bytes` adds to a group at most, padding included. With
    /// [`Group::bytes_of_empty`], an upper bound of a group not built yet, for
    /// [`super::Log::reserve`].
    pub const fn bytes_of_record(payload_bytes: usize) -> u64 {
        layout::aligned(RECORD_HEADER_BYTES + payload_bytes) as u64
    }

    /// The bytes of a group without records.
    pub const fn bytes_of_empty() -> u64 {
        GROUP_HEADER_BYTES as u64
    }

    /// Drops all records; keeps the buffer, unless it has grown very large.
    pub fn clear(&mut self) {
        self.bytes.truncate(GROUP_HEADER_BYTES);
        self.bytes.shrink_to(BUFFER_RETAINED_BYTES_MAX);
        self.records = 0;
    }
}

//! Any bytes are a group of the log or an error, and never a panic.
//!
//! Checksums would hide the reader of records from random bytes, so it is also called with the
//! bytes as they are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use storage::log::layout::RECORD_HEADER_BYTES;
use storage::log::{Records, Seed, decode_group};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, records)) = decode_group(bytes, Seed::new(7, 99)) {
        assert_eq!(records.count(), header.records as usize);
        assert!(header.durable_end <= header.lsn && header.end() > header.lsn);
    }
    let Some((count, payload)) = bytes.split_first() else { return };
    if let Some(records) = Records::new(payload, u32::from(*count)) {
        let sum: usize = records.map(|record| RECORD_HEADER_BYTES + record.payload.len()).sum();
        assert_eq!(sum, payload.len());
    }
});

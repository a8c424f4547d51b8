//! Promises of [`apply`] that no script shows.

use proptest::prelude::*;
use storage::engine::MemoryEngine;

use super::super::samples::{KEYS, writes};
use super::super::script::engine;
use super::*;
use crate::limits::VALUE_BYTES_MAX;

/// What all keys have.
fn state(engine: &MemoryEngine, at: Timestamp) -> Vec<Option<(Vec<u8>, u64)>> {
    let newest = |key: &&[u8]| engine.newest(&engine.hasher().key(key), at);
    let owned = |version: Version<'_>| (version.value.to_vec(), version.expiry_ms);
    KEYS.iter().map(|key| newest(key).map(owned)).collect()
}

#[test]
fn an_append_stops_at_the_limit_that_it_names() {
    let mut engine = engine();
    let mut at = Timestamp::ZERO;
    let mut append = |value: &[u8], bytes_max| {
        at = at.next();
        apply(&mut engine, &Write::Append { key: b"k", value, bytes_max }, at)
    };
    assert_eq!(append(&[b'x'; 600], 1000), Reply::Int(600));
    assert_eq!(append(&[b'y'; 401], 1000), Reply::Refused(Refusal::TooLong));
    assert_eq!(append(&[b'y'; 400], 1000), Reply::Int(1000));
    assert_eq!(append(b"", 999), Reply::Refused(Refusal::TooLong));
    // One that was written before there was such a limit, or by a node that allows more.
    assert_eq!(append(&[b'z'; 24], VALUE_BYTES_MAX), Reply::Int(1024));
}

proptest! {
    #[test]
    fn refusals_change_nothing_and_replies_fit(
        writes in prop::collection::vec(writes(), 0..60),
        steps in prop::collection::vec(0..100u64, 60),
    ) {
        let mut engine = engine();
        let mut at = Timestamp::ZERO;
        for (write, step) in writes.iter().zip(steps) {
            at = Timestamp::from_millis(at.millis() + step).max(at.next());
            let before = state(&engine, at);
            let write = write.borrow();
            let reply = apply(&mut engine, &write, at);
            let after = state(&engine, at);
            let is_broken = matches!(write, Write::Transaction(_)) && reply == Reply::Nil;
            if is_broken || matches!(reply, Reply::Refused(_)) {
                prop_assert_eq!(&after, &before);
            }
            for (_, expiry_ms) in after.iter().flatten() {
                prop_assert!(*expiry_ms == 0 || *expiry_ms > at.millis());
            }
            let of = |key: &[u8]| {
                let version = engine.newest(&engine.hasher().key(key), at);
                version.map_or(&[][..], |version| version.value)
            };
            match (&write, &reply) {
                (Write::Append { key, .. } | Write::SetRange { key, .. }, Reply::Int(length)) => {
                    prop_assert_eq!(of(key).len(), *length as usize);
                }
                (Write::Increment { key, .. }, Reply::Int(sum)) => {
                    prop_assert_eq!(of(key).to_vec(), sum.to_string().into_bytes());
                }
                (Write::IncrementFloat { key, .. }, Reply::Bulk(sum)) => {
                    prop_assert_eq!(of(key), &sum[..]);
                }
                (Write::Delete { key } | Write::GetDelete { key }, _) => {
                    prop_assert_eq!(of(key), b"");
                }
                (Write::Flush { from: None, .. }, _) => {
                    prop_assert!(after.iter().all(Option::is_none));
                }
                _ => {}
            }
        }
    }
}

//! The body of a frame between controller and agents is a message or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    bench::agents::decode(bytes);
});

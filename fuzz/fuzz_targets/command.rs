//! Any bytes are a write in its wire form or an error; what was read is written the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use command::codec::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    if let Ok(write) = decode(&mut rest) {
        let mut again = Vec::new();
        encode(&write, &mut again);
        assert_eq!(again, bytes[..bytes.len() - rest.len()]);
    }
});

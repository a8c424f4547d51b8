//! Any bytes are native frames, a beginning of one or a fault; limits are judged before the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use gateway::native::{FrameLimits, Parsed, parse, write_frame};

fuzz_target!(|bytes: &[u8]| {
    let limits = FrameLimits { key_bytes_max: 1024, value_bytes_max: 4096 };
    let mut rest = bytes;
    loop {
        match parse(rest, &limits) {
            Ok(Parsed::Request(request, consumed)) => {
                let mut again = Vec::new();
                write_frame(&mut again, request.op.request(), request.key, request.value);
                assert_eq!(again, rest[..consumed]);
                rest = &rest[consumed..];
            }
            Ok(Parsed::Incomplete { needed_bytes }) => {
                assert!(needed_bytes > rest.len() && needed_bytes <= 11 + 1024 + 4096);
                return;
            }
            Err(_) => return,
        }
    }
});

//! Any bytes are commands, a beginning of one or a protocol error, however they are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use gateway::resp::{ArgRanges, RequestLimits, Parsed, parse};

/// The arguments of all commands, and whether the stream ended in an error.
fn commands(bytes: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, bool) {
    let mut ranges = ArgRanges::new();
    let (mut found, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        match parse(&bytes[start..end], &RequestLimits::default(), &mut ranges) {
            Ok(Parsed::Command { consumed }) => {
                assert!(0 < consumed && consumed <= end - start);
                let args = ranges.args(&bytes[start..end]);
                found.push(args.iter().map(<[u8]>::to_vec).collect());
                start += consumed;
            }
            Ok(Parsed::Empty { consumed }) => start += consumed,
            Ok(Parsed::Incomplete) if end == bytes.len() => return (found, false),
            Ok(Parsed::Incomplete) => end = (end + piece).min(bytes.len()),
            Err(_) => return (found, true),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let whole = commands(bytes, bytes.len().max(1));
    assert_eq!(whole, commands(bytes, 1));
    assert_eq!(whole, commands(bytes, 7));
});

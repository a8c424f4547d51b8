//! Any bytes are frames, a beginning of one or an error, however they are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::peer::frame::{Decoder, Frame, FrameError, encode};

const BODY_BYTES_MAX: usize = 100 << 10;

fn frames(bytes: &[u8], piece: usize) -> (Vec<Frame>, Option<FrameError>) {
    let mut decoder = Decoder::new(BODY_BYTES_MAX, &[]);
    let mut found = Vec::new();
    for piece in bytes.chunks(piece) {
        let mut rest = piece;
        while !rest.is_empty() {
            let space = decoder.space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            decoder.filled(count);
            rest = &rest[count..];
            loop {
                match decoder.take() {
                    Ok(Some(frame)) => found.push(frame),
                    Ok(None) => break,
                    Err(error) => return (found, Some(error)),
                }
            }
        }
    }
    (found, None)
}

fuzz_target!(|bytes: &[u8]| {
    let whole = frames(bytes, bytes.len().max(1));
    assert_eq!(whole, frames(bytes, 1));
    assert_eq!(whole, frames(bytes, 7));
    let mut again = Vec::new();
    whole.0.iter().for_each(|frame| encode(&mut again, frame.kind, &[&frame.body]));
    assert!(bytes.starts_with(&again));
});

//! Frames byte for byte, cut anywhere, and malformed ones.

#![allow(clippy::disallowed_methods, reason = "the fuzz corpus is files")]

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const BODY_BYTES_MAX: usize = 300 << 10;

fn encoded(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, kind, parts);
    out
}

/// Feeds a stream in pieces that end at `cuts`; the frames, and the error it ended with.
fn decode(stream: &[u8], cuts: &[usize]) -> (Vec<Frame>, Option<FrameError>) {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    ends.push(stream.len());
    ends.sort_unstable();
    let mut decoder = Decoder::new(BODY_BYTES_MAX, &stream[..ends[0]]);
    let (mut frames, mut start) = (Vec::new(), ends[0]);
    for end in ends {
        loop {
            match decoder.take() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) if start == end => break,
                Ok(None) => {
                    let space = decoder.space();
                    let bytes = space.len().min(end - start);
                    space[..bytes].copy_from_slice(&stream[start..start + bytes]);
                    decoder.filled(bytes);
                    start += bytes;
                }
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

#[test]
fn frame_bytes_match_the_drawing() {
    let crc = crc32fast::hash(b"\x05\0\0\0\x07hello").to_le_bytes();
    assert_eq!(encoded(7, &[b"he", b"", b"llo"]), [b"\x05\0\0\0\x07hello", &crc[..]].concat());
    assert_eq!(encoded(0, &[]).len(), frame_bytes(0));
}

#[test]
fn lengths_beyond_the_limit_are_refused_before_their_body_comes() {
    let bytes = BODY_BYTES_MAX + 1;
    let head = [&(bytes as u32).to_le_bytes()[..], &[1]].concat();
    let error = FrameError::TooLong { bytes, bytes_max: BODY_BYTES_MAX };
    assert_eq!(decode(&head, &[]), (vec![], Some(error)));
    let most = encoded(1, &[&vec![9; BODY_BYTES_MAX]]);
    assert_eq!(decode(&most, &[1, 4, 5, 70_000]).0[0].body.len(), BODY_BYTES_MAX);
}

#[test]
fn space_is_there_at_every_point_of_a_stream() {
    let stream: Vec<u8> = (0..40).flat_map(|n| encoded(n, &[&vec![n; n as usize * 401]])).collect();
    let mut decoder = Decoder::new(BODY_BYTES_MAX, &[]);
    let mut count = 0;
    for byte in stream {
        decoder.space()[0] = byte;
        decoder.filled(1);
        while let Some(frame) = decoder.take().unwrap() {
            assert_eq!(frame.body, vec![count; count as usize * 401]);
            assert_eq!(frame.kind, count);
            count += 1;
        }
    }
    assert_eq!(count, 40);
}

#[test]
fn bodies_share_the_buffer_they_came_in() {
    let stream = [encoded(1, &[b"one"]), encoded(2, &[b"two"])].concat();
    let (frames, _) = decode(&stream, &[]);
    let between = frames[1].body.as_ptr() as usize - frames[0].body.as_ptr() as usize;
    assert_eq!(between, frame_bytes(3));
}

fn frames() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let body = prop_oneof![8 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 60_000..140_000)];
    vec((any::<u8>(), body), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn frames_come_out_as_they_went_in(sent in frames(), cuts in vec(any::<usize>(), 0..20)) {
        let stream: Vec<u8> =
            sent.iter().flat_map(|(kind, body)| encoded(*kind, &[body])).collect();
        let (came, error) = decode(&stream, &cuts);
        let came: Vec<(u8, Vec<u8>)> =
            came.into_iter().map(|frame| (frame.kind, frame.body.to_vec())).collect();
        prop_assert_eq!((came, error), (sent, None));
    }

    #[test]
    fn a_changed_bit_is_found(
        body in vec(any::<u8>(), 0..40), at in any::<usize>(), bit in 0..8
    ) {
        let mut stream = encoded(3, &[&body]);
        let at = at % stream.len();
        stream[at] ^= 1u8 << bit;
        // A longer length may also wait for bytes that never come.
        let (came, _) = decode(&stream, &[]);
        prop_assert_eq!(came, vec![]);
    }

    #[test]
    fn pieces_change_nothing(
        stream in vec(prop_oneof![2 => Just(0u8), 1 => any::<u8>()], 0..200),
        cuts in vec(any::<usize>(), 0..20)
    ) {
        prop_assert_eq!(decode(&stream, &cuts), decode(&stream, &[]));
    }
}

#[test]
fn the_corpus_is_read_without_panic_and_the_same_in_single_bytes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/peer_frame");
    let mut frames = 0;
    let mut errors = 0;
    for file in fs::read_dir(corpus).unwrap() {
        let stream = fs::read(file.unwrap().path()).unwrap();
        let every: Vec<usize> = (0..stream.len()).collect();
        let whole = decode(&stream, &[]);
        assert_eq!(decode(&stream, &every), whole);
        frames += whole.0.len();
        errors += usize::from(whole.1.is_some());
    }
    assert!(frames >= 4 && errors >= 2, "the corpus is there: {frames} frames, {errors} errors");
}

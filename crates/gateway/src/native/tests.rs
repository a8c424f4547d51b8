//! Frames byte for byte, cut anywhere, and malformed ones.

use std::fs;
use std::path::Path;

use command::{Expiry, Reply, SetIf, SetReply, Sink};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LIMITS: FrameLimits = FrameLimits { key_bytes_max: 16, value_bytes_max: 64 };

/// A frame, and the op, key and value it says.
type FrameCase = (&'static [u8], Op, &'static [u8], &'static [u8]);

/// The frames of A.1, as its table has them.
const FRAMES: &[FrameCase] = &[
    (b"GET\0\0\0\x03\0\0\0\0key", Op::Get, b"key", b""),
    (b"PUT\0\0\0\x03\0\0\0\x05keyvalue", Op::Put, b"key", b"value"),
    (b"DEL\0\0\0\x03\0\0\0\0key", Op::Delete, b"key", b""),
    (b"PUT\0\0\0\0\0\0\0\0", Op::Put, b"", b""),
];

fn frame(letters: &[u8; 3], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, *letters, key, value);
    out
}

#[test]
fn requests_of_the_thesis_are_read_and_written_byte_for_byte() {
    for (bytes, op, key, value) in FRAMES {
        let request = Request { op: *op, key, value };
        assert_eq!(parse(bytes, &LIMITS), Ok(Parsed::Request(request, bytes.len())));
        assert_eq!(frame(&op.request(), key, value), *bytes);
    }
}

fn answer(op: Op, reason: ErrorText, reply: &Reply) -> Vec<u8> {
    let mut out = Vec::new();
    reply.give(&mut FrameSink { out: &mut out, op, key: b"key", reason } as &mut dyn Sink);
    out
}

#[test]
fn replies_of_the_thesis_are_written_byte_for_byte() {
    let words = ErrorText::Text;
    let value = Reply::Bulk((*b"value").into());
    assert_eq!(answer(Op::Get, words, &value), b"GOK\0\0\0\x03\0\0\0\x05keyvalue");
    assert_eq!(answer(Op::Put, words, &Reply::Ok), b"POK\0\0\0\x03\0\0\0\0key");
    assert_eq!(answer(Op::Delete, words, &Reply::Int(1)), b"DOK\0\0\0\x03\0\0\0\0key");
    assert_eq!(answer(Op::Delete, words, &Reply::Int(0)), b"DOK\0\0\0\x03\0\0\0\0key");
    assert_eq!(answer(Op::Get, words, &Reply::Nil), b"GER\0\0\0\x03\0\0\0\x09keynot found");
    assert_eq!(answer(Op::Get, ErrorText::Empty, &Reply::Nil), b"GER\0\0\0\x03\0\0\0\0key");
    let refused = Reply::Refused(command::Refusal::TooLong);
    assert_eq!(answer(Op::Put, ErrorText::Empty, &refused), b"PER\0\0\0\x03\0\0\0\0key");
}

#[test]
fn malformed_frame_is_refused_as_soon_as_it_shows() {
    let unknown = Err(Fault { op: None, kind: FaultKind::UnknownOp });
    assert_eq!(parse(b"POST / HTTP/1.1\r\n\r\n", &LIMITS), unknown);
    assert_eq!(parse(b"get", &LIMITS), unknown);
    assert_eq!(parse(b"GE", &LIMITS), Ok(Parsed::Incomplete { needed_bytes: 3 }));
    assert_eq!(parse(b"GET\0", &LIMITS), Ok(Parsed::Incomplete { needed_bytes: 11 }));

    // Lengths are judged before a single byte of the body is there.
    let long_key = parse(b"GET\xff\xff\xff\xff\0\0\0\0", &LIMITS).unwrap_err();
    assert_eq!(long_key.kind, FaultKind::KeyTooLong { bytes: u32::MAX, bytes_max: 16 });
    let long_value = parse(b"PUT\0\0\0\x01\0\0\0\x41", &LIMITS).unwrap_err();
    assert_eq!(long_value.kind, FaultKind::ValueTooLong { bytes: 65, bytes_max: 64 });
    let value = parse(b"DEL\0\0\0\x01\0\0\0\x01", &LIMITS).unwrap_err();
    assert_eq!(value, Fault { op: Some(Op::Delete), kind: FaultKind::ValueUnexpected });

    let mut out = Vec::new();
    write_fault(&mut out, &value, ErrorText::Text);
    assert_eq!(out, frame(b"DER", b"", b"the value length of GET and DEL must be 0"));
}

#[test]
fn commands_are_what_the_node_knows() {
    let put = Request { op: Op::Put, key: b"k", value: b"v" };
    let Command::Write(Write::Set { key: b"k", value: b"v", when, expiry, reply }) = put.command()
    else {
        panic!("a put is a set")
    };
    assert_eq!((when, expiry, reply), (SetIf::Always, Expiry::Never, SetReply::Ok));
    let get = Request { op: Op::Get, key: b"k", value: b"" };
    assert_eq!(get.command(), Command::Read(Read::Get(b"k")));
}

/// A request as an owned value, to compare streams with.
type Seen = (Op, Vec<u8>, Vec<u8>);

/// Reads a stream that arrives in pieces that end at `cuts`, holding no more than it must.
fn read_all(stream: &[u8], cuts: &[usize]) -> (Vec<Seen>, Option<Fault>) {
    let (mut seen, mut buffer, mut from) = (Vec::new(), Vec::new(), 0);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.push(stream.len());
    cuts.sort_unstable();
    for cut in cuts {
        buffer.extend_from_slice(&stream[from..cut]);
        from = cut;
        let mut used = 0;
        loop {
            match parse(&buffer[used..], &LIMITS) {
                Ok(Parsed::Request(request, bytes)) => {
                    assert!(bytes >= HEADER_BYTES);
                    seen.push((request.op, request.key.to_vec(), request.value.to_vec()));
                    used += bytes;
                }
                Ok(Parsed::Incomplete { needed_bytes }) => {
                    assert!(needed_bytes > buffer.len() - used);
                    assert!(needed_bytes <= HEADER_BYTES + 16 + 64, "bounded by the limits");
                    break;
                }
                Err(fault) => return (seen, Some(fault)),
            }
        }
        buffer.drain(..used);
    }
    (seen, None)
}

fn requests() -> impl Strategy<Value = Vec<Seen>> {
    let op = prop_oneof![Just(Op::Get), Just(Op::Put), Just(Op::Delete)];
    let one = (op, vec(any::<u8>(), 0..=16), vec(any::<u8>(), 0..=64));
    let one = one.prop_map(|(op, key, value)| match op {
        Op::Put => (op, key, value),
        Op::Get | Op::Delete => (op, key, Vec::new()),
    });
    vec(one, 0..8)
}

/// Bytes that are often nearly frames.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let letters = prop_oneof![
        4 => prop_oneof![Just(*b"GET"), Just(*b"PUT"), Just(*b"DEL")],
        1 => any::<[u8; 3]>(),
    ];
    let length = prop_oneof![4 => 0u32..4, 1 => 14u32..70, 1 => any::<u32>()];
    let one = (letters, length.clone(), length, vec(any::<u8>(), 0..8));
    vec(one, 0..8).prop_map(|frames| {
        let mut out = Vec::new();
        for (letters, key_bytes, value_bytes, body) in frames {
            out.extend_from_slice(&letters);
            out.extend_from_slice(&key_bytes.to_be_bytes());
            out.extend_from_slice(&value_bytes.to_be_bytes());
            out.extend_from_slice(&body);
        }
        out
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(requests in requests(), cuts in vec(any::<usize>(), 0..20)) {
        let stream: Vec<u8> =
            requests.iter().flat_map(|(op, key, value)| frame(&op.request(), key, value)).collect();
        prop_assert_eq!(read_all(&stream, &cuts), (requests, None));
    }

    #[test]
    fn pieces_change_nothing(stream in garbage(), cuts in vec(any::<usize>(), 0..20)) {
        prop_assert_eq!(read_all(&stream, &cuts), read_all(&stream, &[]));
    }
}

#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
#[test]
fn the_corpus_is_read_without_panic_and_the_same_in_single_bytes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/native");
    let mut count = 0;
    for file in fs::read_dir(corpus).unwrap() {
        let stream = fs::read(file.unwrap().path()).unwrap();
        let every: Vec<usize> = (0..stream.len()).collect();
        assert_eq!(read_all(&stream, &every), read_all(&stream, &[]));
        count += 1;
    }
    assert!(count >= 8, "the corpus is there");
}

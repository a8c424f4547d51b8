//! Negotiation and requests: scripts of both sides, the corpus whole and in pieces, any bytes.

use proptest::prelude::*;

use super::*;

/// Two volumes: one that can be written, and one that cannot.
pub(super) struct Two;

fn volume(name: &str, is_read_only: bool) -> Export {
    Export {
        name: name.to_owned(),
        description: format!("volume {name}"),
        size: 1 << 20,
        block: 4096,
        is_read_only,
        has_multi_conn: true,
    }
}

impl Exports for Two {
    fn find(&self, name: &str) -> Found {
        match name {
            "" | "disk" => Found::Export(volume("disk", false)),
            "old" => Found::Export(volume("old", true)),
            _ => Found::Refused("no volume has this name".to_owned()),
        }
    }

    fn names(&self) -> Vec<String> {
        vec!["disk".to_owned(), "old".to_owned()]
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut out = b"IHAVEOPT".to_vec();
    put_u32(&mut out, number);
    put_u32(&mut out, data.len() as u32);
    out.extend_from_slice(data);
    out
}

fn info(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut out = Vec::new();
    put_u32(&mut out, name.len() as u32);
    out.extend_from_slice(name.as_bytes());
    put_u16(&mut out, asked.len() as u16);
    asked.iter().for_each(|kind| put_u16(&mut out, *kind));
    out
}

fn queries(name: &str, of: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    put_u32(&mut out, name.len() as u32);
    out.extend_from_slice(name.as_bytes());
    put_u32(&mut out, of.len() as u32);
    for query in of {
        put_u32(&mut out, query.len() as u32);
        out.extend_from_slice(query.as_bytes());
    }
    out
}

/// The kinds of the replies to options.
fn kinds(mut bytes: &[u8]) -> Vec<u32> {
    let mut all = Vec::new();
    while let Some(kind) = be_u32(bytes, 12) {
        all.push(kind);
        bytes = &bytes[20 + be_u32(bytes, 16).unwrap() as usize..];
    }
    assert!(bytes.is_empty());
    all
}

/// What a client that says this is answered, and where it ends.
fn negotiate(said: &[Vec<u8>]) -> (Vec<u8>, Step) {
    let mut input = vec![0, 0, 0, 3];
    said.iter().for_each(|bytes| input.extend_from_slice(bytes));
    let mut out = Vec::new();
    let (used, step) = all_steps(&mut Negotiation::default(), &input, &mut out);
    assert!(matches!(step, Step::End) || used == input.len());
    (out, step)
}

/// Takes options until bytes are missing or the negotiation has ended.
fn all_steps(negotiation: &mut Negotiation, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
    let mut used = 0;
    loop {
        let (taken, step) = negotiation.step(&input[used..], &Two, out);
        used += taken;
        if taken == 0 || step != Step::More {
            return (used, step);
        }
    }
}

fn chosen(step: Step) -> Negotiated {
    match step {
        Step::Chosen(negotiated) => *negotiated,
        other => panic!("nothing was chosen: {other:?}"),
    }
}

#[test]
fn the_greeting_is_that_of_the_protocol() {
    assert_eq!(&GREETING[..16], b"NBDMAGICIHAVEOPT");
    assert_eq!(GREETING[16..], [0, 3]);
}

#[test]
fn a_client_chooses_structured_replies_a_context_and_a_volume() {
    let said = [
        option(8, b""),
        option(10, &queries("disk", &["base:allocation", "qemu:dirty-bitmap"])),
        option(7, &info("disk", &[1, 2, 3])),
    ];
    let (out, step) = negotiate(&said);
    assert_eq!(kinds(&out), [1, 4, 1, 3, 3, 3, 3, 1]);
    let Negotiated { export, transmission } = chosen(step);
    assert_eq!(export.name, "disk");
    assert!(transmission.has_structured && transmission.has_context);
    assert!(!transmission.has_extended);
}

#[test]
fn a_context_counts_for_its_volume_only_and_not_after_other_headers() {
    let context = option(10, &queries("disk", &["base:allocation"]));
    let said = [option(8, b""), context.clone(), option(7, &info("old", &[]))];
    assert!(!chosen(negotiate(&said).1).transmission.has_context);
    let said = [option(8, b""), context.clone(), option(11, b""), option(7, &info("disk", &[]))];
    let form = chosen(negotiate(&said).1).transmission;
    assert!(form.has_extended && form.has_structured && !form.has_context);
    let (out, _) = negotiate(&[context]);
    assert_eq!(kinds(&out), [0x8000_0003], "it needs structured replies");
}

#[test]
fn options_that_cannot_be_are_refused_and_others_go_on() {
    let long = option(3, &vec![0; OPTION_BYTES_MAX as usize + 1]);
    let said = [
        option(5, b""),
        option(99, b"what"),
        long,
        option(7, &info("nosuch", &[])),
        option(6, b"\0\0\0\x09disk"),
        option(3, b"data"),
        option(3, b""),
        option(2, b""),
    ];
    let (out, step) = negotiate(&said);
    let (unsup, invalid, unknown, big) = (0x8000_0001, 0x8000_0003, 0x8000_0006, 0x8000_0009);
    assert_eq!(kinds(&out), [unsup, unsup, big, unknown, invalid, invalid, 2, 2, 1, 1]);
    assert_eq!(step, Step::End);
}

#[test]
fn a_name_that_is_not_known_yet_takes_no_byte_until_it_is() {
    struct Slow(std::cell::Cell<bool>);
    impl Exports for Slow {
        fn find(&self, name: &str) -> Found {
            if self.0.replace(true) { Two.find(name) } else { Found::Later }
        }

        fn names(&self) -> Vec<String> {
            Two.names()
        }
    }
    let asked = [
        (option(1, b"old"), 0),
        (option(6, &info("old", &[])), 3),
        (option(7, &info("old", &[])), 3),
        (option(10, &queries("old", &["base:allocation"])), 2),
    ];
    for (bytes, replies) in asked {
        let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
        let (said, _) = negotiation.step(&[0, 0, 0, 3], &Two, &mut out);
        let (structured, _) = negotiation.step(&option(8, b""), &Two, &mut out);
        assert_eq!((said, structured), (4, 16));
        out.clear();
        let slow = Slow(std::cell::Cell::default());
        assert_eq!(negotiation.step(&bytes, &slow, &mut out), (0, Step::Wait));
        assert!(out.is_empty(), "nothing is said before it is known");
        let (used, step) = negotiation.step(&bytes, &slow, &mut out);
        assert_eq!(used, bytes.len());
        match replies {
            0 => assert!(chosen(step).export.is_read_only),
            count => assert_eq!(kinds(&out).len(), count),
        }
    }
}

#[test]
fn the_old_way_to_choose_ends_in_silence_for_an_unknown_name() {
    let (out, step) = negotiate(&[option(1, b"disk")]);
    assert_eq!(out.len(), 10, "the client wanted no zeroes");
    assert_eq!(chosen(step).export.name, "disk");
    assert_eq!(negotiate(&[option(1, b"nosuch")]), (Vec::new(), Step::End));
    let mut out = Vec::new();
    let mut input = vec![0, 0, 0, 1];
    input.extend(option(1, b""));
    let (_, step) = all_steps(&mut Negotiation::default(), &input, &mut out);
    assert_eq!((out.len(), chosen(step).export.name.as_str()), (134, "disk"));
}

#[test]
fn nonsense_ends_a_negotiation() {
    let ends = |input: &[u8]| {
        let mut out = Vec::new();
        all_steps(&mut Negotiation::default(), input, &mut out).1 == Step::End
    };
    assert!(ends(&[0, 0, 1, 3]), "an unknown flag");
    let mut wrong = vec![0, 0, 0, 3];
    wrong.extend_from_slice(b"IHAVEOPX\0\0\0\x03\0\0\0\0");
    assert!(ends(&wrong));
    let mut many = vec![0, 0, 0, 3];
    (0..=OPTIONS_MAX).for_each(|_| many.extend(option(99, b"")));
    assert!(ends(&many));
}

fn form(has_extended: bool) -> Transmission {
    Transmission {
        has_structured: true,
        has_extended,
        has_context: true,
        size: 1 << 20,
        block: 4096,
        is_read_only: false,
    }
}

fn compact(flags: u16, kind: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut out = Vec::new();
    put_u32(&mut out, 0x2560_9513);
    put_u16(&mut out, flags);
    put_u16(&mut out, kind);
    put_u64(&mut out, 77);
    put_u64(&mut out, offset);
    put_u32(&mut out, length);
    out
}

fn extended(flags: u16, kind: u16, offset: u64, length: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_u32(&mut out, 0x21e4_1c71);
    put_u16(&mut out, flags);
    put_u16(&mut out, kind);
    put_u64(&mut out, 77);
    put_u64(&mut out, offset);
    put_u64(&mut out, length);
    out
}

fn refused(flags: u16, kind: u16, offset: u64, length: u32, form: &Transmission) -> Errno {
    match parse(&compact(flags, kind, offset, length), form) {
        Parsed::Refused(fault, 28, skip) => {
            assert_eq!((fault.cookie, fault.offset), (77, offset));
            assert_eq!(skip, if kind == 1 { length.into() } else { 0 });
            fault.errno
        }
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn requests_are_read_in_both_forms() {
    let mut write = compact(1, 1, 4096, 4096);
    write.extend_from_slice(&[5; 4096]);
    let command = Command::Write(&write[28..]);
    let request = Request { cookie: 77, command, offset: 4096, length: 4096, is_durable: true };
    assert_eq!(parse(&write, &form(false)), Parsed::Request(request, 28 + 4096));
    assert_eq!(parse(&write[..4000], &form(false)), Parsed::More);
    let zeroes = extended(2, 6, 0, 1 << 20);
    let command = Command::WriteZeroes { has_no_hole: true };
    let request = Request { cookie: 77, command, offset: 0, length: 1 << 20, is_durable: false };
    assert_eq!(parse(&zeroes, &form(true)), Parsed::Request(request, 32));
    assert!(matches!(parse(&zeroes, &form(false)), Parsed::Broken(_)));
}

#[test]
fn each_fault_has_its_error() {
    let form = form(false);
    assert_eq!(refused(0, 1, 1 << 20, 4096, &form), Errno::NoSpace, "a write past the end");
    assert_eq!(refused(0, 0, 1 << 20, 1, &form), Errno::Invalid, "a read past the end");
    assert_eq!(refused(0, 0, u64::MAX, 2, &form), Errno::Invalid, "offset and length overflow");
    assert_eq!(refused(0, 1, 1, 4096, &form), Errno::Invalid, "misaligned");
    assert_eq!(refused(0, 4, 0, 100, &form), Errno::Invalid, "half a block");
    assert_eq!(refused(0, 0, 0, 0, &form), Errno::Invalid, "no bytes");
    assert_eq!(refused(0, 42, 0, 1, &form), Errno::Invalid, "unknown");
    assert_eq!(refused(2, 0, 0, 1, &form), Errno::Invalid, "a flag of others");
    assert_eq!(refused(16, 6, 0, 4096, &form), Errno::NotSupported, "fast zeroes");
    assert_eq!(refused(0, 3, 1, 0, &form), Errno::Invalid, "a flush of bytes");
    let big = Transmission { size: 1 << 40, ..form.clone() };
    assert_eq!(refused(0, 0, 0, PAYLOAD_BYTES_MAX + 1, &big), Errno::Overflow);
    let read_only = Transmission { is_read_only: true, ..form.clone() };
    assert_eq!(refused(0, 1, 0, 4096, &read_only), Errno::Perm);
    let no_context = Transmission { has_context: false, ..form.clone() };
    assert_eq!(refused(0, 7, 0, 4096, &no_context), Errno::Invalid);
    let long = compact(0, 1, 0, PAYLOAD_BYTES_MAX + 1);
    assert!(matches!(parse(&long, &big), Parsed::Broken(_)));
}

#[test]
fn replies_have_the_negotiated_form() {
    let extents = [Extent { length: 2, data: Some(b"ab") }, Extent { length: 3, data: None }];
    let simple = Transmission { has_structured: false, has_context: false, ..form(false) };
    let mut out = Vec::new();
    ReplyWriter::new(&simple).data(77, 10, &extents, false, &mut out);
    assert_eq!(&out[16..], b"ab\0\0\0");
    out.clear();
    ReplyWriter::new(&form(false)).data(77, 10, &extents, true, &mut out);
    assert_eq!((be_u16(&out, 4), be_u16(&out, 6), be_u32(&out, 16)), (Some(1), Some(1), Some(13)));
    assert_eq!(&out[28..], b"ab\0\0\0");
    out.clear();
    ReplyWriter::new(&form(false)).data(77, 10, &extents, false, &mut out);
    let hole = &out[20 + 10..];
    assert_eq!((be_u16(&out, 4), be_u16(hole, 4), be_u16(hole, 6)), (Some(0), Some(1), Some(2)));
    assert_eq!((be_u64(hole, 20), be_u32(hole, 28)), (Some(12), Some(3)));
    out.clear();
    ReplyWriter::new(&form(true)).status(77, 10, &extents, &mut out);
    assert_eq!((be_u64(&out, 24), out.len()), (Some(8 + 32), 32 + 40));
    assert_eq!((be_u64(&out, 40), be_u64(&out, 48)), (Some(2), Some(0)));
    assert_eq!((be_u64(&out, 56), be_u64(&out, 64)), (Some(3), Some(3)));
    out.clear();
    ReplyWriter::new(&form(false)).error(77, 10, Errno::NoSpace, "full", &mut out);
    assert_eq!((be_u16(&out, 6), be_u32(&out, 20)), (Some(0x8001), Some(28)));
    assert!(out.ends_with(b"\0\x04full"));
}

/// All that a negotiation says of these bytes, given in pieces.
fn in_pieces(bytes: &[u8], cuts: &[usize]) -> (Vec<u8>, String) {
    let mut negotiation = Negotiation::default();
    let (mut out, mut begun) = (Vec::new(), 0);
    let ends =
        cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect::<std::collections::BTreeSet<_>>();
    for end in ends.into_iter().chain([bytes.len()]) {
        let (used, step) = all_steps(&mut negotiation, &bytes[begun..end.max(begun)], &mut out);
        begun += used;
        if step != Step::More {
            return (out, format!("{step:?}"));
        }
    }
    (out, "more".to_owned())
}

proptest! {
    #[test]
    fn any_bytes_are_read_and_cuts_change_nothing(
        options in proptest::collection::vec(
            (0u32..13, proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
        rest in proptest::collection::vec(any::<u8>(), 0..80),
        cuts in proptest::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut bytes = vec![0, 0, 0, 3];
        options.iter().for_each(|(number, data)| bytes.extend(option(*number, data)));
        bytes.extend(rest);
        prop_assert_eq!(in_pieces(&bytes, &cuts), in_pieces(&bytes, &[]));
    }

    #[test]
    fn any_bytes_are_a_request_or_none(
        flags in 0u16..64,
        kind in 0u16..10,
        offset in any::<u64>(),
        length in any::<u32>(),
        rest in proptest::collection::vec(any::<u8>(), 0..60),
        is_extended in any::<bool>(),
    ) {
        let mut bytes = match is_extended {
            true => extended(flags, kind, offset, length.into()),
            false => compact(flags, kind, offset, length),
        };
        bytes.extend(rest);
        match parse(&bytes, &form(is_extended)) {
            Parsed::Request(request, used) => {
                prop_assert!(used <= bytes.len());
                let is_inside = request.offset.checked_add(request.length)
                    .is_some_and(|end| end <= 1 << 20);
                prop_assert!(is_inside || kind == 2);
            }
            Parsed::Refused(_, _, skip) => prop_assert!(skip <= PAYLOAD_BYTES_MAX.into()),
            Parsed::More | Parsed::Broken(_) => {}
        }
    }
}

#[test]
fn tls_begins_once_and_forgets_what_was_agreed_on_before() {
    let starttls = option(5, b"");
    let begin = |tls, said: &[Vec<u8>]| {
        let mut input = vec![0, 0, 0, 3];
        said.iter().for_each(|bytes| input.extend_from_slice(bytes));
        let (mut negotiation, mut out) = (Negotiation::new(tls), Vec::new());
        let (used, step) = all_steps(&mut negotiation, &input, &mut out);
        (negotiation, input[used..].to_vec(), kinds(&out), step)
    };
    const UNSUP: u32 = 0x8000_0001;
    const INVALID: u32 = 0x8000_0003;
    const TLS_REQD: u32 = 0x8000_0005;
    let (.., replies, step) = begin(TlsOffer::None, std::slice::from_ref(&starttls));
    assert_eq!((replies, step), (vec![UNSUP], Step::More));
    let (.., replies, _) = begin(TlsOffer::Optional, &[option(5, b"x")]);
    assert_eq!(replies, [INVALID]);

    // What comes behind it in the clear is left.
    let said = [option(8, b""), starttls.clone(), option(3, b"")];
    let (mut negotiation, rest, replies, step) = begin(TlsOffer::Optional, &said);
    assert_eq!((replies, step, rest), (vec![1, 1], Step::StartTls, option(3, b"")));
    let mut out = Vec::new();
    let asked = [starttls.clone(), option(10, &queries("disk", &["base:allocation"]))].concat();
    all_steps(&mut negotiation, &asked, &mut out);
    assert_eq!(kinds(&out), [INVALID, INVALID], "it has begun, and replies are simple again");

    let said = [option(3, b""), option(7, &info("disk", &[])), option(8, b""), starttls];
    let (mut negotiation, _, replies, step) = begin(TlsOffer::Required, &said);
    assert_eq!((replies, step), (vec![TLS_REQD, TLS_REQD, TLS_REQD, 1], Step::StartTls));
    let mut out = Vec::new();
    let (_, step) = all_steps(&mut negotiation, &option(1, b"disk"), &mut out);
    assert_eq!(chosen(step).export.name, "disk");
    let (.., replies, step) = begin(TlsOffer::Required, &[option(1, b"disk")]);
    assert_eq!((replies, step), (Vec::new(), Step::End), "the old way has no answer");
    let (.., replies, step) = begin(TlsOffer::Required, &[option(2, b"")]);
    assert_eq!((replies, step), (vec![1], Step::End));
}

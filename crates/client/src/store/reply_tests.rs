//! The decoder: every kind of answer, any cut, any bytes.

use proptest::prelude::*;

use super::*;

const BYTES_MAX: usize = 64 << 10;

fn bulk(text: &'static str) -> Reply {
    Reply::Bulk(Bytes::from_static(text.as_bytes()))
}

/// All answers in `bytes`, which come in pieces of these lengths, in turn.
fn decoded(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Reply>, DecodeError> {
    let mut decoder = Decoder::new(BYTES_MAX);
    let (mut input, mut replies, mut rest) = (BytesMut::new(), Vec::new(), bytes);
    for len in pieces.iter().cycle() {
        let (piece, after) = rest.split_at((*len).min(rest.len()));
        input.extend_from_slice(piece);
        rest = after;
        while let Some(reply) = decoder.next(&mut input)? {
            replies.push(reply);
        }
        assert!(decoder.taken_bytes <= BYTES_MAX && decoder.open.len() <= NESTING_MAX);
        if rest.is_empty() {
            return Ok(replies);
        }
    }
    unreachable!("the lengths repeat for ever")
}

fn written(reply: &Reply, out: &mut Vec<u8>) {
    let blob = |sigil: u8, bytes: &[u8], out: &mut Vec<u8>| {
        out.push(sigil);
        out.extend(format!("{}\r\n", bytes.len()).bytes());
        out.extend(bytes);
        out.extend(b"\r\n");
    };
    match reply {
        Reply::Nil => out.extend(b"_\r\n"),
        Reply::Status(text) => out.extend([b"+", text.as_ref(), b"\r\n"].concat()),
        Reply::Error(text) => blob(b'!', text, out),
        Reply::Integer(number) => out.extend(format!(":{number}\r\n").bytes()),
        Reply::Bulk(bytes) => blob(b'$', bytes, out),
        Reply::Double(number) => out.extend(format!(",{number}\r\n").bytes()),
        Reply::Boolean(is) => out.extend(if *is { b"#t\r\n" } else { b"#f\r\n" }),
        Reply::Array(items) => {
            out.extend(format!("*{}\r\n", items.len()).bytes());
            items.iter().for_each(|item| written(item, out));
        }
        Reply::Map(pairs) => {
            out.extend(format!("%{}\r\n", pairs.len()).bytes());
            pairs.iter().for_each(|(key, value)| {
                written(key, out);
                written(value, out);
            });
        }
    }
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let leaf = prop_oneof![
        Just(Reply::Nil),
        "[a-zA-Z ]{0,12}".prop_map(|text| Reply::Status(Bytes::from(text))),
        bytes().prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Integer),
        bytes().prop_map(Reply::Bulk),
        any::<i32>().prop_map(|number| Reply::Double(f64::from(number) / 8.0)),
        any::<bool>().prop_map(Reply::Boolean),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Reply::Array),
            proptest::collection::vec((inner.clone(), inner), 0..3).prop_map(Reply::Map),
        ]
    })
}

#[test]
fn both_protocols_are_understood() {
    let bytes = b"$-1\r\n*-1\r\n_\r\n+OK\r\n-ERR no\r\n:-7\r\n$2\r\nhi\r\n=6\r\ntxt:hi\r\n,1.5\r\n\
                  ,inf\r\n#f\r\n(123\r\n~1\r\n:1\r\n*0\r\n%1\r\n+a\r\n*1\r\n_\r\n";
    let expected = [
        Reply::Nil,
        Reply::Nil,
        Reply::Nil,
        Reply::Status("OK".into()),
        Reply::Error("ERR no".into()),
        Reply::Integer(-7),
        bulk("hi"),
        bulk("hi"),
        Reply::Double(1.5),
        Reply::Double(f64::INFINITY),
        Reply::Boolean(false),
        bulk("123"),
        Reply::Array(vec![Reply::Integer(1)]),
        Reply::Array(vec![]),
        Reply::Map(vec![(Reply::Status("a".into()), Reply::Array(vec![Reply::Nil]))]),
    ];
    assert_eq!(decoded(bytes, &[1000]).unwrap(), expected);
    assert_eq!(decoded(bytes, &[1]).unwrap(), expected);
}

#[test]
fn pushes_are_left_out_of_replies() {
    let bytes = b">2\r\n+message\r\n*1\r\n:1\r\n|1\r\n+ttl\r\n:3\r\n*2\r\n|0\r\n:1\r\n:2\r\n:9\r\n";
    let numbers = Reply::Array(vec![Reply::Integer(1), Reply::Integer(2)]);
    assert_eq!(decoded(bytes, &[3]).unwrap(), [numbers, Reply::Integer(9)]);
}

#[test]
fn limits_are_checked_before_buffering() {
    let too_long = Err(DecodeError::TooLong { bytes_max: BYTES_MAX });
    assert_eq!(decoded(b"$70000\r\n", &[1000]), too_long);
    assert_eq!(decoded(b"*9000000000000000000\r\n", &[1000]), too_long);
    assert_eq!(decoded(b"%4000000000000000000\r\n", &[1000]), too_long);
    assert_eq!(decoded(&b"*1\r\n".repeat(15), &[7]), Ok(vec![]));
    assert!(matches!(decoded(&b"*1\r\n".repeat(17), &[7]), Err(DecodeError::NotResp(_))));
    assert!(decoded(&vec![b'+'; LINE_BYTES_MAX], &[999]).is_ok_and(|none| none.is_empty()));
    assert!(decoded(&vec![b'+'; LINE_BYTES_MAX + 3], &[999]).is_err());
    let many = [b"*1000\r\n".to_vec(), b"$70\r\n".to_vec(), vec![b'x'; 70], b"\r\n".to_vec()];
    let many = [many[0].clone(), many[1..].concat().repeat(1000)].concat();
    assert_eq!(decoded(&many, &[500]), too_long, "all of an answer counts");
}

#[test]
fn large_value_is_decoded_completely() {
    let value = vec![7; COPIED_BYTES_MAX + 1];
    let mut bytes = Vec::new();
    written(&Reply::Bulk(value.clone().into()), &mut bytes);
    bytes.extend(b":1\r\n");
    let expected = [Reply::Bulk(value.into()), Reply::Integer(1)];
    assert_eq!(decoded(&bytes, &[1000]).unwrap(), expected);
}

proptest! {
    #[test]
    fn answers_come_back_however_they_are_cut(
        replies in proptest::collection::vec(any_reply(), 1..4),
        pieces in proptest::collection::vec(1_usize..50, 1..6),
    ) {
        let mut bytes = Vec::new();
        replies.iter().for_each(|reply| written(reply, &mut bytes));
        prop_assert_eq!(decoded(&bytes, &pieces).unwrap(), replies);
    }

    #[test]
    fn any_bytes_are_answers_or_an_error_and_the_cut_does_not_matter(
        bytes in proptest::collection::vec(
            prop_oneof![
                5 => proptest::sample::select(b"*$%~|>:_+-#,(=!0123456789\r\n".to_vec()),
                1 => any::<u8>(),
                3 => Just(b'\n'),
            ], 0..200),
        pieces in proptest::collection::vec(1_usize..20, 1..6),
    ) {
        // Ends of line, so that headers are complete now and then.
        let bytes: Vec<u8> = bytes.iter().flat_map(|byte| match byte {
            b'\n' => b"\r\n".to_vec(),
            other => vec![*other],
        }).collect();
        let whole = decoded(&bytes, &[bytes.len().max(1)]);
        let cut = decoded(&bytes, &pieces);
        match (whole, cut) {
            // By text: a fraction may be NaN, which equals nothing.
            (Ok(whole), Ok(cut)) => prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}")),
            (whole, cut) => prop_assert_eq!(whole.is_err(), cut.is_err()),
        }
    }
}

//! The parser alone: its texts, its limits, and any way of cutting its input.

use gateway::resp::{ArgRanges, LINE_BYTES_MAX, Parsed, ProtocolError, RequestLimits, parse};
use proptest::prelude::*;

/// The commands of a stream that arrives in pieces of these lengths (the last one repeated), and
/// the error at its end if there is one.
fn commands(bytes: &[u8], limits: &RequestLimits, pieces: &[usize]) -> (Vec<Vec<Vec<u8>>>, String) {
    let mut ranges = ArgRanges::new();
    let mut found = Vec::new();
    let mut from = 0;
    let mut to = 0;
    let mut pieces = pieces.iter().chain(std::iter::repeat(pieces.last().unwrap()));
    loop {
        match parse(&bytes[from..to], limits, &mut ranges) {
            Ok(Parsed::Command { consumed }) => {
                let args = ranges.args(&bytes[from..to]);
                found.push(args.iter().map(<[u8]>::to_vec).collect());
                from += consumed;
            }
            Ok(Parsed::Empty { consumed }) => {
                found.push(Vec::new());
                from += consumed;
            }
            Ok(Parsed::Incomplete) if to == bytes.len() => return (found, String::new()),
            Ok(Parsed::Incomplete) => {
                assert!(ranges.bytes_missing(to - from) > 0);
                to = bytes.len().min(to + pieces.next().unwrap());
            }
            Err(error) => return (found, error.to_string()),
        }
    }
}

fn at_once(bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, String) {
    commands(bytes, &RequestLimits::default(), &[bytes.len().max(1)])
}

#[test]
fn inline_commands_follow_the_quoting_rules() {
    let cases: [(&str, &[&[u8]]); 10] = [
        ("SET k v\r\n", &[b"SET", b"k", b"v"]),
        ("  PING  \n", &[b"PING"]),
        ("a \"b c\" 'd e'\n", &[b"a", b"b c", b"d e"]),
        ("\"\\x41\\n\\r\\t\\b\\a\\\"\\q\\xzz\"\n", &[b"A\n\r\t\x08\x07\"qxzz"]),
        ("'a\\'b\\n'\n", &[b"a'b\\n"]),
        ("foo\"bar\" x\n", &[b"foobar", b"x"]),
        ("'' \"\"\n", &[b"", b""]),
        ("a\\nb\n", &[b"a\\nb"]),
        ("a\tb\x0bc\n", &[b"a", b"b\x0bc"]),
        ("\"a\"\x0bb\n", &[b"a", b"b"]),
    ];
    for (line, args) in cases {
        let (found, error) = at_once(line.as_bytes());
        assert_eq!(error, "", "{line}");
        assert_eq!(found, [args.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>()], "{line}");
    }
}

#[test]
fn protocol_errors_have_the_words_of_redis() {
    let long = |first: &str| first.to_owned() + &"1".repeat(LINE_BYTES_MAX);
    let cases = [
        ("*x\r\n".to_owned(), "invalid multibulk length"),
        ("*\r\n".to_owned(), "invalid multibulk length"),
        ("*1048577\r\n".to_owned(), "invalid multibulk length"),
        ("*99999999999999999999\r\n".to_owned(), "invalid multibulk length"),
        ("*01\r\n".to_owned(), "invalid multibulk length"),
        ("*1\r\n$x\r\n".to_owned(), "invalid bulk length"),
        ("*1\r\n$-1\r\n".to_owned(), "invalid bulk length"),
        ("*1\r\n$67108865\r\n".to_owned(), "invalid bulk length"),
        ("*1\r\n$99999999999999999999\r\n".to_owned(), "invalid bulk length"),
        ("*1\r\n:1\r\n".to_owned(), "expected '$', got ':'"),
        ("*1\r\n\r\n".to_owned(), "expected '$', got ' '"),
        (long("*"), "too big mbulk count string"),
        (long("*1\r\n$"), "too big bulk count string"),
        (long("x"), "too big inline request"),
        ("set k 'v\r\n".to_owned(), "unbalanced quotes in request"),
        ("set k \"v\"x\r\n".to_owned(), "unbalanced quotes in request"),
        ("set k \"v\\\r\n".to_owned(), "unbalanced quotes in request"),
    ];
    for (bytes, text) in cases {
        let (_, error) = at_once(bytes.as_bytes());
        assert_eq!(error, format!("ERR Protocol error: {text}"), "{:.40}", bytes);
    }
    let limits = RequestLimits { request_bytes_max: 20, ..RequestLimits::default() };
    let (_, error) = commands(b"*2\r\n$3\r\nGET\r\n$10\r\n", &limits, &[100]);
    assert_eq!(error, ProtocolError::RequestTooBig.to_string());
}

#[test]
fn lengths_up_to_the_limit_are_taken_and_nothing_is_allocated_for_them() {
    let limits = RequestLimits { value_bytes_max: 5, args_max: 3, ..RequestLimits::default() };
    let (found, error) = commands(b"*3\r\n$1\r\na\r\n$5\r\n12345\r\n$0\r\n\r\n", &limits, &[7]);
    assert_eq!((found[0].len(), error.as_str()), (3, ""));
    let mut ranges = ArgRanges::new();
    let parsed = parse(b"*1048576\r\n$67108864\r\nx", &RequestLimits::default(), &mut ranges);
    assert_eq!(parsed, Ok(Parsed::Incomplete));
    assert!(ranges.args(b"").is_empty());
    assert_eq!(ranges.bytes_missing(22), 67_108_864 + 21 + 2 - 22);
}

#[test]
fn a_value_in_a_million_pieces_is_read_in_linear_time() {
    let len = 1 << 20;
    let mut bytes = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n").into_bytes();
    bytes.resize(bytes.len() + len, b'v');
    bytes.extend_from_slice(b"\r\n");
    let (found, _) = commands(&bytes, &RequestLimits::default(), &[1]);
    assert_eq!(found[0][2].len(), len);
}

/// Bytes that look like requests, more or less.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let bulk = prop::collection::vec(any::<u8>(), 0..20);
    let whole = prop::collection::vec(bulk, 0..5).prop_map(|args| {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        bytes
    });
    let scrap = prop::sample::select(vec![
        "*",
        "$",
        "\r\n",
        "\n",
        "\r",
        "1",
        "3",
        "-1",
        "0",
        "*2\r\n",
        "$3\r\n",
        "GET",
        " ",
        "\"",
        "'",
        "\\",
        "\\x4",
        "*3\r\n$3\r\nSET",
        "x",
    ]);
    let scrap = scrap.prop_map(|text| text.as_bytes().to_vec());
    let part = prop_oneof![3 => whole, 2 => scrap, 1 => prop::collection::vec(any::<u8>(), 0..4)];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn how_a_stream_is_cut_makes_no_difference(
        bytes in streams(),
        pieces in prop::collection::vec(1usize..30, 1..20),
    ) {
        let expected = at_once(&bytes);
        prop_assert_eq!(&commands(&bytes, &RequestLimits::default(), &pieces), &expected);
        prop_assert_eq!(&commands(&bytes, &RequestLimits::default(), &[1]), &expected);
    }

    #[test]
    fn what_is_written_is_read(
        args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8),
    ) {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in &args {
            bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        prop_assert_eq!(at_once(&bytes), (vec![args], String::new()));
    }
}

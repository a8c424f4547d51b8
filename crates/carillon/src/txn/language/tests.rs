//! Parses lines and scripts, and reports errors in them.

use super::*;

fn op(text: &str) -> Value {
    match line(text.as_bytes()) {
        Ok(Line::Op(op)) => op,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn operations_are_what_the_node_takes() {
    assert_eq!(op("get a # the first"), json!({ "get": "a" }));
    assert_eq!(op("GET 'two words'"), json!({ "get": "two words" }));
    assert_eq!(op(r#"del "\xff\n""#), json!({ "delete": { "base64": "/wo=" } }));
    assert_eq!(op("put a 1"), json!({ "put": { "key": "a", "value": "1" } }));
    let put = json!({ "put": { "key": "a", "value": "1", "ttl_ms": 10_000 } });
    assert_eq!(op("put a 1 ttl 10s"), put);
    assert_eq!(op("incr a"), json!({ "increment": { "key": "a" } }));
    assert_eq!(op("incr a -5"), json!({ "increment": { "key": "a", "by": -5 } }));
    assert_eq!(op("range"), json!({ "range": {} }));
    assert_eq!(op("range a"), json!({ "range": { "from": "a" } }));
    let ends = json!({ "range": { "to": "m", "limit": 10, "reverse": true } });
    assert_eq!(op("range - m reverse limit 10"), ends);
    let quoted = json!({ "range": { "from": "limit", "to": "-" } });
    assert_eq!(op("range 'limit' \"-\""), quoted);
    assert_eq!(line(b"  # nothing"), Ok(Line::Empty));
}

#[test]
fn what_is_not_understood_says_why() {
    for (text, words) in [
        ("gte a", "gte is not a command"),
        ("get", "get KEY"),
        ("get two words", "are quoted"),
        ("put a", "put KEY VALUE"),
        ("put a 1 ttl soon", "soon is not a time"),
        ("incr a 1.5", "not an integer"),
        ("get \"a", "not closed"),
        ("get 'a", "not closed"),
        ("get \"a\"b", "a blank"),
        ("get \"\\q\"", "after \\"),
        ("get \"\\xg0\"", "hexadecimal"),
        ("range a b c", "expected range"),
        ("range limit", "expected range"),
        ("range limit x", "not a number of keys"),
        ("if", "expected if exists"),
        ("if a 1", "expected if exists"),
        ("if version a = x", "not a version"),
        ("commit now", "takes no arguments"),
        ("'get' a", "not a command"),
    ] {
        let why = line(text.as_bytes()).unwrap_err();
        assert!(why.contains(words), "{text}: {why}");
    }
}

#[test]
fn files_are_at_once_or_step_by_step() {
    let text = b"# compare\nif exists a\nif not exists b\nif c = 1\nif version d = 7\n\nthen\n\
                 put a 1\nelse\nget c\n";
    let compare = json!([
        { "key": "a", "exists": true }, { "key": "b", "exists": false },
        { "key": "c", "value": "1" }, { "key": "d", "version": "7" }
    ]);
    let put = json!({ "put": { "key": "a", "value": "1" } });
    let txn = json!({ "compare": compare, "then": [put], "else": [{ "get": "c" }] });
    let lines = [vec![8], vec![10]];
    assert_eq!(script(text), Ok(Script::AtOnce(ConditionalTxn { txn, has_else: true, lines })));
    let get = json!({ "get": "a" });
    assert_eq!(script(b"\nget a\n"), Ok(Script::Steps(vec![(2, get.clone())], true)));
    assert_eq!(script(b"get a\nrollback"), Ok(Script::Steps(vec![(1, get)], false)));
    for (text, at) in [
        ("get a\nif exists a\nthen", 2),
        ("if exists a\nput a 1", 2),
        ("if exists a", 1),
        ("then\nget a\nif exists a", 3),
        ("then\nelse\nelse", 3),
        ("else\nget a", 1),
        ("then\nget a\ncommit", 3),
        ("get a\ncommit\nget b", 3),
        ("help", 1),
        ("get a\nnonsense", 2),
    ] {
        assert_eq!(script(text.as_bytes()).unwrap_err().0, at, "{text}");
    }
}

#[test]
fn byte_order_mark_is_skipped_before_first_word() {
    let get = json!({ "get": "a" });
    assert_eq!(script(b"\xef\xbb\xbfget a\n"), Ok(Script::Steps(vec![(1, get)], true)));
    assert!(script(b"get a\n\xef\xbb\xbfget a\n").is_err());
}

#[test]
fn one_request_has_so_many_lines_of_each_kind() {
    let (line, condition) = ("put a 1\n".to_owned(), "if exists a\n".to_owned());
    let all = condition.repeat(OPS_MAX)
        + "then\n"
        + &line.repeat(OPS_MAX)
        + "else\n"
        + &line.repeat(OPS_MAX);
    assert!(matches!(script(all.as_bytes()), Ok(Script::AtOnce(..))));
    let (at, why) = script((all + &line).as_bytes()).unwrap_err();
    assert_eq!(at, 3 * OPS_MAX + 3);
    assert!(why.contains("at most 1024 operations"), "{why}");
    let (at, why) = script(condition.repeat(OPS_MAX + 1).as_bytes()).unwrap_err();
    assert_eq!(at, OPS_MAX + 1);
    assert!(why.contains("at most 1024 conditions"), "{why}");
}

#[test]
fn what_is_shown_can_be_said_again() {
    for bytes in
        [&b"plain"[..], b"", b"two words", b"\xff\0\n\"", b"#", b"(nil)", "\u{85}\u{e9}".as_bytes()]
    {
        let said = format!("get {}", quoted(bytes));
        assert_eq!(op(&said), json!({ "get": word(bytes) }), "{said}");
    }
    assert_eq!(quoted(b"plain"), "plain");
    assert_eq!(quoted(b"a b"), "\"a b\"");
}

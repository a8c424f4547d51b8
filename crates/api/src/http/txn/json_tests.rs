//! Requests for transactions: what they mean, and what is refused.

use super::*;

fn txn(json: &str) -> Result<Txn, String> {
    let options = Options::new(1);
    let judge = TxnParser { options: &options, now_ms: 1000 };
    let body = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let Object(body): Object<TxnBody> = body;
    judge.txn(body).map_err(|problem| format!("{problem:?}"))
}

#[test]
fn a_transaction_has_its_words() {
    let all = txn(r#"{"keyspace": "k",
        "compare": [{"key": "a", "exists": true}, {"key": "a", "value": {"base64": "/w=="}},
                    {"key": "a", "version": 7}, {"key": "a", "version": "0"}],
        "then": [{"get": {"base64": "/w"}}, {"put": {"key": "a", "value": "1", "ttl_ms": 5}},
                 {"delete": "a"}, {"increment": {"key": "a", "by": "-3"}}],
        "else": [{"increment": {"key": "n"}}, {"range": {"from": "a", "limit": 3}},
                 {"range": {"reverse": true}}]}"#)
    .unwrap();
    let key = Bytes::from_static;
    let tests: Vec<Test> = all.compare.into_iter().map(|compare| compare.test).collect();
    let version = |at| Test::Version(Timestamp(at));
    assert_eq!(tests, [Test::Exists(true), Test::Value(key(b"\xff")), version(7), version(0)]);
    let put = TxnOp::Put { key: key(b"a"), value: key(b"1"), expires_at_ms: Some(1005) };
    let (get, delete) = (TxnOp::Get { key: key(b"\xff") }, TxnOp::Delete { key: key(b"a") });
    let increment = TxnOp::Increment { key: key(b"a"), by: -3 };
    assert_eq!(all.then, [get, put, delete, increment]);
    let from = Some(key(b"a"));
    let few = TxnOp::Range { from, to: None, limit: 3, reverse: false };
    let every = TxnOp::Range { from: None, to: None, limit: 1000, reverse: true };
    let increment = TxnOp::Increment { key: key(b"n"), by: 1 };
    assert_eq!(all.otherwise, [increment, few, every]);
    assert_eq!(txn("{}").unwrap().keyspace, "0");
}

#[test]
fn what_makes_no_sense_is_said() {
    let many = format!(r#"{{"then": [{}]}}"#, vec![r#"{"get":"a"}"#; OPS_MAX + 1].join(","));
    for (json, word) in [
        (r#"{"them": []}"#, "`them`"),
        (r#"{"then": [{"gte": "a"}]}"#, "`gte` is no operation; those are `get`"),
        (r#"{"then": [{}]}"#, "one of `get`, `put`, `delete`, `increment`, `range` and `publish`"),
        (r#"{"then": [{"get": "a", "put": {}}]}"#, "this one has `get` and `put`"),
        (r#"{"then": ["get"]}"#, "an operation such as {\"get\": \"KEY\"}"),
        (r#"{"then": [["get", "a"]]}"#, "an operation such as"),
        (r#"{"then": [{"get": 7}]}"#, "a string, or"),
        (r#"{"then": [{"get": {"hex": "ff"}}]}"#, "`base64`"),
        (r#"{"then": [{"get": {"base64": "?"}}]}"#, "no base64"),
        (r#"{"then": [{"put": {"key": "a"}}]}"#, "`value`"),
        (r#"{"then": [{"put": {"key": "a", "value": "", "ttl_ms": 0}}]}"#, "ttl_ms"),
        (r#"{"then": [{"increment": {"key": "a", "by": 1.5}}]}"#, "whole number"),
        (r#"{"then": [{"increment": {"key": "a", "by": "9223372036854775808"}}]}"#, "64 bits"),
        (r#"{"then": [{"range": {"limit": 65537}}]}"#, "65536"),
        (r#"{"compare": [{"key": "a"}]}"#, "version, and says none"),
        (
            r#"{"compare": [{"key": "a", "exists": true, "version": 1}]}"#,
            "one of exists, value and version, and says exists and version",
        ),
        (r#"{"compare": [{"key": "a", "version": -1}]}"#, "no version"),
        (&many, "at most 1024"),
        ("[", "expected"),
        (r#"{"then": [{"put": ["a", "1"]}]}"#, "an object"),
    ] {
        let error = txn(json).unwrap_err();
        assert!(error.contains(word), "{json}: {error}");
    }
    let key = "k".repeat(1 << 20);
    assert!(txn(&format!(r#"{{"then": [{{"get": "{key}"}}]}}"#)).unwrap_err().contains("key"));
}

//! `ETag`, `If-Match`, `If-None-Match`, `Content-Range` (RFC 9110, 8.8.3, 13 and 14.5).

use crate::{Reply, ask, ask_json, options, send, serve};
use api::http::Server;

const PATH: &str = "/v1/kv/0/k";

fn asks(server: &Server, method: &str, headers: &str, body: &[u8]) -> Reply {
    send(server, method, PATH, headers, body)
}

/// The key's tag, after it was written.
fn tag(server: &Server, value: &[u8]) -> String {
    assert_eq!(ask(server, "PUT", PATH, value).status, 204);
    let get = ask(server, "GET", PATH, b"");
    let tag = get.header("etag").expect("a value has a tag").to_owned();
    assert_eq!(tag, format!("\"{}\"", get.header("carillon-timestamp").unwrap()));
    assert_eq!(ask(server, "HEAD", PATH, b"").header("etag"), Some(tag.as_str()));
    tag
}

#[test]
fn writes_are_done_only_if_their_preconditions_hold() {
    let server = serve(options());
    let old = tag(&server, b"old");
    let new = tag(&server, b"new");
    assert_ne!(old, new);
    // A list, in one line or in several; strong comparison.
    let false_ones = [
        format!("If-Match: {old}\r\n"),
        format!("If-Match: {old}, \"x\" ,\"\"\r\n"),
        format!("If-Match: W/{new}\r\n"),
        "If-Match: \"007\"\r\n".to_owned(),
        "If-None-Match: *\r\n".to_owned(),
        format!("If-None-Match: {new}\r\n"),
        // Weak comparison.
        format!("If-None-Match: \"x\", W/{new}\r\n"),
        format!("If-None-Match: {old}\r\nIf-None-Match: {new}\r\n"),
        format!("If-Match: {new}\r\nIf-None-Match: {new}\r\n"),
    ];
    for headers in &false_ones {
        for method in ["PUT", "DELETE"] {
            let reply = asks(&server, method, headers, b"");
            let got = (reply.status, reply.problem());
            assert_eq!(got, (412, "condition-failed".into()), "{method} {headers}");
        }
        assert_eq!(ask(&server, "GET", PATH, b"").text(), "new", "{headers}");
    }
    let put = asks(&server, "PUT", &format!("If-Match: {old}\r\nIf-Match: {new}\r\n"), b"3");
    assert_eq!(put.status, 204);
    assert_eq!(asks(&server, "PUT", &format!("If-Match: {new}\r\n"), b"no").status, 412);
    for true_one in ["If-Match: *\r\n", "If-None-Match: \"x\"\r\n", "If-None-Match: W/\"7\"\r\n"] {
        assert_eq!(asks(&server, "PUT", true_one, b"4").status, 204, "{true_one}");
    }
    let now = tag(&server, b"5");
    assert_eq!(asks(&server, "DELETE", &format!("If-Match: {now}\r\n"), b"").status, 204);
    // Without a value no tag matches.
    for false_one in ["If-Match: *\r\n", &format!("If-Match: {now}\r\n")] {
        assert_eq!(asks(&server, "PUT", false_one, b"6").status, 412, "{false_one}");
        // What would be answered without it is no success, so that it is not judged.
        assert_eq!(asks(&server, "DELETE", false_one, b"").status, 404, "{false_one}");
        assert_eq!(asks(&server, "GET", false_one, b"").status, 404, "{false_one}");
    }
    assert_eq!(asks(&server, "PUT", "If-None-Match: *\r\n", b"7").status, 204);
    assert_eq!(asks(&server, "PUT", "If-None-Match: *\r\n", b"8").status, 412);
}

#[test]
fn the_parameter_if_and_preconditions_must_hold_both() {
    let server = serve(options());
    let now = tag(&server, b"1");
    let put = |query: &str, header: &str| {
        send(&server, "PUT", &format!("{PATH}?if={query}"), &format!("{header}\r\n"), b"2").status
    };
    assert_eq!(put("absent", &format!("If-Match: {now}")), 412);
    assert_eq!(put("present", "If-None-Match: *"), 412);
    assert_eq!(put("present", &format!("If-Match: {now}")), 204);
    assert_eq!(put("present", &format!("If-Match: {now}")), 412);
}

#[test]
fn reads_are_304_or_412() {
    let server = serve(options());
    let old = tag(&server, b"old");
    let first = old.trim_matches('"').to_owned();
    let new = tag(&server, b"new");
    for method in ["GET", "HEAD"] {
        for same in [new.clone(), format!("\"x\", W/{new}"), "*".into()] {
            let reply = asks(&server, method, &format!("If-None-Match: {same}\r\n"), b"");
            assert_eq!((reply.status, reply.header("etag")), (304, Some(new.as_str())), "{same}");
            assert_eq!(reply.header("content-type"), None);
        }
        assert_eq!(asks(&server, method, &format!("If-None-Match: {old}\r\n"), b"").status, 200);
        assert_eq!(asks(&server, method, &format!("If-Match: {new}\r\n"), b"").status, 200);
        assert_eq!(asks(&server, method, "If-Match: *\r\n", b"").status, 200);
        assert_eq!(asks(&server, method, &format!("If-Match: {old}\r\n"), b"").status, 412);
    }
    // Of a past time they are about what there was then.
    let path = format!("{PATH}?at={first}");
    let then = send(&server, "GET", &path, &format!("If-None-Match: {old}\r\n"), b"");
    assert_eq!((then.status, then.header("etag")), (304, Some(old.as_str())));
    let then = send(&server, "GET", &path, &format!("If-Match: {new}\r\n"), b"");
    assert_eq!((then.status, then.problem().as_str()), (412, "condition-failed"));
}

#[test]
fn what_is_no_precondition_or_cannot_be_judged_is_refused() {
    let server = serve(options());
    tag(&server, b"1");
    for bad in ["abc", "7", "", "\"a", "\"a\" \"b\"", "*, \"a\"", "w/\"a\"", "\"a b\""] {
        for name in ["If-Match", "If-None-Match"] {
            for method in ["PUT", "DELETE", "GET"] {
                let reply = asks(&server, method, &format!("{name}: {bad}\r\n"), b"2");
                let got = (reply.status, reply.problem());
                assert_eq!(got, (400, "bad-request".into()), "{method} {name}: {bad}");
                assert!(reply.text().contains(name), "{}", reply.text());
            }
        }
    }
    let part = asks(&server, "PUT", "Content-Range: bytes 0-1/10\r\n", b"2");
    assert_eq!((part.status, part.problem().as_str()), (400, "bad-request"));
    assert!(part.text().contains("Content-Range"), "{}", part.text());
    assert_eq!(ask(&server, "GET", PATH, b"").text(), "1");
    // Other things have no versions: they are not changed as if the precondition held.
    let headers = "Content-Type: application/json\r\nIf-Match: \"1\"\r\n";
    for (method, path, body) in [
        ("POST", "/v1/keyspaces", r#"{"name":"a"}"#),
        ("PATCH", "/v1/keyspaces/0", r#"{"replicas":3}"#),
        ("DELETE", "/v1/keyspaces/0", ""),
        ("POST", "/v1/txn", "{}"),
        ("POST", "/v1/nodes/n1/cordon", "{}"),
    ] {
        let reply = send(&server, method, path, headers, body.as_bytes());
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-request"), "{path}");
    }
    assert_eq!(ask_json(&server, "GET", "/v1/keyspaces/0", "").status, 200);
}

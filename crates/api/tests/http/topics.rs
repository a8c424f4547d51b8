//! Locks and topics: what is no request for one is refused before the node hears of it.

use serde_json::Value;

use super::*;

#[test]
fn requests_are_judged_before_the_node_hears_of_them() {
    let server = serve(options());
    // The fake has neither: what gets through to it is refused with 409.
    for (method, path, body, status) in [
        ("POST", "/v1/locks/a", "{}", 409),
        ("POST", "/v1/locks/a", "{\"owner\":\"me\",\"ttl_ms\":5000,\"wait_ms\":60000}", 409),
        ("POST", "/v1/locks/a", "{\"wait_ms\":60001}", 400),
        ("POST", "/v1/locks/a", "{\"ttl\":5}", 400),
        ("POST", "/v1/locks/a?wait=1", "{}", 400),
        ("PUT", "/v1/locks/a", "{\"token\":\"7\"}", 409),
        ("PUT", "/v1/locks/a", "{\"token\":7,\"ttl_ms\":5000}", 409),
        ("PUT", "/v1/locks/a", "{}", 400),
        ("PUT", "/v1/locks/a", "{\"token\":-7}", 400),
        ("PUT", "/v1/locks/a", "{\"token\":\"18446744073709551616\"}", 400),
        ("DELETE", "/v1/locks/a?token=7", "", 409),
        ("DELETE", "/v1/locks/a", "", 400),
        ("DELETE", "/v1/locks/a?token=x", "", 400),
        ("GET", "/v1/locks/a", "", 409),
        ("GET", "/v1/locks?prefix=a&after=ab&limit=1000", "", 409),
        ("GET", "/v1/locks?limit=0", "", 400),
        ("GET", "/v1/topics", "", 409),
        ("GET", "/v1/topics?keyspace=a", "", 409),
        ("GET", "/v1/topics?keyspaces=a", "", 400),
        ("POST", "/v1/topics", "{\"name\":\"t\",\"kept_ms\":5}", 409),
        ("POST", "/v1/topics", "{\"kept_ms\":5}", 400),
        ("POST", "/v1/topics", "{\"name\":\"t\",\"kept\":5}", 400),
        ("GET", "/v1/topics/t", "", 409),
        ("DELETE", "/v1/topics/t", "", 409),
        ("POST", "/v1/topics/t/messages", "{\"messages\":[\"a\",{\"base64\":\"/w==\"}]}", 409),
        ("POST", "/v1/topics/t/messages", "{\"messages\":[]}", 400),
        ("POST", "/v1/topics/t/messages", "{\"messages\":[7]}", 400),
        ("PUT", "/v1/topics/t/groups/g", "{}", 409),
        ("PUT", "/v1/topics/t/groups/g", "{\"from\":\"earliest\",\"ack_ms\":5}", 409),
        ("PUT", "/v1/topics/t/groups/g", "{\"from\":7}", 409),
        ("PUT", "/v1/topics/t/groups/g", "{\"from\":\"7\"}", 409),
        ("PUT", "/v1/topics/t/groups/g", "{\"from\":\"first\"}", 400),
        ("PUT", "/v1/topics/t/groups/g", "{\"from\":-1}", 400),
        ("DELETE", "/v1/topics/t/groups/g", "", 409),
        ("POST", "/v1/topics/t/groups/g/take", "{}", 409),
        ("POST", "/v1/topics/t/groups/g/take", "{\"max\":256,\"wait_ms\":5}", 409),
        ("POST", "/v1/topics/t/groups/g/take", "{\"max\":0}", 400),
        ("POST", "/v1/topics/t/groups/g/take", "{\"max\":257}", 400),
        ("POST", "/v1/topics/t/groups/g/ack", "{\"done\":[1,\"2\"],\"back\":[3]}", 409),
        ("POST", "/v1/topics/t/groups/g/ack", "{}", 400),
        ("POST", "/v1/topics/t/groups/g/ack", "{\"done\":[-1]}", 400),
        ("GET", "/v1/topics/t/groups/g/stream?max=16", "", 409),
        ("GET", "/v1/topics/t/groups/g/stream?max=300", "", 400),
        ("POST", "/v1/txn", "{\"then\":[{\"publish\":{\"topic\":\"t\"}}]}", 400),
    ] {
        let reply = ask_json(&server, method, path, body);
        let problem: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
        assert_eq!(reply.status, status, "{method} {path} {body}: {problem}");
        let kind = if status == 409 { "topic-refused" } else { "bad-request" };
        assert_eq!(problem["type"], format!("urn:carillon:problem:{kind}"), "{path} {body}");
    }
}

#[test]
fn streams_of_messages_are_refused_to_other_sites() {
    let server = serve(options());
    let mut stream = connect(&server);
    let host = server.address();
    write!(
        stream,
        "GET /v1/topics/t/groups/g/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\
         \r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 403"), "{reply}");
}

//! Lines of a recording: events as viewers get them.

use keyspace::{NodeId, Timestamp};
use node::event::EventType;
use node::event::stream::{EVENT_BYTES_MAX, KeptEvent};
use serde::Deserialize;

use super::fields::Fields;

/// The type of the line that ends a recording of which nothing is missing.
const RECORDED: &str = "recorded";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    #[serde(default)]
    node: &'a str,
    at: &'a str,
    #[serde(default)]
    keyspace: Option<String>,
}

/// The line that ends a recording of which nothing is missing.
pub fn recorded_line(at: Timestamp) -> String {
    let mut fields = Fields::new(RECORDED);
    fields.time("at", at);
    fields.end()
}

/// The event of a line that this node has recorded; nothing in it if it is the end. None if it is
/// neither, or of a type that this program does not know.
pub fn kept_of_line(line: &str, own: NodeId) -> Option<Option<KeptEvent>> {
    if line.len() > EVENT_BYTES_MAX || line.contains(char::is_control) {
        return None;
    }
    let read: Line<'_> = serde_json::from_str(line).ok()?;
    if read.event_type == RECORDED {
        return Some(None);
    }
    let event_type = EventType::named(read.event_type)?;
    let at = Timestamp(read.at.parse().ok()?);
    let is_own = read.node == format!("{:016x}", own.0);
    let keyspace = read.keyspace.map(String::into_boxed_str);
    is_own.then(|| Some(KeptEvent { at, event_type, keyspace, body: line.into() }))
}

#[cfg(test)]
#[test]
fn lines_of_this_node_are_read() {
    let of = |line: &str| kept_of_line(line, NodeId(7));
    let line = r#"{"type":"split","node":"0000000000000007","at":"5","keyspace":"a\"b"}"#;
    let event = of(line).unwrap().unwrap();
    assert_eq!((event.at, event.event_type), (Timestamp(5), EventType::Split));
    assert_eq!((event.keyspace.as_deref(), &*event.body), (Some("a\"b"), line));
    assert_eq!(of(&recorded_line(Timestamp(9))), Some(None));
    for bad in [
        "",
        "{",
        "[]",
        r#"{"type":"split","node":"0000000000000008","at":"5"}"#,
        r#"{"type":"nosuch","node":"0000000000000007","at":"5"}"#,
        r#"{"type":"split","node":"0000000000000007","at":"x"}"#,
        r#"{"type":"split","node":"0000000000000007"}"#,
        "{\"type\":\"split\",\n\"node\":\"0000000000000007\",\"at\":\"5\"}",
    ] {
        assert_eq!(of(bad), None, "{bad}");
    }
}

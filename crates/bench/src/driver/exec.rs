//! A program that speaks lines of JSON, so that any system can be measured.
//!
//! ```text
//!   to the program                              from the program, in the same order
//!   {"op":"get","key":"k"}                      {"value":"v"}   or {"value":null}
//!   {"op":"put","key":"k","value":"v"}          {"ok":true}
//!   {"op":"delete","key":"k"}                   {"ok":true}
//!   {"op":"command","args":["INCR","k"]}        {"ok":true}
//!   {"op":"transfer","how":"one-shot",         {"ok":true}
//!    "from":"a","to":"b","amount":"7"}
//!   any                                         {"error":"why"}
//! ```
//!
//! Each client of a phase is a process of its own. It ends when its input ends.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Codec, REPLY_BYTES_MAX, Reply, Request, fill_word};
use crate::scenario::Action;

/// One process's.
pub struct Exec;

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

impl Codec for Exec {
    fn encode(&mut self, request: &Request<'_>, out: &mut BytesMut) {
        let key = text(request.key);
        let line = match request.action {
            Action::Get => json!({ "op": "get", "key": key }),
            Action::Put | Action::Insert => {
                json!({ "op": "put", "key": key, "value": text(request.value) })
            }
            Action::Delete => json!({ "op": "delete", "key": key }),
            Action::Command(words) => {
                let args = words.iter().map(|word| {
                    let mut filled = Vec::new();
                    fill_word(word, request, &mut filled);
                    String::from_utf8_lossy(&filled).into_owned()
                });
                json!({ "op": "command", "args": args.collect::<Vec<_>>() })
            }
            Action::Transfer(method) => {
                let how = method.name();
                let (to, amount) = (text(request.other), text(request.value));
                json!({ "op": "transfer", "how": how, "from": key, "to": to, "amount": amount })
            }
            Action::Sleep(_) => return,
        };
        out.put_slice(line.to_string().as_bytes());
        out.put_u8(b'\n');
    }

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, String> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            let too_long = input.len() > REPLY_BYTES_MAX;
            return if too_long { Err("an endless line".to_owned()) } else { Ok(None) };
        };
        let line = input.split_to(end);
        input.advance(1);
        let shown = || {
            let shown = String::from_utf8_lossy(&line);
            shown.chars().take(100).collect::<String>()
        };
        let not_ours = || format!("expected a line of JSON, found {:?}", shown());
        let value: Value = serde_json::from_slice(&line).map_err(|_| not_ours())?;
        if let Some(why) = value.get("error") {
            let why = why.as_str().map_or_else(|| why.to_string(), str::to_owned);
            return Ok(Some(Reply::Refused(Bytes::from(why))));
        }
        match (value.get("value"), value.get("ok")) {
            (Some(Value::String(text)), _) => Ok(Some(Reply::Value(text.clone().into()))),
            (Some(Value::Null), _) => Ok(Some(Reply::Absent)),
            (None, Some(Value::Bool(true))) => Ok(Some(Reply::Done)),
            _ => Err(not_ours()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::TransferMethod;

    #[test]
    fn lines_go_out_and_come_in() {
        let mut out = BytesMut::new();
        let mut line = |action: Action| {
            out.clear();
            let request = Request { action: &action, key: b"a", other: b"b", value: b"7" };
            Exec.encode(&request, &mut out);
            String::from_utf8(out.to_vec()).unwrap()
        };
        let command = Action::Command(vec!["INCR".into(), "{key}".into()]);
        assert_eq!(line(command), "{\"args\":[\"INCR\",\"a\"],\"op\":\"command\"}\n");
        let transfer = line(Action::Transfer(TransferMethod::Watch));
        let transfer: Value = serde_json::from_str(&transfer).unwrap();
        assert_eq!(transfer["how"], "watch");
        assert_eq!([&transfer["from"], &transfer["to"], &transfer["amount"]], ["a", "b", "7"]);
        let mut input = BytesMut::from(
            "{\"value\":\"v\"}\n{\"value\":null}\n{\"ok\":true}\n{\"error\":\"no\"}\n{\"va",
        );
        let mut next = || Exec.decode(&mut input).unwrap();
        assert_eq!(next(), Some(Reply::Value("v".into())));
        assert_eq!(next(), Some(Reply::Absent));
        assert_eq!(next(), Some(Reply::Done));
        assert_eq!(next(), Some(Reply::Refused("no".into())));
        assert_eq!(next(), None);
        let why = Exec.decode(&mut BytesMut::from("Traceback\n")).unwrap_err();
        assert!(why.contains("Traceback"), "{why}");
    }
}

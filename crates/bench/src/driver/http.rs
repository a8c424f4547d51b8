//! Carillon's HTTP: values at `/v1/kv/KEYSPACE/KEY` (docs/http.md).

use std::fmt::Write as _;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Codec, REPLY_BYTES_MAX, Reply, Request};
use crate::scenario::Action;

/// The longest head of a reply.
const HEAD_BYTES_MAX: usize = 128 << 10;

/// One connection's.
pub struct Http {
    host: String,
    /// The path up to the key.
    path: String,
}

impl Http {
    /// A connection to this host that asks this keyspace.
    pub fn new(host: &str, keyspace: &str) -> Self {
        let mut path = "/v1/kv/".to_owned();
        escape(keyspace.as_bytes(), &mut path);
        path.push('/');
        Self { host: host.to_owned(), path }
    }
}

/// Appends bytes as a path holds them.
fn escape(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(char::from(*byte));
            }
            _ => write!(out, "%{byte:02X}").expect("a string takes all"),
        }
    }
}

impl Codec for Http {
    fn encode(&mut self, request: &Request<'_>, out: &mut BytesMut) {
        let (method, body): (_, &[u8]) = match request.action {
            Action::Get => ("GET", b""),
            Action::Put | Action::Insert => ("PUT", request.value),
            Action::Delete => ("DELETE", b""),
            // Refused before anything has started (`driver::refusal`).
            Action::Command(_) | Action::Transfer(_) | Action::Sleep(_) => return,
        };
        let mut head = format!("{method} {}", self.path);
        escape(request.key, &mut head);
        let len = body.len();
        write!(head, " HTTP/1.1\r\nHost: {}\r\nContent-Length: {len}\r\n\r\n", self.host)
            .expect("a string takes all");
        out.put_slice(head.as_bytes());
        out.put_slice(body);
    }

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, String> {
        let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else {
            let too_long = input.len() > HEAD_BYTES_MAX;
            return if too_long { Err("an endless head".to_owned()) } else { Ok(None) };
        };
        let head = std::str::from_utf8(&input[..end]).map_err(|_| "a head that is no text")?;
        let (status, len) = read_head(head)?;
        if input.len() < end + 4 + len {
            return Ok(None);
        }
        input.advance(end + 4);
        let body = input.split_to(len).freeze();
        Ok(Some(match status {
            200 => Reply::Value(body),
            201..=299 => Reply::Done,
            404 if problem(&body).is_some_and(|kind| kind.starts_with("nil")) => Reply::Absent,
            _ => {
                let kind = problem(&body).unwrap_or_default();
                Reply::Refused(Bytes::from(format!("{status} {kind}")))
            }
        }))
    }
}

/// Status and length of the body.
fn read_head(head: &str) -> Result<(u16, usize), String> {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| format!("not HTTP/1.1: {first:?}"))?;
    let mut len = None;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            len = value.trim().parse().ok().filter(|len| *len <= REPLY_BYTES_MAX);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("a body in chunks".to_owned());
        }
    }
    match (status, len) {
        (204 | 304, None) => Ok((status, 0)),
        (_, Some(len)) => Ok((status, len)),
        (_, None) => Err("a reply without a length".to_owned()),
    }
}

/// The last step of the problem's type: `nil`, `no-keyspace`.
fn problem(body: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let kind = value.get("type")?.as_str()?;
    Some(kind.rsplit(['/', ':', '#']).next().unwrap_or(kind).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_key_and_length() {
        let mut http = Http::new("h:1", "0");
        let mut out = BytesMut::new();
        let request = Request { action: &Action::Put, key: b"a/b", other: b"", value: b"xyz" };
        http.encode(&request, &mut out);
        let expected = "PUT /v1/kv/0/a%2Fb HTTP/1.1\r\nHost: h:1\r\nContent-Length: 3\r\n\r\nxyz";
        assert_eq!(out, expected);
    }

    #[test]
    fn replies_are_told_apart_and_wait_for_their_bodies() {
        let mut http = Http::new("h:1", "0");
        let mut input = BytesMut::from("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na");
        assert_eq!(http.decode(&mut input), Ok(None));
        input.put_slice(b"bHTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(http.decode(&mut input), Ok(Some(Reply::Value("ab".into()))));
        assert_eq!(http.decode(&mut input), Ok(Some(Reply::Done)));
        for (kind, reply) in
            [("nil", Reply::Absent), ("no-keyspace", Reply::Refused("404 no-keyspace".into()))]
        {
            let body = format!("{{\"type\":\"/problems/{kind}\"}}");
            let head = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n", body.len());
            input.put_slice(head.as_bytes());
            input.put_slice(body.as_bytes());
            assert_eq!(http.decode(&mut input), Ok(Some(reply)));
        }
        assert!(http.decode(&mut BytesMut::from("SSH-2.0\r\n\r\n")).is_err());
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(http.decode(&mut BytesMut::from(chunks)).is_err());
    }
}

//! Replies as RESP has them, taken from bytes that come in pieces.

use crate::Outcome;

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A text, or a number as text.
    Text(String),
    /// What is not there; of EXEC: a watched key has changed.
    Nil,
    /// Refused, or of unknown outcome.
    Error(String),
    /// Several.
    Array(Vec<Reply>),
}

/// The first reply and how many bytes it takes; none if it has not come whole yet.
pub fn parse(bytes: &[u8]) -> Outcome<Option<(Reply, usize)>> {
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let line = String::from_utf8_lossy(&bytes[..end]);
    let rest = line.get(1..).unwrap_or_default();
    let after = end + 2;
    let whole = match bytes[0] {
        b'+' | b':' => (Reply::Text(rest.to_owned()), after),
        b'-' => (Reply::Error(rest.to_owned()), after),
        b'$' | b'*' if rest == "-1" => (Reply::Nil, after),
        b'$' => {
            let length: usize = rest.parse()?;
            let Some(body) = bytes.get(after..after + length) else { return Ok(None) };
            if bytes.len() < after + length + 2 {
                return Ok(None);
            }
            (Reply::Text(String::from_utf8_lossy(body).into_owned()), after + length + 2)
        }
        b'*' => {
            let (mut each, mut taken) = (Vec::new(), after);
            for _ in 0..rest.parse::<usize>()? {
                let Some((reply, bytes)) = parse(&bytes[taken..])? else { return Ok(None) };
                each.push(reply);
                taken += bytes;
            }
            (Reply::Array(each), taken)
        }
        _ => return Err(format!("no reply begins with {line:.40}").into()),
    };
    Ok(Some(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_when_they_are_whole() {
        let bytes = b"*3\r\n$2\r\n17\r\n:5\r\n$-1\r\n+OK\r\n";
        let array =
            Reply::Array(vec![Reply::Text("17".into()), Reply::Text("5".into()), Reply::Nil]);
        for end in 0..21 {
            assert_eq!(parse(&bytes[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(parse(bytes).unwrap(), Some((array, 21)));
        assert_eq!(parse(b"*-1\r\n").unwrap(), Some((Reply::Nil, 5)));
        assert_eq!(parse(b"-BUSY x\r\n").unwrap(), Some((Reply::Error("BUSY x".into()), 9)));
        assert!(parse(b"?\r\n").is_err());
    }
}

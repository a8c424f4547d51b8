//! Queries and forms: names and values, percent-encoded.

/// The text that is encoded; `plus` says whether a plus is a blank. None: it is no such text.
fn decode(text: &str, plus: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let mut digit = || (bytes.next()? as char).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' if plus => b' ',
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

/// A part of a path.
pub fn path(text: &str) -> Option<String> {
    decode(text, false)
}

/// The value of a name in a query or a form; empty if it is not there. None: it is malformed.
pub fn value(form: &str, name: &str) -> Option<String> {
    let mut pairs = form.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let found = pairs.find(|(known, _)| *known == name);
    found.map_or_else(|| Some(String::new()), |(_, value)| decode(value, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read() {
        let form = "a=1+2&text=%C3%BC%0D%0A%26&b";
        let read = |name| value(form, name);
        assert_eq!(read("a").as_deref(), Some("1 2"));
        assert_eq!(read("text").as_deref(), Some("ü\r\n&"));
        assert_eq!((read("b").as_deref(), read("c").as_deref()), (Some(""), Some("")));
        assert_eq!(path("a+%2f").as_deref(), Some("a+/"));
        for bad in ["a=%", "a=%1", "a=%zz", "a=%ff"] {
            assert_eq!(value(bad, "a"), None, "{bad}");
        }
    }
}

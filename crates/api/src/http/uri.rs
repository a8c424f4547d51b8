//! Parses a request line: percent-encoded bytes, query parameters, times.

use axum::http::Uri;
use keyspace::{Moment, Timestamp};

use super::problem::Problem;
use crate::nearest::nearest;

/// The bytes that `text` encodes; `+` is a plus.
///
/// # Errors
/// A `%` without two hexadecimal digits.
pub fn decode(text: &str) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            out.push(first);
            rest = after;
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|byte| (*byte as char).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            let detail = "a % in the path or query is not followed by two hexadecimal digits";
            return Err(Problem::bad_request(detail));
        };
        out.push((high * 16 + low) as u8);
        rest = &after[2..];
    }
    Ok(out)
}

/// The text that `text` encodes.
///
/// # Errors
/// As [`decode`], and if it is not UTF-8.
pub fn decode_text(text: &str) -> Result<String, Problem> {
    text_of(decode(text)?)
}

/// Bytes that have to be text.
///
/// # Errors
/// If they are not UTF-8.
pub fn text_of(bytes: Vec<u8>) -> Result<String, Problem> {
    String::from_utf8(bytes)
        .map_err(|_| Problem::bad_request("a name in the path or query is not UTF-8"))
}

/// What a path holds behind `root`, as it stands there.
pub fn behind<'u>(uri: &'u Uri, root: &str) -> &'u str {
    uri.path().strip_prefix(root).unwrap_or_default()
}

/// The name that a path holds behind `root`. Its query says nothing.
///
/// # Errors
/// As [`decode_text`] and [`parameters`].
pub fn name_behind(uri: &Uri, root: &str) -> Result<String, Problem> {
    let [] = parameters(uri.query(), [])?;
    decode_text(behind(uri, root))
}

/// The parameters of a query, each of which has to be one of `known` and to stand only once.
///
/// # Errors
/// Says which does not belong there, and which may have been meant.
pub fn parameters<const N: usize>(
    query: Option<&str>,
    known: [&'static str; N],
) -> Result<[Option<String>; N], Problem> {
    let mut texts = [const { None }; N];
    for (text, bytes) in texts.iter_mut().zip(byte_parameters(query, known)?) {
        *text = bytes.map(text_of).transpose()?;
    }
    Ok(texts)
}

/// Parameters, and the key that a query may name.
type WithKey<const N: usize> = ([Option<String>; N], Option<Vec<u8>>);

/// As [`parameters`], beside `key`, which is any bytes.
///
/// # Errors
/// The same.
pub fn key_parameters<const N: usize>(
    query: Option<&str>,
    known: [&'static str; N],
) -> Result<WithKey<N>, Problem> {
    let is_key = |pair: &&str| pair.starts_with("key=");
    let pairs = || query.unwrap_or_default().split('&');
    if !pairs().any(|pair| is_key(&pair)) {
        return Ok((parameters(query, known)?, None));
    }
    let others = pairs().filter(|pair| !is_key(pair)).collect::<Vec<_>>().join("&");
    let keys = pairs().filter(is_key).collect::<Vec<_>>().join("&");
    let [key] = byte_parameters(Some(&keys), ["key"])?;
    Ok((parameters(Some(&others), known)?, key))
}

/// As [`parameters`], whose values are any bytes.
///
/// # Errors
/// The same.
pub fn byte_parameters<const N: usize>(
    query: Option<&str>,
    known: [&'static str; N],
) -> Result<[Option<Vec<u8>>; N], Problem> {
    let mut values = [const { None }; N];
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode_text(name)?;
        let Some(place) = known.iter().position(|known| *known == name) else {
            let meant = nearest(&name, known)
                .map_or_else(|| listed(&known), |near| format!("; did you mean {near:?}?"));
            return Err(Problem::bad_request(format!("unknown parameter {name:?}{meant}")));
        };
        if values[place].replace(decode(value)?).is_some() {
            return Err(Problem::bad_request(format!("parameter {name:?} stands there twice")));
        }
    }
    Ok(values)
}

fn listed(known: &[&str]) -> String {
    if known.is_empty() {
        return "; none is known here".into();
    }
    format!("; known are {}", known.join(", "))
}

/// A whole number: digits only, no sign.
///
/// # Errors
/// If it is none, or above 64 bits.
pub fn number(name: &str, text: &str) -> Result<u64, Problem> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits).ok_or_else(|| {
        Problem::bad_request(format!("{name} is {text:?}, which is no whole number of 64 bits"))
    })
}

/// `true` or `false`, if it is given.
///
/// # Errors
/// If it is another word.
pub fn yes_or_no(name: &str, text: Option<String>) -> Result<Option<bool>, Problem> {
    match text.as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => {
            let why = format!("{name} is '{other}': it has to be true or false");
            Err(Problem::bad_request(why))
        }
    }
}

/// A timestamp, in one of the forms of [`keyspace::moment::timestamp`].
///
/// # Errors
/// If it is none of them, or seems to be milliseconds or seconds without their unit.
pub fn timestamp(text: &str) -> Result<Timestamp, Problem> {
    let time = keyspace::moment::timestamp(text);
    time.map_err(|why| Problem::bad_request(format!("at: {why}")))
}

/// A time in any form that clients may name ([`keyspace::moment`]).
///
/// # Errors
/// If it is none.
pub fn moment(text: &str) -> Result<Moment, Problem> {
    Moment::parse(text).map_err(|why| Problem::bad_request(format!("at: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encoded_bytes_are_any_bytes() {
        assert_eq!(decode("a%2Fb+%ff%00/c").unwrap(), b"a/b+\xff\0/c");
        for bad in ["%", "%1", "a%g0", "%+1", "%%41"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
        assert!(decode_text("%ff").is_err());
    }

    #[test]
    fn parameters_are_known_and_single() {
        let read = |query| parameters(Some(query), ["ttl_ms", "if"]);
        assert_eq!(
            read("if=absent&ttl_ms=%35").unwrap(),
            [Some("5".into()), Some("absent".into())]
        );
        assert_eq!(read("").unwrap(), [None, None]);
        assert_eq!(read("&&if").unwrap(), [None, Some(String::new())]);
        assert!(read("if=a&if=a").is_err());
        let problem = format!("{:?}", read("tll_ms=5").unwrap_err());
        assert!(problem.contains("did you mean") && problem.contains("ttl_ms"), "{problem}");
        assert!(read("%zz=1").is_err());
    }

    #[test]
    fn times_have_three_forms() {
        assert_eq!(timestamp("65536").unwrap(), Timestamp(65536));
        assert_eq!(timestamp("1ms").unwrap(), Timestamp(65536));
        assert_eq!(timestamp("1.2").unwrap(), Timestamp(65538));
        assert_eq!(timestamp("18446744073709551615").unwrap(), Timestamp::MAX);
        for bad in [
            "",
            "ms",
            "-1",
            "1s",
            "18446744073709551616",
            "281474976710656ms",
            "1.65536",
            "1.",
            ".1",
            "1.5ms",
            "+5",
            "+5ms",
            "1.+5",
            "1795675401288",
            "1795675401",
        ] {
            assert!(timestamp(bad).is_err(), "{bad}");
        }
        assert_eq!(timestamp("1795675401288ms").unwrap(), Timestamp(1795675401288 << 16));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
            let text: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(decode(&text).unwrap(), bytes);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text: String) {
            if let Ok(bytes) = decode(&text) {
                prop_assert!(bytes.len() <= text.len());
            }
        }
    }
}

//! Preconditions of requests for one key: `If-Match` and `If-None-Match` (RFC 9110, 13.1).
//!
//! A value's entity tag is its version in quotes: `"117664270819852290"`. It is strong, for no two
//! values of a key have one version. Tags that no node can have given out match nothing.
//!
//! | header | a write is done if | a read answers |
//! |---|---|---|
//! | `If-Match: *` | the key has a value | 404 without one, as always |
//! | `If-Match: "1", "2"` | its value has one of these tags; `W/"1"` is never one | else 412 |
//! | `If-None-Match: *` | the key has no value | 304 |
//! | `If-None-Match: "1", W/"2"` | it has no value, or one of another tag | else 304 |
//!
//! Here headers become a [`Condition`]; the node judges it at the moment of the write.

use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};
use keyspace::Timestamp;

use super::problem::Problem;
use crate::Condition;

/// The preconditions of one request.
#[derive(Debug, PartialEq, Eq)]
pub struct Preconditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

/// What one header lists.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: any tag.
    Any,
    /// Versions of these tags, strong and weak.
    Listed { strong: Vec<Timestamp>, weak: Vec<Timestamp> },
}

/// What becomes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadVerdict {
    /// The value is answered.
    Answered,
    /// The client has it already: 304.
    NotModified,
    /// It is not the one that the client has required: 412.
    Failed,
}

/// The entity tag of a version.
pub fn tag(version: Timestamp) -> HeaderValue {
    HeaderValue::try_from(format!("\"{}\"", version.0)).expect("digits are a header's value")
}

/// Whether a request has preconditions at all.
pub fn has_any(headers: &HeaderMap) -> bool {
    headers.contains_key(IF_MATCH) || headers.contains_key(IF_NONE_MATCH)
}

impl Preconditions {
    /// Those that a request's headers list.
    ///
    /// # Errors
    /// If a list is none.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        Ok(Self {
            if_match: tags(headers, IF_MATCH, "If-Match")?,
            if_none_match: tags(headers, IF_NONE_MATCH, "If-None-Match")?,
        })
    }

    /// What must be so of the key for a write to be done.
    pub fn condition(self) -> Condition {
        let matches = match self.if_match {
            None => Condition::ALWAYS,
            Some(Tags::Any) => Condition::PRESENT,
            Some(Tags::Listed { strong, .. }) => Condition::one_of(strong),
        };
        matches.and(match self.if_none_match {
            None => Condition::ALWAYS,
            Some(Tags::Any) => Condition::absent(),
            Some(Tags::Listed { strong, weak }) => Condition::none_of([strong, weak].concat()),
        })
    }

    /// What becomes of a read that has found a value of this version.
    pub fn judge_read(&self, version: Timestamp) -> ReadVerdict {
        if let Some(Tags::Listed { strong, .. }) = &self.if_match
            && !strong.contains(&version)
        {
            return ReadVerdict::Failed;
        }
        match &self.if_none_match {
            Some(Tags::Any) => ReadVerdict::NotModified,
            Some(Tags::Listed { strong, weak })
                if strong.contains(&version) || weak.contains(&version) =>
            {
                ReadVerdict::NotModified
            }
            _ => ReadVerdict::Answered,
        }
    }
}

/// The tags that a header lists, on one line or on several.
fn tags(headers: &HeaderMap, header: HeaderName, name: &str) -> Result<Option<Tags>, Problem> {
    let lines: Vec<&[u8]> = headers.get_all(header).iter().map(HeaderValue::as_bytes).collect();
    if lines.is_empty() {
        return Ok(None);
    }
    listed(&lines.join(&b',')).map(Some).ok_or_else(|| {
        Problem::bad_request(format!(
            "{name} is neither * nor a list of entity tags in quotes, such as \
             \"117664270819852290\""
        ))
    })
}

fn listed(text: &[u8]) -> Option<Tags> {
    if text.trim_ascii() == b"*" {
        return Some(Tags::Any);
    }
    let (mut strong, mut weak, mut is_empty) = (Vec::new(), Vec::new(), true);
    let mut rest = text.trim_ascii_start();
    while let Some(&first) = rest.first() {
        if first == b',' {
            rest = rest[1..].trim_ascii_start();
            continue;
        }
        let (is_weak, quoted) = match rest.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let end = inner.iter().position(|byte| *byte == b'"')?;
        let (tag, after) = (&inner[..end], inner[end + 1..].trim_ascii_start());
        if tag.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return None;
        }
        if !(after.is_empty() || after.starts_with(b",")) {
            return None;
        }
        let list = if is_weak { &mut weak } else { &mut strong };
        list.extend(version_of(tag));
        (is_empty, rest) = (false, after);
    }
    (!is_empty).then_some(Tags::Listed { strong, weak })
}

/// The version of a tag, if a node can have given it out: tags are compared byte by byte.
fn version_of(tag: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(tag).ok()?;
    let version: u64 = text.parse().ok()?;
    (version.to_string() == text).then_some(Timestamp(version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_have_strong_and_weak_tags() {
        let list = |strong: &[u64], weak: &[u64]| {
            let versions = |all: &[u64]| all.iter().copied().map(Timestamp).collect();
            Some(Tags::Listed { strong: versions(strong), weak: versions(weak) })
        };
        for (text, tags) in [
            (" * ", Some(Tags::Any)),
            ("\"7\"", list(&[7], &[])),
            ("W/\"7\",\"8\" , ,\"x\"", list(&[8], &[7])),
            ("\"007\",\"+7\",\"\",\"\u{fc}\"", list(&[], &[])),
            ("\"a,b\",\"9\"", list(&[9], &[])),
            ("", None),
            (",,", None),
            ("7", None),
            ("\"7", None),
            ("\"7\" \"8\"", None),
            ("*,\"7\"", None),
            ("w/\"7\"", None),
            ("W/ \"7\"", None),
            ("\"a b\"", None),
        ] {
            assert_eq!(listed(text.as_bytes()), tags, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list_or_refused(bytes: Vec<u8>) {
            let _list = listed(&bytes);
        }

        #[test]
        fn a_tag_is_its_version(version: u64) {
            let tag = tag(Timestamp(version));
            let strong = vec![Timestamp(version)];
            prop_assert_eq!(listed(tag.as_bytes()), Some(Tags::Listed { strong, weak: vec![] }));
        }
    }
}

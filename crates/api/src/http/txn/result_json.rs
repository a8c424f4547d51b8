//! Writes results of transactions as JSON.

use keyspace::base64;
use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::ToSchema;

use crate::http::openapi;
use crate::{TxnDone, TxnPair, TxnResult};

/// What a transaction in one request answers.
#[derive(serde::Serialize, ToSchema)]
#[schema(as = TxnDone)]
pub struct TxnShown<'a> {
    /// Whether all conditions held: `then` is done if so, else `else`.
    succeeded: bool,
    /// What each operation has come to.
    #[schema(value_type = Vec<openapi::TxnResult>)]
    results: Vec<Shown<'a>>,
}

impl<'a> From<&'a TxnDone> for TxnShown<'a> {
    fn from(done: &'a TxnDone) -> Self {
        Self { succeeded: done.succeeded, results: done.results.iter().map(Shown).collect() }
    }
}

/// What operations answer.
#[derive(serde::Serialize, ToSchema)]
#[schema(as = TxnResults)]
pub struct Results<'a> {
    /// What each operation has come to.
    #[schema(value_type = Vec<openapi::TxnResult>)]
    results: Vec<Shown<'a>>,
}

impl<'a> From<&'a [TxnResult]> for Results<'a> {
    fn from(results: &'a [TxnResult]) -> Self {
        Self { results: results.iter().map(Shown).collect() }
    }
}

/// What an operation answers.
struct Shown<'a>(&'a TxnResult);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            TxnResult::Value { value, version } => {
                map.serialize_entry("value", &Text(value))?;
                if let Some(version) = version {
                    map.serialize_entry("version", &version.0.to_string())?;
                }
            }
            TxnResult::Nil => map.serialize_entry("value", &None::<&str>)?,
            TxnResult::Put => map.serialize_entry("put", &true)?,
            TxnResult::Deleted(deleted) => map.serialize_entry("deleted", deleted)?,
            TxnResult::Number(sum) => map.serialize_entry("value", &sum.to_string())?,
            TxnResult::Published(number) => {
                map.serialize_entry("published", &number.to_string())?
            }
            TxnResult::Range(pairs) => {
                let pairs: Vec<ShownPair<'_>> = pairs.iter().map(ShownPair::of).collect();
                map.serialize_entry("keys", &pairs)?;
            }
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct ShownPair<'a> {
    key: Text<'a>,
    value: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl<'a> ShownPair<'a> {
    fn of(pair: &'a TxnPair) -> Self {
        let version = pair.version.map(|version| version.0.to_string());
        Self { key: Text(&pair.key), value: Text(&pair.value), version }
    }
}

/// Bytes, as requests have them ([`super::json`]).
pub(in crate::http) struct Text<'a>(pub &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &base64::encode(self.0))?;
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use keyspace::Timestamp;

    use super::*;

    #[test]
    fn results_are_text_or_base64() {
        let value = |value: &'static [u8], version| TxnResult::Value {
            value: Bytes::from_static(value),
            version,
        };
        let pair = TxnPair {
            key: Bytes::from_static(b"k"),
            value: Bytes::from_static(b"\xff"),
            version: Some(Timestamp(9)),
        };
        let results = vec![
            value(b"a", Some(Timestamp(7))),
            value(b"\xff", None),
            TxnResult::Nil,
            TxnResult::Put,
            TxnResult::Deleted(false),
            TxnResult::Number(-3),
            TxnResult::Published(4),
            TxnResult::Range(vec![pair]),
        ];
        let done = TxnDone { succeeded: true, results };
        assert_eq!(
            serde_json::to_string(&TxnShown::from(&done)).unwrap(),
            r#"{"succeeded":true,"results":[{"value":"a","version":"7"},"#.to_owned()
                + r#"{"value":{"base64":"/w=="}},{"value":null},"#
                + r#"{"put":true},{"deleted":false},{"value":"-3"},{"published":"4"},"#
                + r#"{"keys":[{"key":"k","value":{"base64":"/w=="},"version":"9"}]}]}"#
        );
    }
}

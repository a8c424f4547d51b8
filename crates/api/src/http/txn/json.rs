//! Parses requests for transactions from JSON. Answers: [`super::result_json`].
//!
//! Bytes are a string if they are UTF-8, else `{"base64": "…"}`. Versions are strings of digits,
//! for not every reader of JSON keeps 64 bits; as numbers they are taken, too.
//!
//! ```json
//! {"compare": [{"key": "a", "value": "1"}],
//!  "then":    [{"put": {"key": "a", "value": "2"}}, {"get": {"base64": "/w=="}}],
//!  "else":    [{"get": "a"}]}
//! ```

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use keyspace::{Timestamp, base64};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use txn::interactive::KEYS_MAX;

use super::OPS_MAX;
use crate::http::Options;
use crate::http::body::Object;
use crate::http::problem::Problem;
use crate::{ApiError, Compare, Test, Txn, TxnOp};

/// Keys that a range shows unless it says how many.
const RANGE_KEYS: u64 = 1000;

/// What a request's words are judged by.
pub struct TxnParser<'a> {
    /// The limits.
    pub options: &'a Options,
    /// Milliseconds since 1970.
    pub now_ms: u64,
}

/// `POST /v1/txn`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TxnBody {
    #[serde(default = "first")]
    keyspace: String,
    #[serde(default)]
    compare: BoundedList<Object<CompareBody>>,
    #[serde(default)]
    then: BoundedList<OpBody>,
    #[serde(default, rename = "else")]
    otherwise: BoundedList<OpBody>,
}

/// `POST /v1/txn/begin`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginBody {
    /// Whose keys it names.
    #[serde(default = "first")]
    pub keyspace: String,
    /// Without a request for so long it ends.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// `POST /v1/txn/{id}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoBody {
    #[serde(rename = "do")]
    ops: BoundedList<OpBody>,
}

fn first() -> String {
    "0".to_owned()
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CompareBody {
    key: Bytes64,
    exists: Option<bool>,
    value: Option<Bytes64>,
    version: Option<Number>,
}

enum OpBody {
    Get(Bytes64),
    Put(Object<PutBody>),
    Delete(Bytes64),
    Increment(Object<IncrementBody>),
    Range(Object<RangeBody>),
}

/// What operations there are, for messages.
const OPS: &str = "`get`, `put`, `delete`, `increment` and `range`";

impl<'de> Deserialize<'de> for OpBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = OpBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an operation such as {{\"get\": \"KEY\"}}, with one of {OPS}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OpBody, A::Error> {
                let Some(word) = map.next_key::<String>()? else {
                    let why = format!("an operation has one of {OPS}; this one is empty");
                    return Err(A::Error::custom(why));
                };
                let op = match word.as_str() {
                    "get" => OpBody::Get(map.next_value()?),
                    "put" => OpBody::Put(map.next_value()?),
                    "delete" => OpBody::Delete(map.next_value()?),
                    "increment" => OpBody::Increment(map.next_value()?),
                    "range" => OpBody::Range(map.next_value()?),
                    _ => {
                        let why = format!("{} is no operation; those are {OPS}", shown(&word));
                        return Err(A::Error::custom(why));
                    }
                };
                if let Some(more) = map.next_key::<String>()? {
                    return Err(A::Error::custom(format!(
                        "an operation has one of {OPS}; this one has {} and {}",
                        shown(&word),
                        shown(&more)
                    )));
                }
                Ok(op)
            }
        }
        deserializer.deserialize_map(One)
    }
}

/// A word of the client's, as far as it is repeated to it.
fn shown(word: &str) -> String {
    format!("`{}`", word.chars().take(40).collect::<String>().escape_debug())
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody {
    key: Bytes64,
    value: Bytes64,
    ttl_ms: Option<u64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct IncrementBody {
    key: Bytes64,
    by: Option<Number>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeBody {
    from: Option<Bytes64>,
    to: Option<Bytes64>,
    limit: Option<u64>,
    #[serde(default)]
    reverse: bool,
}

impl TxnParser<'_> {
    /// What a request asks for.
    ///
    /// # Errors
    /// What of it makes no sense.
    pub fn txn(&self, body: TxnBody) -> Result<Txn, Problem> {
        let compare = body.compare.0.into_iter().enumerate();
        Ok(Txn {
            keyspace: body.keyspace,
            compare: compare
                .map(|(at, Object(body))| {
                    self.compare(body).map_err(|why| why.at(&format!("compare {}", at + 1)))
                })
                .collect::<Result<_, _>>()?,
            then: self.ops(body.then, " of then")?,
            otherwise: self.ops(body.otherwise, " of else")?,
        })
    }

    /// The operations of a request.
    ///
    /// # Errors
    /// As [`Self::txn`].
    pub fn of(&self, body: DoBody) -> Result<Vec<TxnOp>, Problem> {
        if body.ops.0.is_empty() {
            return Err(Problem::bad_request("do names no operation"));
        }
        self.ops(body.ops, "")
    }

    fn ops(&self, ops: BoundedList<OpBody>, list: &str) -> Result<Vec<TxnOp>, Problem> {
        let at = |at, problem: Problem| problem.at(&format!("operation {}{list}", at + 1));
        let ops = ops.0.into_iter().enumerate();
        ops.map(|(place, op)| self.op(op).map_err(|problem| at(place, problem))).collect()
    }

    fn key(&self, key: Bytes64) -> Result<Bytes, Problem> {
        let (bytes, bytes_max) = (key.0.len() as u64, self.options.key_bytes_max);
        if bytes > bytes_max {
            return Err(ApiError::KeyTooLong { bytes, bytes_max }.into());
        }
        Ok(key.0)
    }

    fn compare(&self, body: CompareBody) -> Result<Compare, Problem> {
        let key = self.key(body.key)?;
        let test = match (body.exists, body.value, body.version) {
            (Some(exists), None, None) => Test::Exists(exists),
            (None, Some(value), None) => Test::Value(value.0),
            (None, None, Some(Number(version))) => {
                let version = u64::try_from(version)
                    .map_err(|_| Problem::bad_request(format!("{version} is no version")))?;
                Test::Version(Timestamp(version))
            }
            (exists, value, version) => {
                let given =
                    [exists.map(|_| "exists"), value.map(|_| "value"), version.map(|_| "version")];
                let given: Vec<_> = given.into_iter().flatten().collect();
                let given = if given.is_empty() { "none".into() } else { given.join(" and ") };
                return Err(Problem::bad_request(format!(
                    "it has to say one of exists, value and version, and says {given}"
                )));
            }
        };
        Ok(Compare { key, test })
    }

    fn op(&self, op: OpBody) -> Result<TxnOp, Problem> {
        Ok(match op {
            OpBody::Get(key) => TxnOp::Get { key: self.key(key)? },
            OpBody::Delete(key) => TxnOp::Delete { key: self.key(key)? },
            OpBody::Put(Object(PutBody { key, value, ttl_ms })) => {
                let (bytes, bytes_max) = (value.0.len() as u64, self.options.value_bytes_max);
                if bytes > bytes_max {
                    return Err(ApiError::ValueTooLong { bytes, bytes_max }.into());
                }
                let expires_at_ms = ttl_ms.map(|ttl_ms| self.expiry(ttl_ms)).transpose()?;
                TxnOp::Put { key: self.key(key)?, value: value.0, expires_at_ms }
            }
            OpBody::Increment(Object(IncrementBody { key, by })) => {
                let by = by.map_or(1, |Number(by)| by);
                let by = i64::try_from(by).map_err(|_| {
                    Problem::bad_request(format!(
                        "by is {by}, which is no signed number of 64 bits"
                    ))
                })?;
                TxnOp::Increment { key: self.key(key)?, by }
            }
            OpBody::Range(Object(RangeBody { from, to, limit, reverse })) => {
                let limit = limit.unwrap_or(RANGE_KEYS);
                if limit > KEYS_MAX as u64 {
                    let detail = format!("limit is {limit}, and may be {KEYS_MAX} at most");
                    return Err(Problem::bad_request(detail));
                }
                TxnOp::Range {
                    from: from.map(|key| self.key(key)).transpose()?,
                    to: to.map(|key| self.key(key)).transpose()?,
                    limit: limit as usize,
                    reverse,
                }
            }
        })
    }

    /// Expiry is an absolute time from here on (SAFETY G13).
    fn expiry(&self, ttl_ms: u64) -> Result<u64, Problem> {
        match self.now_ms.checked_add(ttl_ms).filter(|end| *end >> 48 == 0) {
            Some(end) if ttl_ms > 0 => Ok(end),
            _ => Err(Problem::bad_request("ttl_ms is not a time that can be waited for")),
        }
    }
}

/// No more than [`OPS_MAX`] of them: further ones are not even read.
struct BoundedList<T>(Vec<T>);

impl<T> Default for BoundedList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BoundedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<T> {
            type Value = BoundedList<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {OPS_MAX}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<BoundedList<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(next) = seq.next_element()? {
                    if all.len() == OPS_MAX {
                        return Err(A::Error::custom(format!("a list here has at most {OPS_MAX}")));
                    }
                    all.push(next);
                }
                Ok(BoundedList(all))
            }
        }
        deserializer.deserialize_seq(Each(PhantomData))
    }
}

/// Bytes.
struct Bytes64(Bytes);

impl<'de> Deserialize<'de> for Bytes64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Bytes64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or {\"base64\": \"…\"}")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes64, E> {
                Ok(Bytes64(Bytes::copy_from_slice(text.as_bytes())))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Bytes64, E> {
                Ok(Bytes64(text.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bytes64, A::Error> {
                let name = map.next_key::<String>()?.unwrap_or_default();
                if name != "base64" {
                    return Err(A::Error::unknown_field(&name, &["base64"]));
                }
                let text: String = map.next_value()?;
                if let Some(more) = map.next_key::<String>()? {
                    return Err(A::Error::unknown_field(&more, &["base64"]));
                }
                let bytes = base64::decode(&text);
                bytes
                    .map(|bytes| Bytes64(bytes.into()))
                    .ok_or_else(|| A::Error::custom("no base64"))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A number, or its digits as a string.
struct Number(i128);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or one as a string")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number.into()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                // A plus is no digit.
                let number = text.parse().ok().filter(|_| !text.starts_with('+'));
                number.map(Number).ok_or_else(|| {
                    let text: String = text.chars().take(40).collect();
                    E::custom(format!("{text:?} is no whole number"))
                })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(json: &str) -> Result<Txn, String> {
        let options = Options::new(1);
        let judge = TxnParser { options: &options, now_ms: 1000 };
        let body = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let Object(body): Object<TxnBody> = body;
        judge.txn(body).map_err(|problem| format!("{problem:?}"))
    }

    #[test]
    fn a_transaction_has_its_words() {
        let all = txn(r#"{"keyspace": "k",
            "compare": [{"key": "a", "exists": true}, {"key": "a", "value": {"base64": "/w=="}},
                        {"key": "a", "version": 7}, {"key": "a", "version": "0"}],
            "then": [{"get": {"base64": "/w"}}, {"put": {"key": "a", "value": "1", "ttl_ms": 5}},
                     {"delete": "a"}, {"increment": {"key": "a", "by": "-3"}}],
            "else": [{"increment": {"key": "n"}}, {"range": {"from": "a", "limit": 3}},
                     {"range": {"reverse": true}}]}"#)
        .unwrap();
        let key = Bytes::from_static;
        let tests: Vec<Test> = all.compare.into_iter().map(|compare| compare.test).collect();
        let version = |at| Test::Version(Timestamp(at));
        assert_eq!(tests, [Test::Exists(true), Test::Value(key(b"\xff")), version(7), version(0)]);
        let put = TxnOp::Put { key: key(b"a"), value: key(b"1"), expires_at_ms: Some(1005) };
        let (get, delete) = (TxnOp::Get { key: key(b"\xff") }, TxnOp::Delete { key: key(b"a") });
        let increment = TxnOp::Increment { key: key(b"a"), by: -3 };
        assert_eq!(all.then, [get, put, delete, increment]);
        let from = Some(key(b"a"));
        let few = TxnOp::Range { from, to: None, limit: 3, reverse: false };
        let every = TxnOp::Range { from: None, to: None, limit: 1000, reverse: true };
        let increment = TxnOp::Increment { key: key(b"n"), by: 1 };
        assert_eq!(all.otherwise, [increment, few, every]);
        assert_eq!(txn("{}").unwrap().keyspace, "0");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let many = format!(r#"{{"then": [{}]}}"#, vec![r#"{"get":"a"}"#; OPS_MAX + 1].join(","));
        for (json, word) in [
            (r#"{"them": []}"#, "`them`"),
            (r#"{"then": [{"gte": "a"}]}"#, "`gte` is no operation; those are `get`"),
            (r#"{"then": [{}]}"#, "one of `get`, `put`, `delete`, `increment` and `range`"),
            (r#"{"then": [{"get": "a", "put": {}}]}"#, "this one has `get` and `put`"),
            (r#"{"then": ["get"]}"#, "an operation such as {\"get\": \"KEY\"}"),
            (r#"{"then": [["get", "a"]]}"#, "an operation such as"),
            (r#"{"then": [{"get": 7}]}"#, "a string, or"),
            (r#"{"then": [{"get": {"hex": "ff"}}]}"#, "`base64`"),
            (r#"{"then": [{"get": {"base64": "?"}}]}"#, "no base64"),
            (r#"{"then": [{"put": {"key": "a"}}]}"#, "`value`"),
            (r#"{"then": [{"put": {"key": "a", "value": "", "ttl_ms": 0}}]}"#, "ttl_ms"),
            (r#"{"then": [{"increment": {"key": "a", "by": 1.5}}]}"#, "whole number"),
            (r#"{"then": [{"increment": {"key": "a", "by": "9223372036854775808"}}]}"#, "64 bits"),
            (r#"{"then": [{"range": {"limit": 65537}}]}"#, "65536"),
            (r#"{"compare": [{"key": "a"}]}"#, "version, and says none"),
            (
                r#"{"compare": [{"key": "a", "exists": true, "version": 1}]}"#,
                "one of exists, value and version, and says exists and version",
            ),
            (r#"{"compare": [{"key": "a", "version": -1}]}"#, "no version"),
            (&many, "at most 1024"),
            ("[", "expected"),
            (r#"{"then": [{"put": ["a", "1"]}]}"#, "an object"),
        ] {
            let error = txn(json).unwrap_err();
            assert!(error.contains(word), "{json}: {error}");
        }
        let key = "k".repeat(1 << 20);
        assert!(txn(&format!(r#"{{"then": [{{"get": "{key}"}}]}}"#)).unwrap_err().contains("key"));
    }
}

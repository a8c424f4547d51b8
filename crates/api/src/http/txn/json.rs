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
use utoipa::ToSchema;

use super::OPS_MAX;
use crate::http::Options;
use crate::http::body::Object;
use crate::http::openapi::{Text, WholeNumber};
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
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TxnBody {
    /// Whose keys it names.
    #[serde(default = "first")]
    keyspace: String,
    /// What must hold, all of it, …
    #[serde(default)]
    #[schema(value_type = Vec<CompareBody>, max_items = 1024)]
    compare: BoundedList<Object<CompareBody>>,
    /// … so that this is done, …
    #[serde(default)]
    #[schema(value_type = Vec<Op>, max_items = 1024)]
    then: BoundedList<OpBody>,
    /// … and else this.
    #[serde(default, rename = "else")]
    #[schema(value_type = Vec<Op>, max_items = 1024)]
    otherwise: BoundedList<OpBody>,
}

/// `POST /v1/txn/begin`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginBody {
    /// Whose keys it names.
    #[serde(default = "first")]
    pub keyspace: String,
    /// Without a request for so long it ends.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 600_000)]
    pub timeout_ms: Option<u64>,
}

/// `POST /v1/txn/{id}`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DoBody {
    /// The operations.
    #[serde(rename = "do")]
    #[schema(value_type = Vec<Op>, min_items = 1, max_items = 1024)]
    ops: BoundedList<OpBody>,
}

fn first() -> String {
    "0".to_owned()
}

/// One condition: one of `exists`, `value` and `version`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Compare)]
pub struct CompareBody {
    /// The key that is looked at.
    #[schema(value_type = Text)]
    key: Bytes64,
    /// It has a value, or has none.
    exists: Option<bool>,
    /// It has this value.
    #[schema(value_type = Option<Text>)]
    value: Option<Bytes64>,
    /// Its value was written then; 0: it has none.
    #[schema(value_type = Option<WholeNumber>)]
    version: Option<Number>,
}

enum OpBody {
    Get(Bytes64),
    Put(Object<PutBody>),
    Delete(Bytes64),
    Increment(Object<IncrementBody>),
    Range(Object<RangeBody>),
    Publish(Object<PublishOpBody>),
}

/// An operation.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "the shape of `OpBody`, for the document")]
pub enum Op {
    /// The value of a key.
    Get(Text),
    /// A new value for a key.
    Put(PutBody),
    /// No value for a key.
    Delete(Text),
    /// Adds to the number that a key has.
    Increment(IncrementBody),
    /// Keys in order, with their values; of ordered keyspaces.
    Range(RangeBody),
    /// A message for a topic of the keyspace.
    Publish(PublishOpBody),
}

/// What operations there are, for messages.
const OPS: &str = "`get`, `put`, `delete`, `increment`, `range` and `publish`";

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
                    "publish" => OpBody::Publish(map.next_value()?),
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

/// A new value for a key.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PutOp)]
pub struct PutBody {
    /// The key.
    #[schema(value_type = Text)]
    key: Bytes64,
    /// Its value.
    #[schema(value_type = Text)]
    value: Bytes64,
    /// It ends after so long.
    #[schema(minimum = 1)]
    ttl_ms: Option<u64>,
}

/// Adds to the number that a key has.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = IncrementOp)]
pub struct IncrementBody {
    /// The key.
    #[schema(value_type = Text)]
    key: Bytes64,
    /// What is added: 1, unless it is given.
    #[schema(value_type = Option<WholeNumber>)]
    by: Option<Number>,
}

/// Keys in order.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RangeOp)]
pub struct RangeBody {
    /// The first key that may be shown.
    #[schema(value_type = Option<Text>)]
    from: Option<Bytes64>,
    /// The first key behind those.
    #[schema(value_type = Option<Text>)]
    to: Option<Bytes64>,
    /// At most so many keys.
    #[schema(maximum = 65_536)]
    limit: Option<u64>,
    /// From high to low.
    #[serde(default)]
    reverse: bool,
}

/// A message for a topic.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PublishOp)]
pub struct PublishOpBody {
    /// The topic.
    topic: String,
    /// The message.
    #[schema(value_type = Text)]
    message: Bytes64,
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
            OpBody::Publish(Object(PublishOpBody { topic, message })) => {
                TxnOp::Publish { topic, body: message.0 }
            }
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
pub(in crate::http) struct BoundedList<T>(pub Vec<T>);

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
pub(in crate::http) struct Bytes64(pub Bytes);

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
pub(in crate::http) struct Number(i128);

impl Number {
    /// It, as a number without a sign.
    ///
    /// # Errors
    /// If it is none of 64 bits.
    pub fn unsigned(&self, name: &str) -> Result<u64, Problem> {
        let Self(number) = self;
        u64::try_from(*number).map_err(|_| {
            let why = format!("{name} is {number}, which is no whole number of 64 bits");
            Problem::bad_request(why)
        })
    }
}

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
#[path = "json_tests.rs"]
mod tests;

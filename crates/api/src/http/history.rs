//! `/v1/history/{keyspace}/{key}`: the changes of a key, the newest first.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use bytes::Bytes;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::context::Shared;
use super::kv::place_behind;
use super::problem::Problem;
use super::txn::Text;
use super::uri::{key_parameters, number, timestamp, yes_or_no};
use crate::{HISTORY_PAGE_MAX, HistoryQuery, KeyChange};

/// Writes of a page unless another number is asked for.
const LIMIT: u64 = 100;

/// The changes of a key, the newest first.
#[utoipa::path(
    get, path = "/v1/history/{keyspace}/{key}", operation_id = "history", tag = "keys",
    params(
        ("keyspace" = String, Path, description = "Its name."),
        ("key" = String, Path, description = "The key: any bytes."),
        ("before" = Option<String>, Query, description = "Those before then: as `at` of `get`."),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "So many."),
        ("values" = Option<bool>, Query, description = "With values, unless it says otherwise."),
    ),
    responses((status = 200, description = "A page.", body = Page)),
    extensions(("x-problems" = json!([
        "no-keyspace", "key-too-long", "below-safe-point", "in-future", "no-level", "loading",
        "busy", "no-answer"
    ])))
)]
pub async fn list(State(context): State<Shared>, uri: Uri) -> Result<Json<Page>, Problem> {
    let known = ["before", "limit", "values"];
    let ([before, limit, values], key) = key_parameters(uri.query(), known)?;
    let (keyspace, key) = place_behind(&context, &uri, "/v1/history/", key)?;
    let before = before.map(|text| timestamp(&text).map_err(|why| why.at("before")));
    let before = before.transpose()?;
    let limit = limit.map(|text| number("limit", &text)).transpose()?.unwrap_or(LIMIT);
    if !(1..=HISTORY_PAGE_MAX as u64).contains(&limit) {
        let why = format!("limit is {limit}: it has to be from 1 to {HISTORY_PAGE_MAX}");
        return Err(Problem::bad_request(why));
    }
    let with_values = yes_or_no("values", values)?.unwrap_or(true);
    let asked = HistoryQuery { before, limit: limit as usize };
    let found = context.read(|done| context.api.history(&keyspace, key, asked, done)).await?;
    let changes = found.changes.into_iter().map(|change| Change::of(change, with_values));
    Ok(Json(Page {
        changes: changes.collect(),
        next: found.next.map(|next| next.0.to_string()),
        safe_point: found.safe_point.0.to_string(),
        safe_point_ms: found.safe_point.millis(),
    }))
}

/// What has become of a key.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "its words are in the document; `Change::of` has them, too")]
pub enum ChangeKind {
    /// It was given a value.
    Put,
    /// It was deleted.
    Deleted,
    /// Its value had come to its end.
    Expired,
}

/// A page as JSON.
#[derive(Serialize, ToSchema)]
#[schema(as = History)]
pub struct Page {
    /// The newest first.
    changes: Vec<Change>,
    /// There are more: those before this version. `null`: there are none.
    #[schema(required = true)]
    next: Option<String>,
    /// Of what was at or below this version only the last is known.
    safe_point: String,
    /// The same, in milliseconds since 1970.
    safe_point_ms: u64,
}

/// A change of a key.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyChange)]
pub struct Change {
    /// `put`, `deleted` or `expired`.
    #[schema(value_type = ChangeKind)]
    what: &'static str,
    /// When, in milliseconds since 1970.
    at_ms: u64,
    /// As text: JSON's numbers do not hold 64 bits everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    version: Option<String>,
    /// How long the value is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    bytes: Option<u64>,
    /// When the value ends, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    expires_at_ms: Option<u64>,
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::openapi::Text>, nullable = false)]
    value: Option<Value>,
}

impl Change {
    fn of(change: KeyChange, with_values: bool) -> Self {
        let (what, at_ms) = match &change {
            KeyChange::Put { timestamp, .. } => ("put", timestamp.millis()),
            KeyChange::Deleted { timestamp } => ("deleted", timestamp.millis()),
            KeyChange::Expired { at_ms } => ("expired", *at_ms),
        };
        let mut shown =
            Change { what, at_ms, version: None, bytes: None, expires_at_ms: None, value: None };
        match change {
            KeyChange::Put { value, timestamp, expires_at_ms } => {
                shown.version = Some(timestamp.0.to_string());
                shown.bytes = Some(value.len() as u64);
                shown.expires_at_ms = expires_at_ms;
                shown.value = with_values.then_some(Value(value));
            }
            KeyChange::Deleted { timestamp } => shown.version = Some(timestamp.0.to_string()),
            KeyChange::Expired { .. } => {}
        }
        shown
    }
}

struct Value(Bytes);

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Text(&self.0).serialize(serializer)
    }
}

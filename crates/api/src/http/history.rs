//! `/v1/history/{keyspace}/{key}`: the changes of a key, the newest first.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use bytes::Bytes;
use serde::{Serialize, Serializer};

use super::context::Shared;
use super::kv::place_behind;
use super::problem::Problem;
use super::txn::Text;
use super::uri::{number, parameters, timestamp, yes_or_no};
use crate::{HISTORY_PAGE_MAX, HistoryQuery, KeyChange};

/// Writes of a page unless another number is asked for.
const LIMIT: u64 = 100;

/// A page.
pub async fn list(State(context): State<Shared>, uri: Uri) -> Result<Json<Page>, Problem> {
    let (keyspace, key) = place_behind(&context, &uri, "/v1/history/")?;
    let [before, limit, values] = parameters(uri.query(), ["before", "limit", "values"])?;
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

/// A page as JSON.
#[derive(Serialize)]
pub struct Page {
    changes: Vec<Change>,
    next: Option<String>,
    safe_point: String,
    safe_point_ms: u64,
}

#[derive(Serialize)]
struct Change {
    what: &'static str,
    at_ms: u64,
    /// As text: JSON's numbers do not hold 64 bits everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
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

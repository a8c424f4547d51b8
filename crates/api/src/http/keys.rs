//! `/v1/keys/{keyspace}`: keys, page by page.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use bytes::Bytes;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::context::Shared;
use super::problem::Problem;
use super::txn::Text;
use super::uri::{behind, byte_parameters, decode_text, number, text_of};
use crate::{ApiError, KEYS_PAGE_MAX, KeysQuery};

/// Keys of a page unless another number is asked for.
const LIMIT: u64 = 100;

/// Keys of a keyspace, page by page.
#[utoipa::path(
    get, path = "/v1/keys/{keyspace}", operation_id = "keys", tag = "keys",
    params(
        ("keyspace" = String, Path, description = "Its name."),
        ("prefix" = Option<String>, Query, description = "What keys begin with: any bytes."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "About so many."),
        ("at" = Option<String>, Query,
            description = "Keys that had a value then: as `at` of `get`."),
    ),
    responses((status = 200, description = "A page.", body = Page)),
    extensions(("x-problems" = json!([
        "no-keyspace", "key-too-long", "below-safe-point", "in-future", "no-level", "loading",
        "busy", "no-answer"
    ])))
)]
pub async fn list(State(context): State<Shared>, uri: Uri) -> Result<Json<Page>, Problem> {
    let keyspace = decode_text(behind(&uri, "/v1/keys/"))?;
    let [prefix, cursor, limit, at] =
        byte_parameters(uri.query(), ["prefix", "cursor", "limit", "at"])?;
    let cursor = cursor.map(text_of).transpose()?;
    let limit = match limit {
        Some(limit) => number("limit", &text_of(limit)?)?,
        None => LIMIT,
    };
    if !(1..=KEYS_PAGE_MAX as u64).contains(&limit) {
        let why = format!("limit is {limit}: it has to be from 1 to {KEYS_PAGE_MAX}");
        return Err(Problem::bad_request(why));
    }
    let prefix: Bytes = prefix.unwrap_or_default().into();
    let (bytes, bytes_max) = (prefix.len() as u64, context.options.key_bytes_max);
    if bytes > bytes_max {
        return Err(ApiError::KeyTooLong { bytes, bytes_max }.into());
    }
    let at = match at {
        Some(text) => Some(context.resolve(&text_of(text)?).await?),
        None => None,
    };
    let asked = KeysQuery { prefix, cursor, limit: limit as usize, at };
    let page = context.read(|done| context.api.keys(&keyspace, asked, done)).await?;
    let keys = page.keys.into_iter().map(Key).collect();
    Ok(Json(Page { keys, next: page.next, at: at.map(|at| at.0.to_string()) }))
}

/// A page as JSON.
#[derive(Serialize, ToSchema)]
#[schema(as = KeysPage)]
pub struct Page {
    /// Its keys: maybe none, though there are more behind it.
    #[schema(value_type = Vec<super::openapi::Text>)]
    keys: Vec<Key>,
    /// Where the next page begins; `null`: this was the last one.
    #[schema(required = true)]
    next: Option<String>,
    /// The time that was read, if one was named: with it, not with an age that goes on, the next
    /// pages are of the same cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

struct Key(Bytes);

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Text(&self.0).serialize(serializer)
    }
}

//! The cluster as this node knows it: `/v1/nodes`, `/v1/shards`, `/v1/decisions`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::context::Shared;
use super::keyspaces::json;
use super::problem::Problem;
use super::uri::{number, parameters};
use crate::{CutAt, Decisions, MergeStatus, Nodes, SHARDS_PAGE_MAX, Shards, ShardsQuery};

/// All members.
pub async fn nodes(State(context): State<Shared>, uri: Uri) -> Result<Json<Nodes>, Problem> {
    let [] = parameters(uri.query(), [])?;
    Ok(Json(context.api.nodes()))
}

/// All shards, or those of one keyspace, a page at a time.
pub async fn shards(State(context): State<Shared>, uri: Uri) -> Result<Json<Shards>, Problem> {
    let [keyspace, after, limit] = parameters(uri.query(), ["keyspace", "after", "limit"])?;
    let after = after.map(|text| number("after", &text)).transpose()?;
    let limit = limit.map(|text| number("limit", &text)).transpose()?;
    let limit = limit.unwrap_or(SHARDS_PAGE_MAX as u64);
    if !(1..=SHARDS_PAGE_MAX as u64).contains(&limit) {
        let why = format!("limit is {limit}: it has to be from 1 to {SHARDS_PAGE_MAX}");
        return Err(Problem::bad_request(why));
    }
    let asked = ShardsQuery { keyspace: keyspace.as_deref(), after, limit: limit as usize };
    Ok(Json(context.api.shards(&asked)?))
}

/// How a shard is to be cut.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cut {
    /// The first slot or key of the new shard; where it parts evenly, if it is left out.
    at: Option<CutAt>,
}

/// Splits a shard that this node leads.
pub async fn split(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let path = uri.path().strip_prefix("/v1/shards/").unwrap_or_default();
    let shard = number("shard", path.strip_suffix("/split").unwrap_or(path))?;
    let [] = parameters(uri.query(), [])?;
    let Cut { at } = json(&context, &headers, body).await?;
    let id = context.next_id();
    let cut = context.write(id, |done| context.api.split(shard, at, done)).await?;
    Ok((StatusCode::ACCEPTED, Json(cut)).into_response())
}

/// Nothing more is to be said.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Merges a shard that this node leads with its right neighbour.
pub async fn merge(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<MergeStatus>), Problem> {
    let path = uri.path().strip_prefix("/v1/shards/").unwrap_or_default();
    let shard = number("shard", path.strip_suffix("/merge").unwrap_or(path))?;
    let [] = parameters(uri.query(), [])?;
    let Nothing {} = json(&context, &headers, body).await?;
    let id = context.next_id();
    let merged = context.write(id, |done| context.api.merge(shard, done)).await?;
    Ok((StatusCode::ACCEPTED, Json(merged)))
}

/// Decisions of this node about the shards that it leads; or, with `dry=true`, those that the
/// balancer would make now.
pub async fn decisions(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<Decisions>, Problem> {
    let [dry] = parameters(uri.query(), ["dry"])?;
    let dry = match dry.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let why = format!("dry is '{other}': it has to be true or false");
            return Err(Problem::bad_request(why));
        }
    };
    Ok(Json(context.api.decisions(dry)))
}

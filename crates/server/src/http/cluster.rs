//! The cluster as this node knows it: `/v1/nodes`, `/v1/shards`, `/v1/decisions`.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use super::context::Shared;
use super::problem::Problem;
use super::uri::{number, parameters};
use crate::api::{Decisions, Nodes, SHARDS_PAGE_MAX, Shards, ShardsAsked};

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
    let asked = ShardsAsked { keyspace: keyspace.as_deref(), after, limit: limit as usize };
    Ok(Json(context.api.shards(&asked)?))
}

/// What this node has decided about the shards that it leads; or, with `dry=true`, what it would
/// decide now if it moved things to be even.
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

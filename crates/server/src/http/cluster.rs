//! The cluster as this node knows it: `/v1/nodes`, `/v1/shards`.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use super::context::Shared;
use super::problem::Problem;
use super::uri::parameters;
use crate::api::{Nodes, Shards};

/// All members.
pub async fn nodes(State(context): State<Shared>, uri: Uri) -> Result<Json<Nodes>, Problem> {
    let [] = parameters(uri.query(), [])?;
    Ok(Json(context.api.nodes()))
}

/// All shards, or those of one keyspace.
pub async fn shards(State(context): State<Shared>, uri: Uri) -> Result<Json<Shards>, Problem> {
    let [keyspace] = parameters(uri.query(), ["keyspace"])?;
    Ok(Json(context.api.shards(keyspace.as_deref())?))
}

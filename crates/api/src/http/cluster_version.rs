//! The cluster version: `/v1/level`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::context::Shared;
use super::keyspaces::json;
use super::problem::Problem;
use super::uri::parameters;
use crate::ClusterVersionStatus;

/// What it is, and which versions all nodes support.
pub async fn show(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<ClusterVersionStatus>, Problem> {
    let [] = parameters(uri.query(), [])?;
    Ok(Json(context.api.cluster_version()))
}

/// How it is to rise.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RaiseBody {
    /// The cluster version from then on; the next one, if it is left out.
    to: Option<u8>,
}

/// Raises it.
pub async fn raise(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let [] = parameters(uri.query(), [])?;
    let RaiseBody { to } = json(&context, &headers, body).await?;
    let id = context.next_id();
    let status = context.write(id, |done| context.api.raise_version(id, to, done)).await?;
    Ok(Json(status).into_response())
}

//! The cluster version: `/v1/level`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::context::Shared;
use super::keyspaces::json;
use super::problem::Problem;
use super::uri::parameters;
use crate::ClusterVersionStatus;

/// The cluster version, and which versions all nodes support.
#[utoipa::path(
    get, path = "/v1/level", operation_id = "clusterVersion", tag = "nodes",
    responses((status = 200, description = "The version.", body = ClusterVersionStatus))
)]
pub async fn show(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<ClusterVersionStatus>, Problem> {
    let [] = parameters(uri.query(), [])?;
    Ok(Json(context.api.cluster_version()))
}

/// How it is to rise.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RaiseBody {
    /// The cluster version from then on; the next one, if it is left out.
    to: Option<u8>,
}

/// Raises the cluster version.
#[utoipa::path(
    post, path = "/v1/level", operation_id = "raiseClusterVersion", tag = "nodes",
    request_body = RaiseBody,
    responses((status = 200, description = "From now on.", body = ClusterVersionStatus)),
    extensions(("x-problems" = json!(["no-level"])))
)]
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

//! Clones of volumes: `/v1/volumes`. Whatever else is done with a volume is done with its keyspace.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use utoipa::ToSchema;

use super::context::Shared;
use super::keyspaces::json;
use super::problem::Problem;
use super::uri::parameters;
use crate::{CloneSpec, Flattened, KeyspaceInfo};

/// `POST /v1/volumes/{volume}/clone`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloneBody {
    /// What the clone is called.
    name: String,
    /// Its time, as `at` of `get` takes it; now, if none is named.
    at: Option<String>,
    /// How many nodes hold each of its blocks: as of its source, unless it says otherwise.
    replicas: Option<u8>,
    /// How long its replaced blocks stay readable: as of its source, unless it says otherwise.
    retention_ms: Option<u64>,
}

/// Makes a volume that begins with the blocks that another one had at a time, and shares them.
#[utoipa::path(
    post, path = "/v1/volumes/{volume}/clone", operation_id = "cloneVolume", tag = "volumes",
    params(("volume" = String, Path, description = "The volume that is cloned.")),
    request_body = CloneBody,
    responses((status = 201, description = "The clone.", body = KeyspaceInfo)),
    extensions(("x-problems" = json!([
        "no-keyspace", "keyspace-exists", "bad-keyspace", "below-safe-point", "in-future",
        "snapshot-refused", "no-level", "loading", "no-answer"
    ])))
)]
pub async fn clone(
    State(context): State<Shared>,
    Path(volume): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<KeyspaceInfo>), Problem> {
    let [] = parameters(uri.query(), [])?;
    let CloneBody { name, at, replicas, retention_ms } = json(&context, &headers, body).await?;
    let at = match &at {
        Some(text) => Some(context.resolve(text).await?),
        None => None,
    };
    let spec = CloneSpec { name, at, replicas, retention_ms };
    let id = context.next_id();
    let made = context.write(id, |done| context.api.volume_clone(&volume, spec, done)).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Copies some of the blocks that a clone shares with its source. Once it has all, it needs its
/// source no more. Each request does a part; ask again until it is done.
#[utoipa::path(
    post, path = "/v1/volumes/{volume}/flatten", operation_id = "flattenVolume", tag = "volumes",
    params(("volume" = String, Path, description = "The clone.")),
    responses((status = 200, description = "How far it is.", body = Flattened)),
    extensions(("x-problems" = json!([
        "no-keyspace", "bad-keyspace", "loading", "busy", "out-of-memory", "no-answer"
    ])))
)]
pub async fn flatten(
    State(context): State<Shared>,
    Path(volume): Path<String>,
    uri: Uri,
) -> Result<Json<Flattened>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let id = context.next_id();
    Ok(Json(context.write(id, |done| context.api.volume_flatten(id, &volume, done)).await?))
}

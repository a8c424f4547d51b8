//! The catalogue: `/v1/keyspaces`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::body::{self, HeldBody, Object};
use super::context::{Context, Shared};
use super::problem::Problem;
use super::uri::{name_behind, parameters};
use crate::{AdminState, KeyspaceChange, KeyspaceInfo, KeyspaceSpec, NodeState, NodeStatus};

/// No description of a keyspace is longer.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// The answer of `GET /v1/keyspaces`: an object, so that later versions can add fields.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyspaceList)]
pub struct List {
    keyspaces: Vec<KeyspaceInfo>,
}

/// All keyspaces.
#[utoipa::path(
    get, path = "/v1/keyspaces", operation_id = "keyspaces", tag = "keyspaces",
    responses((status = 200, description = "By name.", body = List))
)]
pub async fn list(State(context): State<Shared>, uri: Uri) -> Result<Json<List>, Problem> {
    let [] = parameters(uri.query(), [])?;
    Ok(Json(List { keyspaces: context.api.keyspaces() }))
}

/// Makes a keyspace.
#[utoipa::path(
    post, path = "/v1/keyspaces", operation_id = "createKeyspace", tag = "keyspaces",
    request_body = KeyspaceSpec,
    responses((status = 201, description = "As it is.", body = KeyspaceInfo)),
    extensions(("x-problems" = json!([
        "keyspace-exists", "bad-keyspace", "too-few-nodes", "no-level", "loading"
    ])))
)]
pub async fn create(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<KeyspaceInfo>), Problem> {
    let [] = parameters(uri.query(), [])?;
    let spec: KeyspaceSpec = json(&context, &headers, body).await?;
    let id = context.next_id();
    let mut info = context.write(id, |done| context.api.keyspace_create(spec, done)).await?;
    info.warnings.extend(few_nodes(&context.api.nodes().nodes, info.replicas));
    Ok((StatusCode::CREATED, Json(info)))
}

/// A warning, if there are fewer nodes than a keyspace asks for replicas. It is no error: they come
/// once there are enough.
fn few_nodes(nodes: &[NodeStatus], replicas: u8) -> Option<String> {
    let takes = |node: &&NodeStatus| {
        node.admin_state == AdminState::Member
            && matches!(node.state, NodeState::Up | NodeState::Suspected)
    };
    let count = nodes.iter().filter(takes).count();
    (count < usize::from(replicas)).then(|| {
        let can = if count == 1 { "node that is up takes" } else { "nodes that are up take" };
        format!(
            "the keyspace asks for {replicas} replicas, and {count} {can} any; each shard is \
             under-replicated until more nodes join"
        )
    })
}

/// One keyspace.
#[utoipa::path(
    get, path = "/v1/keyspaces/{name}", operation_id = "keyspace", tag = "keyspaces",
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "As it is.", body = KeyspaceInfo)),
    extensions(("x-problems" = json!(["no-keyspace", "loading"])))
)]
pub async fn one(State(context): State<Shared>, uri: Uri) -> Result<Json<KeyspaceInfo>, Problem> {
    let name = name(&uri)?;
    Ok(Json(context.api.keyspace(&name)?))
}

/// Changes of a keyspace what the body names.
#[utoipa::path(
    patch, path = "/v1/keyspaces/{name}", operation_id = "changeKeyspace", tag = "keyspaces",
    params(("name" = String, Path, description = "Its name.")),
    request_body = KeyspaceChange,
    responses((status = 200, description = "As it is from now on.", body = KeyspaceInfo)),
    extensions(("x-problems" = json!([
        "no-keyspace", "bad-keyspace", "too-few-nodes", "loading"
    ])))
)]
pub async fn alter(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<KeyspaceInfo>, Problem> {
    let name = name(&uri)?;
    let change: KeyspaceChange = json(&context, &headers, body).await?;
    if change == KeyspaceChange::default() {
        return Err(Problem::bad_request("the body names nothing to change"));
    }
    let is_of_replicas = change.replicas.is_some();
    let id = context.next_id();
    let alter = |done| context.api.keyspace_alter(&name, change, done);
    let mut info = context.write(id, alter).await?;
    if is_of_replicas {
        info.warnings.extend(few_nodes(&context.api.nodes().nodes, info.replicas));
    }
    Ok(Json(info))
}

/// Removes a keyspace with all its keys.
#[utoipa::path(
    delete, path = "/v1/keyspaces/{name}", operation_id = "dropKeyspace", tag = "keyspaces",
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 204, description = "It is gone, with all its keys.")),
    extensions(("x-problems" = json!(["no-keyspace", "bad-keyspace", "loading"])))
)]
pub async fn remove(State(context): State<Shared>, uri: Uri) -> Result<StatusCode, Problem> {
    let name = name(&uri)?;
    let id = context.next_id();
    context.write(id, |done| context.api.keyspace_drop(&name, done)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The keyspace that a path names. Nothing else about it can be asked.
fn name(uri: &Uri) -> Result<String, Problem> {
    name_behind(uri, "/v1/keyspaces/")
}

/// A body that must be JSON: a page of another origin cannot send that.
pub(super) async fn json<T: DeserializeOwned>(
    context: &Context,
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Problem> {
    let (value, _room) =
        json_within(context, headers, body, BODY_BYTES_MAX, settings_too_long).await?;
    Ok(value)
}

/// As [`json`], with the room that the body takes, of another length.
pub(super) async fn json_within<'c, T: DeserializeOwned>(
    context: &'c Context,
    headers: &HeaderMap,
    body: Body,
    bytes_max: u64,
    too_long: fn(u64, u64) -> Problem,
) -> Result<(T, HeldBody<'c>), Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not-json",
            "Not JSON",
            "the body's content type is not application/json",
            "Send the header Content-Type: application/json.",
        ));
    }
    let held = body::read(context, body, bytes_max, too_long).await?;
    let Object(value) = serde_json::from_slice(&held.bytes)
        .map_err(|why| Problem::bad_request(format!("the body is not what is expected: {why}")))?;
    Ok((value, held))
}

/// For the settings of a keyspace.
fn settings_too_long(bytes: u64, bytes_max: u64) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body-too-long",
        "Body too long",
        format!("the body has {bytes} bytes, and may have {bytes_max}"),
        "Send the settings only.",
    )
}

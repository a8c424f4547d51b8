//! `/v1/dev`: the nodes of `carillon dev`, for a page that one of them serves. Requests are passed
//! to the process that has started the node ([`crate::dev`]).

use std::path::Path;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::context::{Context, Shared};
use super::handlers::unknown_path;
use super::keyspaces::json;
use super::problem::Problem;
use super::uri::{behind, decode_text, parameters};
use crate::ApiError;
use crate::dev::{
    DevAction, DevCluster, DevNode, DevRefusal, DevRefusalKind, DevReply, DevRequest, Parameters,
    REPLY_BYTES_MAX, REQUEST_BYTES_MAX, short_path,
};

/// How long `carillon dev` may take. It starts processes, and waits for none.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// All nodes of `carillon dev`.
#[utoipa::path(
    get, path = "/v1/dev", operation_id = "devNodes", tag = "dev",
    responses((status = 200, description = "The nodes.", body = DevCluster)),
    extensions(("x-problems" = json!(["no-dev", "no-supervisor"])))
)]
pub async fn show(State(context): State<Shared>, uri: Uri) -> Result<Json<DevCluster>, Problem> {
    let [] = parameters(uri.query(), [])?;
    match pass_on(&context, &DevRequest::List).await? {
        DevReply::Cluster(cluster) => Ok(Json(*cluster)),
        _ => Err(no_supervisor("it has answered something else")),
    }
}

/// What may be said beside the path.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DevBody {
    /// Settings of the node.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    parameters: Option<Parameters>,
}

/// Adds a node to those of `carillon dev`.
#[utoipa::path(
    post, path = "/v1/dev/nodes", operation_id = "addDevNode", tag = "dev",
    request_body = DevBody,
    responses((status = 201, description = "It is being started.", body = DevNode)),
    extensions(("x-problems" = json!([
        "no-dev", "no-supervisor", "bad-parameter", "too-many-nodes", "port-in-use", "wrong-state",
        "not-started"
    ])))
)]
pub async fn add(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<DevNode>), Problem> {
    let [] = parameters(uri.query(), [])?;
    let DevBody { parameters } = json(&context, &headers, body).await?;
    let request = DevRequest::Add { parameters: parameters.unwrap_or_default() };
    Ok((StatusCode::CREATED, change(&context, &request).await?))
}

/// Starts, stops, kills, pauses or resumes a node of `carillon dev`.
#[utoipa::path(
    post, path = "/v1/dev/nodes/{node}/{action}", operation_id = "changeDevNode", tag = "dev",
    params(
        ("node" = String, Path, description = "Its name."),
        ("action" = inline(DevAction), Path, description = "What is done to it."),
    ),
    request_body = DevBody,
    responses((status = 202, description = "It is being done.", body = DevNode)),
    extensions(("x-problems" = json!([
        "unknown-path", "no-dev", "no-supervisor", "no-node", "bad-parameter", "wrong-state",
        "port-in-use", "not-started"
    ])))
)]
pub async fn act(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<DevNode>), Problem> {
    let path = behind(&uri, "/v1/dev/nodes/");
    let (node, action) = path.split_once('/').unwrap_or((path, ""));
    let Some(action) = DevAction::of(action) else { return Err(unknown_path(uri).await) };
    let node = decode_text(node)?;
    let [] = parameters(uri.query(), [])?;
    let DevBody { parameters } = json(&context, &headers, body).await?;
    if parameters.is_some() && action != DevAction::Start {
        return Err(Problem::bad_request("parameters are for start only"));
    }
    let request = DevRequest::Act { node, action, parameters };
    Ok((StatusCode::ACCEPTED, change(&context, &request).await?))
}

async fn change(context: &Context, request: &DevRequest) -> Result<Json<DevNode>, Problem> {
    match pass_on(context, request).await? {
        DevReply::Node(node) => Ok(Json(*node)),
        _ => Err(ApiError::Unknown { id: context.next_id() }.into()),
    }
}

async fn pass_on(context: &Context, request: &DevRequest) -> Result<DevReply, Problem> {
    let Some(socket) = context.dev_control() else {
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no-dev",
            "Not a node of carillon dev",
            "this node was not started by carillon dev, or others than this machine can reach it",
            "Start a cluster with `carillon dev`.",
        ));
    };
    let line = request.to_line();
    if line.len() as u64 > REQUEST_BYTES_MAX {
        return Err(Problem::bad_request("the parameters are too long"));
    }
    let mut stream = match timeout(REPLY_TIMEOUT, connect(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(why)) => return Err(no_supervisor(&why.to_string())),
        Err(_) => return Err(no_supervisor("it takes no connection")),
    };
    let is_read = *request == DevRequest::List;
    match timeout(REPLY_TIMEOUT, ask(&mut stream, &line)).await {
        Ok(Ok(DevReply::Refused(refusal))) => Err(refused(refusal)),
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(why)) if is_read => Err(no_supervisor(&why)),
        Err(_) if is_read => Err(no_supervisor("it has not answered in time")),
        // It was sent: it may have been done.
        Ok(Err(_)) | Err(_) => Err(ApiError::Unknown { id: context.next_id() }.into()),
    }
}

async fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    let (path, _held) = short_path(socket)?;
    UnixStream::connect(path).await
}

async fn ask(stream: &mut UnixStream, line: &str) -> Result<DevReply, String> {
    let failed = |why: std::io::Error| why.to_string();
    stream.write_all(line.as_bytes()).await.map_err(failed)?;
    let mut reply = String::new();
    let mut reader = BufReader::new(stream.take(REPLY_BYTES_MAX));
    reader.read_line(&mut reply).await.map_err(failed)?;
    DevReply::of_line(&reply)
}

fn no_supervisor(why: &str) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "no-supervisor",
        "No supervisor",
        format!("the process `carillon dev` that has started this node does not answer: {why}"),
        "Look whether it still runs; its nodes end with it.",
    )
}

fn refused(DevRefusal { kind, why }: DevRefusal) -> Problem {
    let (status, slug, title, remedy) = match kind {
        DevRefusalKind::BadRequest => return Problem::bad_request(why),
        DevRefusalKind::NoNode => {
            (StatusCode::NOT_FOUND, "no-node", "No such node", "GET /v1/dev lists the nodes.")
        }
        DevRefusalKind::BadParameter => (
            StatusCode::BAD_REQUEST,
            "bad-parameter",
            "Bad parameter",
            "GET /v1/dev lists the parameters that may be given, with their values.",
        ),
        DevRefusalKind::WrongState => (
            StatusCode::CONFLICT,
            "wrong-state",
            "Wrong state",
            "GET /v1/dev shows what each node does.",
        ),
        DevRefusalKind::TooManyNodes => (
            StatusCode::CONFLICT,
            "too-many-nodes",
            "Too many nodes",
            "Start nodes that have ended, or other nodes by hand with --join.",
        ),
        DevRefusalKind::PortInUse => (
            StatusCode::CONFLICT,
            "port-in-use",
            "Port in use",
            "End the process that has the port (`ss -ltnp` names it).",
        ),
        DevRefusalKind::NotStarted => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "not-started",
            "Not started",
            "Look at the system's limits of processes and memory.",
        ),
        DevRefusalKind::Ending => (
            StatusCode::CONFLICT,
            "wrong-state",
            "Wrong state",
            "carillon dev ends: start it again.",
        ),
    };
    Problem::new(status, slug, title, why, remedy)
}

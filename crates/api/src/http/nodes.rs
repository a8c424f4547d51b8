//! Changes of nodes' admin states: `POST /v1/nodes/{node}/cordon`, `uncordon`, `drain`, `remove`;
//! and how far a drain is.
//!
//! The body is JSON, `{}` as a rule: a page of another origin in somebody's browser cannot send
//! that.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::context::Shared;
use super::handlers::unknown_path;
use super::keyspaces::json;
use super::problem::Problem;
use super::uri::{behind, decode_text, parameters};
use crate::{
    AdminState, ApiError, DrainStatus, NodeAdminState, NodeStatus, ReplicaStatus, SHARDS_PAGE_MAX,
    ShardsQuery,
};

/// What may be said beside the path.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeActionBody {
    /// An id is meant that no node here knows.
    #[serde(default)]
    unknown: bool,
}

/// What is done with a node.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "its words are in the document; handlers read the path")]
pub enum NodeAction {
    /// It gets no more replicas.
    Cordon,
    /// It is a member like others again.
    Uncordon,
    /// Its replicas are to move elsewhere.
    Drain,
    /// It is gone for good; it has no replicas.
    Remove,
}

/// Changes a node's admin state.
#[utoipa::path(
    post, path = "/v1/nodes/{node}/{action}", operation_id = "changeNode", tag = "nodes",
    params(
        ("node" = String, Path, description = "Its id or name."),
        ("action" = inline(NodeAction), Path, description = "What is done with it."),
    ),
    request_body = NodeActionBody,
    responses((status = 200, description = "Its admin state from now on.", body = NodeAdminState)),
    extensions(("x-problems" = json!([
        "unknown-path", "no-node", "ambiguous-node", "node-in-use", "too-few-nodes", "node-removed",
        "no-standing", "no-level"
    ])))
)]
pub async fn act(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let path = behind(&uri, "/v1/nodes/");
    let (node, action) = path.split_once('/').unwrap_or((path, ""));
    let Some(admin_state) = admin_state_after(action) else {
        return Err(unknown_path(uri).await);
    };
    let node = decode_text(node)?;
    let [] = parameters(uri.query(), [])?;
    let NodeActionBody { unknown } = json(&context, &headers, body).await?;
    let id = context.next_id();
    let act = |done| context.api.set_admin_state(id, &node, admin_state, unknown, done);
    let done = context.write(id, act).await?;
    Ok(Json(done).into_response())
}

/// What an action makes of a node.
fn admin_state_after(action: &str) -> Option<AdminState> {
    Some(match action {
        "cordon" => AdminState::Cordoned,
        "uncordon" => AdminState::Member,
        "drain" => AdminState::Draining,
        "remove" => AdminState::Removed,
        _ => return None,
    })
}

/// What is told about a node.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "its word is in the document; the handler reads the path")]
pub enum NodeReport {
    /// How far its drain is.
    Drain,
}

/// How far a node's drain is, and what it waits for.
#[utoipa::path(
    get, path = "/v1/nodes/{node}/{action}", operation_id = "drainOfNode", tag = "nodes",
    params(
        ("node" = String, Path, description = "Its id or name."),
        ("action" = inline(NodeReport), Path, description = "What is told."),
    ),
    responses((status = 200, description = "How far it is.", body = DrainStatus)),
    extensions(("x-problems" = json!(["unknown-path", "no-node", "ambiguous-node", "no-answer"])))
)]
pub async fn drain(State(context): State<Shared>, uri: Uri) -> Result<Json<DrainStatus>, Problem> {
    let path = behind(&uri, "/v1/nodes/");
    let Some(node) = path.strip_suffix("/drain").filter(|node| !node.contains('/')) else {
        return Err(unknown_path(uri).await);
    };
    let asked = decode_text(node)?;
    let [] = parameters(uri.query(), [])?;
    let nodes = context.api.nodes().nodes;
    let node = one_node(&nodes, &asked)?;
    let (mut shards, mut silent, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = ShardsQuery { keyspace: None, after, limit: SHARDS_PAGE_MAX };
        let page = context.read(|done| context.api.shards_of_cluster(&page, done)).await?;
        let is_there = |replica: &ReplicaStatus| replica.node == node.id;
        let there = page.shards.into_iter().filter(|shard| shard.replicas.iter().any(is_there));
        shards.extend(there);
        silent.extend(page.silent);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let would = context.read(|done| context.api.decisions_of_cluster(true, done)).await?;
    Ok(Json(DrainStatus::new(node, shards, &would, silent)))
}

/// The node with this id, or the only one with this name.
fn one_node<'n>(nodes: &'n [NodeStatus], asked: &str) -> Result<&'n NodeStatus, ApiError> {
    let is_meant = |node: &&NodeStatus| node.id == asked || node.name == asked;
    let meant: Vec<&NodeStatus> = nodes.iter().filter(is_meant).collect();
    match meant[..] {
        [node] => Ok(node),
        [] => {
            let known = nodes.iter().map(|node| format!("{} ({})", node.name, node.id)).collect();
            Err(ApiError::NoNode { node: asked.to_owned(), known })
        }
        _ => match meant.iter().find(|node| node.id == asked) {
            Some(node) => Ok(node),
            None => {
                let ids = meant.iter().map(|node| node.id.clone()).collect();
                Err(ApiError::AmbiguousNode { node: asked.to_owned(), ids })
            }
        },
    }
}

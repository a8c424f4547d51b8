//! Changes of nodes' admin states: `POST /v1/nodes/{node}/cordon`, `uncordon`, `drain`, `remove`.
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
use super::uri::{decode_text, parameters};
use crate::{AdminState, NodeAdminState};

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
    let path = uri.path().strip_prefix("/v1/nodes/").unwrap_or_default();
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

//! The cluster as this node knows it, or as all nodes do: `/v1/nodes`, `/v1/shards`,
//! `/v1/decisions`, `/v1/metrics`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::context::Shared;
use super::events::Scope;
use super::keyspaces::json;
use super::problem::Problem;
use super::uri::{behind, number, parameters, yes_or_no};
use crate::{
    CutAt, Decisions, MergeStatus, NodeMetrics, Nodes, SHARDS_PAGE_MAX, Shards, ShardsQuery,
    SplitStatus,
};

/// All members.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "nodes", tag = "nodes",
    responses((status = 200, description = "By the time when they joined.", body = Nodes))
)]
pub async fn nodes(State(context): State<Shared>, uri: Uri) -> Result<Json<Nodes>, Problem> {
    let [] = parameters(uri.query(), [])?;
    Ok(Json(context.api.nodes()))
}

/// All shards, or those of one keyspace, a page at a time.
#[utoipa::path(
    get, path = "/v1/shards", operation_id = "shards", tag = "shards",
    params(
        ("keyspace" = Option<String>, Query, description = "Those of this keyspace."),
        ("after" = Option<u64>, Query, description = "Behind this id: `next` of a page."),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "So many."),
        ("scope" = inline(Option<Scope>), Query, description = "Of this node, or of all."),
    ),
    responses((status = 200, description = "A page.", body = Shards)),
    extensions(("x-problems" = json!(["no-keyspace", "loading", "no-answer"])))
)]
pub async fn shards(State(context): State<Shared>, uri: Uri) -> Result<Json<Shards>, Problem> {
    let [keyspace, after, limit, scope] =
        parameters(uri.query(), ["keyspace", "after", "limit", "scope"])?;
    let after = after.map(|text| number("after", &text)).transpose()?;
    let limit = limit.map(|text| number("limit", &text)).transpose()?;
    let limit = limit.unwrap_or(SHARDS_PAGE_MAX as u64);
    if !(1..=SHARDS_PAGE_MAX as u64).contains(&limit) {
        let why = format!("limit is {limit}: it has to be from 1 to {SHARDS_PAGE_MAX}");
        return Err(Problem::bad_request(why));
    }
    let asked = ShardsQuery { keyspace: keyspace.as_deref(), after, limit: limit as usize };
    match is_of_cluster(scope)? {
        true => Ok(Json(context.read(|done| context.api.shards_of_cluster(&asked, done)).await?)),
        false => Ok(Json(context.api.shards(&asked)?)),
    }
}

/// Whether the whole cluster is asked: `scope=cluster`.
fn is_of_cluster(scope: Option<String>) -> Result<bool, Problem> {
    match scope.as_deref() {
        None | Some("node") => Ok(false),
        Some("cluster") => Ok(true),
        Some(other) => {
            let why = format!("scope is '{other}': it has to be node or cluster");
            Err(Problem::bad_request(why))
        }
    }
}

/// What this node counts, or all nodes: numbers and histograms, without labels.
#[utoipa::path(
    get, path = "/v1/metrics", operation_id = "metricsInShort", tag = "nodes",
    params(
        ("scope" = inline(Option<Scope>), Query, description = "Of this node, or of all."),
        ("links" = Option<bool>, Query, description = "With each node's links to the others."),
    ),
    responses((status = 200, description = "Of each node.", body = NodeMetrics)),
    extensions(("x-problems" = json!(["no-answer"])))
)]
pub async fn metrics(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<NodeMetrics>, Problem> {
    let [scope, links] = parameters(uri.query(), ["scope", "links"])?;
    let with_links = yes_or_no("links", links)?.unwrap_or(false);
    let mut metrics = match is_of_cluster(scope)? {
        true => context.read(|done| context.api.metrics_of_cluster(done)).await?,
        false => NodeMetrics { nodes: vec![context.api.metrics_summary()], silent: Vec::new() },
    };
    if !with_links {
        // They grow with the square of the nodes.
        metrics.nodes.iter_mut().for_each(|node| node.links.clear());
    }
    Ok(Json(metrics))
}

/// How a shard is to be cut.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// The first slot or key of the new shard; where it parts evenly, if it is left out.
    at: Option<CutAt>,
}

/// Splits a shard.
#[utoipa::path(
    post, path = "/v1/shards/{shard}/split", operation_id = "splitShard", tag = "shards",
    params(("shard" = u64, Path, description = "Its id.")),
    request_body = Cut,
    responses((status = 202, description = "It is being split.", body = SplitStatus)),
    extensions(("x-problems" = json!(["no-shard", "not-leader", "no-split", "no-level"])))
)]
pub async fn split(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let shard = shard_of(&uri, "/split")?;
    let Cut { at } = json(&context, &headers, body).await?;
    let id = context.next_id();
    let cut = context.write(id, |done| context.api.split(shard, at, done)).await?;
    Ok((StatusCode::ACCEPTED, Json(cut)).into_response())
}

/// The shard with which an action is to be done.
fn shard_of(uri: &Uri, action: &str) -> Result<u64, Problem> {
    let path = behind(uri, "/v1/shards/");
    let shard = number("shard", path.strip_suffix(action).unwrap_or(path))?;
    let [] = parameters(uri.query(), [])?;
    Ok(shard)
}

/// Nothing more is to be said.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Merges a shard with its right neighbour.
#[utoipa::path(
    post, path = "/v1/shards/{shard}/merge", operation_id = "mergeShard", tag = "shards",
    params(("shard" = u64, Path, description = "Its id.")),
    request_body = Nothing,
    responses((status = 202, description = "They are being merged.", body = MergeStatus)),
    extensions(("x-problems" = json!(["no-shard", "not-leader", "no-merge", "no-level"])))
)]
pub async fn merge(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<MergeStatus>), Problem> {
    let shard = shard_of(&uri, "/merge")?;
    let Nothing {} = json(&context, &headers, body).await?;
    let id = context.next_id();
    let merged = context.write(id, |done| context.api.merge(shard, done)).await?;
    Ok((StatusCode::ACCEPTED, Json(merged)))
}

/// Decisions of this node about the shards that it leads, or of all nodes; or, with `dry=true`,
/// those that the balancer would make now.
#[utoipa::path(
    get, path = "/v1/decisions", operation_id = "decisions", tag = "nodes",
    params(
        ("dry" = Option<bool>, Query, description = "What would be decided now."),
        ("scope" = inline(Option<Scope>), Query, description = "Of this node, or of all."),
    ),
    responses((status = 200, description = "The oldest first.", body = Decisions)),
    extensions(("x-problems" = json!(["no-answer"])))
)]
pub async fn decisions(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<Decisions>, Problem> {
    let [dry, scope] = parameters(uri.query(), ["dry", "scope"])?;
    let dry = yes_or_no("dry", dry)?.unwrap_or(false);
    match is_of_cluster(scope)? {
        true => Ok(Json(context.read(|done| context.api.decisions_of_cluster(dry, done)).await?)),
        false => Ok(Json(context.api.decisions(dry))),
    }
}

//! The router, what every request passes through, and the small answers: health, metrics, status.

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::context::Shared;
use super::problem::Problem;
use super::uri::parameters;
use super::{cluster, keyspaces, kv, levels, nodes, routes, txn};
use crate::api::Status;

/// Everything that can be asked.
pub fn router(context: Shared) -> Router {
    let keyspace = get(keyspaces::one).patch(keyspaces::alter).delete(keyspaces::remove);
    Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/nodes", get(cluster::nodes))
        .route("/v1/nodes/{node}/{action}", post(nodes::act))
        .route("/v1/shards", get(cluster::shards))
        .route("/v1/shards/{shard}/split", post(cluster::split))
        .route("/v1/shards/{shard}/merge", post(cluster::merge))
        .route("/v1/level", get(levels::show).post(levels::raise))
        .route("/v1/decisions", get(cluster::decisions))
        .route("/v1/keyspaces", get(keyspaces::list).post(keyspaces::create))
        .route("/v1/keyspaces/{name}", keyspace)
        .route("/v1/route/{*rest}", get(routes::show))
        .route("/v1/kv/{*rest}", get(kv::get).put(kv::put).delete(kv::delete))
        .route("/v1/txn", post(txn::transact))
        .route("/v1/txn/begin", post(txn::begin))
        .route("/v1/txn/{id}", post(txn::run).delete(txn::rollback))
        .route("/v1/txn/{id}/commit", post(txn::commit))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(context.clone(), around))
        .with_state(context)
}

/// Refuses strangers' pages, counts, and adds the headers that every reply has.
async fn around(State(context): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = match foreign_host(&context, request.uri(), request.headers()) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    context.count(response.status());
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn foreign_host(context: &Shared, uri: &Uri, headers: &HeaderMap) -> Option<Problem> {
    let host = uri.host().map(str::as_bytes).or(headers.get(HOST).map(HeaderValue::as_bytes))?;
    if !context.loopback || is_local(host) {
        return None;
    }
    Some(Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "foreign-host",
        "Foreign host",
        "this node listens on a loopback address only, and the request names another host",
        "Ask for localhost or an address such as 127.0.0.1 instead of a name.",
    ))
}

/// Whether `host`, with or without a port, is `localhost` or an address, which no page's author
/// can let point elsewhere.
fn is_local(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

async fn live() -> &'static str {
    "live\n"
}

async fn ready(State(context): State<Shared>) -> Result<&'static str, Problem> {
    match context.api.not_ready() {
        None => Ok("ready\n"),
        Some(why) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not-ready",
            "Not ready",
            why,
            "Wait, or look at the node's log.",
        )),
    }
}

async fn metrics(State(context): State<Shared>) -> ([(HeaderName, &'static str); 1], String) {
    let text = context.metrics().prometheus();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

async fn status(State(context): State<Shared>, uri: Uri) -> Result<Json<Status>, Problem> {
    let [] = parameters(uri.query(), [])?;
    Ok(Json(context.api.status()))
}

pub(super) async fn unknown_path(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown-path",
        "Unknown path",
        format!("there is nothing at {path}"),
        "There are /health/live, /health/ready, /metrics, /v1/status, /v1/nodes, \
         /v1/nodes/{node}/{cordon|uncordon|drain|remove}, /v1/shards, \
         /v1/shards/{shard}/{split|merge}, /v1/level, /v1/decisions, /v1/keyspaces, \
         /v1/kv/{keyspace}/{key}, /v1/route/{keyspace}/{key} and /v1/txn.",
    )
}

async fn unknown_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "unknown-method",
        "Unknown method",
        format!("{method} means nothing at {path}"),
        "The header Allow lists the methods that do.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_can_bend_are_local() {
        for host in ["localhost", "LocalHost:7480", "127.0.0.1", "127.0.0.1:1", "[::1]:7480"] {
            assert!(is_local(host.as_bytes()), "{host}");
        }
        for host in ["evil.example", "evil.example:7480", "localhost.evil.example", "", "[::1"] {
            assert_eq!(is_local(host.as_bytes()), host == "[::1", "{host}");
        }
    }
}

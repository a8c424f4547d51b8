//! The router, the checks of every request, and small handlers: health, metrics, status.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, HeaderName, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post, put};
use axum::{Json, Router};

use super::context::Shared;
use super::extension::Extension;
use super::origin::foreign_origin;
use super::problem::{CONTENT_TYPE_OF_PROBLEMS, Problem};
use super::uri::parameters;
use super::{
    auth, cluster, cluster_version, console, dev, events, extension, feed, history, keys,
    keyspaces, kv, linger, locks, nodes, openapi, preconditions, prove, routes, snapshots,
    topic_stream, topics, txn, volumes,
};
use crate::{Status, Surface};

/// What paths of keys begin with.
const KV: &str = "/v1/kv/";
/// The stream of events.
const EVENTS: &str = "/v1/events";
/// Change feeds.
const FEED: &str = "/v1/feed";
/// A group of a topic.
const GROUP: &str = "/v1/topics/{topic}/groups/{group}";

/// A router that knows its paths, for the test that all are in the document.
#[derive(Default)]
struct Routes {
    router: Router<Shared>,
    paths: Vec<&'static str>,
}

impl Routes {
    fn route(mut self, path: &'static str, handlers: MethodRouter<Shared>) -> Self {
        self.paths.push(path);
        Self { router: self.router.route(path, handlers), ..self }
    }
}

/// Endpoints that `openapi` describes.
fn routes() -> Routes {
    let keyspace = get(keyspaces::one).patch(keyspaces::alter).delete(keyspaces::remove);
    let snapshot = put(snapshots::renew).delete(snapshots::release);
    let lock = get(locks::show).post(locks::acquire).put(locks::renew).delete(locks::release);
    Routes::default()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/nodes", get(cluster::nodes))
        .route("/v1/nodes/{node}/{action}", get(nodes::drain).post(nodes::act))
        .route("/v1/shards", get(cluster::shards))
        .route("/v1/shards/{shard}/split", post(cluster::split))
        .route("/v1/shards/{shard}/merge", post(cluster::merge))
        .route("/v1/level", get(cluster_version::show).post(cluster_version::raise))
        .route(EVENTS, get(events::show))
        .route(FEED, get(feed::show))
        .route("/v1/decisions", get(cluster::decisions))
        .route("/v1/prove", get(prove::prove))
        .route("/v1/metrics", get(cluster::metrics))
        .route("/v1/dev", get(dev::show))
        .route("/v1/dev/nodes", post(dev::add))
        .route("/v1/dev/nodes/{node}/{action}", post(dev::act))
        .route("/v1/keyspaces", get(keyspaces::list).post(keyspaces::create))
        .route("/v1/keyspaces/{name}", keyspace)
        .route("/v1/volumes/{volume}/clone", post(volumes::clone))
        .route("/v1/volumes/{volume}/flatten", post(volumes::flatten))
        .route("/v1/keys/{keyspace}", get(keys::list))
        .route("/v1/history/{*rest}", get(history::list))
        .route("/v1/mget", post(snapshots::get_many))
        .route("/v1/snapshots", get(snapshots::list).post(snapshots::take))
        .route("/v1/snapshots/{id}", snapshot)
        .route("/v1/locks", get(locks::list))
        .route("/v1/locks/{name}", lock)
        .route("/v1/topics", get(topics::list).post(topics::create))
        .route("/v1/topics/{topic}", get(topics::show).delete(topics::remove))
        .route("/v1/topics/{topic}/messages", post(topics::publish))
        .route(GROUP, put(topics::subscribe).delete(topics::unsubscribe))
        .route("/v1/topics/{topic}/groups/{group}/take", post(topics::take))
        .route("/v1/topics/{topic}/groups/{group}/ack", post(topics::ack))
        .route("/v1/topics/{topic}/groups/{group}/stream", get(topic_stream::show))
        .route("/v1/gc", get(snapshots::safe_points).post(snapshots::collect))
        .route("/v1/route/{*rest}", get(routes::show))
        .route("/v1/kv/{*rest}", get(kv::get).put(kv::put).delete(kv::delete))
        .route("/v1/txn", post(txn::transact))
        .route("/v1/txn/begin", post(txn::begin))
        .route("/v1/txn/{id}", post(txn::run).delete(txn::rollback))
        .route("/v1/txn/{id}/commit", post(txn::commit))
}

/// The router of all endpoints, those of an extension included.
pub fn router(context: Shared, extension: Option<&Arc<dyn Extension>>) -> Router {
    let more = extension.map(extension::routes).unwrap_or_default();
    let routes = routes().router;
    routes
        .route(openapi::PATH, get(openapi::show))
        .merge(console::routes())
        .merge(more)
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(context.clone(), with_common_checks))
        .with_state(context)
}

/// Refuses strangers' pages and what no handler judges, counts, and adds the headers that every
/// reply has.
async fn with_common_checks(
    State(context): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let refused = bad_host(&request)
        .or_else(|| foreign_host(&context, request.uri(), request.headers()))
        .or_else(|| auth::stranger(&context, &request))
        .or_else(|| foreign_origin(&request, &[EVENTS, FEED, stream_of(&request)]))
        .or_else(|| unjudged(&request));
    let (request, body) = linger::watched(request);
    let mut response = match refused {
        Some(problem) => problem.into_response(),
        None => as_problem(next.run(request).await).await,
    };
    context.count(response.status());
    let headers = response.headers_mut();
    // The connection ends with this reply, for what is left of the body is no request.
    if !body.was_read() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The path of a stream that pages of other sites may not open: this one, if it is such a path.
fn stream_of(request: &Request) -> &str {
    let path = request.uri().path();
    if topic_stream::is_stream(path) { path } else { EVENTS }
}

/// HTTP/1.1 has each request name one host (RFC 9112, 3.2).
fn bad_host(request: &Request) -> Option<Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let why = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() < Version::HTTP_11 => return None,
        (None, _) => "the header Host is missing",
        (Some(_), Some(_)) => "there is more than one header Host",
        (Some(host), None) => {
            let is_host = |host: &Authority| !host.as_str().contains('@');
            let parsed = Authority::try_from(host.as_bytes());
            if host.is_empty() || parsed.as_ref().is_ok_and(is_host) {
                return None;
            }
            "the header Host is no host, with or without a port"
        }
    };
    Some(Problem::bad_request(why))
}

/// Refuses a precondition on a resource without entity tags: to ignore it would be wrong.
fn unjudged(request: &Request) -> Option<Problem> {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    if is_read || request.uri().path().starts_with(KV) || !preconditions::has_any(request.headers())
    {
        return None;
    }
    Some(Problem::bad_request(format!(
        "If-Match and If-None-Match are judged at {KV}{{keyspace}}/{{key}} only"
    )))
}

/// Turns a refusal of the libraries, with their short text, into a problem.
async fn as_problem(response: Response) -> Response {
    /// They say a sentence.
    const LIBRARY_TEXT_BYTES_MAX: usize = 4 << 10;
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_problem = kind == Some(CONTENT_TYPE_OF_PROBLEMS.as_bytes());
    if is_problem || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let text = axum::body::to_bytes(response.into_body(), LIBRARY_TEXT_BYTES_MAX).await;
    let text = text.unwrap_or_default();
    Problem::of_library(status, &String::from_utf8_lossy(&text)).into_response()
}

fn foreign_host(context: &Shared, uri: &Uri, headers: &HeaderMap) -> Option<Problem> {
    let host = uri.host().map(str::as_bytes).or(headers.get(HOST).map(HeaderValue::as_bytes))?;
    if !context.loopback || is_local(host) {
        return None;
    }
    Some(Problem::new(
        StatusCode::FORBIDDEN,
        "foreign-host",
        "Foreign host",
        "this node listens on a loopback address only, and the request names another host",
        "Ask for localhost or an address such as 127.0.0.1 instead of a name.",
    ))
}

/// Whether `host`, with or without a port, is `localhost` or an address, which no page's author
/// can let point elsewhere.
fn is_local(host: &[u8]) -> bool {
    let Some(name) = host_name(host) else { return false };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

/// A host without its port, if it is text.
pub(super) fn host_name(host: &[u8]) -> Option<&str> {
    let host = std::str::from_utf8(host).ok()?;
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    }
}

/// Whether the process runs.
#[utoipa::path(
    get, path = "/health/live", operation_id = "live", tag = "health",
    responses((status = 200, description = "It runs.", body = String, content_type = "text/plain"))
)]
async fn live() -> &'static str {
    "live\n"
}

/// Whether the node serves.
#[utoipa::path(
    get, path = "/health/ready", operation_id = "ready", tag = "health",
    responses((status = 200, description = "It does.", body = String, content_type = "text/plain")),
    extensions(("x-problems" = json!(["not-ready"])))
)]
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

/// What the node counts, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "health",
    responses((
        status = 200, description = "The text format of Prometheus, version 0.0.4.",
        body = String, content_type = "text/plain"
    ))
)]
async fn metrics(State(context): State<Shared>) -> ([(HeaderName, &'static str); 1], String) {
    let text = context.metrics().prometheus();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// How the node is, and whether all is well.
#[utoipa::path(
    get, path = "/v1/status", operation_id = "status", tag = "health",
    responses((status = 200, description = "How it is.", body = Status))
)]
async fn status(State(context): State<Shared>, uri: Uri) -> Result<Json<Status>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let mut status = context.api.status();
    if context.dev_control().is_some() {
        status.surfaces.push(Surface::Dev.name().to_owned());
    }
    Ok(Json(status))
}

pub(super) async fn unknown_path(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown-path",
        "Unknown path",
        format!("there is nothing at {path}"),
        "There are / (the console), /openapi.json, /health/live, /health/ready, /metrics, \
         /v1/status, /v1/nodes, \
         /v1/nodes/{node}/{cordon|uncordon|drain|remove}, /v1/shards, \
         /v1/shards/{shard}/{split|merge}, /v1/level, /v1/decisions, /v1/prove, /v1/metrics, \
         /v1/events, /v1/feed, /v1/keyspaces, \
         /v1/keyspaces/{name}, /v1/volumes/{volume}/{clone|flatten}, \
         /v1/keys/{keyspace}, /v1/kv/{keyspace}/{key}, \
         /v1/history/{keyspace}/{key}, /v1/locks, /v1/locks/{name}, /v1/topics, \
         /v1/topics/{topic}, /v1/topics/{topic}/groups/{group}, /v1/route/{keyspace}/{key}, \
         /v1/mget, /v1/snapshots, /v1/snapshots/{id}, /v1/gc, /v1/txn, /v1/txn/begin, \
         /v1/txn/{id} and \
         /v1/txn/{id}/commit; under `carillon dev` also /v1/dev, /v1/dev/nodes and \
         /v1/dev/nodes/{node}/{start|stop|kill|pause|resume}.",
    )
}

async fn unknown_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "unknown-method",
        "Unknown method",
        format!("the method {method} is not supported at {path}"),
        "The header Allow lists the methods that are.",
    )
}

#[cfg(test)]
mod tests {
    use utoipa::OpenApi;

    use super::*;

    #[test]
    fn every_path_is_in_the_document() {
        let mut paths = routes().paths;
        for path in &mut paths {
            *path = match *path {
                "/v1/kv/{*rest}" => "/v1/kv/{keyspace}/{key}",
                "/v1/route/{*rest}" => "/v1/route/{keyspace}/{key}",
                "/v1/history/{*rest}" => "/v1/history/{keyspace}/{key}",
                path => path,
            };
        }
        paths.sort_unstable();
        let document = openapi::Api::openapi();
        let mut documented: Vec<&str> = document.paths.paths.keys().map(String::as_str).collect();
        documented.sort_unstable();
        assert_eq!(paths, documented, "a new handler goes into `openapi::Api`");
    }

    #[test]
    fn only_localhost_and_ip_addresses_are_local_hosts() {
        for host in ["localhost", "LocalHost:7480", "127.0.0.1", "127.0.0.1:1", "[::1]:7480"] {
            assert!(is_local(host.as_bytes()), "{host}");
        }
        for host in ["evil.example", "evil.example:7480", "localhost.evil.example", "", "[::1"] {
            assert_eq!(is_local(host.as_bytes()), host == "[::1", "{host}");
        }
    }
}

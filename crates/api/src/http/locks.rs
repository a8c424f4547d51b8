//! Locks with fencing tokens: `/v1/locks`.
//!
//! A request that waits looks again when the lock changes (`super::waiting`). There is no order
//! among those who wait.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::context::Shared;
use super::keyspaces::json;
use super::openapi::WholeNumber;
use super::problem::Problem;
use super::txn::{Number, TIMES};
use super::uri::{number, parameters};
use super::waiting::Awaited;
use crate::{ApiError, LOCKS_PAGE_MAX, LockInfo, LockSpec};

/// A lease, unless it says otherwise.
const TTL_MS: u64 = 30_000;
/// A request waits for a lock at most so long.
pub const WAIT_MS_MAX: u64 = 60_000;
/// Locks of a page, unless another number is asked for.
const LIMIT: u64 = 100;

/// `POST /v1/locks/{name}`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireBody {
    /// Who; one who has it already keeps it, and its lease is renewed. Somebody new, if not given.
    owner: Option<String>,
    /// The lease, in ms: 30 s, unless it says otherwise.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
    /// How long to wait for it, in ms: not at all, unless it says otherwise.
    #[schema(maximum = 60_000)]
    wait_ms: Option<u64>,
}

/// `PUT /v1/locks/{name}`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewLockBody {
    /// The holder's token.
    #[schema(value_type = WholeNumber)]
    token: Number,
    /// The lease from now on, in ms: 30 s, unless it says otherwise.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
}

/// Locks that are held.
#[derive(Serialize, ToSchema)]
pub struct LockPage {
    /// By name.
    locks: Vec<LockInfo>,
    /// What `after` of the next page is; `null`: this was the last one.
    #[schema(required = true)]
    next: Option<String>,
}

/// Checks how long a request waits.
pub(super) fn wait_of(wait_ms: Option<u64>) -> Result<Duration, Problem> {
    let wait_ms = wait_ms.unwrap_or_default();
    if wait_ms > WAIT_MS_MAX {
        let why = format!("wait_ms is {wait_ms}, and may be {WAIT_MS_MAX}");
        return Err(Problem::bad_request(why));
    }
    Ok(Duration::from_millis(wait_ms))
}

/// Takes a lock, or waits for it. Its token is larger than those of all holders before.
#[utoipa::path(
    post, path = "/v1/locks/{name}", operation_id = "acquireLock", tag = "locks",
    params(("name" = String, Path, description = "Its name.")),
    request_body = AcquireBody,
    responses((status = 200, description = "It is held.", body = LockInfo)),
    extensions(("x-problems" = json!([
        "lock-held", "lock-lost", "bad-topic", "topic-refused", "transaction-too-large",
        "too-many-transactions", "no-keyspace", "no-level", "out-of-memory", "bad-keyspace"
    ])))
)]
pub async fn acquire(
    State(context): State<Shared>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<LockInfo>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let body: AcquireBody = json(&context, &headers, body).await?;
    let until = Instant::now() + wait_of(body.wait_ms)?;
    let (owner, ttl_ms) = (body.owner, body.ttl_ms.unwrap_or(TTL_MS));
    loop {
        let (id, since) = (context.next_id(), context.api.moment());
        let spec = LockSpec { owner: owner.clone(), ttl_ms };
        let asked =
            context.change(TIMES, id, |done| context.api.lock_acquire(id, &name, spec, done));
        match asked.await {
            Err(ApiError::LockHeld { .. }) if Instant::now() < until => {
                Awaited::Lock(&name).wait(&context, since, until).await;
            }
            done => return Ok(Json(done?)),
        }
    }
}

/// Who holds a lock.
#[utoipa::path(
    get, path = "/v1/locks/{name}", operation_id = "lock", tag = "locks",
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "It is held.", body = LockInfo)),
    extensions(("x-problems" = json!([
        "nil", "bad-topic", "topic-refused", "no-keyspace", "no-level", "loading", "stopping",
        "busy", "no-answer", "too-many-transactions", "bad-keyspace"
    ])))
)]
pub async fn show(
    State(context): State<Shared>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<LockInfo>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let held = context.read(|done| context.api.lock(&name, done)).await?;
    held.map(Json).ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "nil",
            "Not held",
            "nobody holds the lock",
            "Acquire it with `carillon lock` (POST /v1/locks/{name}).",
        )
    })
}

/// Has a lease last for so long from now on.
#[utoipa::path(
    put, path = "/v1/locks/{name}", operation_id = "renewLock", tag = "locks",
    params(("name" = String, Path, description = "Its name.")),
    request_body = RenewLockBody,
    responses((status = 200, description = "It is held on, with the same token.", body = LockInfo)),
    extensions(("x-problems" = json!([
        "lock-lost", "bad-topic", "topic-refused", "too-many-transactions", "no-keyspace",
        "no-level", "out-of-memory", "transaction-too-large", "bad-keyspace"
    ])))
)]
pub async fn renew(
    State(context): State<Shared>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<LockInfo>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let body: RenewLockBody = json(&context, &headers, body).await?;
    let (id, token) = (context.next_id(), body.token.unsigned("token")?);
    let ttl_ms = body.ttl_ms.unwrap_or(TTL_MS);
    let renew = |done| context.api.lock_renew(id, &name, token, ttl_ms, done);
    Ok(Json(context.change(TIMES, id, renew).await?))
}

/// Releases a lock.
#[utoipa::path(
    delete, path = "/v1/locks/{name}", operation_id = "releaseLock", tag = "locks",
    params(
        ("name" = String, Path, description = "Its name."),
        ("token" = String, Query, description = "The holder's token."),
    ),
    responses((status = 204, description = "Nobody holds it.")),
    extensions(("x-problems" = json!([
        "lock-lost", "bad-topic", "topic-refused", "too-many-transactions", "no-keyspace",
        "no-level", "transaction-too-large", "bad-keyspace"
    ])))
)]
pub async fn release(
    State(context): State<Shared>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let [token] = parameters(uri.query(), ["token"])?;
    let token = token.ok_or_else(|| Problem::bad_request("the parameter token is missing"))?;
    let (id, token) = (context.next_id(), number("token", &token)?);
    context.change(TIMES, id, |done| context.api.lock_release(id, &name, token, done)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Locks that are held, page by page.
#[utoipa::path(
    get, path = "/v1/locks", operation_id = "locks", tag = "locks",
    params(
        ("prefix" = Option<String>, Query, description = "What names begin with."),
        ("after" = Option<String>, Query, description = "`next` of the page before."),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "So many."),
    ),
    responses((status = 200, description = "A page, by name.", body = LockPage)),
    extensions(("x-problems" = json!([
        "bad-topic", "operation-refused", "no-keyspace", "no-level", "loading", "stopping",
        "busy", "no-answer", "too-many-transactions", "transaction-too-large", "bad-keyspace"
    ])))
)]
pub async fn list(State(context): State<Shared>, uri: Uri) -> Result<Json<LockPage>, Problem> {
    let [prefix, after, limit] = parameters(uri.query(), ["prefix", "after", "limit"])?;
    let limit = limit.map(|text| number("limit", &text)).transpose()?.unwrap_or(LIMIT);
    if !(1..=LOCKS_PAGE_MAX as u64).contains(&limit) {
        let why = format!("limit is {limit}: it has to be from 1 to {LOCKS_PAGE_MAX}");
        return Err(Problem::bad_request(why));
    }
    let (prefix, limit) = (prefix.unwrap_or_default(), limit as usize);
    let ask = |done| context.api.locks(&prefix, after.as_deref(), limit, done);
    let locks = context.read(ask).await?;
    let is_full = locks.len() >= limit;
    let next = locks.last().filter(|_| is_full).map(|lock| lock.name.clone());
    Ok(Json(LockPage { locks, next }))
}

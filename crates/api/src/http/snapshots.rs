//! Snapshots and safe points: `/v1/snapshots`, `/v1/gc`; several keys at one time: `/v1/mget`.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use bytes::Bytes;
use keyspace::leases::{LEASE_MS_DEFAULT, LEASE_MS_MAX};
use keyspace::{Moment, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::context::{Context, Shared};
use super::keyspaces::{json, json_within};
use super::problem::Problem;
use super::txn::{BODY_BYTES_MAX, BoundedList, Bytes64, Text, too_long};
use super::uri::{moment, name_behind, number, parameters};
use crate::{
    AHEAD_MS_MAX, Answer, ApiError, GET_MANY_KEYS_MAX, SafePointInfo, SnapshotInfo, SnapshotSpec,
    Txn, TxnOp, TxnResult,
};

/// A snapshot whose time is further ahead is not waited for: some clock is wrong.
const TAKEN_AHEAD_MS_MAX: u64 = 2_000;

impl Context {
    /// The time that a client has named. One that is a little ahead is waited for.
    ///
    /// # Errors
    /// If it is no time, a snapshot of another cluster, or too far ahead.
    pub async fn resolve(&self, text: &str) -> Result<Timestamp, Problem> {
        let now = Timestamp::from_millis(self.api.now_millis());
        let at = moment(text)?.resolve(now, self.api.cluster_id());
        let at = at.map_err(|why| Problem::bad_request(format!("at is {text:?}: {why}")))?;
        if at.millis() > now.millis().saturating_add(AHEAD_MS_MAX) {
            return Err(ApiError::InFuture { at, now }.into());
        }
        // Until its millisecond has passed: within it the node's clock may still be behind it. The
        // service judges once more.
        self.passed(at.millis()).await;
        Ok(at)
    }

    /// Waits until a millisecond has passed here.
    async fn passed(&self, millis: u64) {
        let ahead = (millis + 1).saturating_sub(self.api.now_millis());
        if ahead > 0 {
            tokio::time::sleep(Duration::from_millis(ahead)).await;
        }
    }
}

/// `POST /v1/snapshots`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotBody {
    /// Its keyspaces; all, if none is named.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 1024)]
    keyspaces: BoundedList<String>,
    /// Its time, as `at` of `get` takes it; now, if none is named.
    at: Option<String>,
    /// For how long it is kept, in ms; ten minutes, unless it says otherwise.
    #[schema(minimum = 1, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
}

/// `PUT /v1/snapshots/{id}`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewBody {
    /// For how long from now on, in ms; ten minutes, unless it says otherwise.
    #[schema(minimum = 1, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
}

/// All snapshots.
#[derive(Serialize, ToSchema)]
#[schema(as = SnapshotList)]
pub struct List {
    snapshots: Vec<SnapshotInfo>,
}

/// Takes a snapshot: its token is a time that every read takes, and that stays readable.
#[utoipa::path(
    post, path = "/v1/snapshots", operation_id = "takeSnapshot", tag = "snapshots",
    request_body = SnapshotBody,
    responses((status = 201, description = "It is kept.", body = SnapshotInfo)),
    extensions(("x-problems" = json!([
        "no-keyspace", "below-safe-point", "in-future", "snapshot-refused", "no-level", "no-answer"
    ])))
)]
pub async fn take(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<SnapshotInfo>), Problem> {
    let [] = parameters(uri.query(), [])?;
    let body: SnapshotBody = json(&context, &headers, body).await?;
    let at = match &body.at {
        Some(text) => Some(context.resolve(text).await?),
        None => None,
    };
    let spec = SnapshotSpec { keyspaces: body.keyspaces.0, at, ttl_ms: duration(body.ttl_ms)? };
    let id = context.next_id();
    let taken = context.write(id, |done| context.api.snapshot_take(spec, done)).await?;
    // A leader may be ahead: as one whose predecessor had logged a horizon, by about a second. Any
    // node is to take the token at once.
    context.passed(taken.at_ms.min(context.api.now_millis() + TAKEN_AHEAD_MS_MAX)).await;
    Ok((StatusCode::CREATED, Json(taken)))
}

/// All snapshots that are kept.
#[utoipa::path(
    get, path = "/v1/snapshots", operation_id = "snapshots", tag = "snapshots",
    responses((status = 200, description = "In the order in which they were taken.", body = List)),
    extensions(("x-problems" = json!(["no-level", "loading", "busy", "no-answer"])))
)]
pub async fn list(State(context): State<Shared>, uri: Uri) -> Result<Json<List>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let snapshots = context.read(|done| context.api.snapshots(done)).await?;
    Ok(Json(List { snapshots }))
}

/// Keeps a snapshot for longer. What is left of its time is never cut.
#[utoipa::path(
    put, path = "/v1/snapshots/{id}", operation_id = "renewSnapshot", tag = "snapshots",
    params(("id" = String, Path, description = "Its number or token.")),
    request_body = RenewBody,
    responses((status = 200, description = "As it is from now on.", body = SnapshotInfo)),
    extensions(("x-problems" = json!(["no-snapshot", "no-level"])))
)]
pub async fn renew(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<SnapshotInfo>, Problem> {
    let snapshot = named(&context, &uri)?;
    let body: RenewBody = json(&context, &headers, body).await?;
    let (id, ttl_ms) = (context.next_id(), duration(body.ttl_ms)?);
    let renewed =
        context.write(id, |done| context.api.snapshot_renew(snapshot, ttl_ms, done)).await?;
    Ok(Json(renewed))
}

/// Releases a snapshot.
#[utoipa::path(
    delete, path = "/v1/snapshots/{id}", operation_id = "releaseSnapshot", tag = "snapshots",
    params(("id" = String, Path, description = "Its number or token.")),
    responses((status = 204, description = "It is kept no longer.")),
    extensions(("x-problems" = json!(["no-snapshot", "no-level"])))
)]
pub async fn release(State(context): State<Shared>, uri: Uri) -> Result<StatusCode, Problem> {
    let snapshot = named(&context, &uri)?;
    let id = context.next_id();
    context.write(id, |done| context.api.snapshot_release(snapshot, done)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The snapshot that a path names.
fn named(context: &Context, uri: &Uri) -> Result<u64, Problem> {
    let text = name_behind(uri, "/v1/snapshots/")?;
    if !text.starts_with("snap-") {
        return number("id", &text);
    }
    let named = moment(&text)?;
    let of_it = named.resolve(Timestamp::ZERO, context.api.cluster_id());
    of_it.map_err(|why| Problem::bad_request(format!("id is {text:?}: {why}")))?;
    match named {
        Moment::Snapshot(token) => Ok(token.lease),
        Moment::At(_) | Moment::Ago(_) => number("id", &text),
    }
}

fn duration(ttl_ms: Option<u64>) -> Result<u64, Problem> {
    let ttl_ms = ttl_ms.unwrap_or(LEASE_MS_DEFAULT);
    if !(1..=LEASE_MS_MAX).contains(&ttl_ms) {
        let why = format!("ttl_ms is {ttl_ms}: it has to be from 1 to {LEASE_MS_MAX}");
        return Err(Problem::bad_request(why));
    }
    Ok(ttl_ms)
}

/// Safe points of all keyspaces.
#[derive(Serialize, ToSchema)]
#[schema(as = SafePointList)]
pub struct SafePoints {
    keyspaces: Vec<SafePointInfo>,
}

/// `POST /v1/gc`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectBody {
    /// The keyspaces; all, if none is named.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 1024)]
    keyspaces: BoundedList<String>,
    /// Up to when, as `at` of `get` takes it; now, if none is named. Retention does not count.
    at: Option<String>,
}

/// From when on keyspaces can be read, and what holds that.
#[utoipa::path(
    get, path = "/v1/gc", operation_id = "safePoints", tag = "snapshots",
    responses((status = 200, description = "By keyspace.", body = SafePoints)),
    extensions(("x-problems" = json!(["no-level", "loading", "busy", "no-answer"])))
)]
pub async fn safe_points(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<SafePoints>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let keyspaces = context.read(|done| context.api.safe_points(done)).await?;
    Ok(Json(SafePoints { keyspaces }))
}

/// Asks that old versions be collected, within the retention too, but none that a snapshot holds.
/// Shards follow soon after.
#[utoipa::path(
    post, path = "/v1/gc", operation_id = "collect", tag = "snapshots",
    request_body = CollectBody,
    responses((status = 200, description = "As it was just before.", body = SafePoints)),
    extensions(("x-problems" = json!(["no-keyspace", "in-future", "no-level", "no-answer"])))
)]
pub async fn collect(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<SafePoints>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let body: CollectBody = json(&context, &headers, body).await?;
    let at = match &body.at {
        Some(text) => context.resolve(text).await?,
        None => Timestamp::from_millis(context.api.now_millis()),
    };
    let keyspaces = body.keyspaces.0;
    let keyspaces = context.read(|done| context.api.collect(keyspaces, at, done)).await?;
    Ok(Json(SafePoints { keyspaces }))
}

/// `POST /v1/mget`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GetManyBody {
    /// Whose keys it names.
    keyspace: String,
    /// The keys.
    #[schema(value_type = Vec<super::openapi::Text>, max_items = 1024)]
    keys: BoundedList<Bytes64>,
    /// Their time, as `at` of `get` takes it; the newest values, if none is named.
    at: Option<String>,
}

/// Values of several keys, as of one time.
#[derive(Serialize, ToSchema)]
#[schema(as = GetManyDone)]
pub struct Values {
    /// The time that was asked for, as digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    at: Option<String>,
    /// One for each key, in their order.
    values: Vec<KeyValue>,
}

/// What a key had.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyState {
    /// A value.
    Value,
    /// None.
    Nil,
    /// None then, but one later.
    NilYet,
}

/// A key and its value.
#[derive(Serialize, ToSchema)]
#[schema(as = GetManyValue)]
pub struct KeyValue {
    /// What it had.
    state: KeyState,
    /// The value; `null`: none.
    #[schema(required = true, value_type = Option<super::openapi::Text>)]
    value: Option<Value>,
    /// When it was written, as digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    version: Option<String>,
    /// When it ends, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    expires_at_ms: Option<u64>,
}

struct Value(Bytes);

impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Text(&self.0).serialize(serializer)
    }
}

impl KeyValue {
    fn none(state: KeyState) -> Self {
        Self { state, value: None, version: None, expires_at_ms: None }
    }

    fn of(answer: Answer) -> Self {
        match answer {
            Answer::Value { value, timestamp, expires_at_ms } => Self {
                state: KeyState::Value,
                value: Some(Value(value)),
                version: Some(timestamp.0.to_string()),
                expires_at_ms,
            },
            Answer::NilYet => Self::none(KeyState::NilYet),
            _ => Self::none(KeyState::Nil),
        }
    }
}

/// Values of several keys: as of one past time, or the newest as of one moment.
#[utoipa::path(
    post, path = "/v1/mget", operation_id = "getMany", tag = "keys",
    request_body = GetManyBody,
    responses((status = 200, description = "The values.", body = Values)),
    extensions(("x-problems" = json!([
        "no-keyspace", "key-too-long", "below-safe-point", "in-future", "transaction-too-large",
        "too-many-transactions", "no-level", "no-answer"
    ])))
)]
pub async fn get_many(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Values>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let (body, _room): (GetManyBody, _) =
        json_within(&context, &headers, body, BODY_BYTES_MAX, too_long).await?;
    let keys: Vec<Bytes> = body.keys.0.into_iter().map(|key| key.0).collect();
    let bytes_max = context.options.key_bytes_max;
    if let Some(long) = keys.iter().find(|key| key.len() as u64 > bytes_max) {
        return Err(ApiError::KeyTooLong { bytes: long.len() as u64, bytes_max }.into());
    }
    const { assert!(GET_MANY_KEYS_MAX <= super::txn::OPS_MAX) };
    let keyspace = body.keyspace;
    let Some(text) = body.at else {
        let then = keys.into_iter().map(|key| TxnOp::Get { key }).collect();
        let txn = Txn { keyspace, compare: Vec::new(), then, otherwise: Vec::new() };
        let id = context.next_id();
        let done = context.read(|done| context.api.transact(id, txn, done)).await?;
        let values = done.results.into_iter().map(|result| match result {
            TxnResult::Value { value, version } => KeyValue {
                state: KeyState::Value,
                value: Some(Value(value)),
                version: version.map(|version| version.0.to_string()),
                expires_at_ms: None,
            },
            _ => KeyValue::none(KeyState::Nil),
        });
        return Ok(Json(Values { at: None, values: values.collect() }));
    };
    let at = context.resolve(&text).await?;
    let found = context.read(|done| context.api.get_many(&keyspace, keys, at, done)).await?;
    let values = found.into_iter().map(KeyValue::of).collect();
    Ok(Json(Values { at: Some(at.0.to_string()), values }))
}

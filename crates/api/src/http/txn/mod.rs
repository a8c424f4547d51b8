//! Transactions: `/v1/txn`.
//!
//! ```text
//!   POST   /v1/txn              {keyspace, compare, then, else}: all of it in one request
//!   POST   /v1/txn/begin        {keyspace, timeout_ms}: one that is gone through step by step
//!   POST   /v1/txn/{id}         {do}: operations of that
//!   POST   /v1/txn/{id}/commit  {}
//!   DELETE /v1/txn/{id}         rollback
//! ```
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | operations in one list | [`OPS_MAX`] | 400 |
//! | bytes of a body | [`BODY_BYTES_MAX`] | 413 |
//! | time without a request | [`TIMEOUT_MS`] unless asked for, at most [`TIMEOUT_MS_MAX`] | it ends |
//!
//! Others are those of `service::txn` and `runtime::open_txns`.

mod json;
mod result_json;

pub(super) use json::{BoundedList, Bytes64, Number};
pub(super) use result_json::Text;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::cluster::Nothing;
use super::context::{Context, Shared};
use super::keyspaces::json_within;
use super::openapi;
use super::problem::Problem;
use super::uri::parameters;
use crate::{ApiError, Done, RequestId};
use json::{BeginBody, DoBody, TxnBody, TxnParser};
use result_json::{Results, TxnShown};

/// Operations, or conditions, in one list of a request.
pub const OPS_MAX: usize = 1024;
/// The longest body.
pub const BODY_BYTES_MAX: u64 = 16 << 20;
/// A transaction ends after so long without a request, …
pub const TIMEOUT_MS: u64 = 10_000;
/// … or after what is asked for, up to this.
pub const TIMEOUT_MS_MAX: u64 = 600_000;

/// A transaction may take so many request timeouts. Its reads take at most one, attempts may begin
/// in another, and the coordinator takes at most two to report the outcome of the last attempt.
pub(super) const TIMES: u32 = 4;

/// A transaction that was begun.
#[derive(Serialize, ToSchema)]
pub struct BegunTxn {
    /// Its name in further requests.
    id: String,
    /// Without a request for so long it ends.
    timeout_ms: u64,
}

/// One that was committed.
#[derive(Serialize, ToSchema)]
pub struct CommittedTxn {
    /// Always.
    #[schema(schema_with = openapi::always)]
    committed: bool,
}

impl Context {
    fn judge(&self) -> TxnParser<'_> {
        TxnParser { options: &self.options, now_ms: self.api.now_millis() }
    }

    async fn run_until_ended<T: Send + 'static>(
        &self,
        id: RequestId,
        ask: impl FnOnce(Done<T>),
    ) -> Result<T, Problem> {
        let answer = self.wait_for(TIMES, ask).await.unwrap_or(Err(ApiError::Unknown { id }));
        // Of what is not open there is nothing to be told but to the client.
        if let Err(ApiError::Unknown { .. }) = &answer {
            tracing::warn!(%id, "the outcome of a transaction is unknown to its client");
        }
        Ok(answer?)
    }
}

/// Compares, then does the one or the other: all of it at one moment.
#[utoipa::path(
    post, path = "/v1/txn", operation_id = "transact", tag = "transactions",
    request_body = TxnBody,
    responses((status = 200, description = "It is done.", body = TxnShown)),
    extensions(("x-problems" = json!([
        "no-keyspace", "key-too-long", "value-too-long", "operation-refused", "conflict",
        "transaction-too-large", "too-many-transactions", "out-of-memory"
    ])))
)]
pub async fn transact(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let [] = parameters(uri.query(), [])?;
    let (body, _room): (TxnBody, _) =
        json_within(&context, &headers, body, BODY_BYTES_MAX, too_long).await?;
    let txn = context.judge().txn(body)?;
    let id = context.next_id();
    let done = context.run_until_ended(id, |done| context.api.transact(id, txn, done)).await?;
    Ok(Json(TxnShown::from(&done)).into_response())
}

/// Begins a transaction that takes several requests.
#[utoipa::path(
    post, path = "/v1/txn/begin", operation_id = "begin", tag = "transactions",
    request_body = BeginBody,
    responses((status = 201, description = "It is open.", body = BegunTxn)),
    extensions(("x-problems" = json!([
        "no-keyspace", "too-many-transactions", "loading", "stopping", "busy", "no-answer"
    ])))
)]
pub async fn begin(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<BegunTxn>), Problem> {
    let [] = parameters(uri.query(), [])?;
    let (body, _room): (BeginBody, _) =
        json_within(&context, &headers, body, BODY_BYTES_MAX, too_long).await?;
    let timeout_ms = body.timeout_ms.unwrap_or(TIMEOUT_MS);
    if !(1..=TIMEOUT_MS_MAX).contains(&timeout_ms) {
        let detail = format!("timeout_ms is {timeout_ms}, and may be 1 to {TIMEOUT_MS_MAX}");
        return Err(Problem::bad_request(detail));
    }
    // One that nobody hears of ends by itself.
    let begin = |done| context.api.txn_begin(&body.keyspace, timeout_ms, done);
    let id = context.read(begin).await?;
    Ok((StatusCode::CREATED, Json(BegunTxn { id, timeout_ms })))
}

/// Runs operations of a transaction.
#[utoipa::path(
    post, path = "/v1/txn/{id}", operation_id = "run", tag = "transactions",
    params(("id" = String, Path, description = "Its name.")),
    request_body = DoBody,
    responses((status = 200, description = "What each has come to.", body = Results)),
    extensions(("x-problems" = json!([
        "no-transaction", "key-too-long", "value-too-long", "operation-refused", "conflict",
        "transaction-in-use", "transaction-too-large", "too-many-transactions", "no-keyspace",
        "loading", "stopping", "busy", "no-answer"
    ])))
)]
pub async fn run(
    State(context): State<Shared>,
    Path(txn): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let [] = parameters(uri.query(), [])?;
    let (body, _room): (DoBody, _) =
        json_within(&context, &headers, body, BODY_BYTES_MAX, too_long).await?;
    let ops = context.judge().of(body)?;
    match context.wait_for(TIMES, |done| context.api.txn_run(&txn, ops, done)).await {
        Some(results) => Ok(Json(Results::from(&results?[..])).into_response()),
        None => {
            // Nobody knows how far it has come. It may have ended already.
            let _gone = context.api.txn_rollback(&txn);
            Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "no-answer",
                "No answer",
                "the node did not answer in time, and has rolled the transaction back",
                "Nothing was done: begin again.",
            ))
        }
    }
}

/// Commits a transaction: all of it is done, or nothing.
#[utoipa::path(
    post, path = "/v1/txn/{id}/commit", operation_id = "commit", tag = "transactions",
    params(("id" = String, Path, description = "Its name.")),
    request_body = Nothing,
    responses((status = 200, description = "It is done.", body = CommittedTxn)),
    extensions(("x-problems" = json!([
        "no-transaction", "conflict", "transaction-in-use", "transaction-too-large",
        "no-keyspace", "out-of-memory"
    ])))
)]
pub async fn commit(
    State(context): State<Shared>,
    Path(txn): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CommittedTxn>, Problem> {
    let [] = parameters(uri.query(), [])?;
    let (Nothing {}, _room) =
        json_within(&context, &headers, body, BODY_BYTES_MAX, too_long).await?;
    let id = context.next_id();
    context.run_until_ended(id, |done| context.api.txn_commit(id, &txn, done)).await?;
    Ok(Json(CommittedTxn { committed: true }))
}

/// Rolls a transaction back: nothing of it is done.
#[utoipa::path(
    delete, path = "/v1/txn/{id}", operation_id = "rollback", tag = "transactions",
    params(("id" = String, Path, description = "Its name.")),
    responses((status = 204, description = "It is over.")),
    extensions(("x-problems" = json!(["no-transaction", "transaction-in-use"])))
)]
pub async fn rollback(
    State(context): State<Shared>,
    Path(txn): Path<String>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let [] = parameters(uri.query(), [])?;
    context.api.txn_rollback(&txn)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn too_long(bytes: u64, bytes_max: u64) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body-too-long",
        "Body too long",
        format!("the body has {bytes} bytes, and may have {bytes_max}"),
        "Do it in several transactions, or in several requests of one (POST /v1/txn/begin).",
    )
}

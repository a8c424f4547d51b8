//! Single keys: `/v1/kv/{keyspace}/{key}`.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use keyspace::Timestamp;
use utoipa::ToSchema;

use super::body;
use super::context::{Context, Shared};
use super::preconditions::{Preconditions, ReadVerdict, tag};
use super::problem::Problem;
use super::reply_room::{ReplyRoom, sent};
use super::routes;
use super::uri::{decode, decode_text, key_parameters, number};
use crate::{Answer, ApiError, Command, Condition};

/// What must be so for a value to be put.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "its words are in the document; the handler reads the query")]
pub enum PutIf {
    /// The key has no value.
    Absent,
    /// It has one.
    Present,
}

const TIMESTAMP: HeaderName = HeaderName::from_static("carillon-timestamp");
const AGE_MS: HeaderName = HeaderName::from_static("carillon-age-ms");
const EXPIRES_AT_MS: HeaderName = HeaderName::from_static("carillon-expires-at-ms");

/// The value of a key as it is; its tag, when it was written and when it ends in headers.
#[utoipa::path(
    get, path = "/v1/kv/{keyspace}/{key}", operation_id = "get", tag = "keys",
    params(
        ("keyspace" = String, Path, description = "Its name."),
        ("key" = String, Path, description = "The key: any bytes. It may be empty, and stand as \
            the parameter `key` instead: programs take `.` and `..` out of paths."),
        ("at" = Option<String>, Query, description = "The value of then: a timestamp; \
            milliseconds since 1970 with `ms` behind them; a time of RFC 3339; an age, as \
            `10m ago`; or a snapshot's token."),
        ("stale" = Option<u64>, Query, description = "The value may be so old, in milliseconds."),
        ("lookup" = Option<String>, Query, description = "How the owner is found: see `route`."),
        ("if-match" = Option<String>, Header, description = "Entity tags, or `*`."),
        ("if-none-match" = Option<String>, Header, description = "Entity tags, or `*`."),
    ),
    responses(
        (
            status = 200, description = "The value.", body = [u8],
            content_type = "application/octet-stream",
            headers(
                ("etag" = String, description = "Its version, in quotes."),
                ("carillon-timestamp" = u64, description = "When it was written."),
                ("carillon-expires-at-ms" = Option<u64>, description = "When it ends."),
                ("carillon-age-ms" = Option<u64>, description = "With `stale`: how old it may be."),
                ("carillon-route" = Option<String>, description = "With `lookup`: the route."),
            )
        ),
        (status = 304, description = "The client has it already.")
    ),
    extensions(("x-problems" = json!([
        "nil", "nil-yet", "no-keyspace", "below-safe-point", "in-future", "key-too-long",
        "condition-failed", "loading", "stopping", "busy", "no-answer"
    ])))
)]
pub async fn get(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ([at, stale, lookup], key) = key_parameters(uri.query(), ["at", "stale", "lookup"])?;
    let (keyspace, key) = place(&context, &uri, key)?;
    let preconditions = Preconditions::of(&headers)?;
    if at.is_some() && stale.is_some() {
        let detail = "at and stale exclude each other: a time in the past, or the newest value";
        return Err(Problem::bad_request(detail));
    }
    let at = match &at {
        Some(text) => Some(context.resolve(text).await?),
        None => None,
    };
    let stale_ms = stale.map(|text| number("stale", &text)).transpose()?;
    let route = routes::look_up(&context, (&keyspace, &key), lookup).await?;
    let (id, command) = (context.next_id(), Command::Get { key, at, stale_ms });
    let mut response =
        match context.read(|done| context.api.call(id, &keyspace, command, done)).await? {
            Answer::StaleValue { age_ms, answer } => {
                let mut response = match shown(*answer, at, &preconditions, &context.sent_room) {
                    Ok(response) => response,
                    Err(problem) => problem.into_response(),
                };
                response.headers_mut().insert(AGE_MS, age_ms.into());
                response
            }
            answer => {
                let shown = shown(answer, at, &preconditions, &context.sent_room);
                shown.unwrap_or_else(Problem::into_response)
            }
        };
    routes::add(&mut response, route);
    Ok(response)
}

/// What a read has found. Where it has found nothing there is no version to judge.
fn shown(
    answer: Answer,
    at: Option<Timestamp>,
    preconditions: &Preconditions,
    sent_room: &ReplyRoom,
) -> Result<Response, Problem> {
    match answer {
        Answer::Value { value, timestamp, expires_at_ms } => {
            const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
            let mut response = match preconditions.judge_read(timestamp) {
                ReadVerdict::Answered => {
                    ([(CONTENT_TYPE, BYTES)], sent(value, sent_room)?).into_response()
                }
                ReadVerdict::NotModified => StatusCode::NOT_MODIFIED.into_response(),
                ReadVerdict::Failed => return Err(condition_failed()),
            };
            let headers = response.headers_mut();
            headers.insert(ETAG, tag(timestamp));
            headers.insert(TIMESTAMP, timestamp.0.into());
            if let Some(millis) = expires_at_ms {
                headers.insert(EXPIRES_AT_MS, millis.into());
            }
            Ok(response)
        }
        Answer::Nil => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "nil",
            "No value",
            match at {
                None => "the key has no value".to_owned(),
                Some(at) => format!("the key had no value at {at:?}"),
            },
            "PUT gives it one.",
        )),
        Answer::NilYet => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "nil-yet",
            "No value yet",
            "the key had no value at the time asked for, but was given one later",
            "Ask for a later time, or without at for the newest value.",
        )),
        Answer::StaleValue { .. }
        | Answer::Written { .. }
        | Answer::ConditionFailed
        | Answer::NothingToDelete => {
            unreachable!("a read is answered as a read")
        }
    }
}

/// Gives a key a value, as durably as its keyspace asks for.
#[utoipa::path(
    put, path = "/v1/kv/{keyspace}/{key}", operation_id = "put", tag = "keys",
    params(
        ("keyspace" = String, Path, description = "Its name."),
        ("key" = String, Path, description = "The key: any bytes. It may be empty, and stand as \
            the parameter `key` instead: programs take `.` and `..` out of paths."),
        ("ttl_ms" = Option<u64>, Query, minimum = 1, description = "It ends after so long."),
        ("if" = inline(Option<PutIf>), Query, description = "What must be so for it to be done."),
        ("lookup" = Option<String>, Query, description = "How the owner is found: see `route`."),
        ("if-match" = Option<String>, Header, description = "Entity tags, or `*`."),
        ("if-none-match" = Option<String>, Header, description = "Entity tags, or `*`."),
    ),
    request_body(content = [u8], content_type = "application/octet-stream"),
    responses((
        status = 204, description = "It is written.",
        headers(("carillon-timestamp" = Option<u64>, description = "When."))
    )),
    extensions(("x-problems" = json!([
        "no-keyspace", "key-too-long", "value-too-long", "condition-failed", "body-timeout",
        "out-of-memory"
    ])))
)]
pub async fn put(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let ([ttl_ms, when, lookup], key) = key_parameters(uri.query(), ["ttl_ms", "if", "lookup"])?;
    let (keyspace, key) = place(&context, &uri, key)?;
    let expires_at_ms = ttl_ms.map(|text| expiry(&context, &text)).transpose()?;
    let when = match when.as_deref() {
        None => Condition::ALWAYS,
        Some("absent") => Condition::absent(),
        Some("present") => Condition::PRESENT,
        Some(other) => {
            let detail = format!("if is {other:?}, where only absent or present is allowed");
            return Err(Problem::bad_request(detail));
        }
    };
    if headers.contains_key(CONTENT_RANGE) {
        let detail = "Content-Range says that the body is a part of a value: only whole values \
                      can be put";
        return Err(Problem::bad_request(detail));
    }
    let when = when.and(Preconditions::of(&headers)?.condition());
    let held =
        body::read(&context, body, context.options.value_bytes_max, body::value_too_long).await?;
    let command = Command::Put { key, value: held.bytes.clone(), expires_at_ms, when };
    write(&context, &keyspace, lookup, command).await
}

/// Takes the value of a key away.
#[utoipa::path(
    delete, path = "/v1/kv/{keyspace}/{key}", operation_id = "delete", tag = "keys",
    params(
        ("keyspace" = String, Path, description = "Its name."),
        ("key" = String, Path, description = "The key: any bytes. It may be empty, and stand as \
            the parameter `key` instead: programs take `.` and `..` out of paths."),
        ("lookup" = Option<String>, Query, description = "How the owner is found: see `route`."),
        ("if-match" = Option<String>, Header, description = "Entity tags, or `*`."),
        ("if-none-match" = Option<String>, Header, description = "Entity tags, or `*`."),
    ),
    responses((
        status = 204, description = "It is deleted.",
        headers(("carillon-timestamp" = Option<u64>, description = "When."))
    )),
    extensions(("x-problems" = json!([
        "nil", "no-keyspace", "key-too-long", "condition-failed"
    ])))
)]
pub async fn delete(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ([lookup], key) = key_parameters(uri.query(), ["lookup"])?;
    let (keyspace, key) = place(&context, &uri, key)?;
    let when = Preconditions::of(&headers)?.condition();
    write(&context, &keyspace, lookup, Command::Delete { key, when }).await
}

async fn write(
    context: &Context,
    keyspace: &str,
    lookup: Option<String>,
    command: Command,
) -> Result<Response, Problem> {
    let route = routes::look_up(context, (keyspace, command.key()), lookup).await?;
    let mut response =
        done(context, keyspace, command).await.unwrap_or_else(Problem::into_response);
    routes::add(&mut response, route);
    Ok(response)
}

async fn done(context: &Context, keyspace: &str, command: Command) -> Result<Response, Problem> {
    let id = context.next_id();
    match context.write(id, |done| context.api.call(id, keyspace, command, done)).await? {
        Answer::Written { timestamp } => Ok(written(timestamp)),
        Answer::ConditionFailed => Err(condition_failed()),
        Answer::NothingToDelete => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "nil",
            "No value",
            "the key has no value, so there was nothing to delete",
            "None is needed.",
        )),
        Answer::StaleValue { .. } | Answer::Value { .. } | Answer::Nil | Answer::NilYet => {
            unreachable!("a write is answered as a write")
        }
    }
}

fn condition_failed() -> Problem {
    Problem::new(
        StatusCode::PRECONDITION_FAILED,
        "condition-failed",
        "Condition failed",
        "the request's condition (If-Match, If-None-Match, or the parameter if) does not hold for \
         what the key has; nothing was done",
        "GET the key to see what it has, and its ETag.",
    )
}

fn written(timestamp: Option<Timestamp>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(timestamp) = timestamp {
        response.headers_mut().insert(TIMESTAMP, timestamp.0.into());
    }
    response
}

/// Keyspace and key of a path and its query.
fn place(
    context: &Context,
    uri: &Uri,
    in_query: Option<Vec<u8>>,
) -> Result<(String, Bytes), Problem> {
    place_behind(context, uri, "/v1/kv/", in_query)
}

/// Keyspace and key of a path that begins so, and of its query: browsers and others take the keys
/// `.` and `..` out of a path.
pub(super) fn place_behind(
    context: &Context,
    uri: &Uri,
    head: &str,
    in_query: Option<Vec<u8>>,
) -> Result<(String, Bytes), Problem> {
    let rest = uri.path().strip_prefix(head).unwrap_or_default();
    let Some((keyspace, key)) = rest.split_once('/') else {
        let detail = format!("the path names no key: it is {head}{{keyspace}}/{{key}}");
        return Err(Problem::bad_request(detail));
    };
    let (keyspace, in_path) = (decode_text(keyspace)?, decode(key)?);
    let key = match in_query {
        None => in_path,
        Some(key) if in_path.is_empty() => key,
        Some(_) => {
            let detail = "the key stands in the path and as a parameter: leave one of them out";
            return Err(Problem::bad_request(detail));
        }
    };
    let (bytes, bytes_max) = (key.len() as u64, context.options.key_bytes_max);
    if bytes > bytes_max {
        return Err(ApiError::KeyTooLong { bytes, bytes_max }.into());
    }
    Ok((keyspace, key.into()))
}

/// Expiry is an absolute time from here on (SAFETY G13).
fn expiry(context: &Context, text: &str) -> Result<u64, Problem> {
    let ttl_ms = number("ttl_ms", text)?;
    let end = context.api.now_millis().checked_add(ttl_ms).filter(|end| *end >> 48 == 0);
    match end {
        Some(end) if ttl_ms > 0 => Ok(end),
        _ => Err(Problem::bad_request("ttl_ms is not a time that can be waited for")),
    }
}

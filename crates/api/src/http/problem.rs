//! Errors for people and programs: `application/problem+json` (RFC 9457).
//!
//! ```json
//! {"type": "urn:carillon:problem:nil-yet", "title": "No value yet", "status": 404,
//!  "detail": "…what happened…", "outcome": "not done", "remedy": "…what to do…"}
//! ```
//!
//! `outcome` is `not done` or `unknown` (SAFETY G10): programs decide by it, and by `type`.

pub mod kinds;
mod table;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{ApiError, Outcome, RequestId};
use table::{Row, row_of};

/// What each `type` begins with.
pub const TYPE_PREFIX: &str = "urn:carillon:problem:";

/// The content type of an error reply.
pub const CONTENT_TYPE_OF_PROBLEMS: &str = "application/problem+json";

/// An error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    slug: &'static str,
    title: &'static str,
    detail: String,
    remedy: &'static str,
    unknown: Option<RequestId>,
}

/// Its JSON.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct Wire<'a> {
    /// `urn:carillon:problem:` and what kind it is.
    #[serde(rename = "type")]
    type_: String,
    /// The kind in words.
    title: &'a str,
    /// The reply's status.
    status: u16,
    /// What happened.
    detail: &'a str,
    /// `not done` or `unknown`: whether anything was changed.
    #[schema(value_type = super::openapi::ProblemOutcome)]
    outcome: &'a str,
    /// What to do.
    remedy: &'a str,
    /// The request whose outcome is unknown, as the node's log names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    request_id: Option<String>,
}

impl Problem {
    /// A problem of which nothing was done.
    pub fn new(
        status: StatusCode,
        slug: &'static str,
        title: &'static str,
        detail: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        debug_assert!(kinds::has(slug, status), "{slug} is a kind of {status}");
        Self { status, slug, title, detail: detail.into(), remedy, unknown: None }
    }

    /// The request is malformed; `detail` says why.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        let remedy = "Correct the request; sending it again as it is will not help.";
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "Bad request", detail, remedy)
    }

    /// A refusal of the HTTP library, with its text if there is one.
    pub fn of_library(status: StatusCode, text: &str) -> Self {
        let (slug, title, detail) = match status {
            StatusCode::URI_TOO_LONG => {
                ("uri-too-long", "URI too long", "the request line is longer than 65534 bytes")
            }
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
                "head-too-long",
                "Head too long",
                "the request has more than 100 headers, or a head of more than 128 KiB",
            ),
            _ => ("bad-request", "Bad request", "these bytes are no request of HTTP/1.1"),
        };
        let detail = if text.is_empty() { detail } else { text };
        let remedy = "Correct the request; sending it again as it is will not help.";
        Self::new(status, slug, title, detail, remedy)
    }

    /// The same, of a part of the request.
    pub fn at(self, part: &str) -> Self {
        Self { detail: format!("{part}: {}", self.detail), ..self }
    }

    /// The node did not answer a read in time.
    pub fn no_answer() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-answer",
            "No answer",
            "the node did not answer in time; a read changes nothing",
            "Try again a little later; look at the node's log if it happens often.",
        )
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let &Row { status, slug, title, remedy } = row_of(&error);
        let unknown = match error {
            ApiError::Unknown { id } | ApiError::MaybeCommitted { id, .. } => Some(id),
            _ => None,
        };
        debug_assert_eq!(unknown.is_some(), error.outcome() == Outcome::Unknown);
        Self { status, slug, title, detail: error.to_string(), remedy, unknown }
    }
}

impl Problem {
    /// Its body.
    pub fn json(&self) -> Vec<u8> {
        let wire = Wire {
            type_: format!("{TYPE_PREFIX}{}", self.slug),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            outcome: if self.unknown.is_some() { "unknown" } else { "not done" },
            remedy: self.remedy,
            request_id: self.unknown.map(|id| id.to_string()),
        };
        serde_json::to_vec(&wire).expect("strings and numbers become JSON")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.json()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE_OF_PROBLEMS));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            // A browser asks its user.
            let how = HeaderValue::from_static("Basic realm=\"carillon\", charset=\"UTF-8\"");
            headers.insert(WWW_AUTHENTICATE, how);
        }
        response
    }
}

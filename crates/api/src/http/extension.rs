//! Endpoints beside those of a node: a simulation's `/v1/sim`.
//!
//! Who serves something that nodes have not gives the server an [`Extension`]. Its requests pass
//! the same checks as all others: hosts, origins, lengths, types of bodies.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::body;
use super::context::Shared;
use super::problem::Problem;

/// The longest body of a request.
pub const EXTENSION_BYTES_MAX: u64 = 4 << 20;
/// How long an answer may take: a simulation may have much to do before it.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionRequest {
    /// The method, in capitals.
    pub method: String,
    /// The path behind the root, without a slash before it, as it was encoded.
    pub path: String,
    /// The query as it was encoded, without the question mark.
    pub query: String,
    /// The body.
    pub body: Bytes,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionReply {
    /// JSON.
    pub json: Vec<u8>,
    /// A browser saves it under this name.
    pub file_name: Option<String>,
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionRefusal {
    /// The status of HTTP.
    pub status: u16,
    /// What the problem's type ends in.
    pub slug: &'static str,
    /// Its title.
    pub title: &'static str,
    /// What is wrong, as a sentence.
    pub why: String,
    /// What to do.
    pub remedy: &'static str,
}

/// Called once with the answer.
pub type ExtensionDone = Box<dyn FnOnce(Result<ExtensionReply, ExtensionRefusal>) + Send>;

/// Endpoints of one root.
pub trait Extension: Send + Sync + 'static {
    /// What their paths begin with, such as `/v1/sim`.
    fn root(&self) -> &'static str;
    /// Answers a request, now or later, from any thread.
    fn answer(&self, asked: ExtensionRequest, done: ExtensionDone);
}

/// The routes of an extension.
pub(super) fn routes(extension: &Arc<dyn Extension>) -> Router<Shared> {
    let root = extension.root();
    let handler = {
        let extension = extension.clone();
        move |state: State<Shared>, method: Method, uri: Uri, headers: HeaderMap, body: Body| {
            handle(extension, state, method, uri, headers, body)
        }
    };
    let below = format!("{root}/{{*rest}}");
    Router::new().route(root, any(handler.clone())).route(&below, any(handler))
}

async fn handle(
    extension: Arc<dyn Extension>,
    State(context): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let is_read = [Method::GET, Method::HEAD].contains(&method);
    // A page of another origin cannot send this type.
    if !is_read && !is_json(&headers) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not-json",
            "Not JSON",
            "the body's content type is not application/json",
            "Send the header Content-Type: application/json.",
        ));
    }
    let held = body::read(&context, body, EXTENSION_BYTES_MAX, too_long).await?;
    let path = uri.path().strip_prefix(extension.root()).unwrap_or_default();
    let asked = ExtensionRequest {
        method: if method == Method::HEAD { Method::GET } else { method }.to_string(),
        path: path.trim_start_matches('/').to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        body: held.bytes.clone(),
    };
    let (sender, receiver) = oneshot::channel();
    // If nobody waits any more, the answer has no use.
    extension.answer(asked, Box::new(move |answer| drop(sender.send(answer))));
    let answer = timeout(ANSWER_MAX, receiver).await.ok().and_then(Result::ok);
    let reply = answer.ok_or_else(Problem::no_answer)??;
    let mut response = reply.json.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(name) = reply.file_name {
        let value = format!("attachment; filename=\"{name}\"");
        headers.extend(HeaderValue::try_from(value).map(|value| (CONTENT_DISPOSITION, value)));
    }
    Ok(response)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

fn too_long(bytes: u64, bytes_max: u64) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body-too-long",
        "Body too long",
        format!("the body has {bytes} bytes, and may have {bytes_max}"),
        "Send less.",
    )
}

impl From<ExtensionRefusal> for Problem {
    fn from(refusal: ExtensionRefusal) -> Self {
        let ExtensionRefusal { status, slug, title, why, remedy } = refusal;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, slug, title, why, remedy)
    }
}

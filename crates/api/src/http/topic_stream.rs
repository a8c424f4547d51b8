//! `/v1/topics/{topic}/groups/{group}/stream`: messages of a group as server-sent events.
//!
//! ```text
//!   task of the member ── take, while the channel has room ──► channel (1) ──► body ──► socket
//! ```
//!
//! Messages are taken only when those before are in the reply's hands. So a member that does not
//! read has one piece of them, and what is in its socket; when their deadline is over, others get
//! them. Messages are acknowledged by other requests.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::context::Shared;
use super::problem::Problem;
use super::topics::{TakenMessage, most, take_until};
use super::uri::{number, parameters};
use crate::{ApiError, Outcome, TakenMessages};

/// A comment comes at least so often.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// After an error that may pass, it goes on after so long.
const PAUSE: Duration = Duration::from_secs(1);

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Whether a path is that of such a stream.
pub(super) fn is_stream(path: &str) -> bool {
    path.starts_with("/v1/topics/") && path.ends_with("/stream")
}

/// Messages that a group had no more, and that went elsewhere.
#[derive(Serialize)]
struct Lost {
    missed: u64,
    dead: u64,
}

/// Hands out messages of a group as they are published: a stream of server-sent events.
#[utoipa::path(
    get, path = "/v1/topics/{topic}/groups/{group}/stream", operation_id = "streamMessages",
    tag = "topics",
    params(
        ("topic" = String, Path, description = "The topic."),
        ("group" = String, Path, description = "The group's name."),
        ("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given."),
        ("max" = Option<u64>, Query, minimum = 1, maximum = 256,
            description = "At most so many at a time."),
    ),
    responses((
        status = 200, description = "Messages, each a JSON object.", body = String,
        content_type = "text/event-stream"
    )),
    extensions(("x-problems" = json!([
        "foreign-origin", "no-topic", "topic-refused", "bad-topic", "no-keyspace", "no-level",
        "too-many-transactions", "transaction-too-large", "out-of-memory", "bad-keyspace",
        "loading", "stopping", "busy", "disk-full", "storage-failed", "unknown-outcome"
    ])))
)]
pub async fn show(
    State(context): State<Shared>,
    Path((topic, group)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let [keyspace, max] = parameters(uri.query(), ["keyspace", "max"])?;
    let keyspace = keyspace.unwrap_or_else(|| "0".to_owned());
    let most = most(max.map(|text| number("max", &text)).transpose()?)?;
    // What is wrong from the beginning is the reply's status.
    let place = (topic.as_str(), group.as_str());
    let first = take_until(&context, &keyspace, place, most, Instant::now()).await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut taken = first;
        loop {
            if send(&sender, events(taken)).await.is_none() {
                return;
            }
            // Room first: what is taken is on its way.
            let Ok(room) = sender.reserve().await else { return };
            let place = (topic.as_str(), group.as_str());
            let until = Instant::now() + KEEP_ALIVE;
            let next = tokio::select! {
                biased;
                () = sender.closed() => return,
                next = take_until(&context, &keyspace, place, most, until) => next,
            };
            drop(room);
            taken = match next {
                Ok(taken) => taken,
                Err(error) if passes(&error) => {
                    sleep(PAUSE).await;
                    TakenMessages::default()
                }
                Err(error) => {
                    let _gone = send(&sender, end(&error)).await;
                    return;
                }
            };
        }
    });
    let mut response = Response::new(Body::new(StreamBody(receiver)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

async fn send(sender: &mpsc::Sender<Bytes>, piece: String) -> Option<()> {
    sender.send(Bytes::from(piece)).await.ok()
}

/// Whether an error may pass while the stream goes on. What was taken without its being known comes
/// again.
fn passes(error: &ApiError) -> bool {
    let is_passing = matches!(
        error,
        ApiError::Busy { .. }
            | ApiError::Conflicts { .. }
            | ApiError::TooManyTransactions { .. }
            | ApiError::OutOfMemory { .. }
            | ApiError::DiskFull
            | ApiError::Loading
    );
    is_passing || error.outcome() == Outcome::Unknown
}

fn events(taken: TakenMessages) -> String {
    let TakenMessages { messages, missed, dead } = taken;
    let mut text = String::new();
    if missed + dead > 0 {
        text += &event("lost", None, &Lost { missed, dead });
    }
    for message in messages {
        let number = message.number;
        text += &event("message", Some(number), &TakenMessage::from(message));
    }
    if text.is_empty() {
        text += ": keep-alive\n\n";
    }
    text
}

fn event(name: &str, id: Option<u64>, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).expect("text and numbers become JSON");
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {name}\n{id}data: {data}\n\n")
}

fn end(error: &ApiError) -> String {
    event("end", None, &serde_json::json!({ "why": error.to_string() }))
}

struct StreamBody(mpsc::Receiver<Bytes>);

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TopicMessage;

    #[test]
    fn messages_are_events_and_silence_is_a_comment() {
        assert_eq!(events(TakenMessages::default()), ": keep-alive\n\n");
        let message = TopicMessage {
            number: 7,
            deliveries: 2,
            published_at_ms: 5,
            origin: None,
            body: Bytes::from_static(b"a\nb"),
        };
        let taken = TakenMessages { messages: vec![message], missed: 3, dead: 0 };
        assert_eq!(
            events(taken),
            "event: lost\ndata: {\"missed\":3,\"dead\":0}\n\nevent: message\nid: 7\ndata: \
             {\"number\":7,\"deliveries\":2,\"published_at_ms\":5,\"message\":\"a\\nb\"}\n\n"
        );
        let gone = ApiError::NoTopic { why: "there is no topic \"t\"".into() };
        assert!(!passes(&gone) && passes(&ApiError::DiskFull));
        assert_eq!(end(&gone), "event: end\ndata: {\"why\":\"there is no topic \\\"t\\\"\"}\n\n");
    }

    #[test]
    fn paths_of_streams() {
        assert!(is_stream("/v1/topics/t/groups/g/stream"));
        assert!(!is_stream("/v1/topics/t/groups/g/take") && !is_stream("/v1/kv/0/stream"));
    }
}

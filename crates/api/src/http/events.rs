//! `/v1/events`: the stream of events, as server-sent events.
//!
//! ```text
//!   NodeService ── wake ──► task of the viewer ── pieces ──► channel (1) ──► reply body ──► socket
//!                               │ takes, while the channel has room
//!                               └ keep-alive comments; looks whether the viewer is stuck
//! ```
//!
//! A piece is taken only when the one before is in the reply's hands, so a viewer that does not
//! read costs [`PIECE_BYTES`] here, and the events wait in the node's ring, which nobody waits for.
//! Who takes nothing for too long has its connection reset.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use keyspace::{NodeId, Timestamp};
use node::event::EventType;
use node::event::stream::{Cursor, Filter, Output, SAMPLES_MAX};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use utoipa::ToSchema;

use super::context::Shared;
use super::problem::Problem;
use super::uri::{number, parameters, timestamp};
use crate::events::stream::{self, STREAM_TYPES};
use crate::events::{WatchRequest, Watching};
use crate::nearest::nearest;

/// A comment comes at least so often.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// About the most bytes of events that are taken at a time.
pub const PIECE_BYTES: usize = 64 << 10;
/// How often it is looked whether a viewer is stuck.
const STUCK_PAUSE: Duration = Duration::from_millis(500);
/// Further events are gathered for so long behind a small piece: a write for each would cost more
/// than all else of it.
const GATHER_PAUSE: Duration = Duration::from_millis(20);
/// How often it is looked whether a stream has come to its end, once its time is over.
const END_PAUSE: Duration = Duration::from_millis(100);

pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells nginx not to gather the reply.
pub(super) const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Whose events are shown.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "its words are in the document; the handler reads the query")]
pub enum Scope {
    /// Those of the node that is asked.
    Node,
    /// Those of all nodes, by their time.
    Cluster,
}

/// Has the connection of a request reset.
#[derive(Clone, Default)]
pub struct CutOff(Arc<Notify>);

impl CutOff {
    /// Returns when the connection is to be reset.
    pub async fn wanted(&self) {
        self.0.notified().await;
    }

    fn cut(&self) {
        self.0.notify_one();
    }
}

/// What happens, as it happens: a stream of server-sent events (docs/events.md).
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "nodes",
    params(
        ("types" = Option<String>, Query, description = "Only these types, separated by commas."),
        ("keyspace" = Option<String>, Query, description = "Only those about this keyspace."),
        ("scope" = inline(Option<Scope>), Query, description = "Of this node, or of all."),
        ("from" = Option<String>, Query, description = "Behind this cursor; 0: all."),
        ("until" = Option<String>, Query, description = "It ends at this time, or `now`."),
        ("samples" = Option<u64>, Query, maximum = 1000, description = "Requests shown a second."),
        ("last-event-id" = Option<String>, Header, description = "As `from`, and goes first."),
    ),
    responses((
        status = 200, description = "Events, each a JSON object.", body = String,
        content_type = "text/event-stream"
    )),
    extensions(("x-problems" = json!(["no-keyspace", "too-many-viewers", "no-level", "stopping"])))
)]
pub async fn show(
    State(context): State<Shared>,
    Extension(cut_off): Extension<CutOff>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asked = request(&uri, &headers, context.api.now_millis())?;
    let notify = Arc::new(Notify::new());
    let wake = {
        let notify = notify.clone();
        Arc::new(move || notify.notify_one())
    };
    let watching = context.api.watch(&asked, wake)?;
    let (sender, receiver) = mpsc::channel(1);
    let hello = stream::hello(&watching, &asked, KEEP_ALIVE.as_millis() as u64);
    // There is room for one.
    let _sent = sender.try_send(Bytes::from(hello));
    let ends_in = asked.until.map(|until| {
        Duration::from_millis(until.millis().saturating_sub(context.api.now_millis()))
    });
    tokio::spawn(run(watching, notify, sender, cut_off, ends_in));
    let mut response = Response::new(Body::new(StreamBody(receiver)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// Takes from the stream and passes on, until it or the viewer ends.
async fn run(
    mut watching: Watching,
    notify: Arc<Notify>,
    sender: mpsc::Sender<Bytes>,
    cut_off: CutOff,
    ends_in: Option<Duration>,
) {
    // Nothing need happen for a stream to end: it is looked at again then.
    let mut look_at = ends_in.map(|ends_in| Instant::now() + ends_in);
    loop {
        let Some(permit) = room(&watching, &sender).await else {
            if !sender.is_closed() {
                watching.stream.was_cut_off();
                cut_off.cut();
            }
            return;
        };
        let quiet_until = Instant::now() + KEEP_ALIVE;
        let outputs = loop {
            let outputs = watching.stream.take(PIECE_BYTES);
            if !outputs.is_empty() {
                break outputs;
            }
            tokio::select! {
                biased;
                () = sender.closed() => return,
                () = notify.notified() => {}
                () = sleep_until(look_at.unwrap_or(quiet_until)), if look_at.is_some() => {
                    look_at = Some(Instant::now() + END_PAUSE);
                }
                () = sleep_until(quiet_until) => break Vec::new(),
            }
        };
        let is_over = outputs.iter().any(|output| matches!(output, Output::End(_)));
        let piece = piece(&watching, &outputs);
        let is_small = piece.len() < PIECE_BYTES / 2;
        permit.send(piece);
        if is_over {
            return;
        }
        if is_small {
            tokio::select! {
                biased;
                () = sender.closed() => return,
                () = sleep(GATHER_PAUSE) => {}
            }
        }
    }
}

/// Room for the next piece; none if the viewer has gone, or is stuck.
async fn room<'a>(
    watching: &Watching,
    sender: &'a mpsc::Sender<Bytes>,
) -> Option<mpsc::Permit<'a, Bytes>> {
    loop {
        tokio::select! {
            biased;
            permit = sender.reserve() => return permit.ok(),
            () = sleep(STUCK_PAUSE) => {}
        }
        if watching.stream.is_stuck() {
            return None;
        }
    }
}

fn piece(watching: &Watching, outputs: &[Output]) -> Bytes {
    if outputs.is_empty() {
        return Bytes::from_static(b": keep-alive\n\n");
    }
    let texts = outputs.iter();
    let text: String =
        texts.map(|output| stream::event(&*watching.stream, watching.node, output)).collect();
    text.into()
}

/// A body that comes piece by piece.
pub(super) struct StreamBody(mpsc::Receiver<Bytes>);

impl StreamBody {
    /// Of these pieces.
    pub(super) fn new(pieces: mpsc::Receiver<Bytes>) -> Self {
        Self(pieces)
    }
}

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

fn request(uri: &Uri, headers: &HeaderMap, now_millis: u64) -> Result<WatchRequest, Problem> {
    let known = ["types", "keyspace", "scope", "from", "until", "samples"];
    let [types, keyspace, scope, from, until, samples] = parameters(uri.query(), known)?;
    let filter = match types.filter(|types| !types.is_empty()) {
        Some(types) => {
            let types = types.split(',').map(event_type).collect::<Result<Vec<_>, _>>()?;
            Filter::of_types(types.into_iter().flatten())
        }
        None => Filter::default(),
    };
    let is_cluster = match scope.as_deref() {
        None | Some("node") => false,
        Some("cluster") => true,
        Some(other) => {
            let why = format!("scope is {other:?}: it has to be node or cluster");
            return Err(Problem::bad_request(why));
        }
    };
    let samples = samples.map(|text| number("samples", &text)).transpose()?.unwrap_or_default();
    if samples > SAMPLES_MAX.into() {
        let why = format!("samples is {samples}: it has to be from 0 to {SAMPLES_MAX}");
        return Err(Problem::bad_request(why));
    }
    let last = headers.get(LAST_EVENT_ID).filter(|last| !last.is_empty());
    let cursor = match (last, from) {
        (Some(last), _) => {
            let text = String::from_utf8_lossy(last.as_bytes());
            Some(cursor(&text).map_err(|why| why.at("Last-Event-ID"))?)
        }
        (None, Some(from)) => Some(cursor(&from).map_err(|why| why.at("from"))?),
        (None, None) => None,
    };
    let until = match until.as_deref() {
        None => None,
        Some("now") => Some(Timestamp::from_millis(now_millis)),
        Some(text) => Some(timestamp(text).map_err(|why| why.at("until"))?),
    };
    let filter = filter.in_keyspace(keyspace.map(String::into_boxed_str));
    Ok(WatchRequest { filter, is_cluster, cursor, samples: samples as u32, until })
}

fn event_type(name: &str) -> Result<Option<EventType>, Problem> {
    if STREAM_TYPES.contains(&name) {
        // They come anyway.
        return Ok(None);
    }
    EventType::named(name).map(Some).ok_or_else(|| {
        let all: Vec<&str> = EventType::ALL.iter().map(|one| one.name()).collect();
        let meant = nearest(name, all.iter().copied());
        let meant = meant.map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default();
        Problem::bad_request(format!(
            "there are no events of type {name:?}{meant}; there are {}",
            all.join(", ")
        ))
    })
}

/// A place in a stream: a time, or a time and a node.
fn cursor(text: &str) -> Result<Cursor, Problem> {
    let (at, node) = match text.split_once('@') {
        Some((at, node)) => (at, Some(node)),
        None => (text, None),
    };
    let wrong = || {
        Problem::bad_request(format!(
            "{text:?} is no cursor: it has to be the id of an event, such as \
             117690934362308609@8f6d2a3f4d1c5b0a, or a time, such as 1795821157261ms, or 0"
        ))
    };
    let node = node.map(|node| {
        let is_id = node.len() == 16 && node.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(node, 16).ok().filter(|_| is_id).map(NodeId).ok_or_else(wrong)
    });
    let node = node.transpose()?;
    let is_time = at.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    let at = if is_time { timestamp(at)? } else { return Err(wrong()) };
    Ok(Cursor { at, node })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, last: Option<&str>) -> Result<WatchRequest, Problem> {
        let uri = format!("/v1/events?{query}").parse().unwrap();
        let mut headers = HeaderMap::new();
        if let Some(last) = last {
            headers.insert(LAST_EVENT_ID, last.parse().unwrap());
        }
        request(&uri, &headers, 7)
    }

    #[test]
    fn parameters_have_defaults() {
        let all = read("", None).unwrap();
        let (is_cluster, cursor, samples, until) = (false, None, 0, None);
        let filter = Filter::default();
        let expected = WatchRequest { filter, is_cluster, cursor, samples, until };
        assert_eq!(all, expected);
        let query = "types=split,node&keyspace=a&scope=cluster&samples=7&until=now";
        let some = read(query, None).unwrap();
        let filter = Filter::of_types([EventType::Split]).in_keyspace(Some("a".into()));
        let until = Some(Timestamp::from_millis(7));
        let expected = WatchRequest { filter, is_cluster: true, cursor, samples: 7, until };
        assert_eq!(some, expected);
    }

    #[test]
    fn cursors_are_times_with_or_without_a_node() {
        let place = |at, node: Option<u64>| Cursor { at: Timestamp(at), node: node.map(NodeId) };
        let from = |query: &str| read(query, None).unwrap().cursor.unwrap();
        assert_eq!(from("from=0"), Cursor::START);
        assert_eq!(from("from=117690934362308609"), place(117690934362308609, None));
        assert_eq!(from("from=5%4000000000000000ab"), place(5, Some(0xab)));
        assert_eq!(from("from=1ms"), place(65536, None));
        let last = read("from=0", Some("5@00000000000000ab")).unwrap();
        assert_eq!(last.cursor, Some(place(5, Some(0xab))), "what was seen goes first");
        assert_eq!(from(&format!("from={}", place(7, Some(9)))), place(7, Some(9)));
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for (query, last, why) in [
            ("types=spilt", None, "did you mean \\\"split\\\""),
            ("types=spilt", None, "node-started"),
            ("types=split,,link", None, "no events of type"),
            ("scope=all", None, "node or cluster"),
            ("samples=1001", None, "from 0 to 1000"),
            ("samples=-1", None, "whole number"),
            ("from=", None, "no cursor"),
            ("from=x", None, "no cursor"),
            ("until=x", None, "until"),
            ("from=5@7", None, "no cursor"),
            ("from=5@+000000000000007", None, "no cursor"),
            ("from=1795675401288", None, "did you mean"),
            ("", Some("new"), "Last-Event-ID"),
            ("type=split", None, "did you mean \\\"types\\\""),
        ] {
            let problem = format!("{:?}", read(query, last).unwrap_err());
            assert!(problem.contains(why), "{query}: {problem}");
        }
    }
}

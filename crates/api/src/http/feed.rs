//! `/v1/feed`: the changes of a keyspace, as server-sent events.
//!
//! ```text
//!   NodeService ── wake ──► task of the feed ── pieces ──► channel (1) ──► reply body ──► socket
//! ```
//!
//! A piece is taken only when the one before is in the reply's hands. A client that does not read
//! so has the feed wait: its position falls behind, and it is served from the versions in the store
//! when it reads on.
//!
//! The `id` of an event is a token: the position behind it. An event has all changes of one commit,
//! so no position lies within one.

use std::io::Write as _;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use bytes::Bytes;
use keyspace::{Moment, Timestamp, base64};
use node::feed::changes::{HeldKeyChange, KeyFilter, WhatChanged};
use node::feed::merge::Commit;
use serde::{Serialize, Serializer};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;

use super::context::{Context, Shared};
use super::events::{ACCEL_BUFFERING, KEEP_ALIVE, LAST_EVENT_ID, StreamBody};
use super::problem::Problem;
use super::txn::Text;
use super::uri::{byte_parameters, moment, text_of, yes_or_no};
use crate::ApiError;
use crate::feeds::{FeedOutput, FeedRequest, Feeding, position_token};

/// About the most bytes of changes that are taken at a time.
const PIECE_BYTES: usize = 256 << 10;
/// A position is told at most so often, and when something was told.
const RESOLVED_PAUSE: Duration = Duration::from_secs(1);

/// A token that is further ahead of the clock here was never told, in ms: a day.
const TOKEN_AHEAD_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// How keys and values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Format {
    /// As text; what is no UTF-8 as `{"base64": …}`.
    Json,
    /// Always as base64.
    Raw,
}

/// The changes of a keyspace, as they are committed: a stream of server-sent events.
#[utoipa::path(
    get, path = "/v1/feed", operation_id = "feed", tag = "keys",
    params(
        ("keyspace" = Option<String>, Query, description = "Its name; `0`, if none is named."),
        ("prefix" = Option<String>, Query, description = "Only keys that begin so."),
        ("key" = Option<String>, Query, description = "Only this key."),
        ("from" = Option<String>, Query, description = "Only keys at or above this one."),
        ("to" = Option<String>, Query, description = "Only keys below this one."),
        ("since" = Option<String>, Query, description = "Changes above this token or time, or \
            `now`."),
        ("snapshot" = Option<bool>, Query, description = "First the values that keys have then."),
        ("before" = Option<bool>, Query, description = "With the values before."),
        ("compact" = Option<bool>, Query, description = "Of what changed between `since` and the \
            request, only the newest change of each key."),
        ("format" = inline(Option<Format>), Query, description = "How bytes are written."),
        ("last-event-id" = Option<String>, Header, description = "As `since`, and goes first."),
    ),
    responses((
        status = 200, description = "Events, each a JSON object.", body = String,
        content_type = "text/event-stream"
    )),
    extensions(("x-problems" = json!([
        "no-keyspace", "too-many-viewers", "below-safe-point", "in-future", "no-level", "stopping",
        "busy", "no-answer"
    ])))
)]
pub async fn show(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (asked, format) = request(&context, &uri, &headers).await?;
    let notify = Arc::new(Notify::new());
    let wake = {
        let notify = notify.clone();
        Arc::new(move || notify.notify_one())
    };
    let feeding = context.read(|done| context.api.feed(asked.clone(), wake, done)).await?;
    let (sender, receiver) = mpsc::channel(1);
    let writer = Writer::new(feeding.cluster, format);
    // There is room for one.
    let _sent = sender.try_send(writer.hello(&feeding, &asked));
    tokio::spawn(run(feeding, writer, notify, sender));
    let mut response = Response::new(Body::new(StreamBody::new(receiver)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// Takes from the feed and passes on, until it or its client ends.
async fn run(
    mut feeding: Feeding,
    writer: Writer,
    notify: Arc<Notify>,
    sender: mpsc::Sender<Bytes>,
) {
    let mut told_at = Instant::now();
    let mut position = None;
    loop {
        let Ok(permit) = sender.reserve().await else { return };
        let quiet_until = Instant::now() + KEEP_ALIVE;
        let piece = loop {
            let outputs = feeding.stream.take(PIECE_BYTES);
            let now = Instant::now();
            let mut piece = Vec::new();
            for output in &outputs {
                match output {
                    // Later ones say more.
                    FeedOutput::Resolved(at) => position = Some(*at),
                    FeedOutput::Commit(commit) if position < Some(commit.at) => {
                        position = None;
                        writer.output(output, &mut piece);
                    }
                    output => writer.output(output, &mut piece),
                }
            }
            if let Some(at) = position.filter(|_| now >= told_at + RESOLVED_PAUSE) {
                (position, told_at) = (None, now);
                writer.output(&FeedOutput::Resolved(at), &mut piece);
            }
            if outputs.iter().any(FeedOutput::is_end) {
                permit.send(piece.into());
                return;
            }
            if !piece.is_empty() {
                break piece;
            }
            if now >= quiet_until {
                break b": keep-alive\n\n".to_vec();
            }
            let look_at = (now + feeding.stream.pause()).min(quiet_until);
            tokio::select! {
                biased;
                () = sender.closed() => return,
                () = notify.notified() => {}
                () = sleep_until(look_at) => {}
            }
        };
        permit.send(piece.into());
    }
}

async fn request(
    context: &Context,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(FeedRequest, Format), Problem> {
    let known = [
        "keyspace", "prefix", "key", "from", "to", "since", "snapshot", "before", "compact",
        "format",
    ];
    let [keyspace, prefix, key, from, to, since, snapshot, before, compact, format] =
        byte_parameters(uri.query(), known)?;
    let text = |bytes: Option<Vec<u8>>| bytes.map(text_of).transpose();
    let keyspace = text(keyspace)?.unwrap_or_else(|| "0".to_owned());
    let format = match text(format)?.as_deref() {
        None | Some("json") => Format::Json,
        Some("raw") => Format::Raw,
        Some(other) => {
            let why = format!("format is {other:?}: it has to be json or raw");
            return Err(Problem::bad_request(why));
        }
    };
    let begin = Bytes::from(prefix.clone().unwrap_or_default());
    let keys = filter(prefix, key, from, to)?;
    let last = headers.get(LAST_EVENT_ID).filter(|last| !last.is_empty());
    let (since, is_again) = match last {
        Some(last) => (Some(String::from_utf8_lossy(last.as_bytes()).into_owned()), true),
        None => (text(since)?, false),
    };
    let since = match since.as_deref() {
        None | Some("now") => None,
        Some(since) => Some(position(context, since).await.map_err(|why| why.at("since"))?),
    };
    // Who goes on behind an event has had the values.
    let begins_with_values = yes_or_no("snapshot", text(snapshot)?)?.unwrap_or(false) && !is_again;
    let with_before = yes_or_no("before", text(before)?)?.unwrap_or(false);
    let compacts = yes_or_no("compact", text(compact)?)?.unwrap_or(false);
    let asked = FeedRequest {
        keyspace,
        keys,
        prefix: begin,
        since,
        with_before,
        begins_with_values,
        compacts,
    };
    Ok((asked, format))
}

/// The position that a client names.
async fn position(context: &Context, text: &str) -> Result<Timestamp, Problem> {
    let named = moment(text)?;
    if !matches!(named, Moment::Snapshot(_)) {
        return context.resolve(text).await;
    }
    // The clock of the node that told it may be ahead: the feed waits by itself.
    let at = named.resolve(Timestamp::ZERO, context.api.cluster_id());
    let at = at.map_err(|why| Problem::bad_request(format!("{text:?}: {why}")))?;
    let now = Timestamp::from_millis(context.api.now_millis());
    match at.millis() > now.millis().saturating_add(TOKEN_AHEAD_MS_MAX) {
        true => Err(ApiError::InFuture { at, now }.into()),
        false => Ok(at),
    }
}

fn filter(
    prefix: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
) -> Result<KeyFilter, Problem> {
    let is_range = from.is_some() || to.is_some();
    match (prefix, key, is_range) {
        (None, None, false) => Ok(KeyFilter::All),
        (Some(prefix), None, false) => Ok(KeyFilter::prefix(&prefix)),
        (None, Some(key), false) => Ok(KeyFilter::One(key.into())),
        (None, None, true) => {
            if let (Some(from), Some(to)) = (&from, &to)
                && from >= to
            {
                return Err(Problem::bad_request("no key lies from `from` to before `to`"));
            }
            let low = from.map_or(Bound::Unbounded, |from| Bound::Included(from.into()));
            let high = to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.into()));
            Ok(KeyFilter::Range(low, high))
        }
        _ => Err(Problem::bad_request(
            "prefix, key, and from with to exclude each other: name one of them",
        )),
    }
}

/// Appends formatted text to bytes.
macro_rules! put {
    ($out:expr, $($text:tt)+) => {
        write!($out, $($text)+).expect("memory takes what is written")
    };
}

fn put_json(data: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, data).expect("what is shown is JSON");
}

/// Writes what comes as events.
struct Writer {
    /// What all tokens of the cluster begin with: the position follows.
    token: String,
    format: Format,
}

#[derive(Serialize)]
struct Hello<'a> {
    keyspace: &'a str,
    token: String,
    at_ms: u64,
    keep_alive_ms: u64,
}

#[derive(Serialize)]
struct ShownValue<'a> {
    key: Field<'a>,
    value: Field<'a>,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

#[derive(Serialize)]
struct ShownChange<'a> {
    what: &'static str,
    key: Field<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Field<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Field<'a>>,
}

#[derive(Serialize)]
struct Position {
    token: String,
    version: String,
    at_ms: u64,
}

#[derive(Serialize)]
struct Stop {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safe_point_ms: Option<u64>,
    why: String,
}

/// Bytes of a key or a value.
struct Field<'a>(Format, &'a [u8]);

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Format::Json => Text(self.1).serialize(serializer),
            Format::Raw => serializer.serialize_str(&base64::encode(self.1)),
        }
    }
}

impl Writer {
    fn new(cluster: u64, format: Format) -> Self {
        let mut token = position_token(cluster, Timestamp::ZERO);
        token.pop();
        Self { token, format }
    }

    fn token(&self, at: Timestamp) -> String {
        format!("{}{}", self.token, at.0)
    }

    fn hello(&self, feeding: &Feeding, asked: &FeedRequest) -> Bytes {
        let (at, mut out) = (feeding.position, Vec::new());
        // Who comes again before it has had all values gets them again.
        let id = (!asked.begins_with_values).then_some(at);
        let (keyspace, token, at_ms) = (&*asked.keyspace, self.token(at), at.millis());
        let keep_alive_ms = KEEP_ALIVE.as_millis() as u64;
        self.event("hello", id, &Hello { keyspace, token, at_ms, keep_alive_ms }, &mut out);
        out.into()
    }

    fn event(&self, name: &str, id: Option<Timestamp>, data: &impl Serialize, out: &mut Vec<u8>) {
        if let Some(at) = id {
            put!(out, "id: {}{}\n", self.token, at.0);
        }
        put!(out, "event: {name}\ndata: ");
        put_json(data, out);
        put!(out, "\n\n");
    }

    /// Most of what is told: written as it comes, with no strings between.
    fn commit(&self, Commit { at, changes }: &Commit, out: &mut Vec<u8>) {
        let (token, version, at_ms) = (&self.token, at.0, at.millis());
        put!(out, "id: {token}{version}\nevent: change\ndata: ");
        put!(out, "{{\"version\":\"{version}\",\"at_ms\":{at_ms},\"changes\":[");
        for (number, change) in changes.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            put_json(&self.change(change), out);
        }
        put!(out, "]}}\n\n");
    }

    fn output(&self, output: &FeedOutput, out: &mut Vec<u8>) {
        let field = |bytes| Field(self.format, bytes);
        match output {
            FeedOutput::Value { key, value, version, expires_at_ms } => {
                let (key, value) = (field(key), field(value));
                let (version, expires_at_ms) = (version.0.to_string(), *expires_at_ms);
                self.event("value", None, &ShownValue { key, value, version, expires_at_ms }, out);
            }
            FeedOutput::ValuesEnd(at) => self.event("values-end", Some(*at), &self.at(*at), out),
            FeedOutput::Commit(commit) => self.commit(commit, out),
            FeedOutput::Resolved(at) => self.event("resolved", Some(*at), &self.at(*at), out),
            FeedOutput::TooLate { safe_point, restart } => {
                let why = "changes above the position of this feed are collected: begin again at \
                           this token, with snapshot=true; what happened in between is lost";
                let (token, why) = (Some(self.token(*restart)), why.to_owned());
                let safe_point_ms = Some(safe_point.millis());
                self.event("too-late", None, &Stop { token, safe_point_ms, why }, out);
            }
            FeedOutput::TooLarge { at } => {
                let why = "the changes of one commit are too large to be told: begin again behind \
                           it, at this token, with snapshot=true";
                let (token, why) = (Some(self.token(*at)), why.to_owned());
                self.event("too-large", None, &Stop { token, safe_point_ms: None, why }, out);
            }
            FeedOutput::End(error) => {
                let why = format!("{error}; go on at the last token, maybe at another node");
                self.event("end", None, &Stop { token: None, safe_point_ms: None, why }, out);
            }
        }
    }

    fn at(&self, at: Timestamp) -> Position {
        Position { token: self.token(at), version: at.0.to_string(), at_ms: at.millis() }
    }

    fn change<'a>(&self, change: &'a HeldKeyChange) -> ShownChange<'a> {
        let field = |bytes: &'a [u8]| Field(self.format, bytes);
        let (what, value, expires_at_ms) = match &change.what {
            WhatChanged::Put { value, expiry_ms } => {
                ("put", Some(field(value)), (*expiry_ms != 0).then_some(*expiry_ms))
            }
            WhatChanged::Deleted => ("deleted", None, None),
            WhatChanged::Expired => ("expired", None, None),
        };
        let before = change.before.as_ref().map(|before| field(before));
        ShownChange { what, key: field(&change.key), value, expires_at_ms, before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_one_event_with_its_token() {
        let change = |key: &[u8], what| HeldKeyChange {
            at: Timestamp(65536),
            key: key.into(),
            what,
            before: Some(b"old"[..].into()),
        };
        let put = WhatChanged::Put { value: b"\xff"[..].into(), expiry_ms: 7 };
        let changes = vec![change(b"a", put), change(b"b", WhatChanged::Expired)];
        let commit = FeedOutput::Commit(Commit { at: Timestamp(65536), changes });
        let told = |cluster, format, output: &FeedOutput| {
            let mut text = Vec::new();
            Writer::new(cluster, format).output(output, &mut text);
            String::from_utf8(text).expect("events are text")
        };
        assert_eq!(
            told(0xc0ffee, Format::Json, &commit),
            "id: snap-0000000000c0ffee-0-65536\nevent: change\n\
             data: {\"version\":\"65536\",\"at_ms\":1,\"changes\":[\
             {\"what\":\"put\",\"key\":\"a\",\"value\":{\"base64\":\"/w==\"},\"expires_at_ms\":7,\
             \"before\":\"old\"},{\"what\":\"expired\",\"key\":\"b\",\"before\":\"old\"}]}\n\n"
        );
        let raw = told(0xc0ffee, Format::Raw, &commit);
        assert!(raw.contains("\"key\":\"YQ==\",\"value\":\"/w==\""), "{raw}");
        let late = FeedOutput::TooLate { safe_point: Timestamp(65536), restart: Timestamp(131072) };
        let end = told(1, Format::Json, &late);
        assert!(!end.contains("id:") && end.contains("snap-0000000000000001-0-131072"), "{end}");
    }

    #[test]
    fn keys_are_named_in_one_way() {
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(filter(None, None, None, None).unwrap(), KeyFilter::All);
        assert!(filter(bytes("a"), None, None, None).unwrap().has(b"ab"));
        assert!(!filter(None, None, bytes("a"), bytes("c")).unwrap().has(b"c"));
        assert!(filter(bytes("a"), bytes("b"), None, None).is_err());
        assert!(filter(None, bytes("b"), None, bytes("c")).is_err());
    }
}

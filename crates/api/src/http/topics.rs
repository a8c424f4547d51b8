//! Durable topics: `/v1/topics`.
//!
//! A take that waits looks again when its topic changes (`super::waiting`).

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use bytes::Bytes;
use serde::{Serialize, Serializer};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::context::{Context, Shared};
use super::keyspaces::{json, json_within};
use super::locks::wait_of;
use super::openapi::{self, WholeNumber};
use super::problem::Problem;
use super::txn::{BODY_BYTES_MAX, BoundedList, Bytes64, Number, TIMES, too_long};
use super::uri::parameters;
use super::waiting::Awaited;
use crate::{
    Acknowledged, ApiError, GroupInfo, GroupSpec, GroupStart, MessageOrigin, TakenMessages,
    TopicInfo, TopicMessage, TopicSpec,
};

/// Messages of one take, unless another number is asked for.
const TAKE: u64 = 16;
/// The most. The service judges once more.
pub(super) const TAKE_MAX: u64 = 256;
/// Messages of one publishing.
pub const PUBLISH_MAX: usize = 256;

/// The names of topics.
#[derive(Serialize, ToSchema)]
pub struct TopicList {
    /// By name.
    topics: Vec<String>,
}

/// `POST /v1/topics`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicBody {
    /// Its name.
    name: String,
    /// How long a message is kept, in ms: a week, unless it says otherwise.
    #[schema(minimum = 1)]
    kept_ms: Option<u64>,
    /// How many messages are kept: 100 000, unless it says otherwise.
    #[schema(minimum = 1)]
    messages_max: Option<u64>,
    /// How many bytes of messages are kept: 256 MiB, unless it says otherwise.
    #[schema(minimum = 1)]
    bytes_max: Option<u64>,
}

/// `POST /v1/topics/{topic}/messages`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishBody {
    /// The messages.
    #[schema(value_type = Vec<openapi::Text>, min_items = 1, max_items = 256)]
    messages: BoundedList<Bytes64>,
}

/// Messages that were published.
#[derive(Serialize, ToSchema)]
pub struct PublishedMessages {
    /// The number of the first.
    first: u64,
    /// The number of the last.
    last: u64,
}

/// `PUT /v1/topics/{topic}/groups/{group}`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupBody {
    /// Where a new group begins: `latest`, unless it says otherwise; `earliest`, or a number.
    #[schema(value_type = Option<WholeNumber>)]
    from: Option<StartBody>,
    /// Time to acknowledge a message, in ms: 30 s, unless it says otherwise.
    #[schema(minimum = 1, maximum = 43_200_000)]
    ack_ms: Option<u64>,
    /// After so many deliveries a message goes to the dead-letter topic.
    #[schema(maximum = 1000)]
    deliveries_max: Option<u64>,
    /// That topic.
    dead_letter: Option<String>,
}

/// Where a group begins.
struct StartBody(GroupStart);

impl<'de> serde::Deserialize<'de> for StartBody {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A word, or digits, or a number.
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum NumberOrText {
            Number(u64),
            Text(String),
        }
        let wrong = || serde::de::Error::custom("from is latest, earliest or a number");
        let found = NumberOrText::deserialize(deserializer).map_err(|_| wrong())?;
        Ok(Self(match found {
            NumberOrText::Number(number) => GroupStart::Number(number),
            NumberOrText::Text(text) => match text.as_str() {
                "latest" => GroupStart::Latest,
                "earliest" => GroupStart::Earliest,
                digits => GroupStart::Number(digits.parse().map_err(|_| wrong())?),
            },
        }))
    }
}

/// `POST /v1/topics/{topic}/groups/{group}/take`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeBody {
    /// At most so many messages.
    #[schema(minimum = 1, maximum = 256)]
    max: Option<u64>,
    /// How long to wait for one, in ms: not at all, unless it says otherwise.
    #[schema(maximum = 60_000)]
    wait_ms: Option<u64>,
}

/// Messages that are handed out.
#[derive(Serialize, ToSchema)]
pub struct TakenBody {
    /// By rising number.
    messages: Vec<TakenMessage>,
    /// Messages that the topic dropped before the group had them, since its last take.
    missed: u64,
    /// Messages that went to the dead-letter topic.
    dead: u64,
}

/// A message that is handed out.
#[derive(Serialize, ToSchema)]
pub struct TakenMessage {
    /// Its number.
    number: u64,
    /// How often it was handed out, this time included.
    deliveries: u64,
    /// When it was published, in milliseconds since 1970.
    published_at_ms: u64,
    /// Where it was before it came to this dead-letter topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    origin: Option<MessageOrigin>,
    /// What was published.
    #[schema(value_type = openapi::Text)]
    message: Body64,
}

struct Body64(Bytes);

impl Serialize for Body64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        super::txn::Text(&self.0).serialize(serializer)
    }
}

impl From<TakenMessages> for TakenBody {
    fn from(taken: TakenMessages) -> Self {
        let TakenMessages { messages, missed, dead } = taken;
        Self { messages: messages.into_iter().map(TakenMessage::from).collect(), missed, dead }
    }
}

impl From<TopicMessage> for TakenMessage {
    fn from(message: TopicMessage) -> Self {
        let TopicMessage { number, deliveries, published_at_ms, origin, body } = message;
        Self { number, deliveries, published_at_ms, origin, message: Body64(body) }
    }
}

/// `POST /v1/topics/{topic}/groups/{group}/ack`.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AckBody {
    /// Numbers of messages that are done: they are not delivered again.
    #[serde(default)]
    #[schema(value_type = Vec<WholeNumber>, max_items = 1024)]
    done: BoundedList<Number>,
    /// Numbers of messages that are given back: they are delivered again at once.
    #[serde(default)]
    #[schema(value_type = Vec<WholeNumber>, max_items = 1024)]
    back: BoundedList<Number>,
}

/// What became of it.
#[derive(Serialize, ToSchema)]
pub struct AckedBody {
    /// How many of the messages were handed out, and not acknowledged.
    found: u64,
}

fn keyspace(uri: &Uri) -> Result<String, Problem> {
    let [keyspace] = parameters(uri.query(), ["keyspace"])?;
    Ok(keyspace.unwrap_or_else(|| "0".to_owned()))
}

/// The topics of a keyspace.
#[utoipa::path(
    get, path = "/v1/topics", operation_id = "topics", tag = "topics",
    params(("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given.")),
    responses((status = 200, description = "Their names.", body = TopicList)),
    extensions(("x-problems" = json!([
        "topic-refused", "no-keyspace", "no-level", "loading", "stopping", "busy", "no-answer",
        "too-many-transactions", "bad-keyspace"
    ])))
)]
pub async fn list(State(context): State<Shared>, uri: Uri) -> Result<Json<TopicList>, Problem> {
    let keyspace = keyspace(&uri)?;
    let topics = context.read(|done| context.api.topics(&keyspace, done)).await?;
    Ok(Json(TopicList { topics }))
}

/// Makes a topic. One that is there with the same settings is left as it is.
#[utoipa::path(
    post, path = "/v1/topics", operation_id = "createTopic", tag = "topics",
    params(("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given.")),
    request_body = TopicBody,
    responses((status = 201, description = "As it is.", body = TopicInfo)),
    extensions(("x-problems" = json!([
        "topic-refused", "bad-topic", "no-keyspace", "no-level", "too-many-transactions",
        "transaction-too-large", "out-of-memory", "bad-keyspace"
    ])))
)]
pub async fn create(
    State(context): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<TopicInfo>), Problem> {
    let keyspace = keyspace(&uri)?;
    let TopicBody { name, kept_ms, messages_max, bytes_max } =
        json(&context, &headers, body).await?;
    let id = context.next_id();
    let spec = TopicSpec { kept_ms, messages_max, bytes_max };
    let create = |done| context.api.topic_create(id, &keyspace, &name, spec, done);
    Ok((StatusCode::CREATED, Json(context.change(TIMES, id, create).await?)))
}

/// A topic, with its groups.
#[utoipa::path(
    get, path = "/v1/topics/{topic}", operation_id = "topic", tag = "topics",
    params(
        ("topic" = String, Path, description = "Its name."),
        ("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given."),
    ),
    responses((status = 200, description = "As it is.", body = TopicInfo)),
    extensions(("x-problems" = json!([
        "no-topic", "topic-refused", "bad-topic", "no-keyspace", "no-level", "loading", "stopping",
        "busy", "no-answer", "too-many-transactions", "bad-keyspace"
    ])))
)]
pub async fn show(
    State(context): State<Shared>,
    Path(topic): Path<String>,
    uri: Uri,
) -> Result<Json<TopicInfo>, Problem> {
    let keyspace = keyspace(&uri)?;
    Ok(Json(context.read(|done| context.api.topic(&keyspace, &topic, done)).await?))
}

/// Deletes a topic, with its messages and groups. Nobody can use it from the beginning on; if the
/// answer does not come, asking again goes on.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}", operation_id = "deleteTopic", tag = "topics",
    params(
        ("topic" = String, Path, description = "Its name."),
        ("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given."),
    ),
    responses((status = 204, description = "It is gone.")),
    extensions(("x-problems" = json!([
        "no-topic", "topic-refused", "bad-topic", "no-keyspace", "no-level",
        "too-many-transactions", "transaction-too-large", "out-of-memory", "bad-keyspace"
    ])))
)]
pub async fn remove(
    State(context): State<Shared>,
    Path(topic): Path<String>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let (id, keyspace) = (context.next_id(), keyspace(&uri)?);
    context.change(TIMES, id, |done| context.api.topic_delete(id, &keyspace, &topic, done)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Publishes messages, all at one moment: they get numbers one behind the other.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/messages", operation_id = "publish", tag = "topics",
    params(
        ("topic" = String, Path, description = "Its name."),
        ("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given."),
    ),
    request_body = PublishBody,
    responses((status = 200, description = "They are published.", body = PublishedMessages)),
    extensions(("x-problems" = json!([
        "no-topic", "topic-refused", "bad-topic", "message-too-long", "no-keyspace", "no-level",
        "too-many-transactions", "transaction-too-large", "out-of-memory", "bad-keyspace"
    ])))
)]
pub async fn publish(
    State(context): State<Shared>,
    Path(topic): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PublishedMessages>, Problem> {
    let keyspace = keyspace(&uri)?;
    let (body, _room): (PublishBody, _) =
        json_within(&context, &headers, body, BODY_BYTES_MAX, too_long).await?;
    let bodies: Vec<Bytes> = body.messages.0.into_iter().map(|message| message.0).collect();
    let count = bodies.len();
    if !(1..=PUBLISH_MAX).contains(&count) {
        let why = format!("messages has {count}: 1 to {PUBLISH_MAX} are published at a time");
        return Err(Problem::bad_request(why));
    }
    let id = context.next_id();
    let publish = |done| context.api.publish(id, &keyspace, &topic, bodies, done);
    let first = context.change(TIMES, id, publish).await?;
    Ok(Json(PublishedMessages { first, last: first + count as u64 - 1 }))
}

/// Makes a group, whose members share the topic's messages. One that is there gets these settings,
/// and goes on where it is.
#[utoipa::path(
    put, path = "/v1/topics/{topic}/groups/{group}", operation_id = "subscribe", tag = "topics",
    params(
        ("topic" = String, Path, description = "The topic."),
        ("group" = String, Path, description = "The group's name."),
        ("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given."),
    ),
    request_body = GroupBody,
    responses((status = 200, description = "As it is.", body = GroupInfo)),
    extensions(("x-problems" = json!([
        "no-topic", "topic-refused", "bad-topic", "no-keyspace", "no-level",
        "too-many-transactions", "transaction-too-large", "out-of-memory", "bad-keyspace"
    ])))
)]
pub async fn subscribe(
    State(context): State<Shared>,
    Path((topic, group)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<GroupInfo>, Problem> {
    let keyspace = keyspace(&uri)?;
    let GroupBody { from, ack_ms, deliveries_max, dead_letter } =
        json(&context, &headers, body).await?;
    let from = from.map(|StartBody(from)| from).unwrap_or_default();
    let spec = GroupSpec { from, ack_ms, deliveries_max, dead_letter };
    let id = context.next_id();
    let subscribe = |done| context.api.subscribe(id, &keyspace, (&topic, &group), spec, done);
    Ok(Json(context.change(TIMES, id, subscribe).await?))
}

/// Ends a group.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}/groups/{group}", operation_id = "unsubscribe",
    tag = "topics",
    params(
        ("topic" = String, Path, description = "The topic."),
        ("group" = String, Path, description = "The group's name."),
        ("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given."),
    ),
    responses((status = 204, description = "It is gone.")),
    extensions(("x-problems" = json!([
        "no-topic", "topic-refused", "bad-topic", "no-keyspace", "no-level",
        "too-many-transactions", "transaction-too-large", "out-of-memory", "bad-keyspace"
    ])))
)]
pub async fn unsubscribe(
    State(context): State<Shared>,
    Path((topic, group)): Path<(String, String)>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let (id, keyspace) = (context.next_id(), keyspace(&uri)?);
    let end = |done| context.api.unsubscribe(id, &keyspace, (&topic, &group), done);
    context.change(TIMES, id, end).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hands out messages to a member of a group, or waits for one: each has to be acknowledged in
/// time, or is handed out again.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/groups/{group}/take", operation_id = "take", tag = "topics",
    params(
        ("topic" = String, Path, description = "The topic."),
        ("group" = String, Path, description = "The group's name."),
        ("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given."),
    ),
    request_body = TakeBody,
    responses((status = 200, description = "What there is, maybe nothing.", body = TakenBody)),
    extensions(("x-problems" = json!([
        "no-topic", "topic-refused", "bad-topic", "no-keyspace", "no-level",
        "too-many-transactions", "transaction-too-large", "out-of-memory", "bad-keyspace"
    ])))
)]
pub async fn take(
    State(context): State<Shared>,
    Path((topic, group)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<TakenBody>, Problem> {
    let keyspace = keyspace(&uri)?;
    let body: TakeBody = json(&context, &headers, body).await?;
    let until = Instant::now() + wait_of(body.wait_ms)?;
    let most = most(body.max)?;
    let taken = take_until(&context, &keyspace, (&topic, &group), most, until).await?;
    Ok(Json(taken.into()))
}

/// How many messages a take is to bring.
pub(super) fn most(max: Option<u64>) -> Result<usize, Problem> {
    let max = max.unwrap_or(TAKE);
    if !(1..=TAKE_MAX).contains(&max) {
        let why = format!("max is {max}: it has to be from 1 to {TAKE_MAX}");
        return Err(Problem::bad_request(why));
    }
    Ok(max as usize)
}

/// Takes until there is something to tell, or the time is over.
pub(super) async fn take_until(
    context: &Context,
    keyspace: &str,
    place: (&str, &str),
    most: usize,
    until: Instant,
) -> Result<TakenMessages, ApiError> {
    let (topic, _) = place;
    loop {
        let (id, since) = (context.next_id(), context.api.moment());
        let take = |done| context.api.take(id, keyspace, place, most, done);
        let taken = context.change(TIMES, id, take).await?;
        if taken != TakenMessages::default() || Instant::now() >= until {
            return Ok(taken);
        }
        Awaited::Message { keyspace, topic }.wait(context, since, until).await;
    }
}

/// Says what became of messages that were handed out.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/groups/{group}/ack", operation_id = "acknowledge",
    tag = "topics",
    params(
        ("topic" = String, Path, description = "The topic."),
        ("group" = String, Path, description = "The group's name."),
        ("keyspace" = Option<String>, Query, description = "The keyspace: 0, if not given."),
    ),
    request_body = AckBody,
    responses((status = 200, description = "It is known.", body = AckedBody)),
    extensions(("x-problems" = json!([
        "no-topic", "topic-refused", "bad-topic", "no-keyspace", "no-level",
        "too-many-transactions", "transaction-too-large", "out-of-memory", "bad-keyspace"
    ])))
)]
pub async fn ack(
    State(context): State<Shared>,
    Path((topic, group)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<AckedBody>, Problem> {
    let keyspace = keyspace(&uri)?;
    let body: AckBody = json(&context, &headers, body).await?;
    let numbers = |name, list: BoundedList<Number>| {
        list.0.into_iter().map(|number| number.unsigned(name)).collect::<Result<Vec<_>, _>>()
    };
    let what =
        Acknowledged { done: numbers("done", body.done)?, back: numbers("back", body.back)? };
    if what == Acknowledged::default() {
        return Err(Problem::bad_request("the body names no message"));
    }
    let id = context.next_id();
    let ack = |done| context.api.acknowledge(id, &keyspace, (&topic, &group), what, done);
    Ok(Json(AckedBody { found: context.change(TIMES, id, ack).await? }))
}

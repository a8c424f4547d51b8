//! `/openapi.json`: the document of this API (OpenAPI 3.1), made from the handlers.
//!
//! Each handler says above itself what it takes and answers; [`Api`] lists the handlers. A handler
//! names its problems by kind, in `x-problems`. From the kinds, and those that every request or
//! every write can have, follow the replies with an error: their statuses stand in one table.
//!
//! `docs/openapi.json` is this document as a file: a test compares them. Another compares its paths
//! and methods with those of the router, in both directions.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi, ToSchema};

use super::problem::{CONTENT_TYPE_OF_PROBLEMS, Wire, kinds};
use super::{
    cluster, cluster_version, dev, events, feed, handlers, history, keys, keyspaces, kv, locks,
    nodes, prove, routes, snapshots, topic_stream, topics, txn, volumes,
};

/// Where the document is.
pub const PATH: &str = "/openapi.json";

/// Problems of all requests.
const OF_ALL: [&str; 4] = ["bad-request", "foreign-host", "uri-too-long", "head-too-long"];
/// Problems of all requests that change something.
const OF_WRITES: [&str; 7] = [
    "foreign-origin",
    "loading",
    "stopping",
    "busy",
    "disk-full",
    "storage-failed",
    "unknown-outcome",
];
/// Problems of all requests with JSON.
const OF_JSON: [&str; 3] = ["not-json", "body-timeout", "body-too-long"];
/// Where a handler lists the kinds of its problems.
const PROBLEMS: &str = "x-problems";

/// The document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Carillon",
        description = "The HTTP API of a node. Any node takes any request. Keys are any bytes, \
                       percent-encoded. docs/http.md explains it.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/", description = "The node that serves this document.")),
    tags(
        (name = "keys", description = "Keys and their values."),
        (name = "snapshots", description = "Past times that stay readable."),
        (name = "transactions", description = "Several keys as one."),
        (name = "locks", description = "Leases with tokens that grow."),
        (name = "topics", description = "Messages that are kept, and groups that share them."),
        (name = "keyspaces", description = "The catalogue."),
        (name = "volumes", description = "Clones of volumes, which are keyspaces."),
        (name = "shards", description = "Parts of keyspaces."),
        (name = "nodes", description = "The members of the cluster."),
        (name = "health", description = "One node."),
        (name = "dev", description = "Nodes of `carillon dev`."),
    ),
    paths(
        handlers::live,
        handlers::ready,
        handlers::metrics,
        handlers::status,
        cluster::nodes,
        nodes::act,
        cluster::shards,
        cluster::split,
        cluster::merge,
        cluster_version::show,
        cluster_version::raise,
        events::show,
        cluster::decisions,
        prove::prove,
        cluster::metrics,
        nodes::drain,
        dev::show,
        dev::add,
        dev::act,
        history::list,
        feed::show,
        keyspaces::list,
        keyspaces::create,
        keyspaces::one,
        keyspaces::alter,
        keyspaces::remove,
        volumes::clone,
        volumes::flatten,
        keys::list,
        snapshots::get_many,
        snapshots::take,
        snapshots::list,
        snapshots::renew,
        snapshots::release,
        snapshots::safe_points,
        snapshots::collect,
        locks::list,
        locks::acquire,
        locks::show,
        locks::renew,
        locks::release,
        topics::list,
        topics::create,
        topics::show,
        topics::remove,
        topics::publish,
        topics::subscribe,
        topics::unsubscribe,
        topics::take,
        topics::ack,
        topic_stream::show,
        routes::show,
        kv::get,
        kv::put,
        kv::delete,
        txn::transact,
        txn::begin,
        txn::run,
        txn::rollback,
        txn::commit,
    ),
    components(schemas(Wire)),
    modifiers(&Problems),
)]
pub struct Api;

/// The document as a file has it.
pub fn document() -> String {
    with_known_formats(&Api::openapi().to_pretty_json().expect("a document is JSON")) + "\n"
}

/// The library writes `u-int64`, where the registry of formats has `uint64`.
fn with_known_formats(json: &str) -> String {
    json.replace("\"u-int", "\"uint")
}

/// The document.
pub(super) async fn show() -> Response {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| {
        with_known_formats(&Api::openapi().to_json().expect("a document is JSON")).into()
    });
    ([(CONTENT_TYPE, "application/json")], document.clone()).into_response()
}

/// Adds the replies with an error.
struct Problems;

impl Modify for Problems {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        for item in api.paths.paths.values_mut() {
            let reads = [&mut item.get].into_iter().flatten().map(|operation| (operation, false));
            let writes = [&mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
            let writes = writes.into_iter().flatten().map(|operation| (operation, true));
            reads.chain(writes).for_each(|(operation, is_write)| add_problems(operation, is_write));
        }
    }
}

fn add_problems(operation: &mut Operation, is_write: bool) {
    let mut all: Vec<String> = OF_ALL.map(str::to_owned).to_vec();
    if is_write {
        all.extend(OF_WRITES.map(str::to_owned));
    }
    let is_json = |body: &RefOr<RequestBody>| match body {
        RefOr::T(body) => body.content.contains_key("application/json"),
        RefOr::Ref(_) => false,
    };
    if operation.request_body.as_ref().is_some_and(is_json) {
        all.extend(OF_JSON.map(str::to_owned));
    }
    let listed = operation.extensions.as_mut().and_then(|extensions| extensions.get_mut(PROBLEMS));
    if let Some(listed) = listed {
        let kinds = listed.as_array().expect("x-problems is a list").iter();
        all.extend(kinds.map(|kind| kind.as_str().expect("a kind is a word").to_owned()));
    }
    let mut by_status: BTreeMap<StatusCode, Vec<String>> = BTreeMap::new();
    for kind in all {
        let status = kinds::status_of(&kind).unwrap_or_else(|| panic!("{kind} is no problem"));
        by_status.entry(status).or_default().push(format!("`{kind}`"));
    }
    for (status, mut kinds) in by_status {
        kinds.sort();
        kinds.dedup();
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let mut response = ResponseBuilder::new()
            .description(format!("{}.", kinds.join(", ")))
            .content(CONTENT_TYPE_OF_PROBLEMS, content);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let schema = ObjectBuilder::new().schema_type(Type::Integer);
            let after = HeaderBuilder::new()
                .description(Some("Seconds to wait before it is sent again."))
                .schema(Some(schema));
            response = response.header("retry-after", after.build());
        }
        let response = RefOr::T(response.build());
        operation.responses.responses.insert(status.as_str().to_owned(), response);
    }
}

/// The schema of a member that is always true.
pub(super) fn always() -> Schema {
    let schema = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]));
    schema.description(Some("Always.")).into()
}

/// Bytes: a string if they are UTF-8, else in base64.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum Text {
    /// Text.
    Plain(String),
    /// Any bytes.
    #[schema(title = "Base64")]
    Encoded {
        /// In base64.
        base64: String,
    },
}

/// A whole number, or its digits as a string.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum WholeNumber {
    /// A number.
    Number(i64),
    /// Digits, for not every reader of JSON keeps 64 bits.
    Digits(String),
}

/// Whether anything was changed.
#[derive(Serialize, ToSchema)]
pub enum ProblemOutcome {
    /// Nothing was, and nothing will be.
    #[serde(rename = "not done")]
    NotDone,
    /// It may have been, or may yet be.
    #[serde(rename = "unknown")]
    Unknown,
}

/// What an operation of a transaction has come to.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum TxnResult {
    /// What a key has, or the sum that it has now.
    Value {
        /// The value; `null`: none.
        #[schema(required = true)]
        value: Option<Text>,
        /// When it was written, as digits.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        version: Option<String>,
    },
    /// It was put.
    Put {
        /// Always.
        #[schema(schema_with = always)]
        put: bool,
    },
    /// Whether the key had a value.
    Deleted {
        /// So.
        deleted: bool,
    },
    /// It was published.
    Published {
        /// Its number, as digits.
        published: String,
    },
    /// Keys in order.
    Range {
        /// The keys.
        keys: Vec<TxnPair>,
    },
}

/// A key with its value.
#[derive(Serialize, ToSchema)]
pub struct TxnPair {
    /// The key.
    key: Text,
    /// Its value.
    value: Text,
    /// When it was written, as digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    version: Option<String>,
}

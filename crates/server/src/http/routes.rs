//! `/v1/route/{keyspace}/{key}`, and requests for single keys that name a lookup.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::Response;

use super::context::{Context, Shared};
use super::kv::place_behind;
use super::problem::Problem;
use super::uri::parameters;
use crate::api::RouteStatus;
use crate::hub::lookups::Way;

const ROUTE: HeaderName = HeaderName::from_static("carillon-route");

/// How the owner of a key is found, by one lookup or by all of them.
pub async fn show(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<Vec<RouteStatus>>, Problem> {
    let (keyspace, key) = place_behind(&context, &uri, "/v1/route/")?;
    let [lookup] = parameters(uri.query(), ["lookup"])?;
    let words = lookup.unwrap_or_else(|| "all".to_owned());
    let (has_all, rest) = match words.trim_start().split_at_checked(3) {
        Some((all, rest)) if all.eq_ignore_ascii_case("all") => (true, rest),
        _ => (false, &words[..]),
    };
    let first = way(rest)?;
    let ways = match has_all {
        true => overlay::Kind::ALL.into_iter().map(|kind| Way { kind, ..first }).collect(),
        false => vec![first],
    };
    let ask = |done| context.api.route(&keyspace, &key, &ways, true, done);
    Ok(Json(context.read(ask).await?))
}

/// Looks for a key's owner as the parameter says, or the listener; what the reply's header says of
/// it, unless that is the full table and nobody has asked.
pub(super) async fn look_up(
    context: &Context,
    (keyspace, key): (&str, &[u8]),
    lookup: Option<String>,
) -> Result<Option<HeaderValue>, Problem> {
    let way = match &lookup {
        Some(words) => way(words)?,
        None => context.options.way,
    };
    if lookup.is_none() && way.kind == overlay::Kind::Full {
        return Ok(None);
    }
    let ask = |done| context.api.route(keyspace, key, &[way], true, done);
    // Whether it is found or not, the request goes where the full table leads.
    let Ok(found) = context.read(ask).await else { return Ok(None) };
    Ok(found.first().and_then(header))
}

/// Adds what [`look_up`] has found.
pub(super) fn add(response: &mut Response, route: Option<HeaderValue>) {
    if let Some(route) = route {
        response.headers_mut().insert(ROUTE, route);
    }
}

fn way(words: &str) -> Result<Way, Problem> {
    let words = words.split([' ', '+', ',']).filter(|word| !word.is_empty());
    Way::of_words(words.map(str::as_bytes))
        .map_err(|why| Problem::bad_request(why.trim_start_matches("ERR ").to_owned()))
}

/// The most moves that a header tells.
const STEPS_MAX: usize = 32;

fn header(route: &RouteStatus) -> Option<HeaderValue> {
    let mut text = format!(
        "lookup={}; form={}; images={}; hops={}; messages={}; micros={}",
        route.lookup,
        route.form,
        if route.images { "on" } else { "off" },
        route.hops,
        route.messages.unwrap_or_default(),
        route.micros,
    );
    if let Some(shard) = route.shard {
        text.push_str(&format!("; shard={shard}"));
    }
    if let Some(why) = &route.failure {
        text.push_str(&format!("; failure=\"{why}\""));
    }
    let steps = route.steps.iter().take(STEPS_MAX);
    let steps: Vec<_> = steps.map(|step| format!("{}@{}", step.shard, step.node)).collect();
    if !steps.is_empty() {
        text.push_str(&format!("; path={}", steps.join(",")));
    }
    HeaderValue::from_str(&text).ok()
}

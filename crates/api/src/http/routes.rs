//! `/v1/route/{keyspace}/{key}`, and requests for single keys that name a lookup.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::Response;

use super::context::{Context, Shared};
use super::kv::place_behind;
use super::problem::Problem;
use super::uri::key_parameters;
use crate::RouteStatus;
use overlay::LookupChoice;

const ROUTE: HeaderName = HeaderName::from_static("carillon-route");

/// How the owner of a key is found, by one lookup or by all of them.
#[utoipa::path(
    get, path = "/v1/route/{keyspace}/{key}", operation_id = "route", tag = "keys",
    params(
        ("keyspace" = String, Path, description = "Its name."),
        ("key" = String, Path, description = "The key: any bytes."),
        ("lookup" = Option<String>, Query, description = "`full`, `chord`, `chord-sharp`, \
            `linear`, `lh` or `all`, with a form and `noimages` if wanted, separated by blanks."),
    ),
    responses((status = 200, description = "A route for each lookup.", body = Vec<RouteStatus>)),
    extensions(("x-problems" = json!([
        "no-keyspace", "key-too-long", "loading", "busy", "no-answer"
    ])))
)]
pub async fn show(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<Vec<RouteStatus>>, Problem> {
    let ([lookup], key) = key_parameters(uri.query(), ["lookup"])?;
    let (keyspace, key) = place_behind(&context, &uri, "/v1/route/", key)?;
    let lookup = lookup.unwrap_or_default();
    let ways = LookupChoice::parse_all(&words(&lookup).collect::<Vec<_>>()).map_err(wrong)?;
    let ask = |done| context.api.route(&keyspace, &key, &ways, true, done);
    Ok(Json(context.read(ask).await?))
}

/// Looks up a key's owner by the lookup of the parameter, or else of the listener. Returns the
/// reply's header with the route, unless the full table was used without being asked for.
pub(super) async fn look_up(
    context: &Context,
    (keyspace, key): (&str, &[u8]),
    lookup: Option<String>,
) -> Result<Option<HeaderValue>, Problem> {
    let way = match &lookup {
        Some(lookup) => LookupChoice::parse(words(lookup)).map_err(wrong)?,
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

fn words(lookup: &str) -> impl Iterator<Item = &[u8]> {
    lookup.split([' ', '+', ',']).filter(|word| !word.is_empty()).map(str::as_bytes)
}

fn wrong(why: String) -> Problem {
    Problem::bad_request(why.trim_start_matches("ERR ").to_owned())
}

/// The most hops that a header lists.
const STEPS_MAX: usize = 32;

fn header(route: &RouteStatus) -> Option<HeaderValue> {
    let images = if route.images { "on" } else { "off" };
    let mut text = format!(
        "lookup={}; form={}; images={images}; hops={}",
        route.lookup, route.form, route.hops
    );
    if let Some(messages) = route.messages {
        text.push_str(&format!("; messages={messages}"));
    }
    text.push_str(&format!("; micros={}", route.micros));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_without_message_count_omits_it() {
        let mut route = RouteStatus {
            lookup: "linear".to_owned(),
            form: "recursive".to_owned(),
            images: false,
            shard: Some(7),
            leader: None,
            hops: 300,
            messages: Some(301),
            begins_at: Some(2),
            micros: 9,
            failure: None,
            steps: Vec::new(),
        };
        let known =
            "lookup=linear; form=recursive; images=off; hops=300; messages=301; micros=9; shard=7";
        assert_eq!(header(&route).unwrap(), known);
        route.messages = None;
        assert_eq!(header(&route).unwrap(), known.replace(" messages=301;", "").as_str());
    }
}

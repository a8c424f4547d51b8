//! `/v1/prove`: what the cluster may lose before a shard has no majority.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use super::context::Shared;
use super::problem::Problem;
use super::uri::parameters;
use crate::{SHARDS_PAGE_MAX, ShardsQuery, Survivability, Survive};

/// Whether each shard keeps a majority, whichever node, failure domain or two nodes are lost.
#[utoipa::path(
    get, path = "/v1/prove", operation_id = "prove", tag = "nodes",
    params(
        ("survive" = inline(Option<Survive>), Query, description = "The loss of what; `node`."),
    ),
    responses((status = 200, description = "As its leaders see it.", body = Survivability)),
    extensions(("x-problems" = json!(["loading", "no-answer"])))
)]
pub async fn prove(
    State(context): State<Shared>,
    uri: Uri,
) -> Result<Json<Survivability>, Problem> {
    let [survive] = parameters(uri.query(), ["survive"])?;
    let survive = match survive.as_deref() {
        None => Survive::default(),
        Some(name) => Survive::named(name).ok_or_else(|| {
            let why = format!("survive is '{name}': it has to be node, domain or 2-nodes");
            Problem::bad_request(why)
        })?,
    };
    let (mut shards, mut silent, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = ShardsQuery { keyspace: None, after, limit: SHARDS_PAGE_MAX };
        let page = context.read(|done| context.api.shards_of_cluster(&page, done)).await?;
        shards.extend(page.shards);
        silent.extend(page.silent);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let nodes = context.api.nodes().nodes;
    Ok(Json(Survivability::new(survive, &nodes, &shards, silent)))
}

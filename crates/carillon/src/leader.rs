//! Sends a request to the leader of a shard: it asks the nodes one after the other, and again for a
//! while if none leads the shard, as during a leader transfer.

use std::thread;
use std::time::Duration;

use client::http::{Client, ClientError};
use serde_json::Value;

/// How often all nodes are asked,
const ROUNDS: usize = 10;
/// with so much time between.
const BETWEEN: Duration = Duration::from_millis(300);

/// Asks this node, and if another leads the shard, the others.
pub fn ask(
    client: &Client,
    what: impl Fn(&Client) -> Result<Value, ClientError>,
) -> Result<Value, ClientError> {
    for _ in 1..ROUNDS {
        match round(client, &what) {
            Err(ClientError::Refused(problem)) if problem.kind == "not-leader" => {}
            answer => return answer,
        }
        thread::sleep(BETWEEN);
    }
    round(client, &what)
}

fn round(
    client: &Client,
    what: &impl Fn(&Client) -> Result<Value, ClientError>,
) -> Result<Value, ClientError> {
    let refused = match what(client) {
        Err(error) if is_for_another(&error) => error,
        answer => return answer,
    };
    let nodes = client.nodes()?;
    let others = nodes["nodes"].as_array().into_iter().flatten();
    let addresses = others.filter(|node| node["this"] != true);
    for other in addresses.filter_map(|node| client.of_node(&node["addresses"])) {
        match what(&other) {
            Err(error) if is_for_another(&error) => {}
            // Who does not answer may be down; another may lead by now.
            Err(ClientError::CannotConnect { .. }) => {}
            answer => return answer,
        }
    }
    Err(refused)
}

fn is_for_another(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem)
        if problem.kind == "not-leader" || problem.kind == "no-shard")
}

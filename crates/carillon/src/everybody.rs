//! What only a shard's leader knows, every node has to be asked for.

use client::http::{Client, ClientError};
use serde_json::Value;

/// What the nodes that are up have answered.
pub struct Everybody {
    /// The members, as the node that was asked first sees them.
    pub nodes: Value,
    /// A member and what it has answered.
    pub answers: Vec<(Value, Value)>,
    /// Names of nodes that are up and have not answered by HTTP.
    pub silent: Vec<String>,
}

impl Everybody {
    /// Asks this node who is there, and then each of them.
    ///
    /// # Errors
    /// If the first node does not answer.
    pub fn ask(
        client: &Client,
        ask: impl Fn(&Client) -> Result<Value, ClientError>,
    ) -> Result<Self, ClientError> {
        let nodes = client.nodes()?;
        let (mut answers, mut silent) = (Vec::new(), Vec::new());
        for node in nodes["nodes"].as_array().into_iter().flatten().filter(|node| is_up(node)) {
            let answer = match (node["this"] == true, node["addresses"]["http"].as_str()) {
                (true, _) => Some(ask(client)?),
                (false, Some(at)) => Client::new(at).and_then(|client| ask(&client)).ok(),
                (false, None) => None,
            };
            match answer {
                Some(answer) => answers.push((node.clone(), answer)),
                None => silent.push(node["name"].as_str().unwrap_or_default().to_owned()),
            }
        }
        Ok(Self { nodes, answers, silent })
    }
}

/// Whether a member is there, or may be.
pub fn is_up(node: &Value) -> bool {
    node["state"] == "up" || node["state"] == "suspected"
}

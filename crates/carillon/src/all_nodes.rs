//! Asks every node of a cluster: some facts only a shard's leader knows.

use std::thread;
use std::time::Duration;

use client::http::{Client, ClientError};
use serde_json::Value;

/// A node that does not answer within this time counts as silent.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// How many nodes are asked at a time.
const AT_ONCE: usize = 32;

/// The answers of all nodes that are up.
pub struct AllNodes {
    /// The members, as the node that was asked first sees them.
    pub nodes: Value,
    /// A member and what it has answered.
    pub answers: Vec<(Value, Value)>,
    /// Names of nodes that are up and have not answered by HTTP.
    pub silent: Vec<String>,
}

impl AllNodes {
    /// Asks the first node for its list of members, and then each member that is up.
    ///
    /// # Errors
    /// If the first node does not answer.
    pub fn ask(
        client: &Client,
        ask: impl Fn(&Client) -> Result<Value, ClientError> + Sync,
    ) -> Result<Self, ClientError> {
        let nodes = client.nodes()?;
        let up: Vec<&Value> = members(&nodes).filter(|node| is_up(node)).collect();
        let other = |node: &Value| {
            let other = client.of_node(&node["addresses"])?;
            ask(&other.with_timeout(ANSWER_TIMEOUT)).ok()
        };
        let mut others: Vec<Option<Value>> = Vec::new();
        for some in up.chunks(AT_ONCE) {
            others.extend(thread::scope(|scope| {
                let asked = some.iter().map(|node| {
                    let is_other = node["this"] != true;
                    scope.spawn(move || is_other.then(|| other(node)).flatten())
                });
                let asked: Vec<_> = asked.collect();
                let told = asked.into_iter().map(|asked| asked.join().expect("it only asks"));
                told.collect::<Vec<_>>()
            }));
        }
        let (mut answers, mut silent) = (Vec::new(), Vec::new());
        for (node, answer) in up.into_iter().zip(others) {
            let answer = if node["this"] == true { Some(ask(client)?) } else { answer };
            match answer {
                Some(answer) => answers.push((node.clone(), answer)),
                None => silent.push(node["name"].as_str().unwrap_or_default().to_owned()),
            }
        }
        // Who has gone meanwhile is gone.
        Ok(Self { nodes: client.nodes()?, answers, silent })
    }
}

/// The members that an answer of `GET /v1/nodes` lists.
pub fn members(nodes: &Value) -> impl Iterator<Item = &Value> {
    nodes["nodes"].as_array().into_iter().flatten()
}

/// Whether a member is up, or may be.
pub fn is_up(node: &Value) -> bool {
    node["state"] == "up" || node["state"] == "suspected"
}

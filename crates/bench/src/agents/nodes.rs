//! Nodes on an agent's host: started, signalled and counted for a controller, over a connection of
//! their own beside that of the load.
//!
//! Invariants: the nodes belong to the thread of the connection. They end when it closes, when the
//! controller is silent for [`SILENT_MAX`], and with the agent. What runs here the controller
//! chooses, as it chooses the programs of the driver `exec`: a controller that knows the
//! secret may.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LOST_AFTER;
use super::controller::open;
use super::message::{Answer, Order};
use super::wire::{Channel, Secret};
use crate::run::RunError;
use crate::run::host::{Host, HostCounts, NodeSignal, Place, ThisHost};
use crate::scenario::node::NODES_MAX;

/// After this time without an order a controller is lost. It looks at its nodes several times a
/// second.
pub const SILENT_MAX: Duration = Duration::from_secs(30);

/// From the controller. Each gets an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeOrder {
    /// Find a place for this node.
    Place(usize, String),
    /// Start this node with these words.
    Start(usize, Vec<String>),
    /// Send a signal to it.
    Signal(usize, NodeSignal),
    /// Which nodes have ended?
    Ended,
    /// What did it print last?
    LastWords(usize),
    /// What was used?
    Counts,
}

/// From the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeAnswer {
    /// Done.
    Done,
    /// The place.
    Place(Place),
    /// Nodes that have ended, and how.
    Ended(Vec<(usize, String)>),
    /// What a node printed last.
    LastWords(String),
    /// What was used.
    Counts(HostCounts),
    /// It cannot be done.
    Failed(String),
}

/// The agent's end: follows orders until the controller is gone. Returns why it ended.
pub fn serve(channel: &mut Channel, host: &str) -> io::Error {
    let mut this = match ThisHost::new(host, None) {
        Ok(this) => this,
        Err(why) => return io::Error::other(why.to_string()),
    };
    loop {
        let done = channel.receive::<NodeOrder>(SILENT_MAX).and_then(|order| {
            let answer = follow(&mut this, order);
            channel.send(&answer.unwrap_or_else(|why| NodeAnswer::Failed(why.to_string())))
        });
        if let Err(why) = done {
            return why;
        }
    }
}

fn follow(this: &mut ThisHost, order: NodeOrder) -> Result<NodeAnswer, RunError> {
    let bounded = |node: usize| match node < NODES_MAX {
        true => Ok(node),
        false => Err(RunError::Mismatch(format!("more than {NODES_MAX} nodes"))),
    };
    match order {
        NodeOrder::Place(node, secret) => {
            this.place(bounded(node)?, &secret).map(NodeAnswer::Place)
        }
        NodeOrder::Start(node, words) => {
            this.start(bounded(node)?, &words).map(|()| NodeAnswer::Done)
        }
        NodeOrder::Signal(node, signal) => this.signal(node, signal).map(|()| NodeAnswer::Done),
        NodeOrder::Ended => this.ended().map(NodeAnswer::Ended),
        NodeOrder::LastWords(node) => this.last_words(node).map(NodeAnswer::LastWords),
        NodeOrder::Counts => this.counts().map(NodeAnswer::Counts),
    }
}

/// The controller's end.
pub struct FarHost {
    name: String,
    channel: Channel,
}

impl FarHost {
    /// Connects to an agent a second time, for nodes.
    ///
    /// # Errors
    /// It is lost, or knows another secret by now.
    pub fn connect(name: &str, secret: &Secret) -> Result<Self, RunError> {
        let stream: TcpStream = open(name)?;
        let lost =
            |why: io::Error| RunError::Agent { agent: name.to_owned(), why: why.to_string() };
        let mut channel = Channel::open(stream, secret).map_err(lost)?;
        let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
        channel.send(&Order::Nodes { host: host.to_owned() }).map_err(lost)?;
        match channel.receive::<Answer>(LOST_AFTER).map_err(lost)? {
            Answer::Good => Ok(Self { name: name.to_owned(), channel }),
            other => Err(lost(io::Error::other(format!("it answered out of turn: {other:?}")))),
        }
    }

    fn ask(&mut self, order: &NodeOrder) -> Result<NodeAnswer, RunError> {
        let lost = |error: io::Error| RunError::Agent {
            agent: self.name.clone(),
            why: format!("lost: it {error}; its nodes have ended"),
        };
        self.channel.send(order).map_err(lost)?;
        match self.channel.receive(LOST_AFTER).map_err(lost)? {
            NodeAnswer::Failed(why) => Err(RunError::Agent { agent: self.name.clone(), why }),
            answer => Ok(answer),
        }
    }

    fn odd<T>(&self, answer: &NodeAnswer) -> Result<T, RunError> {
        let why = format!("it answered out of turn: {answer:?}");
        Err(RunError::Agent { agent: self.name.clone(), why })
    }
}

impl Host for FarHost {
    fn place(&mut self, node: usize, secret: &str) -> Result<Place, RunError> {
        match self.ask(&NodeOrder::Place(node, secret.to_owned()))? {
            NodeAnswer::Place(place) => Ok(place),
            other => self.odd(&other),
        }
    }

    fn start(&mut self, node: usize, words: &[String]) -> Result<(), RunError> {
        match self.ask(&NodeOrder::Start(node, words.to_vec()))? {
            NodeAnswer::Done => Ok(()),
            other => self.odd(&other),
        }
    }

    fn signal(&mut self, node: usize, signal: NodeSignal) -> Result<(), RunError> {
        match self.ask(&NodeOrder::Signal(node, signal))? {
            NodeAnswer::Done => Ok(()),
            other => self.odd(&other),
        }
    }

    fn ended(&mut self) -> Result<Vec<(usize, String)>, RunError> {
        match self.ask(&NodeOrder::Ended)? {
            NodeAnswer::Ended(ended) => Ok(ended),
            other => self.odd(&other),
        }
    }

    fn last_words(&mut self, node: usize) -> Result<String, RunError> {
        match self.ask(&NodeOrder::LastWords(node))? {
            NodeAnswer::LastWords(words) => Ok(words),
            other => self.odd(&other),
        }
    }

    fn counts(&mut self) -> Result<HostCounts, RunError> {
        match self.ask(&NodeOrder::Counts)? {
            NodeAnswer::Counts(counts) => Ok(counts),
            other => self.odd(&other),
        }
    }
}

//! What controller and agents say to each other.

use serde::{Deserialize, Serialize};

use crate::measure::record::{PhaseData, Second};
use crate::run::{Part, Step};

/// A file that a program needs on the agents' hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShippedFile {
    /// The word of the program that names it.
    pub word: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// What it holds, in hexadecimal.
    pub hex: String,
}

/// From the controller. Each gets an answer, but [`Self::Go`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// What will be run. The answer is [`Answer::Good`].
    Plan {
        /// The scenario's name.
        name: String,
        /// Its text.
        text: String,
        /// What flags set.
        sets: Vec<(String, String)>,
        /// The longest that a phase may take, in seconds.
        seconds_max: Option<f64>,
        /// Which part of the load this agent makes.
        part: Part,
        /// Files that its program needs.
        files: Vec<ShippedFile>,
    },
    /// A run of a cell begins, against these addresses. The answer is [`Answer::Good`].
    Begin {
        /// The cell.
        cell: usize,
        /// Where requests go.
        addresses: Vec<String>,
    },
    /// Prepares a step. The answer is [`Answer::Ready`].
    Step(Step),
    /// Begins it in so many microseconds. Then come [`Answer::Second`]s and [`Answer::Ended`].
    Go {
        /// From when this arrives.
        after_micros: u64,
    },
    /// The run is over. The answer is [`Answer::Good`].
    End,
    /// What time is it? The answer is [`Answer::Time`].
    Time,
    /// This connection is for nodes on the agent's host, which clients reach at this address. The
    /// answer is [`Answer::Good`]; from then on the messages are those of [`super::nodes`].
    Nodes {
        /// The address.
        host: String,
    },
}

/// From an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Done.
    Good,
    /// All connections are open.
    Ready,
    /// Still at it; sent each second.
    Alive,
    /// A second of a worker is past.
    Second(Second),
    /// The step is over.
    Ended(PhaseData),
    /// Microseconds since 1970, by the agent's clock.
    Time(u64),
    /// It failed, and has ended on this agent.
    Failed(String),
}

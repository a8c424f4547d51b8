//! Who makes the load: this process, or agents on other hosts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use super::RunError;
use super::host::Host;
use super::phase::{Alone, Part, Shared, Step, resolve, run_part};
use crate::measure::record::{PhaseData, Second};
use crate::scenario::Scenario;

/// What a step tells while it goes on.
#[derive(Debug)]
pub enum StepEvent {
    /// All connections are open: the load begins at this moment.
    Began(Instant),
    /// A second of a part of the load is past.
    Second(Second),
}

/// How a step is watched, and ended.
#[derive(Debug)]
pub struct Control {
    /// Where it tells what happens. At most one event waits for each part and second.
    pub events: Sender<StepEvent>,
    /// Set when it is to end.
    pub stop: AtomicBool,
}

impl Control {
    /// Whether the step is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Tells what happens.
    pub fn tell(&self, event: StepEvent) {
        // Nobody listens any more: the step will be stopped in a moment.
        let _unheard = self.events.send(event);
    }
}

/// Makes loads, one step after the other.
pub trait Session: Send {
    /// A run of a cell of the plan begins, or goes on against other addresses.
    ///
    /// # Errors
    /// It cannot.
    fn begin(&mut self, cell: usize, addresses: &[String]) -> Result<(), RunError>;

    /// Does a step on all hosts at once.
    ///
    /// # Errors
    /// A host failed, or it was stopped; the step has ended on all.
    fn step(
        &mut self,
        scenario: &Scenario,
        step: Step,
        control: &Control,
    ) -> Result<PhaseData, RunError>;

    /// The run is over.
    ///
    /// # Errors
    /// A host is lost.
    fn end(&mut self) -> Result<(), RunError>;

    /// The host of an agent, counted from 1, for nodes that run there.
    ///
    /// # Errors
    /// There is no such agent, or it is lost.
    fn host(&mut self, agent: u64) -> Result<Box<dyn Host>, RunError>;

    /// The agents; none if this process makes the load.
    fn agents(&self) -> Vec<String>;
}

/// This process makes the load.
#[derive(Default)]
pub struct Local {
    addresses: Vec<SocketAddr>,
    shared: Shared,
}

impl Session for Local {
    fn begin(&mut self, _cell: usize, addresses: &[String]) -> Result<(), RunError> {
        self.addresses = resolve(addresses)?;
        self.shared = Shared::default();
        Ok(())
    }

    fn step(
        &mut self,
        scenario: &Scenario,
        step: Step,
        control: &Control,
    ) -> Result<PhaseData, RunError> {
        let mut watch = Alone { control };
        let part = Part { agent: 0, agents: 1 };
        run_part(scenario, step, &self.addresses, part, &self.shared, &mut watch)
    }

    fn host(&mut self, agent: u64) -> Result<Box<dyn Host>, RunError> {
        let why = format!("a node is to run on the host of agent {agent}: name --agents");
        Err(RunError::Mismatch(why))
    }

    fn end(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    fn agents(&self) -> Vec<String> {
        Vec::new()
    }
}

//! Who makes the load: this process, or agents on other hosts.

use std::net::SocketAddr;
use std::time::Instant;

use super::RunError;
use super::phase::{Alone, Part, Seconds, Step, resolve, run_part};
use crate::driver::memory::MemoryStore;
use crate::measure::record::{PhaseData, Second};
use crate::scenario::Scenario;

/// What a step measured.
#[derive(Debug, Default)]
pub struct StepOutcome {
    /// All of it.
    pub data: PhaseData,
    /// Second by second.
    pub seconds: Seconds,
    /// How long it took.
    pub elapsed: f64,
}

/// Makes loads, one step after the other.
pub trait Session {
    /// A run of a cell of the plan begins, against these addresses.
    ///
    /// # Errors
    /// It cannot.
    fn begin(&mut self, cell: usize, addresses: &[String]) -> Result<(), RunError>;

    /// Does a step on all hosts at once.
    ///
    /// # Errors
    /// A host failed; the step has ended on all.
    fn step(
        &mut self,
        scenario: &Scenario,
        step: Step,
        second: &mut dyn FnMut(&Second),
    ) -> Result<StepOutcome, RunError>;

    /// The run is over.
    ///
    /// # Errors
    /// A host is lost.
    fn end(&mut self) -> Result<(), RunError>;

    /// The agents; none if this process makes the load.
    fn agents(&self) -> Vec<String>;
}

/// This process makes the load.
#[derive(Default)]
pub struct Local {
    addresses: Vec<SocketAddr>,
    memory: MemoryStore,
}

impl Session for Local {
    fn begin(&mut self, _cell: usize, addresses: &[String]) -> Result<(), RunError> {
        self.addresses = resolve(addresses)?;
        self.memory = MemoryStore::default();
        Ok(())
    }

    fn step(
        &mut self,
        scenario: &Scenario,
        step: Step,
        second: &mut dyn FnMut(&Second),
    ) -> Result<StepOutcome, RunError> {
        let begun = Instant::now();
        let mut seconds = Seconds::default();
        let mut add = |past: Second| {
            seconds.add(past);
            seconds.last_whole().into_iter().for_each(&mut *second);
        };
        let mut watch = Alone { second: &mut add };
        let part = Part { agent: 0, agents: 1 };
        let addresses = &self.addresses;
        let data = run_part(scenario, step, addresses, part, &self.memory, &mut watch)?;
        Ok(StepOutcome { data, seconds, elapsed: begun.elapsed().as_secs_f64() })
    }

    fn end(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    fn agents(&self) -> Vec<String> {
        Vec::new()
    }
}

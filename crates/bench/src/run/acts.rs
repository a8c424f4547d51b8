//! What a timeline does: each act begins when it is due, and is looked at until it has ended, so
//! that none holds up another, or the counting of seconds.
//!
//! | act | has ended when |
//! |---|---|
//! | start | the node's addresses accept connections |
//! | stop | the process has ended; after [`STOP_TIMEOUT`] it is killed |
//! | run | the command has ended, or its time is up: then it is killed |
//! | others | at once |

use std::collections::VecDeque;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::Instant;

use harness::process::{Directory, Process, Signal, last_words};

use super::RunError;
use super::host::{NetworkChange, NodeSignal};
use super::targets::{STOP_TIMEOUT, Targets};
use crate::measure::usage::Mark;
use crate::scenario::{Act, Deed, Scenario, When};

/// What is waited for.
enum Wait {
    Accepts(usize),
    Ends(usize),
    Command { process: Process, output: PathBuf, act: usize },
}

struct UnderWay {
    /// Its mark.
    mark: usize,
    began: Instant,
    wait: Wait,
}

/// A timeline while it runs.
pub struct Acts<'a> {
    scenario: &'a Scenario,
    due: VecDeque<usize>,
    under_way: Vec<UnderWay>,
    marks: Vec<(usize, Mark)>,
    /// Marks that nobody has been told yet.
    told: usize,
    dir: Option<Directory>,
}

impl<'a> Acts<'a> {
    /// Of a scenario that begins.
    pub fn new(scenario: &'a Scenario) -> Self {
        let due = (0..scenario.timeline.len()).collect();
        let (under_way, marks) = (Vec::new(), Vec::new());
        Self { scenario, due, under_way, marks, told: 0, dir: None }
    }

    /// Begins what is due in a phase that has lasted until now, and looks at what has begun.
    ///
    /// # Errors
    /// Something cannot be done: the run has failed.
    pub fn look(
        &mut self,
        phase: usize,
        began: Instant,
        targets: &mut Targets,
    ) -> Result<(), RunError> {
        let now = began.elapsed();
        let timeline = &self.scenario.timeline;
        while let Some(number) = self.due.front().copied() {
            let is_due = match timeline[number].when {
                When::During(other, at) => other < phase || other == phase && at <= now,
                When::After(other) => other < phase,
            };
            if !is_due {
                break;
            }
            self.due.pop_front();
            self.begin(number, phase, now.as_secs_f64(), targets)?;
        }
        self.poll(targets)
    }

    /// Does what is to be done between a phase and the next, one after the other.
    ///
    /// # Errors
    /// Something cannot be done, or `pause` says that the run is to end.
    pub fn after(
        &mut self,
        phase: usize,
        seconds: f64,
        targets: &mut Targets,
        mut pause: impl FnMut(&mut Targets) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        while let Some(number) = self.due.front().copied() {
            let is_due = match self.scenario.timeline[number].when {
                // Its time came when the load had just ended.
                When::During(other, _) | When::After(other) => other <= phase,
            };
            if !is_due {
                break;
            }
            self.due.pop_front();
            let mark = self.marks.len();
            self.begin(number, phase, seconds, targets)?;
            while self.under_way.iter().any(|act| act.mark == mark) {
                self.poll(targets)?;
                pause(targets)?;
            }
        }
        Ok(())
    }

    /// Waits until everything has ended.
    ///
    /// # Errors
    /// As of [`Self::after`].
    pub fn finish(
        &mut self,
        targets: &mut Targets,
        mut pause: impl FnMut(&mut Targets) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        while !self.under_way.is_empty() {
            self.poll(targets)?;
            pause(targets)?;
        }
        Ok(())
    }

    /// The marks of a phase.
    pub fn marks(&self, phase: usize) -> Vec<Mark> {
        let of = self.marks.iter().filter(|(number, _)| *number == phase);
        of.map(|(_, mark)| mark.clone()).collect()
    }

    /// Marks since the last call.
    pub fn news(&mut self) -> Vec<Mark> {
        let from = std::mem::replace(&mut self.told, self.marks.len());
        self.marks[from..].iter().map(|(_, mark)| mark.clone()).collect()
    }

    fn begin(
        &mut self,
        number: usize,
        phase: usize,
        at: f64,
        targets: &mut Targets,
    ) -> Result<(), RunError> {
        let Act { deed, node, name, .. } = &self.scenario.timeline[number];
        let (mark, began) = (self.marks.len(), Instant::now());
        let record =
            Mark { at, name: name.clone(), took: None, failure: None, output: String::new() };
        self.marks.push((phase, record));
        let wait = match (deed, *node) {
            (Deed::Start, Some(node)) => {
                targets.start_node(node)?;
                Some(Wait::Accepts(node))
            }
            (Deed::Stop, Some(node)) => {
                targets.signal(node, NodeSignal::Terminate)?;
                Some(Wait::Ends(node))
            }
            (Deed::Kill, Some(node)) => targets.signal(node, NodeSignal::Kill).map(|()| None)?,
            (Deed::Pause, Some(node)) => targets.signal(node, NodeSignal::Pause).map(|()| None)?,
            (Deed::Resume, Some(node)) => {
                targets.signal(node, NodeSignal::Resume).map(|()| None)?
            }
            (Deed::Cut { from, is_one_way }, Some(node)) => {
                let change = |other: &usize| match is_one_way {
                    true => NetworkChange::Silence(*other, node),
                    false => NetworkChange::Part(node, *other),
                };
                let changes: Vec<NetworkChange> = match from.is_empty() {
                    true => vec![NetworkChange::Unplug(node)],
                    false => from.iter().map(change).collect(),
                };
                changes.iter().try_for_each(|change| targets.change_network(change))?;
                None
            }
            (Deed::Delay(by), Some(node)) => {
                targets.change_network(&NetworkChange::Delay(node, *by)).map(|()| None)?
            }
            (Deed::Run { command, .. }, _) => Some(self.command(number, command, targets)?),
            (Deed::Heal, _) => targets.change_network(&NetworkChange::Heal).map(|()| None)?,
            (deed, None) => unreachable!("a scenario without a node for {deed:?} is refused"),
        };
        match wait {
            Some(wait) => self.under_way.push(UnderWay { mark, began, wait }),
            None => self.marks[mark].1.took = Some(began.elapsed().as_secs_f64()),
        }
        Ok(())
    }

    fn command(
        &mut self,
        act: usize,
        words: &[String],
        targets: &Targets,
    ) -> Result<Wait, RunError> {
        let words: Vec<String> = words.iter().map(|word| targets.fill(word, None)).collect();
        let dir = match self.dir.take() {
            Some(dir) => dir,
            None => {
                use std::sync::atomic::{AtomicU32, Ordering};
                static NEXT: AtomicU32 = AtomicU32::new(0);
                Directory::new(&format!("bench-acts-{}", NEXT.fetch_add(1, Ordering::Relaxed)))?
            }
        };
        let output = dir.path().join(format!("{act}.log"));
        self.dir = Some(dir);
        let mut command = targets.command(&words[0]);
        command.args(&words[1..]).process_group(0);
        let process = Process::start(command, &output);
        let process = process.map_err(|error| RunError::Target(error.to_string()))?;
        Ok(Wait::Command { process, output, act })
    }

    fn poll(&mut self, targets: &mut Targets) -> Result<(), RunError> {
        let mut rest = Vec::new();
        for mut act in std::mem::take(&mut self.under_way) {
            let taken = act.began.elapsed();
            let is_over = match &mut act.wait {
                Wait::Accepts(node) => {
                    let most = self.scenario.target.ready_timeout;
                    if targets.is_off(*node) {
                        let why = "ended by the timeline before it was ready";
                        self.marks[act.mark].1.failure = Some(why.to_owned());
                        continue;
                    }
                    let is_ready = targets.accepts(*node);
                    if !is_ready && taken > most {
                        let (words, name) = (targets.last_words(*node), self.name(act.mark));
                        let why = format!("{name}: not ready within {most:?}:\n{words}");
                        return Err(RunError::Target(why.trim_end().to_owned()));
                    }
                    is_ready
                }
                Wait::Ends(node) => {
                    if !targets.is_off(*node) && taken > STOP_TIMEOUT {
                        targets.signal(*node, NodeSignal::Kill)?;
                        self.marks[act.mark].1.failure =
                            Some(format!("killed: it had not ended in {STOP_TIMEOUT:?}"));
                    }
                    targets.is_off(*node)
                }
                Wait::Command { process, output, act: number } => {
                    let Deed::Run { timeout, must_succeed, .. } =
                        &self.scenario.timeline[*number].deed
                    else {
                        unreachable!("only `run` has a command")
                    };
                    let ended = process.ended()?;
                    if let Some(status) = ended.filter(|status| !status.success()) {
                        self.failed(act.mark, format!("{status}"), output, *must_succeed)?;
                    } else if ended.is_none() && taken > *timeout {
                        // It may end in this moment.
                        let _ended = process.signal_group(Signal::Kill);
                        process.kill()?;
                        let why = format!("killed: it had not ended in {timeout:?}");
                        self.failed(act.mark, why, output, *must_succeed)?;
                    }
                    if ended.is_some_and(|status| status.success()) {
                        last_words(output)
                            .trim_end()
                            .clone_into(&mut self.marks[act.mark].1.output);
                    }
                    ended.is_some() || taken > *timeout
                }
            };
            match is_over {
                true => self.marks[act.mark].1.took = Some(taken.as_secs_f64()),
                false => rest.push(act),
            }
        }
        self.under_way = rest;
        Ok(())
    }

    fn name(&self, mark: usize) -> &str {
        &self.marks[mark].1.name
    }

    fn failed(
        &mut self,
        mark: usize,
        how: String,
        output: &std::path::Path,
        must_succeed: bool,
    ) -> Result<(), RunError> {
        let why = format!("{how}\n{}", last_words(output)).trim_end().to_owned();
        let name = self.name(mark).to_owned();
        self.marks[mark].1.failure = Some(why.clone());
        match must_succeed {
            true => Err(RunError::Target(format!("{name}: {why}"))),
            false => Ok(()),
        }
    }
}

impl Drop for Acts<'_> {
    fn drop(&mut self) {
        for act in &self.under_way {
            if let Wait::Command { process, .. } = &act.wait {
                // It may have ended in this moment.
                let _ended = process.signal_group(Signal::Kill);
            }
        }
    }
}

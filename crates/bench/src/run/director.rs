//! Directs one run: the load goes on, on a thread of its own; this one owns the nodes, does what
//! the timeline says, counts what processes use, and ends the load if one of them ends by itself.
//!
//! ```text
//!   thread of the run       nodes · timeline · counts of each second · rows
//!      │ stop      ▲ events: began, seconds
//!      ▼           │
//!   thread of the step      session: this process's workers, or agents
//! ```
//!
//! The kernel ends a node when the thread that has started it ends, so nodes are started here only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::acts::Acts;
use super::phase::{Seconds, Step};
use super::sampler::Sampler;
use super::scrape::Scraper;
use super::session::{Control, Session, StepEvent};
use super::targets::Targets;
use super::{Observer, Progress, RunError};
use crate::measure::record::PhaseData;
use crate::measure::result::Row;
use crate::measure::usage::{Mark, Usage};
use crate::scenario::Scenario;

/// Between two looks at nodes and timeline.
const LOOK: Duration = Duration::from_millis(20);

/// The shortest part of a second, at the end of a phase, that gets a row.
const LAST_SAMPLE_MIN: f64 = 0.1;

/// What a step did, whole or until it was ended.
#[derive(Debug, Default)]
pub struct Stepped {
    /// What was measured; of a step that failed there are rows only.
    pub data: PhaseData,
    /// Second by second.
    pub rows: Vec<Row>,
    /// What processes used.
    pub usage: Usage,
    /// How long it took, in seconds.
    pub elapsed: f64,
    /// Why it was ended.
    pub failure: Option<RunError>,
}

/// See the front page.
pub struct Director<'a> {
    scenario: &'a Scenario,
    cell: usize,
    targets: Targets,
    acts: Acts<'a>,
    sampler: Sampler,
    scraper: Scraper,
    /// Where the load goes at present.
    addresses: Vec<String>,
    stop: Arc<AtomicBool>,
}

impl<'a> Director<'a> {
    /// Starts the nodes.
    ///
    /// # Errors
    /// They cannot be started; nothing of them runs any more.
    pub fn start(
        scenario: &'a Scenario,
        cell: usize,
        session: &mut dyn Session,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, RunError> {
        let targets = Targets::start(scenario, session, &stop)?;
        let scraper = Scraper::start(targets.metrics(), &scenario.metrics, targets.clients())?;
        let (acts, sampler) = (Acts::new(scenario), Sampler::new(targets.names()));
        let addresses = targets.addresses();
        session.begin(cell, &addresses)?;
        Ok(Self { scenario, cell, targets, acts, sampler, scraper, addresses, stop })
    }

    /// Where requests went at first.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Does a step.
    pub fn step(
        &mut self,
        step: Step,
        session: &mut dyn Session,
        observer: Observer<'_>,
    ) -> Stepped {
        let mut stepped = Stepped::default();
        if let Err(why) = self.prepare(session) {
            stepped.failure = Some(why);
            return stepped;
        }
        let phase = match step {
            Step::Phase(number) => Some(number),
            Step::Setup | Step::ReadBack | Step::Teardown => None,
        };
        let (events, heard) = channel();
        let control = Control { events, stop: AtomicBool::new(false) };
        let (scenario, clients) = (self.scenario, self.targets.clients());
        let mut seconds = Seconds::default();
        let mut failure = None;
        let mut began: Option<Instant> = None;
        let ended = thread::scope(|scope| {
            let control = &control;
            let stepping = scope.spawn(move || {
                // Threads that it starts are where it is.
                clients.map_or(Ok(()), |clients| clients.enter())?;
                session.step(scenario, step, control)
            });
            let mut sampled = 0;
            loop {
                match heard.recv_timeout(LOOK) {
                    Ok(StepEvent::Began(at)) => began = Some(at),
                    Ok(StepEvent::Second(second)) => {
                        seconds.add(second);
                        if let Some(second) = seconds.last_whole() {
                            observer(Progress::Second(second));
                        }
                    }
                    // The control is ours: the channel stays open.
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                }
                if failure.is_none()
                    && let Err(why) = self.look(phase, began, &mut sampled, observer)
                {
                    control.stop.store(true, Ordering::Relaxed);
                    failure = Some(why);
                }
                if stepping.is_finished() {
                    break;
                }
            }
            stepping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        while let Ok(StepEvent::Second(second)) = heard.try_recv() {
            seconds.add(second);
        }
        if let (None, Some(began)) = (&failure, began) {
            failure = self.last_sample(began, observer).err();
        }
        stepped.rows = seconds.rows();
        stepped.usage = self.sampler.usage();
        stepped.elapsed = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        match (failure, ended) {
            // The load ended because of it.
            (Some(why), _) | (None, Err(why)) => stepped.failure = Some(why),
            (None, Ok(data)) => stepped.data = data,
        }
        stepped
    }

    /// Sends the load to the nodes that run now.
    fn prepare(&mut self, session: &mut dyn Session) -> Result<(), RunError> {
        self.targets.check()?;
        let addresses = self.targets.addresses();
        if addresses != self.addresses {
            session.begin(self.cell, &addresses)?;
            self.addresses = addresses;
        }
        let hosts = self.targets.counts()?;
        self.sampler.begin(&hosts);
        Ok(())
    }

    fn look(
        &mut self,
        phase: Option<usize>,
        began: Option<Instant>,
        sampled: &mut u64,
        observer: Observer<'_>,
    ) -> Result<(), RunError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        self.targets.check()?;
        while let Ok(scraped) = self.scraper.scraped.try_recv() {
            self.sampler.messages(scraped);
        }
        let Some(began) = began.filter(|began| *began <= Instant::now()) else { return Ok(()) };
        if let Some(phase) = phase {
            let done = self.acts.look(phase, began, &mut self.targets);
            self.tell(observer);
            done?;
        }
        let at = began.elapsed().as_secs_f64();
        if at >= (*sampled + 1) as f64 {
            *sampled = at as u64;
            let hosts = self.targets.counts()?;
            self.sampler.second(at, &hosts);
            observer(Progress::Usage(self.sampler.so_far()));
        }
        Ok(())
    }

    /// What was used since the last whole second.
    fn last_sample(&mut self, began: Instant, observer: Observer<'_>) -> Result<(), RunError> {
        let at = began.elapsed().as_secs_f64();
        if at.fract() >= LAST_SAMPLE_MIN {
            let hosts = self.targets.counts()?;
            self.sampler.second(at, &hosts);
            observer(Progress::Usage(self.sampler.so_far()));
        }
        Ok(())
    }

    fn tell(&mut self, observer: Observer<'_>) {
        for mark in self.acts.news() {
            observer(Progress::Mark(&mark));
        }
    }

    /// Does what is to be done after a phase that took so many seconds.
    ///
    /// # Errors
    /// It cannot be done.
    pub fn after(
        &mut self,
        phase: usize,
        seconds: f64,
        observer: Observer<'_>,
    ) -> Result<(), RunError> {
        let pause = pause(&self.stop);
        let done = self.acts.after(phase, seconds, &mut self.targets, pause);
        self.tell(observer);
        done?;
        self.targets.check()
    }

    /// The load is over: what has begun is waited for.
    ///
    /// # Errors
    /// Something of it fails.
    pub fn finish(&mut self) -> Result<(), RunError> {
        let pause = pause(&self.stop);
        self.acts.finish(&mut self.targets, pause)?;
        self.targets.check()
    }

    /// What the timeline did in a phase.
    pub fn marks(&self, phase: usize) -> Vec<Mark> {
        self.acts.marks(phase)
    }

    /// Ends the nodes.
    pub fn end(self) {
        let Self { targets, acts, scraper, .. } = self;
        drop((acts, scraper));
        targets.stop();
    }
}

fn pause(stop: &AtomicBool) -> impl FnMut(&mut Targets) -> Result<(), RunError> + '_ {
    |targets| {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        targets.check()?;
        thread::sleep(LOOK);
        Ok(())
    }
}

//! Loads on addresses: scenarios of the instrument, made here.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::agents::{Remote, Secret};
use crate::measure::record::PhaseData;
use crate::measure::result::{PhaseResult, Row};
use crate::run::{Control, Local, Seconds, Session, Step, StepEvent};
use crate::scenario::{Metric, Plan};

/// The agents that make loads and start nodes, if those are not of this host.
#[derive(Clone, Debug)]
pub struct Agents {
    /// Their addresses.
    pub names: Vec<String>,
    /// What they know, too.
    pub secret: Secret,
}

/// Where loads go, and who makes them.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Where they go.
    pub addresses: Vec<String>,
    /// Who makes them: these, or this process.
    pub agents: Option<Arc<Agents>>,
}

/// What is asked of a store.
#[derive(Clone, Debug)]
pub struct Load {
    /// The driver.
    pub driver: &'static str,
    /// What connections begin with.
    pub greeting: Option<&'static str>,
    /// Keys.
    pub keys: u64,
    /// What they begin with.
    pub prefix: String,
    /// Bytes of a value.
    pub bytes: u64,
    /// Connections.
    pub clients: u64,
    /// Requests under way on each.
    pub pipeline: u64,
    /// The mix, as a scenario says it.
    pub mix: &'static str,
    /// Definitions of its operations.
    pub ops: &'static str,
    /// How long.
    pub seconds: f64,
    /// How long a request may take.
    pub timeout: Duration,
    /// Whether a client whose node is gone goes to the next.
    pub fails_over: bool,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            driver: "resp",
            greeting: None,
            keys: 10_000,
            prefix: "paper:".to_owned(),
            bytes: 100,
            clients: 50,
            pipeline: 1,
            mix: "get = 1, put = 1",
            ops: "",
            seconds: 3.0,
            timeout: Duration::from_secs(10),
            fails_over: false,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Requests a second that were answered well.
    pub rate: f64,
    /// Latencies in milliseconds: median, 99th percentile, mean.
    pub p50: f64,
    /// See above.
    pub p99: f64,
    /// See above.
    pub mean: f64,
    /// Requests that failed.
    pub failures: f64,
    /// Kinds of failures.
    pub kinds: Vec<String>,
    /// Requests that were answered well before the end.
    pub count: f64,
    /// The same, with those that were answered later.
    pub answered: f64,
    /// Processor time of the load, in seconds.
    pub load_cpu: f64,
    /// Second by second.
    pub series: Vec<Row>,
}

impl Load {
    fn text(&self, addresses: &[String]) -> String {
        let mut text = String::new();
        let list = addresses.iter().map(|address| format!("{address:?}"));
        let list = list.collect::<Vec<_>>().join(", ");
        let greeting = self.greeting.map(|words| {
            let words = words.split(' ').map(|word| format!("{word:?}")).collect::<Vec<_>>();
            format!("greeting = [[{}]]\n", words.join(", "))
        });
        let Self { driver, keys, prefix, bytes, clients, pipeline, mix, ops, .. } = self;
        // A string takes everything.
        let _always = write!(
            text,
            "[target]\ndriver = {driver:?}\naddresses = [{list}]\nrequest_timeout = \
             \"{}ms\"\nfailover = {}\n{}\
             [keys]\ncount = {keys}\nprefix = {prefix:?}\n[values]\nbytes = {bytes}\n\
             [setup]\nclients = {clients}\npipeline = {pipeline}\n{ops}\n\
             [load]\nclients = {clients}\npipeline = {pipeline}\nmix = {{ {mix} }}\n\
             [[phase]]\nname = \"run\"\nseconds = {}\nrequire_values = false\n",
            self.timeout.as_millis(),
            self.fails_over,
            greeting.unwrap_or_default(),
            self.seconds,
        );
        text
    }

    /// Gives each key a value, once; returns how long that took.
    ///
    /// # Errors
    /// A write failed, or the scenario is wrong.
    pub fn fill(&self, reach: &Reach) -> Outcome<f64> {
        let plan = Plan::parse("papers", &self.text(&reach.addresses), &[])?;
        let done = step(&plan, Step::Setup, reach)?;
        let failed = done.data.entries.iter().flat_map(|entry| &entry.failures);
        let failed: Vec<String> = failed.map(|(kind, n)| format!("{n} × {kind}")).collect();
        match failed.is_empty() {
            true => Ok(done.elapsed),
            false => Err(format!("keys cannot be written: {}", failed.join(", ")).into()),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// An address cannot be reached, or the scenario is wrong.
    pub fn run(&self, reach: &Reach) -> Outcome<Measured> {
        let plan = Plan::parse("papers", &self.text(&reach.addresses), &[])?;
        let scenario = &plan.cells[0].scenario;
        let done = step(&plan, Step::Phase(0), reach)?;
        let phase =
            PhaseResult::new(&scenario.phases[0], self.seconds, done.data, done.seconds.rows());
        let millis = |metric| phase.metric(metric, None) / 1e6;
        let kinds = phase.data.entries.iter().flat_map(|entry| &entry.failures);
        let mut kinds: Vec<String> = kinds.map(|(kind, _)| kind.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Ok(Measured {
            rate: phase.metric(Metric::Throughput, None),
            p50: millis(Metric::P50),
            p99: millis(Metric::P99),
            mean: millis(Metric::Mean),
            failures: phase.metric(Metric::Failures, None),
            kinds,
            count: phase.data.entries.iter().map(|entry| entry.count).sum::<u64>() as f64,
            answered: phase.latencies(None).len() as f64,
            load_cpu: phase.data.instrument_cpu,
            series: phase.series,
        })
    }
}

/// What a step did.
struct Done {
    data: PhaseData,
    seconds: Seconds,
    elapsed: f64,
}

/// Does one step of a scenario.
fn step(plan: &Plan, step: Step, reach: &Reach) -> Outcome<Done> {
    let mut session: Box<dyn Session> = match &reach.agents {
        None => Box::new(Local::default()),
        Some(agents) => Box::new(Remote::connect(&agents.names, &agents.secret, plan)?),
    };
    session.begin(0, &reach.addresses)?;
    // At most one event waits for each second.
    let (events, heard) = channel();
    let control = Control { events, stop: AtomicBool::new(false) };
    let data = session.step(&plan.cells[0].scenario, step, &control)?;
    let ended = Instant::now();
    session.end()?;
    drop(control);
    let mut done = Done { data, seconds: Seconds::default(), elapsed: 0.0 };
    for event in heard {
        match event {
            StepEvent::Began(at) => done.elapsed = ended.duration_since(at).as_secs_f64(),
            StepEvent::Second(second) => done.seconds.add(second),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;

    /// A server that says yes to everything.
    fn yes() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut piece = [0; 4_096];
                    // Keys and values hold letters and digits only.
                    while let Ok(len @ 1..) = stream.read(&mut piece) {
                        let count = piece[..len].iter().filter(|byte| **byte == b'*').count();
                        if stream.write_all("+OK\r\n".repeat(count).as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    #[test]
    fn a_load_is_a_scenario_that_runs() {
        let reach = Reach { addresses: vec![yes().to_string()], agents: None };
        let load = Load {
            greeting: Some("LOOKUP full"),
            ops: "[op.both]\ncommand = [\"MGET\", \"{key}\", \"b:{key}\"]\n",
            mix: "put = 1, both = 1",
            keys: 100,
            seconds: 0.3,
            ..Load::default()
        };
        assert!(load.fill(&reach).unwrap() > 0.0);
        let measured = load.run(&reach).unwrap();
        assert!(measured.rate > 0.0 && measured.failures == 0.0, "{measured:?}");
        let wrong = Load { mix: "nonsense = 1", ..load };
        assert!(wrong.run(&reach).is_err());
    }
}

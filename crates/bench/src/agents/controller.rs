//! The controller's end: a session whose load other hosts make.

use std::fs;
use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::agent::sha256;
use super::message::{Answer, Order, ShippedFile};
use super::nodes::FarHost;
use super::wire::{Channel, FRAME_BYTES_MAX, Secret};
use super::{CLOCKS_APART_MAX, LOST_AFTER};
use crate::measure::record::{PhaseData, Second};
use crate::run::host::Host;
use crate::run::{Control, Part, RunError, Session, Step, StepEvent};
use crate::scenario::{Driver, Plan, Scenario};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between the order to go and the start, for the agent that is farthest away.
const LEAD: Duration = Duration::from_millis(20);
/// The most agents.
const AGENTS_MAX: usize = 1_000;

struct Agent {
    name: String,
    channel: Channel,
    /// How long a message takes, most likely.
    one_way: Duration,
}

impl Agent {
    fn lost(&self, why: &io::Error) -> RunError {
        let why = format!("lost: it {why}; the run has ended on all agents");
        RunError::Agent { agent: self.name.clone(), why }
    }

    /// Gives an order that is done at once.
    fn order(&mut self, order: &Order) -> Result<(), RunError> {
        self.channel.send(order).map_err(|error| self.lost(&error))?;
        match self.answer()? {
            Answer::Good => Ok(()),
            other => Err(self.odd(&other)),
        }
    }

    /// The next answer but signs of life.
    fn answer(&mut self) -> Result<Answer, RunError> {
        loop {
            match self.channel.receive(LOST_AFTER).map_err(|error| self.lost(&error))? {
                Answer::Alive => {}
                Answer::Failed(why) => {
                    return Err(RunError::Agent { agent: self.name.clone(), why });
                }
                answer => return Ok(answer),
            }
        }
    }

    fn odd(&self, answer: &Answer) -> RunError {
        let why = format!("it answered out of turn: {answer:?}");
        RunError::Agent { agent: self.name.clone(), why }
    }
}

/// Agents, connected. Dropping it ends whatever they do.
pub struct Remote {
    agents: Vec<Agent>,
    secret: Secret,
}

impl Remote {
    /// Connects to all agents and ships the plan.
    ///
    /// # Errors
    /// One cannot be reached, knows another secret or refuses the plan: nothing has been started.
    pub fn connect(names: &[String], secret: &Secret, plan: &Plan) -> Result<Self, RunError> {
        let unfit = |why: String| Err(RunError::Mismatch(why));
        if names.len() > AGENTS_MAX {
            return unfit(format!("more than {AGENTS_MAX} agents"));
        }
        let drivers = plan.cells.iter().map(|cell| &cell.scenario.target.driver);
        if drivers.clone().any(|driver| matches!(driver, Driver::Memory | Driver::Null)) {
            let why = "the drivers `memory` and `null` measure this process: leave --agents away";
            return unfit(why.to_owned());
        }
        let mut files: Vec<ShippedFile> = Vec::new();
        for driver in drivers {
            let Driver::Exec { program } = driver else { continue };
            for word in program {
                if !files.iter().any(|file| file.word == *word) {
                    files.extend(shipped(word)?);
                }
            }
        }
        let mut agents = Vec::new();
        for (number, name) in (0..).zip(names) {
            let mut agent = connect(name, secret)?;
            compare_clocks(&mut agent)?;
            let part = Part { agent: number, agents: names.len() as u64 };
            let order = Order::Plan {
                name: plan.name.clone(),
                text: plan.text.clone(),
                sets: plan.sets.clone(),
                seconds_max: plan.seconds_max,
                part,
                files: files.clone(),
            };
            agent.order(&order)?;
            agents.push(agent);
        }
        Ok(Self { agents, secret: secret.clone() })
    }

    /// Closes all connections: the agents end what they do.
    fn give_up(&self) {
        for agent in &self.agents {
            // It may be closed already.
            let _closed = agent.channel.handle().and_then(|s| s.shutdown(Shutdown::Both));
        }
    }

    fn all(&mut self, order: &Order) -> Result<(), RunError> {
        let done = self.agents.iter_mut().try_for_each(|agent| {
            let begun = Instant::now();
            agent.order(order)?;
            agent.one_way = begun.elapsed() / 2;
            Ok(())
        });
        done.inspect_err(|_| self.give_up())
    }
}

fn unreachable(name: &str, why: impl ToString) -> RunError {
    RunError::Unreachable { target: format!("agent {name}"), why: why.to_string() }
}

/// Connects to the host of an agent.
pub(super) fn open(name: &str) -> Result<TcpStream, RunError> {
    let address = name.to_socket_addrs().map_err(|error| unreachable(name, error))?.next();
    let address = address.ok_or_else(|| unreachable(name, "no such host"))?;
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
    stream.map_err(|error| unreachable(name, error))
}

fn connect(name: &str, secret: &Secret) -> Result<Agent, RunError> {
    let channel = Channel::open(open(name)?, secret);
    let channel = channel.map_err(|error| unreachable(name, error))?;
    Ok(Agent { name: name.to_owned(), channel, one_way: Duration::ZERO })
}

/// Refuses an agent whose clock differs from ours by more than [`CLOCKS_APART_MAX`].
fn compare_clocks(agent: &mut Agent) -> Result<(), RunError> {
    let asked = (SystemTime::now(), Instant::now());
    agent.channel.send(&Order::Time).map_err(|error| agent.lost(&error))?;
    let theirs = match agent.answer()? {
        Answer::Time(micros) => UNIX_EPOCH + Duration::from_micros(micros),
        other => return Err(agent.odd(&other)),
    };
    // It read its clock at some moment between the question and now.
    let (first, last) = (asked.0, asked.0 + asked.1.elapsed());
    let ahead = theirs.duration_since(last).unwrap_or_default();
    let behind = first.duration_since(theirs).unwrap_or_default();
    let (apart, which) = if ahead > behind { (ahead, "ahead") } else { (behind, "behind") };
    if apart <= CLOCKS_APART_MAX {
        return Ok(());
    }
    let seconds = apart.as_secs_f64();
    let why = format!(
        "its clock is {seconds:.1} s {which}: set the clocks of all hosts, to within \
         {CLOCKS_APART_MAX:?}; nothing was started"
    );
    Err(RunError::Agent { agent: agent.name.clone(), why })
}

/// The file that a word of a program names on this host, if it names one.
fn shipped(word: &str) -> Result<Option<ShippedFile>, RunError> {
    let path = Path::new(word);
    if !path.is_file() {
        return Ok(None);
    }
    let failed = |why: String| RunError::Files { path: word.to_owned(), why };
    let bytes = fs::read(path).map_err(|error| failed(error.to_string()))?;
    if bytes.len() > FRAME_BYTES_MAX / 4 {
        return Err(failed(format!("at most {} bytes can be shipped", FRAME_BYTES_MAX / 4)));
    }
    let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(ShippedFile { word: word.to_owned(), sha256: sha256(&bytes), hex }))
}

enum Event {
    Second(Second),
    Ended(Result<PhaseData, RunError>),
}

/// Reads what an agent says during a step.
fn follow(agent: &mut Agent, events: &Sender<Event>) -> Result<PhaseData, RunError> {
    loop {
        match agent.answer()? {
            Answer::Second(second) => {
                // The controller has given up: the connection will be closed.
                events.send(Event::Second(second)).map_err(|_| RunError::Stopped)?;
            }
            Answer::Ended(data) => return Ok(data),
            other => return Err(agent.odd(&other)),
        }
    }
}

/// Between two looks whether the step is to end.
const LOOK: Duration = Duration::from_millis(100);

fn close(handles: &[TcpStream]) {
    for handle in handles {
        // It may be closed already.
        let _closed = handle.shutdown(Shutdown::Both);
    }
}

impl Session for Remote {
    fn begin(&mut self, cell: usize, addresses: &[String]) -> Result<(), RunError> {
        self.all(&Order::Begin { cell, addresses: addresses.to_vec() })
    }

    fn step(
        &mut self,
        _scenario: &Scenario,
        step: Step,
        control: &Control,
    ) -> Result<PhaseData, RunError> {
        let ready = |agents: &mut Vec<Agent>| -> Result<(), RunError> {
            for agent in agents.iter_mut() {
                agent.channel.send(&Order::Step(step)).map_err(|error| agent.lost(&error))?;
            }
            for agent in agents.iter_mut() {
                match agent.answer()? {
                    Answer::Ready => {}
                    other => return Err(agent.odd(&other)),
                }
            }
            let farthest = agents.iter().map(|agent| agent.one_way).max().unwrap_or_default();
            for agent in agents.iter_mut() {
                let after = LEAD + farthest - agent.one_way;
                let go = Order::Go { after_micros: after.as_micros() as u64 };
                agent.channel.send(&go).map_err(|error| agent.lost(&error))?;
            }
            Ok(())
        };
        if let Err(why) = ready(&mut self.agents) {
            self.give_up();
            return Err(why);
        }
        let farthest = self.agents.iter().map(|agent| agent.one_way).max().unwrap_or_default();
        control.tell(StepEvent::Began(Instant::now() + LEAD + farthest));
        let mut handles = Vec::new();
        for agent in &self.agents {
            handles.push(agent.channel.handle()?);
        }
        let mut all = PhaseData::default();
        let mut failure = None;
        thread::scope(|scope| {
            let (to_us, events) = channel();
            for agent in &mut self.agents {
                let to_us = to_us.clone();
                scope.spawn(move || {
                    let ended = follow(agent, &to_us);
                    // As in `follow`.
                    let _unheard = to_us.send(Event::Ended(ended));
                });
            }
            drop(to_us);
            loop {
                match events.recv_timeout(LOOK) {
                    Ok(Event::Second(past)) => control.tell(StepEvent::Second(past)),
                    Ok(Event::Ended(Ok(data))) => all.merge(data),
                    Ok(Event::Ended(Err(why))) => {
                        // The first counts; the others fail because all is closed now.
                        failure.get_or_insert(why);
                        close(&handles);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if control.is_stopped() && failure.is_none() {
                    failure = Some(RunError::Stopped);
                    close(&handles);
                }
            }
        });
        failure.map_or(Ok(all), Err)
    }

    fn host(&mut self, agent: u64) -> Result<Box<dyn Host>, RunError> {
        let count = self.agents.len();
        let Some(name) = self.agents.get(agent as usize - 1).map(|agent| agent.name.clone()) else {
            let why = format!("a node is to run on the host of agent {agent}: there are {count}");
            return Err(RunError::Mismatch(why));
        };
        Ok(Box::new(FarHost::connect(&name, &self.secret)?))
    }

    fn end(&mut self) -> Result<(), RunError> {
        self.all(&Order::End)
    }

    fn agents(&self) -> Vec<String> {
        self.agents.iter().map(|agent| agent.name.clone()).collect()
    }
}

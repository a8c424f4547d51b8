//! An agent: does what controllers say. It makes the load of one at a time.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::process::Directory;
use sha2::{Digest, Sha256};

use super::message::{Answer, Order, ShippedFile};
use super::nodes;
use super::wire::{Channel, Secret};
use super::{ALIVE_EVERY, LOST_AFTER};
use crate::measure::record::{PhaseData, Second};
use crate::run::{Part, RunError, Shared, Step, Watch, environment, resolve, run_part};
use crate::scenario::{Driver, Plan, Scenario};

/// The most connections; others are closed at once.
const CONNECTIONS_MAX: usize = 256;
/// How long a controller waits while another one's load goes on.
const BUSY_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a controller may be silent between two orders: it may start targets meanwhile.
const ORDER_TIMEOUT: Duration = Duration::from_secs(600);

/// What an agent knows, and how it says what happens.
pub struct Serving<'a> {
    /// What controllers must know.
    pub secret: Secret,
    /// Its clock: that of the system, but for tests.
    pub clock: fn() -> SystemTime,
    /// Gets lines for people.
    pub log: &'a (dyn Fn(&str) + Sync),
}

/// Listens, and serves controllers for ever: the load of one at a time, and the nodes of any.
///
/// # Errors
/// The address cannot be had.
pub fn serve(listen: &str, serving: &Serving<'_>) -> Result<(), RunError> {
    let cannot = |why: io::Error| RunError::Mismatch(format!("cannot listen on {listen}: {why}"));
    let listener = TcpListener::bind(listen).map_err(cannot)?;
    let address = listener.local_addr()?;
    (serving.log)(&format!("listening on {address}"));
    let (load, connections) = (Mutex::new(()), AtomicUsize::new(0));
    thread::scope(|scope| {
        loop {
            match listener.accept() {
                Ok(_) if connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX => {}
                Ok((stream, from)) => {
                    connections.fetch_add(1, Ordering::Relaxed);
                    let (load, connections) = (&load, &connections);
                    scope.spawn(move || {
                        serve_one(stream, from, serving, load);
                        connections.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                // The connection is gone already, or there is no room for it now.
                Err(error) => {
                    (serving.log)(&format!("cannot accept: {error}"));
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    })
}

fn serve_one(stream: TcpStream, from: SocketAddr, serving: &Serving<'_>, load: &Mutex<()>) {
    let log = |text: String| (serving.log)(&format!("{from}: {text}"));
    let mut channel = match Channel::accept(stream, &serving.secret) {
        Ok(channel) => channel,
        Err(why) => return log(format!("refused: {why}")),
    };
    let mut work = Work { clock: serving.clock, ..Work::default() };
    // Held while a plan is: one controller makes a load at a time.
    let mut held = None;
    let mut is_first = true;
    loop {
        let answered = channel.receive::<Order>(ORDER_TIMEOUT).and_then(|order| {
            if let Order::Nodes { host } = &order {
                log("nodes: connected".to_owned());
                channel.send(&Answer::Good)?;
                return Err(nodes::serve(&mut channel, host));
            }
            if std::mem::take(&mut is_first) {
                log("connected".to_owned());
            }
            if matches!(order, Order::Plan { .. }) && held.is_none() {
                held = wait_for(load);
                if held.is_none() {
                    return channel
                        .send(&Answer::Failed("it serves another controller".to_owned()));
                }
            }
            let answer = work.follow(order, &mut channel);
            if let Answer::Failed(why) = &answer {
                log(format!("failed: {why}"));
            }
            channel.send(&answer)
        });
        if let Err(why) = answered {
            return log(format!("ended: {why}"));
        }
    }
}

/// Waits a moment: the controller before may just be gone.
fn wait_for(load: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    let begun = Instant::now();
    loop {
        match load.try_lock() {
            Ok(held) => return Some(held),
            // The thread that panicked holds nothing any more.
            Err(TryLockError::Poisoned(held)) => return Some(held.into_inner()),
            Err(TryLockError::WouldBlock) if begun.elapsed() > BUSY_TIMEOUT => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// What an agent knows of its controller's plan.
struct Work {
    clock: fn() -> SystemTime,
    plan: Option<(Plan, Part)>,
    scenario: Option<Scenario>,
    addresses: Vec<SocketAddr>,
    shared: Shared,
    /// Files that were shipped; removed with it.
    dir: Option<Directory>,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            clock: SystemTime::now,
            plan: None,
            scenario: None,
            addresses: Vec::new(),
            shared: Shared::default(),
            dir: None,
        }
    }
}

impl Work {
    fn follow(&mut self, order: Order, channel: &mut Channel) -> Answer {
        let done = match order {
            Order::Plan { name, text, sets, seconds_max, part, files } => {
                self.take_plan(&name, &text, &sets, seconds_max, part, &files)
            }
            Order::Begin { cell, addresses } => self.begin(cell, &addresses),
            Order::Step(step) => match self.step(step, channel) {
                Ok(data) => return Answer::Ended(data),
                Err(why) => Err(why.to_string()),
            },
            Order::Go { .. } => Err("an order to go, without a step".to_owned()),
            Order::End => Ok(()),
            Order::Time => {
                let since = (self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default();
                return Answer::Time(since.as_micros() as u64);
            }
            Order::Nodes { .. } => Err("nodes have a connection of their own".to_owned()),
        };
        done.map_or_else(Answer::Failed, |()| Answer::Good)
    }

    fn take_plan(
        &mut self,
        name: &str,
        text: &str,
        sets: &[(String, String)],
        seconds_max: Option<f64>,
        part: Part,
        files: &[ShippedFile],
    ) -> Result<(), String> {
        let mut plan = Plan::parse(name, text, sets).map_err(|error| error.to_string())?;
        if let Some(seconds) = seconds_max {
            let most = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
            plan.shorten(most);
        }
        // Two agents of one process have two directories.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let plan_number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = Directory::new(&format!("bench-agent-{plan_number}"));
        let dir = dir.map_err(|error| error.to_string())?;
        for file in files {
            let path = write_file(&dir, file)?;
            for cell in &mut plan.cells {
                if let Driver::Exec { program } = &mut cell.scenario.target.driver {
                    let words = program.iter_mut().filter(|word| **word == file.word);
                    words.for_each(|word| word.clone_from(&path));
                }
            }
        }
        self.dir = Some(dir);
        self.plan = Some((plan, part));
        Ok(())
    }

    fn begin(&mut self, cell: usize, addresses: &[String]) -> Result<(), String> {
        let (plan, _) = self.plan.as_ref().ok_or("a cell of no plan")?;
        let cell = plan.cells.get(cell).ok_or("no such cell")?;
        let filled = environment::filled(&cell.scenario).map_err(|error| error.to_string())?;
        self.scenario = Some(filled);
        self.addresses = resolve(addresses).map_err(|error| error.to_string())?;
        self.shared = Shared::default();
        Ok(())
    }

    fn step(&mut self, step: Step, channel: &mut Channel) -> Result<PhaseData, RunError> {
        let unfit = |why: &str| RunError::Mismatch(why.to_owned());
        let (_, part) = self.plan.as_ref().ok_or_else(|| unfit("a step of no plan"))?;
        let scenario = self.scenario.as_ref().ok_or_else(|| unfit("a step of no cell"))?;
        if matches!(step, Step::Phase(number) if number >= scenario.phases.len()) {
            return Err(unfit("no such phase"));
        }
        let mut watch = Controlled { channel, said: Instant::now(), is_running: false };
        run_part(scenario, step, &self.addresses, *part, &self.shared, &mut watch)
    }
}

/// Writes a file for its owner alone, and sees that it is the one that was meant.
fn write_file(dir: &Directory, file: &ShippedFile) -> Result<String, String> {
    let digits = file.hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    let bytes = bytes.ok_or_else(|| format!("{}: not hexadecimal", file.word))?;
    if sha256(&bytes) != file.sha256 {
        return Err(format!("{}: its checksum differs", file.word));
    }
    let name = file.word.rsplit('/').next().unwrap_or("program");
    let path = dir.path().join(format!("{}-{name}", &file.sha256[..16]));
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o700)
        .open(&path)
        .and_then(|mut out| out.write_all(&bytes));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The checksum of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits for the controller before a step, and looks for it during one.
struct Controlled<'a> {
    channel: &'a mut Channel,
    said: Instant,
    is_running: bool,
}

impl Watch for Controlled<'_> {
    fn ready(&mut self) -> Result<Instant, RunError> {
        self.channel.send(&Answer::Ready)?;
        // Other agents may still open connections, or start programs.
        match self.channel.receive::<Order>(ORDER_TIMEOUT)? {
            Order::Go { after_micros } => {
                self.is_running = true;
                let most = LOST_AFTER.as_micros() as u64;
                Ok(Instant::now() + Duration::from_micros(after_micros.min(most)))
            }
            other => Err(RunError::Mismatch(format!("expected the order to go, got {other:?}"))),
        }
    }

    fn second(&mut self, second: Second) -> Result<(), RunError> {
        self.channel.send(&Answer::Second(second))?;
        self.said = Instant::now();
        Ok(())
    }

    fn look(&mut self) -> Result<(), RunError> {
        if self.channel.has_event() {
            return Err(RunError::Stopped);
        }
        if self.said.elapsed() >= ALIVE_EVERY {
            self.channel.send(&Answer::Alive)?;
            self.said = Instant::now();
        }
        Ok(())
    }
}

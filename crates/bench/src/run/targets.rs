//! What is measured, as far as this program starts it.
//!
//! Words of a command may hold placeholders. Each command has ports and a directory of its own.
//!
//! | placeholder | stands for |
//! |---|---|
//! | `{port}`, `{port2}`, `{port3}` | free ports of this machine |
//! | `{dir}` | a new directory, which is removed at the end |
//! | `{first.port}`, …, `{first.dir}` | those of the first command |
//! | `{2.port}`, …, `{2.dir}` | those of the command of this number |
//! | `{number}` | the number of the command, from 1 |
//! | `{carillon}` | this program |

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use harness::ports::unused;
use harness::process::{Directory, Process};

use super::RunError;
use super::phase::resolve;
use crate::driver::null_server::NullServer;
use crate::machine;
use crate::measure::result::ProcessUse;
use crate::scenario::{Driver, Target};

/// Between two looks whether a target accepts connections.
const LOOK: Duration = Duration::from_millis(20);
/// How long a process may take to end when it is asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Started processes, and where requests go. Dropping it ends them.
pub struct Targets {
    /// Where requests go.
    pub addresses: Vec<String>,
    processes: Vec<(String, Process)>,
    _null: Option<NullServer>,
    /// After the processes: they use it.
    _dir: Option<Directory>,
}

/// Values of the placeholders of one command.
struct Places(Vec<(String, String)>);

impl Places {
    /// Of so many commands, each of which knows those of all.
    fn all(count: usize, dir: &str) -> Vec<Self> {
        let own: Vec<_> = (1..=count).map(|number| Self::own(number, dir)).collect();
        let program = std::env::current_exe().unwrap_or_else(|_| "carillon".into());
        let others = own.iter().zip(1..).flat_map(|(places, number)| {
            let first = (number == 1).then(|| "first".to_owned());
            let names = [Some(number.to_string()), first].into_iter().flatten();
            names.flat_map(|name| {
                let of = move |(place, value): &(String, String)| {
                    (format!("{{{name}.{}", &place[1..]), value.clone())
                };
                places.iter().map(of).collect::<Vec<_>>()
            })
        });
        let mut shared: Vec<(String, String)> = others.collect();
        shared.push(("{carillon}".to_owned(), program.to_string_lossy().into_owned()));
        own.into_iter().map(|own| Self([own, shared.clone()].concat())).collect()
    }

    fn own(number: usize, dir: &str) -> Vec<(String, String)> {
        let port = || unused().port().to_string();
        let own = [
            ("port", port()),
            ("port2", port()),
            ("port3", port()),
            ("dir", format!("{dir}/{number}")),
            ("number", number.to_string()),
        ];
        own.into_iter().map(|(name, value)| (format!("{{{name}}}"), value)).collect()
    }

    fn fill(&self, word: &str) -> String {
        self.0.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value))
    }
}

impl Targets {
    /// Starts the commands, and waits until all addresses accept connections.
    ///
    /// # Errors
    /// A command ends or an address is not ready in time: all is ended again.
    pub fn start(target: &Target) -> Result<Self, RunError> {
        let mut targets =
            Self { addresses: Vec::new(), processes: Vec::new(), _null: None, _dir: None };
        if target.driver == Driver::Null {
            let server = NullServer::start()?;
            targets.addresses.push(server.address().to_string());
            targets._null = Some(server);
        }
        if target.commands.is_empty() {
            targets.addresses.extend(target.addresses.iter().cloned());
        } else {
            targets.start_commands(target)?;
        }
        targets.wait(target)?;
        Ok(targets)
    }

    fn start_commands(&mut self, target: &Target) -> Result<(), RunError> {
        // Two runs of one process have two directories.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let run = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = Directory::new(&format!("bench-target-{run}"))?;
        let path = dir.path().to_string_lossy().into_owned();
        self._dir = Some(dir);
        let all = Places::all(target.commands.len(), &path);
        for ((number, words), places) in (1..).zip(&target.commands).zip(all) {
            std::fs::create_dir_all(places.fill("{dir}"))?;
            let mut command = Command::new(places.fill(&words[0]));
            command.args(words[1..].iter().map(|word| places.fill(word)));
            let log = format!("{path}/{number}.log");
            let process = Process::start(command, log.as_ref())
                .map_err(|error| RunError::Target(error.to_string()))?;
            let name = places.fill(&words[0]);
            let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
            self.processes.push((format!("{name} {number}"), process));
            for address in &target.addresses {
                let filled = places.fill(address);
                if !self.addresses.contains(&filled) {
                    self.addresses.push(filled);
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self, target: &Target) -> Result<(), RunError> {
        let begun = Instant::now();
        for (name, address) in self.addresses.iter().zip(resolve(&self.addresses)?) {
            while let Err(why) = accepts(address) {
                // What we have not started is there, or is not.
                let most = if self.processes.is_empty() { LOOK } else { target.ready_timeout };
                if begun.elapsed() >= most {
                    let words = self.processes.iter().map(|(_, process)| process.last_words());
                    let words = words.collect::<Vec<_>>().join("\n");
                    let why = format!("{why}\n{words}").trim_end().to_owned();
                    return Err(RunError::Unreachable { target: name.clone(), why });
                }
                check(&mut self.processes)?;
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Sees that all processes run.
    ///
    /// # Errors
    /// One has ended; the error holds the end of what it printed.
    pub fn check(&mut self) -> Result<(), RunError> {
        check(&mut self.processes)
    }

    /// What each process has used until now.
    pub fn used(&self) -> Vec<ProcessUse> {
        let used = self.processes.iter().map(|(name, process)| ProcessUse {
            name: name.clone(),
            cpu: machine::cpu_seconds(process.pid()).unwrap_or(0.0),
            rss_bytes: machine::rss_bytes(process.pid()).unwrap_or(0),
        });
        used.collect()
    }

    /// Ends the processes as they end by themselves; those that do not are killed.
    pub fn stop(mut self) {
        for (_, process) in self.processes.iter_mut().rev() {
            if process.stop(STOP_TIMEOUT).is_err() {
                // It has ended in this moment, or ends now.
                let _ended = process.kill();
            }
        }
    }
}

fn accepts(address: SocketAddr) -> Result<(), String> {
    let connected = TcpStream::connect_timeout(&address, Duration::from_secs(2));
    connected.map(drop).map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    })
}

fn check(processes: &mut [(String, Process)]) -> Result<(), RunError> {
    for (name, process) in processes {
        if let Some(status) = process.ended()? {
            let words = process.last_words();
            let why = format!("{name} has ended by itself ({status}):\n{words}");
            return Err(RunError::Target(why.trim_end().to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_of_each_command_and_of_the_first() {
        let all = Places::all(2, "/tmp/x");
        let (first, second) = (&all[0], &all[1]);
        assert_eq!(first.fill("{2.port3}"), second.fill("{port3}"));
        assert_eq!(first.fill("a{dir}b{number}"), "a/tmp/x/1b1");
        assert_eq!(second.fill("{dir} {first.dir}"), "/tmp/x/2 /tmp/x/1");
        assert_eq!(second.fill("{first.port}"), first.fill("{port}"));
        assert_ne!(second.fill("{port}"), first.fill("{port}"));
        assert_eq!(second.fill("{other}"), "{other}");
    }
}

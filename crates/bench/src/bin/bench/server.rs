//! Servers under measurement: started on free ports in a directory of their own, stopped by pid.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use harness::ports::unused;
use harness::process::{Directory, Process};
use serde::Serialize;

use crate::resp::Connection;
use crate::{Outcome, http};

/// How long a server may take to save what it has and to end.
const STOP_MAX: Duration = Duration::from_secs(300);

/// How durable writes are, in each server's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is synced; Redis writes no file at all, Carillon writes its log.
    Memory,
    /// Synced now and then: Redis every second, Carillon every 100 ms.
    Interval,
    /// Synced before the answer.
    Sync,
}

impl Mode {
    /// The durability of Carillon's keyspace.
    pub fn durability(self) -> &'static str {
        match self {
            Mode::Memory => "memory",
            Mode::Interval => "interval",
            Mode::Sync => "sync",
        }
    }

    /// What Redis is started with.
    pub fn redis_flags(self) -> &'static [&'static str] {
        match self {
            Mode::Memory => &["--appendonly", "no"],
            Mode::Interval => &["--appendonly", "yes", "--appendfsync", "everysec"],
            Mode::Sync => &["--appendonly", "yes", "--appendfsync", "always"],
        }
    }
}

/// Which program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The installed redis-server.
    Redis,
    /// A Carillon binary.
    Carillon(String, String),
}

/// A running server. Dropping it kills the process and removes its files.
pub struct Server {
    kind: Kind,
    mode: Mode,
    /// RESP port.
    pub port: u16,
    native_port: u16,
    http_port: u16,
    /// Before the directory: dropped first.
    process: Option<Process>,
    dir: Directory,
}

impl Server {
    /// Starts a server on an empty directory and waits until it serves, durable as `mode` says.
    pub fn start(kind: &Kind, mode: Mode) -> Outcome<Self> {
        let [port, native_port, http_port] = [(); 3].map(|()| unused().port());
        let dir = Directory::new(&format!("server-{port}"))?;
        let kind = kind.clone();
        let mut server = Self { kind, mode, port, native_port, http_port, process: None, dir };
        server.launch()?;
        server.set_durability(mode)?;
        Ok(server)
    }

    /// Starts the process on the files it has; returns how long it took to be ready.
    pub fn launch(&mut self) -> Outcome<Duration> {
        let began = Instant::now();
        let data = self.data_dir();
        fs::create_dir_all(&data)?;
        let output = self.dir.path().join("output.txt");
        let mut process = Process::start(self.command(&data), &output)?;
        process.wait_until(self.name(), || self.ready())?;
        self.process = Some(process);
        Ok(began.elapsed())
    }

    fn command(&self, data: &Path) -> Command {
        match &self.kind {
            Kind::Redis => {
                let mut command = Command::new("redis-server");
                command.args(["--bind", "127.0.0.1", "--save", "", "--dir"]).arg(data);
                command.args(["--port", &self.port.to_string()]).args(self.mode.redis_flags());
                command
            }
            Kind::Carillon(binary, memory_max) => {
                let mut command = Command::new(binary);
                command.args(["start", "--memory-max", memory_max, "--dir"]).arg(data);
                let ports =
                    [("resp", self.port), ("native", self.native_port), ("http", self.http_port)];
                for (name, port) in ports {
                    command.arg(format!("--{name}")).arg(format!("127.0.0.1:{port}"));
                }
                command
            }
        }
    }

    fn ready(&self) -> bool {
        let http_ready = match self.kind {
            Kind::Redis => true,
            Kind::Carillon(..) => {
                http::request(self.http_port, "GET", "/health/ready", "").is_ok_and(|s| s == 200)
            }
        };
        http_ready
            && Connection::open(self.port)
                .and_then(|mut connection| connection.call(&["PING"]))
                .is_ok_and(|reply| reply == "PONG")
    }

    /// Chooses the durability of keyspace 0. Redis chose it at its start.
    pub fn set_durability(&self, mode: Mode) -> Outcome<()> {
        if self.kind == Kind::Redis {
            return Ok(());
        }
        let body = format!(r#"{{"durability":"{}"}}"#, mode.durability());
        match http::request(self.http_port, "PATCH", "/v1/keyspaces/0", &body)? {
            200..=299 => Ok(()),
            status => Err(format!("durability {}: HTTP {status}", mode.durability()).into()),
        }
    }

    /// Its name in tables.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Redis => "redis",
            Kind::Carillon(..) => "carillon",
        }
    }

    /// A new connection.
    pub fn connect(&self) -> Outcome<Connection> {
        Connection::open(self.port)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::pid)
    }

    /// Where its data lies.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Asks it to save what it has and to end (SIGTERM), and waits.
    pub fn stop(&mut self) -> Outcome<()> {
        if let Some(mut process) = self.process.take() {
            if self.kind == Kind::Redis && self.mode == Mode::Memory {
                self.connect()?.call(&["SAVE"])?;
            }
            process.stop(STOP_MAX)?;
        }
        Ok(())
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process = None;
    }
}

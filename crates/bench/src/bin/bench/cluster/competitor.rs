//! The stores that are measured, and the load on each.

use std::process::{Command, Stdio};

use serde::Serialize;

use super::nodes::{NODES, Nodes};
use super::pipes::{self, Commands, Shape};
use super::rivals::{self, RedisPersistence, Rival};
use crate::load::{self, Run};
use crate::resp::Connection;
use crate::{Outcome, machine};

/// Connections of every run.
pub const CLIENTS: usize = 64;

/// A store, and how it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Competitor {
    /// redis-benchmark at one node, another one in each round.
    CarillonOne,
    /// redis-benchmark at all three nodes at once, a third of the clients each.
    CarillonAll,
    /// Pipelines of [`super::pipes`] at one node.
    CarillonPipes,
    /// The Go client, spread over all members, one call outstanding per client.
    Etcd,
    /// A lone redis-server without files.
    RedisMemory,
    /// A lone redis-server with `appendfsync always`.
    RedisAlways,
    /// A redis-server with two replicas, `appendfsync always`, each pipeline with WAIT 1.
    RedisWait,
}

impl Competitor {
    /// Its name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Competitor::CarillonOne => "Carillon, through one node",
            Competitor::CarillonAll => "Carillon, through all nodes",
            Competitor::CarillonPipes => "Carillon, the generator of WAIT",
            Competitor::Etcd => "etcd, three members",
            Competitor::RedisMemory => "Redis alone, no files",
            Competitor::RedisAlways => "Redis alone, always",
            Competitor::RedisWait => "Redis, 2 replicas, always, WAIT 1",
        }
    }

    /// Whether it is Carillon.
    pub fn is_carillon(self) -> bool {
        matches!(
            self,
            Competitor::CarillonOne | Competitor::CarillonAll | Competitor::CarillonPipes
        )
    }
}

/// One measurement that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Load {
    /// set or get.
    pub test: &'static str,
    /// Commands per pipeline.
    pub pipeline: usize,
    /// Of whom.
    pub who: Competitor,
}

/// Every store, running and filled.
pub struct Stores {
    nodes: Nodes,
    etcd: Option<Rival>,
    memory: Rival,
    always: Rival,
    replicated: Rival,
    keys: usize,
    etcd_connections: usize,
}

impl Stores {
    /// Starts all of them and sets every key once. Without etcd if it or its
    /// driver is not installed.
    pub fn start(binary: &str, keys: usize, etcd_connections: usize) -> Outcome<Self> {
        let etcd = if rivals::has_etcd() { Some(rivals::etcd()?) } else { None };
        let stores = Self {
            nodes: Nodes::start(binary)?,
            etcd,
            memory: rivals::redis("redis-memory", RedisPersistence::None, 0)?,
            always: rivals::redis("redis-always", RedisPersistence::Always, 0)?,
            replicated: rivals::redis("redis-replicated", RedisPersistence::Always, 2)?,
            keys,
            etcd_connections,
        };
        let mut ports = vec![stores.nodes.resp(0)];
        ports.extend([&stores.memory, &stores.always, &stores.replicated].map(|r| r.ports[0]));
        for port in ports {
            Connection::open(port)?.fill(keys, load::VALUE_BYTES)?;
        }
        if stores.etcd.is_some() {
            stores.etcd_load(&["-fill"])?;
        }
        Ok(stores)
    }

    /// Whether there is an etcd.
    pub fn has_etcd(&self) -> bool {
        self.etcd.is_some()
    }

    /// Runs one measurement of so many requests, for the `round`th time.
    pub fn run(&self, load: &Load, requests: usize, round: usize) -> Outcome<Run> {
        let pids = match load.who {
            who if who.is_carillon() => self.nodes.pids(),
            Competitor::Etcd => self.etcd.as_ref().map(Rival::pids).unwrap_or_default(),
            Competitor::RedisMemory => self.memory.pids(),
            Competitor::RedisAlways => self.always.pids(),
            _ => self.replicated.pids(),
        };
        let cpu = || pids.iter().map(|pid| machine::cpu_seconds(*pid)).sum::<Outcome<f64>>();
        let before = cpu()?;
        let one = self.nodes.resp(round % NODES);
        let mut run = match load.who {
            Competitor::CarillonOne => self.redis_benchmark(&[one], load, requests)?,
            Competitor::CarillonAll => {
                let all: Vec<u16> = (0..NODES).map(|node| self.nodes.resp(node)).collect();
                self.redis_benchmark(&all, load, requests)?
            }
            Competitor::RedisMemory => self.redis_benchmark(&self.memory.ports, load, requests)?,
            Competitor::RedisAlways => self.redis_benchmark(&self.always.ports, load, requests)?,
            Competitor::CarillonPipes => pipes::run(&[one], &self.shape(load, false), requests)?,
            Competitor::RedisWait => {
                let master = &self.replicated.ports[..1];
                pipes::run(master, &self.shape(load, true), requests)?
            }
            Competitor::Etcd => self.etcd_load(&["-t", load.test, "-n", &requests.to_string()])?,
        };
        run.cpu_us = (cpu()? - before) * 1e6 / requests as f64;
        Ok(run)
    }

    fn shape(&self, load: &Load, wait: bool) -> Shape {
        Shape {
            clients: CLIENTS,
            pipeline: load.pipeline,
            commands: Commands::Set,
            tagged: false,
            keys: self.keys,
            value_bytes: load::VALUE_BYTES,
            wait,
        }
    }

    /// One process for each port, all at once. The rate is that of all requests in the time that
    /// the slowest took; latencies are the worst of them.
    fn redis_benchmark(&self, ports: &[u16], load: &Load, requests: usize) -> Outcome<Run> {
        let share =
            |whole: usize, n: usize| whole / ports.len() + usize::from(n < whole % ports.len());
        let mut children = Vec::new();
        for (n, port) in ports.iter().enumerate() {
            let mut command = Command::new("redis-benchmark");
            command.args(["--csv", "-t", load.test]).stdin(Stdio::null()).stdout(Stdio::piped());
            let numbers = [
                ("-p", usize::from(*port)),
                ("-c", share(CLIENTS, n)),
                ("-d", load::VALUE_BYTES),
                ("-r", self.keys),
                ("-P", load.pipeline),
                ("-n", share(requests, n)),
            ];
            for (flag, number) in numbers {
                command.arg(flag).arg(number.to_string());
            }
            children.push(command.spawn()?);
        }
        let mut all = Run { rate: 0.0, p50_ms: 0.0, p99_ms: 0.0, cpu_us: 0.0 };
        let mut seconds: f64 = 0.0;
        for (n, child) in children.into_iter().enumerate() {
            let output = child.wait_with_output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            let run = load::parse(&text, 0.0).ok_or_else(|| format!("redis-benchmark: {text}"))?;
            seconds = seconds.max(share(requests, n) as f64 / run.rate);
            all.p50_ms = all.p50_ms.max(run.p50_ms);
            all.p99_ms = all.p99_ms.max(run.p99_ms);
        }
        all.rate = requests as f64 / seconds;
        Ok(all)
    }

    fn etcd_load(&self, flags: &[&str]) -> Outcome<Run> {
        let etcd = self.etcd.as_ref().ok_or("etcd is not installed")?;
        let numbers = [
            ("-c", CLIENTS),
            ("-conns", self.etcd_connections),
            ("-r", self.keys),
            ("-d", load::VALUE_BYTES),
        ];
        let (text, error) = etcd.drive_etcd(flags, &numbers)?;
        load::parse(&text, 0.0).ok_or_else(|| format!("the driver of etcd: {text}{error}").into())
    }
}

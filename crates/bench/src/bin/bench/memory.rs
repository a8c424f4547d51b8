//! Measures what data takes (memory, disk, time until ready), and what an idle node takes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::resp::key;
use crate::server::{Kind, Mode, Server};
use crate::{Outcome, load, machine};

/// How long an idle server is watched.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// How long the files may take to settle after filling (checkpoints run in the background).
const SETTLE_MAX: Duration = Duration::from_secs(120);
/// The files have settled when their size stays the same for so long.
const SETTLED_FOR: Duration = Duration::from_secs(10);

/// Figures of both servers with the same data.
#[derive(Debug, Serialize)]
pub struct Sizes {
    /// Keys of 16 bytes with values of 100.
    pub keys: usize,
    /// Bytes of keys and values.
    pub live_bytes: u64,
    /// Redis.
    pub redis: Size,
    /// Carillon.
    pub carillon: Size,
}

/// Figures of one server.
#[derive(Debug, Serialize)]
pub struct Size {
    /// Resident memory of a fresh, idle process.
    pub idle_rss_bytes: u64,
    /// Share of one core that it uses while idle, in percent.
    pub idle_cpu_percent: f64,
    /// Keys set per second while filling over one connection, pipelined.
    pub fill_rate: f64,
    /// Resident memory with the data.
    pub rss_bytes: u64,
    /// Bytes of its files once they have settled.
    pub disk_bytes: u64,
    /// Seconds from start to ready after an orderly stop.
    pub ready_seconds: f64,
    /// Seconds from start to ready after kill -9.
    pub ready_after_kill_seconds: f64,
    /// Resident memory after that.
    pub rss_after_restart_bytes: u64,
}

/// Fills one server after the other. Redis saves an RDB file before its stop (it writes no AOF
/// here); Carillon's keyspace is of durability memory.
pub fn measure(subject: &Kind, keys: usize) -> Outcome<Sizes> {
    println!("\n== memory with {keys} keys");
    let redis = one(&Kind::Redis, keys)?;
    let carillon = one(subject, keys)?;
    let live_bytes = keys as u64 * (key(0).len() + load::VALUE_BYTES) as u64;
    Ok(Sizes { keys, live_bytes, redis, carillon })
}

fn one(kind: &Kind, keys: usize) -> Outcome<Size> {
    let mut server = Server::start(kind, Mode::Memory)?;
    sleep(Duration::from_secs(1));
    let idle_rss_bytes = machine::rss_bytes(server.pid())?;
    let before = machine::cpu_seconds(server.pid())?;
    sleep(IDLE_TIME);
    let used = machine::cpu_seconds(server.pid())? - before;
    let idle_cpu_percent = 100.0 * used / IDLE_TIME.as_secs_f64();

    let began = Instant::now();
    server.connect()?.fill(keys, load::VALUE_BYTES)?;
    let fill_rate = keys as f64 / began.elapsed().as_secs_f64();
    let rss_bytes = machine::rss_bytes(server.pid())?;
    println!("{}: filled at {:.0} keys/s", server.name(), fill_rate);
    let disk_bytes = match kind {
        Kind::Redis => 0,
        Kind::Carillon(..) => settled_disk_bytes(&server)?,
    };

    server.stop()?;
    let disk_bytes = disk_bytes.max(match kind {
        Kind::Redis => machine::disk_bytes(&server.data_dir())?,
        Kind::Carillon(..) => 0,
    });
    let ready_seconds = server.launch()?.as_secs_f64();
    expect_keys(&server, keys)?;
    server.kill();
    let ready_after_kill_seconds = server.launch()?.as_secs_f64();
    expect_keys(&server, keys)?;
    Ok(Size {
        idle_rss_bytes,
        idle_cpu_percent,
        fill_rate,
        rss_bytes,
        disk_bytes,
        ready_seconds,
        ready_after_kill_seconds,
        rss_after_restart_bytes: machine::rss_bytes(server.pid())?,
    })
}

/// The size of the files once it no longer changes.
fn settled_disk_bytes(server: &Server) -> Outcome<u64> {
    let began = Instant::now();
    let mut size = machine::disk_bytes(&server.data_dir())?;
    let mut since = Instant::now();
    while since.elapsed() < SETTLED_FOR && began.elapsed() < SETTLE_MAX {
        sleep(Duration::from_millis(500));
        let now = machine::disk_bytes(&server.data_dir())?;
        if now != size {
            (size, since) = (now, Instant::now());
        }
    }
    Ok(size)
}

fn expect_keys(server: &Server, keys: usize) -> Outcome<()> {
    let found: usize = server.connect()?.call(&["DBSIZE"])?.parse()?;
    if found != keys {
        return Err(
            format!("{} has {found} keys after a restart, not {keys}", server.name()).into()
        );
    }
    Ok(())
}

//! `carillon lock` and `locks`: runs a command while a lock is held.
//!
//! ```text
//!   acquire ──► the command, in its own process group ──► it ends ──► release ──► its exit code
//!                 │ renewed each third of the lease
//!                 └ not renewed: SIGTERM at three quarters, SIGKILL at nine tenths of the lease
//! ```
//!
//! If this process is killed, so is the command (`PR_SET_PDEATHSIG`). What the command has started
//! itself may outlive it; so what the lock protects should compare tokens.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use client::http::{Client, HeldLock, LockState};
use serde_json::json;
use server::utc::utc;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::{NodeArgs, millis};
use crate::exit::Exit;
use crate::output::{self, table, with_node};

/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(20);
/// … and after an attempt to renew that brought nothing, how soon the next one begins.
const RETRY: Duration = Duration::from_millis(100);

/// `carillon lock`
#[derive(Debug, Args)]
#[command(after_help = "\
The command finds the lock's token in CARILLON_LOCK_TOKEN, and its name in CARILLON_LOCK_NAME.
Each holder's token is larger than those of all before: what the lock protects can remember the
largest one it has seen, and refuse smaller ones.

The lease is renewed while the command runs, at other nodes if one does not answer. If it cannot be
renewed, the command is ended before the lease is over: SIGTERM, then SIGKILL.

Exit codes: that of the command; 128 and the number of the signal that ended it; 127 if there is no
such command, 126 if it cannot be run; 1 if another holds the lock; 6 if the lease was lost.
Standard error says what 1 and 6 mean, if they are not the command's own.

If this process itself is killed by SIGKILL, so is the command, but not what that has started.

Examples:
  carillon lock nightly -- ./backup.sh
  carillon lock deploy --wait 5m --ttl 1m -- make deploy")]
pub struct LockArgs {
    /// The lock's name.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub name: String,
    /// The lease: at least 1s, at most 1d.
    #[arg(long, value_name = "TIME", value_parser = millis, default_value = "30s")]
    pub ttl: u64,
    /// How long to wait for the lock; not at all, if not given.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub wait: Option<u64>,
    /// Who holds it, for `carillon locks`; it must be nobody else's name.
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    #[command(flatten)]
    pub node: NodeArgs,
    /// The command and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `carillon locks`
#[derive(Debug, Args)]
pub struct LocksArgs {
    /// List locks whose names begin so.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Lists the locks that are held.
pub fn locks(args: &LocksArgs) -> Exit {
    with_node(&args.node, |client| {
        let (mut all, mut after): (Vec<_>, Option<String>) = (Vec::new(), None);
        loop {
            let (mut page, next) = client.locks(&args.prefix, after.as_deref())?;
            all.append(&mut page);
            if next.is_none() {
                break;
            }
            after = next;
        }
        let rows = all.iter().map(|lock| {
            let token = lock.token.to_string();
            let shown = |text: &str| text.escape_debug().to_string();
            vec![shown(&lock.name), token, utc(lock.ends_at_ms), shown(&lock.owner)]
        });
        let rows: Vec<_> = rows.collect();
        Ok(match args.node.json {
            false => output::raw(table(&["NAME", "TOKEN", "ENDS", "OWNER"], &rows).as_bytes()),
            true => {
                let all = all.iter().map(|lock| {
                    json!({ "name": lock.name, "token": lock.token.to_string(),
                            "owner": lock.owner, "ends_at_ms": lock.ends_at_ms })
                });
                output::json(&json!({ "locks": all.collect::<Vec<_>>() }))
            }
        })
    })
}

/// Runs a command while the lock is held.
pub fn lock(args: &LockArgs) -> Exit {
    with_node(&args.node, |client| {
        let stops = match Stops::heard() {
            Ok(stops) => stops,
            Err(error) => {
                output::refuse(&args.node, &format!("signals cannot be heard: {error}"));
                return Ok(Exit::Refused);
            }
        };
        let owner = args.owner.clone().unwrap_or_else(owner);
        let ttl = Duration::from_millis(args.ttl);
        let wait = Duration::from_millis(args.wait.unwrap_or_default());
        let clients = with_others(client);
        let held = HeldLock::acquire(clients, &args.name, &owner, ttl, wait)?;
        Ok(run(args, held, &stops))
    })
}

/// The node, and all others that it knows: if it ends, they renew.
fn with_others(client: &Client) -> Vec<Client> {
    let mut all = vec![client.clone()];
    // Without an answer the request for the lock says what is wrong.
    let nodes = client.nodes().unwrap_or_default();
    let others = nodes["nodes"].as_array().into_iter().flatten();
    all.extend(others.filter_map(|node| client.of_node(&node["addresses"])));
    all
}

/// A name that no other process has.
fn owner() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}/{}/{}", host.trim(), std::process::id(), since.as_nanos())
}

/// Signals that are passed on to the command.
struct Stops(Vec<(i32, Arc<AtomicBool>)>);

impl Stops {
    fn heard() -> std::io::Result<Self> {
        let mut all = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, flag.clone())?;
            all.push((signal, flag));
        }
        Ok(Self(all))
    }

    fn pass_on(&self, child: &Child) {
        for (signal, flag) in &self.0 {
            if flag.swap(false, Ordering::Relaxed) {
                signal_group(child, *signal);
            }
        }
    }
}

/// Sends a signal to a command and what it has started in its process group. The child was not
/// waited for yet, so its number is its own.
fn signal_group(child: &Child, signal: i32) {
    // SAFETY: it takes numbers only; a group that is gone is an error that means nothing here.
    unsafe { libc::kill(-(child.id() as i32), signal) };
}

fn start(args: &LockArgs, held: &HeldLock) -> std::io::Result<Child> {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]).process_group(0);
    command.env("CARILLON_LOCK_NAME", &args.name);
    command.env("CARILLON_LOCK_TOKEN", held.held().token.to_string());
    let parent = std::process::id();
    // SAFETY: between fork and exec it makes system calls only, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The parent may have ended before.
            if libc::getppid() as u32 != parent {
                libc::_exit(1);
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    give_terminal(child.id() as i32);
    Ok(child)
}

/// Makes a process group the one that reads from the terminal, if there is one.
fn give_terminal(group: i32) {
    if !std::io::stdin().is_terminal() {
        return;
    }
    // SAFETY: both take numbers only. A background process that does this would be stopped by
    // SIGTTOU; no handler is replaced that anybody else has set.
    unsafe {
        libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        libc::tcsetpgrp(libc::STDIN_FILENO, group);
    }
}

fn run(args: &LockArgs, mut held: HeldLock, stops: &Stops) -> Exit {
    let mut child = match start(args, &held) {
        Ok(child) => child,
        Err(error) => {
            let _ends_by_itself = held.release();
            let command = args.command[0].to_string_lossy();
            output::refuse(&args.node, &format!("cannot run {command:?}: {error}"));
            // As shells have it.
            let is_absent = error.kind() == std::io::ErrorKind::NotFound;
            return Exit::OfCommand(if is_absent { 127 } else { 126 });
        }
    };
    let (mut renew_at, mut is_lost, mut is_told) = (held.renew_at(), false, false);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => {
                output::refuse(&args.node, &format!("the command cannot be waited for: {error}"));
                signal_group(&child, libc::SIGKILL);
                return Exit::Refused;
            }
        }
        stops.pass_on(&child);
        let now = Instant::now();
        if !is_lost && now >= renew_at {
            let state = held.renew();
            is_lost = state == LockState::Lost;
            renew_at = match state {
                LockState::Held => held.renew_at(),
                LockState::NotRenewed | LockState::Lost => Instant::now() + RETRY,
            };
        }
        if is_lost || now >= held.ends() {
            is_lost = true;
            signal_group(&child, libc::SIGKILL);
        } else if now >= held.stop_at() && !is_told {
            is_told = true;
            signal_group(&child, libc::SIGTERM);
        }
        std::thread::sleep(LOOK);
    };
    if std::io::stdin().is_terminal() {
        // SAFETY: it takes no argument.
        give_terminal(unsafe { libc::getpgrp() });
    }
    if is_lost || is_told {
        let name = &args.name;
        output::refuse(&args.node, &format!("the lease of lock {name:?} was lost"));
        if !is_lost {
            let _ends_by_itself = held.release();
        }
        return Exit::LockLost;
    }
    if let Err(error) = held.release() {
        // The command has done its work; the lease ends by itself.
        output::note(&format!("carillon: the lock was not released: {error}"));
    }
    exit_of(status)
}

fn exit_of(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Exit::OfCommand(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

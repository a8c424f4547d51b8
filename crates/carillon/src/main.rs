//! The program: a node (`carillon start`) and the commands that talk to one.
//!
//! `start` turns flags into a configuration and runs the server; `dev` starts several of these
//! processes. `check` and `recover` read a stopped node's directory; all others speak HTTP to a
//! running node. Nothing is decided here that a library could decide.

mod advise;
mod all_nodes;
mod allocator;
mod bench;
mod certs;
mod cli;
mod cluster;
mod colour;
mod console;
mod decisions;
mod dev;
mod doctor;
mod drain;
mod exit;
mod feed;
mod history;
mod keys;
mod keyspaces;
mod leader;
mod lock;
mod merge;
mod output;
mod overlay;
mod prove;
mod record;
mod recover;
mod repair_clock;
mod replay;
mod route;
mod script;
mod sim;
mod snapshots;
mod split;
mod start;
mod status;
mod topic_push;
mod topics;
mod txn;
mod upgrade;
mod volumes;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, Command, NodesArgs};
use exit::Exit;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // If nobody reads it there is nothing better to do.
            let _unread = error.print();
            return if wanted { Exit::Done.into() } else { Exit::Usage.into() };
        }
    };
    run(cli.command).into()
}

fn run(command: Command) -> Exit {
    match command {
        Command::Start(args) => start::start(&args),
        Command::Dev(args) => dev::dev(&args),
        Command::Get(args) => keys::get(&args),
        Command::Put(args) => keys::put(&args),
        Command::Del(args) => keys::del(&args),
        Command::History(args) => history::history(&args),
        Command::Keys(args) => snapshots::keys(&args),
        Command::Snapshot(args) => snapshots::snapshot(&args),
        Command::Gc(args) => snapshots::gc(&args),
        Command::Feed(args) => feed::feed(&args),
        Command::Script(args) => script::script(&args),
        Command::Txn(args) => txn::txn(&args),
        Command::Certs(args) => certs::certs(&args),
        Command::Lock(args) => lock::lock(&args),
        Command::Locks(args) => lock::locks(&args),
        Command::Topic(args) => topics::topic(&args.command),
        Command::Keyspace(args) => keyspaces::run(&args.command),
        Command::Volume(args) => volumes::run(&args.command),
        Command::Status(args) => status::status(&args),
        Command::Nodes(NodesArgs { command: Some(command), .. }) => drain::act(&command),
        Command::Nodes(args) => cluster::nodes(&args),
        Command::Drain(args) => drain::drain(&args),
        Command::Shards(args) if args.why || args.dry_run => decisions::decisions(&args),
        Command::Shards(args) => cluster::shards(&args),
        Command::Route(args) => route::route(&args),
        Command::Split(args) => split::split(&args),
        Command::Merge(args) => merge::merge(&args),
        Command::Record(args) => record::record(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Upgrade(args) => upgrade::upgrade(&args),
        Command::Prove(args) => prove::prove(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Check(args) => status::check(&args),
        Command::Recover(args) => recover::recover(&args.command),
        Command::RepairClock(args) => repair_clock::repair_clock(&args),
        Command::Console(args) => console::console(&args),
        Command::Sim(args) => sim::sim(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Completions { shell } => {
            let mut command = <Cli as clap::CommandFactory>::command();
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "carillon", &mut script);
            output::raw(&script)
        }
        Command::Manual { dir } => {
            let command = <Cli as clap::CommandFactory>::command();
            let written = std::fs::create_dir_all(&dir)
                .and_then(|()| clap_mangen::generate_to(command, &dir));
            match written {
                Ok(()) => Exit::Done,
                Err(why) => {
                    output::complain(&format!("cannot write pages to {}: {why}", dir.display()));
                    Exit::Refused
                }
            }
        }
    }
}

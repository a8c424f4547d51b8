//! Golden scripts of raft groups: what replicas are told, what they send, and who may then do what.
//!
//! | verb | does |
//! |---|---|
//! | `group 1 2 3 empty=4` | starts replicas with these voters, whose logs begin after entry 1 of term 1; replica 4 has nothing |
//! | `campaign 1` | the replica gets ticks, in no time, until its election timeout is over and it campaigns |
//! | `tick 1 2 times=4` | so often 50 ms pass, and these replicas get a tick |
//! | `burst 2 40` | the replica gets so many ticks at once, in no time |
//! | `sleep 600` | so many ms pass, and nobody gets a tick |
//! | `deliver 1 2` | brings what is in flight from one to another; without them, all that is in flight now |
//! | `settle` | brings messages until none is in flight |
//! | `lose 1 2` | what is in flight is lost; without numbers, all of it |
//! | `cut 3`, `heal` | what the replica sends and what is sent to it is lost, until all is healed |
//! | `propose 1 a` | proposes an entry |
//! | `change 1 add=4`, `promote=4 remove=3`, `leave` | proposes a change of members |
//! | `transfer 1 2` | the leader hands leadership over |
//! | `confirm 1` | the leader asks a majority to confirm that it leads, for a read |
//! | `read 1 came=1000` | says how the replica may serve a linearizable read that came then, or comes now |
//! | `slow 2`, `sync 2` | its disk syncs nothing more; now it syncs all, and at once from then on |
//! | `restart 2 losing=true` | kill -9, and a start from disk; losing what its disk held after entry 1 |
//! | `show` | all replicas |
//!
//! Messages stand in the scripts as they are delivered. `UPDATE_GOLDENFILES=1` writes outputs anew.

#[path = "../world/disk.rs"]
mod disk;
mod network;

use std::error::Error;
use std::fmt::Write as _;

use goldenscript::{Command, Context};
use keyspace::ReplicaId;
use replication::Change;

use network::Network;

#[derive(Command)]
enum Verb {
    Group {
        #[arg(key, optional)]
        empty: String,
        voters: Vec<u64>,
    },
    Campaign(u64),
    Tick {
        #[arg(key)]
        times: Option<u64>,
        replicas: Vec<u64>,
    },
    Burst(u64, u64),
    Sleep(u64),
    Deliver(Option<u64>, Option<u64>),
    Settle,
    Lose(Option<u64>, Option<u64>),
    Cut(u64),
    Heal,
    Propose(u64, String),
    Change {
        at: u64,
        leave: Option<String>,
        #[arg(key, optional)]
        add: String,
        #[arg(key, optional)]
        promote: String,
        #[arg(key, optional)]
        remove: String,
    },
    Transfer(u64, u64),
    Confirm(u64),
    Read {
        replica: u64,
        #[arg(key)]
        came: Option<u64>,
    },
    Slow(u64),
    Sync(u64),
    Restart {
        replica: u64,
        #[arg(key, optional)]
        losing: bool,
    },
    Show,
}

/// Runs one script.
#[derive(Default)]
struct Runner {
    network: Network,
}

/// Numbers, separated by commas in quotes.
fn ids(list: &str) -> Vec<ReplicaId> {
    let numbers = list.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| ReplicaId(number.trim().parse().expect("a number"))).collect()
}

fn link(from: Option<u64>, to: Option<u64>) -> Option<(ReplicaId, ReplicaId)> {
    Some((ReplicaId(from?), ReplicaId(to?)))
}

impl goldenscript::Runner for Runner {
    type Command = Verb;

    fn run(&mut self, verb: &Verb, _: &Context) -> Result<String, Box<dyn Error>> {
        let network = &mut self.network;
        match verb {
            Verb::Group { voters, empty } => {
                let voters: Vec<ReplicaId> = voters.iter().map(|id| ReplicaId(*id)).collect();
                network.found(&voters, &ids(empty));
            }
            Verb::Campaign(id) => network.campaign(ReplicaId(*id)),
            Verb::Tick { replicas, times } => {
                let replicas: Vec<ReplicaId> = replicas.iter().map(|id| ReplicaId(*id)).collect();
                (0..times.unwrap_or(1)).for_each(|_| network.tick(&replicas));
                writeln!(network.out, "{} ms: {} in flight", network.millis(), network.flying())?;
            }
            Verb::Burst(id, count) => {
                network.burst(ReplicaId(*id), *count);
                writeln!(network.out, "{} ms: {} in flight", network.millis(), network.flying())?;
            }
            Verb::Sleep(millis) => {
                network.sleep(*millis);
                writeln!(network.out, "{} ms", network.millis())?;
            }
            Verb::Deliver(from, to) => network.deliver(link(*from, *to)),
            Verb::Settle => network.settle(),
            Verb::Lose(from, to) => network.lose(link(*from, *to)),
            Verb::Cut(id) => network.cut(ReplicaId(*id)),
            Verb::Heal => network.heal(),
            Verb::Propose(id, data) => network.propose(ReplicaId(*id), data),
            Verb::Change { at, leave, add, promote, remove } => {
                let change = match (leave, add.is_empty()) {
                    (Some(_), _) => Change::LeaveJoint,
                    (None, false) => Change::AddLearners(ids(add)),
                    _ => Change::EnterJoint { promote: ids(promote), remove: ids(remove) },
                };
                network.propose_change(ReplicaId(*at), &change);
            }
            Verb::Transfer(from, to) => network.transfer(ReplicaId(*from), ReplicaId(*to)),
            Verb::Confirm(id) => network.confirm(ReplicaId(*id)),
            Verb::Read { replica, came } => network.read(ReplicaId(*replica), *came),
            Verb::Slow(id) => network.slow(ReplicaId(*id)),
            Verb::Sync(id) => network.sync(ReplicaId(*id)),
            Verb::Restart { replica, losing } => network.restart(ReplicaId(*replica), *losing),
            Verb::Show => network.show(),
        }
        Ok(std::mem::take(&mut network.out))
    }
}

test_each_file::test_each_path! { in "crates/replication/tests/golden/scripts" as golden => run }

fn run(path: &std::path::Path) {
    goldenscript::run(&mut Runner::default(), path).expect("the script runs");
}

//! Three nodes with a replica of each shard, and what they send each other. Node 1 leads at first.
//!
//! | verb | does |
//! |---|---|
//! | `found 3` | shard 3 has all keys |
//! | `write 2 "APPEND k x"` | a client of node 2 sends a command, to the shard that node 2 takes to own its key |
//! | `read 2 k` | a client of node 2 reads a key there |
//! | `settle` | brings everything until nothing is in flight |
//! | `tick 4` | so often 50 ms pass and all nodes get a tick; all is brought |
//! | `hold 3` | node 3 gets no log entries from now on, but all else; `release 3` ends that |
//! | `cut 2`, `heal` | nothing reaches node 2 or leaves it, until all is healed |
//! | `lose written` | peer RPCs of this kind are lost, until all is healed |
//! | `sleep 10` | so many ms pass at node 1, which looks what is due |
//! | `prepare T20 "SET k x"` | a coordinator asks the leader to lock keys; `reserved=10`: as what they are reserved for |
//! | `commit T20`, `abort T20` | what was prepared is resolved |
//! | `reserve 10 k` | a transaction that began at 10 ms and failed to validate reads k, and reserves it |
//! | `split 3 m right=6` | the leader is told to split shard 3 at key m |
//! | `merge 3 6` | the leader is told to merge shard 6 into shard 3 |
//! | `transfer 6 2` | the leader of shard 6 hands leadership over to node 2 |
//! | `show` | shards and values of each node |
//!
//! Printed are effects: replicas that begin and end, leaders, what is re-routed, what is handed
//! over, answers to clients, peer RPCs for their sake, and what the leaders of a merge say. Raft's
//! messages and those of replicas about themselves are not.

mod reshapes;
mod steps;
mod world;

use std::error::Error;

use goldenscript::Context;
use keyspace::ShardId;

use world::World;

#[derive(goldenscript::Command)]
pub enum Verb {
    Found(u64),
    Write(usize, String),
    Read(usize, String),
    Settle,
    Tick(u64),
    Hold(usize),
    Release(usize),
    Cut(usize),
    Heal,
    Lose(String),
    Sleep(u64),
    Prepare {
        id: String,
        #[arg(key)]
        reserved: Option<u64>,
        commands: Vec<String>,
    },
    Commit(String),
    Abort(String),
    Reserve(u64, String),
    Split {
        shard: u64,
        at: String,
        #[arg(key)]
        right: u64,
    },
    Merge(u64, u64),
    Transfer(u64, u64),
    Show,
}

#[derive(Default)]
pub struct Runner {
    world: Option<World>,
}

impl goldenscript::Runner for Runner {
    type Command = Verb;

    fn run(&mut self, verb: &Verb, _: &Context) -> Result<String, Box<dyn Error>> {
        if let Verb::Found(shard) = verb {
            self.world = Some(World::new(ShardId(*shard)));
        }
        let world = self.world.as_mut().ok_or("a script founds a shard first")?;
        match verb {
            Verb::Found(_) | Verb::Settle => world.settle(),
            Verb::Write(node, text) => world.write(*node, text),
            Verb::Read(node, key) => world.read(*node, key.as_bytes()),
            Verb::Tick(times) => (0..*times).for_each(|_| world.tick()),
            Verb::Hold(node) => _ = world.held.insert(*node),
            Verb::Release(node) => _ = world.held.remove(node),
            Verb::Cut(node) => _ = world.cut.insert(*node),
            Verb::Heal => world.heal(),
            Verb::Lose(kind) => _ = world.lost.insert(kind.clone()),
            Verb::Sleep(millis) => world.sleep(*millis),
            Verb::Prepare { id, reserved, commands } => world.prepare(id, *reserved, commands),
            Verb::Commit(id) => world.resolve(id, true),
            Verb::Abort(id) => world.resolve(id, false),
            Verb::Reserve(name, key) => world.reserve(*name, key.as_bytes()),
            Verb::Split { shard, at, right } => {
                world.split(ShardId(*shard), at.as_bytes(), ShardId(*right));
            }
            Verb::Merge(left, right) => world.merge(ShardId(*left), ShardId(*right)),
            Verb::Transfer(shard, node) => world.transfer(ShardId(*shard), *node),
            Verb::Show => world.show(),
        }
        Ok(world.said())
    }
}

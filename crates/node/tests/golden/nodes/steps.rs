//! Steps of transactions and reserving reads, which a coordinator at node 2 asks of a leader.

use std::collections::BTreeMap;

use bytes::Bytes;
use command::{NotDone, Step as Command, Transaction};
use keyspace::{NodeId, ShardId, Timestamp};
use node::executor::Input;
use node::routing::fetch::{FetchRequest, FetchResult};
use node::rpc::message::RpcMessage;
use txn::locks::{Deadline, Keys, Outcome, Prepare, Role, Step, StepReply, TxnId};
use txn::wait_queue::{ReserveFrom, ReservingRead};

use super::world::World;
use crate::words;

const ASKER: NodeId = NodeId(2);
/// The coordinator's name.
const BY: u64 = 9;
/// Numbers of what is asked begin here, far above those of the executor of that node.
const FIRST_NUMBER: u64 = 1_000_000;

/// What was asked.
#[derive(Default)]
pub struct Requests {
    /// In which words, by number.
    names: BTreeMap<u64, String>,
    /// Keys of each transaction, and when they were locked.
    locked: BTreeMap<TxnId, (Vec<Vec<u8>>, Option<Timestamp>)>,
    by_number: BTreeMap<u64, TxnId>,
}

impl World {
    /// PREPARE of commands, at the shard of their keys.
    pub fn prepare(&mut self, name: &str, reserved: Option<u64>, commands: &[String]) {
        let id = words::id(name, BY);
        let commands: Vec<Command<'_>> = commands.iter().map(|text| words::command(text)).collect();
        let mut keys = Vec::new();
        commands.iter().for_each(|command| command.each_key(&mut |key| keys.push(key)));
        let (record, places) = (keys[0], (0..commands.len() as u32).collect());
        let part = Transaction { commands, ..Transaction::default() };
        let prepare = Prepare {
            id,
            is_first: false,
            reserved_as: reserved.map(Timestamp::from_millis),
            record,
            promised: keys.iter().copied().collect(),
            role: Role::Votes,
            deadline: Some(Deadline::NEVER),
            places,
            part,
        };
        let number = self.step(record, &Step::Prepare(prepare), format!("PREPARE {name}"));
        let keys = keys.into_iter().map(<[u8]>::to_vec).collect();
        self.asked.locked.insert(id, (keys, None));
        self.asked.by_number.insert(number, id);
    }

    /// RESOLVE of what was prepared, at the time of its locks or as aborted.
    pub fn resolve(&mut self, name: &str, is_committed: bool) {
        let id = words::id(name, BY);
        let (all, at) = self.asked.locked.remove(&id).expect("the step was prepared");
        let outcome = match at.filter(|_| is_committed) {
            Some(at) => Outcome::Committed(at),
            None => Outcome::Aborted,
        };
        let keys: Keys<'_> = all.iter().map(Vec::as_slice).collect();
        let end = if is_committed { "COMMITTED" } else { "ABORTED" };
        let text = format!("RESOLVE {name} {end}");
        self.step(keys[0], &Step::Resolve { id, outcome, keys: keys.clone() }, text);
    }

    fn step(&mut self, key: &[u8], step: &Step<'_>, text: String) -> u64 {
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        let step = Bytes::from(bytes);
        self.ask(key, text, |shard, number| RpcMessage::Step { shard, number, step })
    }

    /// Reads a key and reserves it, by the name of a transaction whose validation has failed.
    pub fn reserve(&mut self, millis: u64, key: &[u8]) {
        let read =
            ReservingRead { name: Timestamp::from_millis(millis), from: ReserveFrom::Everyone };
        let want = FetchRequest::keys([key]).by(read);
        let text = format!("reserving read of {} as {millis}", words::text(key));
        self.ask(key, text, |shard, number| RpcMessage::Fetch { shard, number, want });
    }

    fn ask(
        &mut self,
        key: &[u8],
        text: String,
        rpc: impl FnOnce(ShardId, u64) -> RpcMessage,
    ) -> u64 {
        let shard = self.shard_of(key);
        let leader = self.leader(shard).expect("somebody leads it");
        let number = FIRST_NUMBER + self.asked.names.len() as u64;
        self.asked.names.insert(number, text);
        let rpc = rpc(shard, number);
        self.node(leader).executor.accept(Input::Rpc { from: ASKER, rpc });
        number
    }

    /// Prints what was answered, if this is one of these answers.
    pub(super) fn takes_answer(&mut self, rpc: &RpcMessage) -> bool {
        let (number, text) = match rpc {
            RpcMessage::StepReply { number, reply, .. } => {
                if let (StepReply::Voted(vote), Some(id)) =
                    (reply, self.asked.by_number.get(number))
                    && let Some((_, locked)) = self.asked.locked.get_mut(id)
                {
                    *locked = Some(vote.at);
                }
                let text = match reply {
                    // Times of the virtual clock say nothing here.
                    StepReply::Voted(..) => "prepared".to_owned(),
                    reply => words::step_reply(reply),
                };
                (number, text)
            }
            RpcMessage::FetchReply { number, found: FetchResult::Versions(all), .. } => {
                let held = all[0].as_ref().map(|held| format!("\"{}\"", words::text(&held.value)));
                (number, held.unwrap_or_else(|_| "nil".to_owned()))
            }
            _ => return false,
        };
        let Some(name) = self.asked.names.get(number) else { return false };
        let line = format!("{name}: {text}");
        self.say(&line);
        true
    }
}

/// Why a client's command was not done.
pub(super) fn not_done(why: NotDone) -> String {
    let why = match why {
        NotDone::CrossShard => "its keys lie in several shards",
        NotDone::NotLeader => "nobody leads the shard",
        NotDone::OutcomeUnknown => return "unknown".to_owned(),
        other => panic!("not in scripts: {other:?}"),
    };
    format!("not done, {why}")
}

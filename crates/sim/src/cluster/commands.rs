//! What clients of a cluster ask of keys.

use command::{ExpireIf, Expiry, SetIf, SetReply};
use keyspace::Feature;
use keyspace::random::mix;

use super::World;
use crate::command::{Command, Value};
use crate::rng::Rng;

impl World {
    /// A command, and keys of one hash tag.
    pub(super) fn some_command(&mut self, at: usize) -> (Command, Vec<u64>) {
        let key = self.rng.below(self.profile.keys);
        let weights = [24, 8, 3, 5, 6, 16, 6, 3, 7, 50, 4, 8, 3, 7];
        let command = match self.rng.weighted(&weights) {
            0 => {
                let whens = [SetIf::Always, SetIf::Always, SetIf::Absent, SetIf::Present];
                let replies = [SetReply::Ok, SetReply::Ok, SetReply::Old, SetReply::Flag];
                let expiry = match self.rng.below(5) {
                    0 => Expiry::Keep,
                    1 | 2 => self.some_end(at),
                    _ => Expiry::Never,
                };
                let (when, reply) = (*self.rng.pick(&whens), *self.rng.pick(&replies));
                Command::Set { value: self.value(), when, expiry, reply }
            }
            1 => Command::Delete,
            2 => Command::GetDelete,
            3 => Command::GetExpire(self.some_end(at)),
            4 => Command::Append(self.value()),
            5 => Command::Increment(1),
            6 => self.some_expire(at),
            7 => Command::Persist,
            8 => return self.joint_write(at, key),
            9 => Command::Get,
            10 => Command::Exists,
            11 => Command::ExpiryTime,
            12 => Command::Length,
            _ => return (Command::GetMany, self.keys_beside(key)),
        };
        (command, vec![key])
    }

    fn value(&self) -> Value {
        Value((self.clients.made * 1_000_003).to_string().into_bytes())
    }

    /// When a value ends, by the clock of the node that is asked, or of another.
    fn some_end(&mut self, at: usize) -> Expiry {
        match self.end_ms(at) {
            0 => Expiry::Never,
            at_ms => Expiry::At(at_ms),
        }
    }

    fn end_ms(&mut self, at: usize) -> u64 {
        if self.profile.ttl_ms_max == 0 {
            return 0;
        }
        let other = self.rng.below(self.node_slots.len() as u64) as usize;
        let machine = self.node_slots[other].machine.as_ref().filter(|_| self.rng.one_in(3));
        let machine = machine.or(self.node_slots[at].machine.as_ref()).expect("the node runs");
        machine.clock.now().millis() + self.rng.between(1, self.profile.ttl_ms_max)
    }

    fn some_expire(&mut self, at: usize) -> Command {
        let at_ms = match self.rng.below(8) {
            0 => 1,
            _ => self.end_ms(at) as i64,
        };
        let mut when = ExpireIf::default();
        match self.rng.below(6) {
            0 => when.nx = true,
            1 => when.xx = true,
            2 => when.gt = true,
            3 => when.lt = true,
            _ => {}
        }
        match at_ms {
            0 => Command::Persist,
            at_ms => Command::Expire { at_ms, when },
        }
    }

    /// Some keys of a key's hash tag, in their order.
    fn keys_beside(&mut self, key: u64) -> Vec<u64> {
        let tagged = self.profile.tagged;
        let first = key - key % tagged;
        let end = (first + tagged).min(self.profile.keys);
        (first..end).filter(|other| *other == key || self.rng.one_in(2)).collect()
    }

    fn joint_write(&mut self, at: usize, key: u64) -> (Command, Vec<u64>) {
        let beside = self.keys_beside(key);
        let other = *self.rng.pick(&beside);
        let yes = self.rng.one_in(2);
        match self.rng.below(3) {
            0 if let Some(transaction) = self.transaction(at, &beside) => (transaction, beside),
            0 => {
                let value = self.value();
                (Command::SetAllIfAbsent(vec![value; beside.len()]), beside)
            }
            1 => (Command::Rename { if_absent: yes }, vec![key, other]),
            // Gateways refuse to copy a key to itself.
            _ if other == key => (Command::Delete, vec![key]),
            _ => (Command::Copy { replace: yes }, vec![key, other]),
        }
    }

    /// Mostly one, if the node knows that all can read it. It is drawn apart, so that all else in a
    /// run of a seed stays as it was.
    fn transaction(&self, at: usize, beside: &[u64]) -> Option<Command> {
        let mut rng = Rng::new(mix(self.options.seed) ^ self.clients.made);
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        if !machine.cluster_version.allows(Feature::Transactions) || rng.one_in(3) {
            return None;
        }
        let steps = (0..rng.between(1, 4)).map(|number| {
            let value = Value((self.clients.made * 1_000_003 + number).to_string().into_bytes());
            let (when, reply) = (SetIf::Always, SetReply::Ok);
            let command = match rng.below(9) {
                0 => Command::Set { value, when, expiry: Expiry::Never, reply },
                1 => Command::Set { value, when, expiry: Expiry::Keep, reply: SetReply::Old },
                2 => Command::Delete,
                3 => Command::Append(value),
                4 => Command::Increment(1),
                5 => Command::Persist,
                6 => Command::Exists,
                7 => Command::ExpiryTime,
                _ => Command::Get,
            };
            (rng.below(beside.len() as u64) as usize, command)
        });
        let steps = steps.collect();
        // Which versions these are is known once it is asked.
        let watched = rng.one_in(2).then(Vec::new);
        Some(Command::Transaction { watched, steps })
    }
}

//! Scripts as closures: what each does, given what it reads.

use command::{Reply, Step};

use super::super::parts::{self, Part};
use super::super::workloads::{Workload, number_of};
use super::super::{KEYS, MultiShardClients};

/// A script.
#[derive(Clone, Debug)]
pub(super) enum Program {
    /// It does one after the other.
    Each(Vec<Part>),
    /// It moves money from one account to the other, by what it reads of both.
    Transfer(usize, usize, i64),
    /// It reads all, and appends to one if so many of them are there at least, or at most.
    AppendIf { read: Vec<usize>, append: Part, present: (usize, usize) },
    /// It reads a list, which names another one: that one it reads and appends to. Of the other it
    /// has not told anybody.
    Follow(usize, u64),
}

/// What a script did.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    pub parts: Vec<Part>,
    pub replies: Vec<Reply>,
}

impl Effects {
    /// Does one thing more.
    fn call<E>(
        &mut self,
        part: Part,
        call: &mut dyn FnMut(Part) -> Result<Reply, E>,
    ) -> Result<Reply, E> {
        let reply = call(part)?;
        self.parts.push(part);
        self.replies.push(reply.clone());
        Ok(reply)
    }
}

impl Program {
    /// The keys that it declares.
    pub fn declared(&self) -> Vec<usize> {
        match self {
            Self::Each(parts) => parts.iter().map(|part| part.key()).collect(),
            Self::Transfer(from, to, _) => vec![*from, *to],
            Self::AppendIf { read, .. } => read.clone(),
            Self::Follow(first, _) => vec![*first],
        }
    }

    /// What it may do, before it has run.
    pub fn parts(&self) -> Vec<Part> {
        match self {
            Self::Each(parts) => parts.clone(),
            _ => self.declared().into_iter().map(Part::Get).collect(),
        }
    }

    /// Runs it: each call is answered, or ends it.
    ///
    /// # Errors
    /// That of the call that has ended it.
    pub fn run<E>(&self, call: &mut dyn FnMut(Part) -> Result<Reply, E>) -> Result<Effects, E> {
        let mut done = Effects::default();
        match self {
            Self::Each(parts) => {
                for part in parts {
                    done.call(*part, call)?;
                }
            }
            Self::Transfer(from, to, amount) => {
                let had = number_of(&done.call(Part::Get(*from), call)?);
                let has = number_of(&done.call(Part::Get(*to), call)?);
                done.call(Part::Set(*from, had - amount), call)?;
                done.call(Part::Set(*to, has + amount), call)?;
            }
            Self::AppendIf { read, append, present: (least, most) } => {
                let mut there = 0;
                for key in read {
                    there += usize::from(done.call(Part::Get(*key), call)? != Reply::Nil);
                }
                if (*least..=*most).contains(&there) {
                    done.call(*append, call)?;
                }
            }
            Self::Follow(first, element) => {
                let list = done.call(Part::Get(*first), call)?;
                let list =
                    if let Reply::Bulk(bytes) = &list { parts::list_of(bytes) } else { vec![] };
                let next = (list.iter().sum::<u64>() % KEYS as u64) as usize;
                done.call(Part::Get(next), call)?;
                done.call(Part::Append(next, *element), call)?;
            }
        }
        Ok(done)
    }
}

/// A part of a script, as a command.
pub(super) fn with_step<R>(
    part: Part,
    names: &[Vec<u8>],
    use_it: impl FnOnce(&Step<'_>) -> R,
) -> R {
    let values = parts::values_of(&[part]);
    use_it(&parts::step_of(&part, names, &values[0]))
}

impl MultiShardClients {
    /// A script over any keys of a workload.
    pub(super) fn some_program(&mut self, workload: Workload, now_ms: u64) -> Program {
        if workload == Workload::ListAppend {
            let (first, parts) = (self.some_key(), self.some_parts());
            self.elements += 1;
            return match self.rng.below(3) {
                0 => Program::Follow(first, self.elements),
                _ => Program::Each(parts),
            };
        }
        let keys = self.some_set(workload);
        let some = *self.rng.pick(&keys);
        let reads = self.rng.one_in(4);
        let append = self.append(some);
        match workload {
            _ if reads => Program::Each(keys.into_iter().map(Part::Get).collect()),
            Workload::Bank => {
                let two = self.rng.some(2, keys);
                Program::Transfer(two[0], two[1], self.rng.between(1, 9) as i64)
            }
            Workload::Register => {
                let value = self.elements as i64;
                Program::Each(keys.into_iter().map(|key| Part::Set(key, value)).collect())
            }
            Workload::Phantom => Program::AppendIf { read: keys, append, present: (0, 0) },
            Workload::WriteSkew => {
                let present = (0, keys.len());
                Program::AppendIf { read: keys, append, present }
            }
            Workload::ReadOnly => {
                let (append, present) = (self.append(keys[0]), (0, keys.len()));
                Program::AppendIf { read: keys, append, present }
            }
            Workload::Expiring if self.rng.one_in(3) => {
                let end_ms = now_ms + self.rng.between(1, 120);
                Program::Each(vec![Part::Expiring(keys[0], end_ms)])
            }
            Workload::Expiring => {
                let witness = self.elements as i64;
                Program::Each(vec![Part::Get(keys[0]), Part::Set(keys[1], witness)])
            }
            Workload::LongFork | Workload::ListAppend | Workload::Spanning | Workload::Flush => {
                Program::Each(vec![append])
            }
        }
    }

    /// A script over keys of one shard, which appends to this key; and what it appends.
    pub(super) fn some_program_of(
        &mut self,
        key: usize,
        is_there: impl Fn(&[u8]) -> bool,
    ) -> (Program, u64) {
        let mut parts = self.some_parts();
        parts.retain(|part| is_there(&self.names[part.key()]));
        let append = self.append(key);
        let element = self.elements;
        let at = self.rng.below(parts.len() as u64 + 1) as usize;
        parts.insert(at, append);
        if self.rng.one_in(2) {
            parts.insert(0, Part::Get(key));
        }
        (Program::Each(parts), element)
    }
}

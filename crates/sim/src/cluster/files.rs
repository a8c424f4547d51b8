//! A file of linear hashing grows and shrinks while everything else breaks.
//!
//! Somebody who knows how large the file is, or was, asks for one bucket more or fewer; leaders do
//! what the catalogue says then, as the server's `hub::files` does. In the end nothing is under
//! way, and the arcs are those of the record's buckets and no others: so there are two widths at
//! most.

use std::collections::BTreeMap;

use keyspace::{
    Arc as RingArc, CatalogueOp, Cut, Feature, FileAct, FileRecord, FileStep, Generation,
    KeyspaceId, NodeId, ShardId, Subject,
};
use node::entry::Waiter;
use node::file::{self, Task};
use node::lane::{Answer, Input, Origin};
use node::split::Split;

use super::{KEYSPACE, World};
use crate::check::Violation;
use crate::machine::NOBODY;

/// The origin of what leaders of buckets ask of the catalogue.
pub(super) const FILES: Origin = Origin(4);
/// No file has more buckets.
const BUCKETS_MAX: u64 = 7;
/// A leader that has asked does not ask again before.
const AGAIN_MS: u64 = 400;
/// How often somebody asks for more buckets, or fewer.
pub(super) const TURN_MS: u64 = 250;

/// What leaders of buckets have asked.
#[derive(Debug, Default)]
pub(super) struct Files {
    asked: BTreeMap<u64, Asked>,
    next: u64,
    /// When each leader may ask again.
    rests: BTreeMap<(usize, ShardId), u64>,
}

/// A leader at a place wants to know whether its task is still to be done.
#[derive(Debug)]
struct Asked {
    at: usize,
    shard: ShardId,
    what: What,
}

/// What it does then.
#[derive(Debug)]
enum What {
    /// Cuts the shard, if it has this generation still.
    Cut(Cut, Generation),
    /// Takes this one in, if that is its neighbour still.
    TakeIn(ShardId),
    /// Says that this turn is done, if it was when this clock was read.
    Say(KeyspaceId, FileRecord, u64),
}

impl World {
    /// What a node knows of the file of the keyspace that clients use, if it is of linear hashing.
    fn file_at(&self, at: usize) -> Option<(KeyspaceId, FileRecord)> {
        let machine = self.seats[at].machine.as_ref()?;
        let keyspace = &machine.routes.get(KEYSPACE)?.keyspace;
        Some((keyspace.id, keyspace.file?))
    }

    /// Somebody asks for one bucket more, or fewer.
    pub(super) fn turn_file(&mut self) {
        let known = (0..self.seats.len()).filter_map(|at| Some((at, self.file_at(at)?)));
        let known: Vec<_> = known.collect();
        if known.is_empty() {
            return;
        }
        let (at, (keyspace, record)) = *self.rng.pick(&known);
        let may = (record.buckets < BUCKETS_MAX, record.buckets > 1);
        let grows = !may.1 || (may.0 && !self.rng.one_in(3));
        let act = if grows { FileAct::Grow } else { FileAct::Shrink };
        self.act_on_file(at, keyspace, record.turn, act, None);
    }

    /// The file of the keyspace that clients use is to grow or shrink, as some node knows it.
    pub(crate) fn turn_file_to(&mut self, act: FileAct) {
        let known = (0..self.seats.len()).filter_map(|at| Some((at, self.file_at(at)?)));
        let newest = known.max_by_key(|(_, (_, record))| record.turn);
        if let Some((at, (keyspace, record))) = newest {
            self.act_on_file(at, keyspace, record.turn, act, None);
        }
    }

    /// The newest that any node knows of that file.
    pub(crate) fn file(&self) -> Option<FileRecord> {
        let known = (0..self.seats.len()).filter_map(|at| Some(self.file_at(at)?.1));
        known.max_by_key(|record| record.turn)
    }

    fn act_on_file(
        &mut self,
        at: usize,
        keyspace: KeyspaceId,
        turn: u64,
        act: FileAct,
        asked: Option<Asked>,
    ) {
        let Some(machine) = self.seats[at].machine.as_mut() else { return };
        if !machine.level.allows(Feature::LinearHash) {
            return;
        }
        self.trace.event(format_args!("node {}: file, turn {turn}: {act:?}", machine.node()));
        let (origin, number) = match asked {
            None => (NOBODY, 0),
            Some(asked) => {
                self.files.next += 1;
                self.files.asked.insert(self.files.next, asked);
                (FILES, self.files.next)
            }
        };
        let mut op = Vec::new();
        CatalogueOp::File { keyspace, turn, act }.encode(&mut op);
        machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter: Waiter(number) });
    }

    /// What a node has to do for the files that shards led there are buckets of.
    pub(super) fn tend_files(&mut self, at: usize) {
        let now_ms = self.now_ms;
        let Some(machine) = &self.seats[at].machine else { return };
        let (mut tasks, came) = (Vec::new(), machine.boot);
        for route in machine.routes.values() {
            let Some(record) = route.keyspace.file else { continue };
            for (place, shard) in route.shards().iter().enumerate() {
                if !machine.shard(*shard).is_some_and(|shard| shard.is_leader()) {
                    continue;
                }
                let state = route.views[place].read();
                if let Some(task) = file::task(&state, &record, came) {
                    let generation = state.descriptor.generation;
                    tasks.push((route.keyspace.id, record, *shard, generation, task));
                }
            }
        }
        for (keyspace, record, shard, generation, task) in tasks {
            let what = match task {
                Task::MayGrow { .. } | Task::MayShrink => continue,
                Task::Cut(cut) => Some(What::Cut(cut, generation)),
                Task::TakeIn => match self.right_of(at, shard) {
                    Some((right, _)) => Some(What::TakeIn(right)),
                    None => continue,
                },
                Task::Done => None,
                Task::Look => Some(What::Say(keyspace, record, came)),
            };
            let rests = self.files.rests.entry((at, shard)).or_default();
            if now_ms < *rests {
                continue;
            }
            *rests = now_ms + AGAIN_MS;
            let asked = what.map(|what| Asked { at, shard, what });
            match asked {
                Some(asked @ Asked { what: What::Say(..), .. }) => self.look_at_bucket(asked),
                None => self.act_on_file(at, keyspace, record.turn, FileAct::Done, None),
                asked => self.act_on_file(at, keyspace, record.turn, FileAct::Begin, asked),
            }
        }
    }

    /// Waits at a bucket's lane as a read does.
    fn look_at_bucket(&mut self, asked: Asked) {
        let Asked { at, shard, .. } = asked;
        let Some(machine) = self.seats[at].machine.as_mut() else { return };
        let Some(view) = machine.view(shard) else { return };
        let last = view.read().last;
        self.files.next += 1;
        let (origin, waiter) = (FILES, Waiter(self.files.next));
        self.files.asked.insert(self.files.next, asked);
        machine.submit(shard, Input::Await { shard, at: last, lock: None, origin, waiter });
    }

    /// The catalogue has said whether a task is still to be done, or nothing is known of that.
    pub(super) fn file_answered(&mut self, answer: Answer) {
        let asked = answer.waiters().iter().filter_map(|w| self.files.asked.remove(&w.0)).next();
        let Some(asked) = asked else { return };
        let (subject, asked) = match (answer, asked) {
            (Answer::Go { .. }, Asked { at, shard, what: What::Say(keyspace, record, came) }) => {
                let view = self.seats[at].machine.as_ref().and_then(|machine| machine.view(shard));
                let task = view.and_then(|view| file::task(&view.read(), &record, came));
                return match task {
                    Some(Task::Done) => {
                        self.act_on_file(at, keyspace, record.turn, FileAct::Done, None);
                    }
                    Some(Task::Look) => {
                        let what = What::Say(keyspace, record, came);
                        self.look_at_bucket(Asked { at, shard, what });
                    }
                    _ => {}
                };
            }
            (Answer::Catalogue { result: Ok(subject), .. }, asked) => (subject, asked),
            _ => return,
        };
        let Asked { at, shard, what } = asked;
        let Some(machine) = self.seats[at].machine.as_mut() else { return };
        if !machine.shard(shard).is_some_and(|shard| shard.is_leader()) {
            return;
        }
        match (what, *subject) {
            (What::Cut(cut, generation), Subject::Shard(_, right)) => {
                self.counts.buckets_cut += 1;
                self.trace.event(format_args!("bucket {shard} is to be cut at {cut}: {right}"));
                let split = Split { right, generation, at: cut };
                machine.submit(shard, Input::Split { shard, split });
            }
            (What::TakeIn(right), Subject::Keyspace(_)) => match self.right_of(at, shard) {
                Some((still, theirs)) if still == right => self.take_bucket_in(at, shard, theirs),
                _ => {}
            },
            (what, subject) => unreachable!("{what:?} is answered {subject:?}"),
        }
    }

    /// Has a bucket take its neighbour in, once their replicas are on the same nodes.
    fn take_bucket_in(&mut self, at: usize, left: ShardId, theirs: Generation) {
        let Some((right, _)) = self.right_of(at, left) else { return };
        let Some(machine) = self.seats[at].machine.as_mut() else { return };
        let of = |shard| {
            let here = machine.view(shard).map(|view| view.read().descriptor.clone());
            let known = machine.table().shard(shard).map(|known| known.descriptor().clone());
            here.into_iter().chain(known).max_by_key(|descriptor| descriptor.generation)
        };
        let (Some(ours), Some(other)) = (of(left), of(right)) else { return };
        let nodes: fn(&keyspace::Descriptor) -> Vec<NodeId> = |descriptor| {
            let mut nodes: Vec<_> = descriptor.replicas.iter().map(|(_, node)| *node).collect();
            nodes.sort_unstable();
            nodes
        };
        let (here, there) = (nodes(&ours), nodes(&other));
        if here == there {
            self.counts.buckets_taken_in += 1;
            return self.take_in(at, left, right, theirs);
        }
        let add: Vec<_> = there.iter().filter(|node| !here.contains(node)).copied().collect();
        let goes = ours.replicas.iter().filter(|(_, node)| !there.contains(node));
        let remove = goes.map(|(replica, _)| *replica).collect();
        let generation = ours.generation;
        machine.submit(left, Input::Exchange { shard: left, generation, add, remove });
    }

    /// What is under way in files, in words; nothing if nothing is.
    pub(super) fn open_files(&self) -> String {
        let known = self.file();
        let step = known.and_then(|record| record.step.map(|step| (record, step)));
        step.map_or_else(String::new, |(record, step)| match step {
            // Where replicas are kept even, those of two may not come together for long.
            FileStep::Shrink if self.mood.arranges => String::new(),
            _ => format!("the file has {record}; "),
        })
    }

    /// The arcs of a file are those of its buckets.
    ///
    /// # Errors
    /// There are others.
    pub(super) fn check_files(&mut self) -> Result<(), Violation> {
        let Some(record) = self.file() else { return Ok(()) };
        self.counts.file_turns = record.turn;
        let mut arcs: BTreeMap<ShardId, RingArc> = BTreeMap::new();
        for (at, shard) in self.led() {
            let view = self.seats[at].machine.as_ref().and_then(|machine| machine.view(shard));
            let view = view.expect("it leads it");
            let state = view.read();
            if self.file_at(at).is_some_and(|(id, _)| id == state.descriptor.keyspace()) {
                arcs.insert(shard, state.descriptor.arc.clone());
            }
        }
        let mut arcs: Vec<RingArc> = arcs.into_values().collect();
        arcs.sort_by(|one, other| one.start().cmp(other.start()));
        let of_buckets = |buckets: u64| {
            let file = file::file_of(&FileRecord { buckets, ..record })?;
            let of = |number| file.bucket(number).expect("it is one of them");
            let keyspace = arcs.first()?.keyspace();
            let mut arcs: Vec<_> = (0..buckets).map(|number| of(number).arc(keyspace)).collect();
            arcs.sort_by(|one, other| one.start().cmp(other.start()));
            Some(arcs)
        };
        let after = match record.step {
            None => record.buckets,
            Some(FileStep::Grow) => record.buckets + 1,
            Some(FileStep::Shrink) => record.buckets - 1,
        };
        let are = |buckets| of_buckets(buckets).as_ref() == Some(&arcs);
        match are(record.buckets) || are(after) {
            true => Ok(()),
            false => {
                let text = format!("the file has {record}, and its arcs are {arcs:?}");
                Err(Violation::new("R11 arcs are buckets of the file", text))
            }
        }
    }
}

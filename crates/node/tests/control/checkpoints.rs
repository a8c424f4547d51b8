//! Scripts of rounds of checkpoints and of installations.
//!
//! ```text
//! > replica 4 at 25 log 300   shard 4 has a replica, applied up to 25; the rest begins at log 300
//! > file 4 at 20              the manifest names that file
//! > log 500                   the log ends there
//! > round | snapshot 4 at 40  a round begins, or an installation
//! > step 3 | run              so many effects, or until it is over or waits
//! > split 4 into 9            shard 4 is split; shard 9 has not begun
//! > begin 9 at 0              it has
//! > merge 5 into 4 by 30      shard 5 is gone; shard 4 takes it in by its entry 30
//! > wait 4 | go 4 at 30       shard 4 waits for what shard 5 holds; it goes on
//! > vote 4                    shard 4's replica votes: a snapshot's file does not fit any more
//! > taken 4 at 40             the replica has taken its state
//! > full | space              the disk is full; there is space again
//! > show                      files and the beginning of the log, as the manifest says
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use keyspace::{NodeId, ShardId};
use node::control::checkpoints::Progress;
use node::control::checkpoints::facts::{LeftReplica, Merged};
use node::control::checkpoints::install::{self, SnapshotInstall};
use node::control::checkpoints::round::{CheckpointRound, Effect, Event};
use node::event::EventKind;
use storage::log::Lsn;
use storage::manifest::{CheckpointRef, Manifest, Origin};

use super::{number, replay};

#[test]
fn checkpoint_scripts_give_golden_output() {
    replay("checkpoints", World::run);
}

#[derive(Default)]
struct Replica {
    applied: u64,
    /// Where the log begins that it needs, beside its checkpoint.
    log: u64,
    awaits_right: bool,
    began_as_half: bool,
    has_voted: bool,
}

/// A node, as a round sees it.
struct World {
    manifest: Manifest,
    replicas: BTreeMap<u64, Replica>,
    pending_halves: BTreeSet<u64>,
    merged: Vec<Merged>,
    log_end: u64,
    is_full: bool,
    round: Option<CheckpointRound>,
    /// Of the round: the shard whose file is written, blocks that are left, whether it is void.
    file: Option<(u64, u32, bool)>,
    install: Option<(CheckpointRef, SnapshotInstall)>,
    /// A state that its replica has not taken yet.
    waits: Option<u64>,
}

impl Default for World {
    fn default() -> Self {
        let manifest = Manifest {
            cluster: 1,
            node: NodeId(1),
            hash_seed: [0; 16],
            log_salt: 0,
            origin: Origin::Founder,
            joined_at: 0,
            log_start: Lsn(100),
            checkpoints: Vec::new(),
        };
        Self {
            manifest,
            replicas: BTreeMap::new(),
            pending_halves: BTreeSet::new(),
            merged: Vec::new(),
            log_end: 500,
            is_full: false,
            round: None,
            file: None,
            install: None,
            waits: None,
        }
    }
}

fn names(files: &[CheckpointRef]) -> String {
    let names = files.iter().map(|file| format!(" {}@{}", file.shard, file.applied_index));
    let names: String = names.collect();
    if names.is_empty() { " none".to_owned() } else { names }
}

impl World {
    fn run(&mut self, words: &[&str]) -> String {
        let at = |place: usize| number(words[place]);
        match words {
            ["replica", _, "at", _, "log", _] => {
                let replica = Replica { applied: at(3), log: at(5), ..Replica::default() };
                self.replicas.insert(at(1), replica);
            }
            ["file", _, "at", _] => {
                let file = CheckpointRef { shard: ShardId(at(1)), applied_index: at(3) };
                self.manifest.checkpoints.push(file);
            }
            ["log", _] => self.log_end = at(1),
            ["split", left, "into", _] => {
                self.pending_halves.insert(at(3));
                self.void(number(left));
            }
            ["begin", _, "at", _] => {
                let (applied, log) = (at(3), self.log_end);
                let half = Replica { applied, log, began_as_half: true, ..Replica::default() };
                self.replicas.insert(at(1), half);
            }
            ["merge", _, "into", _, "by", _] => {
                self.replicas.remove(&at(1));
                let (right, left) = (ShardId(at(1)), ShardId(at(3)));
                self.merged.push(Merged { right, left, at: Some(at(5)) });
            }
            ["wait", _] => self.replica(at(1)).awaits_right = true,
            ["go", _, "at", _] => {
                let applied = at(3);
                let replica = self.replica(at(1));
                (replica.applied, replica.awaits_right) = (applied, false);
                self.void(at(1));
            }
            ["drop", _] => {
                self.replicas.remove(&at(1));
            }
            ["vote", _] => self.replica(at(1)).has_voted = true,
            ["taken", _, "at", _] => {
                self.waits = None;
                self.replica(at(1)).applied = at(3);
            }
            ["full"] => self.is_full = true,
            ["space"] => self.is_full = false,
            ["round"] => {
                let shards = self.replicas.keys().map(|shard| ShardId(*shard)).collect();
                let round = CheckpointRound::begin(&self.manifest, Lsn(self.log_end), shards);
                self.round = Some(round);
            }
            ["snapshot", _, "at", _] => {
                let file = CheckpointRef { shard: ShardId(at(1)), applied_index: at(3) };
                self.install = Some((file, SnapshotInstall::begin(file)));
            }
            ["step", _] => return self.steps(at(1)),
            ["run"] => return self.steps(u64::MAX),
            ["show"] => {
                let Manifest { checkpoints, log_start, .. } = &self.manifest;
                return format!("  files:{}; the log from {}\n", names(checkpoints), log_start.0);
            }
            _ => panic!("no command: {words:?}"),
        }
        String::new()
    }

    fn replica(&mut self, shard: u64) -> &mut Replica {
        self.replicas.get_mut(&shard).expect("the node has a replica")
    }

    /// Something else takes the place of what the file is made of.
    fn void(&mut self, shard: u64) {
        if let Some((of, _, is_void)) = &mut self.file {
            *is_void |= *of == shard;
        }
    }

    fn steps(&mut self, most: u64) -> String {
        let mut out = String::new();
        for _ in 0..most {
            let (progress, of) = match self.install.is_some() {
                true => (self.step_install(&mut out), "snapshot"),
                false => (self.step_round("  ", &mut out), "round"),
            };
            match progress {
                Progress::More => continue,
                Progress::Busy => out += "  it waits\n",
                Progress::Done => writeln!(out, "  the {of} is done").expect("a string"),
                Progress::Refused => writeln!(out, "  the {of} changes nothing").expect("a string"),
            }
            if progress != Progress::Busy {
                (self.round, self.install) = (None, None);
            }
            break;
        }
        out
    }

    fn step_round(&mut self, indent: &str, out: &mut String) -> Progress {
        let effect = self.round.as_ref().expect("a round was begun").next();
        let (text, event) = self.execute(effect);
        let came_of_it = match &event {
            Event::Done => String::new(),
            Event::DiskFull => ": the disk is full".to_owned(),
            Event::NoReplica => ": there is no replica".to_owned(),
            Event::Unchanged(Lsn(from)) => {
                format!(": the last is good, with the log from {from}")
            }
            Event::FileBegun { applied_index, log_from: Lsn(from) } => {
                format!(": as of {applied_index}, with the log from {from}")
            }
            Event::BlocksEnded { is_void: true } => ": it is void".to_owned(),
            Event::BlocksEnded { is_void: false } => ": that was the last".to_owned(),
            Event::Halves(halves) => {
                let half = |(half, has_begun): &(ShardId, bool)| {
                    format!(" {half}{}", if *has_begun { "" } else { " (has not begun)" })
                };
                format!(":{}", halves.iter().map(half).collect::<String>())
            }
            Event::Merged(merged) => {
                let one = |Merged { right, left, at }: &Merged| match at {
                    Some(at) => format!(" {right} into {left} by {at}"),
                    None => format!(" {right} into {left}"),
                };
                format!(":{}", merged.iter().map(one).collect::<String>())
            }
            Event::Left(None) => ": there is no replica".to_owned(),
            Event::Left(Some(LeftReplica { applied, awaits_right })) => {
                format!(": at {applied}{}", if *awaits_right { ", waiting" } else { "" })
            }
            Event::Marks(_) => ": they are durable".to_owned(),
        };
        writeln!(out, "{indent}{text}{came_of_it}").expect("a string");
        self.round.as_mut().expect("the round has begun").take(event)
    }

    fn execute(&mut self, effect: Effect) -> (String, Event) {
        let unless_full = if self.is_full { Event::DiskFull } else { Event::Done };
        match effect {
            Effect::MarkEnded => ("mark what has ended".to_owned(), Event::Done),
            Effect::BeginFile { shard, last } => {
                let of = last.map(|last| last.applied_index);
                let last =
                    last.map_or_else(String::new, |l| format!(", after @{}", l.applied_index));
                (format!("begin the file of {shard}{last}"), self.begin_file(shard.0, of))
            }
            Effect::WriteBlock => {
                let (_, left, is_void) = self.file.as_mut().expect("the file has begun");
                let event = match (*is_void, *left) {
                    (true, _) => Event::BlocksEnded { is_void: true },
                    (false, 0) => Event::BlocksEnded { is_void: false },
                    _ => {
                        *left -= 1;
                        unless_full
                    }
                };
                ("write a block".to_owned(), event)
            }
            Effect::AbandonFile => {
                self.file = None;
                ("abandon the file".to_owned(), Event::Done)
            }
            Effect::SyncLog => ("sync the log".to_owned(), unless_full),
            Effect::FinishFile => {
                self.file = None;
                ("finish the file".to_owned(), unless_full)
            }
            Effect::ListHalves => {
                let halves = self.pending_halves.iter();
                let halves = halves.map(|half| (ShardId(*half), self.replicas.contains_key(half)));
                ("list right halves".to_owned(), Event::Halves(halves.collect()))
            }
            Effect::ConfirmHalves(halves) => {
                self.pending_halves.retain(|half| !halves.contains(&ShardId(*half)));
                let halves: String = halves.iter().map(|half| format!(" {half}")).collect();
                (format!("confirm{halves}"), Event::Done)
            }
            Effect::ListMerged => {
                ("list merged shards".to_owned(), Event::Merged(self.merged.clone()))
            }
            Effect::InspectLeft(shard) => {
                let replica = self.replicas.get(&shard.0);
                let replica = replica.map(|replica| LeftReplica {
                    applied: replica.applied,
                    awaits_right: replica.awaits_right,
                });
                (format!("look at {shard}"), Event::Left(replica))
            }
            Effect::InspectMarks => ("look at the marks".to_owned(), Event::Marks(true)),
            Effect::StoreManifest(next) => {
                let text = format!("store the manifest:{}", names(&next.checkpoints));
                (text, self.store(next).map_or(Event::DiskFull, |()| Event::Done))
            }
            Effect::TruncateLog(Lsn(before)) => {
                (format!("cut the log before {before}"), Event::Done)
            }
            Effect::RemoveFiles(files) => (format!("remove files:{}", names(&files)), Event::Done),
        }
    }

    fn begin_file(&mut self, shard: u64, last: Option<u64>) -> Event {
        let Some(replica) = self.replicas.get(&shard) else { return Event::NoReplica };
        let (log_from, applied_index) = (Lsn(replica.log), replica.applied);
        if last == Some(applied_index) {
            return Event::Unchanged(log_from);
        }
        if self.is_full {
            return Event::DiskFull;
        }
        self.file = Some((shard, 2, false));
        Event::FileBegun { applied_index, log_from }
    }

    fn store(&mut self, next: Manifest) -> Option<()> {
        (!self.is_full).then(|| self.manifest = next)
    }

    fn step_install(&mut self, out: &mut String) -> Progress {
        let (file, install) = self.install.as_mut().expect("the installation has begun");
        let shard = file.shard;
        let effect = install.next(&self.manifest);
        let unless_full =
            if self.is_full { install::Event::DiskFull } else { install::Event::Done };
        let (text, event) = match effect {
            install::Effect::InspectHalves => {
                let has_file = |id| self.manifest.checkpoints.iter().any(|f| f.shard.0 == id);
                let mut halves = self.replicas.iter().filter(|(_, half)| half.began_as_half);
                let is_bare =
                    !self.pending_halves.is_empty() || halves.any(|(id, _)| !has_file(*id));
                let text = if is_bare { "right halves are bare" } else { "no right half is bare" };
                (text.to_owned(), install::Event::UncoveredHalves(is_bare))
            }
            install::Effect::RunRound => {
                let shards = self.replicas.keys().map(|shard| ShardId(*shard)).collect();
                let begun = CheckpointRound::begin(&self.manifest, Lsn(self.log_end), shards);
                self.round = Some(begun);
                while self.step_round("    ", out) == Progress::More {}
                ("that was a round".to_owned(), install::Event::Done)
            }
            install::Effect::InspectReplica => {
                let here = self.replicas.get(&shard.0);
                let fits = here.is_some_and(|r| r.applied < file.applied_index && !r.has_voted);
                let text =
                    if fits { "the replica wants it" } else { "the replica has no use for it" };
                (text.to_owned(), install::Event::Fits(fits))
            }
            install::Effect::Decline => {
                ("decline it, and abandon the file".to_owned(), install::Event::Done)
            }
            install::Effect::FinishFile => ("finish the file".to_owned(), unless_full),
            install::Effect::StoreManifest(next) => {
                let text = format!("store the manifest:{}", names(&next.checkpoints));
                let stored = self.store(next);
                (text, stored.map_or(install::Event::DiskFull, |()| install::Event::Done))
            }
            install::Effect::RemoveFiles(files) => {
                (format!("remove files:{}", names(&files)), install::Event::Done)
            }
            install::Effect::InstallState => {
                self.waits = Some(shard.0);
                ("give the replica its state".to_owned(), install::Event::Done)
            }
            install::Effect::AwaitReplica => {
                let waits = self.waits == Some(shard.0);
                let text = if waits { "it is not taken yet" } else { "it is taken" };
                (text.to_owned(), install::Event::Waits(waits))
            }
        };
        let is_full = if event == install::Event::DiskFull { ": the disk is full" } else { "" };
        writeln!(out, "  {text}{is_full}").expect("a string");
        let (file, install) = self.install.as_mut().expect("the installation has begun");
        let progress = install.take(event);
        if let Some(why) = install.given_up().filter(|_| progress == Progress::Refused) {
            let (shard, index) = (file.shard, file.applied_index);
            let event = EventKind::SnapshotGivenUp { shard, index, why };
            writeln!(out, "  event: {event}").expect("a string");
        }
        progress
    }
}

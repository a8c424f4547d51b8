//! Disasters by name, each tried everywhere it can happen.
//!
//! A short script runs on a node, one command after the other. So what each key must have is known
//! exactly: what the last answered command left, or what the one under way would leave.

use std::collections::BTreeMap;

use command::{Expiry, NotDone, Read, Refusal, Reply, SetIf, SetReply, Sink, Write};
use keyspace::{CatalogueOp, ClusterVersion, Durability, KeyspaceOptions, ShardId};
use node::executor::{Answer, Input};
use node::recovery::RecoverError;
use node::replica::entry::{Batch, Waiter};
use sim::check::ledger::Ledger;
use sim::machine::open::{Start, open};
use sim::machine::rounds::Progress;
use sim::machine::{CLIENTS, Limits, Machine, StepFailure};
use sim::rng::Rng;
use sim::trace::Trace;
use storage::Error;
use storage::faulty::{Crash, FaultyDisk};

const WALL_MS: u64 = 1_700_000_000_000;
const KEYS: u64 = 5;

/// A node that is driven by hand.
struct Node {
    machine: Machine,
    ledger: Ledger,
    trace: Trace,
}

#[derive(Default)]
struct SingleReply(Option<Reply>);

impl Sink for SingleReply {
    fn ok(&mut self) {
        self.0 = Some(Reply::Ok);
    }
    fn nil(&mut self) {
        self.0 = Some(Reply::Nil);
    }
    fn int(&mut self, value: i64) {
        self.0 = Some(Reply::Int(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.0 = Some(Reply::Bulk(bytes.into()));
    }
    fn status(&mut self, word: &'static str) {
        self.0 = Some(Reply::Status(word));
    }
    fn array(&mut self, _len: usize) {}
    fn map(&mut self, _len: usize) {}
    fn refused(&mut self, why: Refusal) {
        self.0 = Some(Reply::Refused(why));
    }
}

fn start_at(wall_ms: u64) -> Start {
    Start {
        executors: 2,
        segment_bytes: 32 << 10,
        wall_ms,
        boot: 0,
        join: None,
        limits: Limits::usual(),
        cluster_version: ClusterVersion::NEWEST,
        seed: 1,
        forgets: None,
        forgets_ends: false,
        system_replicas: 1,
        reshape: node::control::ReshapeLimits::default(),
    }
}

impl Node {
    /// Starts on a disk; everything up to group `guaranteed` of the ledger must be there.
    fn start(
        disk: &FaultyDisk,
        mut ledger: Ledger,
        guaranteed: u64,
        wall_ms: u64,
    ) -> Result<Self, RecoverError> {
        let started = open(disk.handle(), &start_at(wall_ms), &mut Rng::new(1))?;
        ledger.restarted(&started.recovered, guaranteed).expect("nothing is lost");
        Ok(Self { machine: started.machine, ledger, trace: Trace::new(false) })
    }

    fn new(disk: &FaultyDisk) -> Self {
        Self::start(disk, Ledger::default(), 0, WALL_MS).expect("an empty disk")
    }

    /// Goes on until nothing moves any more.
    fn settle(&mut self) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::new();
        let fatal = |failed| match failed {
            StepFailure::Fatal(error) => error,
            StepFailure::Broken(violation) => panic!("{violation}"),
        };
        loop {
            let executors = 0..self.machine.executors.len();
            if let Some(executor) =
                executors.into_iter().find(|executor| self.machine.is_busy(*executor))
            {
                let (ledger, trace) = (&mut self.ledger, &mut self.trace);
                let more =
                    self.machine.step_executor(executor, 64, ledger, trace).map_err(fatal)?;
                answers.extend(more);
            } else if self.machine.has_news() {
                self.machine.step_control();
                answers.append(&mut self.machine.outcomes.answers);
            } else if self.machine.log.wants_sync() {
                self.machine.log.begin_sync(false)?;
                self.machine.end_sync()?;
            } else {
                return Ok(answers);
            }
        }
    }

    fn create(&mut self, name: &str, durability: Durability) -> Result<(), Error> {
        let options = KeyspaceOptions { durability, ..KeyspaceOptions::default() };
        let mut op = Vec::new();
        CatalogueOp::Create { name, options }.encode(&mut op);
        self.catalogue(op)
    }

    fn catalogue(&mut self, op: Vec<u8>) -> Result<(), Error> {
        let waiter = Waiter(1);
        self.machine.submit(ShardId(0), Input::Catalogue { op, origin: CLIENTS, waiter });
        self.settle().map(|_| ())
    }

    /// One write; what it was answered.
    fn write(&mut self, name: &str, write: &Write<'_>) -> Result<Result<Reply, NotDone>, Error> {
        self.machine.now();
        let route = &self.machine.routes[name];
        let mut named = None;
        write.each_key(&mut |key| named = Some(key));
        let shard = route.shard(route.place(&route.key(named.expect("a key"))));
        let mut batch = Batch::default();
        batch.push(write, Waiter(7));
        self.machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
        for answer in self.settle()? {
            match answer {
                Answer::Applied { mut replies, .. } => return Ok(Ok(replies.remove(0))),
                Answer::NotDone { why, .. } => return Ok(Err(why)),
                _ => {}
            }
        }
        panic!("a write of a node that settles is answered");
    }

    /// A GET, waiting for a horizon if it must.
    fn get(&mut self, name: &str, key: &[u8]) -> Result<Reply, Error> {
        for _ in 0..3 {
            let now = self.machine.moment();
            let route = self.machine.routes[name].clone();
            let mut sink = SingleReply::default();
            match node::replica::read::read(&route, &Read::Get(key), now, &mut sink) {
                Ok(()) => return Ok(sink.0.expect("an answer")),
                Err(blocked) => {
                    let (shard, waiter) = (route.shard(blocked.place), Waiter(9));
                    let at = blocked.at;
                    self.machine.submit(
                        shard,
                        Input::AwaitRead { shard, at, lock: None, origin: CLIENTS, waiter },
                    );
                    self.settle()?;
                }
            }
        }
        panic!("a read of a node that settles is served");
    }

    fn checkpoint(&mut self) -> Result<(), Error> {
        while self.machine.step_round()? != Progress::Done {}
        Ok(())
    }

    /// What a power cut must leave, and what a kill must.
    fn guaranteed(&mut self) -> (u64, u64) {
        let durable = self.ledger.durable(self.machine.log.log.durable_end());
        (durable, self.ledger.last_written())
    }
}

fn set<'a>(key: &'a [u8], value: &'a [u8], expiry: Expiry) -> Write<'a> {
    Write::Set { key, value, when: SetIf::Always, expiry, reply: SetReply::Ok }
}

fn key(number: u64) -> Vec<u8> {
    format!("k{number}").into_bytes()
}

/// What a key had, as its answers said, and what it has if the command under way was done.
type KnownReplies = BTreeMap<(&'static str, u64), (Reply, Reply)>;

/// The script: two keyspaces, writes, a checkpoint in the middle, one at the end, a keyspace that
/// goes. Ends early with the error that the disk gives.
fn script(
    node: &mut Node,
    known: &mut KnownReplies,
    names: [&'static str; 2],
) -> Result<(), Error> {
    node.create("s", Durability::Sync)?;
    node.create("m", Durability::Memory)?;
    node.create("gone", Durability::Sync)?;
    for round in 0..4u64 {
        for number in 0..KEYS {
            for name in names {
                let value = format!("{name}-{round}-{number}").into_bytes();
                let (was, _) =
                    known.get(&(name, number)).cloned().unwrap_or((Reply::Nil, Reply::Nil));
                let delete = round == 2 && number % 2 == 0;
                let will = if delete { Reply::Nil } else { Reply::Bulk(value.clone().into()) };
                known.insert((name, number), (was, will.clone()));
                let key = key(number);
                let write = match delete {
                    true => Write::Delete { key: &key },
                    false => set(&key, &value, Expiry::Never),
                };
                node.write(name, &write)?.expect("there is space");
                known.insert((name, number), (will.clone(), will));
            }
        }
        if round == 1 {
            node.checkpoint()?;
            let mut op = Vec::new();
            CatalogueOp::Drop { name: "gone" }.encode(&mut op);
            node.catalogue(op)?;
        }
    }
    node.checkpoint()
}

/// How many changes of the disk the whole script takes.
fn changes_of_the_script() -> u64 {
    let disk = FaultyDisk::new(3);
    let mut node = Node::new(&disk);
    script(&mut node, &mut KnownReplies::new(), ["s", "m"]).expect("no faults");
    disk.writes()
}

/// The power goes at every change of the disk in turn: log writes, syncs, creations of segments,
/// every phase of checkpoints and of the manifest's publishing, and the first start.
#[test]
fn power_cut_at_every_change_of_the_disk() {
    let changes = changes_of_the_script();
    assert!(changes > 300, "only {changes} changes");
    let crashes =
        [Crash::LoseUnsynced, Crash::KeepUnsynced, Crash::Shuffle, Crash::ShuffleOrderedNames];
    for at in 0..changes {
        for (number, crash) in crashes.into_iter().enumerate() {
            let disk = FaultyDisk::new(at * 4 + number as u64);
            disk.crash_after_writes(at);
            let mut known = KnownReplies::new();
            let (mut ledger, mut durable) = (Ledger::default(), 0);
            if let Ok(mut node) = Node::start(&disk, Ledger::default(), 0, WALL_MS) {
                // It ends well only if what failed was the removal of an old checkpoint.
                let _ended = script(&mut node, &mut known, ["s", "m"]);
                (durable, _) = node.guaranteed();
                ledger = node.ledger;
            }
            disk.crash(crash);
            let mut node = Node::start(&disk, ledger, durable, WALL_MS)
                .unwrap_or_else(|e| panic!("change {at}, {crash:?}: {e}"));
            node.settle().expect("no more faults");
            for ((name, number), (was, will)) in known.iter().filter(|((name, _), _)| *name == "s")
            {
                let found = node.get(name, &key(*number)).expect("no more faults");
                assert!(found == *was || found == *will, "change {at}, {crash:?}: {found:?}");
            }
        }
    }
}

/// The process dies at every change; what was written stays, at every durability.
#[test]
fn kill_at_every_change_of_the_disk() {
    for at in 0..changes_of_the_script() {
        let disk = FaultyDisk::new(at);
        disk.crash_after_writes(at);
        let mut known = KnownReplies::new();
        let Ok(mut node) = Node::start(&disk, Ledger::default(), 0, WALL_MS) else { continue };
        let _ended = script(&mut node, &mut known, ["s", "m"]);
        let (_, written) = node.guaranteed();
        let ledger = node.ledger;
        disk.kill();
        let mut node = Node::start(&disk, ledger, written, WALL_MS).expect("the node starts again");
        node.settle().expect("no more faults");
        for ((name, number), (was, will)) in &known {
            let found = node.get(name, &key(*number)).expect("no more faults");
            assert!(found == *was || found == *will, "change {at}: {found:?}");
        }
    }
}

#[test]
fn disk_full_and_space_returns() {
    let disk = FaultyDisk::new(1);
    let mut node = Node::new(&disk);
    node.create("s", Durability::Sync).expect("space");
    let value = [b'x'; 2_000];
    node.write("s", &set(b"first", b"1", Expiry::Never)).expect("space").expect("done");
    disk.set_capacity_bytes(0);
    let mut refused = None;
    for number in 0..100 {
        let key = key(number);
        match node.write("s", &set(&key, &value, Expiry::Never)).expect("a full disk is no failure")
        {
            Ok(_) => assert_eq!(refused, None, "no write is taken after one was refused"),
            Err(why) => refused = refused.or(Some((number, why))),
        }
    }
    let (number, why) = refused.expect("the disk was full");
    assert_eq!(why, NotDone::DiskFull);
    // Reads go on, and see that nothing was done.
    assert_eq!(node.get("s", b"first").expect("read"), Reply::Bulk(b"1"[..].into()));
    assert_eq!(node.get("s", &key(number)).expect("read"), Reply::Nil);
    disk.set_capacity_bytes(u64::MAX);
    let again = node.write("s", &set(b"last", b"2", Expiry::Never)).expect("space").expect("done");
    assert_eq!(again, Reply::Ok);
    let (_, written) = node.guaranteed();
    let ledger = node.ledger;
    disk.kill();
    let mut node = Node::start(&disk, ledger, written, WALL_MS).expect("the node starts");
    node.settle().expect("no faults");
    assert_eq!(node.get("s", b"last").expect("read"), Reply::Bulk(b"2"[..].into()));
}

/// The disk is full at every stage of a round of checkpoints in turn, the manifest's writing
/// included. A round that fails leaves no checkpoint behind, however often it is tried, and ends
/// when space returns.
#[test]
fn rounds_of_checkpoints_on_a_full_disk_give_their_files_back() {
    const TRIES: usize = 3;
    let prepared = || {
        let disk = FaultyDisk::new(11);
        let mut node = Node::new(&disk);
        node.create("s", Durability::Sync).expect("space");
        for key in (0..KEYS).map(key) {
            node.write("s", &set(&key, b"v", Expiry::Never)).expect("space").expect("done");
        }
        (disk, node)
    };
    let names = |disk: &FaultyDisk| disk.handle().list().expect("a list");
    let used = |disk: &FaultyDisk| -> u64 {
        names(disk).iter().map(|name| disk.contents(name).expect("listed").len() as u64).sum()
    };
    let is_checkpoint = |name: &&String| !name.ends_with(".seg") && !name.starts_with("MANIFEST");
    let (disk, mut node) = prepared();
    let before = used(&disk);
    node.checkpoint().expect("space");
    let most = used(&disk) - before + 1;
    let mut full_manifests = 0;
    for room in (0..most).step_by(16) {
        let (disk, mut node) = prepared();
        disk.set_capacity_bytes(before + room);
        for _ in 0..TRIES {
            let ended = loop {
                match node.machine.step_round().expect("a full disk is no failure") {
                    Progress::More | Progress::Busy => {}
                    ended => break ended,
                }
            };
            if ended == Progress::Full {
                let names = names(&disk);
                let left: Vec<_> = names.iter().filter(is_checkpoint).collect();
                assert!(left.is_empty(), "room {room}: {left:?}");
                full_manifests += usize::from(names.iter().any(|name| name == "MANIFEST.tmp"));
            } else {
                assert!(room > 0, "it was never full");
            }
        }
        disk.set_capacity_bytes(u64::MAX);
        node.checkpoint().expect("space");
        assert!(names(&disk).iter().all(|name| name != "MANIFEST.tmp"), "room {room}");
        node.write("s", &set(b"k", b"w", Expiry::Never)).expect("space").expect("done");
        let (durable, _) = node.guaranteed();
        let ledger = node.ledger;
        disk.crash(Crash::LoseUnsynced);
        let mut node = Node::start(&disk, ledger, durable, WALL_MS).expect("the node starts");
        node.settle().expect("no faults");
        assert_eq!(node.get("s", b"k").expect("read"), Reply::Bulk(b"w"[..].into()));
    }
    assert!(full_manifests > 0, "no manifest found the disk full");
}

#[test]
fn a_failed_sync_stops_the_node_and_nothing_is_answered() {
    for crash in [Crash::LoseUnsynced, Crash::KeepUnsynced, Crash::Shuffle] {
        let disk = FaultyDisk::new(5);
        let mut node = Node::new(&disk);
        node.create("s", Durability::Sync).expect("no faults");
        node.write("s", &set(b"k", b"old", Expiry::Never)).expect("no faults").expect("done");
        disk.fail_sync(0);
        let failed = node.write("s", &set(b"k", b"new", Expiry::Never));
        assert!(matches!(failed, Err(Error::Io { action: "sync", .. })), "{failed:?}");
        // It is never tried again.
        let after = node.write("s", &set(b"k", b"newer", Expiry::Never));
        assert!(matches!(after, Err(Error::Poisoned)), "{after:?}");
        let (durable, _) = node.guaranteed();
        let ledger = node.ledger;
        disk.crash(crash);
        let mut node = Node::start(&disk, ledger, durable, WALL_MS).expect("the node starts");
        node.settle().expect("no faults");
        let found = node.get("s", b"k").expect("read");
        let allowed = [&b"old"[..], b"new"].map(|value| Reply::Bulk(value.into()));
        assert!(allowed.contains(&found), "{found:?}");
    }
}

#[test]
fn what_was_seen_expired_stays_so_after_a_restart_with_an_earlier_clock() {
    let disk = FaultyDisk::new(6);
    let mut node = Node::new(&disk);
    node.create("s", Durability::Sync).expect("no faults");
    let expiry = Expiry::At(WALL_MS + 10_000);
    node.write("s", &set(b"k", b"v", expiry)).expect("no faults").expect("done");
    node.machine.elapsed_ms += 9_000;
    assert_eq!(node.get("s", b"k").expect("read"), Reply::Bulk(b"v"[..].into()));
    node.machine.elapsed_ms += 2_000;
    assert_eq!(node.get("s", b"k").expect("read"), Reply::Nil);
    let (durable, _) = node.guaranteed();
    let ledger = node.ledger;
    disk.crash(Crash::LoseUnsynced);
    let mut node = Node::start(&disk, ledger, durable, WALL_MS - 60_000).expect("the node starts");
    node.settle().expect("no faults");
    assert_eq!(node.get("s", b"k").expect("read"), Reply::Nil);
}

/// One bit after the other turns over, in every file. The node refuses to start and says where, or
/// everything is there (SAFETY G16; what rests on a marker that is itself hit was durable anyway).
#[test]
fn a_flipped_bit_is_refused_or_harmless() {
    let disk = FaultyDisk::new(8);
    let mut node = Node::new(&disk);
    let mut known = KnownReplies::new();
    script(&mut node, &mut known, ["s", "s"]).expect("no faults");
    node.machine.log.log.append_marker().expect("no faults");
    drop(node);
    disk.kill();
    let names = disk.handle().list().expect("a list");
    assert!(names.len() > 5, "{names:?}");
    let (mut refused, mut harmless) = (0, 0);
    for name in names {
        let bytes = disk.contents(&name).expect("listed");
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let step = if name.ends_with(".seg") { 3 } else { 7 };
        for offset in (0..used).step_by(step) {
            let copy = disk.fork(offset as u64);
            copy.flip_bit(&name, offset as u64, (offset % 8) as u8);
            let started = open(copy.handle(), &start_at(WALL_MS), &mut Rng::new(1));
            let mut started = match started {
                Err(RecoverError::Storage(
                    Error::Rot { .. } | Error::Version { .. } | Error::Foreign { .. },
                )) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{name} at {offset}: refused without a place: {error}"),
                Ok(started) => started.machine,
            };
            harmless += 1;
            let now = started.now();
            for ((name_of, number), (_, will)) in &known {
                let route = &started.routes[*name_of];
                let key = key(*number);
                let hashed = route.key(&key);
                let state = route.views[route.place(&hashed)].read();
                let found = state.engine().and_then(|keys| keys.newest(&hashed, now));
                let found = found.map_or(Reply::Nil, |version| Reply::Bulk(version.value.into()));
                assert_eq!(found, *will, "bit of {name} at {offset}");
            }
            started.elapsed_ms += 1;
        }
    }
    assert!(refused > 100, "{refused} refused, {harmless} harmless");
}

/// What a dropped keyspace leaves in the log has no beginning any more, and its end follows.
#[test]
fn a_keyspace_dropped_while_checkpoints_are_written() {
    let disk = FaultyDisk::new(9);
    let mut node = Node::new(&disk);
    node.create("s", Durability::Sync).expect("no faults");
    node.create("gone", Durability::Sync).expect("no faults");
    node.checkpoint().expect("no faults");
    assert_eq!(node.machine.step_round().expect("no faults"), Progress::More);
    for name in ["s", "gone"] {
        for key in (0..KEYS).map(key) {
            node.write(name, &set(&key, b"v", Expiry::Never)).expect("no faults").expect("done");
        }
    }
    let mut op = Vec::new();
    CatalogueOp::Drop { name: "gone" }.encode(&mut op);
    node.catalogue(op).expect("no faults");
    node.checkpoint().expect("no faults");
    let (durable, _) = node.guaranteed();
    let ledger = node.ledger;
    disk.crash(Crash::LoseUnsynced);
    let mut node = Node::start(&disk, ledger, durable, WALL_MS).expect("the node starts");
    node.settle().expect("no faults");
    assert!(!node.machine.routes.contains_key("gone"));
    assert_eq!(node.get("s", &key(0)).expect("read"), Reply::Bulk(b"v"[..].into()));
}

/// A PERSIST from before the expiry is under way: nobody may be told that the value is gone.
#[test]
fn read_waits_for_writer_that_may_keep_value() {
    let disk = FaultyDisk::new(10);
    let mut node = Node::new(&disk);
    node.create("s", Durability::Sync).expect("no faults");
    let expiry = Expiry::At(WALL_MS + 100);
    node.write("s", &set(b"k", b"v", expiry)).expect("no faults").expect("done");
    let route = node.machine.routes["s"].clone();
    let shard = route.shard(route.place(&route.key(b"k")));
    // Someone reads the present as if it were past, so that there is a horizon ahead of it.
    let (at, waiter) = (node.machine.now(), Waiter(1));
    node.machine.submit(shard, Input::AwaitRead { shard, at, lock: None, origin: CLIENTS, waiter });
    node.settle().expect("no faults");
    let mut batch = Batch::default();
    batch.push(&Write::Persist { key: b"k" }, Waiter(2));
    node.machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
    for executor in 0..node.machine.executors.len() {
        node.machine
            .step_executor(executor, 9, &mut node.ledger, &mut node.trace)
            .expect("no faults");
    }
    node.machine.elapsed_ms += 200;
    let now = node.machine.moment();
    let mut sink = SingleReply::default();
    let early = node::replica::read::read(&route, &Read::Get(b"k"), now, &mut sink);
    assert!(early.is_err(), "{:?}", sink.0);
    node.settle().expect("no faults");
    assert_eq!(node.get("s", b"k").expect("read"), Reply::Bulk(b"v"[..].into()));
}

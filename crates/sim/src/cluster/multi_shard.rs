//! Transactions over several shards, in a keyspace of their own: some append numbers to lists and
//! read whole lists; others are made to find one anomaly ([`workloads`]).
//!
//! ```text
//!   APPEND, GET of 1 to 4 keys ──► the node's coordinator ──► Ended
//!   the same, of one shard     ──► one entry, now and then
//!   WATCH … MULTI … EXEC       ──► each key is read, then begun a while later; or, where keys are
//!                                  in order, the ranges round them are watched
//!   one APPEND, one GET        ──► as all commands: locks are in their way
//!   GET of several keys        ──► looked at twice; or locked, if something always changes
//!   EVAL                       ──► in its shard's queue, or over shards ([`scripts`])
//! ```
//!
//! In some runs a second keyspace has some of the keys, and transactions span both.
//!
//! The checker takes all of them for transactions: some order of all must explain every read
//! ([`crate::check::serial`]). A transaction without an answer may or may not have been done.
//!
//! Half of all runs have such transactions. A separate random sequence decides that, and drives
//! them: so runs without them are the same as before.

use std::collections::BTreeMap;
use std::ops::Bound;

use command::{ObservedVersion, Step, Transaction, Write};
use keyspace::random::{Random, mix};
use keyspace::{
    CatalogueOp, Cut, Feature, KeyspaceId, KeyspaceOptions, Placement, ShardId, Timestamp,
};
use node::executor::Input;
use node::replica::entry::{Batch, Waiter};
use txn::interactive::key_ranges::{KeyRange, KeyRangeSet};

use super::{Options, Plant, World, upgrade};
use crate::check::Violation;
use crate::check::register::RegisterAccess;
use crate::check::serial::{ObservedTxn, Outcome};
use crate::machine::{CLIENTS, NOBODY};
use crate::rng::Rng;

mod answers;
mod coordinator_deaths;
mod ends;
mod parts;
mod reads;
#[cfg(test)]
mod rounds;
mod scripts;
pub mod workloads;

pub(crate) use coordinator_deaths::CoordinatorDeath;
pub(super) use parts::list_of;
use parts::{Part, transaction_of, values_of};
use reads::MultiShardRead;
use workloads::{KEYS_OF_ALL, WatchedKey, Workload};

/// Their keyspace.
pub(super) const WIDE: &str = "wide";
/// … and the other one of transactions that span keyspaces.
pub(super) const BESIDE: &str = "wide-beside";
/// … and that which transactions flush.
pub(super) const FLUSHED: &str = "wide-flushed";
/// Numbers of what they ask begin here, far above those of other clients.
const FIRST: u64 = 1 << 40;
/// Lists in use.
const KEYS: usize = 48;
/// Those that snapshots show: the first ones.
pub(super) const SNAPSHOT_KEYS: usize = KEYS;
/// An ordered keyspace is cut before these keys, before anything breaks.
const CUTS: [usize; 2] = [16, 32];
/// Virtual time within which the keyspace is there.
const THERE_MS_MAX: u64 = 20_000;

/// These clients, with their requests and histories.
pub(super) struct MultiShardClients {
    rng: Rng,
    placement: Placement,
    pub names: Vec<Vec<u8>>,
    pending: BTreeMap<u64, PendingOp>,
    made: u64,
    /// Elements that were ever appended.
    elements: u64,
    /// When each client sends its next request.
    free_at: Vec<u64>,
    think_ms: u64,
    /// What they do: lists first, if it is not only one.
    workloads: Vec<Workload>,
    /// Which absent keys are watched now.
    phantom: usize,
    /// A node that gets no requests.
    pub(super) spared: Option<usize>,
    history: Vec<ObservedTxn>,
    /// By the first key of each set.
    registers: BTreeMap<usize, Vec<RegisterAccess>>,
    audits: Vec<Vec<i64>>,
    ends: ends::ExpiryChecker,
    scripts: scripts::Scripts,
}

/// A transaction or read that is under way.
struct PendingOp {
    /// `None` for the reads of all keys at the end.
    client: Option<usize>,
    at: usize,
    call: u64,
    workload: Workload,
    parts: Vec<Part>,
    /// Watched keys, which must not have changed.
    watched: Vec<WatchedKey>,
    /// The name by which leaders reserve the keys, if they do.
    reserved_as: Option<Timestamp>,
    path: OpPath,
}

impl PendingOp {
    /// How many parts are of the keyspace [`WIDE`]: they come first.
    fn own_parts(&self) -> usize {
        self.parts.iter().take_while(|part| !workloads::is_beside(part.key())).count()
    }
}

/// How it is answered.
enum OpPath {
    /// By the node's coordinator.
    Coordinated,
    /// As a write of one shard.
    Proposed,
    /// It is begun later.
    Watching(u64),
    /// By looks.
    Looking(Box<MultiShardRead>),
    /// By a script.
    Scripted(Box<scripts::Script>),
}

/// Whether a keyspace is theirs.
pub(super) fn is_wide(name: &str) -> bool {
    [WIDE, BESIDE, FLUSHED].contains(&name)
}

/// Whether a run has such clients.
pub(super) fn has(options: &Options) -> bool {
    let drawn = Random::new(mix(mix(options.seed) ^ 0x7769_6465)).below(2) == 0;
    match options.plant {
        _ if options.workload.is_some() => true,
        Some(plant) => plant.is_wide(),
        None => drawn,
    }
}

impl MultiShardClients {
    /// The clients before their first request.
    pub fn new(options: &Options) -> Self {
        let mut rng = Rng::new(mix(mix(mix(options.seed))));
        let is_ordered = !rng.one_in(4) && !upgrade::mixes(options);
        let clients = rng.between(5, 10) as usize;
        Self {
            placement: if is_ordered { Placement::Ordered } else { Placement::Hashed },
            names: (0..KEYS_OF_ALL).map(workloads::name_of).collect(),
            pending: BTreeMap::new(),
            made: FIRST,
            elements: 0,
            free_at: vec![0; clients],
            think_ms: rng.between(1, 60),
            workloads: workloads::of(options),
            phantom: 0,
            spared: None,
            history: Vec::new(),
            registers: BTreeMap::new(),
            audits: Vec::new(),
            ends: ends::ExpiryChecker::default(),
            scripts: scripts::Scripts::new(options),
            rng,
        }
    }

    /// The same, in a keyspace that begins with several shards.
    pub fn hashed(options: &Options) -> Self {
        Self { placement: Placement::Hashed, ..Self::new(options) }
    }

    /// The same, that rest for so long at most.
    pub fn of_viewers(options: &Options, think_ms: u64) -> Self {
        Self { think_ms, ..Self::hashed(options) }
    }

    /// Ranges in which nothing lies but keys that a transaction watches, if it is one of those that
    /// watch ranges.
    fn gaps(&self, number: u64, watched: &[WatchedKey]) -> KeyRangeSet {
        let mut gaps = KeyRangeSet::default();
        if self.placement == Placement::Ordered && number.is_multiple_of(2) {
            for (key, ..) in watched {
                let name = &self.names[*key];
                let below = self.names.iter().filter(|other| *other < name).max();
                let above = self.names.iter().filter(|other| *other > name).min();
                let below = below.map_or(Bound::Unbounded, |below| Bound::Excluded(&**below));
                let above = above.map_or(Bound::Unbounded, |above| Bound::Excluded(&**above));
                gaps.add(KeyRange::between(below, above).expect("the key lies in it"));
            }
        }
        gaps
    }

    /// Transactions on lists that have ended, in the order in which they did.
    pub(super) fn list_history(&self) -> &[ObservedTxn] {
        &self.history
    }

    /// Transactions that are under way, as text.
    pub fn open(&self) -> String {
        let open = self.pending.iter().map(|(number, pending)| {
            format!("transaction {}: {:?}; ", number - FIRST, pending.parts)
        });
        open.collect()
    }

    fn some_key(&mut self) -> usize {
        self.rng.below(KEYS as u64) as usize
    }

    fn some_part(&mut self) -> Part {
        let key = self.some_key();
        if self.rng.one_in(3) { Part::Get(key) } else { self.append(key) }
    }

    fn append(&mut self, key: usize) -> Part {
        self.elements += 1;
        Part::Append(key, self.elements)
    }

    fn some_parts(&mut self) -> Vec<Part> {
        let count = self.rng.between(1, 4).max(self.rng.between(1, 3));
        (0..count).map(|_| self.some_part()).collect()
    }
}

impl World {
    /// Makes the keyspace, before anything breaks.
    pub(super) fn begin_multi_shard(&mut self) -> Result<(), Violation> {
        let Some(wide) = &self.wide else { return Ok(()) };
        let (placement, deadline) = (wide.placement, self.now_ms + THERE_MS_MAX);
        let cuts = match placement {
            Placement::Hashed | Placement::LinearHash => Vec::new(),
            Placement::Ordered => CUTS.map(|key| wide.names[key].clone()).to_vec(),
        };
        let spans = wide.span_keyspaces();
        let mut wanted = vec![(WIDE, placement, &cuts[..])];
        wanted.extend(wide.flush_keyspace().then_some((FLUSHED, placement, &cuts[..])));
        wanted.extend(spans.then_some((BESIDE, Placement::Hashed, &cuts[..0])));
        while self.now_ms < deadline {
            if self.now_ms.is_multiple_of(200) {
                let machine = self.node_slots[0].machine.as_ref().expect("nothing breaks yet");
                let shards = |name: &str| machine.routes.get(name).map(|route| route.views.len());
                let lacks = |(name, _, cuts): &&(&str, _, &[Vec<u8>])| {
                    shards(name).is_none_or(|shards| shards <= cuts.len())
                };
                match wanted.iter().find(lacks).map(|all| (all, shards(all.0))) {
                    Some(((name, _, cuts), Some(shards))) => self.cut_wide(name, &cuts[shards - 1]),
                    Some(((name, placement, _), None)) => self.create_wide(name, *placement),
                    None => return Ok(()),
                }
            }
            self.millisecond()?;
        }
        Err(Violation::new("liveness", format!("{WIDE} is not there after {THERE_MS_MAX} ms")))
    }

    fn create_wide(&mut self, name: &str, placement: Placement) {
        let replicas = self.profile.replicas as u8;
        let options = KeyspaceOptions { replicas, placement, ..Default::default() };
        let mut op = Vec::new();
        CatalogueOp::Create { name, options }.encode(&mut op);
        let machine = self.node_slots[0].machine.as_mut().expect("nothing breaks yet");
        machine.submit(ShardId(0), Input::Catalogue { op, origin: NOBODY, waiter: Waiter(0) });
    }

    fn cut_wide(&mut self, keyspace: &str, name: &[u8]) {
        let Some(cut) = Cut::at(Placement::Ordered, name) else { return };
        let machine = self.node_slots[0].machine.as_ref().expect("nothing breaks yet");
        let route = &machine.routes[keyspace];
        let shard = route.shard(route.place_of_key(name));
        if let Some((at, _)) = self.led().into_iter().find(|(_, led)| *led == shard) {
            self.cut_at(at, shard, cut);
        }
    }

    /// The keys in use of a keyspace, as a node's routes name it.
    pub(super) fn names_in(&self, keyspace: KeyspaceId) -> &[Vec<u8>] {
        let mut machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        let is_it = |machine: &crate::machine::Machine| {
            let mut theirs =
                [WIDE, BESIDE, FLUSHED].iter().filter_map(|name| machine.routes.get(*name));
            theirs.any(|route| route.keyspace.id == keyspace)
        };
        match &self.wide {
            Some(wide) if machines.any(is_it) => &wide.names,
            _ => self.clients.names(),
        }
    }

    /// As [`MultiShardClients::list_history`].
    pub(super) fn list_history(&self) -> &[ObservedTxn] {
        self.wide.as_ref().map_or(&[], MultiShardClients::list_history)
    }

    /// Whether none of these clients waits.
    pub(super) fn is_multi_shard_idle(&self) -> bool {
        self.wide.as_ref().is_none_or(|wide| wide.pending.is_empty())
    }

    /// Whether one of these clients may ask a node.
    pub(super) fn may_ask_wide(&self, at: usize) -> bool {
        let Some(wide) = &self.wide else { return false };
        let machine = self.node_slots[at].machine.as_ref();
        let may = machine.is_some_and(|machine| {
            machine.routes.contains_key(WIDE)
                && machine.cluster_version.allows(Feature::Transactions)
        });
        may && wide.spared != Some(at)
            && self.clients.asking
            && !self.calm
            && wide.free_at.iter().any(|free_at| *free_at <= self.now_ms)
    }

    /// What of theirs may go on at a node.
    pub(super) fn ready_wide(&self, at: usize) -> Vec<u64> {
        let Some(wide) = &self.wide else { return Vec::new() };
        let is_ready = |pending: &&PendingOp| match &pending.path {
            OpPath::Watching(begins_at) => *begins_at <= self.now_ms,
            OpPath::Looking(looking) => looking.ready,
            OpPath::Coordinated | OpPath::Proposed | OpPath::Scripted(_) => false,
        };
        let here = wide.pending.iter().filter(|(_, pending)| pending.at == at && is_ready(pending));
        here.map(|(number, _)| *number).collect()
    }

    /// One of them asks a node something.
    pub(super) fn send_multi_shard(&mut self, at: usize) {
        self.set_clocks(at);
        let now_ms = self.now_ms;
        let Some(wide) = &mut self.wide else { return };
        let free: Vec<usize> =
            (0..wide.free_at.len()).filter(|client| wide.free_at[*client] <= now_ms).collect();
        let client = *wide.rng.pick(&free);
        wide.free_at[client] = u64::MAX;
        if wide.scripts.are_sent && wide.rng.one_in(3) {
            return self.send_scripts(client, at);
        }
        let client = Some(client);
        let lists = Workload::ListAppend;
        match wide.pick_workload() {
            Workload::ListAppend => {}
            other => return self.ask_case(client, at, other),
        }
        match wide.rng.weighted(&[60, 1, 12, 6, 8, 8, 1]) {
            0 => {
                let parts = wide.some_parts();
                self.begin_transaction(client, at, lists, parts, Default::default());
            }
            1 => {
                let mut parts: Vec<Part> = (0..KEYS).map(Part::Get).collect();
                if wide.rng.one_in(2) {
                    let part = wide.some_part();
                    parts.push(part);
                }
                self.begin_transaction(client, at, lists, parts, Default::default());
            }
            2 => {
                let count = wide.rng.between(1, 3);
                let keys = (0..count).map(|_| wide.some_key()).collect();
                self.begin_watching(client, at, lists, keys);
            }
            3 => {
                let key = wide.some_key();
                let parts = vec![wide.append(key)];
                let number = self.put_asked(client, at, lists, parts, Vec::new(), OpPath::Proposed);
                self.propose_wide(number);
            }
            4 => {
                let parts = vec![Part::Get(wide.some_key())];
                self.begin_looking(client, at, lists, parts);
            }
            5 => {
                let first = wide.some_key();
                let others = wide.rng.between(1, 2);
                let mut keys: Vec<usize> = (0..others).map(|_| wide.some_key()).collect();
                keys.push(first);
                keys.sort_unstable();
                keys.dedup();
                let parts = keys.into_iter().map(Part::Get).collect();
                self.begin_looking(client, at, lists, parts);
            }
            _ => self.begin_looking(client, at, lists, (0..KEYS).map(Part::Get).collect()),
        }
    }

    fn put_asked(
        &mut self,
        client: Option<usize>,
        at: usize,
        workload: Workload,
        parts: Vec<Part>,
        watched: Vec<WatchedKey>,
        path: OpPath,
    ) -> u64 {
        let call = self.clients.next_event();
        let node = self.node_slots[at].node;
        let wide = self.wide.as_mut().expect("the workload runs");
        wide.made += 1;
        let number = wide.made;
        self.trace.event(format_args!("transaction {} at node {node}: {parts:?}", number - FIRST));
        let reserved_as = None;
        let pending = PendingOp { client, at, call, workload, parts, watched, reserved_as, path };
        wide.pending.insert(number, pending);
        number
    }

    /// A transaction begins: mostly in the coordinator.
    fn begin_transaction(
        &mut self,
        client: Option<usize>,
        at: usize,
        workload: Workload,
        parts: Vec<Part>,
        (watched, reserved_as): (Vec<WatchedKey>, Option<Timestamp>),
    ) {
        let wide = self.wide.as_mut().expect("the workload runs");
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let name = wide.keyspace_of(workload);
        let Some(route) = machine.routes.get(name) else {
            let number = self.put_asked(client, at, workload, parts, watched, OpPath::Coordinated);
            return self.not_done_wide(number, Outcome::NotDone);
        };
        let keys = parts.iter().map(|part| part.key()).chain(watched.iter().map(|seen| seen.0));
        let mut shards: Vec<ShardId> =
            keys.map(|key| route.shard(route.place_of_key(&wide.names[key]))).collect();
        shards.sort_unstable();
        shards.dedup();
        let spans = wide.span_keyspaces() && workload == Workload::Spanning;
        let spans = spans || workload == Workload::Flush;
        let is_one = !spans && shards.len() == 1 && wide.rng.one_in(2);
        let is_ranged = !wide.gaps(wide.made + 1, &watched).is_empty();
        self.counts.wide_ranges += u64::from(is_ranged);
        let is_one = is_one && !is_ranged && reserved_as.is_none();
        let path = if is_one { OpPath::Proposed } else { OpPath::Coordinated };
        let number = self.put_asked(client, at, workload, parts, watched, path);
        let pending = self.wide.as_mut().and_then(|wide| wide.pending.get_mut(&number));
        pending.expect("it was just asked").reserved_as = reserved_as;
        match is_one {
            true => self.propose_wide(number),
            false => self.coordinate_wide(number),
        }
    }

    /// Has the node's coordinator do it.
    fn coordinate_wide(&mut self, number: u64) {
        let (unvalidated, unranged) = (self.has(Plant::Unvalidated), self.has(Plant::Unranged));
        let Some(wide) = &self.wide else { return };
        let Some(pending) = wide.pending.get(&number) else { return };
        let (values, gaps) = (values_of(&pending.parts), wide.gaps(number, &pending.watched));
        let mut transaction = transaction_of(pending, &wide.names, &values);
        if !gaps.is_empty() {
            // What is absent is so because nothing is in its range.
            transaction.watched.retain(|(_, seen)| matches!(seen, ObservedVersion::Version(_)));
            transaction.ranges = gaps.iter().collect();
        }
        if unvalidated {
            transaction.watched.clear();
            transaction.ranges.clear();
        }
        if unranged {
            transaction.ranges.clear();
        }
        let machine = self.node_slots[pending.at].machine.as_mut().expect("the node runs");
        let keyspace = machine.routes[wide.keyspace_of(pending.workload)].keyspace.id;
        if !wide.span_keyspaces() || pending.workload != Workload::Spanning {
            let whole = [(keyspace, &transaction)];
            return machine.coordinate(&whole, number, pending.reserved_as);
        }
        let Some(beside) = machine.routes.get(BESIDE).map(|route| route.keyspace.id) else {
            return self.not_done_wide(number, Outcome::NotDone);
        };
        // Parts come in the order of their keyspaces, as replies do.
        let other = transaction.commands.split_off(pending.own_parts());
        let other = Transaction { commands: other, ..Transaction::default() };
        let whole = [(keyspace, &transaction), (beside, &other)];
        let used: Vec<_> =
            whole.into_iter().filter(|(_, part)| !part.commands.is_empty()).collect();
        self.counts.wide_spanning += u64::from(used.len() > 1);
        machine.coordinate(&used, number, None);
    }

    /// Has one shard do it.
    fn propose_wide(&mut self, number: u64) {
        let unvalidated = self.has(Plant::Unvalidated);
        let Some(wide) = &self.wide else { return };
        let Some(pending) = wide.pending.get(&number) else { return };
        let values = values_of(&pending.parts);
        let mut transaction = transaction_of(pending, &wide.names, &values);
        if unvalidated {
            transaction.watched.clear();
        }
        let write = match (&transaction.commands[..], transaction.watched.is_empty()) {
            ([Step::Write(write)], true) => write.clone(),
            _ => Write::Transaction(Box::new(transaction)),
        };
        let machine = self.node_slots[pending.at].machine.as_mut().expect("the node runs");
        let route = &machine.routes[WIDE];
        let shard = route.shard(route.place_of_key(&wide.names[pending.parts[0].key()]));
        let mut batch = Batch::default();
        batch.push(&write, Waiter(number));
        machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
    }

    /// Goes on with something at a node.
    pub(super) fn continue_multi_shard(&mut self, at: usize, ready: &[u64]) {
        let now_ms = self.now_ms;
        let Some(wide) = &mut self.wide else { return };
        let number = *wide.rng.pick(ready);
        match wide.pending.get(&number).map(|pending| &pending.path) {
            Some(OpPath::Watching(begins_at)) if *begins_at <= now_ms => {
                let PendingOp { client, workload, parts, watched, reserved_as, .. } =
                    wide.pending.remove(&number).expect("the entry was found above");
                self.begin_transaction(client, at, workload, parts, (watched, reserved_as));
            }
            Some(OpPath::Looking(_)) => self.look_at_keys(at, number),
            _ => {}
        }
    }

    /// Its coordinator goes on with what waits for a moment.
    pub(super) fn tick_coordinator(&mut self, at: usize) {
        if let Some(machine) = self.node_slots[at].machine.as_mut() {
            machine.tick_coordinator();
            self.follow_coordinator(at);
        }
    }

    /// Locks and unfinished records that are left somewhere, and coordinators that are not done.
    pub(super) fn describe_leftover_locks(&self) -> String {
        let mut text = String::new();
        for machine in self.node_slots.iter().filter_map(|seat| seat.machine.as_ref()) {
            let node = machine.node();
            if machine.coordinated() > 0 {
                text += &format!("node {node} sees to {} transactions; ", machine.coordinated());
            }
            for view in machine.shard_ids().into_iter().filter_map(|id| machine.view(id)) {
                let state = view.read();
                let shard = state.descriptor.shard;
                for (key, lock) in state.locks.iter() {
                    let (key, id) = (key.escape_ascii(), lock.id);
                    text += &format!("node {node} has {key} of shard {shard} locked by {id:?}; ");
                }
                for (id, ..) in state.locks.unfinished() {
                    text += &format!("node {node} has {id:?} in shard {shard}, unfinished; ");
                }
            }
        }
        text
    }

    /// Searches for what no order of the transactions explains, and for what single cases rule out.
    pub(super) fn search_wide(&mut self) -> Result<(), Violation> {
        let Some(wide) = &self.wide else { return Ok(()) };
        let found = wide.judge();
        self.found_by = found.iter().map(|(workload, _)| *workload).collect();
        let names: Vec<&str> = self.found_by.iter().map(|workload| workload.name()).collect();
        match found.first() {
            None => Ok(()),
            Some((_, text)) => {
                let text = format!("{text}\nfound by: {}", names.join(", "));
                Err(Violation::new("strictly serialisable", text))
            }
        }
    }
}

//! Reads of these keys beside transactions: one look at one key, two equal looks at several, and
//! one look at each of those that are watched.

use command::{ObservedVersion, Read, Reply};
use keyspace::{NodeId, ShardId, Timestamp};
use node::executor::Input;
use node::replica::entry::Waiter;
use node::replica::read::{self, Blocked, ReadTime};
use node::routing::fetch::{FetchRequest, FetchResult, FetchedData};
use node::routing::route::Route;
use txn::locks::Locks;
use txn::wait_queue::{ReserveFrom, ReservingRead};

use super::super::{ANSWER_MS_MAX, Plant, World};
use super::workloads::{WatchedKey, Workload, is_beside};
use super::{OpPath, Part, WIDE};
use crate::check::Violation;
use crate::check::serial::Outcome;
use crate::command::Collect;
use crate::machine::{CLIENTS, Machine};

/// Looks that may see something else than those before, until the keys are locked for a read.
const LOOKS_MAX: u32 = 4;
/// How long a reader waits.
const PATIENCE_MS: u64 = 2_500;
/// A transaction is begun at most so long after its keys were looked at.
const WATCH_MS_MAX: u64 = 40;

/// A read of some keys, until it is answered.
pub(super) struct MultiShardRead {
    now: ReadTime,
    fetched: FetchedData,
    /// How many looks have seen something else, and what the last one saw.
    looked: Option<(u32, Vec<ObservedVersion>)>,
    /// Whether the keys are watched: a transaction follows.
    watches: bool,
    pub ready: bool,
    gives_up_at: u64,
}

impl World {
    /// A read of the keys of these parts, each a GET.
    pub(super) fn begin_looking(
        &mut self,
        client: Option<usize>,
        at: usize,
        workload: Workload,
        parts: Vec<Part>,
    ) {
        self.begin_to_look(client, at, workload, parts, false);
    }

    /// A client looks at each of some keys, and begins a transaction later that is done if they are
    /// the same still.
    pub(super) fn begin_watching(
        &mut self,
        client: Option<usize>,
        at: usize,
        workload: Workload,
        mut keys: Vec<usize>,
    ) {
        keys.sort_unstable();
        keys.dedup();
        self.begin_to_look(client, at, workload, keys.into_iter().map(Part::Get).collect(), true);
    }

    fn begin_to_look(
        &mut self,
        client: Option<usize>,
        at: usize,
        workload: Workload,
        parts: Vec<Part>,
        watches: bool,
    ) {
        self.set_clocks(at);
        let Some(machine) = &self.node_slots[at].machine else { return };
        let (now, gives_up_at) = (machine.moment(), self.now_ms + PATIENCE_MS);
        let (fetched, looked, ready) = (FetchedData::default(), None, true);
        let looking = MultiShardRead { now, fetched, looked, watches, ready, gives_up_at };
        let path = OpPath::Looking(Box::new(looking));
        self.put_asked(client, at, workload, parts, Vec::new(), path);
    }

    /// Each of the keys was seen: what follows from that is begun a while later, or the keys are
    /// read together, if nothing does.
    fn has_watched(&mut self, at: usize, number: u64, watched: Vec<WatchedKey>) {
        let begins_at = self.now_ms;
        let Some(wide) = &mut self.wide else { return };
        let Some(workload) = wide.pending.get(&number).map(|pending| pending.workload) else {
            return;
        };
        let planned = wide.plan(workload, &watched);
        let begins_at = begins_at + wide.rng.between(0, WATCH_MS_MAX);
        let Some(pending) = wide.pending.get_mut(&number) else { return };
        match planned {
            Some(parts) => {
                (pending.parts, pending.watched) = (parts, watched);
                pending.path = OpPath::Watching(begins_at);
            }
            None => {
                let pending = wide.pending.remove(&number).expect("the entry was found above");
                self.begin_looking(pending.client, at, workload, pending.parts);
            }
        }
    }

    /// Lets a waiting reader look again, with the data fetched for it, if there is any.
    pub(super) fn may_look(
        &mut self,
        number: u64,
        came: Option<(ShardId, Timestamp, FetchRequest, FetchResult)>,
    ) {
        if self.is_script(number) {
            if let Some((shard, at, want, found)) = came
                && let Some(fetched) = self.script_fetched(number)
            {
                fetched.add(shard, at, want, found);
            }
            return self.script_may_read(number);
        }
        let Some(wide) = &mut self.wide else { return };
        if let Some(OpPath::Looking(looking)) = wide.pending.get_mut(&number).map(|a| &mut a.path) {
            if let Some((shard, at, want, found)) = came {
                looking.fetched.add(shard, at, want, found);
            }
            looking.ready = true;
        }
    }

    /// Lets readers that have waited too long go on to something else.
    pub(in crate::cluster) fn expire_multi_shard(&mut self) {
        self.expire_scripts();
        let now_ms = self.now_ms;
        let Some(wide) = &self.wide else { return };
        let late = wide.pending.iter().filter(|(_, pending)| match &pending.path {
            OpPath::Looking(looking) => looking.gives_up_at <= now_ms,
            _ => false,
        });
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        late.into_iter().for_each(|number| self.not_done_wide(number, Outcome::NotDone));
    }

    /// Looks.
    pub(super) fn look_at_keys(&mut self, at: usize, number: u64) {
        let (unlocked, once) = (self.has(Plant::UnlockedReads), self.has(Plant::SingleLook));
        let Some(wide) = &mut self.wide else { return };
        let workload = wide.pending.get(&number).map(|pending| pending.workload);
        let name = workload.map_or(WIDE, |workload| wide.keyspace_of(workload));
        let Some(pending) = wide.pending.get_mut(&number) else { return };
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        let OpPath::Looking(looking) = &mut pending.path else { return };
        let Some(route) = machine.routes.get(name).cloned() else { return };
        let names: Vec<&[u8]> =
            pending.parts.iter().map(|part| wide.names[part.key()].as_slice()).collect();
        if looking.watches && number.is_multiple_of(8) && pending.reserved_as.is_none() {
            let name = machine.moment().time;
            (pending.reserved_as, looking.ready) = (Some(name), false);
            return reserve(machine, &route, &names, Waiter(number), name);
        }
        let mut sink = Collect::default();
        let hidden = if unlocked { hide_locks(&route) } else { Vec::new() };
        let (now, fetched, mut watched) = (looking.now, &looking.fetched, Vec::new());
        let found = match names[..] {
            _ if looking.watches => see(&route, &names, now, fetched).map(|seen| {
                let keys = pending.parts.iter().map(|part| part.key());
                watched.extend(keys.zip(seen).map(|(key, (seen, value))| (key, seen, value)));
                Vec::new()
            }),
            [name] => read::read_with(&route, &Read::Get(name), now, fetched, &mut sink)
                .map(|()| Vec::new()),
            _ => read::look(&route, &Read::GetMany(names.clone()), now, fetched, &mut sink),
        };
        for (view, locks) in route.views.iter().zip(hidden) {
            view.write().locks = locks;
        }
        let seen = match found {
            Ok(seen) => seen,
            Err(blocked) => {
                looking.ready = false;
                let (shard, input) =
                    go_on_after(&blocked, &route, &names, looking, number, machine.node());
                return machine.submit(shard, input);
            }
        };
        if looking.watches {
            return self.has_watched(at, number, watched);
        }
        let is_same = match &looking.looked {
            Some((_, last)) => *last == seen,
            // Planted: one look at several keys is enough.
            None => names.len() == 1 || once,
        };
        if is_same {
            self.counts.wide_looks += u64::from(names.len() > 1);
            let replies: Vec<Reply> = sink.0;
            return self.finish_multi_shard(number, &replies);
        }
        let count = looking.looked.as_ref().map_or(0, |(count, _)| *count) + 1;
        if count == LOOKS_MAX {
            pending.path = OpPath::Coordinated;
            return self.coordinate_wide(number);
        }
        looking.looked = Some((count, seen));
        // What was fetched was so before: the next look is at what is then.
        (looking.now, looking.fetched) = (machine.moment(), FetchedData::default());
    }

    /// Reads every key once more, each set of them within its own time: there are a hundred.
    pub(in crate::cluster) fn read_wide_last(&mut self) -> Result<(), Violation> {
        if self.wide.is_none() {
            return Ok(());
        }
        let sets = Workload::ALL.into_iter();
        for (workload, set) in
            sets.flat_map(|workload| workload.sets().into_iter().map(move |set| (workload, set)))
        {
            let read = self.counts.workloads[workload as usize];
            let deadline = self.now_ms + ANSWER_MS_MAX;
            while self.counts.workloads[workload as usize] == read {
                if self.now_ms >= deadline {
                    let text = format!("{set:?} of {WIDE} cannot be read after the last fault");
                    return Err(Violation::new("liveness", text));
                }
                let knows = |at: &usize| {
                    let machine = self.node_slots[*at].machine.as_ref();
                    machine.is_some_and(|machine| machine.routes.contains_key(WIDE))
                };
                let places: Vec<usize> = (0..self.node_slots.len()).filter(knows).collect();
                let wide = self.wide.as_mut().expect("the entry was found above");
                let at = *wide.rng.pick(&places);
                let mut keys = set.clone();
                keys.sort_unstable_by_key(|key| (is_beside(*key), *key));
                let parts = keys.into_iter().map(Part::Get).collect();
                match workload == Workload::Spanning && wide.span_keyspaces() {
                    true => self.begin_transaction(None, at, workload, parts, Default::default()),
                    false => self.begin_looking(None, at, workload, parts),
                }
                while !self.is_multi_shard_idle() {
                    self.millisecond()?;
                }
            }
        }
        Ok(())
    }
}

/// What each key has, and which version that is.
pub(super) fn see(
    route: &Route,
    names: &[&[u8]],
    now: ReadTime,
    fetched: &FetchedData,
) -> Result<Vec<(ObservedVersion, Vec<u8>)>, Blocked> {
    let one = |name: &&[u8]| {
        let seen = read::seen(route, name, now, fetched)?;
        let value = read::value_with(route, name, now, fetched, |version| {
            version.map(|version| version.value.to_vec()).unwrap_or_default()
        })?;
        Ok((seen, value))
    };
    names.iter().map(one).collect()
}

/// Planted: nobody sees that keys are locked.
fn hide_locks(route: &Route) -> Vec<Locks> {
    route.views.iter().map(|view| std::mem::take(&mut view.write().locks)).collect()
}

/// What is asked of whom when a look was blocked: its keys of the leader elsewhere, or to be told
/// when nothing blocks any more.
fn go_on_after(
    blocked: &Blocked,
    route: &Route,
    names: &[&[u8]],
    looking: &MultiShardRead,
    number: u64,
    node: NodeId,
) -> (ShardId, Input) {
    let Blocked { place, at, lock } = *blocked;
    let (shard, origin, waiter) = (route.shard(place), CLIENTS, Waiter(number));
    if !route.must_fetch(place, node) {
        return (shard, Input::AwaitRead { shard, at, lock, origin, waiter });
    }
    let there = |name: &&&[u8]| route.place_of_key(name) == place;
    let want = FetchRequest::keys(names.iter().filter(there).copied());
    // As gateways do where EXEC often fails because a watched key has changed.
    let contends = looking.watches && number.is_multiple_of(2);
    let reserves = match number.is_multiple_of(4) {
        true => ReserveFrom::OtherReaders,
        false => ReserveFrom::Nobody,
    };
    let want = match contends {
        true => want.by(ReservingRead { name: looking.now.time, from: reserves }),
        false => want,
    };
    (shard, Input::Fetch { shard, want: Box::new(want), bytes_max: usize::MAX, origin, waiter })
}

/// Fetches keys and reserves them, as a gateway does for a transaction that failed because others
/// change its keys all the time.
pub(super) fn reserve(
    machine: &mut Machine,
    route: &Route,
    names: &[&[u8]],
    waiter: Waiter,
    name: Timestamp,
) {
    let reserving = ReservingRead { name, from: ReserveFrom::Everyone };
    for (shard, want) in route.missing_fetches(names.iter().copied(), |_| true) {
        let want = Box::new(want.by(reserving));
        let (bytes_max, origin) = (usize::MAX, CLIENTS);
        machine.submit(shard, Input::Fetch { shard, want, bytes_max, origin, waiter });
    }
}

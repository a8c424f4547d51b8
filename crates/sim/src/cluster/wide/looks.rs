//! Reads of these keys beside transactions: one look at one key, two equal looks at several, and
//! what is seen of keys that are watched.

use keyspace::{ShardId, Timestamp};
use node::command::{Read, Reply};
use node::entry::Waiter;
use node::fetch::{Fetched, Found, Want};
use node::lane::Input;
use node::locks::Locks;
use node::read::{self, Blocked, Now};
use node::route::Route;

use super::super::{ANSWER_MS_MAX, World};
use super::{Part, WIDE, Way, list_of};
use crate::check::Violation;
use crate::check::serial::Outcome;
use crate::command::Collect;
use crate::machine::CLIENTS;

/// Looks that may see something else than those before, until the keys are locked for a read.
const LOOKS_MAX: u32 = 4;
/// How long a reader waits.
const PATIENCE_MS: u64 = 2_500;
/// A transaction is begun at most so long after its keys were looked at.
const WATCH_MS_MAX: u64 = 40;

/// A read of some keys, until it is answered.
pub(super) struct Looking {
    now: Now,
    fetched: Fetched,
    /// How many looks have seen something else, and what the last one saw.
    looked: Option<(u32, Vec<Timestamp>)>,
    pub ready: bool,
    gives_up_at: u64,
}

impl World {
    /// A read of the keys of these parts, each a GET.
    pub(super) fn begin_looking(&mut self, client: Option<usize>, at: usize, parts: Vec<Part>) {
        self.tell_time(at);
        let Some(machine) = &self.seats[at].machine else { return };
        let (now, gives_up_at) = (machine.moment(), self.now_ms + PATIENCE_MS);
        let (fetched, looked) = (Fetched::default(), None);
        let looking = Looking { now, fetched, looked, ready: true, gives_up_at };
        self.put_asked(client, at, parts, Vec::new(), Way::Looking(Box::new(looking)));
    }

    /// A client looks at some keys, and begins a transaction later that is done if they are the
    /// same still. What cannot be looked at at once is not watched.
    pub(super) fn watch(&mut self, client: Option<usize>, at: usize) {
        let now_ms = self.now_ms;
        let Some(wide) = &mut self.wide else { return };
        let parts = wide.some_parts();
        let (count, later) = (wide.rng.between(1, 3), wide.rng.between(0, WATCH_MS_MAX));
        let mut keys: Vec<usize> = (0..count).map(|_| wide.some_key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let machine = self.seats[at].machine.as_ref().expect("it was asked");
        let (route, now) = (machine.routes[WIDE].clone(), machine.moment());
        let see = |key: usize| {
            let name = &wide.names[key];
            let seen = read::seen(&route, name, now, Fetched::NONE)?;
            let list = read::value(&route, name, now, |version| {
                version.map(|version| list_of(version.value)).unwrap_or_default()
            })?;
            Ok::<_, Blocked>((key, seen, list))
        };
        let watched = keys.into_iter().filter_map(|key| see(key).ok()).collect();
        self.put_asked(client, at, parts, watched, Way::Watching(now_ms + later));
    }

    /// A reader that waited may look again, with what was fetched for it, if anything was.
    pub(super) fn may_look(
        &mut self,
        number: u64,
        came: Option<(ShardId, Timestamp, Want, Found)>,
    ) {
        let Some(wide) = &mut self.wide else { return };
        if let Some(Way::Looking(looking)) = wide.asked.get_mut(&number).map(|a| &mut a.way) {
            if let Some((shard, at, want, found)) = came {
                looking.fetched.add(shard, at, want, found);
            }
            looking.ready = true;
        }
    }

    /// Readers who have waited too long go on to something else.
    pub(in crate::cluster) fn expire_wide(&mut self) {
        let now_ms = self.now_ms;
        let Some(wide) = &self.wide else { return };
        let late = wide.asked.iter().filter(|(_, asked)| match &asked.way {
            Way::Looking(looking) => looking.gives_up_at <= now_ms,
            _ => false,
        });
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        late.into_iter().for_each(|number| self.not_done_wide(number, Outcome::NotDone));
    }

    /// Looks.
    pub(super) fn look_wide(&mut self, at: usize, number: u64) {
        let unlocked = self.has_unlocked_reads();
        let Some(wide) = &mut self.wide else { return };
        let Some(asked) = wide.asked.get_mut(&number) else { return };
        let machine = self.seats[at].machine.as_mut().expect("it runs");
        let Way::Looking(looking) = &mut asked.way else { return };
        let Some(route) = machine.routes.get(WIDE).cloned() else { return };
        let names: Vec<&[u8]> =
            asked.parts.iter().map(|part| wide.names[part.key()].as_slice()).collect();
        let mut sink = Collect::default();
        let hidden = if unlocked { hide_locks(&route) } else { Vec::new() };
        let (now, fetched) = (looking.now, &looking.fetched);
        let found = match names[..] {
            [name] => read::read_with(&route, &Read::Get(name), now, fetched, &mut sink)
                .map(|()| Vec::new()),
            _ => read::look(&route, &Read::GetMany(names.clone()), now, fetched, &mut sink),
        };
        for (view, locks) in route.views.iter().zip(hidden) {
            view.write().locks = locks;
        }
        let seen = match found {
            Ok(seen) => seen,
            Err(Blocked { place, at, lock }) => {
                looking.ready = false;
                let (shard, origin, waiter) = (route.shard(place), CLIENTS, Waiter(number));
                let input = if route.must_fetch(place, machine.node()) {
                    let there = |name: &&&[u8]| route.place_of_key(name) == place;
                    let want = Box::new(Want::keys(names.iter().filter(there).copied()));
                    Input::Fetch { shard, want, bytes_max: usize::MAX, origin, waiter }
                } else {
                    Input::Await { shard, at, lock, origin, waiter }
                };
                return machine.submit(shard, input);
            }
        };
        let is_same = match &looking.looked {
            Some((_, last)) => *last == seen,
            None => names.len() == 1,
        };
        if is_same {
            self.counts.wide_looks += u64::from(names.len() > 1);
            let replies: Vec<Reply> = sink.0;
            return self.done_wide(number, &replies);
        }
        let count = looking.looked.as_ref().map_or(0, |(count, _)| *count) + 1;
        if count == LOOKS_MAX {
            asked.way = Way::Coordinated;
            return self.coordinate_wide(number);
        }
        looking.looked = Some((count, seen));
        // What was fetched was so before: the next look is at what is then.
        (looking.now, looking.fetched) = (machine.moment(), Fetched::default());
    }

    /// Reads every key once more.
    pub(in crate::cluster) fn read_wide_last(&mut self) -> Result<(), Violation> {
        let deadline = self.now_ms + ANSWER_MS_MAX;
        let Some(wide) = &self.wide else { return Ok(()) };
        for key in 0..wide.names.len() {
            let read = self.counts.wide_ones;
            while self.counts.wide_ones == read {
                if self.now_ms >= deadline {
                    let text = format!("key {key} of {WIDE} cannot be read after the last fault");
                    return Err(Violation::new("liveness", text));
                }
                let knows = |at: &usize| {
                    let machine = self.seats[*at].machine.as_ref();
                    machine.is_some_and(|machine| machine.routes.contains_key(WIDE))
                };
                let places: Vec<usize> = (0..self.seats.len()).filter(knows).collect();
                let wide = self.wide.as_mut().expect("it was just there");
                let at = *wide.rng.pick(&places);
                self.begin_looking(None, at, vec![Part::Get(key)]);
                while !self.is_wide_idle() {
                    self.millisecond()?;
                }
            }
        }
        Ok(())
    }
}

/// Planted: nobody sees that keys are locked.
fn hide_locks(route: &Route) -> Vec<Locks> {
    route.views.iter().map(|view| std::mem::take(&mut view.write().locks)).collect()
}

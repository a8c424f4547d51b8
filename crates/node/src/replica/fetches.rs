//! Fetches from a shard's remote leader, until they are answered: for readers on a node without a
//! replica, or with one that lags.
//!
//! ```text
//!   waiting ──(at most SENT_MAX are in flight)──► sent ──► FetchReply ──► answered
//!      ▲                                           │          │ not all of it yet
//!      ├── another node leads, silence ────────────┤          │
//!      │          other slots now: look again ◄────┘          │
//!      └── the rest is wanted ◄───────────────────────────────┘
//! ```
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | fetches in flight to one shard, as many of retries, and as many of feeds | [`SENT_MAX`] | wait here |
//! | bytes of fetches held for one shard | [`HELD_BYTES_MAX`] | refused: busy |
//! | bytes found for one fetch | the asker's | refused: too long; scans and ranges end there |
//! | time without an answer | the request timeout | refused: no leader is known |
//!
//! Every fetch may be repeated, so this node resends all that have no answer.

use std::collections::VecDeque;

use command::NotDone;
use keyspace::{NodeId, ShardId, Timestamp};
use overlay::KnownShard;
use replication::BootNanos;

use crate::executor::{Answer, Caller, Effects};
use crate::replica::forward::NOT_LEADER_PAUSE_NANOS;
use crate::routing::fetch::{ANSWER_BYTES_MAX, FetchRequest, FetchResult, KEYS_MAX};
use crate::rpc::message::RpcMessage;

/// Questions under way to the leader of one shard at one time: with a piece each, 256 MiB of
/// answers.
const SENT_MAX: usize = 64;
/// Bytes of questions that are held for the leader of one shard.
const HELD_BYTES_MAX: usize = 16 << 20;
/// When nothing is heard for so long, a question is asked again.
const RESEND_NANOS: u64 = 500_000_000;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Fetches {
    all: VecDeque<Fetch>,
    next_number: u64,
    held_bytes: usize,
    /// Nothing is sent before.
    pause_until: BootNanos,
}

/// When something was found, and what.
type FetchFinding = (Timestamp, FetchResult);

struct Fetch {
    number: u64,
    want: FetchRequest,
    /// What of it is asked for now.
    rest: FetchRequest,
    found: Option<FetchFinding>,
    bytes_max: usize,
    bytes: usize,
    asker: Caller,
    /// When it was asked, or last got on.
    since: BootNanos,
    sent: Option<(NodeId, BootNanos)>,
    /// The shard has other slots by now: who asks is to look again whose it is.
    is_moved: bool,
}

impl Fetches {
    pub fn is_idle(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether all are on their way, so that only answers and time bring them on.
    #[inline]
    pub fn all_are_sent(&self) -> bool {
        self.all.iter().all(|fetch| fetch.sent.is_some() && !fetch.is_moved)
    }

    pub fn ask(
        &mut self,
        want: FetchRequest,
        bytes_max: usize,
        asker: Caller,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        let bytes = want.bytes_about();
        if self.held_bytes + bytes > HELD_BYTES_MAX && self.held_bytes > 0 {
            return refuse(asker, NotDone::Busy, effects);
        }
        self.held_bytes += bytes;
        let number = self.draw_number(now);
        let rest = want.clone();
        self.all.push_back(Fetch {
            number,
            want,
            rest,
            found: None,
            bytes_max,
            bytes,
            asker,
            since: now,
            sent: None,
            is_moved: false,
        });
    }

    /// One that nothing which is still on its way names, not even from before the node's last
    /// start: its boot clock was not there yet.
    fn draw_number(&mut self, now: BootNanos) -> u64 {
        self.next_number = (self.next_number + 1).max(now);
        self.next_number
    }

    pub fn send(
        &mut self,
        shard: ShardId,
        leader: Option<NodeId>,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        if now < self.pause_until {
            return;
        }
        while let Some(place) = self.all.iter().position(|fetch| fetch.is_moved) {
            let Caller { origin, waiter } = self.remove(place).asker;
            effects.answers.push(Answer::Retry { origin, waiter });
        }
        let Some(leader) = leader else { return };
        // The oldest first: they hold the places.
        let mut places = [SENT_MAX; 3];
        for fetch in &mut self.all {
            // Contenders and feeds may wait there for long, and take nobody else's place.
            let class = match &fetch.want {
                FetchRequest::Changes(_) => 2,
                want => usize::from(want.is_reserving()),
            };
            let left = &mut places[class];
            if *left == 0 {
                if places == [0; 3] {
                    break;
                }
                continue;
            }
            *left -= 1;
            let waits = |(node, at): (NodeId, BootNanos)| {
                node == leader && now < at.saturating_add(RESEND_NANOS)
            };
            if fetch.sent.is_some_and(waits) {
                continue;
            }
            fetch.sent = Some((leader, now));
            let (number, want) = (fetch.number, first_part(&fetch.rest));
            effects.rpcs.push((leader, RpcMessage::Fetch { shard, number, want }));
        }
    }

    pub fn fetched(
        &mut self,
        shard: ShardId,
        number: u64,
        (at, found): FetchFinding,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        let Some(place) = self.all.iter().position(|fetch| fetch.number == number) else { return };
        let next_number = self.draw_number(now);
        let fetch = &mut self.all[place];
        if !fetch.rest.fits(&found) {
            // From a node that has another idea of it; it is asked again.
            return;
        }
        let rest = fetch.rest.rest(&found, fetch.bytes_max);
        match &mut fetch.found {
            Some((_, all)) => all.append(found),
            None => fetch.found = Some((at, found)),
        }
        let bytes = fetch.found.as_ref().map_or(0, |(_, all)| all.bytes_about());
        let is_long = bytes > fetch.bytes_max;
        if is_long && rest.is_some() && matches!(fetch.want, FetchRequest::Keys { .. }) {
            return refuse(self.remove(place).asker, NotDone::TooLong, effects);
        }
        if let Some(rest) = rest.filter(|_| !is_long) {
            // A late second answer to the first part is none to the next.
            (fetch.rest, fetch.number) = (rest, next_number);
            (fetch.since, fetch.sent) = (now, None);
            return;
        }
        let fetch = self.remove(place);
        let Caller { origin, waiter } = fetch.asker;
        let (at, found) = fetch.found.expect("it was just put in");
        let (want, found) = (Box::new(fetch.want), Box::new(found));
        effects.answers.push(Answer::Fetched { origin, waiter, shard, at, want, found });
    }

    fn remove(&mut self, place: usize) -> Fetch {
        let fetch = self.all.remove(place).expect("the entry was found above");
        self.held_bytes -= fetch.bytes;
        fetch
    }

    /// The node that was asked does not lead, or does not own what is wanted; `known` is the shard
    /// as it knows it. Nothing is sent again before `pause_until`.
    pub fn handle_not_leader(
        &mut self,
        number: u64,
        known: Option<&KnownShard>,
        pause_until: BootNanos,
    ) {
        let asked = self.all.iter_mut().find(|fetch| fetch.number == number);
        let Some(fetch) = asked else { return };
        fetch.sent = None;
        fetch.is_moved |= known.is_some_and(|known| !fetch.want.is_of(known.arc()));
        self.pause_until = match fetch.is_moved {
            true => pause_until.max(fetch.since + NOT_LEADER_PAUSE_NANOS),
            false => pause_until,
        };
    }

    /// The leader has no room for a record that it needs.
    pub fn handle_no_room(&mut self, number: u64, effects: &mut Effects) {
        if let Some(place) = self.all.iter().position(|fetch| fetch.number == number) {
            refuse(self.remove(place).asker, NotDone::DiskFull, effects);
        }
    }

    pub fn link_lost(&mut self, node: NodeId) {
        for fetch in self.all.iter_mut().filter(|f| f.sent.is_some_and(|(to, _)| to == node)) {
            fetch.sent = None;
        }
    }

    pub fn expire(&mut self, now: BootNanos, request_timeout: u64, effects: &mut Effects) {
        let late = |fetch: &Fetch| fetch.since.saturating_add(request_timeout) <= now;
        while let Some(place) = self.all.iter().position(late) {
            refuse(self.remove(place).asker, NotDone::NotLeader, effects);
        }
    }

    /// Tells all waiters to look up the shard again.
    pub fn release_waiters(&mut self, effects: &mut Effects) {
        for Fetch { asker: Caller { origin, waiter }, .. } in self.all.drain(..) {
            effects.answers.push(Answer::Retry { origin, waiter });
        }
        self.held_bytes = 0;
    }

    pub fn abandon(&mut self, effects: &mut Effects) {
        for fetch in self.all.drain(..) {
            refuse(fetch.asker, NotDone::NoSuchShard, effects);
        }
        self.held_bytes = 0;
    }
}

/// As much of a question as one RPC takes.
fn first_part(want: &FetchRequest) -> FetchRequest {
    let FetchRequest::Keys { keys, reserving } = want else { return want.clone() };
    let mut bytes = 0;
    let over = keys.iter().take(KEYS_MAX).position(|key| {
        bytes += key.len();
        bytes > ANSWER_BYTES_MAX
    });
    let count = over.unwrap_or(keys.len().min(KEYS_MAX)).max(1);
    FetchRequest::Keys { keys: keys.iter().take(count).cloned().collect(), reserving: *reserving }
}

fn refuse(Caller { origin, waiter }: Caller, why: NotDone, effects: &mut Effects) {
    effects.answers.push(Answer::NotDone { origin, waiters: vec![waiter], why });
}

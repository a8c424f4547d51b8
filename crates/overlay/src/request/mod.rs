//! One request's route from shard to shard, in three forms, and its messages.
//!
//! ```text
//!   iterative            recursive            semi-recursive
//!   o ──find──► a        o ──find──► a        o ──find──► a ──find──► b
//!   o ◄─next b── a              a ──find──► b                         │ owns it
//!   o ──find──► b        o ◄────found───── b  o ◄─found── a ◄─found── b
//!   o ◄─found─── b       1 message a hop,     2 a hop, and each node
//!   2 a hop              and 1                remembers the asker
//! ```
//!
//! The **origin** holds a request open until it is answered. A node that passes one on forgets it;
//! in the semi-recursive form it remembers for a while which node gets the answer. No node waits:
//! its table decides what to do with a message ([`Tables::next`]), and it does so at once.
//!
//! This module does not know whose the tables are, and whether they are a ring's, a route cache or
//! a linear-hash table's buckets. It only calls [`Tables::next`].
//!
//! Each time the origin asks, it takes another number. So it ignores answers that come late, twice,
//! or to an attempt that it gave up. A question that comes twice gets two answers, of which one
//! counts.
//!
//! # What can go wrong
//! | what | then |
//! |---|---|
//! | nothing comes back | after its [`answer_ticks`] the origin names the silent shard, so that its table distrusts it, and begins anew |
//! | the answer is no owner of the point, or leads back to its sender | as if it had been *busy* |
//! | a node knows none closer, has no such table, or remembers too much already | it answers *busy*; the origin reports it, and begins anew later, each time twice as late |
//! | the route does not end | at the limit of hops it is *lost*, and the request has failed |
//! | one of these [`ATTEMPTS_MAX`] times | the request has failed |
//!
//! # What is a hop
//! A move from the table of one shard to another shard. A request that begins with a route cache,
//! or with no table, begins at no shard: its move to the first one is no hop.
//!
//! # Limits
//! | what | at most | beyond it |
//! |---|---|---|
//! | hops | the origin's limit: [`HOPS_MAX`](crate::HOPS_MAX), or up to [`HOPS_LINEAR_MAX`] | lost |
//! | requests of one origin | [`OPEN_MAX`] | refused |
//! | answers that a node passes back | [`FORWARDED_ANSWERS_MAX`] | busy |

use std::collections::BTreeMap;

use keyspace::{Generation, NodeId, ShardId};

use crate::known_shard::KnownShard;
use crate::lookup::Outbox;
use crate::message::Message;
use crate::point::Point;

pub mod message;
mod types;

pub use message::{Find, Form, HopSource, RequestMessage, RouteHop, TRAIL_MAX};
pub use types::{Failure, LookupRequest, NextHop, RequestEvent, TableQuery};

/// The most hops of any request: a route along a ring of so many.
pub const HOPS_LINEAR_MAX: u32 = 128 * 1024;

/// How many ticks an origin waits for an answer of a node that it has asked directly.
pub const ANSWER_TICKS: u16 = 8;

/// A forwarded request may take one more tick for every so many hops of its limit.
pub const HOPS_A_TICK: u32 = 32;

/// How many ticks the answer to a question may take.
pub const fn answer_ticks(form: Form, hops_max: u32) -> u16 {
    match form {
        Form::Iterative => ANSWER_TICKS,
        Form::Recursive | Form::SemiRecursive => {
            // HOPS_LINEAR_MAX of them are 4096 ticks.
            let hops_max = if hops_max > HOPS_LINEAR_MAX { HOPS_LINEAR_MAX } else { hops_max };
            ANSWER_TICKS + (hops_max / HOPS_A_TICK) as u16
        }
    }
}

/// How many ticks it waits after the first *busy*.
pub const BUSY_TICKS: u16 = 2;

/// How often a request begins.
pub const ATTEMPTS_MAX: u8 = 5;

/// The most requests that are open at one origin.
pub const OPEN_MAX: usize = 64 * 1024;

/// The most answers that one node passes back.
pub const FORWARDED_ANSWERS_MAX: usize = 1024;

/// The tables of one node.
pub trait Tables {
    /// Where a request goes on; `None` if there is no such table.
    fn next(&self, ask: &TableQuery<'_>) -> Option<NextHop>;
}

/// A request that is not answered yet.
#[derive(Clone, Debug)]
struct OpenRequest {
    id: u64,
    request: LookupRequest,
    hops: u32,
    attempts: u8,
    /// Whether nobody was asked since it began.
    is_fresh: bool,
    /// Who was asked last; none while it waits to begin anew, or if a peer was asked.
    asked: Option<(ShardId, Generation)>,
    is_waiting: bool,
    ticks_left: u16,
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug)]
struct ForwardedAnswer {
    origin: NodeId,
    number: u64,
    ticks_left: u16,
}

/// One node's requests, and those that it passes on.
#[derive(Clone, Debug)]
pub struct Requests {
    node: NodeId,
    number: u64,
    ids: u64,
    open: BTreeMap<u64, OpenRequest>,
    passed: BTreeMap<u64, ForwardedAnswer>,
}

impl OpenRequest {
    /// Whether this shard owns what was looked for, as far as it says.
    fn is_answered_by(&self, owner: &KnownShard) -> bool {
        let LookupRequest { keyspace, ref tail, .. } = self.request;
        Point { keyspace, tail }.is_in(owner.arc())
    }

    /// Whether this is another member of the same ring.
    fn goes_on_to(&self, member: &KnownShard) -> bool {
        let is_other = self.asked.is_none_or(|(shard, _)| shard != member.shard());
        is_other && member.arc().keyspace() == self.request.keyspace
    }
}

impl Requests {
    /// None so far. The node's questions are counted from `number` on: another at each start, so
    /// that no answer to one of before is taken.
    pub fn new(node: NodeId, number: u64) -> Self {
        Self { node, number, ids: 0, open: BTreeMap::new(), passed: BTreeMap::new() }
    }

    /// How many requests of its own are open, and how many answers it passes back.
    pub fn counts(&self) -> (usize, usize) {
        (self.open.len(), self.passed.len())
    }

    /// Begins a request; answers its id.
    pub fn begin(
        &mut self,
        request: LookupRequest,
        tables: &impl Tables,
        out: &mut Outbox,
        events: &mut Vec<RequestEvent>,
    ) -> u64 {
        self.ids += 1;
        let id = self.ids;
        if self.open.len() >= OPEN_MAX {
            events.push(RequestEvent::Failed { id, why: Failure::Refused });
            return id;
        }
        let open = OpenRequest {
            id,
            request,
            hops: 0,
            attempts: 0,
            is_fresh: true,
            asked: None,
            is_waiting: false,
            ticks_left: 0,
        };
        self.start(open, tables, out, events);
        id
    }

    /// One unit of time passes.
    pub fn tick(&mut self, tables: &impl Tables, out: &mut Outbox, events: &mut Vec<RequestEvent>) {
        self.passed.retain(|_, passed| {
            passed.ticks_left -= 1;
            passed.ticks_left > 0
        });
        let due = self.open.iter_mut().filter_map(|(number, open)| {
            open.ticks_left -= 1;
            (open.ticks_left == 0).then_some(*number)
        });
        let due: Vec<u64> = due.collect();
        for number in due {
            let open = self.open.remove(&number).expect("just seen");
            if open.is_waiting {
                self.start(open, tables, out, events);
                continue;
            }
            if let Some((shard, generation)) = open.asked {
                events.push(RequestEvent::Silent { at: open.request.at, shard, generation });
            }
            // At the next tick, when it is distrusted.
            self.wait(open, Failure::Silent, 1, events);
        }
    }

    /// Handles a message for a request of this node or of another.
    pub fn step(
        &mut self,
        word: RequestMessage,
        tables: &impl Tables,
        out: &mut Outbox,
        events: &mut Vec<RequestEvent>,
    ) {
        let number = word.number();
        if let RequestMessage::Find(find) = word {
            return self.asked(find, tables, out);
        }
        if let Some(passed) = self.passed.remove(&number) {
            return push_message(passed.origin, word.renumbered(passed.number), out);
        }
        let Some(open) = self.open.remove(&number) else { return };
        if open.is_waiting {
            self.open.insert(number, open);
            return;
        }
        match word {
            RequestMessage::Found { owner, hops, trail, .. } if open.is_answered_by(&owner) => {
                events.push(RequestEvent::Found { id: open.id, owner, hops, trail });
            }
            RequestMessage::Next { member, by, .. } if open.goes_on_to(&member) => {
                let next = NextMember { to: &member, by, is_hop: true, from: None };
                self.go_on(open, &next, out, events);
            }
            RequestMessage::Busy { .. }
            | RequestMessage::Found { .. }
            | RequestMessage::Next { .. } => {
                if let Some((shard, generation)) = open.asked {
                    events.push(RequestEvent::Unsure { shard, generation });
                }
                self.wait_doubled(open, events);
            }
            RequestMessage::Lost { .. } | RequestMessage::Find(_) => {
                events.push(RequestEvent::Failed { id: open.id, why: Failure::Lost });
            }
        }
    }

    /// From the beginning.
    fn start(
        &mut self,
        mut open: OpenRequest,
        tables: &impl Tables,
        out: &mut Outbox,
        events: &mut Vec<RequestEvent>,
    ) {
        (open.hops, open.is_fresh) = (0, true);
        let LookupRequest { kind, at, cached, keyspace, ref tail, .. } = open.request;
        let ask = TableQuery { kind, at, cached, point: Point { keyspace, tail } };
        match tables.next(&ask) {
            Some(NextHop::Here(owner)) => {
                events.push(RequestEvent::Found { id: open.id, owner, hops: 0, trail: Vec::new() });
            }
            Some(NextHop::Member { member, by, is_hop, from }) => {
                let next = NextMember { to: &member, by, is_hop, from };
                self.go_on(open, &next, out, events);
            }
            Some(NextHop::AnyNode(peers)) if !peers.is_empty() => {
                let peer = peers[usize::from(open.attempts) % peers.len()];
                open.asked = None;
                let hop =
                    Hop { node: peer, to: None, by: HopSource::AnyNode, is_hop: false, from: None };
                self.ask(open, hop, out, events);
            }
            Some(NextHop::AnyNode(_)) | None => self.wait_doubled(open, events),
        }
    }

    /// Asks a member next.
    fn go_on(
        &mut self,
        mut open: OpenRequest,
        next: &NextMember<'_>,
        out: &mut Outbox,
        events: &mut Vec<RequestEvent>,
    ) {
        let NextMember { to, by, is_hop, from } = *next;
        let Some(node) = node_of(to) else {
            return self.wait_doubled(open, events);
        };
        open.asked = Some((to.shard(), to.generation()));
        self.ask(open, Hop { node, to: Some(to.shard()), by, is_hop, from }, out, events);
    }

    /// Asks a node, unless the request has gone on for too long.
    fn ask(
        &mut self,
        mut open: OpenRequest,
        hop: Hop,
        out: &mut Outbox,
        events: &mut Vec<RequestEvent>,
    ) {
        let Hop { node, to, by, is_hop, from } = hop;
        if open.hops >= open.request.hops_max {
            return events.push(RequestEvent::Failed { id: open.id, why: Failure::Lost });
        }
        open.hops += u32::from(is_hop);
        let ticks = answer_ticks(open.request.form, open.request.hops_max);
        (open.is_waiting, open.ticks_left) = (false, ticks);
        let LookupRequest { kind, cached, keyspace, ref tail, form, hops_max, is_traced, .. } =
            open.request;
        if is_traced {
            let leg = RouteHop { shard: to.unwrap_or(ShardId(0)), node, by };
            let is_first = open.is_fresh;
            events.push(RequestEvent::Asked { id: open.id, leg, is_first, from });
        }
        open.is_fresh = false;
        let (number, hops, tail) = (self.next_number(), open.hops, tail.clone());
        let (origin, trail) = (self.node, is_traced.then(Vec::new));
        let find =
            Find { number, kind, to, form, cached, origin, hops, hops_max, keyspace, tail, trail };
        push_message(node, RequestMessage::Find(find), out);
        self.open.insert(number, open);
    }

    /// Begins anew after some ticks, twice as many each time.
    fn wait_doubled(&mut self, open: OpenRequest, events: &mut Vec<RequestEvent>) {
        let ticks = BUSY_TICKS << open.attempts;
        self.wait(open, Failure::Busy, ticks, events);
    }

    /// Begins anew after some ticks, unless that was often enough.
    fn wait(
        &mut self,
        mut open: OpenRequest,
        why: Failure,
        ticks: u16,
        events: &mut Vec<RequestEvent>,
    ) {
        open.attempts += 1;
        if open.attempts >= ATTEMPTS_MAX {
            return events.push(RequestEvent::Failed { id: open.id, why });
        }
        (open.is_waiting, open.ticks_left) = (true, ticks);
        let number = self.next_number();
        self.open.insert(number, open);
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// A question of any origin: answered, or passed on.
    fn asked(&mut self, mut find: Find, tables: &impl Tables, out: &mut Outbox) {
        let Find { number, kind, to: at, cached, origin, hops, keyspace, .. } = find;
        let point = Point { keyspace, tail: &find.tail };
        let answer = match tables.next(&TableQuery { kind, at, cached, point }) {
            Some(NextHop::Here(owner)) => {
                RequestMessage::Found { number, hops, owner, trail: find.trail.unwrap_or_default() }
            }
            Some(NextHop::Member { member, by, is_hop, .. }) => match (find.form, node_of(&member))
            {
                (_, None) => RequestMessage::Busy { number },
                (Form::Iterative, _) => RequestMessage::Next { number, member, by },
                _ if hops >= find.hops_max => RequestMessage::Lost { number },
                (Form::SemiRecursive, _) if self.passed.len() >= FORWARDED_ANSWERS_MAX => {
                    RequestMessage::Busy { number }
                }
                (form, Some(node)) => {
                    if let Form::SemiRecursive = form {
                        let ticks = answer_ticks(form, find.hops_max);
                        (find.number, find.origin) = (self.pass(origin, number, ticks), self.node);
                    }
                    find.to = Some(member.shard());
                    find.hops += u32::from(is_hop);
                    if let Some(trail) = &mut find.trail
                        && trail.len() < TRAIL_MAX
                    {
                        trail.push(RouteHop { shard: member.shard(), node, by });
                    }
                    return push_message(node, RequestMessage::Find(find), out);
                }
            },
            // Peers are for who begins: here they could only lead around.
            Some(NextHop::AnyNode(_)) | None => RequestMessage::Busy { number },
        };
        push_message(origin, answer, out);
    }

    /// Remembers whom the answer is for; answers the number it is asked under here.
    fn pass(&mut self, origin: NodeId, number: u64, ticks_left: u16) -> u64 {
        let mine = self.next_number();
        self.passed.insert(mine, ForwardedAnswer { origin, number, ticks_left });
        mine
    }
}

/// Who is asked next.
struct Hop {
    node: NodeId,
    /// As a replica of which shard.
    to: Option<ShardId>,
    /// What named it.
    by: HopSource,
    is_hop: bool,
    /// The shard here whose table named it.
    from: Option<ShardId>,
}

/// What a table says comes next.
struct NextMember<'a> {
    to: &'a KnownShard,
    by: HopSource,
    is_hop: bool,
    from: Option<ShardId>,
}

/// The node to be asked for a shard.
fn node_of(known: &KnownShard) -> Option<NodeId> {
    known.leader().or_else(|| known.descriptor().node_to_ask())
}

fn push_message(to: NodeId, word: RequestMessage, out: &mut Outbox) {
    out.push((to, Message::Request(word)));
}

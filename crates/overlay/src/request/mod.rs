//! One request's way from shard to shard, in three forms, with what is sent for it.
//!
//! ```text
//!   iterative            recursive            semi-recursive
//!   o ──find──► a        o ──find──► a        o ──find──► a ──find──► b
//!   o ◄─next b── a              a ──find──► b                         │ owns it
//!   o ──find──► b        o ◄────found───── b  o ◄─found── a ◄─found── b
//!   o ◄─found─── b       1 message a hop,     2 a hop, and each node
//!   2 a hop              and 1                remembers who asked
//! ```
//!
//! The **origin** keeps a request open until it is answered; who passes one on forgets it, but in
//! the semi-recursive form remembers for a while whom the answer is for. Nobody waits: what to do
//! with a message follows from the table ([`Lookup::next`]) and is said at once.
//!
//! Each time the origin asks it takes another number. So answers that come late, twice, or to what
//! was given up mean nothing, and questions that come twice lead to two answers of which one
//! counts.
//!
//! # What can go wrong
//! | what | then |
//! |---|---|
//! | nothing comes back | after [`PATIENCE_TICKS`] the origin says who was silent, so that its table distrusts it, and begins anew |
//! | who is asked knows nobody closer, has no such table, or remembers too much already | it says *busy*, and the origin begins anew later, each time twice as late |
//! | it goes on and on | at the limit of hops it is *lost*, and the request has failed |
//! | one of these [`ATTEMPTS_MAX`] times | the request has failed |
//!
//! # Limits
//! | what | at most | beyond it |
//! |---|---|---|
//! | hops | what the origin says: [`HOPS_MAX`](crate::HOPS_MAX), or up to [`HOPS_LINEAR_MAX`] | lost |
//! | requests of one origin | [`OPEN_MAX`] | refused |
//! | answers that a node passes back | [`PASSED_MAX`] | busy |

use std::collections::BTreeMap;
use std::sync::Arc as Shared;

use keyspace::{Generation, KeyspaceId, NodeId, ShardId};

use crate::known::Known;
use crate::lookup::{Lookup, Outbox, Step};
use crate::message::Message;
use crate::point::Point;

pub mod word;

pub use word::{Form, Word};

/// The most hops of any request: a walk along a ring of so many.
pub const HOPS_LINEAR_MAX: u32 = 128 * 1024;

/// How many ticks an origin waits for an answer.
pub const PATIENCE_TICKS: u16 = 16;

/// How many ticks it waits after the first *busy*.
pub const BUSY_TICKS: u16 = 2;

/// How often a request begins.
pub const ATTEMPTS_MAX: u8 = 5;

/// The most requests that are open at one origin.
pub const OPEN_MAX: usize = 64 * 1024;

/// The most answers that one node passes back.
pub const PASSED_MAX: usize = 1024;

/// What to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The shard at whose table it begins; none: the node's.
    pub at: Option<ShardId>,
    /// The point's keyspace …
    pub keyspace: KeyspaceId,
    /// … and where on its circle.
    pub tail: Vec<u8>,
    /// How it goes from hop to hop.
    pub form: Form,
    /// How many hops it may make.
    pub hops_max: u32,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Too many are open here.
    Refused,
    /// No answer came, time and again.
    Silent,
    /// Nobody could say, time and again.
    Busy,
    /// It made as many hops as it may.
    Lost,
}

/// What became of a request, or was seen on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was found.
    Found {
        /// Which request.
        id: u64,
        /// Who owns the point: learn it.
        owner: Shared<Known>,
        /// Moves from shard to shard.
        hops: u32,
    },
    /// It was not.
    Failed {
        /// Which request.
        id: u64,
        /// Why.
        why: Failure,
    },
    /// Who was asked has said nothing: distrust it in the table where the request begins.
    Silent {
        /// Where it begins.
        at: Option<ShardId>,
        /// Who was asked.
        shard: ShardId,
        /// What was remembered of it.
        generation: Generation,
    },
}

/// The tables of one node.
pub trait Tables {
    /// The table of a shard, or the node's own.
    fn table(&self, shard: Option<ShardId>) -> Option<&dyn Lookup>;
}

/// A request that is not answered yet.
#[derive(Clone, Debug)]
struct Open {
    id: u64,
    request: Request,
    hops: u32,
    attempts: u8,
    /// Who was asked last; none while it waits to begin anew, or if a peer was asked.
    asked: Option<(ShardId, Generation)>,
    is_waiting: bool,
    ticks_left: u16,
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug)]
struct Passed {
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
    open: BTreeMap<u64, Open>,
    passed: BTreeMap<u64, Passed>,
}

impl Requests {
    /// None so far.
    pub fn new(node: NodeId) -> Self {
        Self { node, number: 0, ids: 0, open: BTreeMap::new(), passed: BTreeMap::new() }
    }

    /// How many requests of its own are open, and how many answers it passes back.
    pub fn counts(&self) -> (usize, usize) {
        (self.open.len(), self.passed.len())
    }

    /// Begins a request; answers its id.
    pub fn begin(
        &mut self,
        request: Request,
        tables: &impl Tables,
        out: &mut Outbox,
        events: &mut Vec<Event>,
    ) -> u64 {
        self.ids += 1;
        let id = self.ids;
        if self.open.len() >= OPEN_MAX {
            events.push(Event::Failed { id, why: Failure::Refused });
            return id;
        }
        let open = Open {
            id,
            request,
            hops: 0,
            attempts: 0,
            asked: None,
            is_waiting: false,
            ticks_left: 0,
        };
        self.start(open, tables, out, events);
        id
    }

    /// One unit of time passes.
    pub fn tick(&mut self, tables: &impl Tables, out: &mut Outbox, events: &mut Vec<Event>) {
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
                events.push(Event::Silent { at: open.request.at, shard, generation });
            }
            // At the next tick, when it is distrusted.
            self.wait(open, Failure::Silent, 1, events);
        }
    }

    /// Handles a word that has come for a request of this node or of another.
    pub fn step(
        &mut self,
        word: Word,
        tables: &impl Tables,
        out: &mut Outbox,
        events: &mut Vec<Event>,
    ) {
        let number = word.number();
        if matches!(word, Word::Find { .. }) {
            return self.asked(word, tables, out);
        }
        if let Some(passed) = self.passed.remove(&number) {
            return say(passed.origin, word.renumbered(passed.number), out);
        }
        let Some(open) = self.open.remove(&number) else { return };
        if open.is_waiting {
            self.open.insert(number, open);
            return;
        }
        match word {
            Word::Found { owner, hops, .. } => {
                events.push(Event::Found { id: open.id, owner, hops });
            }
            Word::Next { member, .. } => self.go_on(open, &member, out, events),
            Word::Busy { .. } => {
                let ticks = BUSY_TICKS << open.attempts;
                self.wait(open, Failure::Busy, ticks, events);
            }
            Word::Lost { .. } | Word::Find { .. } => {
                events.push(Event::Failed { id: open.id, why: Failure::Lost });
            }
        }
    }

    /// From the beginning.
    fn start(
        &mut self,
        mut open: Open,
        tables: &impl Tables,
        out: &mut Outbox,
        events: &mut Vec<Event>,
    ) {
        open.hops = 0;
        let Request { at, keyspace, tail, .. } = &open.request;
        let step = tables.table(*at).map(|table| table.next(Point { keyspace: *keyspace, tail }));
        match step {
            Some(Step::Owner(owner)) if Some(owner.shard()) == *at => {
                let owner = owner.clone();
                events.push(Event::Found { id: open.id, owner, hops: 0 });
            }
            Some(Step::Owner(member) | Step::Closer(member)) => {
                let member = member.clone();
                self.go_on(open, &member, out, events);
            }
            Some(Step::Ask(peers)) if !peers.is_empty() => {
                let peer = peers[usize::from(open.attempts) % peers.len()];
                open.asked = None;
                self.ask(open, peer, None, out, events);
            }
            Some(Step::Ask(_)) | None => {
                let ticks = BUSY_TICKS << open.attempts;
                self.wait(open, Failure::Busy, ticks, events);
            }
        }
    }

    /// Asks a member next.
    fn go_on(&mut self, mut open: Open, to: &Known, out: &mut Outbox, events: &mut Vec<Event>) {
        let Some(node) = to.leader().or_else(|| to.descriptor().node_to_ask()) else {
            return self.wait(open, Failure::Busy, BUSY_TICKS, events);
        };
        open.asked = Some((to.shard(), to.generation()));
        self.ask(open, node, Some(to.shard()), out, events);
    }

    fn ask(
        &mut self,
        mut open: Open,
        node: NodeId,
        to: Option<ShardId>,
        out: &mut Outbox,
        events: &mut Vec<Event>,
    ) {
        if open.hops >= open.request.hops_max {
            return events.push(Event::Failed { id: open.id, why: Failure::Lost });
        }
        (open.hops, open.is_waiting, open.ticks_left) = (open.hops + 1, false, PATIENCE_TICKS);
        let Request { keyspace, ref tail, form, hops_max, .. } = open.request;
        let (number, hops, tail) = (self.next_number(), open.hops, tail.clone());
        let origin = self.node;
        let find = Word::Find { number, to, form, origin, hops, hops_max, keyspace, tail };
        say(node, find, out);
        self.open.insert(number, open);
    }

    /// Begins anew after some ticks, unless that was often enough.
    fn wait(&mut self, mut open: Open, why: Failure, ticks: u16, events: &mut Vec<Event>) {
        open.attempts += 1;
        if open.attempts >= ATTEMPTS_MAX {
            return events.push(Event::Failed { id: open.id, why });
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
    fn asked(&mut self, find: Word, tables: &impl Tables, out: &mut Outbox) {
        let Word::Find { number, to, form, origin, hops, hops_max, keyspace, tail } = find else {
            return;
        };
        let point = Point { keyspace, tail: &tail };
        let step = tables.table(to).map(|table| table.next(point));
        let answer = match step {
            Some(Step::Owner(owner)) if Some(owner.shard()) == to => {
                Word::Found { number, hops, owner: owner.clone() }
            }
            Some(Step::Owner(member) | Step::Closer(member)) => {
                let node = member.leader().or_else(|| member.descriptor().node_to_ask());
                match (form, node) {
                    (_, None) => Word::Busy { number },
                    (Form::Iterative, _) => Word::Next { number, member: member.clone() },
                    _ if hops >= hops_max => Word::Lost { number },
                    (Form::SemiRecursive, _) if self.passed.len() >= PASSED_MAX => {
                        Word::Busy { number }
                    }
                    (form, Some(node)) => {
                        let to = Some(member.shard());
                        let (number, origin) = match form {
                            Form::SemiRecursive => (self.pass(origin, number), self.node),
                            _ => (number, origin),
                        };
                        let hops = hops + 1;
                        let find =
                            Word::Find { number, to, form, origin, hops, hops_max, keyspace, tail };
                        return say(node, find, out);
                    }
                }
            }
            // Peers are for who begins: here they could only lead around.
            Some(Step::Ask(_)) | None => Word::Busy { number },
        };
        say(origin, answer, out);
    }

    /// Remembers whom the answer is for; answers the number it is asked under here.
    fn pass(&mut self, origin: NodeId, number: u64) -> u64 {
        let mine = self.next_number();
        self.passed.insert(mine, Passed { origin, number, ticks_left: PATIENCE_TICKS });
        mine
    }
}

fn say(to: NodeId, word: Word, out: &mut Outbox) {
    out.push((to, Message::Request(word)));
}

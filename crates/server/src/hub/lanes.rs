//! Lanes that any thread may step.
//!
//! A lane is single-threaded, but not tied to a thread: whoever has work for it puts the work into
//! its inbox and, if nobody is stepping the lane, steps it there and then. If somebody is, that one
//! finds the work before it leaves (flat combining, Hendler et al., SPAA 2010). So a request costs
//! no hand-over between threads unless two of them want the same lane at the same moment.

use std::time::Instant;

use keyspace::ShardId;
use node::control::CONTROL;
use node::executor::admission::{self, Admission, log_bytes, unneeded};
use node::executor::{Answer, Effects, Ended, Input, Origin, ShardExecutor};
use node::replica::ShardStart;
use parking_lot::{Mutex, MutexGuard};

use super::log::Append;
use super::mailbag::Mailbags;
use super::{Hub, NOBODY, News, SIDE_DOOR, boot_nanos};

/// Bytes of commands that one turn takes from the inbox, but for its first. All records of a turn
/// are one group of the log, and a group has its limit.
const TURN_BYTES_MAX: u64 = 256 << 20;

/// One lane and its inbox.
pub struct LaneCell {
    number: usize,
    inbox: Mutex<Vec<Input>>,
    core: Mutex<Core>,
}

struct Core {
    lane: ShardExecutor,
    effects: Effects,
    bags: Mailbags,
    taken: Vec<Input>,
    /// Reserved in the log for what the lane has been given and has no records of yet.
    credit_bytes: u64,
}

impl LaneCell {
    /// A cell around a lane.
    pub fn new(number: usize, lane: ShardExecutor) -> Self {
        let (effects, bags, taken) = Default::default();
        let core = Core { lane, effects, bags, taken, credit_bytes: 0 };
        Self { number, inbox: Mutex::new(Vec::new()), core: Mutex::new(core) }
    }

    /// Hands over inputs, and steps the lane unless another thread does. Answers for `origin` that
    /// are there at once go to `answers`; all others to their mailboxes.
    pub fn submit(
        &self,
        hub: &Hub,
        inputs: impl IntoIterator<Item = Input>,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) {
        self.inbox.lock().extend(inputs);
        self.run(hub, origin, answers);
    }

    /// Steps the lane until its inbox is empty, or another thread is found to do so.
    pub fn run(&self, hub: &Hub, origin: Origin, answers: &mut Vec<Answer>) {
        loop {
            let Some(core) = self.core.try_lock() else { return };
            self.drain(core, hub, origin, answers);
            hub.spread_news();
            if self.inbox.lock().is_empty() {
                return;
            }
        }
    }

    /// Gives the lane a shard that was recovered. [`Self::run`] it when it has all of them.
    pub fn adopt(&self, start: ShardStart) {
        self.core.lock().lane.adopt(start);
    }

    /// Looks at the lane, between two turns, and steps it: what came meanwhile, whose senders found
    /// it taken, waits for nobody else; and what the look has left there is in the log.
    pub fn with<R>(&self, hub: &Hub, look: impl FnOnce(&mut ShardExecutor) -> R) -> R {
        let mut core = self.core.lock();
        let result = look(&mut core.lane);
        self.drain(core, hub, NOBODY, &mut Vec::new());
        hub.spread_news();
        if !self.inbox.lock().is_empty() {
            self.run(hub, NOBODY, &mut Vec::new());
        }
        result
    }

    /// Before any shard: what was recovered of replicas that had ended.
    pub fn adopt_ended(&self, shard: ShardId, ended: Ended) {
        self.core.lock().lane.adopt_ended(shard, ended);
    }

    fn drain(
        &self,
        mut core: MutexGuard<'_, Core>,
        hub: &Hub,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) {
        loop {
            self.take(&mut core.taken);
            let reserved = self.admit(hub, &mut core.taken, origin, answers);
            core.lane.set_full(reserved.is_none());
            core.credit_bytes += reserved.unwrap_or(0);
            self.turn(&mut core, hub, origin, answers);
            // However much comes, news are not held up by it: whoever has called comes back when
            // they are spread.
            if self.inbox.lock().is_empty() || hub.has_news() {
                return;
            }
        }
    }

    /// Takes what one turn may do from the front of the inbox.
    fn take(&self, taken: &mut Vec<Input>) {
        let mut inbox = self.inbox.lock();
        std::mem::swap(taken, &mut *inbox);
        let mut bytes = 0;
        let end = taken.iter().position(|input| {
            bytes += log_bytes(input);
            bytes > TURN_BYTES_MAX
        });
        if let Some(end) = end {
            // Nobody but the one who steps the lane takes from the inbox: the order stays.
            inbox.extend(taken.drain(end.max(1)..));
        }
    }

    /// Reserves room in the log for what is to be proposed, and says how much. Without room,
    /// refuses what is to be proposed; readers are let in, for most of them need none.
    fn admit(
        &self,
        hub: &Hub,
        inputs: &mut Vec<Input>,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) -> Option<u64> {
        let bytes: u64 = inputs.iter().map(log_bytes).sum();
        if bytes == 0 && !hub.log.facts().full {
            return Some(0);
        }
        match hub.log.reserve(bytes) {
            Ok(()) => return Some(bytes),
            Err(storage::Error::Full { .. }) => {}
            Err(error) => hub.fatal("the log", &error),
        }
        for input in std::mem::take(inputs) {
            match admission::without_room(input) {
                Admission::Taken(input) => inputs.push(input),
                Admission::Refused(answer) => hub.deliver(answer, origin, answers),
                Admission::Unable(node, letter) => hub.answer_unable(node, &letter),
                Admission::LeftOut => {}
            }
        }
        None
    }

    fn turn(&self, core: &mut Core, hub: &Hub, origin: Origin, answers: &mut Vec<Answer>) {
        let Core { lane, effects, bags, taken, credit_bytes } = core;
        lane.observe(boot_nanos());
        let mut takes_in = None;
        for input in taken.drain(..) {
            if let Input::Absorb { left, state: Some(_) } = &input {
                takes_in = Some((*left, Instant::now()));
            }
            lane.accept(input);
        }
        loop {
            lane.turn(effects);
            if let Some((left, since)) = takes_in.take() {
                let ms = since.elapsed().as_secs_f64() * 1e3;
                tracing::info!("shard {left} has its neighbour's keys, after {ms:.1} ms");
            }
            if effects.is_empty() {
                break;
            }
            if !effects.records.is_empty() {
                let credit_bytes = unneeded(lane, credit_bytes);
                let append = Append {
                    lane: self.number,
                    ticket: effects.ticket,
                    sync: effects.sync,
                    interval: hub.has_interval_keyspaces(),
                    credit_bytes,
                };
                match hub.log.append(&mut effects.records, &append) {
                    Ok(lsn) => lane.accept(Input::Written { ticket: append.ticket, lsn }),
                    Err(error) => hub.fatal("the log", &error),
                }
            }
            self.publish(effects, hub, origin, answers);
            hub.post(effects, bags);
            effects.clear();
        }
        if *credit_bytes > 0 {
            let unneeded = unneeded(lane, credit_bytes);
            if unneeded > 0 {
                hub.log.release(unneeded);
            }
        }
    }

    fn publish(&self, effects: &mut Effects, hub: &Hub, origin: Origin, answers: &mut Vec<Answer>) {
        effects.events.drain(..).for_each(|what| hub.happened(what));
        let news = effects.changes.drain(..).map(News::Catalogue);
        let news = news.chain(effects.safe_points.drain(..).map(|(k, t)| News::SafePoint(k, t)));
        hub.post_news(news);
        let halves = effects.halves.drain(..).map(|half| News::Half(Box::new(half)));
        hub.post_news(halves.chain(effects.moved.drain(..).map(News::Rerouted)));
        post_merges(effects, hub);
        for stuck in effects.stuck.drain(..) {
            // Found again as long as it is there.
            let _is_read = hub.mailboxes[0].post(super::mail::Mail::Stuck(stuck));
        }
        for answer in effects.answers.drain(..) {
            // Whoever changed the catalogue is told when the change can be used. And who is called
            // back may ask lanes at once: not while this one is held.
            let is_call = answer.origin() == SIDE_DOOR || answer.origin() == CONTROL;
            if is_call || matches!(answer, Answer::Catalogue { .. }) {
                hub.post_news([News::Answer(answer)]);
            } else {
                hub.deliver(answer, origin, answers);
            }
        }
    }
}

/// What lanes want of each other, and of other nodes, when two shards become one.
fn post_merges(effects: &mut Effects, hub: &Hub) {
    hub.post_news(effects.words.drain(..).map(|(shard, word)| News::Word(shard, word)));
    hub.post_news(effects.absorbing.drain(..).map(News::Absorbing));
    hub.post_news(effects.given.drain(..).map(News::Given));
    let left = effects.bequeathed.drain(..).map(|left| News::Bequeathed(Box::new(left)));
    hub.post_news(left);
}

//! Join, stabilise and rectify: what a member does at a tick, and at a message.

use std::sync::Arc as Shared;

use super::message::{RingMessage, fitting};
use super::place::{Entry, between, is_superseded_by, may_be_at, refresh};
use super::{Ring, SILENCE_TICKS, SUSPECT_PINGS_MAX, SUSPECT_TICKS, SUSPECTS_MAX};
use crate::known_shard::KnownShard;
use crate::lookup::Outbox;

/// What was asked, of whom.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    number: u64,
    ticks_left: u8,
    pub(super) asked: Shared<KnownShard>,
    about: QuestionKind,
}

/// Why a member asks another for its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuestionKind {
    /// It has no list, and looks for the member that it comes after.
    Join,
    /// It has taken one for dead who is not, and looks for its own place from there: there may be
    /// two rings by now.
    Rejoin,
    /// The first question of a stabilise: to the head of the list.
    Head,
    /// The second: to the head's predecessor, which may be closer.
    Closer,
}

/// Somebody claims to be the predecessor, and the one who was is asked whether it is there.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    number: u64,
    ticks_left: u8,
    pub(super) candidate: Shared<KnownShard>,
}

/// A member that was taken for dead.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    pub(super) known: Shared<KnownShard>,
    pings_left: u8,
}

impl Ring {
    /// One unit of time passes.
    pub(crate) fn tick(&mut self, out: &mut Outbox) {
        self.tick_doubt(out);
        self.tick_suspects(out);
        match &mut self.question {
            None => self.stabilise(out),
            Some(question) if question.ticks_left > 1 => {
                question.ticks_left -= 1;
                let (number, asked) = (question.number, question.asked.clone());
                self.send_to(&asked, RingMessage::Ask { number }, out);
            }
            Some(_) => self.give_up(out),
        }
    }

    /// Begins a stabilise; or a join, if the list is empty and somebody is known to ask.
    fn stabilise(&mut self, out: &mut Outbox) {
        if let Some(guide) = self.guide.take().filter(|_| self.has_joined()) {
            return self.ask(QuestionKind::Rejoin, guide, out);
        }
        let before = self.predecessor.clone();
        match self.successors.first() {
            None => before.into_iter().for_each(|guide| self.ask(QuestionKind::Join, guide, out)),
            // It is alone so far, so its predecessor is its successor, too.
            Some(head) if self.is_me(head.known()) => {
                before.into_iter().for_each(|other| self.ask(QuestionKind::Closer, other, out));
            }
            Some(head) => self.ask(QuestionKind::Head, head.known().clone(), out),
        }
    }

    fn ask(&mut self, about: QuestionKind, asked: Shared<KnownShard>, out: &mut Outbox) {
        let number = self.number();
        self.send_to(&asked, RingMessage::Ask { number }, out);
        let ticks_left = SILENCE_TICKS;
        self.question = Some(Box::new(Question { number, ticks_left, asked, about }));
    }

    /// Who was asked is taken for dead.
    fn give_up(&mut self, out: &mut Outbox) {
        let Question { asked: dead, about, .. } = *self.question.take().expect("there is one");
        if about == QuestionKind::Join {
            // It knows nobody else, and goes on asking.
            return;
        }
        self.suspect(dead.clone());
        let was_before = self.predecessor.as_ref().is_some_and(|p| p.shard() == dead.shard());
        match about {
            QuestionKind::Join | QuestionKind::Rejoin => {}
            QuestionKind::Head => {
                self.successors.retain(|entry| entry.shard() != dead.shard());
                if self.successors.is_empty() {
                    // The last hope: from who stands before it the way leads back to who is next.
                    let before = self.predecessor.clone().filter(|_| !was_before);
                    self.successors = vec![Entry::new(before.unwrap_or(dead))];
                }
                self.stabilise(out);
            }
            QuestionKind::Closer => match self.head().map(|head| head.known().clone()) {
                Some(head) => self.send_to(&head, RingMessage::Notify, out),
                None if was_before => self.predecessor = None,
                None => {}
            },
        }
    }

    fn suspect(&mut self, known: Shared<KnownShard>) {
        self.suspects.retain(|suspect| suspect.known.shard() != known.shard());
        if self.suspects.len() == SUSPECTS_MAX {
            self.suspects.remove(0);
        }
        self.suspects.push(Suspect { known, pings_left: SUSPECT_PINGS_MAX });
    }

    /// Whether it was taken for dead, and has not spoken since.
    fn is_suspected(&self, known: &KnownShard) -> bool {
        self.suspects.iter().any(|suspect| suspect.known.shard() == known.shard())
    }

    /// Now and then one of those taken for dead is pinged, in turn.
    fn tick_suspects(&mut self, out: &mut Outbox) {
        self.suspect_ticks = self.suspect_ticks.saturating_sub(1);
        if self.suspect_ticks > 0 || self.suspects.is_empty() {
            return;
        }
        self.suspect_ticks = SUSPECT_TICKS;
        let mut suspect = self.suspects.remove(0);
        self.send_to(&suspect.known, RingMessage::Ping { number: 0 }, out);
        suspect.pings_left -= 1;
        if suspect.pings_left > 0 {
            self.suspects.push(suspect);
        }
    }

    fn tick_doubt(&mut self, out: &mut Outbox) {
        let Some(doubt) = &mut self.doubt else { return };
        doubt.ticks_left -= 1;
        let (number, ticks_left) = (doubt.number, doubt.ticks_left);
        match self.predecessor.clone() {
            Some(before) if ticks_left > 0 => {
                self.send_to(&before, RingMessage::Ping { number }, out)
            }
            before => {
                before.into_iter().for_each(|before| self.suspect(before));
                self.predecessor = self.doubt.take().map(|doubt| doubt.candidate);
            }
        }
    }

    /// Handles a word that is for every ring.
    pub(crate) fn step(&mut self, from: Shared<KnownShard>, word: RingMessage, out: &mut Outbox) {
        match word {
            // Who has not joined is not asked for anything but whether it is there.
            RingMessage::Ask { .. } | RingMessage::Notify if !self.has_joined() => {}
            RingMessage::Ask { number } => {
                let predecessor = self.predecessor.clone();
                let (predecessor, successors) = fitting(self.me(), predecessor, self.list());
                self.send_to(
                    &from,
                    RingMessage::Neighbours { number, predecessor, successors },
                    out,
                );
            }
            RingMessage::Neighbours { number, predecessor, successors } => {
                self.answered(&from, number, predecessor, &successors, out);
            }
            RingMessage::Notify => self.rectify(from, out),
            RingMessage::Ping { number } => self.send_to(&from, RingMessage::Pong { number }, out),
            RingMessage::Pong { number } => self.is_there(number),
            // Those of fingers, to a table that has none.
            RingMessage::Find { .. } | RingMessage::Found { .. } => {}
            RingMessage::AskFinger { .. } | RingMessage::Finger { .. } => {}
        }
    }

    /// An answer; nothing if it is not to the open question.
    fn answered(
        &mut self,
        from: &Shared<KnownShard>,
        number: u64,
        predecessor: Option<Shared<KnownShard>>,
        list: &[Shared<KnownShard>],
        out: &mut Outbox,
    ) {
        let is_it = |question: &mut Box<Question>| {
            let asked = &question.asked;
            let is_from = asked.shard() == from.shard() && may_be_at(asked, from);
            question.number == number && is_from
        };
        let Some(question) = self.question.take_if(is_it) else { return };
        let about = question.about;
        let (here, there) = (self.me().clone(), from.arc().start().tail());
        let me = here.arc().start().tail();
        let is_here = |known: &KnownShard| known.arc().keyspace() == here.arc().keyspace();
        match about {
            QuestionKind::Join | QuestionKind::Rejoin => {
                let closer = |known: &&Shared<KnownShard>| {
                    is_here(known) && between(there, known.arc().start().tail(), me)
                };
                match list.iter().rev().find(closer).cloned() {
                    Some(closer) => self.ask(about, closer, out),
                    None if about == QuestionKind::Rejoin => {
                        self.rings_met(list.iter().find(|known| is_here(known)), out);
                    }
                    None => self.adopt(from, list),
                }
            }
            QuestionKind::Head => {
                self.take_list(from, list);
                let closer = predecessor.filter(|p| {
                    let is_closer = between(me, p.arc().start().tail(), there);
                    let is_dead = self.is_suspected(p) || is_superseded_by(p, self.me());
                    is_here(p) && is_closer && !self.is_me(p) && !is_dead
                });
                match closer {
                    Some(closer) => self.ask(QuestionKind::Closer, closer, out),
                    None => self.send_to(from, RingMessage::Notify, out),
                }
            }
            QuestionKind::Closer => {
                let head = self.successors.first().map(Entry::place).unwrap_or(me);
                if between(me, there, head) {
                    self.take_list(from, list);
                }
                self.send_to(from, RingMessage::Notify, out);
            }
        }
    }

    /// Whom a ring, which may be another, has after this member's place: it may be closer than the
    /// head, or hear for the first time that this member stands before it.
    fn rings_met(&mut self, next: Option<&Shared<KnownShard>>, out: &mut Outbox) {
        if let Some(next) = next.filter(|next| !self.is_me(next)) {
            self.offer(next);
            self.send_to(next, RingMessage::Notify, out);
        }
    }

    /// Joins after `left`. Nothing is adopted of a list that is empty, or that has others between
    /// the two; `left` is then asked.
    pub(crate) fn adopt(&mut self, left: &Shared<KnownShard>, list: &[Shared<KnownShard>]) {
        self.predecessor = Some(left.clone());
        let (from, me) = (left.arc().start().tail(), self.me.place());
        let is_closer = |known: &Shared<KnownShard>| between(from, known.arc().start().tail(), me);
        if list.iter().any(is_closer) {
            return;
        }
        // A list that has come around to `left` goes on from there: to who joins.
        let around = list.iter().any(|known| known.shard() == left.shard());
        let others = list.iter().filter(|known| !self.is_me(known)).cloned();
        let others = others.chain(around.then(|| self.me().clone()));
        self.successors = self.chopped(others.collect());
        if !self.has_joined() && !list.is_empty() {
            // It knows no other live member: `left` is before it, and others will hear of it.
            self.successors = self.chopped(vec![left.clone()]);
        }
    }

    /// `head`, then its list, are the list now, as far as it reaches.
    fn take_list(&mut self, head: &Shared<KnownShard>, list: &[Shared<KnownShard>]) {
        let all = [head].into_iter().chain(list).cloned();
        self.successors = self.chopped(all.collect());
    }

    /// As many of these as make a list: strictly rising, up to the member itself or the limit.
    fn chopped(&self, all: Vec<Shared<KnownShard>>) -> Vec<Entry> {
        let mut taken: Vec<Entry> = Vec::with_capacity(self.length());
        for mut known in all {
            if taken.len() == self.length() {
                break;
            }
            if self.is_me(&known) {
                taken.push(self.me.clone());
                break;
            }
            let old = self.successors.iter().find(|entry| entry.shard() == known.shard());
            old.into_iter().for_each(|old| refresh(&mut known, old.known()));
            // Out of date, or taken for dead: what comes after it may be right.
            let gone = |entry: &Entry| is_superseded_by(&known, entry.known());
            if known.arc().keyspace() != self.me().arc().keyspace()
                || gone(&self.me)
                || taken.iter().chain(&self.successors).any(gone)
                || self.is_suspected(&known)
            {
                continue;
            }
            let last = taken.last().unwrap_or(&self.me).place();
            if !between(last, known.arc().start().tail(), self.me.place()) {
                break;
            }
            taken.push(Entry::new(known));
        }
        taken
    }

    /// Somebody believes that it stands before this member.
    fn rectify(&mut self, from: Shared<KnownShard>, out: &mut Outbox) {
        let Some(before) =
            self.predecessor.clone().filter(|before| !is_superseded_by(before, &from))
        else {
            // There was no predecessor, or `from` has absorbed it.
            (self.predecessor, self.doubt) = (Some(from), None);
            return;
        };
        if before.shard() == from.shard() {
            return;
        }
        let place = from.arc().start().tail();
        match &mut self.doubt {
            Some(doubt)
                if between(doubt.candidate.arc().start().tail(), place, self.me.place()) =>
            {
                doubt.candidate = from;
            }
            Some(_) => {}
            None => {
                let number = self.number();
                self.send_to(&before, RingMessage::Ping { number }, out);
                let ticks_left = SILENCE_TICKS;
                self.doubt = Some(Box::new(Doubt { number, ticks_left, candidate: from }));
            }
        }
    }

    /// The predecessor answers: it stays, unless the other one is closer.
    fn is_there(&mut self, number: u64) {
        let Some(doubt) = self.doubt.take_if(|doubt| doubt.number == number) else { return };
        let place = doubt.candidate.arc().start().tail();
        let stays = self
            .predecessor
            .as_ref()
            .is_some_and(|before| !between(before.arc().start().tail(), place, self.me.place()));
        if !stays {
            self.predecessor = Some(doubt.candidate);
        }
    }

    /// Who comes first in the list is another now: a question that is open is of no use.
    pub(super) fn head_changed(&mut self) {
        self.question = None;
    }

    /// Forgets who claims to be the predecessor, if a later descriptor says that it is gone.
    pub(super) fn end_superseded_doubt(&mut self, by: &KnownShard) {
        self.doubt.take_if(|doubt| is_superseded_by(&doubt.candidate, by));
    }
}

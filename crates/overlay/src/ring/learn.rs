//! What a member learns from elsewhere: descriptors, leaders, drops, silent members.

use std::sync::Arc as Shared;

use keyspace::{Generation, ShardId};

use super::place::{Entry, between, is_superseded_by, may_be_at, refresh};
use super::{DISTRUSTED_MAX, Ring};
use crate::known_shard::{Hint, KnownShard};
use crate::lookup::{LearnOutcome, Update};

impl Ring {
    /// Takes news; the list and the fingers are refreshed, and lose who is gone.
    pub(crate) fn learn(&mut self, news: Update) -> LearnOutcome {
        match news {
            Update::Shard(known) => self.learn_shard(known),
            Update::Leader { shard, hint } => self.learn_leader(shard, hint),
            Update::Dropped(keyspace) if keyspace == self.me().arc().keyspace() => {
                (self.successors, self.fingers) = (Vec::new(), Vec::new());
                (self.predecessor, self.guide) = (None, None);
                (self.question, self.doubt) = (None, None);
                self.suspects = Vec::new();
                LearnOutcome::New
            }
            Update::Dropped(_) => LearnOutcome::Unknown,
        }
    }

    fn learn_shard(&mut self, known: Shared<KnownShard>) -> LearnOutcome {
        if known.arc().keyspace() != self.me().arc().keyspace() {
            return LearnOutcome::Unknown;
        }
        if !known.fits() {
            return LearnOutcome::TooLarge;
        }
        let by = self.find(known.shard());
        if by.is_some_and(|by| !may_be_at(by, &known)) {
            return LearnOutcome::Stale;
        }
        let by = by.map(|by| (by.generation(), by.term()));
        let version = (known.generation(), known.term());
        if by.is_some_and(|(generation, _)| known.generation() < generation) {
            self.refresh_all(&known);
            return LearnOutcome::Stale;
        }
        let gone = |entry: &Entry| is_superseded_by(&known, entry.known());
        let is_stale = gone(&self.me)
            || self.successors.iter().any(gone)
            || self.fingers.iter().any(|finger| gone(&finger.entry));
        if is_stale {
            return LearnOutcome::Stale;
        }
        self.drop_superseded(&known);
        self.refresh_all(&known);
        self.become_sole_member();
        let taken = self.offer(&known);
        match by {
            None if !taken => LearnOutcome::Unknown,
            None => LearnOutcome::New,
            Some((generation, _)) if version.0 > generation => LearnOutcome::New,
            Some((_, term)) if version.1 > term => LearnOutcome::Leader,
            Some(_) if taken => LearnOutcome::New,
            Some(_) => LearnOutcome::Known,
        }
    }

    fn learn_leader(&mut self, shard: ShardId, hint: Hint) -> LearnOutcome {
        let Some(known) = self.find(shard) else { return LearnOutcome::Unknown };
        match hint.term.cmp(&known.term()) {
            std::cmp::Ordering::Less => LearnOutcome::Stale,
            std::cmp::Ordering::Equal => LearnOutcome::Known,
            std::cmp::Ordering::Greater => {
                let mut news = known.clone();
                Shared::make_mut(&mut news).take_hint(hint);
                self.refresh_all(&news);
                self.trust(shard);
                LearnOutcome::Leader
            }
        }
    }

    /// Everybody whom it goes to or names.
    fn remembered(&self) -> impl Iterator<Item = &Shared<KnownShard>> {
        let fingers = self.fingers.iter().map(|finger| &finger.entry);
        let listed = self.successors.iter().chain(fingers).map(Entry::known);
        listed.chain(&self.predecessor)
    }

    fn find(&self, shard: ShardId) -> Option<&Shared<KnownShard>> {
        let open = self.question.as_ref().map(|question| &question.asked);
        let candidate = self.doubt.as_ref().map(|doubt| &doubt.candidate);
        let suspects = self.suspects.iter().map(|suspect| &suspect.known);
        let others = open.into_iter().chain(candidate).chain(&self.guide).chain(suspects);
        let mut all = [self.me.known()].into_iter().chain(self.remembered()).chain(others);
        all.find(|known| known.shard() == shard)
    }

    /// Everything that is remembered of one shard becomes as new as this.
    fn refresh_all(&mut self, news: &Shared<KnownShard>) {
        let fingers = self.fingers.iter_mut().map(|finger| &mut finger.entry);
        let listed = self.successors.iter_mut().chain(fingers).chain([&mut self.me]);
        listed.filter(|entry| entry.shard() == news.shard()).for_each(|entry| {
            entry.refresh(news);
        });
        let asked = self.question.as_mut().map(|question| &mut question.asked);
        let candidate = self.doubt.as_mut().map(|doubt| &mut doubt.candidate);
        let others = self.suspects.iter_mut().map(|suspect| &mut suspect.known);
        let others = others.chain(&mut self.predecessor).chain(&mut self.guide);
        let others = others.chain(asked).chain(candidate);
        others.filter(|known| known.shard() == news.shard()).for_each(|known| {
            refresh(known, news);
        });
    }

    /// Forgets everybody whose place is another's, by a later descriptor.
    fn drop_superseded(&mut self, by: &Shared<KnownShard>) {
        let head = self.successors.first().map(Entry::shard);
        let me = self.me.shard();
        self.successors.retain(|entry| entry.shard() == me || !is_superseded_by(entry.known(), by));
        self.fingers.retain(|finger| !is_superseded_by(finger.entry.known(), by));
        self.suspects.retain(|suspect| !is_superseded_by(&suspect.known, by));
        let lost = self.predecessor.take_if(|before| is_superseded_by(before, by)).is_some();
        // A shard that has not joined yet asks the one that absorbed the member it asked before.
        if lost && !self.has_joined() && !self.is_me(by) {
            self.predecessor = Some(by.clone());
        }
        self.guide.take_if(|guide| is_superseded_by(guide, by));
        self.end_superseded_doubt(by);
        if self.successors.first().map(Entry::shard) != head {
            self.head_changed();
        }
    }

    /// Who owns the whole circle is the only member.
    pub(super) fn become_sole_member(&mut self) {
        if self.me().arc().is_whole() && self.successors.is_empty() {
            self.successors = vec![self.me.clone()];
        }
    }

    /// A member that may belong into the list: it is put in its place, if that is before one who is
    /// listed. If nobody is, it is whom to ask. Answers whether it was of use.
    pub(super) fn offer(&mut self, known: &Shared<KnownShard>) -> bool {
        if self.is_me(known) {
            return false;
        }
        if self.successors.is_empty() {
            let asks = self.predecessor.is_none();
            self.predecessor.get_or_insert_with(|| known.clone());
            return asks;
        }
        let (me, place) = (self.me.place(), known.arc().start().tail());
        let is_listed = self.successors.iter().any(|entry| entry.shard() == known.shard());
        let after = |entry: &Entry| between(me, place, entry.place());
        let at = self.successors.iter().position(after).filter(|_| !is_listed && place != me);
        let Some(at) = at else { return false };
        if self.successors[..at].iter().any(|entry| entry.place() == place) {
            return false;
        }
        self.successors.insert(at, Entry::new(known.clone()));
        self.successors.truncate(self.length());
        if at == 0 {
            self.head_changed();
        }
        true
    }

    /// A member has spoken: it is alive, and knows itself best.
    pub(crate) fn hear(&mut self, from: &Shared<KnownShard>) {
        self.trust(from.shard());
        self.refresh_all(from);
        let count = self.suspects.len();
        self.suspects.retain(|suspect| suspect.known.shard() != from.shard());
        if self.suspects.len() < count {
            self.learn_shard(from.clone());
            self.guide = Some(from.clone());
        }
    }

    /// A member did not answer. This one avoids it until it speaks, or until [`DISTRUSTED_MAX`]
    /// later ones push it out.
    pub(crate) fn mark_unreachable(&mut self, shard: ShardId) {
        if shard == self.me.shard() || self.distrusted.contains(&shard) {
            return;
        }
        if self.distrusted.len() == DISTRUSTED_MAX {
            self.distrusted.remove(0);
        }
        self.distrusted.push(shard);
    }

    /// Another has named a member: it is gone to again.
    pub(crate) fn trust(&mut self, shard: ShardId) {
        self.distrusted.retain(|other| *other != shard);
    }

    /// Whether this generation of a shard is remembered, in the list or by a finger: what it had at
    /// different times may stand in both.
    pub(crate) fn remembers(&self, shard: ShardId, generation: Generation) -> bool {
        let mut known = self.remembered();
        known.any(|known| (known.shard(), known.generation()) == (shard, generation))
    }
}

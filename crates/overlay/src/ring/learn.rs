//! What a member takes from elsewhere: descriptors, leaders, who was dropped, who is not trusted.

use std::sync::Arc as Shared;

use keyspace::ShardId;

use super::place::{Entry, between, is_gone, refresh};
use super::{DISTRUSTED_MAX, Ring};
use crate::known::{Hint, Known};
use crate::lookup::{Learnt, News};

impl Ring {
    /// Takes news; `fingers` are refreshed, and lose who is gone, as the list does.
    pub(crate) fn learn(&mut self, news: News, fingers: &mut Vec<Entry>) -> Learnt {
        match news {
            News::Shard(known) => self.learn_shard(known, fingers),
            News::Leader { shard, hint } => self.learn_leader(shard, hint, fingers),
            News::Dropped(keyspace) if keyspace == self.me().arc().keyspace() => {
                *fingers = Vec::new();
                (self.successors, self.suspects) = (Vec::new(), Vec::new());
                (self.predecessor, self.guide) = (None, None);
                (self.question, self.doubt) = (None, None);
                Learnt::New
            }
            News::Dropped(_) => Learnt::Unknown,
        }
    }

    fn learn_shard(&mut self, known: Shared<Known>, fingers: &mut Vec<Entry>) -> Learnt {
        if known.arc().keyspace() != self.me().arc().keyspace() {
            return Learnt::Unknown;
        }
        if !known.fits() {
            return Learnt::TooLarge;
        }
        let by = self.versions_of(known.shard(), fingers);
        let version = (known.generation(), known.term());
        if by.is_some_and(|(generation, _)| known.generation() < generation) {
            self.refresh_all(&known, fingers);
            return Learnt::Stale;
        }
        let gone = |entry: &Entry| is_gone(&known, entry.known());
        if gone(&self.me) || self.successors.iter().chain(&*fingers).any(gone) {
            return Learnt::Stale;
        }
        self.drop_gone(&known, fingers);
        self.refresh_all(&known, fingers);
        self.be_alone_if_whole();
        let taken = self.offer(&known);
        match by {
            None if !taken => Learnt::Unknown,
            None => Learnt::New,
            Some((generation, _)) if version.0 > generation => Learnt::New,
            Some((_, term)) if version.1 > term => Learnt::Leader,
            Some(_) if taken => Learnt::New,
            Some(_) => Learnt::Known,
        }
    }

    fn learn_leader(&mut self, shard: ShardId, hint: Hint, fingers: &mut [Entry]) -> Learnt {
        let Some(known) = self.find(shard, fingers) else { return Learnt::Unknown };
        match hint.term.cmp(&known.term()) {
            std::cmp::Ordering::Less => Learnt::Stale,
            std::cmp::Ordering::Equal => Learnt::Known,
            std::cmp::Ordering::Greater => {
                let mut news = known.clone();
                Shared::make_mut(&mut news).take_hint(hint);
                self.refresh_all(&news, fingers);
                self.trust(shard);
                Learnt::Leader
            }
        }
    }

    fn find<'a>(&'a self, shard: ShardId, fingers: &'a [Entry]) -> Option<&'a Shared<Known>> {
        let listed = [&self.me].into_iter().chain(&self.successors).chain(fingers);
        let mut all = listed.map(Entry::known).chain(&self.predecessor);
        all.find(|known| known.shard() == shard)
    }

    fn versions_of(
        &self,
        shard: ShardId,
        fingers: &[Entry],
    ) -> Option<(keyspace::Generation, u64)> {
        self.find(shard, fingers).map(|known| (known.generation(), known.term()))
    }

    /// Everything that is remembered of one shard becomes as new as this.
    fn refresh_all(&mut self, news: &Shared<Known>, fingers: &mut [Entry]) {
        let listed = self.successors.iter_mut().chain(fingers).chain([&mut self.me]);
        listed.filter(|entry| entry.shard() == news.shard()).for_each(|entry| {
            entry.refresh(news);
        });
        let others = self.suspects.iter_mut().map(|suspect| &mut suspect.known);
        let others = others.chain(&mut self.predecessor);
        others.filter(|known| known.shard() == news.shard()).for_each(|known| {
            refresh(known, news);
        });
    }

    /// Forgets everybody whose place is another's, by a later descriptor.
    fn drop_gone(&mut self, by: &Shared<Known>, fingers: &mut Vec<Entry>) {
        let head = self.successors.first().map(Entry::shard);
        let me = self.me.shard();
        self.successors.retain(|entry| entry.shard() == me || !is_gone(entry.known(), by));
        fingers.retain(|entry| !is_gone(entry.known(), by));
        self.suspects.retain(|suspect| !is_gone(&suspect.known, by));
        let lost = self.predecessor.take_if(|before| is_gone(before, by)).is_some();
        // Who has not joined yet asks whoever took in the one it asked.
        if lost && !self.has_joined() && !self.is_me(by) {
            self.predecessor = Some(by.clone());
        }
        self.guide.take_if(|guide| is_gone(guide, by));
        self.end_doubt_of_gone(by);
        if self.successors.first().map(Entry::shard) != head {
            self.head_changed();
        }
    }

    /// Who owns the whole circle is the only member.
    pub(super) fn be_alone_if_whole(&mut self) {
        if self.me().arc().is_whole() && self.successors.is_empty() {
            self.successors = vec![self.me.clone()];
        }
    }

    /// A member that may belong into the list: it is put in its place, if that is before one who is
    /// listed. If nobody is, it is whom to ask. Answers whether it was of use.
    pub(super) fn offer(&mut self, known: &Shared<Known>) -> bool {
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
    pub(crate) fn hear(&mut self, from: &Shared<Known>) {
        self.trust(from.shard());
        self.refresh_all(from, &mut []);
        let count = self.suspects.len();
        self.suspects.retain(|suspect| suspect.known.shard() != from.shard());
        if self.suspects.len() < count {
            self.learn_shard(from.clone(), &mut Vec::new());
            self.guide = Some(from.clone());
        }
    }

    /// A member was asked in vain: it is not gone to until it speaks, or until others had the same
    /// fate.
    pub(crate) fn distrust(&mut self, shard: ShardId, known: bool) {
        if !known || shard == self.me.shard() || self.distrusted.contains(&shard) {
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
    pub(crate) fn remembers(
        &self,
        shard: ShardId,
        generation: keyspace::Generation,
        fingers: &[Entry],
    ) -> bool {
        let known = self.successors.iter().chain(fingers).map(Entry::known);
        let mut known = known.chain(&self.predecessor);
        known.any(|known| (known.shard(), known.generation()) == (shard, generation))
    }
}

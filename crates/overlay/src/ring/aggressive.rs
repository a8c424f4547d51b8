//! A wrong way to join a ring: the simulator uses it to show what breaks.
//!
//! The thesis that Carillon began with joins *aggressively*. A joining member asks for its place
//! once, and then tells its successor and its predecessor to point at it. No list, no stabilise, no
//! check. One join at a time is quick and right:
//!
//! ```text
//!   a ─────────► d        b asks: between a and d       a ──► b ──► d
//! ```
//!
//! If two join one gap at once, both hear "between a and d", and both write the same two pointers;
//! the later write wins:
//!
//! ```text
//!   b: a.next := b, d.previous := b           a ──► c ──► d     b ──► d
//!   c: a.next := c, d.previous := c           no member points at b, and none will ever find it
//! ```
//!
//! If c's message reaches d late and b's reaches a late, the two directions even disagree. Nothing
//! repairs it: there is no further round. And other members point for ever at one that leaves
//! silently.
//!
//! Only a simulation may use it: no node sends these messages, and they have no bytes.

use std::collections::BTreeMap;

/// A place on the circle, and the member there.
pub type Place = u64;

/// A member that joins aggressively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place.
    pub me: Place,
    /// Its successor.
    pub next: Place,
    /// Its predecessor.
    pub previous: Place,
}

/// What members say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// "Where is my place?" Passed on until it is found.
    Where {
        /// Who wants to join.
        joiner: Place,
    },
    /// "Between these two."
    Here {
        /// Who will come before.
        previous: Place,
        /// Who will come after.
        next: Place,
    },
    /// "I come after you now."
    SetNext(Place),
    /// "I come before you now."
    SetPrevious(Place),
}

/// Members, and messages in flight, each with its receiver. The caller chooses the order.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// By place.
    pub members: BTreeMap<Place, Member>,
    /// Messages in flight.
    pub words: Vec<(Place, Message)>,
}

impl Ring {
    /// A ring of one.
    pub fn new(first: Place) -> Self {
        let member = Member { me: first, next: first, previous: first };
        Self { members: BTreeMap::from([(first, member)]), words: Vec::new() }
    }

    /// A member wants to join, and asks another for its place.
    pub fn join(&mut self, joiner: Place, by: Place) {
        self.words.push((by, Message::Where { joiner }));
    }

    /// Delivers the message at this index.
    pub fn hear(&mut self, index: usize) {
        let (to, word) = self.words.remove(index);
        match (word, self.members.get_mut(&to)) {
            (Message::Where { joiner }, Some(member)) => {
                let (me, next) = (member.me, member.next);
                let is_here = joiner.wrapping_sub(me) < next.wrapping_sub(me) || me == next;
                let word = if is_here { Message::Here { previous: me, next } } else { word };
                self.words.push((if is_here { joiner } else { next }, word));
            }
            (Message::Here { previous, next }, None) => {
                self.members.insert(to, Member { me: to, next, previous });
                self.words.push((previous, Message::SetNext(to)));
                self.words.push((next, Message::SetPrevious(to)));
            }
            (Message::SetNext(next), Some(member)) => member.next = next,
            (Message::SetPrevious(previous), Some(member)) => member.previous = previous,
            // It is not there, or is there already.
            (_, _) => {}
        }
    }

    /// Those that are not found by going from next to next from the lowest on.
    pub fn lost(&self) -> Vec<Place> {
        let mut lost: Vec<Place> = self.members.keys().copied().collect();
        let mut at = lost.first().copied();
        while let Some(here) = at.filter(|at| lost.contains(at)) {
            lost.retain(|place| *place != here);
            at = self.members.get(&here).map(|member| member.next);
        }
        lost
    }

    /// Those whose next member does not have them as the previous one.
    pub fn torn(&self) -> Vec<Place> {
        let agrees = |member: &&Member| {
            let next = self.members.get(&member.next);
            next.is_some_and(|next| next.previous == member.me)
        };
        self.members.values().filter(|member| !agrees(member)).map(|member| member.me).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hears words in the order of saying.
    fn settle(ring: &mut Ring) {
        while !ring.words.is_empty() {
            ring.hear(0);
        }
    }

    #[test]
    fn one_after_the_other_all_are_found() {
        let mut ring = Ring::new(10);
        for (joiner, by) in [(40, 10), (20, 40), (30, 10), (5, 30), (u64::MAX, 5)] {
            ring.join(joiner, by);
            settle(&mut ring);
        }
        assert_eq!((ring.members.len(), ring.lost(), ring.torn()), (6, vec![], vec![]));
    }

    #[test]
    fn two_at_once_into_one_gap_lose_one_for_ever() {
        let mut ring = Ring::new(10);
        ring.join(40, 10);
        settle(&mut ring);
        ring.join(20, 10);
        ring.join(30, 10);
        settle(&mut ring);
        assert_eq!((ring.lost(), ring.torn()), (vec![20], vec![20]));
        // A later join does not mend it.
        ring.join(25, 10);
        settle(&mut ring);
        assert!(ring.lost().contains(&20));
    }

    #[test]
    fn crossing_messages_leave_inconsistent_neighbours() {
        let mut ring = Ring::new(10);
        ring.join(40, 10);
        settle(&mut ring);
        ring.join(20, 10);
        ring.join(30, 10);
        while let Some(at) = ring
            .words
            .iter()
            .position(|(_, word)| matches!(word, Message::Where { .. } | Message::Here { .. }))
        {
            ring.hear(at);
        }
        // Of the later joiner the first word is heard first, and its second last.
        let first = |ring: &Ring, word| ring.words.iter().position(|(_, said)| *said == word);
        for word in [Message::SetNext(30), Message::SetPrevious(20), Message::SetNext(20)] {
            let at = first(&ring, word).expect("the word is in the ring");
            ring.hear(at);
        }
        settle(&mut ring);
        assert_eq!((ring.members[&10].next, ring.members[&40].previous), (20, 30));
        // Forwards 30 is lost; backwards 20 is.
        assert_eq!((ring.lost(), ring.torn()), (vec![30], vec![20]));
    }
}

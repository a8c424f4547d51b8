//! Samples that belong together, as the steps of a transaction: a reader gets all of them, or none.

use std::collections::BTreeMap;

/// The most groups that a reader follows. As long as all of them go on, it begins with no other.
pub const FOLLOWED_MAX: usize = 4096;
/// A group without a step for so long is over, if another one needs its place.
const IDLE_NANOS: u64 = 60_000_000_000;

/// Which step of a group a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GroupStep {
    /// It begins: a reader may begin with it.
    First,
    /// Another node takes it over: readers that merge nodes may follow it from before.
    Takeover,
    /// One between.
    Middle,
    /// The last one that is to be expected.
    Last,
}

/// A sample's place among those that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleGroup {
    /// Names the group on all nodes.
    pub id: u64,
    /// Which step it is.
    pub step: GroupStep,
}

/// Groups that a reader has begun with.
#[derive(Debug, Default)]
pub struct Followed {
    groups: BTreeMap<u64, Following>,
}

#[derive(Debug)]
struct Following {
    seen_at: u64,
    is_over: bool,
}

/// What a reader does with a sample of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// It follows the group: the sample is one more step.
    Yes,
    /// It does not, and may not begin.
    No,
    /// It may begin with it ([`Followed::begin`]).
    MayBegin,
}

impl Followed {
    /// What is to be done with a sample.
    pub fn step(&mut self, group: SampleGroup, now_nanos: u64) -> Follow {
        if let Some(following) = self.groups.get_mut(&group.id) {
            // Steps of an attempt before may come behind the last one.
            let is_over = following.is_over && group.step == GroupStep::Middle;
            following.is_over = is_over || group.step == GroupStep::Last;
            following.seen_at = now_nanos;
            return Follow::Yes;
        }
        match group.step {
            GroupStep::First | GroupStep::Takeover => Follow::MayBegin,
            GroupStep::Middle | GroupStep::Last => Follow::No,
        }
    }

    /// Follows a group from now on, if there is a place.
    pub fn begin(&mut self, group: SampleGroup, now_nanos: u64) -> bool {
        if self.groups.len() >= FOLLOWED_MAX {
            let goes_on = |following: &Following| {
                !following.is_over && now_nanos < following.seen_at.saturating_add(IDLE_NANOS)
            };
            self.groups.retain(|_, following| goes_on(following));
        }
        let has_place = self.groups.len() < FOLLOWED_MAX;
        if has_place {
            self.groups.insert(group.id, Following { seen_at: now_nanos, is_over: false });
        }
        has_place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: u64, step: GroupStep) -> SampleGroup {
        SampleGroup { id, step }
    }

    #[test]
    fn group_is_followed_from_its_beginning_or_not_at_all() {
        let mut followed = Followed::default();
        assert_eq!(followed.step(group(1, GroupStep::Middle), 0), Follow::No);
        assert_eq!(followed.step(group(1, GroupStep::First), 0), Follow::MayBegin);
        assert_eq!(followed.step(group(1, GroupStep::Last), 0), Follow::No, "it did not begin");
        assert!(followed.begin(group(1, GroupStep::First), 0));
        for step in [GroupStep::Middle, GroupStep::Last, GroupStep::Takeover, GroupStep::Last] {
            assert_eq!(followed.step(group(1, step), 0), Follow::Yes, "{step:?}");
        }
        assert_eq!(followed.step(group(2, GroupStep::Takeover), 0), Follow::MayBegin);
    }

    #[test]
    fn groups_that_go_on_keep_their_places() {
        let mut followed = Followed::default();
        let all = 0..FOLLOWED_MAX as u64;
        assert!(all.clone().all(|id| followed.begin(group(id, GroupStep::First), 0)));
        let next = group(1 << 20, GroupStep::First);
        assert!(!followed.begin(next, 0), "all of them go on");
        assert_eq!(followed.step(group(7, GroupStep::Last), 1), Follow::Yes);
        assert!(followed.begin(next, 1), "one is over");
        assert_eq!(followed.step(group(7, GroupStep::Middle), 1), Follow::No);
        assert!(
            all.filter(|id| *id != 7)
                .all(|id| { followed.step(group(id, GroupStep::Middle), 1) == Follow::Yes })
        );
        let next = group(1 << 21, GroupStep::First);
        assert!(!followed.begin(next, IDLE_NANOS));
        assert!(followed.begin(next, IDLE_NANOS + 1), "nothing was heard of the others for long");
    }
}

//! In which order do long scripts get their turn?
//!
//! In the order in which they came, but each as if it had come later by `WEIGHT` times the time
//! that its client's medium and long scripts have run lately. So clients whose scripts loop wait
//! for each other, and other clients do not wait for them; and none waits for ever. A client earns
//! back a second in each second in which none of its scripts runs.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | clients whose time is known | [`CLIENTS_MAX`] | all begin anew |
//! | time that a client is known to have run | [`USED_MAX`] | it does not count |
//! | how much later a script comes | a quarter of `request_timeout_ms` | it comes no later: others would pass it until it is refused |

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Clients whose time is known.
pub const CLIENTS_MAX: usize = 4096;

/// Time that a client is known to have run lately.
pub const USED_MAX: Duration = Duration::from_secs(60);

/// How much later a script comes, for each second that its client's have run lately: those that
/// loop wait for long if there are many, and must not be before others then.
const WEIGHT: u32 = 8;

/// How long the scripts of clients have run lately.
#[derive(Debug, Default)]
pub struct Usage(BTreeMap<u64, (Instant, Duration)>);

impl Usage {
    /// How long a client's scripts have run lately.
    pub fn of(&self, client: u64, now: Instant) -> Duration {
        let earned = |at: Instant| now.saturating_duration_since(at);
        self.0.get(&client).map_or(Duration::ZERO, |(at, used)| used.saturating_sub(earned(*at)))
    }

    /// A client's script has run for so long.
    pub fn add(&mut self, client: u64, took: Duration, now: Instant) {
        if self.0.len() >= CLIENTS_MAX {
            self.0.retain(|_, (at, used)| *used > now.saturating_duration_since(*at));
        }
        if self.0.len() >= CLIENTS_MAX {
            self.0.clear();
        }
        // It has earned nothing while its script ran.
        let began = now.checked_sub(took).unwrap_or(now);
        let used = self.of(client, began).saturating_add(took).min(USED_MAX);
        self.0.insert(client, (now, used));
    }
}

/// The place of a script that comes now, whose client has used so much. It comes no later than by
/// `later_max`.
pub fn place(used: Duration, later_max: Duration, now: Instant) -> Instant {
    now + (used * WEIGHT).min(later_max)
}

/// What waits, by when it gets its turn.
#[derive(Debug)]
pub struct FairQueue<T> {
    waiting: BTreeMap<(Instant, u64), T>,
    next: u64,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Adds one at its [`place`].
    pub fn push(&mut self, item: T, place: Instant) {
        self.next += 1;
        self.waiting.insert((place, self.next), item);
    }

    /// Takes those that this is true of, out of turn.
    pub fn take_if(&mut self, is_meant: impl Fn(&T) -> bool) -> Vec<T> {
        let taken = self.waiting.extract_if(.., |_, item| is_meant(item));
        taken.map(|(_, item)| item).collect()
    }

    /// The one whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        self.waiting.pop_first().map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER_MAX: Duration = Duration::from_secs(60);

    #[test]
    fn who_has_run_long_yields_to_others_but_not_for_ever() {
        let (mut usage, mut queue) = (Usage::default(), FairQueue::default());
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        (1..=3).for_each(|client| usage.add(client, Duration::from_secs(5), at(0)));
        for client in 1..=3 {
            queue.push(client, place(usage.of(client, at(0)), LATER_MAX, at(0)));
        }
        queue.push(9, place(usage.of(9, at(1000)), LATER_MAX, at(1000)));
        assert_eq!((queue.pop(), queue.pop()), (Some(9), Some(1)));
        queue.push(9, place(usage.of(9, at(42_000)), LATER_MAX, at(42_000)));
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(2), Some(3), Some(9)));
        assert_eq!(queue.pop(), None);
    }

    /// Else others would pass it until its time to wait is over.
    #[test]
    fn nobody_is_put_back_by_more_than_the_bound() {
        let (now, used) = (Instant::now(), Duration::from_secs(5));
        let bound = Duration::from_millis(1250);
        assert_eq!(place(used, bound, now), now + bound);
        assert_eq!(place(bound / 10, bound, now), now + bound * 8 / 10);
    }

    #[test]
    fn runs_one_behind_the_other_add_up() {
        let (mut usage, start) = (Usage::default(), Instant::now());
        let at = |secs| start + Duration::from_secs(secs);
        (1..=4).for_each(|run| usage.add(1, Duration::from_secs(5), at(5 * run)));
        assert_eq!(usage.of(1, at(20)), Duration::from_secs(20));
        (5..=100).for_each(|run| usage.add(1, Duration::from_secs(5), at(5 * run)));
        assert_eq!(usage.of(1, at(500)), USED_MAX);
    }

    #[test]
    fn clients_earn_back_their_time_and_are_bounded() {
        let (mut usage, start) = (Usage::default(), Instant::now());
        usage.add(1, Duration::from_secs(5), start);
        usage.add(1, Duration::from_secs(5), start);
        assert_eq!(usage.of(1, start + Duration::from_secs(4)), Duration::from_secs(6));
        assert_eq!(usage.of(1, start + Duration::from_secs(60)), Duration::ZERO);
        (0..10_000).for_each(|client| usage.add(client, Duration::from_secs(1), start));
        assert!(usage.0.len() <= CLIENTS_MAX);
    }
}

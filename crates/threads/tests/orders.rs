//! What a shard's executor publishes and what its readers make of it, in every order in which
//! threads can take their steps: the sources of `node::replica::serving`, `hlc::ReadPromise` and
//! `hlc::Clock` compiled once more, with loom's atomics in the place of the real ones.
//!
//! ```text
//!   executor  publish ──► send, apply ──► publish    every interleaving, and every value that
//!   reader    clock ──► guard ──► check ──► read     the memory orderings allow (loom)
//! ```
//!
//! The state under the guard is a stand-in of a few words: what is in doubt is the order of the
//! steps, not the engine. Each test was seen to fail with the order undone that it is about; which,
//! says its comment.

#[allow(dead_code, unused_imports, unused_qualifications)]
#[path = "../../hlc/src/clock.rs"]
mod clock;
#[allow(dead_code, unused_imports, unused_qualifications)]
#[path = "../../hlc/src/promise.rs"]
mod promise;
#[allow(dead_code, unused_imports, unused_qualifications)]
#[path = "../../node/src/replica/serving.rs"]
mod serving;

/// In the place of the real ones.
mod sync {
    pub use loom::sync::atomic::{AtomicU8, AtomicU64, Ordering};
}

use std::sync::Arc;

use keyspace::Timestamp;
use loom::sync::RwLock;
use loom::sync::atomic::AtomicBool;
use loom::thread;

use clock::Clock;
use promise::{ReadPromise, SnapshotRead, UnsettledFloor};
use serving::Serving;
use sync::{AtomicU64, Ordering};

/// SAFETY G1, check 2: a leader whose own log lags knows that an entry is committed and cannot
/// apply it yet. It publishes that nobody may read here *before* the message leaves that lets
/// another replica apply, and answer. A client that was answered there does not read the old value
/// here.
///
/// Fails if the executor sends first and publishes then (the two lines of the executor exchanged).
fn what_is_published_before_it_is_sent_keeps_late_leaders_silent() {
    loom::model(|| {
        let serving = Arc::new(Serving::default());
        serving.until(100);
        let state = Arc::new(RwLock::new(0));
        let sent = Arc::new(AtomicBool::new(false));
        let executor = {
            let (serving, state, sent) = (serving.clone(), state.clone(), sent.clone());
            thread::spawn(move || {
                serving.until(0);
                sent.store(true, Ordering::Release);
                // Its own log has caught up.
                *state.write().unwrap() = 1;
                serving.until(100);
            })
        };
        let answered_elsewhere = sent.load(Ordering::Acquire);
        let guard = state.read().unwrap();
        if serving.at(50) && answered_elsewhere {
            assert_eq!(*guard, 1, "a read here is older than an answer elsewhere");
        }
        drop(guard);
        executor.join().unwrap();
    });
}

/// SAFETY G5: a lease runs to a moment of the boot clock, and another leader commits only after it.
/// A reader whose clock was read after its request had come is served only if nothing had been
/// committed elsewhere by then.
///
/// Fails if the reader takes its clock before the request comes (its first two lines exchanged).
fn expired_lease_serves_no_later_read() {
    loom::model(|| {
        let serving = Arc::new(Serving::default());
        serving.until(10);
        let boot = Arc::new(AtomicU64::new(9));
        let committed_elsewhere = Arc::new(AtomicBool::new(false));
        let rival = {
            let (boot, committed) = (boot.clone(), committed_elsewhere.clone());
            thread::spawn(move || {
                boot.store(10, Ordering::Release);
                committed.store(true, Ordering::Release);
            })
        };
        let came_after = committed_elsewhere.load(Ordering::Acquire);
        let now = boot.load(Ordering::Acquire);
        if serving.at(now) {
            assert!(!came_after, "the lease is over, and it still reads");
        }
        rival.join().unwrap();
    });
}

/// SAFETY G2: a reader at a time of the clock learns of every entry at or below that time that is
/// not applied: it is published before the clock moves.
///
/// Fails if `ReadPromise::take` ticks before it publishes, or if `ReadPromise::applied` comes
/// before the entry is applied (the last two lines of the executor exchanged).
fn what_is_in_flight_is_published_before_the_clock_moves() {
    loom::model(|| {
        let clock = Arc::new(Clock::new(Timestamp(9)));
        let unsettled = Arc::new(UnsettledFloor::default());
        let applied = Arc::new(RwLock::new(false));
        let mut promise = ReadPromise::new(unsettled.clone());
        promise.lead();
        // The executor on the first thread: loom remembers of each word the last access only, and
        // must not take the executor's own for the reader's.
        let reader = {
            let (clock, applied) = (clock.clone(), applied.clone());
            thread::spawn(move || {
                let at = clock.now();
                let guard = applied.read().unwrap();
                let is_settled = at < unsettled.from();
                (at, is_settled, *guard)
            })
        };
        let timestamp = promise.take(&clock, 2);
        *applied.write().unwrap() = true;
        promise.applied(2);
        let (at, is_settled, seen) = reader.join().unwrap();
        if is_settled && timestamp <= at {
            assert!(seen, "{timestamp:?} was under way, and a reader at {at:?} was not told");
        }
    });
}

/// SAFETY G2: the promise to readers and the timestamps of entries come from one clock that other
/// threads move, too. Whatever they do, nothing is taken at or below a promise.
///
/// Fails (with the assert in `ReadPromise::take`) if `ReadPromise::read_at` does not raise the
/// clock.
fn no_timestamp_is_taken_at_or_below_a_promise() {
    loom::model(|| {
        let clock = Arc::new(Clock::new(Timestamp(9)));
        let reader = {
            let clock = clock.clone();
            thread::spawn(move || {
                clock.observe(Timestamp(12));
                clock.now()
            })
        };
        let mut promise = ReadPromise::default();
        promise.lead();
        let read = promise.read_at(Timestamp(14), Timestamp(100), &clock);
        assert_eq!(read, SnapshotRead::Now);
        assert!(promise.take(&clock, 2) > Timestamp(14));
        reader.join().unwrap();
    });
}

/// SAFETY G13: what one read has told to have ended is not alive for a later one. The executor
/// raises the floor before it lets anyone read by it.
///
/// Fails if the executor publishes `until` before the floor (its two lines exchanged).
fn a_floor_is_there_before_anyone_reads_by_it() {
    loom::model(|| {
        let serving = Arc::new(Serving::default());
        let executor = {
            let serving = serving.clone();
            thread::spawn(move || {
                serving.raise_floor(Timestamp::from_millis(20));
                serving.until(100);
            })
        };
        if serving.at(50) {
            let judged_at = Timestamp::from_millis(10).max(serving.floor());
            assert!(judged_at >= Timestamp::from_millis(20), "an ended value is back");
        }
        executor.join().unwrap();
    });
}

fn main() {
    let tests: [(&str, fn()); 5] = [
        (
            "what is published before it is sent keeps late leaders silent",
            what_is_published_before_it_is_sent_keeps_late_leaders_silent,
        ),
        ("a lease has ended for a read that comes after it", expired_lease_serves_no_later_read),
        (
            "what is in flight is published before the clock moves",
            what_is_in_flight_is_published_before_the_clock_moves,
        ),
        (
            "no timestamp is taken at or below a promise",
            no_timestamp_is_taken_at_or_below_a_promise,
        ),
        ("a floor is there before anyone reads by it", a_floor_is_there_before_anyone_reads_by_it),
    ];
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        test();
        println!("threads: {name}");
    }
}

//! A shard's safe point stays below a lock (SAFETY G14), and rises when the lock has gone, though
//! its keyspace's own has not moved meanwhile.
//!
//! ```text
//!   lock at 5 ── RaiseShard to 9 ──► safe point below 5
//!   resolved  ── RaiseShard to 9 ──► safe point 9
//! ```

use keyspace::Timestamp;
use node::executor::Input;
use smallvec::smallvec;
use txn::locks::{Outcome, Step, TxnId};

use crate::five::SHARD;
use crate::leader_script::{KEY, Story};

fn raise(story: &mut Story, to: Timestamp) -> Timestamp {
    story.five.executors[0].accept(Input::RaiseShard { shard: SHARD, to: to.into() });
    story.together();
    let view = story.five.executors[0].view(SHARD).expect("a replica");
    view.read().engine().expect("the shard has keys").safe_point()
}

#[test]
fn safe_point_rises_after_the_lock_that_held_it() {
    let mut story = Story::new();
    story.begin();
    let id = TxnId { start: Timestamp::from_millis(2), coordinator: 9, attempt: 0 };
    let asked = story.prepare(id, b"1", None);
    story.together();
    let locked = story.voted(asked).expect("nobody is in its way");
    story.set(b"2");
    story.alone(1_000_000);
    story.together();
    let to = locked;
    let held = raise(&mut story, to);
    assert!(held < locked, "{held:?} {locked:?}");
    assert_eq!(raise(&mut story, to), held);
    let outcome = Outcome::Committed(locked);
    story.step(&Step::Resolve { id, outcome, keys: smallvec![KEY] });
    story.together();
    assert_eq!(raise(&mut story, to), to);
}

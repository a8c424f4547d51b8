//! Which calls an attached `Frames` gets: links up and down in turn, frames, members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use keyspace::NodeId;
use parking_lot::Mutex;
use server::cluster::Frames;
use server::peer::SendError;

use crate::common::{all_know_all, cluster, eventually, join};

/// Writes down what it hears.
#[derive(Default)]
struct Notes {
    links: Mutex<BTreeMap<NodeId, bool>>,
    frames: Mutex<Vec<(NodeId, u8, Bytes)>>,
    turns: AtomicU64,
    changes: AtomicU64,
}

impl Frames for Notes {
    fn frame(&self, from: NodeId, kind: u8, body: Bytes) {
        assert_eq!(self.links.lock().get(&from), Some(&true), "frames come over links");
        self.frames.lock().push((from, kind, body));
    }

    fn turn_ended(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    fn link_up(&self, node: NodeId) {
        assert_ne!(self.links.lock().insert(node, true), Some(true), "in turn");
    }

    fn link_down(&self, node: NodeId) {
        assert_eq!(self.links.lock().insert(node, false), Some(true), "in turn");
    }

    fn members_changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn attached_handler_hears_frames_links_and_members() {
    let mut nodes = cluster(3);
    all_know_all(&nodes.iter().map(|(node, _)| node).collect::<Vec<_>>());
    let (last, _) = nodes.pop().unwrap();
    let (one, two) = (&nodes[0].0, &nodes[1].0);
    // Nobody hears this one, but it is counted.
    one.cluster.send(two.id(), 2, &[b"early"]).unwrap();
    one.cluster.flush();
    eventually("an early frame", || two.cluster.counters().early_frames == 1);

    let notes = Arc::new(Notes::default());
    two.cluster.attach(notes.clone());
    let both = BTreeMap::from([(one.id(), true), (last.id(), true)]);
    assert_eq!(*notes.links.lock(), both, "links that were there already");
    assert_eq!(notes.changes.load(Ordering::Relaxed), 1);
    one.cluster.send(two.id(), 2, &[b"in ", b"parts"]).unwrap();
    one.cluster.send(two.id(), 3, &[b""]).unwrap();
    one.cluster.flush();
    eventually("two frames", || notes.frames.lock().len() == 2);
    let expected = [(one.id(), 2, Bytes::from("in parts")), (one.id(), 3, Bytes::new())];
    assert_eq!(*notes.frames.lock(), expected);
    eventually("the end of a turn", || notes.turns.load(Ordering::Relaxed) >= 2);

    let (gone, changes) = (last.id(), notes.changes.load(Ordering::Relaxed));
    drop(last);
    eventually("the end of a link", || !notes.links.lock()[&gone]);
    assert_eq!(two.cluster.send(gone, 2, &[b"x"]), Err(SendError::NotConnected));
    eventually("news", || notes.changes.load(Ordering::Relaxed) > changes);
    let (third, _) = join("third", &[&one.address]);
    eventually("a new link", || notes.links.lock().get(&third.id()) == Some(&true));
}

//! Any bytes are frames of a peer; they may be refused, and the node goes on in any case.
#![no_main]

use keyspace::NodeId;
use libfuzzer_sys::fuzz_target;
use membership::{Effect, FRAME_BYTES_MAX, Facts, Membership, NODES_MAX};

const STEP_NANOS: u64 = 100_000_000;

fn node(id: u64) -> Membership {
    Membership::new(NodeId(id), 1000, Facts::default(), 0, 7).expect("facts within limits")
}

// The seeds speak to node 1 of incarnation 1000. Each frame is preceded by its length (u16,
// little-endian).
fuzz_target!(|bytes: &[u8]| {
    let (mut core, mut out, mut now, mut rest) = (node(1), Vec::new(), 0, bytes);
    let introduction = node(2).introduction();
    core.connected(now, NodeId(2), &introduction, &mut out).expect("an introduction");
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (frame, after) = after.split_at(length);
        rest = after;
        now += STEP_NANOS;
        let _refused_or_not = core.step(now, NodeId(2), frame, &mut out);
        let _refused_or_not = core.connected(now, NodeId(2), frame, &mut out);
        core.tick(now, &mut out);
        assert!(core.next_deadline().is_some());
        assert!(core.members().count() <= NODES_MAX);
    }
    for effect in out {
        assert!(!matches!(effect, Effect::Send { bytes, .. } if bytes.len() > FRAME_BYTES_MAX));
    }
});

//! The seeds of the fuzzer, in `fuzz/corpus/membership`: real frames from node 2 to node 1 (of
//! incarnation 1000), each after its length (u16, little-endian). None may be refused: what they
//! hold is the wire format.

#![expect(clippy::disallowed_methods, reason = "the corpus lies in ordinary files")]

use keyspace::NodeId;
use membership::Membership;

use crate::world::{MILLI, facts};

#[test]
fn the_corpus_is_understood() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/membership");
    let mut count = 0;
    for file in std::fs::read_dir(corpus).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let lone = |node| Membership::new(NodeId(node), 1000, facts(node), 0, 7).unwrap();
        let (mut core, mut out, mut rest) = (lone(1), Vec::new(), &bytes[..]);
        core.connected(0, NodeId(2), &lone(2).introduction(), &mut out).unwrap();
        while let Some((length, after)) = rest.split_first_chunk() {
            let (frame, after) = after.split_at(u16::from_le_bytes(*length).into());
            let result = core.step(count * MILLI, NodeId(2), frame, &mut out);
            assert!(result.is_ok(), "{}: {result:?}", path.display());
            rest = after;
            count += 1;
        }
        assert!(rest.is_empty(), "{}: a torn seed", path.display());
    }
    assert!(count >= 14, "{count} frames");
}

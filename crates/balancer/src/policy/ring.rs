//! The place of a node, and of a shard, on the circle of nodes.
//!
//! Nodes lie on a circle of 2^64 points, spread by a hash of their ids. A shard lies where its arc
//! ends, scaled to the whole circle, and rotated by an angle of its keyspace. Else all keyspaces
//! with one shard would have the same successors.

use keyspace::random::mix;
use keyspace::{Arc, NodeId, Placement};

/// Slots are below 2^14: shifted by so much, they fill 64 bits.
const SLOT_SHIFT: u32 = 64 - 14;

/// The point of a shard on the circle of nodes.
pub fn place_of(arc: &Arc, placement: Placement) -> u64 {
    let tail = arc.end().tail();
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(tail) {
        *to = *from;
    }
    let point = match placement {
        Placement::Hashed => u64::from(u16::from_be_bytes([first[0], first[1]])) << SLOT_SHIFT,
        Placement::Ordered | Placement::LinearHash => u64::from_be_bytes(first),
    };
    point.wrapping_add(mix(u64::from(arc.keyspace().0)))
}

/// How far a node lies behind a point.
pub(crate) fn distance(place: u64, node: NodeId) -> u64 {
    mix(node.0).wrapping_sub(place)
}

#[cfg(test)]
mod tests {
    use keyspace::{KeyspaceId, SLOTS};

    use super::*;

    #[test]
    fn shards_of_a_keyspace_go_around_the_whole_circle() {
        let place =
            |first, end| place_of(&Arc::of_slots(KeyspaceId(1), first, end), Placement::Hashed);
        let origin = place(0, SLOTS);
        assert_eq!(place(0, SLOTS / 4).wrapping_sub(origin), 1 << 62);
        assert_eq!(place(SLOTS / 4, SLOTS / 2).wrapping_sub(origin), 1 << 63);
        assert_ne!(place_of(&Arc::whole(KeyspaceId(2)), Placement::Ordered), origin);
    }
}

//! LH\*: two numbers, even old ones, lead to the bucket that holds a key.
//!
//! A linear-hash **table** (in the papers a *file*) grows by one bucket at a time, in a fixed
//! order. So two numbers are its whole shape: a **level** *i* and a **pointer** *n*. A client with
//! an older shape still computes a bucket that exists, and that bucket knows better (Litwin,
//! Neimat, Schneider, TODS 21(4), 1996):
//!
//! ```text
//!   h_j(C) = the lowest j bits of hash C           2^i + n buckets
//!   level 2, pointer 1:    bucket   0   1   2   3   4
//!                          level    3   2   2   2   3      0 was split into 0 and 4; next is 1
//! ```
//!
//! With the bits of the hash reversed, low bits become high bits, and buckets become arcs of a
//! circle (ALGORITHMS 5.1). Bucket *a* of level *j* is the arc of 2^(64−j) positions from
//! bitreverse64(a) on. A split halves an arc; the new bucket *a* + 2^j is the right half, as in
//! every split of a shard:
//!
//! ```text
//!   level 1, pointer 0   ├──────── 0 ────────┼──────── 1 ────────┤
//!   0 is split           ├─── 0 ───┼─── 2 ───┼──────── 1 ────────┤   level 1, pointer 1
//!   1 is split           ├─── 0 ───┼─── 2 ───┼─── 1 ───┼─── 3 ───┤   level 2, pointer 0
//!   the last is undone   ├─── 0 ───┼─── 2 ───┼──────── 1 ────────┤   level 1, pointer 1
//! ```
//!
//! | part | what |
//! |---|---|
//! | [`mod@table`] | the shape: address (A1), split, merge, what a seen bucket proves |
//! | [`bucket`] | one bucket: its arc; where it forwards a request for another bucket (A2) |
//! | [`memory`] | a client's image and learnt addresses: a [`Lookup`](crate::Lookup) (A3) |
//!
//! # The catalogue decides
//! Shards of such a keyspace split and merge by the pointer only. The next to split is
//! [`LinearHashTable::next_split`], the next to be absorbed [`LinearHashTable::last_split`]. The
//! table's two numbers are a replicated record in the catalogue, so no node is a coordinator whose
//! loss would matter. Images are no part of that; they may be wrong.
//!
//! # Two stories
//! *The file grew.* A client whose image says 4 buckets asks bucket 1 for a key of bucket 13. It
//! sends the request on, to 5, and that to 13: never more than two forwards. The answer shows 13's
//! arc. That there is a bucket 13 tells that there are 14; the image says so from now on.
//! *The file shrank.* The image is ahead: the client asks 13, which is gone, and is told to ask the
//! bucket that 13 was cut from: 13 − 8 = 5. The image is set back to 13 buckets, which it knows to
//! be enough.
//!
//! # Invariants
//! 1. Buckets tile the circle, and their arcs have at most two widths, one twice the other.
//! 2. While a file only grows, no image is ahead of it, and a request takes at most
//!    [`FORWARDS_MAX`] forwards from the bucket that an image names, or from any bucket that one
//!    was cut from.
//! 3. After merges a request meets at most *h* + 1 − *i* buckets that are gone, where *h* is the
//!    highest level that the image ever had and *i* the file's, and then is forwarded as before.
//!
//! # Caveats
//! If arcs were cut elsewhere than a file would cut them, the two numbers mean little: then only
//! what was learnt of arcs leads on ([`memory`]).

pub mod bucket;
pub mod memory;
pub mod table;

pub use bucket::Bucket;
pub use memory::LinearHashCache;
pub use table::LinearHashTable;

use crate::point::{Point, prefix};

/// The highest level of a bucket: its arc is two positions wide, and there are 2^63 of them. One
/// more, and their count would not fit into 64 bits.
pub const LEVEL_MAX: u8 = 63;

/// How often a request is forwarded at most, from a bucket that an image names.
pub const FORWARDS_MAX: u32 = 2;

/// The hash of a point: the first eight bytes of its position, bit-reversed.
pub fn hash_of(point: Point<'_>) -> u64 {
    prefix(point.tail).reverse_bits()
}

/// The lowest `level` bits of a hash: the bucket of that level.
fn low_bits(hash: u64, level: u8) -> u64 {
    hash & ((1 << level) - 1)
}

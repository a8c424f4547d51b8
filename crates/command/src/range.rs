//! Ranges of an ordered keyspace: what a RANGE command asks for, and its answer.

use std::ops::Bound;

/// A key and its value.
pub type Pair = (Box<[u8]>, Box<[u8]>);

/// A range of an ordered keyspace.
#[derive(Clone, Copy, Debug)]
pub struct RangeQuery<'a> {
    /// Its low end.
    pub low: Bound<&'a [u8]>,
    /// Its high end.
    pub high: Bound<&'a [u8]>,
    /// From high to low.
    pub reverse: bool,
    /// At most so many keys.
    pub keys_max: usize,
}

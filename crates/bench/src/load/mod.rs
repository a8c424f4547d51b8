//! What a load asks, and when: keys, values, mixes, times. Pure: the same seed, the same load.

pub mod keys;
pub mod mix;
pub mod random;
pub mod schedule;
pub mod values;
pub mod written;

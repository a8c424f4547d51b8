//! Do all engines keep the contract of [`Engine`](super::Engine)?
//!
//! | module | is |
//! |---|---|
//! | [`model`] | the plainest engine: it keeps every version for ever |
//! | [`mirror`] | two engines as one: every answer of one is compared with the other's |
//! | [`golden`] | scripts of `tests/golden/engine`, each run against every engine in every layout |
//! | [`properties`] | random operations on a mirror of the memory engine and the model |

mod golden;
mod mirror;
mod model;
mod properties;

use keyspace::linear_hash::bit_reversed_hash;
use keyspace::{Cut, slot_of};

/// Whether a key lies before a cut.
fn is_before(key: &[u8], cut: &Cut) -> bool {
    match cut {
        Cut::Slot(slot) => slot_of(key) < *slot,
        Cut::Key(at) => key < &**at,
        Cut::Number(at) => bit_reversed_hash(key) < *at,
    }
}

//! Whole clusters at the level of decisions: no network, no time, only leaders that all decide at
//! once from what they last heard, until nobody moves anything.

mod cluster;
mod domains;
mod even;
mod leaders;
mod losses;
mod policies;
mod rules;

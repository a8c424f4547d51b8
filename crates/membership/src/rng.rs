//! Random numbers from one seed, so that two runs draw the same.

use std::convert::Infallible;

use keyspace::random::Random;
use rand_core::TryRng;

/// [`Random`] in a form that foca can draw from.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Random);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0.bits()
    }

    /// One of `0..end`, which must not be empty.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "a choice among nothing");
        self.0.below(end as u64) as usize
    }

    /// Takes up to `count` of `items` at random, in the order drawn; the rest keep no order.
    pub(crate) fn choose<T>(&mut self, items: &mut Vec<T>, count: usize) -> Vec<T> {
        let taken = count.min(items.len());
        (0..taken).map(|_| items.swap_remove(self.below(items.len()))).collect()
    }
}

/// How foca draws from it.
impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.draw() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.draw())
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for chunk in dst.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

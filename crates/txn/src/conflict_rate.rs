//! How often do transactions meet conflicts lately? One that fails counts as many that are done, so
//! that the rate is high when more than one of [`OF_ONE`] fails.

/// What one conflict adds, of which each transaction that is done takes one.
const OF_ONE: u32 = 32;
/// Above it, the rate is high.
const HIGH: u32 = 128;
/// It rises no higher.
const MAX: u32 = 512;

/// See the front page.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConflictRate(u32);

impl ConflictRate {
    /// Just not high: the next conflict makes it so.
    #[cfg(test)]
    pub(crate) const ALMOST_HIGH: Self = Self(HIGH);
    /// As high as it gets.
    #[cfg(test)]
    pub(crate) const HIGHEST: Self = Self(MAX);

    /// A transaction has met a conflict.
    pub fn met(&mut self) {
        self.0 = (self.0 + OF_ONE).min(MAX);
    }

    /// A transaction is done.
    pub fn done(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// Whether conflicts are to be expected.
    pub fn is_high(self) -> bool {
        self.0 > HIGH
    }
}

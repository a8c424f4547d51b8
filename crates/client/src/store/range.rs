//! Ranges of keys in an ordered keyspace: bounds, order, limit.

use std::ops::{Bound, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// Keys of an ordered keyspace, in bytewise order. Made of a range of keys, or here.
///
/// ```
/// use client::KeyRange;
///
/// let november = KeyRange::from("2026-11-01".."2026-12-01");
/// let users = KeyRange::prefix("user:").limit(100);
/// let last = KeyRange::all().reversed().limit(1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    keys_max: Option<u64>,
    is_reversed: bool,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> Self {
        Self::between::<&[u8]>(Bound::Unbounded, Bound::Unbounded)
    }

    /// Those from one bound to another.
    pub fn between<K: AsRef<[u8]>>(low: Bound<K>, high: Bound<K>) -> Self {
        let own = |bound: Bound<K>| bound.map(|key| key.as_ref().to_vec());
        Self { low: own(low), high: own(high), keys_max: None, is_reversed: false }
    }

    /// Those that begin so.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        let low = prefix.as_ref().to_vec();
        // The first that is greater than all of them.
        let mut next = low.clone();
        while next.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let high = match next.last_mut() {
            None => Bound::Unbounded,
            Some(byte) => {
                *byte += 1;
                Bound::Excluded(next)
            }
        };
        Self::between(Bound::Included(low), high)
    }

    /// At most so many of them: the first in the order asked for.
    pub fn limit(mut self, keys_max: u64) -> Self {
        self.keys_max = Some(keys_max);
        self
    }

    /// From high to low.
    pub fn reversed(mut self) -> Self {
        self.is_reversed = !self.is_reversed;
        self
    }

    /// The command that asks for them and their values.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let word = |bound: &Bound<Vec<u8>>, unbounded: u8| match bound {
            Bound::Included(key) => [b"[", &**key].concat(),
            Bound::Excluded(key) => [b"(", &**key].concat(),
            Bound::Unbounded => vec![unbounded],
        };
        let (low, high) = (word(&self.low, b'-'), word(&self.high, b'+'));
        let (first, second) = if self.is_reversed { (high, low) } else { (low, high) };
        let mut words = vec![b"RANGE".to_vec(), first, second];
        if let Some(keys_max) = self.keys_max {
            words.extend([b"LIMIT".to_vec(), keys_max.to_string().into_bytes()]);
        }
        if self.is_reversed {
            words.push(b"REV".to_vec());
        }
        words.push(b"WITHVALUES".to_vec());
        words
    }
}

impl<K: AsRef<[u8]>> From<std::ops::Range<K>> for KeyRange {
    fn from(keys: std::ops::Range<K>) -> Self {
        Self::between(Bound::Included(keys.start), Bound::Excluded(keys.end))
    }
}

impl<K: AsRef<[u8]>> From<RangeInclusive<K>> for KeyRange {
    fn from(keys: RangeInclusive<K>) -> Self {
        let (low, high) = keys.into_inner();
        Self::between(Bound::Included(low), Bound::Included(high))
    }
}

impl<K: AsRef<[u8]>> From<RangeFrom<K>> for KeyRange {
    fn from(keys: RangeFrom<K>) -> Self {
        Self::between(Bound::Included(keys.start), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> From<RangeTo<K>> for KeyRange {
    fn from(keys: RangeTo<K>) -> Self {
        Self::between(Bound::Unbounded, Bound::Excluded(keys.end))
    }
}

impl<K: AsRef<[u8]>> From<RangeToInclusive<K>> for KeyRange {
    fn from(keys: RangeToInclusive<K>) -> Self {
        Self::between(Bound::Unbounded, Bound::Included(keys.end))
    }
}

impl From<RangeFull> for KeyRange {
    fn from(_: RangeFull) -> Self {
        Self::all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_commands() {
        let cases: [(KeyRange, &str); 9] = [
            (("a".."b").into(), "[a (b"),
            (("a"..="b").into(), "[a [b"),
            (("a".to_owned()..).into(), "[a +"),
            ((.."b").into(), "- (b"),
            ((..="b").into(), "- [b"),
            (KeyRange::from(..).limit(3), "- + LIMIT 3"),
            (KeyRange::from("a".."b").reversed().limit(1), "(b [a LIMIT 1 REV"),
            (KeyRange::prefix("ab"), "[ab (ac"),
            (KeyRange::all().reversed().reversed(), "- +"),
        ];
        for (keys, expected) in cases {
            let text = String::from_utf8(keys.words().join(&b' ')).unwrap();
            assert_eq!(text, format!("RANGE {expected} WITHVALUES"));
        }
    }

    #[test]
    fn a_prefix_ends_before_the_first_key_that_is_greater() {
        let high = |prefix: &[u8]| KeyRange::prefix(prefix).high;
        assert_eq!(high(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(high(b"\xff"), Bound::Unbounded);
        assert_eq!(high(b""), Bound::Unbounded);
    }
}

//! Conditions of a write: what must hold of the key's value.

use keyspace::Timestamp;

/// A condition on the version that a key has at the moment of the write. Any number of them taken
/// together ([`Self::and`]) are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether the key may have no value.
    pub allows_absent: bool,
    /// The versions that it may have, each the time at which it was written; any if not given.
    pub versions: Option<Vec<Timestamp>>,
    /// Versions that it must not have.
    pub excluded: Vec<Timestamp>,
}

impl Condition {
    /// Holds always.
    pub const ALWAYS: Self = Self { allows_absent: true, versions: None, excluded: Vec::new() };
    /// The key has a value.
    pub const PRESENT: Self = Self { allows_absent: false, versions: None, excluded: Vec::new() };

    /// The key has no value.
    pub fn absent() -> Self {
        Self { versions: Some(Vec::new()), ..Self::ALWAYS }
    }

    /// The key's value has one of these versions.
    pub fn one_of(versions: Vec<Timestamp>) -> Self {
        Self { versions: Some(versions), ..Self::PRESENT }
    }

    /// The key has no value, or one of another version than these.
    pub fn none_of(excluded: Vec<Timestamp>) -> Self {
        Self { excluded, ..Self::ALWAYS }
    }

    /// Both this and another one.
    pub fn and(mut self, other: Self) -> Self {
        let versions = match (self.versions, other.versions) {
            (Some(mut mine), Some(others)) => {
                mine.retain(|version| others.contains(version));
                Some(mine)
            }
            (mine, others) => mine.or(others),
        };
        self.excluded.extend(other.excluded);
        let allows_absent = self.allows_absent && other.allows_absent;
        Self { allows_absent, versions, excluded: self.excluded }
    }

    /// Whether it holds of a key with a value of this version, or without a value.
    pub fn holds(&self, found: Option<Timestamp>) -> bool {
        match found {
            None => self.allows_absent,
            Some(version) => {
                let is_listed = self.versions.as_ref().is_none_or(|all| all.contains(&version));
                is_listed && !self.excluded.contains(&version)
            }
        }
    }

    /// Whether the version of a value makes no difference.
    pub fn allows_any_version(&self) -> bool {
        self.versions.is_none() && self.excluded.is_empty()
    }

    /// The only version of which it holds, if there is one.
    pub fn only_version(&self) -> Option<Timestamp> {
        match self.versions.as_deref() {
            Some([version]) if !self.allows_absent && self.holds(Some(*version)) => Some(*version),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_taken_together_hold_where_each_holds() {
        let [a, b, c] = [1, 2, 3].map(Timestamp);
        let all = [
            Condition::ALWAYS,
            Condition::PRESENT,
            Condition::absent(),
            Condition::one_of(vec![]),
            Condition::one_of(vec![a, b]),
            Condition::none_of(vec![b, c]),
        ];
        for one in &all {
            for other in &all {
                for found in [None, Some(a), Some(b), Some(c)] {
                    let both = one.holds(found) && other.holds(found);
                    let together = one.clone().and(other.clone());
                    assert_eq!(together.holds(found), both, "{one:?} {other:?} {found:?}");
                }
            }
        }
        let one = Condition::one_of(vec![a, b]).and(Condition::one_of(vec![b, c]));
        assert_eq!(one.only_version(), Some(b));
        assert_eq!(one.and(Condition::none_of(vec![b])).only_version(), None);
    }
}

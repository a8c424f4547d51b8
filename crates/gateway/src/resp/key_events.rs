//! The flags of `notify-keyspace-events`: which keyspace notifications there are.

/// The letters, in the order in which Redis shows them. Those of `A` come first.
const LETTERS: &[u8] = b"g$lshzxetdKEmn";
/// How many of them `A` stands for.
const OF_ALL: usize = 10;

/// Flags as one number, a bit for each letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyEventFlags(i64);

impl KeyEventFlags {
    const ALL: i64 = (1 << OF_ALL) - 1;
    /// The highest that there is.
    pub const MAX: i64 = (1 << LETTERS.len()) - 1;

    /// Those of a number.
    pub fn of(number: i64) -> Self {
        Self(number & Self::MAX)
    }

    /// As a number.
    pub fn number(self) -> i64 {
        self.0
    }

    /// Those that letters stand for; none if one of them is no flag.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let bit = |letter: &u8| match letter {
            b'A' => Some(Self::ALL),
            letter => Some(1 << LETTERS.iter().position(|one| one == letter)?),
        };
        text.iter().try_fold(0, |flags, letter| Some(flags | bit(letter)?)).map(Self)
    }

    /// As letters.
    pub fn text(self) -> String {
        let has = |at: usize| self.0 & 1 << at != 0;
        let all = self.0 & Self::ALL == Self::ALL;
        let from = if all { OF_ALL } else { 0 };
        let letters = (from..LETTERS.len()).filter(|at| has(*at)).map(|at| LETTERS[at] as char);
        all.then_some('A').into_iter().chain(letters).collect()
    }

    fn has(self, letter: u8) -> bool {
        LETTERS.iter().position(|one| *one == letter).is_some_and(|at| self.0 & 1 << at != 0)
    }

    /// Messages to `__keyspace@…`.
    pub fn has_keyspace(self) -> bool {
        self.has(b'K')
    }

    /// Messages to `__keyevent@…`.
    pub fn has_keyevent(self) -> bool {
        self.has(b'E')
    }

    /// Of values that are set.
    pub fn has_strings(self) -> bool {
        self.has(b'$')
    }

    /// Of deletions.
    pub fn has_generic(self) -> bool {
        self.has(b'g')
    }

    /// Of values that come to their end.
    pub fn has_expired(self) -> bool {
        self.has(b'x')
    }

    /// Whether there are no messages.
    pub fn is_quiet(self) -> bool {
        let has_channel = self.has_keyspace() || self.has_keyevent();
        !has_channel || !(self.has_strings() || self.has_generic() || self.has_expired())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_shown_as_redis_does() {
        for (text, shown) in [("", ""), ("KEA", "AKE"), ("Kg$x", "g$xK"), ("Elg", "glE")] {
            assert_eq!(KeyEventFlags::parse(text.as_bytes()).unwrap().text(), shown, "{text}");
        }
        assert_eq!(KeyEventFlags::parse(b"KX"), None);
        let quiet = |text: &str| KeyEventFlags::parse(text.as_bytes()).unwrap().is_quiet();
        assert!(quiet("") && quiet("A") && quiet("KEl") && !quiet("KA") && !quiet("Ex"));
    }
}

//! Colours, for people at a terminal: programs and files get none.

use std::io::{self, IsTerminal};

/// The meaning that a word's colour shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All is well.
    Good,
    /// Look at it some time.
    Uneasy,
    /// Look at it now.
    Bad,
    /// Of less interest than the rest.
    Faint,
}

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// As it is.
    #[cfg(test)]
    pub const PLAIN: Self = Self(false);

    /// For standard output: colours only on a terminal whose user has not asked for plain text.
    pub fn of_stdout() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(io::stdout().is_terminal() && !plain)
    }

    /// The text, coloured if colours are wanted.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Uneasy => "33",
            Tone::Bad => "1;31",
            Tone::Faint => "2",
        };
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How many columns a text takes: colours take none.
pub fn width(text: &str) -> usize {
    let mut count = 0;
    let mut inside = false;
    for letter in text.chars() {
        match (inside, letter) {
            (false, '\x1b') => inside = true,
            (true, 'm') => inside = false,
            (true, _) => {}
            (false, _) => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room_and_plain_is_plain() {
        assert_eq!(Paint::PLAIN.paint(Tone::Bad, "down"), "down");
        let red = Paint(true).paint(Tone::Bad, "düster");
        assert!(red.starts_with("\x1b[1;31m") && red.ends_with("\x1b[0m"), "{red:?}");
        assert_eq!((width(&red), width("down"), width("")), (6, 4, 0));
    }
}

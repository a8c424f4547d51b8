//! What is wrong with a scenario, and where.

use std::fmt;

/// A scenario that cannot be run. Nothing has been started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioError {
    /// The file, or the name of a scenario that comes with the program.
    pub file: String,
    /// The line, from 1; 0 for what a flag says.
    pub line: usize,
    /// The key, from the top: `phase.steady.rate`. Empty if the file is no TOML.
    pub key: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: ", self.file)?,
            line => write!(out, "{}:{line}: ", self.file)?,
        }
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key)?;
        }
        write!(out, "{}", self.problem)
    }
}

/// The one of `names` that is most like `text`, if it is like it.
pub fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close = names.into_iter().map(|name| (distance(text, name), name));
    let close = close.filter(|(distance, name)| *distance <= 1 + name.len() / 4);
    close.min().map(|(_, name)| name)
}

/// How many letters must be added, removed or replaced to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names_are_found_and_strange_ones_not() {
        let names = ["clients", "pipeline", "rate"];
        assert_eq!(nearest("client", names), Some("clients"));
        assert_eq!(nearest("pipelnie", names), Some("pipeline"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!((distance("", "abc"), distance("abc", "abc")), (3, 0));
    }
}

//! A page of Markdown with its charts.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use chart::{Axis, Line, lines};

use crate::Outcome;

/// The longest line of prose.
const COLUMNS: usize = 116;

/// A page about one document.
pub struct Page {
    /// The number of the document.
    pub number: &'static str,
    text: String,
    charts: Vec<(String, String)>,
}

impl Page {
    /// A page without anything but its heading.
    pub fn new(number: &'static str, title: &str) -> Self {
        Self { number, text: format!("# {title}\n\n"), charts: Vec::new() }
    }

    /// A heading of the second level.
    pub fn head(&mut self, text: &str) {
        self.write(&format!("## {text}\n\n"));
    }

    /// A paragraph.
    pub fn say(&mut self, text: &str) {
        let wrapped = wrapped(text, "");
        self.write(&format!("{wrapped}\n\n"));
    }

    /// A list.
    pub fn list(&mut self, items: &[String]) {
        for item in items {
            let wrapped = wrapped(item, "  ");
            self.write(&format!("- {wrapped}\n"));
        }
        self.write("\n");
    }

    /// A table.
    pub fn table<H: AsRef<str>>(&mut self, head: &[H], rows: &[Vec<String>]) {
        let head: Vec<&str> = head.iter().map(AsRef::as_ref).collect();
        self.write(&format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len())));
        for row in rows {
            self.write(&format!("| {} |\n", row.join(" | ")));
        }
        self.write("\n");
    }

    /// A chart of lines, in a file of its own.
    pub fn chart(&mut self, name: &str, title: &str, axes: [Axis; 2], all: &[Line]) {
        let file = format!("{}-{name}.svg", self.number);
        self.write(&format!("![{title}]({file})\n\n"));
        self.charts.push((file, lines(title, axes, all)));
    }

    /// What was claimed, what was found, and whether they agree.
    pub fn verdicts(&mut self, verdicts: &[Verdict]) {
        let rows = verdicts.iter().map(|verdict| {
            let word = match verdict.holds {
                Some(true) => "reproduced",
                Some(false) => "**not reproduced**",
                None => "not measured",
            };
            vec![verdict.claim.clone(), verdict.found.clone(), word.to_owned()]
        });
        self.table(&["it claimed", "we found", ""], &rows.collect::<Vec<_>>());
    }

    fn write(&mut self, text: &str) {
        // A string takes everything.
        let _always = self.text.write_str(text);
    }

    /// Writes the page and its charts; returns the page's path.
    ///
    /// # Errors
    /// The system refuses.
    pub fn save(&self, dir: &Path) -> Outcome<PathBuf> {
        let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
        for (name, svg) in &self.charts {
            let path = dir.join(name);
            fs::write(&path, svg).map_err(|error| failed(&path, error))?;
        }
        let path = dir.join(format!("{}.md", self.number));
        let text = format!("{}\n", self.text.trim_end());
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
        Ok(path)
    }
}

/// What became of a claim.
pub struct Verdict {
    claim: String,
    found: String,
    pub(super) holds: Option<bool>,
}

impl Verdict {
    /// A claim that measurements can hold against.
    pub fn new(claim: impl Into<String>, found: impl Into<String>, holds: Option<bool>) -> Self {
        Self { claim: claim.into(), found: found.into(), holds }
    }
}

/// Lines of at most [`COLUMNS`]; all but the first begin with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

/// A number as tables show it: 12 345, 12.3, 0.123.
pub fn shown(number: f64) -> String {
    if !number.is_finite() {
        return "–".to_owned();
    }
    match number.abs() {
        n if n >= 1000.0 => {
            let digits = format!("{number:.0}");
            let mut out = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) && !out.ends_with('-') {
                    out.push(' ');
                }
                out.push(digit);
            }
            out
        }
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        n if n >= 0.1 || n == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

/// A number of things: 0, 12, 12 345.
pub fn count(number: f64) -> String {
    if number.abs() < 1000.0 { format!("{number:.0}") } else { shown(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_numbers_are_short() {
        let long = "word ".repeat(60);
        for (indent, text) in [("", wrapped(&long, "")), ("  ", wrapped(&long, "  "))] {
            assert!(text.lines().all(|line| line.len() <= COLUMNS));
            assert!(text.lines().skip(1).all(|line| line.starts_with(indent)));
            assert_eq!(text.split_whitespace().count(), 60);
        }
        let numbers = [1_234_567.8, -1234.0, 123.4, 12.34, 0.5, 0.0, 0.012, f64::NAN];
        let texts = ["1 234 568", "-1 234", "123", "12.3", "0.50", "0.00", "0.0120", "–"];
        assert_eq!(numbers.map(shown), texts.map(str::to_owned));
        assert_eq!([0.0, 3.0, 4321.0].map(count), ["0", "3", "4 321"].map(str::to_owned));
    }

    #[test]
    fn a_page_has_what_was_put_on_it() {
        let dir = harness::process::Directory::new("page").unwrap();
        let mut page = Page::new("000", "A title");
        page.head("Part");
        page.verdicts(&[Verdict::new("a", "b", Some(false)), Verdict::new("c", "d", None)]);
        let line = Line::new("x", 1, vec![(1.0, 1.0), (2.0, 4.0)]);
        page.chart("fig", "A chart", [chart::plain("nodes"), chart::plain("rate")], &[line]);
        let text = fs::read_to_string(page.save(dir.path()).unwrap()).unwrap();
        assert!(text.starts_with("# A title\n\n## Part\n"), "{text}");
        assert!(text.contains("| a | b | **not reproduced** |\n| c | d | not measured |"));
        assert!(text.contains("![A chart](000-fig.svg)"));
        assert!(fs::read_to_string(dir.path().join("000-fig.svg")).unwrap().contains("<svg"));
    }
}

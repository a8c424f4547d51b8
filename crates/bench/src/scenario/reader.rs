//! Reads TOML tables key by key, and knows where each stands.
//!
//! Every reading function takes the values that are allowed. [`Section::finish`] then refuses what
//! nobody has read, so that a misspelt key is an error and not a default.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ScenarioError, nearest};

/// A scenario's text and its name.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file's name.
    pub file: &'a str,
    /// What it holds.
    pub text: &'a str,
}

impl Source<'_> {
    /// An error at these bytes of the text; an empty range is what a flag says.
    pub fn error(&self, at: Range<usize>, key: &str, problem: impl Into<String>) -> ScenarioError {
        let line = match at.end {
            0 => 0,
            _ => 1 + self.text.bytes().take(at.start).filter(|byte| *byte == b'\n').count(),
        };
        let (key, problem) = (key.to_owned(), problem.into());
        ScenarioError { file: self.file.to_owned(), line, key, problem }
    }
}

/// What reading yields: a value, or what is wrong.
pub type Read<T> = Result<T, ScenarioError>;

/// A table of a scenario.
#[derive(Debug)]
pub struct Section<'a, 'i> {
    source: Source<'a>,
    path: String,
    at: Range<usize>,
    table: &'a DeTable<'i>,
    read: RefCell<BTreeSet<String>>,
}

impl<'a, 'i> Section<'a, 'i> {
    /// The table at `path`.
    pub fn new(source: Source<'a>, path: String, at: Range<usize>, table: &'a DeTable<'i>) -> Self {
        Self { source, path, at, table, read: RefCell::default() }
    }

    fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn get(&self, name: &str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.read.borrow_mut().insert(name.to_owned());
        self.table.get(name)
    }

    /// Whether the key is there.
    pub fn has(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    /// The names of all keys.
    pub fn names(&self) -> Vec<&'a str> {
        self.table.keys().map(|key| key.get_ref().as_ref()).collect()
    }

    /// An error about the table itself.
    pub fn error(&self, problem: impl Into<String>) -> ScenarioError {
        self.source.error(self.at.clone(), &self.path, problem)
    }

    /// An error about one of its keys.
    pub fn error_at(&self, name: &str, problem: impl Into<String>) -> ScenarioError {
        let at = self.table.get(name).map_or(self.at.clone(), Spanned::span);
        self.source.error(at, &self.key(name), problem)
    }

    fn expected(&self, name: &str, expected: &str) -> ScenarioError {
        let found = self.table.get(name).map_or_else(String::new, |value| shown(value.get_ref()));
        self.error_at(name, format!("expected {expected}, found {found}"))
    }

    /// A text.
    pub fn text(&self, name: &str) -> Read<Option<String>> {
        match self.get(name).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text.to_string())),
            Some(_) => Err(self.expected(name, "a text in quotes")),
        }
    }

    /// One of some words.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Read<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let mut error = self.expected(name, &format!("one of {}", names.join(", ")));
            if let Some(near) = nearest(&text, names) {
                error.problem.push_str(&format!("; did you mean `{near}`?"));
            }
            error
        })
    }

    /// A whole number.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Read<Option<u64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match whole(value.get_ref()).filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (from, to) = range.into_inner();
                Err(self.expected(name, &format!("a whole number from {from} to {to}")))
            }
        }
    }

    /// A number, perhaps with a fraction.
    pub fn float(&self, name: &str, range: RangeInclusive<f64>) -> Read<Option<f64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match fraction(value.get_ref()).filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (from, to) = range.into_inner();
                Err(self.expected(name, &format!("a number from {from} to {to}")))
            }
        }
    }

    /// A length of time with its unit.
    pub fn time(&self, name: &str, range: RangeInclusive<Duration>) -> Read<Option<Duration>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let time = match text.get_ref() {
            DeValue::String(text) => parse_time(text),
            _ => None,
        };
        match time.filter(|time| range.contains(time)) {
            Some(time) => Ok(Some(time)),
            None => {
                let (from, to) = range.into_inner();
                let examples = format!("a time from {from:?} to {to:?}, as \"250ms\" or \"5s\"");
                Err(self.expected(name, &examples))
            }
        }
    }

    /// True or false.
    pub fn flag(&self, name: &str) -> Read<Option<bool>> {
        match self.get(name).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Boolean(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.expected(name, "true or false")),
        }
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Read<Option<Vec<String>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let texts = texts(value.get_ref());
        texts.map(Some).ok_or_else(|| self.expected(name, "a list of texts: [\"a\", \"b\"]"))
    }

    /// A list of lists of texts.
    pub fn commands(&self, name: &str) -> Read<Option<Vec<Vec<String>>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let expected = || self.expected(name, "a list of commands: [[\"program\", \"flag\"]]");
        let DeValue::Array(items) = value.get_ref() else { return Err(expected()) };
        let commands: Option<Vec<_>> = items.iter().map(|item| texts(item.get_ref())).collect();
        let whole = commands.filter(|all| all.iter().all(|one| !one.is_empty()));
        whole.map(Some).ok_or_else(expected)
    }

    /// A table below this one.
    pub fn section(&self, name: &str) -> Read<Option<Section<'a, 'i>>> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => {
                    Ok(Some(Section::new(self.source, self.key(name), value.span(), table)))
                }
                _ => Err(self.expected(name, &format!("a table: [{}]", self.key(name)))),
            },
        }
    }

    /// Tables of one kind: `[[name]]`. Errors call them by their `name`, or else by their number.
    pub fn sections(&self, name: &str) -> Read<Vec<Section<'a, 'i>>> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let expected = || self.expected(name, &format!("tables: [[{}]]", self.key(name)));
        let DeValue::Array(items) = value.get_ref() else { return Err(expected()) };
        let sections = items.iter().zip(1..).map(|(item, number)| {
            let DeValue::Table(table) = item.get_ref() else { return Err(expected()) };
            let called = match table.get("name").map(Spanned::get_ref) {
                Some(DeValue::String(called)) => called.to_string(),
                _ => number.to_string(),
            };
            let path = format!("{}.{called}", self.key(name));
            Ok(Section::new(self.source, path, item.span(), table))
        });
        sections.collect()
    }

    /// Refuses keys that nobody has read.
    pub fn finish(self) -> Read<()> {
        let read = self.read.borrow();
        let unknown = self.table.keys().find(|key| !read.contains(key.get_ref().as_ref()));
        let Some(unknown) = unknown else { return Ok(()) };
        let name: &str = unknown.get_ref();
        let hint = match nearest(name, read.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => {
                let known: Vec<&str> = read.iter().map(String::as_str).collect();
                format!("known here: {}", known.join(", "))
            }
        };
        let problem = format!("unknown key; {hint}");
        Err(self.source.error(unknown.span(), &self.key(name), problem))
    }
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let DeValue::Array(items) = value else { return None };
    let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    };
    items.iter().map(text).collect()
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let DeValue::Integer(number) = value else { return None };
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn fraction(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => whole(value).map(|number| number as f64),
    }
}

/// A value as an error or the name of a cell shows it.
pub fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| shown(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(table) => {
            let pairs: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{} = {}", key.get_ref(), shown(value.get_ref())))
                .collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

/// A time as people write it: a number and one of `us`, `ms`, `s`, `m`, `h`.
pub fn parse_time(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let nanos = match unit {
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3_600e9,
        _ => return None,
    };
    let nanos = number * nanos;
    (nanos <= 1e18).then(|| Duration::from_nanos(nanos as u64))
}

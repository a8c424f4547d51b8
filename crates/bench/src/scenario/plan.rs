//! A scenario with its matrix: all cells, each checked before anything is started.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::parse::scenario;
use super::reader::{Read, Section, Source, shown};
use super::{Scenario, ScenarioError, When};

/// The most cells of a matrix.
const CELLS_MAX: usize = 10_000;
/// The most nodes, acts of timelines, and phases of all cells together.
const PARTS_MAX: usize = 50_000;
/// The most repetitions of a cell.
const REPETITIONS_MAX: u64 = 1_000;

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The scenario's name.
    pub name: String,
    /// What it is for, in a sentence.
    pub about: String,
    /// How often each cell is run.
    pub repetitions: u64,
    /// The cells, in order.
    pub cells: Vec<Cell>,
    /// The text, as agents get it and as results keep it.
    pub text: String,
    /// What flags set on top of the text.
    pub sets: Vec<(String, String)>,
    /// The longest that a phase may take, in seconds, if that was shortened.
    pub seconds_max: Option<f64>,
}

/// A combination of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its parameters and their values; empty without a matrix.
    pub parameters: Vec<(String, String)>,
    /// What is to be done.
    pub scenario: Scenario,
}

impl Cell {
    /// What people call it.
    pub fn label(&self) -> String {
        label(&self.parameters)
    }
}

/// What people call a cell of these parameters.
pub fn label(parameters: &[(String, String)]) -> String {
    let pairs = parameters.iter().map(|(key, value)| {
        let short = key.rsplit('.').next().unwrap_or(key);
        format!("{short}={value}")
    });
    pairs.collect::<Vec<_>>().join(" ")
}

type Table<'i> = DeTable<'i>;
type Value<'i> = Spanned<DeValue<'i>>;

impl Plan {
    /// Reads and checks a scenario. `sets` are values of keys by their dotted paths, which replace
    /// those of the text.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(file: &str, text: &str, sets: &[(String, String)]) -> Result<Self, ScenarioError> {
        let source = Source { file, text };
        let parsed = DeTable::parse(text).map_err(|error| {
            let at = error.span().unwrap_or(0..0);
            let at = at.start..at.end.max(at.start + 1);
            source.error(at, "", format!("not TOML: {}", error.message()))
        })?;
        let whole = parsed.span();
        let mut root = parsed.into_inner();
        for (path, value) in sets {
            let flag = Source { file: "--set", text: "" };
            // A word needs no quotes: shells take them away.
            let value = DeValue::parse(value)
                .map(Spanned::into_inner)
                .unwrap_or_else(|_| DeValue::String(value.as_str().into()));
            place(&mut root, path, Spanned::new(0..0, value))
                .map_err(|problem| flag.error(0..0, path, problem))?;
        }
        let matrix = matrix(source, &mut root)?;
        let (mut cells, mut parts) = (Vec::new(), 0);
        for choice in combinations(&matrix) {
            let mut table = root.clone();
            let mut parameters = Vec::new();
            for (path, value) in choice {
                let set = place(&mut table, path, value.clone());
                set.map_err(|problem| {
                    source.error(value.span(), &format!("matrix.{path:?}"), problem)
                })?;
                let shown = shown(value.get_ref());
                parameters.push((path.to_owned(), shown.trim_matches('"').to_owned()));
            }
            let section = Section::new(source, String::new(), whole.clone(), &table);
            let scenario = scenario(&section)?;
            let (about, repetitions) = heading(&section)?;
            parts += scenario.target.nodes.len() + scenario.timeline.len() + scenario.phases.len();
            if parts > PARTS_MAX {
                let problem = format!("more than {PARTS_MAX} nodes, acts and phases in all cells");
                return Err(section.error_at("matrix", problem));
            }
            section.finish()?;
            cells.push((Cell { parameters, scenario }, about, repetitions));
        }
        let (about, repetitions) =
            cells.first().map(|cell| (cell.1.clone(), cell.2)).unwrap_or_default();
        let stem = file.rsplit('/').next().unwrap_or(file);
        Ok(Self {
            name: stem.strip_suffix(".toml").unwrap_or(stem).to_owned(),
            about,
            repetitions,
            cells: cells.into_iter().map(|cell| cell.0).collect(),
            text: text.to_owned(),
            sets: sets.to_vec(),
            seconds_max: None,
        })
    }
}

impl Plan {
    /// Lets no phase take longer than this. Times of a timeline shrink with their phases.
    pub fn shorten(&mut self, most: Duration) {
        self.seconds_max = Some(most.as_secs_f64());
        for cell in &mut self.cells {
            let Scenario { phases, timeline, .. } = &mut cell.scenario;
            for act in timeline {
                if let When::During(number, at) = &mut act.when {
                    let length = phases[*number].length;
                    *at = at.mul_f64(most.min(length).as_secs_f64() / length.as_secs_f64());
                }
            }
            phases.iter_mut().for_each(|phase| phase.length = phase.length.min(most));
        }
    }
}

fn heading(root: &Section<'_, '_>) -> Read<(String, u64)> {
    let about = root.text("about")?.unwrap_or_default();
    Ok((about, root.number("repetitions", 1..=REPETITIONS_MAX)?.unwrap_or(1)))
}

/// Takes the matrix out of the file: paths and their values.
fn matrix<'i>(source: Source<'_>, root: &mut Table<'i>) -> Read<Vec<(String, Vec<Value<'i>>)>> {
    let Some(matrix) = root.remove("matrix") else { return Ok(Vec::new()) };
    let at = matrix.span();
    let DeValue::Table(table) = matrix.into_inner() else {
        return Err(source.error(at, "matrix", "expected a table: [matrix]"));
    };
    let mut axes = Vec::new();
    for (key, value) in table {
        let (path, at) = (key.into_inner().into_owned(), value.span());
        match value.into_inner() {
            DeValue::Array(values) if !values.is_empty() => {
                axes.push((path, values.into_iter().collect::<Vec<_>>()));
            }
            _ => {
                let problem = "expected a list of values: \"load.clients\" = [1, 10]";
                return Err(source.error(at, &format!("matrix.{path:?}"), problem));
            }
        }
    }
    let count = axes.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()));
    if count.is_none_or(|count| count > CELLS_MAX) {
        return Err(source.error(at, "matrix", format!("more than {CELLS_MAX} combinations")));
    }
    Ok(axes)
}

/// All combinations of the values; the last axis changes first.
fn combinations<'m, 'i>(
    axes: &'m [(String, Vec<Value<'i>>)],
) -> Vec<Vec<(&'m str, &'m Value<'i>)>> {
    axes.iter().fold(vec![Vec::new()], |partial, (path, values)| {
        let extended = partial.iter().flat_map(|choice| {
            values.iter().map(move |value| {
                let mut choice = choice.clone();
                choice.push((path.as_str(), value));
                choice
            })
        });
        extended.collect()
    })
}

/// Puts a value at a dotted path. In lists of tables a step is the `name` of one of them.
fn place<'i>(table: &mut Table<'i>, path: &str, value: Value<'i>) -> Result<(), String> {
    let Some((first, rest)) = path.split_once('.') else {
        let key = table.keys().find(|key| key.get_ref().as_ref() == path).cloned();
        let key = key.unwrap_or_else(|| Spanned::new(value.span(), path.to_owned().into()));
        table.insert(key, value);
        return Ok(());
    };
    if table.get(first).is_none() {
        let key = Spanned::new(value.span(), first.to_owned().into());
        table.insert(key, Spanned::new(value.span(), DeValue::Table(Table::new())));
    }
    match table.get_mut(first).map(Spanned::get_mut) {
        Some(DeValue::Table(below)) => place(below, rest, value),
        Some(DeValue::Array(items)) => {
            let (name, rest) = rest.split_once('.').ok_or_else(|| {
                format!("expected {first}.NAME.KEY, since there are several [[{first}]]")
            })?;
            let named = items.iter_mut().find_map(|item| match item.get_mut() {
                DeValue::Table(table) if has_name(table, name) => Some(table),
                _ => None,
            });
            let Some(named) = named else { return Err(format!("no [[{first}]] is called {name}")) };
            place(named, rest, value)
        }
        _ => Err(format!("`{first}` is no table")),
    }
}

fn has_name(table: &Table<'_>, name: &str) -> bool {
    matches!(table.get("name").map(Spanned::get_ref), Some(DeValue::String(text)) if text == name)
}

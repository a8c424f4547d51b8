//! Panels above each other, with one axis of time, and a line through all of them for each event.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::lines::Line;
use super::palette::{self, EVENT, GRID, INK, LIMIT, MUTED_INK};
use super::picture::{Area, DrawResult, LEFT, picture, text};
use super::scale::Scale;

const WIDTH: i32 = 960;
const RIGHT: i32 = 24;
/// Title, what it is about, legend.
const HEADER_HEIGHT: i32 = 76;
/// A row of events' names.
const ROW: i32 = 15;
/// Rows of events' names at most; names that find no room stand over others.
const ROWS: usize = 4;
/// What stands above a panel: its name.
const NAME: i32 = 24;
/// A panel with its name.
const PANEL: i32 = 64 + NAME;
/// The axis of time, and its name.
const FOOTER_HEIGHT: i32 = 40;
/// About the width of a character of an event's name.
const CHARACTER_WIDTH: i32 = 6;
/// An entry of the legend, at least.
const ENTRY: i32 = 72;

/// The whole.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its title.
    pub title: String,
    /// Where and with what it was measured.
    pub about: String,
    /// What the axis of time says.
    pub time: &'static str,
    /// Where the axis of time ends.
    pub end: f64,
    /// What happened meanwhile.
    pub events: Vec<Event>,
    /// The panels, from the top. Lines of one name look alike in all of them: give them one colour.
    pub panels: Vec<Panel>,
}

/// What happened at a moment.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: f64,
    /// What.
    pub name: String,
}

/// Lines over the axis of time.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What they show, with its unit.
    pub name: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// A bound that they are to keep, if there is one.
    pub limit: Option<f64>,
}

/// The panels, as SVG.
pub fn stack(stack: &Stack) -> String {
    let labels = EventLabels::new(&stack.events, stack.end);
    let top = HEADER_HEIGHT + labels.rows as i32 * ROW + 6;
    let bottom = top + PANEL * stack.panels.len() as i32;
    picture(&stack.title, (WIDTH as u32, (bottom + FOOTER_HEIGHT) as u32), |area| {
        area.draw(&Text::new(stack.about.as_str(), (LEFT, 38), text(MUTED_INK, HPos::Left)))?;
        draw_legend(area, &stack.panels)?;
        labels.draw(area, &stack.events, bottom)?;
        for (place, panel) in stack.panels.iter().enumerate() {
            draw_panel(area, panel, stack, top + PANEL * place as i32)?;
        }
        Ok(())
    })
}

/// Each name once, in the order of panels and lines.
fn draw_legend(area: &Area<'_>, panels: &[Panel]) -> DrawResult {
    let mut shown: Vec<&str> = Vec::new();
    let mut x = LEFT;
    for line in panels.iter().flat_map(|panel| &panel.lines) {
        if line.name.is_empty() || shown.contains(&line.name.as_str()) {
            continue;
        }
        let y = 58;
        let sample = [(x, y - 1), (x + 16, y + 1)];
        area.draw(&Rectangle::new(sample, palette::line(line.colour).filled()))?;
        area.draw(&Text::new(line.name.as_str(), (x + 20, y), text(INK, HPos::Left)))?;
        shown.push(&line.name);
        x += ENTRY.max(line.name.chars().count() as i32 * CHARACTER_WIDTH + 28);
    }
    Ok(())
}

/// Draws a panel whose name begins at `top`; the last one with the axis of time below it.
fn draw_panel(area: &Area<'_>, panel: &Panel, stack: &Stack, top: i32) -> DrawResult {
    let is_last = std::ptr::eq(panel, stack.panels.last().expect("this one, at least"));
    area.draw(&Text::new(panel.name.as_str(), (LEFT, top + 14), text(INK, HPos::Left)))?;
    let values = panel.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let values = Scale::new(false, values.chain(panel.limit), 3.0);
    let times = Scale::new(false, [stack.end].into_iter(), 16.0).ending_at(stack.end);
    let foot = if is_last { FOOTER_HEIGHT } else { 0 };
    let (_, rest) = area.split_vertically(top);
    let (here, _) = rest.split_vertically(PANEL + foot);
    let mut chart = ChartBuilder::on(&here)
        .margin_top(NAME)
        .margin_right(RIGHT)
        .x_label_area_size(foot)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(times, values)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().bold_line_style(GRID).axis_style(GRID);
    mesh.label_style(text(MUTED_INK, HPos::Center)).axis_desc_style(text(MUTED_INK, HPos::Center));
    if is_last {
        mesh.x_desc(stack.time);
    }
    mesh.draw()?;
    if let Some(limit) = panel.limit {
        let ends = [(0.0, limit), (stack.end, limit)];
        chart.draw_series([PathElement::new(ends, LIMIT)])?;
    }
    for line in &panel.lines {
        let style = palette::line(line.colour).stroke_width(2);
        chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
    }
    Ok(())
}

/// Where the names of events stand.
struct EventLabels {
    /// Of each event, in pixels, where its line is.
    at: Vec<i32>,
    /// Of each event, the row of its name, and whether that stands left of the line.
    places: Vec<(usize, bool)>,
    rows: usize,
}

impl EventLabels {
    /// Each name in the first row in which it meets no other.
    fn new(events: &[Event], end: f64) -> Self {
        let x = |at: f64| LEFT + (f64::from(WIDTH - LEFT - RIGHT) * at / end).round() as i32;
        let mut ends: Vec<i32> = Vec::new();
        let mut places = Vec::new();
        for event in events {
            let (at, width) =
                (x(event.at), event.name.chars().count() as i32 * CHARACTER_WIDTH + 10);
            let is_left = at + width > WIDTH;
            let from = if is_left { at - width } else { at };
            let free = ends.iter().position(|end| *end <= from);
            let row = free.unwrap_or(ends.len()).min(ROWS - 1);
            if row == ends.len() {
                ends.push(0);
            }
            ends[row] = from + width;
            places.push((row, is_left));
        }
        Self { at: events.iter().map(|event| x(event.at)).collect(), places, rows: ends.len() }
    }

    fn draw(&self, area: &Area<'_>, events: &[Event], bottom: i32) -> DrawResult {
        for ((event, at), (row, is_left)) in events.iter().zip(&self.at).zip(&self.places) {
            let y = HEADER_HEIGHT + *row as i32 * ROW + 6;
            let (x, side) = if *is_left { (at - 4, HPos::Right) } else { (at + 4, HPos::Left) };
            area.draw(&Text::new(event.name.as_str(), (x, y), text(EVENT, side)))?;
            area.draw(&PathElement::new([(*at, y - 5), (*at, bottom)], EVENT))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_have_one_legend_and_each_line_is_one_polyline() {
        let line = |name: &str, colour| Line::new(name, colour, vec![(0.5, 1.0), (1.5, 4_100.0)]);
        let panel =
            |name: &str, lines| Panel { name: name.to_owned(), lines, limit: Some(6_000.0) };
        let drawn = stack(&Stack {
            title: "join".to_owned(),
            about: "3 clients".to_owned(),
            time: "seconds",
            end: 2.0,
            events: ["node 4 joins", "node 5 joins"]
                .map(|name| Event { at: 1.0, name: name.to_owned() })
                .to_vec(),
            panels: vec![
                panel("requests answered, per second", vec![line("", 1)]),
                panel("bytes, MiB", vec![line("node 1", 1), line("node 2", 2)]),
                panel("leaders", vec![line("node 1", 1), line("node 2", 2)]),
            ],
        });
        for words in ["join", "3 clients", "seconds", "node 4 joins", "bytes, MiB", "leaders"] {
            assert!(drawn.contains(words), "{words}");
        }
        assert_eq!(drawn.matches("\nnode 1\n").count(), 1, "once in the legend");
        let is_line = |text: &&str| text.starts_with("<polyline") && text.contains("width=\"2\"");
        assert_eq!(drawn.lines().filter(is_line).count(), 5);
    }

    #[test]
    fn names_of_events_do_not_meet() {
        let event = |at, name: &str| Event { at, name: name.to_owned() };
        let labels = EventLabels::new(
            &[event(1.0, "a long name"), event(1.1, "another one"), event(9.9, "the last of all")],
            10.0,
        );
        assert_eq!(labels.places, [(0, false), (1, false), (0, true)]);
        assert_eq!(labels.rows, 2);
    }
}

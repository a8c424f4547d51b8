//! Lines over two axes, with a legend at their right.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::palette::{self, GRID, INK};
use super::picture::{Area, DrawResult, LEFT, picture, text};
use super::scale::Scale;

const SIZE: (u32, u32) = (720, 400);
/// Width of the legend.
const LEGEND: u32 = 170;
/// What the title takes at the top.
const TOP: u32 = 44;
/// Marks on an axis, at most about.
const MARKS: f64 = 8.0;
/// Pixels of a dash, and between two.
const DASH: u32 = 5;
const GAP: u32 = 4;

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the legend calls it; a line without a name is not in the legend.
    pub name: String,
    /// The number of its colour: 0 for a line that is only a reference.
    pub colour: usize,
    /// Whether it is dashed.
    pub is_dashed: bool,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// Of something that is measured.
    pub fn new(name: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), colour, is_dashed: false, points }
    }

    /// Of what papers say, or of another form.
    #[must_use]
    pub fn dashed(self) -> Self {
        Self { is_dashed: true, ..self }
    }
}

/// What an axis says.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    name: &'static str,
    is_log: bool,
}

/// An axis on which equal distances are equal differences.
pub fn plain(name: &'static str) -> Axis {
    Axis { name, is_log: false }
}

/// An axis on which equal distances are equal factors.
pub fn log(name: &'static str) -> Axis {
    Axis { name, is_log: true }
}

/// The chart, as SVG. An axis that is logarithmic takes positive numbers alone.
pub fn lines(title: &str, [x, y]: [Axis; 2], lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let xs = Scale::new(x.is_log, all().map(|point| point.0), MARKS);
    let ys = Scale::new(y.is_log, all().map(|point| point.1), MARKS);
    picture(title, SIZE, |area| {
        let (plot, legend) = area.split_horizontally(SIZE.0 - LEGEND);
        let mut chart = ChartBuilder::on(&plot)
            .margin_top(TOP)
            .margin_right(8)
            .margin_bottom(4)
            .x_label_area_size(44)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(xs, ys)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text(INK, HPos::Center))
            .axis_desc_style(text(INK, HPos::Center))
            .x_desc(x.name)
            .y_desc(y.name)
            .draw()?;
        for line in lines {
            let (points, style) = (line.points.iter().copied(), style(line));
            // Dots: a line of one point would not be seen.
            chart.draw_series(points.clone().map(|point| Circle::new(point, 3, style.filled())))?;
            if line.is_dashed {
                chart.draw_series(DashedLineSeries::new(points, DASH, GAP, style))?;
            } else {
                chart.draw_series(LineSeries::new(points, style))?;
            }
        }
        draw_legend(&legend, lines)
    })
}

fn draw_legend(area: &Area<'_>, lines: &[Line]) -> DrawResult {
    for (place, line) in lines.iter().enumerate() {
        let y = TOP as i32 + 8 + 18 * place as i32;
        let sample = [(4, y), (24, y)];
        if line.is_dashed {
            area.draw(&DashedPathElement::new(sample, DASH, GAP, style(line)))?;
        } else {
            area.draw(&PathElement::new(sample, style(line)))?;
        }
        area.draw(&Text::new(line.name.as_str(), (30, y), text(INK, HPos::Left)))?;
    }
    Ok(())
}

fn style(line: &Line) -> ShapeStyle {
    palette::line(line.colour).stroke_width(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_axes_its_legend_and_its_lines() {
        let measured = Line::new("measured", 1, vec![(10.0, 1.0), (1000.0, 3.0)]);
        let papers = Line::new("½·log2 N", 0, vec![(10.0, 2.0), (1000.0, 4.0)]).dashed();
        let drawn =
            || lines("Hops", [log("members"), plain("hops")], &[measured.clone(), papers.clone()]);
        let svg = drawn();
        for words in ["Hops", "members", "hops", "measured", "½·log2 N", "\n1000\n", "\n4\n"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg, drawn(), "the same input, the same bytes");
    }
}

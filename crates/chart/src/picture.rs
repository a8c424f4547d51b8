//! A picture as a whole: its ground, its title, its style sheet, and how text looks on it.

use std::io;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::palette;

/// A part of a picture, in pixels.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Whether drawing worked. It writes into a string, so that it does.
pub(crate) type DrawResult = Result<(), DrawingAreaErrorKind<io::Error>>;

/// From the left edge of a picture to its title and its vertical axis.
pub(crate) const LEFT: i32 = 64;

/// plotters divides the size of a font by this when it writes SVG.
const FONT_UNITS_PER_PIXEL: f64 = 1.24;

/// A whole picture: its title at the top, the rest by `draw`.
pub(crate) fn picture(
    title: &str,
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> DrawResult,
) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let drawn = area
        .fill(&palette::GROUND)
        .and_then(|()| area.draw(&Text::new(title, (LEFT, 19), title_style())))
        .and_then(|()| draw(&area))
        .and_then(|()| area.present());
    drawn.expect("a string takes all that is written into it");
    drop(area);
    let (begin, elements) = svg.split_once('\n').expect("the picture's own line");
    let begin = begin.replacen("<svg", "<svg role=\"img\"", 1);
    let (title, style) = (escaped(title), palette::style_sheet());
    format!("{begin}\n<title>{title}</title>\n<style>{style}</style>\n{elements}")
}

fn title_style() -> TextStyle<'static> {
    let font = (FAMILY, 15.0 * FONT_UNITS_PER_PIXEL, FontStyle::Bold).into_font();
    TextStyle::from(font).color(&palette::INK).pos(Pos::new(HPos::Left, VPos::Center))
}

const FAMILY: &str = "system-ui,sans-serif";

/// How text of this colour looks, with its middle or one of its ends at its place.
pub(crate) fn text(colour: RGBColor, at: HPos) -> TextStyle<'static> {
    let font = (FAMILY, 11.0 * FONT_UNITS_PER_PIXEL).into_font();
    let style = TextStyle::from(font).pos(Pos::new(at, VPos::Center));
    TextStyle { color: colour.to_backend_color(), ..style }
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_whole_and_its_title_is_escaped() {
        let svg = picture("a < b & c", (100, 50), |_| Ok(()));
        assert!(svg.starts_with("<svg role=\"img\" width=\"100\" height=\"50\""), "{svg}");
        assert!(svg.contains("<title>a &lt; b &amp; c</title>") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("a &lt; b &amp; c").count(), 2, "as title, and as text");
    }
}

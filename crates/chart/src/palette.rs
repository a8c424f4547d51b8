//! Colours: each has a twin for dark ground.
//!
//! plotters writes a colour as an attribute of each element. Rules of a style sheet go before
//! attributes: on dark ground, one rule for each colour puts its twin in its place.

use std::fmt::Write;

use plotters::style::RGBColor;

/// The ground that all else is drawn on.
pub(crate) const GROUND: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
/// Text.
pub(crate) const INK: RGBColor = RGBColor(0x24, 0x29, 0x2F);
/// Text that is less important than other text.
pub(crate) const MUTED_INK: RGBColor = RGBColor(0x57, 0x60, 0x6A);
/// Axes and lines between marks.
pub(crate) const GRID: RGBColor = RGBColor(0xD0, 0xD7, 0xDE);
/// A moment at which something happened.
pub(crate) const EVENT: RGBColor = RGBColor(0x82, 0x50, 0xDF);
/// A bound that values are to keep.
pub(crate) const LIMIT: RGBColor = RGBColor(0xCF, 0x22, 0x2F);

/// Colours of lines. The first is for reference lines.
const LINES: [RGBColor; 10] = [
    RGBColor(0x57, 0x60, 0x6B),
    RGBColor(0x09, 0x69, 0xDA),
    RGBColor(0xBC, 0x4C, 0x00),
    RGBColor(0x1A, 0x7F, 0x37),
    RGBColor(0xBF, 0x39, 0x89),
    RGBColor(0x9A, 0x67, 0x00),
    RGBColor(0x0F, 0x7F, 0x8F),
    RGBColor(0x66, 0x39, 0xBA),
    RGBColor(0xCF, 0x22, 0x2E),
    RGBColor(0x6E, 0x77, 0x81),
];

/// Twins of [`LINES`] on dark ground.
const LINES_DARK: [&str; 10] = [
    "#9198a1", "#58a6ff", "#f0883e", "#3fb950", "#f778ba", "#d29922", "#39c5cf", "#bc8cff",
    "#ff7b72", "#b1bac4",
];

/// Twins of the other colours on dark ground.
const OTHERS_DARK: [(RGBColor, &str); 6] = [
    (GROUND, "#0d1117"),
    (INK, "#e6edf3"),
    (MUTED_INK, "#9198a1"),
    (GRID, "#30363d"),
    (EVENT, "#be8fff"),
    (LIMIT, "#ff7b72"),
];

/// The colour of a line by its number. 0 is for reference lines; from 10 on, numbers share the
/// colours of 1 to 9.
pub(crate) fn line(number: usize) -> RGBColor {
    LINES[if number == 0 { 0 } else { (number - 1) % (LINES.len() - 1) + 1 }]
}

/// The style sheet: events and limits are dashed, and twins take their places on dark ground.
pub(crate) fn style_sheet() -> String {
    let mut rules = String::new();
    for (colour, dashes) in [(EVENT, "3 3"), (LIMIT, "6 3")] {
        let _infallible = write!(rules, "{}{{stroke-dasharray:{dashes}}}", with("stroke", colour));
    }
    rules += "@media(prefers-color-scheme:dark){";
    let lines = LINES.into_iter().zip(LINES_DARK);
    for (colour, dark) in OTHERS_DARK.into_iter().chain(lines) {
        for attribute in ["fill", "stroke"] {
            let _infallible = write!(rules, "{}{{{attribute}:{dark}}}", with(attribute, colour));
        }
    }
    rules + "}"
}

/// The selector of all elements whose attribute is this colour, as plotters writes it.
fn with(attribute: &str, RGBColor(red, green, blue): RGBColor) -> String {
    format!("[{attribute}=\"#{red:02X}{green:02X}{blue:02X}\"]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_has_one_twin() {
        let mut all: Vec<RGBColor> = LINES.into_iter().chain(OTHERS_DARK.map(|(c, _)| c)).collect();
        let count = all.len();
        all.sort_by_key(|RGBColor(red, green, blue)| (*red, *green, *blue));
        all.dedup();
        assert_eq!(all.len(), count, "two rules of one colour would contradict each other");
        assert!(style_sheet().contains("[stroke=\"#0969DA\"]{stroke:#58a6ff}"));
        assert_eq!((line(1), line(10), line(0)), (LINES[1], LINES[1], LINES[0]));
    }
}

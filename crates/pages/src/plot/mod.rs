//! Parts of plots: axes, lines, colours. A [`Chart`] is a file of its own; pages draw with the same parts.

mod scale;
mod svg;
mod thin;
mod ticks;

pub use self::scale::Scale;
pub use self::svg::{Chart, Sample, Series};
pub use self::thin::{Smoothing, Thinned};

use std::fmt::Write;

/// Colours that can be told apart also by readers who see colours otherwise (Okabe and Ito 2008), but for yellow.
pub const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#888888",
];
/// The dashes of the line number `index`, for more lines than there are colours; empty for the first ones. No two lines
/// have the same colour and the same dashes.
pub(crate) fn dashes(index: usize) -> String {
    match index / COLOURS.len() {
        0 => String::new(),
        1 => "7 4".to_string(),
        2 => "2 3".to_string(),
        more => format!("9 3{}", " 2 3".repeat(more - 2)),
    }
}

/// The path of a line through these points.
pub fn path(points: impl Iterator<Item = (f64, f64)>, x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    for (number, (a, b)) in points.enumerate() {
        let command = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", x.place(a), y.place(b));
    }
    path
}

/// A text within XML or HTML, also as an attribute.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

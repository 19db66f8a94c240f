//! A plot in a page: HTML with an SVG that is as wide as its place, so that texts keep their size. The drawing has
//! 1,000 units either way and is stretched; ticks are texts beside it, placed in percent.

use super::html::{self, number, script_json};
use crate::plot::{self, Scale, escaped, path};
use serde_json::{Value, json};

/// Units of the drawing either way.
const SIZE: f64 = 1000.0;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineLook {
    /// A line.
    Solid,
    /// A thin pale line under a smoothed one; the legend leaves it out.
    Faint,
    /// Points, joined by dashes.
    Marked,
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// The number of its colour.
    pub colour: usize,
    /// How it is drawn.
    pub look: LineLook,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// Whether its values are shown where the pointer is.
    pub told: bool,
}

/// A plot of lines.
#[derive(Clone, Debug)]
pub struct Figure {
    /// A name that no other figure of the page has.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The unit of the values; empty for plain numbers.
    pub unit: String,
    /// A remark under the title.
    pub note: String,
    /// Name of the horizontal axis.
    pub along: String,
    /// Values that the axes reach in any case, from left to right and upwards.
    pub reach: (Vec<f64>, Vec<f64>),
    /// Whether values are on a logarithmic axis.
    pub log: bool,
    /// Its lines.
    pub lines: Vec<Line>,
    /// Vertical lines with names, such as the first steps of training phases.
    pub marks: Vec<(f64, String)>,
    /// The figures that the curves show, as HTML.
    pub figures: String,
}

/// The axes of a plot.
pub struct Axes {
    /// The horizontal one.
    pub x: Scale,
    /// The vertical one.
    pub y: Scale,
}

impl Axes {
    /// Axes for these values.
    pub fn over(x: impl Iterator<Item = f64>, y: impl Iterator<Item = f64>, log: bool) -> Axes {
        Axes {
            x: Scale::over(x, false, 0.0, (0.0, SIZE)),
            y: Scale::over(y, log, 0.06, (SIZE, 0.0)),
        }
    }

    /// The path of a line.
    pub fn path(&self, points: &[(f64, f64)]) -> String {
        path(points.iter().copied(), &self.x, &self.y)
    }
}

/// The parts of a plot that [`frame`] puts together.
pub struct Frame<'a> {
    /// A name that no other figure of the page has.
    pub id: &'a str,
    /// Its title.
    pub title: &'a str,
    /// The unit of the values.
    pub unit: &'a str,
    /// A remark under the title.
    pub note: &'a str,
    /// The name of the horizontal axis.
    pub along: &'a str,
    /// The axes.
    pub axes: &'a Axes,
    /// The legend: names, and as HTML the [`key`] of each.
    pub legend: &'a [(String, String)],
    /// Vertical lines with names.
    pub marks: &'a [(f64, String)],
    /// The drawing, as SVG.
    pub drawing: &'a str,
    /// Values that the pointer shows: series with points, see `page.js`.
    pub told: Value,
    /// The figures that the curves show, as HTML.
    pub figures: &'a str,
}

/// The class of a colour.
pub fn colour(index: usize) -> String {
    format!("c{}", index % crate::plot::COLOURS.len())
}

/// The attribute with the dashes of a line; empty for a line without.
fn dashed(dashes: &str) -> String {
    match dashes {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    }
}

/// The mark of a name in the legend, by its classes.
pub fn key(look: &str) -> String {
    format!("<i class=\"key {look}\"></i>")
}

/// The points of a curve, as a path: each is a line of no length with round ends, which stretching does not change. The
/// points of lines beyond the number of colours are hollow.
fn dots(index: usize, points: &str) -> String {
    let mut dots = format!("<path class=\"dots {}\" d=\"{points}\"/>", colour(index));
    if !plot::dashes(index).is_empty() {
        dots += &format!("<path class=\"hollow\" d=\"{points}\"/>");
    }
    dots
}

impl Line {
    /// The mark of its name in the legend. It is a drawing where the colour does not say which line it is.
    fn key(&self) -> String {
        let (colour, dashes) = (colour(self.colour), plot::dashes(self.colour));
        let marked = self.look == LineLook::Marked;
        if dashes.is_empty() {
            return key(&format!("{} {colour}", if marked { "dot" } else { "line" }));
        }
        let dots = if marked {
            dots(self.colour, "M24 6h0")
        } else {
            String::new()
        };
        format!(
            "<svg class=\"key\" viewBox=\"0 0 48 12\" aria-hidden=\"true\"><path class=\"curve {colour}\"{} \
             d=\"M1 6H47\"/>{dots}</svg>",
            dashed(&dashes)
        )
    }
}

impl Figure {
    /// The figure as HTML; nothing where there is no point to draw.
    pub fn to_html(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let usable = |value: f64| value.is_finite() && (!self.log || value > 0.0);
        if !all().any(|(_, y)| usable(y)) {
            return String::new();
        }
        let (x, y) = (self.reach.0.iter().copied(), self.reach.1.iter().copied());
        let axes = Axes::over(all().map(|p| p.0).chain(x), all().map(|p| p.1).chain(y), self.log);
        let mut drawing = String::new();
        for line in &self.lines {
            let points: Vec<(f64, f64)> = line.points.iter().copied().filter(|p| usable(p.1)).collect();
            drawing += &drawn(line, &points, &axes);
        }
        let legend = self.lines.iter().filter(|line| line.look != LineLook::Faint);
        let mut legend: Vec<(String, String)> = legend.map(|line| (line.name.clone(), line.key())).collect();
        if legend.len() == 1 && self.lines.len() == 1 {
            legend.clear();
        }
        let series = self.lines.iter().filter(|line| line.told).map(|line| {
            let points = || line.points.iter().filter(|p| usable(p.1));
            json!({
                "name": line.name,
                "colour": colour(line.colour),
                "x": points().map(|p| p.0).collect::<Vec<_>>(),
                "y": points().map(|p| rounded(p.1)).collect::<Vec<_>>(),
            })
        });
        frame(&Frame {
            id: &self.id,
            title: &self.title,
            unit: &self.unit,
            note: &self.note,
            along: &self.along,
            axes: &axes,
            legend: &legend,
            marks: &self.marks,
            drawing: &drawing,
            told: json!({ "series": series.collect::<Vec<_>>() }),
            figures: &self.figures,
        })
    }
}

/// A number with six digits, so that it takes little room.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn drawn(line: &Line, points: &[(f64, f64)], axes: &Axes) -> String {
    let (class, dashes) = (colour(line.colour), plot::dashes(line.colour));
    let curve = axes.path(points);
    match line.look {
        LineLook::Solid => format!("<path class=\"curve {class}\"{} d=\"{curve}\"/>\n", dashed(&dashes)),
        LineLook::Faint => format!("<path class=\"curve faint {class}\" d=\"{curve}\"/>\n"),
        LineLook::Marked => {
            let point = |(a, b): &(f64, f64)| format!("M{:.1} {:.1}h0", axes.x.place(*a), axes.y.place(*b));
            let places: String = points.iter().map(point).collect();
            let joined = dashed(if dashes.is_empty() { "2 4" } else { &dashes });
            format!(
                "<path class=\"curve joined {class}\"{joined} d=\"{curve}\"/>\n{}\n",
                dots(line.colour, &places)
            )
        }
    }
}

/// The whole figure.
pub fn frame(parts: &Frame<'_>) -> String {
    let Frame { id, axes, .. } = parts;
    let (title, unit) = (escaped(parts.title), escaped(parts.unit));
    let (x_ticks, y_ticks) = (axes.x.ticks(), axes.y.ticks());
    let lengths = y_ticks.all.iter().map(|tick| tick.label.chars().count());
    let gutter = lengths.max().unwrap_or(1);
    let mut grid = String::new();
    for tick in &y_ticks.all {
        let at = axes.y.place(tick.value);
        grid += &format!("<path class=\"grid\" d=\"M0 {at:.1}H{SIZE}\"/>");
    }
    let y_texts = y_ticks.all.iter().map(|tick| {
        let at = axes.y.place(tick.value) / SIZE * 100.0;
        format!("<span style=\"top:{at:.2}%\">{}</span>", tick.label)
    });
    let x_texts = x_ticks.all.iter().enumerate().map(|(index, tick)| {
        let at = axes.x.place(tick.value) / SIZE * 100.0;
        let minor = if index % 2 == 1 { " class=\"minor\"" } else { "" };
        format!("<span{minor} style=\"left:{at:.2}%\">{}</span>", tick.label)
    });
    let inside = |at: &f64| (axes.x.low..=axes.x.high).contains(at);
    let marks = parts.marks.iter().filter(|(at, _)| inside(at)).enumerate();
    let marks = marks.map(|(index, (at, name))| {
        let left = axes.x.place(*at) / SIZE * 100.0;
        // Names take turns in two rows, so that near ones do not lie over each other.
        let row = if index % 2 == 1 { " lower" } else { "" };
        format!(
            "<span class=\"mark{row}\" style=\"left:{left:.2}%\">{}</span>",
            escaped(name)
        )
    });
    let legend = parts.legend.iter();
    let legend = legend.map(|(name, key)| format!("<li>{key}{}</li>", escaped(name)));
    let legend: String = legend.collect();
    let legend = if legend.is_empty() {
        String::new()
    } else {
        format!("<ul class=\"legend\">{legend}</ul>\n")
    };
    let note = if parts.note.is_empty() {
        String::new()
    } else {
        html::note(parts.note)
    };
    let mut told = parts.told.clone();
    told["x"] = json!([axes.x.low, axes.x.high]);
    told["y"] = json!([axes.y.low, axes.y.high]);
    told["log"] = json!(axes.y.log);
    told["along"] = json!(parts.along);
    told["unit"] = json!(parts.unit);
    let label = format!(
        "{title}{}, from {} to {}, over {} {} to {}",
        if unit.is_empty() {
            String::new()
        } else {
            format!(" in {unit}")
        },
        number(value_at(&axes.y, axes.y.low)),
        number(value_at(&axes.y, axes.y.high)),
        escaped(parts.along),
        number(axes.x.low),
        number(axes.x.high)
    );
    let unit = match y_ticks.named(parts.unit) {
        unit if unit.is_empty() => unit,
        unit => format!(" <span class=\"unit\">{}</span>", escaped(&unit)),
    };
    format!(
        "<figure id=\"{id}\" data-plot>\n<figcaption><h3>{title}{unit}</h3></figcaption>\n{legend}\
         <div class=\"plot\" style=\"--gutter:{gutter}ch\">\n<div class=\"yticks\" aria-hidden=\"true\">{}</div>\n\
         <div class=\"field\" tabindex=\"0\" aria-label=\"{label}; arrow keys read values\" role=\"group\">\n\
         <svg viewBox=\"0 0 {SIZE} {SIZE}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">\
         <title>{label}</title>\n{grid}\n{}</svg>{}\n</div>\n\
         <div class=\"xticks\" aria-hidden=\"true\">{}</div>\n<div class=\"along\" aria-hidden=\"true\">{}</div>\n</div>\n\
         {note}{}<script type=\"application/json\">{}</script>\n</figure>\n",
        y_texts.collect::<String>(),
        parts.drawing,
        marks.collect::<String>(),
        x_texts.collect::<String>(),
        escaped(&x_ticks.named(parts.along)),
        parts.figures,
        script_json(&told)
    )
}

/// The value at an end of an axis.
fn value_at(axis: &Scale, end: f64) -> f64 {
    if axis.log { 10f64.powf(end) } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: &[(f64, f64)], log: bool) -> Figure {
        Figure {
            id: "f".into(),
            title: "Loss < 1".into(),
            unit: "nats".into(),
            note: String::new(),
            along: "step".into(),
            reach: (vec![0.0, 100.0], Vec::new()),
            log,
            lines: vec![Line {
                name: "</script>".into(),
                colour: 8,
                look: LineLook::Solid,
                points: points.to_vec(),
                told: true,
            }],
            marks: vec![(10.0, "one".into()), (12.0, "two".into()), (1000.0, "beyond".into())],
            figures: String::new(),
        }
    }

    #[test]
    fn a_figure_has_axes_a_curve_and_its_values() {
        let html = figure(&[(0.0, 1.0), (50.0, 3.0), (100.0, 2.0)], false).to_html();
        assert!(
            html.contains("<path class=\"curve c1\" stroke-dasharray=\"7 4\" d=\"M0.0"),
            "{html}"
        );
        assert!(html.contains("Loss &lt; 1 <span class=\"unit\">nats</span>") && !html.contains("</script>\""));
        assert!(
            html.contains("<span style=\"left:0.00%\">0</span><span class=\"minor\" style=\"left:20.00%\">20</span>")
        );
        assert!(html.contains("class=\"mark\" style=\"left:10.00%\"") && html.contains("class=\"mark lower\""));
        assert!(
            !html.contains("beyond") && html.contains("\"y\":[1.0,3.0,2.0]"),
            "{html}"
        );
    }

    #[test]
    fn lines_beyond_the_number_of_colours_are_told_apart_in_plot_and_legend() {
        for look in [LineLook::Solid, LineLook::Marked] {
            let mut drawn = figure(&[], false);
            let line = |index: usize| Line {
                name: format!("run {index}"),
                colour: index,
                look,
                points: vec![(0.0, 1.0), (50.0, 3.0)],
                told: true,
            };
            drawn.lines = (0..40).map(line).collect();
            let html = drawn.to_html();
            let legend = html.split_once("<ul class=\"legend\">").unwrap().1;
            let (legend, plot) = legend.split_once("</ul>").unwrap();
            let keys: std::collections::BTreeSet<&str> = legend
                .split("<li>")
                .skip(1)
                .map(|item| item.split_once("run ").unwrap().0)
                .collect();
            assert_eq!(keys.len(), 40, "{legend}");
            let curves: std::collections::BTreeSet<&str> = plot
                .lines()
                .filter(|line| line.starts_with("<path class=\"curve"))
                .collect();
            assert_eq!(curves.len(), 40, "{plot}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let html = figure(&[(0.0, 0.0), (50.0, 1.0), (100.0, f64::NAN), (100.0, 10.0)], true).to_html();
        assert!(
            html.contains("\"x\":[50.0,100.0]") && !html.contains("NaN") && !html.contains("inf"),
            "{html}"
        );
        assert_eq!(figure(&[(0.0, 0.0)], true).to_html(), "");
        assert_eq!(figure(&[], false).to_html(), "");
    }
}

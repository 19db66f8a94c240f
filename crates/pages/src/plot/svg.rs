//! Plots as SVG: axes with ticks, lines with bands, a legend. The file needs nothing else, and its colours suit light
//! and dark surroundings: it has a ground of its own, which follows the reader's scheme.

use super::{COLOURS, Scale, dashes, escaped, path};
use std::fmt::Write;

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Sample>,
}

/// A point of a line, and half the height of the band around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Its place from left to right.
    pub x: f64,
    /// Its value.
    pub y: f64,
    /// Half the height of the band.
    pub spread: f64,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// The name of the horizontal axis.
    pub x_label: String,
    /// The name of the vertical axis.
    pub y_label: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// Whether points are marked, as is right where there are few.
    pub marked: bool,
    /// Its lines.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;
/// Height of a row of the legend.
const ROW: f64 = 18.0;
/// Letters of a name for which half a row of the legend has room, and a whole one.
const HALF_ROW: usize = 40;
const WHOLE_ROW: usize = 84;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#222}.title{font-size:14px;font-weight:600}\
                     .ground{fill:#fff}.grid{stroke:#ddd}.axis{stroke:#555}\
                     @media(prefers-color-scheme:dark){text{fill:#ddd}.ground{fill:#181a1f}.grid{stroke:#33363d}\
                     .axis{stroke:#999}}";

impl Chart {
    /// The whole file.
    pub fn to_svg(&self) -> String {
        let columns = columns(&self.series);
        let legend = if self.series.len() > 1 {
            self.series.len().div_ceil(columns) as f64 * ROW + 8.0
        } else {
            0.0
        };
        let (bottom, whole) = (HEIGHT - BOTTOM, HEIGHT + legend);
        let all = || self.series.iter().flat_map(|series| &series.points);
        let x = Scale::over(
            all().map(|p| p.x),
            self.log_x,
            if self.marked { 0.04 } else { 0.0 },
            (LEFT, WIDTH - RIGHT),
        );
        let edges = all().flat_map(|p| [p.y - p.spread, p.y, p.y + p.spread]);
        let y = Scale::over(edges, self.log_y, 0.05, (bottom, TOP));

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {whole}\" width=\"{WIDTH}\" \
             height=\"{whole}\" role=\"img\" aria-label=\"{0}\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{whole}\" rx=\"6\"/>\n",
            escaped(&self.title)
        );
        let mut line = |text: String| svg.push_str(&(text + "\n"));
        line(format!(
            "<text class=\"title\" x=\"{}\" y=\"24\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            escaped(&self.title)
        ));
        let (x_ticks, y_ticks) = (x.ticks(), y.ticks());
        for tick in &x_ticks.all {
            let at = x.place(tick.value);
            line(format!(
                "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>"
            ));
            let below = bottom + 18.0;
            line(format!(
                "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
                tick.label
            ));
        }
        for tick in &y_ticks.all {
            let (at, right) = (y.place(tick.value), WIDTH - RIGHT);
            line(format!(
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>"
            ));
            let (left, base) = (LEFT - 8.0, at + 4.0);
            line(format!(
                "<text x=\"{left}\" y=\"{base:.1}\" text-anchor=\"end\">{}</text>",
                tick.label
            ));
        }
        line(format!(
            "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {TOP}V{bottom}H{}\"/>",
            WIDTH - RIGHT
        ));
        line(format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 14.0,
            escaped(&x_ticks.named(&self.x_label))
        ));
        let middle = (TOP + bottom) / 2.0;
        line(format!(
            "<text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(&y_ticks.named(&self.y_label))
        ));
        for (index, series) in self.series.iter().enumerate() {
            line(self.drawn(index, series, &x, &y));
        }
        if self.series.len() > 1 {
            for (index, series) in self.series.iter().enumerate() {
                let (column, row) = ((index % columns) as f64, (index / columns) as f64);
                let (left, at) = (
                    LEFT + column * (WIDTH - LEFT - RIGHT) / columns as f64,
                    HEIGHT + row * ROW + 4.0,
                );
                let (right, text) = (left + 26.0, left + 34.0);
                line(format!(
                    "<line x1=\"{left}\" y1=\"{at}\" x2=\"{right}\" y2=\"{at}\" {}/>",
                    stroke(index)
                ));
                let base = at + 4.0;
                let name = escaped(&series.name);
                let short = escaped(&shortened(&series.name));
                let whole = if short == name {
                    String::new()
                } else {
                    format!("<title>{name}</title>")
                };
                line(format!("<text x=\"{text}\" y=\"{base}\">{whole}{short}</text>"));
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Whether a point has a place on the axes.
    fn is_usable(&self, point: &Sample) -> bool {
        let positive = (!self.log_x || point.x > 0.0) && (!self.log_y || point.y > 0.0);
        point.x.is_finite() && point.y.is_finite() && positive
    }

    /// The number of points that are not drawn, since they are no numbers, or have no logarithm on a logarithmic axis.
    pub fn left_out(&self) -> usize {
        let all = self.series.iter().flat_map(|series| &series.points);
        all.filter(|point| !self.is_usable(point)).count()
    }

    /// Band, line and marks of a series.
    fn drawn(&self, index: usize, series: &Series, x: &Scale, y: &Scale) -> String {
        let points: Vec<&Sample> = series.points.iter().filter(|point| self.is_usable(point)).collect();
        let colour = COLOURS[index % COLOURS.len()];
        let mut text = String::new();
        if points.iter().any(|point| point.spread > 0.0) {
            let least = if self.log_y {
                10f64.powf(y.low)
            } else {
                f64::NEG_INFINITY
            };
            let edge = points.iter().map(|point| (point.x, point.y + point.spread)).chain(
                points
                    .iter()
                    .rev()
                    .map(|point| (point.x, (point.y - point.spread).max(least))),
            );
            let _ = write!(
                text,
                "<path fill=\"{colour}\" fill-opacity=\"0.18\" d=\"{}Z\"/>",
                path(edge, x, y)
            );
        }
        let curve = path(points.iter().map(|point| (point.x, point.y)), x, y);
        let _ = write!(text, "<path fill=\"none\" {} d=\"{curve}\"/>", stroke(index));
        if self.marked {
            for point in points {
                let (a, b) = (x.place(point.x), y.place(point.y));
                let _ = write!(
                    text,
                    "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3.5\" fill=\"{colour}\"/>"
                );
            }
        }
        text
    }
}

fn stroke(index: usize) -> String {
    let colour = COLOURS[index % COLOURS.len()];
    let dash = match dashes(index) {
        dash if dash.is_empty() => dash,
        dash => format!(" stroke-dasharray=\"{dash}\""),
    };
    format!("stroke=\"{colour}\" stroke-width=\"1.8\"{dash}")
}

/// The columns of a legend with these names: two, unless a name is too long for that.
fn columns(series: &[Series]) -> usize {
    let fits = |series: &Series| series.name.chars().count() <= HALF_ROW;
    if series.iter().all(fits) { 2 } else { 1 }
}

/// The text of a name in the legend: the whole one, or its beginning and end where it is longer than a row.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= WHOLE_ROW {
        return name.to_string();
    }
    let (first, last) = (WHOLE_ROW / 2, letters.len() - (WHOLE_ROW - WHOLE_ROW / 2 - 1));
    letters[..first].iter().chain(&['…']).chain(&letters[last..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> Chart {
        Chart {
            title: "Loss < 1 & \"more\"".into(),
            x_label: "step".into(),
            y_label: "loss".into(),
            log_x: false,
            log_y: false,
            marked: true,
            series,
        }
    }

    fn line(name: &str, points: &[(f64, f64, f64)]) -> Series {
        Series {
            name: name.into(),
            points: points.iter().map(|&(x, y, spread)| Sample { x, y, spread }).collect(),
        }
    }

    #[test]
    fn a_plot_has_every_line_its_band_and_its_name() {
        let series = vec![
            line("a", &[(0.0, 1.0, 0.1), (1.0, 2.0, 0.2)]),
            line("b & c", &[(0.0, 2.0, 0.0), (1.0, f64::NAN, 0.0), (2.0, 1.0, 0.0)]),
        ];
        let svg = chart(series).to_svg();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
        assert!(
            svg.contains("Loss &lt; 1 &amp; &quot;more&quot;") && svg.contains(">b &amp; c</text>"),
            "{svg}"
        );
        assert_eq!(
            (svg.matches("fill-opacity").count(), svg.matches("<circle").count()),
            (1, 4)
        );
        assert!(
            svg.contains("prefers-color-scheme:dark") && !svg.contains("NaN") && !svg.contains("inf"),
            "{svg}"
        );
        // Without a second line there is no legend.
        let single = chart(vec![line("only", &[(0.0, 1.0, 0.0)])]).to_svg();
        assert!(!single.contains("only") && !single.contains("NaN"), "{single}");
        assert!(!chart(vec![]).to_svg().contains("NaN"));
    }

    #[test]
    fn no_two_of_many_lines_look_the_same() {
        let looks: std::collections::BTreeSet<String> = (0..100).map(stroke).collect();
        assert_eq!(looks.len(), 100);
    }

    #[test]
    fn long_names_have_room_in_the_legend() {
        let of = |length: usize| {
            let names = [format!("a{}z", "b".repeat(length - 2)), "other".to_string()];
            chart(names.iter().map(|name| line(name, &[(0.0, 1.0, 0.0)])).collect()).to_svg()
        };
        let places = |svg: &str| svg.matches("<text x=\"106\"").count();
        // Names beside each other, then below each other, then with a gap and the whole name under the pointer.
        assert_eq!((places(&of(HALF_ROW)), places(&of(HALF_ROW + 1))), (1, 2));
        let svg = of(WHOLE_ROW + 1);
        let short = format!(
            "a{}…{}z</text>",
            "b".repeat(WHOLE_ROW / 2 - 1),
            "b".repeat(WHOLE_ROW / 2 - 2)
        );
        assert!(
            svg.contains(&short) && svg.contains("<text x=\"106\" y=\"428\"><title>ab"),
            "{svg}"
        );
    }

    #[test]
    fn a_logarithmic_plot_leaves_out_what_has_no_logarithm() {
        let mut plot = chart(vec![line(
            "a",
            &[(0.0, 1.0, 0.0), (1.0, 10.0, 20.0), (10.0, 100.0, 1.0)],
        )]);
        (plot.log_x, plot.log_y) = (true, true);
        let svg = plot.to_svg();
        assert_eq!(plot.left_out(), 1);
        assert!(
            svg.matches("<circle").count() == 2 && !svg.contains("NaN") && !svg.contains("inf"),
            "{svg}"
        );
    }
}

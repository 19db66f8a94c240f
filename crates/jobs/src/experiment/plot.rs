//! The plots of an experiment: a number over the steps, or a measure over an axis or over another measure; means over
//! the seeds with a band of one standard deviation.

use super::claim::{check_name, find};
use super::grid::{Axis, Point};
use super::measure::Measure;
use super::reader::Reader;
use super::results::Record;
use super::summary::Summary;
use lessen_base::{Error, Result};
use lessen_pages::plot::{Chart, Sample, Series};
use lessen_task::wording::counted;
use std::collections::BTreeMap;

/// Limit of points of a line. A line with more points is cut into this number of equal parts, and the points of each
/// part are averaged.
const MOST: usize = 200;

/// What a plot has on its horizontal axis.
#[derive(Clone, Debug)]
enum Over {
    Steps,
    /// The axis of this number.
    Axis(usize),
    /// The measure of this name.
    Measure(String),
}

/// A plot.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub title: String,
    /// The name of the measure.
    pub measure: String,
    over: Over,
    /// The points, or all where none is named.
    points: Vec<String>,
    log_x: bool,
    log_y: bool,
    place: String,
}

impl Plot {
    /// Reads a `[[plot]]`.
    ///
    /// # Errors
    /// A key that is unknown, missing or has a wrong value.
    pub(super) fn read(mut reader: Reader<'_, '_>, axes: &[Axis], measures: &[Measure]) -> Result<Plot> {
        let measure = reader.required("measure", "measure = \"dev_loss\"")?;
        let over = reader.text("over")?.unwrap_or_else(|| "step".to_string());
        let axis = match axes.iter().position(|axis| axis.name == over) {
            Some(axis) => Over::Axis(axis),
            None if over == "step" => Over::Steps,
            None if measures.iter().any(|measure| measure.name == over) => Over::Measure(over.clone()),
            None => {
                let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).chain(["step"]).collect();
                return Err(reader.error(&format!(
                    "plot.over must be one of {}, not {over}; the name of a measure is taken, too",
                    names.join(", ")
                )));
            }
        };
        let words = [
            ("", (false, false)),
            ("x", (true, false)),
            ("y", (false, true)),
            ("xy", (true, true)),
        ];
        let (log_x, log_y) = reader.word("log", &words)?.unwrap_or_default();
        let title = reader
            .text("title")?
            .unwrap_or_else(|| format!("{measure} over {over}"));
        let points = reader.texts("points")?;
        let place = reader.origin().to_string();
        reader.finish()?;
        Ok(Plot {
            title,
            measure,
            over: axis,
            points,
            log_x,
            log_y,
            place,
        })
    }

    /// Refuses a plot of a point or a measure that the experiment does not have, and of an axis without numbers.
    ///
    /// # Errors
    /// The unknown name, with the known names.
    pub(super) fn check(&self, points: &[Point], measures: &[Measure]) -> Result<()> {
        let names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
        for name in &self.points {
            check_name(&self.place, "point", name, &names)?;
        }
        let measure = find(&self.place, &self.measure, measures)?;
        if matches!(self.over, Over::Steps) && !measure.has_course() {
            return Err(Error::user(format!(
                "{}: the measure {} has no course over the steps; plot another one, or over an axis",
                self.place, self.measure
            )));
        }
        if let Over::Axis(axis) = self.over
            && points.iter().any(|point| point.along[axis].1.is_none())
        {
            return Err(Error::user(format!(
                "{}: the axis has values that are no numbers; plot over another one",
                self.place
            )));
        }
        Ok(())
    }

    /// Whether it is a plot over the steps of this measure.
    pub(super) fn is_course_of(&self, measure: &Measure) -> bool {
        matches!(self.over, Over::Steps) && self.measure == measure.name
    }

    /// The chart of what was measured, and remarks on what it does not show as it is; may be empty.
    pub(super) fn chart(
        &self,
        points: &[Point],
        axes: &[Axis],
        measures: &[Measure],
        records: &[Record],
    ) -> (Chart, String) {
        let of_name = |name: &str| measures.iter().position(|measure| measure.name == name).unwrap_or(0);
        let number = of_name(&self.measure);
        let shown = |point: &Point| self.points.is_empty() || self.points.contains(&point.name);
        let chosen: Vec<usize> = (0..points.len()).filter(|&index| shown(&points[index])).collect();
        let scaled = |measure: usize| (measure, measures[measure].scale);
        let mut averaged = 1;
        let series = match &self.over {
            Over::Steps => chosen
                .iter()
                .map(|&index| {
                    let (series, part) = course(&points[index].name, index, number, records);
                    averaged = averaged.max(part);
                    series
                })
                .collect(),
            Over::Axis(axis) => along(*axis, &chosen, points, scaled(number), records),
            Over::Measure(name) => {
                let single = |&index: &usize| {
                    let [x, y] = [of_name(name), number].map(|own| mean(index, scaled(own), records));
                    let points_of = |(x, y): (Summary, Summary)| vec![sample(x.mean, y)];
                    Series {
                        name: points[index].name.clone(),
                        points: x.zip(y).map(points_of).unwrap_or_default(),
                    }
                };
                let series = chosen.iter().map(single);
                series.filter(|series| !series.points.is_empty()).collect()
            }
        };
        let unit = &measures[number];
        let is_course = matches!(self.over, Over::Steps);
        let chart = Chart {
            title: self.title.clone(),
            x_label: match &self.over {
                Over::Steps => "step",
                Over::Axis(axis) => axes[*axis].name.as_str(),
                Over::Measure(name) => name.as_str(),
            }
            .to_string(),
            y_label: match is_course {
                true => unit.value.clone(),
                false => unit.name.clone(),
            },
            log_x: self.log_x,
            log_y: self.log_y,
            marked: !is_course || records.iter().all(|record| record.courses[number].len() <= 12),
            series,
        };
        let notes = notes(averaged, chart.left_out());
        (chart, notes)
    }
}

/// Remarks on points that are means of several, and on points that are not drawn.
fn notes(averaged: usize, left_out: usize) -> String {
    let mut notes = Vec::new();
    if averaged > 1 {
        notes.push(format!("A point is the mean of up to {averaged} values of a line."));
    }
    if left_out > 0 {
        let points = counted(left_out as u64, "point");
        notes.push(format!(
            "Left out: {points} at or below zero, where a logarithmic axis has no place."
        ));
    }
    notes.join(" ")
}

/// A measure over the steps, at one point; and the number of steps that are averaged into a point of the line.
fn course(name: &str, point: usize, measure: usize, records: &[Record]) -> (Series, usize) {
    let mut steps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.point == point) {
        for &(step, number) in &record.courses[measure] {
            steps.entry(step).or_default().push(number);
        }
    }
    let samples: Vec<Sample> = steps
        .into_iter()
        .filter_map(|(step, numbers)| Some((step, Summary::of(&numbers)?)))
        .map(|(step, summary)| sample(step as f64, summary))
        .collect();
    let part = part_of(samples.len());
    let points = thinned(&samples, part);
    let name = name.to_string();
    (Series { name, points }, part)
}

/// A measure over an axis: a line for each combination of variant and other axes.
fn along(axis: usize, chosen: &[usize], points: &[Point], measure: (usize, f64), records: &[Record]) -> Vec<Series> {
    let mut lines: Vec<Series> = Vec::new();
    for &index in chosen {
        let (name, value) = &points[index].along[axis];
        let Some((x, summary)) = value.zip(mean(index, measure, records)) else {
            continue;
        };
        let found = lines.iter().position(|line| line.name == *name);
        let line = found.unwrap_or_else(|| {
            lines.push(Series {
                name: name.clone(),
                points: Vec::new(),
            });
            lines.len() - 1
        });
        lines[line].points.push(sample(x, summary));
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    lines
}

/// Mean and spread of a measure, in its scale, at a point.
fn mean(point: usize, (measure, scale): (usize, f64), records: &[Record]) -> Option<Summary> {
    let own = records.iter().filter(|record| record.point == point);
    let numbers = own.filter_map(|record| Some(scale * record.numbers[measure]?));
    Summary::of(&numbers.collect::<Vec<f64>>())
}

fn sample(x: f64, summary: Summary) -> Sample {
    Sample {
        x,
        y: summary.mean,
        spread: summary.deviation,
    }
}

/// The points of a line of this length that are averaged into one.
fn part_of(length: usize) -> usize {
    length.div_ceil(MOST).max(1)
}

/// A line averaged in parts of this length.
fn thinned(samples: &[Sample], part: usize) -> Vec<Sample> {
    let mean = |part: &[Sample], of: fn(&Sample) -> f64| part.iter().map(of).sum::<f64>() / part.len() as f64;
    samples
        .chunks(part)
        .map(|part| Sample {
            x: mean(part, |sample| sample.x),
            y: mean(part, |sample| sample.y),
            spread: mean(part, |sample| sample.spread),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(point: usize, number: f64, course: &[(u64, f64)]) -> Record {
        Record {
            point,
            seed: 1,
            network: 0,
            numbers: vec![Some(number)],
            courses: vec![course.to_vec()],
            diverged: vec![false],
        }
    }

    #[test]
    fn lines_are_means_with_deviations() {
        let records = [
            record(0, 1.0, &[(1, 1.0), (2, 5.0)]),
            record(0, 3.0, &[(1, 3.0)]),
            record(1, 9.0, &[(1, 9.0)]),
        ];
        let (line, _) = course("a", 0, 0, &records);
        let found: Vec<_> = line.points.iter().map(|p| (p.x, p.y, p.spread)).collect();
        assert_eq!(found, [(1.0, 2.0, 2f64.sqrt()), (2.0, 5.0, 0.0)]);
    }

    #[test]
    fn what_a_plot_does_not_show_is_said() {
        assert_eq!(notes(1, 0), "");
        assert_eq!(
            notes(3, 1),
            "A point is the mean of up to 3 values of a line. Left out: 1 point at or below zero, where a logarithmic axis \
             has no place."
        );
    }

    #[test]
    fn long_lines_are_averaged() {
        let samples: Vec<Sample> = (0..1000)
            .map(|x| Sample {
                x: f64::from(x),
                y: f64::from(x % 2),
                spread: 0.0,
            })
            .collect();
        let found = thinned(&samples, part_of(1000));
        assert_eq!((found.len(), found[0].x, found[0].y), (200, 2.0, 0.4));
        assert_eq!(thinned(&samples[..7], part_of(7)).len(), 7);
        assert!(thinned(&[], part_of(0)).is_empty());
    }
}

//! Long curves made short while they are read. A curve is cut into some hundred equal stretches, and the least and the
//! greatest value of each stretch stay. A line of some hundred pixels then looks as if all points were drawn.

use std::collections::BTreeMap;

/// Limit of stretches of a curve. Once a curve has more points, it has at least half as many stretches.
const STRETCHES: usize = 1024;

/// A curve over the steps that takes a bounded room, however many points it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Thinned {
    /// Steps of a stretch; a power of two.
    width: u64,
    /// By the number of the stretch.
    stretches: BTreeMap<u64, Stretch>,
    extremes: Option<Extremes>,
}

/// A point of a curve.
type Point = (u64, f64);

/// The first, last, least and greatest point of a curve, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes {
    pub first: Point,
    pub last: Point,
    pub least: Point,
    pub greatest: Point,
    pub count: u64,
}

/// The moving mean of several curves, over the same steps in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smoothing {
    /// Steps of a stretch: those of the curve with the longest ones.
    width: u64,
    /// Stretches to either side that go into a mean.
    reach: u64,
}

impl Smoothing {
    /// Means over a thirtieth of the longest of these curves.
    pub fn of<'a>(curves: impl Iterator<Item = &'a Thinned>) -> Smoothing {
        let (mut width, mut longest) = (1, 0);
        for curve in curves {
            width = width.max(curve.width);
            let steps = curve
                .extremes
                .map_or(0, |ends| ends.last.0.saturating_sub(ends.first.0));
            longest = longest.max(steps);
        }
        Smoothing {
            width,
            reach: longest / width / 60,
        }
    }

    /// The steps that a point of [`Thinned::smoothed`] is the mean of.
    pub fn window(self) -> u64 {
        self.width * (2 * self.reach + 1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    least: Point,
    greatest: Point,
    sum: f64,
    steps: f64,
    count: f64,
}

impl Stretch {
    fn of(point: Point) -> Stretch {
        Stretch {
            least: point,
            greatest: point,
            sum: point.1,
            steps: point.0 as f64,
            count: 1.0,
        }
    }

    fn join(&mut self, other: Stretch) {
        if other.least.1 < self.least.1 {
            self.least = other.least;
        }
        if other.greatest.1 > self.greatest.1 {
            self.greatest = other.greatest;
        }
        self.sum += other.sum;
        self.steps += other.steps;
        self.count += other.count;
    }
}

impl Default for Thinned {
    fn default() -> Thinned {
        Thinned {
            width: 1,
            stretches: BTreeMap::new(),
            extremes: None,
        }
    }
}

impl Thinned {
    /// Adds a point. One that is no number is left out.
    pub fn add(&mut self, step: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        let point = (step, value);
        self.extremes = Some(match self.extremes {
            None => Extremes {
                first: point,
                last: point,
                least: point,
                greatest: point,
                count: 1,
            },
            Some(old) => Extremes {
                first: old.first,
                last: point,
                least: if value < old.least.1 { point } else { old.least },
                greatest: if value > old.greatest.1 { point } else { old.greatest },
                count: old.count + 1,
            },
        });
        self.join(step / self.width, Stretch::of(point));
        while self.stretches.len() > STRETCHES {
            self.width *= 2;
            for (number, stretch) in std::mem::take(&mut self.stretches) {
                self.join(number / 2, stretch);
            }
        }
    }

    fn join(&mut self, number: u64, stretch: Stretch) {
        match self.stretches.get_mut(&number) {
            Some(known) => known.join(stretch),
            None => drop(self.stretches.insert(number, stretch)),
        }
    }

    /// The first, last, least and greatest point; none of an empty curve.
    pub fn extremes(&self) -> Option<Extremes> {
        self.extremes
    }

    /// The points that stay, in order of their steps.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let Some(Extremes { first, last, .. }) = self.extremes else {
            return Vec::new();
        };
        let ends = self
            .stretches
            .values()
            .flat_map(|stretch| [stretch.least, stretch.greatest]);
        let mut points: Vec<Point> = ends.chain([first, last]).collect();
        points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        points.dedup();
        points.into_iter().map(|(step, value)| (step as f64, value)).collect()
    }

    /// The moving mean: a point for each stretch of `smoothing`, which is at least as wide as those of this curve.
    pub fn smoothed(&self, smoothing: Smoothing) -> Vec<(f64, f64)> {
        let mut joined = Thinned {
            width: smoothing.width.max(self.width),
            ..Thinned::default()
        };
        for (number, stretch) in &self.stretches {
            joined.join(number * self.width / joined.width, *stretch);
        }
        let mean = |&number: &u64| {
            let near = number.saturating_sub(smoothing.reach)..=number.saturating_add(smoothing.reach);
            let near: Vec<&Stretch> = joined.stretches.range(near).map(|(_, stretch)| stretch).collect();
            let sum = |of: fn(&Stretch) -> f64| near.iter().map(|stretch| of(stretch)).sum::<f64>();
            let count = sum(|stretch| stretch.count);
            (sum(|stretch| stretch.steps) / count, sum(|stretch| stretch.sum) / count)
        };
        joined.stretches.keys().map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: impl IntoIterator<Item = (u64, f64)>) -> Thinned {
        let mut curve = Thinned::default();
        points.into_iter().for_each(|(step, value)| curve.add(step, value));
        curve
    }

    #[test]
    fn a_short_curve_stays_as_it_is() {
        let points = [(1, 3.0), (2, 1.0), (3, 2.0)];
        let found = curve(points);
        assert_eq!(found.points(), [(1.0, 3.0), (2.0, 1.0), (3.0, 2.0)]);
        let smoothing = Smoothing::of([&found].into_iter());
        assert_eq!((found.smoothed(smoothing), smoothing.window()), (found.points(), 1));
        assert!(curve([]).points().is_empty() && curve([]).smoothed(smoothing).is_empty());
    }

    #[test]
    fn a_long_curve_keeps_its_spikes_and_its_ends() {
        let value = |step: u64| match step {
            77_777 => 50.0,
            123_456 => -50.0,
            _ => (step % 10) as f64,
        };
        let long = curve((1..=200_000).map(|step| (step, value(step))));
        let points = long.points();
        assert!((500..=2 * STRETCHES + 2).contains(&points.len()), "{}", points.len());
        assert!(points.contains(&(77_777.0, 50.0)) && points.contains(&(123_456.0, -50.0)));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!((points[0], points[points.len() - 1]), ((1.0, 1.0), (200_000.0, 0.0)));
        let found = long.extremes().unwrap();
        assert_eq!(
            (found.least, found.greatest, found.count),
            ((123_456, -50.0), (77_777, 50.0), 200_000)
        );
        // The mean of a stretch is that of all its points.
        let smoothing = Smoothing::of([&long].into_iter());
        let smooth = long.smoothed(smoothing);
        assert!((smooth[100].1 - 4.5).abs() < 0.05, "{:?}", smooth[100]);
        assert!((6_000..7_000).contains(&smoothing.window()), "{smoothing:?}");
    }

    #[test]
    fn curves_of_any_length_are_smoothed_over_the_same_steps() {
        let value = |step: u64| (step * 7919 % 1009) as f64;
        let short = curve((1..=2_500).map(|step| (step, value(step))));
        let long = curve((1..=200_000).map(|step| (step, value(step))));
        let smoothing = Smoothing::of([&short, &long].into_iter());
        assert_eq!(smoothing, Smoothing::of([&long, &short].into_iter()));
        let (one, other) = (short.smoothed(smoothing), long.smoothed(smoothing));
        // The window around the middle of the short curve is within both; near its end fewer steps remain to the mean.
        assert!(smoothing.window() > 2_500, "{smoothing:?}");
        let narrow = Smoothing {
            width: smoothing.width,
            reach: 2,
        };
        let middle = 1_200 / smoothing.width as usize;
        assert_eq!(short.smoothed(narrow)[middle], long.smoothed(narrow)[middle]);
        assert!(one.len() < other.len() && one.len() >= 2_500 / smoothing.width as usize);
    }

    #[test]
    fn rare_points_are_all_kept() {
        let rare = curve((1..=20).map(|n| (n * 50_000, n as f64)));
        assert_eq!(rare.points().len(), 20);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        assert_eq!(
            curve([(1, f64::NAN), (2, 1.0), (3, f64::INFINITY)]).points(),
            [(2.0, 1.0)]
        );
    }
}

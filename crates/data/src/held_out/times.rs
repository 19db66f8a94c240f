//! The latest rows.

use super::share::count_of;
use crate::cell_values::{date, is_missing, number};
use crate::files::quoted;
use crate::row::Row;

/// The share of values that are times from which on the others are mistakes.
const MOST: f64 = 0.9;

/// The times of rows. All are dates, or all are numbers, as the first one is.
#[derive(Debug, Default)]
pub(super) struct Times {
    of_rows: Vec<Option<f64>>,
    /// What the times are.
    kind: Option<TimeFormat>,
    /// Rows without a value.
    missing: usize,
    /// Values that are no times, and the first of them with its place.
    others: usize,
    first: Option<String>,
}

/// What times are written as.
#[derive(Clone, Copy, Debug)]
enum TimeFormat {
    Date,
    Number,
}

impl TimeFormat {
    fn read(self, value: &str) -> Option<f64> {
        match self {
            TimeFormat::Date => date(value),
            // Zero has one sign.
            TimeFormat::Number => number(value).map(|number| number + 0.0),
        }
    }
}

impl Times {
    /// Adds a row with this value.
    pub(super) fn add(&mut self, value: &str, row: &Row) {
        let kinds = [TimeFormat::Date, TimeFormat::Number].into_iter();
        let time = match self.kind {
            Some(kind) => kind.read(value),
            None => {
                let found = kinds.filter_map(|kind| Some((kind, kind.read(value)?))).next();
                self.kind = found.map(|(kind, _)| kind);
                found.map(|(_, time)| time)
            }
        };
        if is_missing(value) {
            self.missing += 1;
        } else if time.is_none() {
            self.others += 1;
            self.first
                .get_or_insert_with(|| format!("{} has {}", row.place(), quoted(value.trim())));
        }
        self.of_rows.push(time);
    }

    /// The place and the value of the first row with a value that is no time, where these are no mere mistakes.
    pub(super) fn wrong(&self) -> Option<(&str, &'static str)> {
        let values = self.of_rows.len() - self.missing;
        let times = values - self.others;
        let what = match self.kind {
            Some(TimeFormat::Date) => "date as those before",
            Some(TimeFormat::Number) => "number as those before",
            None => "time",
        };
        let first = self.first.as_deref()?;
        ((times as f64) < MOST * values as f64).then_some((first, what))
    }

    /// The rows without a time, and the first value that is none.
    pub(super) fn without(&self) -> (usize, Option<&str>) {
        (self.missing + self.others, self.first.as_deref())
    }

    /// Chooses the rows from a time on, so that their number is nearest to the share; rows of the same time are on one
    /// side, and those without a time are not chosen. None where not two times differ.
    pub(super) fn chosen(&self, share: f64) -> Option<Vec<bool>> {
        let wanted = count_of(self.of_rows.len(), share);
        let mut times: Vec<f64> = self.of_rows.iter().flatten().copied().collect();
        times.sort_by(|one, other| other.total_cmp(one));
        // Numbers of rows, each with the least of their times.
        let cuts = (1..times.len()).filter(|&count| times[count] < times[count - 1]);
        let count = cuts.min_by_key(|count| count.abs_diff(wanted))?;
        let from = times[count - 1];
        Some(
            self.of_rows
                .iter()
                .map(|time| time.is_some_and(|time| time >= from))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn times(values: &[&str]) -> Times {
        let mut times = Times::default();
        for (value, line) in values.iter().zip(2..) {
            times.add(value, &Row::at(Path::new("a.csv").into(), line));
        }
        times
    }

    fn held(values: &[&str], share: f64) -> Option<Vec<usize>> {
        let chosen = times(values).chosen(share)?;
        Some((0..values.len()).filter(|row| chosen[*row]).collect())
    }

    #[test]
    fn the_latest_rows_are_chosen_whatever_their_order() {
        let days = [
            "2024-03-05",
            "2023-12-31 23:59",
            "2024-03-04T10:00:00Z",
            "2024-01-01",
            "2024/02/01",
        ];
        assert_eq!(held(&days, 0.2), Some(vec![0]));
        assert_eq!(held(&days, 0.4), Some(vec![0, 2]));
        assert_eq!(held(&days, 0.99), Some(vec![0, 2, 3, 4]));
        // Numbers are compared as numbers.
        assert_eq!(held(&["9", "10", "100", "-3", "2e1"], 0.4), Some(vec![2, 4]));
    }

    #[test]
    fn rows_of_one_time_are_on_one_side() {
        assert_eq!(
            held(&["2020", "2021", "2021", "2021", "2021"], 0.2),
            Some(vec![1, 2, 3, 4])
        );
        let years = ["3", "3", "2", "2", "2", "1", "1", "1", "1", "1"];
        assert_eq!(held(&years, 0.1), Some(vec![0, 1]));
        assert_eq!(held(&years, 0.4), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(held(&["5", "5", "5.0"], 0.3), None);
        assert_eq!(held(&["0", "-0"], 0.5), None);
        assert_eq!(held(&["", "7"], 0.5), None);
    }

    #[test]
    fn rows_without_a_time_are_trained_on_and_many_other_values_are_named() {
        let few = ["1", "2", "", "3", "soon", "4", "5", "6", "7", "8", "9", "10"];
        assert_eq!(held(&few, 0.2), Some(vec![10, 11]));
        assert_eq!(
            (times(&few).wrong(), times(&few).without()),
            (None, (2, Some("a.csv line 6 has 'soon'")))
        );
        let many = ["1", "soon", "2024-03-01", "2"];
        assert_eq!(
            times(&many).wrong(),
            Some(("a.csv line 3 has 'soon'", "number as those before"))
        );
        assert_eq!(
            times(&["soon", "late"]).wrong(),
            Some(("a.csv line 2 has 'soon'", "time"))
        );
        assert_eq!(times(&["", "NA"]).wrong(), None);
    }
}

//! How many rows each class has.

use std::collections::HashMap;

use serde::Serialize;

use crate::class_names;

/// Most different labels that are counted.
const MOST: usize = 1 << 16;

/// Rows below which a class is rare.
const RARE: u64 = 5;

/// Classes and their rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassLook {
    /// Each class with its training rows, in the order of classes.
    pub counts: Vec<(String, u64)>,
    /// Training rows with a label; of sentences their words.
    pub rows: u64,
    /// The share of the rows that the most frequent class has.
    pub majority: f64,
    /// The share that the rarest class has.
    pub rarest: f64,
    /// Classes with fewer than 5 rows.
    pub rare: usize,
    /// Classes with one row.
    pub single: usize,
    /// Whether there are more different labels than are counted.
    pub are_more: bool,
}

/// Classes while they are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassCounts {
    counts: HashMap<String, u64>,
    rows: u64,
    are_more: bool,
}

impl ClassCounts {
    /// Adds the classes of a row.
    pub(super) fn add<'a>(&mut self, classes: impl Iterator<Item = &'a str>) {
        self.rows += 1;
        for class in classes {
            if let Some(count) = self.counts.get_mut(class) {
                *count += 1;
            } else if self.counts.len() < MOST {
                self.counts.insert(class.to_string(), 1);
            } else {
                self.are_more = true;
            }
        }
    }

    pub(super) fn look(self) -> ClassLook {
        let mut names: Vec<String> = self.counts.keys().cloned().collect();
        class_names::sort(&mut names);
        let counts: Vec<(String, u64)> = names
            .into_iter()
            .map(|name| (name.clone(), self.counts[&name]))
            .collect();
        let share = |count: Option<u64>| count.unwrap_or(0) as f64 / self.rows.max(1) as f64;
        let sizes = || counts.iter().map(|(_, count)| *count);
        ClassLook {
            majority: share(sizes().max()),
            rarest: share(sizes().min()),
            rare: sizes().filter(|count| *count < RARE).count(),
            single: sizes().filter(|count| *count == 1).count(),
            rows: self.rows,
            are_more: self.are_more,
            counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_rows_in_order() {
        let mut counts = ClassCounts::default();
        for label in ["10", "9", "9", "9", "9", "9", "-1", "9", "9", "9"] {
            counts.add([label].into_iter());
        }
        let found = counts.look();
        let names: Vec<&str> = found.counts.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["-1", "9", "10"]);
        assert_eq!((found.rows, found.majority, found.rarest), (10, 0.8, 0.1));
        assert_eq!((found.rare, found.single, found.are_more), (2, 2, false));
    }
}

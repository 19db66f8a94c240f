//! The rows of a training split as they are read, and those of them that are held out.

use std::path::Path;

use lessen_base::{Error, Result};

use super::groups::Groups;
use super::share::chosen;
use super::times::Times;
use crate::files::quoted;
use crate::held_out_by::HeldOutBy;
use crate::row::Row;

/// What is kept of each row until it is known which rows are held out.
pub(crate) struct Deal {
    by: HeldOutBy,
    values: Values,
}

enum Values {
    Nothing,
    Groups(Groups),
    Times(Times),
}

/// The rows that are held out.
pub(crate) struct Held {
    pub(crate) rows: Vec<bool>,
    /// What there is to say of it, a sentence each.
    pub(crate) remarks: Vec<String>,
}

impl Deal {
    /// No rows yet.
    pub(crate) fn of(by: &HeldOutBy) -> Deal {
        Deal {
            by: by.clone(),
            values: match by {
                HeldOutBy::Share => Values::Nothing,
                HeldOutBy::Group(_) => Values::Groups(Groups::default()),
                HeldOutBy::Time(_) => Values::Times(Times::default()),
            },
        }
    }

    /// What decides which rows are held out.
    pub(crate) fn by(&self) -> &HeldOutBy {
        &self.by
    }

    /// Adds a row with its value in the column by which rows are held out.
    pub(crate) fn add(&mut self, row: &Row) {
        let value = row.held_out_by.as_deref().unwrap_or_default();
        match &mut self.values {
            Values::Nothing => {}
            Values::Groups(groups) => groups.add(value),
            Values::Times(times) => times.add(value, row),
        }
    }

    /// Chooses a share of the rows, whose classes are given; `file` is that of the first ones.
    ///
    /// # Errors
    /// Fewer than two rows, groups or times; values that are no times.
    pub(crate) fn chosen(&self, file: &Path, classes: &[i32], share: f64, seed: u64) -> Result<Held> {
        let file = file.display();
        if classes.len() < 2 {
            return Err(Error::user(format!(
                "{file} has one example only, of which nothing can be kept for validation; add examples, or name a file \
                 for it with data.dev"
            )));
        }
        let column = match self.by.column() {
            Some((column, key)) => format!("the column {} ({key})", quoted(column)),
            None => String::new(),
        };
        let mut more = None;
        let (rows, which) = match &self.values {
            Values::Nothing => (chosen(classes, share, seed), String::new()),
            Values::Groups(groups) if groups.count() < 2 => {
                return Err(Error::user(format!(
                    "{file} has the same value in every row of {column}, so that nothing can be held out by it; name another \
                     column, or leave the key out"
                )));
            }
            Values::Groups(groups) => {
                let (rows, count) = groups.chosen(share, seed);
                (
                    rows,
                    format!(", all rows of {count} of the {} values of {column}", groups.count()),
                )
            }
            Values::Times(times) => {
                if let Some((first, what)) = times.wrong() {
                    return Err(Error::user(format!(
                        "{first} in {column}, which is no {what}; write times such as 2024-03-01 12:30, or numbers, or \
                         name another column"
                    )));
                }
                let rows = times.chosen(share).ok_or_else(|| {
                    Error::user(format!(
                        "{file} has no two times that differ in {column}, so that no rows are the latest; name another \
                         column, or leave the key out"
                    ))
                })?;
                more = untimed(times, &column);
                (rows, format!(", the latest by {column}"))
            }
        };
        let held = rows.iter().filter(|held| **held).count();
        let kept = format!(
            "there is no dev file: {held} of {} examples are kept for validation{which}",
            rows.len()
        );
        Ok(Held {
            rows,
            remarks: [Some(kept), more].into_iter().flatten().collect(),
        })
    }
}

/// What there is to say of rows without a time.
fn untimed(times: &Times, column: &str) -> Option<String> {
    let (count, first) = times.without();
    let first = first.map_or(String::new(), |first| format!(" ({first})"));
    let have = if count == 1 { "row has" } else { "rows have" };
    (count > 0).then(|| format!("{count} {have} no time in {column}{first}, and none of these is held out"))
}

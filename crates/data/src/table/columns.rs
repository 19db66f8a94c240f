//! Which columns of a table a model sees, and which are left out.

use std::cmp::Reverse;

use super::profile::{Profile, ValueKind};
use super::schema::ColumnKind;

/// Most values of a category that have an element of their own.
const MOST_VALUES: usize = 100;

/// Rows that a value of a category has at least, to have an element of its own.
const FEWEST_ROWS: u64 = 2;

/// Share of different values from which on words are texts or names, no categories.
const MANY: f64 = 0.5;

/// Rows from which on the share of different values says something.
const ENOUGH: u64 = 8;

/// Names of columns that number or name the rows.
const IDS: [&str; 10] = [
    "id",
    "idx",
    "index",
    "guid",
    "uid",
    "uuid",
    "key",
    "",
    "unnamed: 0",
    "rowid",
];

/// Whether a column numbers or names its rows, as its name says.
pub(crate) fn is_id_name(name: &str) -> bool {
    let lower = name.trim().to_lowercase();
    IDS.contains(&&lower[..])
}

/// Whether the name of a column ends as names of numbers of things do: `passenger_id`, `PassengerId`.
pub(crate) fn ends_as_id(name: &str) -> bool {
    let name = name.trim();
    name.ends_with("Id") || name.ends_with("ID") || name.to_lowercase().ends_with("_id")
}

/// What a column becomes; or why it is left out. `is_named` columns are asked for, and left out only where they say
/// nothing.
pub(crate) fn kind_of(name: &str, profile: &Profile, is_named: bool) -> Result<ColumnKind, String> {
    let different = profile.different();
    let is_unlike = profile.share_of_different() > MANY && profile.values() >= ENOUGH;
    if profile.values() == 0 {
        return Err("no value at all".to_string());
    }
    if different == 1 && profile.missing == 0 {
        return Err("one value in all rows".to_string());
    }
    if !is_named {
        // A key of a song is one of twelve, and that of a row is like no other.
        if is_id_name(name) && (!name.trim().eq_ignore_ascii_case("key") || is_unlike) {
            return Err("its name says that it numbers the rows".to_string());
        }
        let are_names = profile.are_all_different() && profile.fractions == 0 && profile.values() >= ENOUGH;
        if ends_as_id(name) && are_names {
            return Err("it numbers the rows".to_string());
        }
    }
    let is_missing_marked = profile.missing > 0;
    match profile.kind() {
        ValueKind::Number => Ok(ColumnKind::Number {
            mean: profile.numbers.mean,
            std: profile.numbers.std(),
            is_missing_marked: is_missing_marked || profile.numbers.count < profile.values(),
        }),
        ValueKind::Date => Ok(ColumnKind::Date {
            mean: profile.dates.mean,
            std: profile.dates.std(),
            is_missing_marked: is_missing_marked || profile.dates.count < profile.values(),
        }),
        ValueKind::Nothing | ValueKind::Words => {
            let values = values_of(profile);
            if is_unlike || values.is_empty() {
                let count = if profile.are_all_different() {
                    "all"
                } else {
                    "nearly all"
                };
                return Err(format!("words of which {count} are different"));
            }
            Ok(ColumnKind::Category { values })
        }
    }
}

/// The most frequent values, in the order of their characters; the empty one where values are missing.
fn values_of(profile: &Profile) -> Vec<String> {
    let missing = Some(("", profile.missing));
    let counted = profile.counts.iter().map(|(value, count)| (&**value, *count));
    let mut values: Vec<(&str, u64)> = counted
        .chain(missing)
        .filter(|(_, count)| *count >= FEWEST_ROWS)
        .collect();
    values.sort_by_key(|(value, count)| (Reverse(*count), *value));
    values.truncate(MOST_VALUES);
    let mut values: Vec<String> = values.into_iter().map(|(value, _)| value.to_string()).collect();
    values.sort();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind<S: AsRef<str>>(name: &str, cells: impl IntoIterator<Item = S>) -> Result<ColumnKind, String> {
        let mut profile = Profile::new();
        cells.into_iter().for_each(|cell| profile.add(cell.as_ref()));
        kind_of(name, &profile, false)
    }

    #[test]
    fn columns_that_say_nothing_are_left_out_with_the_reason() {
        let numbers = || (0..20).map(|i| (i * 7 % 20).to_string());
        assert_eq!(kind("a", ["x", "x"]).unwrap_err(), "one value in all rows");
        assert_eq!(kind("a", ["", "NA"]).unwrap_err(), "no value at all");
        assert_eq!(
            kind("ID", numbers()).unwrap_err(),
            "its name says that it numbers the rows"
        );
        assert_eq!(kind("PassengerId", numbers()).unwrap_err(), "it numbers the rows");
        assert_eq!(
            kind("key", numbers()).unwrap_err(),
            "its name says that it numbers the rows"
        );
        let words = kind("name", (0..20).map(|i| format!("n{i}")));
        assert_eq!(words.unwrap_err(), "words of which all are different");
        let keys = kind("key", (0..40).map(|i| (i % 12).to_string()));
        assert!(matches!(keys, Ok(ColumnKind::Number { .. })));
        let users = kind("user_id", (0..40).map(|i| (i % 12).to_string()));
        assert!(matches!(users, Ok(ColumnKind::Number { .. })));
    }

    #[test]
    fn values_of_one_row_and_rare_ones_are_others() {
        let few = kind("city", ["b", "a", "b", "", "a", "c", "", "b", "a"]).unwrap();
        let values = ["", "a", "b"].map(str::to_string).to_vec();
        assert_eq!(few, ColumnKind::Category { values });
        // 150 values with 2 rows, and 10 with 4.
        let cells = (0..340).map(|i| {
            if i < 300 {
                format!("r{:03}", i / 2)
            } else {
                format!("z{}", i % 10)
            }
        });
        let Ok(ColumnKind::Category { values }) = kind("w", cells) else {
            panic!("no category")
        };
        assert_eq!(values.len(), 100);
        assert_eq!(
            (&values[0][..], &values[89][..], &values[99][..]),
            ("r000", "r089", "z9")
        );
    }

    #[test]
    fn missing_values_and_mistakes_are_marked() {
        let marked = |cells: &[&str]| match kind("n", cells).unwrap() {
            ColumnKind::Number { is_missing_marked, .. } | ColumnKind::Date { is_missing_marked, .. } => {
                is_missing_marked
            }
            other => panic!("{other:?}"),
        };
        assert!(!marked(&["1", "2"]) && marked(&["1", "2", "?"]));
        assert!(marked(&["2024-01-01", "2024-01-02", ""]));
        let mut cells = vec!["1"; 30];
        cells.push("broken");
        assert!(marked(&cells));
    }
}

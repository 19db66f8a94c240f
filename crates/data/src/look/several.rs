//! Whether the labels of a row are several.

use std::collections::BTreeMap;

use crate::table::profile::Profile;

/// What may stand between labels.
const SEPARATORS: [&str; 3] = [",", ";", "|"];

/// Share of rows with several labels from which on they are lists.
const LISTS: f64 = 0.05;

/// Most characters of a label in a list.
const LONGEST: usize = 40;

/// Usual names of columns with lists of labels.
const NAMES: [&str; 7] = [
    "labels",
    "classes",
    "categories",
    "tags",
    "topics",
    "genres",
    "emotions",
];

/// What stands between the labels of a column's values, where they are lists of labels: the parts of lists come again
/// in other lists.
pub(super) fn separator_of(name: &str, profile: &Profile) -> Option<String> {
    let rows = profile.values().max(1) as f64;
    let of = |is: &dyn Fn(&str) -> bool| -> f64 {
        profile
            .counts
            .iter()
            .filter(|(value, _)| is(value))
            .map(|(_, count)| *count)
            .sum::<u64>() as f64
            / rows
    };
    if of(&|value| value.starts_with('[') && value.ends_with(']')) > 0.9 {
        return Some(",".to_string());
    }
    let is_list_name = NAMES.contains(&&name.trim().to_lowercase()[..]);
    let found = SEPARATORS.into_iter().find(|separator| {
        if of(&|value| value.contains(separator)) < LISTS {
            return false;
        }
        let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
        for value in profile.counts.keys() {
            value
                .split(separator)
                .map(str::trim)
                .for_each(|part| *parts.entry(part).or_default() += 1);
        }
        let are_short = parts.keys().all(|part| part.chars().count() <= LONGEST);
        let come_again = parts.values().filter(|count| **count > 1).count() * 2 >= parts.len();
        are_short && (come_again || is_list_name) && parts.len() <= profile.counts.len().max(4)
    });
    found.map(str::to_string)
}

/// Whether a column has 0 and 1 alone.
pub(super) fn flags(profile: &Profile) -> bool {
    let is_flag = |value: &str| matches!(value, "0" | "1" | "0.0" | "1.0");
    profile.missing == 0 && profile.different() <= 2 && profile.counts.keys().all(|value| is_flag(value))
}

/// The labels of a row's cell.
pub(super) fn labels_of<'a>(cell: &'a str, separator: &'a str) -> impl Iterator<Item = &'a str> {
    let list = cell.strip_prefix('[').and_then(|cell| cell.strip_suffix(']'));
    let (text, separator) = list.map_or((cell, separator), |list| (list, ","));
    let labels = text
        .split(separator)
        .map(|label| label.trim().trim_matches(['"', '\'']));
    labels.filter(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn separator(name: &str, values: &[&str]) -> Option<String> {
        let mut profile = Profile::new();
        values.iter().for_each(|value| profile.add(value));
        separator_of(name, &profile)
    }

    #[test]
    fn lists_are_told_from_names_with_commas() {
        let lists = ["a,b", "a", "b,c", "c", "a,c", "a,b,c"];
        assert_eq!(separator("genres", &lists).as_deref(), Some(","));
        assert_eq!(
            separator(
                "x",
                &lists
                    .map(|list| list.replace(',', "|"))
                    .each_ref()
                    .map(|list| &list[..])
            )
            .as_deref(),
            Some("|")
        );
        assert_eq!(
            separator("x", &["[\"a\",\"b\"]", "[]", "[\"b\"]"]).as_deref(),
            Some(",")
        );
        assert_eq!(separator("class", &["good", "bad", "neither, nor"]), None);
        assert_eq!(
            separator("class", &["Smith, Ann", "Ng, Bo", "Roy, Cy", "Lee, Di", "Kim, Ed"]),
            None
        );
        assert_eq!(labels_of("a, b,,", ",").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(labels_of("[\"a\", 'b']", ";").collect::<Vec<_>>(), ["a", "b"]);
    }
}

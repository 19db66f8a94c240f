//! The column of a table that is to be learnt, and the problem that it poses.

use super::columns::is_id_name;
use super::profile::{Profile, ValueKind};
use crate::labels::Problem;

/// Usual names of the column to be learnt, before the last column.
const NAMES: [&str; 8] = [
    "label",
    "labels",
    "target",
    "class",
    "y",
    "outcome",
    "response",
    "target_class",
];

/// Different numbers beyond which whole numbers are no classes.
const MOST_CLASSES: usize = 20;

/// The column to be learnt: the one with a usual name, or else the last one that does not number the rows; none where
/// all do. The second is the reason.
pub(crate) fn label_of(names: &[String], profiles: &[Profile]) -> Option<(usize, &'static str)> {
    let can_be = |at: usize| {
        let profile = &profiles[at];
        let numbers_rows = profile.counts_up && profile.numbers.count == profile.values() && profile.rows > 2;
        let are_names = profile.kind() == ValueKind::Words && profile.are_all_different() && profile.rows > 2;
        profile.values() > 0 && !numbers_rows && !are_names
    };
    let of_name = |name: &&str| names.iter().position(|own| own.trim().eq_ignore_ascii_case(name));
    if let Some(at) = NAMES.iter().filter_map(of_name).find(|at| can_be(*at)) {
        return Some((at, "its name is a usual one for it"));
    }
    let last = (0..names.len())
        .rev()
        .find(|at| can_be(*at) && !is_id_name(&names[*at]));
    last.map(|at| (at, "it is the last column"))
}

/// Whether the values of a column are numbers to be learnt, and no classes; the second is the reason.
pub(crate) fn problem_of(profile: &Profile) -> (Problem, String) {
    let different = profile.different();
    match profile.kind() {
        ValueKind::Number if profile.fractions > 0 => (Problem::Regression, "it has numbers with fractions".into()),
        ValueKind::Number if different > MOST_CLASSES => {
            (Problem::Regression, format!("it has {different} different numbers"))
        }
        _ => (Problem::SingleLabel, format!("it has {different} different values")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile<S: ToString>(cells: impl IntoIterator<Item = S>) -> Profile {
        let mut profile = Profile::new();
        cells.into_iter().for_each(|cell| profile.add(&cell.to_string()));
        profile
    }

    #[test]
    fn a_usual_name_goes_before_the_last_column_and_numbers_of_rows_are_no_label() {
        let of = |names: &[&str], profiles: &[Profile]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            label_of(&names, profiles).map(|found| found.0)
        };
        let (classes, rows) = (profile((0..30).map(|i| i % 3)), profile(5..35));
        assert_eq!(
            of(
                &["a", "Target", "b"],
                &[classes.clone(), classes.clone(), classes.clone()]
            ),
            Some(1)
        );
        assert_eq!(
            of(&["a", "label", "b"], &[classes.clone(), rows.clone(), classes.clone()]),
            Some(2)
        );
        assert_eq!(
            of(&["a", "b", "id"], &[classes.clone(), classes.clone(), classes.clone()]),
            Some(1)
        );
        assert_eq!(of(&["a", "label"], &[rows.clone(), rows]), None);
    }

    #[test]
    fn fractions_and_many_numbers_are_a_regression() {
        assert_eq!(problem_of(&profile(["0.5", "1"])).0, Problem::Regression);
        assert_eq!(problem_of(&profile((0..50).map(|i| i % 21))).0, Problem::Regression);
        assert_eq!(problem_of(&profile((0..50).map(|i| i % 20))).0, Problem::SingleLabel);
        assert_eq!(problem_of(&profile(["1.0", "0.0"])).0, Problem::SingleLabel);
        assert_eq!(
            problem_of(&profile((0..50).map(|i| format!("v{i}")))).0,
            Problem::SingleLabel
        );
    }
}

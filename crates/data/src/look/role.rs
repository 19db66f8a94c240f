//! What a column is for, as its name and its values say.

use serde::Serialize;

use crate::table::columns::{ends_as_id, is_id_name};
use crate::table::profile::{Profile, ValueKind};

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The text.
    Text,
    /// The second text of a pair.
    TextPair,
    /// What is to be learnt.
    Label,
    /// It numbers or names the rows.
    Id,
    /// Rows with the same value belong together.
    Group,
    /// When a row was made.
    Time,
    /// A number to learn from.
    Number,
    /// A category to learn from.
    Category,
    /// Nothing is learnt from it.
    Ignored,
}

impl Role {
    /// The role in a word.
    pub fn word(self) -> &'static str {
        match self {
            Role::Text => "text",
            Role::TextPair => "second text",
            Role::Label => "label",
            Role::Id => "id",
            Role::Group => "group",
            Role::Time => "time",
            Role::Number => "number",
            Role::Category => "category",
            Role::Ignored => "left out",
        }
    }
}

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnLook {
    /// Its name; its number from 1 on where the file has no names.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Why.
    pub reason: String,
    /// Whether rows can be held out by it: nearly all have a value, which is one of several groups, or a time at which
    /// the row was made, as the column's name says.
    pub holds_out: bool,
}

/// Usual names of columns by which rows belong together.
const GROUPS: [&str; 18] = [
    "group",
    "user",
    "user_id",
    "userid",
    "patient",
    "patient_id",
    "subject",
    "subject_id",
    "session",
    "session_id",
    "author",
    "document",
    "document_id",
    "doc_id",
    "speaker",
    "speaker_id",
    "customer",
    "customer_id",
];

/// Usual names of columns of times.
const TIMES: [&str; 8] = [
    "date",
    "time",
    "timestamp",
    "datetime",
    "created",
    "created_at",
    "published",
    "year",
];

/// Groups from which on some of them are a share of the rows.
const ENOUGH_GROUPS: usize = 5;

/// The share of rows with a value from which on rows can be held out by it.
const NEARLY_ALL: f64 = 0.9;

/// Rows from which on values that are all different say something.
pub(super) const ENOUGH: u64 = 8;

/// What a column is for by its name and its values, where no text or label is looked for.
pub(super) fn usual_role(name: &str, profile: &Profile) -> ColumnLook {
    let lower = name.trim().to_lowercase();
    let repeats = profile.share_of_different() < 0.9 && profile.different() > 1;
    let (role, reason) = if is_id_name(name) && (lower != "key" || !repeats) {
        (Role::Id, "a usual name of it")
    } else if GROUPS.contains(&&lower[..]) && repeats {
        (Role::Group, "a usual name of it, and values that come again")
    } else if ends_as_id(name) && profile.are_all_different() && profile.values() >= ENOUGH {
        (Role::Id, "it numbers the rows")
    } else if TIMES.contains(&&lower[..]) && profile.kind() != ValueKind::Words {
        (Role::Time, "a usual name of it")
    } else {
        match profile.kind() {
            ValueKind::Date => (Role::Time, "dates"),
            ValueKind::Number => (Role::Number, "numbers"),
            ValueKind::Words => (Role::Category, "words"),
            ValueKind::Nothing => (Role::Ignored, "no value at all"),
        }
    };
    let is_meant = match role {
        Role::Group => profile.different() >= ENOUGH_GROUPS,
        Role::Time => TIMES.contains(&&lower[..]) && profile.different() > 1,
        _ => false,
    };
    ColumnLook {
        name: name.to_string(),
        role,
        reason: reason.to_string(),
        holds_out: is_meant && profile.values() as f64 >= NEARLY_ALL * profile.rows as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, cells: impl Iterator<Item = String>) -> Role {
        let mut profile = Profile::new();
        cells.for_each(|cell| profile.add(&cell));
        usual_role(name, &profile).role
    }

    #[test]
    fn rows_are_held_out_by_what_is_meant_for_it() {
        let holds_out = |name: &str, cells: &[String]| {
            let mut profile = Profile::new();
            cells.iter().for_each(|cell| profile.add(cell));
            usual_role(name, &profile).holds_out
        };
        let numbers = |most: usize| -> Vec<String> { (0..40).map(|i| (i % most).to_string()).collect() };
        assert!(holds_out("user", &numbers(7)) && !holds_out("user", &numbers(2)) && !holds_out("rooms", &numbers(7)));
        let mut days: Vec<String> = (1..29).map(|day| format!("2024-01-{day:02}")).collect();
        assert!(holds_out("date", &days) && !holds_out("born", &days) && !holds_out("date", &days[..1]));
        days.extend((0..4).map(|_| String::new()));
        assert!(!holds_out("date", &days));
    }

    #[test]
    fn names_count_where_the_values_are_as_they_say() {
        let numbers = |most: u64| (0..40).map(move |i| (i % most).to_string());
        assert_eq!(
            (role("user", numbers(7)), role("user", numbers(40))),
            (Role::Group, Role::Number)
        );
        assert_eq!(
            (role("idx", numbers(40)), role("Key", numbers(12))),
            (Role::Id, Role::Number)
        );
        assert_eq!(
            (role("ticket_id", numbers(40)), role("ticket_id", numbers(9))),
            (Role::Id, Role::Number)
        );
        assert_eq!(
            (role("year", numbers(9)), role("x", numbers(9))),
            (Role::Time, Role::Number)
        );
        let dates = (1..20).map(|day| format!("2024-01-{day:02}"));
        assert_eq!(role("x", dates), Role::Time);
        assert_eq!(role("time", (0..9).map(|i| format!("later{i}"))), Role::Category);
        assert_eq!(role("x", (0..9).map(|_| String::new())), Role::Ignored);
    }
}
